"""`orchestrate validate`: its options; `cli/checking.py` does the work."""

from __future__ import annotations

import click

from orchestrate.cli.options import choose_format, json_option, working_dir_option


@click.command(short_help="Check recipes without running anything.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "--format", "output_format", type=click.Choice(["text", "json", "github", "sarif"]),
    help="How to report findings (default: text).",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@working_dir_option
@json_option
def validate(
    files: tuple[str, ...],
    output_format: str | None,
    strict: bool,
    working_dir: str | None,
    as_json: bool,
) -> int:
    """Check recipes without running anything.

    FILE is a path, or the id of a recipe of the workspace or the catalogue. Starts no process,
    uses no network and writes nothing. Exits with 0 when all files are valid, with 1 when only
    machines are not, and with 2 otherwise.
    """
    from orchestrate.cli.checking import check_files

    shape = choose_format(output_format, as_json)
    return check_files(files, shape=shape, strict=strict, working_dir=working_dir)
