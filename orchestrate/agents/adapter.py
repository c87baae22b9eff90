"""An agent that is a program: its adapter says how it is called and what its output means.

An adapter is a table with a few small functions (`claude.py` is the one to read first). What all
programs have in common is here: refusing what cannot work before anything starts, and judging what
happened. A reply is an answer only if the program ended with 0, said itself that it was done, gave
a text, and was not ended by us (docs/reference/agents.md): each of these alone was seen to lie.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrate.agent_flags import OWN_FIELDS, flag_of_ours
from orchestrate.agents.base import (
    Failure,
    FailureKind,
    Finished,
    Invocation,
    Permissions,
    Question,
    Reply,
    RunProgram,
    Used,
)
from orchestrate.agents.failures import failure_of, reason_in, stderr_tail
from orchestrate.agents.finding import KnownProgram, Missing, find_program, missing_failure
from orchestrate.agents.parse import Event, events_in, one_line, read_events
from orchestrate.agents.settings import (
    TIERS,
    Setting,
    is_word,
    names_of,
    permission_fault,
    setting_faults,
)
from orchestrate.agents.transcript import Piece
from orchestrate.agents.versions import version_numbers
from orchestrate.record import field, record, replace
from orchestrate.regex import regex

_SESSION_ID = regex(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}\Z")
_SESSION_IN_FIRST = 256 * 1024
_HALF_CHARACTERS = regex("[\ud800-\udfff]")
# One argument may have 128 KiB on Linux; the prompt never is one, but a system prompt may be.
_LONGEST_ARGUMENT = 131_071


@record
class ProgramTurn:
    """A question with its settings read: what an adapter makes a call from."""

    question: Question
    # What a tier or a name came to; None is the program's own default.
    model: str | None
    tier: str | None
    permissions: Permissions

    @property
    def prompt(self) -> str:
        return self.question.prompt

    @property
    def instructed_prompt(self) -> str:
        """The prompt, after the system prompt on the first turn: for programs without a flag.

        It is repeated after a turn that was cut off, which may have taken it along.
        """
        question = self.question
        is_due = question.is_new_session or question.is_after_cut
        if question.system_prompt and is_due and question.prompt:
            return f"{question.system_prompt}\n\n{question.prompt}"
        return question.prompt

    @property
    def session(self) -> str:
        return self.question.session or ""

    def names(self, setting: str) -> tuple[str, ...] | None:
        """A list of names among the settings; None if it is not set, () if it is empty."""
        value = self.question.settings.get(setting)
        return None if value is None else names_of(value)

    def can(self, since: tuple[int, ...]) -> bool:
        """Is the program as new as the one that something was tried with?"""
        return version_numbers(self.question.version) >= since

    def text(self, setting: str) -> str:
        """A setting as an argument, or ''."""
        value = self.question.settings.get(setting)
        return "" if value is None else str(value)


@record
class ProgramCall:
    """How a program is to be called for one turn."""

    arguments: tuple[str, ...]
    stdin: str
    # Added to the environment; None takes a variable away.
    environment: Mapping[str, str | None] = field(default_factory=dict)
    # Arguments that are not shown to people, and what is shown instead.
    hidden: Mapping[str, str] = field(default_factory=dict)
    # What the program's first start makes. Until it is there, only one may start.
    made_first: Path | None = None


@record
class Parsed:
    """What a program's output says. `failure` is what the program itself says went wrong."""

    text: str = ""
    is_done: bool = False
    failure: Failure | None = None
    # What it was doing when its output ended, for a program that never came to an end.
    note: str = ""
    session: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    tokens_count_up: bool = False
    cost_counts_up: bool = False
    denied: tuple[str, ...] = ()
    # What a sandbox has stopped, if there was one: the output alone does not tell.
    sandboxed: tuple[str, ...] = ()


@record
class Login:
    """Where a program has its key or login: variables, and files it keeps (`~` is the home)."""

    variables: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    # The command with which a person logs in.
    command: str = ""


