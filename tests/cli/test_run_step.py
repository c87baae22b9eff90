"""`run-step`: one step as a run of its own, with what it needs from another run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrate.app.given.settings import RunSettings
from orchestrate.app.starting.single_step import as_started, find_step, reduce_to
from orchestrate.compile import compile_file, require_program
from orchestrate.plan.check import problems
from orchestrate.plan.nodes import Abort, Each, Finish, Gate, Goto, Leave, main_plan
from orchestrate.testing import Project
from orchestrate.workspace import open_workspace, package_data
from tests.acceptance.fakes import Stage

WORKFLOW = """
version: "1.1"
context: {who: world}
steps:
  - name: List
    command: [sh, -c, 'echo listed >> did; printf "a\\nb*\\n"']
    output_capture: lines
  - name: Hello
    command: [sh, -c, 'echo "hello ${context.who}" >> did']
    on: {success: {goto: Never}, failure: {goto: Never}}
  - name: Loop
    for_each:
      items_from: steps.List.lines
      steps:
        - name: Say
          command: [sh, -c, 'echo "say ${item}" >> did']
        - name: Repeat
          command: [sh, -c, 'echo "again ${steps.Say.exit_code}" >> did']
          on: {success: {goto: Never}}
  - name: Bad
    command: [sh, -c, 'exit 3']
    on: {failure: {goto: Never}}
  - name: Fixed
    for_each:
      items: [1, 2]
      steps:
        - {name: Inner, command: [sh, -c, 'echo "inner ${item}" >> did']}
  - {name: Late, command: [sh, -c, 'echo "${steps.List.exit_code}/${steps.Bad.exit_code}" >> did']}
  - {name: Never, command: [touch, never]}
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, {"w.yaml": WORKFLOW})


def did(project: Project) -> list[str]:
    path = project.folder / "did"
    return path.read_text().splitlines() if path.exists() else []


def run_step(project: Project, step: str, *flags: str, code: int = 0) -> str:
    result = project.run("run-step", step, "--workflow", "w.yaml", *flags).assert_exit(code)
    assert not (project.folder / "never").exists(), "it went on to another step"
    return result.stderr


def test_only_that_step_runs(project: Project) -> None:
    run_step(project, "Hello", "--context", "who=you")
    assert did(project) == ["hello you"]
    state = project.latest_state
    assert (state["status"], list(state["steps"])) == ("completed", ["Hello"])
    assert state["workflow_file"] == "w.yaml"
    view = project.run("status", "latest", "--json").assert_success().json()
    assert (view["status"], view["note"]) == ("completed", "")


def test_a_failure_is_the_runs_even_where_the_workflow_has_a_handler(project: Project) -> None:
    assert "step 'Bad' failed" in run_step(project, "Bad", code=1)
    assert project.latest_state["status"] == "failed"
    shown = project.run("run-step", "Bad", "--workflow", "w.yaml", "--json").assert_exit(1)
    assert shown.json()["steps"]["Bad"]["exit_code"] == 3


def test_a_whole_loop_runs_and_a_step_in_it_does_not(project: Project) -> None:
    run_step(project, "Fixed")
    assert did(project) == ["inner 1", "inner 2"]
    refused = run_step(project, "Inner", code=2)
    assert "step 'Inner' is inside the loop 'Fixed'" in refused
    assert did(project) == ["inner 1", "inner 2"]


def test_an_unknown_step(project: Project) -> None:
    assert "no step 'Helo' (did you mean 'Hello'?)" in run_step(project, "Helo", code=2)
    assert not (project.folder / ".orchestrate").exists()


