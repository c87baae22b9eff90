"""`approval:` as a step: a gate whose answer later steps read, the same in every dialect."""

from __future__ import annotations

from orchestrate.dialects.commands import Filler
from orchestrate.plan.durations import seconds_of
from orchestrate.plan.expr import Text
from orchestrate.plan.nodes import Gate
from orchestrate.source.located import LocatedMap


def lower_gate(filler: Filler, approval: LocatedMap, name: str) -> Gate:
    """The question to a person; one without a time limit is warned of."""
    if "prompt" in approval and not {"timeout"} & {*approval, *approval.lost}:
        filler.work.report(
            "W105",
            f"the approval '{name}' waits for ever",
            approval,
            "prompt",
            on_key=True,
            hint="add timeout: 24h to let `default` decide after a day",
        )
    prompt = Text(filler.parts(approval, "prompt")) if "prompt" in approval else Text(())
    timeout = seconds_of(approval.get("timeout", 0))
    return Gate(name, prompt, timeout or None, approval.get("default", "deny"), is_step=True)
