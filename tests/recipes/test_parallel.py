"""Parallel loops: bounded, in order, and ended as a whole by the first failure."""

from __future__ import annotations

import signal

import pytest

from tests.promises.processes import is_alive
from tests.recipes.fakes import Workshop, most_at_once, recipe, rule

PARALLEL = recipe("""
    context: {items: [a, b, c, d, e, f]}
    steps:
      - {id: each, foreach: "{{items}}", parallel: true, agent: helper,
         prompt: "STEP:{{item}}", collect: all, output: last}
      - {id: after, agent: helper, prompt: "STEP:after {{all}} {{last}}"}
""")


def test_b_parallel_results_keep_the_order_of_the_list(shop: Workshop) -> None:
    """The first item waits for the last, which begins when another one has made room for it."""
    gate = shop.top / "gate"
    played = shop.play(
        PARALLEL,
        "--max-parallel",
        "5",
        rules=(
            rule("STEP:a", text="A", delay=60, until=str(gate)),
            *(rule(f"STEP:{item}", item.upper()) for item in "bcde"),
            rule("STEP:f", text="F", run=["touch", str(gate)]),
        ),
    )
    ends = {call.marker: call.end or 0 for call in shop.calls()}
    assert ends["a"] > min(ends[item] for item in "bcde"), "nothing overlapped"
    assert shop.prompt("after") == 'STEP:after ["A","B","C","D","E","F"] F'
    assert played.context["all"] == ["A", "B", "C", "D", "E", "F"]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_r8_9_at_most_max_parallel_run_at_once(shop: Workshop, limit: int) -> None:
    assert _most_of(shop, PARALLEL, limit, "--max-parallel", str(limit)) == limit


def _most_of(shop: Workshop, text: str, expected: int, *flags: str) -> int:
    """The first ones wait until so many have begun; the rest come as they end."""
    go = shop.top / "go"
    shop.answers(rule("STEP", delay=60, until=str(go)))
    shop.write("r.yaml", text)
    with shop.started("run", "r.yaml", *flags) as process:
        shop.await_calls(expected)
        go.touch()
        assert process.wait(60) == 0
    return most_at_once(shop.calls())


@pytest.mark.parametrize(
    ("own", "flags", "most"),
    [
        (2, ["--max-parallel", "5"], 2),
        (5, ["--max-parallel", "2"], 2),
        (1, ["--max-parallel", "3"], 1),
        (10, [], 10),
    ],
)
def test_a_loop_may_say_how_many_run_at_once(
    shop: Workshop, own: int, flags: list[str], most: int
) -> None:
    text = PARALLEL.replace("parallel: true", f"parallel: {own}")
    text = text.replace("[a, b, c, d, e, f]", "[a, b, c, d, e, f, g, h, i, j, k, l]")
    assert _most_of(shop, text, most, *flags) == most


def test_r8_9_the_default_is_eight_at_once(shop: Workshop) -> None:
    text = PARALLEL.replace("[a, b, c, d, e, f]", str(list(range(12))))
    assert _most_of(shop, text, 8) == 8


def test_r8_9_the_first_failure_ends_the_others(shop: Workshop) -> None:
    """Nothing new starts, what runs is ended, and the step has failed (B: fail-fast)."""
    played = shop.play(
        PARALLEL,
        "--max-parallel",
        "4",
        rules=(rule("STEP:b", {"fail": "crash", "delay": 0.7}, "ok"), rule("STEP", delay=30)),
        exit_code=1,
    )
    calls = shop.calls()
    assert {call.marker for call in calls} == {"a", "b", "c", "d"}
    assert [call.marker for call in calls if call.end is not None] == ["b"]
    shop.await_gone([call.pid for call in calls])
    assert played.state["status"] == "failed"
    assert "all" not in played.context

    shop.answers(rule("STEP", "again"))
    resumed = shop.go_on()
    assert [call.marker for call in shop.calls()].count("b") == 2
    assert resumed.context["all"] == ["again"] * 6


def test_a_resume_fills_the_room_beside_the_item_that_failed(shop: Workshop) -> None:
    """The others had finished: new items run beside the one that is tried again."""
    crash = rule("STEP:b", {"fail": "crash", "delay": 0.3})
    flags = ("--max-parallel", "3", "--let-finish")
    shop.play(PARALLEL, *flags, rules=(crash, rule("STEP", delay=0.8)), exit_code=1)
    assert sorted(shop.asked()) == ["a", "b", "c"]
    shop.answers(rule("STEP", delay=0.6))
    resumed = shop.go_on()
    again, *others = [call for call in shop.calls()[3:] if call.marker in ("b", "d", "e")]
    assert all(call.begin < (again.end or 0) for call in others), "only the failed one ran"
    assert resumed.context["all"] == [f"done {item}" for item in "abcdef"]


