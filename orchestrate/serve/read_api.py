"""What the HTTP interface answers about runs, recipes and this computer; nothing is changed."""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Any

from starlette.responses import FileResponse, Response

from orchestrate import __version__
from orchestrate.app.deciding.settle import settled_view
from orchestrate.app.definitions.check import checked_file
from orchestrate.app.definitions.find import compile_definition, compiled
from orchestrate.app.definitions.recipes import recipes_of
from orchestrate.app.given.scopes import starting_values
from orchestrate.app.reading.doctor import examine
from orchestrate.app.reading.standing import standing_of
from orchestrate.app.reading.transcripts import transcripts_of
from orchestrate.app.secrets import secrets_of_run
from orchestrate.errors import OrchestrateError
from orchestrate.plan.nodes import main_plan
from orchestrate.plan.to_json import program_json, value_json
from orchestrate.plan.visible import visible
from orchestrate.serve.actions import find_entry
from orchestrate.serve.histories import kept_chronicle
from orchestrate.serve.inbox import question_json, questions
from orchestrate.serve.log_pages import log_source, page_of, search
from orchestrate.serve.problems import Problem
from orchestrate.serve.records import records_after
from orchestrate.serve.rows import make_row, may_be, row_of
from orchestrate.show.draw.drawing import draw_program
from orchestrate.show.draw.path_taken import draw_path, index_or_reason
from orchestrate.show.draw.svg import render_svg
from orchestrate.show.formats import json_document
from orchestrate.show.report.data import as_json, gather, tally_json
from orchestrate.show.report.html import render_html
from orchestrate.show.report.markdown import render_markdown
from orchestrate.state.journal import end_of
from orchestrate.state.locks import is_held
from orchestrate.state.plan_file import read_documents
from orchestrate.state.runs import second_of
from orchestrate.state.times import timestamp
from orchestrate.view.bars import merged
from orchestrate.view.run_summary import summary_of

if TYPE_CHECKING:
    from orchestrate.serve.operations import CheckedRequest
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace

Json = dict[str, Any]
SVG = "image/svg+xml"
# A timeline of the page shows no shorter stretches than this part of a step's time.
_BARS = 100


def show_console(asked: CheckedRequest) -> Json:
    console = asked.console
    return {
        "version": __version__,
        "workspaces": [str(one.root) for one in console.workspaces],
        "read_only": console.read_only,
        "now": timestamp(time.time()),
    }


def list_runs(asked: CheckedRequest) -> Json:
    """Newest first over all workspaces; the cursor is the last id of the page before."""
    given = asked.given
    now = time.time()
    found = _behind(given["cursor"], asked.console.all_runs())
    wanted = (pair for pair in found if _is_wanted(*pair, given) and _is_in(*pair, given, now))
    page = list(islice(wanted, given["limit"] + 1))
    rows = [row_of(*pair, now) for pair in page[: given["limit"]]]
    is_more = len(page) > given["limit"]
    behind = page[given["limit"] - 1][1].id if is_more else None
    return {"runs": rows, "next": behind, "gone": asked.console.gone}


def _behind(cursor: str, found: list[tuple[Workspace, Run]]) -> list[tuple[Workspace, Run]]:
    """The runs after a page's last one. Where that is gone, those of its second come again."""
    if not cursor:
        return found
    for index, (_, run) in enumerate(found):
        if run.id == cursor:
            return found[index + 1 :]
    return [pair for pair in found if second_of(pair[1].id) <= second_of(cursor)]


def _is_wanted(workspace: Workspace, run: Run, given: Any) -> bool:
    """What the first lines of the state file tell; the rest is read of what is shown."""
    if given["workspace"] and given["workspace"] != str(workspace.root):
        return False
    if not (given["status"] or given["recipe"] or given["text"]):
        return True
    summary = summary_of(run)
    if given["status"] and given["status"] not in (summary.status, summary.shown_status):
        return False
    recipe = str(summary.field("workflow_file") or "")
    if given["recipe"] and given["recipe"].lower() not in recipe.lower():
        return False
    known = f"{run.id} {recipe} {summary.field('reason') or ''}".lower()
    return not given["text"] or given["text"].lower() in known


def _is_in(workspace: Workspace, run: Run, given: Any, now: float) -> bool:
    """The whole of a run is read only where its summary leaves its state open."""
    state = given["state"]
    if not state:
        return True
    if not may_be(summary_of(run).status, state):
        return False
    return bool(row_of(workspace, run, now)["state"] == state)


