"""What `run --cover` says: which routes were taken, and which cannot be."""

from __future__ import annotations

from orchestrate.app.cover import cover, covered_json
from orchestrate.app.prepare import Prepared
from orchestrate.exits import DONE, FAILED
from orchestrate.plan.visible import plural, visible
from orchestrate.show.output import answer, answer_json


def show_cover(prepared: Prepared, *, as_json: bool) -> int:
    """Rehearse every route; a step that fails by itself makes the command fail."""
    covered = cover(prepared)
    document = covered_json(covered, prepared.program)
    if as_json:
        answer_json(document)
    else:
        total = len(covered.taken) + len(covered.missed)
        walked = f"{len(covered.taken)} of {plural(total, 'route')} taken in"
        done = f"{plural(covered.walks, 'walk')}; no agent was asked, no command was run"
        lines = [f"REHEARSAL: {walked} {done}"]
        if covered.missed:
            lines.append("these cannot be taken:")
        lines += [
            visible(f"  {one['file']}:{one['line']}: {one['step']}: {one['outcome']}")
            for one in document["missed"]
        ]
        lines += [
            f"step '{visible(step)}' failed: {visible(message)}" for step, message in covered.failed
        ]
        answer("".join(f"{line}\n" for line in lines))
    return FAILED if covered.failed else DONE
