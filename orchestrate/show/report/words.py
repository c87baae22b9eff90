"""The sentences and figures of a report that its HTML and its Markdown share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrate.exits import STOPPED
from orchestrate.plan.visible import clip, plural, visible
from orchestrate.show.report.data import Report
from orchestrate.show.spending import budget_words, reused_words
from orchestrate.state.denials import denial_words
from orchestrate.state.result import Approval
from orchestrate.state.times import duration, local_time, seconds_of, timestamp, zone_at
from orchestrate.view.changes import Changes
from orchestrate.view.history import Sitting
from orchestrate.view.source_files import shown_definition
from orchestrate.view.step_totals import Tally
from orchestrate.view.usage import TotalUsage

STATUS_WORDS = {
    "running": "is running",
    "interrupted": "was interrupted: its process is gone",
    "paused": "is paused",
    "completed": "has completed",
    "failed": "has failed",
    "cancelled": "was cancelled",
    "damaged": "is damaged",
}
NOTHING = "\N{EN DASH}"
_LONGEST_OUTPUT = 500
COLUMNS = ("step", "status", "visits", "attempts", "time", "longest", "agent", "cost", "tokens")


def safe(text: str) -> str:
    """A text of several lines without control or direction-changing characters."""
    lines = text.replace("\r\n", "\n").replace("\t", "    ").split("\n")
    return "\n".join(visible(line) for line in lines)


def standing(report: Report) -> str:
    words = STATUS_WORDS.get(report.status, report.status)
    ending = report.ending
    if report.status == "paused" and ending is not None and ending.kind in STOPPED:
        return "was interrupted"
    if ending is None or not ending.tells:
        return words
    why = f" ({visible(report.giving_up)})" if report.giving_up else ""
    return f"{words}: {visible(ending.reason)}{why}"


def moment(at: float) -> str:
    """On the clock of the machine that makes the report, with its zone: the report is passed on."""
    text = timestamp(at)
    return f"{local_time(text)} {zone_at(text)}"


def facts(report: Report) -> list[tuple[str, str]]:
    """What stands at the top."""
    sittings = report.chronicle.sittings
    found = [
        ("Definition", f"{shown_definition(report.definition)} ({report.dialect})"),
        ("Started", moment(report.started)),
    ]
    if report.ended is None:
        found.append(("Seen", f"{moment(report.now)}, while the run was at work"))
    else:
        found.append(("Last event", moment(report.ended)))
    found.append(("Elapsed", _elapsed(report, sittings)))
    found += _lineage(report.lineage)
    found.append(("Steps", _step_counts(report)))
    if agents := _all_of(tally.agents for tally in report.tallies):
        found.append(("Agents", agents))
    if permissions := _all_of(tally.permissions for tally in report.tallies):
        found.append(("Permissions", permissions))
    found.append(("Cost", cost(report.usage)))
    found.append(("Tokens", tokens(report.usage)))
    if report.limits:
        found.append(("Limits", report.limits))
    found += [("Budget", visible(budget_words(budget))) for budget in report.budgets]
    for name, value in report.outputs.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        found.append((f"Output {visible(name)}", visible(clip(text, _LONGEST_OUTPUT))))
    if denied := denial_words(report.denials):
        found.append(("Denied", visible(denied)))
    found.append(("Folder", visible(report.root)))
    return found


def _lineage(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Where a run is from and where it works, of a document that programs get."""
    found = []
    if "forked" in document:
        forked = document["forked"]
        found.append(("Fork of", f"run {forked['run_id']}, from step {visible(forked['from'])} on"))
    if "worktree" in document:
        tree = document["worktree"]
        found.append(("Worktree", f"{visible(tree['path'])} (branch {visible(tree['branch'])})"))
    if "reused" in document:
        found.append(("Reused", reused_words(**document["reused"])))
    return found


