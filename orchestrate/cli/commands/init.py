"""`orchestrate init`: a first `.orchestrate` in a project; it overwrites nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from orchestrate.agent_names import own_name
from orchestrate.app.definitions.find import compile_definition
from orchestrate.app.definitions.starter_files import (
    DEFAULT_PERMISSIONS,
    DIALECTS,
    agents_here,
    agents_named,
    first_commands,
    held_permissions,
    write_all,
    write_stubs,
)
from orchestrate.app.ending.stopping import stoppable
from orchestrate.app.workspaces import with_aliases, workspace_here
from orchestrate.cli.options import json_option, working_dir_option
from orchestrate.cli.terminal import has_terminal, read_line
from orchestrate.diagnostics import closest
from orchestrate.errors import DefinitionError, OrchestrateError
from orchestrate.show.init_text import (
    PERMISSIONS,
    permission_words,
    written_json,
    written_text,
)
from orchestrate.show.output import answer, answer_json, note

if TYPE_CHECKING:
    from orchestrate.view.outcomes import WrittenFile
    from orchestrate.workspace import Workspace


@click.command(short_help="Write a first recipe and settings into a project.")
@click.option(
    "--dialect", type=click.Choice(DIALECTS), help="What the first recipe is (default: machine)."
)
@click.option("--backend", metavar="NAME", help="The agent program, for the configuration.")
@click.option("--permissions", type=click.Choice(tuple(PERMISSIONS)),
              help="What agents may do without asking, for the configuration.")  # fmt: skip
@click.option(
    "--agents-of",
    metavar="FILE|ID",
    help="Only write a stub for each agent that the recipe names and that is missing.",
)
@click.option("--yes", "-y", "is_sure", is_flag=True, help="Ask nothing; take the defaults.")
@working_dir_option
@json_option
def init(
    dialect: str | None,
    backend: str | None,
    permissions: str | None,
    agents_of: str | None,
    is_sure: bool,
    working_dir: str | None,
    as_json: bool,
) -> int:
    """Write settings, a first recipe, agents and schemas into .orchestrate of a project.

    Overwrites nothing, so it can be called again. Adds a line for the runs to .gitignore. On a
    terminal it asks which agent you have, what it may do without asking and which kind of recipe
    you want, unless flags say so.
    """
    workspace = with_aliases(workspace_here(working_dir))
    if agents_of is not None:
        return _write_agents(agents_of, workspace, as_json=as_json)
    if backend is not None:
        backend = own_name(backend)
    if not (is_sure or as_json) and has_terminal():
        backend = backend or _ask_backend()
        permissions = permissions or _ask_permissions()
        dialect = dialect or _ask_dialect()
    dialect = dialect or DIALECTS[0]
    done: list[WrittenFile] = []
    try:
        write_all(workspace.root, done, dialect, backend, permissions)
    except OrchestrateError:
        note(written_text(done))
        raise
    held = held_permissions(done, permissions)
    if as_json:
        more = {"next": first_commands(dialect), "permissions": held}
        answer_json(written_json(str(workspace.root), done) | more)
    else:
        answer(_text(done, dialect))
        note(permission_words(held, permissions))
    return 0


def _write_agents(file: str, workspace: Workspace, *, as_json: bool) -> int:
    """A definition for each agent of a recipe, and of the recipes that it calls."""
    compilation = compile_definition(file, workspace)
    names = list(agents_named(compilation.documents))
    if compilation.program is None and not names:
        raise DefinitionError(compilation.diagnostics, compilation.exit_code)
    done: list[WrittenFile] = []
    write_stubs(workspace.root, done, iter(names), workspace)
    if as_json:
        answer_json(written_json(str(workspace.root), done))
    else:
        answer(written_text(done) if done else f"{file} names no agents\n")
    return 0


def _ask_backend() -> str:
    known, installed = agents_here(os.environ)
    note(f"Known agents: {', '.join(known)}\n")
    note(f"Installed here: {', '.join(installed) or 'none of them'}\n")
    default = next(iter(installed), "claude-code")
    return _ask("Which agent do you use?", known, default)


def _ask_permissions() -> str:
    note("".join(f"  {mode:9}  {meaning}\n" for mode, meaning in PERMISSIONS.items()))
    return _ask("What may agents do without asking?", tuple(PERMISSIONS), DEFAULT_PERMISSIONS)


def _ask_dialect() -> str:
    note(
        "  machine   an agent works, checks, goes back until it is right\n"
        "  recipe    prompts to named agents, results passed on, approvals\n"
        "  workflow  commands and agents, loops, files\n"
    )
    return _ask("Which kind of recipe do you want?", DIALECTS, DIALECTS[0])


def _ask(question: str, choices: tuple[str, ...], default: str) -> str:
    """One of the choices; Ctrl-C or the end of input leaves, before anything is written."""
    with stoppable() as stop:
        while True:
            note(f"{question} [{default}]: ")
            line = read_line(stop)
            if line is None:
                note("\n")
                raise KeyboardInterrupt
            word = line.strip() or default
            if word in choices:
                return word
            near = closest(word, choices)
            note(f"  did you mean {near}?\n" if near else f"  one of: {', '.join(choices)}\n")


def _text(done: list[WrittenFile], dialect: str) -> str:
    steps = [f"  {command}\n" for command in (*first_commands(dialect), "orchestrate doctor")]
    return "".join([written_text(done), "\nNext:\n", *steps])
