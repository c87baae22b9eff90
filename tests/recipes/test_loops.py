"""Loops, one item after the other: lists, variables, results, limits."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.recipes.fakes import Workshop, recipe, rule


def test_b_foreach_runs_once_per_item_and_collects_in_order(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            steps:
              - {id: discover, agent: helper, prompt: "STEP:discover", output: files}
              - {id: analyze, foreach: "{{files}}", as: current_file, agent: helper,
                 prompt: "STEP:{{current_file}}", collect: all_results, output: last}
              - {id: summary, agent: helper, prompt: "STEP:summary {{all_results}} {{last}}"}
        """),
        rules=(
            rule("STEP:discover", '["a.py", "b.py", "c.py"]'),
            rule("STEP:a.py", "fine"),
            rule("STEP:b.py", '{"bad": true}'),
            rule("STEP:c.py", "3"),
        ),
    )
    assert shop.asked() == ["discover", "a.py", "b.py", "c.py", "summary"]
    assert shop.prompt("summary") == 'STEP:summary ["fine",{"bad":true},3] 3'
    assert played.context["all_results"] == ["fine", {"bad": True}, 3]
    assert played.context["last"] == 3
    items = played.state["steps"]["analyze"]
    assert [item["analyze"]["status"] for item in items] == ["completed"] * 3
    assert played.state["for_each"]["analyze"]["completed_indices"] == [0, 1, 2]


def test_b_foreach_sequential_items_never_overlap(shop: Workshop) -> None:
    shop.play(
        recipe("""
            context: {items: [1, 2, 3]}
            steps: [{id: a, foreach: "{{items}}", agent: helper, prompt: "STEP:{{item}}"}]
        """),
        rules=(rule("STEP", delay=0.05),),
    )
    calls = shop.calls()
    assert [call.marker for call in calls] == ["1", "2", "3"]
    for earlier, later in pairwise(calls):
        assert earlier.end is not None
        assert earlier.end < later.begin


def test_b_as_defaults_to_item(shop: Workshop) -> None:
    shop.play(
        recipe("""
            context: {files: [one]}
            steps: [{id: a, foreach: "{{files}}", agent: helper, prompt: "STEP:a {{item}}"}]
        """)
    )
    assert shop.prompt("a") == "STEP:a one"


def test_b_foreach_output_alone_is_the_last_result(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            context: {files: [one, two]}
            steps:
              - {id: a, foreach: "{{files}}", agent: helper, prompt: "STEP:{{item}}", output: x}
              - {id: b, agent: helper, prompt: "STEP:b {{x}}"}
        """),
        rules=(rule("STEP:one", "1st"), rule("STEP:two", "2nd")),
    )
    assert shop.prompt("b") == "STEP:b 2nd"
    assert played.context["x"] == "2nd"


def test_b_foreach_goes_over_a_nested_list(shop: Workshop) -> None:
    shop.play(
        recipe("""
            steps:
              - {id: find, agent: helper, prompt: "STEP:find", output: results}
              - {id: each, foreach: "{{results.files.0}}", agent: helper, prompt: "STEP:{{item}}"}
        """),
        rules=(rule("STEP:find", '{"files": [["x", "y"], []]}'),),
    )
    assert shop.asked() == ["find", "x", "y"]


def test_b_foreach_single_item_works_like_a_step(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            context: {files: [only]}
            steps:
              - {id: a, foreach: "{{files}}", agent: helper, prompt: "STEP:{{item}}",
                 collect: all, output: x}
        """),
        rules=(rule("STEP:only", "yes"),),
    )
    assert (played.context["all"], played.context["x"]) == (["yes"], "yes")


def test_r8_6_an_empty_list_is_no_error_and_leaves_collect_empty(shop: Workshop) -> None:
    """B: skip the step, no error; rulings §8: `collect` is []."""
    played = shop.play(
        recipe("""
            context: {files: []}
            steps:
              - {id: a, foreach: "{{files}}", agent: helper, prompt: "STEP:a", collect: all,
                 output: last}
              - {id: p, foreach: "{{files}}", parallel: true, agent: helper, prompt: "STEP:p",
                 collect: more}
              - {id: b, agent: helper, prompt: "STEP:b {{all}} {{more}} [{{last?}}]"}
              - {id: c, agent: helper, depends_on: [a], prompt: "STEP:c"}
        """)
    )
    assert shop.asked() == ["b", "c"]
    assert shop.prompt("b") == "STEP:b [] [] []"
    assert "last" not in played.context


@pytest.mark.parametrize(
    ("value", "kind"),
    [("one, two", "text"), ("{a: 1}", "object"), ("3", "number"), ("true", "true")],
)
def test_b_foreach_over_no_list_fails_the_recipe(shop: Workshop, value: str, kind: str) -> None:
    shop.write("given.yaml", f"files: {value}\n")
    played = shop.play(
        recipe("""
            context: {files: []}
            steps:
              - {id: a, foreach: "{{files}}", agent: helper, prompt: "STEP:a"}
              - {id: b, agent: helper, prompt: "STEP:b"}
        """),
        "--context-file",
        "given.yaml",
        exit_code=1,
    )
    assert shop.asked() == []
    message = played.message("a")
    assert "{{files}}" in message
    assert kind in message
    assert "list" in message


