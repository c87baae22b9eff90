"""Whether a machine's step did what it was for, or gave up: then nothing may look like success."""

from __future__ import annotations

from orchestrate.plan.ends import CHECK_FAILED, OTHER
from orchestrate.plan.nodes import Ask, Call, Gate, Node, Run
from orchestrate.state.model import Index, RunState
from orchestrate.state.result import StepResult

NEVER_PLAIN = (OTHER, CHECK_FAILED, "denied")


def is_given_up(state: RunState, node: Node, result: StepResult) -> bool:
    """Has the step given up, or ended the run with another outcome than its plain success?

    A machine that a recipe or a workflow calls has steps that give up, too.
    """
    if state.dialect != "machine" or result.outcome is None:
        return result.outcome in NEVER_PLAIN
    is_last = state.current == node.id and state.ending is not None
    is_exit = is_last and state.ending is not None and state.ending.kind in ("exit", "exit-failed")
    return result.outcome in NEVER_PLAIN or (is_exit and result.outcome != _success(node))


def _success(node: Node) -> str | None:
    """The outcome that an author names first; of commands and gates, the one that passes."""
    match node.op:
        case Ask(outcomes=outcomes):
            return next((outcome for outcome in outcomes if outcome != OTHER), None)
        case Run(exits=exits):
            return dict(exits).get("0")
        case Gate():
            return "approved"
        case Call():
            return "completed"
        case _:
            return None


def giving_up_words(state: RunState, index: Index) -> str:
    """`work: other, the disk is full`: the step that ended the run without success; else ''."""
    result = state.root.steps.get(state.current)
    if state.ending is None or result is None or state.ending.kind == "denied":
        return ""  # the reason of a denied run names the gate
    node = index.place(state.root.plan, state.current).node
    if not is_given_up(state, node, result):
        return ""
    why = f", {result.outcome_description}" if result.outcome_description else ""
    return f"{node.name}: {result.outcome}{why}"
