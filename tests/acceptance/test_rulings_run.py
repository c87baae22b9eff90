"""Rulings §4 and §5 in whole runs of workflows: exit codes and the command line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.fakes import RUN_ID, Stage
from tests.promises.processes import is_alive, wait_until

HELLO = """
    version: "1.1"
    context: {who: you}
    steps:
      - {name: Hello, command: ["echo", "hello ${context.who}"]}
      - {name: Noise, command: ["sh", "-c", "echo noise >&2"]}
"""
FAILING = """
    version: "1.1"
    steps:
      - {name: Good, command: ["echo", "fine"]}
      - {name: Bad, command: ["sh", "-c", "echo reason >&2; exit 9"]}
"""
# The step Block makes `started` and goes on when somebody makes `go`; `$$$$` is the shell's `$$`.
BLOCKING = """
    version: "1.1"
    steps:
      - {name: Before, command: ["sh", "-c", "echo before >> order"]}
      - name: Block
        command: ["sh", "-c", "echo $$$$ >> pids; touch started; while [ ! -e go ]; do sleep 0.05; done; echo block >> order"]
      - {name: After, command: ["sh", "-c", "echo after >> order"]}
"""  # noqa: E501


def test_r4_5_a_failed_step_ends_the_run_with_1(tmp_path: Path) -> None:
    played = Stage(tmp_path).play(FAILING, exit_code=1)
    assert played.state["status"] == "failed"
    assert played.step("Bad")["exit_code"] == 9
    # What failed, and why, is said without looking anything up.
    assert "Bad" in played.result.stderr
    assert "reason" in played.result.stderr


def test_r4_6_a_tool_that_is_not_installed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"task.md": "Do it."})
    stage.write(
        "w.yaml",
        """
        version: "1.1"
        steps:
          - {name: First, command: ["touch", "started"]}
          - {name: Ask, provider: claude, input_file: task.md}
        """,
    )
    nowhere = {"PATH": str(tmp_path / "programs")}
    result = stage.run("run", "w.yaml", env=nowhere).assert_exit(5)
    assert "claude" in result.stderr
    assert not (stage.folder / "started").exists()


def test_r4_6_a_run_that_somebody_else_holds(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    with stage.started(BLOCKING) as process:
        stage.await_file("started")
        refused = stage.run("resume", "latest").assert_exit(5)
        stage.write("go", "")
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert os.readlink(stage.runs_folder / "latest") in refused.stderr
    assert (stage.folder / "order").read_text() == "before\nblock\nafter\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_r4_7_interrupted_and_terminated(tmp_path: Path, number: int, code: int) -> None:
    stage = Stage(tmp_path)
    with stage.started(BLOCKING) as process:
        stage.await_file("started")
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == code
    assert not is_alive(int((stage.folder / "pids").read_text()))
    assert not (stage.folder / "order").read_text().endswith("after\n")
    # The run waits to be resumed; what was done stays done.
    stage.write("go", "")
    played = stage.look(stage.run("resume", "latest").assert_success())
    assert (stage.folder / "order").read_text() == "before\nblock\nafter\n"
    assert played.state["status"] == "completed"


@pytest.mark.parametrize("command", ["status", "resume", "logs"])
def test_r4_8_an_unknown_run_is_bad_usage(tmp_path: Path, command: str) -> None:
    stage = Stage(tmp_path)
    stage.run(command, "latest").assert_exit(2)
    stage.play(HELLO)
    for name in ("19990101T000000Z-abcdef", "nope", "../runs", ""):
        stage.run(command, name).assert_exit(2)


def test_r4_9_exit_codes_of_steps(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"plain.txt": "no program"})
    played = stage.play(
        """
        version: "1.1"
        steps:
          - {name: Missing, command: ["no-such-program-anywhere"]}
          - {name: Plain, command: ["./plain.txt"]}
          - {name: Folder, command: ["./.orchestrate"]}
          - {name: Slow, command: ["sleep", "60"], timeout_sec: 0.2}
          - {name: Own, command: ["sh", "-c", "exit 42"]}
          - {name: Killed, command: ["sh", "-c", "kill -9 $$$$"]}
        """,
        "--on-error",
        "continue",
        exit_code=1,
    )
    codes = {name: step["exit_code"] for name, step in played.state["steps"].items()}
    assert codes == {
        "Missing": 127, "Plain": 126, "Folder": 126, "Slow": 124, "Own": 42, "Killed": 137,
    }  # fmt: skip


def test_r5_6_how_runs_are_named(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    first = stage.play(HELLO).state["run_id"]
    second = stage.play(FAILING, exit_code=1).state["run_id"]
    shared = next(n for n in range(len(first)) if first[n] != second[n])

    def found_by(name: str) -> object:
        return stage.run("status", name, "--json").assert_success().json()["run_id"]

    assert [found_by(name) for name in (second, second[: shared + 1], "latest")] == [second] * 3
    assert found_by(first) == first
    ambiguous = stage.run("status", first[:shared]).assert_exit(2)
    assert first in ambiguous.stderr
    assert second in ambiguous.stderr


def test_r5_7_the_run_id_comes_first(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    played = stage.play(FAILING, exit_code=1)
    resumed = stage.run("resume", "latest").assert_exit(1)
    for result in (played.result, resumed):
        found = RUN_ID.search(result.stderr.splitlines()[0])
        assert found, result.stderr
        assert found[0] == played.state["run_id"]


def test_r5_7_the_run_id_comes_before_warnings(tmp_path: Path) -> None:
    warned = """
        version: "1.1"
        steps: [{name: Odd, command: ["echo", "a", "|", "cat"]}]
    """
    result = Stage(tmp_path).play(warned).result
    assert "W403" in result.stderr
    assert RUN_ID.search(result.stderr.splitlines()[0]), result.stderr


def test_r5_7_json_is_one_document(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    played = stage.play(FAILING, "--json", exit_code=1)
    run_id = played.state["run_id"]
    assert played.result.json()["run_id"] == run_id
    for command in (["status", run_id], ["resume", run_id]):
        assert stage.run(*command, "--json").json()["run_id"] == run_id
    assert run_id in json.dumps(stage.run("runs", "--json").assert_success().json())
    logs = stage.run("logs", run_id, "Bad", "--json").assert_success()
    assert "reason" in json.dumps(logs.json())
    cleaned = stage.run("clean", "--older-than", "7d", "--json").assert_success()
    assert isinstance(cleaned.json(), dict | list)


def test_r5_7_no_colour_and_no_drawing_without_a_terminal(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    for flags in (["--quiet"], ["--verbose", "--progress"], ["--debug", "--trace"]):
        result = stage.play(HELLO, *flags).result
        assert "\x1b" not in result.stdout + result.stderr
        assert "\r" not in result.stderr


def test_r5_8_where_a_setting_comes_from(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"w.yaml": HELLO})

    def run_in(env: dict[str, str], *flags: str) -> set[str]:
        """The folders that got a run."""
        stage.run("run", "w.yaml", *flags, env=env).assert_success()
        return {
            folder.name
            for folder in stage.folder.iterdir()
            if folder.is_dir() and any(RUN_ID.fullmatch(path.name) for path in folder.iterdir())
        }

    stage.write(".orchestrate/config.yaml", "state_dir: from-config\n")
    variable = {"ORCHESTRATE_STATE_DIR": "from-variable"}
    assert run_in({}) == {"from-config"}
    assert run_in(variable) == {"from-config", "from-variable"}
    assert run_in(variable, "--state-dir", "from-flag") == {
        "from-config", "from-variable", "from-flag",
    }  # fmt: skip


def test_r5_9_nothing_waits_for_input(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    played = stage.play(FAILING, "--on-error", "interactive", exit_code=1)
    assert played.state["status"] == "failed"
    assert (
        stage.play('version: "1.1"\nsteps: [{name: A, command: [cat]}]').step("A")["output"] == ""
    )


def test_r5_10_context_when_it_runs(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"c.json": '{"b": {"x": [1, true]}, "c": 2, "d": null}'})
    stage.program("tool")
    played = stage.play(
        """
        version: "1.1"
        context: {a: file, b: file, c: file}
        steps:
          - {name: Show, command: ["tool", "${context.a}", "${context.b.x}", "${context.c}", "${context.d}", "${context.e}"]}
        """,  # noqa: E501
        *("--context-file", "c.json", "--context", "c=3=${context.a}", "--context", "e="),
    )
    first, second, *rest = stage.calls("tool")[0].argv
    assert (first, json.loads(second)) == ("file", [1, True])
    assert rest == ["3=${context.a}", "null", ""]
    assert played.state["context"] == {
        "a": "file", "b": {"x": [1, True]}, "c": "3=${context.a}", "d": None, "e": "",
    }  # fmt: skip


def test_r5_10_what_a_flag_gives_is_not_missed(tmp_path: Path) -> None:
    workflow = 'version: "1.1"\nsteps: [{name: Show, command: ["echo", "${context.who}"]}]'
    played = Stage(tmp_path).play(workflow, "--context", "who=you")
    assert played.step("Show")["output"] == "you\n"
    assert "W103" not in played.result.stderr


def test_r5_11_a_workflow_by_its_id(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"workflows/greet.yaml": HELLO})
    stage.run("run", "greet").assert_success()
    stage.run("run", "gret").assert_exit(2)


def test_r5_12_how_much_is_said(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    said = {
        flag: stage.play(HELLO, *flag.split()).result
        for flag in ("", "--quiet", "--verbose", "--log-level error")
    }
    assert all(result.stdout == said[""].stdout for result in said.values())
    assert "Hello" in said["--verbose"].stderr
    assert "Hello" not in said["--quiet"].stderr
    assert len(said["--quiet"].stderr) <= len(said[""].stderr) <= len(said["--verbose"].stderr)
    failed = stage.play(FAILING, "--quiet", exit_code=1).result
    assert "Bad" in failed.stderr


def test_r5_13_a_single_step(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"w.yaml": BLOCKING})
    stage.run("run-step", "After", "--workflow", "w.yaml").assert_success()
    assert (stage.folder / "order").read_text() == "after\n"
    stage.run("run-step", "Nope", "--workflow", "w.yaml").assert_exit(2)
    stage.write("bad.yaml", FAILING)
    stage.run("run-step", "Bad", "--workflow", "bad.yaml").assert_exit(1)


def test_r5_14_clean_removes_old_runs_only(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    new = stage.play(HELLO).root
    # A finished run's keeper may live on for a moment; a copy from long ago has none.
    old = shutil.copytree(
        new, new.parent / "20200101T000000Z-abcdef", ignore=shutil.ignore_patterns("keeper")
    )
    long_ago = 1_577_836_800
    for path in (*old.rglob("*"), old):
        os.utime(path, (long_ago, long_ago))
    stage.run("clean", "--older-than", "99999d").assert_success()
    assert old.exists()
    stage.run("clean", "--older-than", "7d").assert_success()
    assert not old.exists()
    assert new.exists()
    stage.run("clean", "--older-than", "soon").assert_exit(2)


def test_r5_15_what_debugging_adds(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"p.md": "Prompt.\n", "a.md": ""})
    stage.program("tool")
    workflow = """
        version: "1.1.1"
        providers: {tool: {command: ["tool", "${PROMPT}"]}}
        steps:
          - name: Ask
            provider: tool
            input_file: p.md
            depends_on: {required: [a.md], inject: true}
    """
    plain, debugged = stage.play(workflow), stage.play(workflow, "--debug")
    by_variable = stage.play(workflow, env={"ORCHESTRATE_DEBUG": "1"})
    assert not plain.has_log("Ask.debug")
    # What was sent is kept always (truth 21).
    assert plain.log("Ask.prompt.txt") == stage.calls("tool")[0].argv[0]
    assert plain.has_log("orchestrator.log")
    for played in (debugged, by_variable):
        assert played.log("Ask.prompt.txt") == stage.calls("tool")[0].argv[0]
        assert "a.md" in played.log("Ask.debug")
        assert "tool" in played.log("Ask.debug")


def test_r5_16_a_dry_run_starts_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"w.yaml": BLOCKING})
    stage.run("run", "w.yaml", "--dry-run").assert_success()
    assert not stage.has_runs()
    assert stage.snapshot() == ["w.yaml"]


def test_r5_17_status_and_logs_answer_on_stdout(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.play(FAILING, exit_code=1)
    status = stage.run("status", "latest").assert_success()
    for word in ("Good", "Bad", "failed"):
        assert word in status.stdout
    assert "reason" in stage.run("logs", "latest", "Bad").assert_success().stdout
    assert stage.run("runs").assert_success().stdout.count("failed") == 1


def test_r7_what_the_configuration_says_of_agents_is_no_flag(tmp_path: Path) -> None:
    """A `backend:` line means nothing to a workflow, and keeps nobody from going on with one."""
    stage = Stage(tmp_path)
    stage.write(".orchestrate/config.yaml", "backend: codex\n")
    fails_once = """
        version: "1.1"
        name: once
        steps:
          - name: Once
            command: ["sh", "-c", "test -f ok || { touch ok; exit 1; }"]
    """
    stage.play(fails_once, exit_code=1)
    refused = stage.run("resume", "latest", "--backend", "codex").assert_exit(2)
    assert "--backend codex cannot be used with a workflow" in refused.stderr
    stage.run("resume", "latest").assert_success()
    stage.run("resume", "latest", "--force-restart").assert_success()


def test_c_the_time_of_an_attempt_is_its_own(tmp_path: Path) -> None:
    """`status` answers "is it stuck?": the pause before an attempt is no work."""
    stage = Stage(tmp_path)
    waits = """
        version: "1.1"
        name: again
        steps:
          - name: Again
            command: ["sh", "-c", "test -f second && sleep 60; touch second; exit 1"]
    """
    stage.play(waits, exit_code=1)
    time.sleep(1.1)  # times are compared by their seconds
    resumed_at = datetime.now(UTC)
    with stage.command("resume", "latest") as process:
        wait_until(lambda: _current(stage).get("attempt") == 2, "the second attempt did not begin")
        began = datetime.fromisoformat(_current(stage)["since"])
        assert began >= resumed_at.replace(microsecond=0)
        process.send_signal(signal.SIGINT)
        process.wait(60)


def _current(stage: Stage) -> dict[str, Any]:
    status = json.loads(stage.run("status", "latest", "--json").stdout)
    found: list[dict[str, Any]] = status.get("current") or [{}]
    return found[0]
