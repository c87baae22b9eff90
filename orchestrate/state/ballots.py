"""Decisions about gates from several sides at once: the first one counts, and the others learn it.

A run that asks at a terminal holds its lock, and yet a person elsewhere may decide. Each decision,
at the terminal, from elsewhere or by the clock, begins with the one file of that visit of the gate:
only who makes it has decided. The run then records what the file says.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from orchestrate.digest import sha256_of
from orchestrate.errors import explain
from orchestrate.record import record, replace
from orchestrate.regex import regex
from orchestrate.state.durable import (
    dump_json,
    parse_json,
    read_file,
    sync_folder,
    write_durably,
)

if TYPE_CHECKING:
    from orchestrate.state.events import GateDecided
    from orchestrate.state.result import Approval

_FOLDER = "ballots"
_DRAFTING = threading.Lock()
# Named after the process that writes it; with what `write_durably` puts around a name.
_DRAFT = regex(r"\A\.?[0-9a-f]{16}\.([1-9][0-9]{0,8})(?:\.[0-9a-f]{12}\.tmp)?\Z")


@record
class Vote:
    """A decision about one visit of a gate."""

    decision: Literal["approved", "denied"]
    by: str
    message: str = ""


def find_vote(root: Path, gate: Approval) -> Vote | None:
    """What was decided about a gate of the run in a folder; the run may not know it yet."""
    return _read(_file(root, *gate.visited))


def cast(root: Path, event: GateDecided) -> tuple[GateDecided, bool]:
    """Decide; gives the decision that counts, and whether it is this one."""
    path = _file(root, event.frame, event.node, event.visit)
    if not _is_first(path, dump_json([event.decision, event.by, event.message])):
        vote = _read(path)
        if vote is not None:
            counted = replace(event, decision=vote.decision, by=vote.by, message=vote.message)
            return counted, False
    return event, True


def cast_answer(root: Path, question: str, value: str, by: str) -> tuple[str, str, bool]:
    """Answer a question other than a gate's: the answer that counts, by whom, and is it this?"""
    is_first = _is_first(_file(root, question), dump_json([value, by]))
    counted, whose = find_answer(root, question) or (value, by)
    return counted, whose, is_first


def find_answer(root: Path, question: str) -> tuple[str, str] | None:
    content = read_file(_file(root, question))
    try:
        value, by = parse_json(content or b"")
    except (ValueError, TypeError):
        return None
    return str(value), str(by)


def _is_first(path: Path, content: bytes) -> bool:
    """Make the file unless it is there; drafts are named after the process, threads take turns."""
    with _DRAFTING:
        return _make(path, content)


def _make(path: Path, content: bytes) -> bool:
    draft = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_durably(draft, content)
        # A link is made by one only, and what it leads to is written already.
        os.link(draft, path)
        sync_folder(path.parent)
    except FileExistsError:
        return False
    except OSError as error:
        raise explain("write", path, error) from error
    finally:
        with suppress(OSError):
            os.unlink(draft)
    return True


def remove_drafts(root: Path) -> None:
    """Remove what killed voters left half-written; those of living ones are about to be cast."""
    with suppress(OSError), os.scandir(root / _FOLDER) as entries:
        for entry in list(entries):
            found = _DRAFT.match(entry.name)
            if found is not None and not _is_alive(int(found[1])):
                with suppress(OSError):
                    os.unlink(entry.path)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _read(path: Path) -> Vote | None:
    content = read_file(path)
    if content is None:
        return None
    try:
        decision, by, message = parse_json(content)
    except (ValueError, TypeError):
        return None
    if decision not in ("approved", "denied"):
        return None
    return Vote(decision, str(by), str(message))


def _file(root: Path, *what: object) -> Path:
    key = sha256_of(dump_json([*what]))[:16]
    return root / _FOLDER / f"{key}.json"
