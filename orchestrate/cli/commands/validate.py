"""`orchestrate validate`: its options; `cli/validating.py` does the work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from orchestrate.app.settings import RunSettings
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.options import choose_format, json_option, working_dir_option
from orchestrate.diagnostics import CheckedFile, distinct
from orchestrate.exits import DONE
from orchestrate.show.formats import github_commands, json_document, sarif_document
from orchestrate.show.output import answer, answer_json


@click.command(short_help="Check recipes without running anything.")
@click.argument("files", metavar="FILE...", nargs=-1)
@click.option(
    "--all", "check_all", is_flag=True,
    help="Check every recipe of the workspace; parts that they include are checked with them.",
)  # fmt: skip
@click.option(
    "--format", "output_format", type=click.Choice(["text", "json", "github", "sarif"]),
    help="How to report findings (default: text).",
)  # fmt: skip
@click.option(
    "-i",
    "--context",
    multiple=True,
    metavar="KEY=VALUE",
    help="Check as a run with this context variable would; repeatable (recipe, workflow).",
)
@click.option(
    "--context-file", metavar="FILE",
    help="The same with a JSON or YAML mapping of context variables (recipe, workflow).",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@working_dir_option
@json_option
def validate(
    files: tuple[str, ...],
    check_all: bool,
    output_format: str | None,
    context: tuple[str, ...],
    context_file: str | None,
    strict: bool,
    working_dir: str | None,
    as_json: bool,
) -> int:
    """Check recipes without running anything.

    FILE is a path, or the id of a recipe of the workspace or the catalogue. Starts no process,
    uses no network and writes nothing. Exits with 0 when all files are valid, with 1 when only
    machines are not, and with 2 otherwise. That nothing in a file sets a variable is a warning,
    because a run may be given it; with --context a variable that still has no value is an error.
    """
    from orchestrate.app.check_context import files_of, with_values
    from orchestrate.cli.validating import validate_files

    shape = choose_format(output_format, as_json)
    workspace = workspace_of(working_dir)
    if check_all:
        files += files_of(workspace)
        if not files and shape == "text":
            answer("There are no recipes in workflows/ and .orchestrate/recipes/.\n")
            return DONE
    elif not files:
        raise click.UsageError("Missing argument 'FILE...'.", click.get_current_context())
    settings = RunSettings(context=context, context_file=context_file)
    more: dict[str, Any] = {"strict": strict, "tells_namesakes": check_all}
    if settings.given():
        more["change"] = lambda compilation: with_values(compilation, settings, workspace)
    tell = None if shape == "text" else _TELL[shape]
    return validate_files(files, working_dir, tell, **more)


_TELL: dict[str, Callable[[list[CheckedFile]], None]] = {
    "json": lambda files: answer_json(json_document(files)),
    "github": lambda files: answer(github_commands(distinct(files)), is_ours=True),
    "sarif": lambda files: answer_json(sarif_document(distinct(files))),
}
