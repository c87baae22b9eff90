"""Rulings §6 in whole runs: what state.json holds, for whom, and how a run goes on from it."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.fakes import Stage, read_state

HELLO = """
    version: "{version}"
    name: greeting
    context: {{who: you}}
    steps:
      - {{name: Hello, command: ["echo", "hello ${{context.who}}"]}}
"""
# Fails until somebody makes the file `fixed`.
FRAGILE = """
    version: "1.1"
    steps:
      - {name: Before, command: ["sh", "-c", "echo before >> order"]}
      - name: Each
        for_each:
          items: [a, b, c]
          steps:
            - {name: Note, command: ["sh", "-c", "echo ${item} >> order"]}
            - {name: Check, command: ["sh", "-c", "[ ${item} != b ] || [ -e fixed ]"]}
      - {name: After, command: ["sh", "-c", "echo after >> order"]}
"""


def order_of(stage: Stage) -> list[str]:
    return (stage.folder / "order").read_text().split()


@pytest.mark.parametrize(
    ("version", "schema"), [("1.1", "1.1.1"), ("1.1.1", "1.1.1"), ("1.2", "1.3"), ("1.3", "1.3")]
)
def test_r6_1_the_version_of_the_state(tmp_path: Path, version: str, schema: str) -> None:
    state = Stage(tmp_path).play(HELLO.format(version=version)).state
    assert state["schema_version"] == schema


def test_r6_2_what_the_state_says(tmp_path: Path) -> None:
    played = Stage(tmp_path).play(HELLO.format(version="1.1"))
    state, step = played.state, played.step("Hello")
    assert state["run_id"] == played.root.name
    assert state["workflow_file"] == "w.yaml"
    assert state["workflow_checksum"].startswith("sha256:")
    assert state["context"] == {"who": "you"}
    assert state["status"] == "completed"
    assert state["started_at"] <= step["started_at"] <= step["completed_at"] <= state["updated_at"]
    assert step["duration_ms"] >= 0
    assert step["output"] == "hello you\n"
    assert step["truncated"] is False
    assert step["debug"]["command"] == ["echo", "hello you"]
    assert step["debug"]["env_count"] > 0
    assert Path(played.root.parents[2] / step["debug"]["cwd"]).resolve() == played.root.parents[2]


def test_r6_3_readers_never_see_half_a_file(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    items = ", ".join(map(str, range(100)))
    workflow = f"""
        version: "1.1"
        steps:
          - {{name: Start, command: ["touch", "started"]}}
          - name: Each
            for_each:
              items: [{items}]
              steps: [{{name: Do, command: ["true"]}}]
          - {{name: Look, command: ["cat", "${{run.root}}/state.json"], output_capture: json}}
    """
    sizes: list[int] = []
    with stage.started(workflow) as process:
        stage.await_file("started")
        while process.poll() is None:
            state = read_state(stage.runs_folder / os.readlink(stage.runs_folder / "latest"))
            sizes.append(len(state["steps"].get("Each", [])))
        process.communicate()
    assert process.returncode == 0
    assert sizes == sorted(sizes)
    # Before a step outside loops the state is up to date.
    seen = read_state(stage.runs_folder / os.readlink(stage.runs_folder / "latest"))
    look: dict[str, Any] = seen["steps"]["Look"]["json"]
    assert [iteration["Do"]["status"] for iteration in look["steps"]["Each"]] == ["completed"] * 100


def test_r6_4_the_state_is_current_for_steps_that_look(tmp_path: Path) -> None:
    played = Stage(tmp_path).play("""
        version: "1.1"
        steps:
          - {name: First, command: ["echo", "one"]}
          - name: Each
            for_each:
              items: [a, b, c]
              steps:
                - {name: Do, command: ["echo", "${item}"]}
                - {name: Look, command: ["cat", "${run.root}/state.json"], output_capture: json}
    """)
    for index, iteration in enumerate(played.loop("Each")):
        seen = iteration["Look"]["json"]
        assert seen["status"] == "running"
        assert seen["steps"]["First"]["output"] == "one\n"
        assert [it["Do"]["output"] for it in seen["steps"]["Each"]] == [
            f"{letter}\n" for letter in "abc"[: index + 1]
        ]
        assert seen["for_each"]["Each"]["current_index"] == index
        assert seen["for_each"]["Each"]["completed_indices"] == list(range(index))


def test_r6_5_the_journal_is_complete(tmp_path: Path) -> None:
    played = Stage(tmp_path).play(HELLO.format(version="1.1"))
    lines = (played.root / "events.jsonl").read_text("utf-8").splitlines()
    assert len(lines) >= 3
    for line in lines:
        json.loads(line)
    assert any("Hello" in line for line in lines)


def test_r6_6_resume_goes_on_where_it_failed(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    failed = stage.play(FRAGILE, exit_code=1)
    assert order_of(stage) == ["before", "a", "b"]
    stage.write("fixed", "")
    played = stage.look(stage.run("resume", failed.state["run_id"]).assert_success())
    assert played.state["run_id"] == failed.state["run_id"]
    assert played.state["status"] == "completed"
    # What was recorded as done is not done again.
    assert order_of(stage) == ["before", "a", "b", "c", "after"]
    assert [it["Check"]["status"] for it in played.loop("Each")] == ["completed"] * 3


def test_r6_6_resume_refuses_a_changed_definition(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"item.yaml": "[a, b, c]"})
    text = FRAGILE.replace("items: [a, b, c]", "items: {$include: item.yaml}")
    failed = stage.play(text, exit_code=1)
    stage.write("item.yaml", "[a, b, c, d]")
    stage.write("fixed", "")
    refused = stage.run("resume", "latest")
    assert refused.exit_code not in (0, 70)
    assert "item.yaml" in refused.stderr
    assert order_of(stage) == ["before", "a", "b"]
    assert read_state(failed.root) == failed.state


def test_r6_7_force_restart_starts_over(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    failed = stage.play(FRAGILE, exit_code=1)
    stage.write("fixed", "")
    (failed.root / "state.json").write_text("{ broken")
    result = stage.run("resume", failed.state["run_id"], "--force-restart")
    played = stage.look(result.assert_success())
    assert played.state["run_id"] != failed.state["run_id"]
    assert order_of(stage) == ["before", "a", "b", "before", "a", "b", "c", "after"]


@pytest.mark.parametrize("damage", ["", "{ broken", '{"schema_version": "9"}'])
def test_r6_8_repair_falls_back(tmp_path: Path, damage: str) -> None:
    stage = Stage(tmp_path)
    failed = stage.play(FRAGILE, exit_code=1)
    stage.write("fixed", "")
    (failed.root / "state.json").write_text(damage)
    result = stage.run("resume", failed.state["run_id"], "--repair")
    played = stage.look(result.assert_success())
    assert played.state["run_id"] == failed.state["run_id"]
    assert order_of(stage) == ["before", "a", "b", "c", "after"]


def test_r6_9_a_completed_run_is_left_alone(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    played = stage.play(HELLO.format(version="1.1"))
    before = (played.root / "state.json").read_bytes()
    resumed = stage.run("resume", "latest").assert_success()
    assert "completed" in resumed.stdout + resumed.stderr
    assert (played.root / "state.json").read_bytes() == before


def test_r6_10_a_run_is_private(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    played = stage.play(FRAGILE, "--debug", "--backup-state", exit_code=1)
    for path in (played.root, *played.root.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            continue
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path.name}: {mode:o}"


def test_r6_11_backups_rotate(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    steps = [{"name": f"S{number}", "command": ["true"]} for number in range(6)]
    workflow = json.dumps({"version": "1.1", "steps": steps})
    played = stage.play(workflow, "--backup-state")
    names = sorted(path.name for path in played.root.glob("*.bak"))
    assert names == [f"state.json.step_S{number}.bak" for number in (3, 4, 5)]
    backup = json.loads((played.root / "state.json.step_S4.bak").read_text())
    # Made before the step: what came earlier is in it, the step's own result is not.
    assert backup["steps"]["S3"]["status"] == "completed"
    assert backup["steps"].get("S4", {}).get("status") != "completed"
    assert list(stage.play(workflow).root.glob("*.bak")) == []
    assert len(list(stage.play(workflow, "--debug").root.glob("*.bak"))) == 3


def test_r6_12_the_state_can_live_elsewhere(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"w.yaml": HELLO.format(version="1.1")})
    elsewhere = tmp_path / "elsewhere"
    stage.run("run", "w.yaml", "--state-dir", str(elsewhere)).assert_success()
    assert read_state(elsewhere / os.readlink(elsewhere / "latest"))["status"] == "completed"
    assert not stage.has_runs()
    status = stage.run("status", "latest", "--state-dir", str(elsewhere), "--json")
    assert status.assert_success().json()["status"] == "completed"
