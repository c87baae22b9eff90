"""Recursion protection: depth and total steps, for the whole tree of recipes."""

from __future__ import annotations

import pytest

from tests.recipes.fakes import Workshop, recipe, rule


def chain(shop: Workshop, length: int, *, limits: dict[int, str] | None = None) -> None:
    """r0.yaml calls r1.yaml and so on; the last one asks the agent."""
    for number in range(length):
        top = f"recursion: {(limits or {}).get(number)}\n" if number in (limits or {}) else ""
        step = f"{{id: call, type: recipe, recipe: r{number + 1}.yaml}}"
        if number == length - 1:
            step = '{id: ask, agent: helper, prompt: "STEP:deep"}'
        shop.write(f"r{number}.yaml", recipe(f"{top}steps: [{step}]", name=f"r{number}"))


def test_b_max_depth_is_five_by_default(shop: Workshop) -> None:
    chain(shop, 5)
    shop.run("run", "r0.yaml").assert_success()
    assert shop.asked() == ["deep"]


def test_b_max_depth_exceeded_names_the_stack_and_exits_3(shop: Workshop) -> None:
    chain(shop, 6)
    result = shop.run("run", "r0.yaml").assert_exit(3)
    stack = " → ".join(f"r{number}.yaml" for number in range(6))
    assert "depth 6 exceeds limit 5" in result.stderr
    assert stack in result.stderr
    assert shop.asked() == []


def test_r8_10_the_main_recipe_is_depth_1(shop: Workshop) -> None:
    chain(shop, 2, limits={0: "{max_depth: 1}"})
    result = shop.run("run", "r0.yaml").assert_exit(3)
    assert "depth 2 exceeds limit 1" in result.stderr
    chain(shop, 2, limits={0: "{max_depth: 2}"})
    shop.run("run", "r0.yaml").assert_success()


def test_b_max_depth_can_be_raised(shop: Workshop) -> None:
    chain(shop, 8, limits=dict.fromkeys(range(8), "{max_depth: 8}"))
    shop.run("run", "r0.yaml").assert_success()
    assert shop.asked() == ["deep"]


def test_b_child_recipes_inherit_limits(shop: Workshop) -> None:
    """B: limits apply to the whole tree; what says nothing itself inherits."""
    chain(shop, 7, limits={0: "{max_depth: 10}"})
    shop.run("run", "r0.yaml").assert_success()
    assert shop.asked() == ["deep"]


@pytest.mark.parametrize("where", [1, 2])
def test_r8_10_a_child_never_widens_what_it_inherits(shop: Workshop, where: int) -> None:
    chain(shop, 4, limits={0: "{max_depth: 3}", where: "{max_depth: 20}"})
    result = shop.run("run", "r0.yaml").assert_exit(3)
    assert "depth 4 exceeds limit 3" in result.stderr


def test_r8_10_a_child_may_narrow_what_it_inherits(shop: Workshop) -> None:
    chain(shop, 4, limits={1: "{max_depth: 2}"})
    result = shop.run("run", "r0.yaml").assert_exit(3)
    assert "exceeds limit 2" in result.stderr


def test_b_a_step_level_override_narrows_its_own_call_only(shop: Workshop) -> None:
    chain(shop, 4)
    shop.write(
        "main.yaml",
        recipe("""
            steps:
              - {id: fine, type: recipe, recipe: r0.yaml}
              - {id: tight, type: recipe, recipe: r0.yaml, recursion: {max_depth: 3}}
        """),
    )
    result = shop.run("run", "main.yaml").assert_exit(3)
    assert "exceeds limit 3" in result.stderr
    assert shop.asked() == ["deep"]


def test_r8_10_a_step_level_override_may_widen(shop: Workshop) -> None:
    chain(shop, 3)
    shop.write(
        "main.yaml",
        recipe("""
            recursion: {max_depth: 2}
            steps: [{id: wide, type: recipe, recipe: r0.yaml, recursion: {max_depth: 20}}]
        """),
    )
    shop.run("run", "main.yaml").assert_success()


def test_b_circular_references_end_at_the_limit(shop: Workshop) -> None:
    shop.write(
        "a.yaml",
        recipe("""
            steps:
              - {id: one, agent: helper, prompt: "STEP:one"}
              - {id: round, type: recipe, recipe: b.yaml}
        """),
    )
    shop.write("b.yaml", recipe("steps: [{id: back, type: recipe, recipe: a.yaml}]"))
    result = shop.run("run", "a.yaml").assert_exit(3)
    assert "a.yaml → b.yaml → a.yaml → b.yaml → a.yaml → b.yaml" in result.stderr
    assert shop.asked() == ["one"] * 3


def test_b_a_recipe_may_call_itself_until_a_condition_stops_it(shop: Workshop) -> None:
    shop.write(
        "down.yaml",
        recipe("""
            context: {level: aaa}
            steps:
              - {id: cut, agent: helper, prompt: "STEP:cut-{{level}}", output: less}
              - {id: again, condition: "{{less}} != 'end'", type: recipe, recipe: down.yaml,
                 context: {level: "{{less}}"}}
        """),
    )
    shop.answers(rule("STEP:cut-aaa", "aa"), rule("STEP:cut-aa", "a"), rule("STEP:cut-a", "end"))
    shop.run("run", "down.yaml").assert_success()
    assert shop.asked() == ["cut-aaa", "cut-aa", "cut-a"]


