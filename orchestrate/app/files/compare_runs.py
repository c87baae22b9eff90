"""How two runs differ: definition, inputs, path, outcomes, prompts, answers, files, time, cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrate.checkpoints.store import open_store
from orchestrate.digest import digest_of
from orchestrate.record import record
from orchestrate.state import events as on
from orchestrate.state.address import Address, FrameKey, name_of_node
from orchestrate.state.durable import dump_json
from orchestrate.state.plan_file import edit_folder, read_documents
from orchestrate.state.recorded import read_events
from orchestrate.view.file_history import shown
from orchestrate.view.run_view import run_view
from orchestrate.view.why_values import command_of, lines_that_differ, log_of, prompt_sent

if TYPE_CHECKING:
    from orchestrate.checkpoints.store import Store
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
    if found and found[0]["about"] == "definition":
        found[0] |= _rows(_documents(one), _documents(other))
    mine, theirs = _visits(first), _visits(second)
    if list(mine) != list(theirs):
        found.append({"about": "path", "first": list(mine), "second": list(theirs)})
    for step in (step for step in mine if step in theirs):
        for fact in _different(mine[step].facts, theirs[step].facts):
            texts = [visit.texts.get(fact["about"], "") for visit in (mine[step], theirs[step])]
            found.append(fact | _rows(*texts) | {"about": f"{step}: {fact['about']}"})
    return found + _files(one, other)


def patch_of(first: Run, second: Run) -> bytes:
    """How the files that two runs have left differ, as `git diff` prints it."""
    views = run_view(first), run_view(second)
    sides = _stores(*views)
    if not _files(*views) or sides is None:
        return b""
    (mine, old), (theirs, new) = sides
    theirs.complete()
    return mine.patch(old, new, lender=theirs)


def _rows(mine: str, theirs: str) -> Facts:
    """Two texts line by line, where both are kept."""
    return {"diff": lines_that_differ(mine, theirs)} if mine and theirs else {}


def _documents(view: RunView) -> str:
    """The composed files of a run as they were last."""
    documents = read_documents(edit_folder(view.run.root, view.state.edit))
    return dump_json(documents, indent=2).decode("ascii") if documents else ""


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
        "worked_s": round(state.worked.seconds, 1),
        "cost_usd": state.costs.cost_usd,
    }


@record
class _Visit:
    """What is known of a visit of a step; long texts are facts by their digests."""

    facts: Facts
    texts: dict[str, str]


def _visits(run: Run) -> dict[str, _Visit]:
    """The visits of steps, in the order in which they ended."""
    found: dict[str, _Visit] = {}
    asked: dict[tuple[str, str, int], Facts] = {}
    for recorded in read_events(run.events):
        event = recorded.event
        if isinstance(event, on.StepStarted):
            asked[event.frame, event.node, event.visit] = event.key
        if isinstance(event, on.StepFinished):
            frame = FrameKey.parse(event.frame)
            address = Address(frame, name_of_node(event.node), event.visit)
            key = event.key or asked.get((event.frame, event.node, event.visit), {})
            found[shown(address)] = _visit(run, event.label, event.result, key)
    return found


def _visit(run: Run, label: str, result: StepResult, key: Facts) -> _Visit:
    facts: Facts = {"outcome": result.outcome or label, "status": result.status}
    facts |= {part: key[part] for part in ("prompt", "argv", "script") if part in key}
    answer = result.output or list(result.lines) or result.json
    if answer:
        facts["answer"] = digest_of(answer)
    texts = {
        "prompt": prompt_sent(run, log_of(result)),
        "answer": answer if isinstance(answer, str) else dump_json(answer, indent=2).decode(),
        **dict.fromkeys(("argv", "script"), command_of(result)),
    }
    return _Visit(facts, texts)


def _files(one: RunView, other: RunView) -> list[Facts]:
    """Files that the last checkpoints of both have otherwise."""
    sides = _stores(one, other)
    if sides is None:
        return []
    mine, theirs = (store.files(tree) for store, tree in sides)
    return [
        {
            "about": f"file {fact['about']}",
            "first": _kept(fact["first"]),
            "second": _kept(fact["second"]),
        }
        for fact in _different(dict(mine), dict(theirs))
    ]


def _stores(one: RunView, other: RunView) -> tuple[tuple[Store, str], tuple[Store, str]] | None:
    """The stores of both with their last trees; None where they cannot be compared."""
    found = []
    for view in (one, other):
        store, tree = open_store(view.run.root), view.state.checkpoint.get("tree")
        if store is None or tree is None or not store.exists:
            return None
        found.append((store, tree))
    mine, theirs = found
    # Their repositories may name contents by different digests.
    return (mine, theirs) if len(mine[1]) == len(theirs[1]) else None


def _kept(entry: tuple[str, str] | None) -> str | None:
    return None if entry is None else f"{entry[0]} {entry[1][:12]}"
