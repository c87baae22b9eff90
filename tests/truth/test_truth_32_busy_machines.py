"""32: the tests hold on a machine that is busy with other work, other runs of them included."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.live.screens import display

_PRINTS_ITS_FOLDER = """
def test_one(tmp_path):
    print("FOLDER", tmp_path)
"""


def _start(folder: Path, repository: Path, temporary: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:xdist", "-p", "tests.conftest"]
    words += ["-p", "no:cacheprovider", "-c", str(repository / "pyproject.toml"), "--rootdir"]
    return subprocess.Popen(
        [*words, str(folder), str(folder / "test_one.py")],
        cwd=repository,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_truth_32_runs_of_the_tests_share_no_temporary_folder(
    tmp_path: Path, repository: Path
) -> None:
    (tmp_path / "test_one.py").write_text(_PRINTS_ITS_FOLDER)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    both = [_start(tmp_path, repository, temporary) for _ in range(2)]
    said = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    folders = [text.split("FOLDER ")[1].split("\n")[0] for text in said]
    tops = [Path(folder).relative_to(temporary).parts[0] for folder in folders]
    assert len(set(tops)) == 2
    assert os.listdir(temporary) == [], "a run that passed leaves nothing behind"


_DRAWS_IN_PARTS = """
import sys, time
print("first row", flush=True)
time.sleep(0.3)
print("last row", flush=True)
sys.stdin.read()
"""


def test_truth_32_a_picture_that_is_drawn_in_parts_is_waited_for(tmp_path: Path) -> None:
    with display(tmp_path, start=_DRAWS_IN_PARTS) as seen:
        seen.await_words("first row")
        seen.await_that(lambda: seen.lines == ["first row", "last row"])
