"""Truth 21: what was sent can be read, and whom a run asks is said before it asks."""

from __future__ import annotations

import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.fakes import Stage
from tests.machines.fakes import PAIR, Scene, machine, said
from tests.truth.test_truth_17_denials import RECIPE, WORKFLOW, stage

ONE = machine({"work": {"done": "!committed", "prompt": "Do it with tok_abcdefgh1234."}})
DECLARED = """\
version: "1.1"
name: declared
providers:
  teller:
    command: ["teller", "${PROMPT}"]
steps:
  - {name: work, provider: teller, input_file: p.md}
"""
DEFAULT = "agent claude-code, model sonnet, permissions bypass"


def prompts_of(scene: Stage) -> list[Path]:
    return sorted((scene.runs_folder / "latest" / "logs").glob("*.prompt.txt"))


@pytest.mark.parametrize("definition", [ONE, RECIPE, WORKFLOW], ids=["machine", "recipe", "c"])
def test_truth_21_the_prompt_as_sent_is_kept_and_shown(tmp_path: Path, definition: str) -> None:
    scene = stage(tmp_path, said("done"))
    scene.play(definition)
    sent = scene.ledger()[0].prompt
    (kept,) = prompts_of(scene)
    assert kept.read_text("utf-8") == sent
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    shown = scene.run("logs", "latest", "work", "--prompt").assert_success()
    assert shown.stdout.removesuffix("\n") == sent.removesuffix("\n")
    data = scene.run("logs", "latest", "work", "--prompt", "--json").assert_success()
    assert json.loads(data.stdout)["prompt"] == sent
    page = scene.run("report", "latest", "--format", "md").assert_success().stdout
    assert "Prompt as it was sent" in page


def test_truth_21_a_declared_providers_prompt_is_kept_too(tmp_path: Path) -> None:
    scene = Stage(tmp_path, {"p.md": "Say it.\n"})
    scene.program("teller", "print('told')")
    scene.play(DECLARED)
    (kept,) = prompts_of(scene)
    assert kept.read_text("utf-8") == "Say it.\n" == scene.calls("teller")[0].argv[0]


def test_truth_21_a_person_or_a_rehearsal_is_sent_one_as_well(tmp_path: Path) -> None:
    scene = stage(tmp_path)
    scene.play(ONE, "--backend", "rehearsal")
    (kept,) = prompts_of(scene)
    assert kept.read_text("utf-8").startswith("Do it with")


def test_truth_21_reminders_and_retries_have_their_own(tmp_path: Path) -> None:
    scene = stage(tmp_path, {"text": "hm"}, said("done"))
    scene.play(ONE)
    first, second = (call.prompt for call in scene.ledger())
    assert [path.read_text("utf-8") for path in prompts_of(scene)] in (
        [first, second], [second, first],
    )  # fmt: skip
    last = scene.run("logs", "latest", "work", "--prompt").assert_success()
    assert last.stdout.removesuffix("\n") == second.removesuffix("\n")
    told = scene.run("logs", "latest", "work", "--prompt", "--all").assert_success()
    assert told.stdout.index(first) < told.stdout.rindex(second)
    assert told.stdout.count("--- prompt of work") == 2
    page = scene.run("report", "latest", "--format", "md").assert_success().stdout
    assert "Prompt as it was sent, attempt 2" in page


def test_truth_21_secrets_in_a_prompt_are_masked(tmp_path: Path) -> None:
    workflow = WORKFLOW.replace("input_file: p.md", "input_file: p.md, secrets: [TOKEN]")
    scene = stage(tmp_path, said("done"))
    scene.write("p.md", "Use tok_abcdefgh1234.\n")
    scene.play(workflow, env={"TOKEN": "tok_abcdefgh1234"})
    assert "tok_abcdefgh1234" in scene.ledger()[0].prompt
    (kept,) = prompts_of(scene)
    assert "tok_abcdefgh1234" not in kept.read_text("utf-8")


