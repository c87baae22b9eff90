"""Which program may be sent ahead while another one runs: the plan's data decide (ADR 0019).

A step is *certain* to follow where the exit code alone says that the one before it has succeeded,
and *independent* where nothing that it is given, looks at or changes could be of that one's making.
"""

from __future__ import annotations

from orchestrate.engine.budgets import is_timed
from orchestrate.engine.limits import limit_reached
from orchestrate.engine.runtime import FollowingStep
from orchestrate.engine.step import Step
from orchestrate.execute.base import LOCAL
from orchestrate.plan.expr import references_in
from orchestrate.plan.nodes import OK, Each, Goto, Leave, Node, Run, may_be_skipped, target_of
from orchestrate.record import replace
from orchestrate.state.calls import call_deadline
from orchestrate.state.model import Frame, Index, NodePlace, Visit, open_loop
from orchestrate.state.routing import next_item


def follower_of(step: Step) -> Step | None:
    """The step that begins if this one's program ends with 0, if its program can be sent ahead."""
    rt, frame = step.rt, step.frame
    index = rt.store.index
    key = (frame.plan, step.node.id)
    sent = rt.sent_ahead
    if key not in sent.followers:
        sent.followers[key] = _certain_follower(index, index.here(frame))
    follower = sent.followers[key]
    if follower is None or not sent.is_alone or rt.is_catching_up or rt.options.backup_state:
        return None
    if rt.checkpoints is not None and rt.checkpoints.wants_quiet():
        return None
    # After an edit its result may be there already; a rehearsal starts only what it must.
    if rt.earlier is not None or rt.rehearsal is not None or step.here.where != LOCAL:
        return None
    if call_deadline(index, frame) is not None or is_timed(index, rt.store.state, frame):
        return None
    there = _frame_of(index, frame, follower)
    if there is None or limit_reached(index, there, follower.node, step.plan):
        return None
    return Step(rt, there)


def _frame_of(index: Index, frame: Frame, follower: FollowingStep) -> Frame | None:
    """The frame as it will be when the follower begins; none if its loop has no more items."""
    if not follower.is_item:
        name = follower.node.id
        return replace(frame, here=Visit(name, frame.visits.get(name, 0) + 1))
    outer = frame.parent
    loop = open_loop(outer) if outer is not None else None
    if outer is None or loop is None or loop.is_spent or loop.is_stopping:
        return None
    each = index.here(outer).node.op
    assert isinstance(each, Each)
    return next_item(index, outer, loop, each)


def _certain_follower(index: Index, place: NodePlace) -> FollowingStep | None:
    node, block = place.node, place.block
    if not _succeeds_by_exit(node):
        return None
    match target_of(node, OK):
        case Goto(name) if index.place(place.plan.id, name).block is block:
            is_item = False
        case Leave(label) if label == OK and block.owner is not None:
            each = index.place(place.plan.id, block.owner).node.op
            assert isinstance(each, Each)
            if each.parallel or each.rounds is not None or each.moves is not None:
                return None
            name, is_item = block.entry, True
        case _:
            return None
    follower = index.place(place.plan.id, name).node
    return FollowingStep(follower, is_item) if _is_independent(follower, node) else None


def _succeeds_by_exit(node: Node) -> bool:
    """Is exit code 0 all that success takes, and is there nothing to be done about it?"""
    op = node.op
    return (
        isinstance(op, Run)
        and not op.exits
        and op.capture.mode != "json"
        and op.capture.schema is None
        and not op.capture.require
        and not op.capture.value
        and op.capture.output_file is None  # looked at when it has ended
        and node.needs is None
        and node.part_of is None
    )


def _is_independent(node: Node, before: Node) -> bool:
    """Is it a program that depends on nothing of the one before it?

    Not where it is looked for files or conditions first, reads or empties a file of its own, or
    must not be started without need (`on_lost: stop`).
    """
    op = node.op
    return (
        isinstance(op, Run)
        and not may_be_skipped(node)
        and node.needs is None
        and node.part_of is None
        and node.on_lost == "retry"
        and op.stdin is None
        and op.cwd is None
        and not op.is_list
        and op.capture.output_file is None
        and op.capture.schema is None
        and not any(_is_of(ref.path, before) for ref in references_in(op))
    )


def _is_of(path: tuple[str, ...], before: Node) -> bool:
    """May a value change when that step ends? So does the state that `${run.root}` leads to."""
    match path:
        case ("run", "root"):
            return True
        case ("steps", name, *_):
            return name == before.name
        case ("context" | "var", name, *_):
            return name in before.variables
        case _:
            return False
