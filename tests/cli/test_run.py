"""`orchestrate run --dry-run`: the view of each dialect, and every flag."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrate.testing import Project
from tests.cli.conftest import ROOT

A_19_3 = """\
Recipe: implement-and-review
  Label: Implement & Review
  Description: Implement task, review code, fix issues, and commit
  Guardrails: maxStepVisits=3, maxTotalSteps=100, exitOnOther=true

  Steps:
    implement (initial)
      Outcomes: complete → code-review, no-tasks → EXIT, blocked → EXIT, other → EXIT
      Model: (default)
    code-review
      Outcomes: no-issues → commit, issues-found → fix, other → EXIT
      Model: (default)
    fix
      Outcomes: complete → code-review, other → EXIT
      Model: (default)
    commit
      Outcomes: committed → EXIT, nothing-to-commit → EXIT, other → EXIT
      Model: haiku
"""


def test_machine_view_is_the_one_of_a_19_3(project: Project) -> None:
    """A §19.3 prints this very recipe, which has inputs, a limit and a check by now."""
    result = project.run("run", "implement-and-review", "--dry-run")
    assert result.exit_code == 0
    assert "agent claude-code, model haiku, permissions bypass (1 step)\n" in result.stderr
    new = ("  Inputs:\n", "  Run limits: ", "    task: ", "    check: ", "      Check: ")
    lines = result.stdout.splitlines(keepends=True)
    assert "".join(line for line in lines if not line.startswith(new)) == A_19_3


def test_restart_is_shown_with_the_recipes_id(project: Project) -> None:
    assert "again → RESTART(tidy)" in project.run("run", "tidy", "--dry-run").stdout


def test_recipe_view_has_stages_gates_and_loops(project: Project) -> None:
    out = project.run("run", "look", "--dry-run").stdout
    lines = [line.strip() for line in out.splitlines()]
    for line in (
        "Recipe: look-twice",
        "Stages:",
        "look: agent reader",
        "(approval) after 1m: deny",
        "Prompt: Go on with {{target}}?",
        "For each: item in {{notes}}, at most 100 items, in parallel",
        "Collect: more",
        "depth: 2",
    ):
        assert line in lines, line


def test_workflow_view_has_kinds_loops_and_waits(project: Project) -> None:
    out = project.run("run", "words", "--dry-run").stdout
    for line in (
        "Workflow: words",
        "    List: command ls",
        "      Output: lines",
        "    Count: for each item in steps.List.lines",
        "      On: failure → Done",
        '        Words: command sh -c wc -w < "${item}"',
        "        Ask: provider claude < prompts/ask.md",
        "    Await: wait for 1 file out/*.txt (at most 9s, every 500 ms)",
        "    Done: command echo hello ${context.who}",
    ):
        assert line in out.splitlines(), line


def dry_run(project: Project, name: str, *flags: str, **environment: str) -> Any:
    result = project.run("run", name, "--dry-run", "--json", *flags, env=environment)
    assert result.exit_code == 0, result.stderr
    document = result.json()
    program = document["program"]
    return next(plan for plan in program["plans"] if plan["id"] == program["main"])


def test_json_names_the_dialect(project: Project) -> None:
    for name, dialect in (("tidy", "machine"), ("look", "recipe"), ("words", "workflow")):
        assert project.run("run", name, "--dry-run", "--json").json()["dialect"] == dialect


def test_machine_flags_reach_the_plan(project: Project) -> None:
    plan = dry_run(
        project, "tidy", "--max-steps", "7", "--max-visits", "2", "--max-restarts", "0",
        "--model", "opus", "--step-timeout", "90", "--backend", "claude",
    )  # fmt: skip
    assert plan["limits"]["max_steps"] == 7
    assert plan["limits"]["max_visits"] == 2
    assert plan["limits"]["max_restarts"] == 0
    assert plan["defaults"]["model"] == "opus"
    assert plan["defaults"]["timeout_s"] == 90
    out = project.run("run", "tidy", "--dry-run", "--max-steps", "7").stdout
    assert "maxTotalSteps=7" in out


def test_context_precedence_and_types(project: Project) -> None:
    project.write("context.json", json.dumps({"who": "file", "n": 1, "deep": {"a": [True, None]}}))
    flags = ("--context-file", "context.json", "--context", "n=2", "--context", "x=a=b")
    context = dict(dry_run(project, "words", *flags)["context"]["items"])
    assert context["who"] == {"kind": "const", "value": "file"}
    assert context["n"] == {"kind": "const", "value": "2"}
    assert context["x"] == {"kind": "const", "value": "a=b"}
    assert context["deep"]["kind"] == "map-expr"
    project.write("context.yaml", "who: yaml\n")
    plan = dry_run(project, "words", "--context-file", "context.yaml")
    assert dict(plan["context"]["items"])["who"]["value"] == "yaml"


MODES = """\
version: "1.1"
context: {mode: fast}
steps:
  - {name: Say, command: [echo, "${context.mode}", "${context.extra}"]}
