"""Runs by chance: at each point one of the things that an engine could have recorded there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

from orchestrate.engine.ready import Task
from orchestrate.plan.nodes import SKIPPED, Call, Each, Gate, labels_of
from tests.state.definitions import CALLING, CHILD, GATED, JUMPS, LOOP, MACHINE, MOVING, PARALLEL
from tests.state.folding import Folding

PROGRAMS: dict[str, tuple[str, dict[str, str]]] = {
    "calling": (CALLING, {"child": CHILD}),
    "gated": (GATED, {}),
    "jumps": (JUMPS, {}),
    "loop": (LOOP, {}),
    "machine": (MACHINE, {}),
    "moving": (MOVING, {}),
    "parallel": (PARALLEL, {}),
}
WHY = ("failed", "lost", "stopped", "reminded", "void", "no-session")
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
Chosen = TypeVar("Chosen")


class Walk:
    """Takes one step after the other, as hypothesis draws them."""

    def __init__(self, run: Folding, data: st.DataObject) -> None:
        self.run = run
        self._data = data

    def _one_of(self, choices: Sequence[Chosen]) -> Chosen:
        return self._data.draw(st.sampled_from(choices))

    def step(self) -> bool:
        """Record something that could happen now; False if the run is over for good."""
        run, state = self.run, self.run.state
        if state.status != "running":
            if state.status == "completed" or state.root.here is None:
                return False
            run.give("run-resumed", copied=self._one_of([False, False, True]))
        elif state.ending is not None:
            ending = state.ending
            run.give("run-ended", status=ending.status, reason=ending.reason, code=ending.code)
        elif state.restart is not None:
            run.give("restarted", plan=state.restart, session=None)
        elif self._one_of([False] * 9 + [True]):
            run.give("run-ended", status="paused", reason="interrupted", code=130)
        else:
            self._do(self._one_of(run.tasks))
        return True

    def _do(self, task: Task) -> None:
        run, frame = self.run, task.frame
        match task.kind:
            case "drop":
                run.fold({"on": "item-stopped", "frame": frame.key, "at": run.now})
            case "ask":
                decision, by = self._one_of([("approved", "ann"), ("denied", "timeout")])
                run.give("gate-decided", frame, decision=decision, by=by, message="x")
            case "merge":
                run.give("items-merged", frame, conflicts=self._one_of([[], ["a", "b"]]))
            case "lost":
                run.give("run-ended", status="paused", reason="lost", code=6)
            case "move":
                moving = {"source": "a", "target": "done/a", "file": [1, 2], "at": run.now}
                moved = {"lifecycle": {"result": "success", "moved_to": "done/a"}, "at": run.now}
                on, fields = self._one_of([("item-moving", moving), ("item-moved", moved)])
                run.fold({"on": on, "frame": frame.key, **fields})
            case "step" | "rest" | "away":
                self._perform(frame)

    def _perform(self, frame: Any) -> None:
        run = self.run
        node = run.place(frame).node
        match node.op:
            case Gate(stage, _, _, default):
                run.give("gate-opened", frame, stage=stage, prompt="?", default=default)
            case Each():
                items = self._data.draw(st.lists(values, max_size=10))
                run.give("loop-opened", frame, items=items, spread=self._one_of(["", "p"]))
            case Call(plan):
                run.give("call-opened", frame, plan=plan, context={"item": ["z"]},
                         spread=self._one_of(["", "p"]))  # fmt: skip
            case _ if frame.here.phase != "running":
                run.begin(frame, about={"debug": {"command": ["true"]}})
            case _:
                self._one_of([self._finish, self._cut, self._see])(frame)

    def _finish(self, frame: Any) -> None:
        labels = [label for label in labels_of(self.run.place(frame).node) if label != SKIPPED]
        value = {"value": self._data.draw(values), "has_value": True}
        more: dict[str, Any] = self._one_of([{}, value, {"result": spent(0.1)}])
        self.run.finish(self._one_of(labels), frame, **more)

    def _cut(self, frame: Any) -> None:
        why = self._one_of(WHY)
        rest = self._one_of([0.0, 2.5]) if why in ("failed", "lost") else 0.0
        losses = self._one_of([1, 2]) if why == "lost" else 0
        waits = why == "lost" and self._one_of([False, True])
        cut_off = self._one_of([False, True])
        self.run.cut(why, frame, rest_s=rest, losses=losses, waits=waits, cut_off=cut_off)

    def _see(self, frame: Any) -> None:
        where = self._one_of([None, frame])
        session = self._one_of(["s-1", "s-2"])
        kind = self._one_of(["session-seen", "session-chosen"])
        self.run.give(kind, where, session=session, agent="claude-code")


def spent(cost_usd: float) -> dict[str, Any]:
    totals = {"session_totals": {"cost_usd": cost_usd}}
    return {"agent": "claude-code", "cost_usd": cost_usd, "input_tokens": 3, **totals}


def walks(check: Callable[[Folding], None], name: str, data: st.DataObject, steps: int) -> Folding:
    """A run of one of the programs; `check` looks at it after every event."""
    text, files = PROGRAMS[name]
    run = Folding.of(text, {"items": ["x", "y"]}, **files)
    walk = Walk(run, data)
    check(run)
    for _ in range(steps):
        if not walk.step():
            break
        check(run)
    return run