@record
class SessionFiles:
    """Which files are a session, below the program's own folder: `{session}` is its id, `{start}`
    the first eight characters of that. `variable` names the folder, else it is in the home folder.
    """

    home: str
    patterns: tuple[str, ...]
    variable: str = ""


@record
class Adapter:
    """Everything we know about one agent program."""

    name: str
    program: KnownProgram
    # Does the program make up session ids?
    chooses_session: bool
    make_call: Callable[[ProgramTurn], ProgramCall]
    # The output's meaning; the number is the time, for failures that say when to come back.
    parse: Callable[[Iterable[Event], float], Parsed]
    session_of: Callable[[Event], str | None]
    # What an event tells people (`transcript.py`).
    pieces_of: Callable[[Event], list[Piece]]
    take_over: Callable[[str], tuple[str, ...]]
    permissions: tuple[Permissions, ...]
    # The model that it is told where no step names one; None leaves it to the program.
    default_model: Callable[[Mapping[str, str], Path], str | None] = lambda _environment, _: None
    tiers: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Setting] = field(default_factory=dict)
    # Flags of its own that are ours to set, besides those that any program may have.
    own_flags: tuple[str, ...] = ()
    # What exit codes of its own mean when the output says nothing.
    exit_kinds: Mapping[int, FailureKind] = field(default_factory=dict)
    # In bytes. A program that cuts off what is longer would answer half a question.
    longest_prompt: int = 8 << 20
    # Adds what the program wrote to `Question.usage_file`; None for those that print their usage.
    add_usage: Callable[[Parsed, Event], Parsed] | None = None
    # Which event shows that the session is there, in programs that do not name it at once.
    begins_session: Callable[[Event], bool] = lambda _: False
    # What an event tells of the tokens that a message has taken, in programs that tell at once.
    used_of: Callable[[Event], Used | None] = lambda _: None
    # Is the session's file there, with the environment that the program has?
    has_session: Callable[[str, Mapping[str, str]], bool] = lambda _session, _environment: False
    # What has to travel so that the session goes on on another machine; None where that is unknown.
    session_files: SessionFiles | None = None
    # Does it take `Question.fork_of`, from any folder?
    forks_sessions: bool = False
    # Why its behaviour is known from documentation only.
    untried: str = ""
    # Which tool calls it is refused without that its output tells so; they cannot be counted.
    untold_denials: str = ""
    # The versions that were tried, oldest first.
    tried: tuple[str, ...] = ()
    login: Login = Login()


