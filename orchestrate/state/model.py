"""The state of a run: a tree of frames, each with a cursor, that *is* `steps.<Loop>[i].<Step>`.

A frame is one execution of a block: the main block of a plan, one iteration of a loop, or the main
block of a called plan. It has the results of its steps and, at its cursor, the step at work. A loop
at the cursor holds the frames of its open iterations, a call the frame of the called plan.

Only `state/apply.py` changes any of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

from orchestrate.exits import Ending
from orchestrate.plan.nodes import Block as PlanBlock
from orchestrate.plan.nodes import Label, NodeId, Plan, PlanId, Program, Target, nodes_in
from orchestrate.plan.nodes import Node as PlanNode
from orchestrate.record import field, mutable_record, record
from orchestrate.state.address import Address, address_of
from orchestrate.state.item_results import ItemResults
from orchestrate.state.names import AttemptNames, names_of
from orchestrate.state.pending_call import Postponed, Reserved
from orchestrate.state.result import Approval, Costs, Denials, SkippedStep, StepResult
from orchestrate.state.working_time import Unwatched, WorkingTime

Json = Any

# Where the step at a frame's cursor stands:
#   arriving  nothing has happened yet         running  an attempt was announced
#   resting   a retry waits for its time       open     a loop or a call has frames of its own
#   asking    a gate waits for a decision      failed   it ended the run, which may be resumed
#   leaving   the iteration is over but for its item's file
#   lost      its attempts were lost, and a person decides whether there is another one
Phase = Literal["arriving", "running", "resting", "open", "asking", "failed", "leaving", "lost"]


@mutable_record
class Visit:
    """The visit of a step that a frame is at.

    `attempt` counts what was started in this visit, `tries` what counts against the retries.
    `turn` is what an agent's earlier turn in this visit left to go on from.
    """

    node: NodeId
    visit: int
    phase: Phase = "arriving"
    attempt: int = 0
    tries: int = 0
    since: float = 0.0
    rest_until: float = 0.0
    turn: dict[str, Json] = field(default_factory=dict)
    # Of the newest attempt; `since` is the visit's.
    attempt_since: float = 0.0
    # The fields of the `Session` that the agent of this visit was seen in, if the step has its own.
    session: dict[str, Json] = field(default_factory=dict)
    # The last turn in the session has no end: the next one is told so.
    is_cut_off: bool = False
    # How many attempts in a row were lost since the run was last started or resumed.
    losses: int = 0
    # The executor that runs the program of the newest attempt.
    where: str = "local"
    # A digest of what the newest attempt was asked; in sessions the next turn depends on it.
    key: str = ""
    # Of an attempt that an edit has taken over: the frame and visit that its address names.
    origin: list[Json] | None = None
    # What is set aside for the newest or next call.
    reserved: Reserved = Reserved()
    # What the visit has used since the run was last started or resumed: dollars and tokens.
    used: list[float] = field(default_factory=lambda: [0.0, 0])
    # What the next call waits for.
    waits: Postponed = Postponed()


@mutable_record
class Loop:
    """An opened loop. `open` has the frames of iterations at work, `done` the results of others."""

    node: NodeId
    name: str
    items: list[Json]
    next_index: int = 0
    open: dict[int, Frame] = field(default_factory=dict)
    done: ItemResults = field(default_factory=ItemResults)
    values: dict[int, Json] = field(default_factory=dict)
    failed: list[int] = field(default_factory=list)
    # Set when a failed item ends the loop: nothing new starts.
    is_stopping: bool = False
    is_closed: bool = False
    # The pool whose machines take the items; and how the loop ends once their changes are merged.
    spread: str = ""
    label: Label = ""

    @property
    def is_spent(self) -> bool:
        return self.next_index >= len(self.items)


@mutable_record
class Frame:
    """One execution of a block. `key` is unique in the run, also over repeated visits."""

    key: str
    plan: PlanId
    block: str
    parent: Frame | None = None
    # In a called plan: the name of the step that calls it, and when it began.
    owner: str = ""
    began: float = 0.0
    # In an iteration: the position and item. In a called plan: None.
    index: int | None = None
    item: Json = None
    total: int = 0
    variable: str = ""
    # Context and outputs of a plan; the frames of its iterations share those of the plan's frame.
    variables: dict[str, Json] = field(default_factory=dict)
    steps: dict[str, StepResult] = field(default_factory=dict)
    visits: dict[NodeId, int] = field(default_factory=dict)
    # The loops that were opened, by node; one that is closed stays for its results.
    loops: dict[NodeId, Loop] = field(default_factory=dict)
    here: Visit | None = None
    call: Frame | None = None
    # How an iteration that is leaving ends, and where the frame that it jumped out to goes on.
    label: Label = ""
    then: Target | None = None
    lifecycle: dict[str, Json] | None = None
    moving: list[Json] | None = None
    # What was said with the last approval in this plan.
    approval: str | None = None
    # The fields of the `Session`s that steps share by name, in this plan or parallel item.
    sessions: dict[str, dict[str, Json]] = field(default_factory=dict)
    # How many steps of a plan have begun, those of plans that it calls included.
    count: int = 0
    # Of a called plan: what its agents have used, how often one was asked, and how long the run had
    # worked before it.
    costs: Costs = Costs()
    # What a plan gave in the end, and why its other outputs have no value.
    outputs: dict[str, Json] | None = None
    undefined: dict[str, str] = field(default_factory=dict)
    calls: int = 0
    worked_before: float = 0.0
    # After an edit: the first node that ran anew, with its visit; whatever follows it does, too.
    anew: str = ""
    # Of a called plan: the pool of which a machine has taken it, and, until what it has changed is
    # merged, the reason that it ended with.
    spread: str = ""
    merges: list[str] = field(default_factory=list)
    # The files that have conflict markers since what other machines have changed was merged.
    conflicts: list[str] = field(default_factory=list)
    # Where circles without progress end the run: the turns of agents (`state/progress`).
    turns: list[list[Json]] = field(default_factory=list)

    @property
    def is_iteration(self) -> bool:
        return self.index is not None


@mutable_record
class Session:
    """An agent's session: a machine run's, or that of one visit of a step.

    `is_created`: it was seen, and the next turn resumes it.
    """

    id: str | None = None
    is_created: bool = False
    # Whose session it is: no other agent can go on in it. '' if it was given from outside.
    agent: str = ""
    # The last running totals that the agent reported for it.
    totals: dict[str, Any] = field(default_factory=dict)
    # Did this run begin it? Then all that it has used is this run's.
    is_own: bool = False
    # The key of the last turn that stands, and the last edit that the agent was told of.
    turn: str = ""
    told: int = 0
    # The session of the forked run that this one is to begin as a copy of, and whether it can.
    fork_of: str = ""
    is_forkable: bool = True


@mutable_record
class RunState:
    """Everything that is known about a run."""

    run_id: str
    workspace: str
    definition: str
    dialect: str
    schema_version: str
    checksum: str
    sources: dict[str, str]
    settings: dict[str, Json]
    version: str
    started_at: float
    updated_at: float
    root: Frame
    # Every live frame by its key.
    frames: dict[str, Frame] = field(default_factory=dict)
    status: Literal["running", "paused", "completed", "failed", "cancelled"] = "running"
    reason: str | None = None
    completed_at: float | None = None
    # When the last sitting ended, as long as no other has begun.
    stopped_at: float | None = None
    # What the plan has led to; the run ends with it once nothing runs any more.
    ending: Ending | None = None
    # A plan to start in a new session.
    restart: PlanId | None = None
    seq: int = 0
    # Up to which event the journal was synced: no crash can take one of those.
    synced: int = 0
    # How the run tells the time (`state/clock.py`).
    clock: list[Json] | None = None
    # Where the run's folder lies (`execute/place`): a copy lies elsewhere.
    place: str = ""
    steps_run: int = 0
    restarts: int = 0
    has_failures: bool = False
    session: Session = field(default_factory=Session)
    costs: Costs = field(default_factory=Costs)
    # How often an agent was asked, ended or not.
    calls: int = 0
    # The limits that this sitting has come near to.
    near: list[str] = field(default_factory=list)
    worked: WorkingTime = WorkingTime()
    unwatched: Unwatched = Unwatched()
    # Tool calls that permissions refused, by step and tool, over all visits and restarts.
    denials: Denials = ()
    approvals: list[Approval] = field(default_factory=list)
    skipped: list[SkippedStep] = field(default_factory=list)
    machine_started: float = 0.0
    # Of a machine (A §2.5): the step last entered, and how often each was asked for its outcome
    # again in its newest visit.
    current: NodeId = ""
    retry_counts: dict[NodeId, int] = field(default_factory=dict)
    # How often each step was visited before the last restart.
    earlier_visits: dict[NodeId, int] = field(default_factory=dict)
    # Plans that were compiled on the way: the checksums of their files.
    late: dict[PlanId, dict[str, str]] = field(default_factory=dict)
    # How often the definition was edited, or steps were to be done again; how many results the last
    # edit took over, what those had cost, where that is known, and how long they had taken.
    edit: int = 0
    reused: int = 0
    saved_usd: float | None = None
    saved_ms: int = 0
    # The git worktree that the run works in, as it was started with (`state/worktree`).
    worktree: dict[str, Json] | None = None
    # The run that this one is a fork of (`state/lineage`).
    forked: dict[str, Json] | None = None
    # The newest checkpoint of the workspace, as JSON.
    checkpoint: dict[str, Json] = field(default_factory=dict)

    @property
    def pending(self) -> list[Approval]:
        """The gates that wait for a decision, oldest first."""
        return [gate for gate in self.approvals if gate.status == "pending"]


@record
class NodePlace:
    """A node with what stands around it."""

    plan: Plan
    block: PlanBlock
    node: PlanNode


Find = Callable[[PlanId], Plan]
# The program after so many edits, and how plans are found there that are not in it.
Edits = Callable[[int], tuple[Program, Find | None]]


class Index:
    """Finds nodes and blocks of a program by id.

    `find` compiles plans that are not in the program: those whose path is a template (B).
    """

    def __init__(
        self,
        program: Program,
        find: Find | None = None,
        edit: int = 0,
        edits: Edits | None = None,
    ) -> None:
        self.program = program
        self.edit = edit
        self._edits = edits
        # Told of every move: the plan, the node that was left, its label, and where that leads.
        self.hear_move: Callable[[PlanId, NodeId, Label, Target], None] | None = None
        self._find = find
        self._plans: dict[PlanId, Plan] = {plan.id: plan for plan in program.plans}
        self._places: dict[PlanId, dict[NodeId, NodePlace]] = {}
        self._blocks: dict[PlanId, dict[str, PlanBlock]] = {}
        self._twins: frozenset[str] | None = None

    def find_with(self, find: Callable[[PlanId], Plan]) -> None:
        """Say how plans are found that are not in the program, once the run has its folder."""
        self._find = find

    def learn_edit(self, edit: int, program: Program, find: Find | None) -> None:
        """Know what the run is made of after one more edit."""
        earlier = self._edits

        def known(number: int) -> tuple[Program, Find | None]:
            if number == edit or earlier is None:
                return program, find
            return earlier(number)

        self._edits = known

    def copied(self) -> Index:
        return Index(self.program, self._find, self.edit, self._edits)

    def turn_to(self, edit: int) -> None:
        """Find what the run was made of after so many edits, from now on."""
        if edit == self.edit:
            return
        if self._edits is None:
            raise KeyError(f"edit {edit}")
        self.program, self._find = self._edits(edit)
        self.edit = edit
        self._plans = {plan.id: plan for plan in self.program.plans}
        self._places, self._blocks, self._twins = {}, {}, None

    def plan(self, plan_id: PlanId) -> Plan:
        plan = self._plans.get(plan_id)
        if plan is None:
            if self._find is None:
                raise KeyError(plan_id)
            plan = self._plans[plan_id] = self._find(plan_id)
            self._twins = None
        return plan

    @property
    def twins(self) -> frozenset[str]:
        """Names of steps that differ in nothing but upper and lower case."""
        if self._twins is None:
            spellings: dict[str, set[str]] = {}
            for plan in self._plans.values():
                for node in nodes_in(plan):
                    spellings.setdefault(node.name.casefold(), set()).add(node.name)
            several = (names for names in spellings.values() if len(names) > 1)
            self._twins = frozenset(name for names in several for name in names)
        return self._twins

    def place(self, plan_id: PlanId, node_id: NodeId) -> NodePlace:
        places = self._places.get(plan_id)
        if places is None:
            plan = self.plan(plan_id)
            places = {
                node.id: NodePlace(plan, block, node)
                for block in plan.blocks
                for node in block.nodes
            }
            self._places[plan_id] = places
        return places[node_id]

    def block(self, plan_id: PlanId, block_id: str) -> PlanBlock:
        blocks = self._blocks.get(plan_id)
        if blocks is None:
            blocks = {block.id: block for block in self.plan(plan_id).blocks}
            self._blocks[plan_id] = blocks
        return blocks[block_id]

    def here(self, frame: Frame) -> NodePlace:
        """The place of the step at a frame's cursor."""
        assert frame.here is not None
        return self.place(frame.plan, frame.here.node)


