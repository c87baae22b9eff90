"""Codex (`codex exec`), as measured with 0.166.0 (docs/reference/agents.md)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from contextlib import suppress

from orchestrate.agents.adapter import (
    Adapter,
    Login,
    Parsed,
    ProgramCall,
    ProgramTurn,
    SessionFiles,
)
from orchestrate.agents.failures import failure_of
from orchestrate.agents.finding import KnownProgram
from orchestrate.agents.parse import Event, list_at, map_at, text_at, value_at, whole_at
from orchestrate.agents.settings import Setting
from orchestrate.agents.transcript import Piece, call_piece, latest_text, texts_in

_PERMISSIONS = {
    "bypass": ("--dangerously-bypass-approvals-and-sandbox",),
    "edit": ("-s", "workspace-write"),
    "default": (),
    "read-only": ("-s", "read-only"),
}
# What a command says when the sandbox stops it: bubblewrap's and Seatbelt's errors.
_STOPPED = ("Read-only file system", "Operation not permitted")
_TAKES_A_SCHEMA = (0, 166, 0)
# Which models an account has differs; how hard the model thinks is what a tier can choose.
_EFFORT_OF_TIER = {"haiku": "low", "sonnet": "medium", "opus": "high"}


def make_call(turn: ProgramTurn) -> ProgramCall:
    question = turn.question
    # As `-c` and not `--disable`: a version that does not know the feature only ignores it. Without
    # it, a service that cannot be reached is tried for ever.
    arguments = ["exec", "--json", "--skip-git-repo-check"]
    arguments += ["-c", "features.unbounded_connection_retries=false"]
    arguments += _PERMISSIONS[turn.permissions]
    if turn.model is not None:
        arguments += ["-m", turn.model]
    effort = turn.text("effort") or _EFFORT_OF_TIER.get(turn.tier or "", "")
    if effort:
        arguments += ["-c", f"model_reasoning_effort={_as_toml(effort)}"]
    if question.schema_file is not None and turn.can(_TAKES_A_SCHEMA):
        arguments += ["--output-schema", str(question.schema_file)]
    hidden = {}
    if question.system_prompt:
        arguments += ["-c", f"developer_instructions={_as_toml(question.system_prompt)}"]
        hidden[arguments[-1]] = "developer_instructions=…"
    if not question.is_new_session:
        # Flags come before `resume`, which refuses some of them.
        arguments += ["resume", turn.session]
    elif question.fork_of:
        arguments += ["fork", question.fork_of]
    return ProgramCall((*arguments, "-"), turn.prompt, hidden=hidden)


def _as_toml(text: str) -> str:
    """A TOML string: JSON's escapes are TOML's too, but TOML also wants DEL escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def parse(events: Iterable[Event], now: float) -> Parsed:
    """`error` events and items are only remarks; a failure is `turn.failed`."""
    text = note = ""
    session = None
    failure = None
    is_done = False
    denied: list[str] = []
    sandboxed: list[str] = []
    usage: Event = {}
    for event in events:
        session = session_of(event) or session
        note = latest_text(pieces_of(event)) or note
        match text_at(event, "type"):
            case "item.completed" if text_at(event, "item", "type") == "agent_message":
                text = text_at(event, "item", "text")
            case "item.completed" if _is_refusal(map_at(event, "item")):
                denied.append(_tool_of(map_at(event, "item")))
            case "item.completed" if _is_stopped(map_at(event, "item")):
                sandboxed.append("command_execution (sandbox)")
            case "turn.completed":
                is_done, failure = True, None
                usage = map_at(event, "usage")
            case "turn.failed":
                # A status is shown for some errors only; of the others, the service refused.
                message = text_at(event, "error", "message")
                failure = failure_of(message, now, kind="invalid-request")
            case _:
                pass
    return Parsed(
        text=text,
        is_done=is_done,
        failure=failure,
        note=note,
        session=session,
        input_tokens=whole_at(usage, "input_tokens"),
        output_tokens=whole_at(usage, "output_tokens"),
        tokens_count_up=True,
        denied=(*denied,),
        sandboxed=(*sandboxed,),
    )


