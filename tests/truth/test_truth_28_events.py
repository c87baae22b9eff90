"""`--events`: a run as JSON lines, as it happens, and the same for a run of yesterday."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrate.show import queued_output
from orchestrate.show.output import STALLED
from tests.acceptance.fakes import Stage, read_state
from tests.gates import waiting_at
from tests.machines.fakes import PAIR, ROUND, Scene, machine, said
from tests.promises.processes import wait_until
from tests.truth.test_truth_28_state import FIELDS, write_gated

COMMANDS = """
    version: "1.1"
    name: commands
    steps:
      - {name: List, command: [printf, "a\\nb\\n"], output_capture: lines}
      - name: Each
        for_each:
          items_from: steps.List.lines
          steps:
            - {name: Say, command: [echo, "${item}"]}
      - {name: Fail, command: ["false"]}
"""
ALWAYS = ["seq", "at", "event", "messages", "run_id", "dialect", *FIELDS, "data"]


def lines_of(text: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in text.splitlines()]
    for event in events:
        assert [name for name in ALWAYS if name not in event] == []
    return events


def told(events: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in events]


def named(events: list[dict[str, Any]], message: str) -> list[dict[str, Any]]:
    return [event for event in events if message in event["messages"]]


def test_truth_28_a_machines_events_have_the_names_of_a_16(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"text": "no block"}, said("broken"), said("complete"), said("fine"))
    scene.write("m.yaml", ROUND)

    result = scene.run("run", "m.yaml", "--events").assert_success()

    events = lines_of(result.stdout)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    (started,) = named(events, "recipe_started")
    assert (started["recipe_id"], started["recipe_label"]) == ("trial", "trial")
    assert (started["current_step"], started["step_count"]) == ("review", 1)
    steps = [(e["step"], e["step_count"]) for e in named(events, "recipe_step_started")]
    assert steps == [("review", 1), ("fix", 2), ("review", 3)]
    moves = [(e["from_step"], e["to_step"]) for e in named(events, "recipe_step_transition")]
    assert moves == [("review", "fix"), ("fix", "review")]
    (retry,) = named(events, "orchestration_retry")
    assert retry["step"] == "review"
    assert "No JSON block" in retry["error"]
    (exited,) = named(events, "recipe_exited")
    assert (exited["reason"], exited["error"]) == ("reviewed", None)
    assert named(events, "turn_complete") == [exited]
    finished = [event for event in events if event["event"] == "step-finished"]
    assert [event["outcome"] for event in finished] == ["broken", "complete", "fine"]
    assert all(event["sessionId"] for event in finished)
    assert "Exit:" not in result.stdout
    assert "starts m.yaml" in result.stderr


COUNTED = {
    "machine": """
        id: m
        label: m
        description: a command, a gate, a check that fails once, and a call
        initialStep: first
        steps:
          first:
            command: ["true"]
            onOutcome: {passed: {nextStep: ask}, failed: {nextStep: ask}}
          ask:
            approval: {prompt: "Go on?", timeout: 1h}
            onOutcome: {approved: {nextStep: work}, denied: {action: exit, reason: no}}
          work:
            prompt: Work.
            outcomes: [done, other]
            check: {command: "test -e checked || { touch checked; exit 1; }"}
            onOutcome: {done: {nextStep: call}, other: {action: exit, reason: other}}
          call:
            call: child.yaml
            onOutcome:
              completed: {action: exit, reason: done}
              failed: {action: exit, reason: failed, status: failed}
    """,
    "recipe": """
        name: staged
        description: a stage, its gate, a loop and a call
        version: 1.0.0
        context: {items: [a, b]}
        stages:
          - {name: one, steps: [{id: a, type: bash, command: "true"}],
             approval: {required: true, timeout: 600, prompt: "Go on?"}}
          - name: two
            steps:
              - {id: each, type: bash, foreach: "{{items}}", command: "true"}
              - {id: call, type: recipe, recipe: child.yaml}
    """,
    "workflow": """
        version: "1.4"
        name: w
        steps:
          - {name: Ask, approval: {prompt: "Go on?", timeout: 1h}}
          - {name: Call, call: child.yaml}
    """,
}
CHILD = """
    name: child
    description: a loop
    version: 1.0.0
    context: {items: [a, b]}
    steps:
      - {id: skipped, type: bash, command: "true", condition: "{{items}} == 'b'"}
      - {id: each, type: bash, foreach: "{{items}}", command: "true"}
