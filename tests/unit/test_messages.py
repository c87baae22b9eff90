"""One mapping: the protocol, `--events`, `--verbose` and the log say the same about a run."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

from orchestrate.serve.telling import ClientMessages
from orchestrate.state.recorded import read_events
from orchestrate.state.runs import Runs, list_runs
from orchestrate.testing import Project

ROUND = """
id: round
label: Round
description: Goes round once, asks, ends.
initialStep: first
steps:
  first:
    command: [sh, -c, 'test -e seen']
    onOutcome: {passed: {nextStep: ask}, failed: {nextStep: second}}
  second:
    command: [touch, seen]
    onOutcome: {passed: {nextStep: first}, failed: {action: exit, reason: bad}}
  ask:
    approval: {prompt: "Go on?", timeout: 24h}
    onOutcome: {approved: {nextStep: last}, denied: {action: exit, reason: denied}}
  last:
    command: ["true"]
    onOutcome: {passed: {action: exit, reason: done}, failed: {action: exit, reason: bad}}
"""
STEPS = ["first", "second", "first", "ask", "last"]


def test_the_protocol_the_events_and_the_log_agree(tmp_path: Path) -> None:
    project = Project(tmp_path, {"m.yaml": ROUND})
    before = project.run("run", "m.yaml", "--verbose").assert_exit(6).stderr
    project.run("approve", "latest").assert_success()
    behind = project.run("resume", "latest", "--verbose").assert_success().stderr

    told = project.run("logs", "latest", "--events").stdout.splitlines()
    recorded = [name for line in told for name in json.loads(line)["messages"]]
    (run,) = list_runs(Runs(tmp_path / ".orchestrate" / "runs"))
    messages_for = ClientMessages(run)
    sent = [
        message
        for one in read_events(run.events)
        for message in messages_for.tell(one.seq, one.event)[1]
    ]
    log = (run.root / "logs" / "orchestrator.log").read_text()

    move = ["recipe_step_transition", "recipe_step_started"]
    ends = ["recipe_exited", "turn_complete"]
    assert recorded == ["recipe_started", "recipe_step_started", *move * 4, *ends]
    # For clients `recipe_started` is repeated with the new step; nothing else differs.
    repeated = [one["step"] for one in sent if one["type"] == "recipe_started"]
    assert repeated == ["first", *STEPS[1:]]
    assert [one["type"] for one in sent if one["type"] != "recipe_started"] == recorded[1:]
    begun = [(one["step"], one["step_count"]) for one in sent if one["type"] == move[1]]
    assert begun == list(zip(STEPS, range(1, 6), strict=True))
    moves = [f"{a} → {b}" for a, b in pairwise(STEPS)]
    assert re.findall(r"\[step:transition\] (\S+ → \S+)", log) == moves
    assert re.findall(r"\[step:started\] (\S+)", log) == STEPS
    assert re.findall(r"\[recipe:(\w+)\]", log) == ["started", "exited"]
    assert re.findall(r"\[run:(parked)\]", log) == ["parked"]

    shown = before + behind
    assert re.findall(r"^\[orchestration\] Transition: (\S+ → \S+)$", shown, re.MULTILINE) == moves
    assert re.findall(r"^\[orchestration\] Step: (\S+) \(visit", shown, re.MULTILINE) == STEPS
    assert "[orchestration] Parked: waits for an approval" in before
    assert re.findall(r"^\[orchestration\] Exit: (.+)$", shown, re.MULTILINE) == ["done"]
