"""Claude Code (`claude -p`), as measured with 2.1.197 and 2.1.325 (docs/reference/agents.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrate.agents.adapter import (
    Adapter,
    Login,
    Parsed,
    ProgramCall,
    ProgramTurn,
    SessionFiles,
)
from orchestrate.agents.base import Failure, FailureKind, Used
from orchestrate.agents.costs import Usage
from orchestrate.agents.failures import failure_of
from orchestrate.agents.finding import KnownProgram
from orchestrate.agents.parse import (
    Event,
    list_at,
    map_at,
    number_at,
    text_at,
    total,
    value_at,
    whole_at,
)
from orchestrate.agents.settings import Setting, is_word
from orchestrate.agents.transcript import Piece, call_piece, latest_text, texts_in
from orchestrate.agents.versions import version_numbers
from orchestrate.record import replace
from orchestrate.regex import regex

_EDITING_TOOLS = ("Edit", "Write", "NotebookEdit")
# And those of Qwen Code, whose events are the same.
_WRITERS = (*_EDITING_TOOLS, "MultiEdit", "write_file", "edit", "notebook_edit")
_PERMISSIONS = {
    "bypass": ("--dangerously-skip-permissions",),
    "edit": ("--permission-mode", "acceptEdits"),
    "default": (),
    # Whatever would need a question is denied; commands that only read are allowed.
    "read-only": ("--permission-mode", "dontAsk"),
}
_ENVIRONMENT: dict[str, str | None] = {
    # Left over when we run inside Claude Code ourselves (A §4.2).
    "CLAUDECODE": None,
    "CLAUDE_CODE_ENTRYPOINT": None,
    # A background shell would keep the program alive after its answer.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    # See `as_text`.
    "CLAUDE_CODE_DISABLE_FILE_MENTIONS": "1",
    # A run's program must not change under it.
    "DISABLE_AUTOUPDATER": "1",
}
# It tries ten times over minutes by itself, and says little of it. With five retries of ours around
# it this many outlast the same outage, and each pause of ours is shown.
_MOST_RETRIES = "6"
_TAKES_A_SCHEMA = (2, 1, 325)
_LIMITS: dict[str, FailureKind] = {
    "error_max_turns": "limit",
    "error_max_budget_usd": "budget",
}
# What the model read: new text, and text that was cached.
_USAGE_READ = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_MODEL_READ = ("inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens")
_USED = ("cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
_DISABLED = regex(r"No such tool available: (\S+?)\. \S+ is disabled for this session")
# What Claude Code takes for the start of a file's name. Its white space includes U+FEFF.
_MENTION = regex("(?<![^\\s\ufeff])@(?=\\S)")
_MENTIONS_CAN_BE_TURNED_OFF = (2, 1, 299)


def make_call(turn: ProgramTurn) -> ProgramCall:
    question = turn.question
    arguments = ["-p", "--output-format", "stream-json", "--verbose"]
    arguments += _PERMISSIONS[turn.permissions]
    # The default depends on the version, and a resumed session keeps the last step's model.
    model = turn.model or default_model(question.environment, question.workspace)
    arguments += ["--model", model]
    if question.fork_of and question.is_new_session:
        arguments += ["--resume", question.fork_of, "--fork-session"]
    arguments += ["--session-id" if question.is_new_session else "--resume", turn.session]
    arguments += _tools(turn)
    for flag, value in (
        ("--max-turns", turn.text("max_turns")),
        ("--max-budget-usd", _budget(turn)),
        ("--effort", turn.text("effort")),
    ):
        if value:
            arguments += [flag, value]
    if question.schema and turn.can(_TAKES_A_SCHEMA):
        arguments += ["--json-schema", question.schema]
    hidden = {}
    if question.system_prompt:
        # On every call: after a conversation was compacted, the flag counts again.
        arguments.append(f"--append-system-prompt={question.system_prompt}")
        hidden[arguments[-1]] = "--append-system-prompt=…"
    environment = _ENVIRONMENT | {
        "CLAUDE_CODE_MAX_RETRIES": question.environment.get("CLAUDE_CODE_MAX_RETRIES")
        or _MOST_RETRIES
    }
    if turn.permissions == "bypass" and os.geteuid() == 0:
        # As root it refuses to bypass permissions, unless told that this is a sandbox.
        environment["IS_SANDBOX"] = "1"
    prompt = as_text(turn.prompt, question.version)
    return ProgramCall(tuple(arguments), prompt, environment, hidden)


def _budget(turn: ProgramTurn) -> str:
    """What the call may spend: the smaller of the step's own setting and what is left."""
    written, left = turn.text("budget_usd"), turn.question.budget_usd
    if left is None or (written and float(written) <= left):
        return written
    return f"{left:.4f}".rstrip("0").rstrip(".")


