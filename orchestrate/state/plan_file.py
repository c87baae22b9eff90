"""`plan.json`: the program of a run, kept in the run's folder so that readers need no other file.

definition.json      the composed files, as people wrote them
plan.json            the program as it was compiled and, where flags changed it, as it runs
plans/DIGEST.json    the same for a recipe that the run found on its way (B)

The plans end with a checksum: one that was changed or damaged is refused as a whole. Earlier
versions wrote none; what they wrote is checked for what a plan must be.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrate.digest import sha256_of
from orchestrate.errors import StateError
from orchestrate.plan.check import problems
from orchestrate.plan.codec import thaw
from orchestrate.plan.nodes import Plan, PlanId, Program, main_plan
from orchestrate.state.durable import dump_json, parse_json, read_file
from orchestrate.state.model import Edits, Find, Index
from orchestrate.state.runs import Run
from orchestrate.state.seal import seal_for, verify_seal

DOCUMENTS = "definition.json"
FILE = "plan.json"
LATE = "plans"
# What the run was made of after an edit: `edits/N/` has all of the above.
EDITS = "edits"
_SEAL = "checksum"
# 1 kept the compiled program only: flags had to be applied again by every reader.
FORMAT = 2
# What reading the data of a plan can raise where it is not what we wrote.
ODD = (ValueError, KeyError, TypeError, AttributeError, IndexError)


class LostPlanError(StateError):
    """A plan that a run should keep is missing, or its file is not what orchestrate wrote."""


def index_of(run: Run) -> Index:
    """The plans of a run as they run, those that it found on its way included."""
    edits = edits_of(run)
    return Index(*edits(0), 0, edits)


def edits_of(run: Run) -> Edits:
    """The plans of a run after each of its edits: a journal that is read from its start needs them
    all."""

    def made_of(edit: int) -> tuple[Program, Find]:
        root = edit_folder(run.root, edit)
        return _running(run, root / FILE), lambda plan_id: _late_plan(run, root, plan_id)

    return made_of


def edit_folder(root: Path, edit: int) -> Path:
    """Where the run keeps what it is made of after so many edits."""
    return root / EDITS / str(edit) if edit else root


def programs_kept(run: Run) -> Iterator[Program]:
    """Every program that the run keeps and that can be read, as it runs."""
    roots = (run.root, *(run.root / EDITS).glob("*"))
    for path in (p for root in roots for p in (root / FILE, *sorted((root / LATE).glob("*.json")))):
        with suppress(StateError):
            data = read_plan_file(path)
            if data is not None:
                yield read_program(path, data.get("running", data["program"]), data)


def is_plan_whole(run: Run) -> bool:
    """Can the run continue with its own copy? One that had to be masked lacks a secret."""
    data = read_plan_file(run.root / FILE)
    return data is not None and not data["is_masked"]


def _late_plan(run: Run, root: Path, plan_id: PlanId) -> Plan:
    path = late_file(root, plan_id)
    program = _running(run, path)
    if program.main != plan_id:
        raise damaged(path, f"it is the plan of {program.main}, not of {plan_id}")
    return main_plan(program)


def late_file(root: Path, plan_id: PlanId) -> Path:
    digest = sha256_of(os.fsencode(plan_id))[:16]
    return root / LATE / f"{digest}.json"


def _running(run: Run, path: Path) -> Program:
    data = read_plan_file(path)
    if data is None or data["format"] < FORMAT:
        missing = "is missing" if data is None else "is of an older format"
        raise LostPlanError(
            f"the plan of run {run.id} is not kept: {path.relative_to(run.root)} {missing}",
            "the run was started by an older orchestrate, or the file was deleted; to make it "
            f"again, if the definition has not changed: orchestrate resume {run.id}",
        )
    written = data.get("running")
    return read_program(path, data["program"] if written is None else written, data)


def read_program(path: Path, written: Any, data: dict[str, Any]) -> Program:
    """A program out of the data of a plan file."""
    try:
        program = thaw(written)
        problem = None if _is_sealed(data) else next(problems(program), None)
    except ODD as error:
        problem = str(error)
        program = None
    if program is None or problem is not None:
        raise damaged(path, problem)
    return program


def write_plan_data(data: dict[str, Any]) -> bytes:
    """The content of a plan file, sealed."""
    plain = {key: value for key, value in data.items() if key != _SEAL}
    body = dump_json(plain).removesuffix(b"}\n")
    return body + seal_for(body)


def _is_sealed(data: dict[str, Any]) -> bool:
    return _SEAL in data


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
        if _is_sealed(data):
            verify_seal(content)
    except ODD as error:
        raise damaged(path, error) from None
    if is_newer:
        raise StateError(
            f"{path} was written by a newer orchestrate ({data.get('orchestrate', '?')})",
            "use that version for this run",
        )
    return data


def read_documents(root: Path) -> dict[str, Any]:
    """The composed files of a run's definition by plan, the main one first; none if unreadable."""
    try:
        documents = parse_json(read_file(root / DOCUMENTS) or b"{}")
    except (ValueError, StateError):
        return {}
    found = documents.items() if isinstance(documents, dict) else ()
    return {plan_id: document for plan_id, document in found if isinstance(document, dict)}


def damaged(path: Path, problem: object) -> LostPlanError:
    return LostPlanError(
        f"{path} is damaged: {problem}",
        "put it back from a copy, or start the definition anew with: orchestrate run FILE",
    )
