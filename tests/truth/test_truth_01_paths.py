"""1: every path that we print can be typed where a step is asked for; the run may be left out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrate.cli.completing import complete
from orchestrate.cli.main import run_command
from tests.acceptance.fakes import Played, Stage

Ask = Callable[..., tuple[int, str, str]]
_HELPER = {".orchestrate/agents/helper.md": "---\nname: helper\ndescription: h\n---\nHelp.\n"}
_HEAD = "description: A trial\nversion: 1.0.0\n"


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Ask:
    """Give a command in the workspace, here: its exit code and what it printed."""

    def give(*arguments: str) -> tuple[int, str, str]:
        stage = Stage(tmp_path)
        for name, value in stage.surroundings.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(stage.folder)
        capfd.readouterr()
        code = run_command(arguments)
        return code, *capfd.readouterr()

    return give


@pytest.fixture
def machine(tmp_path: Path) -> Played:
    """`work` restarts the machine; after that it fails at its second attempt to be understood."""
    stage = Stage(tmp_path)
    stage.claude(
        """
def answer(prompt):
    return "first\\n" + json.dumps(dict(outcome="again")) if number == 1 else "no outcome here"
"""
    )
    text = """
        id: m
        label: m
        description: a trial
        initialStep: work
        steps:
          work:
            prompt: Work.
            outcomes: [again, other]
            onOutcome:
              again: {action: restart-new-session, recipeId: m}
              other: {action: exit, reason: user-provided-other}
        """
    return stage.play(text, name="m.yaml", exit_code=2)


@pytest.fixture
def workflow(tmp_path: Path) -> Played:
    """A loop in a loop, entered twice by `goto`; `Last` needs a second attempt."""
    return Stage(tmp_path).play("""
        version: "1.1"
        name: w
        strict_flow: false
        steps:
          - name: Outer
            for_each:
              items: [a, b]
              steps:
                - name: Inner
                  for_each:
                    items: [c]
                    as: other
                    steps:
                      - {name: Chew, command: [sh, -c, 'echo "chews ${item}"; cat n 2>&1']}
          - name: Decide
            command: [sh, -c, "echo x >> n; test $(wc -l < n) -ge 2"]
            on:
              failure: {goto: Outer}
          - name: Last
            command: [sh, -c, "echo y >> n; echo tries; test $(wc -l < n) -ge 4"]
            retries: {max: 2, delay_ms: 1}
    """)


@pytest.fixture
def recipe(tmp_path: Path) -> Played:
    """A loop of one step, a call, a call for each item, and a step that is called as its caller."""
    child = f"name: child\n{_HEAD}steps:\n  - {{id: audit, agent: helper, prompt: Audit.}}\n"
    stage = Stage(tmp_path, {**_HELPER, "child.yaml": child})
    return stage.play(
        f"""name: r
{_HEAD}context: {{items: [x, y]}}
steps:
  - {{id: look, foreach: "{{{{items}}}}", agent: helper, prompt: "Look at {{{{item}}}}."}}
  - {{id: audit, type: recipe, recipe: child.yaml}}
  - {{id: each, foreach: "{{{{items}}}}", type: recipe, recipe: child.yaml}}
