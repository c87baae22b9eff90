"""Writes a report as Markdown: the graph as a Mermaid block, the timeline as lines of text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from orchestrate import __version__
from orchestrate.plan.visible import plural, visible, width_of
from orchestrate.regex import regex
from orchestrate.show.draw.graph import mermaid_of
from orchestrate.show.report.data import MOST_STEPS, Report
from orchestrate.show.report.details import MOST_DETAILED, Detail, Part
from orchestrate.show.report.timeline import MOST_ROWS, timeline_rows
from orchestrate.show.report.words import (
    COLUMNS,
    before_words,
    cells_of,
    decision_of,
    facts,
    moment,
    safe,
    standing,
)
from orchestrate.view.bars import Bar

# Signs of Markdown anywhere, and those that mean something only at the beginning of a line.
_MEANS_SOMETHING = regex(r"([\\`*_{}\[\]|~$]|^[#>]|^[+-](?=\s|$)|^[=-](?=[=-]*\s*$))")
_LIST_NUMBER = regex(r"^(\d{1,9})([.)])(?=\s|$)")
# A word with a URL, an address or a mention in it, or a reference as `#12`.
_LIVE = regex(r"([^\s|`<>]*(?:://|www\.|@(?=\w)|#(?=\d))[^\s|`<>]*)", re.IGNORECASE)
_CODE = regex(r"`([^`]+)`")
_CHART = 60
_LONGEST_NAME = 32
# Later ones are drawn over earlier ones.
_LETTERS = {"span": "-", "work": "=", "wait": "w", "rest": "r", "open": ">", "cut": "x",
            "fail": "!"}  # fmt: skip


def render_markdown(report: Report) -> str:
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"# {plain(report.name)}"
    yield ""
    yield f"Run `{report.run_id}` **{plain(standing(report))}**."
    for text in report.notes:
        yield f"\n> {plain(text)}"
    yield ""
    yield from (f"- {title}: {plain(value)}" for title, value in facts(report))
    yield from (f"- Go on: {_code(command)}" for command in report.next)
    yield from _graph(report)
    yield from _timeline(report)
    yield from _steps(report)
    yield from _approvals(report)
    yield from _changes(report)
    yield from _details(report)
    yield ""
    yield (
        f"Made by orchestrate {__version__} at {moment(report.now)} from event "
        f"{report.chronicle.events} of the run. Secrets are masked."
    )


def plain(text: str) -> str:
    """Text that Markdown and HTML take as it is, on one line.

    A word that a site would make a link or a mention of, as `@name` and bare URLs, becomes code:
    what an agent has written must not call people or lead them anywhere.
    """
    pieces = _LIVE.split(text)
    return "".join(_code(p) if number % 2 else _escaped(p) for number, p in enumerate(pieces))


def _escaped(text: str) -> str:
    shown = visible(text).replace("&", "&amp;").replace("<", "&lt;")
    return _LIST_NUMBER.sub(r"\1\\\2", _MEANS_SOMETHING.sub(r"\\\1", shown))


def _prose(text: str) -> str:
    """A sentence of our own, in which `…` is a command."""
    pieces = _CODE.split(text)
    return "".join(_code(p) if number % 2 else plain(p) for number, p in enumerate(pieces))


def _code(text: str) -> str:
    """A code span whose fence is longer than any in the text."""
    shown = visible(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _block(text: str, language: str = "text") -> Iterator[str]:
    """A code block that nothing in the text can end."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    yield ""
    yield f"{fence}{language}"
    yield text.rstrip("\n")
    yield fence


def _heading(text: str) -> Iterator[str]:
    yield ""
    yield f"## {text}"
    yield ""


def _graph(report: Report) -> Iterator[str]:
    yield from _heading("Path through the plan")
    if report.graph_note:
        yield plain(report.graph_note.strip())
    if report.drawing is None:
        yield f"\nTo draw all of it: {_code(report.whole_plan)}"
    elif report.drawing.top.members:
        yield from _block(mermaid_of(report.drawing), "mermaid")
    else:
        yield "No step has begun."


