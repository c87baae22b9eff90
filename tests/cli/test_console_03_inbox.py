"""`inbox` and `answer`: what waits for a person in all workspaces, answered once (issue 16)."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from orchestrate.state.known_workspaces import known_workspaces, note_workspace
from tests.acceptance.fakes import Stage
from tests.machines.fakes import git
from tests.machines.terminal import Terminal
from tests.promises.processes import wait_until

AGENT = "---\nname: reader\n---\nYou read.\n"
RECIPE = """\
name: look-twice
description: Look at a file twice
version: 1.0.0
stages:
  - name: first look
    steps: [{id: look, agent: reader, prompt: Look.}]
    approval: {required: true, prompt: "Go on\\e[31m?", timeout: 3600}
  - name: second look
    steps: [{id: again, agent: reader, prompt: "Again {{approval.message}}"}]
"""
MACHINE = """\
id: trial
label: trial
description: a trial
initialStep: look
steps:
  look:
    prompt: Look.
    outcomes: [done, other]
    onOutcome: {done: {nextStep: ask}, other: {action: exit, reason: no}}
  ask:
    approval: {prompt: "Ship it?"}
    onOutcome: {approved: {nextStep: look}, denied: {action: exit, reason: not-shipped}}
"""


def stage_in(top: Path, name: str = "one", text: str = RECIPE) -> Stage:
    """A workspace; those below one folder have one user."""
    (top / name).mkdir(parents=True)
    stage = Stage(top / name, {"w.yaml": text, ".orchestrate/agents/reader.md": AGENT})
    stage.claude("""
def answer(prompt):
    return "I have looked." + chr(10) + json.dumps(dict(outcome="done"))
