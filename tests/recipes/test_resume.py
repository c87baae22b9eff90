"""Resume after a kill: what is finished is not done again, what still runs is adopted."""

from __future__ import annotations

import os
import signal

import pytest

from tests.promises.processes import is_alive, keepers_in, wait_until
from tests.recipes.fakes import Workshop, recipe, rule

PARALLEL = recipe("""
    context: {items: [a, b, c, d, e]}
    steps:
      - {id: each, foreach: "{{items}}", parallel: true, agent: helper,
         prompt: "STEP:{{item}}", collect: all}
      - {id: after, agent: helper, prompt: "STEP:after {{all}}"}
""")
CHILD = recipe("""
    context: {item: ""}
    steps:
      - {id: one, agent: helper, prompt: "STEP:one-{{item}}", output: x}
      - {id: two, agent: helper, prompt: "STEP:two-{{item}} {{x}}", output: y}
""")
NESTED = recipe("""
    context: {items: [p, q]}
    steps:
      - {id: each, foreach: "{{items}}", type: recipe, recipe: child.yaml,
         context: {item: "{{item}}"}, collect: all}
      - {id: after, agent: helper, prompt: "STEP:after {{all}}"}
""")


def kill_when(shop: Workshop, text: str, calls: int, *flags: str) -> None:
    """Run a recipe and kill the orchestrator alone as soon as the agent was called so often."""
    shop.write("r.yaml", text)
    with shop.started("run", "r.yaml", *flags) as process:
        shop.await_calls(calls)
        process.send_signal(signal.SIGKILL)
        process.wait(60)


def test_resume_adopts_the_agent_that_still_runs(shop: Workshop) -> None:
    """The same process, all its output, asked once."""
    go = shop.top / "go"
    shop.answers(rule("STEP:a", text="slow words", delay=60, until=str(go)))
    text = recipe("""
        steps:
          - {id: a, agent: helper, prompt: "STEP:a", output: x}
          - {id: b, agent: helper, prompt: "STEP:b {{x}}"}
    """)
    kill_when(shop, text, 1)
    (call,) = shop.calls()
    assert is_alive(call.pid)
    with shop.started("resume", "latest") as process:
        wait_until(lambda: "resumes" in journal_of(shop), "it was never resumed")
        assert is_alive(call.pid)
        go.touch()
        assert process.wait(60) == 0
    assert shop.asked() == ["a", "b"]
    assert shop.prompt("b") == "STEP:b slow words"


def journal_of(shop: Workshop) -> str:
    text = (shop.latest / "events.jsonl").read_text("utf-8")
    return "resumes" if '"run-resumed"' in text else ""


def test_resume_takes_the_answer_of_an_agent_that_ended_meanwhile(shop: Workshop) -> None:
    shop.answers(rule("STEP:a", text="meanwhile", delay=0.5))
    text = recipe("""
        steps:
          - {id: a, agent: helper, prompt: "STEP:a", output: x}
          - {id: b, agent: helper, prompt: "STEP:b {{x}}"}
    """)
    kill_when(shop, text, 1)
    wait_until(lambda: shop.calls()[0].end is not None, "the agent did not end")
    shop.go_on()
    assert shop.asked() == ["a", "b"]
    assert shop.prompt("b") == "STEP:b meanwhile"


def test_resume_in_a_parallel_loop(shop: Workshop) -> None:
    """Finished items are not run again, running ones are adopted, the others are started."""
    go = shop.top / "go"
    shop.answers(
        rule("STEP:after"),
        *(rule(f"STEP:{item}", item.upper()) for item in "ab"),
        rule("STEP:c", text="C", delay=60, until=str(go)),
        rule("STEP:d", text="D", delay=60, until=str(go)),
        rule("STEP:e", "E"),
    )
    shop.write("r.yaml", PARALLEL)
    with shop.started("run", "r.yaml", "--max-parallel", "2") as process:
        shop.await_calls(4)
        shop.await_events("step-finished", 2)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    go.touch()
    played = shop.go_on()
    assert sorted(shop.asked()) == ["a", "after", "b", "c", "d", "e"]
    assert played.context["all"] == ["A", "B", "C", "D", "E"]
    assert played.state["settings"]["max_parallel"] == 2


