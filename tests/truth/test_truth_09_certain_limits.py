"""9: a loop that is certain to exceed `max_total_steps` is refused before its first item."""

from __future__ import annotations

import pytest

from tests.recipes.fakes import Workshop, recipe

LIMIT = 3


def loop(more: str = "", most: int = 5, items: int = 8, before: str = "") -> str:
    return recipe(f"""
        recursion: {{max_total_steps: {most}}}
        context: {{items: {list(range(items))}, go: "yes"}}
        steps:
          {before}
          - {{id: each, foreach: "{{{{items}}}}", agent: helper, prompt: "STEP:{{{{item}}}}",
             max_iterations: 9000 {more}}}
          - {{id: after, agent: helper, prompt: "STEP:after"}}
    """)


@pytest.mark.parametrize("more", ["", ", parallel: true", ", retry: {max_attempts: 2}"])
def test_truth_09_it_is_refused_before_the_first_item(shop: Workshop, more: str) -> None:
    played = shop.play(loop(more), exit_code=LIMIT)
    assert shop.asked() == []
    assert played.state["status"] == "failed"
    for words in ("8 items", "max_total_steps leaves 5 of 5", "--max-steps", "fewer items"):
        assert words in played.state["reason"], words
        assert words in played.result.stderr, words
    # Nothing is left half done, and a resume says the same and pays for nothing.
    assert "each" not in played.state["steps"]
    again = shop.go_on(exit_code=LIMIT)
    assert "8 items" in again.result.stderr
    assert shop.asked() == []


def test_truth_09_five_thousand_items_are_refused_and_a_flag_allows_them(shop: Workshop) -> None:
    played = shop.play(loop(most=1000, items=5000), exit_code=LIMIT)
    assert shop.asked() == []
    assert "5000 items" in played.result.stderr
    assert f"orchestrate resume {played.run_id} --max-steps 5000\n" in played.result.stderr


WORKFLOW = """
version: "1.4"
name: w
limits: {steps: 4}
steps:
  - {name: One, command: [sh, -c, echo one >> ran]}
  - name: Each
    for_each:
      items: [1, 2, 3, 4, 5]
      steps:
        - {name: Item, command: [sh, -c, echo item >> ran]}
"""


def test_truth_09_a_workflow_is_told_a_way_out_that_works(shop: Workshop) -> None:
    shop.write("w.yaml", WORKFLOW)
    refused = shop.run("run", "w.yaml").assert_exit(LIMIT)
    ran = shop.folder / "ran"
    assert ran.read_text() == "one\n"
    assert "limits.steps leaves 3 of 4" in refused.stderr
    (advised,) = [line for line in refused.stderr.splitlines() if line.startswith("  go on:")]
    shop.run(*advised.split()[3:]).assert_success()
    assert ran.read_text() == "one\n" + 5 * "item\n"


CALLS = """
    recursion: {{max_total_steps: {most}}}
    context: {{items: [1, 2, 3]}}
    steps:
      - {{id: each, foreach: "{{{{items}}}}", type: recipe, recipe: child.yaml {more}}}
"""


def child(shop: Workshop, steps: str) -> None:
    shop.write(
        "child.yaml", recipe(f"context: {{go: 'no', none: []}}\nsteps:\n{steps}", name="child")
    )


PLAIN = (
    '  - {id: a, agent: helper, prompt: "STEP:a"}\n  - {id: b, agent: helper, prompt: "STEP:b"}\n'
)


def test_truth_09_the_steps_of_a_called_recipe_count(shop: Workshop) -> None:
    child(shop, PLAIN)
    played = shop.play(recipe(CALLS.format(most=8, more="")), exit_code=LIMIT)
    assert shop.asked() == []
    assert "at least 9 steps" in played.result.stderr
    shop.play(recipe(CALLS.format(most=9, more="")))
    assert len(shop.asked()) == 6


@pytest.mark.parametrize("more", ["condition: \"{{go}} == 'yes'\"", 'foreach: "{{none}}"'])
def test_truth_09_what_may_not_run_in_it_does_not_count(shop: Workshop, more: str) -> None:
    """A condition, or a loop that may be empty: three calls and three steps are certain."""
    child(shop, PLAIN.replace('prompt: "STEP:b"', f'prompt: "STEP:b", {more}'))
    shop.play(recipe(CALLS.format(most=6, more="")))
    assert shop.asked() == ["a", "a", "a"]
    played = shop.play(recipe(CALLS.format(most=5, more="")), exit_code=LIMIT)
    assert "at least 6 steps" in played.result.stderr
    assert len(shop.asked()) == 3


def test_truth_09_a_recipe_that_may_skip_its_rest_counts_up_to_there(shop: Workshop) -> None:
    child(shop, PLAIN.replace('prompt: "STEP:a"', 'prompt: "STEP:a", on_error: skip_remaining'))
    played = shop.play(recipe(CALLS.format(most=5, more="")), exit_code=LIMIT)
    assert "at least 6 steps" in played.result.stderr


def test_truth_09_a_caller_that_goes_on_after_a_failure_makes_it_uncertain(shop: Workshop) -> None:
    """The loop stands in a called recipe, whose failure its caller tolerates."""
    shop.write("inner.yaml", loop(most=1000))
    text = """
        recursion: {{max_total_steps: 5}}
        steps:
          - {{id: call, type: recipe, recipe: inner.yaml{more}}}
    """
    shop.play(recipe(text.format(more="")), exit_code=LIMIT)
    assert shop.asked() == [], "the limit of the caller holds below it, too"
    shop.play(recipe(text.format(more=", on_error: continue")), exit_code=LIMIT)
    assert len(shop.asked()) == 4


def test_truth_09_the_limit_of_the_calling_step_counts(shop: Workshop) -> None:
    shop.write("inner.yaml", loop(most=1000))
    text = """
        steps:
          - {id: call, type: recipe, recipe: inner.yaml, recursion: {max_total_steps: 7}}
    """
    played = shop.play(recipe(text), exit_code=LIMIT)
    assert "leaves 7 of 7" in played.result.stderr
    assert shop.asked() == []


def test_truth_09_a_recipe_that_calls_itself_is_counted_once(shop: Workshop) -> None:
    shop.write(
        "self.yaml",
        recipe("""
            recursion: {max_total_steps: 50}
            context: {items: [1, 2]}
            steps:
              - {id: a, agent: helper, prompt: "STEP:a"}
              - {id: each, foreach: "{{items}}", type: recipe, recipe: self.yaml}
        """),
    )
    shop.run("run", "self.yaml").assert_exit(LIMIT)
    assert shop.asked(), "the depth ends it, as ever"


def test_truth_09_a_resume_with_part_of_the_items_done_goes_on(shop: Workshop) -> None:
    """What is left fits: what was done is not counted again."""
    text = loop(most=9, items=8)
    shop.write("r.yaml", text)
    shop.answers({"when": "STEP:3", "answers": [{"fail": "auth"}, {"text": "ok"}]})
    shop.run("run", "r.yaml").assert_exit(1)
    done = shop.go_on()
    assert len(done.state["steps"]["each"]) == 8
