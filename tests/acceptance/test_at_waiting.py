"""Waiting for files, and what happens when time or patience runs out."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path

import pytest

from tests.acceptance.fakes import Stage
from tests.promises.processes import is_alive


def dropping(stage: Stage, *names: str, pause_s: float = 0.3) -> AbstractContextManager[None]:
    """Write files one by one, once the run has begun."""

    def drop() -> None:
        for name in names:
            time.sleep(pause_s)
            stage.write(name, "here")

    return stage.once_started(drop)


WAIT = """
    version: "1.1"
    steps:
      - {{name: Start, command: ["touch", "started"]}}
      - name: Wait
        wait_for: {{glob: "replies/*.task", {more}}}
      - {{name: After, command: ["ls", "replies"]}}
"""


def test_at_017_a_wait_ends_when_the_file_appears(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    with dropping(stage, "replies/one.task"):
        played = stage.play(WAIT.format(more="timeout_sec: 30, poll_ms: 20"))
    step = played.step("Wait")
    assert (step["status"], step["files"]) == ("completed", ["replies/one.task"])
    assert step["timed_out"] is False
    assert played.step("After")["output"] == "one.task\n"


def test_at_017_enough_files_must_be_there(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"replies/a.task": "early", "replies/a.tmp": "no task"})
    with dropping(stage, "replies/b.task", "replies/c.task"):
        played = stage.play(WAIT.format(more="timeout_sec: 30, poll_ms: 20, min_count: 3"))
    assert played.step("Wait")["files"] == [f"replies/{name}.task" for name in "abc"]


def test_at_018_a_wait_times_out(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    played = stage.play(WAIT.format(more="timeout_sec: 0.4, poll_ms: 50"), exit_code=1)
    step = played.step("Wait")
    assert (step["status"], step["exit_code"], step["timed_out"]) == ("failed", 124, True)
    assert step["files"] == []
    assert step["wait_duration_ms"] >= 400
    assert "After" not in played.state["steps"]
    assert played.state["status"] == "failed"


def test_at_018_a_handler_takes_the_timeout(tmp_path: Path) -> None:
    played = Stage(tmp_path).play("""
        version: "1.1"
        steps:
          - name: Wait
            wait_for: {glob: "never/*", timeout_sec: 0.2, poll_ms: 50}
            on: {failure: {goto: Told}}
          - {name: Skipped, command: ["true"]}
          - {name: Told, command: ["echo", "${steps.Wait.exit_code} ${steps.Wait.timed_out}"]}
    """)
    assert played.step("Told")["output"] == "124 true\n"
    assert "Skipped" not in played.state["steps"]


def test_at_019_a_wait_is_recorded(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"replies/b.task": "", "replies/a.task": "", "started": ""})
    step = stage.play(WAIT.format(more="timeout_sec: 60")).step("Wait")
    assert step["files"] == ["replies/a.task", "replies/b.task"]
    assert (step["poll_count"], step["timed_out"]) == (1, False)
    assert 0 <= step["wait_duration_ms"] < 60_000


def test_at_019_polls_and_time_are_counted(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    with dropping(stage, "replies/one.task", pause_s=0.5):
        step = stage.play(WAIT.format(more="timeout_sec: 30, poll_ms: 100")).step("Wait")
    # Half a second in steps of a tenth; a busy machine may look less often, never more.
    assert 2 <= step["poll_count"] <= step["wait_duration_ms"] / 100 + 2
    assert 300 <= step["wait_duration_ms"] < 20_000


STUBBORN = """
    sh -c 'trap "" TERM; echo $$ > inner; while :; do sleep 0.1; done' &
    trap 'echo asked >> asked' TERM
    echo $$ > outer
    echo begun
    while :; do sleep 0.1; done
