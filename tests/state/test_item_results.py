"""The results of a loop's items are counted without being read, and read as they were written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrate.state.item_results import ItemResults
from orchestrate.state.plan_file import index_of
from orchestrate.state.runs import find_run, open_runs
from orchestrate.state.store import load
from orchestrate.testing import Project

LOOPS = """
version: "1.1"
name: loops
steps:
  - name: First
    for_each:
      items: [a, "b],\\n      ", c]
      steps:
        - {name: Say, command: [echo, "${item}"]}
  - name: Second
    for_each:
      items: [1, 2]
      steps:
        - {name: Fail, command: [test, "${item}", "!=", "2"]}
"""


def test_of_a_file_they_are_counted_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path)
    project.write("w.yaml", LOOPS)
    assert project.run("run", "w.yaml", "--quiet").exit_code == 1
    run = find_run(open_runs(tmp_path, None), "latest")
    written = json.loads(run.state.read_bytes())["steps"]
    with monkeypatch.context() as patch:
        patch.setattr(ItemResults, "_all", lambda _: pytest.fail("they were read"))
        state = load(run, index_of(run))
        loops = {loop.name: loop for loop in state.root.loops.values()}
        assert [len(loop.done) for loop in loops.values()] == [
            3,
            1,
        ]  # an item that failed stays open
    for name, loop in loops.items():
        read = {position: json.loads(loop.done[position]) for position in loop.done}
        assert read == dict(enumerate(written[name][: len(loop.done)]))
        assert [*loop.open] == [*range(len(read), len(written[name]))]


def test_one_that_is_added_counts_with_those_of_the_file() -> None:
    results = ItemResults(2, lambda: {0: b"{}", 1: b"{}"})
    assert len(results) == 2
    results[2] = b"[]"
    assert len(results) == 3
    assert 2 in results
    assert 3 not in results
    assert results == ItemResults(3, lambda: {0: b"{}", 1: b"{}", 2: b"[]"})
