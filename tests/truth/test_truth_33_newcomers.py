"""33: what a newcomer stumbled over on the first day."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest

from orchestrate.testing import Project
from tests.cli.background import await_file, started
from tests.gates import waiting_at
from tests.promises.processes import wait_until

RECIPE = """
name: gated
description: A gate that shows what was found
version: "1.0.0"
context:
  names: [ada, bob]
  found: {severity: high, places: [src/first.py, src/second.py, src/third.py, src/fourth.py]}
stages:
  - name: reading
    steps:
      - {id: read, foreach: "{{names}}", as: name, agent: helper, prompt: "{{name}}", collect: notes}
    approval: {required: true, timeout: 600, prompt: "Look: {{found}} {{notes}} {{names}}"}
  - name: writing
    steps: [{id: write, agent: helper, prompt: write}]
"""  # noqa: E501
HELPER = "---\nname: helper\ndescription: helps\n---\nHelp.\n"


def parked(folder: Path) -> Project:
    project = Project(folder, {"r.yaml": RECIPE, ".orchestrate/agents/helper.md": HELPER})
    project.run("run", "r.yaml", *waiting_at(project, "reading")).assert_exit(6)
    return project


def test_truth_33_a_gate_shows_values_a_line_each_and_names_items(tmp_path: Path) -> None:
    prompt = parked(tmp_path).latest_state["approvals"][0]["prompt"]
    lines = prompt.splitlines()
    assert lines[:4] == ["Look:", "severity: high", "places:", "  - src/first.py"]
    assert any(line.startswith("ada: (the answer") for line in lines)
    assert lines[-2:] == ["- ada", "- bob"], "what is short is no JSON either"


def test_truth_33_words_around_a_list_stand_on_lines_of_their_own(tmp_path: Path) -> None:
    asked = "Take {{names}} and {{found.severity}}?\\n\\n{{empty}} {{found.places}}\\nSure?"
    recipe = RECIPE.replace("Look: {{found}} {{notes}} {{names}}", asked)
    recipe = recipe.replace("context:\n", "context:\n  empty: []\n")
    project = Project(tmp_path, {"r.yaml": recipe, ".orchestrate/agents/helper.md": HELPER})
    project.run("run", "r.yaml", *waiting_at(project, "reading")).assert_exit(6)
    prompt = project.latest_state["approvals"][0]["prompt"]
    places = [f"- src/{name}.py" for name in ("first", "second", "third", "fourth")]
    assert prompt.splitlines() == [
        "Take", "- ada", "- bob", "and high?", "", "[]", *places, "Sure?",
    ]  # fmt: skip


def test_truth_33_a_long_value_at_a_gate_is_cut_with_a_pointer(tmp_path: Path) -> None:
    numbers = ", ".join(str(number) for number in range(100, 300))
    recipe = RECIPE.replace("names: [ada, bob]", f"names: [ada]\n  many: [{numbers}]")
    recipe = recipe.replace("Look: {{found}}", "Look: {{many}}")
    project = Project(tmp_path, {"r.yaml": recipe, ".orchestrate/agents/helper.md": HELPER})
    project.run("run", "r.yaml", *waiting_at(project, "reading")).assert_exit(6)
    prompt = project.latest_state["approvals"][0]["prompt"]
    assert "… 160 more lines; the whole: `many` in the run's state" in prompt
    assert project.latest_state["context"]["many"][-1] == 299


def test_truth_33_status_names_what_has_not_begun_and_local_times(tmp_path: Path) -> None:
    project = parked(tmp_path)
    environment = {"TZ": "XXX-5"}  # five hours east of Greenwich
    shown = project.run("status", "latest", env=environment).stdout
    assert "  not yet     write\n" in shown
    began = project.latest_state["started_at"]
    hour = (int(began[11:13]) + 5) % 24
    assert f" {hour:02d}:{began[14:19]}\n" in shown
    assert "Z" not in shown.split("started")[1].split("\n")[0]
    assert project.run("status", "latest", "--json").json()["not_reached"] == ["write"]
    report = project.run("report", "--format", "md", env=environment).stdout
    assert f" {hour:02d}:{began[14:19]} +05:00\n" in report


def test_truth_33_a_line_of_progress_names_the_item_that_starts(tmp_path: Path) -> None:
    project = Project(tmp_path, {"r.yaml": RECIPE, ".orchestrate/agents/helper.md": HELPER})
    said = project.run("run", "r.yaml", "--backend", "rehearsal").stderr
    assert "read[0] (ada): Running...\n" in said
    assert "read[1] (bob): Running...\n" in said


SLOW = """
version: "1.1"
steps:
  - name: Slow
    command: [bash, -c, 'touch begun; sleep 1.5; echo said; touch said; sleep 60']