""")
    return stage


def env_of(top: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(top / "state"), "USER": "alice"}


@pytest.fixture
def parked(tmp_path: Path) -> Stage:
    stage = stage_in(tmp_path)
    stage.run("run", "w.yaml", env=env_of(tmp_path)).assert_exit(6)
    return stage


def inbox(stage: Stage, top: Path) -> list[dict[str, Any]]:
    document = stage.run("inbox", "--json", env=env_of(top)).assert_exit(0).json()
    found: list[dict[str, Any]] = document["questions"]
    return found


def ended(stage: Stage) -> str:
    """How the run ends that goes on in the background."""

    def status() -> str:
        path = stage.runs_folder / "latest" / "state.json"
        return str(json.loads(path.read_text())["status"])

    wait_until(lambda: status() not in ("running", "paused"), "the run does not go on")
    return status()


def test_console_03_a_question_has_its_evidence_and_is_answered(
    parked: Stage, tmp_path: Path
) -> None:
    (question,) = inbox(parked, tmp_path)
    assert (question["kind"], question["about"]) == ("gate", "first look")
    assert question["evidence"]["step"] == "look"
    assert question["evidence"]["answer"].startswith("I have looked.")
    assert question["evidence"]["costs"]["turns"] == 1
    assert [one["value"] for one in question["choices"]] == ["approve", "deny"]
    assert question["choices"][0]["then"] == "goes on with 'again'"
    assert "has failed" in question["choices"][1]["then"]
    shown = parked.run("inbox", env=env_of(tmp_path)).assert_exit(0).stdout
    assert "| Go on␛[31m?\n" in shown
    assert f"orchestrate answer {question['token']} approve" in shown
    assert "| I have looked." in shown
    assert "cost     $0.0100 in 1 agent call" in shown

    told = parked.run("answer", question["token"], "approve", "-m", "well", env=env_of(tmp_path))
    assert "goes on" in told.assert_exit(0).stdout
    assert ended(parked) == "completed"
    assert inbox(parked, tmp_path) == []
    assert parked.calls("claude")[-1].stdin.startswith("Again well")


def test_console_03_the_first_answer_counts(parked: Stage, tmp_path: Path) -> None:
    env = env_of(tmp_path)
    token = inbox(parked, tmp_path)[0]["token"]
    first = parked.run("answer", token, "approve", "--no-resume", "--json", env=env)
    assert first.assert_exit(0).json()["result"] == "recorded"
    assert first.json()["status"] == "paused"
    again = parked.run("answer", token, "yes", "--no-resume", "--json", env=env)
    assert again.assert_exit(0).json()["result"] == "already"
    other = parked.run("answer", token, "deny", env=env).assert_exit(2)
    assert "was answered 'approve' already, by alice" in other.stderr
    # The same answer goes on with a run that nobody works on.
    parked.run("answer", token, "approve", env=env).assert_exit(0)
    assert ended(parked) == "completed"


def test_console_03_only_what_was_shown_is_answered(parked: Stage, tmp_path: Path) -> None:
    env = env_of(tmp_path)
    token = inbox(parked, tmp_path)[0]["token"]
    number, digest = token.rpartition(".")[::2]
    stale = parked.run("answer", f"{number}.{'0' * len(digest)}", "approve", env=env)
    assert "is not what was shown any more" in stale.assert_exit(2).stderr
    for bad in (token.partition(".")[0], "a3f8c2.123456.000000", f"{number}."):
        parked.run("answer", bad, "approve", env=env).assert_exit(2)
    wrong = parked.run("answer", token, "perhaps", env=env).assert_exit(2)
    assert "answers: approve, deny" in wrong.stderr
    assert len(inbox(parked, tmp_path)) == 1


def test_console_03_a_denial_ends_the_run(parked: Stage, tmp_path: Path) -> None:
    token = inbox(parked, tmp_path)[0]["token"]
    told = parked.run("answer", token, "deny", env=env_of(tmp_path)).assert_exit(0).stdout
    assert "is failed" in told
    assert inbox(parked, tmp_path) == []


def test_console_03_all_workspaces_oldest_first_and_gone_ones(
    parked: Stage, tmp_path: Path
) -> None:
    env = env_of(tmp_path)
    machine = stage_in(tmp_path, "two", MACHINE)
    machine.run("run", "w.yaml", env=env).assert_exit(6)
    listed = machine.run("approvals", "--json", env=env).json()["approvals"]
    assert [one["stage"] for one in listed] == ["ask"]
    third = stage_in(tmp_path, "three")
    third.run("run", "w.yaml", "--state-dir", "elsewhere", env=env).assert_exit(6)
    found = inbox(third, tmp_path)
    assert [one["about"] for one in found] == ["first look", "ask", "first look"]
    assert [Path(one["workspace"]).parent.name for one in found] == ["one", "two", "three"]
    assert found[1]["choices"][0]["then"] == "goes on with 'look'"
    assert found[1]["choices"][1]["then"] == "the run ends: not-shipped"
    # Answered from any folder, also a machine's and one in a state folder of its own.
    parked.run("answer", found[1]["token"], "deny", env=env).assert_exit(0)
    assert ended(machine) == "completed"
    parked.run("answer", found[2]["token"], "deny", env=env).assert_exit(0)
    shutil.rmtree(third.folder)
    assert "gone" in parked.run("inbox", env=env).assert_exit(0).stderr
    assert parked.run("inbox", "--json", env=env).json()["gone"] == [str(third.folder)]


def test_console_03_files_that_changed_are_told_as_git_does(tmp_path: Path) -> None:
    stage = stage_in(tmp_path)
    git(stage.folder, "init", "-q")
    git(stage.folder, "add", ".")
    git(stage.folder, "commit", "-qm", "Begin")
    stage.claude("""
def answer(prompt):
    pathlib.Path("made.txt").write_text("x")
    return "Made."
