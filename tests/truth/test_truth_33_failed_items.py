"""33: what people see of an item that has failed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from orchestrate.testing import Project
from tests.recipes.fakes import Workshop, recipe, rule

LOOP = """
version: "1.1"
name: w
strict_flow: STRICT
steps:
  - name: Loop
    for_each:
      items: [ada, bob, eve]
      steps:
        - {name: In, command: [sh, -c, "test ${item} != bob"]}
"""
EACH = recipe("""
    context: {names: [ada, bob, eve]}
    steps:
      - {id: read, agent: helper, prompt: "STEP:{{name}}", foreach: "{{names}}", as: name, MORE}
""")
CALLS = recipe("""
    context: {names: [ada]}
    steps:
      - {id: call, type: recipe, recipe: child.yaml, foreach: "{{names}}", as: name}
""")
CHILD = recipe("""
    steps: [{id: look, agent: helper, prompt: "STEP:look"}]
""")


def failed_loop(project: Project, name: str) -> dict[str, object]:
    shown = project.run("status", "--json").json()["steps"][name]
    assert isinstance(shown, dict)
    return shown


@pytest.mark.parametrize(("strict", "code", "done"), [("true", 1, 1), ("false", 0, 3)])
def test_truth_33_an_item_of_a_workflow_that_failed_is_named_and_counted(
    tmp_path: Path, strict: str, code: int, done: int
) -> None:
    project = Project(tmp_path, {"w.yaml": LOOP.replace("STRICT", strict)})
    played = project.run("run", "w.yaml").assert_exit(code)
    assert "Loop[1]/In (bob): failed with exit code 1" in played.stderr
    assert failed_loop(project, "Loop") == {
        "status": "failed", "total": 3, "completed": done, "failed": [1],
    }  # fmt: skip
    assert f"Loop  failed      {done}/3  1 failed: 1\n" in project.run("status").stdout
    counted = project.run("run", "w.yaml", "--json").assert_exit(code).json()["steps"]["Loop"]
    assert counted == {"items": 3, "completed": done, "failed": 1}


@pytest.mark.parametrize("more", ["parallel: true", "parallel: false", "on_error: continue"])
def test_truth_33_an_item_of_a_recipe_that_failed_is_named_and_counted(
    shop: Workshop, more: str
) -> None:
    shop.answers(rule("STEP:bob", fail="crash"), rule("STEP:", "seen"))
    played = shop.play(EACH.replace("MORE", more), exit_code=0 if "continue" in more else 1)
    assert "read[1] (bob): failed with exit code 1" in played.result.stderr
    loop = failed_loop(shop, "read")
    assert (loop["status"], loop["failed"]) == ("failed", [1])


def test_truth_33_a_call_for_an_item_names_it(shop: Workshop) -> None:
    shop.answers(rule("STEP:", "seen"))
    shop.write("child.yaml", CHILD)
    assert "call[0] (ada): calls child.yaml" in shop.play(CALLS).result.stderr


LOOPS_CALLED = """
id: calls
label: Calls
description: Calls what loops
initialStep: go
steps:
  go:
    call: called.yaml
    onOutcome:
      completed: {action: exit, reason: fine}
      failed: {action: exit, reason: bad, status: failed}
"""
CALLED = {
    "go/Each[1]/Test": """
version: "1.4"
name: called
steps:
  - name: Each
    for_each:
      items: [a, b, c]
      steps: [{name: Test, command: [test, "${item}", "=", a]}]
""",
    "go/each[1]()/test": """
name: called
description: Called
version: 1.0.0
context: {items: [a, b, c]}
steps:
  - {id: each, type: recipe, foreach: "{{items}}", as: item, recipe: in.yaml,
     context: {item: "{{item}}"}}
""",
}
INNER = """
name: inner
description: Inner
version: 1.0.0
context: {item: x}
steps:
  - {id: test, type: bash, command: ["test", "{{item}}", "=", a]}
"""


@pytest.mark.parametrize("path", CALLED)
def test_truth_33_an_item_that_failed_in_a_call_is_the_one_to_look_at(
    tmp_path: Path, path: str
) -> None:
    """The call itself has printed nothing, and items that were never done are not completed."""
    files = {"m.yaml": LOOPS_CALLED, "called.yaml": CALLED[path], "in.yaml": INNER}
    project = Project(tmp_path, files)
    told = project.run("run", "m.yaml").assert_exit(1).stderr
    (look,) = re.findall(r"look: +orchestrate (.*)", told)
    assert shlex.split(look)[-1] == path
    project.run(*shlex.split(look)).assert_success()
    (each,) = project.run("status", "--json").json()["steps"]["go"]["steps"].values()
    assert (each["completed"], each["failed"]) == (1, [1])
