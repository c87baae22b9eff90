"""Decisions that cross: twice, at once, for the wrong stage, in sub-recipes, loops and crashes."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrate.testing import Result
from tests.recipes.fakes import Workshop, recipe

GATED = recipe("""
    stages:
      - name: one
        steps: [{id: a, agent: helper, prompt: "STEP:a"}]
        approval: {required: true, prompt: "Go on?"}
      - name: two
        steps: [{id: b, agent: helper, prompt: "STEP:b"}]
        approval: {required: true, prompt: "And now?"}
      - name: three
        steps: [{id: c, agent: helper, prompt: "STEP:c"}]
""")


def test_gate_approve_twice_counts_once(shop: Workshop) -> None:
    run_id = shop.play(GATED, exit_code=6).run_id
    shop.run("approve", run_id, "one", "--message", "first").assert_success()
    for words in ((run_id, "one"), (run_id,)):
        said = shop.run("approve", *words, "--message", "second").assert_exit(2)
        assert "approved" in said.stderr
    played = shop.go_on(exit_code=6)
    first, second = played.state["approvals"]
    assert (first["status"], first["message"]) == ("approved", "first")
    assert second["status"] == "pending"
    assert shop.asked() == ["a", "b"]
    # The decision was about the visit of one gate: the next one is not decided by it.
    said = shop.run("approve", run_id, "one").assert_exit(2)
    assert "'two'" in said.stderr
    assert shop.look(said).state["approvals"][1]["status"] == "pending"


def test_gate_approve_the_wrong_stage_changes_nothing(shop: Workshop) -> None:
    run_id = shop.play(GATED, exit_code=6).run_id
    for stage in ("two", "three", "nonsense", ""):
        said = shop.run("approve", run_id, stage).assert_exit(2)
        assert "'one'" in said.stderr, "what is pending is not named"
    played = shop.go_on(exit_code=6)
    assert [gate["status"] for gate in played.state["approvals"]] == ["pending"]
    assert shop.asked() == ["a"]


@pytest.mark.parametrize("words", [("nonsense",), ("20200101T000000Z-aaaaaa",)])
def test_gate_approve_an_unknown_run(shop: Workshop, words: tuple[str, ...]) -> None:
    shop.play(GATED, exit_code=6)
    shop.run("approve", *words).assert_exit(2)
    assert shop.asked() == ["a"]


def test_gate_approve_a_run_that_waits_for_nothing(shop: Workshop) -> None:
    flat = recipe('steps: [{id: a, agent: helper, prompt: "STEP:a"}]')
    played = shop.play(flat)
    for verb in ("approve", "deny"):
        said = shop.run(verb, played.run_id).assert_exit(2)
        assert "no approval" in said.stderr or "nothing" in said.stderr
    assert shop.look(played.result).state["status"] == "completed"


def test_gate_approve_and_deny_at_once_from_two_terminals(shop: Workshop) -> None:
    """Exactly one wins, the other is told, and what is recorded is what the winner said."""
    for _ in range(4):
        run_id = shop.play(GATED, exit_code=6).run_id
        answers = at_once(shop, ("approve", run_id, "one"), ("deny", run_id, "one"))
        won = [answer.arguments[0] for answer in answers if answer.exit_code == 0]
        lost = [answer for answer in answers if answer.exit_code != 0]
        assert len(won) == 1, [answer.stderr for answer in answers]
        assert lost[0].exit_code == 2
        assert "already" in lost[0].stderr
        (gate,) = shop.look(lost[0]).state["approvals"]
        assert gate["status"] == {"approve": "approved", "deny": "denied"}[won[0]]
        shop.run("resume", run_id).assert_exit(6 if won == ["approve"] else 1)


def test_gate_two_resumes_at_once_after_an_approval(shop: Workshop) -> None:
    run_id = shop.play(GATED, exit_code=6).run_id
    shop.run("approve", run_id).assert_success()
    answers = at_once(shop, ("resume", run_id), ("resume", run_id))
    codes = sorted(answer.exit_code for answer in answers)
    assert codes in ([5, 6], [6, 6])
    assert shop.asked() == ["a", "b"]


def at_once(shop: Workshop, *commands: tuple[str, ...]) -> list[Result]:
    with ThreadPoolExecutor(len(commands)) as pool:
        return list(pool.map(lambda words: shop.run(*words), commands))


# Gates below the main recipe.

CHILD = recipe(
    """
    context: {item: none}
    stages:
      - name: check
        steps: [{id: in, agent: helper, prompt: "STEP:in-{{item}}", output: found}]
        approval: {required: true, prompt: "Is {{found}} good?"}
      - name: act
        steps: [{id: out, agent: helper, prompt: "STEP:out-{{item}} [{{approval.message}}]"}]
    """,
    name="child",
)


def test_gate_in_a_sub_recipe_parks_the_whole_run(shop: Workshop) -> None:
    shop.write("child.yaml", CHILD)
    text = recipe("""
        steps:
          - {id: before, agent: helper, prompt: "STEP:before"}
          - {id: call, type: recipe, recipe: child.yaml, context: {item: x}, output: r}
          - {id: after, agent: helper, prompt: "STEP:after [{{r.found}}]"}
    """)
    played = shop.play(text, exit_code=6)
    assert shop.asked() == ["before", "in-x"]
    (gate,) = played.state["approvals"]
    assert (gate["stage"], gate["prompt"]) == ("check", "Is done in-x good?")
    shop.run("approve", "latest", "check", "--message", "fine").assert_success()
    shop.go_on()
    assert shop.asked() == ["before", "in-x", "out-x", "after"]
    assert shop.prompt("out-x") == "STEP:out-x [fine]"
    assert shop.prompt("after") == "STEP:after [done in-x]"


def test_gate_in_a_sub_recipe_denied_ends_the_whole_run(shop: Workshop) -> None:
    """Whatever the call's on_error says: a denial is a person's word, not a failure."""
    shop.write("child.yaml", CHILD)
    text = recipe("""
        steps:
          - {id: call, type: recipe, recipe: child.yaml, on_error: continue}
          - {id: after, agent: helper, prompt: "STEP:after"}
    """)
    shop.play(text, exit_code=6)
    shop.run("deny", "latest").assert_success()
    played = shop.go_on(exit_code=1)
    assert shop.asked() == ["in-none"]
    assert played.state["status"] == "failed"


def test_gate_message_of_a_sub_recipe_stays_there(shop: Workshop) -> None:
    """Isolation: the caller's {{approval.message}} is that of its own gates."""
    shop.write("child.yaml", CHILD)
    text = recipe("""
        stages:
          - name: outer
            steps: [{id: a, agent: helper, prompt: "STEP:a"}]
            approval: {required: true, prompt: "Call it?"}
          - name: calling
            steps:
              - {id: call, type: recipe, recipe: child.yaml, context: {item: x}}
              - {id: after, agent: helper, prompt: "STEP:after [{{approval.message}}]"}
    """)
    shop.play(text, exit_code=6)
    shop.run("approve", "latest", "--message", "outer words").assert_success()
    shop.go_on(exit_code=6)
    shop.run("approve", "latest", "--message", "inner words").assert_success()
    shop.go_on()
    assert shop.prompt("out-x") == "STEP:out-x [inner words]"
    assert shop.prompt("after") == "STEP:after [outer words]"


