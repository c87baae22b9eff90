"""Writes a report as one HTML page: no scripts, nothing from elsewhere, light, dark, on paper."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from orchestrate import __version__
from orchestrate.plan.visible import plural, visible
from orchestrate.regex import regex
from orchestrate.show.draw.svg import render_svg
from orchestrate.show.report.data import MOST_STEPS, Report
from orchestrate.show.report.details import MOST_DETAILED, Detail
from orchestrate.show.report.timeline import MOST_ROWS, draw_timeline, timeline_rows
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

_STYLE = """\
:root { color-scheme: light dark; --ink: #1f2328; --quiet: #656d76; --line: #d0d7de;
  --paper: #ffffff; --box: #f6f8fa; --good: #1a7f37; --bad: #cf222e; --busy: #0969da;
  --wait: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --quiet: #9198a1; --line: #30363d;
  --paper: #0d1117; --box: #161b22; --good: #3fb950; --bad: #f85149; --busy: #58a6ff;
  --wait: #d29922; } }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif;
  color: var(--ink); background: var(--paper); max-width: 1020px; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
.id, .quiet { color: var(--quiet); } code, pre { font-family: ui-monospace, "DejaVu Sans Mono",
  monospace; font-size: .86em; }
.standing { font-size: 1.05rem; font-weight: 600; margin: .4rem 0 1rem; }
.completed { color: var(--good); } .failed, .damaged { color: var(--bad); }
.running { color: var(--busy); } .paused, .interrupted, .cancelled { color: var(--wait); }
.note { border-left: 4px solid var(--wait); background: var(--box); padding: .5rem .8rem;
  margin: .5rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0; }
dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } .wide svg { max-width: none; }
table { border-collapse: collapse; font-size: .88rem; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: break-word; }
th { color: var(--quiet); font-weight: 600; white-space: nowrap; }
td:first-child { font-weight: 600; }
tr.bad td:nth-child(2) { color: var(--bad); }
details { border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; }
summary { padding: .4rem .7rem; cursor: pointer; overflow-wrap: anywhere; }
details > div { padding: 0 .8rem .6rem; }
pre { background: var(--box); padding: .6rem; border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; max-height: 30rem; overflow-y: auto; margin: .2rem 0 .6rem; }
ul { padding-left: 1.2rem; } li { overflow-wrap: anywhere; }
.key span { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 .9em;
  vertical-align: -0.05em; }
footer { margin: 3rem 0 1rem; color: var(--quiet); font-size: .85rem; }
@media print { body { margin: 0; max-width: none; font-size: 11px; } pre { max-height: none; }
  .wide { overflow: visible; } .wide svg { max-width: 100%; height: auto; }
  details, tr, svg { break-inside: avoid; } h2 { break-after: avoid; } }
