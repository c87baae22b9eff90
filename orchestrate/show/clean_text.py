"""What `clean` removed and kept, as text and as a document for programs."""

from __future__ import annotations

from typing import Any

from orchestrate.plan.visible import plural, show_size
from orchestrate.show.runs_table import runs_table
from orchestrate.view.outcomes import UNFINISHED, Tidied

_MOST_NAMES = 20


def tidied_json(tidied: Tidied, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "removed": tidied.removed,
        "in_use": tidied.in_use,
        "unmerged": tidied.unmerged,
        "left": [{"run_id": run_id, "status": status} for run_id, status in tidied.left.items()],
        "failed": [{"run_id": run_id, "reason": reason} for run_id, reason in tidied.failed],
        "freed_bytes": tidied.freed,
    }


def tidied_text(tidied: Tidied, dry_run: bool) -> str:
    lines = [runs_table(tidied.shown)] if dry_run else []
    did, freed = ("would remove", "would free") if dry_run else ("removed", "freed")
    size = f", {freed} {show_size(tidied.freed)}" if tidied.removed else ""
    lines.append(f"{did} {plural(len(tidied.removed), 'run')}{size}\n")
    if tidied.in_use:
        shown = ", ".join(tidied.in_use[:_MOST_NAMES])
        more = ", …" if len(tidied.in_use) > _MOST_NAMES else ""
        lines.append(f"in use and kept: {shown}{more}\n")
    if tidied.unmerged:
        names = ", ".join(tidied.unmerged[:_MOST_NAMES])
        lines.append(f"worktree not merged, and kept: {names}; see orchestrate status RUN\n")
    if tidied.left:
        found = [status for status in UNFINISHED if status in tidied.left.values()]
        flags = " ".join(f"--status {status}" for status in found)
        count = plural(len(tidied.left), "run")
        lines.append(f"can still be resumed and kept: {count}; to choose them, add {flags}\n")
    return "".join(lines)