class ProgramAgent:
    """The seam's `Agent` for any adapter."""

    is_program = True
    asks_person = False

    def __init__(self, adapter: Adapter, clock: Callable[[], float] = time.time) -> None:
        self.adapter = adapter
        self._clock = clock

    @property
    def name(self) -> str:
        return self.adapter.name

    @property
    def chooses_session(self) -> bool:
        return self.adapter.chooses_session

    @property
    def forks_sessions(self) -> bool:
        return self.adapter.forks_sessions

    def ask(self, question: Question, run: RunProgram) -> Reply:
        adapter = self.adapter
        question = replace(
            question,
            prompt=_whole_characters(question.prompt),
            system_prompt=_whole_characters(question.system_prompt or "") or None,
        )
        refusal = refuse(adapter, question)
        if refusal is not None:
            return Reply(failure=Failure("invalid-request", refusal))
        asked = read_settings(adapter, question)
        call = adapter.make_call(asked)
        call = replace(call, arguments=_with_more(call.arguments, question.settings))
        if fault := _argument_fault(call) or _size_fault(adapter, call.stdin):
            return Reply(failure=Failure("invalid-request", fault))
        found = find_program(adapter.program, question.environment)
        # A missing program is "started" too: an earlier orchestrator may have started it while it
        # was there, and then it must be adopted.
        path = found.expected if isinstance(found, Missing) else found
        finished = run(_invocation(path, call, question.environment))
        events = read_events(finished.stdout, finished.go_on)
        parsed = adapter.parse(events, self._clock())
        if adapter.add_usage is not None and question.usage_file is not None:
            for usage in read_events(question.usage_file):
                parsed = adapter.add_usage(parsed, usage)
        failure = _failure(adapter, finished, parsed, self._clock())
        if finished.start_error and isinstance(found, Missing):
            failure = missing_failure(found)
        return Reply(
            text=parsed.text if failure is None else "",
            failure=failure,
            session=parsed.session or self._session(question, finished, failure),
            model=parsed.model or (_named_model(asked) if failure is None else None),
            input_tokens=parsed.input_tokens,
            output_tokens=parsed.output_tokens,
            cost_usd=parsed.cost_usd,
            tokens_count_up=parsed.tokens_count_up,
            cost_counts_up=parsed.cost_counts_up,
            denied=parsed.denied + (parsed.sandboxed if asked.permissions != "bypass" else ()),
        )

    def _session(
        self, question: Question, finished: Finished, failure: Failure | None
    ) -> str | None:
        """The session that a turn was in whose output does not name it."""
        if failure is None:
            return _known_session(self.adapter, question)
        if finished.start_error or failure.kind == "session" or question.session is None:
            return None
        if not question.is_new_session or self.has_session(question.session, question.environment):
            return question.session
        with suppress(OSError), finished.stdout.open("rb") as output:
            return self.session_in(output.read(_SESSION_IN_FIRST), question.session)
        return None

    def session_in(self, output: bytes, asked: str | None = None) -> str | None:
        for event in events_in(output):
            if session := self.adapter.session_of(event):
                return session
            if asked is not None and self.adapter.begins_session(event):
                return asked
        return None

    def used_in(self, output: bytes) -> list[Used]:
        told = map(self.adapter.used_of, events_in(output))
        return [used for used in told if used is not None]

    def has_session(self, session: str, environment: Mapping[str, str]) -> bool:
        is_id = _SESSION_ID.match(session) is not None
        return is_id and self.adapter.has_session(session, environment)

    def takeover(self, session: str) -> tuple[str, ...] | None:
        return self.adapter.take_over(session) if _SESSION_ID.match(session) else None


def _whole_characters(text: str) -> str:
    """Half of a character is none, and no program could be sent it."""
    return _HALF_CHARACTERS.sub("\ufffd", text)


def read_settings(adapter: Adapter, question: Question) -> ProgramTurn:
    """What the step says for itself wins over what holds for the run."""
    settings = question.settings
    wanted = settings.get("model") or question.model
    tier = wanted if wanted in TIERS else None
    model = {**adapter.tiers, **settings.get("models", {})}.get(tier) if tier else wanted
    return ProgramTurn(question, model, tier, settings.get("permissions") or question.permissions)


def step_faults(
    adapter: Adapter, settings: Mapping[str, Any], permissions: Permissions
) -> tuple[str, ...]:
    """Why a program cannot be asked like this, known before anything starts."""
    title = adapter.program.title
    faults = setting_faults(title, adapter.settings, adapter.permissions, settings)
    faults += tuple(_argument_faults(adapter, settings.get("agent_args")))
    if permissions not in adapter.permissions and "permissions" not in settings:
        faults += (permission_fault(title, adapter.permissions, permissions),)
    return faults


def _argument_faults(adapter: Adapter, arguments: Any) -> Iterator[str]:
    """Arguments of the author's that would change what we hold the program to."""
    title = adapter.program.title
    for argument in map(str, arguments if isinstance(arguments, list | tuple) else ()):
        own = flag_of_ours(argument, adapter.own_flags)
        # Codex takes its settings one by one: `-c sandbox_mode=...`.
        key = argument.removeprefix("--config=").removeprefix("-c").partition("=")[0]
        if own or key in adapter.own_flags:
            yield f"'{own or key}' of {title} is set by orchestrate: {OWN_FIELDS}"