def default_model(environment: Mapping[str, str], workspace: Path) -> str:
    """The model of a step that names none: what the person has chosen for Claude Code."""
    if environment.get("ANTHROPIC_MODEL"):
        return environment["ANTHROPIC_MODEL"]
    project, user = workspace / ".claude", Path(_home(environment))
    for path in (
        project / "settings.local.json",
        project / "settings.json",
        user / "settings.json",
    ):
        with suppress(OSError, ValueError):
            settings = json.loads(path.read_bytes())
            model = settings.get("model") if isinstance(settings, dict) else None
            if is_word(model):
                return str(model)
    return "sonnet"


def _home(environment: Mapping[str, str]) -> str:
    return environment.get("CLAUDE_CONFIG_DIR") or f"{environment.get('HOME', '')}/.claude"


def _tools(turn: ProgramTurn) -> list[str]:
    denied = (_EDITING_TOOLS if turn.permissions == "read-only" else ()) + (
        turn.names("disallowed_tools") or ()
    )
    # With `=`, because these flags take every argument that follows them.
    return [
        f"{flag}={','.join(names)}"
        for flag, names in (
            ("--tools", turn.names("tools")),
            ("--allowedTools", turn.names("allowed_tools")),
            ("--disallowedTools", denied or None),
        )
        if names is not None
    ]


def as_text(prompt: str, version: str = "") -> str:
    """The prompt so that nothing in it is a command to Claude Code itself.

    A leading `/` runs a command, and `@path` reads a file into the conversation: text that comes
    from a file or another step must do neither. A line break before the slash is enough. Mentions
    are turned off by a variable; before it existed, only a backslash helps, which the model sees.
    """
    if not _knows_the_variable(version):
        prompt = _MENTION.sub(r"\\@", prompt)
    return "\n" + prompt if prompt.startswith("/") else prompt


def _knows_the_variable(version: str) -> bool:
    return version_numbers(version) >= _MENTIONS_CAN_BE_TURNED_OFF


def parse(events: Iterable[Event], now: float) -> Parsed:
    session = model = None
    note = ""
    reset_at = None
    results: list[Event] = []
    denied: dict[str, str] = {}
    for event in events:
        session = session_of(event) or session
        denied |= denials_in(event)
        match text_at(event, "type"), text_at(event, "subtype"):
            case "system", "init":
                model = text_at(event, "model") or None
            case "assistant", _:
                # The model that spoke last; the program may have fallen back to another model.
                model = _speaker(event) or model
            case "result", _:
                results.append(event)
            case "rate_limit_event", _:
                reset_at = _reset_in(event)
            case _:
                pass
        note = latest_text(pieces_of(event)) or note
    if not results:
        return Parsed(session=session, model=model, note=note, denied=(*denied.values(),))
    last = results[-1]
    if model is None and len(used := map_at(last, "modelUsage")) == 1:
        model = next(iter(used))
    failure = _failure_in(last, now, reset_at)
    usage, counts_up = _usage(results)
    return Parsed(
        text=_answer_in(last),
        is_done=failure is None,
        failure=failure,
        note=note,
        session=session,
        model=model,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
        cost_counts_up=counts_up,
        denied=(*denied.values(),),
    )


def _reset_in(event: Event) -> float | None:
    """When the limit of an account is over that was reached: with every answer the program also
    tells when the present window ends, of an account that may be asked."""
    if text_at(event, "rate_limit_info", "status").startswith("allowed"):
        return None
    return number_at(event, "rate_limit_info", "resetsAt")


