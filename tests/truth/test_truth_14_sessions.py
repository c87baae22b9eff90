"""A session that was seen is gone on with after any interruption, in all dialects (rulings §7)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from orchestrate.engine.prompts import CUT_OFF
from tests.acceptance.fakes import read_state
from tests.machines.fakes import Call, Line, Scene, machine, said
from tests.promises.processes import is_alive, wait_until

MACHINE = machine({"only": {"done": "!done"}})
RECIPE = """
name: trial
description: a trial
version: 1.0.0
steps:
  - {id: only, agent: helper, prompt: "Do only."}
"""
WORKFLOW = """
version: "1.1"
name: trial
steps:
  - {name: only, provider: PROGRAM, input_file: ask.md}
"""
DIALECTS = ("machine", "recipe", "workflow")
# Which exit code a run ends with whose only agent failed.
FAILED = {"machine": 4, "recipe": 1, "workflow": 1}


def scene_of(
    top: Path, dialect: str, *lines: Line, program: str = "claude"
) -> tuple[Scene, str, tuple[str, ...]]:
    """A scene, the definition for it, and the flags to run it with."""
    scene = Scene(top, *lines, program=program)
    scene.write("ask.md", "Do only.")
    scene.write(
        ".orchestrate/agents/helper.md",
        f"---\nname: helper\ndescription: Helps\nbackend: {program}\n---\nYou help.\n",
    )
    text = {"machine": MACHINE, "recipe": RECIPE, "workflow": WORKFLOW}[dialect]
    flags = ("--backend", program) if dialect == "machine" else ()
    return scene, text.replace("PROGRAM", program), flags


def check_gone_on(calls: list[Call]) -> None:
    """The second call is in the first one's session, and says what became of the first."""
    first, second = calls
    assert first.is_new
    assert (second.session, second.is_new) == (first.session, False)
    assert second.heard == 1, "the session was not gone on with"
    assert second.prompt == CUT_OFF + first.prompt
    assert second.is_alone
    assert second.cwd == first.cwd


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("program", "number"),
    [("claude", signal.SIGINT), ("claude", signal.SIGHUP), ("codex", signal.SIGTERM)],
)
def test_truth_14_an_interrupted_first_turn_is_gone_on_with(
    tmp_path: Path, dialect: str, program: str, number: signal.Signals
) -> None:
    lines = (said("done", wait_for="go"), said("done"))
    scene, text, flags = scene_of(tmp_path, dialect, *lines, program=program)
    with scene.started(text, *flags) as process:
        first = scene.await_call(1, program)
        log = scene.runs_folder / "latest" / "logs"
        wait_until(lambda: first.session in _read_all(log), "the session was never shown")
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == 128 + number
    scene.run("resume", "latest").assert_success()
    check_gone_on(scene.ledger(program))


