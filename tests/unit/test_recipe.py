"""Dialect B: what a recipe lowers to, and each of its mistakes at its exact place."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from orchestrate.compile import Compilation, compile_file, require_program
from orchestrate.plan.expr import Chain, Compare, Const, ListExpr, MapExpr, Ref, Text
from orchestrate.plan.nodes import (
    APPROVED,
    DENIED,
    FAILED,
    LOST,
    OK,
    SKIPPED,
    Abort,
    Ask,
    Call,
    Each,
    Finish,
    Gate,
    Goto,
    Leave,
    NamedAgent,
    Node,
    Plan,
    main_plan,
)
from orchestrate.plan.settings import Retry
from orchestrate.workspace import open_workspace

HEAD = 'name: test\ndescription: A test\nversion: "1.0.0"\n'


def build(folder: Path, body: str, head: str = HEAD) -> Compilation:
    """Compile a recipe in a workspace that knows the agent `a`."""
    agents = folder / ".orchestrate" / "agents"
    agents.mkdir(parents=True, exist_ok=True)
    (agents / "a.md").write_text("---\nname: a\n---\nYou are a.\n")
    file = folder / "main.yaml"
    file.write_text(head + dedent(body))
    return compile_file(file, open_workspace(folder))


def build_steps(folder: Path, steps: str, extra: str = "") -> Compilation:
    return build(
        folder, dedent(extra) + "steps:\n" + indent(dedent(steps).strip("\n"), "  ") + "\n"
    )


def plan_for(compilation: Compilation) -> Plan:
    assert compilation.program is not None, compilation.diagnostics
    return main_plan(compilation.program)


def nodes_of(compilation: Compilation) -> dict[str, Node]:
    blocks = plan_for(compilation).blocks
    return {node.id: node for block in blocks for node in block.nodes}


def findings(compilation: Compilation) -> list[tuple[str, str]]:
    """Each finding's code with the text that its caret underlines."""
    return [
        (d.code, d.excerpt[d.span.column - 1 : d.span.column - 1 + d.span.length])
        for d in compilation.diagnostics
    ]


def only(compilation: Compilation) -> str:
    """Everything that the only finding says."""
    (finding,) = compilation.diagnostics
    return f"{finding.message} | {finding.hint} | {finding.suggestion}"


def write_child(folder: Path, name: str = "child.yaml", context: str = "{}") -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{HEAD}context: {context}\nsteps: [{{id: one, agent: a, prompt: Do it}}]\n")


ONE = "- {id: one, agent: a, prompt: Do it}"


# What it lowers to.


def test_a_flat_recipe_is_steps_in_order(tmp_path: Path) -> None:
    compilation = build_steps(
        tmp_path,
        """
        - id: first
          agent: a
          prompt: Look at {{file}}
          output: notes
        - id: second
          agent: a
          prompt: Sum up {{ notes.text }}
        """,
        "context: {file: x.py, deep: {list: [1, null, '{{raw}}']}}\n",
    )
    assert findings(compilation) == []
    plan = plan_for(compilation)
    first, second = plan.blocks[0].nodes
    assert (plan.dialect, plan.name, plan.version) == ("recipe", "test", "1.0.0")
    assert plan.blocks[0].entry == "first"
    assert first.op == Ask(
        NamedAgent("a"), Text(("Look at ", Ref(("var", "file"), "{{file}}"))), session="fresh"
    )
    assert first.output == "notes"
    assert dict(first.routes) == {
        OK: Goto("second"),
        FAILED: Abort("failed", "step 'first' failed"),
        LOST: Goto("first"),
    }
    assert (first.on_failure, first.follow, second.follow) == (
        "stop", Goto("second"), Finish("completed"),
    )  # fmt: skip
    assert plan.context == MapExpr(
        (
            ("file", Const("x.py")),
            ("deep", MapExpr((("list", ListExpr((Const(1), Const(None), Const("{{raw}}")))),))),
        )
    )


def test_defaults_are_those_of_the_schema(tmp_path: Path) -> None:
    plan = plan_for(build_steps(tmp_path, ONE))
    assert (plan.limits.max_depth, plan.limits.max_steps) == (5, 100)
    assert plan.defaults.timeout_s == 600
    (node,) = plan.blocks[0].nodes
    assert (node.retry, node.timeout_s, node.on_lost) == (None, None, "retry")


def test_limits_retry_and_timeout_are_taken_over(tmp_path: Path) -> None:
    compilation = build_steps(
        tmp_path,
        """
        - id: one
          agent: a
          prompt: Do it
          timeout: 30
          retry: {max_attempts: 5, backoff: linear}
          on_lost: stop
        """,
        "recursion: {max_depth: 2, max_total_steps: 9}\n",
    )
    plan = plan_for(compilation)
    node = plan.blocks[0].nodes[0]
    assert (plan.limits.max_depth, plan.limits.max_steps) == (2, 9)
    assert node.timeout_s == 30
    assert node.retry == Retry(5, 5, "transient", "linear", 300, jitter=True)
    assert dict(node.routes)[LOST] == Abort("lost", "step 'one' was lost")


def test_an_empty_retry_has_all_defaults(tmp_path: Path) -> None:
    node = nodes_of(build_steps(tmp_path, "- {id: one, agent: a, prompt: p, retry: {}}"))["one"]
    assert node.retry == Retry(3, 5, "transient", "exponential", 300, jitter=True)


