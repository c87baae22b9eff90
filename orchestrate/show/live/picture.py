"""What the view shows of a run: rows made from its state, never more than the screen has.

Making a picture costs what it shows, not what the run has: of a block the steps around the cursor
are looked at, of a loop the items at work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal

from orchestrate.plan.nodes import (
    Ask,
    Block,
    Call,
    Each,
    Gate,
    Node,
    Plan,
    Run,
    Wait,
)
from orchestrate.plan.settings import Limits
from orchestrate.plan.visible import plural, visible
from orchestrate.record import record, replace
from orchestrate.show.changed_files import changed_words
from orchestrate.show.plan_head import TOLD_APART, limit_words
from orchestrate.show.spending import budget_words, token_words
from orchestrate.state.address import log_name_in
from orchestrate.state.denials import denial_words
from orchestrate.state.model import Frame, Index, Loop, RunState, Visit, open_loop
from orchestrate.state.result import StepResult
from orchestrate.state.times import duration
from orchestrate.view.budgets import budgets_of
from orchestrate.view.event_words import waits_document
from orchestrate.view.giving_up import giving_up_words, is_given_up
from orchestrate.view.item_names import item_name

Mark = Literal["head", "todo", "work", "rest", "ask", "done", "failed", "skipped", "item", "more",
             "halted", "ended"]  # fmt: skip
# A fact and how it is meant: "" is plain.
Fact = tuple[str, Literal["", "good", "bad", "weak", "warn"]]
# Rows for the steps around the one that has rows of its own, where there is room.
_NEIGHBOURS = 4
_LONGEST = 200


@record
class RunningProgram:
    """Where a running program's output goes, and who understands it."""

    log: str
    backend: str
    began: float


@record
class Row:
    """A line of the view; `program` is set where a program is at work."""

    depth: int
    mark: Mark
    name: str
    facts: tuple[Fact, ...] = ()
    program: RunningProgram | None = None
    # What is said below it: a few lines, the last of which counts where there is little room.
    words: str = ""


