"""`on_error` and `depends_on`: what a failure or a skip does to the steps that come after it."""

from __future__ import annotations

import pytest

from tests.recipes.fakes import Workshop, recipe, rule

# Every kind of step, each with something in it that fails.
KINDS = {
    "agent": 'agent: helper, prompt: "STEP:bad"',
    "loop": 'foreach: "{{items}}", agent: helper, prompt: "STEP:bad-{{item}}", collect: all',
    "parallel": 'foreach: "{{items}}", parallel: true, agent: helper, prompt: "STEP:bad"',
    "recipe": "type: recipe, recipe: bad.yaml",
    "loop of recipes": 'foreach: "{{items}}", type: recipe, recipe: bad.yaml',
    "parallel recipes": 'foreach: "{{items}}", parallel: true, type: recipe, recipe: bad.yaml',
    "undefined": 'agent: helper, prompt: "{{unmade}}"',
    "no list": 'foreach: "{{word}}", agent: helper, prompt: x',
    "too many": 'foreach: "{{items}}", max_iterations: 1, agent: helper, prompt: x',
    "no recipe": 'type: recipe, recipe: "{{word}}.yaml"',
    "condition": "agent: helper, prompt: x, condition: \"{{unmade}} == 'x'\"",
}


def with_failure(shop: Workshop, kind: str, on_error: str) -> str:
    shop.write("bad.yaml", recipe('steps: [{id: in, agent: helper, prompt: "STEP:bad"}]'))
    shop.answers(rule("STEP:bad", fail="crash"))
    rest = f", on_error: {on_error}" if on_error else ""
    return recipe(f"""
        context: {{items: [1, 2], word: text}}
        stages:
          - name: one
            steps:
              - {{id: first, agent: helper, prompt: "STEP:first"}}
              - {{id: never, condition: "{{{{word}}}} == 'x'", agent: helper, prompt: x,
                  output: unmade}}
              - {{id: bad, {KINDS[kind]}{rest}}}
              - {{id: next, agent: helper, prompt: "STEP:next"}}
          - name: two
            steps: [{{id: last, agent: helper, prompt: "STEP:last"}}]
    """)


@pytest.mark.parametrize("kind", KINDS)
def test_r8_6_on_error_continue_goes_on_after_every_kind_of_step(shop: Workshop, kind: str) -> None:
    played = shop.play(with_failure(shop, kind, "continue"))
    asked = [marker for marker in shop.asked() if not marker.startswith("bad")]
    assert asked == ["first", "next", "last"]
    assert (played.state["status"], played.state["reason"]) == ("completed", "completed")


@pytest.mark.parametrize("kind", KINDS)
def test_r8_6_on_error_skip_remaining_skips_all_that_is_left(shop: Workshop, kind: str) -> None:
    """The steps of the stage and all later stages; the run is a partial success."""
    played = shop.play(with_failure(shop, kind, "skip_remaining"))
    assert "next" not in shop.asked()
    assert "last" not in shop.asked()
    assert (played.state["status"], played.state["reason"]) == ("completed", "partial")
    assert "partial" in played.result.stderr


@pytest.mark.parametrize("kind", ["agent", "loop", "parallel", "recipe", "parallel recipes"])
@pytest.mark.parametrize("on_error", ["", "fail"])
def test_r8_6_on_error_fail_is_the_default_and_ends_the_run(
    shop: Workshop, kind: str, on_error: str
) -> None:
    played = shop.play(with_failure(shop, kind, on_error), exit_code=1)
    assert "next" not in shop.asked()
    assert played.state["status"] == "failed"
    assert "bad" in played.state["reason"]


def test_b_on_error_continue_logs_the_error(shop: Workshop) -> None:
    played = shop.play(with_failure(shop, "agent", "continue"))
    assert "something broke" in played.result.stderr
    assert "something broke" in (played.root / "logs" / "orchestrator.log").read_text("utf-8")
    assert played.step("bad")["status"] == "failed"


@pytest.mark.parametrize("kind", ["loop", "parallel", "loop of recipes"])
def test_r8_4_a_tolerated_loop_leaves_its_results_undefined(shop: Workshop, kind: str) -> None:
    text = with_failure(shop, kind, "continue").replace("collect: all", "max_iterations: 9")
    text = text.replace("on_error: continue", "on_error: continue, collect: list, output: one")
    text = text.replace('"STEP:last"', '"STEP:last {{list}}"')
    text = text.replace('"STEP:next"', '"STEP:next [{{list?}}] [{{one?}}]"')
    played = shop.play(text, exit_code=1)
    assert shop.prompt("next") == "STEP:next [] []"
    assert "'bad'" in played.message("last")
    assert "failed" in played.message("last")