def _timeline(report: Report) -> Iterator[str]:
    if not report.tallies:
        return
    yield from _heading("Timeline")
    yield (
        "`=` worked, `!` failed, `r` rested before a retry, `w` waited, `x` stopped or lost, "
        "`>` not ended, `-` a loop or a recipe. A row with `[*]` shows all items of a loop."
    )
    rows = timeline_rows(report.tallies, _LONGEST_NAME)
    shown = rows[:MOST_ROWS]
    wide = max(width_of(row.name) for row in shown)
    start, span = report.started, max(report.end - report.started, 0.001)
    text = "\n".join(
        f"{row.name}{' ' * (wide - width_of(row.name))} |{_chart(row.bars, start, span)}|"
        for row in shown
    )
    yield from _block(text)
    yield from _left_out(len(rows) - MOST_ROWS, "row")


def _chart(bars: list[Bar], start: float, span: float) -> str:
    cells = [" "] * _CHART
    for kind, letter in _LETTERS.items():
        for bar in bars:
            if bar.kind == kind:
                first = _cell(bar.start, start, span)
                for cell in range(first, max(first, _cell(bar.end, start, span)) + 1):
                    cells[cell] = letter
    return "".join(cells)


def _cell(at: float, start: float, span: float) -> int:
    return min(max(int((at - start) / span * _CHART), 0), _CHART - 1)


def _steps(report: Report) -> Iterator[str]:
    yield from _heading("Steps")
    if not report.tallies:
        yield "No step has begun."
        return
    yield from _table(COLUMNS, [cells_of(tally) for tally in report.tallies[:MOST_STEPS]])
    yield from _left_out(len(report.tallies) - MOST_STEPS, "step")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(plain(cell) for cell in row)} |"


def _left_out(count: int, noun: str) -> Iterator[str]:
    if count > 0:
        yield f"\n{plural(count, noun)} more, not shown."


def _approvals(report: Report) -> Iterator[str]:
    approvals = report.chronicle.approvals
    if not approvals:
        return
    yield from _heading("Approvals")
    for approval in approvals[:MOST_STEPS]:
        said = [Part("Said with it", approval.message)] if approval.message else []
        heading = f"{approval.stage}: {decision_of(approval)}"
        yield from _detail(Detail(approval.stage, heading, [Part("Asked", approval.prompt), *said]))
    yield from _left_out(len(approvals) - MOST_STEPS, "approval")


def _changes(report: Report) -> Iterator[str]:
    changes = report.changes
    yield from _heading("Files changed")
    yield from (f"{_prose(text)}\n" for text in changes.how)
    if changes.commits:
        yield from (f"- commit {_code(line)}" for line in changes.commits)
        yield ""
    if changes.before:
        yield f"{plain(before_words(changes))}\n"
    if not changes.listed:
        return
    rows = []
    for change in changes.listed:
        state = "committed" if change.is_committed else "not committed"
        is_during = "yes" if change.is_during else "not known"
        rows.append((change.path, change.what, change.counted, state, is_during))
    yield from _table(("file", "change", "lines", "state", "during the run"), rows)
    yield from _left_out(changes.left_out, "file")


def _details(report: Report) -> Iterator[str]:
    if not report.details:
        return
    yield from _heading("Prompts and outputs")
    yield "The last visits of each step, and of a loop a few items. All of it:"
    yield _code(report.all_logs)
    for detail in report.details:
        yield from _detail(detail)
    yield from _left_out(len(report.tallies) - MOST_DETAILED, "step")


def _detail(detail: Detail) -> Iterator[str]:
    yield ""
    yield f"<details><summary>{plain(detail.heading)}</summary>"
    for part in detail.parts:
        cut = f" ({plain(part.cut)})" if part.cut else ""
        yield f"\n{plain(part.title)}{cut}:"
        yield from _block(safe(part.text))
    yield "\n</details>"
