"""What an edited run would take over and what it would run, found out without running anything.

The steps are walked as the engine walks them, on a state that is thrown away. Where a step has to
run, its sequence is left standing: what it will say is not known.
"""

from __future__ import annotations

from collections.abc import Mapping

from orchestrate.engine.faults import StepFault
from orchestrate.engine.ops.calls import open_call
from orchestrate.engine.ops.frames import leave_item, open_loop
from orchestrate.engine.perform import skip_of
from orchestrate.engine.ready import Task, ready
from orchestrate.engine.reuse import Why, reuse, reuse_move
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.step import Step
from orchestrate.plan.nodes import SKIPPED, Ask, Call, Each, Node, PlanId, Program, nodes_in
from orchestrate.record import field, mutable_record, record
from orchestrate.state.address import name_of_node
from orchestrate.state.apply import apply
from orchestrate.state.earlier import Earlier, EarlierVisit, Path
from orchestrate.state.events import CallOpened, Event, LoopOpened, Restarted, StepStarted
from orchestrate.state.model import Frame, Index, RunState, mark_anew
from orchestrate.state.routing import open_items
from orchestrate.state.runs import Run
from orchestrate.state.sessions import kept_session


class ScratchStore:
    """A state that events change and nothing keeps; stands in for the store."""

    def __init__(self, run: Run, index: Index, state: RunState) -> None:
        self.run = run
        self.index = index
        self.state = state

    def record(self, *events: Event, sync: bool = True) -> None:  # noqa: ARG002
        for event in events:
            apply(self.index, self.state, event)

    def sync(self) -> None:
        """Nothing is kept."""

    def checkpoint(self, *, durable: bool = False, is_due: bool = True) -> None:
        """Nothing is kept."""


@record
class PendingStep:
    """A step that has to run, and why."""

    path: Path
    name: str
    shown: str
    node: Node
    why: Why
    entry: EarlierVisit | None


@mutable_record
class EditPreview:
    """What is taken over, what goes on, what stands to be run, and what comes behind that; `cut`
    are those behind that have begun and have no result. `skipped` are those that had run and do
    not any more; `gone` those that the definition, or the list of their loop, has no more."""

    kept: list[EarlierVisit] = field(default_factory=list)
    adopted: list[EarlierVisit] = field(default_factory=list)
    standing: list[PendingStep] = field(default_factory=list)
    behind: list[EarlierVisit] = field(default_factory=list)
    cut: list[EarlierVisit] = field(default_factory=list)
    skipped: list[EarlierVisit] = field(default_factory=list)
    gone: list[EarlierVisit] = field(default_factory=list)
    # Loops and calls that were looked into.
    entered: set[str] = field(default_factory=set)

    @property
    def saved_usd(self) -> float | None:
        costs = [e.finished.result.cost_usd for e in self.kept if e.finished is not None]
        known = [cost for cost in costs if cost is not None]
        return round(sum(known), 10) if known else None


def preview_edit(rt: Runtime) -> EditPreview:
    """Walk the run as far as earlier results lead."""
    earlier = rt.earlier
    assert earlier is not None
    found = EditPreview()
    state = rt.store.state
    stands: set[str] = set()
    # The items that a loop has now, by its path.
    items: dict[Path, set[Path]] = {}
    while True:
        if state.restart is not None:
            rt.store.record(Restarted(rt.now(), state.restart, None))
        task = next((t for t in ready(state) if t.frame.key not in stands), None)
        if task is None:
            break
        # What is behind a step that runs anew will be seen when that has run.
        events = None if task.frame.anew else _walk(rt, task, found)
        if events is not None:
            rt.store.record(*events)
            for event in events:
                earlier.hear(event)
                if isinstance(event, LoopOpened | CallOpened):
                    found.entered.add(name_of_node(event.node))
                if isinstance(event, LoopOpened):
                    loop = earlier.step_path(event.frame, name_of_node(event.node), event.visit)
                    items[loop] = earlier.item_paths(event)
            continue
        stands.add(task.frame.key)
        if task.frame.here is not None and not task.frame.anew:
            _put_aside(rt, task.frame)
    found.kept += [
        entry
        for path, entry in earlier.entries.items()
        if path in earlier.accept and entry.is_answered and entry not in found.kept
    ]
    met = {entry.path for entry in (*found.kept, *found.adopted, *found.skipped)}
    met |= {standing.path for standing in found.standing}
    left = [e for e in earlier.entries.values() if e.path not in met and e.edit < state.edit]
    answered = [
        entry
        for entry in left
        if (entry.finished and entry.finished.label != SKIPPED) or entry.decided
    ]
    steps = _steps_of(rt.store.index.program)
    for entry in answered:
        is_gone = _is_gone(earlier, entry.path, items, steps)
        (found.gone if is_gone else found.behind).append(entry)
    found.cut = [entry for entry in left if entry.has_begun and not entry.is_answered]
    return found


