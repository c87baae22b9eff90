"""Truth 17: an agent that was refused its tools is no quiet success."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from orchestrate.agents.codex import CODEX
from orchestrate.agents.cursor import CURSOR
from orchestrate.record import replace
from orchestrate.show.live.picture import Artist
from orchestrate.state.denials import denial_words
from orchestrate.state.result import StepResult, read_denials
from tests.agents.test_samples import SAMPLES, parse
from tests.cli.live.test_picture import shown, state_for
from tests.machines.fakes import PAIR, Scene, machine, said

WORDS = "3 tool calls were denied: Write (2), Bash"
DENIED = ["Write", "Bash", "Write"]
COUNTED = [{"tool": "Write", "count": 2}, {"tool": "Bash", "count": 1}]
ONE = machine({"work": {"done": "!committed"}})
RECIPE = """\
name: trial
description: A trial
version: 1.0.0
steps:
  - {id: work, agent: helper, prompt: Do it.}
"""
LOOP = """\
name: trial
description: A trial
version: 1.0.0
context: {items: [a, b]}
steps:
  - {id: work, agent: helper, prompt: "Do {{item}}.", foreach: "{{items}}", as: item}
"""
WORKFLOW = """\
version: "1.1"
name: trial
steps:
  - {name: work, provider: claude, input_file: p.md}
"""


def stage(top: Path, *lines: dict[str, Any]) -> Scene:
    scene = Scene(top, *lines)
    scene.write("p.md", "Do it.\n")
    scene.write(".orchestrate/agents/helper.md", "---\nname: helper\n---\nHelp.\n")
    return scene


def answers(scene: Scene, *arguments: str) -> str:
    return scene.run(*arguments).assert_success().stdout


@pytest.mark.parametrize("definition", [ONE, RECIPE, WORKFLOW], ids=["machine", "recipe", "c"])
def test_truth_17_denials_are_named_wherever_the_run_is_told_of(
    tmp_path: Path, definition: str
) -> None:
    scene = stage(tmp_path, said("done", denied=DENIED))
    played = scene.play(definition)
    assert played.step("work")["denials"] == COUNTED
    assert played.state["denials"] == [{"step": "work", **denial} for denial in COUNTED]
    assert played.result.stderr.splitlines()[-1] == (
        f"  denied: {WORDS}; see orchestrate status {scene.run_id}"
    )
    status = json.loads(answers(scene, "status", "latest", "--json"))
    assert status["denials"] == played.state["denials"]
    assert status["steps"]["work"]["denials"] == COUNTED
    assert answers(scene, "status", "latest").count(WORDS) == 2, "the run's, and the step's"
    for shape in ("md", "html"):
        assert WORDS in answers(scene, "report", "latest", "--format", shape)
    report = json.loads(answers(scene, "report", "latest", "--json"))
    assert report["denials"] == played.state["denials"]
    assert report["steps"][0]["denials"] == COUNTED
    assert WORDS in played.log("orchestrator.log")


def test_truth_17_run_json_has_them_and_the_outcome_decides_the_end(tmp_path: Path) -> None:
    scene = stage(tmp_path, said("done", denied=DENIED))
    played = scene.play(ONE, "--json")
    document = json.loads(played.result.stdout)
    assert document["denials"] == played.state["denials"]
    assert (document["status"], document["exit_code"]) == ("completed", 0)


def test_truth_17_the_exit_line_of_a_machine_says_it(tmp_path: Path) -> None:
    scene = stage(tmp_path, said("done", denied=DENIED))
    told = scene.play(ONE, "--verbose").result.stderr
    exit_line = f"[orchestration] Exit: committed ({WORDS}; see orchestrate status {scene.run_id})"
    assert exit_line in told.splitlines()
    assert f"[orchestration] Step work: {WORDS}" in told.splitlines()


def test_truth_17_what_is_advised_repeats_where_the_runs_are(tmp_path: Path) -> None:
    scene = stage(tmp_path, said("done", denied=["Bash"]))
    scene.write("m.yaml", ONE)
    told = scene.run("run", "m.yaml", "--verbose", "--state-dir", "my runs").assert_success()
    run_id = os.readlink(scene.folder / "my runs/latest")
    see = f"see orchestrate status {run_id} --state-dir 'my runs'"
    assert told.stdout.splitlines()[-1].endswith(f"{see})")
    assert told.stderr.count(see) == 2, "the exit line, and the last one"


def test_truth_17_nothing_is_said_where_nothing_was_denied(tmp_path: Path) -> None:
    scene = stage(tmp_path, said("done"))
    played = scene.play(ONE)
    assert "denials" not in played.step("work")
    assert "denials" not in played.state
    assert "denied" not in played.result.stderr


def test_truth_17_reminders_and_retries_add_up(tmp_path: Path) -> None:
    """Four calls of one step: one fails, one says nothing readable, one is the reminder."""
    scene = stage(
        tmp_path,
        {"error": "API Error: 400 no", "denied": ["Bash"]},
        {"text": "hm", "denied": ["Write"]},
        said("done", denied=["Write", "Write"]),
        said("done"),
    )
    scene.play(PAIR, exit_code=4)
    played = scene.look(scene.run("resume", "latest").assert_success())
    expected = [{"tool": "Bash", "count": 1}, {"tool": "Write", "count": 3}]
    assert played.step("first")["denials"] == expected, "a resume keeps them"
    assert played.state["denials"] == [{"step": "first", **denial} for denial in expected]
    assert "denials" not in played.step("second")
    assert "4 tool calls were denied: Bash, Write (3)" in played.result.stderr


def test_truth_17_a_recipes_retry_and_the_items_of_a_loop_add_up(tmp_path: Path) -> None:
    scene = stage(tmp_path, said("done", denied=["Write"]), said("done", denied=["Write"]))
    played = scene.play(LOOP)
    assert [item["work"]["denials"] for item in played.loop("work")] == (
        [[{"tool": "Write", "count": 1}]] * 2
    )
    assert played.state["denials"] == [{"step": "work[*]", "tool": "Write", "count": 2}]


INNER = """\
name: inner
description: What is called
version: 1.0.0
steps:
  - {id: look, agent: helper, prompt: Look.}