def test_the_mode_is_put_before_the_prompt(tmp_path: Path) -> None:
    step = "- {id: one, agent: a, mode: REVIEW, prompt: Do it, agent_config: {tools: [x]}}"
    node = nodes_of(build_steps(tmp_path, step))["one"]
    assert isinstance(node.op, Ask)
    assert node.op.prompt == Text(("MODE: REVIEW\n\n", "Do it"))
    config = MapExpr((("tools", ListExpr((Const("x"),))),))
    assert node.op.agent == NamedAgent("a", config)


@pytest.mark.parametrize(
    ("on_error", "target", "on_failure"),
    [
        ("fail", Abort("failed", "step 'one' failed"), "stop"),
        ("continue", Goto("two"), "handled"),
        ("skip_remaining", Finish("partial", "partial"), "handled"),
    ],
)
def test_on_error_is_a_route(
    tmp_path: Path, on_error: str, target: object, on_failure: str
) -> None:
    steps = f"""
    - {{id: one, agent: a, prompt: p, on_error: {on_error}}}
    - {{id: two, agent: a, prompt: p}}
    """
    node = nodes_of(build_steps(tmp_path, steps))["one"]
    assert dict(node.routes)[FAILED] == target
    assert node.on_failure == on_failure


def test_a_condition_guards_its_step(tmp_path: Path) -> None:
    step = """
    - {id: one, agent: a, prompt: p, condition: "{{x}} == 'y' and {{x}} != 'z'"}
    """
    node = nodes_of(build_steps(tmp_path, step, "context: {x: y}\n"))["one"]
    x = Ref(("var", "x"), "{{x}}")
    assert node.guard == Chain(
        Compare(x, "==", Const("y")), (("and", Compare(x, "!=", Const("z"))),)
    )
    assert dict(node.routes)[SKIPPED] == Finish("completed")


def test_a_dependency_makes_a_step_skippable_and_its_output_certain(tmp_path: Path) -> None:
    steps = """
    - {id: one, agent: a, prompt: p, output: r, condition: "{{recipe.name}} == 'x'"}
    - {id: two, agent: a, prompt: "{{r}}", depends_on: [one, one]}
    """
    compilation = build_steps(tmp_path, steps)
    node = nodes_of(compilation)["two"]
    assert node.after == ("one",)
    assert SKIPPED in dict(node.routes)
    assert findings(compilation) == []


def test_a_loop_has_a_body_of_its_own(tmp_path: Path) -> None:
    compilation = build_steps(
        tmp_path,
        """
        - id: each
          foreach: "{{files.list}}"
          as: file
          parallel: true
          max_iterations: 7
          collect: all
          output: last
          condition: "{{files}} != ''"
          on_error: continue
          timeout: 20
          retry: {max_attempts: 2}
          agent: a
          prompt: Read {{file}}
        - {id: end, agent: a, prompt: "{{all}}"}
        """,
        "context: {files: {list: [a]}}\n",
    )
    plan = plan_for(compilation)
    loop, body = plan.blocks[0].nodes[0], plan.blocks[1]
    assert loop.op == Each(
        items=Ref(("var", "files", "list"), "{{files.list}}"), variable="file", body="each/body",
        stop_on_failure=True, parallel=True, limit=7, collect="all",
    )  # fmt: skip
    assert (loop.output, loop.timeout_s, loop.retry) == ("last", None, None)
    assert dict(loop.routes) == {OK: Goto("end"), FAILED: Goto("end"), SKIPPED: Goto("end")}
    assert (body.id, body.owner, body.entry) == ("each/body", "each", "each[]")
    (node,) = body.nodes
    assert dict(node.routes) == {OK: Leave(OK), FAILED: Leave(FAILED), LOST: Goto("each[]")}
    assert (node.guard, node.output, node.timeout_s) == (None, None, 20)
    assert node.retry is not None


def test_loop_defaults(tmp_path: Path) -> None:
    step = '- {id: each, foreach: "{{ xs }}", agent: a, prompt: "{{item}}"}'
    compilation = build_steps(tmp_path, step, "context: {xs: []}\n")
    loop = nodes_of(compilation)["each"].op
    assert isinstance(loop, Each)
    assert (loop.variable, loop.limit, loop.parallel, loop.collect) == ("item", 100, False, None)
    assert findings(compilation) == []


STAGED = """
stages:
  - name: plan
    steps:
      - {id: one, agent: a, prompt: p, output: r}
    approval:
      required: true
      prompt: "Go on with {{r}}?"
      timeout: 60
      default: approve
  - name: "Phase 2: do"
    steps:
      - {id: two, agent: a, prompt: "{{approval.message}} {{r}}"}
    approval: {required: false, timeout: 5}
"""


def test_a_gate_follows_its_stage(tmp_path: Path) -> None:
    compilation = build(tmp_path, STAGED)
    assert findings(compilation) == []
    one, gate, two = plan_for(compilation).blocks[0].nodes
    assert [one.stage, gate.stage, two.stage] == ["plan", "plan", "Phase 2: do"]
    prompt = Text(("Go on with ", Ref(("var", "r"), "{{r}}"), "?"))
    assert (gate.id, gate.name) == ("approve:plan", "plan")
    assert gate.op == Gate("plan", prompt, 60, "approve")
    assert dict(one.routes)[OK] == Goto("approve:plan")
    assert dict(gate.routes) == {
        APPROVED: Goto("two"),
        DENIED: Abort("denied", "stage 'plan' was denied"),
    }


