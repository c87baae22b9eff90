"""`orchestrate run`: applies the flags to the plan, and carries it out or shows what would run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orchestrate.app.definition import compiled, given_names, tell_warnings, workspace_of
from orchestrate.cli.options import (
    agent_options,
    concurrent_option,
    detach_option,
    json_option,
    let_finish_option,
    queue_options,
    refuse_events,
    state_dir_option,
    watching_options,
    working_dir_option,
)
from orchestrate.cli.params import AT_LEAST_0, AT_LEAST_1
from orchestrate.errors import DefinitionError, UsageError
from orchestrate.show.output import answer, answer_json, note

if TYPE_CHECKING:
    from orchestrate.plan.nodes import Program
    from orchestrate.workspace import Workspace

Command = TypeVar("Command", bound=Callable[..., Any])

# The flags that change the plan, as `apply_flags` takes them.
OVERRIDES = (
    "backend", "model", "max_steps", "max_visits", "max_restarts", "step_timeout", "max_parallel",
    "context", "context_file", "on_error", "max_retries", "retry_delay",
)  # fmt: skip


def override_options(command: Command) -> Command:
    """The flags that change the plan; each has a function in `plan/override.py`."""
    options = [
        click.option("--backend", metavar="NAME",
                     help="The agent to ask (machine, recipe); rehearsal, human and replay stand "
                     "in for all. A workflow cannot be rehearsed."),
        click.option("--model", metavar="MODEL",
                     help="Model tier or name for steps without one (machine)."),
        click.option("--max-steps", type=AT_LEAST_1, metavar="N",
                     help="Steps before the run is stopped (machine)."),
        click.option("--max-visits", type=AT_LEAST_1, metavar="N",
                     help="Visits of one step before the run is stopped (machine)."),
        click.option("--max-restarts", type=AT_LEAST_0, metavar="N",
                     help="Restarts in a new session (machine)."),
        click.option("--step-timeout", type=AT_LEAST_1, metavar="SECONDS",
                     help="Limit of each step without its own (machine, recipe)."),
        click.option("--max-parallel", type=AT_LEAST_1, metavar="N",
                     help="Items of a loop worked on at once (recipe)."),
        click.option("-i", "--context", multiple=True, metavar="KEY=VALUE",
                     help="Set a context variable to a text (recipe, workflow); repeatable."),
        click.option("--context-file", metavar="FILE",
                     help="JSON or YAML mapping of context variables (recipe, workflow)."),
        click.option("--on-error", type=click.Choice(["stop", "continue", "interactive"]),
                     help="What to do when a step fails without a handler (workflow)."),
        click.option("--max-retries", type=AT_LEAST_0, metavar="N",
                     help="Retries of provider steps without their own (workflow)."),
        click.option("--retry-delay", type=AT_LEAST_0, metavar="MS",
                     help="Pause before a first retry, and between those of --max-retries."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.command(short_help="Run a recipe.")
@click.argument("file", metavar="FILE|ID")
@click.option("--dry-run", is_flag=True, help="Show what would run, and run nothing.")
@override_options
@queue_options
@agent_options
@concurrent_option
@let_finish_option
@detach_option
@watching_options
@state_dir_option
@working_dir_option
@json_option
def run(file: str, dry_run: bool, working_dir: str | None, as_json: bool, **flags: Any) -> int:
    """Run a recipe, given as a file or by its id.

    Every step is recorded under .orchestrate/runs/RUN_ID as it happens; `orchestrate resume`
    goes on from there after anything. With --dry-run nothing is started or written; the
    configuration and the flags are applied as in a run. A flag that has no meaning for the file's
    dialect is an error.
    """
    from orchestrate.app.undefined import refuse_undefined

    refuse_events({**flags, "dry_run": dry_run}, as_json)
    flags["working_dir"] = working_dir
    workspace = workspace_of(working_dir)
    compilation, program = compiled(file, workspace)
    overrides = {name: flags[name] for name in OVERRIDES}
    program = apply_flags(program, overrides, workspace)
    refuse_inapplicable(program, flags)
    refuse_undefined(compilation, program)
    if dry_run:
        if flags["detach"]:
            raise UsageError("--dry-run and --detach exclude each other")
        from orchestrate.app.unread_context import tell_unread

        program = _configured(program, workspace, flags)
        _refuse_settings(program, workspace, flags)
        if not flags["quiet"]:
            tell_warnings(compilation, given_names(program))
            tell_unread(compilation, program, flags)
        return _show(program, workspace, flags, as_json)
    if flags["detach"]:
        from orchestrate.app.detach import depart
        from orchestrate.view.looking import Place

        code = depart(flags, Place(working_dir, flags["state_dir"]), as_json)
        if code is not None:
            return code
    from orchestrate.app.start import execute

    return execute(compilation, program, workspace, as_json, flags)


def _configured(program: Program, workspace: Workspace, flags: dict[str, Any]) -> Program:
    """The program with what the configuration says, as a run would have it."""
    from orchestrate.app.config import load_config, plan_defaults, with_defaults

    return with_defaults(program, plan_defaults(load_config(workspace), flags))


def _refuse_settings(program: Program, workspace: Workspace, flags: dict[str, Any]) -> None:
    """A dry run refuses settings of agents that the run would refuse."""
    from orchestrate.app.agents import refuse_settings
    from orchestrate.app.config import load_config
    from orchestrate.app.start import settings_of

    refuse_settings(program, workspace, settings_of(flags, load_config(workspace)))


def _show(program: Program, workspace: Workspace, flags: dict[str, Any], as_json: bool) -> int:
    from orchestrate.app.agents_asked import asked_json, asked_lines, who_is_asked
    from orchestrate.app.config import load_config
    from orchestrate.app.start import settings_of

    asked = who_is_asked(program, workspace, settings_of(flags, load_config(workspace)))
    if as_json:
        from orchestrate.plan.nodes import main_plan
        from orchestrate.plan.to_json import program_json

        dialect = main_plan(program).dialect
        document = {"dialect": dialect, "program": program_json(program)}
        answer_json(document | {"asked": asked_json(asked)})
    else:
        from orchestrate.show.dry_run import render_dry_run

        answer(render_dry_run(program))
        for line in asked_lines(asked):
            note(f"{line}\n")
    return 0


def apply_flags(program: Program, flags: dict[str, Any], workspace: Workspace) -> Program:
    """The program with every given flag applied; one that cannot apply is refused."""
    from orchestrate.dialects.lowering import constant_map
    from orchestrate.plan import override
    from orchestrate.plan.check import check_program

    given = {name: value for name, value in flags.items() if value not in (None, ())}
    for name in given:
        override.require_applicable(program, "--" + name.replace("_", "-"))
    if "backend" in given:
        override.known_backend(given["backend"])
    if "model" in given and not given["model"].strip():
        raise UsageError("--model: the name is empty")
    values = context_of(program, given, workspace)
    changes: dict[str, Callable[[Program, Any], Program]] = {
        "model": override.with_model,
        "max_steps": override.with_max_steps,
        "max_visits": override.with_max_visits,
        "max_restarts": override.with_max_restarts,
        "max_parallel": override.with_max_parallel,
        "step_timeout": override.with_step_timeout,
        "on_error": override.with_on_error,
        "context_file": lambda p, _: override.with_context(p, constant_map(values)),
        "context": lambda p, _: override.with_context(p, constant_map(values)),
        "max_retries": lambda p, n: override.with_retries(p, n, given.get("retry_delay", 0)),
        "retry_delay": override.with_retry_delay,
    }
    for name, change in changes.items():
        if name in given:
            program = change(program, given[name])
    check_program(program)
    return program


def plan_flags(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of a run's settings, those that change the plan; who is asked does not."""
    others = ("backend", "context", "context_file")
    return {name: settings.get(name) for name in OVERRIDES if name not in others}


