"""What a rehearsal of every route came to, in lines."""

from __future__ import annotations

from typing import Any

from orchestrate.plan.visible import plural, visible


def cover_text(document: dict[str, Any]) -> str:
    """`document` is what `run --cover --json` answers."""
    taken, missed = document["taken"], document["missed"]
    walked = f"{len(taken)} of {plural(len(taken) + len(missed), 'route')} taken in"
    done = f"{plural(document['walks'], 'walk')}; no agent was asked, no command was run"
    lines = [f"REHEARSAL: {walked} {done}"]
    if missed:
        lines.append("these cannot be taken:")
    lines += [
        visible(f"  {one['file']}:{one['line']}: {one['step']}: {one['outcome']}") for one in missed
    ]
    lines += [
        f"step '{visible(one['step'])}' failed: {visible(one['message'])}"
        for one in document["failed"]
    ]
    return "".join(f"{line}\n" for line in lines)
