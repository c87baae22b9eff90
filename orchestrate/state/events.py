"""What can happen in a run. Events are the only thing that changes a `RunState` (`state/apply.py`).

`frame` is the address of the frame an event belongs to (`state/model.py`), `at` the wall clock in
seconds since 1970. On the disk an event is one JSON object: its name under `on`, then its fields
without those that have their default value.
"""

from __future__ import annotations

from typing import Any, Literal

from orchestrate.exits import Ending, EndKind, EndStatus, older_end
from orchestrate.record import defaults_of, field, record
from orchestrate.state import call_events
from orchestrate.state.address import Address, Called, FrameKey, name_of_node
from orchestrate.state.checkpoint_events import Checkpointed as Checkpointed  # noqa: PLC0414 - one of them
from orchestrate.state.result import AttemptEnd, StepResult

Json = Any
Key = dict[str, Json]
CostReserved = call_events.CostReserved
CallWaits = call_events.CallWaits
LimitNear = call_events.LimitNear
SessionSeen = call_events.SessionSeen
SessionChosen = call_events.SessionChosen


@record
class RunStarted:
    """The first event of a run; with it alone the state can be built from nothing."""

    at: float
    run_id: str
    workspace: str
    definition: str
    plan: str
    dialect: str
    schema_version: str
    checksum: str
    sources: dict[str, str]
    context: dict[str, Json]
    settings: dict[str, Json]
    version: str
    # The agent session that a machine starts in.
    session: str | None = None
    has_session: bool = False
    # The commit that the workspace's repository stands at; '' if that is not known.
    head: str = ""
    # How the run tells the time (`state/clock.py`).
    clock: list[Json] | None = None
    # Where the run's folder lies (`execute/place`).
    place: str = ""
    # Where the run works, if that is a git worktree of its own (`state/worktree`).
    worktree: dict[str, Json] | None = None
    # The run that this one is a fork of (`state/lineage`).
    forked: dict[str, Json] | None = None


@record
class RunResumed:
    """A run is resumed; a failed step stands at its beginning again."""

    at: float
    settings: dict[str, Json] = field(default_factory=dict)
    head: str = ""
    # Only if the machine was started anew meanwhile.
    clock: list[Json] | None = None
    # Only if that is not known, or the folder is a copy: then no session is the run's own any more.
    place: str = ""
    copied: bool = False
    # But those whose files came along with a run that has moved to another machine.
    sessions: list[Json] = field(default_factory=list)
    # Values that were given to what has not finished (`resume --context`).
    context: dict[str, Json] = field(default_factory=dict)


@record
class Edited:
    """The run goes on with another definition, or does some steps again: from its beginning, where
    every result that is still good is taken over (`engine/reuse`).

    `edit` counts these; `edits/N/` has the definition. `redo` and `accept` are paths of results
    (`state/earlier`): to be done again, or good whatever has changed. `given_up` are attempts that
    still ran, each with its executor, and that nothing takes over.
    """

    at: float
    edit: int
    plan: str
    definition: str
    checksum: str
    sources: dict[str, str]
    context: dict[str, Json]
    redo: list[list[str]] = field(default_factory=list)
    accept: list[list[str]] = field(default_factory=list)
    given_up: list[list[str]] = field(default_factory=list)


@record
class StepStarted:
    """An attempt is about to begin; recorded before its program can run."""

    frame: str
    node: str
    visit: int
    attempt: int
    at: float
    # What is known beforehand: the agent, the model, how long the prompt is.
    about: StepResult = StepResult()
    # The executor that runs its program (`execute/base`).
    where: str = "local"
    # What it was asked, by named parts (`engine/keys`); and after an edit why that is asked anew.
    key: Key = field(default_factory=dict)
    why: dict[str, Json] = field(default_factory=dict)
    # An attempt from before an edit that goes on: its frame and visit then.
    origin: list[Json] | None = None


@record
class AttemptEnded:
    """An attempt that is not the last word: it is tried again after `rest_s`, or was stopped.

    `why` is failed (a retry follows), lost, stopped (by a signal: the try does not count), void
    (its output could not be written whole: nor does that try), reminded (the answer had no
    readable outcome, the same session is asked again), no-session (the agent says that there is
    no such session: a new one begins at once), budget (the program has spent what it may), or
    quota (its account's usage limit is reached); after these two it goes on in its session.
    `cut_off`: it was a turn of an agent's session that has no end; the next one is told so.
    `losses` counts those lost in a row; with `waits` a person decides whether there is another one.
    """

    frame: str
    node: str
    visit: int
    attempt: int
    at: float
    why: AttemptEnd
    result: StepResult
    rest_s: float = 0.0
    cut_off: bool = False
    losses: int = 0
    waits: bool = False