def test_a_gate_can_be_the_end(tmp_path: Path) -> None:
    body = """
    stages:
      - name: s
        steps: [{id: one, agent: a, prompt: p}]
        approval: {required: true, prompt: Good, timeout: 9}
    """
    gate = nodes_of(build(tmp_path, body))["approve:s"]
    assert isinstance(gate.op, Gate)
    assert gate.op.default == "deny"
    assert dict(gate.routes)[APPROVED] == Finish("completed")


def test_a_sub_recipe_gets_what_is_passed(tmp_path: Path) -> None:
    write_child(tmp_path, "sub/child.yaml", "{whole: 1, text: a, plain: low, deep: {}}")
    compilation = build_steps(
        tmp_path,
        """
        - id: call
          type: recipe
          recipe: sub/child.yaml
          context:
            whole: "{{x}}"
            text: "a {{x}}"
            plain: high
            deep: {list: ["{{x.y}}", 3, true]}
          recursion: {max_depth: 3, max_total_steps: 8}
          output: r
        """,
        "context: {x: 1}\n",
    )
    assert findings(compilation) == []
    node = nodes_of(compilation)["call"]
    x = Ref(("var", "x"), "{{x}}")
    nested = ListExpr((Ref(("var", "x", "y"), "{{x.y}}"), Const(3), Const(True)))
    assert node.op == Call(
        plan="sub/child.yaml",
        arguments=MapExpr(
            (
                ("whole", x),
                ("text", Text(("a ", x))),
                ("plain", Const("high")),
                ("deep", MapExpr((("list", nested),))),
            )
        ),
        max_depth=3,
        max_steps=8,
    )
    assert set(dict(node.routes)) == {OK, FAILED}
    assert compilation.program is not None
    assert [plan.id for plan in compilation.program.plans] == ["main.yaml", "sub/child.yaml"]


def test_a_templated_path_is_left_to_the_run(tmp_path: Path) -> None:
    step = """
    - id: each
      foreach: "{{kinds}}"
      as: kind
      type: recipe
      recipe: "{{kind}}-audit.yaml"
    """
    compilation = build_steps(tmp_path, step, "context: {kinds: [a]}\n")
    op = nodes_of(compilation)["each[]"].op
    assert isinstance(op, Call)
    assert op.plan == Text((Ref(("var", "kind"), "{{kind}}"), "-audit.yaml"))
    assert findings(compilation) == [("W302", '"{{kind}}-audit.yaml"')]


def test_a_sub_recipe_is_found_beside_the_file_that_names_it(tmp_path: Path) -> None:
    write_child(tmp_path, "parts/child.yaml")
    (tmp_path / "parts" / "steps.yaml").write_text("- {id: c, type: recipe, recipe: child.yaml}\n")
    compilation = build(tmp_path, "steps:\n  - $include: parts/steps.yaml\n")
    op = nodes_of(compilation)["c"].op
    assert isinstance(op, Call)
    assert op.plan == "parts/child.yaml"


def test_an_absolute_path_is_used_as_it_is(tmp_path: Path) -> None:
    write_child(tmp_path)
    step = f"- {{id: c, type: recipe, recipe: '{tmp_path / 'child.yaml'}'}}"
    op = nodes_of(build_steps(tmp_path, step))["c"].op
    assert isinstance(op, Call)
    assert op.plan == "child.yaml"


# Mistakes: structure.


def test_steps_and_stages_exclude_each_other(tmp_path: Path) -> None:
    compilation = build(tmp_path, "steps: [{id: x, agent: a, prompt: p}]" + STAGED)
    assert findings(compilation) == [("E301", "stages")]
    assert compilation.exit_code == 2


def test_two_steps_cannot_share_an_id_across_stages(tmp_path: Path) -> None:
    compilation = build(tmp_path, STAGED.replace("id: two", "id: one"))
    assert findings(compilation) == [("E302", "one")]
    assert compilation.diagnostics[0].span.line == 16


def test_two_stages_cannot_share_a_name(tmp_path: Path) -> None:
    assert findings(build(tmp_path, STAGED.replace('"Phase 2: do"', "plan"))) == [("E302", "plan")]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("- {id: one, agent: a}", [("E303", "one")]),
        ("- {id: one}", [("E303", "one")]),
        ("- {id: one, agent: a, prompt: '  '}", [("E303", "'  '")]),
        ("- {id: one, agent: ' ', prompt: p}", [("E303", "' '")]),
        ("- {id: one, agent: a, prompt: p, recipe: c.yaml}", [("E303", "recipe")]),
        ("- {id: one, agent: a, prompt: p, context: {}}", [("E303", "context")]),
        ("- {id: one, agent: a, prompt: p, recursion: {}}", [("E303", "recursion")]),
        ("- {id: one, type: recipe}", [("E304", "one")]),
        ("- {id: one, type: recipe, recipe: ' '}", [("E304", "' '")]),
        ("- {id: one, type: recipe, recipe: child.yaml, agent: a}", [("E304", "agent")]),
        ("- {id: one, type: recipe, recipe: child.yaml, mode: A}", [("E304", "mode")]),
        ("- {id: one, type: recipe, recipe: child.yaml, prompt: p}", [("E304", "prompt")]),
        (
            "- {id: one, type: recipe, recipe: child.yaml, agent_config: {}}",
            [("E304", "agent_config")],
        ),
        ("- {id: one, type: recipe, recipe: child.yaml, on_lost: stop}", [("E304", "on_lost")]),
    ],
)
def test_each_kind_of_step_has_its_fields(
    tmp_path: Path, step: str, expected: list[tuple[str, str]]
) -> None:
    write_child(tmp_path)
    assert findings(build_steps(tmp_path, step)) == expected


