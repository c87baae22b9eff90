"""Cursor (`cursor-agent -p`), from its documentation only: it could not be run here."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrate.agents.adapter import Adapter, Login, Parsed, ProgramCall, ProgramTurn
from orchestrate.agents.claude import pieces_of as claude_pieces
from orchestrate.agents.failures import failure_of
from orchestrate.agents.finding import KnownProgram
from orchestrate.agents.parse import Event, map_at, text_at
from orchestrate.agents.transcript import Piece, call_piece, latest_text

_PERMISSIONS = {"bypass": ("--force",), "default": (), "read-only": ("--mode", "ask")}
_WRITERS = ("write", "edit", "delete")
_REFUSALS = {"rejected", "permissionDenied"}


def make_call(turn: ProgramTurn) -> ProgramCall:
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
    return ProgramCall(tuple(arguments), turn.instructed_prompt)


def parse(events: Iterable[Event], now: float) -> Parsed:
    text = note = ""
    session = model = None
    failure = None
    is_done = False
    denied: list[str] = []
    for event in events:
        session = session_of(event) or session
        note = latest_text(pieces_of(event)) or note
        match text_at(event, "type"), text_at(event, "subtype"):
            case "system", "init":
                model = text_at(event, "model") or None
            case "tool_call", "completed":
                denied += _rejected(event)
            case "result", _:
                text = text_at(event, "result")
                is_done = event.get("is_error") is False
                failure = None if is_done else failure_of(text or note, now)
            case _:
                pass
    return Parsed(
        text=text,
        is_done=is_done,
        failure=failure,
        note=note,
        session=session,
        model=model,
        denied=(*denied,),
    )


def _rejected(event: Event) -> list[str]:
    """The tool of a call that was refused, which is neither a success nor an error."""
    calls = map_at(event, "tool_call").items()
    return [
        name.removesuffix("ToolCall")
        for name, about in calls
        if isinstance(about, dict) and _REFUSALS & {*map_at(about, "result")}
    ]


def session_of(event: Event) -> str | None:
    return text_at(event, "session_id") or None


def pieces_of(event: Event) -> list[Piece]:
    if text_at(event, "type") != "tool_call":
        return claude_pieces(event)
    call = text_at(event, "call_id")
    for name, about in map_at(event, "tool_call").items():
        tool = name.removesuffix("ToolCall")
        begins = call_piece(tool, call, map_at(about, "args"), _WRITERS)
        if text_at(event, "subtype") != "completed":
            return [begins]
        given = map_at(about, "result")
        text = text_at(given, "success", "content") or text_at(given, "success", "stdout")
        is_error = bool(given) and "success" not in given
        return [begins, Piece("result", text, tool, call, is_error)]
    return []


CURSOR = Adapter(
    name="cursor",
    program=KnownProgram(
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
    pieces_of=pieces_of,
    take_over=lambda session: ("cursor-agent", "--resume", session),
    permissions=("bypass", "default", "read-only"),
    own_flags=("-f", "-m", "-p", "-r", "--mode", "--trust"),
    untried="it is untested: all that we know is its documentation",
)
