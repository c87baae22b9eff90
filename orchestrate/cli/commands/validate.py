"""`orchestrate validate`; without flags it is `cli/validating.py`, which loads no click."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from orchestrate.app.given.settings import RunSettings
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.options import choose_format, flag_options, json_option, working_dir_option
from orchestrate.diagnostics import CheckedFile, distinct, worst_code
from orchestrate.exits import DONE
from orchestrate.show.checked_files import files_text
from orchestrate.show.formats import github_commands, json_document, sarif_document
from orchestrate.show.output import answer, answer_json, note


@click.command(short_help="Check recipes without running anything.")
@click.argument("files", metavar="FILE...", nargs=-1)
@click.option(
    "--all", "check_all", is_flag=True,
    help="Check every recipe of the workspace, with the parts that they include.",
)  # fmt: skip
@click.option(
    "--format", "output_format", type=click.Choice(["text", "json", "github", "sarif"]),
    help="How to report findings (default: text).",
)  # fmt: skip
@flag_options("context")
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@working_dir_option
@json_option
def validate(
    files: tuple[str, ...],
    check_all: bool,
    output_format: str | None,
    strict: bool,
    working_dir: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Check recipes, with all that they include and call, without running anything.

    FILE is a path, or the id of a recipe of the workspace or the catalogue. Starts no process, uses
    no network and writes nothing. Exit code 0 if all files are valid, 1 if only machines are not, 2
    otherwise. A variable that nothing in the file sets is a warning, because a run may be given
    it; with -i or --context it is an error.
    """
    from orchestrate.app.definitions.check_context import check_given, files_of

    shape = choose_format(output_format, as_json)
    workspace = workspace_of(working_dir)
    if check_all:
        files += files_of(workspace)
        if not files and shape == "text":
            answer("There are no recipes in workflows/ and .orchestrate/recipes/.\n")
            return DONE
    elif not files:
        raise click.UsageError("Missing argument 'FILE...'.", click.get_current_context())
    settings = RunSettings(**flags)
    checked = check_given(
        files, workspace, note, settings, strict=strict, tells_namesakes=check_all
    )
    _TELL[shape](checked, strict)
    return worst_code(checked)


_TELL: dict[str, Callable[[list[CheckedFile], bool], None]] = {
    "text": lambda files, strict: answer(files_text(files, strict=strict)),
    "json": lambda files, _: answer_json(json_document(files)),
    "github": lambda files, _: answer(github_commands(distinct(files)), is_ours=True),
    "sarif": lambda files, _: answer_json(sarif_document(distinct(files))),
}
