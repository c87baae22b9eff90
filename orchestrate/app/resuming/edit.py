"""An edit of a run: what would happen is told first, then the run takes over what is still good."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.app.config.apply_flags import with_settings
from orchestrate.app.definitions.checksums import checksums
from orchestrate.app.definitions.reachable import secrets_to_run
from orchestrate.app.definitions.undefined import refuse_undefined
from orchestrate.app.given.scopes import starting_values
from orchestrate.app.reading.open_run import given_later
from orchestrate.app.resuming.changed import changed_error, changes_of
from orchestrate.app.resuming.edit_summary import edit_summary
from orchestrate.app.resuming.frozen_run import copy_frozen, frozen_bytes, read_frozen
from orchestrate.app.starting.new_run import masked_context
from orchestrate.app.starting.single_step import as_started as reduced_as_started
from orchestrate.app.working.carry_out import runtime_of
from orchestrate.compile import compile_file, require_program
from orchestrate.diagnostics import closest
from orchestrate.dialects.lowering import constant_map
from orchestrate.engine.catch_up import catch_up
from orchestrate.engine.edit_preview import EditPreview, ScratchStore, preview_edit
from orchestrate.engine.reuse import given_up
from orchestrate.errors import DefinitionError, KeeperSilent, OrchestrateError, UsageError, explain
from orchestrate.plan.nodes import all_nodes, main_plan
from orchestrate.plan.override import with_context
from orchestrate.plan.visible import visible
from orchestrate.record import record, replace
from orchestrate.state.address import Address
from orchestrate.state.apply import apply
from orchestrate.state.delete import delete_tree
from orchestrate.state.durable import dump_json, write_durably
from orchestrate.state.earlier import Earlier, EarlierVisit
from orchestrate.state.events import CallOpened, Edited, Event, RunResumed
from orchestrate.state.lineage import earlier_of, lineage_of
from orchestrate.state.plan_file import DOCUMENTS, FILE, edit_folder
from orchestrate.state.store import load
from orchestrate.view.source_files import combined_checksum, file_at
from orchestrate.view.why_words import listed

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.app.reading.open_run import Header
    from orchestrate.app.resuming.late_plans import LatePlans
    from orchestrate.app.working.reporter import Reporter
    from orchestrate.compile import Compilation
    from orchestrate.engine.secrets import Secrets
    from orchestrate.engine.stop import Stop
    from orchestrate.plan.nodes import Program
    from orchestrate.state.store import Store
    from orchestrate.workspace import Workspace

_MOST_NAMES = 12


@record
class EditRequest:
    """What a person wants: the files as they are now, steps done again, results kept."""

    edited: bool = False
    redo: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()
    # Paths of results that do not count any more (`rewind`).
    void: tuple[tuple[str, ...], ...] = ()
    # A rewind: files of the definition that are about to be put back are not gone on with.
    is_rewind: bool = False
    # A rewind is taken back, and with it what it has made void.
    is_undo: bool = False

    @property
    def name_steps(self) -> bool:
        return bool(self.redo or self.accept or self.void)

    @property
    def is_consent(self) -> bool:
        return self.edited or self.name_steps


NO_EDIT = EditRequest()


@record
class ResumePlan:
    """What a resume goes on with. `values` are given to what has not finished; `begin` puts the
    edit on record, if there is one, with events that belong to it."""

    store: Store
    header: Header
    program: Program
    late: LatePlans
    settings: RunSettings
    values: Mapping[str, Any]
    begin: Callable[..., None] | None = None

    @property
    def workspace(self) -> Workspace:
        return self.late.workspace


def plan_edit(
    resuming: ResumePlan, request: EditRequest, reporter: Reporter, stop: Stop, *, is_over: bool
) -> ResumePlan | None:
    """The course with the definition as it is now, if that matters and a person agrees; the same
    one if there is nothing to edit, and None if the run is over then.
    """
    header, workspace = resuming.header, resuming.workspace
    changed = changes_of(
        resuming.store.run,
        header,
        resuming.store.state,
        workspace,
        reporter,
        is_wanted=request.edited,
    )
    if not changed and not request.name_steps:
        return None if is_over else resuming
    is_there = file_at(header.definition, workspace).is_file()
    try:
        edit, foreseen, twice = prepare_edit(resuming, request, reporter, stop)
    except OrchestrateError as error:
        if request.is_consent:
            raise
        raise changed_error(
            header.run_id, changed, reporter.place, is_there=is_there, broken=_first(error)
        ) from None
    what = edit_summary(foreseen, resuming.program, edit.program)
    if request.is_consent:
        _refuse_effects(edit, twice, request, reporter)
        reporter.note(f"  {what}\n")
        return edit
    names = ", ".join(name + how.removeprefix("changed") for name, how in sorted(changed.items()))
    question = f"the definition of run {header.run_id} has changed: {visible(names)}\n  {what}"
    answer = reporter.confirm(question)
    if answer is None:
        raise changed_error(
            header.run_id, changed, reporter.place, is_there=is_there, foreseen=what
        )
    if not answer:
        raise UsageError("nothing was started", "to go on as it was started: --as-started")
    _refuse_effects(edit, twice, request, reporter)
    return edit


def _first(error: OrchestrateError) -> str:
    """What is wrong, with its place where it has one."""
    found = error.diagnostics if isinstance(error, DefinitionError) else ()
    for one in (one for one in found if one.severity == "error"):
        return f"{one.span}: {one.message}"
    return error.message


def prepare_edit(
    resuming: ResumePlan, request: EditRequest, reporter: Reporter, stop: Stop
) -> tuple[ResumePlan, EditPreview, list[EarlierVisit]]:
    """Find out what the definition leaves of the run, and which steps with an effect would run
    again."""
    store, header, settings = resuming.store, resuming.header, resuming.settings
    workspace, values = resuming.workspace, resuming.values
    lineage = lineage_of(store.state)
    number = max(header.edit, lineage.edit if lineage is not None else 0) + 1
    root = edit_folder(store.run.root, number)
    if root.exists():  # of an edit that a kill has kept from going on record
        delete_tree(root.parent, root.name)
    compiled, compilation = _definition(resuming, request)
    whole = reduced_as_started(compiled, settings)
    secrets = secrets_to_run(whole, workspace)
    context = masked_context(_context(resuming, whole, secrets), secrets, reporter)
    program = with_context(with_settings(whole, settings), constant_map({**context, **values}))
    late, sources = resuming.late, header.sources
    if compilation is not None:
        refuse_undefined(compilation, program)
        late, sources = replace(late, root=root), checksums(compilation, workspace)
    _catch_up(resuming, reporter, stop)
    store.sync()
    earlier = earlier_of(store.run)
    accept = _accepted(earlier, request)
    event = Edited(
        at=store.state.updated_at,
        edit=number,
        plan=main_plan(program).id,
        definition=header.definition,
        checksum=combined_checksum(sources),
        sources=sources,
        context=context,
        redo=_to_redo(earlier, request, accept),
        accept=accept,
    )
    earlier.add(event)
    earlier.add(RunResumed(event.at, context=dict(values)))
    store.index.learn_edit(number, program, late.find)
    index = store.index.copied()
    scratch = ScratchStore(store.run, index, load(store.run, index))
    apply(index, scratch.state, event)
    scratch.state.root.variables |= values
    rt = runtime_of(
        scratch,  # type: ignore[arg-type]
        program, workspace, settings, reporter, stop, foresees=late.root,
    )  # fmt: skip
    rt.earlier = earlier
    try:
        foreseen = preview_edit(rt)
    finally:
        rt.close()
        rt.logbook.close()
    event = replace(event, given_up=[[a.id, a.where] for a in given_up(earlier)])

    def begin(*more: Event) -> None:
        if compilation is None:
            copy_frozen(resuming.header.root, root)
        else:
            _keep(root, compilation, program, workspace)
        store.record(replace(event, at=max(event.at, rt.now())), *more)

    header = replace(header, root=root, edit=number)
    edit = ResumePlan(store, header, program, late, settings, values, begin)
    return edit, foreseen, _effects_again(resuming, program, earlier, foreseen, request)


def _definition(resuming: ResumePlan, request: EditRequest) -> tuple[Program, Compilation | None]:
    """What the run is made of from now on: the files as they are, or (None) its own copy."""
    header, before = resuming.header, resuming.store.state.dialect
    frozen = read_frozen(header.root) if request.is_rewind else None
    if frozen is not None and not frozen.is_masked:
        return frozen.program, None
    workspace = resuming.workspace
    compilation = compile_file(file_at(header.definition, workspace), workspace)
    program = require_program(compilation)
    if (now := main_plan(program).dialect) != before:
        raise UsageError(
            f"run {header.run_id} is a {before}, and the file is a {now} now",
            f"to start over with it: orchestrate resume {header.run_id} --force-restart",
        )
    return program, compilation


def _catch_up(resuming: ResumePlan, reporter: Reporter, stop: Stop) -> None:
    """Record what has happened since the run's orchestrator was killed, if it was."""
    store = resuming.store
    if store.state.status != "running":
        return
    rt = runtime_of(store, resuming.program, resuming.workspace, resuming.settings, reporter, stop)
    try:
        catch_up(rt)
    except KeeperSilent:
        stop.leave()  # it was said already whom we wait for
        raise
    finally:
        rt.close()
        rt.logbook.close()