@record
class StepFinished:
    """A step's result, and the label that decides where its frame goes on.

    `value` is what the step's `output` variable becomes; it counts only with `has_value`.
    `choice` is a person's decision about a failure (`--on-error interactive`). `cut_off` is as in
    `AttemptEnded`.
    """

    frame: str
    node: str
    visit: int
    at: float
    label: str
    result: StepResult
    value: Json = None
    has_value: bool = False
    choice: Literal["", "continue", "stop"] = ""
    cut_off: bool = False
    # Of a step that was not started: one that was skipped, or whose earlier result still holds.
    key: Key = field(default_factory=dict)
    # What its files were once it was done, by path.
    made: dict[str, str] = field(default_factory=dict)


@record
class LoopOpened:
    """A loop knows its items."""

    frame: str
    node: str
    visit: int
    at: float
    items: list[Json]
    # Of a loop without items: how many rounds there may be.
    most: int | None = None
    key: Key = field(default_factory=dict)
    # The pool whose machines take the items, each as a run of its own.
    spread: str = ""


@record
class RoundEnded:
    """A round of a loop without items is over, and whether another follows; `context` are variables
    that it leaves. An `error` fails the loop."""

    frame: str
    at: float
    goes_on: bool
    context: dict[str, Json] = field(default_factory=dict)
    error: str = ""


@record
class ItemMoving:
    """The file of an item is about to be moved; `file` tells it from any other of that name."""

    frame: str
    at: float
    source: str
    target: str
    file: list[int]


@record
class ItemMoved:
    """What became of an item's file (C 1.2); the iteration ends with it."""

    frame: str
    at: float
    lifecycle: dict[str, Json]


@record
class ItemStopped:
    """An item of a parallel loop was ended because another one failed."""

    frame: str
    at: float


@record
class CallOpened:
    """A sub-recipe begins, with a context of its own."""

    frame: str
    node: str
    visit: int
    at: float
    plan: str
    context: dict[str, Json]
    # The files of a plan that was found by a path the run worked out, with their checksums.
    late: dict[str, str] = field(default_factory=dict)
    key: Key = field(default_factory=dict)
    # The pool of which a machine takes the call, as a run of its own.
    spread: str = ""


@record
class ItemsMerged:
    """What the items of a loop, or a call, have changed on other machines is in the workspace;
    with `conflicts` nothing of it is: these files were changed differently by several. If they are
    `marked`, all of it is there, and these files have conflict markers that an agent resolves."""

    frame: str
    node: str
    visit: int
    at: float
    conflicts: list[str] = field(default_factory=list)
    marked: bool = False


@record
class CallExpired:
    """A call has taken longer than its step allows; what it did is given up."""

    frame: str
    node: str
    visit: int
    at: float
    timeout_s: float


@record
class OutputsGiven:
    """A plan has come to its end, with these outputs; it is over with it. `undefined` says of the
    others why they have no value."""

    frame: str
    at: float
    outputs: dict[str, Json]
    undefined: dict[str, str] = field(default_factory=dict)


@record
class GateOpened:
    """A gate was reached and asks; `expires_at` None waits for ever."""

    frame: str
    node: str
    visit: int
    at: float
    stage: str
    prompt: str
    default: str
    expires_at: float | None = None
    key: Key = field(default_factory=dict)
    # The gate from before an edit whose decision still holds.
    reused: str = ""


@record
class GateDecided:
    """A person, or the clock, has decided about one visit of a gate."""

    frame: str
    node: str
    visit: int
    at: float
    decision: Literal["approved", "denied"]
    by: str
    message: str = ""


@record
class Restarted:
    """A plan starts afresh in a new session (A §3.2)."""

    at: float
    plan: str
    session: str | None


@record
class RunEnded:
    """The run has come to its end, or cannot go on without a person."""

    at: float
    status: EndStatus
    reason: str
    code: int
    head: str = ""
    # '' only in what an earlier version wrote, until it is read.
    kind: EndKind | Literal[""] = ""
    budget: dict[str, Json] = field(default_factory=dict)

    @property
    def ending(self) -> Ending:
        kind = self.kind or older_end(self.status, self.reason, self.code)
        return Ending(self.status, self.reason, self.code, kind, self.budget)


