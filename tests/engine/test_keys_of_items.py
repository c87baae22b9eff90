"""What an item's step is asked is worked out once, where it is the same for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestrate.execute.base import LOCAL
from orchestrate.execute.fake import FakeExecutor
from orchestrate.state.events import StepStarted
from tests.engine.performing import running
from tests.state.definitions import workflow
from tests.state.folding import compiled

LOOP = """\
  - name: Loop
    for_each:
      items: [a, b, b]
      steps:
        - {name: First, command: ["echo", "first"]}
        - {name: Do, command: [%s]}
"""


def keys_of(folder: Path, words: str) -> list[dict[str, Any]]:
    keys: list[dict[str, Any]] = []
    program = compiled(workflow(LOOP % words))
    with running(folder, program, executors={LOCAL: FakeExecutor()}) as run:
        run.store.listeners.append(
            lambda event, _: (
                keys.append(event.key)
                if isinstance(event, StepStarted) and event.node.endswith("Do")
                else None
            )
        )
        assert run.to_end()[0] == "completed"
    assert len(keys) == 3
    return keys


def test_a_constant_command_has_one_key(tmp_path: Path) -> None:
    first, *others = keys_of(tmp_path / "one", '"echo", "it"')
    assert others == [first, first]
    assert first["argv"] != keys_of(tmp_path / "two", '"echo", "that"')[0]["argv"]


@pytest.mark.parametrize("words", ['"echo", "${item}"', '"sh", "-c", "echo ${item}"'])
def test_one_that_has_values_has_a_key_an_item(tmp_path: Path, words: str) -> None:
    first, second, third = keys_of(tmp_path, words)
    assert first != second == third


def test_one_that_names_what_no_key_counts_is_worked_out_too(tmp_path: Path) -> None:
    """`${run.…}` and `${loop.…}` change from run to run, or from item to item."""
    first, second, third = keys_of(tmp_path, '"echo", "${loop.index}"')
    assert len({str(key) for key in (first, second, third)}) == 3
