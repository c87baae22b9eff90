"""What becomes of an item's file when its iteration has ended (C 1.2)."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.fakes import Played, Stage

WORK = """
    version: "1.2"
    context: {{bad: inbox/b.task}}
    {more}
    steps:
      - {{name: List, command: ["sh", "-c", "ls inbox/*.task"], output_capture: lines}}
      - name: Work
        for_each:
          items_from: steps.List.lines
          as: task
          on_item_complete:
            success: {{move_to: "{success}"}}
            failure: {{move_to: "{failure}"}}
          steps:
{steps}
      - {{name: After, command: ["touch", "after"]}}
"""
STAMPED = {"success": "processed/${run.timestamp_utc}", "failure": "failed/${run.timestamp_utc}"}
FAIL_ON_B = """
            - name: Check
              command: ["test", "${task}", "!=", "${context.bad}"]
"""


def workflow(steps: str, more: str = "", **places: str) -> str:
    return WORK.format(steps=steps.strip("\n"), more=more, **{**STAMPED, **places})


def stage_with_tasks(tmp_path: Path, names: str = "ab") -> Stage:
    return Stage(tmp_path, {f"inbox/{name}.task": name for name in names})


def tasks_of(stage: Stage) -> list[str]:
    return [path for path in stage.snapshot() if path.endswith(".task")]


def stamp_of(played: Played) -> str:
    return str(played.state["run_id"]).partition("-")[0]


def lifecycles_of(played: Played) -> list[dict[str, Any]]:
    return [iteration["lifecycle"] for iteration in played.loop("Work")]


def test_at12_001_success_moves_to_processed(tmp_path: Path) -> None:
    stage = stage_with_tasks(tmp_path)
    # It is not moved before its last step has ended.
    steps = """
            - {name: First, command: ["cat", "${task}"]}
            - {name: Last, command: ["cat", "${task}"]}
    """
    played = stage.play(workflow(steps))
    stamp = stamp_of(played)
    assert tasks_of(stage) == [f"processed/{stamp}/a.task", f"processed/{stamp}/b.task"]
    assert (stage.folder / f"processed/{stamp}/a.task").read_text() == "a"
    assert [iteration["Last"]["output"] for iteration in played.loop("Work")] == ["a", "b"]


def test_at12_002_failure_moves_to_failed(tmp_path: Path) -> None:
    stage = stage_with_tasks(tmp_path, "abc")
    played = stage.play(workflow(FAIL_ON_B), exit_code=1)
    stamp = stamp_of(played)
    # The first one succeeded, the second failed and stopped the run, the third was not begun.
    assert tasks_of(stage) == [
        f"failed/{stamp}/b.task", "inbox/c.task", f"processed/{stamp}/a.task",
    ]  # fmt: skip
    assert [life["result"] for life in lifecycles_of(played)[:2]] == ["success", "failure"]
    assert not (stage.folder / "after").exists()


@pytest.mark.parametrize(
    "step",
    [
        'command: ["sleep", "60"], timeout_sec: 0.3',
        "provider: tool, retries: {max: 1}",
        'wait_for: {glob: "never/*", timeout_sec: 0.2, poll_ms: 50}',
        'command: ["true"], depends_on: {required: ["never"]}',
    ],
    ids=["timeout", "retries used up", "wait timed out", "missing file"],
)
def test_at12_002_every_kind_of_failure(tmp_path: Path, step: str) -> None:
    stage = stage_with_tasks(tmp_path, "a")
    stage.program("tool", "sys.exit(1)")
    text = workflow(f"            - {{name: Do, {step}}}", 'providers: {tool: {command: ["tool"]}}')
    played = stage.play(text, exit_code=1)
    assert tasks_of(stage) == [f"failed/{stamp_of(played)}/a.task"]


def test_at12_002_without_strict_flow_the_others_go_on(tmp_path: Path) -> None:
    stage = stage_with_tasks(tmp_path, "abc")
    played = stage.play(workflow(FAIL_ON_B, "strict_flow: false"))
    results = [life["result"] for life in lifecycles_of(played)]
    assert results == ["success", "failure", "success"]
    assert (stage.folder / "after").exists()


def test_at12_003_a_recovered_item_is_a_success(tmp_path: Path) -> None:
    stage = stage_with_tasks(tmp_path)
    steps = """
            - name: Check
              command: ["test", "${task}", "!=", "${context.bad}"]
              on: {success: {goto: Finish}, failure: {goto: Repair}}
            - {name: Repair, command: ["echo", "repaired"]}
            - {name: Finish, command: ["true"]}
    """
    played = stage.play(workflow(steps))
    stamp = stamp_of(played)
    assert tasks_of(stage) == [f"processed/{stamp}/a.task", f"processed/{stamp}/b.task"]
    first, second = played.loop("Work")
    assert "Repair" not in first
    assert second["Check"]["status"] == "failed"
    assert second["Repair"]["output"] == "repaired\n"
    assert second["lifecycle"]["result"] == "success"


@pytest.mark.parametrize("target", ["_end", "After"])
def test_at12_004_leaving_by_goto_is_a_failure(tmp_path: Path, target: str) -> None:
    stage = stage_with_tasks(tmp_path, "abc")
    steps = f"""
            - name: Check
              command: ["test", "${{task}}", "!=", "${{context.bad}}"]
              on: {{failure: {{goto: {target}}}}}
            - {{name: Finish, command: ["true"]}}
    """
    played = stage.play(workflow(steps))
    stamp = stamp_of(played)
    assert tasks_of(stage) == [
        f"failed/{stamp}/b.task", "inbox/c.task", f"processed/{stamp}/a.task",
    ]  # fmt: skip
    assert lifecycles_of(played)[1]["result"] == "failure"
    assert played.state["status"] == "completed"
    assert (stage.folder / "after").exists() is (target == "After")


def test_at12_004_leaving_after_success_is_a_failure_too(tmp_path: Path) -> None:
    stage = stage_with_tasks(tmp_path, "a")
    steps = """
            - {name: Check, command: ["true"], on: {success: {goto: After}}}
            - {name: Finish, command: ["touch", "started"]}
    """
    played = stage.play(workflow(steps))
    assert tasks_of(stage) == [f"failed/{stamp_of(played)}/a.task"]
    assert not (stage.folder / "started").exists()


def test_at12_005_run_refuses_unsafe_places(tmp_path: Path) -> None:
    stage = stage_with_tasks(tmp_path)
    for place in ("/tmp/out", "../out", "done/../../out"):
        stage.refuse(workflow(FAIL_ON_B, success=place))
    assert tasks_of(stage) == ["inbox/a.task", "inbox/b.task"]


@pytest.mark.parametrize("place", ["../out", "link/out"])
def test_at12_005_places_that_a_value_makes_unsafe(tmp_path: Path, place: str) -> None:
    stage = stage_with_tasks(tmp_path, "a")
    outside = tmp_path / "outside"
    outside.mkdir()
    steps = '            - {name: Link, command: ["ln", "-s", "../outside", "link"]}'
    text = workflow(steps, success="${context.place}")
    played = stage.play(text, "--context", f"place={place}")
    (life,) = lifecycles_of(played)
    assert (life["result"], life["action_applied"]) == ("success", False)
    assert life["error"]
    assert tasks_of(stage) == ["inbox/a.task"]
    assert os.listdir(outside) == []
    assert not (tmp_path / "out").exists()


def test_at12_006_variables_in_places(tmp_path: Path) -> None:
    stage = stage_with_tasks(tmp_path)
    steps = """
            - {name: Name, command: ["printf", "n%s", "${loop.index}"]}
    """
    place = "${context.top}/${run.timestamp_utc}/${loop.index}/${steps.Name.output}"
    played = stage.play(workflow(steps, success=place), "--context", "top=done/here")
    stamp = stamp_of(played)
    assert tasks_of(stage) == [
        f"done/here/{stamp}/0/n0/a.task",
        f"done/here/{stamp}/1/n1/b.task",
    ]
    # The start of the run, in the form that C gives it.
    assert stamp == played.state["started_at"][:19].replace("-", "").replace(":", "") + "Z"


def test_at12_007_resuming_moves_nothing_twice(tmp_path: Path) -> None:
    stage = stage_with_tasks(tmp_path)
    steps = """
            - name: Wait
              command: ["sh", "-c", "echo ${task} >> log; [ ${task} != inbox/b.task ] || { touch started; while [ ! -e go ]; do sleep 0.05; done; }"]
    """  # noqa: E501
    with stage.started(workflow(steps, success="done")) as process:
        stage.await_file("started")
        process.send_signal(signal.SIGKILL)
    assert tasks_of(stage) == ["done/a.task", "inbox/b.task"]
    # A second move of the first item would take this one away.
    stage.write("inbox/a.task", "another one")
    stage.write("go", "")
    resumed = stage.run("resume", "latest").assert_success()
    played = stage.look(resumed)
    assert tasks_of(stage) == ["done/a.task", "done/b.task", "inbox/a.task"]
    assert [life["action_applied"] for life in lifecycles_of(played)] == [True, True]
    assert (stage.folder / "log").read_text() == "inbox/a.task\ninbox/b.task\n"
    stage.run("resume", "latest")
    assert tasks_of(stage) == ["done/a.task", "done/b.task", "inbox/a.task"]


def test_at12_008_a_missing_file_changes_no_result(tmp_path: Path) -> None:
    stage = stage_with_tasks(tmp_path)
    steps = """
            - {name: Remove, command: ["rm", "${task}"]}
    """
    played = stage.play(workflow(steps))
    for life in lifecycles_of(played):
        assert (life["result"], life["action_applied"]) == ("success", False)
        assert life["error"]
    assert played.state["status"] == "completed"
    assert played.state["for_each"]["Work"]["completed_indices"] == [0, 1]


def test_at12_008_items_that_are_no_files(tmp_path: Path) -> None:
    played = Stage(tmp_path).play("""
        version: "1.2"
        steps:
          - name: Work
            for_each:
              items: ["no such file", 7, {a: 1}, ""]
              on_item_complete: {success: {move_to: done}}
              steps: [{name: Do, command: ["true"]}]
    """)
    assert [life["action_applied"] for life in lifecycles_of(played)] == [False] * 4
    assert all(life["error"] for life in lifecycles_of(played))


def test_at12_009_the_record(tmp_path: Path) -> None:
    stage = stage_with_tasks(tmp_path)
    played = stage.play(workflow(FAIL_ON_B), exit_code=1)
    stamp = stamp_of(played)
    success, failure = lifecycles_of(played)
    assert success == {
        "result": "success",
        "action": "move",
        "from": "inbox/a.task",
        "to": f"processed/{stamp}/a.task",
        "action_applied": True,
        "error": None,
    }
    assert failure["result"] == "failure"
    assert failure["to"] == f"failed/{stamp}/b.task"
    assert played.state["schema_version"] == "1.3"


def test_at12_009_no_action_no_move(tmp_path: Path) -> None:
    """Only the named result moves anything."""
    stage = stage_with_tasks(tmp_path)
    lines = workflow(FAIL_ON_B).splitlines()
    text = "\n".join(line for line in lines if "failure:" not in line)
    played = stage.play(text, exit_code=1)
    assert tasks_of(stage) == ["inbox/b.task", f"processed/{stamp_of(played)}/a.task"]
