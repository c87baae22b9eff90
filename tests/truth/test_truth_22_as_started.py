"""Number 22: a run goes on with the definition that it keeps, whatever became of the files."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orchestrate.testing import Project
from tests.acceptance.fakes import REPOSITORY, Stage
from tests.conftest import TimePasses
from tests.recipes.fakes import Played, Workshop, recipe, rule

FAILING = recipe("""
    steps:
      - {id: call, type: recipe, recipe: child.yaml}
      - {id: a, agent: helper, prompt: {$include: a.md}}
      - {id: b, agent: helper, prompt: "STEP:b"}
""")
CHILD = recipe('steps: [{id: in, agent: helper, prompt: "STEP:in"}]')
GATED = recipe("""
    stages:
      - name: one
        steps: [{id: a, agent: helper, prompt: "STEP:a"}]
        approval: {required: true, prompt: "Go on?"}
      - name: two
        steps: [{id: b, agent: helper, prompt: "STEP:b"}]
""")


def stopped(shop: Workshop) -> Played:
    """A run whose step `a` failed once, and will succeed."""
    shop.write("child.yaml", CHILD)
    shop.write("a.md", "STEP:a as it was\n")
    return shop.play(FAILING, rules=(rule("STEP:a", {"fail": "crash"}, "ok"),), exit_code=1)


AGENT = ".orchestrate/agents/helper.md"
EDITS = {
    "r.yaml": FAILING.replace("STEP:b", "STEP:changed"),
    "child.yaml": CHILD.replace("STEP:in", "STEP:other"),
    "a.md": "STEP:a is different\n",
    AGENT: "---\nname: helper\ndescription: Helps\n---\nYou hinder.\n",
}


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("how", ["edited", "gone", "unreadable"])
def test_truth_22_a_changed_file_is_refused_and_named_with_both_ways(
    shop: Workshop, name: str, how: str
) -> None:
    run_id = stopped(shop).run_id
    path = shop.folder / name
    if how == "edited":
        path.write_text(EDITS[name], "utf-8")
    elif how == "gone":
        path.unlink()
    else:
        path.write_text("a: [\n", "utf-8")
    said = shop.run("resume", "latest").assert_exit(2)
    assert name in said.stderr
    assert f"orchestrate resume {run_id} --as-started" in said.stderr
    # There is nothing to start over with where the definition itself is gone.
    is_there = (shop.folder / "r.yaml").exists()
    assert (f"orchestrate resume {run_id} --force-restart" in said.stderr) is is_there
    # What does not compile cannot be gone on with, and why is said.
    whole = {"edited": [*EDITS], "gone": [AGENT], "unreadable": ["a.md"]}
    is_broken = name not in whole[how]
    assert ("it cannot be used: " in said.stderr) is is_broken
    assert ("once that is repaired: " in said.stderr) is is_broken
    assert shop.asked() == ["in", "a"]
    shop.go_on("resume", run_id, "--as-started")
    assert shop.asked() == ["in", "a", "a", "b"]
    assert "STEP:a as it was" in shop.calls("a")[1].text
    assert shop.calls("b")[0].flag("--append-system-prompt") == "You help."


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.yaml", "# a comment\n" + FAILING + "\n# another\n"),
        ("r.yaml", FAILING.replace("A trial of ours", "Something else")),
        ("child.yaml", CHILD.replace("version:", "# why\nversion:")),
        (".orchestrate/agents/helper.md",
         "---\n# who\nname: helper\ndescription: Helps\n---\nYou help.\n"),
    ],
)  # fmt: skip
def test_truth_22_comments_and_descriptions_are_no_change(
    shop: Workshop, name: str, text: str
) -> None:
    stopped(shop)
    (shop.folder / name).write_text(text, "utf-8")
    played = shop.go_on()
    assert name in played.result.stderr
    assert shop.asked() == ["in", "a", "a", "b"]


def test_truth_22_recipes_found_on_the_way_are_kept_as_well(shop: Workshop) -> None:
    shop.agent("deep", "---\nname: deep\n---\nYou dig.\n")
    late = recipe('steps: [{id: x, agent: deep, prompt: "STEP:x"}]')
    shop.write("late.yaml", late)
    text = recipe("""
        context: {which: late}
        steps:
          - {id: call, type: recipe, recipe: "{{which}}.yaml"}
    """)
    shop.play(text, rules=(rule("STEP:x", {"fail": "crash"}, "ok"),), exit_code=1)
    shop.write("late.yaml", late.replace("STEP:x", "STEP:y"))
    assert "late.yaml" in shop.run("resume", "latest").assert_exit(2).stderr
    (shop.folder / ".orchestrate/agents/deep.md").unlink()
    shop.go_on("resume", "latest", "--as-started")
    assert shop.asked() == ["x", "x"]
    assert shop.calls()[1].flag("--append-system-prompt") == "You dig."


@pytest.mark.parametrize("how", ["edited", "gone", "unreadable"])
def test_truth_22_people_s_commands_do_not_depend_on_the_files(shop: Workshop, how: str) -> None:
    run_id = shop.play(GATED, exit_code=6).run_id
    path = shop.folder / "r.yaml"
    if how == "gone":
        path.unlink()
    else:
        path.write_text("a: [\n" if how == "unreadable" else GATED.replace("STEP:b", "X"), "utf-8")
    for command in (("status", run_id), ("logs", run_id), ("report", run_id), ("approvals",)):
        said = shop.run(*command).assert_success()
        assert "may lag" not in said.stdout + said.stderr
    shop.run("approve", run_id).assert_success()
    shop.go_on("resume", run_id, "--as-started")
    assert shop.asked() == ["a", "b"]
    path.write_text(GATED, "utf-8")
    other = shop.play(GATED, exit_code=6).run_id
    path.unlink()
    shop.run("deny", other).assert_success()
    path.write_text(GATED, "utf-8")
    third = shop.play(GATED, exit_code=6).run_id
    path.unlink()
    assert "cancelled" in shop.run("cancel", third).assert_success().stdout


# Runs of the catalogue belong to no installation.

SCRIPT = "implement: [complete]\n"
CATALOGUE_RUN = (
    "run", "implement-and-review", "--backend", "rehearsal", "--script", "script.yaml",
    "--max-steps", "1",
)  # fmt: skip


def installed(folder: Path) -> Path:
    """A copy of the package as another installation has it."""
    folder.mkdir()
    for name in ("orchestrate", "schemas", "workflows", "prompts", "skills"):
        shutil.copytree(REPOSITORY / name, folder / name,
                        ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
    return folder


def test_truth_22_a_catalogue_run_goes_on_with_another_installation(tmp_path: Path) -> None:
    """Started here; then a copy elsewhere whose recipe has a comment, and then a changed one."""
    other = installed(tmp_path / "other")
    project = Project(tmp_path / "ws", {"script.yaml": SCRIPT})
    project.run(*CATALOGUE_RUN).assert_exit(3)
    state = (project.folder / ".orchestrate/runs/latest/state.json").read_text("utf-8")
    assert str(REPOSITORY) not in state.split('"engine"')[0]

    def there(*arguments: str) -> int:
        code = f"import sys; sys.path.insert(0, {str(other)!r}); "
        code += "from orchestrate.cli.main import main; main()"
        command = [sys.executable, "-c", code, *arguments]
        return subprocess.run(command, cwd=project.folder, check=False).returncode

    recipe_file = other / "workflows" / "implement-and-review.yaml"
    for extra in ("\n# a comment\n", "\n# and one more\n"):
        recipe_file.write_text(recipe_file.read_text("utf-8") + extra, "utf-8")
        assert there("resume", "latest", "--max-steps", "2") in (0, 3)


def test_truth_22_force_restart_works_for_the_catalogue(tmp_path: Path) -> None:
    project = Project(tmp_path, {"script.yaml": SCRIPT})
    project.run(*CATALOGUE_RUN).assert_exit(3)
    again = project.run("resume", "latest", "--force-restart").assert_exit(3)
    assert "is started over" in again.stderr


def test_truth_22_as_started_and_force_restart_exclude_each_other(shop: Workshop) -> None:
    stopped(shop)
    shop.run("resume", "latest", "--as-started", "--force-restart").assert_exit(2)


SCHEMA_NUMBER, SCHEMA_TEXT = '{"type": "number"}', '{"type": "string"}'
CHECKED = """
    version: "1.3"
    name: checked
    steps:
      - {name: List, command: [seq, "1", "3"], output_capture: lines}
      - name: Each
        for_each:
          items_from: steps.List.lines
          steps:
            - name: Say
              command: [sh, -c, "echo $1 >> ledger; cp new.json schema.json 2>/dev/null; echo $1",
                        x, "${item}"]
              output_capture: json
              output_schema: schema.json
      - {name: Ready, command: [test, -e, ready]}
      - {name: Again, command: [echo, "7"], output_capture: json, output_schema: schema.json}
