"""A person at the terminal who does not want to answer: Ctrl-C leaves, the end of input is a no."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.edits.ledger import Ledger, command, workflow
from tests.recipes.terminal import at_terminal

_ANSWERS = pytest.mark.parametrize(
    ("answer", "is_left"), [("\x03", True), ("\x04", False)], ids=["ctrl-c", "end-of-input"]
)


@_ANSWERS
def test_edits_16_a_changed_definition_is_not_gone_on_with(
    tmp_path: Path, answer: str, is_left: bool
) -> None:
    stage = Ledger(tmp_path)
    stage.touch("fail-b")
    stage.play(workflow(command("a"), command("b")), exit_code=1)
    stage.edit("echo b", "echo  b")
    before, _ = stage.state(), stage.ran()
    with at_terminal(stage.folder, stage.surroundings, "resume", "--no-live") as terminal:
        terminal.read_until("go on with that? [y/N] ")
        terminal.type(answer)
        assert terminal.wait() == (130 if is_left else 2)
        assert ("interrupted" if is_left else "nothing was started") in terminal.shown
    assert (stage.ran(), stage.state()) == ([], before)
    stage.run("resume", "--as-started").assert_exit(1)


@_ANSWERS
def test_edits_16_a_run_is_not_rewound(tmp_path: Path, answer: str, is_left: bool) -> None:
    stage = Ledger(tmp_path)
    stage.play(workflow(command("a"), command("b")), "--checkpoints", "on")
    before = stage.state()
    with at_terminal(stage.folder, stage.surroundings, "rewind", "latest", "a") as terminal:
        terminal.read_until("Go back? [y/N] ")
        terminal.type(answer)
        assert terminal.wait() == (130 if is_left else 0)
        assert ("interrupted" if is_left else "nothing was changed") in terminal.shown
    assert (stage.ran(), stage.state()) == (["a", "b"], before)
