"""`check` and `produces` on agent steps of recipes and workflows (language §3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.recipes.fakes import Played, Workshop, recipe, rule
from tests.recipes.test_named_sessions import session
from tests.recipes.test_resume import kill_all

CHECK = "echo seen; echo bad >&2; echo x >> tries; test $(wc -l < tries) -gt NEEDED"
DIALECTS = {
    "recipe": """
        name: build
        description: Build and prove it
        version: 1.0.0
        steps:
          - id: Build
            agent: helper
            prompt: "STEP:build"
            output: built
            check: {command: "CHECK", rounds: 2}
            MORE
          - {id: Tell, agent: helper, prompt: "STEP:tell {{built?}}"}
        """,
    "workflow": """
        version: "1.4"
        name: build
        steps:
          - name: Build
            provider: claude
            prompt: "STEP:build"
            check: {command: "CHECK", rounds: 2}
            MORE
          - {name: Tell, provider: claude, prompt: "STEP:tell ${steps.Build.output}"}
        """,
}
TOLD = (
    rule("STEP:tell", "told"),
    rule("STEP:build", "first"),
    rule("the check failed", "second", "third", "fourth"),
)


def build(shop: Workshop, dialect: str, needed: int, more: str = "", exit_code: int = 0) -> Played:
    text = DIALECTS[dialect].replace("CHECK", CHECK.replace("NEEDED", str(needed)))
    shop.answers(*TOLD)
    shop.write("r.yaml", text.replace("MORE", more))
    return shop.look(shop.run("run", "r.yaml").assert_exit(exit_code))


def prompts(shop: Workshop) -> list[str]:
    return [call.text for call in shop.calls()]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("needed", [0, 1, 2])
def test_15_3_rounds_in_one_session(shop: Workshop, dialect: str, needed: int) -> None:
    played = build(shop, dialect, needed)
    *rounds, tell = shop.calls()
    assert len(rounds) == needed + 1
    begun = session(rounds[0])
    assert begun[0] == "new"
    assert [session(call) for call in rounds[1:]] == [("again", begun[1])] * needed
    assert session(tell)[0] == "new"
    assert ["first", "second", "third"][needed] in tell.text
    for call in rounds[1:]:
        assert "Command failed with exit code 1" in call.text
        assert "seen\nbad" in call.text
        assert "STEP:build" not in call.text
    assert played.step("Build")["status"] == "completed"
    assert played.step("Build")["output"] == ["first", "second", "third"][needed]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_15_3_after_the_last_round_the_step_fails(shop: Workshop, dialect: str) -> None:
    played = build(shop, dialect, 99, exit_code=1)
    assert [call.marker for call in shop.calls()] == ["build", "", ""]
    step = played.step("Build")
    assert (step["status"], step["exit_code"]) == ("failed", 1)
    assert played.state["reason"] == "step 'Build' failed"
    # Mended by hand, the check alone is run again, and the step has its answer.
    (shop.folder / "tries").write_text("x\n" * 200)
    shop.go_on()
    assert "third" in prompts(shop)[-1]


@pytest.mark.parametrize(
    ("dialect", "more"),
    [("recipe", "on_error: continue"), ("workflow", "on: {failure: {goto: Tell}}")],
)
def test_15_3_a_failed_check_is_a_failed_step(shop: Workshop, dialect: str, more: str) -> None:
    """Its output is none in a recipe; in a workflow it is what the step's program said."""
    played = build(shop, dialect, 99, more)
    assert played.state["status"] == "completed"
    assert played.step("Build")["status"] == "failed"
    assert prompts(shop)[-1] == ("STEP:tell " if dialect == "recipe" else "STEP:tell third")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_15_3_files_must_be_there(shop: Workshop, dialect: str) -> None:
    played = build(shop, dialect, 0, "produces: [made.txt]", exit_code=1)
    assert "produces: required file is missing: made.txt" in prompts(shop)[1]
    assert "required file is missing" in played.message("Build")
    assert not (shop.folder / "tries").exists()
    dry = shop.run("run", "r.yaml", "--dry-run").assert_success().stdout
    assert "Check: file made.txt; command " in dry
    assert "(at most 2 rounds)" in dry
    assert "round-1" not in dry
    assert "(2 steps)" in shop.run("validate", "r.yaml").assert_success().stdout


@pytest.mark.parametrize("dialect", DIALECTS)
def test_15_3_an_agent_that_fails_in_a_round_fails_the_step(shop: Workshop, dialect: str) -> None:
    text = DIALECTS[dialect].replace("CHECK", CHECK.replace("NEEDED", "1")).replace("MORE", "")
    shop.write("r.yaml", text)
    shop.answers(TOLD[0], TOLD[1], rule("the check failed", {"fail": "auth"}))
    played = shop.look(shop.run("run", "r.yaml").assert_exit(1))
    assert played.step("Build")["status"] == "failed"
    shop.answers(*TOLD)
    played = shop.go_on()
    first, failed, again, _ = shop.calls()
    assert session(failed) == session(again) == ("again", session(first)[1])
    assert played.step("Build")["status"] == "completed"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_15_3_a_named_session_is_used_for_rounds(shop: Workshop, dialect: str) -> None:
    build(shop, dialect, 1, "session: s")
    first, second, _ = shop.calls()
    assert session(second) == ("again", session(first)[1])


