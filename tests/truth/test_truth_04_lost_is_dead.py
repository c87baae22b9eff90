"""Lost is said only of a program that is proven dead; `on_lost: stop` then waits for a person."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from orchestrate.errors import ConfigError
from orchestrate.execute.base import Lost
from orchestrate.execute.keeper import orphans, tree
from orchestrate.execute.keeper.client import ensure_keeper
from orchestrate.execute.keeper.facts import Unsettled, look
from orchestrate.execute.keeper.journal import KeeperJournal
from orchestrate.execute.keeper.protocol import FOLDER, JOURNAL, Refused
from tests.process.conftest import pid_in, requests_of
from tests.promises.processes import is_alive, wait_until
from tests.truth.places import DIALECTS, Place, kill_helpers

# A program that notices nothing of the end of whoever watches it, and would do its deed later.
STUBBORN = "trap '' TERM HUP; exec 2>/dev/null"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_04_on_lost_stop_waits_for_a_person_once_the_program_is_dead(
    dialect: str, quick_top: Path
) -> None:
    place = Place(quick_top, dialect, more="on_lost: stop", deed=STUBBORN)
    with place.started("run", "w.yaml") as run:
        pid = place.await_starts(1, run)
        kill_helpers(quick_top)
        out, err = run.communicate(timeout=60)
    assert run.returncode == 6, err
    assert not is_alive(pid), "it was said to be lost, and lives"
    state = place.status()
    assert (state["status"], place.lost()) == ("paused", 1)
    assert f"'{place.step}'" in state["reason"]
    assert f"orchestrate resume {state['run_id']}" in err, out
    assert "starts it anew" in err
    shown = place.run("status", "latest").assert_success().stdout
    assert f"{place.step} waits for a person" in shown
    assert "orchestrate resume" in shown
    place.go()
    assert place.ends() == [], "the deed was done by a program that is dead"
    place.run("resume", "latest").assert_success()
    assert len(place.starts()) == 2
    assert len(place.ends()) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_04_also_when_resume_finds_it(dialect: str, quick_top: Path) -> None:
    place = Place(quick_top, dialect, more="on_lost: stop", deed=STUBBORN)
    pid = place.kill_orchestrator()
    kill_helpers(quick_top)
    said = place.run("resume", "latest").assert_exit(6)
    assert not is_alive(pid)
    assert "was lost" in said.stderr
    place.go()
    place.run("resume", "latest").assert_success()
    assert (len(place.starts()), len(place.ends())) == (2, 1)


def test_truth_04_nobody_says_lost_before_a_keeper_has_looked(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    make = requests_of(run_dir, guarded=False)
    with ensure_keeper(run_dir) as keeper:
        keeper.start(make("a", "sh", "-c", "echo $$ > pid; exec sleep 60"))
        pid = pid_in(run_dir / "pid")
        kill_helpers(tmp_path)
        assert is_alive(pid)
        assert look(run_dir, "a") == Unsettled()
        assert isinstance(keeper.wait("a", 30), Lost)
        assert not is_alive(pid)
        assert isinstance(look(run_dir, "a"), Lost)
    ensure_keeper(run_dir).shutdown()


BARE = "echo $$ > pid; exec sleep 600"


@pytest.mark.parametrize(
    "command",
    [
        ("env", "-i", "/bin/sh", "-c", BARE),
        ("sh", "-c", f"env -i /bin/sh -c '{BARE}'; true"),
    ],
)
def test_truth_04_a_program_without_an_environment_is_found_by_its_session(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    with ensure_keeper(run_dir) as keeper:
        keeper.start(requests_of(run_dir, guarded=False)("a", *command))
        pid = pid_in(run_dir / "pid")
        await_note(run_dir)
        kill_helpers(tmp_path)
        assert isinstance(keeper.wait("a", 60), Lost)
        assert not is_alive(pid)
    ensure_keeper(run_dir).shutdown()
    assert notes_in(run_dir) == []


def test_truth_04_what_may_be_of_a_lost_attempt_is_named_and_not_killed(tmp_path: Path) -> None:
    """The leader of its session is gone, so that its number may be another's by now."""
    path = tmp_path / "pid"
    leader = subprocess.Popen(
        ["sh", "-c", f"sleep 600 & echo $! > {path}.new; mv {path}.new {path}; exec sleep 600"],
        start_new_session=True,
    )
    try:
        stray = pid_in(path)
        KeeperJournal(str(tmp_path / "journal")).append("claim", "a", {"at": 0.0})
        journal = KeeperJournal(str(tmp_path / "journal"))
        for token in (journal.token, "of-a-copy"):
            number = leader.pid if token == journal.token else os.getsid(0)
            orphans.note_at_work(str(tmp_path), token, number)
    finally:
        leader.kill()
        leader.wait()
    try:
        with pytest.raises(Refused, match=rf"process {stray} \(sleep\); end it: kill {stray}"):
            orphans.settle_lost(journal, "why", {journal.token})
        assert is_alive(stray)
        assert KeeperJournal(str(tmp_path / "journal")).unsettled == {"a"}
    finally:
        os.kill(stray, signal.SIGKILL)
    orphans.settle_lost(journal, "why", {journal.token})
    assert KeeperJournal(str(tmp_path / "journal")).unsettled == set()


def notes_in(run_dir: Path) -> list[str]:
    return [name for name in os.listdir(run_dir / FOLDER) if name.startswith("at-work-")]


def await_note(run_dir: Path) -> None:
    wait_until(lambda: notes_in(run_dir), "the keeper left no word of its program")


def test_truth_04_what_cannot_be_killed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "journal")
    KeeperJournal(path).append("claim", "a", {"at": 0.0})
    journal = KeeperJournal(path)
    monkeypatch.setattr(tree, "marked", lambda *_: [os.getpid()])
    monkeypatch.setattr(tree, "signal_process", lambda *_: None)
    monkeypatch.setattr(orphans, "_END_PATIENCE_S", 0.05)
    with pytest.raises(Refused, match=rf"cannot be ended: process {os.getpid()} \("):
        orphans.settle_lost(journal, "why", {journal.token})
    assert KeeperJournal(path).unsettled == {"a"}, "nobody has said that it is lost"


def test_truth_04_then_nothing_is_started_and_the_exit_code_is_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "refused: what an earlier attempt started cannot be ended: process 4711 (work)"
    monkeypatch.setattr("orchestrate.execute.keeper.starter.KeeperStart.wait", lambda *_: said)
    with pytest.raises(ConfigError, match=r"process 4711 \(work\)") as caught:
        ensure_keeper(tmp_path)
    assert caught.value.exit_code == 5
    assert "resume" in caught.value.hint


def test_truth_04_a_stopped_program_is_ended_too(tmp_path: Path) -> None:
    """One that SIGSTOP holds can neither end nor see its end."""
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    with ensure_keeper(run_dir) as keeper:
        keeper.start(
            requests_of(run_dir, guarded=False)("a", "sh", "-c", "echo $$ > pid; exec sleep 60")
        )
        pid = pid_in(run_dir / "pid")
        os.kill(pid, signal.SIGSTOP)
        kill_helpers(tmp_path)
        assert isinstance(keeper.wait("a", 30), Lost)
    wait_until(lambda: not is_alive(pid), "it lives")
    ensure_keeper(run_dir).shutdown()
    assert (run_dir / FOLDER / JOURNAL).exists()