def visit_of(here: Visit) -> str:
    return f"{here.node}:{here.visit}"


def mark_anew(frame: Frame) -> None:
    """After an edit the step at the cursor runs anew: so does all that follows it in its sequence,
    and in those around it."""
    inner: Frame | None = frame
    while inner is not None and not inner.anew and inner.here is not None:
        inner.anew = visit_of(inner.here)
        inner = inner.parent


def attempt_address(frame: Frame, here: Visit, name: str, attempt: int) -> Address:
    """The attempt of a visit; one that an edit has taken over keeps the name that it has."""
    key, visit = here.origin or (frame.key, here.visit)
    return address_of(key, name, visit, attempt)


def attempt_names(
    frame: Frame, here: Visit, name: str, attempt: int, twins: frozenset[str] = frozenset()
) -> AttemptNames:
    """What the attempt at `attempt_address` is called."""
    key, visit = here.origin or (frame.key, here.visit)
    return names_of(key, name, visit, attempt, twins)


def plan_frame(frame: Frame) -> Frame:
    """The frame of the plan that a frame belongs to: itself, or that around its loops."""
    while frame.is_iteration:
        assert frame.parent is not None
        frame = frame.parent
    return frame


def open_loop(frame: Frame) -> Loop | None:
    """The loop at the cursor, if it is open."""
    if frame.here is None or frame.here.phase != "open":
        return None
    loop = frame.loops.get(frame.here.node)
    return loop if loop is not None and not loop.is_closed else None


def frames_below(frame: Frame) -> Iterator[Frame]:
    """The frame and every live frame under it, outer ones first."""
    yield frame
    if frame.call is not None:
        yield from frames_below(frame.call)
    loop = open_loop(frame)
    if loop is not None:
        for inner in list(loop.open.values()):
            yield from frames_below(inner)


def depth_of(frame: Frame) -> int:
    """How many plans deep a frame is; the main one is 1 (rulings §8)."""
    depth = 1
    outer = plan_frame(frame)
    while outer.parent is not None:
        depth += 1
        outer = plan_frame(outer.parent)
    return depth


def plan_stack(frame: Frame) -> list[PlanId]:
    """The plans that are being run, outermost first, for messages."""
    outer = plan_frame(frame)
    stack = [outer.plan]
    while outer.parent is not None:
        outer = plan_frame(outer.parent)
        stack.append(outer.plan)
    return stack[::-1]
