"""`session: NAME`: one conversation over several steps, and a parallel item's own."""

from __future__ import annotations

from tests.recipes.fakes import Call, Workshop, recipe, rule

TWO = recipe("""
    steps:
      - {id: plan, session: builder, agent: helper, prompt: "STEP:plan"}
      - {id: apart, agent: helper, prompt: "STEP:apart"}
      - {id: build, session: builder, agent: helper, prompt: "STEP:build"}
      - {id: check, session: critic, agent: helper, prompt: "STEP:check"}
""")


def session(call: Call) -> tuple[str, str]:
    """How a call got its session: begun under an id, or resumed."""
    begun = call.flag("--session-id")
    return ("new", begun) if begun is not None else ("again", str(call.flag("--resume")))


def test_steps_of_one_name_share_a_session(shop: Workshop) -> None:
    played = shop.play(TWO)
    plan, apart, build, check = map(session, shop.calls())
    assert plan[0] == "new"
    assert build == ("again", plan[1])
    assert apart[0] == check[0] == "new"
    assert len({plan[1], apart[1], check[1]}) == 3
    assert played.step("build")["session_id"] == plan[1]


def test_a_session_goes_on_after_a_failure_and_a_resume(shop: Workshop) -> None:
    shop.play(TWO, rules=(rule("STEP:build", {"fail": "auth"}),), exit_code=1)
    shop.answers()
    shop.go_on()
    plan, _, failed, build, _ = map(session, shop.calls())
    assert failed == build == ("again", plan[1])


def test_each_parallel_item_has_its_own(shop: Workshop) -> None:
    text = recipe("""
        context: {items: [a, b]}
        steps:
          - {id: first, session: s, agent: helper, prompt: "STEP:first"}
          - {id: each, foreach: "{{items}}", parallel: true, session: s, agent: helper,
             prompt: "STEP:{{item}}"}
          - {id: last, session: s, agent: helper, prompt: "STEP:last"}
    """)
    shop.play(text)
    kinds = {call.marker: session(call) for call in shop.calls()}
    assert kinds["a"][0] == kinds["b"][0] == kinds["first"][0] == "new"
    assert len({kinds[name][1] for name in ("a", "b", "first")}) == 3
    assert kinds["last"] == ("again", kinds["first"][1])


def test_items_one_after_another_and_rounds_share_it(shop: Workshop) -> None:
    text = recipe("""
        context: {items: [a, b], n: 0}
        steps:
          - {id: each, foreach: "{{items}}", session: s, agent: helper, prompt: "STEP:{{item}}"}
          - id: loop
            while_condition: "{{n}} < 2"
            while_steps:
              - {id: go, session: s, agent: helper, prompt: "STEP:go", output: n}
    """)
    shop.play(text, rules=(rule("STEP:go", "1", "2"),))
    first, *others = map(session, shop.calls())
    assert others == [("again", first[1])] * 3


def test_a_called_recipe_has_names_of_its_own(shop: Workshop) -> None:
    inner = 'steps: [{id: in, session: s, agent: helper, prompt: "STEP:in"}]'
    shop.write("child.yaml", recipe(inner))
    text = recipe("""
        steps:
          - {id: first, session: s, agent: helper, prompt: "STEP:first"}
          - {id: call, type: recipe, recipe: child.yaml}
    """)
    shop.play(text)
    assert [session(call)[0] for call in shop.calls()] == ["new", "new"]