def test_a_forgotten_type_is_one_mistake(tmp_path: Path) -> None:
    compilation = build_steps(tmp_path, "- {id: one, recipe: child.yaml}")
    assert findings(compilation) == [("E303", "recipe")]
    assert "add type: recipe" in only(compilation)


@pytest.mark.parametrize("field", ["as: x", "collect: x", "max_iterations: 3", "parallel: true"])
def test_loop_fields_need_a_loop(tmp_path: Path, field: str) -> None:
    compilation = build_steps(tmp_path, f"- {{id: one, agent: a, prompt: p, {field}}}")
    assert findings(compilation) == [("E305", field.split(":", maxsplit=1)[0])]


@pytest.mark.parametrize(
    ("foreach", "advice"),
    [
        ("xs", 'foreach: "{{xs}}"'),
        ("${xs}", 'foreach: "{{xs}}"'),
        ("{{xs}} {{xs}}", 'foreach: "{{xs}}"'),
        ("all {{xs}}", 'foreach: "{{xs}}"'),
        ("a, b", "{{files}}"),
    ],
)
def test_foreach_is_exactly_one_variable(tmp_path: Path, foreach: str, advice: str) -> None:
    step = f'- {{id: one, foreach: "{foreach}", agent: a, prompt: p}}'
    compilation = build_steps(tmp_path, step, "context: {xs: []}\n")
    assert findings(compilation) == [("E306", f'"{foreach}"')]
    assert advice in only(compilation)


def test_a_malformed_foreach_is_one_mistake(tmp_path: Path) -> None:
    compilation = build_steps(tmp_path, '- {id: one, foreach: "{{x", agent: a, prompt: p}')
    assert findings(compilation) == [("E120", "{{")]


@pytest.mark.parametrize("name", ["recipe", "step", "session", "approval"])
def test_reserved_names_are_refused_everywhere(tmp_path: Path, name: str) -> None:
    write_child(tmp_path)
    steps = f"""
    - {{id: one, agent: a, prompt: p, output: {name}}}
    - {{id: two, agent: a, prompt: p, foreach: "{{{{xs}}}}", as: {name}}}
    - {{id: three, agent: a, prompt: p, foreach: "{{{{xs}}}}", collect: {name}}}
    - {{id: four, type: recipe, recipe: child.yaml, context: {{{name}: 1}}}}
    """
    compilation = build_steps(tmp_path, steps, f"context: {{xs: [], {name}: 1}}\n")
    assert findings(compilation) == [("E307", name)] * 5
    assert [d.span.line for d in compilation.diagnostics] == [4, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("first", "second", "expected", "message"),
    [
        ("[]", "[onne]", [("E308", "onne")], "no step 'onne' |  | one"),
        ("[]", "[zzzzzz]", [("E308", "zzzzzz")], "earlier steps: one"),
        ("[]", "[two]", [("E308", "two")], "depends on itself"),
        ("[two]", "[]", [("E308", "two")], "comes later"),
        ("[two]", "[one]", [("E308", "two")], "'one' and 'two' depend on each other"),
    ],
)
def test_dependencies_are_earlier_steps(
    tmp_path: Path, first: str, second: str, expected: list[tuple[str, str]], message: str
) -> None:
    steps = f"""
    - {{id: one, agent: a, prompt: p, depends_on: {first}}}
    - {{id: two, agent: a, prompt: p, depends_on: {second}}}
    """
    compilation = build_steps(tmp_path, steps)
    assert findings(compilation) == expected
    assert message in only(compilation)


@pytest.mark.parametrize(
    ("approval", "expected"),
    [
        ("{required: true, timeout: 5}", [("E310", "required")]),
        ("{required: true, timeout: 5, prompt: ' '}", [("E310", "' '")]),
        ("{required: true, prompt: Go}", [("W105", "required")]),
        ("{required: true, prompt: Go, timeout: 0}", [("W105", "timeout")]),
        ("{required: false}", []),
        ("{required: false, prompt: Go}", []),
        ("{prompt: Go}", [("W407", "approval")]),
        ("{required: true, prompt: Go, timeout: -1}", [("E106", "-1")]),
        ("{required: true, prompt: 7, timeout: 5}", [("E103", "7")]),
        ("{required: true, timeout: 5, prompt: '{{step.id}}'}", [("E121", "{{step.id}}")]),
        ("{required: true, timeout: 5, prompt: '{{approval.message}}'}",
         [("W103", "{{approval.message}}")]),
    ],
)  # fmt: skip
def test_gates_ask_something_and_end(
    tmp_path: Path, approval: str, expected: list[tuple[str, str]]
) -> None:
    body = f"""
    stages:
      - name: s
        steps: [{{id: one, agent: a, prompt: p}}]
        approval: {approval}
    """
    assert findings(build(tmp_path, body)) == expected