def test_gates_and_steps_of_a_round_say_why_they_cannot_run_alone(tmp_path: Path) -> None:
    recipe = """
        name: trial
        description: A trial
        version: "1.0.0"
        context: {go: true}
        steps:
          - {id: ask, type: approval, approval: {prompt: "Go on?", timeout: 1h}}
          - {id: again, while_condition: "{{go}}", while_steps: [{id: look, prompt: Look.}]}
    """
    project = Project(tmp_path, {"r.yaml": recipe})
    asks = project.run("run-step", "ask", "--workflow", "r.yaml").assert_exit(2).stderr
    assert "step 'ask' asks a person" in asks
    inner = project.run("run-step", "look", "--workflow", "r.yaml").assert_exit(2).stderr
    assert "inside the loop 'again': without it there is no round" in inner


def test_results_of_others_are_needed_before_the_start(project: Project) -> None:
    refused = run_step(project, "Late", code=2)
    assert "step 'Late' needs the result of 'List', 'Bad'" in refused
    assert "--from RUN" in refused
    assert "needs the result of 'List'" in run_step(project, "Loop", code=2)
    assert not (project.folder / ".orchestrate").exists()


def test_results_come_from_another_run(project: Project) -> None:
    run_step(project, "List")
    source = project.latest_run.name
    # The loop is left at its first item, where a whole run would go on to Never.
    run_step(project, "Loop", "--from", source)
    assert did(project) == ["listed", "say a", "again 0"], "List itself is not run again"
    given = project.latest_state["steps"]["List"]
    assert (given["from_run"], given["lines"]) == (source, ["a", "b*"])
    lacking = run_step(project, "Late", "--from", source, code=2)
    assert f"needs the result of 'Bad', which run {source} does not have" in lacking


def test_resuming_it_stays_with_that_step(project: Project) -> None:
    run_step(project, "Bad", code=1)
    project.run("resume", "latest").assert_exit(1)
    assert project.latest_state["steps"]["Bad"]["attempts"] == 2
    assert list(project.latest_state["steps"]) == ["Bad"]
    assert not (project.folder / "never").exists()


def test_a_kill_before_the_given_results_were_recorded(project: Project) -> None:
    """The steps that should have been given are not run instead."""
    run_step(project, "List")
    run_step(project, "Loop", "--from", "latest")
    root = project.latest_run
    (root / "state.json").unlink()
    journal = root / "events.jsonl"
    journal.write_text(journal.read_text().splitlines(keepends=True)[0])
    (project.folder / "did").unlink()
    result = project.run("resume", "latest").assert_exit(1)
    assert "steps.List.lines" in result.stderr
    assert did(project) == []


def test_a_step_of_a_machine(tmp_path: Path) -> None:
    outcome = "onOutcome: {good: {nextStep: b}, other: {action: exit, reason: odd}}"
    step = f"{{prompt: Do it., outcomes: [good, other], {outcome}}}"
    machine = f"id: m\nlabel: M\ndescription: d\ninitialStep: a\nsteps:\n  a: {step}\n"
    last = step.replace("{nextStep: b}", "{action: exit, reason: fine}")
    project = Project(tmp_path, {"m.yaml": f"{machine}  b: {last}\n", "s.yaml": "a: [good]\n"})
    rehearse = ("--workflow", "m.yaml", "--backend", "rehearsal")
    project.run("run-step", "a", *rehearse, "--script", "s.yaml").assert_success()
    view = project.run("status", "latest", "--json").assert_success().json()
    assert (view["status"], view["reason"], list(view["steps"])) == ("completed", "good", ["a"])
    assert view["machine"]["sessionId"]
    shown = project.run("status", "latest").stdout
    assert f"session     {view['machine']['sessionId']}" in shown
    assert "outcome good" in shown
    answer = project.run("logs", "latest", "a").assert_success().stdout
    assert answer.splitlines()[-1] == '{"outcome": "good"}'
    project.run("run-step", "b", *rehearse, "--json").assert_success()
    assert project.run("runs", "--limit", "1", "--json").json()["runs"][0]["reason"] == "fine"