def test_r8_9_a_failure_at_once_ends_those_that_are_just_starting(shop: Workshop) -> None:
    """The others may not be running yet when the first one fails; they must not stay either."""
    text = PARALLEL.replace("[a, b, c, d, e, f]", "[bad, o1, o2, o3, o4, o5, o6, o7]")
    with shop.started("validate", "--help") as warm:
        warm.wait()
    shop.play(text, rules=(rule("STEP:bad", fail="crash"), rule("STEP", delay=20)), exit_code=1)
    shop.await_gone([call.pid for call in shop.calls()])
    assert [call.marker for call in shop.calls() if call.end is not None] == ["bad"]


def test_r8_9_a_tolerated_failure_ends_the_others_too(shop: Workshop) -> None:
    text = PARALLEL.replace("collect: all, output: last", "collect: all, on_error: continue")
    text = text.replace(" {{all}} {{last}}", " [{{all?}}]")
    played = shop.play(
        text,
        rules=(
            rule("STEP:after"),
            rule("STEP:a", fail="crash", delay=0.5),
            rule("STEP", delay=30),
        ),
    )
    calls = shop.calls()
    shop.await_gone([call.pid for call in calls])
    assert {call.marker for call in calls if call.end is not None} == {"a", "after"}
    assert shop.prompt("after") == "STEP:after []"
    assert played.state["status"] == "completed"
    assert "all" not in played.context


def test_b_parallel_sub_recipes_with_templated_paths(shop: Workshop) -> None:
    for name in ("security", "speed"):
        shop.write(
            f"{name}-audit.yaml",
            recipe(f"""
                context: {{target: ""}}
                steps: [{{id: in, agent: helper, prompt: "STEP:{name} {{{{target}}}}",
                          output: found}}]
            """),
        )
    played = shop.play(
        recipe("""
            context: {types: [security, speed], path: src}
            steps:
              - {id: audits, foreach: "{{types}}", as: kind, parallel: true, type: recipe,
                 recipe: "{{kind}}-audit.yaml", context: {target: "{{path}}"}, collect: all}
        """),
        rules=(rule("STEP:security", text="s", delay=0.6), rule("STEP:speed", text="p", delay=0.6)),
    )
    assert most_at_once(shop.calls()) == 2
    assert played.context["all"] == [
        {"target": "src", "found": "s"},
        {"target": "src", "found": "p"},
    ]
    assert shop.prompt("security") == "STEP:security src"


def test_r8_9_a_failure_inside_a_parallel_sub_recipe_ends_the_others(shop: Workshop) -> None:
    shop.write(
        "child.yaml",
        recipe("""
            context: {item: ""}
            steps:
              - {id: one, agent: helper, prompt: "STEP:one-{{item}}"}
              - {id: two, agent: helper, prompt: "STEP:two-{{item}}"}
        """),
    )
    played = shop.play(
        recipe("""
            context: {items: [a, b, c]}
            steps:
              - {id: each, foreach: "{{items}}", parallel: true, type: recipe, recipe: child.yaml,
                 context: {item: "{{item}}"}}
        """),
        rules=(rule("STEP:two-b", fail="crash"), rule("STEP:two", delay=30)),
        exit_code=1,
    )
    calls = shop.calls()
    shop.await_gone([call.pid for call in calls])
    assert [call.marker for call in calls if call.marker == "two-b"] == ["two-b"]
    assert not [c.marker for c in calls if c.marker in ("two-a", "two-c") and c.end is not None]
    assert played.state["status"] == "failed"


def test_b_parallel_an_interrupt_ends_all_and_a_resume_finishes_them(shop: Workshop) -> None:
    shop.answers(rule("STEP:a", "A"), rule("STEP:b", "B"), rule("STEP", delay=30))
    shop.write("r.yaml", PARALLEL)
    with shop.started("run", "r.yaml") as process:
        shop.await_calls(6)
        shop.await_events("step-finished", 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert not [call.pid for call in shop.calls() if is_alive(call.pid)]
    shop.answers(rule("STEP", "again"))
    played = shop.go_on()
    assert played.context["all"] == ["A", "B", "again", "again", "again", "again"]
    asked = shop.asked()
    assert (asked.count("a"), asked.count("b"), asked.count("c")) == (1, 1, 2)


def test_b_parallel_retries_rest_while_others_work(shop: Workshop) -> None:
    text = PARALLEL.replace("parallel: true,", "parallel: true, retry: {initial_delay: 1},")
    played = shop.play(text, rules=(rule("STEP:a", {"fail": "overloaded"}, "A"), rule("STEP", "x")))
    first, second = shop.calls("a")
    assert second.begin - (first.end or 0) > 0.8
    assert all((call.end or 0) < second.begin for call in shop.calls() if call.marker in "bcdef")
    assert played.context["all"] == ["A", "x", "x", "x", "x", "x"]
