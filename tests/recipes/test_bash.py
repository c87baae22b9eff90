"""`type: bash` and `type: approval`: commands and gates as steps of a recipe (language §2, §4)."""

from __future__ import annotations

import json
import time

import pytest

from tests.acceptance.test_hostile_values import PAYLOADS as CORPUS
from tests.recipes.fakes import Workshop, recipe, rule

# What is longer stands beside the state.
PAYLOADS = [payload for payload in CORPUS if len(payload) < 10_000]


def test_15_2_a_command_gives_its_output_and_exit_code(shop: Workshop) -> None:
    """Without the line ends behind it, as `$(…)` gives it, and as long as an agent's."""
    text = recipe("""
        context: {name: world}
        steps:
          - {id: say, type: bash, output: said,
             command: "echo hello {{name}}; echo; echo aside >&2"}
          - {id: many, type: bash, command: [seq, "12000"], output: numbers}
          - {id: fail, type: bash, command: "echo no; exit 7", output: none,
             output_exit_code: code, on_error: continue}
          - {id: tell, agent: helper, prompt: "STEP:tell {{said}}|{{code}}|{{numbers}}"}
    """)
    played = shop.play(text)
    prompt = shop.prompt("tell")
    assert prompt.startswith("STEP:tell hello world|7|1\n2\n")
    assert prompt.endswith("\n12000")
    assert "none" not in played.context
    assert played.context["code"] == 7
    assert played.step("fail")["exit_code"] == 7


@pytest.mark.parametrize(
    ("printed", "value"),
    [('{"a": [1]}', {"a": [1]}), ('see: {"a": 2} there', {"a": 2}), ("[1, 2]", [1, 2])],
)
def test_15_2_parse_json_of_a_command(shop: Workshop, printed: str, value: object) -> None:
    text = recipe(f"""
        context: {{printed: {json.dumps(printed)}}}
        steps:
          - {{id: list, type: bash, command: [printf, "%s", "{{{{printed}}}}"], parse_json: true,
             output: found}}
    """)
    assert shop.play(text).context["found"] == value


def test_15_2_without_json_the_step_fails_and_says_so(shop: Workshop) -> None:
    text = recipe("""
        steps:
          - {id: list, type: bash, command: echo nothing, parse_json: true, output: found}
    """)
    played = shop.play(text, exit_code=1)
    assert "parse_json: what it printed has no JSON" in played.message("list")


def test_15_2_text_stays_text_without_parse_json(shop: Workshop) -> None:
    """A version 1.10 is no number 1.1."""
    text = recipe("steps: [{id: v, type: bash, command: echo 1.10, output: version}]")
    assert shop.play(text).context["version"] == "1.10"


def test_15_2_cwd_and_env_are_filled_in(shop: Workshop) -> None:
    shop.write("packages/one/here", "")
    text = recipe("""
        context: {package: one, level: "a $(touch canary) b"}
        steps:
          - id: look
            type: bash
            command: 'ls; printf "%s" "$LEVEL$NUMBER$YES$NO"'
            cwd: packages/{{package}}
            env: {LEVEL: "{{level}}", NUMBER: 3, YES: true, NO: false}
            output: seen
    """)
    played = shop.play(text)
    assert played.context["seen"] == "here\na $(touch canary) b3truefalse"
    assert played.step("look")["debug"]["cwd"].endswith("/packages/one")
    absolute = text.replace("packages/{{package}}", f"{shop.folder}/packages/one")
    assert shop.play(absolute).context["seen"].startswith("here")


@pytest.mark.parametrize("folder", ["..", "/", "nowhere", "link", "r.yaml"])
def test_15_2_cwd_stays_in_the_workspace(shop: Workshop, folder: str) -> None:
    (shop.folder / "link").symlink_to("/")
    text = recipe(f'steps: [{{id: look, type: bash, command: pwd, cwd: "{folder}"}}]')
    played = shop.play(text, exit_code=1)
    assert played.step("look")["exit_code"] == 2


