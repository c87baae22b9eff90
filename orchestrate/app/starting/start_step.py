"""Starts a run of a single step, which may use what other steps found in an earlier run."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from orchestrate.app.config.apply_flags import configured, with_defaults, with_flags
from orchestrate.app.config.load import load_config, runs_folder
from orchestrate.app.definitions.agents import refuse_unusable
from orchestrate.app.definitions.find import compiled
from orchestrate.app.files.scratch import scratch_place
from orchestrate.app.given.context import with_given_context
from orchestrate.app.reading.open_run import find_stored, header_of
from orchestrate.app.starting.prepare import Prepared
from orchestrate.app.starting.single_step import context_uses, find_step, needs_of, reduce_to
from orchestrate.app.starting.start import carry_out_anew
from orchestrate.dialects.lowering import constant_map
from orchestrate.errors import UsageError
from orchestrate.plan.nodes import OK, main_plan
from orchestrate.plan.override import with_context
from orchestrate.record import record, replace
from orchestrate.state.events import StepFinished
from orchestrate.state.result import StepResult
from orchestrate.state.runs import Run
from orchestrate.state.values import restore_value
from orchestrate.view.run_view import run_view
from orchestrate.view.source_files import file_at

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.app.starting.start import RunOutcome
    from orchestrate.app.working.reporter import Reporter
    from orchestrate.plan.nodes import Program
    from orchestrate.state.store import Store
    from orchestrate.view.place import Place
    from orchestrate.workspace import Workspace

_FINISHED = ("completed", "failed", "skipped")


@record
class EarlierResults:
    """What an earlier run has for a step: results of other steps, and variables."""

    run_id: str
    results: dict[str, StepResult]
    variables: dict[str, Any]


_NOTHING = EarlierResults("", {}, {})


def prepare_step(
    file: str,
    step: str,
    workspace: Workspace,
    settings: RunSettings,
    from_run: str | None,
    place: Place,
) -> tuple[Prepared, EarlierResults]:
    """A program that is the one step, and what the step is given."""
    compilation, program = compiled(file, workspace)
    settings.check(program)
    step = find_step(program, step).name
    whole = with_flags(with_given_context(program, settings, workspace), settings)
    given = _given_by(whole, step, from_run, place)
    reduced = reduce_to(program, step, list(given.results))
    reduced = with_flags(with_given_context(reduced, settings, workspace), settings)
    if given.variables:
        reduced = with_context(reduced, constant_map(given.variables))
    config = load_config(workspace)
    single = {"step": step, "given": list(given.results)}
    settings = replace(configured(settings, config), run_step=single)
    reduced = with_defaults(reduced, settings)
    return Prepared(compilation, reduced, workspace, settings, config), given


def prepare_scratch(
    step: str, settings: RunSettings, run_name: str, place: Place
) -> tuple[Prepared, EarlierResults]:
    """A step of a run, as its file is now, with all that the run knows; never `latest`."""
    _, run, workspace = find_stored(run_name, place)
    file = str(file_at(header_of(run).definition, workspace))
    prepared, given = prepare_step(file, step, workspace, settings, run.id, place)
    told = {word.partition("=")[0] for word in (*settings.context, *settings.input)}
    declared = dict(main_plan(prepared.program).context.items).keys() - told
    known = run_view(run).state.root.variables
    values = {name: restore_value(run.root, known[name]) for name in declared if name in known}
    single = {**(prepared.settings.run_step or {}), "scratch": run.id}
    return (
        replace(
            prepared,
            program=with_context(prepared.program, constant_map(values)),
            settings=replace(prepared.settings, run_step=single),
        ),
        given,
    )


def start_step(prepared: Prepared, given: EarlierResults, reporter: Reporter) -> RunOutcome:
    """Start a run of the step, and carry it out."""
    refuse_unusable(prepared.program, prepared.workspace, prepared.settings)
    runs = runs_folder(prepared.workspace, prepared.config, reporter.place.state_dir)
    single = prepared.settings.run_step or {}
    with ExitStack() as stack:
        place = None
        if scratch_of := single.get("scratch"):
            origin = Run(scratch_of, runs.folder / scratch_of)
            place = stack.enter_context(scratch_place(prepared, origin, single["step"], reporter))
        return carry_out_anew(
            prepared,
            runs,
            reporter,
            what=f"step '{single.get('step')}' of ",
            begun=lambda store: _record_given(store, prepared.program, given),
            place=place,
        )


def _given_by(program: Program, step: str, from_run: str | None, place: Place) -> EarlierResults:
    """What the step needs, from the run that is to give it; refused if anything is missing."""
    needs = needs_of(program, step)
    given = _NOTHING
    if from_run is not None:
        wanted = (*needs.variables, *context_uses(program, step))
        given = _read_given(from_run, needs.steps, wanted, place)
    missing = [f"'{name}'" for name in needs.steps if name not in given.results]
    unset = [f"'{name}'" for name in needs.variables if name not in given.variables]
    if not missing and not unset:
        return given
    parts = []
    if missing:
        parts.append(f"the result of {', '.join(missing)}")
    if unset:
        parts.append(f"a value for {', '.join(unset)}")
    what = f"step '{step}' needs {' and '.join(parts)}"
    ways = [f"set it with --context {unset[0][1:-1]}=VALUE"] if unset else []
    if from_run is not None:
        raise UsageError(f"{what}, which run {given.run_id} does not have", "".join(ways))
    raise UsageError(what, ", or ".join([*ways, "give a run that has it with --from RUN"]))


def _read_given(
    name: str, steps: tuple[str, ...], variables: tuple[str, ...], place: Place
) -> EarlierResults:
    _, run, _ = find_stored(name, place)
    view = run_view(run)
    if view.is_live:
        raise UsageError(f"run {run.id} is still running", "wait until it ends, or cancel it")
    results = {}
    for step in steps:
        result = view.state.root.steps.get(step)
        if result is not None and result.status in _FINISHED:
            results[step] = result
    context = view.state.root.variables
    values = {key: restore_value(run.root, context[key]) for key in variables if key in context}
    return EarlierResults(run.id, results, values)


def _record_given(store: Store, program: Program, given: EarlierResults) -> None:
    """The results of other steps become results of this run, with a note where they are from."""
    ids = {node.name: node.id for node in program.plans[0].blocks[0].nodes}
    now = time.time()
    store.record(
        *(
            StepFinished("", ids[name], 1, now, OK, _marked(result, given.run_id))
            for name, result in given.results.items()
        )
    )


def _marked(result: StepResult, run_id: str) -> StepResult:
    """Its cost was counted in the run that it is from."""
    marked = result | StepResult(from_run=run_id)
    return marked | StepResult(billed=False) if result.is_turn else marked
