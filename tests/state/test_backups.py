"""The last three states from before a step, and the newest valid one of all."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from orchestrate.errors import StateError
from orchestrate.state.backups import back_up_state, list_backups, newest_valid
from orchestrate.state.durable import dump_json, parse_json, write_durably
from orchestrate.state.runs import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run("20250115T120000Z-000000", tmp_path)


def save(run: Run, number: int) -> None:
    write_durably(run.state, dump_json({"n": number}), keep_previous=True)


def check(data: bytes) -> Any:
    value = parse_json(data)
    if value["n"] < 0:
        raise StateError("the schema is wrong")
    return value["n"]


def names(run: Run) -> list[str]:
    return [path.name for path in list_backups(run)]


def test_nothing_to_back_up_before_the_first_state(run: Run) -> None:
    assert back_up_state(run, "Build") is None
    assert names(run) == []


def test_the_last_three_are_kept(run: Run) -> None:
    for number, step in enumerate(["A", "B", "C", "D", "E"]):
        save(run, number)
        path = back_up_state(run, step)
        assert path == run.root / f"state.json.step_{step}.bak"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert check(path.read_bytes()) == number
    assert names(run) == [f"state.json.step_{step}.bak" for step in "EDC"]


def test_a_step_in_a_loop_has_one_backup_its_newest(run: Run) -> None:
    for number, step in enumerate(["Before", "Body", "Body", "Body", "Body"]):
        save(run, number)
        back_up_state(run, step)
    assert names(run) == ["state.json.step_Body.bak", "state.json.step_Before.bak"]
    assert check(list_backups(run)[0].read_bytes()) == 4


def test_the_order_survives_a_clock_that_was_set_back(run: Run) -> None:
    for number, step in enumerate("ABCD"):
        save(run, number)
        path = back_up_state(run, step)
        assert path is not None
        if step == "A":
            os.utime(path, (4e9, 4e9))
    assert names(run) == [f"state.json.step_{step}.bak" for step in "DCB"]


def test_files_of_others_are_left_alone(run: Run) -> None:
    others = ["state.json.bak", "xstate.json.step_A.bak", "state.json.step_A.bak.old"]
    for name in others:
        (run.root / name).write_text("")
    (run.root / "state.json.step_link.bak").symlink_to("state.json.bak")
    for number in range(5):
        save(run, number)
        back_up_state(run, f"Step {number}")
    assert set(os.listdir(run.root)) == {
        *others, *names(run), "state.json.step_link.bak", "state.json", "state.json.prev",
    }  # fmt: skip


def test_a_hostile_step_name_stays_in_the_folder(run: Run) -> None:
    save(run, 1)
    path = back_up_state(run, "../../x")
    assert path is not None
    assert path.parent == run.root
    assert list_backups(run) == [path]


def test_the_newest_valid_state_is_found(run: Run) -> None:
    for number, step in enumerate("ABC"):
        save(run, number)
        back_up_state(run, step)
    save(run, 3)
    assert newest_valid(run, check) == (run.state, 3)
    run.state.write_bytes(b'{"n":')
    previous = run.root / "state.json.prev"
    assert newest_valid(run, check) == (previous, 2)
    previous.write_bytes(b'{"n":-1}')
    assert newest_valid(run, check) == (run.root / "state.json.step_C.bak", 2)
    (run.root / "state.json.step_C.bak").write_bytes(b"\0" * 100)
    run.state.unlink()
    assert newest_valid(run, check) == (run.root / "state.json.step_B.bak", 1)


def test_without_a_valid_state_all_reasons_are_named(run: Run) -> None:
    run.state.write_bytes(b"{")
    (run.root / "state.json.prev").write_bytes(b'{"n":-1}')
    with pytest.raises(StateError, match="no valid state") as caught:
        newest_valid(run, check)
    assert "state.json: Expecting" in caught.value.message
    assert "state.json.prev: the schema is wrong" in caught.value.message
    assert "--force-restart" in caught.value.hint
