"""Hundreds of payloads at every place where a value is filled in: none becomes code, none changes.

Each tries to make a file called `canary`. Workflows fill values into arguments, scripts in three
kinds of quotes, conditions, prompts and parameters; recipes into prompts, conditions, contexts of
other recipes, and lists. A machine fills in nothing (its prompts are text), but its agent's words
are shown and recorded. Names of files have tests of their own (tests/acceptance).
"""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.promises.agent_shapes import HELPER, recipe
from tests.promises.lanes import Lane, Lanes
from tests.promises.shapes import Shape
from tests.promises.test_kill_sweep import seed_of
from tests.promises.trials import Trial, sealed_state

DEED = "touch canary"
_BARE = [
    f"; {DEED}", f"&& {DEED}", f"|| {DEED}", f"| {DEED}", f"& {DEED} &", f"\n{DEED}\n",
    f"$({DEED})", f"`{DEED}`", f"<({DEED})", f">({DEED})", "> canary", ">> canary", ">| canary",
    "2> canary", f"${{x:-$({DEED})}}", f"$((a[$({DEED})]))", f"() {{ :; }}; {DEED}",
    f"x=$({DEED})", f"{{ {DEED}; }}", f"( {DEED} )", f"<<E\n$({DEED})\nE",
    "${context.other}", "${steps.Load.output}", "{{other}}", "{{ other }}", "$${x}", "{{other?}}",
    "${run.root}", f"!{DEED}", f"\\$({DEED})", f"$'\\n{DEED}\\n'", "-c touch${IFS}canary",
    f"--init-file=<({DEED})", f"\r\n{DEED}\r\n", f"eval {DEED}", f"exec {DEED}",
    f"#\n{DEED}", f"*; {DEED}", f"%s; {DEED}",
]  # fmt: skip
# What stands around them, to get out of the quotes that they may stand in.
_AROUND = [("", ""), ("'", "'"), ('"', '"'), ("'\"", "\"'"), ("\\", ""), ("')", "('"), ('")', '("'),
           ("\n", "\n"), ("a", "b"), ("]] ", ""), ("}", "{")]  # fmt: skip
PAYLOADS = [
    before + payload + after for payload, (before, after) in itertools.product(_BARE, _AROUND)
]


def chosen(number: int) -> list[str]:
    if number >= len(PAYLOADS):
        return PAYLOADS
    return random.Random(seed_of("payloads")).sample(PAYLOADS, number)


def check_no_canary(trial: Trial) -> None:
    assert not list(trial.top.parent.rglob("canary")), "a value was executed"
    assert "Traceback" not in trial.said()


NUMBERS = [
    pytest.param(10, id="some"),
    pytest.param(10_000, marks=pytest.mark.soak, id="all"),
]


def test_there_are_enough_payloads() -> None:
    assert len(set(PAYLOADS)) >= 300


SITES: dict[str, dict[str, Any]] = {
    "word": {"command": ["printf", "%s", "${item}"]},
    "part": {"command": ["printf", "%s", "a${item}b"]},
    "bare": {"command": ["sh", "-c", "printf %s ${item}"]},
    "single": {"command": ["sh", "-c", "printf %s '${item}'"]},
    "double": {"command": ["bash", "-c", 'printf %s "${item}"']},
    "alias": {"command": ["sh", "-c", 'printf %s "${loop.index}" > /dev/null; printf %s ${item}']},
    "parameter": {"provider": "arguing", "provider_params": {"p": "${item}"}, "input_file": "q"},
    "prompt": {"provider": "echoing", "input_file": "ask.md", "output_file": "ask.out"},
    "condition": {"command": ["printf", "%s", "${item}"],
                  "when": {"equals": {"left": "${item}", "right": "${item}"}}},
    "inline": {"provider": "echoing", "prompt": "${item}"},
    "check": {"provider": "arguing", "provider_params": {"p": "${item}"}, "prompt": "?",
              "check": {"rounds": 1, "command": [
                  "sh", "-c", "printf '%s%s%s' \"${item}\" '${item}' ${item} > seen",
              ]}},
}  # fmt: skip
PROVIDERS = {
    "arguing": {"command": ["printf", "%s", "${p}"]},
    "echoing": {"command": ["cat"], "input_mode": "stdin"},
}