def test_b_foreach_over_a_variable_that_was_not_set_fails_the_recipe(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            context: {other: 1}
            steps:
              - {id: find, condition: "{{other}} == '2'", agent: helper, prompt: x, output: files}
              - {id: a, foreach: "{{files}}", agent: helper, prompt: "STEP:a"}
        """),
        exit_code=1,
    )
    assert shop.asked() == []
    message = played.message("a")
    assert "{{files}}" in message
    assert "'find', which sets it, was skipped" in message


def test_b_foreach_the_first_failure_ends_the_recipe(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            context: {files: [a, b, c]}
            steps:
              - {id: each, foreach: "{{files}}", agent: helper, prompt: "STEP:{{item}}",
                 collect: all}
              - {id: after, agent: helper, prompt: "STEP:after"}
        """),
        rules=(rule("STEP:b", {"fail": "crash"}, "ok"),),
        exit_code=1,
    )
    assert shop.asked() == ["a", "b"]
    assert "all" not in played.context
    assert played.state["status"] == "failed"

    resumed = shop.go_on()
    assert shop.asked() == ["a", "b", "b", "c", "after"]
    assert resumed.context["all"] == ["done a", "ok", "done c"]


LIMITED = """
    recursion: {{max_total_steps: 1000}}
    context: {{items: {items}}}
    steps: [{{id: a, foreach: "{{{{items}}}}", agent: helper, prompt: "x"{more}}}]
"""


@pytest.mark.parametrize(
    ("items", "more", "limit"), [(101, "", 100), (4, ", max_iterations: 3", 3)]
)
def test_b_max_iterations_bounds_a_loop(shop: Workshop, items: int, more: str, limit: int) -> None:
    listed = list(range(items))
    played = shop.play(
        recipe(LIMITED.format(items=listed, more=more)), "--backend", "rehearsal", exit_code=3
    )
    message = played.message("a")
    assert str(items) in message
    assert str(limit) in message
    assert "max_iterations" in message
    assert played.state["for_each"] == {}


def test_b_max_iterations_may_be_reached_and_raised(shop: Workshop) -> None:
    for items, more in ((100, ""), (3, ", max_iterations: 3"), (120, ", max_iterations: 500")):
        text = recipe(LIMITED.format(items=list(range(items)), more=more))
        played = shop.play(text, "--backend", "rehearsal")
        assert len(played.state["steps"]["a"]) == items


def test_r8_6_a_shadowed_variable_comes_back_after_the_loop(shop: Workshop) -> None:
    shop.play(
        recipe("""
            context: {file: outer, files: [x, y]}
            steps:
              - {id: a, agent: helper, prompt: "STEP:a {{file}}"}
              - {id: each, foreach: "{{files}}", as: file, agent: helper,
                 prompt: "STEP:{{file}} {{file}}"}
              - {id: b, agent: helper, prompt: "STEP:b {{file}}"}
        """)
    )
    assert [call.text for call in shop.calls()] == [
        "STEP:a outer",
        "STEP:x x",
        "STEP:y y",
        "STEP:b outer",
    ]


def test_b_the_loop_variable_ends_with_its_loop(shop: Workshop) -> None:
    text = recipe("""
        context: {files: [x]}
        steps:
          - {id: each, foreach: "{{files}}", as: current, agent: helper, prompt: "STEP:a"}
          - {id: b, agent: helper, prompt: "STEP:b [{{current?}}]"}
    """)
    played = shop.play(text)
    assert shop.prompt("b") == "STEP:b []"
    assert "current" not in played.context
    shop.write("r.yaml", text.replace("current?", "current"))
    assert "{{current}}" in shop.run("run", "r.yaml").assert_exit(2).stderr
    assert shop.asked() == ["a", "b"]


def test_b_an_item_may_be_anything(shop: Workshop) -> None:
    shop.play(
        recipe("""
            context: {items: [{name: a, tags: [x]}, [1, 2], null, true, "", 1.5]}
            steps: [{id: each, foreach: "{{items}}", agent: helper, prompt: "STEP:i {{item}}"}]
        """)
    )
    shown = [call.text.removeprefix("STEP:i ") for call in shop.calls()]
    assert shown == ['{"name":"a","tags":["x"]}', "[1,2]", "null", "true", "", "1.5"]


def test_b_foreach_with_a_sub_recipe(shop: Workshop) -> None:
    shop.write(
        "audit.yaml",
        recipe("""
            context: {file: ""}
            steps: [{id: in, agent: helper, prompt: "STEP:in-{{file}}", output: found}]
        """),
    )
    played = shop.play(
        recipe("""
            context: {files: [a, b]}
            steps:
              - {id: each, foreach: "{{files}}", as: current, type: recipe, recipe: audit.yaml,
                 context: {file: "{{current}}"}, collect: all}
              - {id: after, agent: helper, prompt: "STEP:after {{all.1.found}}"}
        """),
        rules=(rule("STEP:in-b", "bee"),),
    )
    assert shop.asked() == ["in-a", "in-b", "after"]
    assert shop.prompt("after") == "STEP:after bee"
    assert played.context["all"] == [
        {"file": "a", "found": "done in-a"},
        {"file": "b", "found": "bee"},
    ]
