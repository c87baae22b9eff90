"""1: a program that prints nothing has no answer, whatever an earlier one has printed."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.fakes import Played, Stage
from tests.promises.processes import is_alive, wait_until

# Answers in its first calls, prints nothing and ends well in every later one.
_SPEAKS = """
def answer(prompt):
    return {text}
if argv != ["--version"] and number > {times}:
    raise SystemExit(0)
"""
_AGAIN = '"""I have looked at it.\\n\\n{"outcome": "again"}"""'
_HEAD = "id: m\nlabel: m\ndescription: a trial\ninitialStep: work\n"


def _stage(tmp_path: Path, text: str = "f'answer {number}'", times: int = 1) -> Stage:
    stage = Stage(tmp_path)
    stage.claude(_SPEAKS.format(text=text, times=times))
    return stage


def _events(played: Played, kind: str) -> list[dict[str, Any]]:
    lines = (played.root / "events.jsonl").read_text("utf-8").splitlines()
    events = [json.loads(line)["event"] for line in lines]
    return [event for event in events if event["on"] == kind]


def _outcomes(played: Played) -> list[str]:
    results = [event["result"] for event in _events(played, "step-finished")]
    return [result["outcome"] for result in results if "outcome" in result]


def _logs(played: Played, ending: str) -> list[str]:
    return sorted(path.name for path in (played.root / "logs").glob(f"*.{ending}"))


def test_truth_01_restarted_machine_has_only_the_answers_it_was_given(tmp_path: Path) -> None:
    stage = _stage(tmp_path, _AGAIN)
    played = stage.play(
        _HEAD
        + """steps:
  work:
    prompt: Work.
    outcomes: [again, other]
    onOutcome:
      again: {action: restart-new-session, recipeId: m}
      other: {action: exit, reason: user-provided-other}
""",
        "--max-restarts", "3", name="m.yaml", exit_code=4,
    )  # fmt: skip
    assert _outcomes(played) == ["again"]
    assert played.state["costs"]["cost_usd"] == 0.01
    assert played.state["machine"]["restarts"] == 1
    assert played.step("work")["status"] == "failed"
    assert played.step("work")["address"].startswith("restart-1/work:1.")
    # The answer stands where it was given, and is nobody else's.
    assert _logs(played, "answer.txt") == ["work.answer.txt"]
    assert (played.root / "logs/restart-1.work.stdout").read_bytes() == b""


def test_truth_01_second_visit_in_a_machine_has_its_own_answer(tmp_path: Path) -> None:
    stage = _stage(tmp_path, _AGAIN, times=2)
    played = stage.play(
        _HEAD
        + """steps:
  work:
    prompt: Work.
    outcomes: [again, other]
    onOutcome:
      again: {nextStep: work}
      other: {action: exit, reason: user-provided-other}
""",
        "--max-visits", "5", name="m.yaml", exit_code=4,
    )  # fmt: skip
    assert _outcomes(played) == ["again", "again"]
    assert played.state["costs"]["cost_usd"] == 0.01  # a session's running total
    assert played.state["machine"]["stepVisitCounts"] == {"work": 3}
    assert _logs(played, "answer.txt") == ["work+2.answer.txt", "work.answer.txt"]


LOOP = """
version: "1.1"
name: w
strict_flow: true
steps:
  - name: Loop
    for_each:
      items: [a, b]
      steps:
        - {step}
  - name: Decide
    command: [sh, -c, "echo x >> n; test $(wc -l < n) -ge 2"]
    on:
      success: {{goto: _end}}
      failure: {{goto: Loop}}