def _context(resuming: ResumePlan, whole: Program, secrets: Secrets) -> dict[str, Any]:
    """What the file says now; what was given from outside stays. What is known is masked."""
    before, known = secrets.data(_defaults(resuming.program)), resuming.header.context
    given = {k: v for k, v in known.items() if k not in before or before[k] != v}
    return _defaults(whole) | given | given_later(resuming.store.run)


def _defaults(program: Program) -> dict[str, Any]:
    return starting_values(main_plan(program))


def results_named(earlier: Earlier, text: str, flag: str) -> list[EarlierVisit]:
    """The results that a person names, `STEP`, `LOOP[2]/STEP` or `STEP:2`."""
    found: list[EarlierVisit] = []
    with suppress(ValueError):
        found = earlier.covered(Address.typed(text))
    if found:
        return found
    names = earlier.shown_names
    shown = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
    near = closest(text, names)
    also = f" (did you mean '{near}'?)" if near else ""
    raise UsageError(f"{flag}: the run has no result of a step '{text}'{also}", f"it has: {shown}")


def _to_redo(earlier: Earlier, request: EditRequest, accept: list[list[str]]) -> list[list[str]]:
    """What a person names, what goes with that, and what an earlier wish has left to be done."""
    owed = [] if request.is_undo else earlier.owed_redo()
    wanted = [e.path for text in request.redo for e in results_named(earlier, text, "--redo")]
    wanted += [path for path in (*request.void, *owed) if list(path) not in accept]
    return [list(path) for path in dict.fromkeys(wanted)]


