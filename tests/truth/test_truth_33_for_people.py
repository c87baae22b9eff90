"""33: what people see of gates, lists of runs and interrupted runs."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from textwrap import dedent

import pytest

from orchestrate.testing import Project
from tests.acceptance.fakes import Stage, read_state
from tests.recipes.fakes import Workshop, recipe, rule
from tests.recipes.terminal import at_terminal

REVIEW = recipe("""
    stages:
      - name: drafting
        steps:
          - {id: look, agent: helper, prompt: "STEP:look"}
          - {id: draft, agent: helper, prompt: "STEP:draft", output: text}
        approval: {required: true, prompt: "PROMPT"}
      - name: doing
        steps: [{id: b, agent: helper, prompt: "STEP:b"}]
""")
QUESTION = "A message may follow the letter:"
LONG = """
    version: "1.1"
    name: long
    steps:
      - {name: Long, command: [sh, -c, "touch started; sleep 60"]}
"""


def asked(shop: Workshop, prompt: str, draft: str) -> str:
    """What a person sees who is asked at a terminal."""
    shop.answers(rule("STEP:look", "seen"), rule("STEP:draft", draft))
    shop.write("r.yaml", REVIEW.replace("PROMPT", prompt))
    with at_terminal(shop.folder, shop.surroundings, "run", "r.yaml") as terminal:
        shown = terminal.read_until(QUESTION)
        terminal.type("a\n")
        assert terminal.wait() == 0
    return shown.replace("\r", "")


def test_truth_33_the_draft_is_shown_at_an_interactive_gate(shop: Workshop) -> None:
    shown = asked(shop, "Publish it?", "Dear reader,\nall is well.\n\x1b[2Jbye")
    assert "Publish it?" in shown
    run_id = os.readlink(shop.latest.parent / "latest")
    assert f"From step 'draft' (all of it: orchestrate logs {run_id} draft):" in shown
    assert "| Dear reader,\n  | all is well.\n" in shown
    assert "seen" not in shown.partition("Publish it?")[2]
    assert "\x1b[2J" not in shown


def test_truth_33_a_draft_that_the_question_shows_is_not_shown_twice(shop: Workshop) -> None:
    shown = asked(shop, "Publish {{text}}?", "a very short draft")
    assert "From step" not in shown
    assert "Publish a very short draft?" in shown


def test_truth_33_a_long_draft_is_cut(shop: Workshop) -> None:
    shown = asked(shop, "Publish it?", "\n".join(f"line {n}" for n in range(5000)))
    assert "| line 0\n" in shown
    assert shown.count("| line ") <= 40


ITEMS = """
    version: "1.4"
    name: items
    steps:
      - {name: Setup, command: [echo, "the setup"]}
      - name: Each
        for_each:
          items: [a]
          steps:
            - {name: Draft, command: [echo, "the draft of ${item}"]}
            - {name: Publish, approval: {prompt: "Publish it?", timeout: 1h}}
"""
# When the question is asked, the draft is newer than what was tried with the first one.
INNER = """
    version: "1.4"
    name: inner
    steps:
      - {name: Draft, command: [bash, -c, "echo x >> n; echo draft $(wc -l < n)"]}
      - name: Check
        command: [bash, -c, "test $(wc -l < n) = 2"]
        on: {success: {goto: Publish}, failure: {goto: Try}}
      - {name: Try, command: [echo, tried], on: {success: {goto: Draft}}}
      - {name: Publish, approval: {prompt: "Publish it?", timeout: 1h}}
"""
OUTER = """
    version: "1.4"
    name: outer
    steps:
      - {name: Sub, call: inner.yaml}
"""


@pytest.mark.parametrize(
    ("text", "step", "draft"),
    [(ITEMS, "'Each[0]/Draft'", "the draft of a"), (OUTER, "Sub/Draft", "draft 2")],
    ids=["item", "call"],
)
def test_truth_33_what_is_to_be_approved_is_shown_by_a_path_that_logs_takes(
    shop: Workshop, text: str, step: str, draft: str
) -> None:
    shop.write("inner.yaml", INNER)
    shop.write("w.yaml", text)
    with at_terminal(shop.folder, shop.surroundings, "run", "w.yaml") as terminal:
        shown = terminal.read_until(QUESTION).replace("\r", "")
        terminal.type("a\n")
        assert terminal.wait() == 0
    assert f"orchestrate logs {os.readlink(shop.latest.parent / 'latest')} {step}):" in shown
    assert f"| {draft}\n" in shown


ITEMS_THAT_ASK = """
    version: "1.4"
    name: asking
    steps:
      - name: Each
        for_each:
          items: [a, b]
          parallel: 2
          steps: [{name: Ask, approval: {prompt: "${item}?", timeout: 1h}}]
