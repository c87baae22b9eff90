"""Truth 19: flags follow the version, first starts happen alone, and siblings may finish."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from orchestrate.agents.adapter import read_settings
from orchestrate.agents.base import Question
from orchestrate.agents.copilot import COPILOT
from orchestrate.agents.registry import PROGRAMS
from orchestrate.agents.versions import tried_words, version_numbers
from orchestrate.engine.first_start import FirstStart
from tests.acceptance.fakes import Stage
from tests.machines.fakes import machine

ITEMS = """\
name: trial
description: A trial
version: 1.0.0
context: {{items: [{items}]}}
steps:
  - id: work
    agent: helper
    prompt: "Do {{{{item}}}}."
    foreach: "{{{{items}}}}"
    as: item
    parallel: true
  - {{id: last, agent: helper, prompt: The last.}}
"""
HELPER = {".orchestrate/agents/helper.md": "---\nname: helper\n---\nHelp.\n"}
# Spoils what it makes when two first starts overlap, and says so.
OPENCODE = """
if argv == ["--version"]:
    print("1.18.33")
    raise SystemExit
home = pathlib.Path(os.environ["HOME"]) / ".local/share/opencode"
home.mkdir(parents=True, exist_ok=True)
database, making = home / "opencode.db", home / "making"
if not database.exists():
    try:
        making.mkdir()
    except FileExistsError:
        (home / "overlap").touch()
        raise SystemExit("database is locked")
    database.touch()
    time.sleep(0.6)
    making.rmdir()
elif making.exists():
    (home / "overlap").touch()
    raise SystemExit("database is locked")
session = f"ses_{os.getpid()}"
def show(kind, **part):
    part["messageID"] = "m"
    print(json.dumps(dict(type=kind, sessionID=session, part=part)), flush=True)
show("text", text="done")
show("step_finish", reason="stop", tokens=dict(input=1, output=1))
"""
# One item fails once the other is at its turn, which takes until that failure is on record, and
# much longer where it is to be ended.
CLAUDE = """
def answer(prompt):
    begun = pathlib.Path({begun!r})
    if "bad" in prompt:
        while not begun.exists():
            time.sleep(0.01)
        sys.exit("it broke")
    begun.touch()
    events = pathlib.Path(".orchestrate/runs/latest/events.jsonl")
    while '"step-finished"' not in events.read_text().replace(" ", ""):
        time.sleep(0.05)
    time.sleep({ends_after_s})
    return "whole"