def _elapsed(report: Report, sittings: list[Sitting]) -> str:
    whole = duration(max(0.0, report.end - report.started) * 1000)
    if len(sittings) < 2:
        return whole
    worked = sum((s.end if s.end is not None else report.end) - s.start for s in sittings)
    return f"{whole}, of which {duration(worked * 1000)} at work, in {len(sittings)} sittings"


def _all_of(named: Iterable[Iterable[str]]) -> str:
    """Each name once, in the order of the steps."""
    return ", ".join(visible(name) for name in dict.fromkeys(n for names in named for n in names))


def _step_counts(report: Report) -> str:
    counts: dict[str, int] = {}
    for tally in report.tallies:
        for status, number in tally.statuses.items():
            counts[status] = counts.get(status, 0) + number
    return ", ".join(f"{number} {status}" for status, number in counts.items()) or "none"


def cost(usage: TotalUsage) -> str:
    """Unknown is unknown, never nothing."""
    if not usage.turns:
        return "not billed" if usage.free_turns else NOTHING
    if usage.cost_usd is None:
        return f"unknown ({plural(usage.turns, 'call')} did not report it)"
    more = f" + unknown ({plural(usage.without_cost, 'call')})" if usage.without_cost else ""
    priced = f" ({plural(usage.computed, 'call')} computed from prices)" if usage.computed else ""
    return f"${usage.cost_usd:.4f}{priced}{more}"


def tokens(usage: TotalUsage) -> str:
    if not usage.turns:
        return NOTHING
    if usage.input_tokens is None or usage.output_tokens is None:
        return "unknown"
    more = f" + unknown ({plural(usage.without_tokens, 'call')})" if usage.without_tokens else ""
    return f"{usage.input_tokens:,} in, {usage.output_tokens:,} out{more}"


def status_of(tally: Tally) -> str:
    """In short; for the items of a loop, how many ended how; and what permissions refused."""
    denied = visible(denial_words(tally.denials))
    return "; ".join(filter(None, [_standing_of(tally), denied]))


def _standing_of(tally: Tally) -> str:
    if tally.items is not None:
        items = plural(tally.items, "item")
        return f"{tally.last}: {items}" if tally.last else items
    if tally.is_inner or len(tally.statuses) > 1:
        counts = ", ".join(f"{number} {status}" for status, number in tally.statuses.items())
        still = f", {tally.last}" if tally.last and tally.last not in tally.statuses else ""
        return counts + still or tally.last
    outcomes = ", ".join(visible(name) for name in tally.outcomes)
    return f"{tally.last}: {outcomes}" if outcomes else tally.last


def cells_of(tally: Tally) -> tuple[str, ...]:
    """A row of the table of steps, in the order of `COLUMNS`."""
    return (
        visible(tally.path),
        status_of(tally),
        str(tally.visits or NOTHING),
        str(tally.attempts or NOTHING),
        duration(tally.seconds * 1000) if tally.bars else NOTHING,
        duration(tally.longest * 1000) if tally.visits > 1 and tally.bars else NOTHING,
        ", ".join(visible(name) for name in list(tally.agents)[:3]) or NOTHING,
        cost(tally.usage),
        tokens(tally.usage),
    )


def before_words(changes: Changes) -> str:
    """How many files of the project are not listed, and why."""
    files = plural(len(changes.before), "file")
    verb = "is" if len(changes.before) == 1 else "are"
    return (
        f"{files} more {verb} not committed, and not listed here: last changed outside the run's "
        "sittings."
    )


def decision_of(approval: Approval) -> str:
    """Who decided what, and when."""
    if approval.decided_at is None and approval.status == "expired":
        return "expired: the run was edited before it was decided"
    if approval.decided_at is None:
        expires = approval.expires_at
        until = f"; {approval.default} at {moment(seconds_of(expires))}" if expires else ""
        return f"waits for a decision{until}"
    decided = seconds_of(approval.decided_at)
    waited = duration((decided - seconds_of(approval.requested_at)) * 1000)
    return (
        f"{approval.status} by {visible(approval.decided_by)} at {moment(decided)}, after {waited}"
    )