class Artist:
    """Makes pictures of one run; remembers where each step stands in its block."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._positions: dict[tuple[str, str], dict[str, int]] = {}
        self._has_rounds: dict[tuple[str, str], bool] = {}
        # When the attempt at a frame's cursor began, as far as its start was heard.
        self.began: dict[str, float] = {}

    def picture(self, state: RunState, now: float, height: int) -> list[Row]:
        """At most `height` rows, the heading first."""
        plan = self._index.plan(state.root.plan)
        rows = [self._heading(state, plan, now)]
        if height > 1:
            rows += self._block(state, state.root, now, height - 1, 1)
        return rows[:height]

    def _heading(self, state: RunState, plan: Plan, now: float) -> Row:
        row = _heading(state, plan, self._index, now)
        words = giving_up_words(state, self._index) if row.mark == "done" else ""
        return (
            replace(row, mark="ended", facts=(*row.facts, (visible(words), "warn")))
            if words
            else row
        )

    def _block(self, state: RunState, frame: Frame, now: float, room: int, depth: int) -> list[Row]:
        """The steps of a frame's block around its cursor."""
        block = self._index.block(frame.plan, frame.block)
        nodes = self._shown(frame, block)
        at = self._position(frame, nodes)
        if at is None:
            before, _ = _share(len(nodes), 0, room)
            rows = [self._done(frame, node, depth, state) for node in nodes[len(nodes) - before :]]
            return _window(rows, [], [], (len(nodes) - before, 0), depth)
        here = frame.here
        assert here is not None
        spared = min(_NEIGHBOURS, len(nodes) - 1) if room > 2 * _NEIGHBOURS else 0
        own = self._current(state, frame, here, now, room - spared, depth)
        before, after = _share(at, len(nodes) - at - 1, room - len(own))
        earlier, later = nodes[at - before : at], nodes[at + 1 : at + 1 + after]
        hidden = (at - before, len(nodes) - at - 1 - after)
        return _window(
            [self._done(frame, node, depth, state) for node in earlier],
            own,
            [self._done(frame, node, depth, state) for node in later],
            hidden if room - len(own) > 1 else (0, 0),
            depth,
        )

    def _shown(self, frame: Frame, block: Block) -> Sequence[Node]:
        """The steps, and of their rounds those that were needed."""
        key = (frame.plan, frame.block)
        if key not in self._has_rounds:
            self._has_rounds[key] = any(node.part_of for node in block.nodes)
        if not self._has_rounds[key]:
            return block.nodes
        current = frame.here.node if frame.here is not None else ""
        return [
            node
            for node in block.nodes
            if node.part_of is None or node.name in frame.steps or node.id == current
        ]

    def _position(self, frame: Frame, nodes: Sequence[Node]) -> int | None:
        if frame.here is None:
            return None
        key = (frame.plan, frame.block)
        if self._has_rounds[key]:
            ids = [node.id for node in nodes]
            return ids.index(frame.here.node) if frame.here.node in ids else None
        known = self._positions.get(key)
        if known is None:
            known = self._positions[key] = {node.id: at for at, node in enumerate(nodes)}
        return known.get(frame.here.node)

    def _done(self, frame: Frame, node: Node, depth: int, state: RunState) -> Row:
        """A step that the cursor is not at: it is over, or still to come."""
        name = _name_of(node)
        loop = frame.loops.get(node.id)
        if loop is not None:
            mark: Mark = "failed" if loop.failed else "done"
            return Row(depth, mark, name, tuple(_counters(loop)))
        if isinstance(node.op, Gate):
            return Row(depth, _gate_mark(state, frame, node), name)
        result = frame.steps.get(node.name)
        if result is None or result.status in ("pending", "running"):
            return Row(depth, "todo", name)
        marks: Mapping[str, Mark] = {"completed": "done", "failed": "failed"}
        mark = marks.get(result.status, "skipped")
        if mark == "done" and is_given_up(state, node, result):
            mark = "ended"
        return Row(
            depth,
            mark,
            name,
            tuple(
                _result_facts(result, frame, node, self._limits(frame), is_failure=mark != "done")
            ),
        )

    def _current(
        self, state: RunState, frame: Frame, here: Visit, now: float, room: int, depth: int
    ) -> list[Row]:
        """The step at a cursor, and below it what it has opened."""
        row = self._at_work(state, frame, here, now, depth)
        if here.phase != "open" or room < 2:
            return [row]
        if frame.call is not None:
            return [row, *self._block(state, frame.call, now, room - 1, depth + 1)]
        loop = open_loop(frame)
        return [row] if loop is None else [row, *self._items(state, loop, now, room - 1, depth + 1)]

    def _items(self, state: RunState, loop: Loop, now: float, room: int, depth: int) -> list[Row]:
        """The items at work: one in full, of several a row each."""
        if len(loop.open) == 1:
            (frame,) = loop.open.values()
            nodes = self._index.block(frame.plan, frame.block).nodes
            has_more = len(nodes) > 1 or (frame.here is not None and frame.here.phase == "open")
            if has_more and room > 1:
                item = Row(depth, "item", _item_name(frame))
                return [item, *self._block(state, frame, now, room - 1, depth + 1)]
        shown = room if len(loop.open) <= room else room - 1
        rows = [self._item(state, f, now, depth) for f in islice(loop.open.values(), shown)]
        if len(loop.open) > shown and room > 0:
            rows.append(Row(depth, "more", f"{len(loop.open) - shown} more at work"))
        return rows

    def _item(self, state: RunState, frame: Frame, now: float, depth: int) -> Row:
        """An item with the step that it is at, in one row."""
        inner = frame
        while inner.call is not None:
            inner = inner.call
        name = _item_name(frame)
        if inner.here is None:
            return Row(depth, "item", name)
        row = self._at_work(state, inner, inner.here, now, depth)
        return replace(row, name=name, facts=((row.name, ""), *row.facts))

    def _at_work(self, state: RunState, frame: Frame, here: Visit, now: float, depth: int) -> Row:
        node = self._index.place(frame.plan, here.node).node
        facts: list[Fact] = []
        loop = open_loop(frame)
        if loop is not None:
            facts += _counters(loop)
        limits = self._limits(frame)
        if limits is not None and here.visit:
            facts.append((_against("visit", here.visit, limits.max_visits), ""))
        if here.attempt > 1 and here.phase != "resting":
            facts.append((f"attempt {here.attempt}", "warn"))
        about = frame.steps.get(node.name, StepResult())
        facts += _who(about)
        if here.since and here.phase in ("running", "open", "resting"):
            facts.append((passed(now - (here.attempt_since or here.since)), ""))
        mark = _MARKS[here.phase]
        if mark == "work" and state.status != "running":
            mark = "halted"
        row = Row(depth, mark, _name_of(node), tuple(facts))
        error = visible(about.message[:_LONGEST])
        match here.phase:
            case "running" if isinstance(node.op, Ask | Run):
                return replace(row, program=self._program(frame, node, here, about))
            case "running" if isinstance(node.op, Wait):
                return replace(row, facts=(*row.facts, ("waits for files", "weak")))
            case "resting" | "arriving" if here.waits and state.status == "running":
                words = str(waits_document(here.waits)["words"])
                return replace(row, facts=(*row.facts, (words, "warn")), words=error)
            case "resting":
                retry = about.retry
                what = "next attempt" if retry is None else f"retry {retry.number} of {retry.of}"
                words = f"{what} in {passed(here.rest_until - now)}"
                return replace(
                    row,
                    facts=(*row.facts, (words, "warn")),
                    words=error,
                )
            case "asking":
                return replace(row, facts=(*row.facts, ("waits for a decision", "warn")))
            case "lost":
                is_lost = about.last_attempt != "quota"
                waits = f"{'lost' if is_lost else 'usage limit'}, waits for a person"
                return replace(row, facts=(*row.facts, (waits, "warn")), words=error)
            case "failed":
                more = _result_facts(about, frame, node, None) if about else ()
                return replace(row, facts=(*row.facts, *more), words=error)
            case _:
                return row

    def _program(
        self, frame: Frame, node: Node, here: Visit, about: StepResult
    ) -> RunningProgram | None:
        backend = about.backend if isinstance(node.op, Ask) else ""
        began = self.began.get(frame.key, here.since)
        return RunningProgram(log_name_in(about), backend, began)

    def _limits(self, frame: Frame) -> Limits | None:
        """A machine's guardrails; the other dialects have none on visits."""
        plan = self._index.plan(frame.plan)
        return plan.limits if plan.dialect == "machine" else None