"""


@pytest.mark.parametrize("how", [["--dry-run"], []])
def test_context_that_nothing_reads_is_told(project: Project, how: list[str]) -> None:
    project.write("m.yaml", MODES)
    project.write("c.yaml", "mood: slow\nfor_another_recipe: 1\nextra: e\n")
    flags = ("--context", "mod=slow", "--context", "zzz=1", "--context-file", "c.yaml")
    told = project.run("run", "m.yaml", *how, *flags)
    assert told.exit_code == 0, told.stderr
    assert "warning: --context: nothing here reads 'mod' (did you mean 'mode'?)" in told.stderr
    assert "warning: --context: nothing here reads 'zzz'\n" in told.stderr
    assert "--context-file: nothing here reads 'mood' (did you mean 'mode'?)" in told.stderr
    assert "another" not in told.stderr
    assert "'extra'" not in told.stderr
    right = project.run("run", "m.yaml", *how, "--context", "mode=slow", "--context", "extra=1")
    assert "warning" not in right.stderr
    recipe = project.run("run", "look", "--dry-run", "--context", "taget=x", "--context", "depth=1")
    assert "nothing here reads 'taget' (did you mean 'target'?)" in recipe.stderr
    assert "depth" not in recipe.stderr


def test_workflow_flags_reach_the_plan(project: Project) -> None:
    flags = ("--on-error", "continue", "--max-retries", "2", "--retry-delay", "1500")
    plan = dry_run(project, "words", *flags)
    assert plan["defaults"]["retry"]["attempts"] == 3
    assert plan["defaults"]["retry"]["delay_s"] == 1.5
    nodes = {node["id"]: node for block in plan["blocks"] for node in block["nodes"]}
    assert nodes["List"]["on_failure"] == "count"
    assert dict(nodes["List"]["routes"])["@failed"] == nodes["List"]["follow"]
    assert nodes["Count"]["on_failure"] == "handled"
    assert nodes["Count"]["op"]["stop_on_failure"] is False


def test_recipe_flags_reach_the_plan(project: Project) -> None:
    plan = dry_run(project, "look", "--max-parallel", "3", "--step-timeout", "5")
    assert plan["limits"]["max_parallel"] == 3
    assert plan["defaults"]["timeout_s"] == 5


def test_the_configuration_reaches_the_plan_and_a_flag_wins(project: Project) -> None:
    project.write(".orchestrate/config.yaml", "model: haiku\nstep_timeout: 2\nmax_parallel: 2\n")
    shown = project.run("run", "look", "--dry-run").stdout
    assert "max_parallel=2" in shown
    assert "Step timeout: 2s" in shown
    assert "Model: (default: haiku)" in project.run("run", "tidy", "--dry-run").stdout
    plan = dry_run(project, "look", "--max-parallel", "3", ORCHESTRATE_STEP_TIMEOUT="7")
    assert plan["limits"]["max_parallel"] == 3
    assert plan["defaults"]["timeout_s"] == 7
    assert not (project.folder / ".orchestrate/runs").exists()
    project.write(".orchestrate/config.yaml", "step_timeout: soon\n")
    refused = project.run("run", "look", "--dry-run")
    assert refused.exit_code == 5
    assert ".orchestrate/config.yaml:1:15" in refused.stderr


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("words", ["--model", "opus"]),
        ("look", ["--max-restarts", "3"]),
        ("words", ["--step-timeout", "3"]),
        ("tidy", ["--max-parallel", "3"]),
        ("tidy", ["--context", "a=b"]),
        ("tidy", ["--context-file", "x.json"]),
        ("tidy", ["--on-error", "stop"]),
        ("look", ["--on-error", "stop"]),
        ("look", ["--max-retries", "0"]),
    ],
)
def test_flag_of_another_dialect_is_an_error(project: Project, name: str, flags: list[str]) -> None:
    result = project.run("run", name, "--dry-run", *flags)
    dialect = {"tidy": "machine", "look": "recipe", "words": "workflow"}[name]
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{flags[0]} cannot be used with a {dialect}" in result.stderr


@pytest.mark.parametrize(
    ("name", "flags", "told"),
    [
        ("tidy", ["--max-steps", "0"], "--max-steps"),
        ("tidy", ["--max-steps", "-1"], "--max-steps"),
        ("tidy", ["--max-visits", "many"], "--max-visits"),
        ("tidy", ["--step-timeout", "0"], "--step-timeout"),
        ("tidy", ["--model", " "], "--model"),
        ("words", ["--max-retries", "-1"], "--max-retries"),
        ("words", ["--on-error", "explode"], "--on-error"),
        ("words", ["--context", "novalue"], "KEY=VALUE"),
        ("words", ["--context", "=x"], "KEY=VALUE"),
        ("words", ["--context-file", "missing.json"], "'missing.json': there is no such file"),
        ("words", ["--context-file", "list.json"], "not a mapping"),
        ("words", ["--context-file", "bad.json"], "bad.json:1:7: error E006"),
        ("words", ["--context-file", "twice.yaml"], "error E007"),
        ("look", ["--context", "session=1"], "reserved"),
    ],
)
def test_bad_values_are_usage_errors(
    project: Project, name: str, flags: list[str], told: str
) -> None:
    project.write("list.json", "[1]")
    project.write("bad.json", '{"a": nope}')
    project.write("twice.yaml", "a: 1\na: 2\n")
    result = project.run("run", name, "--dry-run", *flags)
    assert (result.exit_code, result.stdout) == (2, "")
    assert told in result.stderr, result.stderr


def test_unknown_backend_is_a_configuration_error(project: Project) -> None:
    result = project.run("run", "tidy", "--dry-run", "--backend", "cluade-code")
    assert result.exit_code == 5
    assert "there is no backend 'cluade-code' (did you mean 'claude-code'?)" in result.stderr
    as_json = project.run("run", "tidy", "--dry-run", "--backend", "cluade-code", "--json")
    assert as_json.json()["error"]["exit_code"] == 5


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "tidy", "--max-steps", "abc"], "'abc' is not a whole number of at least 1"),
        (["run", "tidy", "--max-steps", "0"], "0 is not a whole number of at least 1"),
        (["run", "tidy", "--max-steps", "1e3"], "'1e3' is not a whole number of at least 1"),
        (["run", "tidy", "--max-restarts", "-1"], "-1 is not a whole number of at least 0"),
        (["run", "tidy", "--max-visits", "9000000000"], "9000000000 is too large"),
        (["run", "tidy", "--silence-timeout", "nan"], "'nan' is not a duration"),
        (["wait", "latest", "--timeout", "inf"], "inf is too large"),
        (["cancel", "latest", "--wait", "x"], "'x' is not a duration"),
        (["runs", "--limit", "x"], "'x' is not a whole number of at least 0"),
    ],
)
def test_what_is_no_number_is_refused_in_words(
    project: Project, words: list[str], told: str
) -> None:
    refused = project.run(*words)
    assert refused.exit_code == 2
    assert told in refused.stderr


def test_help_has_no_formulas(project: Project) -> None:
    for command in ("run", "logs", "wait", "cancel", "clean", "runs", "resume"):
        shown = project.run(command, "--help").stdout
        assert "Options:" in shown
        assert "<=" not in shown
        assert "x>=" not in shown


def test_a_workflow_names_its_agents_itself(project: Project) -> None:
    refused = project.run("run", "words", "--backend", "codex").assert_exit(2)
    assert "--backend codex cannot be used with a workflow" in refused.stderr
    project.run("run", "words", "--backend", "rehearsal").assert_success()


def test_without_dry_run_it_runs(project: Project) -> None:
    result = project.run("run", "tidy", "--backend", "rehearsal")
    assert result.exit_code == 0
    assert result.stdout.endswith("Exit: all-good\n")
    assert result.stderr.startswith("run 2")


def test_an_agent_that_is_not_installed_is_refused(project: Project) -> None:
    result = project.run("run", "tidy", env={"PATH": "/nowhere", "HOME": "/nowhere"})
    assert (result.exit_code, result.stdout) == (5, "")
    assert "Claude Code is not installed" in result.stderr


def test_invalid_definition_is_not_shown(project: Project) -> None:
    result = project.run("run", "broken/tidy.yaml", "--dry-run")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error E203" in result.stderr


def test_every_shipped_recipe_has_a_dry_run(project: Project) -> None:
    recipes = project.run("list", "--json", "--working-dir", str(ROOT)).json()["recipes"]
    assert len(recipes) >= 8
    for recipe in recipes:
        result = project.run("run", recipe["id"], "--dry-run", "--working-dir", str(ROOT))
        assert result.exit_code == 0, result.stderr
        assert recipe["name"] in result.stdout.splitlines()[0]