def show_run(asked: CheckedRequest) -> Json:
    """What `status --json` says, and the run's row."""
    workspace, run = asked.console.find(asked.given["run"])
    now = time.time()
    summary = summary_of(run)
    place = asked.console.place_of(workspace)
    try:
        view = settled_view(run)
    except OrchestrateError as error:
        row = make_row(workspace, summary, None, now)
        found = {"row": row, "status": None, "problem": error.message, "last_seq": 0}
        if summary.status == "unknown":
            # It is on another machine, which these commands ask; nothing is wrong with it.
            verbs = ("status", "attach", "logs", "fetch")
            found |= {"problem": None, "commands": {v: place.command(v, run.id) for v in verbs}}
        return found
    document = standing_of(view, place, now)
    mask = secrets_of_run(run, workspace)
    return {
        "row": make_row(workspace, summary, view, now),
        "status": mask.data(document),
        "problem": None,
        "last_seq": _last_seq(run),
        "commands": {
            verb: place.command(verb, run.id)
            for verb in ("attach", "resume", "stop", "cancel", "report", "logs")
        },
    }


def _last_seq(run: Run) -> int:
    try:
        return end_of(run.events)
    except (OrchestrateError, OSError):
        return 0


def list_events(asked: CheckedRequest) -> Json:
    """Records after a number, and the number to go on from."""
    _, run = asked.console.find(asked.given["run"])
    after, limit = asked.given["after"], asked.given["limit"]
    found: list[Json] = []
    is_more = False
    try:
        for one in records_after(run, after):
            if len(found) == limit:
                is_more = True
                break
            found.append(one)
    except OrchestrateError as error:
        return {"events": found, "next": None, "problem": error.message}
    return {"events": found, "next": found[-1]["seq"] if is_more else None, "problem": None}


def list_steps(asked: CheckedRequest) -> Json:
    """A row for each step; loops are counted, with the times at which each was at work."""
    _, run = asked.console.find(asked.given["run"])
    index, _, why_no_plan = index_or_reason(run)
    told = kept_chronicle(run, index, time.time(), is_live=is_held(run.lock_file))
    rows = []
    for tally in islice(told.tallies.by_path.values(), asked.given["limit"]):
        near = (
            (max(bar.end for bar in tally.bars) - tally.bars[0].start) / _BARS if tally.bars else 0
        )
        bars = [
            {"start": bar.start, "end": bar.end, "kind": bar.kind}
            for bar in merged(tally.bars, near)
        ]
        rows.append({**tally_json(tally), "inner": tally.is_inner, "bars": bars})
    sittings = [{"start": one.start, "end": one.end} for one in told.sittings]
    notes = [*told.notes, *([why_no_plan] if why_no_plan else [])]
    left = max(0, len(told.tallies.by_path) - len(rows))
    return {"steps": rows, "sittings": sittings, "notes": notes, "left_out": left}


def show_log(asked: CheckedRequest) -> Json:
    _, run = asked.console.find(asked.given["run"])
    given = asked.given
    source, step = log_source(run, given["step"], given["stream"], raw=given["raw"])
    return page_of(source, step, given["first"], given["limit"]).to_json()


def search_log(asked: CheckedRequest) -> Json:
    _, run = asked.console.find(asked.given["run"])
    given = asked.given
    source, step = log_source(run, given["step"], given["stream"], raw=given["raw"])
    return search(source, step, given["q"], given["limit"])


def show_report(asked: CheckedRequest) -> Any:
    workspace, run = asked.console.find(asked.given["run"])
    mask = secrets_of_run(run, workspace)
    place = asked.console.place_of(workspace)
    gathered = gather(
        run, workspace, place, time.time(), transcripts_of(run, workspace), kept_chronicle
    )
    match asked.given["format"]:
        case "json":
            return mask.data(as_json(gathered))
        case "md":
            text, kind = render_markdown(gathered), "text/markdown; charset=utf-8"
        case _:
            # As a file to keep: opened here, its own styles would be barred by our policy.
            text, kind = render_html(gathered), "text/html; charset=utf-8"
    ending = "md" if asked.given["format"] == "md" else "html"
    headers = {"content-disposition": f'attachment; filename="{run.id}.{ending}"'}
    content = mask.text(text).encode("utf-8", "backslashreplace")
    return Response(content, headers=headers, media_type=kind)