LOOP = recipe("""
    context: {items: [x, y]}
    steps:
      - {id: each, foreach: "{{items}}", type: recipe, recipe: child.yaml,
         context: {item: "{{item}}"}, collect: all}
      - {id: after, agent: helper, prompt: "STEP:after"}
""")


def test_gate_in_a_loop_asks_for_each_item(shop: Workshop) -> None:
    shop.write("child.yaml", CHILD)
    shop.play(LOOP, exit_code=6)
    assert shop.asked() == ["in-x"]
    shop.run("approve", "latest", "--message", "for x").assert_success()
    played = shop.go_on(exit_code=6)
    assert [gate["status"] for gate in played.state["approvals"]] == ["approved", "pending"]
    assert shop.asked() == ["in-x", "out-x", "in-y"]
    shop.run("approve", "latest", "--message", "for y").assert_success()
    played = shop.go_on()
    assert shop.asked() == ["in-x", "out-x", "in-y", "out-y", "after"]
    assert shop.prompt("out-x") == "STEP:out-x [for x]"
    assert shop.prompt("out-y") == "STEP:out-y [for y]"


def test_gate_in_a_loop_denied_at_the_second_item(shop: Workshop) -> None:
    shop.write("child.yaml", CHILD)
    shop.play(LOOP, exit_code=6)
    shop.run("approve", "latest").assert_success()
    shop.go_on(exit_code=6)
    shop.run("deny", "latest").assert_success()
    shop.go_on(exit_code=1)
    assert shop.asked() == ["in-x", "out-x", "in-y"]


