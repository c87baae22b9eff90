"""The files that a result stands on: are they what the run last knew of them?

A file that a later step of the run has changed is as the run knows it: where the workspace has
checkpoints, they tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from orchestrate.checkpoints.model import CheckpointError
from orchestrate.engine.confine import open_regular
from orchestrate.engine.faults import StepFault
from orchestrate.engine.keys import FILES
from orchestrate.engine.runtime import Runtime
from orchestrate.engine.step import Step
from orchestrate.state.earlier import Earlier, Entry


def changed_files(step: Step, entry: Entry, earlier: Earlier) -> Iterator[str]:
    """Files of the step that are neither what they were for its result nor what the run itself
    last recorded of them."""
    for name, digest in recorded_files(step, entry, earlier).items():
        now = FILES.digest(step.rt.workspace, name)
        if now in (digest, earlier.files.get(name, digest)):
            continue
        tree = earlier.tree_of(name)
        if not tree or not _is_captured(step.rt, tree, name):
            yield name


def recorded_files(step: Step, entry: Entry, earlier: Earlier) -> dict[str, str]:
    """The files of the step and of its checks, as they were for its result."""
    recorded: dict[str, str] = dict(entry.key.get("files", {}))
    part = f"{step.node.id}:check-"
    for path, other in earlier.entries.items():
        if path[:-1] == entry.path[:-1] and other.name.startswith(part):
            recorded |= other.key.get("files", {})
    return recorded | (entry.finished.made if entry.finished is not None else {})


def _is_captured(rt: Runtime, tree: str, name: str) -> bool:
    """Is the file as a checkpoint has it, or gone as it is there?"""
    content = None
    with suppress(StepFault, OSError), open_regular(rt.workspace, name) as opened:
        content = opened.read()
    store = rt.open_checkpoints()
    with suppress(CheckpointError):
        return store is not None and store.exists and store.has_file(tree, name, content)
    return False