"""


def copilot_flags(version: str, folder: Path) -> tuple[str, ...]:
    question = Question("x", folder, {}, session="s", version=version, usage_file=folder / "u")
    return COPILOT.make_call(read_settings(COPILOT, question)).arguments


@pytest.mark.parametrize(
    ("version", "knows"),
    [("1.0.73", False), ("", False), ("unknown", False), ("1.0.102", True), ("1.1.0", True)],
)
def test_truth_19_an_optional_flag_follows_the_version(
    tmp_path: Path, version: str, knows: bool
) -> None:
    assert ("--usage-output-file" in copilot_flags(version, tmp_path)) is knows


def test_truth_19_versions_are_compared_as_numbers() -> None:
    assert version_numbers("1.0.102") > version_numbers("1.0.73") > version_numbers("1.0.9")
    assert tried_words("1.0.50", ("1.0.73", "1.0.102")).startswith("older than 1.0.73")
    assert tried_words("2.0.0", ("1.0.73", "1.0.102")).startswith("newer than 1.0.102")
    assert tried_words("1.0.80", ("1.0.73", "1.0.102")) == ""


def test_truth_19_an_older_copilot_is_asked_without_the_flag(tmp_path: Path) -> None:
    """The real 1.0.73 ends with 1: unknown option."""
    stage = Stage(tmp_path)
    stage.program("copilot", """
        if argv == ["--version"]:
            print("1.0.73")
            raise SystemExit
        if "--usage-output-file" in argv:
            sys.exit("error: unknown option '--usage-output-file'")
        text = json.dumps(dict(outcome="done"))
        for event in (dict(type="assistant.message", data=dict(content=text, model="m")),
                      dict(type="result", sessionId="s", exitCode=0)):
            print(json.dumps(event))
    """)  # fmt: skip
    played = stage.play(machine({"work": {"done": "!ok"}}), "--backend", "github-copilot")
    assert played.step("work")["agent_version"] == "1.0.73"


def doctor(stage: Stage, **env: str) -> dict[str, dict[str, Any]]:
    told = stage.run("doctor", "--json", env=env)
    return {finding["name"]: finding for finding in json.loads(told.stdout)["findings"]}


def test_truth_19_doctor_names_versions_logins_and_bd(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.program("claude", 'print("2.1.100 (Claude Code)")')
    keys = dict.fromkeys(PROGRAMS["claude-code"]().login.variables, "")
    found = doctor(stage, **keys)
    claude = found["claude-code"]
    assert not claude["ok"]
    assert "tried with 2.1.197 to 2.1.325" in claude["detail"]
    assert "no key or login seen (looked for ANTHROPIC_API_KEY" in claude["detail"]
    assert "older than 2.1.197" in claude["advice"]
    assert "to log in: claude" in claude["advice"]
    assert "break-down-tasks" in found["bd"]["detail"]
    with_key = doctor(stage, **keys | {"ANTHROPIC_API_KEY": "sk-not-shown"})["claude-code"]
    assert with_key["ok"]
    assert "key: ANTHROPIC_API_KEY" in with_key["detail"]
    assert "sk-not-shown" not in json.dumps(with_key)
    login = tmp_path / "home/.claude/.credentials.json"
    login.parent.mkdir(parents=True)
    login.write_text("{}")
    assert "login: ~/.claude/.credentials.json" in doctor(stage, **keys)["claude-code"]["detail"]
    stage.program("bd")
    assert doctor(stage, **keys)["bd"]["ok"]


def test_truth_19_every_tried_program_says_what_was_tried_and_its_login() -> None:
    for make in PROGRAMS.values():
        adapter = make()
        assert adapter.tried or adapter.untried
        assert adapter.login.variables
        assert adapter.login.command


def test_truth_19_opencodes_first_start_happens_alone(tmp_path: Path) -> None:
    """Four items at once in a new home; the first makes the database, then all may start."""
    stage = Stage(tmp_path, HELPER)
    stage.program("opencode", OPENCODE)
    recipe = ITEMS.format(items="a, b, c, d")
    played = stage.play(recipe, "--backend", "opencode")
    data = tmp_path / "home/.local/share/opencode"
    assert not (data / "overlap").exists()
    assert len(stage.calls("opencode")) == 5
    assert all(item["work"]["status"] == "completed" for item in played.loop("work"))


def test_truth_19_a_home_that_is_made_again_has_a_first_start_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, HELPER)
    stage.program("opencode", OPENCODE)
    recipe = ITEMS.format(items="a, b")
    stage.play(recipe, "--backend", "opencode")
    data = tmp_path / "home/.local/share/opencode"
    (data / "opencode.db").unlink()
    stage.play(recipe, "--backend", "opencode")
    assert not (data / "overlap").exists()


def test_truth_19_a_late_start_waits_for_the_first_one_in_a_home_that_is_made_again(
    tmp_path: Path,
) -> None:
    """The note of the earlier home lets nobody in while the new one is being made."""
    made = tmp_path / "made"

    def start() -> FirstStart:
        return FirstStart({"XDG_STATE_HOME": str(tmp_path)}, lambda: False)

    earlier = start()
    earlier.begin(made)
    made.touch()
    earlier.end()
    made.unlink()
    first, late = start(), start()
    first.begin(made)
    assert first.is_open
    made.touch()
    waits = threading.Thread(target=late.begin, args=(made,))
    waits.start()
    waits.join(0.3)
    assert waits.is_alive(), "it started beside the first one"
    first.end()
    waits.join(60)
    assert not waits.is_alive()
    assert not late.is_open


@pytest.mark.parametrize("lets_finish", [True, False])
def test_truth_19_siblings_of_a_failed_item_may_finish_their_turn(
    tmp_path: Path, lets_finish: bool
) -> None:
    stage = Stage(tmp_path, HELPER)
    stage.claude(
        CLAUDE.format(begun=str(tmp_path / "begun"), ends_after_s=0 if lets_finish else 120)
    )
    flags = ("--let-finish",) if lets_finish else ()
    played = stage.play(ITEMS.format(items="bad, good"), *flags, exit_code=1)
    good = played.loop("work")[1]["work"]
    assert (good["status"] == "completed") is lets_finish
    assert played.state["status"] == "failed"
    assert "last" not in played.state["steps"], "nothing new starts"
    assert bool(played.state["settings"].get("let_finish")) is lets_finish, "a resume keeps it"


def test_truth_19_let_finish_is_refused_where_nothing_is_parallel(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.refuse(machine({"work": {"done": "!ok"}}), "--let-finish", exit_code=2)
    workflow = 'version: "1.1"\nname: w\nsteps:\n  - {name: A, command: ["false"]}\n'
    stage.refuse(workflow, "--let-finish", exit_code=2)
    stage.play(workflow, exit_code=1)
    stage.run("resume", "latest", "--let-finish").assert_exit(2)
