"""Truth 20: tokens where the cost is unknown, the model that answered, and no invented zero."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrate.show.live.picture import Artist
from orchestrate.state.result import Costs
from tests.acceptance.fakes import Stage, read_state
from tests.cli.live.test_picture import shown, state_for
from tests.machines.fakes import PAIR, Scene, machine, said

CODEX = ("--backend", "codex")
COMMANDS = 'version: "1.1"\nname: w\nsteps:\n  - {name: A, command: ["true"]}\n'
DECLARED = """\
version: "1.1"
name: declared
providers:
  teller:
    command: ["teller"]
    input_mode: stdin
steps:
  - {name: Ask, provider: teller, input_file: p.md}
"""


def test_truth_20_a_cost_that_nobody_reported_is_null_in_every_answer(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), said("done"), program="codex")
    played = scene.play(PAIR, *CODEX, "--json")
    expected = {
        "cost_usd": None, "input_tokens": 2000, "output_tokens": 100,
        "turns": 2, "unreported": 2, "tokens_unreported": 0,
    }  # fmt: skip
    assert played.state["costs"] == expected
    assert json.loads(played.result.stdout)["costs"] == expected
    status = scene.run("status", "latest", "--json").assert_success()
    assert json.loads(status.stdout)["costs"] == expected
    report = json.loads(scene.run("report", "latest", "--json").assert_success().stdout)
    assert report["usage"]["cost_usd"] is None
    assert report["usage"]["input_tokens"] == 2000
    assert all("0.0" not in json.dumps(step["usage"]) for step in report["steps"])


def test_truth_20_tokens_that_nobody_reported_are_null_too(tmp_path: Path) -> None:
    """Nothing in this answer has figures: no total is a zero."""
    scene = Scene(tmp_path, said("done"), said("done"))
    played = scene.play(PAIR)
    costs = played.state["costs"]
    assert [costs[name] for name in ("cost_usd", "input_tokens", "output_tokens")] == [None] * 3
    assert (costs["unreported"], costs["tokens_unreported"]) == (2, 2)
    assert "tokens" not in played.result.stderr


def test_truth_20_tokens_are_shown_where_the_cost_is_unknown(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), said("done"), program="codex")
    played = scene.play(PAIR, *CODEX)
    words = "2,000 in, 100 out"
    ending = "cost: unknown (2 agent calls, none reported it); tokens: " + words
    assert ending in played.result.stderr
    status = scene.run("status", "latest").assert_success().stdout
    assert "unknown" in status
    assert words in status
    page = scene.run("report", "latest", "--format", "md").assert_success().stdout
    assert words in page
    assert "$" not in page.partition("## ")[0]
    log = played.log("orchestrator.log")
    assert "inputTokens=2000" in log
    assert "costUsd=0" not in log


def test_truth_20_a_part_of_the_bill_is_shown_with_the_tokens_of_all(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", cost=0.05), said("done"))
    played = scene.play(PAIR)
    assert played.state["costs"]["cost_usd"] == 0.05
    assert "1 did not report theirs; tokens: 100 in, 10 out (1 call did not report them)" in (
        played.result.stderr
    )


def test_truth_20_the_live_view_shows_tokens(tmp_path: Path) -> None:
    index, state = state_for(tmp_path, COMMANDS)
    state.costs = Costs(None, 2000, 100, 2, 2, 0)
    (heading, *_) = shown(Artist(index).picture(state, state.started_at, 3))
    assert "cost unknown in 2 calls" in heading
    assert "tokens 2,000 in, 100 out" in heading


def test_truth_20_commands_alone_have_no_cost_at_all(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    played = stage.play(COMMANDS, "--json")
    assert "costs" not in played.state
    assert "costs" not in json.loads(played.result.stdout)
    report = json.loads(stage.run("report", "latest", "--json").stdout)
    assert report["usage"]["cost_usd"] is None


def test_truth_20_a_declared_provider_costs_what_nobody_knows(tmp_path: Path) -> None:
    """The state, the last line and the report count it alike."""
    stage = Stage(tmp_path, {"p.md": "Say it.\n"})
    stage.program("teller", "print('told')")
    played = stage.play(DECLARED)
    costs = played.state["costs"]
    assert (costs["cost_usd"], costs["turns"], costs["unreported"]) == (None, 1, 1)
    assert "cost: unknown (1 agent call, none reported it)" in played.result.stderr
    report = json.loads(stage.run("report", "latest", "--json").stdout)
    assert (report["usage"]["turns"], report["usage"]["cost_usd"]) == (1, None)


def test_truth_20_the_model_that_answered_stands_beside_the_tier(tmp_path: Path) -> None:
    steps = machine({"work": {"done": "!all-done", "model": "sonnet"}})
    scene = Scene(tmp_path, said("done", speaks_as="claude-sonnet-5-5"))
    played = scene.play(steps)
    step = played.step("work")
    assert (step["model"], step["model_requested"]) == ("claude-sonnet-5-5", "sonnet")
    status = json.loads(scene.run("status", "latest", "--json").stdout)
    assert status["steps"]["work"]["model"] == "claude-sonnet-5-5"
    report = json.loads(scene.run("report", "latest", "--json").stdout)
    assert report["steps"][0]["agents"] == ["claude-code (claude-sonnet-5-5, asked for sonnet)"]
    assert "model=claude-sonnet-5-5" in played.log("orchestrator.log")


def test_truth_20_a_tier_is_never_taken_for_the_model(tmp_path: Path) -> None:
    """Codex is not even told a tier, and does not say which model it used."""
    steps = machine({"work": {"done": "!all-done", "model": "opus"}})
    scene = Scene(tmp_path, said("done"), said("done"), program="codex")
    step = scene.play(steps, *CODEX).step("work")
    assert (step["model"], step["model_requested"]) == (None, "opus")
    named = scene.play(machine({"work": {"done": "!all-done"}}), *CODEX, "--model", "gpt-5-pro")
    assert named.step("work")["model"] == "gpt-5-pro"


def test_truth_20_a_reminded_step_adds_up_and_keeps_unknown_unknown(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"text": "hm"}, said("done"), said("done"), program="codex")
    played = scene.play(PAIR, *CODEX)
    assert played.step("first")["input_tokens"] == 2000
    assert "cost_usd" not in played.step("first")
    assert played.state["costs"]["cost_usd"] is None
    assert played.state["costs"]["turns"] == 3


def test_truth_20_unknown_stays_unknown_over_a_resume(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), {"error": "no"}, said("done"), program="codex")
    scene.play(PAIR, *CODEX, exit_code=4)
    played = scene.look(scene.run("resume", "latest").assert_success())
    assert played.state["costs"]["cost_usd"] is None
    assert played.state["costs"]["unreported"] == played.state["costs"]["turns"] == 3


COPILOT = """\
#!/bin/sh
case "$*" in *--version*) echo 1.0.102; exit;; esac
for word; do
  case "$last" in --usage-output-file) cp USAGE "$word";; esac
  last=$word