"""


@pytest.mark.parametrize("kind", ['command: ["sh", "tool.sh"]', "provider: tool"])
def test_at_020_a_timeout_ends_the_program(tmp_path: Path, kind: str) -> None:
    stage = Stage(tmp_path, {"tool.sh": STUBBORN})
    played = stage.play(
        f"""
        version: "1.1"
        providers: {{tool: {{command: ["sh", "tool.sh"]}}}}
        steps:
          - name: Slow
            {kind}
            timeout_sec: 5
          - {{name: After, command: ["true"]}}
        """,
        exit_code=1,
    )
    step = played.step("Slow")
    assert (step["status"], step["exit_code"]) == ("failed", 124)
    assert step["duration_ms"] >= 5000
    assert "time" in step["error"]["message"].lower()
    assert step["output"] == "begun\n"
    # It was asked first, and then it was ended, children and all.
    assert (stage.folder / "asked").exists()
    for name in ("outer", "inner"):
        assert not is_alive(int((stage.folder / name).read_text()))


def test_at_020_a_handler_takes_the_timeout(tmp_path: Path) -> None:
    played = Stage(tmp_path).play("""
        version: "1.1"
        steps:
          - {name: Slow, command: ["sleep", "60"], timeout_sec: 0.3, on: {failure: {goto: Told}}}
          - {name: Told, command: ["echo", "${steps.Slow.exit_code}"]}
    """)
    assert played.step("Told")["output"] == "124\n"


RETRIES = """
    version: "1.1"
    providers:
      tool: {{command: ["tool"]}}
      slow: {{command: ["sh", "tool.sh"]}}
    steps:
      - name: Try
        {body}
"""


def failing_stage(tmp_path: Path, code: int, successes_from: int) -> Stage:
    stage = Stage(tmp_path)
    stage.program("tool", f"sys.exit(0 if number >= {successes_from} else {code})")
    return stage


def test_at_021_providers_are_retried_with_a_delay(tmp_path: Path) -> None:
    stage = failing_stage(tmp_path, 1, 3)
    body = "provider: tool\n        retries: {max: 2, delay_ms: 300}"
    step = stage.play(RETRIES.format(body=body)).step("Try")
    assert (step["exit_code"], step["attempts"]) == (0, 3)
    times = [call.at for call in stage.calls("tool")]
    assert all(later - earlier >= 0.3 for earlier, later in pairwise(times))


def test_at_021_retries_run_out(tmp_path: Path) -> None:
    stage = failing_stage(tmp_path, 1, 9)
    body = "provider: tool\n        retries: {max: 2}"
    step = stage.play(RETRIES.format(body=body), exit_code=1).step("Try")
    assert (step["exit_code"], step["attempts"]) == (1, 3)
    assert len(stage.calls("tool")) == 3


@pytest.mark.parametrize("code", [2, 3, 77])
def test_at_021_other_exit_codes_of_providers_are_final(tmp_path: Path, code: int) -> None:
    stage = failing_stage(tmp_path, code, 2)
    body = "provider: tool\n        retries: {max: 2}"
    step = stage.play(RETRIES.format(body=body), exit_code=1).step("Try")
    assert (step["exit_code"], step["attempts"]) == (code, 1)
    assert len(stage.calls("tool")) == 1


def test_at_021_timeouts_are_retried(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"tool.sh": "[ -e tried ] && exit 0; touch tried; sleep 60"})
    body = "provider: slow\n        retries: {max: 1}\n        timeout_sec: 5"
    step = stage.play(RETRIES.format(body=body)).step("Try")
    assert (step["exit_code"], step["attempts"]) == (0, 2)


def test_at_021_commands_are_retried_only_on_request(tmp_path: Path) -> None:
    plain = failing_stage(tmp_path, 1, 2)
    text = RETRIES.format(body='command: ["tool"]')
    step = plain.play(text, "--max-retries", "3", exit_code=1).step("Try")
    assert (step["attempts"], len(plain.calls("tool"))) == (1, 1)
    asked = RETRIES.format(body='command: ["tool"]\n        retries: {max: 1}')
    assert plain.play(asked).step("Try")["exit_code"] == 0


def test_at_021_the_flag_is_for_providers(tmp_path: Path) -> None:
    stage = failing_stage(tmp_path, 1, 3)
    text = RETRIES.format(body="provider: tool")
    step = stage.play(text, "--max-retries", "2", "--retry-delay", "200").step("Try")
    assert step["attempts"] == 3
    times = [call.at for call in stage.calls("tool")]
    assert all(later - earlier >= 0.2 for earlier, later in pairwise(times))


def test_at_018_a_wait_that_timed_out_waits_anew_on_resume(tmp_path: Path) -> None:
    """`resume` gives the whole time again: it is for whoever has mended the cause."""
    stage = Stage(tmp_path)
    waiting = """
        version: "1.1"
        name: patience
        steps:
          - name: Wait
            wait_for: {glob: "answer.txt", timeout_sec: 2, poll_ms: 50}
    """
    stage.play(waiting, exit_code=1)
    time.sleep(1)
    late = threading.Timer(0.5, lambda: stage.write("answer.txt", "here"))
    late.start()
    try:
        stage.run("resume", "latest").assert_success()
    finally:
        late.join()
