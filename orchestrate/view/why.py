"""Why the steps of a run ran, ran again, were taken over, or wait: a difference of their keys."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from orchestrate.diagnostics import closest
from orchestrate.errors import UsageError
from orchestrate.plan.nodes import nodes_in
from orchestrate.plan.visible import visible
from orchestrate.state.address import Address, FrameKey
from orchestrate.state.earlier import ACCEPTED, Earlier, EarlierVisit
from orchestrate.state.events import Edited, Event
from orchestrate.state.lineage import earlier_of, origin_of
from orchestrate.state.recorded import read_events
from orchestrate.state.result import StepResult
from orchestrate.state.runs import Run
from orchestrate.view.run_view import RunView, run_view
from orchestrate.view.why_values import Values
from orchestrate.view.why_words import why_in_words

Json = dict[str, Any]
_MOST_NAMES = 12
_PHASES = {
    "asking": "it waits for a person's decision",
    "resting": "it waits for its next attempt",
    "lost": "what its last attempt did is unknown, and a person decides about another",
    "running": "it is at work",
    "arriving": "it is next",
    "failed": "it failed",
}


def why(run: Run, step: str | None) -> list[Json]:
    """What is known of each step of the run, or of those that a person names."""
    view = run_view(run)
    events = [recorded.event for recorded in read_events(run.events)]
    now, before = earlier_of(run), origin_of(run)
    for event in _before_edit(events):
        before.add(event)
    entries = [e for e in now.entries.values() if e.moved is None and e.opened is None]
    if step is not None:
        entries = [e for e in _meant(now, step) if e.moved is None and e.opened is None]
    values = Values(run, before, now)
    found = [_told(values, _line(view, now, entry), entry, before) for entry in entries]
    stands = {(c.address.frame.text, c.name, c.visit): c.phase for c in view.cursors}
    for told, entry in zip(found, entries, strict=True):
        address = entry.address
        phase = stands.get((address.frame.text, entry.name, address.visit or 1))
        if phase in _PHASES and entry.finished is None and entry.decided is None:
            told["waits"] = _PHASES[phase]
    owed = {*now.owed_redo()}
    for told, entry in zip(found, entries, strict=True):
        if entry.path in owed:
            told["waits"] = "its result does not count any more: it is done again"
    if view.ending is not None and view.ending.kind == "rewound":
        return found  # by the journal the run stands at its beginning
    known = {(e.frame, e.name) for e in entries}
    others = [c for c in view.cursors if (c.frame, c.name) not in known and c.phase in _PHASES]
    next_ = [{"step": c.path, "status": "waiting", "waits": _PHASES[c.phase]} for c in others]
    return found if step is not None else found + next_


def _before_edit(events: list[Event]) -> Iterable[Event]:
    last = max((n for n, event in enumerate(events) if isinstance(event, Edited)), default=0)
    return events[:last]


def _meant(earlier: Earlier, text: str) -> list[EarlierVisit]:
    try:
        found = earlier.covered(Address.typed(text))
    except ValueError:
        found = []
    if not found:
        names = earlier.shown_names
        near = closest(text, names)
        also = f" (did you mean '{visible(near)}'?)" if near else ""
        shown = ", ".join(map(visible, names[:_MOST_NAMES]))
        more = ", …" if len(names) > _MOST_NAMES else ""
        raise UsageError(
            f"the run has not come to a step '{visible(text)}'{also}", f"it has: {shown}{more}"
        )
    return found


def _told(values: Values, line: int | None, entry: EarlierVisit, before: Earlier) -> Json:
    result = entry.finished.result if entry.finished is not None else StepResult()
    told: Json = {
        "step": FrameKey.parse(entry.frame).step(entry.name).shown,
        "visit": entry.visit,
        "status": "reused" if result.reused else _status(entry),
        "line": line,
        "key": entry.key,
    }
    if result.reused:
        is_accepted = ACCEPTED in entry.key
        told |= {"reused": result.reused, "accepted": is_accepted}
        told["because"] = "it was accepted as it is" if is_accepted else "its key is the same"
        if result.cost_usd is not None:
            told["saved_usd"] = result.cost_usd
        return told
    old = before.entries.get(entry.path) if before.entries else None
    told["why"] = entry.why
    told["because"] = why_in_words(entry.why) if entry.why else "it had not run before"
    told["changed"] = [
        side
        for part, digests in entry.why.get("changed", {}).items()
        for side in values.of(part, digests, old, entry)
    ]
    told["changed"] += _files_changed(entry, old)
    return told


def _status(entry: EarlierVisit) -> str:
    if entry.finished is not None:
        return entry.finished.result.status
    if entry.asked is not None:
        return entry.decided.decision if entry.decided is not None else "waiting"
    return "running" if entry.started is not None else "unfinished"


def _files_changed(entry: EarlierVisit, old: EarlierVisit | None) -> Iterable[Json]:
    """Files that are not what they were for the earlier result, by their digests."""
    for name in entry.why.get("files", ()):
        was, now = _files_of(old).get(name), _files_of(entry).get(name)
        if was != now:  # the step may have made it again as it was
            yield {"part": "files", "name": name, "before": was, "after": now}


def _files_of(entry: EarlierVisit | None) -> dict[str, str]:
    if entry is None:
        return {}
    made = entry.finished.made if entry.finished is not None else {}
    return {**entry.key.get("files", {}), **made}


def _line(view: RunView, earlier: Earlier, entry: EarlierVisit) -> int | None:
    if view.index is None:
        return None
    with suppress(KeyError):
        plan = view.index.plan(earlier.called_plan(entry.path) or view.index.program.main)
        return next((n.span.line for n in nodes_in(plan) if n.name == entry.name), None)
    return None
