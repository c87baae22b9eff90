"""Attempts that are lost one after the other: three in all, with pauses, then a person decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrate.engine.lost_attempts import PAUSES_S
from orchestrate.execute.liveness import is_keeper_alive
from tests.recipes.fakes import recipe
from tests.truth.places import DIALECTS, Place

# Whoever watches a program is its parent: the keeper's own hand, or a warden. An agent's program
# is the parent of ours in these trials.
KILL_WATCHER = {
    "workflow": "kill -9 $PPID; sleep 100",
    "machine": "kill -9 $(ps -o ppid= $PPID); sleep 100",
    "recipe": "kill -9 $(ps -o ppid= $PPID); sleep 100",
}


def lost_events(place: Place) -> list[dict[str, Any]]:
    return [event for event in place.events() if event.get("why") == "lost"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_06_three_attempts_then_a_person(dialect: str, quick_top: Path) -> None:
    place = Place(quick_top, dialect, deed=KILL_WATCHER[dialect])
    said = place.run("run", "w.yaml", timeout_s=90).assert_exit(6)
    assert len(place.starts()) == 3
    assert [event.get("rest_s", 0) for event in lost_events(place)] == [1.0, 5.0, 0]
    began = [e["at"] for e in place.events() if e["on"] == "step-started" and e["node"] in "bB"]
    ended = [event["at"] for event in lost_events(place)]
    pauses = [start - end for start, end in zip(began[1:], ended, strict=False)]
    assert all(taken >= due for taken, due in zip(pauses, PAUSES_S, strict=True)), pauses
    state = place.status()
    assert state["status"] == "paused"
    assert f"step '{place.step}' was lost 3 times in a row" in state["reason"]
    assert f"orchestrate resume {state['run_id']}" in said.stderr
    assert "starting attempt 2 in 1 s" in said.stderr
    assert "starting attempt 3 in 5 s" in said.stderr
    assert "does not answer" not in said.stderr, "its keeper is well"
    shown = place.run("status", "latest").assert_success().stdout
    assert "paused" in shown
    assert f"{place.step} waits for a person" in shown
    told = place.run("status", "latest", "--json").json()
    assert told["next"] == [f"orchestrate resume {state['run_id']}"]


def test_truth_06_the_keeper_that_settles_a_loss_is_seen_out(quick_top: Path) -> None:
    deed = KILL_WATCHER["workflow"]
    place = Place(quick_top, "workflow", deed=deed, more="on_lost: stop")
    said = place.run("run", "w.yaml", timeout_s=90).assert_exit(6)
    assert "does not answer" not in said.stderr, "it was waited for in vain"
    assert not is_keeper_alive(place.root()), "it was left behind"


def test_truth_06_resume_begins_a_new_count(quick_top: Path) -> None:
    deed = "test $(grep -c ^start.B ledger) -gt 4 || { kill -9 $PPID; sleep 100; }; cd /"
    place = Place(quick_top, "workflow", deed=f"cd {quick_top}; {deed}")
    place.go()
    place.run("run", "w.yaml", timeout_s=90).assert_exit(6)
    assert len(place.starts()) == 3
    place.run("resume", "latest", timeout_s=90).assert_success()
    assert len(place.starts()) == 5
    assert place.step_result()["attempts"] == 5
    assert [event.get("losses", 0) for event in lost_events(place)] == [1, 2, 3, 1]


def test_truth_06_others_of_a_parallel_loop_finish(quick_top: Path) -> None:
    """One item's attempts are lost; what the others do is kept, and only that one is resumed."""
    place = Place(quick_top, "recipe")
    place.write(
        "w.yaml",
        recipe("""
            steps:
              - id: each
                foreach: "{{items}}"
                as: item
                parallel: true
                agent: helper
                prompt: "STEP {{item}}"
                collect: all
            context: {items: [one, two, bad]}
        """),
    )
    place.go()
    claude = place.top / "claude"
    text = claude.read_text("utf-8")
    die = "test -e ../mended || { kill -9 $PPID; sleep 100; }"
    bad = f'prompt=$(cat)\ncase "$prompt" in *bad*) {die};; esac\n'
    claude.write_text(text.replace("cat > /dev/null\n", bad), "utf-8")
    place.run("run", "w.yaml", timeout_s=90).assert_exit(6)
    state = place.status()
    assert "lost 3 times in a row" in state["reason"]
    assert len(place.ends()) == 2, "the others did not finish"
    (place.top / "mended").touch()
    place.run("resume", "latest", timeout_s=90).assert_success()
    assert len(place.ends()) == 3
    assert len(place.status()["context"]["all"]) == 3


def test_truth_06_a_terminated_keeper_counts(quick_top: Path) -> None:
    """`kill $PPID` ends the keeper in good order, which is no reason to go on for ever."""
    place = Place(quick_top, "workflow", deed="kill $PPID; sleep 100")
    place.run("run", "w.yaml", timeout_s=90).assert_exit(6)
    assert len(place.starts()) == 3
    assert place.status()["status"] == "paused"


def test_truth_06_guardrails_and_retries_are_not_spent(quick_top: Path) -> None:
    """A lost attempt is none of the step's own tries."""
    place = Place(quick_top, "workflow", more="retries: {max: 1, delay_ms: 0}",
        deed=f"cd {quick_top}; test $(wc -l < ledger) -gt 1 || {{ kill -9 $PPID; sleep 100; }}; "
        "test $(wc -l < ledger) -gt 2 || exit 3; cd /",
    )  # fmt: skip
    place.go()
    place.run("run", "w.yaml", timeout_s=90).assert_success()
    whys = [event["why"] for event in place.events() if event["on"] == "attempt-ended"]
    assert whys == ["lost", "failed"]
    assert json.dumps(place.step_result()["exit_code"]) == "0"