"""
OUTER = """\
name: outer
description: Calls, also in a loop
version: 1.0.0
context: {items: [a, b]}
steps:
  - {id: once, type: recipe, recipe: inner.yaml}
  - {id: each, type: recipe, foreach: "{{items}}", as: item, recipe: inner.yaml}
"""


def test_truth_17_a_step_of_a_call_is_named_as_it_can_be_typed(tmp_path: Path) -> None:
    """What the state and the report name leads to the step's answers, in a loop to all of them."""
    scene = stage(tmp_path, *[said("done", denied=["Write"])] * 3)
    scene.write("inner.yaml", INNER)
    played = scene.play(OUTER)
    named = [denial["step"] for denial in played.state["denials"]]
    assert named == ["once/look", "each[*]()/look"]
    assert json.loads(answers(scene, "report", "--json"))["denials"] == played.state["denials"]
    for step, times in zip(named, (1, 2), strict=True):
        assert answers(scene, "logs", "latest", step).count('"outcome": "done"') == times
    status = answers(scene, "status")
    assert "once/look: Write" in status
    assert "each[*]()/look: Write (2)" in status


def test_truth_17_a_new_visit_counts_anew_and_the_run_counts_all(tmp_path: Path) -> None:
    steps = machine({"work": {"again": "@trial", "done": "!committed"}})
    scene = stage(tmp_path, said("again", denied=["Write"]), said("done", denied=["Bash"]))
    played = scene.play(steps)
    assert played.step("work")["denials"] == [{"tool": "Bash", "count": 1}]
    assert (
        denial_words(read_denials(played.state["denials"]))
        == "2 tool calls were denied: Write, Bash"
    )


