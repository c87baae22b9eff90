"""GitHub Copilot (`copilot`), as measured with 1.0.102 (docs/reference/agents.md)."""

from __future__ import annotations

from collections.abc import Iterable

from orchestrate.agents.adapter import (
    Adapter,
    Login,
    Parsed,
    ProgramCall,
    ProgramTurn,
    SessionFiles,
)
from orchestrate.agents.base import FailureKind
from orchestrate.agents.failures import failure_of
from orchestrate.agents.finding import KnownProgram
from orchestrate.agents.parse import Event, map_at, text_at, whole_at
from orchestrate.agents.settings import Setting
from orchestrate.agents.transcript import Piece, call_piece, latest_text
from orchestrate.record import replace

_PERMISSIONS = {
    "bypass": ("--allow-all",),
    "edit": ("--allow-tool=write",),
    # What would need a question is denied; commands that only read are allowed.
    "default": (),
    "read-only": ("--deny-tool=write",),
}
# The oldest that was seen to know it; 1.0.73 ends at once: unknown option '--usage-output-file'.
_USAGE_FILE_SINCE = (1, 0, 102)
_WRITERS = ("create", "edit", "str_replace", "apply_patch")
_KINDS: dict[str, FailureKind] = {"authentication": "auth", "rate_limit": "rate-limit"}


def make_call(turn: ProgramTurn) -> ProgramCall:
    question = turn.question
    arguments = ["--output-format", "json", "--no-auto-update", "--no-ask-user", "--no-color"]
    # A resumed session would otherwise work where it began, even if that folder was moved.
    arguments += ["-C", str(question.workspace)]
    arguments += _PERMISSIONS[turn.permissions]
    if turn.model is not None and not _brings_own_model(turn):
        arguments += ["--model", turn.model]
    arguments.append(f"{'--session-id' if question.is_new_session else '--resume'}={turn.session}")
    if (tools := turn.names("tools")) is not None:
        arguments.append(f"--available-tools={','.join(tools)}")
    arguments += [f"--allow-tool={name}" for name in turn.names("allowed_tools") or ()]
    arguments += [f"--deny-tool={name}" for name in turn.names("disallowed_tools") or ()]
    if question.usage_file is not None and turn.can(_USAGE_FILE_SINCE):
        arguments += ["--usage-output-file", str(question.usage_file)]
    return ProgramCall(tuple(arguments), turn.instructed_prompt)


def _brings_own_model(turn: ProgramTurn) -> bool:
    """With a provider of the user's own, our tiers name models that it does not have."""
    own = "COPILOT_PROVIDER_BASE_URL" in turn.question.environment
    return own and turn.tier is not None and "models" not in turn.question.settings


def parse(events: Iterable[Event], now: float) -> Parsed:
    text = note = ""
    session = model = None
    failure = None
    is_done = False
    tools: dict[str, str] = {}
    denied: list[str] = []
    for event in events:
        session = session_of(event) or session
        note = latest_text(pieces_of(event)) or note
        call = text_at(event, "data", "toolCallId")
        match text_at(event, "type"):
            case "tool.execution_start":
                tools[call] = text_at(event, "data", "toolName")
            case "tool.execution_complete" if text_at(event, "data", "error", "code") == "denied":
                denied.append(tools.get(call) or "a tool")
            case "assistant.message" if not text_at(event, "data", "parentToolCallId"):
                text = text_at(event, "data", "content")
                model = text_at(event, "data", "model") or model
            case "session.error":
                failure = failure_of(
                    text_at(event, "data", "message"),
                    now,
                    status=whole_at(event, "data", "statusCode"),
                    kind=_KINDS.get(text_at(event, "data", "errorType")),
                )
            case "result":
                is_done = whole_at(event, "exitCode") == 0
            case _:
                pass
    # What it got over by itself was not a failure.
    return Parsed(
        text=text,
        is_done=is_done,
        failure=None if is_done else failure,
        note=note,
        session=session,
        model=model,
        denied=(*denied,),
    )


def add_usage(parsed: Parsed, usage: Event) -> Parsed:
    """Tokens of the whole session, by model; its bill is in credits, not dollars."""
    by_model = [model for model in map_at(usage, "modelMetrics").values() if map_at(model, "usage")]
    if not by_model:
        return parsed
    return replace(
        parsed,
        input_tokens=_sum(whole_at(model, "usage", "inputTokens") for model in by_model),
        output_tokens=_sum(whole_at(model, "usage", "outputTokens") for model in by_model),
        tokens_count_up=True,
    )


def _sum(figures: Iterable[int | None]) -> int | None:
    """Of figures of which one is unknown, the sum is unknown, too."""
    known = list(figures)
    return None if None in known else sum(figure or 0 for figure in known)


def session_of(event: Event) -> str | None:
    return text_at(event, "sessionId") or None


def begins_session(event: Event) -> bool:
    """The id is shown at the end only; from the prompt on there is a session to go on in."""
    return text_at(event, "type") == "user.message"


def pieces_of(event: Event) -> list[Piece]:
    data = map_at(event, "data")
    call = text_at(data, "toolCallId")
    match text_at(event, "type"):
        case "assistant.message_delta":
            return [Piece("said", text_at(data, "deltaContent"), is_delta=True)]
        case "assistant.message":
            return [Piece("said", text_at(data, "content"))]
        case "assistant.reasoning_delta":
            return [Piece("thinking", text_at(data, "deltaContent"), is_delta=True)]
        case "assistant.reasoning":
            return [Piece("thinking", text_at(data, "content"))]
        case "session.info" if text_at(data, "infoType").startswith("file_"):
            return []  # the tool that writes the file has told it
        case "session.info" | "session.error":
            is_error = event.get("type") == "session.error"
            return [Piece("note", text_at(data, "message"), is_error=is_error)]
        case "tool.execution_start":
            return [
                call_piece(text_at(data, "toolName"), call, map_at(data, "arguments"), _WRITERS)
            ]
        case "tool.execution_complete":
            text = text_at(data, "error", "message") or text_at(data, "result", "content")
            return [Piece("result", text, call=call, is_error=data.get("success") is False)]
        case _:
            return []


COPILOT = Adapter(
    name="github-copilot",
    program=KnownProgram(
        title="GitHub Copilot",
        executables=("copilot",),
        variable="COPILOT_CLI_PATH",
        places=("~/.local/bin/copilot",),
        install="npm install -g @github/copilot",
    ),
    tried=("1.0.73", "1.0.102"),
    login=Login(
        ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"),
        ("~/.copilot/config.json", "~/.config/gh/hosts.yml"),
        "copilot, then /login",
    ),
    chooses_session=False,
    make_call=make_call,
    parse=parse,
    session_of=session_of,
    session_files=SessionFiles(".copilot", ("session-state/{session}/**/*",)),
    begins_session=begins_session,
    add_usage=add_usage,
    pieces_of=pieces_of,
    take_over=lambda session: ("copilot", f"--resume={session}"),
    permissions=("bypass", "edit", "default", "read-only"),
    own_flags=("-C", "-i", "-p", "-s", "--no-ask-user", "--no-auto-update", "--no-color"),
    # From `copilot help config` of 1.0.102.
    tiers={"haiku": "claude-haiku-5.5", "sonnet": "claude-sonnet-5.5", "opus": "claude-opus-5.5"},
    settings={
        "tools": Setting("names", "the only tools that it has"),
        "allowed_tools": Setting("names", "tools that it may use without permission"),
        "disallowed_tools": Setting("names", "tools that it must not use"),
    },
)
