"""The files that a run in a worktree begins with, where they are those of another run's checkpoint.

A fork has the files as they were before the step that it begins at; a step that is tried has them
with what the user has changed since the run.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrate.app.files.git import git
from orchestrate.checkpoints.model import Checkpoint, CheckpointError, checkpoint_from_json
from orchestrate.checkpoints.store import open_store
from orchestrate.errors import ConfigError
from orchestrate.plan.visible import visible
from orchestrate.record import record, replace
from orchestrate.state.lineage import Place, journals_of
from orchestrate.state.recorded import read_events
from orchestrate.view.file_history import FileHistory, VisitSpan, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from orchestrate.state.address import Address
    from orchestrate.state.earlier import Earlier, EarlierVisit
    from orchestrate.state.runs import Run

_SUBMODULE = "160000"


@record
class Beginning:
    """The files as they were before a step, and what was done but is not in them: what has begun
    `since` a place of the journals. `lacks` are results of before the step among that, done again
    because no checkpoint tells their changes apart; before `whole` it is everybody's. Those that
    are `accepted` stand without what they did to files."""

    step: str
    checkpoint: Checkpoint
    since: Place
    lacks: tuple[EarlierVisit, ...] = ()
    whole: str = ""
    accepted: tuple[EarlierVisit, ...] = ()

    @property
    def begins_at(self) -> str:
        return self.whole if self.lacks and not self.accepted else self.step

    def accepting(self, paths: Collection[tuple[str, ...]]) -> Beginning:
        """The same with results that a person keeps."""
        kept = tuple([entry for entry in self.lacks if entry.path in paths])
        return replace(
            self, lacks=tuple([one for one in self.lacks if one not in kept]), accepted=kept
        )

    def words(self) -> str:
        """What a person must know of them."""
        begun = self.whole if self.lacks or self.accepted else self.step
        lines = [f"its files are as they were before '{visible(begun)}'"]
        if self.lacks:
            lines.append(
                f"{names_of(self.lacks)} too: done again with '{visible(self.step)}', "
                "as they share a checkpoint"
            )
        if self.accepted:
            lines.append(f"what {names_of(self.accepted)} did to them is not there")
        absent = [f"{one.path} ({one.reason})" for one in self.checkpoint.left_out]
        absent += [f"{one.path} (a repository of its own)" for one in self.checkpoint.nested]
        if absent:
            lines.append(f"not in the checkpoint: {visible(', '.join(absent))}")
        return "".join(f"  {line}\n" for line in lines)


def names_of(entries: Iterable[EarlierVisit]) -> str:
    return ", ".join(dict.fromkeys(visible(shown(entry.visited)) for entry in entries))


def files_before(run: Run, entries: Iterable[EarlierVisit], earlier: Earlier) -> Beginning | None:
    """The checkpoint before the first of some results of a run; None if there is none."""
    wanted = {_plain(entry.visited) for entry in entries}
    found: tuple[int, FileHistory, VisitSpan] | None = None
    for number, path in reversed([*enumerate(journals_of(run))]):
        history = FileHistory(recorded.event for recorded in read_events(path))
        begun = {_plain(span.address): span for span in history.spans.values()}
        spans = [span for address, span in begun.items() if address in wanted]
        if spans:
            # What an older journal has came before all that this one has.
            found = number, history, min(spans, key=_position)
            wanted -= begun.keys()
    if found is None or found[2].before is None:
        return None
    number, history, first = found
    shares = _shared_with(history, first)
    checkpoint = checkpoint_from_json(found[2].before)
    if not shares:
        return Beginning(first.shown, checkpoint, (number, first.position))
    by_visit = {_plain(entry.visited): entry for entry in earlier.entries.values()}
    lacks = [by_visit.get(_plain(span.address)) for span in shares]
    return Beginning(
        first.shown, checkpoint, (number, min(map(_position, shares))),
        tuple([entry for entry in lacks if entry is not None]),
        _begins_with(history, first, shares).shown,
    )  # fmt: skip


def _shared_with(history: FileHistory, first: VisitSpan) -> list[VisitSpan]:
    """What was done between the checkpoint before a step and the step, if it changed a file."""
    names = {*first.shares_before}
    return [
        span
        for span in sorted(history.spans.values(), key=_position)
        if span.position < first.position and span.shown in names and span.may_have_changed_files
    ]  # fmt: skip


def _begins_with(history: FileHistory, first: VisitSpan, shares: list[VisitSpan]) -> VisitSpan:
    """The loop that all of them are in, or the first of them."""
    around = [
        span
        for span in history.spans.values()
        if all(span.address.contains(one.address) for one in (first, *shares))
        and span.before == first.before
    ]
    return max(around, key=_position) if around else shares[0]


def _position(span: VisitSpan) -> int:
    return span.position


def _plain(address: Address) -> Address:
    """A step is the same after an edit."""
    return replace(address, frame=replace(address.frame, edit=0))


def fill(run: Run, root: Path, files: Checkpoint) -> None:
    """Let a new worktree have the files of a checkpoint, no others, and these untouched by git."""
    store = open_store(run.root)
    if store is None:
        raise ConfigError("git, which reads checkpoints, is not installed", "install git")
    try:
        wanted = {*store.files(files.tree), *(one.path for one in files.left_out)}
        store.complete()
    except CheckpointError as error:
        way = "fork: add --in-place, which takes the files as they are"
        raise CheckpointError(error.message, way) from error
    for entry in git(root, "ls-files", "-s", "-z").split("\0")[:-1]:
        name = entry.partition("\t")[2]
        if name not in wanted and not entry.startswith(_SUBMODULE):
            (root / name).unlink(missing_ok=True)
            with suppress(OSError):
                os.removedirs((root / name).parent)
    root.mkdir(parents=True, exist_ok=True)
    store.export(files.tree, root)
