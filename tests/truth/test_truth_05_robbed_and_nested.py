"""A keeper whose files were deleted, and runs inside of runs: nothing runs twice or escapes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from orchestrate.execute.base import Lost, NotStarted, Running
from orchestrate.execute.keeper.client import ensure_keeper
from orchestrate.execute.keeper.facts import Ended
from orchestrate.execute.keeper.identity import IDENTITY
from orchestrate.execute.keeper.protocol import FOLDER
from tests.process.conftest import pid_in, requests_of
from tests.promises.processes import is_alive, wait_until
from tests.truth.places import DIALECTS, Place, kill_helpers

FILES = ("journal", "keeper.lock", "socket", "wardens.lock", "keeper.lock socket", "journal socket")


def rob(folder: Path, names: str = "") -> None:
    """Delete the keeper's folder, or some of its files."""
    if not names:
        shutil.rmtree(folder)
    for name in names.split():
        (folder / name).unlink()


def rob_place(place: Place, how: str) -> None:
    """What names the run's token: the keeper's folder, or that and the identity beside it."""
    rob(place.root() / FOLDER)
    if "identity" in how:
        (place.root() / IDENTITY).unlink()
    if "keeper killed" in how:
        kill_helpers_of(place)


@pytest.mark.parametrize("how", ["folder", "folder, identity", "folder, identity, keeper killed"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_05_a_deleted_keeper_folder_starts_nothing_twice(
    dialect: str, how: str, quick_top: Path
) -> None:
    place = Place(quick_top, dialect)
    first = place.kill_orchestrator()
    rob_place(place, how)
    with place.started("resume", "latest") as resumed:
        second = place.await_starts(2, resumed)
        assert not is_alive(first), "two live attempts of one step"
        place.go()
        _, said = resumed.communicate(timeout=60)
        assert resumed.returncode == 0, said
    assert "attempt 1 was lost" in said
    assert place.lost() == 1
    assert (place.starts(), place.ends()) == ([first, second], [second])
    attempts = [words[3] for words in place.lines("start") if words[1] == place.key]
    assert len(set(attempts)) == 2, "an attempt was started twice"


@pytest.mark.parametrize("how", ["folder", "folder, identity", "folder, identity, keeper killed"])
@pytest.mark.parametrize("verb", ["cancel", "stop"])
def test_truth_05_a_robbed_run_can_be_ended(verb: str, how: str, quick_top: Path) -> None:
    place = Place(quick_top, "workflow")
    first = place.kill_orchestrator()
    rob_place(place, how)
    place.run(verb, "latest").assert_success()
    assert not is_alive(first)
    assert place.status()["status"] == {"cancel": "cancelled", "stop": "paused"}[verb]
    place.go()
    assert place.run("resume", "latest").exit_code == (0 if verb == "stop" else 1)
    assert len(place.starts()) == (2 if verb == "stop" else 1)
    assert first not in place.ends()


@pytest.mark.parametrize("names", FILES)
def test_truth_05_single_files_of_the_keeper_are_deleted(names: str, quick_top: Path) -> None:
    """Adopted or ended, but never beside a second one, and no attempt under the same name."""
    place = Place(quick_top, "workflow")
    first = place.kill_orchestrator()
    rob(place.root() / FOLDER, names)
    with place.started("resume", "latest") as resumed:

        def is_decided() -> bool:
            resumes = [e for e in place.events() if e["on"] == "run-resumed"]
            return bool(resumes) and (len(place.starts()) == 2 or resumed.poll() is not None)

        # A keeper that can still be reached goes on with it.
        if "socket" in names:
            wait_until(is_decided, "nothing came of it")
        place.go()
        _, said = resumed.communicate(timeout=60)
        assert resumed.returncode == 0, said
    starts = [words[3] for words in place.lines("start") if words[1] == "B"]
    assert len(set(starts)) == len(starts), "an attempt was started twice"
    # One that had ended when we came is lost if the record of its end was deleted.
    assert len(place.ends()) <= 1 + (names == "journal"), "two of them came to their end"
    # It was lost, or stopped by a keeper that was told to end because nobody can reach it.
    over = [event for event in place.events() if event["on"] == "attempt-ended"]
    assert len(place.starts()) == 1 + len(over)
    assert not is_alive(first)


def test_truth_05_a_run_that_never_began_a_program_begins_it(quick_top: Path) -> None:
    """What was announced and not claimed in a whole journal was never started (promise 1)."""
    run_dir = quick_top / "run"
    run_dir.mkdir()
    make = requests_of(run_dir, guarded=False)
    with ensure_keeper(run_dir) as keeper:
        assert isinstance(keeper.adopt("a"), NotStarted)
        keeper.shutdown()
    rob(run_dir / FOLDER)
    with ensure_keeper(run_dir) as keeper:
        assert isinstance(keeper.adopt("a"), NotStarted), "nothing was ever claimed"
        assert isinstance(keeper.run(make("before", "true")), Ended)
        keeper.shutdown()
    rob(run_dir / FOLDER)
    with ensure_keeper(run_dir) as keeper:
        assert isinstance(keeper.adopt("a"), Lost)
        assert isinstance(keeper.adopt("b", is_announced=False), NotStarted)
        assert isinstance(keeper.run(make("b", "true")), Ended)
        keeper.shutdown()
    (run_dir / IDENTITY).unlink()
    with ensure_keeper(run_dir) as keeper:
        assert isinstance(keeper.adopt("b"), Ended)
        assert (run_dir / IDENTITY).exists()
        keeper.shutdown()


@pytest.mark.parametrize("is_guarded", [True, False])
def test_truth_05_a_robbed_keeper_and_its_programs_are_ended(
    is_guarded: bool, quick_top: Path
) -> None:
    """Also those that left the tree and cleared their environment: their keeper ends them."""
    run_dir = quick_top / "run"
    run_dir.mkdir()
    script = "echo $$ > pid; env -i setsid sh -c 'echo $$ > inner; exec sleep 60' & wait"
    with ensure_keeper(run_dir) as keeper:
        keeper.start(requests_of(run_dir, guarded=is_guarded)("a", "sh", "-c", script))
        pids = [pid_in(run_dir / "pid"), pid_in(run_dir / "inner")]
        rob(run_dir / FOLDER)
        with ensure_keeper(run_dir) as second:
            assert second.pid != keeper.pid
            assert not any(map(is_alive, [*pids, keeper.pid]))
            assert isinstance(second.adopt("a"), Lost)
            second.shutdown()


def test_truth_05_another_runs_programs_are_not_touched(quick_top: Path) -> None:
    other_dir, run_dir = quick_top / "other", quick_top / "run"
    for folder in (other_dir, run_dir):
        folder.mkdir()
    with ensure_keeper(other_dir) as other, ensure_keeper(run_dir) as keeper:
        other.start(requests_of(other_dir, guarded=False)("a", "sleep", "60"))
        keeper.start(requests_of(run_dir, guarded=False)("a", "sleep", "60"))
        rob(run_dir / FOLDER)
        with ensure_keeper(run_dir) as second:
            second.shutdown()
        assert other.adopt("a") == Running()
        other.shutdown(stop=True)


INNER = """
version: "1.1"
name: inner
steps:
  - name: Deep
    command: ["{work}", deep{deed}]
"""
OUTER = """
version: "1.1"
name: outer
steps:
  - name: Nest
    command: [sh, -c, "cd inner && {orchestrate} run inner.yaml --working-dir ."]
"""


class Nest(Place):
    """A workflow whose step runs a workflow."""

    def __init__(self, top: Path, deed: str = "") -> None:

        super().__init__(top, "workflow")
        words = f", {json.dumps(deed)}" if deed else ""
        self.write("inner/inner.yaml", INNER.format(work=top / "work", deed=words))
        self.write("w.yaml", OUTER.format(orchestrate=f"{sys.executable} -m orchestrate"))

    @property
    def key(self) -> str:
        return "deep"


def test_truth_05_a_nested_run_does_not_escape_the_end_of_its_step(quick_top: Path) -> None:
    place = Nest(quick_top, deed="trap '' TERM HUP")
    with place.started("run", "w.yaml") as outer:
        first = place.await_starts(1, outer)
        outer_root = os.fsencode(place.root())
        helpers = [p for p in _all() if outer_root + b"\0" in _words(p)]
        assert helpers
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in (outer.pid, *helpers):
                os.kill(pid, number)
        outer.wait(60)
    assert is_alive(first), "the inner run was to outlive the kill"
    inner_keepers = [p for p in _all() if os.fsencode(place.folder / "inner") in _words(p)]
    assert inner_keepers
    with place.started("resume", "latest") as resumed:
        second = place.await_starts(2, resumed)
        assert not is_alive(first), "two inner programs"
        assert not any(map(is_alive, inner_keepers))
        place.go()
        assert resumed.wait(60) == 0
    assert place.ends() == [second]
    assert place.lost() == 1


def test_truth_05_a_cancelled_outer_run_takes_the_inner_one_along(quick_top: Path) -> None:
    place = Nest(quick_top)
    with place.started("run", "w.yaml") as outer:
        first = place.await_starts(1, outer)
        outer.kill()
        outer.wait(60)
    kill_helpers_of(place)
    place.run("cancel", "latest").assert_success()
    assert not is_alive(first)
    assert place.ends() == []


def kill_helpers_of(place: Place) -> None:
    kill_helpers(place.folder / ".orchestrate" / "runs")


def test_truth_05_a_program_carries_the_marks_of_all_runs_around_it(quick_top: Path) -> None:
    place = Nest(quick_top)
    place.go()
    place.write(
        "inner/inner.yaml",
        """
        version: "1.1"
        name: inner
        steps:
          - {name: Deep, command: [sh, -c, "env > ../marks"]}
        """,
    )
    place.run("run", "w.yaml").assert_success()
    marks = dict(
        line.split("=", 1) for line in (place.folder / "marks").read_text().splitlines()
        if line.startswith("ORCHESTRATE_")
    )  # fmt: skip
    assert marks["ORCHESTRATE_ATTEMPT"].endswith(":Deep:1.1")
    assert marks["ORCHESTRATE_WITHIN"].endswith(":Nest:1.1")
    assert "ORCHESTRATE_KEEPER" not in marks
    inner, outer = marks["ORCHESTRATE_ATTEMPT"], marks["ORCHESTRATE_WITHIN"]
    assert inner.partition(":")[0] != outer.partition(":")[0]


def _all() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
