"""`--events` of every kind of event and of every dialect; showing a run never ends it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from orchestrate.state import events
from orchestrate.state.runs import Run
from orchestrate.view.event_records import FIELDS, EventRecords
from tests.acceptance.fakes import Stage
from tests.recipes.fakes import Workshop, recipe, rule

ASK = "{id: %s, agent: helper, prompt: 'STEP:%s'}"
FLAT = recipe(f"steps: [{ASK % ('a', 'a')}, {ASK % ('b', 'b')}]")
STAGED = recipe(
    f"stages: [{{name: one, steps: [{ASK % ('a', 'a')}],"
    " approval: {required: true, prompt: Go?}},"
    f" {{name: two, steps: [{ASK % ('b', 'b')}]}}]\n"
)
PARALLEL = recipe("""
    context: {items: [x, y]}
    steps: [{id: each, foreach: "{{items}}", parallel: true, agent: helper,
             prompt: "STEP:{{item}}"}]
""")
CALLS = recipe("steps: [{id: call, type: recipe, recipe: child.yaml}]")
RETRIED = recipe("""
    steps: [{id: a, agent: helper, prompt: "STEP:a", retry: {max_attempts: 2, initial_delay: 0}}]
""")
TYPES: dict[str, Any] = {
    "float": 1.5, "int": 1, "str": "x", "bool": True, "list": [], "dict": {}, "Literal": "paused",
    "Json": "x", "StepResult": {"status": "completed", "exit_code": None}, "AttemptEnd": "failed",
    "EndStatus": "paused", "EndKind": "session-locked", "Key": {},
}  # fmt: skip


def full(kind: type[Any]) -> dict[str, Any]:
    """An event of the kind with a value of its type in every field."""
    made: dict[str, Any] = {"on": events.event_name(object.__new__(kind))}
    for name in kind.__match_args__:
        declared = str(kind.__annotations__[name])
        made[name] = next(value for word, value in TYPES.items() if declared.startswith(word))
    return made


def without(event: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name not in names}


def fits(event: dict[str, Any]) -> bool:
    try:
        events.event_from_json(event)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("dialect", ["recipe", "machine", "workflow"])
@pytest.mark.parametrize("kind", get_args(events.Event))
def test_truth_28_every_event_can_be_shown(tmp_path: Path, kind: type[Any], dialect: str) -> None:
    started = {**full(events.RunStarted), "dialect": dialect}
    whole = full(kind)
    optional = [name for name in whole if name != "on" and fits(without(whole, name))]
    variants = [whole, without(whole, *optional), *(without(whole, name) for name in optional)]
    for event in variants:
        records = EventRecords(Run("20260101T000000Z-abcdef", tmp_path))
        records.record(1, events.event_from_json(started))
        told = {**event, "dialect": dialect} if "dialect" in event else event
        shown = records.record(2, events.event_from_json(told))
        assert [name for name in FIELDS if name not in shown] == []
        json.dumps(shown)


@pytest.mark.parametrize(
    ("text", "code", "kinds"),
    [
        (FLAT, 0, ["session-seen"]),
        (STAGED, 6, ["gate-opened"]),
        (PARALLEL, 0, ["loop-opened"]),
        (CALLS, 0, ["call-opened"]),
        (RETRIED, 0, ["attempt-ended"]),
    ],
)
def test_truth_28_a_recipe_with_agents_tells_its_events(
    tmp_path: Path, text: str, code: int, kinds: list[str]
) -> None:
    shop = Workshop(tmp_path)
    if text is RETRIED:
        shop.answers(rule("STEP:a", {"fail": "network"}, "done"))
    shop.write("child.yaml", FLAT)
    shop.write("r.yaml", text)

    live = shop.run("run", "r.yaml", "--events").assert_exit(code)

    told = [json.loads(line) for line in live.stdout.splitlines()]
    assert told[-1]["event"] == "run-ended"
    assert [kind for kind in kinds if kind not in {line["event"] for line in told}] == []
    assert shop.run("logs", "latest", "--events").assert_success().stdout == live.stdout
    if text is FLAT:
        seen = [line["step"] for line in told if line["event"] == "session-seen"]
        assert seen == ["a", "b"]


def test_truth_28_a_workflow_with_a_provider_tells_its_events(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.claude("def answer(prompt): return 'yes'")
    stage.write("p.md", "Do it.")
    step = "{name: Ask, provider: claude, input_file: p.md}"
    stage.write("w.yaml", f'version: "1.1"\nname: w\nsteps:\n  - {step}\n')

    live = stage.run("run", "w.yaml", "--events").assert_success()

    assert json.loads(live.stdout.splitlines()[-1])["event"] == "run-ended"
    assert stage.run("logs", "latest", "--events").stdout == live.stdout


BROKEN = """
import sys
from orchestrate.show.{module} import {name}
def fail(*_):
    raise KeyError("frame")
{name}.{method} = fail
from orchestrate.cli.main import main
sys.argv[1:] = ["run", "w.yaml", "--events"]
main()
"""


@pytest.mark.parametrize(
    ("module", "name", "method"),
    [("event_stream", "EventStream", "begin"), ("progress", "Progress", "hear")],
)
def test_truth_28_a_fault_in_showing_a_run_does_not_end_it(
    tmp_path: Path, module: str, name: str, method: str
) -> None:
    stage = Stage(tmp_path)
    steps = "  - {name: A, command: ['true']}\n  - {name: B, command: [touch, made]}\n"
    stage.write("w.yaml", f'version: "1.1"\nname: w\nsteps:\n{steps}')

    done = subprocess.run(
        [sys.executable, "-c", BROKEN.format(module=module, name=name, method=method)],
        cwd=stage.folder,
        env={**os.environ, **stage.surroundings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr.count("KeyError('frame')") == 1
    assert "the run goes on" in done.stderr
    assert (stage.folder / "made").exists()
