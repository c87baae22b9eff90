"""What an earlier sitting left on a machine is never gone on with unless it was published last."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchestrate.fleet.seat import Seat
from orchestrate.fleet.take import publish_rest, take_seat

pytestmark = pytest.mark.fleet

RUN = "20260101T000000Z-abcdef"


class Machine:
    """A seat of the one run on a machine; each sitting leaves a word in both of its places."""

    def __init__(self, top: Path, name: str) -> None:
        self.seat = Seat(RUN, str(top / name), "m", remote=str(top / "remote.git"))

    def sit(self, word: str, *, publishes: bool = True) -> list[str]:
        """The words that it begins with, of its folder and of its work tree."""
        take_seat(self.seat, is_sha256=False, prepare=())
        self.seat.folder.mkdir(exist_ok=True)
        files = (self.seat.folder / "events.jsonl", self.seat.tree / "made.txt")
        found = [path.read_text() if path.exists() else "" for path in files]
        for path, before in zip(files, found, strict=True):
            path.write_text(before + word)
        if publishes:
            publish_rest(self.seat)
        return found


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Machine]:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    made = [Machine(tmp_path, name) for name in ("one", "two")]

    def git(*words: str) -> None:
        who = ("-c", "user.name=me", "-c", "user.email=me@here")
        subprocess.run(("git", *who, *words), cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q", "--bare", "remote.git")
    git("init", "-q", "here")
    git("-C", "here", "commit", "-q", "--allow-empty", "-m", "one")
    git("-C", "here", "push", "-q", "../remote.git", f"HEAD:{made[0].seat.work}")
    return made


def test_fleet_a_folder_that_is_behind_is_taken_anew(machines: list[Machine]) -> None:
    one, two = machines
    assert one.sit("a") == ["", ""]
    assert two.sit("b") == ["a", "a"]
    assert one.sit("c") == ["ab", "ab"]


def test_fleet_a_folder_that_is_ahead_was_given_up_by_all_others(machines: list[Machine]) -> None:
    one, two = machines
    one.sit("a")
    one.sit("lost", publishes=False)
    assert one.sit("b") == ["a", "a"]
    assert two.sit("c") == ["ab", "ab"]


def test_fleet_a_folder_that_is_as_published_is_gone_on_with(machines: list[Machine]) -> None:
    one, _ = machines
    one.sit("a")
    ours = (one.seat.tree / ".gitignore", one.seat.tree / "ignored")
    ours[0].write_text("ignored\n")
    publish_rest(one.seat)
    ours[1].write_text("does not travel")
    assert one.sit("b") == ["a", "a"]
    assert ours[1].exists()
