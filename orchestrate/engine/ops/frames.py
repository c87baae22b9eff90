"""Loops: over items or in rounds, and what becomes of an item's file."""

from __future__ import annotations

import errno
import os
from typing import Any

from orchestrate.engine.conditions import is_met
from orchestrate.engine.confine import (
    Folder,
    PathFault,
    is_the_machines,
    make_folders,
    open_folder,
    open_root,
    require_free,
    split_path,
)
from orchestrate.engine.evaluate import evaluate, evaluate_items, render, render_value
from orchestrate.engine.faults import StepFault
from orchestrate.engine.limits import LimitFault, check_total, ends_the_run
from orchestrate.engine.ops.calls import give_outputs
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.scope import StepScope, WithVariables
from orchestrate.engine.step import Step
from orchestrate.errors import explain
from orchestrate.exits import end, visits_exceeded
from orchestrate.plan.nodes import FAILED, Each, Rounds
from orchestrate.plan.visible import plural
from orchestrate.state.events import (
    Event,
    ItemMoved,
    ItemMoving,
    LoopOpened,
    RoundEnded,
)
from orchestrate.state.model import Frame


def open_loop(step: Step, op: Each) -> Event:
    """Find out what a loop runs over; one without items begins with its first round."""
    if op.rounds is not None:
        begins = op.rounds.before is None or is_met(step.rt, op.rounds.before, step.scope)
        first = [1] if begins else []
        return LoopOpened(
            step.frame.key, step.node.id, step.here.visit, step.rt.now(), first, op.limit,
            step.key,
        )  # fmt: skip
    items = evaluate_items(op.items, step.scope)
    if op.limit is not None and len(items) > op.limit:
        raise LimitFault(
            f"the loop has {len(items)} items, more than max_iterations allows ({op.limit})",
            {"items": len(items), "max_iterations": op.limit},
        )
    check_total(step.rt.store.index, step.frame, op, len(items))
    stored = [step.rt.store_value(item) for item in items]
    spread = op.spread if step.rt.spreader is not None else ""
    return LoopOpened(
        step.frame.key, step.node.id, step.here.visit, step.rt.now(), stored, key=step.key,
        spread=spread,
    )  # fmt: skip


def leave_item(rt: Runtime, frame: Frame) -> list[Event]:
    """What has to happen between the last step of an iteration, or of a plan, and its end."""
    if not frame.is_iteration:
        return [give_outputs(rt, frame)]
    assert frame.parent is not None
    each = rt.store.index.here(frame.parent).node.op
    assert isinstance(each, Each)
    if each.rounds is None:
        return [move_item(rt, frame)]
    try:
        ended = _end_round(rt, frame, each, each.rounds)
        most = rt.store.index.plan(frame.plan).limits.max_visits
        if ended.goes_on and most is not None and (frame.index or 0) + 1 >= most:
            # The round is not over yet: `resume` with a higher limit looks again.
            return [rt.ended(visits_exceeded(rt.store.index.here(frame.parent).node.name))]
        return [ended]
    except StepFault as fault:
        ended = RoundEnded(frame.key, rt.now(), False, {}, rt.secrets.text(fault.message))
        if isinstance(fault, LimitFault) and ends_the_run(rt.store.index, frame):
            return [ended, rt.ended(end("limit", fault.message))]
        return [ended]


def _end_round(rt: Runtime, frame: Frame, each: Each, rounds: Rounds) -> RoundEnded:
    """Set what the loop carries over, and see whether there is another round."""
    scope = StepScope(rt.store.index, rt.store.state, frame, rt.facts, rt.restore_value)
    updates: dict[str, Any] = evaluate(rounds.updates, scope)
    after = WithVariables(scope, updates)
    goes_on = not (rounds.until is not None and is_met(rt, rounds.until, after)) and (
        rounds.before is None or is_met(rt, rounds.before, after)
    )
    made = (frame.index or 0) + 1
    if goes_on and each.limit is not None and made >= each.limit:
        node = rt.store.index.here(frame.parent).node if frame.parent else None
        raise LimitFault(
            f"the loop '{node.name if node else ''}' has made {plural(made, 'round')}, the most it "
            "may, and would go on; allow more in the file, then `resume --edited`",
            {"rounds": made},
        )
    stored = {key: rt.store_value(rt.secrets.data(value)) for key, value in updates.items()}
    return RoundEnded(frame.key, rt.now(), goes_on, stored)


# An item's file (C 1.2). The intention is written down with the file's own identity, so that after
# a kill between the move and its record nothing is moved twice, or taken for another file.