# Mistakes: variables, conditions, agents.


def test_mistakes_inside_a_text_are_marked_there(tmp_path: Path) -> None:
    steps = """
    - id: one
      agent: a
      prompt: |
        First {{x}} and then
        {{ x | upper }}, {{recipe.nme}},
        {{}}
    - {id: two, agent: a, prompt: p, condition: "{{x}} == y"}
    - {id: three, agent: a, prompt: p, condition: "'x' == 'y'"}
    - {id: four, agent: a, prompt: p, condition: "{{x}}=='1' or {{x}}=='2' and {{x}}=='3'"}
    """
    compilation = build_steps(tmp_path, steps, "context: {x: 1}\n")
    assert findings(compilation) == [
        ("E120", "{{ x | upper }}"),
        ("E121", "{{recipe.nme}}"),
        ("E120", "{{}}"),
        ("E123", "y"),
        ("E309", "'x' == 'y'"),
        ("W101", "\"{{x}}=='1' or {{x}}=='2' and {{x}}=='3'\""),
    ]
    places = [(d.span.line, d.span.column) for d in compilation.diagnostics]
    assert places == [(10, 7), (10, 24), (11, 7), (12, 57), (13, 50), (14, 48)]


def test_a_variable_that_nothing_sets_must_be_given(tmp_path: Path) -> None:
    compilation = build_steps(tmp_path, '- {id: one, agent: a, prompt: "{{topic}} {{topic}}"}')
    assert findings(compilation) == [("W103", "{{topic}}")]
    assert "--context" in only(compilation)


def test_a_misspelt_variable_gets_a_suggestion(tmp_path: Path) -> None:
    step = '- {id: one, agent: a, prompt: "{{fil_path.x}}"}'
    compilation = build_steps(tmp_path, step, "context: {file_path: x}\n")
    assert findings(compilation) == [("W103", "{{fil_path.x}}")]
    assert only(compilation).endswith("| {{file_path}}")


def test_an_optional_variable_may_be_missing_but_not_misspelt(tmp_path: Path) -> None:
    step = '- {id: one, agent: a, prompt: "{{wholly_new?}} {{file_pth?}}"}'
    compilation = build_steps(tmp_path, step, "context: {file_path: x}\n")
    assert findings(compilation) == [("W103", "{{file_pth?}}")]


def test_a_loop_variable_ends_with_its_loop(tmp_path: Path) -> None:
    steps = """
    - {id: one, foreach: "{{xs}}", as: it, agent: a, prompt: "{{it}}", condition: "{{it}} == '1'"}
    - {id: two, agent: a, prompt: "{{it}}"}
    """
    compilation = build_steps(tmp_path, steps, "context: {xs: []}\n")
    assert [(d.code, d.span.line, d.span.column) for d in compilation.diagnostics] == [
        ("W103", 6, 82),
        ("W103", 7, 34),
    ]
    condition, prompt = (d.hint for d in compilation.diagnostics)
    assert "before the loop begins" in condition
    assert "inside the loop of step 'one'" in prompt


def test_a_loop_variable_hides_one_of_the_context(tmp_path: Path) -> None:
    step = '- {id: one, foreach: "{{xs}}", as: xs, agent: a, prompt: "{{xs}}"}'
    assert findings(build_steps(tmp_path, step, "context: {xs: []}\n")) == []


@pytest.mark.parametrize(
    ("first", "why"),
    [
        ("condition: \"{{recipe.name}} == 'x'\"", "may be skipped"),
        ("on_error: continue", "may fail"),
        ('foreach: "{{xs}}"', "list may be empty"),
    ],
)
def test_a_result_that_may_be_missing_draws_a_warning(tmp_path: Path, first: str, why: str) -> None:
    steps = f"""
    - {{id: one, agent: a, prompt: p, output: r, {first}}}
    - {{id: two, agent: a, prompt: "{{{{r?}}}} {{{{r.x}}}}"}}
    """
    compilation = build_steps(tmp_path, steps, "context: {xs: []}\n")
    assert findings(compilation) == [("W102", "{{r.x}}")]
    assert "step 'one' sets it, but " in only(compilation)
    assert f"{why}; write {{{{r.x?}}}}" in only(compilation)


def test_a_loop_over_nothing_has_no_last_result(tmp_path: Path) -> None:
    steps = """
    - {id: one, foreach: "{{xs}}", agent: a, prompt: p, output: last, collect: all}
    - {id: two, depends_on: [one], agent: a, prompt: "{{all}} {{last}}"}
    """
    compilation = build_steps(tmp_path, steps, "context: {xs: []}\n")
    assert findings(compilation) == [("W102", "{{last}}")]


def test_a_result_of_a_later_step_or_of_the_step_itself_is_missing(tmp_path: Path) -> None:
    steps = """
    - {id: one, agent: a, prompt: "{{r}} {{own}}", output: own}
    - {id: two, agent: a, prompt: p, output: r}
    """
    compilation = build_steps(tmp_path, steps)
    assert findings(compilation) == [("W102", "{{r}}"), ("W102", "{{own}}")]
    later, own = (d.hint for d in compilation.diagnostics)
    assert "step 'two' sets it, but comes later" in later
    assert "step 'one' sets it only when it has ended" in own


