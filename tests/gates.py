"""Rehearsed runs that stop at their gates, as a run without a person does."""

from __future__ import annotations

from orchestrate.testing import Project


def waiting_at(project: Project, *stages: str) -> tuple[str, ...]:
    """The flags of a rehearsal in which these gates wait."""
    script = "".join(f"{stage}: [waits]\n" for stage in stages)
    path = project.folder / ".orchestrate" / "waits.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(script)
    return ("--backend", "rehearsal", "--script", str(path))
