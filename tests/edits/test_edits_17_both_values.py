"""`why` names the part that changed with both values, as the author knows them, and the line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.edits.ledger import HELPER, Ledger, asks, command, machine, recipe, workflow
from tests.edits.repositories import bytes_below

OTHER_FILE = ".orchestrate/agents/other.md"
CAPTURED = '  - {name: b, command: ["echo", "b"], output_capture: text}\n'
ASKED = "  - {name: b, provider: claude, input_file: b.md, provider_params: {model: opus}}\n"


@dataclass(frozen=True)
class Case:
    """A definition whose step b is edited, and what is said of that."""

    text: str
    old: str
    new: str
    part: str
    before: str
    after: str
    line: int
    file: str = "w.yaml"


CASES = {
    "context": Case(
        workflow(command("a"), command("b", "echo ${context.who}"), head="context: {who: me}\n"),
        "who: me", "who: you", "inputs", "me", "you", 6,
    ),
    "variable": Case(
        recipe(asks("a"), asks("b", "{{who.else}}"), head="context: {who: {else: me}}\n"),
        "else: me", "else: you", "inputs", "me", "you", 7,
    ),
    "environment": Case(
        workflow(command("a"), command("b", fields=", env: {X: one}")),
        "X: one", "X: two", "env", 'env: {"X":"one"}', 'env: {"X":"two"}', 5,
    ),
    "script": Case(
        workflow(command("a"), command("b")), "true; test ! -e fail-b", "exit 0", "script",
        "sh -c echo b >> ledger; true; test ! -e fail-b", "sh -c echo b >> ledger; exit 0", 5,
    ),
    "meaning": Case(
        workflow(command("a"), CAPTURED), "capture: text", "capture: lines", "op",
        "output_capture: text", "output_capture: lines", 5,
    ),
    "agent": Case(
        recipe(asks("a"), asks("b", fields=", agent_config: {model: opus}")), "opus", "sonnet",
        "agent", 'agent_config: {"model":"opus"}', 'agent_config: {"model":"sonnet"}', 6,
    ),
    "parameters": Case(
        workflow(command("a"), ASKED), "opus", "sonnet",
        "agent", 'provider_params: {"model":"opus"}', 'provider_params: {"model":"sonnet"}', 5,
    ),
    "agent-file": Case(
        recipe(asks("a"), asks("b").replace("helper", "other")), "Help.", "Help well.",
        "agent", '"body":"Help.', '"body":"Help well.', 6, OTHER_FILE,
    ),
    "prompt": Case(
        machine("a", "b"), "STEP:b do it", "STEP:b do it well",
        "prompt", "STEP:b do it", "STEP:b do it well", 7,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_edits_17_both_values_and_the_line(tmp_path: Path, name: str) -> None:
    case, stage = CASES[name], Ledger(tmp_path)
    stage.write(OTHER_FILE, HELPER.replace("helper", "other"))
    stage.write("b.md", "STEP:b")
    stage.play(case.text)
    stage.edit(case.old, case.new, case.file)
    stage.resume("--edited")
    (told,) = stage.run("why", "latest", "b", "--json").assert_success().json()["steps"]
    (change,) = told["changed"]
    assert (change["part"], told["line"]) == (case.part, case.line)
    assert change["before"] != change["after"]
    assert case.before in change["before_text"]
    assert case.after in change["after_text"]
    assert case.after in stage.run("why", "latest", "b").assert_success().stdout


def test_edits_17_a_turn_that_is_gone(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    together = [asks(name, fields=", session: one") for name in ("a", "b", "c")]
    stage.play(recipe(*together))
    stage.write("w.yaml", recipe(together[0], together[2]))
    stage.resume("--edited")
    said = stage.run("why", "latest", "c").assert_success().stdout
    assert "c, line 6: completed: session changed" in said
    assert "session: behind b (" in said
    assert " → behind a (" in said


def test_edits_17_files_by_their_digests(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.write("in.txt", "one")
    stage.play(workflow(command("a", fields=", depends_on: {required: [in.txt]}"), command("b")))
    stage.write("in.txt", "two")
    stage.resume("--redo", "b")
    (told,) = stage.run("why", "latest", "a", "--json").assert_success().json()["steps"]
    (change,) = told["changed"]
    assert (change["part"], change["name"]) == ("files", "in.txt")
    assert None not in (change["before"], change["after"])
    assert change["before"] != change["after"]


def test_edits_17_of_a_secret_there_is_a_mask(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    head = "secrets: [TOKEN]\ncontext: {who: me}\n"
    steps = (command("a"), command("b", "echo ${context.who}"))
    stage.play(workflow(*steps, head=head), env={"TOKEN": "hunter2-hunter2"})
    stage.edit("who: me", "who: you and hunter2-hunter2")
    again = {"TOKEN": "hunter2-hunter2"}
    stage.run("resume", "latest", "--edited", env=again).assert_success()
    assert all(b"hunter2" not in kept for kept in bytes_below(stage.runs_folder).values())
    told = stage.run("why", "latest", "b", "--json", env=again).assert_success()
    ((change,),) = (one["changed"] for one in told.json()["steps"])
    assert (change["before_text"], change["after_text"]) == ("me", "you and ***")
    assert "hunter2" not in told.stdout


def test_edits_17_a_secret_that_the_file_no_longer_holds(tmp_path: Path) -> None:
    """What the run knows of it is a mask: that is no value that was given from outside."""
    stage, env = Ledger(tmp_path), {"TOKEN": "hunter2-hunter2"}
    head = "secrets: [TOKEN]\ncontext: {who: hunter2-hunter2}\n"
    b = command("b", "echo ${context.who} >> ledger")
    stage.play(workflow(command("a"), b, head=head), env=env)
    assert stage.ran() == ["a", "b", "***"]
    stage.edit("who: hunter2-hunter2", "who: me")
    refused = stage.run("resume", "latest", env=env).assert_exit(2).stderr
    assert "lacks a secret" in refused
    assert "--as-started" not in refused  # it would be refused, too
    stage.run("resume", "latest", "--edited", env=env).assert_success()
    assert stage.ran() == ["b", "me"]


def test_edits_17_a_copy_without_its_secret_is_not_gone_on_with(tmp_path: Path) -> None:
    """Even a comment makes it an edit: what the run keeps has a mask where the value was."""
    stage, env = Ledger(tmp_path), {"TOKEN": "hunter2-hunter2"}
    stage.touch("fail-b")
    b = command("b", "test $T = hunter2-hunter2", ", env: {T: hunter2-hunter2}")
    text = workflow(command("a"), b, head="secrets: [TOKEN]\n")
    stage.play(text, env=env, exit_code=1)
    (stage.folder / "fail-b").unlink()
    stage.ran()
    stage.write("w.yaml", f"# well\n{text}")
    told = stage.run("resume", "latest", "--edited", env=env).assert_success()
    assert "reuse 1, run 1: b" in told.stderr
    assert stage.ran() == ["b"]


def test_edits_17_a_step_of_a_called_recipe_has_its_own_line(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.write("inner.yaml", recipe(asks("a"), asks("b"), asks("same")))
    call = "  - {id: call, type: recipe, recipe: inner.yaml}\n"
    stage.play(recipe(asks("same"), call))
    stage.edit("STEP:same", "Well, STEP:same", "inner.yaml")
    stage.resume("--edited")
    (told,) = stage.run("why", "latest", "call/same", "--json").assert_success().json()["steps"]
    assert (told["step"], told["line"]) == ("call/same", 7)
    assert "+Well, STEP:same" in "\n".join(told["changed"][0]["diff"])


def test_edits_17_a_fork_knows_what_the_other_run_was_made_of(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    case = CASES["environment"]
    stage.play(case.text)
    stage.edit(case.old, case.new)
    stage.run("fork", "latest", "--from", "b", "--in-place").assert_success()
    said = stage.run("why", "latest", "b", "--json").assert_success().json()["steps"]
    assert said[0]["why"] == {"redo": True}
    stage.edit("echo a", "echo  a")
    stage.run("fork", "latest", "--from", "b", "--in-place").assert_success()
    (told,) = stage.run("why", "latest", "a", "--json").assert_success().json()["steps"]
    assert told["changed"][0]["after_text"].startswith("sh -c echo  a")
