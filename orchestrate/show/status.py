"""Draws what `status --json` answers for people: one fact a line, and what to do now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from orchestrate.errors import completed
from orchestrate.exits import STOPPED, Ending
from orchestrate.plan.visible import clip, plural, visible, width_of
from orchestrate.show.changed_files import changed_words
from orchestrate.show.facts import decision_words, output_lines
from orchestrate.show.spending import budget_words, cost_words, reused_words, token_words
from orchestrate.state.address import gate_words
from orchestrate.state.budget import Budget
from orchestrate.state.denials import denial_words, inner_denials
from orchestrate.state.result import Costs, read_denials
from orchestrate.state.times import duration, local_time
from orchestrate.view.source_files import shown_definition

_LONGEST = 200
_MOST_FAILED = 10
_MOST_NAMED = 8


def draw_status(view: dict[str, Any], ending: Ending | None, giving_up: str) -> str:
    """The whole text, each line ending in a newline; `giving_up` as in `view/giving_up`."""
    return "".join(f"{line}\n" for line in _lines(view, ending, giving_up))


def _lines(view: dict[str, Any], ending: Ending | None, giving_up: str) -> Iterator[str]:
    yield f"run {view['run_id']} {standing(view['status'], ending, giving_up)}"
    if view["status"] == "interrupted":
        left = "its programs still run and will be adopted" if view["programs_left"] else ""
        yield "  its process is gone" + (f"; {left}" if left else "")
    elif view["programs_left"]:
        end = completed(f"orchestrate stop {view['run_id']}")
        yield f"  its programs still run: resume adopts them, {end} ends them"
    if view["note"]:
        yield f"  note: {_short(view['note'])}"
    yield f"  definition  {shown_definition(view['workflow_file'])} ({view['dialect']})"
    yield f"  started     {local_time(view['started_at'])}"
    last = "completed_at" if view["completed_at"] else "updated_at"
    yield f"  {'ended' if view['completed_at'] else 'updated':10}  {local_time(view[last])}"
    yield f"  elapsed     {duration(view['elapsed_ms'])}"
    if "on_machine" in view:
        yield f"  on machine  {visible(view['on_machine'])}"
    yield from _machine(view.get("machine"))
    for takeover in view.get("takeovers", ()):
        yield f"  take over   {visible(takeover)}"
    yield from _origin(view)
    if "reused" in view:
        yield f"  reused      {reused_words(**view['reused'])}"
    yield from _costs(view.get("costs"))
    for budget in view.get("budgets", ()):
        yield f"  budget      {visible(budget_words(Budget(**budget)))}"
    denials = read_denials(view.get("denials", ()))
    if denials:
        yield f"  denied      {_short(denial_words(denials))}"
        yield from (f"              {_short(line)}" for line in inner_denials(denials))
    yield from _steps(view)
    yield from _decisions(view["decisions"])
    if ending is not None and ending.kind == "rewound":
        # By the journal it stands at its beginning, whence `resume` takes over what is kept.
        yield "  at          what came before is kept, and not done again"
    else:
        yield from _ahead(view)
    for gate in view["approvals"]:
        yield from _gate(gate)
    if view["at_terminal"]:
        yield "              it also asks at a terminal"
    if view["look"]:
        yield f"  look:       {visible(view['look'])}"
    for command in view["next"]:
        verb = command.split()[1]
        label = verb if verb in ("approve", "deny") else "go on"
        yield f"  {label + ':':11} {visible(command)}"
    if view["start_over"]:
        yield f"  start over: {visible(view['start_over'])}"
    for line in output_lines(view.get("outputs") or {}):
        yield f"  output      {line}"


def _ahead(view: dict[str, Any]) -> Iterator[str]:
    """What has not begun, and where the run stands."""
    if view["not_reached"]:
        yield f"  not yet     {_listed(view['not_reached'])}"
    word = "now" if view["status"] == "running" else "at"
    for current in view["current"]:
        # A step outside loops that failed stands in the list above.
        if current["phase"] != "failed" or current["step"] not in view["steps"]:
            yield f"  {word:10}  {_current(current, view['status'])}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(clip(visible(name), 40) for name in names[:_MOST_NAMED]) + more


def standing(status: str, ending: Ending | None, giving_up: str) -> str:
    verb = "has" if status == "failed" else "is"
    if status == "paused" and ending is not None and ending.kind in STOPPED:
        # As one whose process was killed.
        return (
            f"is interrupted: {_short(ending.reason)}"
            if ending.kind == "rewound"
            else "is interrupted"
        )
    if ending is None or not ending.tells:
        return f"{verb} {status}"
    if ending.kind == "cancelled":
        return f"{verb} {_short(ending.reason)}"
    why = f" ({_short(giving_up)})" if giving_up else ""
    return f"{verb} {status}: {_short(ending.reason)}{why}"


def _machine(machine: dict[str, Any] | None) -> Iterator[str]:
    if machine is None:
        return
    restarts = f", {plural(machine['restarts'], 'restart')}" if machine["restarts"] else ""
    limits = machine.get("limits") or {}
    steps = f"{_of(machine['stepCount'], limits.get('maxTotalSteps'))} steps"
    if limits.get("maxTotalSteps") is None:
        steps = plural(machine["stepCount"], "step")
    yield f"  machine     {visible(machine['recipeId'])}: {steps}{restarts}"
    if machine["sessionId"]:
        yield f"  session     {visible(machine['sessionId'])}"


def _origin(view: dict[str, Any]) -> Iterator[str]:
    """Of a fork which run it is of; and where a run works that has a worktree."""
    if "forked" in view:
        yield f"  forked from {view['forked']['run_id']}, step {visible(view['forked']['from'])}"
    if "worktree" in view:
        yield f"  worktree    {visible(view['worktree']['path'])}"
        yield f"  branch      {visible(view['worktree']['branch'])}"


def _costs(reported: dict[str, Any] | None) -> Iterator[str]:
    if reported is None:
        return
    costs = Costs(**reported)
    yield f"  cost        {cost_words(costs)}"
    tokens = token_words(costs)
    if tokens:
        yield f"  tokens      {tokens}"


def _steps(view: dict[str, Any]) -> Iterator[str]:
    if view["steps"]:
        yield "  steps"
        yield from _step_lines(view["steps"], view, "    ")


def _step_lines(steps: dict[str, Any], view: dict[str, Any], indent: str) -> Iterator[str]:
    """A line for each step, and below a call those of what it calls."""
    names = {name: clip(visible(name), 40) for name in steps}
    width = max((width_of(name) for name in names.values()), default=0)
    for name, step in steps.items():
        pad = " " * (width - width_of(names[name]))
        is_left = step["status"] == "running" and view["status"] != "running"
        status = "unfinished" if is_left else step["status"]
        if step["status"] == "pending":
            status = "cancelled" if view["status"] == "cancelled" else _left(step)
        facts = _loop_facts(step) if "total" in step else _step_facts(step)
        if steps is view["steps"]:
            facts += _visits(name, view.get("machine"))
        yield f"{indent}{names[name]}{pad}  {status:10}  {'  '.join(facts)}".rstrip()
        error, reason = step.get("error") or "", step.get("reason") or ""
        for message in (error, reason if reason not in error else ""):
            if message and step["status"] in ("failed", "skipped"):
                yield f"{indent}{' ' * width}  {_short(message)}"
        yield from _step_lines(step.get("steps", {}), view, indent + "  ")


def _left(step: dict[str, Any]) -> str:
    """A step that has begun and is to be done again: we stopped it, or it was lost; or a call whose
    steps wait."""
    if "steps" in step:
        return "unfinished"
    return "stopped" if step.get("last_attempt") == "stopped" else "pending"


def _visits(name: str, machine: dict[str, Any] | None) -> list[str]:
    """How often a machine has come by, against its guardrail."""
    visits = (machine or {}).get("stepVisitCounts", {}).get(name)
    most = ((machine or {}).get("limits") or {}).get("maxStepVisits")
    return [] if visits is None or most is None else [f"visit {_of(visits, most)}"]


def _of(count: int, most: int | None) -> str:
    return f"{count}" if most is None else f"{count}/{most}"


def _step_facts(step: dict[str, Any]) -> list[str]:
    facts = []
    # The code of a program that was stopped is ours, not its own.
    if step.get("exit_code") is not None and step["status"] not in ("skipped", "pending"):
        facts.append(f"exit {step['exit_code']}")
    if "duration_ms" in step and step["status"] in ("completed", "failed"):
        facts.append(duration(step["duration_ms"]))
    if step.get("attempts", 1) > 1:
        facts.append(plural(step["attempts"], "attempt"))
    if "outcome" in step:
        facts.append(f"outcome {visible(step['outcome'])}")
    if step.get("denials"):
        facts.append(_short(denial_words(read_denials(step["denials"]))))
    if "from_run" in step:
        facts.append(f"from run {step['from_run']}")
    if "reused" in step:
        facts.append("reused")
    if words := changed_words(step.get("changed")):
        facts.append(words)
    return facts


def _loop_facts(loop: dict[str, Any]) -> list[str]:
    facts = [f"{loop['completed']}/{loop['total']}"]
    failed = loop["failed"]
    if failed:
        shown = ", ".join(map(str, failed[:_MOST_FAILED]))
        more = ", …" if len(failed) > _MOST_FAILED else ""
        facts.append(f"{len(failed)} failed: {shown}{more}")
    return facts


def _current(current: dict[str, Any], status: str) -> str:
    step = visible(current["step"])
    since = f" for {duration(current['for_ms'])}" if "for_ms" in current else ""
    attempt = f" (attempt {current['attempt']})" if current["attempt"] > 1 else ""
    because = f": {_short(current['error'])}" if current.get("error") else ""
    match current["phase"]:
        case "asking":
            words = gate_words(current["stage"], current["step"], current["gate"])
            return f"the gate of {visible(words)}"
        case "resting" | "arriving" if "waits" in current:
            return f"{step} {visible(current['waits']['words'])}{because}"
        case "resting":
            what = f"attempt {current['attempt'] + 1}"
            if "retry" in current:
                what = f"retry {current['retry']['number']} of {current['retry']['of']}"
            until = local_time(current["rests_until"])
            return f"{step} waits until {until} for {what}{because}"
        case "failed":
            return f"{step} failed{attempt}{because}"
        case "lost":
            return f"{step} waits for a person{attempt}{because}"
        case "leaving":
            return f"the end of {step.rpartition('/')[0] or step}"
        case "running" if "waits_for" in current:
            limit = f" of at most {current['at_most_s']:g}s" if "at_most_s" in current else ""
            return f"{step} waits for files {visible(current['waits_for'])}{since}{limit}"
        case "running" if status == "running":
            return f"{step} runs{since}{attempt}"
        case "running":
            return f"{step} was running{attempt}"
        case _:
            return f"{step} is next"


def _decisions(decided: list[dict[str, Any]]) -> Iterator[str]:
    if len(decided) > _MOST_NAMED:
        yield f"  decided     {plural(len(decided), 'gate')}, of which the last:"
    for gate in decided[-_MOST_NAMED:]:
        yield f"  decided     '{visible(gate['name'])}' {decision_words(gate)}"


def _gate(gate: dict[str, Any]) -> Iterator[str]:
    until = ""
    if gate["expires_at"] is not None:
        until = f", until {local_time(gate['expires_at'])} (then: {gate['default']})"
    since = local_time(gate["requested_at"])
    yield f"  asks        '{visible(gate['name'])}', since {since}{until}"
    for line in gate["prompt"].splitlines():
        yield f"              | {visible(line)}"


def _short(text: str) -> str:
    return clip(visible(text), _LONGEST)