def test_15_3_each_visit_has_a_session_of_its_own(shop: Workshop) -> None:
    """One item after another, at once, and rounds of a loop."""
    for parallel in (False, 2):
        (shop.fake / "ledger").unlink(missing_ok=True)
        text = recipe(f"""
            context: {{items: [a, b]}}
            steps:
              - id: each
                foreach: "{{{{items}}}}"
                parallel: {json.dumps(parallel)}
                agent: helper
                prompt: "STEP:{{{{item}}}}"
                check: {{command: [test, -e, "made-{{{{item}}}}"]}}
                collect: all
        """)
        for made in shop.folder.glob("made-*"):
            made.unlink()
        mended = [
            rule(f"made-{name}", {"text": name, "run": ["touch", f"made-{name}"]}) for name in "ab"
        ]
        played = shop.play(text, rules=tuple(mended))
        assert played.context["all"] == ["a", "b"]
        begun = {call.marker: session(call) for call in shop.calls() if call.marker}
        assert {kind for kind, _ in begun.values()} == {"new"}
        assert begun["a"][1] != begun["b"][1]
        rounds = [session(call)[1] for call in shop.calls() if not call.marker]
        assert sorted(rounds) == sorted(session_id for _, session_id in begun.values())


def test_15_3_a_goto_back_begins_a_new_session(shop: Workshop) -> None:
    text = """
        version: "1.4"
        name: twice
        steps:
          - {name: Build, provider: claude, prompt: "STEP:build",
             check: {command: "echo x >> tries; test $(wc -l < tries) -gt 1"}}
          - {name: Again, command: ["bash", "-c", "echo x >> again; test $(wc -l < again) -gt 1"],
             on: {failure: {goto: Build}}}
        """
    shop.write("r.yaml", text)
    shop.run("run", "r.yaml").assert_success()
    first, mended, second = map(session, shop.calls())
    assert mended == ("again", first[1])
    assert second[0] == "new"
    assert second[1] != first[1]


def test_15_3_a_provider_without_sessions_is_told_the_task_again(shop: Workshop) -> None:
    text = """
        version: "1.4"
        name: declared
        providers:
          echo:
            command: ["bash", "-c", "cat >> told; echo ---- >> told; echo x"]
            input_mode: stdin
        steps:
          - name: Build
            provider: echo
            input_file: task.md
            depends_on: {required: [notes.md], inject: true}
            check: {command: "test $(grep -c -- ---- told) -gt 1"}
        """
    shop.write("r.yaml", text)
    shop.write("task.md", "The task of ${nobody}.\n")
    shop.write("notes.md", "")
    shop.run("run", "r.yaml").assert_success()
    first, second, _ = (shop.folder / "told").read_text().split("----\n")
    assert first.endswith("The task of ${nobody}.\n")
    assert second.startswith(first)
    assert "the check failed" in second


def test_15_3_a_session_that_is_gone_is_told_the_task_again(shop: Workshop) -> None:
    """A round of a run that was copied has no session to go on in."""
    text = DIALECTS["recipe"].replace("CHECK", CHECK.replace("NEEDED", "1")).replace("MORE", "")
    shop.write("r.yaml", text)
    shop.answers(TOLD[0], TOLD[1], rule("the check failed", {"fail": "auth"}))
    shop.run("run", "r.yaml").assert_exit(1)
    state = shop.latest / "state.json"
    assert '":Build:1"' in state.read_text()
    shop.answers(*TOLD)
    shop.go_on()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_15_6_a_turn_lost_in_a_round_is_asked_again_in_its_session(
    shop: Workshop, dialect: str
) -> None:
    """The keeper and all that it ran are killed while a follow-up is answered, twice over."""
    text = DIALECTS[dialect].replace("CHECK", CHECK.replace("NEEDED", "1")).replace("MORE", "")
    shop.write("r.yaml", text)
    shop.answers(TOLD[0], TOLD[1], rule("the check failed", {"delay": 60}, {"delay": 60}, "second"))
    for number, words in ((1, ("run", "r.yaml")), (2, ("resume", "latest"))):
        with shop.started(*words) as process:
            call = shop.await_calls(1 + number)[-1]
            kill_all(shop, process.pid)
            process.wait(60)
        shop.await_gone([call.pid])
    played = shop.go_on()
    first, *rounds, tell = shop.calls()
    assert [session(call) for call in rounds] == [("again", session(first)[1])] * 3
    assert "was cut off" in rounds[-1].text
    assert rounds[-1].text.endswith(rounds[0].text)
    assert "second" in tell.text
    assert played.step("Build")["status"] == "completed"
    assert (shop.folder / "tries").read_text() == "x\n" * 2


