"""Machine runs that were interrupted: killed, signalled or failed, and gone on with."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from orchestrate.engine.prompts import CUT_OFF
from tests.acceptance.fakes import read_state
from tests.machines.fakes import PAIR, ROUND, Call, Scene, said
from tests.promises.processes import is_alive, wait_until


def kill_during_call(scene: Scene, text: str, number: int, *flags: str) -> Call:
    """Start a run and kill its orchestrator, and nothing else, while a call is at work."""
    with scene.started(text, *flags) as process:
        call = scene.await_call(number)
        process.kill()
        process.wait()
    assert is_alive(call.pid), "the agent died with the orchestrator"
    return call


@pytest.mark.parametrize("program", ["claude", "codex"])
def test_a3_a_working_agent_is_adopted(tmp_path: Path, program: str) -> None:
    """The same process, asked once; its session is the run's, also where the agent chose it."""
    lines = (said("done", words="I went on.", wait_for="go"), said("done"))
    scene = Scene(tmp_path, *lines, program=program)
    with scene.started(PAIR, "--backend", program) as process:
        call = scene.await_call(1, program)
        process.kill()
        process.wait()
    with scene.command("resume", "latest") as process:
        # It waits for the agent and asks nobody else.
        wait_until(lambda: bool(scene.happened("run-resumed")), "the run was not resumed")
        assert is_alive(call.pid)
        scene.let_go(program=program)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "I went on." in out
    first, second = scene.ledger(program)
    assert (first.session, first.is_new) == (second.session, True)
    assert not second.is_new
    state = read_state(scene.runs_folder / "latest")
    assert state["steps"]["first"]["attempts"] == 1
    assert state["machine"]["stepVisitCounts"] == {"first": 1, "second": 1}


