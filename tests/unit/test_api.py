"""The Python interface: in all dialects, without click, and as its page shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest

import orchestrate
from docs.pages import REPOSITORY, read_page, write_file
from orchestrate import RunSettings
from orchestrate.errors import ConfigError, DefinitionError, UsageError
from orchestrate.plan.nodes import main_plan
from orchestrate.record import replace
from orchestrate.state.events import GateOpened, RunEnded, StepFinished
from orchestrate.view.run_view import RunView
from tests.cli.conftest import MACHINE

AGENT = "---\nname: helper\ndescription: Helps\n---\nYou help.\n"
RECIPE = """\
name: words
description: Asks for words.
version: "1.0.0"
context: {topic: none}
steps:
  - {id: ask, agent: helper, prompt: "About {{topic}}", output: said}
"""
WORKFLOW = """\
version: "1.1"
name: look
context: {file: none}
steps:
  - {name: Look, command: ["cat", "${context.file}"]}
"""
GATE = """\
name: gated
description: Waits for an approval.
version: "1.0.0"
stages:
  - name: first
    steps: [{id: one, agent: helper, prompt: One.}]
    approval: {required: true, prompt: "Go on?", timeout: 86400}
  - name: second
    steps: [{id: two, agent: helper, prompt: Two.}]
