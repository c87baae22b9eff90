"""OpenCode (`opencode run`), as measured with 1.18.33 (docs/reference/agents.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from orchestrate.agents.adapter import Adapter, Login, Parsed, ProgramCall, ProgramTurn
from orchestrate.agents.base import Failure, FailureKind, Used
from orchestrate.agents.failures import failure_of, header_time
from orchestrate.agents.finding import KnownProgram
from orchestrate.agents.parse import (
    Event,
    map_at,
    number_at,
    one_line,
    text_at,
    total,
    whole_at,
)
from orchestrate.agents.settings import Setting
from orchestrate.agents.transcript import Piece, call_piece, latest_text
from orchestrate.regex import regex

# By itself it may edit and run commands in its folder, so less than that is denied tool by tool.
# `deny` takes a tool away; `ask` would end the run, because no person is there to answer.
_DENIED: dict[str, dict[str, str]] = {
    "bypass": {},
    "edit": {"bash": "deny"},
    "default": {},
    "read-only": {"edit": "deny", "bash": "deny"},
}
# Tools that exist, but that a rule of ours may have taken away.
_WRITERS = ("edit", "write", "patch")
_WITHHELD = ("bash", *_WRITERS)
# Its own tool, which stands in the place of one that cannot be called.
_REFUSAL = "invalid"
_REFUSED = regex("rejected permission|prevents you from using this")
_BAD_ENDS: dict[str, FailureKind] = {"length": "limit", "content-filter": "refused"}


def make_call(turn: ProgramTurn) -> ProgramCall:
    question = turn.question
    arguments = ["run", "--format", "json"]
    if turn.permissions == "bypass":
        arguments.append("--auto")
    if turn.model is not None:
        arguments += ["-m", turn.model]
    if effort := turn.text("effort"):
        arguments += ["--variant", effort]
    if not question.is_new_session:
        arguments += ["--session", turn.session]
    environment = {"OPENCODE_DISABLE_AUTOUPDATE": "1"}
    if rules := _permission_rules(turn):
        environment["OPENCODE_PERMISSION"] = json.dumps(rules)
    database = data_folder(question.environment) / "opencode.db"
    return ProgramCall(tuple(arguments), turn.instructed_prompt, environment, made_first=database)


def data_folder(environment: Mapping[str, str]) -> Path:
    """Where it keeps its database, which its first start makes and migrates."""
    data = environment.get("XDG_DATA_HOME") or f"{environment.get('HOME', '')}/.local/share"
    return Path(data) / "opencode"


def _permission_rules(turn: ProgramTurn) -> dict[str, str]:
    """Later rules win over earlier ones."""
    rules: dict[str, str] = {}
    if (tools := turn.names("tools")) is not None:
        rules = {"*": "deny"} | dict.fromkeys(tools, "allow")
    rules |= _DENIED[turn.permissions]
    return rules | dict.fromkeys(turn.names("disallowed_tools") or (), "deny")


def parse(events: Iterable[Event], now: float) -> Parsed:
    texts: dict[str, str] = {}
    note = reason = message = ""
    session = None
    failure = None
    denied: list[str] = []
    finishes: list[Event] = []
    for event in events:
        session = session_of(event) or session
        note = _note_of(event) or note
        match text_at(event, "type"):
            case "text":
                message = text_at(event, "part", "messageID")
                texts[message] = texts.get(message, "") + text_at(event, "part", "text")
            case "step_finish":
                message = text_at(event, "part", "messageID")
                reason = text_at(event, "part", "reason")
                finishes.append(map_at(event, "part"))
            case "tool_use":
                denied += _refused_tool(map_at(event, "part"))
            case "error":
                failure = _failure_in(event, now)
            case _:
                pass
    if failure is None and reason != "stop":
        failure = _bad_end(reason, note, now)
    return Parsed(
        text=texts.get(message, ""),
        is_done=reason == "stop",
        failure=failure,
        note=note,
        session=session,
        input_tokens=total(*(_tokens_read(part) for part in finishes)),
        output_tokens=total(*(_tokens_written(part) for part in finishes)),
        cost_usd=_cost(finishes),
        denied=(*denied,),
    )


def _refused_tool(part: Event) -> list[str]:
    """A person or a rule said no, or a rule has taken the tool away: then it is a `_REFUSAL`."""
    if _REFUSED.search(text_at(part, "state", "error")):
        return [text_at(part, "tool")]
    tool = text_at(part, "state", "input", "tool")
    is_away = "unavailable tool" in text_at(part, "state", "input", "error")
    return [tool] if is_away and tool in _WITHHELD else []


def _failure_in(event: Event, now: float) -> Failure:
    data = map_at(event, "error", "data")
    message = text_at(data, "message") or text_at(event, "error", "name")
    if text_at(event, "error", "name") == "UnknownError":
        # Its "server error" is about a server of its own, not about the model's service.
        return Failure("crash", one_line(message))
    return failure_of(
        message,
        now,
        status=whole_at(data, "statusCode"),
        retry_at=header_time(data.get("responseHeaders"), now),
    )


def _bad_end(reason: str, note: str, now: float) -> Failure | None:
    """A rejected permission ends the program with 0, after a tool call and without an answer."""
    if reason in _BAD_ENDS:
        return failure_of(f"the answer ended early: {reason}", now, kind=_BAD_ENDS[reason])
    if reason == "tool-calls" and "rejected" in note:
        return Failure("refused", note)
    return None


def _tokens_read(part: Event) -> int | None:
    return total(
        whole_at(part, "tokens", "input"),
        whole_at(part, "tokens", "cache", "read"),
        whole_at(part, "tokens", "cache", "write"),
    )


def _tokens_written(part: Event) -> int | None:
    """Thoughts are paid for as what is said, and are no part of the output."""
    return total(whole_at(part, "tokens", "output"), whole_at(part, "tokens", "reasoning"))


def _cost(finishes: list[Event]) -> float | None:
    """Zero is what it says of a model whose price it does not know, so that is unknown."""
    cost = sum(number_at(part, "cost") or 0.0 for part in finishes)
    return cost if cost > 0 else None


def used_of(event: Event) -> Used | None:
    """A message ends with what it has taken; its model is not told."""
    part = map_at(event, "part")
    read = total(whole_at(part, "tokens", "input"), whole_at(part, "tokens", "cache", "write"))
    if text_at(event, "type") != "step_finish" or read is None:
        return None
    cached = whole_at(part, "tokens", "cache", "read") or 0
    return Used(text_at(part, "id"), "", read, cached, _tokens_written(part) or 0, _cost([part]))


def session_of(event: Event) -> str | None:
    return text_at(event, "sessionID") or None


def pieces_of(event: Event) -> list[Piece]:
    """A tool is told when it has ended: its call and its result in one event."""
    part = map_at(event, "part")
    match text_at(event, "type"):
        case "text":
            return [Piece("said", text_at(part, "text"))]
        case "reasoning":
            return [Piece("thinking", text_at(part, "text"))]
        case "tool_use":
            tool, call, state = (
                text_at(part, "tool"),
                text_at(part, "callID"),
                map_at(part, "state"),
            )
            error = text_at(state, "error")
            if tool == _REFUSAL:
                tool, error = text_at(state, "input", "tool") or tool, text_at(state, "output")
            return [
                call_piece(tool, call, map_at(state, "input"), _WRITERS),
                Piece("result", error or text_at(state, "output"), tool, call, bool(error)),
            ]
        case "error":
            return [Piece("note", text_at(event, "error", "data", "message"), is_error=True)]
        case _:
            return []


def _note_of(event: Event) -> str:
    """What a failure is explained with: a tool's error says more than its call."""
    pieces = pieces_of(event)
    errors = (f"{p.tool}: {one_line(p.text)}" for p in pieces if p.kind == "result" and p.is_error)
    return next(errors, latest_text(pieces))


OPENCODE = Adapter(
    name="opencode",
    program=KnownProgram(
        title="OpenCode",
        executables=("opencode",),
        variable="OPENCODE_CLI_PATH",
        places=("~/.opencode/bin/opencode", "~/.local/bin/opencode"),
        install="npm install -g opencode-ai",
    ),
    chooses_session=True,
    tried=("1.18.33",),
    login=Login(
        ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"),
        ("~/.local/share/opencode/auth.json", "~/.config/opencode/opencode.json"),
        "opencode auth login",
    ),
    make_call=make_call,
    parse=parse,
    session_of=session_of,
    used_of=used_of,
    pieces_of=pieces_of,
    take_over=lambda session: ("opencode", "--session", session),
    permissions=("bypass", "edit", "default", "read-only"),
    own_flags=("-c", "-m", "-s", "--variant"),
    settings={
        "tools": Setting("names", "the only tools that it has"),
        "disallowed_tools": Setting("names", "tools that it must not use"),
        "effort": Setting("word", "how hard it thinks, in the program's own words"),
    },
)
