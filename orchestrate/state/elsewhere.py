"""Runs on other machines, as what they have published is kept beside their stubs."""

from __future__ import annotations

import os

from orchestrate.state.runs import ELSEWHERE, Run

SHADOW = "shadow"


def shown_run(run: Run) -> Run:
    """A run elsewhere as it has published itself, where that was fetched; any other as it is."""
    shadow = run.root / SHADOW / "runs" / run.id
    is_elsewhere = os.path.lexists(run.root / ELSEWHERE) and shadow.is_dir()
    return Run(run.id, shadow) if is_elsewhere else run


def is_shadow(run: Run) -> bool:
    """Is it only what a run elsewhere has published? What is done here does nothing to that run."""
    return run.root.parent.parent.name == SHADOW
