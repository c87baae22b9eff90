"""Edits of what a definition is made of besides its own file: what used it runs, nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from tests.edits.ledger import HELPER, Ledger, asks, command, recipe, workflow
from tests.edits.repositories import Repository

HELPER_FILE = ".orchestrate/agents/helper.md"


def test_edits_15_an_included_file_counts_for_who_includes_it(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.write("b.md", "STEP:b as it was")
    stage.write("unused.md", "nobody")
    included = "  - {id: b, agent: helper, prompt: {$include: b.md}}\n"
    stage.play(recipe(asks("a"), included, asks("c")))
    stage.ran()
    stage.write("unused.md", "still nobody")
    stage.resume("--edited")
    assert stage.ran() == []
    stage.write("b.md", "STEP:b better")
    told = stage.resume("--edited")
    assert "run 2: b (prompt changed" in told.stderr
    assert stage.ran() == ["b", "c"]


def test_edits_15_an_agent_definition_counts_for_who_asks_it(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.write(".orchestrate/agents/other.md", HELPER.replace("helper", "other"))
    other = '  - {id: b, agent: other, prompt: "STEP:b"}\n'
    stage.play(recipe(asks("a"), other, asks("c")))
    stage.ran()
    stage.edit("Help.", "Help well.", ".orchestrate/agents/other.md")
    told = stage.resume("--edited")
    assert "b (agent changed" in told.stderr
    assert stage.ran() == ["b", "c"]


def test_edits_15_a_route_is_no_part_of_the_question(tmp_path: Path) -> None:
    """What had been done stands; the way from there is the new one."""
    stage = Ledger(tmp_path)
    way = ", on: {success: {goto: d}}"
    stage.touch("fail-d")
    stage.play(workflow(*map(command, "abcd")), exit_code=1)
    assert stage.ran() == ["a", "b", "c", "d"]
    (stage.folder / "fail-d").unlink()
    stage.write("w.yaml", workflow(command("a"), command("b", fields=way), *map(command, "cd")))
    stage.resume("--edited")
    assert stage.ran() == ["d"]


def test_edits_15_the_configuration_counts_for_new_runs_only(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.touch("fail-b")
    stage.play(workflow(*map(command, "abc")), exit_code=1)
    stage.ran()
    (stage.folder / "fail-b").unlink()
    stage.write(".orchestrate/config.yaml", "checkpoints: off\nmax_parallel: 2\n")
    stage.resume()
    assert stage.ran() == ["b", "c"]


def test_edits_15_a_default_of_a_called_recipe_counts_for_who_uses_it(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    inner = recipe(asks("s"), asks("t", "{{x}}"), asks("u"), head="context: {x: one, y: one}\n")
    stage.write("inner.yaml", inner)
    call = '  - {id: call, type: recipe, recipe: inner.yaml, context: {y: "{{given}}"}}\n'
    stage.play(recipe(asks("a"), call, asks("z"), head="context: {given: one}\n"))
    stage.ran()
    stage.edit("y: one", "y: two", "inner.yaml")  # what the call gives stands above it
    stage.resume("--edited")
    assert stage.ran() == []
    stage.edit("x: one", "x: two", "inner.yaml")
    assert "run 3: call/t (var.x changed" in stage.resume("--edited").stderr
    assert stage.ran() == ["t", "u", "z"]


def test_edits_15_own_later_steps_spoil_no_earlier_result(tmp_path: Path) -> None:
    """Checkpoints tell that the run itself has changed the file; a person's change counts."""
    stage = Repository(tmp_path)
    stage.write(".gitignore", "ledger\n")
    stage.write("source", "one\n")
    reads = ", depends_on: {required: [source]}"
    asked = '  - {name: n, provider: claude, prompt: "STEP:n"}\n'  # with its own checkpoint
    b = command("b", "echo two > source")
    stage.play(workflow(command("a", fields=reads), asked, b, command("c")))
    stage.ran()
    stage.resume("--redo", "c")
    assert stage.ran() == ["c"]
    stage.run("rewind", "latest", "b", "--yes").assert_exit(0)
    stage.resume()
    assert stage.ran() == ["b", "c"]
    stage.write("source", "three\n")
    assert "a (source changed since)" in stage.resume("--redo", "c").stderr
    assert stage.ran() == ["a", "n", "b", "c"]


def test_edits_15_a_prompt_in_a_file_counts_as_the_definition_does(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.write("a.md", "STEP:a as it was")
    stage.touch("fail-c")
    asked = "  - {name: a, provider: claude, input_file: a.md}\n"
    stage.play(workflow(asked, command("b"), command("c")), exit_code=1)
    stage.ran()
    (stage.folder / "fail-c").unlink()
    stage.write("a.md", "STEP:a better")
    refused = stage.resume(exit_code=2).stderr
    assert "has changed: a.md" in refused
    assert "reuse 0, run 3: a (a.md changed since)" in refused
    stage.resume("--as-started")
    assert stage.ran() == ["c"]
    stage.resume("--edited")
    assert stage.ran() == ["a", "b", "c"]


def test_edits_15_a_prompt_that_the_run_has_written_is_its_own(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.write("a.md", "STEP:a as it was")
    stage.touch("fail-c")
    asked = "  - {name: a, provider: claude, input_file: a.md}\n"
    stage.play(workflow(asked, command("b", "echo STEP:a > a.md"), command("c")), exit_code=1)
    stage.ran()
    (stage.folder / "fail-c").unlink()
    os.utime(stage.folder / "a.md", (0, 0))  # long before the run stopped
    stage.resume()
    assert stage.ran() == ["c"]


def test_edits_15_what_a_condition_leaves_out_now_is_told(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    condition = ", condition: \"{{x}} == '1'\""
    stage.play(recipe(asks("a"), asks("b", fields=condition), asks("c"), head="context: {x: 1}\n"))
    stage.ran()
    stage.edit("== '1'", "== '2'")
    assert "reuse 2, run 0; skip b" in stage.resume("--edited").stderr
    assert stage.ran() == []


def test_edits_15_a_wider_limit_of_rounds_goes_on_behind_them(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    loop = (
        '  - {id: l, agent: helper, prompt: "STEP:l", output: said, '
        "while_condition: \"{{said?}} != 'enough'\", max_while_iterations: 2}\n"
    )
    played = stage.play(recipe(asks("a"), loop), exit_code=3)
    assert "go on:  raise that limit in the file, then orchestrate" in played.result.stderr
    assert stage.ran() == ["a", "l", "l"]
    stage.edit("iterations: 2", "iterations: 3")
    assert "at most 3 rounds" in stage.resume("--edited", exit_code=3).stderr
    assert stage.ran() == ["l"]
    stage.edit("iterations: 3", "iterations: 2")
    told = stage.resume("--edited", exit_code=3).stderr
    assert "reuse 3, run 0; no longer there: l[2]" in told
    assert stage.ran() == []
