"""Recordings of turns: a folder with one file per turn, from which the agent `replay` answers.

A file's name says the step, the visit, the turn and the SHA-256 of the prompt; what is in it is the
reply. The prompt itself is not kept. Files are whole, and private like all of a run's.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from orchestrate.agents.base import Failure, Question, Reply
from orchestrate.digest import sha256_of
from orchestrate.errors import StateError
from orchestrate.record import field_names, record
from orchestrate.regex import regex

_VERSION = 1
_NO_NAME = regex(r"[^A-Za-z0-9_-]+")


@record
class RecordedReply:
    """A reply that was given before. `at` is when, in seconds since 1970."""

    reply: Reply
    at: float


@record
class PromptChanged:
    """The step was recorded, but with another prompt. `at` is when that was."""

    at: float


@record
class NeverRecorded:
    """The recording does not have this visit and turn of the step."""


def record_turn(folder: Path, question: Question, reply: Reply, at: float) -> Path:
    """Keep a reply; a later one to the same prompt at the same place replaces it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    document = {
        "version": _VERSION,
        "step": question.place or question.step,
        "visit": question.visit,
        "turn": question.turn,
        "prompt_sha256": _digest(question.prompt),
        "at": at,
        "reply": _as_data(reply),
    }
    path = folder / f"{_place(question)}.{_digest(question.prompt)}.json"
    # ASCII, so that half a character in an answer neither breaks the file nor changes.
    _put(path, json.dumps(document, allow_nan=False, indent=1).encode("ascii") + b"\n")
    return path


def find_turn(folder: Path, question: Question) -> RecordedReply | PromptChanged | NeverRecorded:
    """What the recording has for a question."""
    place = _place(question)
    exact = folder / f"{place}.{_digest(question.prompt)}.json"
    # An empty file is what a power cut may leave of one that was just written.
    if exact.is_file() and exact.stat().st_size:
        return _read(exact)
    others = [_read(path).at for path in folder.glob(f"{place}.*.json")]
    return PromptChanged(max(others)) if others else NeverRecorded()


def _place(question: Question) -> str:
    """A name that is safe in every file system, and different for different steps."""
    step = question.place or question.step
    readable = _NO_NAME.sub("-", step)[:60]
    return f"{readable}.{_digest(step)[:12]}.{question.visit}.{question.turn}"


def _digest(text: str) -> str:
    return sha256_of(text.encode("utf-8", "surrogatepass"))


def _as_data(reply: Reply) -> dict[str, object]:
    data = {name: getattr(reply, name) for name in field_names(reply)}
    if reply.failure is not None:
        data["failure"] = {
            name: getattr(reply.failure, name) for name in field_names(reply.failure)
        }
    return data


def _read(path: Path) -> RecordedReply:
    try:
        document = json.loads(path.read_bytes())
        data = dict(document["reply"])
        if data["failure"] is not None:
            data["failure"] = Failure(**data["failure"])
        data["denied"] = tuple(data.get("denied", ()))
        return RecordedReply(Reply(**data), float(document["at"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"the recording {path} cannot be read: {error}", "record it again"
        ) from error


def _put(path: Path, content: bytes) -> None:
    """Write a file whole, or leave the old one. Only `replay` reads it, so no step waits for the
    disk: after a power cut a turn may be missing, which `replay` says."""
    # A name by which the run's next owner knows what a kill left (`state.durable`).
    temporary = path.with_name(f".turn.{os.urandom(6).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(content)
        os.rename(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StateError(f"cannot write the recording {path}: {error.strerror}") from error
