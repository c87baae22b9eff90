"""A copy of a run is another run: it leaves the original's programs and sessions alone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from orchestrate.errors import ConfigError
from orchestrate.execute.base import Lost, NotStarted, Running
from orchestrate.execute.keeper.client import ensure_keeper
from orchestrate.execute.keeper.facts import Ended, look
from orchestrate.execute.keeper.identity import IDENTITY, known_token
from orchestrate.execute.keeper.journal import KeeperJournal
from orchestrate.execute.keeper.protocol import FOLDER, JOURNAL, MARKER
from orchestrate.execute.place import is_same_place, place_of
from tests.process.conftest import requests_of
from tests.promises.processes import is_alive, wait_until
from tests.truth.places import DIALECTS, Place

WAYS = {
    "cp": "cp -a workspace copy",
    "tar": "mkdir copy; tar -C workspace -cf - . 2>/dev/null | tar -C copy -xf -",
    "without its keeper": "cp -a workspace copy; rm -r copy/.orchestrate/runs/2*/keeper",
    "without its identity": "cp -a workspace copy; rm copy/.orchestrate/runs/2*/identity.json",
    "without both": "cp -a workspace copy; rm -r copy/.orchestrate/runs/2*/[ik]*",
}


def copy(place: Place, how: str = "cp") -> Path:
    subprocess.run(["sh", "-c", WAYS[how]], cwd=place.top, check=True)
    return place.top / "copy"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_03_a_copy_of_a_living_run_leaves_it_alone(dialect: str, quick_top: Path) -> None:
    place = Place(quick_top, dialect)
    with place.started("run", "w.yaml") as original:
        first = place.await_starts(1, original)
        folder = copy(place)
        with place.started_at(folder, "resume", "latest") as other:
            second = place.await_starts(2, other)
            assert second != first
            assert is_alive(first), "the original's program was ended"
            place.go()
            _, said = other.communicate(timeout=60)
            assert other.returncode == 0, said
        assert "this run is a copy" in said
        assert "was lost: this run is a copy" in said
        assert original.wait(60) == 0
    assert sorted(place.ends()) == sorted([first, second])
    assert (place.lost(), place.lost(folder)) == (0, 1)
    assert place.step_result()["attempts"] == 1
    assert place.step_result(folder)["attempts"] == 2
    if place.sessions():
        assert len(set(place.sessions())) == 2, "two programs in one session"


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("dialect", ["workflow", "machine"])
def test_truth_03_a_copy_of_a_run_without_orchestrator_leaves_its_program_alone(
    dialect: str, how: str, quick_top: Path
) -> None:
    place = Place(quick_top, dialect)
    first = place.kill_orchestrator()
    folder = copy(place, how)
    with place.started_at(folder, "resume", "latest") as other:
        second = place.await_starts(2, other)
        assert is_alive(first), "the original's program was ended"
        with place.started("resume", "latest") as original:
            wait_until(
                lambda: any(e["on"] == "run-resumed" for e in place.events()), "it never went on"
            )
            place.go()
            assert original.wait(60) == 0
        assert other.wait(60) == 0
    assert place.starts() == [first, second]
    assert sorted(place.ends()) == sorted([first, second])
    assert (place.lost(), place.lost(folder)) == (0, 1)
    if place.sessions():
        assert len(set(place.sessions())) == 2


def test_truth_03_a_copy_can_be_cancelled_and_resumed_like_any_run(quick_top: Path) -> None:
    """Also a second time: from its first resume on it is a run of its own."""
    place = Place(quick_top, "machine")
    first = place.kill_orchestrator()
    folder = copy(place)
    with place.started_at(folder, "resume", "latest") as other:
        second = place.await_starts(2, other)
        other.kill()
    place.go()
    said = place.at(folder, "resume", "latest").assert_success()
    assert "copy" not in said.stderr
    assert place.starts() == [first, second], "its own program is adopted"
    other_copy = place.top / "copy2"
    subprocess.run(["cp", "-a", "workspace", "copy2"], cwd=place.top, check=True)
    place.at(other_copy, "cancel", "latest").assert_success()
    place.run("resume", "latest").assert_success()
    assert place.lost() == 0


@pytest.mark.parametrize("dialect", ["machine", "recipe"])
def test_truth_03_a_copy_offers_nobody_the_originals_session(dialect: str, quick_top: Path) -> None:
    place = Place(quick_top, dialect)
    place.go()
    place.run("run", "w.yaml").assert_success()
    folder = copy(place)
    offered = [json.loads(place.at(where, "status", "--json").stdout).get("takeover")
               for where in (place.folder, folder)]  # fmt: skip
    assert place.sessions()[0] in offered[0]
    assert offered[1] is None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_03_a_moved_run_goes_on(dialect: str, quick_top: Path) -> None:
    """The same process, adopted by a keeper whose folder has another name now."""
    place = Place(quick_top, dialect)
    first = place.kill_orchestrator()
    place.folder = place.folder.rename(quick_top / "moved")
    place.go()
    said = place.run("resume", "latest").assert_success()
    assert "copy" not in said.stderr
    assert (place.starts(), place.ends()) == ([first], [first])
    assert place.lost() == 0


def test_truth_03_a_keeper_whose_folder_moved_starts_more(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    with ensure_keeper(run_dir) as keeper:
        assert isinstance(keeper.run(requests_of(run_dir, guarded=False)("a", "true")), Ended)
        moved = run_dir.rename(tmp_path / "moved")
        for attempt in ("b", "c"):
            assert isinstance(keeper.run(requests_of(moved, guarded=True)(attempt, "true")), Ended)
        assert isinstance(look(moved, "c"), Ended)
        pid = keeper.pid
    with ensure_keeper(moved) as again:
        assert again.pid == pid
        again.shutdown()


def test_truth_03_a_copys_keeper_says_of_each_open_attempt_that_it_is_lost(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    make = requests_of(run_dir, guarded=False)
    with ensure_keeper(run_dir) as keeper:
        assert isinstance(keeper.run(make("done", "true")), Ended)
        keeper.start(make("open", "sleep", "60"))
        subprocess.run(["cp", "-a", "run", "copy"], cwd=tmp_path, check=True)
        folder = tmp_path / "copy"
        with ensure_keeper(folder) as other:
            assert isinstance(other.adopt("done"), Ended)
            assert isinstance(other.adopt("open"), Lost)
            assert isinstance(other.adopt("announced"), Lost)
            assert isinstance(other.adopt("next", is_announced=False), NotStarted)
            assert isinstance(other.run(requests_of(folder, guarded=True)("next", "true")), Ended)
            other.shutdown()
        assert keeper.adopt("open") == Running()
        tokens = {(where / IDENTITY).read_text() for where in (run_dir, folder)}
        assert len(tokens) == 2
        keeper.shutdown(stop=True)


def test_truth_03_a_copy_by_hard_links_adopts_nothing(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    with ensure_keeper(run_dir) as keeper:
        keeper.start(requests_of(run_dir, guarded=False)("open", "sleep", "60"))
        subprocess.run(["cp", "-al", "run", "copy"], cwd=tmp_path, check=True)
        with pytest.raises(ConfigError, match="hard links"):
            ensure_keeper(tmp_path / "copy")
        assert keeper.adopt("open") == Running()
        keeper.shutdown(stop=True)


@pytest.mark.parametrize("lives", ["program", "nothing"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_03_a_copy_by_hard_links_writes_nothing_into_the_original(
    dialect: str, lives: str, quick_top: Path
) -> None:
    place = Place(quick_top, dialect)
    first = place.kill_orchestrator()
    if lives == "nothing":
        place.run("stop", "latest").assert_success()
    subprocess.run(["cp", "-al", "workspace", "copy"], cwd=place.top, check=True)
    shared = [place.root() / "events.jsonl", place.root() / "keeper" / "journal"]
    before = [path.read_bytes() for path in shared]
    for verb in ("resume", "cancel"):
        told = place.at(place.top / "copy", verb, "latest").assert_exit(5)
        assert "is a copy of a run by hard links" in told.stderr
        assert "cp -a" in told.stderr
        assert [path.read_bytes() for path in shared] == before
    assert is_alive(first) == (lives == "program")
    place.go()
    said = place.run("resume", "latest").assert_success()
    assert "copy" not in said.stderr
    assert place.ends() == ([first] if lives == "program" else place.starts()[1:])


@pytest.mark.parametrize("damage", ["", "torn", "no identity", "identity of before"])
def test_truth_03_every_boot_has_a_token_of_its_own(tmp_path: Path, damage: str) -> None:
    """A snapshot of a disk has the inodes of the original, and its device any number."""
    old = "ab" * 16
    (tmp_path / FOLDER).mkdir()
    before = f"1:{tmp_path.stat().st_ino}:11111111-2222-3333-4444-555555555555"
    path = tmp_path / FOLDER / JOURNAL
    journal = KeeperJournal(str(path), old, before)
    journal.append("claim", "open", {"at": 1.0})
    if damage != "no identity":
        (tmp_path / IDENTITY).write_text(f'{{"token":"{old}","place":"{before}"}}')
    if damage == "torn":
        path.write_bytes(path.read_bytes().replace(b"11111111-", b"11111112-"))
    theirs = subprocess.Popen(["sleep", "60"], env={MARKER: f"{old}:open"})
    try:
        with ensure_keeper(tmp_path) as keeper:
            new = known_token(str(tmp_path))
            assert new not in ("", old)
            assert isinstance(keeper.adopt("open"), Lost)
            if damage != "torn":
                assert isinstance(keeper.adopt("next"), NotStarted), "it was never claimed"
            run = requests_of(tmp_path, guarded=False)
            assert isinstance(keeper.run(run("next2", "true")), Ended)
            keeper.shutdown()
        if damage == "identity of before":  # its keeper was killed before it wrote that down
            (tmp_path / IDENTITY).write_text(f'{{"token":"{old}","place":"{before}"}}')
        assert known_token(str(tmp_path)) == new, "and keeps it until the next boot"
        assert theirs.poll() is None, "a program of the original was ended"
    finally:
        theirs.kill()
        theirs.wait()


def test_truth_03_what_a_place_is() -> None:
    """After a boot a device may have another number; a copy on it has another inode."""
    assert is_same_place("1:2:boot", "1:2:boot")
    assert is_same_place("1:2:boot", "1:2:other")
    assert is_same_place("1:2:boot", "7:2:other")
    assert not is_same_place("1:2:boot", "7:2:boot")
    assert not is_same_place("1:2:boot", "1:3:boot")
    assert not is_same_place("1:2:boot", "1:3:other")
    assert is_same_place("", "1:3:other"), "nobody knows"
    assert is_same_place(place_of("/"), place_of("/"))
