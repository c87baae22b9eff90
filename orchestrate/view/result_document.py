"""How a run stands after it was carried out, as JSON."""

from __future__ import annotations

from typing import Any

from orchestrate.exits import DONE
from orchestrate.state.edits import reused_document
from orchestrate.state.lineage import forked_document
from orchestrate.state.model import Frame, Index, RunState
from orchestrate.state.result import StepResult
from orchestrate.state.runs import Run
from orchestrate.state.values import restore_value
from orchestrate.state.worktree import worktree_document
from orchestrate.view.budgets import budgets_document
from orchestrate.view.cursors import failed_items

# What a step says in `--json`, and what it is called there.
_STATUS_FIELDS = {
    "status": "status",
    "exit_code": "exit_code",
    "duration_ms": "duration_ms",
    "outcome": "outcome",
    "outcome_description": "otherDescription",
    "reused": "reused",
}


def result_document(run: Run, state: RunState, index: Index) -> dict[str, Any]:
    """What `run --json` and `resume --json` answer, and what notifications are given."""
    ending = state.ending
    gates = state.pending
    return {
        "run_id": state.run_id,
        "run_root": str(run.root),
        "dialect": state.dialect,
        "workflow_file": state.definition,
        "status": state.status,
        "reason": state.reason,
        "exit_code": ending.code if ending is not None else DONE,
        **last_outcome(state),
        # The gate that a parked run waits at; all of them where stages wait side by side.
        "stage": gates[0].stage if gates else None,
        "approvals": [gate.question for gate in gates],
        "steps": _step_statuses(state.root),
        **outputs_document(run, state),
        **reused_document(state),
        **worktree_document(state),
        **forked_document(state),
        **({"costs": state.costs.to_json()} if state.costs.turns else {}),
        **budgets_document(state, index, state.updated_at),
        **({"denials": [denial.to_json() for denial in state.denials]} if state.denials else {}),
    }


def outputs_document(run: Run, state: RunState) -> dict[str, Any]:
    """What the run has given, in full, and why the rest has no value; nothing before its end."""
    given = state.root.outputs
    if given is None:
        return {}
    shown: dict[str, Any] = {"outputs": restore_value(run.root, given)}
    return shown | ({"outputs_undefined": state.root.undefined} if state.root.undefined else {})


def _step_statuses(root: Frame) -> dict[str, Any]:
    steps: dict[str, Any] = {
        name: {
            shown: getattr(result, key) for key, shown in _STATUS_FIELDS.items() if result.has(key)
        }
        for name, result in root.steps.items()
    }
    for loop in root.loops.values():
        steps[loop.name] = {
            "items": len(loop.items),
            "completed": len(loop.done),
            "failed": len(failed_items(loop)),
        }
    return steps


def last_outcome(state: RunState) -> dict[str, Any]:
    """A machine's newest outcome (A §2.3); null where there is none."""
    here = state.root.here
    current = state.current or (here.node if here is not None else "")
    known = state.root.steps.get(current) if state.dialect == "machine" else None
    known = known or StepResult()
    return {"outcome": known.outcome, "otherDescription": known.outcome_description}
