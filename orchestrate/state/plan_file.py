"""`plan.json`: the program of a run, kept in the run's folder so that readers need no other file.

plan.json            the program as it was compiled and, where flags changed it, as it runs
plans/DIGEST.json    the same for a recipe that the run found on its way (B)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from orchestrate.errors import StateError
from orchestrate.plan.codec import thaw
from orchestrate.plan.nodes import Plan, PlanId, Program, main_plan
from orchestrate.state.durable import parse_json, read_file
from orchestrate.state.model import Index
from orchestrate.state.runs import Run

FILE = "plan.json"
LATE = "plans"
# 1 kept the compiled program only: flags had to be applied again by every reader.
FORMAT = 2


def index_of(run: Run) -> Index:
    """The plans of a run as they run, those that it found on its way included."""
    return Index(_running(run, run.root / FILE), lambda plan_id: _late_plan(run, plan_id))


def programs_kept(run: Run) -> Iterator[Program]:
    """Every program that the run keeps and that can be read, as it runs."""
    for path in (run.root / FILE, *sorted((run.root / LATE).glob("*.json"))):
        with suppress(StateError):
            data = read_plan_file(path)
            if data is not None:
                yield read_program(path, data.get("running", data["program"]))


def is_plan_whole(run: Run) -> bool:
    """Can the run be gone on with by its own copy? One that had to be masked lacks a secret."""
    data = read_plan_file(run.root / FILE)
    return data is not None and not data["is_masked"]


def _late_plan(run: Run, plan_id: PlanId) -> Plan:
    return main_plan(_running(run, late_file(run.root, plan_id)))


def late_file(root: Path, plan_id: PlanId) -> Path:
    digest = sha256(os.fsencode(plan_id)).hexdigest()[:16]
    return root / LATE / f"{digest}.json"


def _running(run: Run, path: Path) -> Program:
    data = read_plan_file(path)
    if data is None or data["format"] < FORMAT:
        missing = "is missing" if data is None else "is of an older format"
        raise StateError(
            f"the plan of run {run.id} is not kept: {path.relative_to(run.root)} {missing}",
            "the run was started by an older orchestrate, or the file was deleted",
        )
    written = data.get("running")
    return read_program(path, data["program"] if written is None else written)


def read_program(path: Path, written: Any) -> Program:
    """A program out of the content of a plan file."""
    try:
        return thaw(written)
    except (ValueError, AttributeError) as error:
        raise damaged(path, error) from None


def is_current(path: Path) -> bool:
    """Is the file of the format that is written now? Its first words say so."""
    try:
        with open(path, "rb") as file:
            return file.read(64).replace(b" ", b"").startswith(b'{"format":%d,' % FORMAT)
    except OSError:
        return True  # there is nothing to bring up


def read_plan_file(path: Path) -> dict[str, Any] | None:
    """The content of a plan file, its programs still as data; None if there is none."""
    content = read_file(path)
    if content is None:
        return None
    try:
        data: dict[str, Any] = parse_json(content)
        is_newer = data["format"] > FORMAT
        data["program"]
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(path, error) from None
    if is_newer:
        raise StateError(
            f"{path} was written by a newer orchestrate ({data.get('orchestrate', '?')})",
            "use that version for this run",
        )
    return data


def damaged(path: Path, error: Exception) -> StateError:
    return StateError(
        f"{path} is damaged: {error}",
        "put it back from a copy, or start the definition anew with: orchestrate run FILE",
    )