def _accepted(earlier: Earlier, request: EditRequest) -> list[list[str]]:
    paths = []
    for text in request.accept:
        for entry in results_named(earlier, text, "--accept"):
            done = entry.finished
            if done is not None and done.result.status == "failed":
                raise UsageError(
                    f"--accept: step '{text}' has failed, and a failure is not a result to keep",
                    f"to do it again: --redo {text}",
                )
            paths.append(list(entry.path))
    return paths


def _keep(root: Path, compilation: Compilation, program: Program, workspace: Workspace) -> None:
    """Keep what the run is made of from now on, before the edit is on record."""
    mask = secrets_to_run(program, workspace).data
    whole = require_program(compilation)
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise explain("make", root, error) from error
    write_durably(root / DOCUMENTS, dump_json(mask(compilation.documents), indent=2))
    write_durably(root / FILE, frozen_bytes(whole, program, workspace, mask))


def _effects_again(
    resuming: ResumePlan,
    program: Program,
    earlier: Earlier,
    foreseen: EditPreview,
    request: EditRequest,
) -> list[EarlierVisit]:
    """The steps with an effect that have begun, would run again, and that no flag names."""
    opened = [e.opened for e in earlier.entries.values() if isinstance(e.opened, CallOpened)]
    late = [resuming.late.whole(call.plan) for call in opened if call.late]
    effects = {node.name for each in (program, *late) for node in all_nodes(each) if node.effect}
    standing = [s.entry for s in foreseen.standing if s.entry is not None]
    again = [entry for entry in standing if entry.is_answered or entry.has_begun]
    named = [Address.typed(text) for text in request.redo]
    return [
        entry
        for entry in (*again, *foreseen.behind, *foreseen.cut)
        if entry.name in effects and not any(wanted.covers(entry.visited) for wanted in named)
    ]


def _refuse_effects(
    edit: ResumePlan, twice: list[EarlierVisit], request: EditRequest, reporter: Reporter
) -> None:
    """A step with an effect never runs twice by itself: a person says what holds, at the terminal
    or by flags."""
    refused: list[EarlierVisit] = []
    for entry in twice:
        agreed = reporter.confirm(_twice_in_words([entry]))
        refused += [] if agreed else [entry]
        if agreed is False:
            break
    if not refused:
        return
    again = _same_command(edit, request)
    hint = ""
    if accepted := [word for e in refused if e.is_answered for word in ("--accept", _shown(e))]:
        hint = f"if what was done still holds: {reporter.place.command(*again, *accepted)}\n"
    elif refused[0].started:  # it may still run: nothing can be accepted
        as_started = reporter.place.command("resume", edit.header.run_id, "--as-started")
        hint = f"to wait for it first: {as_started}\n"
    redo = [word for entry in refused for word in ("--redo", _shown(entry))]
    anew = f"to do it once more: {reporter.place.command(*again, *redo)}"
    raise UsageError(_twice_in_words(refused), hint + anew)


def _twice_in_words(entries: list[EarlierVisit]) -> str:
    names = listed([f"'{_shown(entry)}'" for entry in entries])
    steps = f"step {names} has" if len(entries) == 1 else f"steps {names} have"
    return f"{steps} an effect (`effect: true`) and would run a second time"


def _shown(entry: EarlierVisit) -> str:
    return visible(entry.address.step.shown) + (f"@{entry.visit}" if entry.visit > 1 else "")


def _same_command(edit: ResumePlan, request: EditRequest) -> tuple[str, ...]:
    """What the person has typed; a fork that is refused is not there any more to be resumed."""
    words = ["resume", edit.header.run_id]
    redo = request.redo
    lineage = lineage_of(edit.store.state)
    if lineage is not None and edit.store.state.edit == 0:
        words = ["fork", lineage.run, "--from", lineage.step]
        words += [] if edit.store.state.worktree is not None else ["--in-place"]
        redo = tuple(lineage.redo)
    words += [word for step in request.accept for word in ("--accept", step)]
    return (*words, *(word for step in redo for word in ("--redo", step)))
