"""Edits of what a definition is made of besides its own file: what used it runs, nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.edits.ledger import HELPER, Ledger, asks, command, recipe, workflow

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