def _gate_mark(state: RunState, frame: Frame, node: Node) -> Mark:
    """A gate that was denied has let nothing pass."""
    found = [g for g in state.approvals if g.frame == frame.key and g.node == node.id]
    if node.id not in frame.visits:
        return "todo"
    return "ended" if found and found[-1].status == "denied" else "done"


_MARKS: dict[str, Mark] = {
    "arriving": "work",
    "running": "work",
    "open": "work",
    "leaving": "work",
    "resting": "rest",
    "asking": "ask",
    "lost": "ask",
    "failed": "failed",
}


def _heading(state: RunState, plan: Plan, index: Index, now: float) -> Row:
    end = now if state.status == "running" else state.updated_at
    facts: list[Fact] = [(passed(end - state.started_at), "")]
    if state.dialect == "machine":
        facts.append((_against("total", state.steps_run, plan.limits.max_steps), ""))
        if state.restarts:
            facts.append((_against("restart", state.restarts, plan.limits.max_restarts), ""))
    if words := limit_words(plan.limits, without=TOLD_APART[plan.dialect]):
        facts.append((f"limits {words}", "weak"))
    costs = state.costs
    facts += [
        (visible(budget_words(budget)), "warn" if budget.needed else "")
        for budget in budgets_of(state, index, now)
        if budget.reserved or budget.unknown or budget.needed
    ]
    if costs.turns:
        spent = "cost unknown" if costs.cost_usd is None else f"${costs.cost_usd:.4f}"
        more = " or more" if costs.cost_usd is not None and costs.unreported else ""
        facts.append((f"{spent}{more} in {plural(costs.turns, 'call')}", ""))
        if tokens := token_words(costs):
            facts.append((f"tokens {tokens}", ""))
    if denied := sum(denial.count for denial in state.denials):
        facts.append((f"{plural(denied, 'tool call')} denied", "bad"))
    marks: dict[str, Mark] = {"completed": "done", "failed": "failed", "cancelled": "failed"}
    mark = marks.get(state.status, "head")
    if state.status not in ("running", "completed"):
        facts.append((state.status, "bad" if mark == "failed" else "warn"))
    return Row(0, mark, visible(plan.name), tuple(facts))


