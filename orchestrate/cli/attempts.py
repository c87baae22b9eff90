"""All attempts of a step, oldest first, with the output that the journal has on record of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from orchestrate.cli.step_logs import Entry, Stream, from_result, source_of, was_at_work_since
from orchestrate.cli.tallies import plain_path
from orchestrate.record import record

if TYPE_CHECKING:
    from pathlib import Path

    from orchestrate.state.runs import Run


@record
class Attempt:
    """One attempt; `how` is its status, or why it was not the last word."""

    path: str
    visit: int
    number: int
    how: str
    result: dict[str, Any]

    @property
    def title(self) -> str:
        visit = f"visit {self.visit}, " if self.visit > 1 else ""
        return f"{self.path}, {visit}attempt {self.number}: {self.how}"


def show_attempts(
    run: Run,
    entries: Sequence[Entry],
    streams: Sequence[Stream],
    last_lines: int | None,
    since: float | None,
    *,
    as_json: bool,
) -> None:
    """Print them, or answer with them as data."""
    attempts = [
        attempt
        for attempt in _attempts(run, {entry.path for entry in entries})
        if since is None or was_at_work_since(attempt.result, since)
    ]
    if as_json:
        _answer(run, attempts, streams, last_lines)
        return
    from orchestrate.cli.printing import Printer, print_source

    printer = Printer()
    if "stdout" in streams:
        for attempt in attempts:
            printer.print(_encoded(f"--- {attempt.title}\n"))
            print_source(printer, from_result(attempt.result), last_lines=last_lines)
            if attempt.result.get("truncated"):
                printer.print(_encoded(f"--- the rest is in {run.logs}\n"))
    if "stderr" in streams:
        for entry in entries:
            for source in _stderr_files(run, entry):
                printer.print(_encoded(f"--- stderr of {entry.path}: {source.name}\n"))
                print_source(printer, source, last_lines=last_lines)


def _attempts(run: Run, paths: set[str]) -> Iterator[Attempt]:
    from orchestrate.state.journal import read_tail

    for recorded in read_tail(run.events):
        event = recorded.event
        if event.get("on") not in ("attempt-ended", "step-finished"):
            continue
        path = plain_path(event["frame"], event["node"])
        if path not in paths:
            continue
        number = event.get("attempt", event["result"].get("attempts", 1))
        how = event.get("why") or str(event["result"].get("status", ""))
        yield Attempt(path, event["visit"], number, how, event["result"])


def _stderr_files(run: Run, entry: Entry) -> list[Path]:
    """Those put aside have a number, the newest has none."""
    aside = []
    number = 1
    while True:
        names = [run.logs / f"{entry.files}.{number}.{stream}" for stream in ("stdout", "stderr")]
        if not any(path.is_file() for path in names):
            break
        aside += [path for path in names[1:] if path.is_file()]
        number += 1
    last = source_of(run, entry, "stderr")
    return [*aside, last] if not isinstance(last, bytes) else aside


def _answer(
    run: Run, attempts: list[Attempt], streams: Sequence[Stream], last_lines: int | None
) -> None:
    from orchestrate.cli.output import answer_json
    from orchestrate.cli.printing import read_source

    shown = []
    for attempt in attempts:
        result = attempt.result
        one: dict[str, Any] = {
            "step": attempt.path,
            "visit": attempt.visit,
            "attempt": attempt.number,
            "how": attempt.how,
            "exit_code": result.get("exit_code"),
            "error": (result.get("error") or {}).get("message"),
            "truncated": bool(result.get("truncated")),
        }
        if "stdout" in streams:
            one["stdout"] = read_source(from_result(result), last_lines)
        shown.append(one)
    answer_json({"run_id": run.id, "attempts": shown})


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
