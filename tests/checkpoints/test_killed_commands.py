"""`diff` and `rewind` killed in front of their system calls: `.git` and what is ignored are as they
were, and the same command does its work afterwards."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.checkpoints.killed import Killed
from tests.checkpoints.places import inside_git, photograph, write
from tests.checkpoints.test_runs import SHAPES, without_runs
from tests.promises.killing import can_trace

pytestmark = pytest.mark.faults

COMMANDS = {
    "diff": ("diff", "latest", "b"),
    "rewind": ("rewind", "latest", "b", "--yes"),
    "undo": ("rewind", "latest", "--undo", "--yes"),
}


class Rewound(Killed):
    """A finished run whose files a person has changed."""

    def __init__(self, top: Path, name: str) -> None:
        super().__init__(top, SHAPES["recipe"], *COMMANDS[name])
        self.name = name
        write(self.folder, "by-a-person", "mine")
        write(self.folder, "fail-never", "ignored")
        write(self.folder, "common", "spoilt since\n")
        self.spoilt = without_runs(photograph(self.folder))
        if name == "undo":
            self.run(*COMMANDS["rewind"]).assert_exit(0)
        self.before = without_runs(photograph(self.folder))
        self.keep()

    def works_afterwards(self) -> None:
        """Whatever the kill has left, the same command does what it is to do."""
        again = self.run(*self.given)
        found = without_runs(photograph(self.folder))
        match self.name:
            case "diff":
                assert again.exit_code == 0
                assert found == self.before
            case "rewind":
                assert again.exit_code == 0
                assert (self.folder / "common").read_text() == "a\n"
                assert self.files() == {"by-a", "by-a-person"}
            case _:
                # Killed when it was on record already, there is nothing left to undo.
                assert again.exit_code == 0 or "there is nothing to undo" in again.stderr
                assert found == self.spoilt
        assert (self.folder / "fail-never").read_text() == "ignored"


def _sweep(tmp_path: Path, name: str, *, most: int) -> None:
    stage = Rewound(tmp_path, name)
    theirs = inside_git(stage.folder)
    for point in stage.killed(most):
        assert inside_git(stage.folder) == theirs, point
        stage.works_afterwards()
        assert inside_git(stage.folder) == theirs, point


@pytest.mark.skipif(not can_trace(), reason="kills are given by strace")
def test_killed_in_the_middle_of_a_rewind(tmp_path: Path) -> None:
    _sweep(tmp_path, "rewind", most=2)


@pytest.mark.skipif(not can_trace(), reason="kills are given by strace")
@pytest.mark.soak
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_any_deed(tmp_path: Path, name: str) -> None:
    _sweep(tmp_path, name, most=sys.maxsize)
