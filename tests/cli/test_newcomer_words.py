"""What a newcomer could not tell from the screen: dry runs, logs, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.testing import Project

BAD = "echo seen; echo bad >&2; false"
MACHINE = f"""
id: m
label: M
description: d
initialStep: go
steps:
  go:
    prompt: Implement
    check: {{command: "{BAD}", rounds: 1}}
    outcomes: [complete, other]
    onOutcome:
      complete: {{action: exit, reason: fine}}
      other: {{action: exit, reason: other, status: failed}}
"""
CHECKED = {
    "machine": MACHINE,
    "recipe": f"""
name: r
description: d
version: 1.0.0
steps:
  - {{id: go, agent: helper, prompt: hi, check: {{command: "{BAD}", rounds: 1}}}}
""",
    "workflow": f"""
version: "1.4"
name: w
steps:
  - {{name: go, provider: claude, prompt: hi, check: {{command: "{BAD}", rounds: 1}}}}
""",
}
INNER = """
version: "1.4"
name: inner
inputs: {x: {default: ""}}
steps:
  - {name: Ask, provider: claude, provider_params: {model: opus}, prompt: "Do ${inputs.x}"}
"""
CALLER = """
id: m
label: M
description: d
inputs: {task: {default: ""}}
initialStep: go
steps:
  go:
    call: inner.yaml
    with: {x: "{{task}}"}
    outcomes: [completed, failed]
    onOutcome:
      completed: {action: exit, reason: fine}
      failed: {action: exit, reason: bad, status: failed}
"""
ENVIRONMENT = {"ORCHESTRATE_BACKEND": "rehearsal"}


def test_a_dry_run_shows_what_a_call_and_an_agent_are_given(tmp_path: Path) -> None:
    project = Project(tmp_path, {"inner.yaml": INNER, "m.yaml": CALLER})
    shown = project.run("run", "m.yaml", "--dry-run").assert_success().stdout
    assert (
        "    go (initial)\n      recipe inner (inner.yaml)\n      With: {x: {{task}}}\n"
        "      Outcomes: completed → EXIT, failed → EXIT(failed)\n"
    ) in shown
    assert "      Prompt: Do ${inputs.x}\n      Parameters: {model: opus}\n" in shown
    caller = 'version: "1.4"\nname: w\nsteps: [{name: C, call: inner.yaml, with: {x: a}}]\n'
    project.write("w.yaml", caller)
    shown = project.run("run", "w.yaml", "--dry-run").assert_success().stdout
    assert "    C: recipe inner (inner.yaml)\n      With: {x: a}\n" in shown
    step = "{id: a, agent: foo, prompt: hi, agent_config: {model: opus}}"
    project.write("r.yaml", f"name: r\ndescription: d\nversion: 1.0.0\nsteps: [{step}]\n")
    shown = project.run("run", "r.yaml", "--dry-run").assert_success().stdout
    assert "      Prompt: hi\n      Agent config: {model: opus}\n" in shown


@pytest.mark.parametrize("dialect", CHECKED)
def test_a_failed_checks_errors_are_shown_once(tmp_path: Path, dialect: str) -> None:
    project = Project(tmp_path, {"f.yaml": CHECKED[dialect], "s.yaml": "go: [complete]\n"})
    project.write(".orchestrate/agents/helper.md", "---\nname: helper\n---\nHelp.\n")
    script = ("--script", "s.yaml") if dialect == "machine" else ()
    flags = ("--backend", "rehearsal", *script) if dialect != "workflow" else ()
    project.run("run", "f.yaml", "--rehearse-commands", *flags, env=ENVIRONMENT).assert_exit(
        3 if dialect == "machine" else 1
    )
    assert project.run("logs", "go:check-1").stdout == "seen\nbad\n"
    assert project.run("logs", "go:check-1", "--stdout").stdout == "seen\n"
    assert project.run("logs", "go:check-1", "--stderr").stdout == "bad\n"
    everything = project.run("logs", "go:check-1", "--all").stdout
    assert everything.count("bad\n") == everything.count("seen\n") == 1


def test_a_machines_log_begins_once_and_has_no_names_of_ours(tmp_path: Path) -> None:
    text = MACHINE.replace("false", "test -e ok || { touch ok; false; }")
    project = Project(tmp_path, {"f.yaml": text, "s.yaml": "go: [complete]\n"})
    flags = ("--backend", "rehearsal", "--rehearse-commands", "--script", "s.yaml")
    project.run("run", "f.yaml", *flags).assert_success()
    log = project.run("logs").assert_success().stdout
    assert log.count("[recipe:started]") == 1
    assert "[step:outcome] passed" in log
    assert "@ok" not in log


def test_all_attempts_are_told_apart_after_an_edit(tmp_path: Path) -> None:
    text = 'version: "1.4"\nname: w\nsteps:\n'
    text += '  - {name: A, command: ["echo", "a"]}\n  - {name: B, command: ["echo", "b"]}\n'
    project = Project(tmp_path, {"w.yaml": text})
    project.run("run", "w.yaml").assert_success()
    project.run("resume", "latest", "--redo", "B").assert_success()
    assert project.run("logs", "A", "--all").stdout == "--- A, attempt 1: completed\na\n"
    assert project.run("logs", "B", "--all").stdout == (
        "--- B, attempt 1: completed\nb\n--- B, after edit 1, attempt 1: completed\nb\n"
    )


def test_every_wrong_input_is_told_at_once(tmp_path: Path) -> None:
    text = """
