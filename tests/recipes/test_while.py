"""Loops by `while_condition`: rounds, what they carry over, their bound, and how they resume."""

from __future__ import annotations

import pytest

from tests.recipes.fakes import Workshop, recipe, rule

REVISE = recipe("""
    context: {draft: first, score: 0}
    steps:
      - id: polish
        while_condition: "{{score}} < 8"
        max_while_iterations: 4
        update_context: {draft: "{{better}}"}
        collect: rounds
        output: last
        while_steps:
          - {id: write, prompt: "STEP:write {{draft}}", output: better}
          - {id: rate, prompt: "STEP:rate {{better}}", output: score}
      - {id: publish, prompt: "STEP:publish {{draft}} {{score}} {{rounds}} {{last}}"}
""")
WRITES = rule("STEP:write", "second", "third", "fourth", "fifth", "sixth")


def test_rounds_go_on_while_the_condition_holds(shop: Workshop) -> None:
    played = shop.play(REVISE, rules=(WRITES, rule("STEP:rate", "3", "9")))
    assert shop.asked() == ["write", "rate", "write", "rate", "publish"]
    assert shop.prompt("publish") == "STEP:publish third 9 [3,9] 9"
    rounds = played.state["steps"]["polish"]
    assert [list(made) for made in rounds] == [["write", "rate"], ["write", "rate"]]
    ended = [event for event in played.events() if event["on"] == "round-ended"]
    assert [event["goes_on"] for event in ended] == [True, False]


def test_a_condition_that_never_holds_makes_no_round(shop: Workshop) -> None:
    text = REVISE.replace("score: 0", "score: 8").replace(" {{last}}", "")
    played = shop.play(text)
    assert shop.asked() == ["publish"]
    assert shop.prompt("publish") == "STEP:publish first 8 []"
    assert played.state["steps"]["polish"] == []


def test_too_many_rounds_fail_the_step_as_a_limit(shop: Workshop) -> None:
    played = shop.play(REVISE, rules=(WRITES, rule("STEP:rate", "1")), exit_code=3)
    assert len(shop.calls()) == 8
    assert "the loop 'polish' has made 4 rounds" in str(played.state["reason"])
    assert "has made 4 rounds" in played.result.stderr
    again = shop.go_on(exit_code=3)
    assert len(shop.calls()) == 8, "what was done is not done again"
    assert "has made 4 rounds" in str(again.state["reason"])
    assert "  at          the end of polish[3]\n" in shop.run("status").stdout


def test_on_error_continue_goes_on_behind_the_loop(shop: Workshop) -> None:
    text = REVISE.replace("collect: rounds", "on_error: continue").replace("{{rounds}} ", "")
    played = shop.play(text.replace(" {{last}}", ""), rules=(WRITES, rule("STEP:rate", "1")))
    assert shop.asked()[-1] == "publish"
    assert played.state["status"] == "completed"


def test_break_when_is_looked_at_after_the_updates(shop: Workshop) -> None:
    text = REVISE.replace("collect:", "break_when: \"{{draft}} == 'third'\"\n    collect:")
    shop.play(text, rules=(WRITES, rule("STEP:rate", "1")))
    assert shop.asked() == ["write", "rate", "write", "rate", "publish"]


def test_a_step_may_be_its_own_round(shop: Workshop) -> None:
    text = recipe("""
        context: {verdict: open}
        steps:
          - {id: ask, while_condition: "{{verdict}} != 'done'", prompt: "STEP:ask {{verdict}}",
             output: verdict}
          - {id: end, prompt: "STEP:end {{verdict}}"}
    """)
    shop.play(text, rules=(rule("STEP:ask", "half", "done"),))
    assert [call.text.split()[-1] for call in shop.calls("ask")] == ["open", "half"]
    assert shop.prompt("end") == "STEP:end done"


def test_a_failed_step_fails_the_round_and_resumes_there(shop: Workshop) -> None:
    rules = (WRITES, rule("STEP:rate", "3", {"fail": "auth"}))
    played = shop.play(REVISE, rules=rules, exit_code=1)
    assert played.state["status"] == "failed"
    shop.answers(WRITES, rule("STEP:rate", "9"))
    again = shop.go_on()
    assert again.state["status"] == "completed"
    assert shop.asked() == ["write", "rate", "write", "rate", "rate", "publish"]


def test_conditions_and_dependencies_inside_a_round(shop: Workshop) -> None:
    text = recipe("""
        context: {n: 0, odd: false}
        steps:
          - id: count
            while_condition: "{{n}} < 2"
            while_steps:
              - {id: maybe, condition: "{{odd}}", prompt: "STEP:maybe"}
              - {id: behind, depends_on: [maybe], prompt: "STEP:behind"}
              - {id: next, prompt: "STEP:next", output: n}
            update_context: {odd: true}
    """)
    shop.play(text, rules=(rule("STEP:next", "1", "2"),))
    assert shop.asked() == ["next", "maybe", "behind", "next"]


def test_an_undefined_variable_in_break_when_fails_and_names_it(shop: Workshop) -> None:
    """Step rate is skipped, and what it would have set stays undefined."""
    text = REVISE.replace("collect:", 'break_when: "{{gone}}"\n    collect:')
    text = text.replace("{id: rate,", """{id: rate, condition: "{{draft}} == 'no'",""")
    played = shop.play(text.replace("output: score", "output: gone"), rules=(WRITES,), exit_code=1)
    assert "{{gone}}" in str(played.state["reason"])
    assert played.state["status"] == "failed"


@pytest.mark.parametrize("command", [("plan",), ("run", "--dry-run")])
def test_plan_and_dry_run_show_the_rounds(shop: Workshop, command: tuple[str, ...]) -> None:
    shop.write("r.yaml", REVISE)
    shown = shop.run(command[0], "r.yaml", *command[1:]).assert_exit(0).stdout
    assert "at most 4" in shown
    assert "while" in shown
    assert "rate" in shown