""",
        "--backend",
        "rehearsal",
        name="r.yaml",
    )


def _printed(played: Played, ask: Ask) -> set[str]:
    """The paths of steps that a run, its log, `status` and `report` have shown."""
    paths = set(re.findall(r"^\[\d+/\d+\] (.+?): ", played.result.stderr, re.MULTILINE))
    log = (played.root / "logs/orchestrator.log").read_text("utf-8")
    paths |= set(re.findall(r" step=(\S+)", log)) - {"-"}
    status = json.loads(ask("status", "--json")[1])
    paths |= {step["step"] for step in status["current"]}
    report = json.loads(ask("report", "--format", "md", "-o", "report.md", "--json")[1])
    paths |= {step["step"] for step in report["steps"]}
    _, shown, _ = ask("status")
    paths |= {line.split()[-1] for line in shown.splitlines() if "orchestrate logs" in line}
    return paths


def _refused(paths: set[str], ask: Ask) -> list[str]:
    """Those that `logs` does not take. A loop or a call has no output: it says which steps have."""
    found = []
    # Behind the path stands what the item is called.
    for path in sorted({path.partition(" (")[0] for path in paths}):
        code, _, err = ask("logs", "latest", path)
        if code and "is a loop or a call: name the step in it" not in err:
            found.append(f"{path}: {err}")
    return found


def test_truth_01_paths_of_a_restarted_machine_can_be_typed(machine: Played, ask: Ask) -> None:
    paths = _printed(machine, ask)
    assert {"work", "restart-1/work"} <= paths
    assert _refused(paths, ask) == []
    advised = re.findall(r"orchestrate (logs .*)", ask("status")[1])
    assert advised
    assert ask(*advised[0].split())[0] == 0
    assert "first" in ask("logs", "latest", "work:1.1")[1]
    assert "no outcome" in ask("logs", "latest", "restart-1/work")[1]
    assert "no outcome" in ask("logs", "latest", "work")[1]
    titles = re.findall(r"--- (\S+, .*): ", ask("logs", "latest", "work", "--all", "--stdout")[1])
    assert titles[0] == "work, attempt 1"
    assert titles[1:] == [
        "restart-1/work, attempt 1: reminded",
        "restart-1/work, attempt 2: failed",
    ]
    assert ask("logs", "latest", "restart-2/work")[0] == 2


def test_truth_01_paths_of_loops_entered_twice_can_be_typed(workflow: Played, ask: Ask) -> None:
    paths = _printed(workflow, ask)
    assert {"Outer:2[1]/Inner[0]/Chew", "Outer[*]/Inner[*]/Chew", "Last"} <= paths
    assert _refused(paths, ask) == []
    one, two = ("Outer[1]/Inner[0]/Chew:1.1", "Outer:2[1]/Inner[0]/Chew")
    assert "No such file" in ask("logs", "latest", one)[1]
    assert ask("logs", "latest", two)[1] == "chews c\nx\n"
    # What is left out means the newest.
    assert ask("logs", "latest", "Outer[1]/Inner[0]/Chew")[1] == "chews c\nx\n"
    assert ask("logs", "latest", "Outer.1.Inner.0.Chew")[1] == "chews c\nx\n"
    for attempt in ("Last:1.1", "Last:1.2", "Last:1", "Last"):
        assert ask("logs", "latest", attempt, "--json")[0] == 0
    assert json.loads(ask("logs", "latest", "Last:1.1", "--json")[1])["exit_code"] == 1
    assert json.loads(ask("logs", "latest", "Last:1.2", "--json")[1])["exit_code"] == 0
    assert ask("logs", "latest", "Last:1.3")[0] == 2
    assert ask("logs", "latest", "Outer:3[1]/Inner[0]/Chew")[0] == 2
    all_of_it = ask("logs", "latest", "Outer[0]/Inner[0]/Chew", "--all", "--json")[1]
    assert len(json.loads(all_of_it)["attempts"]) == 2


def test_truth_01_paths_of_a_recipe_are_spelled_in_one_way(recipe: Played, ask: Ask) -> None:
    paths = _printed(recipe, ask)
    assert {"look[0]", "audit/audit", "each[1]()/audit"} <= paths
    assert not {path for path in paths if "look[0]/" in path or path.startswith("audit()")}
    assert _refused(paths, ask) == []
    for same in ("look[0]", "look[0]/look", "look.0.look", "look[0]:1.1"):
        assert json.loads(ask("logs", "latest", same, "--json")[1])["step"] == "look[0]"
    for same in ("audit/audit", "audit()/audit", "audit.audit"):
        assert json.loads(ask("logs", "latest", same, "--json")[1])["step"] == "audit/audit"
    for same in ("each[1]()/audit", "each[1]/each()/audit", "each[1]/each/audit"):
        assert json.loads(ask("logs", "latest", same, "--json")[1])["step"] == "each[1]()/audit"


def test_truth_01_run_left_out_means_the_latest(workflow: Played, ask: Ask) -> None:
    run_id = workflow.root.name
    assert json.loads(ask("status", "--json")[1])["run_id"] == run_id
    assert json.loads(ask("logs", "--json")[1])["run_id"] == run_id
    assert json.loads(ask("report", "-o", "r.html", "--json")[1])["run_id"] == run_id
    assert ask("wait")[0] == 0
    code, out, err = ask("resume")
    assert (code, run_id in out + err) == (0, True)
    assert json.loads(ask("stop", "--json")[1])["run_id"] == run_id
    for words in (("cancel",), ("deny",), ("deny", "-m", "no"), ("rewind",), ("rewind", "--undo")):
        code, _, err = ask(*words)
        assert (code, "Missing argument 'RUN'" in err) == (2, True), "what is final has to be named"


def test_truth_01_one_word_after_logs_is_a_run_or_a_step_of_the_latest(
    workflow: Played, ask: Ask
) -> None:
    run_id = workflow.root.name
    whole = ask("logs", run_id)
    assert whole == ask("logs", "latest") == ask("logs") == ask("logs", run_id[:19])
    assert ask("logs", "Last") == ask("logs", "latest", "Last")
    assert ask("logs", "Outer[0]/Inner[0]/Chew", "--stdout")[1] == "chews c\nx\n"
    code, _, err = ask("logs", "Lsat")
    assert (code, "did you mean 'Last'" in err) == (2, True)
    code, _, err = ask("logs", "20990101T000000Z-aaaaaa")
    assert (code, "there is no run" in err) == (2, True)


def test_truth_01_paths_are_completed(
    workflow: Played, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workflow.root.parents[2])
    path = "Outer:2[1]/Inner[0]/Chew"
    for words in (["logs", "Out"], ["logs", "latest", "Out"], ["logs", workflow.root.name, "Out"]):
        assert path in [item.value for item in complete(words, "zsh")[1]]
    runs = [item.value for item in complete(["logs", ""], "zsh")[1]]
    assert {"latest", workflow.root.name, "Decide", "Last"} <= set(runs)


def test_truth_01_run_step_takes_the_paths_of_its_steps(workflow: Played, ask: Ask) -> None:
    for name in ("Last:1.2", "restart-1/Last"):
        code, _, err = ask("run-step", name, "--workflow", "w.yaml")
        assert (code, "[1/1] Last: Running" in err) == (0, True), err
    code, _, err = ask("run-step", "Outer:2[1]/Inner[0]/Chew", "--workflow", "w.yaml")
    assert (code, "inside the loop 'Outer'" in err) == (2, True)
    assert "orchestrate run-step Outer --workflow" in err
