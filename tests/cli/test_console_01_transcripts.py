"""What an agent does is readable wherever a run is watched (issue 16, item 1)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.fakes import Stage
from tests.promises.processes import wait_until

SAMPLES = Path(__file__).resolve().parents[1] / "agents" / "samples"
TRANSCRIPT = """\
I look first.
> Bash: git status
  ! Exit code 128
  ! fatal: not a git repository (or any of the parent directories): .git
Done.
{"outcome": "done"}
"""
MACHINE = """
id: trial
label: trial
description: a trial
initialStep: look
steps:
  look:
    prompt: Look.
    outcomes: [done, other]
    onOutcome: {done: {action: exit, reason: all-done}, other: {action: exit, reason: no}}
"""
RECIPE = """
name: trial
version: "1.0.0"
description: a trial
steps: [{id: look, agent: helper, prompt: Look.}]
"""
WORKFLOW = """
version: "1.1"
name: trial
steps: [{name: look, provider: claude, input_file: prompt.md}]
"""
FILES = {"prompt.md": "Look.", ".claude/agents/helper.md": "---\nname: helper\n---\nHelp.\n"}
DIALECTS = {"machine": MACHINE, "recipe": RECIPE, "workflow": WORKFLOW}


def stage_with(tmp_path: Path, sample: str, code: int = 0, more: str = "") -> Stage:
    stage = Stage(tmp_path, FILES)
    path = SAMPLES / f"{sample}.stdout"
    body = f"{more}\nsys.stdout.write(open({str(path)!r}).read())\nsys.exit({code})\n"
    stage.program("claude", body, version="2.1.325 (Claude Code)")
    return stage


@pytest.mark.parametrize("dialect", DIALECTS)
def test_console_01_logs_show_the_transcript_in_every_dialect(tmp_path: Path, dialect: str) -> None:
    stage = stage_with(tmp_path, "claude/stream-tool")
    played = stage.play(DIALECTS[dialect])
    assert stage.run("logs", "look").assert_exit(0).stdout == TRANSCRIPT
    assert stage.run("logs", "look", "-f").assert_exit(0).stdout == TRANSCRIPT
    assert (
        stage.run("logs", "look", "-n", "2").assert_exit(0).stdout.splitlines()
        == (TRANSCRIPT.splitlines()[-2:])
    )
    assert TRANSCRIPT in stage.run("logs", "look", "--all").assert_exit(0).stdout
    # The answer alone, for programs; and all that the agent's program printed.
    assert stage.run("logs", "look", "--stdout").assert_exit(0).stdout == (
        'Done.\n{"outcome": "done"}\n'
    )
    answer = stage.run("logs", "look", "--stdout", "--raw").assert_exit(0).stdout
    assert answer == 'Done.\n{"outcome": "done"}'
    raw = stage.run("logs", "look", "--raw").assert_exit(0).stdout
    assert raw == (SAMPLES / "claude/stream-tool.stdout").read_text()
    document = json.loads(stage.run("logs", "look", "--json").assert_exit(0).stdout)
    assert [p["kind"] for p in document["transcript"]] == ["said", "runs", "result", "said"]
    assert played.step("look")["status"] == "completed"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_console_01_a_failure_shows_the_end_of_the_transcript(tmp_path: Path, dialect: str) -> None:
    stage = stage_with(tmp_path, "claude/stream-max-turns", 1)
    stage.write("w.yaml", DIALECTS[dialect])
    result = stage.run("run", "w.yaml")
    assert result.exit_code in (1, 4)
    assert '"type"' not in result.stderr
    assert "    | > Bash" in result.stderr
    assert stage.run("logs", "look").assert_exit(0).stdout.splitlines()[-1].startswith("- ")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_console_01_verbose_tells_what_the_agent_does(tmp_path: Path, dialect: str) -> None:
    stage = stage_with(tmp_path, "claude/stream-tool")
    result = stage.play(DIALECTS[dialect], "--verbose").result
    lines = [line for line in result.stderr.splitlines() if "look: " in line]
    told = [line.partition("look: ")[2] for line in lines]
    assert "I look first." in told
    assert told.index("> Bash: git status") < told.index("  ! Exit code 128")
    # A machine's answer goes to stdout, and is not told twice.
    assert told.count("Done.") == (dialect != "machine")


def test_console_01_a_report_has_what_the_agent_did_and_no_events(tmp_path: Path) -> None:
    stage = stage_with(tmp_path, "claude/stream-max-turns", 1)
    stage.write("w.yaml", RECIPE)
    stage.run("run", "w.yaml")
    page = stage.run("report", "--format", "md").assert_exit(0).stdout
    assert "What the agent did" in page
    assert "> Bash: " in page
    assert '"tool_use"' not in page


def test_console_01_logs_follow_an_agent_at_work(tmp_path: Path) -> None:
    first = 'print(json.dumps(dict(type="assistant", message=dict(content=['
    first += 'dict(type="text", text="I begin.")]))), flush=True)\n'
    first += f"while not os.path.exists({str(tmp_path / 'go')!r}): time.sleep(0.05)"
    stage = stage_with(tmp_path, "claude/stream-tool", more=first)
    with stage.started(RECIPE):
        wait_until(lambda: bool(stage.calls("claude")), "the agent was not started")
        with stage.command("logs", "-f", "look") as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "I begin.\n"
            (tmp_path / "go").touch()
            rest = reader.stdout.read()
            assert rest == TRANSCRIPT
            assert reader.wait(60) == 0


def test_console_01_a_declared_provider_is_plain_text(tmp_path: Path) -> None:
    stage = Stage(tmp_path, FILES)
    stage.program("teller", 'print(json.dumps(dict(type="assistant")))\n')
    stage.play("""
        version: "1.1"
        name: trial
        providers: {teller: {command: [teller], input_mode: stdin}}
        steps: [{name: look, provider: teller, input_file: prompt.md}]
    """)
    assert stage.run("logs", "look").assert_exit(0).stdout == '{"type": "assistant"}\n'


def test_console_01_a_secret_that_comes_in_pieces_stays_masked(tmp_path: Path) -> None:
    """The log has no piece that is the secret; what is joined from it must not have it either."""
    stage = Stage(tmp_path, FILES)
    stage.program(
        "gemini",
        """
        def say(**event): print(json.dumps(event), flush=True)
        say(type="init", session_id="7d0c6a7e-3f5b-4c1d-9a52-0c5f7b2f9e11", model="fake")
        for part in ("the key is hunter2", "hunter2, so ", "there"):
            say(type="message", role="assistant", content=part, delta=True)
        say(type="result", status="success", stats=dict(input_tokens=1, output_tokens=1))
        """,
        version="0.61.0",
    )
    env = {"MY_API_KEY": "hunter2hunter2"}
    flags = ("--verbose",)
    result = stage.play(WORKFLOW.replace("claude", "gemini"), *flags, env=env).result
    shown = stage.run("logs", "look", env=env).assert_exit(0).stdout
    assert shown == "the key is ***, so there\n"
    report = stage.run("report", "--format", "md", env=env).assert_exit(0).stdout
    for text in (result.stderr, result.stdout, report):
        assert "hunter2hunter2" not in text
    assert "the key is ***, so there" in result.stderr
