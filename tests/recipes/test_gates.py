"""Gates: a stage waits for a person, and what was decided once stays decided."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import TimePasses
from tests.recipes.fakes import Workshop, recipe, rule

GATED = recipe("""
    context: {target: prod}
    stages:
      - name: planning
        steps:
          - {id: analyze, agent: helper, prompt: "STEP:analyze", output: findings}
        approval:
          required: true
          prompt: |
            Ready for {{target}}:
            {{findings}}
      - name: "Phase 2: doing"
        steps:
          - {id: execute, agent: helper, prompt: "STEP:execute [{{approval.message}}]"}
""")


def park(shop: Workshop, text: str = GATED) -> str:
    """Run up to the gate; the id of the run."""
    return shop.play(text, rules=(rule("STEP:analyze", "two issues"),), exit_code=6).run_id


def test_b_gate_pauses_after_its_stage_and_parks_with_exit_6(shop: Workshop) -> None:
    played = shop.play(GATED, rules=(rule("STEP:analyze", "two issues"),), exit_code=6)
    assert shop.asked() == ["analyze"]
    assert played.state["status"] == "paused"
    assert "'planning'" in played.state["reason"]
    assert played.stages() == {"planning": "paused", "Phase 2: doing": "pending"}
    (gate,) = played.state["approvals"]
    assert gate["stage"] == "planning"
    assert gate["status"] == "pending"
    assert gate["prompt"] == "Ready for prod:\ntwo issues\n"
    assert (gate["default"], gate["expires_at"]) == ("deny", None)
    said = played.result.stderr
    assert f"orchestrate approve {played.run_id}" in said
    assert f"orchestrate deny {played.run_id}" in said


def test_b_gate_approved_and_resumed_goes_on(shop: Workshop) -> None:
    run_id = park(shop)
    said = shop.run("approve", run_id, "planning", "--message", "do it").assert_success()
    assert f"orchestrate resume {run_id}" in said.stdout
    assert shop.asked() == ["analyze"], "approve must not run anything"
    played = shop.go_on("resume", run_id)
    assert shop.asked() == ["analyze", "execute"]
    assert shop.prompt("execute") == "STEP:execute [do it]"
    assert played.stages() == {"planning": "completed", "Phase 2: doing": "completed"}
    (gate,) = played.state["approvals"]
    assert (gate["status"], gate["message"]) == ("approved", "do it")
    assert gate["decided_by"]
    assert gate["decided_at"] >= gate["requested_at"]


def test_b_gate_finished_stages_do_not_run_again(shop: Workshop) -> None:
    """One of the five failures. Here over several gates, resumes and a failing step."""
    text = recipe("""
        stages:
          - name: one
            steps: [{id: a, agent: helper, prompt: "STEP:a"}, {id: b, agent: helper,
                     prompt: "STEP:b"}]
            approval: {required: true, prompt: "Go on?"}
          - name: two
            steps: [{id: c, agent: helper, prompt: "STEP:c"}]
            approval: {required: true, prompt: "Go on?"}
          - name: three
            steps: [{id: d, agent: helper, prompt: "STEP:d"}, {id: e, agent: helper,
                     prompt: "STEP:e"}]
    """)
    shop.play(text, rules=(rule("STEP:e", {"fail": "crash"}, "ok"),), exit_code=6)
    shop.go_on(exit_code=6)
    shop.run("approve", "latest", "one").assert_success()
    shop.go_on(exit_code=6)
    shop.go_on(exit_code=6)
    shop.run("approve", "latest", "two").assert_success()
    shop.go_on(exit_code=1)
    played = shop.go_on()
    assert shop.asked() == ["a", "b", "c", "d", "e", "e"]
    assert [gate["status"] for gate in played.state["approvals"]] == ["approved", "approved"]
    shop.go_on()
    assert shop.asked() == ["a", "b", "c", "d", "e", "e"]


def test_b_gate_denied_cannot_be_resumed_past(shop: Workshop) -> None:
    """One of the five failures: a denial is final, whatever is tried."""
    run_id = park(shop)
    shop.run("deny", run_id, "planning", "--message", "too risky").assert_success()
    for attempt in (
        ("resume", run_id),
        ("resume", run_id, "--repair"),
        ("resume", run_id, "--max-parallel", "2"),
    ):
        said = shop.run(*attempt).assert_exit(1)
        assert "denied" in said.stdout + said.stderr
    said = shop.run("approve", run_id, "planning").assert_exit(2)
    assert "denied" in said.stderr
    shop.run("resume", run_id).assert_exit(1)
    played = shop.look(said)
    assert shop.asked() == ["analyze"]
    assert played.state["status"] == "failed"
    assert played.stages()["Phase 2: doing"] == "pending"
    (gate,) = played.state["approvals"]
    assert (gate["status"], gate["message"]) == ("denied", "too risky")


def test_b_gate_denial_is_told_by_resume_json_too(shop: Workshop) -> None:
    run_id = park(shop)
    shop.run("deny", run_id).assert_success()
    said = shop.run("resume", run_id, "--json").assert_exit(1).json()
    assert said["status"] == "failed"
    assert "denied" in said["message"]


def test_b_gate_resume_without_a_decision_parks_again(shop: Workshop) -> None:
    park(shop)
    shop.go_on(exit_code=6)
    played = shop.go_on(exit_code=6)
    assert played.state["status"] == "paused"
    assert "orchestrate approve" in played.result.stderr
    assert len(played.state["approvals"]) == 1
    assert shop.asked() == ["analyze"]


def test_r8_8_a_message_is_available_later_and_empty_when_none_was_given(shop: Workshop) -> None:
    park(shop)
    shop.run("approve", "latest").assert_success()
    shop.go_on()
    assert shop.prompt("execute") == "STEP:execute []"


def test_r8_8_a_message_is_the_last_approvals(shop: Workshop) -> None:
    text = recipe("""
        stages:
          - name: one
            steps: [{id: a, agent: helper, prompt: "STEP:a [{{approval.message?}}]"}]
            approval: {required: true, prompt: "First?"}
          - name: two
            steps: [{id: b, agent: helper, prompt: "STEP:b [{{approval.message}}]"}]
            approval: {required: true, prompt: "After {{approval.message}}?"}
          - name: three
            steps: [{id: c, agent: helper, prompt: "STEP:c [{{approval.message}}]"}]
    """)
    shop.play(text, exit_code=6)
    shop.run("approve", "latest", "--message", "1st {{x}}").assert_success()
    played = shop.go_on(exit_code=6)
    assert played.state["approvals"][1]["prompt"] == "After 1st {{x}}?"
    shop.run("approve", "latest", "--message", "2nd").assert_success()
    shop.go_on()
    assert [call.text for call in shop.calls()] == [
        "STEP:a []",
        "STEP:b [1st {{x}}]",
        "STEP:c [2nd]",
    ]


def test_b_gate_after_the_last_stage_decides_about_the_run(shop: Workshop) -> None:
    text = recipe("""
        stages:
          - name: only
            steps: [{id: a, agent: helper, prompt: "STEP:a"}]
            approval: {required: true, prompt: "Good?"}
    """)
    shop.play(text, exit_code=6)
    shop.run("approve", "latest").assert_success()
    assert shop.go_on().state["status"] == "completed"
    shop.play(text, exit_code=6)
    shop.run("deny", "latest").assert_success()
    assert shop.go_on("resume", "latest", exit_code=1).state["status"] == "failed"


def test_b_gate_shows_its_values_safely(shop: Workshop) -> None:
    """Control characters of an agent's answer never reach a terminal raw."""
    shop.answers(rule("STEP:analyze", "red \x1b[31mALERT\x1b[0m \x07"))
    shop.write("r.yaml", GATED)
    shop.run("run", "r.yaml").assert_exit(6)
    shown = shop.run("approvals").assert_success().stdout
    assert "ALERT" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_b_gate_a_variable_that_was_not_set_in_its_prompt_fails_the_run(shop: Workshop) -> None:
    text = GATED.replace("output: findings", "output: findings, on_error: continue")
    assert text != GATED
    played = shop.play(text, rules=(rule("STEP:analyze", fail="crash"),), exit_code=1)
    assert played.state["status"] == "failed"
    assert "{{findings}}" in played.result.stderr
    assert shop.asked() == ["analyze"]
    assert not [gate for gate in played.state["approvals"] if gate["status"] == "approved"]