done
cat > /dev/null
echo '{"type":"user.message"}'
echo '{"type":"assistant.message","data":{"content":"{\\"outcome\\": \\"done\\"}"}}'
echo '{"type":"result","sessionId":"11111111-1111-4111-8111-111111111111","exitCode":0}'
"""
USAGE = '{"modelMetrics": {"m": {"usage": {"inputTokens": 70, "outputTokens": 7}}}}'
USAGES: dict[str, tuple[str, int | None]] = {
    "whole": (USAGE, 70),
    "cut": (USAGE[:-30], None),
    "cut over lines": (json.dumps(json.loads(USAGE), indent=1)[:-20], None),
    "empty": ("", None),
    "without a figure": (USAGE.replace('"inputTokens": 70, ', ""), None),
}


@pytest.mark.parametrize("kind", USAGES)
def test_truth_02_a_cut_usage_file_is_unknown_usage(tmp_path: Path, kind: str) -> None:
    text, tokens = USAGES[kind]
    scene = Scene(tmp_path)
    program, usage = tmp_path / "programs" / "copilot", tmp_path / "usage"
    usage.write_text(text)
    program.write_text(COPILOT.replace("USAGE", str(usage)))
    program.chmod(0o755)
    scene.write("m.yaml", machine({"first": {"done": "!over"}}))
    env = {"COPILOT_CLI_PATH": str(program)}
    scene.run("run", "m.yaml", "--backend", "github-copilot", env=env).assert_success()
    state = read_state(scene.runs_folder / "latest")
    assert state["steps"]["first"].get("input_tokens") == tokens
    assert " 0 tokens" not in scene.run("status").assert_success().stdout