"""


def test_truth_01_loop_entered_again_has_no_answer_of_an_agent_that_was_silent(
    tmp_path: Path,
) -> None:
    stage = _stage(tmp_path, times=3)
    stage.write("p.md", "Say something.")
    step = "{name: Ask, provider: claude, input_file: p.md}"
    played = stage.play(LOOP.format(step=step), exit_code=1)
    results = [item["Ask"] for item in played.loop("Loop")]
    assert [result.get("output") for result in results] == ["answer 3", None]
    assert [result["status"] for result in results] == ["completed", "failed"]
    assert results[1]["address"] == "Loop:2[1]/Ask:1.1"
    assert len(stage.calls("claude")) == 4
    assert _logs(played, "answer.txt") == [
        "Loop+2.0.Ask.answer.txt", "Loop.0.Ask.answer.txt", "Loop.1.Ask.answer.txt",
    ]  # fmt: skip


@pytest.mark.parametrize("mode", ["text", "lines", "json"])
def test_truth_01_loop_entered_again_has_no_output_of_a_silent_command(
    tmp_path: Path, mode: str
) -> None:
    """The first round prints more than the state keeps, so that its files stay."""
    stage = Stage(tmp_path)
    many = {"text": "seq 1 5000", "lines": "seq 1 10001", "json": "echo {broken"}[mode]
    step = (
        f"{{name: Say, command: [sh, -c, 'test -e n || {many}'], output_capture: {mode}, "
        "allow_parse_error: true}"
    )
    if mode != "json":
        step = step.replace(", allow_parse_error: true", "")
    played = stage.play(LOOP.format(step=step))
    for item in played.loop("Loop"):
        said = item["Say"]
        assert not said.get("output"), said
        assert not said.get("lines"), said
        assert said["truncated"] is False
    assert _logs(played, "stdout") == ["Loop.0.Say.stdout", "Loop.1.Say.stdout"]


def test_truth_01_loop_entered_again_has_no_output_of_a_silent_declared_provider(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)
    stage.program("talker", "if number <= 2: print('word ' * 3000)")
    step = "{name: Ask, provider: talker, input_file: p.md}"
    stage.write("p.md", "Say something.")
    text = LOOP.format(step=step) + "providers:\n  talker: {command: [talker], input_mode: stdin}\n"
    played = stage.play(text)
    assert [item["Ask"]["output"] for item in played.loop("Loop")] == ["", ""]
    assert _logs(played, "stdout") == ["Loop.0.Ask.stdout", "Loop.1.Ask.stdout"]


def test_truth_01_retried_call_of_a_recipe_has_no_answer_of_its_first_try(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        {
            ".orchestrate/agents/helper.md": "---\nname: helper\ndescription: h\n---\nHelp.\n",
            "child.yaml": """
                name: child
                description: A trial
                version: 1.0.0
                steps:
                  - {id: one, agent: helper, prompt: "STEP:one", output: found}
                  - id: two
                    agent: helper
                    prompt: "STEP:two"
                    retry: {max_attempts: 2, initial_delay: 0}
                """,
        },
    )
    # Call 1 answers, call 2 cannot reach the service, call 3 (the second try) says nothing.
    stage.program(
        "claude",
        """
        if argv == ["--version"]:
            print("2.1.325 (Claude Code)")
        elif number == 1:
            print(json.dumps(dict(type="result", subtype="success", is_error=False, result="one",
                  session_id=argv[argv.index("--session-id") + 1], total_cost_usd=0.01)))
        elif "STEP:two" in prompt:
            print(json.dumps(dict(type="result", subtype="success", is_error=True, session_id="s",
                  result="API Error: Unable to connect to API (ECONNREFUSED)",
                  terminal_reason="api_error", total_cost_usd=0)))
            raise SystemExit(1)
        """,
    )
    played = stage.play(
        "name: r\ndescription: A trial\nversion: 1.0.0\nsteps:\n"
        "  - {id: call, type: recipe, recipe: child.yaml, retry: {initial_delay: 1}}\n",
        exit_code=1,
        name="r.yaml",
    )
    steps = played.step("call")["steps"]
    assert steps["one"]["status"] == "failed"
    assert steps["one"]["address"].startswith("call@2()/one:1.")
    finished = _events(played, "step-finished")
    assert [e["frame"] for e in finished if e["result"]["status"] == "completed"] == ["call()"]
    assert played.state["costs"]["cost_usd"] == 0.01
    assert _logs(played, "answer.txt") == ["call.one.answer.txt"]


def test_truth_01_retried_step_has_no_answer_of_its_first_attempt(tmp_path: Path) -> None:
    """The first attempt answers and then breaks down; the second says nothing at all."""
    stage = Stage(tmp_path)
    stage.program(
        "claude",
        """
        if argv == ["--version"]:
            print("2.1.325 (Claude Code)")
        elif number == 1:
            print(json.dumps(dict(type="result", subtype="success", is_error=False, result="one",
                  session_id=argv[argv.index("--session-id") + 1], total_cost_usd=0.01)))
            raise SystemExit(1)
        """,
    )
    stage.write("p.md", "Say something.")
    played = stage.play(
        """
        version: "1.1"
        name: w
        steps:
          - {name: Ask, provider: claude, input_file: p.md, retries: {max: 1, delay_ms: 1}}
        """,
        exit_code=1,
    )
    assert len(stage.calls("claude")) == 2
    assert played.step("Ask")["address"] == "Ask:1.2"
    assert played.step("Ask")["status"] == "failed"
    assert "output" not in played.step("Ask")
    assert [event["why"] for event in _events(played, "attempt-ended")] == ["failed"]
    assert _logs(played, "answer.txt") == []
    assert (played.root / "logs/Ask@2.stdout").read_bytes() == b""


def test_truth_01_attempt_lost_in_a_kill_is_not_credited_to_the_next(tmp_path: Path) -> None:
    """Everything dies after the first attempt has printed; the attempt of `resume` is silent."""
    stage = Stage(tmp_path)
    text = """
        version: "1.1"
        name: w
        steps:
          - name: Say
            command:
              - sh
              - -c
              - "test ! -e pid || exit 0; seq 5000; echo $$$$ > pid; echo $PPID > keeper; sleep 60"
            output_capture: text
        """
    with stage.started(text) as process:
        stage.await_file("keeper")
        wait_until(lambda: bool((stage.folder / "keeper").read_text()), "no keeper")
        process.kill()
        process.wait()
        for name in ("keeper", "pid"):
            pid = int((stage.folder / name).read_text())
            # The program may die with its keeper.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda pid=pid: not is_alive(pid), "it did not die")  # type: ignore[misc]
    played = stage.look(stage.run("resume", "latest").assert_success())
    assert played.step("Say")["output"] == ""
    assert played.step("Say")["address"] == "Say:1.2"
    assert _logs(played, "stdout") == ["Say.stdout"]


def test_truth_01_what_lies_on_the_disk_is_no_answer_of_a_program_that_printed_nothing(
    tmp_path: Path,
) -> None:
    """The program ends while nobody watches; then somebody lays a whole answer in its place."""
    stage = Stage(tmp_path)
    stage.program(
        "claude",
        """
        if argv == ["--version"]:
            print("2.1.325 (Claude Code)")
        elif number > 1:
            raise SystemExit(1)
        else:
            pathlib.Path("started").touch()
            while not os.path.exists("go"):
                time.sleep(0.01)
            pathlib.Path("ended").touch()
        """,
    )
    text = 'version: "1.1"\nname: w\nsteps:\n  - {name: Ask, provider: claude, input_file: p.md}\n'
    stage.write("p.md", "Say something.")
    with stage.started(text) as process:
        stage.await_file("started")
        process.kill()
        process.wait()
    stage.write("go", "")
    stage.await_file("ended")
    answer = {"type": "result", "subtype": "success", "is_error": False, "result": "forged"}
    log = stage.runs_folder / os.readlink(stage.runs_folder / "latest") / "logs" / "Ask.stdout"
    log.write_text(json.dumps(answer | {"session_id": "s", "total_cost_usd": 1.0}) + "\n")
    played = stage.look(stage.run("resume", "latest").assert_exit(1))
    assert played.step("Ask")["status"] == "failed"
    assert "forged" not in (played.root / "events.jsonl").read_text("utf-8")
    assert not played.state["costs"]["cost_usd"]


def test_truth_01_names_that_differ_in_case_only_have_files_of_their_own(tmp_path: Path) -> None:
    """Also where the file system does not tell them apart; `logs` finds each."""
    step = "{{name: {name}, command: [sh, -c, 'echo {name} >&2'], on: {{success: {{goto: {to}}}}}}}"
    steps = [step.format(name=name, to=to) for name, to in (("Say", "say"), ("say", "Only"))]
    steps.append("{name: Only, command: [sh, -c, 'echo only >&2']}")
    stage = Stage(tmp_path)
    played = stage.play(
        'version: "1.1"\nname: w\nsteps:\n' + "".join(f"  - {step}\n" for step in steps)
    )
    files = _logs(played, "stderr")
    assert len({name.casefold() for name in files}) == 3
    assert "Only.stderr" in files
    for name in ("Say", "say"):
        assert f"{played.step(name)['log']}.stderr" in files
        shown = stage.run("logs", "latest", name, "--stderr").assert_success()
        assert shown.stdout == f"{name}\n"