def draw_run(asked: CheckedRequest) -> Response:
    """The server's own drawing, with the path that was taken."""
    _, run = asked.console.find(asked.given["run"])
    index, program, why_no_plan = index_or_reason(run)
    told = kept_chronicle(run, index, time.time(), is_live=is_held(run.lock_file))
    drawing, _ = draw_path(told, program, index, why_no_plan)
    return _svg(render_svg(drawing, f"the path of run {run.id}"))


def _svg(text: str) -> Response:
    """Its styles are the page's: a policy without inline styles would drop its own."""
    head, _, rest = text.partition("<style>")
    _, _, tail = rest.partition("</style>")
    return Response((head + tail).encode("utf-8", "backslashreplace"), media_type=SVG)


def show_definition(asked: CheckedRequest) -> Json:
    """The recipe as it was run."""
    _, run = asked.console.find(asked.given["run"])
    return {"documents": read_documents(run.root)}


def list_inbox(asked: CheckedRequest) -> Json:
    return {
        "questions": [
            question_json(one) for one in questions(asked.console, with_files=asked.given["files"])
        ]
    }


def list_recipes(asked: CheckedRequest) -> Json:
    workspace = asked.console.workspace(asked.given["workspace"])
    found = [
        {"id": one.id, "title": one.title or one.name or one.id, "description": one.description,
         "dialect": one.dialect, "origin": one.origin, "error": one.error or None,
         "inputs": list(one.inputs)}
        for one in recipes_of(workspace)
    ]  # fmt: skip
    return {"recipes": found, "workspace": str(workspace.root)}


def _recipe(asked: CheckedRequest) -> tuple[str, Workspace]:
    workspace = asked.console.workspace(asked.given["workspace"])
    return find_entry(workspace, asked.given["id"]).id, workspace


def show_recipe(asked: CheckedRequest) -> Json:
    """What `describe --json` says."""
    recipe_id, workspace = _recipe(asked)
    plan = main_plan(compiled(recipe_id, workspace)[1])
    defaults = starting_values(plan)
    inputs = []
    for one in plan.inputs:
        told = value_json(one)
        del told["span"]
        known = {"default": defaults.get(one.name), "required": one.default is None}
        inputs.append({**told, **known, "variable": one.variable})
    return {
        "id": recipe_id,
        "dialect": plan.dialect,
        "name": plan.name,
        "title": plan.title,
        "description": plan.description,
        "inputs": inputs,
        "workspace": str(workspace.root),
    }


def show_plan(asked: CheckedRequest) -> Json:
    recipe_id, workspace = _recipe(asked)
    found: Json = program_json(compiled(recipe_id, workspace)[1])
    return found


def draw_recipe(asked: CheckedRequest) -> Response:
    recipe_id, workspace = _recipe(asked)
    program = compiled(recipe_id, workspace)[1]
    main = main_plan(program)
    return _svg(render_svg(draw_program(program), visible(main.title or main.name or main.id)))


def validate(asked: CheckedRequest) -> Json:
    recipe_id, workspace = _recipe(asked)
    checked = checked_file(compile_definition(recipe_id, workspace), workspace, strict=False)
    found: Json = json_document([checked])
    return found


def show_doctor(asked: CheckedRequest) -> Json:
    findings = examine(asked.console.workspace(asked.given["workspace"]), None)
    return {
        "findings": [
            {"name": one.name, "ok": one.is_well, "detail": one.detail, "advice": one.advice}
            for one in findings
        ]
    }


def raw_log(asked: CheckedRequest) -> Response:
    """The whole file as it is."""
    _, run = asked.console.find(asked.given["run"])
    given = asked.given
    source, step = log_source(run, given["step"], given["stream"], raw=given["raw"])
    name = "".join(c if c.isalnum() else "-" for c in step or "orchestrator")[:80]
    headers = {"content-disposition": f'attachment; filename="{run.id}-{name}.log"'}
    kind = "text/plain; charset=utf-8"
    if isinstance(source, bytes):
        return Response(source, headers=headers, media_type=kind)
    if not source.is_file() or source.is_symlink():
        raise Problem(404, "there is no such log")
    return FileResponse(source, headers=headers, media_type=kind)
