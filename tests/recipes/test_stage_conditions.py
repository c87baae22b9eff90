"""Language §4: a stage's `condition` decides once about its steps and its approval."""

from __future__ import annotations

import pytest

from tests.recipes.fakes import Workshop, recipe, rule

STAGED = recipe("""
    context: {go: "no", first: none}
    stages:
      - name: before
        steps: [{id: a, agent: helper, prompt: "STEP:a"}]
      - name: maybe
        condition: "{{go}} == 'yes'"
        steps:
          - {id: b, %s agent: helper, prompt: "STEP:b", output: go}
          - {id: c, agent: helper, prompt: "STEP:c"}
        approval: {required: true, prompt: "Go on?"}
      - name: behind
        steps: [{id: d, agent: helper, prompt: "STEP:d"}]
""")


def test_l4_a_stage_is_skipped_with_its_approval(shop: Workshop) -> None:
    played = shop.play(STAGED % "")
    assert shop.asked() == ["a", "d"]
    assert played.stages() == {"before": "completed", "maybe": "skipped", "behind": "completed"}
    assert list(played.skipped()) == ["b", "c", "maybe"]
    assert "the condition of stage 'maybe'" in played.skipped()["b"]
    assert played.state["approvals"] == []


def test_l4_a_condition_is_asked_once_whatever_the_stage_changes(shop: Workshop) -> None:
    """Step b sets {{go}} to something else; the rest of the stage and its gate still count."""
    shop.answers(rule("STEP:b", "no"), rule("STEP", "done"))
    shop.play(STAGED % "", "--context", "go=yes", exit_code=6)
    assert shop.asked() == ["a", "b", "c"]
    shop.run("approve", "latest").assert_success()
    shop.go_on()
    assert shop.asked() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("more", ["on_error: continue,", 'condition: "{{first}} == 1",'])
def test_l4_a_first_step_that_failed_or_was_skipped_skips_no_stage(
    shop: Workshop, more: str
) -> None:
    shop.answers(rule("STEP:b", fail="auth"), rule("STEP", "done"))
    shop.play(STAGED % more, "--context", "go=yes", exit_code=6)
    assert "c" in shop.asked()


def test_l4_a_stage_whose_condition_is_undefined_does_not_run(shop: Workshop) -> None:
    """Step a is skipped, and what it would have set stays undefined."""
    text = (STAGED % "on_error: continue,").replace("{{go}} ==", "{{unmade}} ==")
    text = text.replace("{id: a,", """{id: a, condition: "{{go}} == 'yes'", output: unmade,""")
    played = shop.play(text, exit_code=1)
    assert shop.asked() == []
    assert "unmade" in played.message("c")


def test_l4_a_loop_may_be_the_first_step_of_a_stage(shop: Workshop) -> None:
    text = STAGED % 'foreach: "{{items}}",'
    text = text.replace("first: none", "items: [1, 2]")
    shop.play(text)
    assert shop.asked() == ["a", "d"]
    shop.play(text, "--context", "go=yes", exit_code=6)
    assert shop.asked()[2:] == ["a", "b", "b", "c"]


def test_l4_plan_and_dry_run_show_the_condition_of_a_stage(shop: Workshop) -> None:
    shop.write("r.yaml", STAGED % "")
    assert "maybe, when {{go}} == 'yes'" in shop.run("run", "r.yaml", "--dry-run").stdout
    assert "stage when" in shop.run("plan", "r.yaml", "--format", "text").stdout
    shop.run("run", "r.yaml", "--backend", "rehearsal").assert_success()
