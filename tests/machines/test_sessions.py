"""A §3: which session a call belongs to, who may use it, and how a restart leaves it behind."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from orchestrate.engine.prompts import CUT_OFF
from tests.acceptance.fakes import read_state
from tests.machines.fakes import PAIR, Scene, machine, said
from tests.promises.processes import wait_until

# One task, one session: after a commit the recipe starts over.
TASKS = machine(
    {
        "implement": {"complete": "commit", "no-tasks": "!no-tasks-available"},
        "commit": {"committed": "@trial"},
    }
)


def test_a3_1_the_first_call_creates_and_the_others_resume(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", words="one"), {"text": "hm"}, said("done"))
    played = scene.play(PAIR)
    first, second, third = scene.ledger()
    assert [call.is_new for call in (first, second, third)] == [True, False, False]
    assert first.argv[first.argv.index("--session-id") + 1] == first.session
    assert "--resume" not in first.argv
    for number, call in enumerate((second, third), start=1):
        assert call.argv[call.argv.index("--resume") + 1] == first.session
        assert "--session-id" not in call.argv
        assert call.earlier == number, "the conversation was not carried on"
        assert call.is_alone
    assert uuid.UUID(first.session).version == 4
    assert played.state["machine"]["sessionCreated"] is True
    assert played.state["machine"]["sessionId"] == first.session
    assert played.step("second")["session_id"] == first.session


def test_a3_1_every_run_has_a_session_of_its_own(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *[said("done")] * 4)
    scene.play(PAIR)
    scene.play(PAIR)
    sessions = [call.session for call in scene.ledger()]
    assert sessions[0] == sessions[1] != sessions[2] == sessions[3]


def test_a3_1_the_id_that_the_agent_makes_up_is_resumed(tmp_path: Path) -> None:
    """Codex chooses ids itself; its id is written down while it still works (rulings §7)."""
    scene = Scene(tmp_path, said("done", wait_for="go"), said("done"), program="codex")
    with scene.started(PAIR, "--backend", "codex") as process:
        first = scene.await_call(1, "codex")
        while not scene.happened("session-seen"):
            assert process.poll() is None
        state = read_state(scene.runs_folder / "latest")
        scene.let_go(program="codex")
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert state["steps"]["first"]["status"] == "running"
    assert scene.happened("session-seen")[0]["session"] == first.session
    _, second = scene.ledger("codex")
    assert second.argv[-3:] == ["resume", first.session, "-"]
    assert (second.is_new, second.earlier) == (False, 1)


def test_a4_1_the_id_that_comes_back_is_the_one_to_resume(tmp_path: Path) -> None:
    """The agent may answer under another id than it was asked with (A §4.1, rulings §7)."""
    fork = str(uuid.uuid4())
    scene = Scene(tmp_path, said("done"), {"text": "hm", "fork": fork}, said("done"))
    played = scene.play(PAIR)
    first, second, third = scene.ledger()
    assert first.session == second.session
    assert third.session == fork
    assert third.earlier == 2
    assert played.state["machine"]["sessionId"] == fork


@pytest.mark.parametrize("program", ["claude", "codex"])
def test_a3_1_a_failed_first_call_is_gone_on_with(tmp_path: Path, program: str) -> None:
    """Rulings §7: its session was seen, so the next try resumes it. A new one under the old id
    would be refused: `claude` says 'in use'."""
    broken = {"error": "API Error: 400 it broke", "status": 400}
    scene = Scene(tmp_path, broken, said("done"), said("done"), program=program)
    scene.play(PAIR, "--backend", program, exit_code=4)
    played = scene.look(scene.run("resume", "latest").assert_success())
    first, second, third = scene.ledger(program)
    assert (first.is_new, second.is_new, third.is_new) == (True, False, False)
    assert first.session == second.session == third.session
    assert second.heard == 1
    assert played.state["machine"]["stepVisitCounts"] == {"first": 1, "second": 1}


def test_a3_1_a_later_failure_stays_in_the_session(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), {"exit": 1}, said("done"))
    failed = scene.play(PAIR, exit_code=4)
    assert failed.state["machine"]["sessionCreated"] is True
    scene.run("resume", "latest").assert_success()
    first, second, third = scene.ledger()
    assert first.session == second.session == third.session
    assert [call.is_new for call in (first, second, third)] == [True, False, False]
    assert third.prompt == CUT_OFF + second.prompt
    assert third.earlier == 1


def test_a3_1_a_reminder_that_fails_does_not_lose_the_session(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"text": "no block"}, {"exit": 1}, said("done"), said("done"))
    scene.play(PAIR, exit_code=4)
    scene.run("resume", "latest").assert_success()
    assert len({call.session for call in scene.ledger()}) == 1
    assert [call.is_new for call in scene.ledger()] == [True, False, False, False]


# A §3.2: restart-new-session.


def test_a20_2_6_a_restart_is_a_new_session_and_a_new_count(tmp_path: Path) -> None:
    task = [said("complete"), said("committed")]
    scene = Scene(tmp_path, *task, *task, *task, *task, said("no-tasks"))
    played = scene.play(TASKS)
    assert played.state["reason"] == "no-tasks-available"
    calls = scene.ledger()
    sessions = list(dict.fromkeys(call.session for call in calls))
    # More rounds than a step may be visited: the counters have started again each time.
    assert len(sessions) == 5
    assert [sessions.index(call.session) for call in calls] == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    assert [call.is_new for call in calls] == [True, False] * 4 + [True]
    assert [call.earlier for call in calls] == [0, 1] * 4 + [0]
    assert {call.cwd for call in calls} == {str(scene.folder)}
    machine_state = played.state["machine"]
    assert machine_state["restarts"] == 4
    assert machine_state["stepCount"] == 1
    assert machine_state["stepVisitCounts"] == {"implement": 1}
    assert machine_state["sessionId"] == sessions[-1]


def test_a3_2_restarts_can_be_bounded(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *[said("complete"), said("committed")] * 3, said("no-tasks"))
    played = scene.play(TASKS, "--max-restarts", "1", exit_code=3)
    assert "max-restarts" in played.state["reason"]
    assert len(scene.ledger()) == 4
    scene.run("resume", "latest").assert_exit(3)
    assert len(scene.ledger()) == 4
    # The bound is given anew: the run goes on, and nothing that was done is repeated.
    ended = scene.look(scene.run("resume", "latest", "--max-restarts", "9").assert_success())
    assert ended.state["machine"]["restarts"] == 3
    assert len(scene.ledger()) == 7


def test_a3_2_no_restart_at_all(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("complete"), said("committed"))
    scene.play(TASKS, "--max-restarts", "0", exit_code=3)
    assert len(scene.ledger()) == 2


def test_a3_2_a_restart_may_start_another_recipe(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), said("done"))
    scene.write("workflows/after.yaml", machine({"look": {"done": "!looked"}}, name="after"))
    played = scene.play(machine({"first": {"done": "@after"}}), "--verbose")
    assert played.state["reason"] == "looked"
    assert played.state["machine"]["recipeId"] == "after"
    assert "[orchestration] Transition: first → after (new session)" in played.result.stderr
    first, second = scene.ledger()
    assert first.session != second.session
    assert second.is_new
    # Flags and the working directory hold for the other recipe too (A §14.1).
    assert second.cwd == first.cwd


# A §3.3: one at a time.


def test_a3_3_a_second_run_in_the_session_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", wait_for="go"), said("done"), said("done"), said("done"))
    with scene.started(PAIR) as process:
        call = scene.await_call(1)
        run_id = scene.run_id
        refused = scene.run("run", "w.yaml", "--session", call.session).assert_exit(5)
        assert len(scene.ledger()) == 1, "the session was used by two at once"
        scene.let_go()
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert call.session in refused.stderr
    assert f"process {process.pid}" in refused.stderr
    assert run_id in refused.stderr
    # It is free as soon as the first run is over.
    scene.run("run", "w.yaml", "--session", call.session).assert_success()
    assert {call.session for call in scene.ledger()} == {call.session}
    assert all(call.is_alone for call in scene.ledger())


def test_a3_3_another_session_of_the_agent_is_free(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", wait_for="go"), said("done"), said("done"), said("done"))
    with scene.started(PAIR) as process:
        scene.await_call(1)
        scene.run("run", "w.yaml", "--allow-concurrent").assert_success()
        scene.let_go()
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_a3_3_a_restart_leaves_the_old_session_free(tmp_path: Path) -> None:
    task = [said("complete"), said("committed")]
    chat = machine({"chat": {"done": "!said"}}, name="chat")
    scene = Scene(tmp_path, *task, said("no-tasks", wait_for="go"), said("done"))
    scene.write("chat.yaml", chat)
    with scene.started(TASKS) as process:
        scene.await_call(3)
        old, new = scene.ledger()[0].session, scene.ledger()[2].session
        scene.run("run", "chat.yaml", "--session", old, "--allow-concurrent").assert_success()
        scene.run("run", "chat.yaml", "--session", new).assert_exit(5)
        scene.let_go()
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert scene.ledger()[3].session == old


def test_a3_3_an_agent_that_outlived_its_orchestrator_still_has_the_session(tmp_path: Path) -> None:
    """`kill -9` frees our lock, not the conversation: the agent is still writing to it."""
    scene = Scene(tmp_path, said("done", wait_for="go"), said("done"), said("done"), said("done"))
    with scene.started(PAIR) as process:
        call = scene.await_call(1)
        run_id = scene.run_id
        process.kill()
        process.wait()
    refused = scene.run("run", "w.yaml", "--session", call.session).assert_exit(5)
    assert run_id in refused.stderr
    assert len(scene.ledger()) == 1
    scene.let_go()
    scene.run("resume", run_id).assert_success()


def test_a3_3_resume_takes_the_session_while_it_waits_for_an_adopted_agent(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", wait_for="go"), said("done"))
    with scene.started(PAIR) as process:
        call = scene.await_call(1)
        process.kill()
        process.wait()
    with scene.command("resume", "latest") as process:
        owners = scene.top / "home/state/orchestrate/sessions"
        wait_until(
            lambda: any(str(process.pid) in path.read_text() for path in owners.glob("*.owner")),
            "the session was never locked",
        )
        refused = scene.run("run", "w.yaml", "--session", call.session).assert_exit(5)
        assert f"process {process.pid}" in refused.stderr
        scene.let_go()
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert [call.is_alone for call in scene.ledger()] == [True, True]