def _read_all(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return "".join(path.read_text("utf-8", "replace") for path in files)


# What ends a first turn by itself, the flags that are needed for it, and its kind.
ENDS: dict[str, tuple[Line, tuple[str, ...], str]] = {
    "timeout": (said("done", run=["sleep 300"]), ("--step-timeout", "5"), "timeout"),
    "silence": (said("done", run=["sleep 300"]), ("--silence-timeout", "5"), "silent"),
    "crash": ({"exit": 3, "stderr": "it broke"}, (), "crash"),
    "killed": ({"run": ["kill -9 $PPID"]}, (), "crash"),
    "no-end": ({"exit": 0}, (), "crash"),
    "auth": ({"error": "Invalid API key"}, (), "auth"),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("end", ENDS)
def test_truth_14_a_failed_first_turn_is_gone_on_with(
    tmp_path: Path, dialect: str, end: str
) -> None:
    line, flags, kind = ENDS[end]
    if end == "timeout" and dialect == "workflow":
        flags = ()
    scene, text, more = scene_of(tmp_path, dialect, line, said("done"))
    if end == "timeout" and dialect == "workflow":
        text = text.replace("input_file", "timeout_sec: 5, input_file")
    code = FAILED[dialect]
    failed = scene.play(text, *more, *flags, exit_code=code)
    assert failed.step("only")["error"]["context"]["kind"] == kind
    (first,) = scene.ledger()
    assert failed.step("only")["session_id"] == first.session
    shown = scene.run("status", "latest").assert_success().stdout
    assert f"claude --resume {first.session}" in shown
    scene.run("resume", "latest").assert_success()
    check_gone_on(scene.ledger())


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("program", ["claude", "codex"])
def test_truth_14_a_lost_first_turn_is_gone_on_with(
    tmp_path: Path, dialect: str, program: str
) -> None:
    """The orchestrator and its keeper are killed, as by a crash of the machine."""
    lines = (said("done", wait_for="go"), said("done"))
    scene, text, flags = scene_of(tmp_path, dialect, *lines, program=program)
    with scene.started(text, *flags) as process:
        first = scene.await_call(1, program)
        log = scene.runs_folder / "latest" / "logs"
        wait_until(lambda: first.session in _read_all(log), "the session was never shown")
        process.kill()
        process.wait()
    os.kill(parent_of(parent_of(first.pid)), signal.SIGKILL)
    wait_until(lambda: not is_alive(first.pid), "the agent outlived its keeper")
    shown = scene.run("resume", "latest").assert_success()
    assert "lost" in shown.stderr
    check_gone_on(scene.ledger(program))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_14_the_id_is_saved_as_soon_as_it_is_seen(tmp_path: Path, dialect: str) -> None:
    lines = (said("done", wait_for="go"), said("done"))
    scene, text, flags = scene_of(tmp_path, dialect, *lines, program="codex")
    with scene.started(text, *flags) as process:
        first = scene.await_call(1, "codex")
        wait_until(lambda: bool(scene.happened("session-seen")), "the session was not saved")
        root = scene.runs_folder / "latest"

        def is_in_state() -> bool:
            shown = read_state(root)["steps"]["only"].get("session_id")
            return bool(shown == first.session)

        wait_until(is_in_state, "the state does not have the session")
        scene.let_go(program="codex")
        process.communicate(timeout=60)
    assert process.returncode == 0


# When there is no session to go on in.


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_14_a_session_that_is_gone_is_replaced(tmp_path: Path, dialect: str) -> None:
    """It was seen, but the program says that there is none: a new one, and no note."""
    lines = ({"exit": 3, "forgets": True}, said("done"))
    scene, text, flags = scene_of(tmp_path, dialect, *lines)
    scene.play(text, *flags, exit_code=FAILED[dialect])
    resumed = scene.look(scene.run("resume", "latest").assert_success())
    first, second = scene.ledger()
    assert second.is_new
    assert second.session != first.session
    assert second.prompt == first.prompt
    assert resumed.step("only")["session_id"] == second.session
    assert "No conversation found" in resumed.result.stderr
    assert "new session" in resumed.result.stderr


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_14_an_id_that_was_never_seen_is_not_shown(tmp_path: Path, dialect: str) -> None:
    lines = ({"exit": 3, "hides": True, "forgets": True}, said("done"))
    scene, text, flags = scene_of(tmp_path, dialect, *lines)
    failed = scene.play(text, *flags, exit_code=FAILED[dialect])
    (first,) = scene.ledger()
    shown = scene.run("status", "latest").assert_success().stdout
    as_json = scene.run("status", "latest", "--json").assert_success()
    assert first.session not in shown
    assert first.session not in as_json.stdout
    assert "take over" not in shown
    assert "session_id" not in failed.step("only")
    scene.run("resume", "latest").assert_success()
    _, second = scene.ledger()
    assert second.is_new
    assert second.prompt == first.prompt, "no turn was cut off in this session"


def test_truth_14_a_session_that_somebody_names_is_not_replaced(tmp_path: Path) -> None:
    scene, text, _ = scene_of(tmp_path, "machine", said("done"))
    wanted = "11111111-2222-4333-8444-555555555555"
    played = scene.play(text, "--session", wanted, exit_code=4)
    assert "No conversation found" in played.result.stderr
    assert scene.ledger() == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_14_a_program_that_could_not_start_cut_nothing_off(
    tmp_path: Path, dialect: str
) -> None:
    lines = (said("done", run=["true"]), said("done"))
    scene, text, flags = scene_of(tmp_path, dialect, *lines)
    starter = scene.top / "programs" / "claude"
    # Its version is asked for first, and then it is gone.
    starter.write_text('#!/bin/sh\nrm -- "$0"\necho "2.1.325 (Claude Code)"\n', "utf-8")
    scene.play(text, *flags, exit_code=FAILED[dialect])
    scene.install("claude")
    scene.run("resume", "latest").assert_success()
    (call,) = scene.ledger()
    assert call.is_new
    assert not call.prompt.startswith(CUT_OFF)


# Retries within a run.


def test_truth_14_a_recipes_retry_goes_on_in_the_session(tmp_path: Path) -> None:
    overloaded = {"error": "API Error: 529 overloaded", "status": 529}
    scene, text, _ = scene_of(tmp_path, "recipe", overloaded, overloaded, said("done"))
    text = text.replace('Do only."', 'Do only.", retry: {initial_delay: 1}')
    scene.play(text)
    first, second, third = scene.ledger()
    assert first.session == second.session == third.session
    assert [call.heard for call in (first, second, third)] == [0, 1, 2]
    assert second.prompt == third.prompt == CUT_OFF + first.prompt


def test_truth_14_a_providers_retry_goes_on_in_the_session(tmp_path: Path) -> None:
    slow = said("done", run=["sleep 300"])
    scene, text, _ = scene_of(tmp_path, "workflow", slow, {"exit": 1}, said("done"))
    text = text.replace("input_file", "timeout_sec: 5, retries: {max: 3}, input_file")
    scene.play(text)
    first, second, third = scene.ledger()
    assert first.session == second.session == third.session
    assert second.prompt == third.prompt == CUT_OFF + first.prompt


def test_truth_14_each_visit_and_each_item_has_a_session_of_its_own(tmp_path: Path) -> None:
    text = RECIPE.replace('prompt: "Do only."', 'foreach: "{{items}}", prompt: "Do {{item}}."')
    text = text.replace("steps:", "context: {items: [a, b]}\nsteps:")
    scene, _, _ = scene_of(tmp_path, "recipe", said("done"), {"exit": 3}, said("done"))
    scene.play(text, exit_code=1)
    scene.run("resume", "latest").assert_success()
    a, b, again = scene.ledger()
    assert a.session != b.session
    assert (again.session, again.is_new) == (b.session, False)
    assert again.prompt == CUT_OFF + b.prompt


def test_truth_14_items_at_once_go_on_each_in_its_own_session(tmp_path: Path) -> None:
    text = RECIPE.replace(
        'prompt: "Do only."', 'foreach: "{{items}}", parallel: true, prompt: "Do {{item}}."'
    )
    text = text.replace("steps:", "context: {items: [a, b, c]}\nsteps:")
    scene, _, _ = scene_of(tmp_path, "recipe")
    waits = said("done", wait_for="go")
    lines = {f"Do {item}.": waits for item in "abc"}
    scene.script_by_prompt({**lines, CUT_OFF.partition("\n")[0]: said("done")})
    with scene.started(text) as process:
        scene.await_call(3)
        seen = lambda: len(scene.happened("session-seen")) == 3  # noqa: E731
        wait_until(seen, "not all sessions were saved")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    scene.run("resume", "latest").assert_success()
    calls = scene.ledger()
    firsts = {call.session: call for call in calls[:3]}
    assert len(calls) == 6
    assert {call.session for call in calls[3:]} == set(firsts)
    for call in calls[3:]:
        assert call.prompt == CUT_OFF + firsts[call.session].prompt


# Later turns, reminders, costs, locks.


def test_truth_14_a_reminder_that_was_cut_off_is_sent_again(tmp_path: Path) -> None:
    lines = ({"text": "hm"}, {"exit": 3}, said("done"))
    scene, text, _ = scene_of(tmp_path, "machine", *lines)
    scene.play(text, exit_code=4)
    scene.run("resume", "latest").assert_success()
    first, second, third = scene.ledger()
    assert first.session == second.session == third.session
    assert second.prompt.startswith("Your previous response did not include")


def test_truth_14_a_later_turn_gets_the_note_too(tmp_path: Path) -> None:
    pair = machine({"first": {"done": "second"}, "second": {"done": "!all-done"}})
    scene, _, _ = scene_of(tmp_path, "machine", said("done"), {"exit": 3}, said("done"))
    scene.play(pair, exit_code=4)
    scene.run("resume", "latest").assert_success()
    _, second, third = scene.ledger()
    assert third.prompt == CUT_OFF + second.prompt
    assert third.session == second.session


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_14_the_costs_of_both_turns_are_counted_once(tmp_path: Path, dialect: str) -> None:
    """Claude Code's dollars are the session's running total."""
    broken = {"error": "Invalid API key", "cost": 0.25, "is_terse": True}
    scene, text, flags = scene_of(tmp_path, dialect, broken, said("done", cost=0.5, is_terse=True))
    failed = scene.play(text, *flags, exit_code=FAILED[dialect])
    assert failed.state["costs"]["cost_usd"] == 0.25
    played = scene.look(scene.run("resume", "latest").assert_success())
    assert played.step("only")["cost_usd"] == 0.5
    assert played.state["costs"]["cost_usd"] == 0.75
    assert (played.state["costs"]["turns"], played.state["costs"]["unreported"]) == (2, 0)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_14_a_turn_without_a_bill_is_in_the_next_ones_total(
    tmp_path: Path, dialect: str
) -> None:
    """Codex counts tokens up over the session; the killed turn's are in the next total."""
    scene, text, flags = scene_of(tmp_path, dialect, {"exit": 3}, said("done"), program="codex")
    scene.play(text, *flags, exit_code=FAILED[dialect])
    played = scene.look(scene.run("resume", "latest").assert_success())
    assert played.step("only")["input_tokens"] == 1000


@pytest.mark.parametrize("dialect", ["recipe", "workflow"])
def test_truth_14_nobody_else_may_use_a_steps_session_meanwhile(
    tmp_path: Path, dialect: str
) -> None:
    lines = (said("done", wait_for="go"), said("done"))
    scene, text, _ = scene_of(tmp_path, dialect, *lines)
    scene.write("other/chat.yaml", MACHINE)
    with scene.started(text) as process:
        first = scene.await_call(1)
        words = ("run", "other/chat.yaml", "--working-dir", "other", "--session", first.session)
        refused = scene.run(*words).assert_exit(5)
        assert first.session in refused.stderr
        assert len(scene.ledger()) == 1
        scene.let_go()
        process.communicate(timeout=60)
    assert process.returncode == 0
    scene.run(*words).assert_success()
    assert all(call.is_alone for call in scene.ledger())
    left = list((scene.top / "home/state/orchestrate/sessions").glob("*"))
    assert len({path.stem for path in left}) <= 1, "the lock of a step's session was left"