def denials_in(event: Event) -> dict[str, str]:
    """The tools of the calls that were refused, by the call's id: told at once and in the result.

    A tool that `--disallowedTools` took away is not among those: its call is only an error.
    """
    match text_at(event, "type"), text_at(event, "subtype"):
        case "system", "permission_denied":
            found = [event]
        case "result", _:
            found = list_at(event, "permission_denials")
        case "user", _:
            return _calls_of_disabled(list_at(event, "message", "content"))
        case _:
            return {}
    return {
        text_at(denial, "tool_use_id"): text_at(denial, "tool_name")
        for denial in found
        if text_at(denial, "tool_name")
    }


def _calls_of_disabled(parts: list[Any]) -> dict[str, str]:
    tools = ((part, _DISABLED.search(text_at(part, "content"))) for part in parts)
    return {text_at(part, "tool_use_id"): tool[1] for part, tool in tools if tool is not None}


def _speaker(event: Event) -> str | None:
    """The model of a message, which is not a subagent's nor the program's own words."""
    model = text_at(event, "message", "model")
    return None if model.startswith("<") or event.get("parent_tool_use_id") else model or None


def _answer_in(result: Event) -> str:
    """What the model said; with a schema, the value that it gave for that."""
    said = text_at(result, "result")
    structured = map_at(result, "structured_output")
    if not structured:
        return said
    try:
        is_said = json.loads(said) == structured
    except ValueError:
        is_said = False
    return said if is_said else json.dumps(structured)


def _failure_in(result: Event, now: float, reset_at: float | None) -> Failure | None:
    """`subtype` says success for API errors too; only `is_error` tells."""
    if text_at(result, "stop_reason") == "refusal":
        return failure_of(text_at(result, "result") or "the model refused", now, kind="refused")
    if not result.get("is_error"):
        return None
    errors = "; ".join(str(error) for error in list_at(result, "errors"))
    message = text_at(result, "result") or errors or "it ended with an error"
    status = whole_at(result, "api_error_status")
    failure = failure_of(message, now, status=status, kind="crash", retry_at=reset_at)
    limit = _LIMITS.get(text_at(result, "subtype"))
    return failure if limit is None else replace(failure, kind=limit)


def _usage(results: list[Event]) -> tuple[Usage, bool]:
    """What was used, and whether the dollars are the session's running total."""
    own = [
        model
        for result in results
        for model in map_at(result, "model_usage_since_last_result").values()
    ]
    if own:
        return _sum_up(own), False
    last = results[-1]
    read = total(*(whole_at(last, "usage", key) for key in _USAGE_READ))
    usage = Usage(read, whole_at(last, "usage", "output_tokens"), number_at(last, "total_cost_usd"))
    # Versions differ in whether the dollars count up, but `modelUsage` always counts as they do and
    # `usage` never counts up. Where the two agree, this is the call's own (or the first) bill.
    in_session = _sum_up(list(map_at(last, "modelUsage").values())).input_tokens or 0
    return usage, "modelUsage" not in last or in_session > (read or 0)


def _sum_up(models: list[Any]) -> Usage:
    costs = [cost for model in models if (cost := number_at(model, "costUSD")) is not None]
    return Usage(
        total(*(whole_at(model, key) for model in models for key in _MODEL_READ)),
        total(*(whole_at(model, "outputTokens") for model in models)),
        sum(costs) if costs else None,
    )


def used_of(event: Event) -> Used | None:
    """A message comes in several events, of which each tells what it has taken up to then."""
    message = text_at(event, "message", "id")
    read = whole_at(event, "message", "usage", "input_tokens")
    if text_at(event, "type") != "assistant" or not message or read is None:
        return None
    made, cached, written = (whole_at(event, "message", "usage", key) or 0 for key in _USED)
    return Used(message, text_at(event, "message", "model"), read + made, cached, written)


def session_of(event: Event) -> str | None:
    return text_at(event, "session_id") or None