@record
class Gap:
    """Stands for an event that was lost to damage; `resume --repair` went on without it."""


Event = (
    RunStarted | RunResumed | Edited | StepStarted | AttemptEnded | StepFinished | LoopOpened
    | RoundEnded | ItemMoving | ItemMoved | ItemStopped | CallOpened | CallExpired | OutputsGiven
    | GateOpened | GateDecided | SessionSeen | SessionChosen | Restarted | RunEnded | Gap
    | CostReserved | LimitNear | CallWaits | Checkpointed | ItemsMerged
)  # fmt: skip

_KINDS: dict[str, type[Any]] = {
    "run-started": RunStarted,
    "run-resumed": RunResumed,
    "edited": Edited,
    "cost-reserved": CostReserved,
    "limit-near": LimitNear,
    "call-waits": CallWaits,
    "step-started": StepStarted,
    "attempt-ended": AttemptEnded,
    "step-finished": StepFinished,
    "loop-opened": LoopOpened,
    "round-ended": RoundEnded,
    "item-moving": ItemMoving,
    "item-moved": ItemMoved,
    "item-stopped": ItemStopped,
    "items-merged": ItemsMerged,
    "call-opened": CallOpened,
    "call-expired": CallExpired,
    "outputs-given": OutputsGiven,
    "gate-opened": GateOpened,
    "gate-decided": GateDecided,
    "session-seen": SessionSeen,
    "session-chosen": SessionChosen,
    "restarted": Restarted,
    "run-ended": RunEnded,
    "checkpointed": Checkpointed,
    "gap": Gap,
}
# The fields of events that are results, or parts of one.
_RESULTS: dict[type[Any], frozenset[str]] = {
    StepStarted: frozenset({"about"}),
    AttemptEnded: frozenset({"result"}),
    StepFinished: frozenset({"result"}),
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
# What a field is not written for: its default, where it has one.
_DEFAULTS: dict[type[Any], dict[str, Any]] = {kind: defaults_of(kind) for kind in _KINDS.values()}
_DEFAULTS[RunStarted].pop("settings")
for _always in (RunStarted, CallOpened, Edited):
    _DEFAULTS[_always].pop("context")


def run_ended(at: float, ending: Ending, head: str = "") -> RunEnded:
    """The event that records an ending."""
    reason, told = ending.reason, dict(ending.budget)
    return RunEnded(at, ending.status, reason, ending.code, head, ending.kind, told)


def attempt_of(event: StepStarted | AttemptEnded | StepFinished) -> Address:
    """The attempt, or at least the step, that an event is about."""
    if isinstance(event, StepFinished):
        attempt = event.result.attempts if event.result.has("attempts") else None
    else:
        attempt = event.attempt
    return Address(FrameKey.parse(event.frame), name_of_node(event.node), event.visit, attempt)


def is_in_call(event: Event) -> bool:
    """Is it about a step of a plan that another one calls?"""
    return any(
        isinstance(part, Called) for part in FrameKey.parse(getattr(event, "frame", "")).parts
    )


def event_name(event: Event) -> str:
    return _NAMES[type(event)]


def event_to_json(event: Event) -> dict[str, Json]:
    """The event as it is written down."""
    kind: Any = type(event)
    written: dict[str, Json] = {"on": _NAMES[kind]}
    defaults = _DEFAULTS[kind]
    for name in kind.__match_args__:
        value = getattr(event, name)
        if name not in defaults or value != defaults[name]:
            written[name] = value.to_json() if type(value) is StepResult else value
    return written


def event_from_json(written: dict[str, Json]) -> Event:
    """The event again; `ValueError` for what no version of ours can have written."""
    kind = _KINDS.get(written.get("on", ""))
    if kind is None:
        raise ValueError(f"unknown event {written.get('on')!r}")
    fields = {name: value for name, value in written.items() if name != "on"}
    try:
        for name in fields.keys() & _RESULTS.get(kind, frozenset()):
            fields[name] = StepResult.from_json(fields[name])
        made: Event = kind(**fields)
    except TypeError as error:
        raise ValueError(f"event {written['on']!r} does not fit: {error}") from None
    return made