def test_15_3_the_check_may_read_the_answer(shop: Workshop) -> None:
    text = recipe("""
        steps:
          - id: draft
            agent: helper
            prompt: "STEP:draft"
            output: draft
            check: {command: [test, "{{draft}}", "=", good]}
    """)
    rules = (rule("STEP:draft", "bad"), rule("the check failed", "good"))
    assert shop.play(text, rules=rules).context["draft"] == "good"


def test_15_3_step_facts_are_those_of_the_step(shop: Workshop) -> None:
    text = recipe("""
        steps:
          - {id: a, agent: helper, prompt: "STEP:a", check: {command: "true"}}
          - id: b
            agent: helper
            prompt: "STEP:b {{step.index}} {{step.id}}"
            check: {command: "test {{step.index}}{{step.id}} = 1b"}
    """)
    shop.play(text)
    assert shop.prompt("b") == "STEP:b 1 b"


def test_15_5_a_scripts_entries_count_rounds(shop: Workshop) -> None:
    text = DIALECTS["recipe"].replace("CHECK", CHECK.replace("NEEDED", "1")).replace("MORE", "")
    shop.write("r.yaml", text)
    shop.write("s.yaml", "Build: [{text: '\"one\"'}, {text: '\"two\"'}]\n")
    flags = ("--backend", "rehearsal", "--rehearse-commands", "--script", "s.yaml")
    played = shop.look(shop.run("run", "r.yaml", *flags).assert_success())
    assert played.context["built"] == "two"


# Gates of workflows.

GATE = """
    version: "1.4"
    name: ask
    steps:
      - {name: Ask, approval: {prompt: "Commit?", timeout: 24h}MORE}
      - {name: Tell, command: [echo, "${steps.Ask.message} ${steps.Ask.outcome}"]}
    """


def approvals(shop: Workshop) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shop.run("approvals", "--json").json()
    return found


def test_15_4_a_gate_of_a_workflow(shop: Workshop) -> None:
    shop.write("r.yaml", GATE.replace("MORE", ""))
    shop.run("run", "r.yaml").assert_exit(6)
    shop.run("approve", "latest", "Ask", "--message", "be brief").assert_success()
    assert shop.go_on().step("Tell")["output"] == "be brief approved\n"


@pytest.mark.parametrize("flags", [(), ("--on-error", "continue")])
@pytest.mark.parametrize("strict", ["true", "false"])
def test_15_4_a_denied_workflow_ends(shop: Workshop, flags: tuple[str, ...], strict: str) -> None:
    """Whatever becomes of failures: a gate holds."""
    text = GATE.replace("MORE", "").replace("name: ask", f"name: ask\n    strict_flow: {strict}")
    shop.write("r.yaml", text)
    shop.run("run", "r.yaml", *flags).assert_exit(6)
    shop.run("deny", "latest").assert_success()
    played = shop.look(shop.run("resume", "latest").assert_exit(1))
    assert played.state["status"] == "failed"
    assert "Tell" not in played.state["steps"]


def test_15_4_on_failure_takes_a_denial(shop: Workshop) -> None:
    shop.write("r.yaml", GATE.replace("MORE", ", on: {failure: {goto: Tell}}"))
    shop.run("run", "r.yaml").assert_exit(6)
    shop.run("deny", "latest", "--message", "too long").assert_success()
    assert shop.go_on().step("Tell")["output"] == "too long denied\n"


@pytest.mark.parametrize(
    ("given", "ran"), [("sh -c 'echo ran > ran'", True), ("[]", False), ("", False)]
)
def test_15_4_an_input_as_command_of_a_workflow(shop: Workshop, given: str, ran: bool) -> None:
    text = """
        version: "1.4"
        name: ask
        inputs: {check: {type: command, default: []}}
        steps:
          - {name: Test, command: ["${inputs.check}"]}
          - {name: Build, provider: claude, prompt: "STEP:b", check: {command: "${inputs.check}"}}
        """
    shop.write("r.yaml", text)
    shop.run("run", "r.yaml", "-i", f"check={given}").assert_success()
    assert (shop.folder / "ran").exists() == ran
    assert len(shop.calls()) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_logs_give_the_last_answer_and_the_turns_of_all_rounds(
    shop: Workshop, dialect: str
) -> None:
    build(shop, dialect, 2)
    assert shop.run("logs", "latest", "Build", "--stdout").assert_success().stdout == "third\n"
    shown = shop.run("logs", "latest", "Build").assert_success().stdout
    assert shown.index("first") < shown.index("second") < shown.index("third")
    assert shop.run("logs", "latest", "Tell", "--stdout").assert_success().stdout == "told\n"