def has_session(session: str, environment: Mapping[str, str]) -> bool:
    """Is there a conversation of that id? It lies in a folder that is named after its directory."""
    with suppress(OSError):
        return any(
            Path(folder.path, f"{session}.jsonl").is_file()
            for folder in os.scandir(f"{_home(environment)}/projects")
        )
    return False


def pieces_of(event: Event) -> list[Piece]:
    """What an event tells a person who watches: words, tools, or what the program waits for."""
    match text_at(event, "type"), text_at(event, "subtype"):
        case "system", "api_retry":
            tries = f"{event.get('attempt')} of {event.get('max_retries')}"
            status = whole_at(event, "error_status") or "no answer"
            waits = f"waits to try again ({tries}): {text_at(event, 'error')} ({status})"
            return [Piece("note", waits)]
        case "stream_event", _:
            # Only with --include-partial-messages among the user's own arguments.
            delta = map_at(event, "event", "delta")
            if said := text_at(delta, "text"):
                return [Piece("said", said, is_delta=True)]
            thought = text_at(delta, "thinking")
            return [Piece("thinking", thought, is_delta=True)] if thought else []
        case "assistant", _:
            parts = list_at(event, "message", "content")
            return [piece for part in parts for piece in _piece_of(part)]
        case "user", _:
            return [_result_of(part) for part in list_at(event, "message", "content")]
        case "result", _ if event.get("is_error"):
            errors = "; ".join(map(str, list_at(event, "errors")))
            text = text_at(event, "result") or text_at(event, "error", "message") or errors
            return [Piece("note", text, is_error=True, is_answer=True)]
        case "result", _:
            return [Piece("said", text_at(event, "result"), is_answer=True)]
        case _:
            return []


def _piece_of(part: Any) -> list[Piece]:
    match text_at(part, "type"):
        case "thinking":
            return [Piece("thinking", text_at(part, "thinking"))]
        case "tool_use":
            tool, call = text_at(part, "name"), text_at(part, "id")
            return [call_piece(tool, call, map_at(part, "input"), _WRITERS)]
        case _:
            return [Piece("said", text)] if (text := text_at(part, "text")) else []


def _result_of(part: Any) -> Piece:
    """What a message to the model has: only the results of tools are told."""
    if text_at(part, "type") != "tool_result":
        return Piece("result")
    text = texts_in(value_at(part, "content"))
    text = text.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>")
    call, is_error = text_at(part, "tool_use_id"), part.get("is_error") is True
    return Piece("result", text, call=call, is_error=is_error)


CLAUDE_CODE = Adapter(
    name="claude-code",
    program=KnownProgram(
        title="Claude Code",
        executables=("claude",),
        variable="CLAUDE_CLI_PATH",
        places=("~/.claude/local/claude", "~/.local/bin/claude"),
        install="npm install -g @anthropic-ai/claude-code",
    ),
    tried=("2.1.197", "2.1.325"),
    login=Login(
        (
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
        ),
        ("~/.claude/.credentials.json",),
        "claude, then /login",
    ),
    chooses_session=False,
    make_call=make_call,
    default_model=default_model,
    parse=parse,
    session_of=session_of,
    session_files=SessionFiles(
        ".claude", ("projects/*/{session}.jsonl",), variable="CLAUDE_CONFIG_DIR"
    ),
    has_session=has_session,
    forks_sessions=True,
    pieces_of=pieces_of,
    used_of=used_of,
    take_over=lambda session: ("claude", "--resume", session),
    permissions=("bypass", "edit", "default", "read-only"),
    own_flags=("-c", "-p", "-r", "--max-turns", "--max-budget-usd", "--effort", "--verbose"),
    tiers={"haiku": "haiku", "sonnet": "sonnet", "opus": "opus"},
    settings={
        "tools": Setting("names", "the only tools that it has"),
        "allowed_tools": Setting("names", "tools that it may use without permission"),
        "disallowed_tools": Setting("names", "tools that it must not use"),
        "max_turns": Setting("count", "turns in one step"),
        "budget_usd": Setting("amount", "dollars in one step"),
        "effort": Setting("word", "how hard it thinks, in the program's own words"),
    },
    longest_prompt=10_000_000,
)
