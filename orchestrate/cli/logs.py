"""`orchestrate logs`: what a run's orchestrator or one of its steps has written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from orchestrate.cli.options import json_option, state_dir_option, working_dir_option
from orchestrate.cli.output import answer_json, note
from orchestrate.errors import UsageError
from orchestrate.plan.visible import visible
from orchestrate.record import record

if TYPE_CHECKING:
    from orchestrate.cli.step_logs import Entry, Stream
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace

_POLL_S = 0.25
_MOST_LINES = 1_000_000_000


@record
class Wish:
    """What is to be shown, and how."""

    step: str | None
    streams: tuple[Stream, ...]
    last_lines: int | None
    follows: bool


@click.command(short_help="Show the log of a run or of a step.")
@click.argument("run", metavar="RUN")
@click.argument("step", metavar="[STEP]", required=False)
@click.option("--stdout", "only_stdout", is_flag=True, help="Only the step's standard output.")
@click.option("--stderr", "only_stderr", is_flag=True, help="Only the step's standard error.")
@click.option("-n", "--lines", "last_lines", type=click.IntRange(0, _MOST_LINES), metavar="N",
              help="Only the last N lines (of each).")  # fmt: skip
@click.option("-f", "--follow", "follows", is_flag=True,
              help="Go on with what is written, until the step or the run ends.")  # fmt: skip
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

    STEP is a name, or Loop[3]/Step for one item of a loop. Of an agent's step, the answer is
    shown; what its program printed is in the run's logs/ folder.
    """
    from orchestrate.cli.stored import find_stored

    wish = _wish(step, as_json, flags)
    _, found, workspace = find_stored(run, working_dir, state_dir)
    if step is None:
        _show_log(found, wish, as_json)
    elif as_json:
        answer_json(_step_json(found, workspace, wish))
    elif wish.follows:
        _follow_step(found, workspace, step, wish)
    else:
        _show_step(found, _entry(found, workspace, step), wish)
    return 0


def _wish(step: str | None, as_json: bool, flags: dict[str, Any]) -> Wish:
    only_stdout, only_stderr = flags["only_stdout"], flags["only_stderr"]
    if step is None and (only_stdout or only_stderr):
        raise UsageError("--stdout and --stderr need a STEP")
    if flags["follows"] and as_json:
        raise UsageError("--follow and --json exclude each other")
    streams: tuple[Stream, ...] = ("stdout", "stderr")
    if only_stdout != only_stderr:
        streams = ("stdout",) if only_stdout else ("stderr",)
    return Wish(step, streams, flags["last_lines"], flags["follows"])


def _entry(run: Run, workspace: Workspace, step: str) -> Entry:
    from orchestrate.cli.looking import look_at
    from orchestrate.cli.step_logs import find_entry

    sight = look_at(run, workspace)
    if sight.note:
        note(f"orchestrate: {visible(sight.note)}\n")
    return find_entry(sight.document, step)


def _show_log(run: Run, wish: Wish, as_json: bool) -> None:
    from orchestrate.cli.printing import Printer, print_source, read_source
    from orchestrate.state.locks import is_held

    path = run.logs / "orchestrator.log"
    if as_json:
        answer_json({"run_id": run.id, "log": read_source(path, wish.last_lines)})
        return
    printer = Printer()
    is_live = wish.follows and is_held(run.lock_file)
    offset = print_source(printer, path, last_lines=wish.last_lines)
    while is_live:
        printer.flush()
        time.sleep(_POLL_S)
        # Asked before reading: what a run writes last is there when its lock is free.
        is_live = is_held(run.lock_file)
        offset = print_source(printer, path, offset)


def _show_step(run: Run, entry: Entry, wish: Wish) -> None:
    from orchestrate.cli.printing import Printer, print_source
    from orchestrate.cli.step_logs import source_of

    printer = Printer()
    printed = 0
    for stream in wish.streams:
        source = source_of(run, entry, stream)
        if source == b"":
            continue
        if printer.is_for_people and len(wish.streams) > 1:
            printer.print(f"--- {stream} of {entry.path}\n".encode("utf-8", "surrogateescape"))
        printed += print_source(printer, source, last_lines=wish.last_lines)
    if not printed:
        _tell_silence(entry)


def _tell_silence(entry: Entry) -> None:
    """A step that printed nothing may have an error that says why."""
    what = "has printed nothing yet" if entry.is_running else "printed nothing"
    error = entry.result.get("error", {}).get("message", "")
    reason = error or entry.result.get("reason", "")
    status = f" ({entry.result['status']}: {visible(reason)})" if reason else ""
    note(f"orchestrate: {visible(entry.path)} {what}{status}\n")


def _step_json(run: Run, workspace: Workspace, wish: Wish) -> dict[str, Any]:
    from orchestrate.cli.printing import read_source
    from orchestrate.cli.step_logs import source_of

    entry = _entry(run, workspace, wish.step or "")
    document = {
        "run_id": run.id,
        "step": entry.path,
        "status": entry.result.get("status"),
        "exit_code": entry.result.get("exit_code"),
        "error": entry.result.get("error", {}).get("message"),
    }
    for stream in wish.streams:
        document[stream] = read_source(source_of(run, entry, stream), wish.last_lines)
    return document


def _follow_step(run: Run, workspace: Workspace, step: str, wish: Wish) -> None:
    """Print what the step writes, until it or the run ends; it need not have begun."""
    from orchestrate.cli.looking import look_at
    from orchestrate.cli.printing import Printer, print_source
    from orchestrate.cli.step_logs import NoSuchStep, find_entry, source_of
    from orchestrate.cli.waiting import knows_step

    printer = Printer()
    offsets: dict[Stream, int] = {}
    while True:
        sight = look_at(run, workspace)
        try:
            entry = find_entry(sight.document, step)
        except NoSuchStep:
            if not sight.is_live or not knows_step(run, step):
                raise
        else:
            for stream in wish.streams:
                source = source_of(run, entry, stream, is_raw=True)
                if stream in offsets:
                    offsets[stream] = print_source(printer, source, offsets[stream])
                elif source != b"":
                    offsets[stream] = print_source(printer, source, 0, wish.last_lines)
            if not entry.is_running or not sight.is_live:
                return
        printer.flush()
        time.sleep(_POLL_S)