"""
_KEY = (
    ("#2da44e", "worked"),
    ("#cf222e", "failed"),
    ("#d4a72c", "rested before a retry"),
    ("#8250df", "waited for a file or a person"),
    ("#8c959f", "stopped or lost"),
    ("#0969da", "not ended"),
)


_CODE = regex(r"`([^`]+)`")


def render_html(report: Report) -> str:
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    name = escape(visible(report.name))
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    # Whatever slips through: a page that may load and run nothing.
    yield (
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    )
    yield '<meta name="robots" content="noindex">'
    yield f"<title>{name}: {escape(report.status)}</title><style>{_STYLE}</style></head><body>"
    yield f'<h1>{name}</h1><div class="id">run {escape(report.run_id)}</div>'
    yield f'<p class="standing {escape(report.status)}">It {escape(standing(report))}.</p>'
    for text in report.notes:
        yield f'<p class="note">{_prose(text)}</p>'
    yield "<dl>"
    for title, value in facts(report):
        yield f"<dt>{title}</dt><dd>{escape(value)}</dd>"
    for command in report.next:
        yield f"<dt>Go on</dt><dd><code>{escape(visible(command))}</code></dd>"
    yield "</dl>"
    yield from _graph(report)
    yield from _timeline(report)
    yield from _steps(report)
    yield from _approvals(report)
    yield from _changes(report)
    yield from _details(report)
    yield (
        f"<footer>Made by orchestrate {escape(__version__)} at {moment(report.now)} from event "
        f"{report.chronicle.events} of the run. Secrets are masked. "
        "The run's folder is complete; this page is not.</footer>"
    )
    yield "</body></html>"


def _prose(text: str) -> str:
    """A sentence in which `…` is a command."""
    return _CODE.sub(r"<code>\1</code>", escape(visible(text)))


def _graph(report: Report) -> Iterator[str]:
    yield "<h2>Path through the plan</h2>"
    if report.graph_note:
        yield f'<p class="note">{escape(visible(report.graph_note.strip()))}</p>'
    if report.drawing is None:
        yield f"<p>To draw all of it: <code>{escape(visible(report.whole_plan))}</code></p>"
        return
    if not report.drawing.top.members:
        yield "<p>No step has begun.</p>"
        return
    yield (
        '<p class="quiet">Green was visited and taken, red is where it failed, amber where it '
        "waits or stopped, blue where it is at work; dashed was not visited.</p>"
    )
    title = f"{report.name}: the path of run {report.run_id}"
    yield f'<div class="wide">{render_svg(report.drawing, visible(title))}</div>'


def _timeline(report: Report) -> Iterator[str]:
    if not report.tallies:
        return
    yield "<h2>Timeline</h2>"
    key = "".join(f'<span style="background:{colour}"></span>{text}' for colour, text in _KEY)
    yield f'<p class="quiet key">{key}</p>'
    rows = timeline_rows(report.tallies)
    chart = draw_timeline(rows, report.chronicle.sittings, report.end)
    yield f'<div class="wide">{chart}</div>'
    if any(tally.is_inner for tally in report.tallies):
        yield '<p class="quiet">A row with [*] shows all items of a loop together.</p>'
    yield from _left_out(len(rows) - MOST_ROWS, "row")


def _left_out(count: int, noun: str) -> Iterator[str]:
    if count > 0:
        yield f'<p class="quiet">{plural(count, noun)} more, not shown.</p>'


def _steps(report: Report) -> Iterator[str]:
    yield "<h2>Steps</h2>"
    if not report.tallies:
        yield "<p>No step has begun.</p>"
        return
    heads = "".join(f"<th>{name}</th>" for name in COLUMNS)
    yield f'<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody>'
    for tally in report.tallies[:MOST_STEPS]:
        look = ' class="bad"' if tally.statuses.get("failed") else ""
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in cells_of(tally))
        yield f"<tr{look}>{cells}</tr>"
    yield "</tbody></table></div>"
    yield from _left_out(len(report.tallies) - MOST_STEPS, "step")


def _approvals(report: Report) -> Iterator[str]:
    approvals = report.chronicle.approvals
    if not approvals:
        return
    yield "<h2>Approvals</h2>"
    for approval in approvals[:MOST_STEPS]:
        decision = escape(decision_of(approval))
        yield f"<details><summary><b>{escape(visible(approval.stage))}</b>: {decision}</summary>"
        yield f"<div><pre>{escape(safe(approval.prompt))}</pre>"
        if approval.message:
            yield f"<p>Said with it:</p><pre>{escape(safe(approval.message))}</pre>"
        yield "</div></details>"
    yield from _left_out(len(approvals) - MOST_STEPS, "approval")


def _changes(report: Report) -> Iterator[str]:
    changes = report.changes
    yield "<h2>Files changed</h2>"
    for text in changes.how:
        yield f'<p class="quiet">{_prose(text)}</p>'
    if changes.commits:
        yield "<p>Commits:</p><ul>"
        yield from (f"<li><code>{escape(visible(line))}</code></li>" for line in changes.commits)
        yield "</ul>"
    if changes.before:
        yield f'<p class="quiet">{escape(before_words(changes))}</p>'
    if not changes.listed:
        return
    heads = "".join(f"<th>{name}</th>" for name in ("file", "change", "lines", "state"))
    yield f"<table><thead><tr>{heads}</tr></thead><tbody>"
    for change in changes.listed:
        state = "committed" if change.is_committed else "not committed, changed during the run"
        if not change.is_during:
            state = "not committed, when is not known"
        yield (
            f"<tr><td><code>{escape(visible(change.path))}</code></td>"
            f"<td>{escape(visible(change.what))}</td><td>{change.counted}</td><td>{state}</td></tr>"
        )
    yield "</tbody></table>"
    yield from _left_out(changes.left_out, "file")


def _details(report: Report) -> Iterator[str]:
    if not report.details:
        return
    yield "<h2>Prompts and outputs</h2>"
    yield (
        '<p class="quiet">The last visits of each step, and of a loop a few items. '
        f"All of it: <code>{escape(visible(report.all_logs))}</code>.</p>"
    )
    for detail in report.details:
        yield from _detail(detail)
    yield from _left_out(len(report.tallies) - MOST_DETAILED, "step")


def _detail(detail: Detail) -> Iterator[str]:
    yield f"<details><summary>{escape(visible(detail.heading))}</summary><div>"
    for part in detail.parts:
        cut = f' <span class="quiet">({escape(visible(part.cut))})</span>' if part.cut else ""
        yield f"<div>{escape(part.title)}{cut}</div><pre>{escape(safe(part.text))}</pre>"
    yield "</div></details>"
