"""`--cover`: rehearses a recipe again and again until every route was taken; records no run.

Each walk heads for the nearest route that is still to be taken. Conditions are really evaluated:
where one keeps a walk from a route, other values are answered, and what no value leads to is told.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.app.definitions.agents import refuse_unusable
from orchestrate.app.ending.stopping import stoppable
from orchestrate.app.starting.new_run import start_run
from orchestrate.app.starting.stand_ins import with_stand_in
from orchestrate.app.working.carry_out import carry_out
from orchestrate.app.working.reporter import Reporter
from orchestrate.engine.rehearsing import Rehearsal, RehearsedReport, word_of
from orchestrate.errors import UsageError
from orchestrate.plan.calling import label_of_call
from orchestrate.plan.nodes import (
    APPROVED,
    DENIED,
    FAILED,
    OK,
    SKIPPED,
    Abort,
    Ask,
    Call,
    Each,
    Finish,
    Gate,
    Goto,
    Label,
    Leave,
    Node,
    NodeId,
    Plan,
    PlanId,
    Run,
    Wait,
    nodes_in,
    plan_of,
    target_of,
)
from orchestrate.record import record, replace
from orchestrate.state.events import GateDecided, StepFinished
from orchestrate.state.runs import Runs

if TYPE_CHECKING:
    from orchestrate.app.starting.prepare import Prepared
    from orchestrate.engine.stop import Stop
    from orchestrate.plan.nodes import Program
    from orchestrate.state.events import Event
    from orchestrate.state.model import Frame, RunState
    from orchestrate.state.result import StepResult
    from orchestrate.state.store import Store

_MOST_WALKS = 500
# How many sets of values are tried where conditions decide.
_VARIANTS = 12
Place = tuple[PlanId, NodeId]


@record
class Route:
    """An outcome of a step."""

    plan: PlanId
    node: NodeId
    label: Label


@record
class Covered:
    """What came of all walks. `failed`: steps that failed by themselves, and why."""

    walks: int
    taken: tuple[Route, ...]
    missed: tuple[Route, ...]
    failed: tuple[tuple[str, str], ...]


def cover(prepared: Prepared) -> Covered:
    """Walk until every route was taken, or is known to be out of reach."""
    settings = prepared.settings
    for flag in ("script", "detach", "rehearse_commands", "run_step"):
        if settings.is_given(flag):
            raise UsageError(f"--cover and --{flag.replace('_', '-')} exclude each other")
    settings = with_stand_in(prepared.program, settings, Runs(Path()))
    refuse_unusable(prepared.program, prepared.workspace, settings)
    guide = _Guide(prepared.program)
    variants = _VARIANTS if guide.has_conditions else 1
    with stoppable() as stop:
        while guide.walks < _MOST_WALKS and guide.variant < variants and not stop.is_requested:
            before = len(guide.taken)
            _walk(replace(prepared, settings=settings), guide, stop)
            if len(guide.taken) == before:
                guide.give_up()
            if not guide.wanted:
                guide.try_other_values()
            if guide.has_all:
                break
    missed = tuple(route for route in guide.routes if route not in guide.taken)
    taken = tuple(route for route in guide.routes if route in guide.taken)
    return Covered(guide.walks, taken, missed, tuple(guide.failed.items()))


def covered_json(covered: Covered, program: Program) -> dict[str, Any]:
    def shown(routes: tuple[Route, ...]) -> list[dict[str, Any]]:
        return [_route_json(route, program) for route in routes]

    return {
        "walks": covered.walks,
        "taken": shown(covered.taken),
        "missed": shown(covered.missed),
        "failed": [{"step": step, "message": message} for step, message in covered.failed],
    }


def _route_json(route: Route, program: Program) -> dict[str, Any]:
    node = next(n for n in nodes_in(plan_of(program, route.plan)) if n.id == route.node)
    return {
        "file": node.span.file,
        "line": node.span.line,
        "step": route.node,
        "outcome": word_of(route.label),
    }


def _walk(prepared: Prepared, guide: _Guide, stop: Stop) -> None:
    """One rehearsal, in a folder that is thrown away."""
    guide.begin_walk()
    program, workspace, settings = prepared.program, prepared.workspace, prepared.settings
    with tempfile.TemporaryDirectory(prefix="orchestrate-cover-") as folder:
        watcher = _Watcher(guide)
        runs = Runs(Path(folder))
        store = start_run(runs, program, prepared.compilation, workspace, settings, watcher)
        rehearsal = Rehearsal(choose=guide.choose, variant=guide.variant)
        try:
            carry_out(store, program, workspace, settings, watcher, stop, rehearsal=rehearsal)
        finally:
            store.close()


class _Watcher(Reporter):
    """Sees which routes a walk takes."""

    def __init__(self, guide: _Guide) -> None:
        super().__init__()
        self._guide = guide
        self._plans: dict[str, PlanId] = {}
        # The calls that are open, by the frames of what they call: who called, and at which node.
        self._calls: dict[str, tuple[Frame, NodeId]] = {}

    def follow(self, store: Store, stop: Stop) -> Callable[[], None]:  # noqa: ARG002
        store.listeners.append(self._hear)
        self._learn(store.state)
        return lambda: None

    def _learn(self, state: RunState) -> None:
        self._plans |= {key: frame.plan for key, frame in state.frames.items()}
        self._plans[state.root.key] = state.root.plan
        for key, frame in state.frames.items():
            caller = frame.parent
            if caller is not None and caller.here is not None and not frame.is_iteration:
                self._calls[key] = (caller, caller.here.node)

    def _hear_ends(self, state: RunState) -> None:
        """A call that is over has gone the way of its result."""
        for key in [key for key in self._calls if key not in state.frames]:
            caller, node = self._calls.pop(key)
            self._guide.has_returned((caller.plan, node), caller.steps)

    def _hear(self, event: Event, state: RunState) -> None:
        if isinstance(event, StepFinished):
            route = Route(self._plans[event.frame], event.node, event.label)
            self._guide.has_taken(route, event.result.message)
        elif isinstance(event, GateDecided):
            label = APPROVED if event.decision == "approved" else DENIED
            self._guide.has_taken(Route(self._plans[event.frame], event.node, label))
        self._hear_ends(state)
        self._learn(state)


class _Guide:
    """Leads walks to the routes that are still to be taken."""

    def __init__(self, program: Program) -> None:
        self.nodes: dict[Place, Node] = {
            (plan.id, node.id): node for plan in program.plans for node in nodes_in(plan)
        }
        self.callers: dict[PlanId, list[tuple[Place, Call]]] = {}
        for place, node in self.nodes.items():
            if isinstance(node.op, Call) and isinstance(node.op.plan, str):
                self.callers.setdefault(node.op.plan, []).append((place, node.op))
        self.ways = {
            place: _ways(program, self.nodes, place, node) for place, node in self.nodes.items()
        }
        self.routes = tuple(
            Route(*place, label)
            for place, node in self.nodes.items()
            for label in (*_choices(node), *((SKIPPED,) if node.guard or node.stage_guard else ()))
        )
        self.has_conditions = any(
            node.guard or node.stage_guard or (isinstance(node.op, Each) and node.op.rounds)
            for node in self.nodes.values()
        )
        self.taken: set[Route] = set()
        self.given_up: set[Route] = set()
        self.failed: dict[str, str] = {}
        self.aim: Route | None = None
        self.chosen: dict[Place, Label] = {}
        self.variant = 0
        self.walks = 0

    @property
    def wanted(self) -> set[Route]:
        return set(self.routes) - self.taken - self.given_up

    @property
    def has_all(self) -> bool:
        return self.taken >= set(self.routes)

    def begin_walk(self) -> None:
        self.walks += 1
        self.aim = None
        self.chosen = {}

    def give_up(self) -> None:
        """The walk has taken nothing new: what it headed for is out of reach, with these values."""
        self.given_up |= {self.aim} if self.aim is not None else self.wanted

    def try_other_values(self) -> None:
        self.variant += 1
        self.given_up = set()

    def has_taken(self, route: Route, message: str = "") -> None:
        self.taken.add(route)
        is_own = self.chosen.get((route.plan, route.node)) == FAILED
        if route.label == FAILED and not is_own and message:
            node = self.nodes.get((route.plan, route.node))
            if node is None or not isinstance(node.op, Each | Call):
                self.failed.setdefault(route.node, message)

    def has_returned(self, caller: Place, results: Mapping[str, StepResult]) -> None:
        node = self.nodes.get(caller)
        if node is not None and isinstance(node.op, Call) and node.name in results:
            result = results[node.name]
            plain = OK if result.status == "completed" else FAILED
            self.taken.add(Route(*caller, result.outcome or plain))

    def choose(self, plan: Plan, node: Node, visit: int) -> RehearsedReport:  # noqa: ARG002
        """The outcome that leads to the nearest wanted route; as usual where there is none."""
        place = (plan.id, node.id)
        best: tuple[int, Label] | None = None
        wanted = self.wanted
        for label in _choices(node):
            found = self._distance(Route(*place, label), wanted)
            if found is not None and (best is None or found[0] < best[0]):
                best, self.aim = (found[0], label), found[1]
        if best is None:
            return RehearsedReport()
        self.chosen[place] = best[1]
        return RehearsedReport(best[1])

    def _distance(self, first: Route, wanted: set[Route]) -> tuple[int, Route] | None:
        """How many steps it is to a wanted route if this one is taken, and which it is."""
        seen: set[Route] = set()
        waiting = deque([(0, first)])
        while waiting:
            steps, route = waiting.popleft()
            if route in wanted:
                return steps, route
            place = (route.plan, route.node)
            following = (*self.ways.get(place, {}).get(route.label, ()), *self._returns(route))
            new = [one for one in following if one not in seen]
            seen.update(new)
            waiting += [(steps + 1, one) for one in new]
        return None

    def _returns(self, route: Route) -> Iterator[Route]:
        """What the callers of a plan report if this outcome ends it."""
        node = self.nodes[route.plan, route.node]
        match dict(node.routes).get(route.label):
            case Finish(reason, how):
                for place, call in self.callers.get(route.plan, ()):
                    yield Route(*place, label_of_call(call, reason, is_ok=how != "exit-failed"))
            case _:
                pass


def _choices(node: Node) -> tuple[Label, ...]:
    """The outcomes that a rehearsal can give a step."""
    match node.op:
        case Ask(outcomes=outcomes) if outcomes:
            return outcomes
        case Run(exits=exits) if exits:
            return tuple(dict.fromkeys(label for _, label in exits))
        case Gate():
            return (APPROVED, DENIED)
        case Call(outcomes=outcomes) if outcomes:
            return outcomes
        case Ask() | Run() | Wait() | Call():
            # That a failure ends the run is not a route of the author's.
            is_handled = not isinstance(target_of(node, FAILED), Abort) or bool(node.part_of)
            return (OK, FAILED) if is_handled else (OK,)
        case Each():
            return ()


def _ways(
    program: Program, nodes: Mapping[Place, Node], place: Place, node: Node
) -> dict[Label, list[Route]]:
    """What may come behind each outcome of a step: into a loop from any of them, into a call unless
    it is let fail. A failed item ends its loop as failed, unless that goes on after failures."""
    plan = plan_of(program, place[0])
    home = next(block for block in plan.blocks if node in block.nodes)
    inside: list[Route] = []
    if isinstance(node.op, Each):
        body = next(block for block in plan.blocks if block.id == node.op.body)
        inside = _routes_of(nodes, (plan.id, body.entry))
    elif isinstance(node.op, Call) and isinstance(node.op.plan, str):
        called = plan_of(program, node.op.plan)
        inside = _routes_of(nodes, (called.id, called.blocks[0].entry))
    found: dict[Label, list[Route]] = {}
    for label, target in node.routes:
        skips = isinstance(node.op, Call) and label in (FAILED, "failed")
        reached = [] if skips else list(inside)
        match target:
            case Goto(following):
                reached += _routes_of(nodes, (plan.id, following))
            case Leave(ended) if home.owner is not None:
                owner = (plan.id, home.owner)
                loop = nodes[owner].op
                stops = ended == FAILED and isinstance(loop, Each) and loop.stop_on_failure
                reached += _routes_of(nodes, owner, (FAILED,) if stops else None)
            case _:
                pass
        found[label] = reached
    return found


def _routes_of(
    nodes: Mapping[Place, Node], place: Place, only: tuple[Label, ...] | None = None
) -> list[Route]:
    return [
        Route(*place, label) for label, _ in nodes[place].routes if only is None or label in only
    ]