CHECKED = """
    id: trial
    label: trial
    description: a trial
    inputs: {value: ""}
    initialStep: first
    steps:
      first:
        prompt: "STEP:first {{value}}"
        check: {command: "printf '%s%s%s' \\"{{value}}\\" '{{value}}' {{value}} > seen", rounds: 1}
        outcomes: [done, other]
        onOutcome:
          done: {action: exit, reason: done}
          other: {action: exit, reason: user-provided-other}
    """


@pytest.mark.parametrize(
    "number", [pytest.param(4, id="some"), pytest.param(10_000, marks=pytest.mark.soak, id="all")]
)
def test_values_in_a_machines_check_stay_values(number: int, quick_top: Path, lanes: Lanes) -> None:
    def judge(lane: Lane, numbered: tuple[int, str]) -> str:
        at, payload = numbered
        answers = {"first": """printf '{"outcome": "done"}'"""}
        trial = Trial(quick_top / str(at), Shape("checked", CHECKED, answers=answers))
        (trial.workspace / "in.json").write_text(json.dumps({"value": payload}))
        code = lane.run(trial.order("run", "w.yaml", "--inputs-file", "in.json"))
        check_no_canary(trial)
        seen = (trial.workspace / "seen").read_bytes().decode()
        return "" if (code, seen) == (0, 3 * payload) else f"{payload!r}: {code} {seen!r}"

    faults = [fault for fault in lanes.spread([*enumerate(chosen(number))], judge) if fault]
    assert not faults, "\n".join(faults)[:3000]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("site", SITES)
def test_values_in_workflows_stay_values(
    site: str, number: int, quick_top: Path, lanes: Lanes
) -> None:
    payloads = chosen(number)
    # From a step's output, as a value from an agent would come; and once as a literal.
    document = {
        "version": "1.4",
        "name": "payloads",
        "context": {"other": "OTHER"},
        "providers": PROVIDERS,
        "steps": [
            {"name": "Load", "command": ["cat", "payloads.json"], "output_capture": "json"},
            {"name": "Each", "for_each": {
                "items_from": "steps.Load.json.list", "steps": [{"name": "Site", **SITES[site]}]}},
        ],
    }  # fmt: skip
    files = {
        "payloads.json": json.dumps({"list": payloads}),
        "q": "?",
        "ask.md": "\n".join(payloads),
    }
    trial = Trial(quick_top / "trial", Shape(site, json.dumps(document), files=files))
    with lanes.one() as lane:
        code = lane.run(trial.order("run", "w.yaml"))
    check_no_canary(trial)
    assert code == 0, trial.said()[-2000:]
    if site == "check":
        assert (trial.workspace / "seen").read_bytes().decode() == 3 * payloads[-1]
    results = sealed_state((trial.root / "state.json").read_bytes())["steps"]["Each"]
    assert len(results) == len(payloads)
    for payload, result in zip(payloads, results, strict=True):
        found = result["Site"]["output"]
        if site == "prompt":
            assert found == "\n".join(payloads)[: len(found)]
        else:
            assert found == (f"a{payload}b" if site == "part" else payload)


CHILD = recipe("""
    context: {given: ""}
    steps:
      - {id: inner, condition: "{{given}} == {{given}}", agent: helper,
         prompt: "STEP:inner {{given}} .", output: said}
      - {id: never, condition: "{{given}} != {{given}}", agent: helper,
         prompt: "STEP:never {{given}} ."}
      - {id: last, agent: helper, prompt: "STEP:last {{said}} ."}
    """)
