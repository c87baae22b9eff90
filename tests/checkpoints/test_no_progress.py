"""`limits: {no_progress: 2}`: a circle of agents that comes to nothing ends with exit code 3."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

from tests.checkpoints.places import git, write
from tests.edits.ledger import Ledger
from tests.promises.damaging import COUNT
from tests.promises.lanes import Lane, Order
from tests.promises.trials import KILLED

# With a file `differ` each turn says something else, with `change` the fixes change something, with
# `commit` they commit without a change.
_CLAUDE = """
import os, re, subprocess
def answer(prompt):
    name = (re.findall(r"STEP:([A-Za-z0-9_-]+)", prompt) or ["work"])[-1]
    with open("ledger", "a") as ledger:
        ledger.write(name + "\\n")
    turns = open("ledger").read().split().count(name)
    if os.path.exists("change") and name == "fix":
        with open("work", "a") as work:
            work.write(f"{turns}\\n")
    if os.path.exists("commit") and name == "fix":
        mail = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *mail, "commit", "-q", "--allow-empty", "-m", "m"], check=True)
    said = f"turn {turns}" if os.path.exists("differ") else "  The   Same "
    return said + '\\n{"outcome": "again"}'
"""
_GIVE_UP = "other: {action: exit, reason: gave up, status: failed}"
SHAPES = {
    "machine": """
id: trial
label: Trial
description: d
initialStep: review
guardrails: {maxStepVisits: 6}
LIMITS
steps:
  review: {outcomes: [again, other], prompt: "STEP:review",
           onOutcome: {again: {nextStep: fix}, OTHER}}
  fix: {outcomes: [again, other], prompt: "STEP:fix",
        onOutcome: {again: {nextStep: review}, OTHER}}
""".replace("OTHER", _GIVE_UP),
    "recipe": """
name: trial
description: d
version: 1.0.0
LIMITS
context: {going: "yes"}
steps:
  - id: circle
    while_condition: "{{going}} == 'yes'"
    max_while_iterations: 6
    while_steps:
      - {id: review, agent: helper, prompt: "STEP:review"}
      - {id: fix, agent: helper, prompt: "STEP:fix"}
""",
    "goto": """
version: "1.4"
name: trial
LIMITS
steps:
  - {name: review, provider: claude, prompt: "STEP:review"}
  - {name: fix, provider: claude, prompt: "STEP:fix"}
  - {name: enough, command: ["sh", "-c", "test $(wc -l < ledger) -ge 12"],
     on: {success: {goto: _end}, failure: {goto: review}}}
""",
    "repeat": """
version: "1.4"
name: trial
LIMITS
steps:
  - name: circle
    repeat:
      until: {equals: {left: "${steps.fix.exit_code}", right: "9"}}
      max: 6
      steps:
        - {name: review, provider: claude, prompt: "STEP:review"}
        - {name: fix, provider: claude, prompt: "STEP:fix"}
""",
}
LIMITED = "limits: {no_progress: 2}"
TWO_ROUNDS = ["review", "fix"] * 2


@pytest.fixture
def place(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path)
    made.claude(_CLAUDE)
    write(made.folder, ".gitignore", "ledger\nchange\ncommit\ndiffer\nw.yaml\n")
    git(made.folder, "init", "-q")
    git(made.folder, "add", "-A")
    git(made.folder, "commit", "-q", "-m", "first")
    return made


def run(place: Ledger, shape: str, *flags: str, limits: str = LIMITED) -> int:
    place.write("w.yaml", SHAPES[shape].replace("LIMITS", limits))
    return place.run("run", "w.yaml", *flags).exit_code


@pytest.mark.parametrize("shape", SHAPES)
def test_a_circle_that_changes_nothing_ends(place: Ledger, shape: str) -> None:
    place.touch("differ")
    assert run(place, shape) == 3
    assert place.ran() == TWO_ROUNDS
    reason = place.state()["reason"]
    assert reason.startswith("no-progress: 2 rounds in a row left the workspace unchanged"), reason


@pytest.mark.parametrize("shape", SHAPES)
def test_a_circle_with_the_same_answers_ends(place: Ledger, shape: str) -> None:
    place.touch("change")
    assert run(place, shape) == 3
    assert place.ran() == TWO_ROUNDS
    assert place.state()["reason"].startswith("no-progress: 2 rounds in a row got the same answers")


@pytest.mark.parametrize("by", ["change", "commit"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_circle_that_gets_on_goes_on(place: Ledger, shape: str, by: str) -> None:
    place.touch(by)
    place.touch("differ")
    run(place, shape)
    assert place.ran() == ["review", "fix"] * 6
    assert "no-progress" not in (place.state().get("reason") or "")


@pytest.mark.parametrize(
    ("flags", "limits"), [((), ""), (("--checkpoints", "off"), LIMITED)], ids=["unwritten", "off"]
)
def test_it_counts_only_if_written_and_with_checkpoints(
    place: Ledger, flags: tuple[str, ...], limits: str
) -> None:
    place.write("w.yaml", SHAPES["machine"].replace("LIMITS", limits))
    told = place.run("run", "w.yaml", *flags).stderr
    assert place.ran() == ["review", "fix"] * 6
    # A limit that is written and cannot be held is not silently none.
    assert ("limits.no_progress counts for nothing" in told) == bool(limits)


def test_without_git_it_counts_as_soon_as_checkpoints_are_wanted(place: Ledger) -> None:
    shutil.rmtree(place.folder / ".git")
    place.touch("differ")
    place.write("w.yaml", SHAPES["machine"].replace("LIMITS", LIMITED))
    told = place.run("run", "w.yaml", "--max-calls", "2").assert_exit(6).stderr
    assert "--checkpoints on takes them" in told
    assert (
        place.run("run", "w.yaml", "--checkpoints", "on")
        .assert_exit(3)
        .stderr.count("counts for nothing")
        == 0
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_rounds_are_counted_over_a_resume(place: Ledger, shape: str) -> None:
    assert run(place, shape, "--max-calls", "3") == 6
    place.resume("--max-calls", "100", exit_code=3)
    assert place.ran() == TWO_ROUNDS
    # It has not got on, and who resumes it is told so without a call.
    place.resume(exit_code=3)
    assert place.ran() == []


def test_rounds_of_a_check_do_not_count(place: Ledger) -> None:
    text = """
