"""What a step, some steps or a whole run changed in the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrate.checkpoints.model import (
    Change,
    checkpoint_from_json,
    known_changes,
    left_out_of,
    nested_changes,
)
from orchestrate.checkpoints.store import Store, open_store
from orchestrate.errors import ConfigError, UsageError
from orchestrate.plan.visible import visible
from orchestrate.record import record
from orchestrate.state.recorded import read_events
from orchestrate.view.file_history import FileHistory, VisitSpan

if TYPE_CHECKING:
    from orchestrate.state.runs import Run


@record
class FilesChanged:
    """Between two checkpoints. `notes` say what they do not tell apart."""

    changes: tuple[Change, ...]
    patch: bytes
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "files": [{"path": one.path, "change": one.kind} for one in self.changes],
            "notes": list(self.notes),
        }


def history_of(run: Run) -> FileHistory:
    """The checkpoints of a run; a run without any is refused."""
    history = FileHistory(recorded.event for recorded in read_events(run.events))
    if not history.checkpoints:
        why = f": {visible(history.fault)}" if history.fault else ""
        raise UsageError(
            f"run {run.id} has no checkpoints of its workspace{why}",
            ""
            if why
            else "runs in a git work tree have them, others with: orchestrate run --checkpoints on",
        )
    return history


def store_of(run: Run) -> Store:
    store = open_store(run.root)
    if store is None:
        raise ConfigError("git, which reads checkpoints, is not installed", "install git")
    if not store.exists:
        raise UsageError(f"the checkpoints of run {run.id} are gone")
    return store


def diff_files(run: Run, steps: str | None) -> FilesChanged:
    """What `STEP`, or `STEP..STEP` from the first to the last, changed; without one, the run."""
    history, store = history_of(run), store_of(run)
    notes: list[str] = []
    if steps is None:
        old, new = history.checkpoints[0].checkpoint, history.checkpoints[-1].checkpoint
        notes += [f"not what was changed last: {_not_taken(history)}"] if history.fault else []
    else:
        first, _, last = steps.partition("..")
        begin = history.find(first)
        finish = history.find(last) if last else begin
        if finish.position < begin.position:
            raise UsageError(f"'{visible(last)}' came before '{visible(first)}'", "turn them round")
        old, new = _before(run, begin), _after(run, history, finish)
        notes += _shared(begin, finish)
    sides = (checkpoint_from_json(old), checkpoint_from_json(new))
    left = [f"{visible(one.path)} ({one.reason})" for one in left_out_of(*sides)]
    notes += [f"not recorded: {', '.join(left)}"] if left else []
    notes += [f"ignored since: {visible(name)}" for name in new.get("now_ignored", ())]
    nested = nested_changes(*sides)
    notes += [f"not looked into, a repository of its own: {visible(name)}" for name in nested]
    store.complete()
    seen = tuple(known_changes(store.changes(old["tree"], new["tree"]), *sides))
    patch = store.patch(old["tree"], new["tree"], [one.path for one in seen]) if seen else b""
    return FilesChanged(seen, patch, tuple(dict.fromkeys(notes)))


def _before(run: Run, span: VisitSpan) -> dict[str, Any]:
    if span.before is None:
        raise UsageError(f"run {run.id} has no checkpoint before '{visible(span.shown)}'")
    return span.before


def _after(run: Run, history: FileHistory, span: VisitSpan) -> dict[str, Any]:
    found = history.after(span)
    if found is None and history.fault:
        raise UsageError(
            f"run {run.id} has no checkpoint after '{visible(span.shown)}': {_not_taken(history)}"
        )
    if found is None:
        raise UsageError(
            f"run {run.id} has no checkpoint after '{visible(span.shown)}' yet",
            "it is taken when the step is over, or with the next agent, gate or end",
        )
    return found


def _not_taken(history: FileHistory) -> str:
    return f"it could not be taken ({visible(history.fault)})"


def _shared(begin: VisitSpan, finish: VisitSpan) -> list[str]:
    """Steps whose changes cannot be told from these."""
    others = [*begin.shares_before, *finish.shares_after]
    if begin is finish and not others:
        return []
    names = ", ".join(dict.fromkeys(visible(name) for name in others))
    return [f"shares its checkpoint with: {names}"] if names else []
