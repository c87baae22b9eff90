"""A program that the keeper began by itself, and that the edited run does not come to any more."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.edits.ledger import Ledger, command, workflow
from tests.promises.processes import keepers_in, programs_in, wait_until

HELD = "while test ! -e go; do sleep 0.02; done"
BEATS = "for i in $(seq 3000); do touch beat; sleep 0.02; done"
# What is new fails if the other one still works beside it.
ALONE = "rm beat; sleep 0.5; test ! -e beat"
_ITEM = (
    "  - name: each\n    for_each:\n      items: [one, two, three]\n      steps:\n      "
    + command("work", "if test ${item} = two; then " + HELD + "; fi; "
              "if test ${item} = three; then " + BEATS + "; fi")
)  # fmt: skip
SHAPES = {
    "sequence": ([command("z"), command("a", HELD)], command("b", BEATS), "", ["z", "a", "b"]),
    "loop": ([_ITEM], ", three]", "]", ["work", "work", "work"]),
}


@pytest.mark.parametrize("flag", ["--edited", "--redo"])
@pytest.mark.parametrize("shape", SHAPES)
def test_edits_09_what_nothing_adopts_is_ended_before_anything_new(
    tmp_path: Path, shape: str, flag: str
) -> None:
    """The orchestrator is killed before it hears that the keeper has begun the next program."""
    steps, old, new, before = SHAPES[shape]
    last = [old] if shape == "sequence" else []
    stage = Ledger(tmp_path)
    _kill_before_it_hears(stage, workflow(*steps, *last, command("c", ALONE)), before[:2])
    stage.edit(old, new)
    named = {"--edited": [], "--redo": ["z" if shape == "sequence" else "each[0]/work"]}[flag]
    stage.resume(flag, *named)
    assert stage.ran()[:3] == before
    assert not programs_in(stage.folder)


@pytest.mark.parametrize("shape", SHAPES)
def test_edits_09_a_program_that_the_run_never_heard_of_is_told_and_ended(
    tmp_path: Path, shape: str
) -> None:
    """Nothing on record says that it was begun; nothing else may work beside it."""
    steps, old, _, before = SHAPES[shape]
    last = [old] if shape == "sequence" else []
    stage = Ledger(tmp_path)
    _kill_before_it_hears(stage, workflow(*steps, *last, command("c", ALONE)), before[:2])
    assert "its programs still run" in stage.run("status").stdout
    stage.run("stop", "latest").assert_success()
    assert not programs_in(stage.folder)
    assert stage.ran() == before


def _kill_before_it_hears(stage: Ledger, text: str, began: list[str]) -> None:
    with stage.started(text) as run:
        wait_until(lambda: _began(stage, began), "the first ones never ran")
        wait_until(lambda: _sent_ahead(stage), "the next one was never sent ahead")
        run.send_signal(signal.SIGSTOP)
        stage.touch("go")
        wait_until((stage.folder / "beat").exists, "the keeper has not begun the next one")
        run.send_signal(signal.SIGKILL)
        run.wait(60)


def _began(stage: Ledger, names: list[str]) -> bool:
    ledger = stage.folder / "ledger"
    return ledger.exists() and ledger.read_text("utf-8").split() == names


def _sent_ahead(stage: Ledger) -> bool:
    """What runs is written down after the next one was sent; who rests has taken that."""
    journal = stage.runs_folder / "latest" / "events.jsonl"
    begun = journal.read_text("utf-8").count('"on":"step-started"')
    return begun == 2 and all(map(_rests, keepers_in(stage.folder)))


def _rests(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] == "S"