# Timeouts: applied by whoever looks next.

TIMED = """
    stages:
      - name: one
        steps: [{{id: a, agent: helper, prompt: "STEP:a"}}]
        approval: {{required: true, prompt: "Go on?", timeout: 3600, default: {default}}}
      - name: two
        steps: [{{id: b, agent: helper, prompt: "STEP:b"}}]
"""


@pytest.fixture
def expired(shop: Workshop, time_passes: TimePasses) -> Callable[[str], None]:
    """A run that was parked an hour ago, with a default for then."""

    def park_and_let_expire(default: str) -> None:
        shop.play(recipe(TIMED.format(default=default)), exit_code=6)
        time_passes(3601)

    return park_and_let_expire


def test_b_gate_timeout_applies_deny_by_default(shop: Workshop, time_passes: TimePasses) -> None:
    text = recipe(TIMED.format(default="deny")).replace(", default: deny", "")
    shop.play(text, exit_code=6)
    time_passes(3601)
    played = shop.go_on(exit_code=1)
    (gate,) = played.state["approvals"]
    assert (gate["status"], gate["decided_by"]) == ("denied", "timeout")
    assert shop.asked() == ["a"]
    shop.go_on(exit_code=1)
    assert shop.asked() == ["a"]


def test_b_gate_timeout_applies_approve_where_that_is_the_default(
    shop: Workshop, expired: Callable[[str], None]
) -> None:
    expired("approve")
    played = shop.go_on()
    (gate,) = played.state["approvals"]
    assert (gate["status"], gate["decided_by"]) == ("approved", "timeout")
    assert shop.asked() == ["a", "b"]