"""


@pytest.mark.parametrize("dialect", COUNTED)
def test_truth_28_events_count_steps_as_the_state_does(tmp_path: Path, dialect: str) -> None:
    scene = Scene(tmp_path, said("done"), said("done"))
    scene.write("child.yaml", CHILD)
    scene.write("w.yaml", COUNTED[dialect])
    scene.run("run", "w.yaml").assert_exit(6)
    scene.run("approve").assert_success()
    if scene.run("status", "--json").json()["status"] != "completed":
        scene.run("resume").assert_success()
    *_, last = lines_of(scene.run("logs", "--events").assert_success().stdout)
    assert last["event"] == "run-ended"
    assert last["stepCount"] == read_state(scene.runs_folder / "latest")["engine"]["steps_run"]


@pytest.mark.parametrize("dialect", ["workflow", "recipe"])
def test_truth_28_old_runs_tell_the_same_as_live_ones(tmp_path: Path, dialect: str) -> None:
    stage = Stage(tmp_path)
    write_gated(stage, "x.yaml")
    if dialect == "workflow":
        stage.write("x.yaml", COMMANDS)
    flags = () if dialect == "workflow" else waiting_at(stage, "draft")
    code = 1 if dialect == "workflow" else 6
    live = stage.run("run", "x.yaml", "--events", *flags).assert_exit(code)
    (stage.folder / "x.yaml").unlink()

    old = stage.run("logs", "latest", "--events").assert_success()

    assert old.stdout == live.stdout
    events = lines_of(live.stdout)
    assert (events[0]["event"], events[-1]["event"]) == ("run-started", "run-ended")
    if dialect == "workflow":
        assert "Each[1]/Say" in [event["step"] for event in events]
        assert "exit code 1" in [e["error"] for e in events if e["event"] == "step-finished"][-1]
    last = stage.run("logs", "latest", "--events", "-n", "2").stdout
    assert lines_of(last) == events[-2:]


def test_truth_28_resume_tells_what_happens_from_there_on(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), {"exit": 1, "stderr": "no"}, said("done"))
    scene.write("m.yaml", PAIR)
    scene.run("run", "m.yaml").assert_exit(4)

    events = lines_of(scene.run("resume", "latest", "--events").assert_success().stdout)

    assert told(events)[0] == "run-resumed"
    assert [e["step"] for e in events if e["event"] == "step-started"] == ["second"]
    assert events[-1]["stepCount"] == 2
    whole = lines_of(scene.run("logs", "latest", "--events").stdout)
    assert whole[-len(events) :] == events


def test_truth_28_events_come_as_they_happen(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", wait_for="go"), said("done"))
    with scene.started(PAIR, "--events") as process:
        assert process.stdout is not None
        seen: list[dict[str, Any]] = []
        while not named(seen, "recipe_step_started"):
            seen += lines_of(process.stdout.readline())
        scene.await_call(1)
        assert process.poll() is None
        with scene.command("logs", "latest", "-f", "--events") as follower:
            assert follower.stdout is not None
            first = lines_of(follower.stdout.readline())
            assert told(first) == ["run-started"]
            scene.let_go()
            rest, _ = process.communicate(timeout=60)
            followed, _ = follower.communicate(timeout=60)
    assert process.returncode == follower.returncode == 0
    assert lines_of(followed)[-1] == lines_of(rest)[-1]


def test_truth_28_a_reader_that_goes_away_does_not_hurt_the_run(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", wait_for="go"), said("done"))
    with scene.started(PAIR, "--events") as process:
        assert process.stdout is not None
        process.stdout.readline()
        scene.await_call(1)
        process.stdout.close()
        scene.let_go()
        wait_until(lambda: process.poll() is not None, "the run did not end")
    assert process.returncode == 0
    assert scene.happened("run-ended")[-1]["status"] == "completed"


MANY = """
    version: "1.1"
    name: many
    steps:
      - {name: List, command: [seq, "1", "300"], output_capture: lines}
      - name: Each
        for_each:
          items_from: steps.List.lines
          steps:
            - {name: Say, command: [echo, "${item}"]}
      - {name: Last, command: [sh, -c, "echo done >> ledger"]}