def test_a3_an_agent_that_ended_meanwhile_is_not_asked_again(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", wait_for="go", cost=0.3), said("done", cost=0.1))
    call = kill_during_call(scene, PAIR, 1)
    scene.let_go()
    wait_until(lambda: not is_alive(call.pid), "the agent does not end")
    played = scene.look(scene.run("resume", "latest").assert_success())
    assert len(scene.ledger()) == 2
    assert played.step("first")["cost_usd"] == 0.3
    assert round(played.state["costs"]["cost_usd"], 6) == 0.4


def test_a3_a_later_step_is_adopted_with_its_counters(tmp_path: Path) -> None:
    lines = (said("broken"), said("complete"), said("broken", wait_for="go"), said("complete"))
    scene = Scene(tmp_path, *lines, said("broken"), said("complete"))
    kill_during_call(scene, ROUND, 3, "--max-visits", "2", "--model", "opus")
    scene.let_go()
    # The visits of before count: the third review is one too many.
    played = scene.look(scene.run("resume", "latest").assert_exit(3))
    assert played.state["reason"] == "max-step-visits-exceeded:review"
    assert played.state["machine"]["stepVisitCounts"] == {"review": 2, "fix": 2}
    assert len(scene.ledger()) == 4
    assert {call.session for call in scene.ledger()} == {scene.ledger()[0].session}
    assert {call.model for call in scene.ledger()} == {"opus"}


def test_a2_4_killed_during_the_reminder(tmp_path: Path) -> None:
    """The reminder is adopted as what it is: a second unreadable answer ends the run."""
    scene = Scene(tmp_path, {"text": "hm"}, {"text": "still hm", "wait_for": "go"})
    call = kill_during_call(scene, PAIR, 2)
    assert call.prompt.startswith("Your previous response did not include")
    scene.let_go()
    played = scene.look(scene.run("resume", "latest").assert_exit(2))
    assert played.state["reason"] == "orchestration-error"
    assert len(scene.ledger()) == 2


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def lose(scene: Scene, number: int, text: str = PAIR) -> None:
    """Kill the orchestrator during a call, and its keeper too, as a crash of the machine would."""
    call = kill_during_call(scene, text, number)
    # A session that the agent has not told of is not known to exist.
    logs = scene.runs_folder / "latest" / "logs"
    name = ("first", "second")[number - 1]
    wait_until(
        lambda: any(b"session" in p.read_bytes() for p in logs.glob(f"{name}*.stdout")), "no word"
    )
    warden = parent_of(call.pid)
    os.kill(parent_of(warden), signal.SIGKILL)
    wait_until(lambda: not is_alive(call.pid), "the agent outlived its keeper")


def test_a3_1_a_lost_first_turn_is_asked_again_in_its_session(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", wait_for="go"), said("done"), said("done"))
    lose(scene, 1)
    resumed = scene.run("resume", "latest").assert_success()
    assert "lost" in resumed.stderr
    first, second, third = scene.ledger()
    assert first.session == second.session == third.session
    assert [call.is_new for call in scene.ledger()] == [True, False, False]
    assert [call.heard for call in scene.ledger()] == [0, 1, 2]
    played = scene.look(resumed)
    assert played.step("first")["attempts"] == 2
    assert played.state["machine"]["stepVisitCounts"] == {"first": 1, "second": 1}


def test_a3_1_a_lost_later_turn_is_asked_again_in_its_session(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), said("done", wait_for="go"), said("done"))
    lose(scene, 2)
    scene.run("resume", "latest").assert_success()
    first, second, third = scene.ledger()
    assert first.session == second.session == third.session
    assert third.prompt == CUT_OFF + second.prompt
    assert third.is_alone


def test_a13_a_step_that_must_not_be_lost_waits_for_a_person(tmp_path: Path) -> None:
    text = PAIR.replace('prompt: "Do second."', 'prompt: "Do second."\n    onLost: stop')
    scene = Scene(tmp_path, said("done"), said("done", wait_for="go"), said("done"))
    lose(scene, 2, text)
    stopped = scene.look(scene.run("resume", "latest").assert_exit(6))
    assert stopped.state["status"] == "paused"
    assert "lost" in stopped.state["reason"]
    assert len(scene.ledger()) == 2, "it was asked again without anybody's decision"
    # The person decides by resuming once more.
    scene.run("resume", "latest").assert_success()
    assert len(scene.ledger()) == 3


@pytest.mark.parametrize(
    "event", ["step-finished", "session-seen", "attempt-ended", "step-started"]
)
def test_a3_killed_between_steps(tmp_path: Path, event: str) -> None:
    """Right after an event was written down: what is done stays done, and nothing is left out."""
    scene = Scene(tmp_path, {"text": "hm"}, said("done"), said("done"))
    scene.write("w.yaml", PAIR)
    journal = scene.runs_folder / "latest" / "events.jsonl"
    with scene.command("run", "w.yaml") as process:
        wait_until(
            lambda: journal.exists() and f'"on":"{event}"' in journal.read_text(), f"no {event}"
        )
        process.kill()
        process.wait()
    played = scene.look(scene.run("resume", "latest"))
    assert played.state["reason"] == "all-done"
    first, reminder, second = scene.ledger()
    assert reminder.prompt.startswith("Your previous response")
    assert second.prompt.startswith("Do second.")
    assert {call.session for call in scene.ledger()} == {first.session}
    assert [call.earlier for call in scene.ledger()] == [0, 1, 2]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a13_1_an_interrupt_ends_the_agent_and_can_be_gone_on_from(
    tmp_path: Path, number: int, code: int
) -> None:
    """In a later turn: the session stays. The visit counts once, however often it was begun."""
    lines = (said("done"), said("done", wait_for="go"), said("done"))
    scene = Scene(tmp_path, *lines)
    with scene.started(PAIR) as process:
        call = scene.await_call(2)
        process.send_signal(number)
        _, told = process.communicate(timeout=60)
    assert process.returncode == code
    assert not is_alive(call.pid)
    assert f"orchestrate resume {scene.run_id}" in told
    state = read_state(scene.runs_folder / "latest")
    assert state["status"] == "paused"
    scene.let_go()
    played = scene.look(scene.run("resume", "latest").assert_success())
    first, second, third = scene.ledger()
    assert first.session == second.session == third.session
    assert not third.is_new
    assert third.prompt == CUT_OFF + second.prompt
    assert played.state["machine"]["stepVisitCounts"] == {"first": 1, "second": 1}
    assert played.state["machine"]["stepCount"] == 2


def test_a3_1_an_interrupted_first_turn_goes_on_in_its_session(tmp_path: Path) -> None:
    """As soon as the session was seen; a new one under its id would be refused as in use."""
    scene = Scene(tmp_path, said("done", wait_for="go"), said("done"), said("done"))
    with scene.started(PAIR) as process:
        scene.await_call(1)
        wait_until(lambda: bool(scene.happened("session-seen")), "the session was not saved")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    scene.let_go()
    scene.run("resume", "latest").assert_success()
    first, second, third = scene.ledger()
    assert first.session == second.session == third.session
    assert not second.is_new


def test_a9_flags_of_the_first_start_hold_for_every_resume(tmp_path: Path) -> None:
    flags = ("--model", "opus", "--permissions", "edit", "--system-prompt", "Be brief.")
    failing = [{"exit": 1}, {"exit": 1}]
    scene = Scene(tmp_path, said("broken"), *failing, said("complete"), said("fine"))
    scene.play(ROUND, *flags, "--max-visits", "2", exit_code=4)
    scene.run("resume", "latest").assert_exit(4)
    scene.run("resume", "latest", "--model", "haiku").assert_success()
    models = [call.model for call in scene.ledger()]
    assert models == ["opus", "opus", "opus", "haiku", "haiku"]
    for call in scene.ledger():
        assert "--append-system-prompt=Be brief." in call.argv
        assert call.argv[call.argv.index("--permission-mode") + 1] == "acceptEdits"
    settings = read_state(scene.runs_folder / "latest")["settings"]
    assert (settings["model"], settings["max_visits"]) == ("haiku", 2)


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("--permissions", "read-only", "dontAsk"),
        ("--system-prompt", "Be long.", "--append-system-prompt=Be long."),
    ],
)
def test_a9_any_flag_can_be_given_again(
    tmp_path: Path, flag: str, value: str, expected: str
) -> None:
    """Rulings §7: flags given to `run` hold for its resumes unless given again."""
    scene = Scene(tmp_path, {"exit": 1}, said("done"), said("done"))
    scene.play(PAIR, exit_code=4)
    scene.run("resume", "latest", flag, value).assert_success()
    assert [expected in call.argv for call in scene.ledger()] == [False, True, True]