@pytest.mark.parametrize("calls", [1, 2, 3, 4])
def test_resume_inside_sub_recipes_in_a_loop(shop: Workshop, calls: int) -> None:
    shop.write("child.yaml", CHILD)
    shop.answers(rule("STEP", delay=0.3))
    kill_when(shop, NESTED, calls)
    played = shop.go_on()
    assert shop.asked() == ["one-p", "two-p", "one-q", "two-q", "after"]
    assert played.context["all"] == [
        {"item": "p", "x": "done one-p", "y": "done two-p"},
        {"item": "q", "x": "done one-q", "y": "done two-q"},
    ]


def test_resume_while_a_retry_rests(shop: Workshop) -> None:
    """The pause goes on counting while nobody watches; the tries are not forgotten."""
    text = recipe("""
        steps: [{id: a, agent: helper, prompt: "STEP:a", output: x,
                 retry: {max_attempts: 2, initial_delay: 2}}]
    """)
    shop.answers(rule("STEP:a", {"fail": "network"}, {"fail": "network"}, "third"))
    shop.write("r.yaml", text)
    with shop.started("run", "r.yaml") as process:
        shop.await_calls(1)
        shop.await_events("attempt-ended", 1)
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    shop.go_on(exit_code=1)
    assert shop.asked() == ["a", "a"]
    first, second = shop.calls()
    assert second.begin - (first.end or 0) > 1.7


def test_resume_takes_the_timeout_into_account_that_ran_on(shop: Workshop) -> None:
    """The keeper ends what takes too long, whether or not anybody watches."""
    shop.answers(rule("STEP:a", delay=60))
    kill_when(shop, recipe('steps: [{id: a, agent: helper, prompt: "STEP:a", timeout: 6}]'), 1)
    (call,) = shop.calls()
    shop.await_gone([call.pid])
    played = shop.go_on(exit_code=1)
    assert played.step("a")["exit_code"] == 124
    assert shop.asked() == ["a"]


def test_resume_uses_the_flags_of_the_first_start(shop: Workshop) -> None:
    shop.answers(rule("STEP:a", delay=1))
    text = recipe("""
        context: {who: nobody}
        steps:
          - {id: a, agent: helper, prompt: "STEP:a"}
          - {id: b, agent: helper, prompt: "STEP:b {{who}}"}
    """)
    kill_when(shop, text, 1, "--context", "who=given")
    shop.go_on()
    assert shop.prompt("b") == "STEP:b given"
    said = shop.run("resume", "latest", "--context", "who=other").assert_success()
    assert "there is nothing left to do" in said.stdout


def test_resume_sees_large_values_that_were_stored(shop: Workshop) -> None:
    shop.answers(rule("STEP:a", size=300_000, text="big"), rule("STEP:b", delay=1))
    text = recipe("""
        steps:
          - {id: a, agent: helper, prompt: "STEP:a", output: x}
          - {id: b, agent: helper, prompt: "STEP:b"}
          - {id: c, agent: helper, prompt: "STEP:c {{x}}"}
    """)
    kill_when(shop, text, 2)
    shop.go_on()
    (call,) = shop.calls("c")
    assert call.size == 300_000 + len("STEP:c ")


def test_resume_after_the_keeper_died_too(shop: Workshop) -> None:
    """The attempt is reported lost, its program is gone, and a new one is announced."""
    shop.answers(rule("STEP:a", {"delay": 60}, "second"))
    shop.write("r.yaml", recipe('steps: [{id: a, agent: helper, prompt: "STEP:a", output: x}]'))
    with shop.started("run", "r.yaml") as process:
        (call,) = shop.await_calls(1)
        kill_all(shop, process.pid)
        process.wait(60)
    shop.await_gone([call.pid])
    played = shop.go_on()
    assert played.context["x"] == "second"
    assert shop.asked() == ["a", "a"]
    lost = [event for event in played.events() if event.get("why") == "lost"]
    assert len(lost) == 1
    assert "lost" in played.result.stderr


def kill_all(shop: Workshop, orchestrator: int) -> None:
    """The orchestrator, and the keeper of its run with all that belongs to it."""
    keepers = keepers_in(shop.folder)
    assert keepers
    for pid in (orchestrator, *keepers):
        os.kill(pid, signal.SIGKILL)