"""


def test_truth_33_a_killed_run_took_as_long_as_it_gave_signs_of_life(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": SLOW})
    with started(project, "run", "w.yaml") as process:
        await_file(project, "begun")
        process.send_signal(signal.SIGKILL)
        process.wait()
        await_file(project, "said")

        def elapsed() -> int:
            view = project.run("status", "latest", "--json").json()
            assert view["status"] == "interrupted"
            return int(view["elapsed_ms"])

        wait_until(lambda: elapsed() >= 1500, "what it printed after the kill does not count")


SILENT = SLOW.replace("touch begun; sleep 1.5; echo said; touch said;", "touch begun;")


def test_truth_33_a_killed_run_takes_time_while_its_silent_program_works(tmp_path: Path) -> None:
    """Wherever it is told: `status`, `runs` and `report` measure by the same sign of life."""
    project = Project(tmp_path, {"w.yaml": SILENT})
    with started(project, "run", "w.yaml") as process:
        await_file(project, "begun")
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(1.2)
        status = project.run("status", "latest", "--json").json()
        (listed,) = project.run("runs", "--json").json()["runs"]
        report = project.run("report", "latest", "--format", "md").assert_success().stdout
    assert (status["status"], listed["status"]) == ("interrupted", "interrupted")
    assert status["programs_left"]
    assert min(status["elapsed_ms"], listed["elapsed_ms"]) >= 1200
    (elapsed,) = re.findall(r"Elapsed\W+([0-9.]+)s", report)
    assert float(elapsed) >= 1.2


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--list", "`orchestrate list` shows the recipes"),
        ("--modle=x", "(did you mean '--model'?)"),
        ("--budget=3", "(did you mean '--max-cost'?)"),
        ("--max-budget-usd=3", "(did you mean '--max-cost'?)"),
        ("--agent=claude", "(did you mean '--backend'?)"),
        ("--timeout=3", "(did you mean '--max-time' or '--step-timeout'?)"),
    ],
)
def test_truth_33_a_wrong_flag_is_answered_sensibly(tmp_path: Path, flag: str, said: str) -> None:
    refused = Project(tmp_path).run("run", "x.yaml", flag).assert_exit(2)
    assert said in refused.stderr
    assert "--live" not in refused.stderr.split("hint")[0]


def test_truth_33_short_flags(tmp_path: Path) -> None:
    project = parked(tmp_path)
    project.run("approve", "-m", "fine").assert_success()
    assert project.latest_state["approvals"][0]["message"] == "fine"
    project.run("resume", "latest", "-v").assert_success()


def test_truth_33_a_dry_run_says_no_limit_in_words(tmp_path: Path) -> None:
    shown = Project(tmp_path, {"r.yaml": RECIPE, ".orchestrate/agents/helper.md": HELPER}).run(
        "run", "r.yaml", "--dry-run"
    )
    assert "None" not in shown.assert_success().stdout


MACHINE = """
id: tidy
label: Tidy
description: Tidies up
initialStep: tidy
steps:
  tidy:
    prompt: Tidy up.
    outcomes: [complete, other]
    onOutcome:
      complete: {action: exit, reason: tidied}
      other: {action: exit, reason: user-provided-other}
"""


def test_truth_33_an_answer_says_whose_it_is_and_quiet_is_quiet(tmp_path: Path) -> None:
    project = Project(tmp_path, {"m.yaml": MACHINE})
    told = project.run("run", "m.yaml", "--backend", "rehearsal").assert_success()
    assert "-- tidy: complete\n" in told.stderr
    assert told.stdout == '{"outcome": "complete"}\nExit: tidied\n'
    assert told.stderr.count("REHEARSAL") == 2
    quiet = project.run("run", "m.yaml", "--backend", "rehearsal", "--quiet").assert_success()
    assert quiet.stdout == "Exit: tidied\n"


def test_truth_33_settings_are_not_called_an_empty_recipe(tmp_path: Path) -> None:
    project = Project(tmp_path, {".orchestrate/config.yaml": "# nothing is set\n"})
    refused = project.run("validate", ".orchestrate/config.yaml").assert_exit(2)
    assert "`orchestrate config show` checks it" in refused.stdout + refused.stderr


def test_truth_33_a_cancelled_step_is_not_drawn_as_one_that_went_well(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": SLOW})
    with started(project, "run", "w.yaml"):
        await_file(project, "said")
        project.run("cancel", "latest").assert_success()
    assert "Slow  cancelled" in project.run("status", "latest").stdout
    report = project.run("report", "latest", "--json").json()
    assert report["steps"][0]["status"] == "stopped"
    assert report["steps"][0]["duration_ms"] >= 1500
    drawn = project.run("plan", "--run", "latest", "--format", "mermaid").stdout
    assert "class p0n1 waiting" in drawn, "amber, where it was stopped; not green"


MOVED = """
version: "1.2"
name: queue
steps:
  - name: Each
    for_each:
      items: [inbox/a.task, inbox/b.task]
      as: file
      on_item_complete: {failure: {move_to: failed}}
      steps:
        - name: Do
          command: [sh, -c, 'case "${file}" in *a.task) exit 3;; esac']
"""


def test_truth_33_a_resume_says_why_a_moved_item_is_not_tried_again(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": MOVED, "inbox/a.task": "a", "inbox/b.task": "b"})
    failed = project.run("run", "w.yaml").assert_exit(1)
    assert "--on-error" not in failed.stderr, "there is another item to go on with"
    resumed = project.run("resume").assert_exit(1)
    assert "Each[0] is not tried again: it failed, and its file was moved to " in resumed.stderr
    assert " moved to failed/a.task; " in resumed.stderr
    # Only what leaves it behind goes on: no advice leads to the same failure for ever.
    assert "go on:  orchestrate resume 2" in resumed.stderr
    for told in (resumed.stderr, project.run("status").stdout):
        (advised,) = (line for line in told.splitlines() if "go on:" in line)
        assert advised.endswith(" --on-error continue")
    # Moved out of the way is not mended: asking again and again makes no success of it.
    project.run("resume").assert_exit(1)
    assert project.latest_state["status"] == "failed"
    project.run("resume", "--on-error", "continue").assert_exit(1)
    assert project.latest_state["reason"] == "some steps failed"