def test_an_unknown_agent_is_named_once_with_the_places(tmp_path: Path) -> None:
    steps = """
    - {id: one, agent: "team:bb", prompt: p}
    - {id: two, agent: "team:bb", prompt: p}
    """
    compilation = build_steps(tmp_path, steps)
    assert findings(compilation) == [("W104", '"team:bb"')]
    places = ".orchestrate/agents/team/bb.md and .claude/agents/team/bb.md"
    assert f"looked for {places}" in only(compilation)


def test_a_misspelt_agent_gets_a_suggestion(tmp_path: Path) -> None:
    agents = tmp_path / ".claude" / "agents" / "team"
    agents.mkdir(parents=True)
    (agents / "reviewer.md").write_text("You review.\n")
    compilation = build_steps(tmp_path, "- {id: one, agent: 'team:reviwer', prompt: p}")
    assert only(compilation).endswith("| team:reviewer")


def test_the_definition_of_an_agent_is_a_file_of_the_program(tmp_path: Path) -> None:
    compilation = build_steps(tmp_path, "- {id: one, agent: a, prompt: p}")
    names = [Path(file.path).name for file in require_program(compilation).files]
    assert names == ["main.yaml", "a.md"]


@pytest.mark.parametrize("fields", ["", "# nothing\n", "name: a\r\n", "tools: [Read]\n"])
def test_every_field_of_an_agent_may_be_left_out(tmp_path: Path, fields: str) -> None:
    build_steps(tmp_path, "- {id: one, agent: a, prompt: p}")
    agent = tmp_path / ".orchestrate" / "agents" / "team" / "b.md"
    agent.parent.mkdir()
    agent.write_text(f"---\n{fields.replace('name: a', 'name: team:b')}---\nYou are b.\n---\n")
    compilation = build_steps(tmp_path, "- {id: one, agent: 'team:b', prompt: p}")
    assert findings(compilation) == []


def test_an_agent_file_that_is_no_text_is_an_error_there(tmp_path: Path) -> None:
    build_steps(tmp_path, "- {id: one, agent: a, prompt: p}")
    (tmp_path / ".orchestrate" / "agents" / "b.md").write_bytes(b"---\nname: b\n---\n\xff\n")
    compilation = build_steps(tmp_path, "- {id: one, agent: b, prompt: p}")
    (fault,) = compilation.diagnostics
    assert (fault.code, fault.span.line, Path(fault.span.file).name) == ("E004", 4, "b.md")


def test_agents_of_another_folder_are_mentioned_with_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    build_steps(tmp_path / "my project", "- {id: one, agent: b, prompt: p}")
    file = tmp_path / "my project" / "main.yaml"
    (unknown,) = compile_file(file, open_workspace(tmp_path / "here")).diagnostics
    assert "in the workspace here;" in unknown.hint
    assert unknown.hint.endswith("of another folder: --working-dir 'my project'")
    file.write_text(file.read_text().replace("agent: b", "agent: a"))
    (unknown,) = compile_file(file, open_workspace(tmp_path / "here")).diagnostics
    assert unknown.hint.endswith("there is one in another folder: add --working-dir 'my project'")


@pytest.mark.parametrize("name", ["../a", "a/b", "..", "a:", ":a", "a:..:b", "{{x}}", "x" * 300])
def test_an_agent_name_cannot_leave_its_folder(tmp_path: Path, name: str) -> None:
    compilation = build_steps(tmp_path, f"- {{id: one, agent: '{name}', prompt: p}}")
    assert findings(compilation) == [("E105", f"'{name}'")]


# Mistakes: sub-recipes.


_CALL = "- {id: c, type: recipe, recipe: child.yaml, context: {given: 1}, output: sec}\n"
_LATER = "- {id: z, agent: a, prompt: 'p', output: sec}\n"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (_CALL + "- {id: u, agent: a, prompt: '{{sec.nothing}}'}", ["{{sec.nothing}}"]),
        (_CALL + "- {id: u, depends_on: [c], agent: a, prompt: '{{sec.no}}'}", ["{{sec.no}}"]),
        (_CALL + "- {id: u, agent: a, prompt: '{{sec.no.x}}'}\n" + _LATER, ["{{sec.no.x}}"]),
        (_CALL + "- {id: u, agent: a, prompt: '{{sec.own.x}} {{sec.given}} {{sec.r}}'}", []),
        # Whatever else the variable may be is not known:
        (_LATER + _CALL + "- {id: u, agent: a, prompt: '{{sec.nothing}}'}", []),
        (_CALL + "- {id: u, foreach: '{{l}}', as: sec, agent: a, prompt: '{{sec.no}}'}", []),
        (_CALL.replace("child", "wrong") + "- {id: u, agent: a, prompt: '{{sec.no}}'}", []),
    ],
)
def test_the_result_of_a_sub_recipe_is_its_final_context(
    tmp_path: Path, steps: str, expected: list[str]
) -> None:
    step = "steps: [{id: one, agent: a, prompt: '{{given?}}', output: r}]\n"
    (tmp_path / "child.yaml").write_text(HEAD + "context: {own: 1}\n" + step)
    (tmp_path / "wrong.yaml").write_text(HEAD + step.replace("output", "ouput"))
    compilation = build_steps(tmp_path, steps, "context: {l: []}\n")
    assert [text for code, text in findings(compilation) if code == "W103"] == expected


