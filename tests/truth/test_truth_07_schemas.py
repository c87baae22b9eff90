"""7: a schema that takes for ever on some output has a time limit, and obeys signals meanwhile."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from orchestrate.cli.main import run_command
from orchestrate.engine import checks
from orchestrate.engine.schemas import is_quick, judge
from tests.acceptance.fakes import Stage, read_state
from tests.promises.processes import end_all_in, wait_until

ENDLESS = {"type": "string", "pattern": "^(a+)+$"}
UNIQUE = {"type": "array", "uniqueItems": True}
FINE = {"type": "string"}
TRAP = json.dumps("a" * 50 + "!")
HEAD = 'version: "1.3"\nname: w\n'


def workflow(more: str = "", command: str = "echo x >> ledger; cat out.json") -> str:
    return (
        HEAD
        + f"""\
steps:
  - name: Check
    command: ["sh", "-c", {json.dumps(command)}]
    output_capture: json
    output_schema: schema.json
{more}  - name: After
    command: ["touch", "after"]
"""
    )


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    made.write("out.json", TRAP)
    made.write("schema.json", json.dumps(ENDLESS))
    yield made
    end_all_in(tmp_path)


def ledger(stage: Stage) -> int:
    return len((stage.folder / "ledger").read_text().splitlines())


def latest(stage: Stage) -> Path:
    return stage.runs_folder / os.readlink(stage.runs_folder / "latest")


def is_checking(stage: Stage, number: int = 1) -> bool:
    """Has the check begun, for the so-manieth time?"""
    journal = stage.runs_folder / "latest" / "keeper" / "journal"
    return journal.exists() and journal.read_bytes().count(b" claim check/") >= number


@contextmanager
def while_checking(stage: Stage, *words: str, number: int = 1) -> Iterator[Popen[str]]:
    with stage.command(*words) as process:
        wait_until(lambda: is_checking(stage, number), "no check began")
        yield process


@pytest.mark.parametrize("kind", ["pattern", "uniqueItems"])
def test_truth_07_a_check_ends_with_the_steps_time_limit(stage: Stage, kind: str) -> None:
    if kind == "uniqueItems":
        stage.write("schema.json", json.dumps(UNIQUE))
        stage.write("out.json", json.dumps([{"n": number, "s": "x"} for number in range(12_000)]))
    played = stage.play(workflow("    timeout_sec: 6\n"), exit_code=1)
    step = played.step("Check")
    assert (step["exit_code"], step["error"]["exit_code"]) == (124, 124)
    assert "schema.json" in step["error"]["message"]
    assert "time limit" in step["error"]["message"]
    assert step["duration_ms"] < 45_000
    assert not (stage.folder / "after").exists()


def test_truth_07_without_a_limit_a_check_has_its_own(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert checks.PATIENCE_S == 10.0
    monkeypatch.setattr(checks, "PATIENCE_S", 0.5)
    stage.write("w.yaml", workflow())
    monkeypatch.chdir(stage.folder)
    for name, value in stage.surroundings.items():
        monkeypatch.setenv(name, value)
    assert run_command(["run", "w.yaml", "--quiet"]) == 1
    step = read_state(latest(stage))["steps"]["Check"]
    assert (step["exit_code"], ledger(stage)) == (2, 1)
    assert "longer than 0.5 s" in step["error"]["message"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_truth_07_a_signal_ends_a_check_and_resume_asks_nobody_again(
    stage: Stage, number: signal.Signals, code: int
) -> None:
    stage.write("w.yaml", workflow())
    with while_checking(stage, "run", "w.yaml") as process:
        process.send_signal(number)
        assert process.wait(60) == code
    with while_checking(stage, "resume", "latest", number=2) as process:
        process.send_signal(number)
        assert process.wait(60) == code
    assert read_state(latest(stage))["status"] == "paused"
    # The schema is a part of the definition: a mended one starts the run over (truth 22).
    stage.write("schema.json", json.dumps(FINE))
    told = stage.run("resume", "latest").assert_exit(2)
    assert "has changed: schema.json" in told.stderr
    assert (ledger(stage), (stage.folder / "after").exists()) == (1, False)
    stage.run("resume", "latest", "--force-restart").assert_success()
    assert (ledger(stage), (stage.folder / "after").exists()) == (2, True)


def test_truth_07_cancel_works_while_a_check_goes_on(stage: Stage) -> None:
    stage.write("w.yaml", workflow())
    with while_checking(stage, "run", "w.yaml") as process:
        stage.run("cancel", "latest").assert_success()
        process.wait(60)
    assert read_state(latest(stage))["status"] == "cancelled"


def test_truth_07_a_resume_after_a_kill_does_not_hang(stage: Stage) -> None:
    stage.write("w.yaml", workflow("    timeout_sec: 8\n"))
    with while_checking(stage, "run", "w.yaml") as process:
        process.kill()
    result = stage.run("resume", "latest").assert_exit(1)
    step = stage.look(result).step("Check")
    assert (step["exit_code"], ledger(stage)) == (124, 1)
    stage.run("resume", "latest").assert_exit(1)  # its failure was recorded; a new attempt
    assert ledger(stage) == 2


@pytest.mark.parametrize("provider", ["claude", "own"])
def test_truth_07_an_agents_answer_is_checked_within_a_limit(stage: Stage, provider: str) -> None:
    stage.claude(f"def answer(prompt):\n    return {TRAP!r}\n")
    stage.write("p.md", "Say it.")
    played = stage.play(
        HEAD
        + f"""\
providers:
  own:
    command: ["cat", "out.json"]
    input_mode: stdin
