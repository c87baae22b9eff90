"""A2, A3: one session, now driven by a recipe and now by a person who chats."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path

from tests.machines.fakes import PAIR, Scene, said


def chat(scene: Scene, words: str, *flags: str) -> None:
    """A person's own turn, without us."""
    subprocess.run(
        [scene.top / "programs/claude", "-p", "--output-format", "json", *flags],
        cwd=scene.folder,
        env={**os.environ, **scene.surroundings},
        input=words,
        text=True,
        capture_output=True,
        check=True,
    )


TALK = {"text": "Of course.", "shape": "object"}


def test_a2_a_recipe_starts_in_a_session_and_gives_it_back(tmp_path: Path) -> None:
    scene = Scene(tmp_path, TALK, said("done"), said("done"), TALK)
    session = str(uuid.uuid4())
    chat(scene, "Let us talk about the task.", "--session-id", session)
    scene.play(PAIR, "--session", session)
    chat(scene, "And what did you do?", "--resume", session)
    calls = scene.ledger()
    assert {call.session for call in calls} == {session}
    assert [call.is_new for call in calls] == [True, False, False, False]
    assert [call.earlier for call in calls] == [0, 1, 2, 3]
    assert [turn["prompt"].splitlines()[0] for turn in scene.history(session)] == [
        "Let us talk about the task.", "Do first.", "Do second.", "And what did you do?",
    ]  # fmt: skip


def test_a2_one_session_serves_several_recipes(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *[said("done")] * 4)
    first = scene.play(PAIR)
    session = first.state["machine"]["sessionId"]
    second = scene.play(PAIR, "--session", session)
    assert second.state["machine"]["sessionId"] == session
    # Counters belong to the run, not to the session.
    assert second.state["machine"]["stepVisitCounts"] == {"first": 1, "second": 1}
    assert [call.earlier for call in scene.ledger()] == [0, 1, 2, 3]


def test_a3_a_failure_does_not_leave_a_session_that_was_given(tmp_path: Path) -> None:
    scene = Scene(tmp_path, TALK, {"exit": 1}, said("done"), said("done"))
    session = str(uuid.uuid4())
    chat(scene, "Hello.", "--session-id", session)
    scene.play(PAIR, "--session", session, exit_code=4)
    scene.run("resume", "latest").assert_success()
    assert {call.session for call in scene.ledger()} == {session}


def test_a3_an_unknown_session_is_told_and_not_made_up(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    session = str(uuid.uuid4())
    played = scene.play(PAIR, "--session", session, exit_code=4)
    assert "No conversation found" in played.result.stderr
    assert scene.ledger() == []


def test_a2_status_says_how_to_take_over(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), {"exit": 1})
    scene.play(PAIR, exit_code=4)
    session = scene.ledger()[0].session
    shown = scene.run("status", "latest").assert_success().stdout
    assert f"claude --resume {session}" in shown


def test_a2_status_of_codex_says_how_to_take_over(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), said("done"), program="codex")
    scene.play(PAIR, "--backend", "codex")
    session = scene.ledger("codex")[0].session
    assert f"codex resume {session}" in scene.run("status", "latest").stdout
