"""Sub-recipes: what they are given, what they give back, where they are found."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from tests.recipes.fakes import Workshop, recipe, rule

CHILD = recipe(
    """
    context: {target: none, level: medium}
    steps:
      - {id: scan, agent: helper, prompt: "STEP:scan {{target}} {{level}}", output: found}
      - {id: sort, agent: helper, prompt: "STEP:sort {{found}}", output: sorted}
    """,
    name="child",
)


def test_r8_5_the_context_is_its_own_defaults_overlaid_by_what_is_passed(shop: Workshop) -> None:
    """And its result is its final context (B: results return)."""
    shop.write("child.yaml", CHILD)
    played = shop.play(
        recipe("""
            context: {file: src/auth.py}
            steps:
              - {id: call, type: recipe, recipe: child.yaml, context: {target: "{{file}}"},
                 output: audit}
              - {id: use, agent: helper, prompt: "STEP:use {{audit.sorted.0}} {{audit.level}}"}
        """),
        rules=(rule("STEP:scan", "raw"), rule("STEP:sort", '["worst"]')),
    )
    assert shop.prompt("scan") == "STEP:scan src/auth.py medium"
    assert shop.prompt("use") == "STEP:use worst medium"
    assert played.context["audit"] == {
        "target": "src/auth.py",
        "level": "medium",
        "found": "raw",
        "sorted": ["worst"],
    }
    assert played.step("call")["status"] == "completed"
    assert [*played.step("call")["steps"]] == ["scan", "sort"]


@pytest.mark.parametrize("passed", ["", ", context: {}"])
def test_b_context_without_one_the_sub_recipe_uses_its_defaults(
    shop: Workshop, passed: str
) -> None:
    shop.write("child.yaml", CHILD)
    shop.play(recipe(f"steps: [{{id: call, type: recipe, recipe: child.yaml{passed}}}]"))
    assert shop.prompt("scan") == "STEP:scan none medium"


def test_b_isolation_a_sub_recipe_sees_nothing_of_its_caller(shop: Workshop) -> None:
    shop.write(
        "child.yaml",
        recipe("""
            context: {own: 1}
            steps:
              - {id: peek, agent: helper,
                 prompt: "STEP:peek [{{api_key?}}] [{{earlier?}}] [{{item?}}]"}
              - {id: take, agent: helper, prompt: "STEP:take {{api_key}}",
                 condition: "{{own}} == '1'"}
        """),
    )
    played = shop.play(
        recipe("""
            context: {api_key: secret-123, list: [x]}
            steps:
              - {id: first, agent: helper, prompt: "STEP:first", output: earlier}
              - {id: call, foreach: "{{list}}", type: recipe, recipe: child.yaml}
        """),
        exit_code=1,
    )
    assert shop.prompt("peek") == "STEP:peek [] [] []"
    assert shop.asked() == ["first", "peek"]
    assert "{{api_key}}" in played.result.stderr
    assert "own" in played.result.stderr.partition("{{api_key}}")[2]
    assert "secret-123" not in played.result.stderr


def test_b_isolation_the_caller_sees_only_the_result(shop: Workshop) -> None:
    shop.write("child.yaml", CHILD)
    played = shop.play(
        recipe("""
            context: {level: mine}
            steps:
              - {id: call, type: recipe, recipe: child.yaml, context: {level: high}}
              - {id: after, agent: helper, prompt: "STEP:after {{level}} [{{found?}}]"}
        """)
    )
    assert shop.prompt("after") == "STEP:after mine []"
    assert played.context == {"level": "mine"}


def test_b_recipe_paths_start_at_the_file_that_names_them(shop: Workshop) -> None:
    one = 'steps: [{id: in, agent: helper, prompt: "STEP:%s"}]'
    shop.write("recipes/shared/check.yaml", recipe(one % "check"))
    shop.write("recipes/main/beside.yaml", recipe(one % "beside"))
    shop.write("recipes/main/below/deep.yaml", recipe(one % "deep"))
    shop.write(
        "recipes/main/main.yaml",
        recipe("""
            context: {name: check}
            steps:
              - {id: a, type: recipe, recipe: beside.yaml}
              - {id: b, type: recipe, recipe: below/deep.yaml}
              - {id: c, type: recipe, recipe: ../shared/check.yaml}
              - {id: d, type: recipe, recipe: "../shared/{{name}}.yaml"}
        """),
    )
    shop.run("run", "recipes/main/main.yaml").assert_success()
    assert shop.asked() == ["beside", "deep", "check", "check"]


def test_b_recipe_an_absolute_path_is_used_as_it_stands(shop: Workshop, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "child.yaml").write_text(CHILD, "utf-8")
    shop.play(
        recipe(f"""
            context: {{where: {library}}}
            steps:
              - {{id: a, type: recipe, recipe: {library}/child.yaml}}
              - {{id: b, type: recipe, recipe: "{{{{where}}}}/child.yaml"}}
        """)
    )
    assert shop.asked() == ["scan", "sort"] * 2


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("absent.yaml", "absent.yaml"),
        ("broken.yaml", "broken.yaml"),
        ("../outside.yaml", "outside the workspace"),
    ],
)
def test_b_recipe_a_templated_path_that_leads_nowhere_fails_the_step(
    shop: Workshop, name: str, why: str
) -> None:
    shop.write("broken.yaml", recipe("steps: [{id: a}]"))
    (shop.top / "outside.yaml").write_text(CHILD, "utf-8")
    played = shop.play(
        recipe("""
            context: {path: none}
            steps: [{id: call, type: recipe, recipe: "{{path}}"}]
        """),
        "--context",
        f"path={name}",
        exit_code=1,
    )
    assert why in played.message("call")
    assert shop.asked() == []


def test_b_recipe_a_templated_path_is_tolerated_like_any_failure(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            context: {path: none}
            steps:
              - {id: call, type: recipe, recipe: "{{path}}.yaml", on_error: continue}
              - {id: after, agent: helper, prompt: "STEP:after"}
        """)
    )
    assert shop.asked() == ["after"]
    assert played.step("call")["status"] == "failed"