version: "1.4"
name: w
inputs: {task: {}, n: {type: integer}, b: {type: boolean}}
steps: [{name: A, command: ["echo", "${inputs.task}"]}]
"""
    project = Project(tmp_path, {"w.yaml": text})
    told = project.run("run", "w.yaml", "-i", "n=x", "-i", "b=y", "-i", "m=1", "-i", "task=t")
    for words in ("'n': 'x' is not a whole", "'b': 'y' is neither", "there is no input 'm'"):
        assert words in told.assert_exit(2).stderr
    told = project.run("run", "w.yaml").assert_exit(2)
    assert 'task can be the text after the file, too: run FILE "TEXT"' in told.stderr


def test_a_missing_agent_names_what_mends_it(tmp_path: Path) -> None:
    step = "{id: a, agent: foo, prompt: hi}"
    text = f"name: r\ndescription: d\nversion: 1.0.0\nsteps: [{step}]\n"
    project = Project(tmp_path, {"r.yaml": text})
    mends = "`orchestrate init --agents-of r.yaml` writes a stub"
    assert mends in project.run("validate", "r.yaml").stdout
    told = project.run("run", "r.yaml").assert_exit(5)
    assert "`orchestrate init --agents-of r.yaml` writes a stub" in told.stderr
    project.write(".orchestrate/config.yaml", "agent_aliases: {foo: bar}\n")
    assert "there is no agent 'bar' here, which 'foo' stands for" in (
        project.run("validate", "r.yaml").stdout
    )


def test_a_slip_of_a_files_name_is_no_shared_ending(tmp_path: Path) -> None:
    project = Project(tmp_path, {"v.yaml": "x: 1\n", "build.yaml": "x: 1\n"})
    assert "did you mean" not in project.run("validate", "nope.yaml").stdout
    assert "'build.yaml'" in project.run("validate", "biuld.yaml").stdout
    assert "'build.yaml'" in project.run("validate", "build.yml").stdout


def test_max_parallel_holds_for_a_workflow(tmp_path: Path) -> None:
    text = """
version: "1.4"
name: w
steps:
  - name: L
    for_each:
      items: [a, b, c]
      parallel: true
      steps:
        - {name: S, command: ["sh", "-c", "mkdir here && sleep 0.1 && rmdir here"]}
"""
    project = Project(tmp_path, {"w.yaml": text})
    project.run("run", "w.yaml", "--max-parallel", "1").assert_success()


def test_a_visit_is_found_in_both_spellings(tmp_path: Path) -> None:
    text = """
version: "1.4"
name: w
steps:
  - {name: A, command: ["sh", "-c", "echo x >> n; wc -l < n"]}
  - {name: B, command: ["sh", "-c", "test $(wc -l < n) -gt 1"], on: {failure: {goto: A}}}
"""
    project = Project(tmp_path, {"w.yaml": text})
    project.run("run", "w.yaml").assert_success()
    for step in ("A:2", "A@2"):
        assert project.run("logs", step).assert_success().stdout.strip() == "2"
    assert project.run("logs", "A:1").stdout.strip() == "1"


def test_one_step_says_nothing_of_outputs_of_others(tmp_path: Path) -> None:
    text = """
version: "1.4"
name: w
outputs: {s: "${steps.B.output}", a: "${steps.A.output}"}
steps:
  - {name: A, command: ["echo", "a"]}
  - {name: B, command: ["echo", "b"]}
"""
    project = Project(tmp_path, {"w.yaml": text})
    project.run("run", "w.yaml").assert_success()
    for flags in (("--run", "latest"), ("--workflow", "w.yaml")):
        told = project.run("run-step", "A", *flags).assert_success()
        assert "has no value" not in told.stderr
