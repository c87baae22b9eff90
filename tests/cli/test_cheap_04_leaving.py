"""A command ends without taking Python apart; nothing that it said or did is lost by that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

AT_THE_END = """
import atexit, sys
atexit.register(print, "taken apart")
{more}
from orchestrate.cli.main import main
sys.argv[1:] = {words!r}
main()
"""


def ended(folder: Path, *words: str, more: str = "") -> subprocess.CompletedProcess[str]:
    code = AT_THE_END.format(more=more, words=list(words))
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_end_comes_at_once_and_all_was_said(tmp_path: Path) -> None:
    done = ended(tmp_path, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("orchestrate, version")
    assert "taken apart" not in done.stdout


def test_an_error_has_its_code_and_its_words(tmp_path: Path) -> None:
    done = ended(tmp_path, "validate", "nowhere.yaml")
    assert done.returncode == 2
    assert "nowhere.yaml" in done.stdout + done.stderr


@pytest.mark.parametrize(
    "more", ["sys.setprofile(lambda *_: None)", "sys.modules['coverage'] = sys"]
)
def test_who_watches_the_interpreter_sees_its_end(tmp_path: Path, more: str) -> None:
    assert "taken apart" in ended(tmp_path, "--version", more=more).stdout