def test_r5_flags_hold_in_recipes_that_come_late(shop: Workshop) -> None:
    """--max-parallel holds for every plan of the run, also for one whose path is a template."""
    shop.write(
        "child.yaml",
        recipe("""
            context: {items: [1, 2, 3]}
            steps: [{id: in, foreach: "{{items}}", parallel: true, agent: helper,
                     prompt: "STEP:in"}]
        """),
    )
    shop.play(
        recipe("""
            context: {name: child}
            steps: [{id: call, type: recipe, recipe: "{{name}}.yaml"}]
        """),
        "--max-parallel",
        "1",
        rules=(rule("STEP:in", delay=0.3),),
    )
    calls = shop.calls()
    assert len(calls) == 3
    for earlier, later in pairwise(calls):
        assert (earlier.end or 0) < later.begin


def test_r8_11_an_agent_of_a_late_recipe_that_is_missing_fails_its_step(shop: Workshop) -> None:
    shop.write("child.yaml", recipe('steps: [{id: in, agent: nobody, prompt: "STEP:in"}]'))
    played = shop.play(
        recipe("""
            context: {name: child}
            steps:
              - {id: call, type: recipe, recipe: "{{name}}.yaml", on_error: continue}
              - {id: after, agent: helper, prompt: "STEP:after"}
        """)
    )
    assert shop.asked() == ["after"]
    assert "nobody" in played.message("call")


def test_r6_a_late_recipe_that_has_changed_is_refused_on_resume(shop: Workshop) -> None:
    """The checksum covers every file that went into the plan."""
    shop.write("child.yaml", CHILD)
    text = recipe("""
        context: {name: child}
        steps: [{id: call, type: recipe, recipe: "{{name}}.yaml"}]
    """)
    shop.play(text, rules=(rule("STEP:sort", {"fail": "crash"}, "ok"),), exit_code=1)
    shop.write("child.yaml", CHILD.replace("STEP:sort", "STEP:changed"))
    said = shop.run("resume", "latest").assert_exit(2)
    assert "child.yaml" in said.stderr
    assert shop.asked() == ["scan", "sort"]
    shop.write("child.yaml", CHILD)
    shop.go_on()
    assert shop.asked() == ["scan", "sort", "sort"]


def test_b_errors_of_a_sub_recipe_propagate_with_the_stack(shop: Workshop) -> None:
    shop.write("child.yaml", CHILD)
    shop.write(
        "middle.yaml", recipe("steps: [{id: inner, type: recipe, recipe: child.yaml}]", "middle")
    )
    played = shop.play(
        recipe("""
            steps:
              - {id: outer, type: recipe, recipe: middle.yaml}
              - {id: after, agent: helper, prompt: "STEP:after"}
        """),
        rules=(rule("STEP:sort", fail="crash"),),
        exit_code=1,
    )
    assert shop.asked() == ["scan", "sort"]
    assert "r.yaml → middle.yaml → child.yaml" in played.result.stderr
    assert "'sort'" in played.result.stderr
    outer = played.step("outer")
    assert outer["status"] == "failed"
    assert "r.yaml → middle.yaml → child.yaml" in outer["error"]["message"]


def test_b_a_failed_sub_recipe_resumes_inside(shop: Workshop) -> None:
    shop.write("child.yaml", CHILD)
    played = shop.play(
        recipe("""
            steps:
              - {id: call, type: recipe, recipe: child.yaml, output: x}
              - {id: after, agent: helper, prompt: "STEP:after {{x.sorted}}"}
        """),
        rules=(rule("STEP:sort", {"fail": "crash"}, "now"),),
        exit_code=1,
    )
    assert played.state["status"] == "failed"
    shop.go_on()
    assert shop.asked() == ["scan", "sort", "sort", "after"]
    assert shop.prompt("after") == "STEP:after now"


def test_r8_10_skip_remaining_in_a_sub_recipe_ends_only_that(shop: Workshop) -> None:
    shop.write(
        "child.yaml",
        recipe("""
            context: {kept: yes it is}
            steps:
              - {id: guard, agent: helper, prompt: "STEP:guard", on_error: skip_remaining}
              - {id: never, agent: helper, prompt: "STEP:never", output: x}
        """),
    )
    played = shop.play(
        recipe("""
            steps:
              - {id: call, type: recipe, recipe: child.yaml, output: result}
              - {id: after, agent: helper, prompt: "STEP:after {{result}}"}
        """),
        rules=(rule("STEP:guard", fail="crash"),),
    )
    assert shop.asked() == ["guard", "after"]
    assert shop.prompt("after") == 'STEP:after {"kept":"yes it is"}'
    assert (played.state["status"], played.state["reason"]) == ("completed", "completed")


def test_r8_5_a_staged_recipe_can_be_called(shop: Workshop) -> None:
    shop.write(
        "child.yaml",
        recipe("""
            stages:
              - {name: one, steps: [{id: a, agent: helper, prompt: "STEP:a", output: x}]}
              - {name: two, steps: [{id: b, agent: helper, prompt: "STEP:b {{x}}", output: y}]}
        """),
    )
    played = shop.play(recipe("steps: [{id: call, type: recipe, recipe: child.yaml, output: r}]"))
    assert shop.prompt("b") == "STEP:b done a"
    assert played.context["r"] == {"x": "done a", "y": "done b"}
