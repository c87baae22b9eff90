"""Phrases about events that both the screen and the run's log use."""

from __future__ import annotations

import time
from typing import Any

from orchestrate.plan.nodes import OK, Abort, Finish, Goto, Leave, Restart, target_of
from orchestrate.plan.visible import visible
from orchestrate.state.events import (
    AttemptEnded,
    CallOpened,
    CallWaits,
    GateOpened,
    StepFinished,
    StepStarted,
)
from orchestrate.state.model import Index, RunState
from orchestrate.state.pending_call import Postponed
from orchestrate.state.result import StepResult
from orchestrate.state.times import duration, timestamp


def retry_words(event: AttemptEnded) -> str:
    """When a failed attempt is repeated: `retry 2 of 5 in 4.0s: overloaded (529)`."""
    after = f"in {duration(event.rest_s * 1000)}" if event.rest_s else "now"
    return f"{retry_number(event.result)} {after}{retry_reason(event.result)}"


def wait_words(event: AttemptEnded | CallWaits) -> str:
    """What a call is put off for: `waits for quota until 14:05`."""
    if isinstance(event, AttemptEnded):
        return quota_words(event.at + event.rest_s)
    return waiting_words(event.why, event.agent, event.until, event.ahead)


def waiting_words(why: str, agent: str, until: float, ahead: int) -> str:
    return quota_words(until) if why == "quota" else f"waits for a slot of {agent}, {ahead} ahead"


def waits_document(waits: Postponed) -> dict[str, Any]:
    """What a call waits for, for programs and, as `words`, for people."""
    is_quota = waits.why == "quota"
    more = {"until": timestamp(waits.until)} if is_quota else {"ahead": waits.ahead}
    words = waiting_words(waits.why, waits.agent, waits.until, waits.ahead)
    return {"for": waits.why, "agent": waits.agent, **more, "words": words}


def quota_words(until: float) -> str:
    """By the local clock, with the day if that is another one than today."""
    then = time.localtime(until)
    is_today = then[:3] == time.localtime()[:3]
    return f"waits for quota until {time.strftime('%H:%M' if is_today else '%a %H:%M', then)}"


def retry_number(result: StepResult) -> str:
    if result.last_attempt == "quota":
        return "quota"
    retry = result.retry
    return "next one" if retry is None else f"retry {retry.number} of {retry.of}"


def retry_reason(result: StepResult) -> str:
    context = result.context
    status = f" ({context['http_status']})" if "http_status" in context else ""
    return f": {context['kind']}{status}" if "kind" in context else ""


def visit_words(event: StepStarted | GateOpened | CallOpened, state: RunState, index: Index) -> str:
    limits = index.plan(state.root.plan).limits
    return f"(visit {event.visit}/{limits.max_visits}, total {state.steps_run}/{limits.max_steps})"


def outcome_words(event: StepFinished) -> str:
    why = event.result.outcome_description
    # A check has no outcomes of the author's.
    label = "passed" if event.label == OK else event.label.removeprefix("@")
    return visible(label if why is None else f"{label} ({why})")


def restart_words(event: StepFinished, state: RunState, index: Index) -> str:
    """`task → trial (new session)` where a recipe is begun afresh; '' elsewhere."""
    target = target_of(index.place(state.root.plan, event.node).node, event.label)
    match target:
        case Restart(plan):
            then = visible(index.plan(plan).name)
            return f"{visible(event.node)} → {then} (new session)"
        case Goto() | Finish() | Leave() | Abort():
            return ""
