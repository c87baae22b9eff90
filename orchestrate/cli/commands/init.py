"""`orchestrate init`: a first `.orchestrate` in a project; it overwrites nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orchestrate.agents.finding import Missing
from orchestrate.agents.registry import PROGRAMS, find_program
from orchestrate.app.starter_files import DIALECTS, ignore_runs, pieces, recipe_id, write_piece
from orchestrate.app.workspaces import workspace_here
from orchestrate.cli.options import json_option, working_dir_option
from orchestrate.cli.terminal import has_terminal, read_line
from orchestrate.diagnostics import closest
from orchestrate.engine.stop import Stop, listening
from orchestrate.errors import OrchestrateError
from orchestrate.plan.override import known_backend
from orchestrate.show.output import answer, answer_json, note

PERMISSIONS = ("bypass", "edit", "default", "read-only")
DEFAULT_PERMISSIONS = "bypass"
_MEANINGS = {
    "bypass": "everything; work in a container or a copy that you can throw away",
    "edit": "change files, but nothing riskier; recipes that commit or run tests will be stuck",
    "default": "only what the agent's own settings allow",
    "read-only": "look, but change nothing",
}

if TYPE_CHECKING:
    from orchestrate.app.starter_files import Done
    from orchestrate.workspace import Workspace


@click.command(short_help="Write a first recipe and settings into a project.")
@click.option(
    "--dialect", type=click.Choice(DIALECTS), help="What the first recipe is (default: machine)."
)
@click.option("--backend", metavar="NAME", help="The agent to ask, for the configuration.")
@click.option("--permissions", type=click.Choice(PERMISSIONS),
              help="What agents may do without asking, for the configuration.")  # fmt: skip
@click.option("--yes", "-y", "is_sure", is_flag=True, help="Ask nothing; take the defaults.")
@working_dir_option
@json_option
def init(
    dialect: str | None,
    backend: str | None,
    permissions: str | None,
    is_sure: bool,
    working_dir: str | None,
    as_json: bool,
) -> int:
    """Write settings, a first recipe, agents and schemas into .orchestrate of a project.

    Nothing that is there is overwritten, so it can be called again. A line for the runs is added
    to .gitignore. On a terminal it asks which agent you have, what it may do without asking and
    what kind of recipe you want, unless these are given or --yes is.
    """
    workspace = workspace_here(working_dir)
    if backend is not None:
        backend = known_backend(backend)
    if not (is_sure or as_json) and has_terminal():
        backend = backend or _ask_backend()
        permissions = permissions or _ask_permissions()
        dialect = dialect or _ask_dialect()
    dialect = dialect or DIALECTS[0]
    done: list[Done] = []
    try:
        for piece in pieces(dialect, backend, permissions):
            done.append(write_piece(workspace.root, piece))  # noqa: PERF401 - told if one fails
        done.append(ignore_runs(workspace.root))
    except OrchestrateError:
        note(_lines(done))
        raise
    if as_json:
        document = _document(done, dialect, workspace)
        answer_json(document | {"permissions": _held(done, permissions)})
    else:
        answer(_text(done, dialect))
        note(_permission_words(done, permissions))
    return 0


def _held(done: list[Done], permissions: str | None) -> str | None:
    """The permissions that the configuration has now; None if it was there before: it decides."""
    is_written = any(piece.is_written for piece in done if piece.path.endswith("config.yaml"))
    return (permissions or DEFAULT_PERMISSIONS) if is_written else None


def _permission_words(done: list[Done], permissions: str | None) -> str:
    held = _held(done, permissions)
    if held is None:
        wanted = f"; to have {permissions}, write it there" if permissions else ""
        return f"\nPermissions: as .orchestrate/config.yaml says, which was there{wanted}\n"
    default = "" if permissions else " (the default; `permissions:` in .orchestrate/config.yaml)"
    return f"\nPermissions: {held}{default}: {_MEANINGS[held]}\n"


def _ask_backend() -> str:
    import os

    installed = [n for n in PROGRAMS if not isinstance(find_program(n, os.environ), Missing)]
    note(f"Known agents: {', '.join(PROGRAMS)}\n")
    note(f"Installed here: {', '.join(installed) or 'none of them'}\n")
    default = next(iter(installed), "claude-code")
    return _ask("Which agent shall be asked?", tuple(PROGRAMS), default)


def _ask_permissions() -> str:
    note("".join(f"  {mode:9}  {meaning}\n" for mode, meaning in _MEANINGS.items()))
    return _ask("What may agents do without asking?", PERMISSIONS, DEFAULT_PERMISSIONS)


def _ask_dialect() -> str:
    note(
        "  machine   an agent works, checks, goes back until it is right\n"
        "  recipe    prompts to named agents, results passed on, approvals\n"
        "  workflow  commands and agents, loops, files\n"
    )
    return _ask("What shall the first recipe be?", DIALECTS, DIALECTS[0])


def _ask(question: str, choices: tuple[str, ...], default: str) -> str:
    """One of the choices; Ctrl-C or the end of input leaves, before anything is written."""
    stop = Stop()
    with listening(stop):
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


def _next_commands(dialect: str) -> list[str]:
    name = recipe_id(dialect)
    # A workflow's commands are run as they are; there is no agent to stand in for.
    rehearse = "" if dialect == "workflow" else " --backend rehearsal"
    return [f"orchestrate run {name} --dry-run", f"orchestrate run {name}{rehearse}"]


def _document(done: list[Done], dialect: str, workspace: Workspace) -> dict[str, object]:
    return {
        "workspace": str(workspace.root),
        "written": [piece.path for piece in done if piece.is_written],
        "left": [
            {"path": piece.path, "why": piece.about} for piece in done if not piece.is_written
        ],
        "next": _next_commands(dialect),
    }


def _lines(done: list[Done]) -> str:
    width = max((len(piece.path) for piece in done), default=0)
    return "".join(
        f"{'wrote' if piece.is_written else 'left '}  {piece.path:{width}}  {piece.about}\n"
        for piece in done
    )


def _text(done: list[Done], dialect: str) -> str:
    steps = [f"  {command}\n" for command in (*_next_commands(dialect), "orchestrate doctor")]
    return "".join([_lines(done), "\nNext:\n", *steps])