def refuse(adapter: Adapter, question: Question) -> str | None:
    """Why the question cannot be asked at all."""
    title = adapter.program.title
    if faults := step_faults(adapter, question.settings, question.permissions):
        return "; ".join(faults)
    if question.model is not None and not is_word(question.model):
        return f"{question.model!r} is not a model name"
    # An empty prompt passes: it may stand for one that was sent before the orchestrator was killed
    # and cannot be made again. Programs that are really given an empty one refuse it themselves.
    if question.prompt.isspace():
        return f"the prompt for {title} is blank"
    if fault := _size_fault(adapter, question.prompt):
        return fault
    has_session = question.session is not None or (
        adapter.chooses_session and question.is_new_session
    )
    if not has_session:
        return f"{title} needs a session id"
    if question.session is not None and not _SESSION_ID.match(question.session):
        return f"{question.session!r} is not a session id"
    return None


def _size_fault(adapter: Adapter, prompt: str) -> str:
    """Escapes can make a prompt longer than it was written."""
    size, most = len(prompt.encode("utf-8")), adapter.longest_prompt
    title = adapter.program.title
    return f"the prompt has {size} bytes, and {title} takes {most} at most" if size > most else ""


def _known_session(adapter: Adapter, question: Question) -> str | None:
    """The session's id when the output does not show it."""
    is_made_up = adapter.chooses_session and question.is_new_session
    return None if is_made_up else question.session


def _named_model(turn: ProgramTurn) -> str | None:
    """The model by the name that a program was given, where it does not say which one answered.

    A tier is not a name: only the program knows its model.
    """
    return None if turn.model in TIERS else turn.model


def _argument_fault(call: ProgramCall) -> str | None:
    """Only a system prompt can be at fault: other settings were looked at."""
    for argument in call.arguments:
        if "\0" in argument:
            return "the system prompt contains a NUL character"
        if len(argument.encode("utf-8")) > _LONGEST_ARGUMENT:
            return f"the system prompt is longer than {_LONGEST_ARGUMENT} bytes"
    return None


def _with_more(arguments: tuple[str, ...], settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The author's arguments come behind the subcommand and before ours, which win."""
    place = 1 if arguments and not arguments[0].startswith("-") else 0
    return (*arguments[:place], *(settings.get("agent_args") or ()), *arguments[place:])


def _invocation(path: Path, call: ProgramCall, environment: Mapping[str, str]) -> Invocation:
    whole = dict(environment)
    for name, value in call.environment.items():
        if value is None:
            whole.pop(name, None)
        else:
            whole[name] = value
    return Invocation(
        argv=(str(path), *call.arguments),
        environment=whole,
        stdin=call.stdin.encode("utf-8"),
        shown=(str(path), *(call.hidden.get(argument, argument) for argument in call.arguments)),
        made_first=call.made_first,
    )


def _failure(adapter: Adapter, finished: Finished, parsed: Parsed, now: float) -> Failure | None:
    """Why this is not an answer, or None if it is one."""
    title = adapter.program.title
    last = f"; the last of it was: {one_line(parsed.note)}" if parsed.note else ""
    if finished.start_error:
        return Failure("not-installed", f"{title} cannot be started: {finished.start_error}")
    if finished.is_over_budget:
        return Failure("budget", f"{title} used more than it may, and was ended{last}")
    if finished.stopped:
        return Failure("stopped", f"{title} was ended: {finished.stopped}{last}")
    if finished.timed_out:
        return Failure("timeout", f"{title} exceeded its time limit and was ended{last}")
    if finished.fell_silent:
        return Failure("silent", f"{title} was silent for too long and was ended{last}")
    if parsed.failure is not None:
        return parsed.failure
    if finished.signal is not None:
        return Failure("crash", f"{title} was killed by {_signal_name(finished.signal)}{last}")
    if finished.code != 0:
        complaint = stderr_tail(finished.stderr)
        reason = reason_in(complaint) or parsed.note
        kind = adapter.exit_kinds.get(finished.code or 0)
        found = failure_of(reason, now, kind=kind)
        return replace(
            found, message=f"{title} ended with exit code {finished.code}: {found.message}"
        )
    if not parsed.is_done:
        return Failure("crash", f"{title} ended before it was done{last}")
    if not parsed.text.strip():
        return Failure("empty", f"{title} gave an empty answer{last}")
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