def test_a_variable_of_a_recipe_comes_from_another_run_or_the_flags(tmp_path: Path) -> None:
    recipe = """
    name: two
    description: Two steps
    version: 1.0.0
    steps:
      - {id: first, agent: reader, prompt: Read., output: notes}
      - {id: second, agent: reader, prompt: "Use {{notes}}.", condition: "{{notes}} == 'x'"}
    """
    agent = "---\nname: reader\n---\nYou read.\n"
    files = {"w.yaml": recipe, ".orchestrate/agents/reader.md": agent}
    project = Project(tmp_path, files)
    command = ("run-step", "second", "--workflow", "w.yaml")
    env = {"CLAUDE_CLI_PATH": "/bin/true"}
    refused = project.run(*command, env=env).assert_exit(2).stderr
    assert "step 'second' needs a value for 'notes'" in refused
    assert "--context notes=VALUE" in refused
    project.run(*command, "--context", "notes=n", env=env).assert_success()
    assert project.latest_state["skipped_steps"][0]["id"] == "second"
    again = project.run(*command, "--from", "latest", "--json", env=env).assert_success()
    assert again.json()["status"] == "completed"
    assert project.latest_state["context"] == {"notes": "n"}


@pytest.mark.parametrize("path", sorted((package_data() / "workflows").rglob("*.yaml")), ids=str)
def test_every_step_of_the_catalogue_can_stand_alone(path: Path) -> None:
    """The reduced plan is a valid one, and whatever its step reports, the run ends."""
    if "shared" in path.parts:
        return
    program = require_program(compile_file(path, open_workspace(package_data())))
    for step in main_plan(program).blocks[0].nodes:
        if isinstance(step.op, Gate) or not step.is_step:
            continue
        reduced = reduce_to(program, step.name, [])
        assert list(problems(reduced)) == []
        plan = main_plan(reduced)
        alone, *rounds = plan.blocks[0].nodes
        own = {Goto(node.id) for node in (alone, *rounds)}
        assert all(node.part_of == alone.id for node in rounds)
        for _, target in (route for node in (alone, *rounds) for route in node.routes):
            assert isinstance(target, Finish | Abort) or target in own
        for block in plan.blocks[1:]:
            inside = {Goto(node.id) for other in plan.blocks[1:] for node in other.nodes}
            for node in block.nodes:
                for _, target in node.routes:
                    assert isinstance(target, Finish | Abort | Leave) or target in inside
        assert isinstance(alone.op, Each) == (len(plan.blocks) > 1)
        settings = RunSettings(run_step={"step": step.name, "given": []})
        assert as_started(program, settings) == reduced == as_started(reduced, settings)
        assert find_step(reduced, step.name) == alone


def test_given_steps_can_never_be_performed(project: Project) -> None:
    """Should the run be killed before they are recorded, `resume` must not run them."""
    workspace = open_workspace(project.folder)
    program = require_program(compile_file(project.folder / "w.yaml", workspace))
    reduced = reduce_to(program, "Late", ["List", "Bad"])
    assert list(problems(reduced)) == []
    first, second, last = main_plan(reduced).blocks[0].nodes
    assert (first.name, second.name, last.name) == ("List", "Bad", "Late")
    for node in (first, second):
        assert node.guard is not None
        assert node.op != find_step(program, node.name).op
    assert {target for _, target in first.routes} == {Goto("Bad")}
    assert {target for _, target in second.routes} == {Goto("Late")}


def test_what_a_given_result_cost_is_not_counted_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.claude("def answer(prompt): return 'yes'")
    stage.write("p.md", "Do it.")
    ask = "{name: Ask, provider: claude, input_file: p.md}"
    use = '{name: Use, command: [echo, "${steps.Ask.output}"]}'
    stage.write("w.yaml", f'version: "1.1"\nname: w\nsteps:\n  - {ask}\n  - {use}\n')
    stage.run("run", "w.yaml").assert_success()
    first = json.loads(stage.run("status", "latest", "--json").stdout)
    again = stage.run(
        "run-step", "Use", "--workflow", "w.yaml", "--from", first["run_id"], "--json"
    )
    assert first["costs"]["turns"] == 1
    assert "costs" not in json.loads(again.assert_success().stdout)