def test_b_skip_remaining_where_nothing_fails_changes_nothing(shop: Workshop) -> None:
    text = with_failure(shop, "agent", "skip_remaining")
    shop.answers()
    played = shop.play(text)
    assert shop.asked() == ["first", "bad", "next", "last"]
    assert played.state["reason"] == "completed"


def test_r8_6_skip_remaining_skips_a_gate_too(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            stages:
              - name: one
                steps: [{id: bad, agent: helper, prompt: "STEP:bad", on_error: skip_remaining}]
                approval: {required: true, prompt: "Go on?"}
              - name: two
                steps: [{id: last, agent: helper, prompt: "STEP:last"}]
        """),
        rules=(rule("STEP:bad", fail="crash"),),
    )
    assert played.state["approvals"] == []
    assert played.state["reason"] == "partial"


# depends_on.


def test_r8_7_a_step_whose_dependency_was_skipped_or_failed_is_skipped(shop: Workshop) -> None:
    shop.write("bad.yaml", recipe('steps: [{id: in, agent: helper, prompt: "STEP:bad"}]'))
    played = shop.play(
        recipe("""
            context: {go: 'no', items: [1], none: []}
            steps:
              - {id: good, agent: helper, prompt: "STEP:good"}
              - {id: off, condition: "{{go}} == 'yes'", agent: helper, prompt: x}
              - {id: bad, agent: helper, prompt: "STEP:bad", on_error: continue}
              - {id: loop, foreach: "{{items}}", agent: helper, prompt: "STEP:bad",
                 on_error: continue}
              - {id: call, type: recipe, recipe: bad.yaml, on_error: continue}
              - {id: a, depends_on: [good], agent: helper, prompt: "STEP:a"}
              - {id: b, depends_on: [good, off], agent: helper, prompt: "STEP:b"}
              - {id: c, depends_on: [bad], agent: helper, prompt: "STEP:c"}
              - {id: d, depends_on: [loop], agent: helper, prompt: "STEP:d"}
              - {id: e, depends_on: [call], agent: helper, prompt: "STEP:e"}
              - {id: f, depends_on: [b], foreach: "{{items}}", agent: helper, prompt: "STEP:f"}
              - {id: g, depends_on: [f], type: recipe, recipe: bad.yaml}
        """),
        rules=(rule("STEP:bad", fail="crash"),),
    )
    assert [marker for marker in shop.asked() if marker != "bad"] == ["good", "a"]
    assert played.skipped() == {
        "off": "condition evaluated to false",
        "b": "depends on 'off', which was skipped",
        "c": "depends on 'bad', which failed",
        "d": "depends on 'loop', which failed",
        "e": "depends on 'call', which failed",
        "f": "depends on 'b', which was skipped",
        "g": "depends on 'f', which was skipped",
    }


def test_b_depends_on_documents_and_changes_nothing_else(shop: Workshop) -> None:
    shop.play(
        recipe("""
            steps:
              - {id: security, agent: helper, prompt: "STEP:security", output: s}
              - {id: speed, agent: helper, prompt: "STEP:speed", output: p}
              - {id: summary, depends_on: [security, speed], agent: helper,
                 prompt: "STEP:summary {{s}} and {{p}}"}
        """)
    )
    assert shop.asked() == ["security", "speed", "summary"]
    assert shop.prompt("summary") == "STEP:summary done security and done speed"


def test_r8_7_a_dependency_is_asked_before_the_condition(shop: Workshop) -> None:
    """Its condition may use what the skipped step would have set: that is no failure then."""
    played = shop.play(
        recipe("""
            context: {go: 'no'}
            steps:
              - {id: off, condition: "{{go}} == 'yes'", agent: helper, prompt: x, output: found}
              - {id: use, depends_on: [off], condition: "{{found}} == 'y'", agent: helper,
                 prompt: "STEP:use {{found}}"}
        """)
    )
    assert [*played.skipped()] == ["off", "use"]
    assert shop.asked() == []


def test_r8_7_a_dependency_on_a_step_of_another_stage(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            stages:
              - name: one
                steps: [{id: bad, agent: helper, prompt: "STEP:bad", on_error: continue}]
              - name: two
                steps:
                  - {id: use, depends_on: [bad], agent: helper, prompt: "STEP:use"}
                  - {id: free, agent: helper, prompt: "STEP:free"}
        """),
        rules=(rule("STEP:bad", fail="crash"),),
    )
    assert shop.asked() == ["bad", "free"]
    assert played.skipped() == {"use": "depends on 'bad', which failed"}