def refuse_inapplicable(program: Program, flags: dict[str, Any]) -> None:
    """Flags that do not change the plan, but have a meaning in some dialects only."""
    from orchestrate.plan import override

    for name in ("clean_processed", "archive_processed", "system_prompt", "session",
                 "allow_concurrent", "let_finish"):  # fmt: skip
        if flags.get(name) not in (None, False):
            override.require_applicable(program, "--" + name.replace("_", "-"))


def context_of(program: Program, flags: Mapping[str, Any], workspace: Workspace) -> dict[str, Any]:
    """The values that --context-file and --context give, the latter over the former."""
    from orchestrate.plan.override import require_applicable

    values: dict[str, Any] = {}
    if flags.get("context_file") is not None:
        require_applicable(program, "--context-file")
        values |= _context_file(program, flags["context_file"], workspace)
    if flags.get("context"):
        require_applicable(program, "--context")
        values |= _context_pairs(program, flags["context"])
    return values


def _context_pairs(program: Program, pairs: tuple[str, ...]) -> dict[str, Any]:
    """`KEY=VALUE`: always a text; the last one of a key counts."""
    values: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UsageError(
                f"--context {pair!r} is not KEY=VALUE", "e.g. --context file=src/app.py"
            )
        if "." in key:
            raise UsageError(
                f"--context {pair!r}: the name '{key}' has a dot, and no step could read it",
                f"give the whole of '{key.partition('.')[0]}' in a file: --context-file FILE",
            )
        values[key] = value
    _refuse_reserved(program, values, "--context")
    return values


def _context_file(program: Program, name: str, workspace: Workspace) -> dict[str, Any]:
    """A mapping in a JSON or YAML file; types are kept."""
    from pathlib import Path

    from orchestrate.source.json import parse_json
    from orchestrate.source.located import Sources, pack
    from orchestrate.source.reader import ReadFault, read_source
    from orchestrate.source.yaml import parse_yaml

    path = Path(os.path.abspath(name))
    display = workspace.display(path)
    sources = Sources()
    faults: list[ReadFault] = []
    data: Any = None
    try:
        source = read_source(path, display)
        sources.register(source)
        parse = parse_json if path.suffix.lower() == ".json" else parse_yaml
        data = parse(source.text, 0, faults.append)
    except ReadFault as fault:
        faults.append(fault)
    if faults and not sources.files:
        raise UsageError(f"--context-file: '{display}': {faults[0].message}", faults[0].hint)
    if faults:
        found = (
            sources.diagnostic(
                f.code, f.message, sources.span(pack(0, f.line, f.column)), hint=f.hint
            )
            for f in faults
        )
        raise DefinitionError(tuple(found), UsageError.exit_code)
    if not isinstance(data, dict):
        raise UsageError(
            f"--context-file: '{display}' is not a mapping", 'e.g. {"file": "src/app.py"}'
        )
    _refuse_reserved(program, data, "--context-file")
    return dict(data)


def _refuse_reserved(program: Program, values: dict[str, Any], flag: str) -> None:
    """A recipe's own names cannot be set from outside (B)."""
    from orchestrate.plan.nodes import main_plan

    if main_plan(program).dialect == "recipe":
        from orchestrate.lang.curly import NAMESPACES

        for key in values:
            if key in NAMESPACES:
                raise UsageError(f"{flag}: '{key}' is a reserved name")
