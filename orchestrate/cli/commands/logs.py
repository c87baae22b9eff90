"""`orchestrate logs`: what a run's orchestrator or one of its steps has written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from orchestrate.app.moments import moment_of
from orchestrate.app.reading.open_run import find_stored
from orchestrate.app.reading.transcripts import transcripts_of
from orchestrate.cli.options import json_option, place_options, raw_option, run_argument
from orchestrate.cli.params import AT_LEAST_0
from orchestrate.cli.run_and_step import run_and_step
from orchestrate.errors import UsageError
from orchestrate.record import replace
from orchestrate.show.attempts import show_attempts
from orchestrate.show.event_stream import show_events
from orchestrate.show.follow_step import follow_step
from orchestrate.show.output import answer_json, note_once
from orchestrate.show.run_logs import (
    LogRequest,
    answers_of,
    entries_named,
    only_entry,
    show_log,
    show_steps,
    step_json,
)
from orchestrate.view.place import Place

if TYPE_CHECKING:
    from orchestrate.view.step_logs import Stream


@click.command(short_help="Show the log of a run or of a step.")
@run_argument
@click.argument("step", metavar="[STEP]", required=False)
@click.option("--stdout", "only_stdout", is_flag=True, help="Only the step's standard output.")
@click.option("--stderr", "only_stderr", is_flag=True, help="Only the step's standard error.")
@click.option("--prompt", "shows_prompt", is_flag=True,
              help="Only the prompt as it was sent; with --all each one.")  # fmt: skip
@click.option("-n", "--lines", "last_lines", type=AT_LEAST_0, metavar="N",
              help="Only the last N lines (of each).")  # fmt: skip
@click.option("-f", "--follow", "follows", is_flag=True,
              help="Follow the output until the step or the run ends.")  # fmt: skip
@click.option("--all", "shows_all", is_flag=True,
              help="All attempts and visits of the step, oldest first, with why each failed.")  # fmt: skip  # noqa: E501
@click.option("--events", "as_events", is_flag=True,
              help="The run's events as JSON lines; with -f as they happen.")  # fmt: skip
@click.option("--since", metavar="WHEN",
              help="Only what was logged, or attempts that worked, since then: an age such "
              "as 2h, or a date or time.")  # fmt: skip
@raw_option
@place_options
@json_option
def logs(
    run: str,
    step: str | None,
    place: Place,
    as_json: bool,
    **flags: Any,
) -> int:
    """Show a run's log, or what a step has printed: stdout, then stderr.

    An argument that names no run is a STEP of the latest run. STEP is a name, Loop[3]/Step for one
    item of a loop, Loop[*]/Step for all, Step:2 for the second visit, Step:2.1 for the first
    attempt of that, or any other path that orchestrate prints. Of an agent's step it is the
    transcript: what the agent said, ran (>), wrote, and got (|). --stdout gives its answer alone,
    --raw what its program printed.
    """
    run, step = run_and_step(run, step, place)
    if flags["as_events"]:
        _refuse_beside_events(step, as_json, flags)
    request = _log_request(step, as_json, flags)
    _, found, workspace = find_stored(run, place, tell_fault=note_once)
    if request.streams == ("stdout", "stderr") and not flags["raw"]:
        request = replace(request, transcript_of=transcripts_of(found, workspace))
    if flags["as_events"]:
        show_events(found, follows=request.follows, last=request.last_lines, since=request.since)
    elif step is None:
        show_log(found, request, as_json)
    elif request.shows_all:
        entries = entries_named(found, step)
        show_attempts(found, step, entries, request, as_json=as_json)
    elif as_json:
        answer_json(step_json(found, only_entry(entries_named(found, step), step), request))
    elif request.follows:
        follow_step(found, step, request)
    else:
        show_steps(found, answers_of(found, step, request), request)
    return 0


def _refuse_beside_events(step: str | None, as_json: bool, flags: dict[str, Any]) -> None:
    if as_json:
        raise UsageError(
            "--events and --json exclude each other",
            "--events gives many documents, one a line; --json gives one",
        )
    if step is not None or any(flags[name] for name in ("only_stdout", "only_stderr", "shows_all")):
        raise UsageError(
            "--events shows a whole run: no STEP, --stdout, --stderr or --all goes with it",
            "choose among the lines by their `step`",
        )


def _log_request(step: str | None, as_json: bool, flags: dict[str, Any]) -> LogRequest:
    only_stdout, only_stderr = flags["only_stdout"], flags["only_stderr"]
    if step is None and (only_stdout or only_stderr):
        raise UsageError("--stdout and --stderr need a STEP")
    if flags["follows"] and as_json:
        raise UsageError("--follow and --json exclude each other")
    if step is None and flags["shows_all"]:
        raise UsageError("--all needs a STEP")
    if flags["follows"] and step is not None and (flags["shows_all"] or flags["since"]):
        raise UsageError("--follow of a step excludes --all and --since")
    if flags["shows_prompt"]:
        _check_prompt(step, flags)
    streams: tuple[Stream, ...] = ("prompt",) if flags["shows_prompt"] else ("stdout", "stderr")
    if only_stdout != only_stderr:
        streams = ("stdout",) if only_stdout else ("stderr",)
    since = None if flags["since"] is None else moment_of("--since", flags["since"])
    return LogRequest(streams, flags["last_lines"], flags["follows"], flags["shows_all"], since)


def _check_prompt(step: str | None, flags: dict[str, Any]) -> None:
    if step is None:
        raise UsageError("--prompt needs a STEP")
    for name in ("stdout", "stderr"):
        if flags[f"only_{name}"]:
            raise UsageError(f"--prompt and --{name} exclude each other")
    if flags["follows"]:
        raise UsageError("--prompt and --follow exclude each other", "a prompt is sent whole")
