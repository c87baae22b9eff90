"""`orchestrate logs`: what a run's orchestrator or one of its steps has written."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orchestrate.app.runs_folder import runs_of
from orchestrate.cli.moments import moment_of
from orchestrate.cli.options import (
    json_option,
    raw_option,
    run_argument,
    state_dir_option,
    working_dir_option,
)
from orchestrate.cli.params import AT_LEAST_0
from orchestrate.errors import UsageError
from orchestrate.plan.visible import visible
from orchestrate.record import record
from orchestrate.show.output import answer_json, note, note_once
from orchestrate.state.locks import is_held
from orchestrate.state.runs import LATEST, Run, may_name_run
from orchestrate.state.times import timestamp
from orchestrate.view.place import Place
from orchestrate.view.run_view import run_view
from orchestrate.view.step_logs import find_entries, source_of, was_at_work_since

if TYPE_CHECKING:
    from orchestrate.view.step_logs import Entry, Stream

_POLL_S = 0.25


@record
class Wish:
    """What is to be shown, and how."""

    step: str | None
    streams: tuple[Stream, ...]
    last_lines: int | None
    follows: bool
    shows_all: bool
    since: float | None


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
              help="Go on with what is written, until the step or the run ends.")  # fmt: skip
@click.option("--all", "shows_all", is_flag=True,
              help="All attempts and visits of the step, oldest first, as they are on record.")  # fmt: skip  # noqa: E501
@click.option("--events", "as_events", is_flag=True,
              help="The run's events, one JSON object a line; with -f as they happen.")  # fmt: skip
@click.option("--since", metavar="WHEN",
              help="Only what was logged since then, or attempts at work since: 2h ago, or a date "
              "or time.")  # fmt: skip
@raw_option
@state_dir_option
@working_dir_option
@json_option
def logs(
    run: str,
    step: str | None,
    state_dir: str | None,
    working_dir: str | None,
    as_json: bool,
    **flags: Any,
) -> int:
    """Show the orchestrator's log of a run, or what a step has printed: stdout, then stderr.

    One argument that names no run is a STEP of the latest run. STEP is a name, Loop[3]/Step for one
    item of a loop, Loop[*]/Step for all of them, or any other path that we print; Step:2 is its
    second visit, Step:2.1 the first attempt of that. Of an agent's step, the answer is shown; what
    its program printed is in the run's logs/ folder.
    """
    from orchestrate.app.open_run import find_stored

    run, step = _meant(run, step, working_dir, state_dir)
    if flags["as_events"]:
        _refuse_beside_events(step, as_json, flags)
    wish = _wish(step, as_json, flags)
    _, found, _ = find_stored(run, working_dir, state_dir, tell_fault=note_once)
    if flags["as_events"]:
        from orchestrate.show.event_stream import show_events

        show_events(found, follows=wish.follows, last=wish.last_lines, since=wish.since)
    elif step is None:
        _show_log(found, wish, as_json)
    elif wish.shows_all:
        from orchestrate.show.attempts import show_attempts

        entries = _entries(found, step)
        show_attempts(
            found, step, entries, wish.streams, wish.last_lines, wish.since, as_json=as_json
        )
    elif as_json:
        answer_json(_step_json(found, _one(_entries(found, step), step), wish))
    elif wish.follows:
        from orchestrate.show.follow_step import follow_step

        follow_step(found, step, wish.streams, wish.last_lines)
    else:
        _show_steps(found, _entries(found, step), wish)
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


def _meant(
    run: str, step: str | None, working_dir: str | None, state_dir: str | None
) -> tuple[str, str | None]:
    """`logs A` is a run when A names one, else a step of the latest run."""

    runs = runs_of(Place(working_dir, state_dir), tell_fault=note_once)
    is_run = step is not None or may_name_run(runs, run)
    return (run, step) if is_run else (LATEST, run)


def _one(entries: list[Entry], step: str) -> Entry:
    if len(entries) != 1:
        raise UsageError(f"'{step}' are {len(entries)} steps", "with --json say one, or add --all")
    return entries[0]


def _wish(step: str | None, as_json: bool, flags: dict[str, Any]) -> Wish:
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
    return Wish(step, streams, flags["last_lines"], flags["follows"], flags["shows_all"], since)


def _check_prompt(step: str | None, flags: dict[str, Any]) -> None:
    if step is None:
        raise UsageError("--prompt needs a STEP")
    for name in ("stdout", "stderr"):
        if flags[f"only_{name}"]:
            raise UsageError(f"--prompt and --{name} exclude each other")
    if flags["follows"]:
        raise UsageError("--prompt and --follow exclude each other", "a prompt is sent whole")


def _entries(run: Run, step: str) -> list[Entry]:
    view = run_view(run)
    if view.note:
        note(f"orchestrate: {visible(view.note)}\n")
    return find_entries(run, view.state, step)


def _show_log(run: Run, wish: Wish, as_json: bool) -> None:
    from orchestrate.show.printing import Printer, print_source, read_source

    path = run.logs / "orchestrator.log"
    if as_json:
        start = 0 if wish.since is None else _first_since(path, wish.since)
        answer_json({"run_id": run.id, "log": read_source(path, wish.last_lines, start)})
        return
    printer = Printer()
    is_live = wish.follows and is_held(run.lock_file)
    start = 0 if wish.since is None else _first_since(path, wish.since)
    offset = print_source(printer, path, start, last_lines=wish.last_lines)
    while is_live:
        printer.flush()
        time.sleep(_POLL_S)
        # Asked before reading: what a run writes last is there when its lock is free.
        is_live = is_held(run.lock_file)
        offset = print_source(printer, path, offset)


def _first_since(path: Path, since: float) -> int:
    """Where the first line begins that was logged since then; lines begin with their time."""
    from orchestrate.show.printing import open_source

    wanted = timestamp(since).encode()
    offset = 0
    with open_source(path) as file:
        for line in file:
            if line[: len(wanted)] >= wanted:
                break
            offset += len(line)
    return offset


def _show_steps(run: Run, entries: list[Entry], wish: Wish) -> None:
    from orchestrate.show.printing import Printer, print_source

    printer = Printer()
    for entry in entries:
        if wish.since is not None and not was_at_work_since(entry.result, wish.since):
            if len(entries) == 1:
                note(f"orchestrate: {visible(entry.path)} has ended before that\n")
            continue
        printed = 0
        found = [(stream, source_of(run, entry, stream)) for stream in wish.streams]
        found = [(stream, source) for stream, source in found if source != b""]
        # Who asks for several must know which is which; a program takes a step's two as they are.
        has_titles = len(entries) > 1 or (printer.is_for_people and len(found) > 1)
        for stream, source in found:
            if has_titles:
                title = f"--- {stream} of {entry.path}\n"
                printer.print(title.encode("utf-8", "surrogateescape"))
            printed += print_source(printer, source, last_lines=wish.last_lines)
            printer.end_line()
        if not printed:
            _tell_silence(entry, wish)


def _tell_silence(entry: Entry, wish: Wish) -> None:
    """A step that printed nothing may have an error that says why."""
    what = "has printed nothing yet" if entry.is_running else "printed nothing"
    if wish.streams == ("prompt",):
        what = "sent no prompt"
    reason = entry.result.message or entry.result.reason
    status = f" ({entry.result.status}: {visible(reason)})" if reason else ""
    note(f"orchestrate: {visible(entry.path)} {what}{status}\n")


def _step_json(run: Run, entry: Entry, wish: Wish) -> dict[str, Any]:
    from orchestrate.show.printing import read_source

    document = {
        "run_id": run.id,
        "step": entry.path,
        "status": entry.result.status,
        "exit_code": entry.result.exit_code,
        "error": None if entry.result.error is None else entry.result.message,
    }
    for stream in wish.streams:
        document[stream] = read_source(source_of(run, entry, stream), wish.last_lines)
    return document
