"""A picture costs what it shows: however many steps and items there are, the screen bounds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrate.compile import compile_file, require_program
from orchestrate.plan.nodes import main_plan
from orchestrate.plan.override import with_max_parallel
from orchestrate.show.live.picture import Artist, Row
from orchestrate.state.apply import apply, start
from orchestrate.state.events import CallOpened, LoopOpened, RunStarted, StepStarted
from orchestrate.state.model import Index, RunState, Visit
from orchestrate.state.result import StepResult
from orchestrate.workspace import open_workspace
from tests.cli.live.scenes import command, workflow
from tests.recipes.fakes import recipe

MANY = 10_000


class Uncounted(list[Any]):
    """Items that may be counted and picked, but not gone through."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("all items were looked at")


def state_for(folder: Path, text: str) -> tuple[Index, RunState]:
    (folder / "d.yaml").write_text(text)
    (folder / ".orchestrate/agents").mkdir(parents=True)
    (folder / ".orchestrate/agents/helper.md").write_text("---\nname: helper\n---\nHelp.\n")
    program = require_program(compile_file(folder / "d.yaml", open_workspace(folder)))
    if main_plan(program).dialect == "recipe":
        program = with_max_parallel(program, 1000)
    index = Index(program)
    plan = main_plan(program)
    begun = RunStarted(
        at=100.0, run_id="r", workspace=str(folder), definition="d.yaml", plan=plan.id,
        dialect=plan.dialect, schema_version="1.3", checksum="", sources={}, context={},
        settings={}, version="0",
    )  # fmt: skip
    return index, start(index, begun)


def shown(rows: list[Row]) -> list[str]:
    return [
        f"{row.mark} {row.name} {' '.join(fact for fact, _ in row.facts)}".strip() for row in rows
    ]


@pytest.mark.parametrize("height", [1, 2, 3, 5, 8, 24, 60])
def test_many_items_at_once(tmp_path: Path, height: int) -> None:
    text = recipe("""
        context: {names: [x]}
        steps:
          - {id: read, foreach: "{{names}}", parallel: true, max_iterations: 20000, agent: helper,
             prompt: hello}
          - {id: write, agent: helper, prompt: hello}
    """)
    index, state = state_for(tmp_path, text)
    items = [f"item {number}" for number in range(MANY)]
    apply(index, state, LoopOpened("", "read", 1, 100.0, items))
    loop = state.root.loops["read"]
    assert len(loop.open) == 1000
    loop.items = Uncounted(items)
    rows = Artist(index).picture(state, 105.0, height)
    assert len(rows) <= height
    lines = shown(rows)
    assert lines[0] == "head trial 5s"
    if height > 2:
        assert lines[1] == "work read 0/10000 5s"
    if height == 24:
        assert lines[2] == "work [0] item 0 read"
        assert lines[-2].endswith("more at work")
        assert lines[-1] == "todo write"


def test_many_steps(tmp_path: Path) -> None:
    """Whatever the height and wherever the cursor: every step is shown or counted."""
    total = 300
    index, state = state_for(tmp_path, workflow(*(command(f"S{n}") for n in range(total))))
    artist = Artist(index)
    for at in (0, 1, 150, total - 2, total - 1):
        state.root.here = Visit(f"S{at}", 1)
        apply(index, state, StepStarted("", f"S{at}", 1, 1, 101.0))
        for height in range(1, 14):
            lines = shown(artist.picture(state, 105.0, height))
            assert len(lines) <= height
            assert height == 1 or f"work S{at} 4s" in lines
            counted = sum(int(line.split()[1]) for line in lines if line.startswith("more"))
            steps = sum(1 for line in lines if line.split()[1].startswith("S"))
            assert height < 4 or counted + steps == total


def test_a_recipe_that_a_loop_calls(tmp_path: Path) -> None:
    """One item is shown in full, with what it calls; and the tree never outgrows the screen."""
    (tmp_path / "inner.yaml").write_text(
        recipe("""
            context: {more: [x]}
            steps:
              - {id: one, agent: helper, prompt: hello}
              - {id: two, foreach: "{{more}}", agent: helper, prompt: "{{item}}"}
        """)
    )
    text = recipe("""
        context: {names: [x]}
        steps:
          - {id: each, foreach: "{{names}}", type: recipe, recipe: inner.yaml}
          - {id: last, agent: helper, prompt: hello}
    """)
    index, state = state_for(tmp_path, text)
    apply(index, state, LoopOpened("", "each", 1, 100.0, ["first", "second"]))
    (frame,) = state.root.loops["each"].open.values()
    assert frame.here is not None
    called = CallOpened(frame.key, frame.here.node, 1, 101.0, "inner.yaml", {"more": ["x"]})
    apply(index, state, called)
    inner = frame.call
    assert inner is not None
    apply(index, state, StepStarted(inner.key, "one", 1, 2, 102.0, StepResult(agent="helper")))
    artist = Artist(index)
    assert shown(artist.picture(state, 105.0, 24)) == [
        "head trial 5s",
        "work each 0/2 5s",
        "item [0] first",
        "work each 4s",
        "work one attempt 2 helper 3s",
        "todo two",
        "todo last",
    ]
    for height in range(1, 8):
        assert len(artist.picture(state, 105.0, height)) <= height


def test_a_person_is_shown_as_one_whatever_agent_the_recipe_names(tmp_path: Path) -> None:
    text = recipe("steps: [{id: one, agent: helper, prompt: hello}]")
    index, state = state_for(tmp_path, text)
    about = StepResult(agent="helper", model="opus", backend="human")
    apply(index, state, StepStarted("", "one", 1, 1, 102.0, about))
    assert shown(Artist(index).picture(state, 105.0, 5))[1:] == ["work one human 3s"]