def test_truth_17_the_live_view_shows_them(tmp_path: Path) -> None:
    index, state = state_for(tmp_path, ONE)
    counted = read_denials(COUNTED)
    state.denials = tuple(replace(denial, step="work") for denial in counted)
    result = StepResult(status="completed", outcome="done", denials=counted)
    state.root.steps["work"] = result
    state.root.here = None
    heading, *rows = shown(Artist(index).picture(state, state.started_at, 9))
    assert "3 tool calls denied" in heading
    assert any(WORDS in row for row in rows)


@pytest.mark.parametrize(
    ("sample", "denied"),
    [
        ("claude/stream-denied", ("Bash",)),
        ("claude/stream-withheld", ("Write",)),
        ("copilot/denied", ("create",)),
        ("gemini/denied", ("write_file",)),
        ("gemini/withheld", ("run_shell_command",)),
        ("opencode/rejected", ("bash",)),
        ("opencode/withheld", ("bash",)),
        ("qwen/denied", ("write_file",)),
    ],
)
def test_truth_17_each_real_program_is_understood(sample: str, denied: tuple[str, ...]) -> None:
    assert parse(sample).denied == denied


@pytest.mark.parametrize("refusal", ["rejected", "permissionDenied"])
def test_truth_17_a_call_that_cursor_rejects_is_counted(refusal: str) -> None:
    """A call that fails is an error, and no denial."""
    made: list[dict[str, Any]] = [
        {"shellToolCall": {"args": {"command": "make"}, "result": {refusal: {"command": "make"}}}},
        {"readToolCall": {"args": {"path": "a"}, "result": {"success": {"content": "a"}}}},
        {"editToolCall": {"args": {"path": "b"}, "result": {"error": {"message": "no such file"}}}},
    ]
    events = [
        {"type": "tool_call", "subtype": subtype, "call_id": "c", "tool_call": call}
        for call in made
        for subtype in ("started", "completed")
    ]
    end = {"type": "result", "subtype": "success", "is_error": False, "result": "done"}
    assert CURSOR.parse([*events, end], 0.0).denied == ("shell",)


def test_truth_17_a_call_that_codex_declines_is_counted_and_doctor_names_the_rest(
    tmp_path: Path,
) -> None:
    refused = {"type": "mcp_tool_call", "tool": "write", "status": "failed"}
    refused["error"] = {"message": "requires approval, but approval policy is never"}  # type: ignore[assignment]
    items = [refused, {"type": "command_execution", "status": "declined"}]
    items.append({"type": "command_execution", "status": "failed"})
    events = [{"type": "item.completed", "item": item} for item in items]
    assert CODEX.parse(events, 0.0).denied == ("write", "command_execution")
    scene = Scene(tmp_path)
    scene.program("codex", 'print("codex-cli 0.166.0")')
    told = scene.run("doctor").stdout
    words = "what its sandbox stops without an error of the command is not counted"
    assert f"{words} among the denied tool calls" in told


@pytest.mark.parametrize(
    ("permissions", "said_of_it"),
    [
        ("read-only", "1 tool call was denied: command_execution (sandbox)"),
        ("edit", "1 tool call was denied: command_execution (sandbox)"),
        ("bypass", ""),
    ],
)
def test_truth_17_what_the_sandbox_of_codex_stops_is_counted(
    tmp_path: Path, permissions: str, said_of_it: str
) -> None:
    """Without a sandbox the same words are a command's own trouble."""
    scene = stage(tmp_path)
    sample = (SAMPLES / "codex" / "sandboxed.stdout").read_text("utf-8")
    scene.program("codex", f"import sys; sys.stdin.read(); print({sample!r}, end='')")
    scene.write("w.yaml", WORKFLOW.replace("provider: claude", "provider: codex"))
    told = scene.run("run", "w.yaml", "--permissions", permissions).assert_success().stderr
    assert ("denied" in told) == bool(said_of_it)
    assert said_of_it in told
