"""Lets a run and its files stand before a step again; or takes that back (`--undo`).

The way there is worked out and shown first. Files and journal change together: until the event is
on record, everything can be put back, and is if anything goes wrong.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from orchestrate.app.config.load import load_config
from orchestrate.app.ending.claim import claim_patiently
from orchestrate.app.ending.stopping import stoppable
from orchestrate.app.files.begun_since import begun_since
from orchestrate.app.files.diff_files import history_of, store_of
from orchestrate.app.files.worktrees import in_worktree, require_worktree
from orchestrate.app.reading.open_run import header_of
from orchestrate.app.resuming.edit import EditRequest, ResumePlan, prepare_edit
from orchestrate.app.resuming.late_plans import LatePlans
from orchestrate.app.resuming.program import program_to_run, restore_late
from orchestrate.app.starting.concurrent_runs import WorkspaceEntry, refuse_at_work
from orchestrate.app.working.open_store import open_stored
from orchestrate.checkpoints.model import (
    Checkpoint,
    checkpoint_from_json,
    checkpoint_to_json,
    left_out_of,
    nested_changes,
)
from orchestrate.checkpoints.restore import (
    Restoration,
    carry_out,
    plan_restoration,
)
from orchestrate.errors import UsageError
from orchestrate.exits import end
from orchestrate.plan.visible import visible
from orchestrate.record import record
from orchestrate.state.events import Checkpointed, run_ended
from orchestrate.state.model import Index
from orchestrate.state.plan_file import edits_of

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrate.app.working.reporter import Reporter
    from orchestrate.checkpoints.store import Store as Files
    from orchestrate.state.runs import Run
    from orchestrate.state.store import Store
    from orchestrate.view.file_history import FileHistory
    from orchestrate.workspace import Workspace


@record
class RewindTarget:
    """Where a run is to stand: the files, what is said about it, and the results that go.

    `added` are the files that the run has added behind it: no others are deleted.
    """

    target: Checkpoint
    words: str
    void: tuple[tuple[str, ...], ...]
    added: set[str]
    is_undo: bool = False


@record
class RewindResult:
    """What was done, or would be."""

    aim: RewindTarget
    plan: Restoration
    notes: tuple[str, ...]
    is_done: bool

    def to_json(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "done": self.is_done,
            "to": self.aim.words,
            "write": [change.path for change in plan.write],
            "delete": [change.path for change in plan.delete],
            "keep": [{"path": kept.path, "reason": kept.reason} for kept in plan.keep],
            "partial": [{"path": kept.path, "reason": kept.reason} for kept in plan.partial],
            "results_void": len(self.aim.void),
            "notes": list(self.notes),
        }


def rewind(
    run: Run,
    workspace: Workspace,
    reporter: Reporter,
    step: str | None,
    *,
    force: bool,
    agrees: Any,
) -> RewindResult:
    """Put a run before a step; without one, take the last such change back (`--undo`).

    `agrees` is shown what would be done, and says whether to do it.
    """
    header = header_of(run)
    lock = claim_patiently(run, sys.argv)
    try:
        program = program_to_run(header, workspace, reporter.note, as_started=False, is_edit=True)
        late = LatePlans(workspace, header.settings, header.root)
        index = Index(program, late.find, header.edit, edits_of(run))
        index.learn_edit(header.edit, program, late.find)
        store = open_stored(run, lock, index, reporter.note)
    except BaseException:
        lock.release()
        raise
    with stoppable() as stop:
        try:
            restore_late(late, store.state.late, run, reporter.note)
            resuming = ResumePlan(store, header, program, late, header.settings, {})
            working = in_worktree(workspace, store.state)
            require_worktree(run, store.state, load_config(workspace), reporter, stop)
            _refuse_final(run, store)
            refuse_at_work(working, run, store.state.dialect)
            with WorkspaceEntry(
                working, program, header.settings, reporter, run.id, home=workspace
            ):
                history, files = history_of(run), store_of(run)
                aim = _aim(run, history, files, step)
                rewound = _plan(files, working.root, store, aim, force=force)
                request = EditRequest(is_rewind=True, void=aim.void, is_undo=aim.is_undo)
                edit, _, twice = prepare_edit(resuming, request, reporter, stop)
                if twice and not force:
                    raise UsageError(
                        f"step '{visible(twice[0].name)}' has an effect (`effect: true`) and "
                        "would run a second time after this",
                        "if that is wanted: --force",
                    )
                if not agrees(rewound):
                    return rewound
                _carry_out(files, working.root, edit, rewound)
        finally:
            store.close()
    return RewindResult(aim, rewound.plan, rewound.notes, is_done=True)


def _refuse_final(run: Run, store: Store) -> None:
    """A person's no and a person's stop stay, as they do for `resume`."""
    ending = store.state.ending
    if store.state.status == "cancelled" or (ending is not None and ending.kind == "denied"):
        raise UsageError(
            f"run {run.id} is over for good: {store.state.reason}",
            f"what it changed: orchestrate diff {run.id}",
        )


def _aim(run: Run, history: FileHistory, files: Files, step: str | None) -> RewindTarget:
    if step is None:
        return _undo(run, history, files)
    span = history.find(step)
    if span.before is None:
        raise UsageError(f"run {run.id} has no checkpoint before '{visible(span.shown)}'")
    if span.shares_before:
        names = ", ".join(visible(name) for name in span.shares_before)
        raise UsageError(
            f"'{visible(span.shown)}' shares its checkpoint with what came before it: {names}",
            f"go back to before the first of them: orchestrate rewind {run.id} "
            f"{visible(span.shares_before[0])}",
        )
    words = f"before '{span.shown}'"
    void = begun_since([run.events], (0, span.position))
    added = history.added_from(span.position, files.added)
    return RewindTarget(checkpoint_from_json(span.before), words, void, added)


def _undo(run: Run, history: FileHistory, files: Files) -> RewindTarget:
    """Back to before the last rewind; what one before that made void stays so."""
    if not history.rewinds:
        raise UsageError(f"run {run.id} was not rewound; there is nothing to undo")
    *others, last = history.rewinds
    if history.last_step > last.position:
        raise UsageError(
            f"run {run.id} has gone on since it was rewound",
            f"name the step to go back to: orchestrate rewind {run.id} STEP",
        )
    is_standing = bool(others) and history.last_step < others[-1].position
    void = others[-1].void if is_standing else ()
    target, added = (
        checkpoint_from_json(last.safety),
        history.added_from(last.position, files.added),
    )
    return RewindTarget(target, "before the last rewind", void, added, is_undo=True)


def _plan(
    files: Files,
    workspace: Path,
    store: Store,
    aim: RewindTarget,
    *,
    force: bool,
) -> RewindResult:
    """Capture how everything stands, and find out what leads back; nothing is changed."""
    now = files.capture(workspace)
    last = checkpoint_from_json(store.state.checkpoint)
    notes = []
    moved = [
        name for name in ("head", "branch", "index") if getattr(now, name) != getattr(last, name)
    ]
    if moved and not force:
        shown = ", ".join({"head": "HEAD", "index": "what is staged"}.get(m, m) for m in moved)
        raise UsageError(
            f"the repository is not as run {store.run.id} left it: {shown} changed since",
            "put it back, or go on all the same with --force: HEAD and index are left alone",
        )
    if (now.head, now.branch) != (aim.target.head, aim.target.branch):
        notes.append("HEAD, its branch and the index are left as they are; only files change")
    if nested := nested_changes(aim.target, now):
        shown = ", ".join(map(visible, nested))
        notes.append(f"repositories inside are left as they are: {shown}")
    plan = plan_restoration(files, workspace, now, aim.target, aim.added)
    if plan.partial and not force:
        listed = ", ".join(f"{visible(one.path)} ({one.reason})" for one in plan.partial)
        raise UsageError(
            f"not whole in the checkpoints: {listed}",
            "to leave them as they are and put back the others: --force",
        )
    named = {one.path for one in plan.partial}
    if absent := [one for one in left_out_of(aim.target, now) if one.path not in named]:
        shown = ", ".join(f"{visible(one.path)} ({one.reason})" for one in absent)
        notes.append(f"not recorded, left as they are: {shown}")
    return RewindResult(aim, plan, tuple(notes), is_done=False)


def _carry_out(files: Files, workspace: Path, edit: ResumePlan, rewound: RewindResult) -> None:
    """Files and journal together."""
    store = edit.store
    plan, aim = rewound.plan, rewound.aim

    def put_on_record(token: str) -> None:
        after = files.capture(workspace)
        assert edit.begin is not None
        at = store.state.updated_at
        changes = files.changes(plan.now.tree, after.tree)
        edit.begin(
            Checkpointed(
                at,
                checkpoint_to_json(after) | {"token": token},
                changes=[[one.kind, one.path] for one in changes],
                undoes={} if aim.is_undo else checkpoint_to_json(plan.now),
                is_undo=aim.is_undo,
            ),
            run_ended(at, end("rewound", f"rewound to {aim.words}"), after.head),
        )

    carry_out(files, workspace, plan, put_on_record)
    store.checkpoint(durable=True)
