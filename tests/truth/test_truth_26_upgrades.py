"""26: an orchestrator whose package is upgraded or removed under it stops clearly and resumable."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrate import installation
from orchestrate.installation import replacement_of, was_replaced
from tests.acceptance.fakes import REPOSITORY, Stage, read_state
from tests.promises.processes import end_all_in, wait_until

STOPPED = 5
# What a run needs of other packages, besides the standard library.
NEEDED = (
    "click", "ruamel", "_ruamel_yaml", "jsonschema", "jsonschema_specifications",
    "referencing", "rpds", "attr", "attrs", "typing_extensions",
)  # fmt: skip
WORKFLOW = """\
version: "1.3"
name: w
steps:
  - name: First
    command: ["sh", "-c", "echo x >> ledger; touch started; until test -e go; do sleep 0.02; done"]
  - name: Second
    command: ["sh", "-c", "cat out.json"]
    output_capture: json
    output_schema: schema.json
"""


class Installed:
    """A copy of the program and of all that it needs, and a workspace in which it works."""

    def __init__(self, top: Path) -> None:
        self.place = top / "installed"
        self.install()
        self.stage = Stage(top)
        self.stage.write("w.yaml", WORKFLOW)
        self.stage.write("out.json", '"abab"')
        self.stage.write("schema.json", '{"pattern": "^(ab)+$"}')

    def install(self) -> None:
        self.place.mkdir()
        for name in ("orchestrate", "schemas"):
            shutil.copytree(REPOSITORY / name, self.place / name)
        for name in NEEDED:
            spec = find_spec(name)
            if spec is None:
                continue
            for folder in spec.submodule_search_locations or ():
                shutil.copytree(folder, self.place / name, dirs_exist_ok=True)
            if spec.submodule_search_locations is None and spec.origin is not None:
                shutil.copy(spec.origin, self.place)

    @property
    def environment(self) -> dict[str, str]:
        more = {"PYTHONPATH": str(self.place), "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}
        return {**os.environ, **self.stage.surroundings, **more}

    def words(self, *arguments: str) -> list[str]:
        # Without the packages of the tests' own environment.
        return [sys.executable, "-S", "-m", "orchestrate", *arguments]

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            self.words(*arguments), cwd=self.stage.folder, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def resume(self) -> None:
        done = subprocess.run(
            self.words("resume", "latest"), cwd=self.stage.folder, env=self.environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def state(self) -> dict[str, object]:
        runs = self.stage.runs_folder
        return read_state(runs / os.readlink(runs / "latest"))


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Installed]:
    yield Installed(tmp_path)
    end_all_in(tmp_path)


def remove_all(it: Installed) -> None:
    shutil.rmtree(it.place)


def move_away(it: Installed) -> None:
    it.place.rename(it.place.with_name("elsewhere"))


def remove_the_needed(it: Installed) -> None:
    shutil.rmtree(it.place / "jsonschema")
    shutil.rmtree(it.place / "referencing")


def upgrade(it: Installed) -> None:
    """To a version whose modules are others: what is imported from now on does not fit."""
    shutil.rmtree(it.place)
    for name in ("engine", "cli", "state", "process", "plan", "agents"):
        (it.place / "orchestrate" / name).mkdir(parents=True)
    for path in (REPOSITORY / "orchestrate").rglob("*.py"):
        new = it.place / "orchestrate" / path.relative_to(REPOSITORY / "orchestrate")
        new.parent.mkdir(parents=True, exist_ok=True)
        new.write_text("VERSION = 99\n")


def put_back(it: Installed) -> None:
    shutil.rmtree(it.place, ignore_errors=True)
    it.install()


@pytest.mark.parametrize("change", [remove_all, move_away, remove_the_needed, upgrade])
def test_truth_26_a_run_stops_clearly_and_resumes(installed: Installed, change: object) -> None:
    assert callable(change)
    with installed.started("run", "w.yaml") as process:
        installed.stage.await_file("started")
        change(installed)
        installed.stage.write("go", "")
        _, said = process.communicate(timeout=60)
    assert process.returncode == STOPPED, said
    assert "upgraded or removed while this run was going" in said
    assert f"orchestrate resume {os.readlink(installed.stage.runs_folder / 'latest')}" in said
    assert "a bug" not in said
    assert "Traceback" not in said
    state = installed.state()
    assert state["status"] == "paused"
    put_back(installed)
    installed.resume()
    assert installed.state()["status"] == "completed"
    assert (installed.stage.folder / "ledger").read_text().split() == ["x"]


def test_truth_26_a_keeper_that_cannot_be_started_any_more_is_told(installed: Installed) -> None:
    with installed.started("run", "w.yaml") as process:
        installed.stage.await_file("started")
        remove_all(installed)
        folder = installed.stage.runs_folder / "latest" / "keeper"
        lock = os.path.realpath(folder / "keeper.lock")
        for pid in keepers_with(lock):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not keepers_with(lock), "the keeper lives")
        _, said = process.communicate(timeout=60)
    assert process.returncode == STOPPED, said
    assert "upgraded or removed" in said
    put_back(installed)
    installed.stage.write("go", "")
    installed.resume()


def keepers_with(lock: str) -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            files = os.listdir(f"/proc/{name}/fd")
            if any(os.readlink(f"/proc/{name}/fd/{fd}") == lock for fd in files):
                found.append(int(name))
        except OSError:
            continue
    return found


def test_truth_26_a_bug_is_still_a_bug(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(installation, "_STARTED_AT", float("inf"))
    assert not was_replaced()
    assert replacement_of(KeyError("x")) is None
    told = replacement_of(ModuleNotFoundError("No module named 'click'"))
    assert told is not None
    assert (told.exit_code, "installed" in told.hint) == (5, True)
    monkeypatch.setattr(installation, "_STARTED_AT", 0.0)
    assert was_replaced()
    # Of a program that uses us nothing was installed, however it changes.
    monkeypatch.setattr(installation, "_STARTED_AT", float("inf"))
    monkeypatch.setitem(sys.modules, "its_own", SimpleNamespace(__file__=str(tmp_path / "gone.py")))
    assert not was_replaced()
    monkeypatch.setattr(installation, "_STARTED_AT", 0.0)
    told = replacement_of(KeyError("x"), "RUN")
    assert told is not None
    assert "orchestrate resume RUN" in told.hint