"""


def test_truth_33_items_that_ask_are_told_apart(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": dedent(ITEMS_THAT_ASK)})
    told = project.run("run", "w.yaml").assert_exit(6).stderr
    (asked,) = re.findall(r"waits for an approval of (.*)", told)
    assert sorted(asked.split(", ")) == ["'Each[0]/Ask'", "'Each[1]/Ask'"]
    shown = project.run("status").stdout
    for item in (0, 1):
        assert f"at          the gate of step 'Each[{item}]/Ask'\n" in shown
        assert f"asks        'Each[{item}]/Ask', since" in shown
    left = project.run("approve", "latest", "Each[1]/Ask").assert_success().stdout
    assert "it waits for an approval of 'Ask'\n" in left
    shown = project.run("status").stdout
    assert "decided     'Each[1]/Ask' approved by" in shown
    document = project.run("status", "--json").json()
    assert [gate["name"] for gate in document["decisions"]] == ["Each[1]/Ask"]
    assert [gate["name"] for gate in document["approvals"]] == ["Ask"]


def test_truth_33_a_denial_is_said_once(tmp_path: Path) -> None:
    text = 'version: "1.4"\nname: w\nsteps: [{name: Ask, approval: {prompt: "Go?", timeout: 1h}}]\n'
    project = Project(tmp_path, {"w.yaml": text})
    project.run("run", "w.yaml").assert_exit(6)
    project.run("deny", "latest").assert_success()
    assert project.run("status").stdout.splitlines()[0].endswith(" failed: step 'Ask' was denied")


def test_truth_33_runs_of_the_catalogue_are_named_by_their_id(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.run("run", "break-down-tasks", "--backend", "rehearsal")
    for words in (("runs",), ("status",)):
        shown = stage.run(*words).assert_success().stdout
        assert " break-down-tasks" in shown
        assert "catalogue:" not in shown
        assert "break-down-tasks.yaml" not in shown
    (listed,) = stage.run("runs", "--json").json()["runs"]
    assert listed["workflow_file"] == "catalogue:break-down-tasks.yaml"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_truth_33_an_interrupted_run_is_called_so_however_it_was_interrupted(
    tmp_path: Path, number: signal.Signals
) -> None:
    stage = Stage(tmp_path)
    stage.write("w.yaml", LONG)
    with stage.command("run", "w.yaml") as process:
        stage.await_file("started")
        process.send_signal(number)
        process.wait(60)
    assert " is interrupted\n" in stage.run("status").stdout
    listed = stage.run("runs").stdout
    assert "  interrupted  " in listed
    assert stage.run("runs", "--status", "interrupted").stdout.split()[:2] == listed.split()[:2]
    stage.run("stop", "latest")  # what the killed one left


MOVES = """
    version: "1.2"
    name: moves
    steps:
      - name: Each
        for_each:
          items: [in/a/x.txt, in/b/x.txt]
          on_item_complete: {success: {move_to: out}, failure: {move_to: out}}
          steps: [{name: Do, command: [test, -e, "${item}"]}]
"""


@pytest.mark.parametrize("is_killed", [False, True])
def test_truth_33_a_name_that_is_taken_is_reported_as_the_one_it_became(
    tmp_path: Path, is_killed: bool
) -> None:
    """Two files of one name went to one folder, and both were said to be `out/x.txt`."""
    stage = Stage(tmp_path)
    stage.write("w.yaml", MOVES)
    for folder in ("a", "b"):
        stage.write(f"in/{folder}/x.txt", folder)
    said = stage.run("run", "w.yaml").assert_success().stderr
    latest = stage.runs_folder / "latest"
    if is_killed:
        # As if the second move had only been announced, and its place was taken meanwhile.
        lines = (latest / "events.jsonl").read_text().splitlines(keepends=True)
        announced = max(at for at, line in enumerate(lines) if "item-moving" in line) + 1
        (latest / "events.jsonl").write_text("".join(lines[:announced]))
        for name in ("state.json", "state.json.previous"):
            (latest / name).unlink(missing_ok=True)
        (stage.folder / "out" / "x.2.txt").rename(stage.folder / "in" / "b" / "x.txt")
        stage.write("out/x.2.txt", "another")
        said = stage.run("resume", "latest", "--repair").assert_success().stderr
    became = "out/x.2.2.txt" if is_killed else "out/x.2.txt"
    assert f"in/b/x.txt → {became}" in said
    assert (stage.folder / became).read_text() == "b"
    items = read_state(latest)["steps"]["Each"]
    assert [item["lifecycle"]["to"] for item in items] == ["out/x.txt", became]
    report = stage.run("report", "--format", "md").assert_success().stdout
    # The items are named as they were; where they went is said rightly or not at all.
    assert became in report or "out/x" not in report
