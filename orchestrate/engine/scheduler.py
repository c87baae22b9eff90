"""The one loop: what is ready? perform it, record what happened, fold it in, ask again.

Steps that may run at once (a parallel loop's) are performed by threads, which only give events;
everything else happens here, in one thread, one step at a time.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from typing import TYPE_CHECKING

from orchestrate.engine.budgets import (
    budget_reached,
    frames_used,
    limits_near,
    steps_used,
)
from orchestrate.engine.faults import NoRoom
from orchestrate.engine.limits import limit_reached, restart_limit
from orchestrate.engine.lost_attempts import name_lost
from orchestrate.engine.ops.frames import leave_item
from orchestrate.engine.ops.gate import decide_at_terminal, decided_elsewhere
from orchestrate.engine.perform import expiry, perform
from orchestrate.engine.programs import end_begun
from orchestrate.engine.quota import quota_reason, waits_for_quota
from orchestrate.engine.ready import Task, ready
from orchestrate.engine.reserving import give_back, put_off, settle
from orchestrate.engine.reuse import reuse_move
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.spread import (
    end_item,
    follow_item,
    is_item_over,
    merge_items,
    with_items_away,
)
from orchestrate.engine.stop import LONGEST_NAP_S
from orchestrate.errors import InternalError, OrchestrateError
from orchestrate.execute.reasons import ANOTHER_FAILED
from orchestrate.exits import Ending, end, waits_for_person
from orchestrate.installation import replacement_of
from orchestrate.plan.nodes import Ask, Call, all_nodes
from orchestrate.state.address import is_inside
from orchestrate.state.ballots import cast
from orchestrate.state.budget import Budget
from orchestrate.state.calls import Expired, call_deadline, expired_calls
from orchestrate.state.events import Event, ItemStopped, Restarted
from orchestrate.state.gates import gate_names, overdue
from orchestrate.state.items_away import given_away, is_in_stopping_loop
from orchestrate.state.model import Frame, attempt_address, frames_below

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_MOST_THREADS = 1000
# What need not wait for a time or a person.
_AT_ONCE = ("step", "move", "drop", "merge", "away")


def run_to_end(rt: Runtime) -> Ending:
    """Go on until the run has ended, is parked, or is stopped."""
    conductor = _Conductor(rt)
    try:
        ending = conductor.run()
    except OrchestrateError as error:
        if isinstance(error, InternalError) and (fault := replacement_of(error, rt.facts.id)):
            _pause(rt, conductor, fault)
            raise fault from error
        _pause(rt, conductor, error)
        raise
    except Exception as error:
        fault = replacement_of(error, rt.facts.id)
        if fault is None:
            conductor.give_up()  # else our own fault would wait for all that runs
            raise
        _pause(rt, conductor, fault)
        raise fault from error
    finally:
        conductor.close()
    rt.store.checkpoint(durable=True)
    return ending


def _pause(rt: Runtime, conductor: _Conductor, error: OrchestrateError) -> None:
    """The run cannot go on here (a lock, a full disk): leave nothing running, and say why."""
    # Where the disk or the installation is the trouble all this fails, too, and the error that is
    # told is the first one.
    conductor.give_up()
    ending = rt.store.state.ending or end(error.end, error.message)
    with suppress(Exception):
        rt.store.record(rt.ended(ending))
        rt.store.checkpoint(durable=True)


def note_unsettled(rt: Runtime) -> None:
    """On a resume: the attempts at the cursors may have been started before we came."""
    rt.is_catching_up = True
    state = rt.store.state
    top = state.frames.get(rt.item, state.root)
    for frame in frames_below(top):
        here = frame.here
        if rt.spreader is not None and given_away(frame) is not None:
            continue
        if here is not None and here.phase in ("arriving", "running", "resting"):
            name = rt.store.index.here(frame).node.name
            is_announced = here.phase == "running"
            # It may have begun there after what was published last.
            is_lost = bool(rt.lost_with) and here.phase != "running"
            number = here.attempt + (0 if is_announced else 1)
            attempt = attempt_address(frame, here, name, number).attempt_id
            rt.may_be_known[attempt] = is_announced or is_lost
            if is_announced:
                rt.whereabouts[attempt] = here.where


class _Conductor:
    """Keeps track of what is being performed."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt
        self._store = rt.store
        self._pool: ThreadPoolExecutor | None = None
        self._working: dict[str, Future[list[Event]]] = {}
        self._told_to_stop: set[str] = set()
        # Those of them that a machine of the fleet performs.
        self._away: set[str] = set()
        # Steps that wait until a call has ended, which may leave them money.
        self._without_room: set[str] = set()
        # Asked in every round, and most plans call none.
        self._has_calls = any(
            isinstance(node.op, Call) for node in all_nodes(rt.store.index.program)
        )

    def run(self) -> Ending:
        state = self._store.state
        self._checkpoint_first()
        while True:
            tasks = [task for task in self._ready() if not self._is_at_work(task)]
            begun = self._rt.sent_ahead.begun
            if begun is not None:
                # It runs already: what is to happen to the run happens to it.
                self._advance(tasks)
                if self._rt.sent_ahead.begun is begun:
                    raise InternalError(f"{begun.attempt} was begun, and is not what comes next")
                continue
            if self._record_decision(tasks) or self._record_expiry():
                continue
            if not self._working:
                self._checkpoint_before(tasks)
                ended = self._end_if_over(tasks)
                if ended is not None:
                    return ended
                if not tasks and state.restart is None and state.ending is None:
                    tasks = self._ready()
                    if not tasks:
                        raise InternalError("the run is not over, but nothing is left to do")
            if self._rt.stop.is_requested or state.ending is not None:
                tasks = []
            self._advance(tasks)

    def _ready(self) -> list[Task]:
        tasks = ready(self._store.state, self._rt.item)
        return [*with_items_away(tasks)] if self._rt.spreader is not None else tasks

    def _checkpoint_first(self) -> None:
        checkpoints = self._rt.checkpoints
        if checkpoints is not None and not self._rt.sent_ahead.begun:
            self._store.record(*checkpoints.begin())

    def _checkpoint_before(self, tasks: list[Task]) -> None:
        checkpoints = self._rt.checkpoints
        if checkpoints is None:
            return
        state = self._store.state
        is_over = state.ending is not None or self._rt.stop.is_requested or not tasks
        is_over = is_over or all(self._needs_person(task) for task in tasks)
        if taken := checkpoints.before(tasks, is_over=is_over):
            self._store.record(*taken)

    def _is_at_work(self, task: Task) -> bool:
        """An item is dropped only when nothing inside it is being performed any more."""
        key = task.frame.key
        if key in self._working:
            return True
        return task.kind == "drop" and any(is_inside(k, key) for k in self._working)

    def _end_if_over(self, tasks: list[Task]) -> Ending | None:
        """Is there nothing more to do? Then say so, durably."""
        rt, state = self._rt, self._store.state
        if state.ending is not None:
            if state.status == "running":
                self._store.record(rt.ended(state.ending))
            return state.ending
        if rt.stop.is_requested:
            self._store.record(rt.ended(rt.stop.ending))
            return state.ending
        if state.restart is not None:
            self._restart(state.restart)
            return None
        if rt.item and is_item_over(state, rt.item):
            self._store.record(rt.ended(end("completed", "the item is over")))
            return state.ending
        if tasks and all(self._needs_person(task) for task in tasks):
            return self._ask(tasks)
        return None

    def _needs_person(self, task: Task) -> bool:
        """Does it go on only by a person, or by a resume of the run?"""
        if task.kind == "rest" and not self._rt.rules.waits_for_quota:
            return task.due > self._rt.now() and waits_for_quota(task.frame)
        return task.kind in ("ask", "lost")

    def _restart(self, plan_id: str) -> None:
        rt, state = self._rt, self._store.state
        exceeded = restart_limit(state, self._store.index.plan(plan_id))
        if exceeded is not None:
            self._store.record(rt.ended(exceeded))
            return
        rt.release_session()
        self._store.record(Restarted(rt.now(), plan_id, None))

    def _record_decision(self, tasks: list[Task]) -> bool:
        """Was a gate decided elsewhere, or by the clock? That counts also while others work."""
        rt, state = self._rt, self._store.state
        gates = [task for task in tasks if task.kind == "ask"]
        if not gates or rt.stop.is_requested:
            return False
        decided = next(filter(None, (decided_elsewhere(rt, task.frame) for task in gates)), None)
        if decided is None:
            late = overdue(state, rt.now())
            decided = cast(rt.run.root, late[0])[0] if late else None
        if decided is not None:
            self._store.record(decided)
        return decided is not None

    def _record_expiry(self) -> bool:
        """Is a call out of time? What is at work in it ends by itself, and then the call does."""
        rt, state = self._rt, self._store.state
        over = None if rt.stop.is_requested or state.restart else self._expired()
        if over is None or state.ending is not None:
            return False
        self._store.record(expiry(over, rt.now()))
        return True

    def _expired(self) -> Expired | None:
        if not self._has_calls:
            return None
        frames = self._store.state.frames
        at_work = [frames[key] for key in self._working if key in frames]
        return next(
            expired_calls(self._store.index, self._store.state, self._rt.now(), at_work), None
        )

    def _ask(self, tasks: list[Task]) -> Ending | None:
        """Only a person's decision goes on, at the terminal, if there is one."""
        rt, state = self._rt, self._store.state
        for task in tasks:
            if rt.stop.is_requested:
                return None
            decision = decide_at_terminal(rt, task.frame) if task.kind == "ask" else None
            if decision is not None:
                self._store.record(decision)
                return None
        if rt.stop.is_requested or self._expired() is not None:
            return None
        index = self._store.index
        frames = [task.frame for task in tasks if task.kind != "ask"]
        quota = dict.fromkeys(quota_reason(index, f) for f in frames if waits_for_quota(f))
        lost = [name_lost(index, f) for f in frames if not waits_for_quota(f)]
        asked = gate_names(state.pending)
        self._store.record(rt.ended(waits_for_person(lost, asked, quota)))
        return state.ending

    def _advance(self, tasks: list[Task]) -> None:
        """Do what can be done now; wait for something if that is nothing."""
        now = self._rt.now()
        due = [task for task in tasks if task.kind in _AT_ONCE]
        due += [task for task in tasks if task.kind == "rest" and task.due <= now]
        later = min((self._due(task) for task in tasks if task.kind == "rest"), default=None)
        if self._rt.spreader is not None:
            is_away = bool(self._away) or any(task.kind == "away" for task in due)
            works = self._working.keys() - self._away or any(t.kind != "away" for t in due)
            self._rt.spreader.wait_only(is_so=is_away and not works)
        self._rt.sent_ahead.is_alone = len(due) == 1 and not self._working and later is None
        if self._rt.sent_ahead.is_alone:
            events = _do(self._rt, due[0])
            if due[0].kind == "away":
                self._take_over(events)
            else:
                self._record(events, is_alone=True)
            return
        self._store.sync()
        for task in due:
            if task.kind in ("move", "drop", "merge"):
                self._record(_do(self._rt, task))
                return
        for task in due:
            if self._working and (
                task.frame.key in self._without_room or self._has_limit_ahead(task)
            ):
                # It begins when those that count before it have begun, or not at all.
                continue
            do = self._threads().submit(_do, self._rt, task, may_wait=bool(self._working))
            self._working[task.frame.key] = do
            if task.kind == "away":
                self._away.add(task.frame.key)
        if self._working:
            self._stop_useless()
            left = LONGEST_NAP_S if later is None else max(0.0, later - now)
            self._collect(min(left, LONGEST_NAP_S))
        elif later is not None:
            # Never longer than the rest itself, should the clock have jumped.
            left = max(0.0, later - now)
            is_asking = any(task.kind == "ask" for task in tasks)
            self._rt.rest(min(left, LONGEST_NAP_S) if is_asking else left)

    def _due(self, task: Task) -> float:
        """When to look at a resting step again: its time, or the end of a call around it."""
        deadline = call_deadline(self._store.index, task.frame)
        return task.due if deadline is None else min(task.due, deadline)

    def _has_limit_ahead(self, task: Task) -> bool:
        """Would the plan's limit be reached if all that was handed out had begun?"""
        state = self._store.state
        index, frame, now = self._store.index, task.frame, self._rt.now()
        place = index.here(frame)
        frames = [state.frames[key] for key in self._working if key in state.frames]
        visits = [(frame, frame.here) for frame in frames if frame.here is not None]
        begin = sum(not here.since for _, here in visits)
        ask = sum(
            here.phase != "running" and isinstance(index.here(other).node.op, Ask)
            for other, here in visits
        )
        reached = limit_reached(index, frame, place.node, place.plan, ahead=begin)
        reached = reached or budget_reached(index, state, frame, place.node, now, ahead=ask)
        return reached is not None

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            # It loads `logging` and more, and few runs do anything at once.
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(_MOST_THREADS, "step")
        return self._pool

    def _collect(self, patience_s: float) -> None:
        from concurrent.futures import FIRST_COMPLETED, wait

        done, _ = wait(self._working.values(), patience_s, FIRST_COMPLETED)
        for key in [key for key, future in self._working.items() if future in done]:
            take = self._take_over if key in self._away else self._record
            self._away.discard(key)
            try:
                take(self._working.pop(key).result())
                self._without_room.clear()
            except NoRoom:
                self._without_room.add(key)
            self._told_to_stop.discard(key)

    def _take_over(self, events: list[Event]) -> None:
        """What an item has done elsewhere, where it was held against the limits."""
        if events:
            self._store.record(*events)
            self._store.checkpoint(is_due=False)

    def _record(self, events: list[Event], *, is_alone: bool = False) -> None:
        """`is_alone`: nothing else is being performed, so what is derived again has one order."""
        settle(self._rt, events)
        if self._rt.checkpoints is not None:
            events = self._rt.checkpoints.note(events, is_quiet=not self._working)
        frames = [getattr(event, "frame", "") for event in events]
        used, voids = frames_used(self._rt, events), put_off(self._rt, events)
        of_steps = steps_used(self._rt, events)
        is_derived = len(events) == 1 and self._rt.is_on_record(frames[0]) and is_alone
        if is_derived:
            self._store.fold(events[0])
        else:
            self._store.record(*events)
        for frame in frames:
            self._rt.forget_now(frame)
        give_back(self._rt, voids)
        self._warn_of_limits(used, of_steps)
        if not is_derived:
            # Else with the next program, or whatever comes: nothing keeps that waiting for a disk.
            self._store.checkpoint(is_due=False)

    def _warn_of_limits(self, used: list[Frame], of_steps: list[Budget]) -> None:
        """A call or a step has ended: say once of each limit that little of it is left."""
        rt, store = self._rt, self._store
        if used and rt.rehearsal is None:
            near = store.look(lambda state: list(limits_near(rt, state, used, of_steps)))
            if near:
                store.record(*near)

    def _stop_useless(self) -> None:
        """End the programs of items that no longer matter: another one failed."""
        state = self._store.state
        for key in self._working:
            frame = state.frames.get(key)
            if frame is None or key in self._told_to_stop:
                continue
            if state.ending is not None or is_in_stopping_loop(frame):
                if key in self._away:
                    end_item(self._rt, frame, "drop" if is_in_stopping_loop(frame) else "rest")
                    self._told_to_stop.add(key)
                    continue
                here = frame.here
                if here is not None and here.phase == "running":
                    node = self._store.index.here(frame).node
                    if self._rt.rules.lets_finish and isinstance(node.op, Ask):
                        continue  # its turn is paid for; nothing new begins behind it
                    name = node.name
                    at = attempt_address(frame, here, name, here.attempt)
                    self._rt.executor_of(at.attempt_id).stop(
                        at.attempt_id, ANOTHER_FAILED, self._rt.rules.grace_s
                    )
                    self._told_to_stop.add(key)

    def give_up(self) -> None:
        """End what still runs, and wait for that."""
        with suppress(Exception):
            end_begun(self._rt)
        self._rt.stop.request(signal.SIGTERM)
        for future in list(self._working.values()):
            with suppress(Exception):
                self._record(future.result())
        self._working.clear()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)


def _do(rt: Runtime, task: Task, *, may_wait: bool = False) -> list[Event]:
    if task.kind != "step":
        rt.store.sync()
    match task.kind:
        case "move":
            return reuse_move(rt, task.frame) or leave_item(rt, task.frame)
        case "drop":
            end_item(rt, task.frame, "drop")
            return [ItemStopped(task.frame.key, rt.now())]
        case "away":
            return follow_item(rt, task.frame)
        case "merge":
            return merge_items(rt, task.frame)
        case _:
            return perform(rt, task.frame, may_wait=may_wait)