@pytest.mark.parametrize("default", ["deny", "approve"])
def test_b_gate_approve_after_the_timeout_is_too_late(
    shop: Workshop, expired: Callable[[str], None], default: str
) -> None:
    expired(default)
    verb = "approve" if default == "deny" else "deny"
    said = shop.run(verb, "latest", "one").assert_exit(2)
    assert "expired" in said.stderr
    (gate,) = shop.look(said).state["approvals"]
    wanted = "denied" if default == "deny" else "approved"
    assert (gate["status"], gate["decided_by"]) == (wanted, "timeout")
    shop.go_on(exit_code=1 if default == "deny" else 0)


@pytest.mark.parametrize("look", [("status", "latest"), ("approvals",)])
def test_r8_8_the_timeout_is_applied_by_who_looks_next(
    shop: Workshop, expired: Callable[[str], None], look: tuple[str, ...]
) -> None:
    expired("deny")
    said = shop.run(*look).assert_success()
    (gate,) = shop.look(said).state["approvals"]
    assert (gate["status"], gate["decided_by"]) == ("denied", "timeout")


def test_b_gate_timeout_zero_waits_for_ever(shop: Workshop, time_passes: TimePasses) -> None:
    text = recipe(TIMED.format(default="deny")).replace("timeout: 3600", "timeout: 0")
    played = shop.play(text, exit_code=6)
    (gate,) = played.state["approvals"]
    assert gate["expires_at"] is None
    time_passes(10 * 365 * 24 * 3600)
    shop.run("approve", "latest").assert_success()
    shop.go_on()
    assert shop.asked() == ["a", "b"]


def test_b_list_pending_approvals(shop: Workshop) -> None:
    assert "othing" in shop.run("approvals").assert_success().stdout
    first = park(shop)
    second = park(shop)
    shown = shop.run("approvals").assert_success().stdout
    for run_id in (first, second):
        assert run_id in shown
    assert "Ready for prod:" in shown
    assert "two issues" in shown
    listed = shop.run("approvals", "--json").assert_success().json()
    assert [gate["stage"] for gate in listed["approvals"]] == ["planning", "planning"]
    assert [gate["name"] for gate in listed["approvals"]] == ["planning", "planning"]
    shop.run("approve", first).assert_success()
    assert first not in shop.run("approvals").assert_success().stdout