""")
    stage.run("run", "w.yaml", env=env_of(tmp_path)).assert_exit(6)
    (question,) = inbox(stage, tmp_path)
    (file,) = [one for one in question["evidence"]["files"] if one["path"] == "made.txt"]
    assert (file["what"], file["added"], file["removed"]) == ("new", 1, 0)


def test_console_03_a_decision_by_name_is_the_same_answer(parked: Stage, tmp_path: Path) -> None:
    env = env_of(tmp_path)
    token = inbox(parked, tmp_path)[0]["token"]
    parked.run("approve", "first look", env=env).assert_exit(0)
    assert inbox(parked, tmp_path) == []
    parked.run("answer", token, "approve", "--no-resume", env=env).assert_exit(0)
    parked.run("answer", token, "deny", env=env).assert_exit(2)


def test_console_03_approve_and_deny_take_a_stage_alone(parked: Stage, tmp_path: Path) -> None:
    env = env_of(tmp_path)
    unknown = parked.run("deny", "third look", env=env).assert_exit(2)
    assert "third look" in unknown.stderr
    parked.run("run", "w.yaml", "--allow-concurrent", env=env).assert_exit(6)
    other = parked.run("runs", "--json", env=env).json()["runs"][1]["run_id"]
    assert "Missing argument 'RUN'" in parked.run("deny", env=env).assert_exit(2).stderr
    parked.run("deny", "latest", env=env).assert_exit(0)
    assert [one["run_id"] for one in inbox(parked, tmp_path)] == [other]
    # The latest waits no more: it is the only one that does.
    parked.run("approve", "first look", env=env).assert_exit(0)


def test_console_03_several_gates_are_listed_and_none_is_decided(tmp_path: Path) -> None:
    stage = stage_in(tmp_path)
    env = env_of(tmp_path)
    for _ in range(2):
        stage.run("run", "w.yaml", "--allow-concurrent", env=env).assert_exit(6)
    stage.run("cancel", "latest", env=env).assert_exit(0)
    stage.run("run", "w.yaml", "--allow-concurrent", env=env).assert_exit(6)
    stage.run("run", "w.yaml", "--allow-concurrent", env=env).assert_exit(6)
    stage.run("cancel", "latest", env=env).assert_exit(0)
    refused = stage.run("approve", env=env).assert_exit(2)
    assert refused.stderr.count("orchestrate approve 2") == 2
    assert len(inbox(stage, tmp_path)) == 2


def test_console_03_a_note_of_a_workspace_never_matters_to_a_run(tmp_path: Path) -> None:
    stage = stage_in(tmp_path)
    blocked = tmp_path / "file"
    blocked.touch()
    env = {"XDG_STATE_HOME": str(blocked), "USER": "alice"}
    stage.run("run", "w.yaml", env=env)
    assert known_workspaces({"XDG_STATE_HOME": str(blocked)}) == []
    home = {"XDG_STATE_HOME": str(tmp_path / "s")}
    note_workspace(tmp_path / "a", tmp_path / "b", home)
    note_workspace(tmp_path / "a", tmp_path / "b", home)
    (known,) = known_workspaces(home)
    assert known.is_gone
    (path,) = (tmp_path / "s" / "orchestrate" / "known").iterdir()
    (path.parent / "x.json").write_text("garbage")
    os.utime(path, (1, 1))
    assert known_workspaces(home) == []
    assert not path.exists()


LIMITED = {
    "recipe": """\
name: trial
description: a trial
version: 1.0.0
limits: {calls: 1}
steps:
  - {id: look, agent: reader, prompt: Look.}
  - {id: again, agent: reader, prompt: Again.}
""",
    "workflow": """\
version: "1.4"
name: trial
limits: {calls: 1}
steps:
  - {name: look, provider: claude, prompt: Look.}
  - {name: again, provider: claude, prompt: Again.}
""",
}


@pytest.mark.parametrize("dialect", LIMITED)
def test_console_03_a_limit_is_widened_by_the_answer(tmp_path: Path, dialect: str) -> None:
    env = env_of(tmp_path)
    stage = stage_in(tmp_path, "one", LIMITED[dialect])
    stage.run("run", "w.yaml", env=env).assert_exit(6)
    (question,) = inbox(stage, tmp_path)
    assert (question["kind"], question["about"]) == ("limit", "again")
    assert "limits.calls is reached" in question["text"]
    assert question["choices"][0] == {"value": "resume", "then": "goes on with --max-calls 2"}
    stage.run("answer", question["token"], "resume", env=env).assert_exit(0)
    assert ended(stage) == "completed"
    assert len(stage.calls("claude")) == 2


INNER = """\
name: inner
description: an inner one
version: 1.0.0
stages:
  - name: inside
    steps: [{id: look, agent: reader, prompt: "Look {{name}}."}]
    approval: {required: true, prompt: "Is {{name}} well?", timeout: 3600}
  - name: after
    steps: [{id: tell, agent: reader, prompt: "Tell {{name}}."}]
