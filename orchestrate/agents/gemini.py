"""Gemini CLI (`gemini -o stream-json`), as measured with 0.61.0 (docs/reference/agents.md)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from orchestrate.agents.adapter import (
    Adapter,
    Login,
    Parsed,
    ProgramCall,
    ProgramTurn,
    SessionFiles,
)
from orchestrate.agents.base import Failure, FailureKind
from orchestrate.agents.failures import failure_of
from orchestrate.agents.finding import KnownProgram
from orchestrate.agents.parse import Event, map_at, text_at, total, whole_at
from orchestrate.agents.transcript import Piece, call_piece, latest_text
from orchestrate.regex import regex

_APPROVAL = {"bypass": "yolo", "edit": "auto_edit", "default": "default", "read-only": "plan"}
# Tools that exist, but are not there in the modes that would have to ask a person.
_WRITERS = ("write_file", "replace")
_WITHHELD = ("run_shell_command", *_WRITERS)
# `@path` anywhere reads a file, and names that are none are searched for in the whole folder.
_MENTION = regex(r"(?<!\\)@(?=[^ \t\n\r,;!?()\[\]{}])")


def make_call(turn: ProgramTurn) -> ProgramCall:
    question = turn.question
    # An untrusted folder is refused; this trusts it without loading settings from it.
    arguments = ["-o", "stream-json", "--skip-trust"]
    arguments += ["--approval-mode", _APPROVAL[turn.permissions]]
    if turn.model is not None:
        arguments += ["-m", turn.model]
    arguments += ["--session-id" if question.is_new_session else "--resume", turn.session]
    # Without this the program that we start is only the parent of the one that works.
    environment = {"GEMINI_CLI_NO_RELAUNCH": "true"}
    return ProgramCall(tuple(arguments), as_text(turn.instructed_prompt), environment)


def as_text(prompt: str, mention: re.Pattern[str] = _MENTION) -> str:
    """The prompt so that nothing in it is a command: `/name` at the start, `@path` anywhere.

    A line break before the slash is enough. The only thing that stops `@` is a backslash, which the
    model sees too.
    """
    escaped = mention.sub(r"\\@", prompt)
    return "\n" + escaped if escaped.startswith("/") else escaped


def parse(events: Iterable[Event], now: float) -> Parsed:
    text = note = ""
    session = model = None
    failure = None
    is_done = False
    stats: Event = {}
    tools: dict[str, str] = {}
    denied: list[str] = []
    for event in events:
        session = session_of(event) or session
        note = latest_text(pieces_of(event)) or note
        tool = tools.setdefault(text_at(event, "tool_id"), text_at(event, "tool_name"))
        if _is_refusal(event, tool):
            denied.append(tool)
        match text_at(event, "type"):
            case "init":
                model = text_at(event, "model") or None
            case "message" if text_at(event, "role") == "assistant":
                text += text_at(event, "content")
                note = text
            case "tool_use" | "tool_result":
                # What was said before a tool was used does not belong to the answer.
                text = ""
            case "result":
                stats = map_at(event, "stats")
                is_done = text_at(event, "status") == "success"
                failure = None if is_done else _failure_in(event, note, now)
            case "" if "response" in event or "error" in event:
                # `-o json` gives one object.
                text, stats = text_at(event, "response"), map_at(event, "stats")
                is_done = "error" not in event
                failure = None if is_done else _failure_in(event, note, now)
            case _:
                pass
    models = map_at(stats, "models")
    read = _tokens(stats, "input_tokens", "prompt")
    return Parsed(
        text=text,
        is_done=is_done,
        failure=failure,
        note=note,
        session=session,
        model=next(iter(models)) if len(models) == 1 else model,
        input_tokens=read,
        output_tokens=_written(stats, read),
        denied=(*denied,),
    )


def _is_refusal(event: Event, tool: str) -> bool:
    """Did a rule refuse a call, or a mode that withholds its tool? A made-up name is neither."""
    match text_at(event, "error", "type"):
        case "policy_violation" | "permission_denied":
            return True
        case "tool_not_registered":
            return tool in _WITHHELD
        case _:
            return text_at(event, "error", "message").startswith("Access denied")


def _failure_in(event: Event, note: str, now: float) -> Failure:
    message = text_at(event, "error", "message") or note
    # For some errors the status is left out; those that may pass were tried again before.
    kind: FailureKind = "invalid-request" if "API Error" in message else "crash"
    return failure_of(message, now, status=whole_at(event, "error", "code"), kind=kind)


def _written(stats: Event, read: int | None) -> int | None:
    """What the models wrote, with their thoughts: those are paid for, and counted in the total
    only."""
    written = _tokens(stats, "output_tokens", "candidates")
    every = _tokens(stats, "total_tokens", "total")
    if written is None or read is None or every is None:
        return written
    return max(written, every - read)


def _tokens(stats: Event, streamed: str, in_object: str) -> int | None:
    """The stream sums up for us; the one object counts per model."""
    count = whole_at(stats, streamed)
    models = map_at(stats, "models").values()
    return total(*(whole_at(m, "tokens", in_object) for m in models)) if count is None else count


def session_of(event: Event) -> str | None:
    return text_at(event, "session_id") or None


def pieces_of(event: Event) -> list[Piece]:
    match text_at(event, "type"), text_at(event, "role"):
        case "message", "assistant":
            return [Piece("said", text_at(event, "content"), is_delta=event.get("delta") is True)]
        case "error", _:
            return [Piece("note", text_at(event, "message"))]
        case "tool_use", _:
            tool, call = text_at(event, "tool_name"), text_at(event, "tool_id")
            return [call_piece(tool, call, map_at(event, "parameters"), _WRITERS)]
        case "tool_result", _:
            text = text_at(event, "error", "message") or text_at(event, "output")
            is_error = text_at(event, "status") == "error"
            return [Piece("result", text, call=text_at(event, "tool_id"), is_error=is_error)]
        case "result" | "", _ if map_at(event, "error"):
            text = text_at(event, "error", "message")
            return [Piece("note", text, is_error=True, is_answer=True)]
        case _:
            return []


GEMINI = Adapter(
    name="gemini",
    program=KnownProgram(
        title="Gemini CLI",
        executables=("gemini",),
        variable="GEMINI_CLI_PATH",
        places=("~/.local/bin/gemini",),
        install="npm install -g @google/gemini-cli",
    ),
    chooses_session=False,
    tried=("0.61.0",),
    login=Login(
        ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"),
        ("~/.gemini/oauth_creds.json",),
        "gemini, then choose a login",
    ),
    make_call=make_call,
    parse=parse,
    session_of=session_of,
    session_files=SessionFiles(".gemini", ("tmp/*/chats/session-*-{start}.jsonl",)),
    pieces_of=pieces_of,
    take_over=lambda session: ("gemini", "--resume", session),
    permissions=("bypass", "edit", "default", "read-only"),
    own_flags=("-i", "-m", "-o", "-p", "-r", "-s", "-y", "--skip-trust"),
    tiers={"haiku": "flash-lite", "sonnet": "flash", "opus": "pro"},
    exit_kinds={41: "auth", 42: "session", 52: "invalid-request", 53: "limit", 55: "refused"},
)