PARENT = recipe("""
    context: {other: OTHER, payloads: []}
    recursion: {max_depth: 3, max_total_steps: 1000}
    steps:
      - {id: each, foreach: "{{payloads}}", max_iterations: 1000, agent: helper,
         prompt: "STEP:each {{item}} .", collect: all}
      - {id: call, foreach: "{{payloads}}", max_iterations: 1000, type: recipe,
         recipe: child.yaml, context: {given: "{{item}}"}}
      - {id: whole, agent: helper, prompt: "STEP:whole {{payloads}} {{all}}"}
    """)
# The agent keeps what it was asked, and answers with it: so a value comes from an agent, too.
KEEP = 'printf "%s\\0" "$ASKED" >> ../asked-$1; printf %s "$ASKED"'


@pytest.mark.parametrize(
    "number", [pytest.param(6, id="some"), pytest.param(10_000, marks=pytest.mark.soak, id="all")]
)
def test_values_in_recipes_stay_values(number: int, quick_top: Path, lanes: Lanes) -> None:
    payloads = chosen(number)
    # A recipe may take a thousand steps, and a command of a lane forty seconds.
    shares = [payloads[start : start + 60] for start in range(0, len(payloads), 60)]
    for place, share in enumerate(shares):
        check_recipe(Trial(quick_top / str(place), asking(share)), share, lanes)


def asking(payloads: list[str]) -> Shape:
    return Shape(
        "payloads",
        PARENT,
        files={**HELPER, "child.yaml": CHILD, "p.json": json.dumps({"payloads": payloads})},
        answers=dict.fromkeys(("each", "never", "inner", "last", "whole"), KEEP),
    )


def check_recipe(trial: Trial, payloads: list[str], lanes: Lanes) -> None:
    program = trial.top / "claude"
    text = program.read_text("utf-8")
    assert "prompt=$(cat)\n" in text
    exporting = text.replace("prompt=$(cat)\n", "prompt=$(cat)\nexport ASKED=$prompt\n")
    program.write_text(exporting, "utf-8")
    with lanes.one() as lane:
        code = lane.run(trial.order("run", "w.yaml", "--context-file", "p.json"))
    check_no_canary(trial)
    assert code == 0, trial.said()[-2000:]
    assert not (trial.top / "asked-never").exists()
    for step, before in (("each", ""), ("inner", ""), ("last", "STEP:inner ")):
        asked = (trial.top / f"asked-{step}").read_bytes().decode().split("\0")[:-1]
        after = " ." if before else ""
        wanted = [f"STEP:{step} {before}{payload} .{after}" for payload in payloads]
        assert asked == wanted, step


def test_words_of_a_machines_agent_stay_words(quick_top: Path, lanes: Lanes) -> None:
    """They are a reason, a message and a record; everything that is filled in is text."""
    payloads = [text for text in chosen(40) if "\n" not in text]
    outcome = json.dumps({"outcome": "other", "otherDescription": " ".join(payloads)})
    shape = Shape(
        "words",
        """
        id: trial
        label: trial
        description: a trial
        initialStep: first
        steps:
          first:
            prompt: "STEP:first $(touch canary) `touch canary` ${x} {{x}}"
            outcomes: [done, other]
            onOutcome:
              done: {action: exit, reason: done}
              other: {action: exit, reason: user-provided-other}
        """,
        answers={"first": "cat ../answer"},
    )
    trial = Trial(quick_top / "trial", shape)
    (trial.top / "answer").write_text("\n".join([*payloads, outcome]) + "\n", "utf-8")
    with lanes.one() as lane:
        lane.run(trial.order("run", "w.yaml"))
        for words in (["status", "latest"], ["logs", "latest"], ["runs"]):
            assert lane.run(trial.order(*words)) == 0
    check_no_canary(trial)
    assert trial.lines(), "nobody was asked"
