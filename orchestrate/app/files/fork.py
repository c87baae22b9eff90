"""Forks a run: a new one takes over its results up to a step, and goes another way from there.

The run that is forked is only read. The fork has copies of its journal, logs and values, so that it
depends on nothing of it; what it does first is an edit like any other (`app/resuming/edit`), with
the other run's results as its own earlier ones.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from orchestrate.app.config.apply_flags import with_settings
from orchestrate.app.config.load import load_config
from orchestrate.app.files.worktree_files import files_before, names_of
from orchestrate.app.files.worktrees import in_worktree, plan_worktree, remove_unbegun
from orchestrate.app.given.context import context_of
from orchestrate.app.reading.open_run import given_later, header_of
from orchestrate.app.resuming.edit import results_named
from orchestrate.app.resuming.resume import Resumed, resume
from orchestrate.app.starting.new_run import start_run
from orchestrate.app.starting.single_step import as_started as reduced_as_started
from orchestrate.checkpoints.inheriting import inherit
from orchestrate.checkpoints.model import CHECKPOINTS
from orchestrate.compile import compile_file, require_program
from orchestrate.dialects.lowering import constant_map
from orchestrate.errors import OrchestrateError, UsageError, explain
from orchestrate.plan.override import with_context
from orchestrate.plan.visible import visible
from orchestrate.record import record, replace
from orchestrate.state.address import Address
from orchestrate.state.durable import write_durably
from orchestrate.state.events import Edited
from orchestrate.state.lineage import ORIGIN, Lineage, earlier_of, origin_journals
from orchestrate.state.recorded import read_events
from orchestrate.state.runs import discard_run
from orchestrate.state.worktree import worktree_of
from orchestrate.view.run_view import run_view
from orchestrate.view.source_files import file_at

if TYPE_CHECKING:
    from orchestrate.app.files.worktree_files import Beginning
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.app.working.reporter import Reporter
    from orchestrate.state.earlier import Earlier, EarlierVisit
    from orchestrate.state.runs import Run, Runs
    from orchestrate.workspace import Workspace

# What a result of the other run may refer to. The rest of its folder is about that run alone.
_TAKEN_OVER = ("logs", "artifacts", "values", "turns")
_OF_THE_COMMIT = (
    "  its files are those of the commit: the run has no checkpoint before that step, and what it "
    "had changed and not committed is not there\n"
)


@record
class ForkRequest:
    """Where a person wants to go another way, and how."""

    step: str
    redo: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()
    in_place: bool = False


def fork(
    runs: Runs,
    origin: Run,
    workspace: Workspace,
    given: RunSettings,
    request: ForkRequest,
    reporter: Reporter,
    context: Mapping[str, Any] = MappingProxyType({}),
) -> Resumed:
    """A new run with the results of another up to a step; it starts at once."""
    header, state = header_of(origin), run_view(origin).state
    settings = given.over(header.settings)
    name = None if request.in_place else (given.worktree or "")
    settings = replace(settings, worktree=name, with_changes=False)
    earlier = earlier_of(origin)
    entries = _require_results(earlier, request)
    files = None if request.in_place else files_before(origin, entries, earlier)
    if files is not None:
        files = _agreed(files, origin, request, earlier, reporter)
    step = request.step if files is None else files.begins_at
    config = load_config(workspace)
    planned = plan_worktree(
        workspace, settings, config, in_worktree(workspace, state),
        None if files is None else files.checkpoint,
    )  # fmt: skip
    compilation = compile_file(file_at(header.definition, workspace), workspace)
    program = reduced_as_started(require_program(compilation), settings)
    given.check(program)
    program = with_settings(program, settings)
    values = context_of(program, given, workspace, context)
    known = header.context | given_later(origin) | values
    program = with_context(program, constant_map(known))
    lineage = Lineage(
        origin.id,
        step,
        header.edit,
        list(request.redo),
        list(request.accept),
        list(values),
        [] if files is None else list(files.since),
    )
    store = start_run(
        runs, program, compilation, workspace, settings, reporter, worktree=planned,
        lineage=lineage, furnish=lambda folder: _take_over(origin, folder),
    )  # fmt: skip
    run, tree = store.run, worktree_of(store.state)
    store.close()
    reporter.note(f"run {run.id} is a fork of run {origin.id}, from step {step} on\n")
    if tree is not None:
        reporter.note(_OF_THE_COMMIT if files is None else files.words())
    try:
        return resume(run, workspace, given.without_values(), reporter)
    except OrchestrateError:
        if not _has_begun(run):
            # Nothing has worked there yet.
            if tree is not None:
                remove_unbegun(tree)
            discard_run(runs, run)
        raise


def _require_results(earlier: Earlier, request: ForkRequest) -> list[EarlierVisit]:
    """Refuse before anything is made what names no result of the run; those of the step, and those
    that the run itself owes: they count no more than it does."""
    for flag, names in (("--from", (request.step, *request.redo)), ("--accept", request.accept)):
        for name in names:
            results_named(earlier, name, flag)
    kept = {
        entry.path for name in request.accept for entry in results_named(earlier, name, "--accept")
    }
    owed = [earlier.entries[path] for path in earlier.owed_redo() if path not in kept]
    return [*results_named(earlier, request.step, "--from"), *owed]


def _agreed(
    files: Beginning, origin: Run, request: ForkRequest, earlier: Earlier, reporter: Reporter
) -> Beginning:
    """The files that the fork begins with, and which results it gives up for them. What agents were
    asked before the step may have cost much: a person agrees to have it done again."""
    kept = {e.path for text in request.accept for e in results_named(earlier, text, "--accept")}
    files = files.accepting(kept)
    wanted = {e.path for text in request.redo for e in results_named(earlier, text, "--redo")}
    asked = [
        entry
        for entry in files.lacks
        if entry.path not in wanted
        and entry.finished is not None
        and entry.finished.result.agent is not None
    ]
    if not asked:
        return files
    what = (
        f"{names_of(asked)} would be done again: no checkpoint tells what they did to files from "
        f"what '{visible(files.step)}' did; before '{visible(files.whole)}' there is one"
    )
    answer = reporter.confirm(what)
    if answer is None:
        fork_again = reporter.place.command("fork", origin.id, "--from", files.whole)
        aside = reporter.place.command("fork", origin.id, "--from", request.step, "--in-place")
        raise UsageError(
            what,
            f"to do that: {visible(fork_again)}\n"
            "to keep a result without what it did to files: --accept STEP\n"
            f"to work in this folder, with its files as they are: {visible(aside)}",
        )
    if not answer:
        raise UsageError("nothing was started")
    return files


def _take_over(origin: Run, folder: Path) -> None:
    """Copy what the fork needs of the other run."""
    try:
        journals = [*origin_journals(origin), (origin.id, origin.events)]
        for number, (run_id, path) in enumerate(journals, start=1):
            place = folder / ORIGIN / str(number) / run_id
            place.mkdir(mode=0o700, parents=True)
            write_durably(place / path.name, path.read_bytes())
        for name in _TAKEN_OVER:
            if (origin.root / name).is_dir():
                shutil.copytree(
                    origin.root / name, folder / name, symlinks=True, dirs_exist_ok=True,
                    ignore=_of_orchestrators,
                )  # fmt: skip
        if (origin.root / CHECKPOINTS).is_dir():
            inherit(origin.root / CHECKPOINTS, folder / CHECKPOINTS)
    except (OSError, shutil.Error) as error:
        if isinstance(error, shutil.Error):
            raise UsageError(f"run {origin.id} cannot be copied: {error}") from error
        raise explain("copy", origin.root, error) from error


def _of_orchestrators(_: str, names: list[str]) -> set[str]:
    """Logs that do not belong to a step."""
    return {"orchestrator.log", "detached.log", "worktree.log"} & {*names}


def _has_begun(run: Run) -> bool:
    return any(isinstance(recorded.event, Edited) for recorded in read_events(run.events))


def step_to_fork_from(text: str) -> str:
    """The step as it was typed; `UsageError` if no step can be called so."""
    try:
        Address.typed(text)
    except ValueError:
        hint = "write STEP, or STEP@2 for its second visit"
        raise UsageError(f"--from: '{text}' names no step", hint) from None
    return text
