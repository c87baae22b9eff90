"""What an edit of a run would do, in a line: what it keeps, what it runs, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrate.engine.edit_preview import EditPreview, PendingStep
from orchestrate.plan.fingerprint import fingerprint
from orchestrate.plan.nodes import nodes_in
from orchestrate.plan.visible import visible
from orchestrate.state.address import Address, name_of_node
from orchestrate.state.gates import OF_STAGE, is_of_stage
from orchestrate.view.why_words import listed, why_in_words

if TYPE_CHECKING:
    from orchestrate.plan.nodes import Node, Program
    from orchestrate.state.earlier import EarlierVisit


def edit_summary(foreseen: EditPreview, before: Program, now: Program) -> str:
    """`reuse 14, run 3: review (prompt changed, line 41), fix and commit (come after it)`."""
    runs = [_said(standing) for standing in foreseen.standing]
    behind = list(dict.fromkeys(_shown(entry) for entry in foreseen.behind))
    if behind:
        come = "comes" if len(behind) == 1 else "come"
        runs.append(f"{listed(behind)} ({come} after {'it' if len(runs) == 1 else 'those'})")
    count = len(foreseen.standing) + len(behind)
    text = f"reuse {len(foreseen.kept)}, run {count}" + (f": {', '.join(runs)}" if runs else "")
    if foreseen.gone:
        text += f"; no longer there: {listed([_shown(entry) for entry in foreseen.gone])}"
    if foreseen.skipped:
        text += f"; skip {listed([_shown(entry) for entry in foreseen.skipped])}"
    if foreseen.adopted:
        text += f"; still at work: {', '.join(map(_shown, foreseen.adopted))}"
    ahead = [f"{visible(n.name)} (line {n.span.line})" for n in _ahead(foreseen, before, now)]
    if ahead:
        text += f"; changed and not yet reached: {listed(ahead)}"
    if foreseen.saved_usd:
        text += f"; keeps about ${foreseen.saved_usd:.2f}"
    return text


def _ahead(foreseen: EditPreview, before: Program, now: Program) -> list[Node]:
    """Steps that are not what they were and that the run has not come to."""
    entries = (*foreseen.kept, *foreseen.behind, *foreseen.adopted, *foreseen.skipped)
    met = {entry.name for entry in entries}
    met |= {standing.name for standing in foreseen.standing} | foreseen.entered
    old = dict(_nodes(before))
    return [
        node
        for name, node in _nodes(now)
        if node.name not in met and (name not in old or _differ(old[name], node))
    ]


def _nodes(program: Program) -> list[tuple[tuple[str, str], Node]]:
    return [
        ((plan.id, node.id), node)
        for plan in program.plans
        for node in nodes_in(plan)
        if node.part_of is None
    ]


def _differ(one: Node, other: Node) -> bool:
    if fingerprint(one) != fingerprint(other):
        return True
    return (one.routes, one.retry, one.timeout_s) != (other.routes, other.retry, other.timeout_s)


def _shown(entry: EarlierVisit) -> str:
    visit = f"@{entry.visit}" if entry.visit > 1 else ""
    if is_of_stage(entry.name):
        return f"the approval of {visible(entry.name.removeprefix(OF_STAGE))}{visit}"
    return visible(Address(entry.address.frame, entry.name).shown + visit)


def _said(standing: PendingStep) -> str:
    line = standing.node.span.line
    where = f", line {line}" if "changed" in standing.why and line else ""
    shown = visible(standing.shown)
    if is_of_stage(name_of_node(standing.node.id)):
        shown = f"the approval of {shown}"
    return f"{shown} ({why_in_words(standing.why)}{where})"
