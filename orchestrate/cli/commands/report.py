"""`orchestrate report`: a run as one page to read, keep or send."""

from __future__ import annotations

import os
import sys
import time

import click

from orchestrate.app.reading.open_run import find_stored
from orchestrate.app.reading.transcripts import transcripts_of
from orchestrate.app.secrets import secrets_of_run
from orchestrate.app.user_files import write_named
from orchestrate.cli.options import json_option, place_options, run_argument
from orchestrate.errors import UsageError
from orchestrate.plan.visible import show_size, visible
from orchestrate.show.output import answer_json, answer_text, note, note_once
from orchestrate.show.report.data import as_json as data_of
from orchestrate.show.report.data import gather
from orchestrate.show.report.rendering import kind_of, render
from orchestrate.view.place import Place


@click.command(short_help="Write a report of a run, as HTML or Markdown.")
@run_argument
@click.option("--format", "shape", type=click.Choice(["html", "md", "markdown"]),
              help="HTML or Markdown (default: what FILE ends in, else html).")  # fmt: skip
@click.option("-o", "--output", metavar="FILE",
              help="Where to write it (default: standard output).")  # fmt: skip
@place_options
@json_option
def report(
    run: str,
    shape: str | None,
    output: str | None,
    place: Place,
    as_json: bool,
) -> int:
    """Write a report of a run: RUN is its id, the beginning of one, or `latest`.

    One self-contained page: the path through the plan, a timeline, the steps with attempts, time,
    cost and tokens, approvals, changed files, prompts and outputs. It works at any time; a damaged
    run is reported as far as it can be read.
    """
    kind = kind_of(shape, output)
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    if output is None and kind == "html" and is_terminal and not as_json:
        raise UsageError(
            "HTML is not written to a terminal",
            "say where: -o report.html; or read it: --format md",
        )
    _, found, workspace = find_stored(run, place, tell_fault=note_once)
    secrets = secrets_of_run(found, workspace)
    gathered = gather(
        found,
        workspace,
        place,
        time.time(),
        transcripts_of(found, workspace),
    )
    if as_json and output is None:
        answer_json(secrets.data(data_of(gathered)) | {"file": None})
        return 0
    content = render(gathered, kind, secrets.text)
    if output is None or output == "-":
        answer_text(content.decode("utf-8"))
        return 0
    if os.path.isdir(output):
        raise UsageError(f"-o: '{output}' is a folder", "name a file in it")
    # The whole file or the old one: it may be open in a browser.
    write_named(output, str(os.getpid()), lambda file: file.write(content))
    if as_json:
        answer_json(secrets.data(data_of(gathered)) | {"file": os.path.abspath(output)})
    else:
        note(f"wrote {visible(output)} ({show_size(len(content))})\n")
    return 0
