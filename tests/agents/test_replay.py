"""A recording answers as the agent did; what it does not have is a named miss."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from orchestrate.agents.base import Failure, Finished, Invocation, Question, Reply
from orchestrate.agents.stand_ins.recording import (
    NeverRecorded,
    PromptChanged,
    RecordedReply,
    find_turn,
    record_turn,
)
from orchestrate.agents.stand_ins.replay import Replay
from orchestrate.errors import StateError

AT = 1_794_800_000.0
REPLY = Reply(
    text='Fine.\n{"outcome": "done"}', session="s-1", input_tokens=5, cost_usd=0.25, model="m"
)


def never(_: Invocation) -> Finished:
    raise AssertionError("a recording starts nothing")


def question(prompt: str = "Review.", **more: Any) -> Question:
    return Question(prompt, Path("/w"), {}, **{"step": "review", "session": "s-2", **more})


def test_a_recorded_turn_is_found_again(tmp_path: Path) -> None:
    record_turn(tmp_path, question(), REPLY, AT)
    assert find_turn(tmp_path, question()) == RecordedReply(REPLY, AT)
    assert Replay(tmp_path).ask(question(), never) == REPLY


def test_a_recorded_failure_is_a_failure_again(tmp_path: Path) -> None:
    failed = Reply(failure=Failure("rate-limit", "later", 429, AT + 60), session="s-1")
    record_turn(tmp_path, question(), failed, AT)
    assert Replay(tmp_path).ask(question(), never) == failed


@pytest.mark.parametrize(
    "other",
    [{"step": "fix"}, {"visit": 2}, {"turn": 2}, {"place": "Loop[1].review"}],
    ids=lambda value: next(iter(value)),
)
def test_step_visit_turn_and_place_belong_to_the_key(other: dict[str, Any], tmp_path: Path) -> None:
    record_turn(tmp_path, question(), REPLY, AT)
    assert find_turn(tmp_path, question(**other)) == NeverRecorded()
    record_turn(tmp_path, question(**other), Reply(text="other"), AT)
    assert find_turn(tmp_path, question()) == RecordedReply(REPLY, AT)


def test_a_changed_prompt_is_a_named_miss(tmp_path: Path) -> None:
    record_turn(tmp_path, question(), REPLY, AT)
    record_turn(tmp_path, question("Review well."), REPLY, AT + 60)
    assert find_turn(tmp_path, question("Review now.")) == PromptChanged(AT + 60)
    failure = Replay(tmp_path).ask(question("Review now."), never).failure
    assert failure is not None
    assert failure.kind == "invalid-request"
    assert (
        "the prompt of step 'review' (visit 1) has changed since it was recorded" in failure.message
    )
    assert "2026-11-16 03:34:20+00:00" in failure.message


def test_a_turn_that_was_never_recorded_is_a_named_miss(tmp_path: Path) -> None:
    failure = Replay(tmp_path / "none").ask(question(visit=3, turn=2), never).failure
    assert failure is not None
    assert failure.kind == "invalid-request"
    assert "step 'review' (visit 3, turn 2) is not in the recording" in failure.message


def test_recordings_are_private_and_hold_no_prompt(tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    path = record_turn(folder, question("the secret plan"), REPLY, AT)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert b"secret plan" not in path.read_bytes()
    assert [entry.name for entry in folder.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "step", ["../../etc/passwd", "a/b", "", ".", "x" * 5000, "\0", "\ud800", "Ünï cödé", "-rf"]
)
def test_any_step_name_makes_a_safe_file_name(step: str, tmp_path: Path) -> None:
    path = record_turn(tmp_path, question(step=step), REPLY, AT)
    assert path.parent == tmp_path
    assert len(os.fsencode(path.name)) < 255
    assert find_turn(tmp_path, question(step=step)) == RecordedReply(REPLY, AT)


def test_steps_that_look_alike_in_a_file_name_stay_apart(tmp_path: Path) -> None:
    record_turn(tmp_path, question(step="a b"), REPLY, AT)
    assert find_turn(tmp_path, question(step="a/b")) == NeverRecorded()


def test_half_a_character_survives(tmp_path: Path) -> None:
    broken = Reply(text="half \ud800 of it")
    record_turn(tmp_path, question("also \udcff here"), broken, AT)
    assert find_turn(tmp_path, question("also \udcff here")) == RecordedReply(broken, AT)


def test_a_later_reply_to_the_same_prompt_replaces_the_first(tmp_path: Path) -> None:
    record_turn(tmp_path, question(), REPLY, AT)
    record_turn(tmp_path, question(), Reply(text="new"), AT + 1)
    assert find_turn(tmp_path, question()) == RecordedReply(Reply(text="new"), AT + 1)


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_turn(tmp_path, question(), REPLY, AT)

    def full(_source: Path, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(StateError, match="No space left"):
        record_turn(tmp_path, question(), Reply(text="new"), AT)
    monkeypatch.undo()
    assert find_turn(tmp_path, question()) == RecordedReply(REPLY, AT)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"reply": {"zork": 1}, "at": 1}'])
def test_a_broken_recording_is_said_to_be_broken(content: bytes, tmp_path: Path) -> None:
    record_turn(tmp_path, question(), REPLY, AT).write_bytes(content)
    with pytest.raises(StateError, match="cannot be read"):
        find_turn(tmp_path, question())


def test_a_recording_is_plain_json(tmp_path: Path) -> None:
    path = record_turn(tmp_path, question(visit=2), REPLY, AT)
    document = json.loads(path.read_text("ascii"))
    assert (document["step"], document["visit"], document["turn"]) == ("review", 2, 1)
    assert document["prompt_sha256"] in path.name
    assert document["reply"]["cost_usd"] == 0.25