"""
REHEARSED = RunSettings(backend="rehearsal")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (
        (".orchestrate/agents/helper.md", AGENT),
        ("m.yaml", MACHINE),
        ("r.yaml", RECIPE),
        ("w.yaml", WORKFLOW),
        ("gate.yaml", GATE),
    ):
        write_file(tmp_path / name, text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_machine_runs_to_its_end(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = folder / "script.json"
    script.write_text(json.dumps({"clean": ["complete"]}))
    heard: list[str] = []
    result = orchestrate.start(
        "m.yaml",
        settings=replace(REHEARSED, script=str(script)),
        on_event=lambda event, _: heard.append(type(event).__name__),
    )
    assert (result.status, result.exit_code) == ("completed", 0)
    assert heard[0] == "RunStarted"
    assert {StepFinished.__name__, RunEnded.__name__} <= set(heard)
    assert result.folder == folder / ".orchestrate" / "runs" / result.run_id
    assert "[run:asks]" in (result.folder / "logs" / "orchestrator.log").read_text()
    assert capfd.readouterr() == ("", "")


def test_a_recipe_is_given_its_context_with_types(folder: Path) -> None:
    result = orchestrate.start(folder / "r.yaml", context={"topic": ["tea"]}, settings=REHEARSED)
    assert result.status == "completed"
    run = orchestrate.read_run(result.run_id)
    assert run.document["context"]["topic"] == ["tea"]
    assert not run.is_live
    with pytest.raises(UsageError, match="'step' is a reserved name"):
        orchestrate.start("r.yaml", context={"step": 1})
    with pytest.raises(UsageError, match="--context cannot be used with a machine"):
        orchestrate.start("m.yaml", context={"topic": "tea"})


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), b"x", Path()], ids=repr)
def test_context_that_is_no_json_is_refused(folder: Path, value: object) -> None:
    with pytest.raises(UsageError, match="context: 'file' cannot be written as JSON"):
        orchestrate.start("w.yaml", context={"file": value})
    with pytest.raises(UsageError, match="the name 1 is not a text"):
        orchestrate.start("w.yaml", context={1: "x"})  # type: ignore[dict-item]
    assert not (folder / ".orchestrate" / "runs").exists()


def test_context_that_nothing_reads_is_told(folder: Path) -> None:
    (folder / "a.txt").write_text("here")
    result = orchestrate.start("w.yaml", context={"file": "a.txt", "fiel": 1})
    (told,) = result.messages
    assert told.endswith("context: nothing here reads 'fiel' (did you mean 'file'?)")


@pytest.mark.usefixtures("folder")
def test_settings_are_no_mapping() -> None:
    with pytest.raises(UsageError, match="settings are a RunSettings, not dict"):
        orchestrate.start("w.yaml", settings={"debug": True})  # type: ignore[arg-type]


def test_names_are_listed() -> None:
    assert set(orchestrate.__all__) <= set(dir(orchestrate))


def test_a_listener_may_decide_about_a_gate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Far longer than a busy machine takes for the run: only a wait for itself takes that long.
    monkeypatch.setattr("orchestrate.app.deciding.decide._TAKEN_OVER_IN_S", 300.0)

    def approve(event: object, _: object) -> None:
        if isinstance(event, GateOpened):
            assert orchestrate.decide("approved").status == "running"

    began = time.monotonic()
    (waits := folder / "waits.yaml").write_text("first: [waits]")
    settings = replace(REHEARSED, script=str(waits))
    result = orchestrate.start("gate.yaml", settings=settings, on_event=approve)
    assert result.status == "completed"
    assert time.monotonic() - began < 200, "it waited for itself"


def test_a_workflow_fails_and_goes_on(folder: Path) -> None:
    result = orchestrate.start("w.yaml", context={"file": "a.txt"})
    assert (result.status, result.exit_code) == ("failed", 1)
    (folder / "a.txt").write_text("here")
    result = orchestrate.resume(workspace=folder)
    assert result.status == "completed"
    assert orchestrate.read_run().document["steps"]["Look"]["output"] == "here"
    again = orchestrate.resume(result.run_id)
    assert again.exit_code == 0
    assert again.messages == (f"run {result.run_id} is completed; there is nothing left to do",)


@pytest.mark.parametrize(("decision", "status"), [("approved", "completed"), ("denied", "failed")])
def test_a_parked_gate_is_decided(
    folder: Path, decision: Literal["approved", "denied"], status: str
) -> None:
    runs = folder / "elsewhere"
    (waits := folder / "waits.yaml").write_text("first: [waits]")
    settings = replace(REHEARSED, script=str(waits))
    result = orchestrate.start("gate.yaml", state_dir=runs, settings=settings)
    assert (result.status, result.exit_code) == ("paused", 6)
    decided = orchestrate.decide(decision, message="seen", state_dir=runs)
    assert (decided.stage, decided.decision, decided.message) == ("first", decision, "seen")
    assert orchestrate.resume(state_dir=runs).status == status
    with pytest.raises(UsageError):
        orchestrate.decide("approved", state_dir=runs)


def test_an_invalid_file_has_all_its_findings(folder: Path) -> None:
    (folder / "bad.yaml").write_text(WORKFLOW.replace("name: look", "nmae: look"))
    for act in (orchestrate.compile_file, orchestrate.start):
        with pytest.raises(DefinitionError) as caught:
            act("bad.yaml")
        assert {finding.code for finding in caught.value.diagnostics} >= {"E101"}
    assert main_plan(orchestrate.compile_file("m.yaml")).dialect == "machine"
    assert not (folder / ".orchestrate" / "runs").exists()


def test_a_run_is_read_while_another_process_works_on_it(folder: Path) -> None:
    (folder / "slow.yaml").write_text(
        'version: "1.1"\nname: slow\nsteps:\n'
        '  - {name: First, command: ["echo", "first"]}\n'
        '  - {name: Wait, command: ["sh", "-c", "until test -e go; do sleep 0.05; done"]}\n'
    )
    script = "import orchestrate, sys; sys.exit(orchestrate.start('slow.yaml').exit_code)"
    other = subprocess.Popen([sys.executable, "-c", script])
    try:
        run = _await_live()
        assert run.status == "running"
        assert run.document["steps"]["First"]["output"] == "first\n"
        with pytest.raises(ConfigError, match="in use"):
            orchestrate.resume(run.run.id)
    finally:
        (folder / "go").touch()
        assert other.wait(60) == 0
    assert orchestrate.read_run().status == "completed"


def _await_live() -> RunView:
    """The latest run, once its first step is done and another process works on it."""
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        with suppress(UsageError):  # there is no run yet
            run = orchestrate.read_run()
            if run.is_live and "output" in run.document["steps"].get("First", {}):
                return run
        time.sleep(0.05)
    raise AssertionError("the other process has not come so far")


def test_a_run_in_a_thread(folder: Path) -> None:
    (folder / "a.txt").touch()
    results: list[orchestrate.RunResult] = []
    thread = threading.Thread(
        target=lambda: results.append(orchestrate.start("w.yaml", context={"file": "a.txt"}))
    )
    thread.start()
    thread.join(60)
    assert [result.status for result in results] == ["completed"]


def test_a_fault_of_the_listener_does_not_end_the_run(folder: Path) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("mine")

    (folder / "a.txt").touch()
    result = orchestrate.start("w.yaml", context={"file": "a.txt"}, on_event=fail)
    assert result.status == "completed"
    assert "on_event cannot be shown any more: ZeroDivisionError('mine')" in "".join(
        result.messages
    )


def test_it_loads_no_click(folder: Path) -> None:
    script = (
        "import sys, orchestrate\n"
        "assert not [m for m in sys.modules if m.startswith('orchestrate.')], 'import is cheap'\n"
        "open('waits.yaml', 'w').write('first: [waits]')\n"
        "settings = orchestrate.RunSettings(backend='rehearsal', script='waits.yaml')\n"
        "result = orchestrate.start('gate.yaml', settings=settings)\n"
        "orchestrate.decide('approved', result.run_id)\n"
        "assert orchestrate.resume().exit_code == 0\n"
        "orchestrate.read_run(), orchestrate.compile_file('m.yaml')\n"
        "print([m for m in sys.modules if (m + '.').startswith(('click.', 'orchestrate.cli.'))])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, cwd=folder
    )
    assert done.stdout == b"[]\n", done.stderr.decode()


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'strat'"):
        _ = orchestrate.strat
    assert {name for name in orchestrate.__all__ if not name.startswith("_")} == {
        "RunResult", "RunSettings", "compile_file", "decide", "read_run", "resume", "start",
    }  # fmt: skip


PAGE = read_page(REPOSITORY / "docs" / "reference" / "python.md")
EXAMPLES = [fence for fence in PAGE.fences if fence.language == "python"]


@pytest.mark.parametrize("name", [fence.file for fence in EXAMPLES])
def test_the_examples_of_the_page_run(folder: Path, name: str) -> None:
    for fence in PAGE.fences:
        if fence.file is not None:
            write_file(folder / fence.file, fence.text)
    done = subprocess.run(
        [sys.executable, name], cwd=folder, env={**os.environ}, capture_output=True,
        encoding="utf-8", check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_page_has_every_function() -> None:
    for name in ("compile_file", "start", "resume", "read_run", "decide"):
        assert f"| `{name}(" in PAGE.text
    assert len(EXAMPLES) == 3