def test_a_missing_sub_recipe_gets_a_suggestion(tmp_path: Path) -> None:
    write_child(tmp_path, "audits/security.yaml")
    step = "- {id: c, type: recipe, recipe: audits/securty.yaml}"
    compilation = build_steps(tmp_path, step)
    assert findings(compilation) == [("E311", "audits/securty.yaml")]
    assert only(compilation).endswith("does not exist |  | audits/security.yaml")


def test_a_path_from_the_workspace_is_rewritten(tmp_path: Path) -> None:
    write_child(tmp_path, "recipes/child.yaml")
    (tmp_path / "recipes" / "main.yaml").write_text(
        HEAD + "steps: [{id: c, type: recipe, recipe: recipes/child.yaml}]\n"
    )
    compilation = compile_file(tmp_path / "recipes" / "main.yaml", open_workspace(tmp_path))
    assert [(d.code, d.suggestion) for d in compilation.diagnostics] == [("E311", "child.yaml")]


@pytest.mark.parametrize("path", ["nothing/here.yaml", "x" * 5000, "'a\\0b'"])
def test_a_path_that_leads_nowhere(tmp_path: Path, path: str) -> None:
    step = f"- {{id: c, type: recipe, recipe: {path}}}".replace("'", '"')
    compilation = build_steps(tmp_path, step)
    assert [d.code for d in compilation.diagnostics] == ["E311"]
    assert "does not exist" in compilation.diagnostics[0].message


def test_a_folder_is_no_recipe(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    compilation = build_steps(tmp_path, "- {id: c, type: recipe, recipe: sub}")
    assert findings(compilation) == [("E311", "sub")]
    assert "is a folder, not a file" in only(compilation)


def test_the_errors_of_a_sub_recipe_are_reported_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("a: [\n")
    (tmp_path / "wrong.yaml").write_text(HEAD + "steps: [{id: one, agent: a}]\n")
    steps = """
    - {id: c, type: recipe, recipe: broken.yaml}
    - {id: d, type: recipe, recipe: wrong.yaml}
    """
    compilation = build_steps(tmp_path, steps)
    found = [(Path(d.span.file).name, d.code) for d in compilation.diagnostics]
    assert ("main.yaml", "E311") in found
    assert ("wrong.yaml", "E303") in found
    assert ("broken.yaml", "E006") in found
    assert len(found) == 3


def test_any_dialect_can_be_called(tmp_path: Path) -> None:
    (tmp_path / "machine.yaml").write_text(
        "id: machine\nlabel: M\ndescription: d\ninitialStep: s\nsteps:\n"
        "  s:\n    prompt: p\n    outcomes: [other]\n"
        "    onOutcome: {other: {action: exit, reason: r}}\n"
    )
    compilation = build_steps(tmp_path, "- {id: c, type: recipe, recipe: machine.yaml}")
    assert findings(compilation) == []


def test_a_recipe_that_calls_itself_draws_a_warning(tmp_path: Path) -> None:
    compilation = build_steps(tmp_path, "- {id: c, type: recipe, recipe: ./main.yaml}")
    assert findings(compilation) == [("W301", "./main.yaml")]
    assert plan_for(compilation).id == "main.yaml"


def test_a_circle_of_recipes_is_named_once(tmp_path: Path) -> None:
    for name, called in (("b", "c"), ("c", "main")):
        step = f"{{id: call, type: recipe, recipe: {called}.yaml}}"
        (tmp_path / f"{name}.yaml").write_text(f"{HEAD}steps: [{step}]\n")
    compilation = build_steps(tmp_path, "- {id: call, type: recipe, recipe: b.yaml}")
    assert findings(compilation) == [("W301", "main.yaml")]
    assert "c.yaml → main.yaml → b.yaml → c.yaml" in only(compilation)


def test_an_argument_is_declared_or_at_least_used(tmp_path: Path) -> None:
    (tmp_path / "child.yaml").write_text(
        HEAD + "context: {declared: 1}\nsteps: [{id: one, agent: a, prompt: '{{ used.x? }}'}]\n"
    )
    arguments = "{declared: 1, used: 2, declard: 3}"
    step = f"- {{id: call, type: recipe, recipe: child.yaml, context: {arguments}}}"
    compilation = build_steps(tmp_path, step)
    assert findings(compilation) == [("W407", "declard")]
    assert only(compilation).endswith("| declared")


@pytest.mark.parametrize(
    ("recursion", "more", "expected"),
    [
        ("{max_total_steps: 2}", "", []),
        ("{max_total_steps: 1}", "", [("W304", "two")]),
        ("{max_total_steps: 1}", ", depends_on: [one]", []),
        ("{max_total_steps: 1}", ", condition: \"{{recipe.name}} == 'x'\"", []),
        ("{max_total_steps: 1}", ', foreach: "{{xs}}"', []),
        ("{max_depth: 1}", "", []),
    ],
)
def test_what_runs_in_any_case_fits_into_the_limits(
    tmp_path: Path, recursion: str, more: str, expected: list[tuple[str, str]]
) -> None:
    steps = f"{ONE}\n- {{id: two, agent: a, prompt: p{more}}}"
    extra = f"context: {{xs: []}}\nrecursion: {recursion}\n"
    assert findings(build_steps(tmp_path, steps, extra)) == expected


def test_a_call_needs_a_depth_of_two(tmp_path: Path) -> None:
    write_child(tmp_path)
    step = "- {id: call, type: recipe, recipe: child.yaml}"
    compilation = build_steps(tmp_path, step, "recursion: {max_depth: 1}\n")
    assert findings(compilation) == [("W304", "call")]
    assert findings(build_steps(tmp_path, step, "recursion: {max_depth: 2}\n")) == []


# Mistakes: what has no effect.


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Look at {x} and ${x}", [("W407", "{x}")]),
        ("Look at ${context.x}", [("W407", "${context.x}")]),
        ("Answer {x}, about {{x}}", []),
        ("Answer {y} or {x: 1} or ${HOME}", []),
        ("Answer {{x}}} or {{{x}}}", []),
    ],
)
def test_other_braces_are_text_unless_they_name_a_variable(
    tmp_path: Path, prompt: str, expected: list[tuple[str, str]]
) -> None:
    step = f'- {{id: one, agent: a, prompt: "{prompt}"}}'
    assert findings(build_steps(tmp_path, step, "context: {x: 1}\n")) == expected


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("{x: 1, y: 'a {{x}}'}", [("W407", "'a {{x}}'")]),
        ("{y: '{{recipe.name}}'}", [("W407", "'{{recipe.name}}'")]),
        ("{y: 'Write {{name}} as it stands, and {{ too'}", []),
        ("{a-b: 1}", [("W407", "a-b")]),
    ],
)
def test_values_of_the_context_are_literal(
    tmp_path: Path, context: str, expected: list[tuple[str, str]]
) -> None:
    assert findings(build_steps(tmp_path, ONE, f"context: {context}\n")) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("[]", 0), ("''", 0), ("", 0), ("{a: [1]}", 1), ("a", 1), ("3", 1), ("false", 1)],
)
def test_a_loop_goes_over_a_list(tmp_path: Path, value: str, expected: int) -> None:
    step = '- {id: one, agent: a, prompt: "{{item}}", foreach: "{{xs}}"}'
    compilation = build_steps(tmp_path, step, f"context: {{xs: {value}}}\n")
    assert findings(compilation) == [("W303", '"{{xs}}"')] * expected


