"""`fork` from inside a loop: no result stands without the files that it made."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.edits.ledger import command, recipe, workflow
from tests.edits.repositories import Repository
from tests.edits.test_edits_12_fork import untouched
from tests.recipes.terminal import at_terminal

# Each item has its own file, but where the prompt says to look only. `ignored` has who was asked.
CLAUDE = """
import re
def answer(prompt):
    name = re.findall(r"STEP:([A-Za-z0-9_-]+)", prompt)[-1]
    with open("ignored", "a") as ledger:
        ledger.write(name + "\\n")
    if "only look" not in prompt:
        open("by-" + name, "w").write(name)
    return "did " + name
"""


def loops(dialect: str, task: str = "do it", *, parallel: bool = False) -> str:
    """Three items of an agent each, and a step behind them."""
    how = ", parallel: true" if parallel else ""
    if dialect == "recipe":
        step = f'foreach: "{{{{things}}}}", as: it{how}, prompt: "STEP:{{{{it}}}} {task}"'
        return recipe(
            f"  - {{id: l, agent: helper, {step}}}\n",
            f'  - {{id: c, agent: helper, prompt: "STEP:c {task}"}}\n',
            head="context: {things: [x, y, z]}\n",
        )
    inner = f'{{name: p, provider: claude, prompt: "STEP:${{item}} {task}"}}'
    loop = f"  - name: l\n    for_each: {{items: [x, y, z]{how}, steps: [{inner}]}}\n"
    return workflow(loop, f'  - {{name: c, provider: claude, prompt: "STEP:c {task}"}}\n')


ITEM = {"workflow": "l[1]/p", "recipe": "l[1]"}


class Looping(Repository):
    """A repository in which agents work on items."""

    def __init__(self, top: Path) -> None:
        super().__init__(top)
        self.claude(CLAUDE)

    def asked(self, folder: Path | None = None) -> list[str]:
        """Who was asked in a folder; nobody knows of it in another one."""
        found = (folder or self.folder) / "ignored"
        return found.read_text("utf-8").split() if found.exists() else []

    def made(self, folder: Path) -> set[str]:
        return {path.name for path in folder.glob("by-*")}


@pytest.fixture
def stage(tmp_path: Path) -> Looping:
    return Looping(tmp_path)


@pytest.mark.parametrize("dialect", ITEM)
def test_edits_18_items_one_after_another_go_on_from_one(stage: Looping, dialect: str) -> None:
    """The files are exactly those of before the item's step; what later items changed is not there,
    and so their results are not taken over."""
    stage.play(loops(dialect))
    with untouched(stage) as origin:
        told = stage.run("fork", origin, "--from", ITEM[dialect]).assert_success()
    assert f"its files are as they were before '{ITEM[dialect]}'" in told.stderr
    assert stage.asked(stage.worktree) == ["y", "z", "c"]
    assert stage.made(stage.worktree) == {"by-x", "by-y", "by-z", "by-c"}
    assert f"reused: 1 step of run {origin}" in told.stderr
    # A fork of the fork has what that one took over, and what it made itself.
    last = ITEM[dialect].replace("1", "2")
    stage.run("fork", "latest", "--from", last, "--worktree", "again").assert_success()
    again = stage.top / "workspace.worktrees" / "again"
    assert stage.asked(again) == ["z", "c"]
    assert stage.made(again) == {"by-x", "by-y", "by-z", "by-c"}


@pytest.mark.parametrize("dialect", ITEM)
@pytest.mark.parametrize("parallel", [False, True])
def test_edits_18_items_that_changed_no_file_are_kept(
    stage: Looping, dialect: str, parallel: bool
) -> None:
    stage.play(loops(dialect, "only look", parallel=parallel))
    stage.run("fork", "--from", ITEM[dialect]).assert_success()
    assert stage.asked(stage.worktree) == ["y", "c"]


@pytest.mark.parametrize("dialect", ITEM)
def test_edits_18_files_of_a_parallel_loop_belong_to_the_loop(stage: Looping, dialect: str) -> None:
    """The other agents may have cost much: it is not begun again unless a person says so."""
    stage.play(loops(dialect, parallel=True), "--max-parallel", "1")
    with untouched(stage) as origin:
        refused = stage.run("fork", origin, "--from", ITEM[dialect]).assert_exit(2)
    assert "would be done again" in refused.stderr
    assert stage.branches() == ["main"]
    assert len(stage.run("runs", "--json").json()["runs"]) == 1
    advised = refused.stderr.partition("to do that: orchestrate ")[2].splitlines()[0].split()
    assert advised == ["fork", origin, "--from", "l"]
    stage.run(*advised).assert_success()
    assert stage.asked(stage.worktree) == ["x", "y", "z", "c"]


@pytest.mark.parametrize(("answer", "asked"), [("y", ["x", "y", "z", "c"]), ("n", None)])
def test_edits_18_it_is_asked_for_at_a_terminal(
    stage: Looping, answer: str, asked: list[str] | None
) -> None:
    stage.play(loops("recipe", parallel=True), "--max-parallel", "1")
    given = ("fork", "latest", "--from", "l[1]", "--no-live")
    with at_terminal(stage.folder, stage.surroundings, *given) as terminal:
        terminal.read_until("go on with that? [y/N] ")
        terminal.type(f"{answer}\n")
        assert terminal.wait() == (2 if asked is None else 0), terminal.shown
    assert stage.worktree_exists() == (asked is not None)
    if asked is not None:
        assert stage.asked(stage.worktree) == asked


def test_edits_18_results_of_a_parallel_loop_are_accepted_without_their_files(
    stage: Looping,
) -> None:
    stage.play(loops("recipe", parallel=True), "--max-parallel", "1")
    told = stage.run("fork", "--from", "l[1]", "--accept", "l[0]").assert_success()
    assert "what l[0] did to them is not there" in told.stderr
    assert stage.asked(stage.worktree) == ["y", "z", "c"]


def test_edits_18_the_first_of_a_parallel_loop_has_lost_nothing(stage: Looping) -> None:
    """What has begun later is no part of a fork from there."""
    stage.play(loops("recipe", parallel=True), "--max-parallel", "1")
    stage.run("fork", "--from", "l[0]").assert_success()
    assert stage.asked(stage.worktree) == ["x", "y", "z", "c"]


@pytest.mark.parametrize("parallel", [False, True])
def test_edits_18_quick_items_are_done_again(
    stage: Looping, parallel: bool, captured_once: None
) -> None:
    """Commands cost nothing to speak of."""
    how = ", parallel: true" if parallel else ""
    script = "echo ${item} > made-${item}; echo ${item} >> ignored"
    inner = f'{{name: p, command: ["sh", "-c", "{script}"]}}'
    loop = f"  - name: l\n    for_each: {{items: [x, y, z]{how}, steps: [{inner}]}}\n"
    uses = command("c", "cat made-x made-y made-z > made")
    stage.play(workflow(loop, uses), "--max-parallel", "1")
    told = stage.run("fork", "--from", "l[2]/p").assert_success()
    assert "l[0]/p, l[1]/p too: done again with 'l[2]/p'" in told.stderr
    assert stage.asked(stage.worktree) == ["x", "y", "z"]
    assert (stage.worktree / "made").read_text("utf-8") == "x\ny\nz\n"


def test_edits_18_a_fork_that_is_refused_for_an_effect_names_it(stage: Looping) -> None:
    """An item of later, which the fork would do again."""
    step = '{name: p, provider: claude, prompt: "STEP:${item} do it", effect: true}'
    loop = f"  - name: l\n    for_each: {{items: [x, y, z], steps: [{step}]}}\n"
    stage.play(workflow(loop))
    refused = stage.run("fork", "--from", "l[1]/p").assert_exit(2)
    assert "step 'l[2]/p' has an effect" in refused.stderr
    assert not stage.worktree_exists()
    line = refused.stderr.partition("still holds: orchestrate ")[2].splitlines()[0]
    stage.run(*shlex.split(line)).assert_success()
    assert stage.asked(stage.worktree) == ["y"]
