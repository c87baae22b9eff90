"""Flat and staged recipes: what runs in which order, and what the state says about it."""

from __future__ import annotations

from tests.recipes.fakes import Workshop, recipe, rule


def test_b_flat_steps_run_in_order_and_hand_on_their_results(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            context: {input: the code}
            steps:
              - {id: analyze, agent: helper, prompt: "STEP:a Analyze {{input}}", output: analysis}
              - {id: process, agent: helper, prompt: "STEP:b Process {{analysis}}", output: result}
              - {id: last, agent: helper, prompt: "STEP:c Nothing is kept of this"}
        """),
        rules=(rule("STEP:a", "it is long"), rule("STEP:b", "shorter now")),
    )
    assert [call.text for call in shop.calls()] == [
        "STEP:a Analyze the code",
        "STEP:b Process it is long",
        "STEP:c Nothing is kept of this",
    ]
    assert played.context == {
        "input": "the code",
        "analysis": "it is long",
        "result": "shorter now",
    }
    assert (played.state["status"], played.state["reason"]) == ("completed", "completed")
    assert [played.step(name)["status"] for name in ("analyze", "process", "last")] == [
        "completed"
    ] * 3
    assert played.state["stages"] == []
    assert played.state["dialect"] == "recipe"


STAGED = recipe("""
    context: {input: the code}
    stages:
      - name: planning
        steps:
          - {id: analyze, agent: helper, prompt: "STEP:analyze {{input}}", output: analysis}
          - {id: weigh, agent: helper, prompt: "STEP:weigh {{analysis}}"}
        approval: {required: false}
      - name: "Phase 2: execution"
        steps:
          - {id: execute, agent: helper, prompt: "STEP:execute {{analysis}}", output: result}
""")


def test_b_staged_stages_run_in_order_and_share_the_context(shop: Workshop) -> None:
    played = shop.play(STAGED, rules=(rule("STEP:analyze", "a plan"),))
    assert shop.asked() == ["analyze", "weigh", "execute"]
    assert shop.prompt("execute") == "STEP:execute a plan"
    assert played.stages() == {"planning": "completed", "Phase 2: execution": "completed"}


def test_b_staged_an_approval_that_is_not_required_does_not_pause(shop: Workshop) -> None:
    played = shop.play(STAGED)
    assert played.state["approvals"] == []
    assert played.state["status"] == "completed"


def test_r8_1_a_stage_name_may_contain_a_colon(shop: Workshop) -> None:
    stages = shop.play(STAGED).stages()
    assert "Phase 2: execution" in stages


def test_b_staged_state_shows_how_far_each_stage_is(shop: Workshop) -> None:
    played = shop.play(STAGED, rules=(rule("STEP:weigh", fail="crash"),), exit_code=1)
    assert played.stages() == {"planning": "failed", "Phase 2: execution": "pending"}
    assert shop.asked() == ["analyze", "weigh"]


def test_b_flat_fails_fast_and_resumes_from_the_failed_step(shop: Workshop) -> None:
    text = recipe("""
        steps:
          - {id: one, agent: helper, prompt: "STEP:one", output: x}
          - {id: two, agent: helper, prompt: "STEP:two {{x}}", output: y}
          - {id: three, agent: helper, prompt: "STEP:three {{y}}"}
    """)
    broken = rule("STEP:two", {"fail": "crash"}, "mended")
    failed = shop.play(text, rules=(broken,), exit_code=1)
    assert failed.state["status"] == "failed"
    assert shop.asked() == ["one", "two"]
    assert "orchestrate resume" in failed.result.stderr

    resumed = shop.go_on()
    assert shop.asked() == ["one", "two", "two", "three"]
    assert shop.prompt("three") == "STEP:three mended"
    assert resumed.state["status"] == "completed"


def test_b_session_results_persist_across_checkpoints(shop: Workshop) -> None:
    """B `output`: stored results are available to all later steps, also after a resume."""
    text = recipe("""
        steps:
          - {id: one, agent: helper, prompt: "STEP:one", output: x}
          - {id: two, agent: helper, prompt: "STEP:two"}
          - {id: three, agent: helper, prompt: "STEP:three {{x.list.1}} {{x}}"}
    """)
    shop.play(
        text,
        rules=(rule("STEP:one", '{"list": ["a", "ü"]}'), rule("STEP:two", {"fail": "auth"}, "ok")),
        exit_code=1,
    )
    shop.go_on()
    assert shop.prompt("three") == 'STEP:three ü {"list":["a","ü"]}'


def test_b_both_modes_in_one_recipe_are_refused(shop: Workshop) -> None:
    both = STAGED + 'steps:\n  - {id: x, agent: helper, prompt: "x"}\n'
    shop.refuse(both, exit_code=2)


def test_r8_1_unknown_keys_are_errors_at_every_level(shop: Workshop) -> None:
    steps = '    {id: x, agent: helper, prompt: "x"%s}\n'
    for text in (
        recipe("steps:\n  -" + steps % "") + "extra: 1\n",
        recipe("steps:\n  -" + steps % ", extra: 1"),
        recipe("recursion: {extra: 1}\nsteps:\n  -" + steps % ""),
        recipe("steps:\n  -" + steps % ", retry: {extra: 1}"),
        recipe("stages:\n  - name: a\n    extra: 1\n    steps:\n    -" + steps % ""),
        recipe("stages:\n  - name: a\n    approval: {extra: 1}\n    steps:\n    -" + steps % ""),
    ):
        said = shop.refuse(text, exit_code=2)
        assert "extra" in said.stderr + said.stdout


def test_r6_a_run_directory_is_private(shop: Workshop) -> None:
    played = shop.play(STAGED)
    for path in (played.root, *played.root.rglob("*")):
        if not path.is_socket():
            wanted = 0o700 if path.is_dir() else 0o600
            assert path.stat().st_mode & 0o777 == wanted, path