def test_b_a_depth_failure_is_tolerated_where_the_author_says_so(shop: Workshop) -> None:
    """on_error means the same on every kind of step (rulings §8)."""
    chain(shop, 3)
    shop.write(
        "main.yaml",
        recipe("""
            recursion: {max_depth: 3}
            steps:
              - {id: deep, type: recipe, recipe: r0.yaml, on_error: continue}
              - {id: after, agent: helper, prompt: "STEP:after"}
        """),
    )
    shop.run("run", "main.yaml").assert_success()
    assert shop.asked() == ["after"]


# Total steps.


def test_b_max_total_steps_stops_the_run(shop: Workshop) -> None:
    text = recipe("""
        recursion: {max_total_steps: 2}
        steps:
          - {id: one, agent: helper, prompt: "STEP:one"}
          - {id: two, agent: helper, prompt: "STEP:two"}
          - {id: three, agent: helper, prompt: "STEP:three"}
    """)
    played = shop.play(text, exit_code=3)
    assert shop.asked() == ["one", "two"]
    assert played.state["status"] == "failed"
    assert "max_total_steps" in played.state["reason"]
    assert "r.yaml" in played.state["reason"]


def test_r8_10_max_total_steps_is_one_hundred_by_default(shop: Workshop) -> None:
    text = """
        context: {{items: {items}}}
        steps:
          - {{id: each, foreach: "{{{{items}}}}", agent: helper, prompt: x, max_iterations: 500}}
          - {{id: after, agent: helper, prompt: y}}
    """
    fits = recipe(text.format(items=list(range(99))))
    shop.play(fits, "--backend", "rehearsal")
    over = recipe(text.format(items=list(range(100))))
    played = shop.play(over, "--backend", "rehearsal", exit_code=3)
    assert len(played.state["steps"]["each"]) == 100
    assert "after" not in played.state["steps"]


def test_r8_10_total_steps_count_the_whole_tree_and_each_iteration(shop: Workshop) -> None:
    shop.write(
        "child.yaml",
        recipe("""
            recursion: {max_total_steps: 1000}
            context: {items: [1, 2, 3]}
            steps: [{id: in, foreach: "{{items}}", agent: helper, prompt: "STEP:in"}]
        """),
    )
    text = recipe("""
        recursion: {max_total_steps: 6}
        steps:
          - {id: one, agent: helper, prompt: "STEP:one"}
          - {id: call, type: recipe, recipe: child.yaml}
          - {id: two, agent: helper, prompt: "STEP:two"}
          - {id: three, agent: helper, prompt: "STEP:three"}
    """)
    shop.play(text, exit_code=3)
    # one, call, its three items, two; three would be the seventh.
    assert shop.asked() == ["one", "in", "in", "in", "two"]


def test_r8_10_a_skipped_step_is_not_counted(shop: Workshop) -> None:
    shop.play(
        recipe("""
            recursion: {max_total_steps: 1}
            context: {go: 'no'}
            steps:
              - {id: no, condition: "{{go}} == 'yes'", agent: helper, prompt: "STEP:no"}
              - {id: yes, agent: helper, prompt: "STEP:yes"}
        """)
    )
    assert shop.asked() == ["yes"]


def test_r8_10_retries_of_a_step_count_once(shop: Workshop) -> None:
    shop.play(
        recipe("""
            recursion: {max_total_steps: 2}
            steps:
              - {id: one, agent: helper, prompt: "STEP:one", retry: {initial_delay: 1}}
              - {id: two, agent: helper, prompt: "STEP:two"}
        """),
        rules=(rule("STEP:one", {"fail": "network"}, "ok"),),
    )
    assert shop.asked() == ["one", "one", "two"]


def test_r8_10_a_step_level_total_narrows_its_call(shop: Workshop) -> None:
    shop.write(
        "child.yaml",
        recipe("""
            steps:
              - {id: a, agent: helper, prompt: "STEP:a"}
              - {id: b, agent: helper, prompt: "STEP:b"}
        """),
    )
    played = shop.play(
        recipe("""
            steps:
              - {id: tight, type: recipe, recipe: child.yaml, recursion: {max_total_steps: 1}}
        """),
        exit_code=3,
    )
    assert shop.asked() == ["a"]
    assert "r.yaml → child.yaml" in played.result.stderr


def test_r8_10_total_steps_hold_in_a_parallel_loop(shop: Workshop) -> None:
    """Items that begin at the same moment must not slip past the limit together."""
    played = shop.play(
        recipe("""
            recursion: {max_total_steps: 5}
            context: {items: [1, 2, 3, 4, 5, 6, 7, 8]}
            steps: [{id: each, foreach: "{{items}}", parallel: true, agent: helper,
                     prompt: "STEP:{{item}}", on_error: continue}]
        """),
        rules=(rule("STEP", delay=0.3),),
        exit_code=3,
    )
    assert 1 <= len(shop.calls()) <= 5
    assert played.state["status"] == "failed"
    shop.await_gone([call.pid for call in shop.calls()])


@pytest.mark.parametrize(
    "limit", ["max_depth: 0", "max_depth: 21", "max_total_steps: 0", "max_total_steps: 1001"]
)
def test_b_recursion_limits_have_ranges(shop: Workshop, limit: str) -> None:
    text = recipe(f"recursion: {{{limit}}}\nsteps: [{{id: a, agent: helper, prompt: x}}]")
    shop.refuse(text, exit_code=2)
