"""The operations of the HTTP interface, one line each."""

from __future__ import annotations

from typing import Any

from orchestrate.serve import changes_api, read_api, session_api, write_api
from orchestrate.serve.log_pages import MOST_LINES
from orchestrate.serve.openapi import openapi_document
from orchestrate.serve.operations import (
    RUN,
    WORKSPACE,
    CheckedRequest,
    Operation,
    Param,
    flag,
    object_of,
    text,
    texts_by_name,
)
from orchestrate.serve.rows import STATES
from orchestrate.view.run_summary import STATUSES

_V1 = "/api/v1"
_ID = Param("id", "The recipe's id.", required=True)
_SESSION = Param("session", "The session's id.", is_path=True, required=True)
_LOG = (
    RUN,
    Param("step", "A step's path; without it, the run's own log."),
    Param("stream", "Which output.", default="stdout", choices=("stdout", "stderr", "prompt")),
    Param("raw", "What an agent's program printed, not its answer.", "boolean", False),
)
_SINCE = Param(
    "since",
    "Since the run began, or since the gate that was answered last (if there is none: began).",
    default="start",
    choices=("start", "gate"),
)
_PERMISSIONS = ("bypass", "edit", "default", "read-only")
_START = {
    "recipe": text("The recipe's id."),
    "inputs": texts_by_name("Inputs and context variables, as they are typed on a command line."),
    "workspace": text("A served workspace, or a folder in one; the first by default."),
    "session": text("Continue this session of the agent (machines)."),
    "backend": text("The agent program."),
    "model": text("Model tier or name (machines)."),
    "permissions": text("What agents may do without asking.", *_PERMISSIONS),
}
_RUN_ID = {
    "type": "object",
    "required": ["run_id"],
    "properties": {"run_id": {"type": "string"}},
}


def _list_of(name: str, item: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [name],
        "properties": {name: {"type": "array", "items": item or {"type": "object"}}, **more},
    }


def _figure(about: str, **more: Any) -> dict[str, Any]:
    return {"type": "number", "description": about, **more}


_BUDGETS = {
    "type": "array",
    "description": "What the run may use up, and how much of that is used.",
    "items": object_of(
        ("limit", "unit", "most", "spent", "reserved", "unknown", "needed", "words"),
        limit={"type": "string", "description": "Which limit it is."},
        unit={"enum": ["usd", "tokens", "calls", "s"]},
        most=_figure("The limit.", type=["number", "null"]),
        spent=_figure("What was used."),
        reserved=_figure("What is set aside for calls that have not ended."),
        unknown=_figure("Calls that did not report what they used.", type="integer"),
        needed=_figure("What the next call may need, where that has parked the run.",
                       type=["number", "null"]),
        words={"type": "string"},
    ),
}  # fmt: skip
_ROW = {"type": "object", "required": ["run_id", "budgets"], "properties": {"budgets": _BUDGETS}}
_SHOWN = {"type": "object", "required": ["row"], "properties": {"row": _ROW}}
_NEXT = {"type": ["string", "integer", "null"]}


def _openapi(_: CheckedRequest) -> dict[str, Any]:
    return openapi_document(OPERATIONS)


OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", f"{_V1}/openapi.json", "openapi", "This document.", _openapi),
    Operation("GET", f"{_V1}/console", "console", "What this server shows.",
              read_api.show_console),
    Operation("GET", f"{_V1}/runs", "list_runs", "Runs, newest first.", read_api.list_runs, (
        Param("cursor", "Go on after this run."),
        Param("limit", "At most so many.", "integer", 50, 1, 200),
        Param("status", "Only runs with this status.", choices=STATUSES),
        Param("state", "Only runs in this state.", choices=STATES),
        Param("recipe", "Only recipes whose path has this text."),
        Param("workspace", "Only runs of this workspace."),
        Param("text", "Only runs whose id, recipe or reason has this text."),
    ), answer=_list_of("runs", _ROW, next=_NEXT, gone={
        "type": "array", "items": {"type": "string"},
        "description": "Workspaces whose folders are gone."})),
    Operation("POST", f"{_V1}/runs", "start_run", "Start a run.", write_api.start_run,
              body=object_of(("recipe",), **_START, allow_concurrent=flag(
                  "Let another run be at work in the workspace.")),
              answer=_RUN_ID, status=201, takes_key=True),
    Operation("GET", f"{_V1}/runs/{{run}}", "show_run", "Where a run stands.",
              read_api.show_run, (RUN,), answer=_SHOWN),
    Operation("GET", f"{_V1}/runs/{{run}}/events", "list_events", "Events after a number.",
              read_api.list_events, (
        RUN,
        Param("after", "The number of the last event that is known.", "integer", 0),
        Param("limit", "At most so many.", "integer", 500, 1, 2000),
    ), answer=_list_of("events", next=_NEXT)),
    Operation("GET", f"{_V1}/runs/{{run}}/steps", "list_steps", "Steps with visits and times.",
              read_api.list_steps, (
        RUN, Param("limit", "At most so many.", "integer", 500, 1, 2000),
    ), answer=_list_of("steps")),
    Operation("GET", f"{_V1}/runs/{{run}}/log", "show_log", "Lines of a log.", read_api.show_log, (
        *_LOG,
        Param("first", "The first line's number; without it, the last lines.", "integer", None, 1),
        Param("limit", "At most so many.", "integer", 1000, 1, MOST_LINES),
    )),
    Operation("GET", f"{_V1}/runs/{{run}}/log/search", "search_log", "Lines that have a text.",
              read_api.search_log, (
        *_LOG,
        Param("q", "The text; its case does not matter.", required=True),
        Param("limit", "At most so many.", "integer", 100, 1, 500),
    )),
    Operation("GET", f"{_V1}/runs/{{run}}/log/raw", "raw_log", "The whole log as a file.",
              read_api.raw_log, _LOG, media="text/plain"),
    Operation("GET", f"{_V1}/runs/{{run}}/changes", "show_changes", "What git says has changed.",
              changes_api.show_changes, (RUN, _SINCE)),
    Operation("GET", f"{_V1}/runs/{{run}}/changes/file", "show_hunks",
              "What has changed inside a file.", changes_api.show_hunks, (
        RUN, _SINCE, Param("path", "As the list has it.", required=True),
        Param("committed", "What was committed, not what is not yet.", "boolean", False),
    )),
    Operation("GET", f"{_V1}/runs/{{run}}/changes/step", "show_step_changes",
              "What a step has changed, by the run's checkpoints.",
              changes_api.show_step_changes, (
        RUN, Param("step", "As `status` names it, with `@2` for a second visit.", required=True),
    )),
    Operation("GET", f"{_V1}/runs/{{run}}/report", "show_report", "The report.",
              read_api.show_report, (
        RUN, Param("format", "Its form.", default="json", choices=("json", "md", "html")),
    )),
    Operation("GET", f"{_V1}/runs/{{run}}/graph", "draw_run", "The plan with the path taken.",
              read_api.draw_run, (RUN,), media=read_api.SVG),
    Operation("GET", f"{_V1}/runs/{{run}}/definition", "show_definition", "The recipe as run.",
              read_api.show_definition, (RUN,)),
    Operation("POST", f"{_V1}/runs/{{run}}/resume", "resume_run", "Go on with a run.",
              write_api.resume_run, (RUN,),
              object_of(as_started=flag("With the definition as it was.")), _RUN_ID),
    Operation("POST", f"{_V1}/runs/{{run}}/cancel", "cancel_run", "End a run for good.",
              write_api.cancel_run, (RUN,), object_of(), _RUN_ID),
    Operation("POST", f"{_V1}/runs/{{run}}/stop", "stop_run", "Stop a run; it can be resumed.",
              write_api.stop_run, (RUN,), object_of(), _RUN_ID),
    Operation("POST", f"{_V1}/runs/{{run}}/answer", "answer_run", "Answer a question of a run.",
              write_api.answer_run, (RUN,), object_of(
        ("question", "digest", "value"),
        question=text("The question's id."),
        digest=text("What was shown."),
        value=text("approve or deny."),
        message=text("A message, which later steps can read."),
        resume=flag("Go on with a parked run (default: true)."),
    ), _RUN_ID),
    Operation("GET", f"{_V1}/inbox", "list_inbox", "What waits for a person, oldest first.",
              read_api.list_inbox, (
        Param("files", "Whether git is asked what has changed.", "boolean", True),
    ), answer=_list_of("questions")),
    Operation("GET", f"{_V1}/recipes", "list_recipes", "Recipes that can be run by id.",
              read_api.list_recipes, (WORKSPACE,), answer=_list_of("recipes")),
    Operation("GET", f"{_V1}/recipe", "show_recipe", "What a recipe does, and its inputs.",
              read_api.show_recipe, (_ID, WORKSPACE)),
    Operation("GET", f"{_V1}/recipe/plan", "show_plan", "What a recipe compiles to.",
              read_api.show_plan, (_ID, WORKSPACE)),
    Operation("GET", f"{_V1}/recipe/graph", "draw_recipe", "A recipe's plan as a drawing.",
              read_api.draw_recipe, (_ID, WORKSPACE), media=read_api.SVG),
    Operation("GET", f"{_V1}/recipe/validate", "validate", "Mistakes in a recipe.",
              read_api.validate, (_ID, WORKSPACE)),
    Operation("POST", f"{_V1}/recipe/dry-run", "dry_run", "What would run; nothing is started.",
              write_api.dry_run, body=object_of(("recipe",), **_START)),
    Operation("GET", f"{_V1}/runs/{{run}}/transcript", "show_transcript",
              "What an agent did in a step, readable.", session_api.show_transcript, (
        RUN, Param("step", "The step's path.", required=True),
    ), answer=_list_of("passages")),
    Operation("GET", f"{_V1}/sessions", "list_sessions", "Sessions of our runs, newest first.",
              session_api.list_sessions, (
        Param("limit", "At most so many.", "integer", 50, 1, 200),
    ), answer=_list_of("sessions")),
    Operation("POST", f"{_V1}/sessions", "new_session", "A message in a new session.",
              session_api.new_session, body=object_of(
        ("text",), text=text("The message."), backend=_START["backend"],
        workspace=_START["workspace"],
    ), answer=_RUN_ID, status=201),
    Operation("GET", f"{_V1}/sessions/{{session}}", "show_session", "What was said in a session.",
              session_api.show_session, (_SESSION,), answer=_list_of("messages")),
    Operation("POST", f"{_V1}/sessions/{{session}}/prompt", "send_prompt",
              "A message in a session.", session_api.send_prompt, (_SESSION,), object_of(
        ("text",), text=text("The message."), backend=_START["backend"],
    ), _RUN_ID),
    Operation("GET", f"{_V1}/doctor", "doctor", "What this computer has of what runs need.",
              read_api.show_doctor, (WORKSPACE,), answer=_list_of("findings")),
)  # fmt: skip