def test_truth_21_a_prompt_that_cannot_be_kept_stops_the_run_before_it_is_sent(
    tmp_path: Path,
) -> None:
    """As a full disk does: here no file may have more than 300 KB."""
    scene = stage(tmp_path, said("done"))
    big = machine({"work": {"done": "!committed", "prompt": "word " * 100_000}})
    scene.write("w.yaml", big)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))

    done = subprocess.run(
        [sys.executable, "-m", "orchestrate", "run", "w.yaml"],
        cwd=scene.folder, env={**os.environ, **scene.surroundings}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, preexec_fn=limit, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert scene.ledger() == []


def test_truth_21_logs_refuses_what_cannot_be(tmp_path: Path) -> None:
    scene = stage(tmp_path, said("done"))
    scene.play(ONE)
    for more in (["--prompt"], ["work", "--prompt", "--follow"], ["work", "--prompt", "--stdout"]):
        scene.run("logs", "latest", *more).assert_exit(2)
    (tmp_path / "other").mkdir()
    commands = Stage(tmp_path / "other")
    commands.play('version: "1.1"\nname: w\nsteps:\n  - {name: A, command: ["true"]}\n')
    told = commands.run("logs", "latest", "A", "--prompt").assert_success()
    assert (told.stdout, "A sent no prompt" in told.stderr) == ("", True)


def test_truth_21_whom_a_run_asks_is_said_first(tmp_path: Path) -> None:
    scene = stage(tmp_path, said("done"))
    played = scene.play(ONE, "--permissions", "edit", "--model", "opus")
    words = "agent claude-code, model opus, permissions edit"
    lines = played.result.stderr.splitlines()
    assert lines[1] == f"  {words}"
    assert words in played.log("orchestrator.log").splitlines()[0]
    assert played.step("work")["permissions"] == "edit"
    report = json.loads(scene.run("report", "latest", "--json").stdout)
    assert report["steps"][0]["permissions"] == ["edit"]
    page = scene.run("report", "latest", "--format", "md").stdout
    assert "edit" in next(line for line in page.splitlines() if "Permissions" in line)


def test_truth_21_a_dry_run_says_it_and_asks_nobody(tmp_path: Path) -> None:
    scene = stage(tmp_path)
    scene.write("w.yaml", PAIR)
    told = scene.run("run", "w.yaml", "--dry-run").assert_success()
    assert DEFAULT in told.stderr
    data = scene.run("run", "w.yaml", "--dry-run", "--json").assert_success()
    assert json.loads(data.stdout)["asked"] == [
        {"agent": "claude-code", "backend": "claude-code", "model": "sonnet",
         "permissions": "bypass", "steps": 2}
    ]  # fmt: skip


def test_truth_21_each_agent_is_named_with_its_own(tmp_path: Path) -> None:
    own = "agent_config: {model: haiku, permissions: read-only}"
    recipe = RECIPE + f"  - {{id: look, agent: looker, prompt: Look., {own}}}\n"
    scene = stage(tmp_path, said("done"), said("done"))
    scene.write(".orchestrate/agents/looker.md", "---\nname: looker\n---\nLook.\n")
    told = scene.play(recipe).result.stderr
    assert "agent helper (claude-code), model sonnet, permissions bypass (1 step)" in told
    assert "agent looker (claude-code), model haiku, permissions read-only (1 step)" in told


def test_truth_21_a_step_without_an_agent_is_named_with_its_own_model(tmp_path: Path) -> None:
    recipe = RECIPE + "  - {id: look, prompt: Look., agent_config: {model: haiku}}\n"
    told = stage(tmp_path, said("done"), said("done")).play(recipe).result.stderr
    assert "agent claude-code, model haiku, permissions bypass (1 step)" in told


def test_truth_21_a_resume_says_it_again(tmp_path: Path) -> None:
    scene = stage(tmp_path, {"error": "no"}, said("done"))
    scene.play(ONE, "--permissions", "edit", exit_code=4)
    told = scene.run("resume", "latest").assert_success().stderr
    assert "permissions edit" in told.splitlines()[1]


def test_truth_21_init_writes_the_permissions_and_says_the_default(tmp_path: Path) -> None:
    scene = Stage(tmp_path)
    plain = scene.run("init").assert_success()
    assert "Permissions: bypass (the default" in plain.stderr
    assert "\n# permissions: bypass\n" in (scene.folder / ".orchestrate/config.yaml").read_text()
    again = scene.run("init", "--permissions", "edit").assert_success()
    assert "to have edit, write it there" in again.stderr
    (scene.folder / ".orchestrate/config.yaml").unlink()
    data = scene.run("init", "--permissions", "read-only", "--json").assert_success()
    assert json.loads(data.stdout)["permissions"] == "read-only"
    config = (scene.folder / ".orchestrate/config.yaml").read_text()
    assert "\npermissions: read-only\n" in config
    scene.run("init", "--permissions", "none").assert_exit(2)


def test_truth_21_what_init_chose_holds_for_runs(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"))
    scene.run("init", "--permissions", "edit").assert_success()
    told = scene.play(ONE).result.stderr
    assert "permissions edit" in told
    assert "acceptEdits" in scene.ledger()[0].argv