"""


def test_truth_22_a_schema_is_a_part_of_the_definition(tmp_path: Path) -> None:
    """Changed under the run it changes nothing; changed between two sittings it is named."""
    stage = Stage(tmp_path)
    stage.write("w.yaml", CHECKED)
    stage.write("schema.json", SCHEMA_NUMBER)
    stage.write("new.json", SCHEMA_TEXT)  # the first item puts it in the schema's place
    stage.run("run", "w.yaml").assert_exit(1)
    stage.write("ready", "")
    told = stage.run("resume", "latest").assert_exit(2)
    assert "has changed: schema.json" in told.stderr
    assert "--as-started" in told.stderr
    stage.run("resume", "latest", "--as-started").assert_success()
    assert (stage.folder / "ledger").read_text().split() == ["1", "2", "3"]
    (stage.folder / "schema.json").write_text(SCHEMA_NUMBER)
    (stage.folder / "ready").unlink()
    (stage.folder / "new.json").unlink()
    stage.run("run", "w.yaml").assert_exit(1)
    stage.write("ready", "")
    stage.run("resume", "latest").assert_success()


@pytest.mark.parametrize("is_there", [True, False])
def test_truth_22_a_schema_that_a_step_makes_is_the_one_it_made(
    tmp_path: Path, is_there: bool
) -> None:
    stage = Stage(tmp_path)
    stage.write(
        "w.yaml",
        """
        version: "1.3"
        name: made
        steps:
          - {name: Make, command: [echo, '{"type": "string"}'], output_file: schema.json}
          - {name: Say, command: [echo, '"x"'], output_capture: json, output_schema: schema.json}
          - {name: Ready, command: [test, -e, ready]}
        """,
    )
    if is_there:
        stage.write("schema.json", SCHEMA_NUMBER)
    stage.run("run", "w.yaml").assert_exit(1)
    stage.write("ready", "")
    stage.run("resume", "latest").assert_success()


def test_truth_22_the_time_between_two_sittings_is_not_that_of_a_call(
    shop: Workshop, time_passes: TimePasses
) -> None:
    """A step that calls a recipe has its time for work, not for the night before a `resume`."""
    shop.write(
        "child.yaml",
        recipe("""
        steps:
          - {id: in, agent: helper, prompt: "STEP:in"}
          - {id: more, agent: helper, prompt: "STEP:more"}
        """),
    )
    text = recipe("steps: [{id: call, type: recipe, recipe: child.yaml, timeout: 90}]")
    played = shop.play(text, rules=(rule("STEP:more", {"fail": "crash"}, "ok"),), exit_code=1)
    time_passes(3600)
    said = shop.run("resume", played.run_id).assert_success()
    assert "timed out" not in said.stderr


def test_truth_22_a_calls_time_goes_on_where_it_stopped(
    shop: Workshop, time_passes: TimePasses
) -> None:
    """What was used up before the stop counts; so a call that hangs does not begin anew."""
    shop.write("child.yaml", recipe('steps: [{id: in, agent: helper, prompt: "STEP:in"}]'))
    shop.write(
        "r.yaml", recipe("steps: [{id: call, type: recipe, recipe: child.yaml, timeout: 3600}]")
    )
    shop.answers(rule("STEP:in", {"delay": 600}, {"delay": 600}))

    def stop_late() -> None:
        shop.await_calls(1, "in")
        time_passes(3590)
        os.kill(os.getpid(), signal.SIGINT)

    other = threading.Thread(target=stop_late)
    other.start()
    shop.run("run", "r.yaml").assert_exit(130)
    other.join()
    said = shop.run("resume", "latest").assert_exit(1)
    assert "timed out" in said.stderr, "it had ten seconds left, or less"
