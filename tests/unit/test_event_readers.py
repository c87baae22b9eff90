"""Every kind of event is known to every reader of events, and to the users' page about them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

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


def matches() -> Iterator[tuple[str, ast.Match]]:
    """Every `match` on an argument that is declared as an `Event`."""
    for path in sorted((ROOT / "orchestrate").rglob("*.py")):
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef):
                events = {
                    argument.arg
                    for argument in function.args.args
                    if argument.annotation is not None
                    and ast.unparse(argument.annotation) == "Event"
                }
                for node in ast.walk(function):
                    if isinstance(node, ast.Match) and ast.unparse(node.subject) in events:
                        name = path.relative_to(ROOT / "orchestrate").as_posix()
                        yield f"{name}:{function.name}", node


FOUND = dict(matches())


def test_the_readers_are_found() -> None:
    assert {name.partition(":")[0] for name in FOUND} >= READERS


@pytest.mark.parametrize("reader", FOUND)
def test_every_event_is_named_in_every_reader(reader: str) -> None:
    named = {
        ast.unparse(pattern.cls).removeprefix("on.")
        for case in FOUND[reader].cases
        for pattern in ast.walk(case.pattern)
        if isinstance(pattern, ast.MatchClass)
    }
    assert sorted(KINDS.keys() - named) == [], "else mypy does not ask for the next new event"


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_is_documented(kind: str) -> None:
    page = (ROOT / "docs/reference/events.md").read_text("utf-8")
    assert f"`{event_name(object.__new__(KINDS[kind]))}`" in page
