"""`orchestrate run-step`: carries out a single step of a workflow, as a run of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from orchestrate.app.apply_flags import with_defaults, with_flags
from orchestrate.app.definition import compiled, workspace_of
from orchestrate.app.settings import RunSettings
from orchestrate.app.stopping import stoppable
from orchestrate.cli.options import (
    flag_options,
    json_option,
    refuse_events,
    state_dir_option,
    watching_of,
    working_dir_option,
)
from orchestrate.errors import UsageError
from orchestrate.record import record, replace
from orchestrate.show.output import note
from orchestrate.state.result import StepResult
from orchestrate.view.place import Place
from orchestrate.view.run_view import run_view

if TYPE_CHECKING:
    from orchestrate.compile import Compilation
    from orchestrate.plan.nodes import Program
    from orchestrate.workspace import Workspace

_FINISHED = ("completed", "failed", "skipped")


@record
class Given:
    """What an earlier run has for a step: results of other steps, and variables."""

    run_id: str
    results: dict[str, StepResult]
    variables: dict[str, Any]


_NOTHING = Given("", {}, {})


@click.command("run-step", short_help="Run a single step of a workflow.")
@click.argument("step", metavar="STEP")
@click.option("--workflow", "file", metavar="FILE|ID", required=True,
              help="The workflow that has the step.")  # fmt: skip
@click.option("--from", "from_run", metavar="RUN",
              help="Use the results that other steps had in this run.")  # fmt: skip
@flag_options("plan", "context", "agents", "output")
@state_dir_option
@working_dir_option
@json_option
def run_step(
    step: str,
    file: str,
    from_run: str | None,
    state_dir: str | None,
    working_dir: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Run a single step, given by its name, as a run of its own.

    A loop runs with all its items. A step that refers to the results of others is refused, unless
    --from names a run that has them. The exit code is that of `run`.
    """
    from orchestrate.app.context import with_given_context
    from orchestrate.app.single_step import find_step, reduce_to

    settings = RunSettings(**flags)
    refuse_events(settings, as_json)
    workspace = workspace_of(working_dir)
    compilation, program = compiled(file, workspace)
    settings.check(program)
    step = find_step(program, step).name
    whole = with_flags(with_given_context(program, settings, workspace), settings)
    given = _given_by(whole, step, from_run, working_dir, state_dir)
    reduced = with_given_context(reduce_to(program, step, list(given.results)), settings, workspace)
    reduced = with_flags(reduced, settings)
    if given.variables:
        from orchestrate.dialects.lowering import constant_map
        from orchestrate.plan.override import with_context

        reduced = with_context(reduced, constant_map(given.variables))
    single = {"step": step, "given": list(given.results)}
    settings = replace(settings, run_step=single)
    return _execute(
        step, compilation, reduced, workspace, given, settings, Place(working_dir, state_dir),
        as_json,
    )  # fmt: skip


def _given_by(
    program: Program,
    step: str,
    from_run: str | None,
    working_dir: str | None,
    state_dir: str | None,
) -> Given:
    """What the step needs, from the run that is to give it; refused if anything is missing."""
    from orchestrate.app.single_step import context_uses, needs_of

    needs = needs_of(program, step)
    given = _NOTHING
    if from_run is not None:
        wanted = (*needs.variables, *context_uses(program, step))
        given = _read_given(from_run, needs.steps, wanted, working_dir, state_dir)
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
    name: str,
    steps: tuple[str, ...],
    variables: tuple[str, ...],
    working_dir: str | None,
    state_dir: str | None,
) -> Given:
    from orchestrate.app.open_run import find_stored
    from orchestrate.engine.values import restore_value

    _, run, _ = find_stored(name, working_dir, state_dir)
    sight = run_view(run)
    if sight.is_live:
        raise UsageError(f"run {run.id} is still running", "wait until it ends, or cancel it")
    results = {}
    for step in steps:
        result = sight.document["steps"].get(step)
        if isinstance(result, dict) and result.get("status") in _FINISHED:
            results[step] = StepResult.from_json(result)
    context = sight.document["context"]
    values = {key: restore_value(run.root, context[key]) for key in variables if key in context}
    return Given(run.id, results, values)


def _execute(
    step: str,
    compilation: Compilation,
    program: Program,
    workspace: Workspace,
    given: Given,
    settings: RunSettings,
    place: Place,
    as_json: bool,
) -> int:
    from orchestrate.app.agents import refuse_unusable
    from orchestrate.app.carry_out import carry_out, show_end, start_run
    from orchestrate.app.concurrent_runs import entering
    from orchestrate.app.config import configured, load_config, runs_folder
    from orchestrate.app.definition import tell_place
    from orchestrate.show.progress import first_words

    config = load_config(workspace)
    settings = configured(settings, config)
    watching = watching_of(settings, as_json, config, place)
    program = with_defaults(program, settings)
    refuse_unusable(program, workspace, settings)
    runs = runs_folder(workspace, config, place.state_dir)
    with entering(workspace, program, settings) as door, stoppable() as stop:
        store, _ = start_run(runs, program, compilation, workspace, settings)
        try:
            door.enter(store.run)
            note(first_words(store.run.id, f"step '{step}' of {store.state.definition}",
                             is_resumed=False))  # fmt: skip
            if not watching.quiet:
                tell_place(workspace)
            _record_given(store, program, given)
            ending = carry_out(store, program, workspace, watching, stop)
        finally:
            store.close()
        return show_end(store, ending, watching)


def _record_given(store: Any, program: Program, given: Given) -> None:
    """The results of other steps become results of this run, with a note where they are from."""
    import time

    from orchestrate.plan.nodes import OK
    from orchestrate.state.events import StepFinished

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
