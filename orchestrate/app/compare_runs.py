"""How two runs differ: definition, inputs, path, outcomes, prompts, answers, files, time, cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrate.checkpoints.store import open_store
from orchestrate.digest import digest_of
from orchestrate.state import events as on
from orchestrate.state.address import Address, FrameKey, name_of_node
from orchestrate.state.recorded import read_events
from orchestrate.view.file_history import shown
from orchestrate.view.run_view import run_view

if TYPE_CHECKING:
    from orchestrate.state.result import StepResult
    from orchestrate.state.runs import Run
    from orchestrate.view.run_view import RunView

Facts = dict[str, Any]


def compare_runs(first: Run, second: Run) -> list[Facts]:
    """Every difference: what it is about, and both sides."""
    one, other = run_view(first), run_view(second)
    found = _different(_whole(one), _whole(other))
    inputs = _different(one.state.root.variables, other.state.root.variables)
    found += [fact | {"about": f"input {fact['about']}"} for fact in inputs]
    mine, theirs = _visits(first), _visits(second)
    if list(mine) != list(theirs):
        found.append({"about": "path", "first": list(mine), "second": list(theirs)})
    for step in mine.keys() & theirs.keys():
        for fact in _different(mine[step], theirs[step]):
            found.append(fact | {"about": f"{step}: {fact['about']}"})
    return found + _files(one, other)


def _different(one: Facts, other: Facts) -> list[Facts]:
    names = dict.fromkeys((*one, *other))
    return [
        {"about": name, "first": one.get(name), "second": other.get(name)}
        for name in names
        if one.get(name) != other.get(name)
    ]


def _whole(view: RunView) -> Facts:
    state = view.state
    return {
        "definition": [state.definition, state.checksum],
        "status": view.shown_status,
        "reason": state.reason,
        "worked_s": round(state.worked[0], 1),
        "cost_usd": state.costs.cost_usd,
    }


def _visits(run: Run) -> dict[str, Facts]:
    """What is known of each visit of a step, in the order in which they ended."""
    found: dict[str, Facts] = {}
    asked: dict[tuple[str, str, int], Facts] = {}
    for recorded in read_events(run.events):
        event = recorded.event
        if isinstance(event, on.StepStarted):
            asked[event.frame, event.node, event.visit] = event.key
        if isinstance(event, on.StepFinished):
            frame = FrameKey.parse(event.frame)
            address = Address(frame, name_of_node(event.node), event.visit)
            key = event.key or asked.get((event.frame, event.node, event.visit), {})
            found[shown(address)] = _visit(event.label, event.result, key)
    return found


def _visit(label: str, result: StepResult, key: Facts) -> Facts:
    facts: Facts = {"outcome": result.outcome or label, "status": result.status}
    facts |= {part: key[part] for part in ("prompt", "argv", "script") if part in key}
    answer = result.output or list(result.lines) or result.json
    if answer:
        facts["answer"] = digest_of(answer)
    return facts


def _files(one: RunView, other: RunView) -> list[Facts]:
    """Files that the last checkpoints of both have otherwise."""
    sides = []
    for view in (one, other):
        store = open_store(view.run.root)
        tree = view.state.checkpoint.get("tree")
        if store is None or tree is None or not store.exists:
            return []
        sides.append(store.files(tree))
    mine, theirs = sides
    if len({len(oid) for side in sides for _, oid in side.values()}) > 1:
        return []  # their repositories name contents by different digests
    return [
        {
            "about": f"file {fact['about']}",
            "first": _kept(fact["first"]),
            "second": _kept(fact["second"]),
        }
        for fact in _different(dict(mine), dict(theirs))
    ]


def _kept(entry: tuple[str, str] | None) -> str | None:
    return None if entry is None else f"{entry[0]} {entry[1][:12]}"