# The full stop keeps the line ends of a value.
SHAPES = {
    "argument": '[printf, "%s.", "{{value}}"]',
    "script": "printf %s. {{value}}",
    "quoted": "'printf %s. \"{{value}}\"'",
    "single": "\"printf %s. '{{value}}'\"",
    "environment": "'printf %s. \"$CARRIED\"'",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_15_2_values_stay_values(shop: Workshop, shape: str) -> None:
    """The whole corpus at each place, in one run: as the items of a loop."""
    shop.write("in.json", json.dumps({"values": PAYLOADS}))
    text = recipe(f"""
        context: {{values: []}}
        recursion: {{max_total_steps: 1000}}
        steps:
          - id: show
            type: bash
            foreach: "{{{{values}}}}"
            as: value
            max_iterations: 1000
            command: {SHAPES[shape]}
            env: {{CARRIED: "{{{{value}}}}"}}
            collect: seen
    """)
    played = shop.play(text, "--context-file", "in.json")
    assert played.context["seen"] == [f"{payload}." for payload in PAYLOADS]
    assert not list(shop.top.rglob("canary"))


# Each costs two runs of a program and an agent.
CHOSEN = PAYLOADS[::4]


def test_15_3_values_stay_values_in_checks(shop: Workshop) -> None:
    """Each twice over: as it is first checked, and after the round that is told of it."""
    shop.write(
        "show.py", "import json, sys; print(json.dumps(sys.argv[1:]), file=open('seen', 'a'))"
    )
    text = recipe("""
        context: {values: []}
        steps:
          - id: show
            foreach: "{{values}}"
            as: value
            prompt: x
            check: {command: "python3 show.py {{value}} '{{value}}'; false", rounds: 1}
            on_error: continue
    """)
    for payload in CHOSEN:
        shop.write("in.json", json.dumps({"values": [payload]}))
        flags = ("--context-file", "in.json", "--backend", "rehearsal", "--rehearse-commands")
        shop.play(text, *flags)
    lines = (shop.folder / "seen").read_text().splitlines()
    seen = [json.loads(line) for line in lines]
    assert seen == [[payload, payload] for payload in CHOSEN for _ in range(2)]
    assert not list(shop.top.rglob("canary"))


@pytest.mark.parametrize(
    ("value", "code"),
    [("4", 0), ("-4", 0), ("0", 0), ("a[$(touch canary)]", 1), ("1+1", 1), ("08", 1), ("", 1)],
)
def test_15_2_arithmetic_takes_whole_numbers_only(shop: Workshop, value: str, code: int) -> None:
    """A shell would evaluate anything else, so the step fails before it starts."""
    text = recipe("""
        context: {n: ""}
        steps:
          - {id: sum, type: bash, command: "echo $(( {{n}} + 1 )); ((x = {{n}})); true",
             output: sum}
    """)
    played = shop.play(text, "--context", f"n={value}", exit_code=code)
    assert not (shop.folder / "canary").exists()
    if code:
        assert "stands in the shell's arithmetic and is not a whole number" in played.message("sum")
    else:
        assert played.context["sum"] == str(int(value) + 1)


def test_15_2_common_fields_hold_for_commands(shop: Workshop) -> None:
    """condition, depends_on, foreach, retry, timeout, on_error, while: as for every step."""
    text = recipe("""
        context: {go: "no", items: [a, b], done: "no"}
        steps:
          - {id: never, type: bash, command: touch never, condition: "{{go}} == 'yes'"}
          - {id: after, type: bash, command: touch after, depends_on: [never]}
          - {id: each, type: bash, foreach: "{{items}}", parallel: 2, command: "echo {{item}}!",
             collect: all}
          - {id: again, type: bash, command: "echo x >> tries; test $(wc -l < tries) -eq 3",
             retry: {max_attempts: 3, initial_delay: 0}}
          - {id: slow, type: bash, command: sleep 60, timeout: 1s, on_error: continue,
             output_exit_code: slow}
          - {id: loop, type: bash, while_condition: "{{done}} != 'yes'", command: echo yes,
             output: done}
    """)
    played = shop.play(text)
    assert set(played.skipped()) == {"never", "after"}
    assert played.context["all"] == ["a!", "b!"]
    assert played.step("again")["attempts"] == 3
    assert played.context["slow"] == 124
    assert played.context["done"] == "yes"


def test_15_2_a_failing_command_ends_the_recipe(shop: Workshop) -> None:
    text = recipe("""
        steps:
          - {id: test, type: bash, command: "echo broken >&2; exit 3"}
          - {id: later, agent: helper, prompt: "STEP:later"}
    """)
    played = shop.play(text, exit_code=1)
    assert "| broken" in played.result.stderr
    assert not shop.asked()
    shop.write("r.yaml", text)


def test_15_2_a_bash_step_needs_no_agent_definition(shop: Workshop) -> None:
    text = recipe("steps: [{id: a, type: bash, command: [echo, hi], output: said}]")
    shown = shop.play(text)
    assert shown.context["said"] == "hi"
    dry = shop.run("run", "r.yaml", "--dry-run").assert_success().stdout
    assert "a: command echo hi" in dry
    assert "(1 step)" in shop.run("validate", "r.yaml").assert_success().stdout


# Gates.

GATE = recipe("""
    context: {what: it}
    steps:
      - {id: make, agent: helper, prompt: "STEP:make"}
      - {id: ask, type: approval, approval: {prompt: "Commit {{what}}?", timeout: 24h}}
      - {id: commit, agent: helper, prompt: "STEP:commit {{approval.message}}"}
""")


def test_15_4_a_gate_is_a_step(shop: Workshop) -> None:
    played = shop.play(GATE, exit_code=6)
    assert "[2/3] ask: waits for an approval" in played.result.stderr
    assert [one["prompt"] for one in played.state["approvals"]] == ["Commit it?"]
    assert shop.asked() == ["make"]
    shop.run("approve", "latest", "ask", "--message", "be brief").assert_success()
    played = shop.go_on()
    assert shop.prompt("commit") == "STEP:commit be brief"
    assert played.step("ask")["outcome"] == "approved"


def test_15_4_a_denied_gate_ends_the_run(shop: Workshop) -> None:
    shop.play(GATE, exit_code=6)
    shop.run("deny", "latest").assert_success()
    played = shop.look(shop.run("resume", "latest").assert_exit(1))
    assert played.state["status"] == "failed"
    assert shop.asked() == ["make"]


def test_15_4_a_gate_may_be_skipped_and_repeated(shop: Workshop) -> None:
    text = recipe("""
        context: {go: "no", items: [a, b]}
        steps:
          - {id: never, type: approval, condition: "{{go}} == 'yes'",
             approval: {prompt: "Really?", timeout: 24h}}
          - {id: each, type: approval, foreach: "{{items}}",
             approval: {prompt: "Take {{item}}?", timeout: 24h}}
          - {id: end, agent: helper, prompt: "STEP:end"}
    """)
    played = shop.play(text, exit_code=6)
    assert played.skipped() == {"never": "condition evaluated to false"}
    for code in (6, 0):
        shop.run("approve", "latest").assert_success()
        shop.run("resume", "latest").assert_exit(code)
    asked = [one["prompt"] for one in shop.look(shop.run("status")).state["approvals"]]
    assert asked == ["Take a?", "Take b?"]


def test_15_4_a_stage_waits_while_a_step_of_it_asks(shop: Workshop) -> None:
    text = recipe("""
        stages:
          - name: build
            steps:
              - {id: make, agent: helper, prompt: "STEP:make"}
              - {id: ask, type: approval, approval: {prompt: "Go on?", timeout: 24h}}
          - name: ship
            steps: [{id: ship, agent: helper, prompt: "STEP:ship"}]
    """)
    assert shop.play(text, exit_code=6).stages() == {"build": "paused", "ship": "pending"}
    shop.run("approve", "latest").assert_success()
    assert shop.go_on().stages() == {"build": "completed", "ship": "completed"}


def test_15_4_its_time_limit_decides(shop: Workshop) -> None:
    text = GATE.replace("timeout: 24h", "timeout: 0.1s, default: approve")
    shop.play(text, exit_code=6)
    time.sleep(0.2)
    shop.go_on()
    assert shop.asked() == ["make", "commit"]


# An input as a command.


@pytest.mark.parametrize(
    ("given", "ran"),
    [("sh -c 'echo ran > ran'", True), ('["sh", "-c", "echo ran > ran"]', True), ("", False)],
)
@pytest.mark.parametrize("form", ['"{{check}}"', '["{{check}}"]'])
def test_15_4_an_input_may_be_the_command(shop: Workshop, given: str, ran: bool, form: str) -> None:
    text = recipe(f"""
        inputs: {{check: {{type: command, default: ""}}}}
        steps:
          - {{id: test, type: bash, command: {form}, output: said}}
          - {{id: build, agent: helper, prompt: "STEP:build", check: {{command: {form}}}}}
    """)
    played = shop.play(text, "-i", f"check={given}")
    assert (shop.folder / "ran").exists() == ran
    assert played.context["said"] == ""
    assert played.step("test")["status"] == "completed"
    assert len(shop.calls()) == 1


def test_15_4_values_of_a_command_stay_arguments(shop: Workshop) -> None:
    text = recipe("""
        inputs: {check: {type: command}}
        steps: [{id: test, type: bash, command: "{{check}}", output: said}]
    """)
    given = json.dumps(["printf", "%s", "$(touch canary); {{x}}"])
    played = shop.play(text, "-i", f"check={given}")
    assert played.context["said"] == "$(touch canary); {{x}}"
    assert not (shop.folder / "canary").exists()


def test_15_2_an_agents_answer_is_read_by_a_command(shop: Workshop) -> None:
    text = recipe("""
        steps:
          - {id: plan, agent: helper, prompt: "STEP:plan", output: plan}
          - {id: count, type: bash, command: "printf %s {{plan.name}} | wc -c", output: size}
    """)
    played = shop.play(text, rules=(rule("STEP:plan", json.dumps({"name": "a; touch canary"})),))
    assert played.context["size"] == str(len("a; touch canary"))
