"""`watch`: runs again on a change of any file of a recipe, and never for nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrate.testing import Project
from tests.cli.background import await_file
from tests.promises.processes import wait_until

MAIN = """
version: "1.1"
name: main
steps:
  - $include: parts/said.yaml
  - name: Ask
    provider: echoer
    input_file: prompts/ask.md
providers: {echoer: {command: [cat], input_mode: stdin}}
"""
PART = "name: Say\ncommand: [sh, -c, 'echo one >> said']\n"


class Watching:
    """The command in the background, with what it says as it says it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def hear(self, text: str, times: int = 1) -> None:
        wait_until(lambda: self.said.count(text) >= times, f"never said {text!r}: {self.said}")

    def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(60)
        self._reader.join(60)
        return code


@contextmanager
def watching(project: Project, *arguments: str) -> Iterator[Watching]:
    with project.background("watch", *arguments) as process:
        yield Watching(process)


def replace(path: Path, text: str) -> None:
    """As editors do: a new file takes the place of the old one."""
    new = path.with_name(f".{path.name}.swp")
    new.write_text(text, "utf-8")
    os.replace(new, path)


def test_every_file_of_a_recipe_counts(tmp_path: Path) -> None:
    files = {"w.yaml": MAIN, "parts/said.yaml": PART, "prompts/ask.md": "Why?\n", "other.txt": "x"}
    project = Project(tmp_path, files)
    with watching(project, "w.yaml", "--quiet") as watch:
        watch.hear("watching 3 files")
        replace(tmp_path / "parts" / "said.yaml", PART.replace("one", "two"))
        watch.hear("parts/said.yaml changed")
        watch.hear("watching 3 files", 2)
        (tmp_path / "prompts" / "ask.md").write_text("Who?\n", "utf-8")
        watch.hear("prompts/ask.md changed")
        watch.hear("watching 3 files", 3)
        # Neither another file nor a mere touch is a change; a mistake is told, then mended.
        (tmp_path / "other.txt").write_text("y", "utf-8")
        os.utime(tmp_path / "prompts" / "ask.md")
        broken = MAIN.replace("parts/said.yaml", "parts/more.yaml")
        replace(tmp_path / "w.yaml", broken)
        watch.hear("cannot include 'parts/more.yaml'")
        (tmp_path / "parts" / "more.yaml").write_text(PART.replace("one", "more"), "utf-8")
        watch.hear("parts/more.yaml changed")
        watch.hear("watching 3 files", 4)
        assert watch.end() == 130
        assert watch.said.endswith("stopped watching\n")
    assert (tmp_path / "said").read_text("utf-8").split() == ["one", "two", "two", "more"]


def test_a_change_during_a_run_waits_and_ctrl_c_leaves_it_to_resume(tmp_path: Path) -> None:
    slow = 'version: "1.1"\nsteps: [{name: Slow, command: [sh, -c, "touch NAME; sleep SECONDS"]}]\n'
    first = slow.replace("NAME", "first").replace("SECONDS", "1")
    project = Project(tmp_path, {"w.yaml": first})
    with watching(project, "w.yaml", "--json") as watch:
        await_file(project, "first")
        second = slow.replace("NAME", "second").replace("SECONDS", "60")
        replace(tmp_path / "w.yaml", second)
        await_file(project, "second")
        assert watch.end() == 130
        assert watch.process.stdout is not None
        told = json.loads(watch.process.stdout.read())
    assert [r["status"] for r in told["rounds"]] == ["completed", "paused"]
    assert [r["exit_code"] for r in told["rounds"]] == [0, 130]
    assert told["rounds"][1]["changed"] == ["w.yaml"]
    assert project.latest_state["status"] == "paused"
    assert project.latest_state["run_id"] == told["rounds"][1]["run_id"]
    replace(tmp_path / "w.yaml", second)
    project.run("cancel", "latest").assert_success()


def test_a_recipe_that_changes_itself_does_not_run_for_ever(tmp_path: Path) -> None:
    text = (
        'version: "1.1"\nsteps: [{name: A, command: [sh, -c, "echo x >> ran; echo >> w.yaml"]}]\n'
    )
    project = Project(tmp_path, {"w.yaml": text})
    with watching(project, "w.yaml", "--quiet") as watch:
        watch.hear("perhaps the recipe changes it itself")
        watch.hear("watching 1 file")
        assert (tmp_path / "ran").read_text("utf-8").count("x") == 3
        assert watch.end() == 130


def test_only_checking(tmp_path: Path) -> None:
    good = 'version: "1.1"\nsteps: [{name: A, command: [touch, ran]}]\n'
    project = Project(tmp_path, {"w.yaml": good})
    with watching(project, "w.yaml", "--validate", "--json") as watch:
        watch.hear("watching 1 file")
        (tmp_path / "w.yaml").write_text(good.replace("command", "comand"), "utf-8")
        watch.hear("did you mean 'command'")
        assert watch.end() == 130
        assert watch.process.stdout is not None
        told = json.loads(watch.process.stdout.read())
    assert [r["valid"] for r in told["rounds"]] == [True, False]
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / ".orchestrate").exists()


def test_a_slip_ends_at_once(tmp_path: Path) -> None:
    project = Project(
        tmp_path, {"flow.yaml": 'version: "1.1"\nsteps: [{name: A, command: [ls]}]\n'}
    )
    slip = project.run("watch", "flo.yaml").assert_exit(2)
    assert "flow.yaml'?)" in slip.stderr
    flag = project.run("watch", "flow.yaml", "--session", "s", "--json").assert_exit(2)
    assert "--session" in flag.json()["error"]["message"]
    project.run("watch", "flow.yaml", "--dry-run").assert_exit(2)