id: trial
label: Trial
description: d
initialStep: work
limits: {no_progress: 2}
steps:
  work: {outcomes: [again, other], prompt: "STEP:work",
         check: {command: ["false"], rounds: 4},
         onOutcome: {again: {action: exit, reason: done}, OTHER}}
""".replace("OTHER", _GIVE_UP)
    place.write("w.yaml", text)
    place.run("run", "w.yaml").assert_exit(3)
    assert place.state()["reason"].startswith("check-failed")


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_advised_goes_on_and_counts_anew(place: Ledger, shape: str) -> None:
    place.touch("differ")
    assert run(place, shape) == 3
    advised = place.run("status", "--json").json()["next"]
    assert advised == [line for line in advised if "--redo" in line], advised
    place.ran()
    place.touch("change")
    _, *words = shlex.split(advised[0])
    place.run(*words)
    assert place.ran()[0] == "fix", "the last turn is asked again, and those before it are kept"
    assert "no-progress" not in (place.state().get("reason") or "")


# The circle is in a file that is called, or in one that the items of a parallel loop call.
CALLED = """
name: trial
description: d
version: 1.0.0
context: {items: [1, 2]}
steps:
  - {id: call, type: recipe, recipe: child.yaml}
"""
PARALLEL = CALLED.replace("type: recipe", "foreach: '{{items}}', parallel: true, type: recipe")


# Inside a parallel loop files belong to the loop: only answers tell there that nothing gets on.
@pytest.mark.parametrize(
    ("caller", "by", "why"),
    [
        (CALLED, "differ", "left the workspace unchanged"),
        (CALLED, "change", "got the same answers"),
        (PARALLEL, "change", "got the same answers"),
    ],
    ids=["unchanged", "same", "same-in-parallel"],
)
@pytest.mark.parametrize("shape", ["machine", "recipe", "repeat"])
def test_a_circle_in_a_called_file_ends_the_run(
    place: Ledger, shape: str, caller: str, by: str, why: str
) -> None:
    place.touch(by)
    place.write("child.yaml", SHAPES[shape].replace("LIMITS", LIMITED))
    place.write("w.yaml", caller)
    result = place.run("run", "w.yaml", "--max-parallel", "1").assert_exit(3)
    assert place.ran() == TWO_ROUNDS
    assert place.state()["reason"].startswith(f"no-progress: 2 rounds in a row {why}")
    assert "  go on:  orchestrate resume " in result.stderr
    place.touch("change")
    place.touch("differ")
    _, *words = shlex.split(place.run("status", "--json").json()["next"][0])
    place.run(*words)
    assert place.ran()[0] == "fix"


def test_items_at_once_are_no_rounds_of_each_other(place: Ledger) -> None:
    """Four items say the same and change nothing: that is no circle."""
    place.write("w.yaml", """
name: trial
description: d
version: 1.0.0
limits: {no_progress: 2}
context: {items: [1, 2, 3, 4]}
steps:
  - {id: each, foreach: "{{items}}", parallel: true, agent: helper, prompt: "STEP:each {{item}}"}
""")  # fmt: skip
    place.run("run", "w.yaml").assert_success()
    assert place.ran() == ["each"] * 4


def _killed(place: Ledger, *words: str, before: int) -> tuple[int, int]:
    """The exit code of a command that is killed in front of a change, and its changes."""
    lane, top = Lane(), place.top
    env = {**os.environ, **place.surroundings}
    code = lane.run(Order(words, place.folder, top / "out", top / "err", env, before))
    return code, lane.changes


def _kill_at(place: Ledger, shape: str, share: float) -> None:
    """Kill a run when it has done a share of its work, and let it end."""
    assert run(place, shape) == 3
    assert place.ran() == TWO_ROUNDS
    _, changes = _killed(place, "run", "w.yaml", before=COUNT)
    place.ran()
    before = {path.name for path in place.runs_folder.iterdir()}
    code, _ = _killed(place, "run", "w.yaml", before=max(round(share * changes), 1))
    if before == {path.name for path in place.runs_folder.iterdir()}:
        return  # it was killed before there was a run
    assert code in (KILLED, 3)
    place.resume(exit_code=3)
    assert place.ran() == TWO_ROUNDS, "a round was counted twice, or not"


@pytest.mark.parametrize(
    ("shape", "share"),
    [("machine", 0.4), ("machine", 0.7), ("machine", 0.97), ("recipe", 0.7), ("repeat", 0.97)],
)
def test_rounds_are_counted_over_a_kill(place: Ledger, shape: str, share: float) -> None:
    place.touch("differ")
    _kill_at(place, shape, share)


@pytest.mark.soak
@pytest.mark.parametrize("share", [percent / 100 for percent in range(2, 101, 2)])
@pytest.mark.parametrize("shape", SHAPES)
def test_rounds_are_counted_over_every_kill(place: Ledger, shape: str, share: float) -> None:
    place.touch("differ")
    _kill_at(place, shape, share)
