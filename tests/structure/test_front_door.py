"""What `make test` and `.ci/run` run, and how `.ci/run` ends."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.structure.modules import REPOSITORY

_INSTALLING = re.compile(r"^from tests\.agents\.installing import", re.MULTILINE)
_MARKED = re.compile(r"^pytestmark = pytest\.mark\.agents$", re.MULTILINE)
# Stands for `make` and for the environment's python: says what it was asked, as FAILS demands.
_STAND_IN = """#!/bin/sh
echo "$@"
case " $FAILS " in *" $1 "* | *" $2 "*) echo "ran $1: 1 failed"; exit 2 ;; esac
echo "ran $1: passed"
"""


def test_whatever_installs_agent_programs_has_their_marker() -> None:
    files = {path: path.read_text("utf-8") for path in (REPOSITORY / "tests").rglob("test_*.py")}
    installing = {path for path, text in files.items() if _INSTALLING.search(text)}
    assert len(installing) >= 2
    assert [path.name for path in installing if not _MARKED.search(files[path])] == []


@pytest.mark.parametrize(
    ("fails", "code", "said"),
    [
        ("", 0, ""),
        ("lint", 1, "'make lint' failed"),
        ("test-agents", 1, "'make test-agents' failed"),
        ("test-faults", 1, "'make test-faults' failed"),
        ("test", 1, ""),
        ("tests.agents.installing", 0, "nothing was tested with the real agent programs"),
    ],
)
def test_ci_runs_every_part_and_ends_with_the_tests(
    tmp_path: Path, fails: str, code: int, said: str
) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(REPOSITORY / ".ci" / "run", tmp_path / ".ci" / "run")
    for stand_in in (tmp_path / "bin" / "make", tmp_path / ".venv" / "bin" / "python"):
        stand_in.parent.mkdir(parents=True)
        stand_in.write_text(_STAND_IN)
        stand_in.chmod(0o755)
    done = subprocess.run(
        [tmp_path / ".ci" / "run"],
        env={"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "FAILS": fails or "nothing"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout
    assert said in done.stdout
    lines = done.stdout.splitlines()
    assert lines[-1] == ("ran test: 1 failed" if fails == "test" else "ran test: passed")
    parts = ("lint", "test-agents", "test-faults", "test")
    agents = [] if fails == "tests.agents.installing" else ["test-agents"]
    assert [line for line in lines if line in parts] == ["lint", *agents, "test-faults", "test"]
