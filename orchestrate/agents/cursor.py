"""Cursor (`cursor-agent -p`), from its documentation only: nobody here could run it."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrate.agents.adapter import Adapter, Call, Login, Parsed, Turn
from orchestrate.agents.claude import progress_of as claude_words
from orchestrate.agents.failures import failure_of
from orchestrate.agents.finding import Program
from orchestrate.agents.parse import Event, text_at

_PERMISSIONS = {"bypass": ("--force",), "default": (), "read-only": ("--mode", "ask")}


def make_call(turn: Turn) -> Call:
    question = turn.question
    arguments = [
        "-p",
        "--output-format",
        "stream-json",
        "--trust",
        *_PERMISSIONS[turn.permissions],
    ]
    if turn.model is not None:
        arguments += ["--model", turn.model]
    if not question.is_new_session:
        arguments += ["--resume", turn.session]
    return Call(tuple(arguments), turn.instructed_prompt)


def parse(events: Iterable[Event], now: float) -> Parsed:
    text = note = ""
    session = model = None
    failure = None
    is_done = False
    for event in events:
        session = session_of(event) or session
        note = progress_of(event) or note
        match text_at(event, "type"), text_at(event, "subtype"):
            case "system", "init":
                model = text_at(event, "model") or None
            case "result", _:
                text = text_at(event, "result")
                is_done = event.get("is_error") is False
                failure = None if is_done else failure_of(text or note, now)
            case _:
                pass
    return Parsed(
        text=text, is_done=is_done, failure=failure, note=note, session=session, model=model
    )


def session_of(event: Event) -> str | None:
    return text_at(event, "session_id") or None


def progress_of(event: Event) -> str:
    if text_at(event, "type") == "tool_call":
        return next(
            (f"uses {name.removesuffix('ToolCall')}" for name in event.get("tool_call") or ()), ""
        )
    return claude_words(event)


CURSOR = Adapter(
    name="cursor",
    program=Program(
        title="Cursor",
        executables=("cursor-agent",),
        variable="CURSOR_CLI_PATH",
        places=("~/.local/bin/cursor-agent",),
        install="see cursor.com/docs/cli",
    ),
    chooses_session=True,
    login=Login(("CURSOR_API_KEY",), (), "cursor-agent login"),
    make_call=make_call,
    parse=parse,
    session_of=session_of,
    progress_of=progress_of,
    take_over=lambda session: ("cursor-agent", "--resume", session),
    permissions=("bypass", "default", "read-only"),
    untried="it was never run here: all that we know is its documentation",
)
