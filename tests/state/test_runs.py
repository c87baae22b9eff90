"""Run directories: made private and whole, found by what the user types, cleaned with care."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrate.errors import StateError, UsageError
from orchestrate.state.address import file_name_for
from orchestrate.state.cancelling import announce_cancelling, forget_cancelling, is_cancelling
from orchestrate.state.durable import remove_leftovers
from orchestrate.state.locks import LockHeldError, holding_folder, is_held, take
from orchestrate.state.runs import (
    Run,
    Runs,
    claim_run,
    clean_runs,
    create_run,
    find_run,
    is_run_id,
    list_runs,
    make_run_id,
    open_runs,
    point_latest,
)
from tests.state.killing import ROOT, environment

COMMAND = ["orchestrate", "run", "x.yaml"]
NOON = 1_736_942_400.0
DAY = 86_400.0


def first_state(run_id: str) -> dict[str, bytes]:
    return {"state.json": json.dumps({"run_id": run_id}).encode()}


def at(moment: float) -> Callable[[], float]:
    return lambda: moment


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return open_runs(tmp_path)


def make(runs: Runs, moment: float = NOON, age: float | None = None) -> Run:
    """A finished run; `age` is how long ago it was last written."""
    run, lock = create_run(runs, COMMAND, first_state, at(moment))
    lock.release()
    if age is not None:
        for path in (run.state, run.root):
            os.utime(path, (time.time() - age, time.time() - age))
    return run


def test_an_id_comes_from_clock_and_chance() -> None:
    assert make_run_id(NOON, lambda size: b"\0" * size) == "20250115T120000Z-000000"
    ids = {make_run_id(NOON, os.urandom) for _ in range(500)}
    assert len(ids) == 500
    assert all(re.fullmatch(r"20250115T120000Z-[a-z0-9]{6}", run_id) for run_id in ids)
    assert len({run_id[-1] for run_id in ids}) > 30


@pytest.mark.parametrize(
    "text",
    ["", "latest", "..", "20250115T120000Z-00000", "20250115T120000Z-00000A", "../x", "a/b",
     "20250115T120000Z-000000\n", "20250115T120000Z-0000000", "٢0250115T120000Z-000000"],
)  # fmt: skip
def test_what_is_no_id(text: str) -> None:
    assert not is_run_id(text)


def test_a_new_run_is_private_complete_locked_and_latest(runs: Runs) -> None:
    run, lock = create_run(runs, COMMAND, first_state, at(NOON))
    with lock:
        assert is_run_id(run.id)
        assert run.root == runs.folder / run.id
        assert json.loads(run.state.read_bytes()) == {"run_id": run.id}
        for folder in (runs.folder, run.root, run.logs, run.artifacts):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for path in (run.state, run.lock_file):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert os.readlink(runs.folder / "latest") == run.id
        assert is_held(run.lock_file)
        with pytest.raises(LockHeldError, match=f"run {run.id} is in use .*x.yaml"):
            claim_run(run, COMMAND)
    (run.root / ".state.json.0123456789ab.tmp").write_bytes(b"half")
    with claim_run(run, COMMAND):
        assert sorted(os.listdir(run.root)) == [
            "artifacts", "logs", "run.lock", "run.owner", "state.json",
        ]  # fmt: skip
    assert sorted(os.listdir(runs.folder)) == [".gitignore", run.id, "latest"]
    assert (runs.folder / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize(("there", "then"), [("", "*\n"), ("# mine\n", "# mine\n")])
def test_runs_stay_hidden_from_git_after_a_kill(runs: Runs, there: str, then: str) -> None:
    """A kill may leave the file that hides them empty; what a person wrote there stays."""
    runs.folder.mkdir(parents=True)
    (runs.folder / ".gitignore").write_text(there)
    create_run(runs, COMMAND, first_state, at(NOON))[1].release()
    assert (runs.folder / ".gitignore").read_text() == then


def test_hiding_runs_follows_no_link(runs: Runs, tmp_path: Path) -> None:
    runs.folder.mkdir(parents=True)
    (tmp_path / "elsewhere").touch()
    (runs.folder / ".gitignore").symlink_to(tmp_path / "elsewhere")
    create_run(runs, COMMAND, first_state, at(NOON))[1].release()
    assert (tmp_path / "elsewhere").read_text() == ""


def test_a_cancel_is_announced_while_another_process_claims_the_run(runs: Runs) -> None:
    """Who claims a run removes half-written files: the mark may never be one of them."""
    run = make(runs)
    is_over = threading.Event()

    def tidy_up() -> None:
        while not is_over.is_set():
            remove_leftovers(run.root)

    rival = threading.Thread(target=tidy_up)
    rival.start()
    try:
        for _ in range(100):
            announce_cancelling(run)
            assert is_cancelling(run)
            forget_cancelling(run)
    finally:
        is_over.set()
        rival.join()


def test_a_taken_id_is_not_used_again(runs: Runs) -> None:
    draws = iter([b"\0" * 8, b"\0" * 8, b"\1" * 8])
    first, _ = create_run(runs, COMMAND, first_state, at(NOON), lambda _: next(draws))
    second, _ = create_run(runs, COMMAND, first_state, at(NOON), lambda _: next(draws))
    assert first.id != second.id
    assert json.loads(first.state.read_bytes()) == {"run_id": first.id}
    with pytest.raises(StateError, match="free run id"):
        create_run(runs, COMMAND, first_state, at(NOON), lambda size: b"\0" * size)
    assert {run.id for run in list_runs(runs)} == {first.id, second.id}
    assert not [name for name in os.listdir(runs.folder) if name.startswith(".new-")]


def test_a_run_that_cannot_be_furnished_leaves_nothing(runs: Runs) -> None:
    with pytest.raises(StateError):
        create_run(runs, COMMAND, lambda _: {"missing/state.json": b""}, at(NOON))
    assert os.listdir(runs.folder) == [".gitignore"]


def test_runs_that_start_at_once_are_all_made(runs: Runs) -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from orchestrate.state.runs import *\n"
        "for _ in range(5):\n"
        "    run, lock = create_run(open_runs(Path(sys.argv[1])), ['x'], lambda _: {})\n"
        "    lock.release()\n"
    )
    workspace = runs.folder.parent.parent
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(workspace)],
            cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True,
        )
        for _ in range(4)
    ]  # fmt: skip
    for process in started:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert len(list_runs(runs)) == 20
    assert is_run_id(os.readlink(runs.folder / "latest"))


def test_state_dir_replaces_the_default(tmp_path: Path) -> None:
    assert open_runs(tmp_path).folder == tmp_path / ".orchestrate" / "runs"
    assert open_runs(tmp_path, "there").folder == tmp_path / "there"
    assert open_runs(tmp_path, "/elsewhere").folder == Path("/elsewhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match=r"EEXIST|ENOTDIR"):
        make(open_runs(tmp_path, "file"))


def test_runs_are_listed_newest_first(runs: Runs) -> None:
    assert list_runs(runs) == ()
    made = [make(runs, NOON + day * DAY) for day in range(3)]
    (runs.folder / "notes").mkdir()
    (runs.folder / "20250101T000000Z-aaaaaa").symlink_to(made[0].root)
    (runs.folder / "20250101T000000Z-bbbbbb").write_text("")
    assert list_runs(runs) == tuple(reversed(made))


def test_a_run_is_found_by_id_prefix_or_latest(runs: Runs) -> None:
    older, newer = make(runs, NOON), make(runs, NOON + DAY)
    assert find_run(runs, older.id) == older
    assert find_run(runs, "20250115") == older
    assert find_run(runs, "latest") == newer
    point_latest(runs, older.id)
    assert find_run(runs, "latest") == older


@pytest.mark.parametrize("target", ["", "..", "/", "20250101T000000Z-aaaaaa"])
def test_a_latest_that_leads_nowhere_is_the_newest(runs: Runs, target: str) -> None:
    make(runs, NOON)
    newer = make(runs, NOON + DAY)
    (runs.folder / "latest").unlink()
    if target:
        (runs.folder / "latest").symlink_to(target)
    assert find_run(runs, "latest") == newer


def test_an_ambiguous_prefix_names_the_candidates(runs: Runs) -> None:
    made = [make(runs, NOON + n) for n in range(7)]
    with pytest.raises(UsageError, match="'2025' could be any of 7 runs") as caught:
        find_run(runs, "2025")
    assert made[-1].id in caught.value.hint
    assert "and 2 more" in caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["2024", "", "..", "../runs", "/", "latest/", "2025*", "x\0y"])
def test_an_unknown_run_names_those_there_are(runs: Runs, text: str) -> None:
    run = make(runs)
    with pytest.raises(UsageError, match="there is no run") as caught:
        find_run(runs, text)
    assert run.id in caught.value.hint


def test_no_runs_at_all(runs: Runs) -> None:
    for text in ("latest", "2025"):
        with pytest.raises(UsageError, match=r"there (are|is) no run"):
            find_run(runs, text)


def test_clean_removes_the_old_and_keeps_the_new(runs: Runs) -> None:
    old = make(runs, NOON, age=8 * DAY)
    new = make(runs, NOON + 1, age=6 * DAY)
    done = clean_runs(runs, time.time() - 7 * DAY)
    assert (done.removed, done.in_use, done.failed) == ([old.id], [], [])
    assert list_runs(runs) == (new,)
    assert clean_runs(runs, time.time() - 7 * DAY).removed == []
    assert clean_runs(Runs(runs.folder / "none"), time.time()).removed == []


def test_clean_moves_latest_with_what_is_left(runs: Runs) -> None:
    kept = make(runs, NOON, age=0)
    make(runs, NOON + 1, age=8 * DAY)
    clean_runs(runs, time.time() - 7 * DAY)
    assert os.readlink(runs.folder / "latest") == kept.id
    clean_runs(runs, time.time() + DAY)
    assert not os.path.lexists(runs.folder / "latest")


def test_clean_never_touches_a_run_in_use(runs: Runs) -> None:
    held, kept, wanted = (make(runs, NOON + n) for n in range(3))
    (kept.root / "keeper").mkdir()
    keeper_lock = kept.root / "keeper" / "keeper.lock"
    with take(held.lock_file, "the run", COMMAND), take(keeper_lock, "the keeper", ["keeper"]):
        done = clean_runs(runs, time.time() + DAY, lambda run: run == wanted)
        assert done.in_use == [held.id, kept.id, wanted.id]
        assert (done.removed, done.failed) == ([], [])
    assert all(run.state.exists() for run in (held, kept, wanted))
    (kept.artifacts / "agent.lock").touch()
    with take(kept.artifacts / "agent.lock", "something", ["agent"]):
        assert len(clean_runs(runs, time.time() + DAY).removed) == 3


def test_clean_never_follows_a_link(runs: Runs) -> None:
    outside = runs.folder.parent / "outside"
    outside.mkdir(parents=True)
    (outside / "precious").write_text("1")
    run = make(runs)
    (run.artifacts / "folder").symlink_to(outside)
    (run.artifacts / "file").symlink_to(outside / "precious")
    (run.artifacts / "loop").symlink_to(".")
    os.link(outside / "precious", run.artifacts / "hard")
    os.mkfifo(run.artifacts / "fifo")
    fake = runs.folder / "20200101T000000Z-aaaaaa"
    fake.symlink_to(outside)
    done = clean_runs(runs, time.time() + DAY)
    assert (done.removed, done.failed) == ([run.id], [])
    assert not run.root.exists()
    assert (outside / "precious").read_text() == "1"
    assert fake.is_symlink()


def test_clean_removes_deep_wide_and_locked_up_trees(runs: Runs) -> None:
    run = make(runs)
    deep = os.open(run.artifacts, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d" * 50, dir_fd=deep)
        below = os.open("d" * 50, os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)
    for number in range(300):
        (run.logs / f"folder {number}").mkdir()
        (run.logs / f"folder {number}" / "same name").mkdir(mode=0o500)
    (run.artifacts / "closed").mkdir()
    (run.artifacts / "closed" / "inner").mkdir(mode=0)
    (run.artifacts / "closed").chmod(0)
    done = clean_runs(runs, time.time() + DAY)
    assert (done.removed, done.failed) == ([run.id], [])
    assert sorted(os.listdir(runs.folder)) == [".gitignore"]


def test_clean_finishes_what_was_interrupted(runs: Runs) -> None:
    run = make(runs, age=0)
    half_gone = runs.folder / ".old-20200101T000000Z-aaaaaa"
    half_made = runs.folder / ".new-20200101T000000Z-bbbbbb"
    being_made = runs.folder / f".new-{run.id}"
    foreign = runs.folder / ".old-notes"
    for folder in (half_gone, half_made, being_made, foreign):
        (folder / "logs").mkdir(parents=True)
    os.utime(half_made, (0, 0))
    clean_runs(runs, time.time() - DAY)
    kept = {run.id, "latest", being_made.name, foreign.name}
    assert set(os.listdir(runs.folder)) == {*kept, ".gitignore"}


def test_clean_is_done_by_one_at_a_time(runs: Runs) -> None:
    make(runs)
    with (
        holding_folder(runs.folder, "cleaning"),
        pytest.raises(LockHeldError, match=r"cleaning .* is in use"),
    ):
        clean_runs(runs, time.time() + DAY)
    assert len(list_runs(runs)) == 1


@pytest.mark.parametrize("step", ["Build", "Run tests-2", "a_b"])
def test_a_plain_step_name_is_its_file_name(step: str) -> None:
    assert file_name_for(step) == step


def test_any_step_name_is_a_safe_and_different_file_name() -> None:
    steps = ["a/b", "a:b", "../../etc", "", ".", "é", "\ud800", "x\0", "s" * 300, "s" * 301, "a\n"]
    names = [file_name_for(step) for step in steps]
    assert len(set(names)) == len(steps)
    assert all(re.fullmatch(r"[A-Za-z0-9_~-]{1,80}", name) for name in names)
