"""What a failed step was given and did, and what a log without a terminal says meanwhile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.fakes import Stage
from tests.machines.fakes import PAIR, Scene, said
from tests.promises.processes import wait_until

SHELL = """
    version: "1.1"
    name: values
    context: {who: "it's me; $(rm x)", long: LONG}
    steps:
      - name: Fail
        command: [sh, -c, 'cat >/dev/null; echo "${context.who}" "${context.long}"; exit 3']
        input_file: in.txt
        output_file: out/said.txt
        depends_on: {required: ["docs/*.md"], optional: [notes.txt, none.txt]}
"""


def put_files(stage: Stage) -> None:
    for name in ("in.txt", "docs/a.md", "docs/b.md", "notes.txt"):
        stage.write(name, "x\n")


def test_truth_30_the_error_shows_values_matches_and_files(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    put_files(stage)

    played = stage.play(SHELL.replace("LONG", "y" * 2000), exit_code=1)

    context = played.step("Fail")["error"]["context"]
    assert min(context["values"].values()) == "it's me; $(rm x)"
    assert all(len(value) <= 500 for value in context["values"].values())
    command = " ".join(context["substituted_command"])
    assert all(name in command for name in context["values"])
    assert context["depends_on"] == {
        "required": ["docs/a.md", "docs/b.md"],
        "optional": ["notes.txt"],
    }
    assert context["files"] == {"input_file": "in.txt", "output_file": "out/said.txt"}


def test_truth_30_debug_shows_them_too(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    put_files(stage)

    played = stage.play(SHELL.replace("LONG", "short").replace("exit 3", "exit 0"), "--debug")

    written = json.loads(played.log("Fail.debug"))
    assert set(written["values"].values()) == {"it's me; $(rm x)", "short"}
    assert written["matched"]["required"] == ["docs/a.md", "docs/b.md"]
    assert written["files"]["output_file"] == "out/said.txt"
    log = played.log("orchestrator.log")
    assert "docs/b.md" in log
    assert "out/said.txt" in log


def test_truth_30_secrets_in_values_are_masked(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    secret = "correct-horse-battery"
    played = stage.play(
        """
        version: "1.1"
        name: masked
        steps:
          - {name: Read, command: [sh, -c, 'echo "$TOP"'], secrets: [TOP]}
          - name: Fail
            command: [sh, -c, 'echo "${steps.Read.output}" "$TOP"; exit 1']
            secrets: [TOP]
        """,
        "--debug",
        exit_code=1,
        env={"TOP": secret},
    )

    assert list(played.step("Fail")["error"]["context"]["values"].values()) != []
    for path in played.root.rglob("*"):
        if path.is_file() and path.parent.name != "keeper":
            assert secret.encode() not in path.read_bytes(), path


def test_truth_30_a_missing_file_names_what_is_there(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    put_files(stage)

    played = stage.play(SHELL.replace('"docs/*.md"', '"docs/*.md", absent.md'), exit_code=1)

    context = played.step("Fail")["error"]["context"]
    assert context["failed_deps"] == ["absent.md"]
    assert context["depends_on"]["required"] == ["docs/a.md", "docs/b.md"]


def test_truth_30_an_agents_failure_names_its_files(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"exit": 1, "stderr": "Error: cannot find the moon"})
    scene.write("prompt.md", "Look.\n")
    scene.write("docs/a.md", "x\n")
    played = scene.play(
        """
        version: "1.1"
        name: asks
        steps:
          - name: Ask
            provider: claude
            input_file: prompt.md
            output_file: answer.md
            depends_on: {required: ["docs/*.md"]}
        """,
        exit_code=1,
    )

    context = played.step("Ask")["error"]["context"]
    assert context["depends_on"] == {"required": ["docs/a.md"]}
    assert context["files"] == {"input_file": "prompt.md", "output_file": "answer.md"}


def test_truth_30_a_moved_item_is_in_the_log(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.write("inbox/a.task", "x\n")
    played = stage.play("""
        version: "1.2"
        name: moves
        steps:
          - name: Each
            for_each:
              items: [inbox/a.task]
              on_item_complete: {success: {move_to: done}, failure: {move_to: failed}}
              steps: [{name: Work, command: ["true"]}]
    """)

    log = played.log("orchestrator.log")
    assert "from=inbox/a.task" in log
    assert "to=done/a.task" in log


def first_lines(scene: Scene, *flags: str, wait_for_beat: bool) -> str:
    """What stderr has of a run that waits for its agent, and then ends."""
    with scene.started(PAIR, *flags) as process:
        scene.await_call(1)
        said_so_far = ""
        if wait_for_beat:
            assert process.stderr is not None
            while "at work for" not in said_so_far:
                line = process.stderr.readline()
                assert line, said_so_far
                said_so_far += line
        scene.let_go()
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 0
    return said_so_far + rest


def test_truth_30_a_log_hears_of_an_agent_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCHESTRATE_HEARTBEAT", "0.2")
    scene = Scene(tmp_path, said("done", wait_for="go"), said("done", cost=0.25))

    stderr = first_lines(scene, wait_for_beat=True)

    line = next(line for line in stderr.splitlines() if "at work for" in line)
    assert "first: at work for" in line
    assert "silent for" in line or "has said nothing yet" in line


@pytest.mark.parametrize("flags", [("--quiet",), ("--json",)])
def test_truth_30_a_quiet_run_has_no_such_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    monkeypatch.setenv("ORCHESTRATE_HEARTBEAT", "0.01")
    scene = Scene(tmp_path, said("done", wait_for="go"), said("done"))

    assert "at work for" not in first_lines(scene, *flags, wait_for_beat=False)


def test_truth_30_a_command_at_work_is_told_with_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCHESTRATE_HEARTBEAT", "0.2")
    stage = Stage(tmp_path)
    script = "echo building the moon; touch started; until [ -e go ]; do sleep 0.05; done"
    text = f"""
        version: "1.1"
        name: builds
        steps:
          - {{name: Build, command: [sh, -c, '{script}']}}
    """
    with stage.started(text) as process:
        stage.await_file("started")
        assert process.stderr is not None
        said_so_far = ""
        while "building the moon" not in said_so_far:
            line = process.stderr.readline()
            assert line, said_so_far
            said_so_far += line
        stage.write("go", "")
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert "[1/1] Build: at work for" in said_so_far
    assert "silent for" in said_so_far
    wait_until(lambda: process.poll() is not None, "it did not end")
