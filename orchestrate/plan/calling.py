"""What a plan's dialect means where the plan is called, so that the engine need not ask for it."""

from __future__ import annotations

from orchestrate.plan.nodes import FAILED, OK, Call, Label, Plan


def label_of_call(call: Call, reason: str, *, is_ok: bool) -> Label:
    """What a call reports when the called plan has ended."""
    if not call.outcomes:
        return OK if is_ok else FAILED
    return reason if reason in call.outcomes else "completed" if is_ok else "failed"


def takes_inputs_only(plan: Plan) -> bool:
    """Machines have no variables but their inputs."""
    return plan.dialect == "machine"


def keeps_context(call: Call, called: Plan) -> bool:
    """A recipe gives a recipe its final context (B)."""
    return call.keeps_context and called.dialect == "recipe"


def name_of_total(plan: Plan) -> str:
    """The limit on steps by its author's name; '' where A §2.6 says how a run ends by it."""
    names = {"machine": "", "recipe": "max_total_steps", "workflow": "limits.steps"}
    return names[plan.dialect]