def move_item(rt: Runtime, frame: Frame) -> Event:
    """Move the file of an item whose iteration is over; its own faults are recorded, not raised."""
    item = rt.restore_value(frame.item)
    outcome = "failure" if frame.label == FAILED else "success"
    lifecycle: dict[str, Any] = {
        "result": outcome,
        "action": "move",
        "from": rt.secrets.text(render_value(item)),
        "to": None,
        "action_applied": False,
        "error": None,
    }
    try:
        if frame.moving is not None:
            source, target, file = frame.moving
            lifecycle |= {"from": source, "to": target}
            lifecycle["to"] = _finish_move(rt, source, target, file)
        else:
            source, target = _plan_move(rt, frame, item, outcome, lifecycle)
            if rt.rehearsal is not None:
                raise StepFault("this is a rehearsal")
            lifecycle["to"] = _move(rt, frame, source, target)
        lifecycle["action_applied"] = True
    except StepFault as fault:
        lifecycle["error"] = rt.secrets.text(fault.message)
    except OSError as error:
        if is_the_machines(error):
            raise explain("move", rt.workspace.root / str(lifecycle["from"]), error) from error
        lifecycle["error"] = error.strerror or str(error)
    return ItemMoved(frame.key, rt.now(), lifecycle)


def _plan_move(
    rt: Runtime, frame: Frame, item: Any, outcome: str, lifecycle: dict[str, Any]
) -> tuple[str, str]:
    assert frame.parent is not None
    each = rt.store.index.here(frame.parent).node.op
    assert isinstance(each, Each)
    assert each.moves is not None
    text = each.moves.failure if outcome == "failure" else each.moves.success
    assert text is not None
    if not isinstance(item, str):
        raise StepFault("the item is not the path of a file")
    source = "/".join(split_path(item))
    scope = StepScope(rt.store.index, rt.store.state, frame, rt.facts, rt.restore_value)
    folder = "/".join(split_path(render(text, scope)))
    target = f"{folder}/{source.rpartition('/')[2]}"
    lifecycle |= {"from": source, "to": target}
    return source, target


def _move(rt: Runtime, frame: Frame, source: str, target: str) -> str:
    """Rename within the workspace, through folders that were opened and checked; the new path."""
    require_free(rt.workspace, source)
    with open_root(rt.workspace) as root, _folder_of(root, source) as here:
        name = source.rpartition("/")[2]
        try:
            found = os.stat(name, dir_fd=here.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            raise StepFault(f"the file is gone: {source}") from None
        with make_folders(rt.workspace, target.rpartition("/")[0]) as there:
            new = _free_name(there, target.rpartition("/")[2])
            target = f"{target.rpartition('/')[0]}/{new}"
            rt.store.record(
                ItemMoving(frame.key, rt.now(), source, target, [found.st_dev, found.st_ino])
            )
            os.rename(name, new, src_dir_fd=here.descriptor, dst_dir_fd=there.descriptor)
            return target


def _finish_move(rt: Runtime, source: str, target: str, file: list[int]) -> str:
    """Go on with a move that was announced: done already, still to do, or overtaken; the path."""
    with open_root(rt.workspace) as root:
        before, after = _identity(root, source), _identity(root, target)
        if rt.is_copy:
            # Its files are none of those that the original knew: their names have to do.
            file = before or after or file
        if after == file:
            return target
        if before != file:
            raise StepFault(f"the file is gone: {source}")
        with (
            _folder_of(root, source) as here,
            make_folders(rt.workspace, target.rpartition("/")[0]) as there,
        ):
            new = _free_name(there, target.rpartition("/")[2])
            os.rename(
                source.rpartition("/")[2],
                new,
                src_dir_fd=here.descriptor,
                dst_dir_fd=there.descriptor,
            )
            return f"{target.rpartition('/')[0]}/{new}"


def _identity(root: Folder, path: str) -> list[int] | None:
    try:
        with _folder_of(root, path) as folder:
            found = os.stat(
                path.rpartition("/")[2], dir_fd=folder.descriptor, follow_symlinks=False
            )
    except PathFault:
        return None
    except OSError as error:
        if is_the_machines(error):
            raise
        return None
    return [found.st_dev, found.st_ino]


def _folder_of(root: Folder, path: str) -> Folder:
    """The folder that a path's last name stands in, still inside the workspace."""
    folder = Folder(os.dup(root.descriptor), root.root, root.workspace)
    for name in path.split("/")[:-1]:
        try:
            inner = open_folder(folder, name)
        except FileNotFoundError:
            raise StepFault(f"the file is gone: {path}") from None
        finally:
            os.close(folder.descriptor)
        folder = inner
    if not folder.is_inside():
        os.close(folder.descriptor)
        raise PathFault(f"'{path}' leads out of the workspace through a link")
    return folder


def _free_name(folder: Folder, name: str) -> str:
    """The name, or the next free one like it: what is there already is never overwritten."""
    stem, dot, suffix = name.rpartition(".")
    for number in range(1, 10_000):
        candidate = (
            name if number == 1 else f"{stem or suffix}.{number}{dot}{suffix if stem else ''}"
        )
        try:
            os.stat(candidate, dir_fd=folder.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return candidate
    raise StepFault(os.strerror(errno.EEXIST))
