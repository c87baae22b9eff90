"""Every kind of event is known to every reader of events, and to the users' page about them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import get_args

from orchestrate.state.events import Event, event_name

ROOT = Path(__file__).parents[2]
KINDS = {kind.__name__: kind for kind in get_args(Event)}
# Where an event is told apart from all others.
READERS = {
    "show/event_lines.py",
    "state/apply.py",
    "view/event_records.py",
    "view/history.py",
    "view/run_log.py",
    "view/step_totals.py",
}


@cache
def readers() -> dict[str, ast.Match]:
    """Every `match` on an argument that is declared as an `Event`."""
    found = {}
    for path in sorted((ROOT / "orchestrate").rglob("*.py")):
        text = path.read_text("utf-8")
        for function in ast.walk(ast.parse(text)) if ": Event" in text else ():
            if isinstance(function, ast.FunctionDef):
                events = {
                    argument.arg
                    for argument in function.args.args
                    if argument.annotation is not None
                    and ast.unparse(argument.annotation) == "Event"
                }
                for node in ast.walk(function) if events else ():
                    if isinstance(node, ast.Match) and ast.unparse(node.subject) in events:
                        name = path.relative_to(ROOT / "orchestrate").as_posix()
                        found[f"{name}:{function.name}"] = node
    return found


def test_the_readers_are_found() -> None:
    assert {name.partition(":")[0] for name in readers()} >= READERS


def test_every_event_is_named_in_every_reader() -> None:
    """Else mypy does not ask for the next new event."""
    missing = {}
    for reader, match in readers().items():
        named = {
            ast.unparse(pattern.cls).removeprefix("on.")
            for case in match.cases
            for pattern in ast.walk(case.pattern)
            if isinstance(pattern, ast.MatchClass)
        }
        missing[reader] = sorted(KINDS.keys() - named)
    assert {reader: kinds for reader, kinds in missing.items() if kinds} == {}


def test_every_event_is_documented() -> None:
    page = (ROOT / "docs/reference/events.md").read_text("utf-8")
    names = [event_name(object.__new__(kind)) for kind in KINDS.values()]
    assert [name for name in names if f"`{name}`" not in page] == []