def test_a14_1_resume_works_where_the_run_was_started(tmp_path: Path) -> None:
    """A session is always resumed from its directory, wherever `resume` is typed (rulings §7)."""
    scene = Scene(tmp_path, {"exit": 1}, said("done"), said("done"))
    scene.write("inner/w.yaml", PAIR)
    runs = str(scene.top / "runs")
    started = ("run", "inner/w.yaml", "--working-dir", "inner", "--state-dir", runs)
    scene.run(*started).assert_exit(4)
    scene.run("resume", "latest", "--state-dir", runs).assert_success()
    assert {call.cwd for call in scene.ledger()} == {str(scene.folder / "inner")}


def test_a3_a_changed_prompt_cannot_be_gone_on_with(tmp_path: Path) -> None:
    """The session has heard the old words; the file that changed is named (rulings §6)."""
    scene = Scene(tmp_path, said("done"), {"exit": 1})
    scene.write("second.md", "Do second.")
    scene.play(PAIR.replace('"Do second."', "{$include: second.md}"), exit_code=4)
    scene.write("second.md", "Do second better.")
    refused = scene.run("resume", "latest").assert_exit(2)
    assert "second.md" in refused.stderr
    assert "w.yaml" not in refused.stderr
    assert len(scene.ledger()) == 2


def test_a3_resume_with_another_agent_starts_another_session(tmp_path: Path) -> None:
    """A session belongs to the agent that made it; the other one does not know its id."""
    scene = Scene(tmp_path, said("done"), {"error": "credit balance too low"})
    scene.script(said("done"), program="codex")
    scene.play(PAIR, exit_code=4)
    played = scene.look(scene.run("resume", "latest", "--backend", "codex").assert_success())
    (call,) = scene.ledger("codex")
    assert call.is_new
    assert call.prompt.startswith("Do second.")
    assert played.state["machine"]["sessionId"] == call.session


def test_a13_1_a_run_is_cancelled_from_outside(tmp_path: Path) -> None:
    """A3 §6.5: the agent is ended, and the session is free for normal chat or another recipe."""
    lines = (said("done"), said("done", wait_for="go"), said("done"), said("done"))
    scene = Scene(tmp_path, *lines)
    with scene.started(PAIR) as process:
        call = scene.await_call(2)
        scene.run("cancel", "latest").assert_success()
        process.communicate(timeout=60)
    assert process.returncode not in (0, 70)
    assert not is_alive(call.pid)
    assert read_state(scene.runs_folder / "latest")["status"] == "cancelled"
    refused = scene.run("resume", "latest")
    assert refused.exit_code != 0
    assert "cancelled" in refused.stdout + refused.stderr
    scene.play(PAIR, "--session", call.session)
    assert scene.ledger()[3].earlier == 2