"""
OUTER = """\
name: outer
description: an outer one
version: 1.0.0
context: {names: [ada, bob]}
steps:
  - {id: all, type: recipe, recipe: inner.yaml, foreach: "{{names}}", as: name, parallel: true,
     context: {name: "{{name}}"}}
"""


def test_console_03_each_visit_of_a_stage_is_a_question_of_its_own(tmp_path: Path) -> None:
    """Two items wait at the same stage: an answer is for the one that was shown."""
    env = env_of(tmp_path)
    stage = stage_in(tmp_path, "one", OUTER)
    stage.write("inner.yaml", INNER)
    stage.run("run", "w.yaml", env=env).assert_exit(6)
    questions = {one["text"]: one for one in inbox(stage, tmp_path)}
    assert sorted(questions) == ["Is ada well?", "Is bob well?"]
    second = questions["Is bob well?"]["token"]
    stage.run("answer", second, "approve", env=env).assert_exit(0)
    left = inbox(stage, tmp_path)
    assert [one["text"] for one in left] == ["Is ada well?"]
    stage.run("answer", left[0]["token"], "approve", env=env).assert_exit(0)
    assert ended(stage) == "completed"


def test_console_03_of_processes_that_race_one_wins(parked: Stage, tmp_path: Path) -> None:
    env = env_of(tmp_path)
    token = inbox(parked, tmp_path)[0]["token"]
    values = ["approve", "deny"] * 3
    with ExitStack() as stack:
        racing = [
            stack.enter_context(
                parked.background("answer", token, value, "--no-resume", "--json", env=env)
            )
            for value in values
        ]
        ends = [(process.communicate(timeout=60)[0], process.returncode) for process in racing]
    said = [json.loads(out) for out, _ in ends]
    won = [one for one in said if "result" in one]
    assert sorted(code for _, code in ends) == [0, 0, 0, 2, 2, 2]
    assert [one["result"] for one in won].count("recorded") == 1
    assert len({one["value"] for one in won}) == 1
    events = (parked.runs_folder / "latest" / "events.jsonl").read_text()
    assert events.count('"gate-decided"') == 1


def test_console_03_a_run_that_cannot_go_on_keeps_the_answer(parked: Stage, tmp_path: Path) -> None:
    env = env_of(tmp_path)
    token = inbox(parked, tmp_path)[0]["token"]
    parked.write("w.yaml", RECIPE.replace("Again", "Once more"))
    told = parked.run("answer", token, "approve", env=env).assert_exit(7)
    assert "approve: recorded" in told.stdout
    assert "stays as it is" in told.stdout
    assert "--as-started" in told.stdout
    assert inbox(parked, tmp_path) == []


def test_console_03_a_run_at_a_terminal_is_answered_from_the_inbox(tmp_path: Path) -> None:
    """The process that asks takes the answer over, and goes on itself."""
    env = env_of(tmp_path)
    stage = stage_in(tmp_path)
    surroundings = {**os.environ, **stage.surroundings, **env, "TERM": "xterm"}
    with Terminal(("run", "w.yaml", "--no-live"), stage.folder, surroundings) as terminal:
        terminal.await_words("[a]pprove")
        (question,) = inbox(stage, tmp_path)
        assert question["at_terminal"] is True
        told = stage.run("answer", question["token"], "approve", "--json", env=env)
        assert told.assert_exit(0).json()["pid"] is None
        terminal.finish()
        assert terminal.process.returncode == 0
    assert ended(stage) == "completed"


def test_console_03_a_person_who_is_the_agent_is_listed(tmp_path: Path) -> None:
    env = env_of(tmp_path)
    stage = stage_in(tmp_path, "one", MACHINE)
    surroundings = {**os.environ, **stage.surroundings, **env, "TERM": "xterm"}
    command = ("run", "w.yaml", "--backend", "human", "--no-live")
    with Terminal(command, stage.folder, surroundings) as terminal:
        terminal.await_words("Outcome (number or name): ")
        (question,) = inbox(stage, tmp_path)
        assert (question["kind"], question["about"]) == ("question", "look")
        assert question["choices"] == []
        refused = stage.run("answer", question["token"], "done", env=env).assert_exit(2)
        assert "at the terminal of the run" in refused.stderr