def test_a_loop_may_go_over_a_part_of_the_context(tmp_path: Path) -> None:
    step = '- {id: one, agent: a, prompt: "{{item}}", foreach: "{{xs.a}}"}'
    assert findings(build_steps(tmp_path, step, "context: {xs: {a: [1]}}\n")) == []


# What the schema has reported is not reported again.


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("steps: [{id: one, agent: 5, prompt: p}]", ["E103"]),
        ("steps: [{id: one, agent: a, prompt: ''}]", ["E106"]),
        ("steps: [{id: one, type: recipee, recipe: child.yaml}]", ["E104"]),
        ("steps: [{id: one, type: x, agent: a, prompt: p}]", ["E104"]),
        ("steps: [{id: one, agent: a, prompt: p, foreach: [a], as: x}]", ["E103"]),
        ("stages: {a: b}", ["E103"]),
        ("stages: []", ["E107"]),
        ("stages: [{name: s}]", ["E102"]),
        ("stages: [{name: s, steps: []}]", ["E107"]),
        ("stages: [{steps: [{id: one, agent: a, prompt: p}]}]", ["E102"]),
        ("steps: [{agent: a, prompt: p}, {id: two, agent: a, prompt: p}]", ["E102"]),
        ("context: 5\nsteps: [{id: one, agent: a, prompt: p}]", ["E103"]),
        ("context: [x]\nsteps: [{id: one, agent: a, prompt: '{{x}} {{y}}'}]", ["E103"]),
        (
            "steps: [{id: o, agent: a, prompt: p, ouput: x}, {id: t, agent: a, prompt: '{{x}}'}]",
            ["E101"],
        ),
        ("recursion: {max_depth: 99}\nsteps: [{id: one, agent: a, prompt: p}]", ["E106"]),
        ("steps: [{id: one, agent: a, prompt: p, depends_on: one}]", ["E103"]),
        ("steps: [{id: one, agent: a, prompt: p, retry: 3}]", ["E103"]),
        ("steps: [{id: one, agent: a, prompt: p, output: 'a-b'}]", ["E105"]),
        ("steps: [{id: one, agent: a, promt: p}]", ["E101"]),
        ("steps: [{id: one, agent: a, prompt: '{{x}}', for_each: '{{xs}}', as: x}]", ["E101"]),
        ("steps: [{id: one, agent: a, prompt: '{{x}}', context: {x: 1}}]", ["E303"]),
        ("vars: {x: 1}\nsteps: [{id: one, agent: a, prompt: '{{x}}'}]", ["E101"]),
    ],
)
def test_a_mistake_is_reported_once(tmp_path: Path, body: str, expected: list[str]) -> None:
    write_child(tmp_path)
    compilation = build(tmp_path, body + "\n")
    assert [d.code for d in compilation.diagnostics] == expected
    assert compilation.program is None


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    steps = """
    - {id: one, agent: a, prompt: "{{", colour: red}
    - {id: one, agent: a, prompt: p, depends_on: [none]}
    - {id: two, agent: a, prompt: p, parallel: true, condition: "{{x}} ="}
    """
    compilation = build_steps(tmp_path, steps)
    assert sorted(d.code for d in compilation.diagnostics) == [
        "E101", "E120", "E123", "E302", "E305", "E308",
    ]  # fmt: skip