def _is_refusal(item: Event) -> bool:
    is_unapproved = "requires approval" in text_at(item, "error", "message")
    return text_at(item, "status") == "declined" or is_unapproved


def _is_stopped(item: Event) -> bool:
    """A command that failed, and blames what a sandbox does: nothing else tells it apart."""
    has_failed = text_at(item, "type") == "command_execution" and bool(whole_at(item, "exit_code"))
    return has_failed and any(words in text_at(item, "aggregated_output") for words in _STOPPED)


def _tool_of(item: Event) -> str:
    return text_at(item, "tool") or text_at(item, "type")


def session_of(event: Event) -> str | None:
    return text_at(event, "thread_id") or None


def pieces_of(event: Event) -> list[Piece]:
    item = map_at(event, "item")
    match text_at(event, "type"), text_at(item, "type"):
        case "error", _:
            return [Piece("note", text_at(event, "message"))]
        case "turn.failed", _:
            return [
                Piece("note", text_at(event, "error", "message"), is_error=True, is_answer=True)
            ]
        case "item.started" | "item.completed", "agent_message":
            return [Piece("said", text_at(item, "text"))]
        case "item.completed", "reasoning":
            return [Piece("thinking", text_at(item, "text"))]
        case "item.completed", "error":
            return [Piece("note", text_at(item, "message"), is_answer=True)]
        case "item.started" | "item.completed", "command_execution" | "mcp_tool_call":
            return _call_pieces(item, is_over=text_at(event, "type") == "item.completed")
        case "item.completed", "file_change":
            paths = (text_at(change, "path") for change in list_at(item, "changes"))
            return [Piece("wrote", path, "patch") for path in paths if path]
        case "item.completed", "web_search":
            return [Piece("runs", text_at(item, "query"), "web_search")]
        case _:
            return []


def _call_pieces(item: Event, *, is_over: bool) -> list[Piece]:
    call, error = text_at(item, "id"), text_at(item, "error", "message")
    if text_at(item, "type") == "command_execution":
        begins = Piece("runs", _as_given(text_at(item, "command")), "shell", call)
        text = text_at(item, "aggregated_output")
    else:
        begins = call_piece(_tool_of(item), call, map_at(item, "arguments"))
        text = error or texts_in(value_at(item, "result", "content"))
    is_error = bool(error or whole_at(item, "exit_code")) or text_at(item, "status") == "failed"
    return [begins, Piece("result", text, call=call, is_error=is_error)] if is_over else [begins]


def _as_given(command: str) -> str:
    """What the model wants to run: Codex hands that to a shell, and tells us of both."""
    with suppress(ValueError):
        shell, flag, script = shlex.split(command)
        if shell.endswith("sh") and flag in ("-c", "-lc"):
            return script
    return command


CODEX = Adapter(
    name="codex",
    program=KnownProgram(
        title="Codex",
        executables=("codex",),
        variable="CODEX_CLI_PATH",
        places=("~/.local/bin/codex",),
        install="npm install -g @openai/codex",
    ),
    chooses_session=True,
    tried=("0.166.0",),
    untold_denials="what its sandbox stops without an error of the command",
    login=Login(("OPENAI_API_KEY", "CODEX_API_KEY"), ("~/.codex/auth.json",), "codex login"),
    make_call=make_call,
    parse=parse,
    session_of=session_of,
    session_files=SessionFiles(
        ".codex", ("sessions/*/*/*/rollout-*-{session}.jsonl",), variable="CODEX_HOME"
    ),
    pieces_of=pieces_of,
    forks_sessions=True,
    take_over=lambda session: ("codex", "resume", session),
    permissions=("bypass", "edit", "default", "read-only"),
    own_flags=(
        "-C",
        "-a",
        "-m",
        "-o",
        "-p",
        "-s",
        "--cd",
        "--profile",
        "--skip-git-repo-check",
        "approval_policy",
        "default_permissions",
        "developer_instructions",
        "model",
        "permissions",
        "profile",
        "sandbox_mode",
        "sandbox_permissions",
        "sandbox_workspace_write",
    ),
    settings={"effort": Setting("word", "how hard it thinks, in the program's own words")},
    longest_prompt=1 << 20,
)