"""


@pytest.mark.parametrize("command", ["run", "resume"])
def test_truth_28_a_reader_that_stalls_stops_no_work(tmp_path: Path, command: str) -> None:
    """A pipe takes 64 KiB; a run that printed more used to wait for its reader for ever."""
    stage = Stage(tmp_path)
    stage.write("w.yaml", MANY)
    words = ["run", "w.yaml"]
    if command == "resume":
        stage.write("w.yaml", MANY.replace("[seq", "[sh, -c, 'test -e good && seq 1 300', x"))
        stage.run(*words).assert_exit(1)
        stage.write("good", "")
        words = ["resume", "latest"]
    with stage.command(*words, "--events") as process:
        wait_until((stage.folder / "ledger").exists, "the run stands still")
        latest = stage.runs_folder / "latest"
        wait_until(lambda: read_state(latest)["status"] == "completed", "it does not end")
        # Read after all, it is complete.
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert len(out) > 100_000
    events = lines_of(out)
    assert (told(events)[-1], events[-1]["seq"]) == (
        "run-ended",
        events[0]["seq"] + len(events) - 1,
    )


def test_truth_28_a_reader_that_never_reads_is_left_behind(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.write("w.yaml", MANY)
    with stage.command("run", "w.yaml", "--events") as process:
        assert process.stderr is not None
        said = process.stderr.read()  # until it ends
        assert process.wait(60) == 5
    assert "has stopped reading" in said
    assert "orchestrate logs RUN --events" in said
    assert read_state(stage.runs_folder / "latest")["status"] == "completed"
    assert (stage.folder / "ledger").read_text().split() == ["done"]
    whole = stage.run("logs", "latest", "--events").assert_success().stdout
    assert told(lines_of(whole))[-1] == "run-ended"


def test_truth_28_what_waits_for_a_reader_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queued_output, "MOST_BYTES", 100_000)
    read, write = os.pipe()
    given_up: list[Exception] = []
    monkeypatch.setattr(queued_output, "give_up_output", given_up.append)
    with open(read, "rb"), open(write, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        output = queued_output.QueuedOutput()
        for _ in range(300):
            output.write("x" * 999 + "\n")
        assert [str(error) for error in given_up] == [STALLED]
        output.close(0.1)


@pytest.mark.parametrize("flags", [("--events",), ()])
def test_truth_33_a_full_disk_for_the_answer_is_not_exit_0(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    scene = Scene(tmp_path, said("done"), said("done"))
    scene.write("m.yaml", PAIR)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "orchestrate", "run", "m.yaml", *flags],
            cwd=scene.folder,
            env={**os.environ, **scene.surroundings},
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert done.returncode == 5
    assert b"No space left on device" in done.stderr
    assert scene.happened("run-ended")[-1]["status"] == "completed"
    assert len(scene.ledger()) == 2, "the work itself went on"


def test_truth_28_events_are_masked(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.write(
        "w.yaml",
        """
        version: "1.1"
        name: masked
        steps:
          - {name: Say, command: [sh, -c, 'echo "$TOP"; echo "$TOP" >&2; exit 3'], secrets: [TOP]}
    """,
    )
    secret = "hush-hush-hush"
    result = stage.run("run", "w.yaml", "--events", env={"TOP": secret}).assert_exit(1)

    assert "step-finished" in told(lines_of(result.stdout))
    assert secret not in result.stdout + result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("run", "m.yaml", "--events", "--json"),
        ("run", "m.yaml", "--events", "--detach"),
        ("run", "m.yaml", "--events", "--dry-run"),
        ("logs", "latest", "--events", "--json"),
        ("logs", "latest", "first", "--events"),
        ("resume", "latest", "--events", "--json"),
    ],
)
def test_truth_28_events_exclude_one_document(tmp_path: Path, command: tuple[str, ...]) -> None:
    scene = Scene(tmp_path)
    scene.write("m.yaml", machine({"first": {"done": "!over"}}))

    result = scene.run(*command).assert_exit(2)

    assert "--events" in result.stderr
    assert not scene.has_runs()