def _against(word: str, number: int, limit: int | None) -> str:
    return f"{word} {number}" if limit is None else f"{word} {number}/{limit}"


def _name_of(node: Node) -> str:
    if isinstance(node.op, Gate):
        return f"approval of {visible(node.op.stage)}"
    return visible(node.name)


def _item_name(frame: Frame) -> str:
    return f"[{frame.index}] {visible(item_name(frame.item)[:_LONGEST])}"


def _counters(loop: Loop) -> Iterator[Fact]:
    yield f"{len(loop.done)}/{len(loop.items)}", ""
    if loop.failed:
        yield f"{len(loop.failed)} failed", "bad"


def _who(about: StepResult) -> Iterator[Fact]:
    """Who is asked: the agent, and the model where one was chosen."""
    if about.backend == "human":
        # Whatever agent and model the recipe names, a person is asked instead.
        yield "human", "weak"
    elif about.agent is not None:
        model = f" {visible(about.model)}" if about.model else ""
        yield f"{visible(about.agent)}{model}", "weak"


def _result_facts(
    result: StepResult, frame: Frame, node: Node, limits: Limits | None, *, is_failure: bool = False
) -> Iterator[Fact]:
    if result.status == "failed":
        yield f"exit code {result.exit_code}", "bad"
    if result.outcome is not None:
        yield visible(result.outcome), "warn" if is_failure else "good"
    if result.status == "skipped":
        yield "skipped", "weak"
    elif not isinstance(node.op, Each | Call) or result.has("duration_ms"):
        yield duration(result.duration_ms), ""
    if denied := denial_words(result.denials):
        yield visible(denied), "bad"
    if files := changed_words(result.changed):
        yield files, "weak"
    if result.attempts > 1:
        yield plural(result.attempts, "attempt"), "weak"
    if limits is not None and frame.visits.get(node.id, 1) > 1:
        yield _against("visit", frame.visits[node.id], limits.max_visits), "weak"


def _share(before: int, after: int, room: int) -> tuple[int, int]:
    """How many steps before and after the cursor are shown; a row says how many are not."""
    if before + after <= room:
        return before, after
    if room < 2:
        return 0, 0
    first = min(before, max(room // 2, room - after))
    last = min(after, room - first)
    first = min(before, room - last)
    # The row that counts the others takes the place of one.
    return first - (first < before), last - (last < after)


def _window(
    before: list[Row], own: list[Row], after: list[Row], hidden: tuple[int, int], depth: int
) -> list[Row]:
    first, last = hidden
    counted_before = [Row(depth, "more", f"{plural(first, 'step')} before")] if first else []
    counted_after = [Row(depth, "more", f"{plural(last, 'step')} to come")] if last else []
    return [*counted_before, *before, *own, *after, *counted_after]


def passed(seconds: float) -> str:
    """How long something has taken so far: whole seconds, so that it changes once in each."""
    return duration(max(0.0, seconds // 1) * 1000).replace(".0s", "s")