def _steps_of(program: Program) -> dict[PlanId, frozenset[str]]:
    """The names of the steps of each plan; those of the one that is run are under '', too."""
    names = {
        plan.id: frozenset([name_of_node(node.id) for node in nodes_in(plan)])
        for plan in program.plans
    }
    return names | {"": names[program.main]}


def _is_gone(
    earlier: Earlier,
    path: Path,
    items: Mapping[Path, set[Path]],
    steps: Mapping[PlanId, frozenset[str]],
) -> bool:
    """Is there no such step any more, as far as that can be told before anything has run?"""
    heads = [word.partition("[")[0] for word in path]
    for depth, head in enumerate(heads):
        loop = (*path[:depth], head)
        if loop in items and path[: depth + 1] not in items[loop]:
            return True
    calls = [depth for depth, head in enumerate(heads) if head.endswith("()")]
    within = []
    if ":" in path[0]:  # a run that was restarted may go on with another file
        within.append((steps[""], heads[: calls[0] + 1 if calls else None]))
    if calls and (known := steps.get(earlier.called_plan(path))) is not None:
        within.append((known, heads[calls[-1] + 1 :]))
    return any(step.rpartition(":")[0] not in known for known, inside in within for step in inside)


def _walk(rt: Runtime, task: Task, found: EditPreview) -> list[Event] | None:
    earlier = rt.earlier
    assert earlier is not None
    if task.kind == "move" and not task.frame.is_iteration:
        return leave_item(rt, task.frame)
    if task.kind == "move":
        moved = reuse_move(rt, task.frame)
        node = rt.store.index.here(task.frame.parent).node if task.frame.parent else None
        if moved is None and node is not None and isinstance(node.op, Each) and node.op.rounds:
            return leave_item(rt, task.frame)
        return moved
    if task.kind != "step" or (task.frame.here is not None and task.frame.here.phase == "running"):
        return None
    step = Step(rt, task.frame)
    events = reuse(step)
    # A gate is named by its stage, and has a path of its own.
    path = earlier.step_path(task.frame.key, name_of_node(step.node.id), step.here.visit)
    entry = earlier.entries.get(path)
    if events is not None:
        if entry is not None and entry.is_answered:
            found.kept.append(entry)
        elif entry is not None and isinstance(events[0], StepStarted):
            found.adopted.append(entry)
        return events
    why = step.why
    try:
        skipped = skip_of(step)
        if skipped is not None:
            found.skipped += [entry] if entry is not None else []
            return [skipped]
        if isinstance(step.node.op, Each):
            return [open_loop(step, step.node.op)]
        if isinstance(step.node.op, Call):
            return [open_call(step, step.node.op)]
    except StepFault:
        pass
    shown = step.address.step.shown
    found.standing.append(PendingStep(path, step.node.name, shown, step.node, why, entry))
    return None


def _put_aside(rt: Runtime, frame: Frame) -> None:
    """Let the other items of its loop be looked at: they do not depend on this one."""
    mark_anew(frame)
    index, state = rt.store.index, rt.store.state
    if frame.here is not None and isinstance(op := index.here(frame).node.op, Ask):
        if op.session == "shared":
            state.session.turn = "?"
        elif op.session_name is not None:
            kept_session(index, frame, frame.here)["turn"] = "?"
    inner: Frame | None = frame
    while inner is not None and not inner.is_iteration:
        inner = inner.parent
    if inner is None or inner.parent is None or inner.index is None:
        return
    outer = inner.parent
    each = index.here(outer).node.op
    loop = outer.loops[index.here(outer).node.id]
    if isinstance(each, Each) and each.rounds is None:
        loop.open.pop(inner.index, None)
        open_items(index, state, outer)
        if not loop.open and loop.is_spent:
            _put_aside(rt, outer)
