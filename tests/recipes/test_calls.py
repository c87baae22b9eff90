"""Language §4: calls across dialects, and what a file gives in the end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.recipes.fakes import Workshop, recipe, rule

DONE = '{"outcome": "complete"}'
HEAD = "id: {id}\nlabel: L\ndescription: D\n"
STEP = """\
  {name}:
    prompt: "STEP:{name} {more}"
    outcomes: [complete, other]
    onOutcome:
      complete: {target}
      other: {{action: exit, reason: gave-up, status: failed}}
"""


def machine(body: str, name: str = "m") -> str:
    return HEAD.format(id=name) + body


# Each gives its input back, with what its agent said.
LEAVES = {
    "machine": machine(
        "inputs: {word: {description: A word}, times: 1}\n"
        'outputs: {said: "{{word}} x{{times}}", times: "{{times}}", by: "{{steps.ask.outcome}}"}\n'
        "initialStep: ask\nsteps:\n"
        + STEP.format(name="ask", more="{{word}}", target="{action: exit, reason: fine}")
    ),
    "recipe": recipe("""
        inputs: {word: {description: A word}, times: 1}
        outputs: {said: "{{word}} x{{times}}", times: "{{times}}", by: "{{answer}}"}
        steps: [{id: ask, agent: helper, prompt: "STEP:ask {{word}}", output: answer}]
    """),
    "workflow": """
        version: "1.4"
        name: leaf
        inputs: {word: {description: A word}, times: 1}
        outputs: {said: "${inputs.word} x${inputs.times}", times: "${inputs.times}",
                  by: "${steps.Ask.output}"}
        steps: [{name: Ask, provider: claude, prompt: "STEP:ask ${inputs.word}"}]
    """,
}
CALLERS = {
    "machine": machine(
        'outputs: {got: "{{steps.call.outputs.said}}", how: "{{steps.call.reason}}",\n'
        '          times: "{{steps.call.outputs.times}}"}\n'
        "initialStep: call\nsteps:\n  call:\n    call: leaf.yaml\n"
        "    with: {word: hello, times: 3}\n    onOutcome:\n"
        "      completed: {nextStep: tell}\n"
        "      failed: {action: exit, reason: call-failed, status: failed}\n"
        + STEP.format(name="tell", more="", target="{action: exit, reason: told}"),
        "caller",
    ),
    "recipe": recipe("""
        outputs: {got: "{{res.outputs.said}}", how: "{{res.reason?}}",
                  times: "{{res.outputs.times}}"}
        steps:
          - {id: call, type: recipe, recipe: leaf.yaml, context: {word: hello, times: 3},
             output: res}
          - {id: tell, agent: helper, prompt: "STEP:tell {{res.outputs.said}}"}
    """),
    "workflow": """
        version: "1.4"
        name: caller
        outputs: {got: "${steps.Call.outputs.said}", how: "${steps.Call.reason}",
                  times: "${steps.Call.outputs.times}"}
        steps:
          - {name: Call, call: leaf.yaml, with: {word: hello, times: 3}}
          - {name: Tell, provider: claude, prompt: "STEP:tell ${steps.Call.outputs.said}"}
    """,
}
PAIRS = [(caller, leaf) for caller in CALLERS for leaf in LEAVES]


def outputs(shop: Workshop) -> dict[str, Any]:
    found: dict[str, Any] = shop.run("status", "--json").json()["outputs"]
    return found


@pytest.mark.parametrize(("caller", "leaf"), PAIRS)
def test_l4_any_dialect_calls_any_other(shop: Workshop, caller: str, leaf: str) -> None:
    shop.answers(rule("STEP", DONE))
    shop.write("leaf.yaml", LEAVES[leaf])
    shop.write("r.yaml", CALLERS[caller])
    shop.run("validate", "--strict", "r.yaml").assert_success()
    answer = shop.run("run", "r.yaml", "--json").assert_success().json()
    assert shop.asked() == ["ask", "tell"]
    assert "hello" in shop.prompt("ask")
    reason = {"machine": "fine", "recipe": "completed", "workflow": "completed"}[leaf]
    if (caller, leaf) == ("recipe", "recipe"):
        reason = ""  # B: the final context, with the outputs beside it
    assert answer["outputs"] == {"got": "hello x3", "how": reason, "times": 3}
    assert outputs(shop) == answer["outputs"]
    state = json.loads((shop.latest / "state.json").read_text())
    assert state["outputs"] == answer["outputs"]
    report = shop.run("report").assert_success().stdout
    assert "hello x3" in report
    asked = "Ask" if leaf == "workflow" else "ask"
    call = next(iter(state["steps"]))
    shown = shop.run("status", "--json").assert_success().json()["steps"][call]["steps"]
    assert shown[asked]["status"] == "completed"
    text = shop.run("status").assert_success().stdout
    assert f"\n      {asked}  completed" in text


@pytest.mark.parametrize("caller", list(CALLERS))
def test_l4_a_called_machine_has_a_session_of_its_own(shop: Workshop, caller: str) -> None:
    shop.answers(rule("STEP", DONE))
    leaf = machine(
        "inputs: {word: '', times: 1}\noutputs: {said: '', times: 1}\n"
        "initialStep: ask\nsteps:\n"
        + STEP.format(name="ask", more="", target="{nextStep: again}")
        + STEP.format(name="again", more="", target="{action: exit, reason: fine}")
    )
    shop.write("leaf.yaml", leaf)
    shop.play(CALLERS[caller])
    ask, again, tell = shop.calls()
    first = ask.flag("--session-id")
    assert first is not None
    assert again.flag("--resume") == first
    assert tell.flag("--session-id") not in (None, first)
    assert tell.flag("--resume") is None


FAILING = machine(
    "initialStep: ask\nsteps:\n"
    + STEP.format(name="ask", more="", target="{action: exit, reason: no-luck, status: failed}")
)


@pytest.mark.parametrize("leaf", ["machine", "recipe", "workflow"])
def test_l4_a_call_that_failed_is_an_outcome_of_the_machine(shop: Workshop, leaf: str) -> None:
    bad = {
        "machine": FAILING,
        "recipe": recipe('steps: [{id: a, agent: helper, prompt: "STEP:bad"}]'),
        "workflow": 'version: "1.4"\nname: w\nsteps: [{name: A, command: ["false"]}]\n',
    }
    shop.answers(rule("STEP:bad", fail="auth"), rule("STEP", DONE))
    shop.write("leaf.yaml", bad[leaf])
    text = machine(
        "initialStep: call\nsteps:\n  call:\n    call: leaf.yaml\n    onOutcome:\n"
        "      completed: {action: exit, reason: fine}\n      failed: {nextStep: tell}\n"
        + STEP.format(name="tell", more="", target="{action: exit, reason: told}"),
        "caller",
    )
    played = shop.play(text)
    assert played.state["reason"] == "told"
    assert played.state["steps"]["call"]["outcome"] == "failed"


def test_l4_the_reason_of_the_called_machine_is_an_outcome_where_declared(shop: Workshop) -> None:
    shop.answers(rule("STEP", DONE))
    shop.write("leaf.yaml", FAILING)
    text = machine(
        "initialStep: call\nsteps:\n  call:\n    call: leaf.yaml\n"
        "    outcomes: [completed, failed, no-luck]\n    onOutcome:\n"
        "      completed: {action: exit, reason: fine}\n"
        "      failed: {action: exit, reason: bad}\n"
        "      no-luck: {action: exit, reason: unlucky}\n",
        "caller",
    )
    played = shop.play(text)
    assert played.state["reason"] == "unlucky"


def test_l4_a_call_that_never_began_has_a_result_too(shop: Workshop) -> None:
    """What it is given turns out not to fit: known only when the call is reached."""
    shop.write("leaf.yaml", LEAVES["workflow"])
    step = "call: leaf.yaml\n    with: {word: x, times: '{{steps.say.output}}'}"
    text = machine(
        "initialStep: say\nsteps:\n  say:\n    command: [printf, many]\n    onOutcome:\n"
        "      passed: {nextStep: call}\n      failed: {action: exit, reason: bad}\n"
        f"  call:\n    {step}\n    onOutcome:\n"
        "      completed: {action: exit, reason: fine}\n      failed: {nextStep: tell}\n"
        "  tell:\n    command: [echo, '{{steps.call.outcome}}: {{steps.call.reason}}']\n"
        "    onOutcome:\n      passed: {action: exit, reason: told}\n"
        "      failed: {action: exit, reason: untold, status: failed}\n",
        "caller",
    )
    played = shop.play(text)
    told = "failed: leaf.yaml: the input 'times': 'many' is not a whole number"
    assert played.state["steps"]["tell"]["output"].strip() == told
    flow = """
        version: "1.4"
        name: caller
        steps:
          - {name: Say, command: [printf, many]}
          - name: Call
            call: leaf.yaml
            with: {word: x, times: "${steps.Say.output}"}
            on: {failure: {goto: Tell}}
          - {name: Tell, command: [echo, "${steps.Call.status}: ${steps.Call.reason}"]}
    """
    played = shop.play(flow)
    assert played.state["steps"]["Tell"]["output"] == f"{told}\n"


@pytest.mark.parametrize("caller", ["recipe", "workflow"])
def test_l4_a_call_that_failed_ends_the_caller_and_resume_goes_on_inside(
    shop: Workshop, caller: str
) -> None:
    shop.answers(rule("STEP:ask", '{"outcome": "other", "otherDescription": "no"}', DONE),
                 rule("STEP", DONE))  # fmt: skip
    shop.write("leaf.yaml", LEAVES["machine"])
    played = shop.play(CALLERS[caller], exit_code=1)
    assert played.state["status"] == "failed"
    assert "gave-up" in played.state["reason"]
    shop.go_on()
    assert shop.asked() == ["ask", "ask", "tell"]


def test_l4_a_gate_inside_of_a_called_file_parks_the_caller(shop: Workshop) -> None:
    leaf = recipe("""
        outputs: {said: "{{approval.message}}", times: 1}
        inputs: {word: "", times: 1}
        stages:
          - name: ask
            steps: [{id: a, agent: helper, prompt: "STEP:a"}]
            approval: {required: true, prompt: "Go on?"}
          - {name: then, steps: [{id: b, agent: helper, prompt: "STEP:b"}]}
    """)
    shop.answers(rule("STEP", DONE))
    shop.write("leaf.yaml", leaf)
    for caller in ("machine", "workflow"):
        shop.play(CALLERS[caller], exit_code=6)
        shop.run("approve", "latest", "--message", "yes").assert_success()
        shop.go_on()
        assert outputs(shop)["got"] == "yes"
    shop.play(CALLERS["machine"], exit_code=6)
    shop.run("deny", "latest").assert_exit(0)
    assert shop.run("resume", "latest").exit_code == 1


AGAIN = machine(
    "inputs: {word: '', times: 1}\noutputs: {said: '{{word}}', times: '{{times}}'}\n"
    "initialStep: ask\nsteps:\n"
    "  ask:\n    prompt: 'STEP:ask {{word}}'\n    outcomes: [again, complete, other]\n"
    "    onOutcome:\n      again: {action: restart-new-session, recipeId: m}\n"
    "      complete: {action: exit, reason: fine}\n"
    "      other: {action: exit, reason: gave-up}\n"
)


@pytest.mark.parametrize("caller", list(CALLERS))
def test_l4_a_restart_inside_of_a_call_begins_the_call_anew(shop: Workshop, caller: str) -> None:
    shop.answers(rule("STEP:ask", '{"outcome": "again"}', DONE), rule("STEP", DONE))
    shop.write("leaf.yaml", AGAIN)
    shop.play(CALLERS[caller])
    assert outputs(shop) | {"how": ""} == {"got": "hello", "times": 3, "how": ""}
    first, second, _ = shop.calls()
    assert "hello" in second.text
    assert second.flag("--session-id") not in (None, first.flag("--session-id"))


def test_l4_restarts_inside_of_a_call_are_bounded(shop: Workshop) -> None:
    shop.answers(rule("STEP", '{"outcome": "again"}'))
    shop.write("leaf.yaml", AGAIN)
    played = shop.play(CALLERS["machine"], "--max-restarts", "2", exit_code=3)
    assert played.state["reason"] == "max-restarts-exceeded:2"
    assert len(shop.calls()) == 3


def test_l4_the_callee_sees_only_what_it_is_given(shop: Workshop) -> None:
    shop.write(
        "leaf.yaml", recipe('steps: [{id: a, agent: helper, prompt: "STEP:a {{secret_word}}"}]')
    )
    refused = shop.refuse(
        'version: "1.4"\nname: w\ncontext: {secret_word: x}\n'
        "steps: [{name: Call, call: leaf.yaml}]\n",
        exit_code=2,
    )
    assert "secret_word" in refused.stderr


def test_l4_calls_of_calls_have_a_limit(shop: Workshop) -> None:
    text = machine(
        "initialStep: call\nsteps:\n  call:\n    call: r.yaml\n    onOutcome:\n"
        "      completed: {action: exit, reason: fine}\n"
        "      failed: {action: exit, reason: too-deep, status: failed}\n"
    )
    shop.write("r.yaml", text)
    warned = shop.run("validate", "r.yaml").assert_success()
    assert "W301" in warned.stdout + warned.stderr
    played = shop.play(text, exit_code=1)
    assert "too-deep" in played.state["reason"]


def test_l4_an_id_can_be_called(shop: Workshop) -> None:
    shop.write("workflows/leaf.yaml", LEAVES["workflow"])
    shop.answers(rule("STEP", DONE))
    text = CALLERS["machine"].replace("call: leaf.yaml", "call: leaf")
    shop.play(text)
    assert outputs(shop)["got"] == "hello x3"


@pytest.mark.parametrize("dialect", list(CALLERS))
def test_l4_an_output_without_a_value_is_left_out_and_named(shop: Workshop, dialect: str) -> None:
    texts = {
        "machine": machine(
            'outputs: {a: "{{steps.never.output}}", b: "{{steps.never.output?}}"}\n'
            "initialStep: one\nsteps:\n"
            + STEP.format(name="one", more="", target="{action: exit, reason: fine}")
            + STEP.format(name="never", more="", target="{nextStep: one}")
        ),
        "recipe": recipe("""
            outputs: {a: "{{x}}", b: "{{x?}}"}
            context: {go: no}
            steps:
              - {id: one, agent: helper, prompt: "STEP:one"}
              - {id: off, condition: "{{go}} == 'yes'", agent: helper, prompt: "STEP:o", output: x}
        """),
        "workflow": """
            version: "1.4"
            name: w
            outputs: {a: "${steps.Off.output}", b: done}
            steps:
              - {name: One, command: [echo, hi]}
              - name: Off
                command: [echo, hi]
                when: {equals: {left: "${steps.One.output}", right: x}}
        """,
    }
    shop.answers(rule("STEP", DONE))
    played = shop.play(texts[dialect])
    assert list(played.state["outputs"]) == ["b"]
    assert list(played.state["outputs_undefined"]) == ["a"]
    assert "output 'a' has no value" in played.result.stderr


def test_l4_a_secret_is_not_handed_over(shop: Workshop) -> None:
    shop.write("leaf.yaml", LEAVES["recipe"])
    text = """
        version: "1.4"
        name: w
        inputs: {token: {secret: true}}
        steps: [{name: Call, call: leaf.yaml, with: {word: "${inputs.token}"}}]
    """
    played = shop.play(text, exit_code=1, env={"ORCHESTRATE_INPUT_TOKEN": "very-secret-value"})
    assert "holds a secret" in played.step("Call")["error"]["message"]
    assert shop.asked() == []


def test_l4_a_call_waits_no_longer_than_its_timeout(shop: Workshop) -> None:
    shop.answers(rule("STEP:ask", {"text": DONE, "delay": 20}), rule("STEP", DONE))
    shop.write("leaf.yaml", LEAVES["recipe"])
    text = CALLERS["machine"].replace("    with:", "    timeout: 0.5\n    with:")
    played = shop.play(text, exit_code=1)
    assert played.state["reason"] == "call-failed"


@pytest.mark.parametrize(("caller", "leaf"), PAIRS)
def test_l6_calls_are_rehearsed(shop: Workshop, caller: str, leaf: str) -> None:
    shop.write("leaf.yaml", LEAVES[leaf])
    played = shop.play(CALLERS[caller], "--backend", "rehearsal")
    assert played.state["outputs"]["got"] == "hello x3"
    assert shop.asked() == []


@pytest.mark.parametrize("leaf", list(LEAVES))
def test_l4_a_recipe_works_out_which_file_of_any_dialect_it_calls(
    shop: Workshop, leaf: str
) -> None:
    shop.answers(rule("STEP", DONE))
    shop.write("leaf.yaml", LEAVES[leaf])
    text = recipe("""
        context: {which: leaf}
        outputs: {got: "{{res.outputs.said}}"}
        steps:
          - {id: call, type: recipe, recipe: "{{which}}.yaml", context: {%s}, output: res}
    """)
    assert shop.play(text % "word: hi").state["outputs"] == {"got": "hi x1"}
    failed = shop.play(text % "times: 2", exit_code=1)
    assert "is not given its input 'word'" in failed.message("call")


def test_l4_a_dry_run_and_a_plan_show_calls_and_outputs(shop: Workshop) -> None:
    shop.write("leaf.yaml", LEAVES["recipe"])
    shop.write("r.yaml", CALLERS["machine"])
    dry = shop.run("run", "r.yaml", "--dry-run").assert_success().stdout
    assert "Outputs:" in dry
    assert "word: given by what calls this" in dry
    plan = shop.run("plan", "r.yaml", "--format", "text").assert_success().stdout
    assert "call leaf.yaml, for its outputs" in plan
    assert "outcomes: completed, failed" in plan


def test_l4_a_workflow_that_calls_a_machine_takes_the_flags_of_its_agent(shop: Workshop) -> None:
    shop.answers(rule("STEP", DONE))
    shop.write("leaf.yaml", LEAVES["machine"])
    shop.play(CALLERS["workflow"], "--backend", "claude-code", "--model", "opus")
    assert [call.model for call in shop.calls("ask")] == ["opus"]
    shop.write("leaf.yaml", LEAVES["workflow"])
    shop.run("run", "r.yaml", "--backend", "codex").assert_exit(2)


def test_l4_events_of_a_called_step_are_not_taken_for_those_of_the_machine(shop: Workshop) -> None:
    """A step of the called file may have the name of one of the caller's."""
    shop.answers(rule("STEP:call", '{"outcome": "completed"}'), rule("STEP", DONE))
    leaf = LEAVES["machine"].replace("ask", "call").replace("complete", "completed")
    shop.write("leaf.yaml", leaf)
    shop.write("r.yaml", CALLERS["machine"])
    said = shop.run("run", "r.yaml", "--events").assert_success().stdout
    events = [json.loads(line) for line in said.splitlines()]
    moves = [event for event in events if "recipe_step_transition" in json.dumps(event)]
    assert [(event["from_step"], event["to_step"]) for event in moves] == [("call", "tell")]
    begun = [event["step"] for event in events if "recipe_step_started" in event["messages"]]
    assert begun == ["call", "tell"]
    assert "call/call" in {event.get("step") for event in events}
