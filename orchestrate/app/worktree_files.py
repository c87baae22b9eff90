"""The files that a run in a worktree begins with, where they are those of another run's checkpoint.

A fork has the files of before the step that it begins at; a step that is tried has them with what
the user has changed since the run.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrate.app.git import git
from orchestrate.checkpoints.model import Checkpoint, checkpoint_from_json
from orchestrate.checkpoints.store import open_store
from orchestrate.errors import ConfigError
from orchestrate.plan.visible import visible
from orchestrate.record import record, replace
from orchestrate.state.address import Item
from orchestrate.state.lineage import origin_journals
from orchestrate.state.recorded import read_events
from orchestrate.view.file_history import FileHistory, Span

if TYPE_CHECKING:
    from collections.abc import Iterable

    from orchestrate.state.address import Address
    from orchestrate.state.earlier import Entry
    from orchestrate.state.runs import Run

_SUBMODULE = "160000"


@record
class Beginning:
    """The files of before a step. `lacks` are steps whose results may stand and whose changes are
    not there, as the checkpoint is one for all of them; before `whole` it is everybody's."""

    step: str
    checkpoint: Checkpoint
    lacks: tuple[str, ...] = ()
    whole: str = ""
    # The quick commands in a line are done again, so that no result stands without what it did to
    # files; not the items of a loop, which may have cost much.
    are_redone: bool = False

    def words(self, run_id: str) -> str:
        """What a person must know of them."""
        begun = self.whole if self.are_redone else self.step
        lines = [f"its files are those of before '{visible(begun)}'"]
        if self.are_redone:
            lines.append(
                f"{', '.join(visible(name) for name in self.lacks)} too: done again with "
                f"'{visible(self.step)}', as they share a checkpoint"
            )
        elif self.lacks:
            names = ", ".join(visible(name) for name in self.lacks)
            lines.append(
                f"what {names} did to them is not there: they share a checkpoint; to have it, do "
                f"it again: orchestrate fork {run_id} --from {visible(self.whole)}"
            )
        absent = [f"{one.path} ({one.reason})" for one in self.checkpoint.left_out]
        absent += [f"{one.path} (a repository of its own)" for one in self.checkpoint.nested]
        if absent:
            lines.append(f"not in the checkpoint: {visible(', '.join(absent))}")
        return "".join(f"  {line}\n" for line in lines)


def files_before(run: Run, entries: Iterable[Entry]) -> Beginning | None:
    """The checkpoint before the first of some results of a run; None if there is none."""
    wanted = {_plain(entry.visited) for entry in entries}
    journals = [run.events, *(path for _, path in reversed([*origin_journals(run)]))]
    first: Span | None = None
    for path in journals:
        history = FileHistory(recorded.event for recorded in read_events(path))
        found = {_plain(s.address): s for s in history.spans.values()}
        spans = [span for address, span in found.items() if address in wanted]
        if spans:
            # What an older journal has came before all that this one has.
            first = min(spans, key=lambda span: span.position)
            wanted -= found.keys()
    if first is None or first.before is None:
        return None
    checkpoint = checkpoint_from_json(first.before)
    loops = [part.loop for part in first.address.frame.parts if isinstance(part, Item)]
    if loops:
        lacks: tuple[str, ...] = (f"other items of '{loops[0]}'",)
        return Beginning(first.shown, checkpoint, lacks, loops[0])
    lacks = tuple(dict.fromkeys(first.shares_before))
    whole = lacks[0] if lacks else ""
    return Beginning(first.shown, checkpoint, lacks, whole, are_redone=bool(lacks))


def _plain(address: Address) -> Address:
    """A step is the same after an edit."""
    return replace(address, frame=replace(address.frame, edit=0))


def fill(run: Run, root: Path, files: Checkpoint) -> None:
    """Let a new worktree have the files of a checkpoint, no others, and these untouched by git."""
    store = open_store(run.root)
    if store is None:
        raise ConfigError("git, which reads checkpoints, is not installed", "install git")
    wanted = {*store.files(files.tree), *(one.path for one in files.left_out)}
    for entry in git(root, "ls-files", "-s", "-z").split("\0")[:-1]:
        name = entry.partition("\t")[2]
        if name not in wanted and not entry.startswith(_SUBMODULE):
            (root / name).unlink(missing_ok=True)
            with suppress(OSError):
                os.removedirs((root / name).parent)
    root.mkdir(parents=True, exist_ok=True)
    store.export(files.tree, root)