steps:
  - name: Ask
    provider: {provider}
    input_file: p.md
    output_capture: json
    output_schema: schema.json
    timeout_sec: 8
    on: {{failure: {{goto: Mend}}}}
  - name: Mend
    command: ["touch", "mended"]
"""
    )
    assert played.step("Ask")["exit_code"] == 124
    assert (stage.folder / "mended").exists()


def test_truth_07_a_check_that_is_quick_starts_no_process(stage: Stage) -> None:
    stage.write("schema.json", json.dumps({"type": "object", "required": ["a"]}))
    stage.write("out.json", '{"a": 1}')
    stage.play(workflow())
    assert not is_checking(stage)
    stage.write("out.json", '{"b": 1}')
    played = stage.play(workflow(), exit_code=1)
    assert played.step("Check")["error"]["context"] == {"json_schema_errors": ["/a: is missing"]}


def test_truth_07_a_check_in_a_process_says_the_same(stage: Stage) -> None:
    """And it leaves no files of its own behind."""
    schema = {"type": "array", "items": {"pattern": "^(?:ab)+$"}, "uniqueItems": True}
    stage.write("schema.json", json.dumps(schema))
    stage.write("out.json", json.dumps(["ab", "ab", "c", 1]))
    played = stage.play(workflow(), exit_code=1)
    assert is_checking(stage)
    error = played.step("Check")["error"]
    told = judge(schema, ["ab", "ab", "c", 1]).errors
    assert len(told) == 2
    assert error["context"]["json_schema_errors"] == told
    assert not [path for path in os.listdir(played.root / "logs") if "check" in path]
    stage.write("schema.json", '{"pattern": "(", "type": "string"}')
    played = stage.play(workflow(), exit_code=1)
    assert "cannot be used" in played.step("Check")["error"]["message"]


def nested(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = [value]
    return value


TWICE = {"anyOf": [{"items": {"$ref": "#/$defs/a"}}, {"items": {"$ref": "#/$defs/a"}}]}
DOUBLING: dict[str, Any] = {
    f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)
}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (ENDLESS, "a" * 50),
        ({"patternProperties": {"(a|a)*$": True}}, {"a" * 50: 1}),
        ({"pattern": "^a*a*a*a*a*a*a*b"}, "a" * 200),
        ({"pattern": "a+b"}, "a" * 200_000),
        (UNIQUE, [{"n": n} for n in range(12_000)]),
        ({"$ref": "#/$defs/a", "$defs": {"a": TWICE}}, nested(190)),
        ({"$ref": "#/$defs/a0", "$defs": DOUBLING | {"a40": FINE}}, 1),
        ({"$ref": "other.json#/a"}, 1),
        ({"allOf": [{"type": "array"}] * 400, "unevaluatedItems": False}, [1]),
        ({"items": {"anyOf": [{"const": n} for n in range(400)]}}, list(range(100_000))),
    ],
)
def test_truth_07_what_may_take_long_is_never_taken_for_quick(schema: Any, value: Any) -> None:
    began = time.process_time()
    assert not is_quick(schema, value)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (True, {"a": [1, 2]}),
        ({"pattern": "^[a-z]{2}-[0-9]+$"}, "ab-" + "1" * 1000),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "array"}}}, ["x"] * 1000),
        ({**UNIQUE, "items": FINE}, [str(n) for n in range(100)]),
        ({"items": {"anyOf": [FINE, {"required": ["a"]}]}}, [{"b": "x" * 100}] * 1000),
        ({"anyOf": [FINE, {"items": {"pattern": "^a*b"}}]}, ["a" * 1000] * 100),
    ],
)
def test_truth_07_what_is_taken_for_quick_is_quick(schema: Any, value: Any) -> None:
    assert is_quick(schema, value)
    began = time.process_time()
    judge(schema, value)
    assert time.process_time() - began < 10


# A check that somebody else ends.


def kill_check(stage: Stage, number: int) -> None:
    """End the program of the so-manieth check, as the system does when memory is short."""
    wait_until(lambda: is_checking(stage, number), "no check began")
    wait_until(lambda: bool(checking_in(stage)), "no check runs")
    for pid in checking_in(stage):
        os.kill(pid, signal.SIGKILL)


def checking_in(stage: Stage) -> list[int]:
    """The processes of checks whose question is of this workspace."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            is_ours = words and os.readlink(entry / "cwd") == str(stage.folder)
        except OSError:
            continue
        if is_ours and b"json, sys" in words:
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("who", ["agent", "command"])
def test_truth_07_a_check_that_is_killed_is_made_again(
    stage: Stage, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = workflow()
    if who == "agent":
        stage.claude(
            f"def answer(prompt):\n    open('ledger', 'a').write('x\\n')\n    return {TRAP!r}\n"
        )
        stage.write("p.md", "Say it.")
        line = next(line for line in text.splitlines() if "command" in line)
        text = text.replace(line, "    provider: claude\n    input_file: p.md", 1)
    stage.write("w.yaml", text)
    with stage.command("run", "w.yaml") as process:
        for number in (1, 2, 3):
            kill_check(stage, number)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 5
    assert "could not be checked" in told
    assert read_state(latest(stage))["status"] == "paused"
    monkeypatch.setattr(checks, "PATIENCE_S", 0.5)
    told = stage.run("resume", "latest").assert_exit(1).stderr
    assert "longer than 0.5 s" in told
    assert (ledger(stage), (stage.folder / "after").exists()) == (1, False)


def test_truth_07_a_steps_duration_includes_its_check(stage: Stage) -> None:
    played = stage.play(workflow("    timeout_sec: 3\n"), exit_code=1)
    assert played.step("Check")["duration_ms"] >= 2000
