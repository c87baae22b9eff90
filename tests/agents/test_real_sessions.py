"""Runs of ours with the real programs: turns that are cut off, and outcomes under a schema."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrate.engine.prompts import CUT_OFF
from orchestrate.testing import Project
from tests.agents.fakemodel import Answer, FakeModel, Request
from tests.agents.installing import CannotInstall, install
from tests.agents.test_real_programs import MODELS, PATIENCE_S, prepare_home
from tests.machines.fakes import machine
from tests.promises.processes import keepers_in, kill, programs_in, wait_until

pytestmark = pytest.mark.agents

WORD = "BANANA77"
TOOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "claude-code": ("Bash", {"command": "true"}),
    "codex": ("exec_command", {"cmd": "true"}),
}
QUICK_EIGHT = "retry: {maxAttempts: 8, initialDelay: 0.01}\ninitialStep"
RECALL = machine({"recall": {"known": "!known", "unknown": "!unknown"}})


class Run(Project):
    """A project whose agent is a real program that is pointed at a model of ours."""

    def __init__(self, top: Path, model: FakeModel) -> None:
        for folder in ("workspace", "home"):
            (top / folder).mkdir()
        super().__init__(top / "workspace")
        try:
            programs = install()
        except CannotInstall as reason:
            pytest.skip(f"the real agent programs are not here: {reason}")
        home = top / "home"
        self.environment = prepare_home(home, model.url) | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / ".config"),
        }

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        with self.background(*arguments, env=self.environment) as process:
            yield process

    def state(self) -> dict[str, Any]:
        path = self.folder / ".orchestrate" / "runs" / "latest" / "state.json"
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return found

    def has_written_down(self, word: str) -> bool:
        """Does a session file of the program have a whole line with it?

        Claude Code asks its model again before it has written down what the last answer was.
        """
        files = (self.folder.parent / "home").rglob("*.jsonl")
        lines = (line for file in files for line in file.read_bytes().splitlines(keepends=True))
        return any(word.encode() in line and line.endswith(b"\n") for line in lines)

    def flags(self, name: str) -> tuple[str, ...]:
        return ("--backend", name, "--model", MODELS.get(name, "fake-model"))


@pytest.fixture
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


def tells_and_hangs(model: FakeModel, name: str) -> None:
    """The first turn uses a tool and tells a word; what follows is asked whether it knows it."""

    def answer(request: Request) -> Answer:
        if len(model.requests) == 1:
            return Answer(f"The codeword is {WORD}.", tool=TOOLS[name])
        if len(model.requests) == 2:
            return Answer(hang=True)
        outcome = "known" if WORD in request.history else "unknown"
        return Answer(json.dumps({"outcome": outcome}))

    model.reset(answer)


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("end", ["interrupt", "reboot"])
def test_truth_14_a_first_turn_that_was_cut_off_is_remembered(
    tmp_path: Path, model: FakeModel, name: str, end: str
) -> None:
    run = Run(tmp_path, model)
    run.write("m.yaml", RECALL)
    tells_and_hangs(model, name)
    with run.started("run", "m.yaml", *run.flags(name)) as process:
        wait_until(lambda: len(model.requests) >= 2, "the model was not asked", PATIENCE_S)
        wait_until(lambda: run.has_written_down(WORD), "the turn was not kept", PATIENCE_S)
        if end == "interrupt":
            process.send_signal(signal.SIGINT)
        else:
            process.kill()
            for pid in [*keepers_in(run.folder), *programs_in(run.folder)]:
                kill(pid)
        process.communicate(timeout=PATIENCE_S)
    resumed = run.run("resume", "latest", env=run.environment, timeout_s=PATIENCE_S)
    resumed.assert_success()
    assert run.state()["reason"] == "known"
    assert CUT_OFF.strip() in model.requests[2].last_prompt


@pytest.mark.parametrize("name", TOOLS)
def test_truth_16_a_reminder_is_answered_under_a_schema(
    tmp_path: Path, model: FakeModel, name: str
) -> None:
    """Claude Code gives its model a tool for it; Codex hands the schema to the service."""
    run = Run(tmp_path, model)
    run.write("m.yaml", RECALL)
    answer = {"outcome": "known", "otherDescription": None}

    def answer_of(request: Request) -> Answer:
        if len(model.requests) == 1:
            return Answer("I have done it.")
        if "StructuredOutput" in request.tools:
            return Answer("so be it", tool=("StructuredOutput", answer))
        return Answer(json.dumps(answer))

    model.reset(answer_of)
    done = run.run("run", "m.yaml", *run.flags(name), env=run.environment, timeout_s=PATIENCE_S)
    done.assert_success()
    assert run.state()["reason"] == "known"
    first, second = model.requests[:2]
    is_asked_by_tool = name == "claude-code"
    assert "StructuredOutput" not in first.tools
    assert ("StructuredOutput" in second.tools) is is_asked_by_tool
    assert ("json_schema" in second.format) is not is_asked_by_tool
    assert "json_schema" not in first.format


@pytest.mark.parametrize("name", TOOLS)
def test_truth_15_seven_errors_of_the_service_are_outlasted(
    tmp_path: Path, model: FakeModel, name: str
) -> None:
    """As a bare Claude Code outlasts them; here each call of it gives up after two."""
    run = Run(tmp_path, model)
    run.write("m.yaml", RECALL)
    outcome = Answer(json.dumps({"outcome": "known"}))
    model.reset(lambda _: Answer(status=500) if len(model.requests) <= 7 else outcome)
    words = ("run", "m.yaml", *run.flags(name), "--retry-delay", "10")
    if name == "codex":
        # The settings of the test let it try once a call.
        run.write("m.yaml", RECALL.replace("initialStep", QUICK_EIGHT))
        words = ("run", "m.yaml", *run.flags(name))
    done = run.run(*words, env=run.environment, timeout_s=PATIENCE_S)
    done.assert_success()
    assert run.state()["reason"] == "known"
    assert "of 7 in" in done.stderr if name == "codex" else "of 5 in" in done.stderr
    assert "overloaded" in done.stderr