def test_gate_in_a_parallel_loop_waits_for_all_of_them(shop: Workshop) -> None:
    """The items work up to their gates; each gate is decided by itself."""
    shop.write("child.yaml", CHILD)
    text = LOOP.replace('foreach: "{{items}}"', 'foreach: "{{items}}", parallel: true')
    played = shop.play(text, exit_code=6)
    assert sorted(shop.asked()) == ["in-x", "in-y"]
    assert [gate["status"] for gate in played.state["approvals"]] == ["pending", "pending"]
    waiting = shop.run("approvals", "--json").json()["approvals"]
    unclear = shop.run("approve", "latest", "check").assert_exit(2).stderr
    assert "waits for 2 approvals of 'check': name one by its path" in unclear
    name = waiting[1]["name"]
    shop.run("approve", "latest", name, "--message", "one").assert_success()
    played = shop.go_on(exit_code=6)
    statuses = sorted(gate["status"] for gate in played.state["approvals"])
    assert statuses == ["approved", "pending"]
    shop.run("approve", "latest", "check", "--message", "two").assert_success()
    shop.go_on()
    asked = shop.asked()
    assert sorted(asked) == ["after", "in-x", "in-y", "out-x", "out-y"]
    messages = {call.text.partition(" ")[2] for call in shop.calls() if "out" in call.marker}
    assert messages == {"[one]", "[two]"}


# Crashes around a decision.


def test_gate_killed_in_front_of_the_ballot_is_undecided(shop: Workshop) -> None:
    """`deny` is killed in front of its write: nothing is decided; the next one decides."""
    run_id = shop.play(GATED, exit_code=6).run_id
    before = (shop.latest / "events.jsonl").read_bytes()
    _run_killed(shop, ("deny", run_id, "one"), "before os.link")
    assert (shop.latest / "events.jsonl").read_bytes() == before
    shop.run("resume", run_id).assert_exit(6)
    shop.run("approve", run_id, "one").assert_success()
    played = shop.go_on(exit_code=6)
    assert [gate["status"] for gate in played.state["approvals"]] == ["approved", "pending"]
    assert shop.asked() == ["a", "b"]


@pytest.mark.parametrize("point", ["before Journal.append", "behind Journal.append"])
@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_gate_killed_behind_the_ballot_is_decided(shop: Workshop, verb: str, point: str) -> None:
    """The ballot has it, the journal perhaps, state.json not: the next look sees the decision."""
    run_id = shop.play(GATED, exit_code=6).run_id
    _run_killed(shop, (verb, run_id, "one"), point)
    other = "deny" if verb == "approve" else "approve"
    said = shop.run(other, run_id, "one").assert_exit(2)
    assert "already" in said.stderr
    shop.go_on(exit_code=6 if verb == "approve" else 1)
    assert shop.asked() == (["a", "b"] if verb == "approve" else ["a"])


# The command's own process, killed in front of or behind one of the two writes of a decision.
_KILLED = """
import os, signal, sys
from orchestrate.state.journal import Journal
when, call = sys.argv.pop().split()
owner, name = (Journal, "append") if call == "Journal.append" else (os, "link")
real = getattr(owner, name)
def die(*arguments, **named):
    if when == "behind":
        real(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, name, die)
from orchestrate.cli.main import main
main()
"""


def _run_killed(shop: Workshop, words: tuple[str, ...], point: str) -> None:
    import os
    import sys

    process = subprocess.run(
        [sys.executable, "-c", _KILLED, *words, point],
        cwd=shop.folder,
        env={**os.environ, **shop.surroundings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == -9, process.stderr
