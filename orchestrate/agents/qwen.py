"""Qwen Code (`qwen -o stream-json`), as measured with 0.24.4 (docs/reference/agents.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from orchestrate.agents.adapter import (
    Adapter,
    Login,
    Parsed,
    ProgramCall,
    ProgramTurn,
    SessionFiles,
)
from orchestrate.agents.base import Failure, Used
from orchestrate.agents.claude import denials_in, session_of
from orchestrate.agents.claude import pieces_of as claude_pieces
from orchestrate.agents.claude import used_of as claude_used_of
from orchestrate.agents.failures import failure_of
from orchestrate.agents.finding import KnownProgram
from orchestrate.agents.gemini import as_text
from orchestrate.agents.parse import Event, map_at, text_at, whole_at
from orchestrate.agents.settings import Setting
from orchestrate.agents.transcript import Piece, latest_text
from orchestrate.record import replace
from orchestrate.regex import regex

_APPROVAL = {"bypass": "yolo", "edit": "auto-edit", "default": "default", "read-only": "plan"}
# `@path` anywhere reads a file. One `@` without a path is enough for it to lay out the prompt anew.
_MENTION = regex(r"(?<!\\)@")
# What its shell tells of a command; only what was printed is news.
_SHELL = regex(r"(?s)\ACommand: .*?\nOutput: (.*)\nError: (.*)\nExit Code: (\S*)")
_NOTHING = ("(empty)", "(none)")
_TAKES_A_SCHEMA = (0, 24, 4)
# Only a settings file turns off the calls after each turn that fill a "memory" and are billed, its
# updates, and two of its three layers of retries. This one holds where the user's own says nothing.
# Its `$version` is above all of Qwen Code's, which rewrites a file of an older one.
DEFAULTS = Path(__file__).with_name("qwen_defaults.json")
_DEFAULTS_VARIABLE = "QWEN_CODE_SYSTEM_DEFAULTS_PATH"
# Where an administrator's defaults are.
_PLACES_OF_DEFAULTS = (
    "/etc/qwen-code/system-defaults.json",
    "/Library/Application Support/QwenCode/system-defaults.json",
)


def make_call(turn: ProgramTurn) -> ProgramCall:
    question = turn.question
    arguments = ["-o", "stream-json", "--approval-mode", _APPROVAL[turn.permissions]]
    if turn.model is not None:
        arguments += ["-m", turn.model]
    arguments += ["--session-id" if question.is_new_session else "--resume", turn.session]
    if denied := turn.names("disallowed_tools"):
        # With `=`, because the flag takes every argument that follows it.
        arguments.append(f"--exclude-tools={','.join(denied)}")
    if turns := turn.text("max_turns"):
        arguments += ["--max-session-turns", turns]
    if question.schema and turn.can(_TAKES_A_SCHEMA):
        arguments += ["--json-schema", question.schema]
    hidden = {}
    if question.system_prompt:
        # On every call: the session does not keep it.
        arguments.append(f"--append-system-prompt={question.system_prompt}")
        hidden[arguments[-1]] = "--append-system-prompt=…"
    # Without the variable there would be one more parent between us and the program that works.
    environment = {"QWEN_CODE_NO_RELAUNCH": "true", **_defaults(question.environment)}
    return ProgramCall(tuple(arguments), as_text(turn.prompt, _MENTION), environment, hidden)


def _defaults(environment: Mapping[str, str]) -> dict[str, str]:
    """Ours, unless there are others: a key or a proxy may be in them."""
    is_elsewhere = _DEFAULTS_VARIABLE in environment or (
        "QWEN_CODE_SYSTEM_SETTINGS_PATH" in environment
    )
    if is_elsewhere or any(os.path.exists(place) for place in _PLACES_OF_DEFAULTS):
        return {}
    return {_DEFAULTS_VARIABLE: str(DEFAULTS)}


def parse(events: Iterable[Event], now: float) -> Parsed:
    text = note = ""
    session = model = None
    failure = None
    is_done = False
    usage: Event = {}
    denied: dict[str, str] = {}
    for event in events:
        session = session_of(event) or session
        denied |= denials_in(event)
        note = latest_text(pieces_of(event)) or note
        match text_at(event, "type"), text_at(event, "subtype"):
            case "system", "init":
                model = text_at(event, "model") or None
            case "result", _:
                structured = map_at(event, "structured_output")
                text = json.dumps(structured) if structured else text_at(event, "result")
                usage = map_at(event, "usage")
                is_done = event.get("is_error") is False
                failure = None if is_done else _failure_in(event, note, now)
            case _:
                pass
    return Parsed(
        text=text,
        is_done=is_done,
        failure=failure,
        note=note,
        session=session,
        model=model,
        # Zero is what it says when it did not come as far as to know the session's total.
        input_tokens=whole_at(usage, "input_tokens") or None,
        output_tokens=whole_at(usage, "output_tokens") or None,
        tokens_count_up=True,
        denied=(*denied.values(),),
    )


def _failure_in(result: Event, note: str, now: float) -> Failure:
    return failure_of(text_at(result, "error", "message") or note, now)


def used_of(event: Event) -> Used | None:
    """As Claude Code's messages, but what is read again is part of what is read."""
    used = claude_used_of(event)
    return None if used is None else replace(used, read=max(used.read - used.cached, 0))


def pieces_of(event: Event) -> list[Piece]:
    """As Claude Code's events, but for those that say that it waits."""
    if (text_at(event, "type"), text_at(event, "subtype")) == ("system", "retry"):
        delay = whole_at(event, "data", "delayMs")
        waits = "tries again" if delay is None else f"waits {delay // 1000} s to try again"
        return [Piece("note", waits)]
    return [_readable(piece) for piece in claude_pieces(event)]


def _readable(piece: Piece) -> Piece:
    told = _SHELL.match(piece.text) if piece.kind == "result" else None
    if told is None:
        return piece
    *printed, code = told.groups()
    text = "\n".join(one for one in printed if one not in _NOTHING)
    return replace(piece, text=text or (f"exit code {code}" if piece.is_error else ""))


QWEN = Adapter(
    name="qwen",
    program=KnownProgram(
        title="Qwen Code",
        executables=("qwen",),
        variable="QWEN_CLI_PATH",
        places=("~/.local/bin/qwen",),
        install="npm install -g @qwen-code/qwen-code",
    ),
    chooses_session=False,
    tried=("0.24.4",),
    login=Login(
        ("OPENAI_API_KEY", "DASHSCOPE_API_KEY"),
        ("~/.qwen/oauth_creds.json", "~/.qwen/settings.json"),
        "qwen, then /auth",
    ),
    make_call=make_call,
    parse=parse,
    session_of=session_of,
    used_of=used_of,
    session_files=SessionFiles(".qwen", ("projects/*/chats/{session}.jsonl",)),
    pieces_of=pieces_of,
    take_over=lambda session: ("qwen", "--resume", session),
    permissions=("bypass", "edit", "default", "read-only"),
    own_flags=("-c", "-i", "-m", "-o", "-p", "-r", "-s", "-y", "--max-session-turns"),
    settings={
        "disallowed_tools": Setting("names", "tools that it must not use"),
        "max_turns": Setting("count", "turns in one step"),
    },
    exit_kinds={53: "limit", 55: "limit"},
    # It cuts off what is longer than twice that, and a backslash may double a prompt.
    longest_prompt=4 << 20,
)
