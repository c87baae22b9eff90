"""Calls of other files, in any dialect: which plan is meant, and whether it gets what it needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrate.catalogue import SUFFIXES
from orchestrate.diagnostics import closest
from orchestrate.dialects.lowering import Lowering
from orchestrate.plan.calling import takes_inputs_only
from orchestrate.plan.expr import Const, Expr, ListExpr, MapExpr, references_in
from orchestrate.plan.inputs import Unfit, checked, read_text
from orchestrate.plan.nodes import Abort, Call, Finish, Plan, PlanId, Restart, nodes_in
from orchestrate.plan.settings import Input
from orchestrate.record import record
from orchestrate.source.located import LocatedList, LocatedMap


def find_plan(work: Lowering, step: LocatedMap, key: str) -> PlanId | None:
    """The plan of a file, relative to the one that names it, or of an id; None after a report."""
    path = str(step[key])
    folder = _folder_of(work, step, key)
    file = Path(os.path.normpath(folder / path)) if "\0" not in path else folder / "?"
    plan = None
    # An absolute path is meant as it stands (B); a relative one must not wander off.
    if not os.path.isabs(path) and not work.workspace.allows(file, folder):
        work.report("E311", f"the recipe '{path[:100]}' is outside the workspace", step, key,
                    hint="copy the file into the workspace, name a wider one with --working-dir, "
                    "or write its absolute path")  # fmt: skip
        return None
    if os.path.isfile(file):
        plan = work.library.by_path(file)
    elif not path.lower().endswith(SUFFIXES) and path in work.library.known_ids():
        plan = work.library.by_id(path)
    else:
        problem = "is a folder, not a file" if os.path.isdir(file) else "does not exist"
        near, hint = _near_file(work, folder, path)
        work.report("E311", f"the recipe '{path[:100]}' {problem}", step, key, hint=hint,
                    suggestion=near)  # fmt: skip
        return None
    if plan is None:
        work.report("E311", f"the recipe '{path}' cannot be used", step, key,
                    hint="see the errors in that file")  # fmt: skip
        return None
    _check_circle(work, step, key, plan)
    return plan


def named_plan(work: Lowering, step: LocatedMap) -> PlanId | None:
    """The same without a report: what a step calls may be asked before it is lowered."""
    path = str(step.get("call", ""))
    folder = _folder_of(work, step, "call")
    file = Path(os.path.normpath(folder / path)) if path and "\0" not in path else folder / "?"
    if os.path.isfile(file) and (os.path.isabs(path) or work.workspace.allows(file, folder)):
        return work.library.by_path(file)
    return work.library.by_id(path) if path in work.library.known_ids() else None


def _check_circle(work: Lowering, step: LocatedMap, key: str, called: PlanId) -> None:
    """Does the called recipe lead back to this one? The last of a circle to be lowered sees it."""
    chain = _chain(work, called) if work.first_time(f"circle {called}") else None
    if chain is None:
        return
    message = "this recipe calls itself"
    if len(chain) > 1:
        message = f"the recipes call each other: {' → '.join((work.plan_id, *chain))}"
    hint = "unless a condition stops it, the run fails when recursion.max_depth is reached"
    work.report("W301", message, step, key, hint=hint)


def _chain(work: Lowering, start: PlanId) -> list[PlanId] | None:
    """The plans by which calls lead from one plan to this one, both included."""
    reached_from: dict[PlanId, PlanId | None] = {start: None}
    waiting = [start]
    while waiting:
        name = waiting.pop(0)
        if name == work.plan_id:
            chain = [name]
            while (before := reached_from[chain[0]]) is not None:
                chain.insert(0, before)
            return chain
        for other in _called_by(work.library.lowered(name)):
            if other not in reached_from:
                reached_from[other] = name
                waiting.append(other)
    return None


def _called_by(plan: Plan | None) -> Iterator[PlanId]:
    for block in plan.blocks if plan is not None else ():
        for node in block.nodes:
            if isinstance(node.op, Call) and isinstance(node.op.plan, str):
                yield node.op.plan


def _folder_of(work: Lowering, step: LocatedMap, key: str) -> Path:
    """Paths of recipes start at the file that names them, which may be an include (rulings §1)."""
    source = work.document.sources.of(step.value_mark(key))
    same = os.path.realpath(work.document.path) == os.path.realpath(source.path)
    return (work.document.path if same else source.path).parent


def _near_file(work: Lowering, folder: Path, path: str) -> tuple[str, str]:
    """A file that the author may have meant, and a hint if there is none."""
    hint = "the path is relative to the file that names it"
    if "{{" in path or "${" in path:
        return "", "write the name out: what a step calls is known before the start"
    if "\0" in path:
        return "", hint
    if os.path.isdir(folder / path):
        return "", "name one of the files in it"
    from_root = work.workspace.root / path
    if os.path.isfile(from_root):
        return Path(os.path.relpath(from_root, folder)).as_posix(), hint
    for suffix in SUFFIXES:
        if os.path.isfile(folder / (path + suffix)):
            return path + suffix, ""
    parent, name = os.path.split(path)
    try:
        siblings = sorted(os.listdir(folder / parent))
    except (OSError, ValueError):
        return "", hint
    near = closest(name, [sibling for sibling in siblings if sibling.lower().endswith(SUFFIXES)])
    if near:
        return os.path.join(parent, near), ""
    return closest(path, work.library.known_ids()), hint


# What a call hands over, once all files are lowered.


@record
class CallSite:
    """A call as it was written: `holder` has the arguments, or is the step if there are none."""

    work: Lowering
    step: LocatedMap
    key: str
    holder: LocatedMap
    plan: PlanId
    arguments: MapExpr

    def check(self, called: Plan) -> None:
        """Report inputs that are missing, unknown or unfit."""
        inputs = {one.name: one for one in called.inputs}
        given = dict(self.arguments.items)
        for name, value in given.items():
            if name in inputs:
                self._check_value(inputs[name], value, called)
            elif takes_inputs_only(called) or self._is_slip(name, called):
                self._report_unknown(name, inputs, called)
        lacking = [
            one for one in called.inputs
            if one.default is None and not one.secret and one.name not in given
        ]  # fmt: skip
        if lacking:
            names = ", ".join(f"'{one.name}'" for one in lacking)
            what = "an input" if len(lacking) == 1 else "inputs"
            word = "context" if "recipe" in self.step else "with"
            self.work.report("E315", f"{called.id} is not given {what} that it needs: {names}",
                             self.step, self.key,
                             hint=f"write {word}: {{{lacking[0].name}: …}}")  # fmt: skip

        self._check_outcomes(called)

    def _check_outcomes(self, called: Plan) -> None:
        """A machine's step may tell apart the reasons for which what it calls ends."""
        targets = [target for node in nodes_in(called) for _, target in node.routes]
        declared = self.step.get("outcomes")
        if not isinstance(declared, LocatedList) or any(isinstance(t, Restart) for t in targets):
            return
        ends = dict.fromkeys(t.reason for t in targets if isinstance(t, Finish | Abort))
        for index, outcome in enumerate(declared):
            if outcome in (*ends, "completed", "failed"):
                continue
            near = closest(outcome, ends)
            self.work.report("W407", f"{called.id} never ends as '{outcome}'", declared, index,
                             hint="" if near else "remove it, or say so in an exit of that file",
                             suggestion=near)  # fmt: skip

    def _is_slip(self, name: str, called: Plan) -> bool:
        """Does nothing read it? Of recipes, which may hand over more (B), a warning says so."""
        if "recipe" in self.step:
            return False
        read = references_in((called.blocks, called.context, called.outputs))
        names = {ref.path[1] for ref in read if len(ref.path) > 1}
        return name not in names and name not in dict(called.context.items)

    def _report_unknown(self, name: str, inputs: dict[str, Input], called: Plan) -> None:
        near = closest(name, inputs)
        known = f"its inputs: {', '.join(inputs)}" if inputs else "it declares no inputs"
        self.work.report("E315", f"{called.id} has no input '{name}'", self.holder, name,
                         on_key=True, hint="" if near else known, suggestion=near)  # fmt: skip

    def _check_value(self, one: Input, value: Expr, called: Plan) -> None:
        if one.secret:
            self.work.report("E315", f"'{one.name}' is a secret of {called.id}", self.holder,
                             one.name, on_key=True,
                             hint=f"leave it out: it comes from {one.variable}")  # fmt: skip
            return
        if not _is_constant(value):
            return
        plain = _plain(value)
        try:
            is_text = isinstance(plain, str) and one.type != "string"
            read_text(one, plain) if is_text else checked(one, plain)
        except Unfit as unfit:
            self.work.report("E315", f"the input '{one.name}' of {called.id} {unfit}",
                             self.holder, one.name, hint=one.description)  # fmt: skip


def _is_constant(value: Expr) -> bool:
    match value:
        case Const():
            return True
        case ListExpr(items):
            return all(_is_constant(item) for item in items)
        case MapExpr(entries):
            return all(_is_constant(item) for _, item in entries)
        case _:
            return False


def _plain(value: Expr) -> Any:
    match value:
        case Const(plain):
            return plain
        case ListExpr(items):
            return [_plain(item) for item in items]
        case MapExpr(entries):
            return {key: _plain(item) for key, item in entries}
        case _:
            return None


# The result of a call: what may be read of it.

RESULT = ("status", "reason", "outputs")


def outputs_of(work: Lowering, plan: PlanId | None) -> list[str] | None:
    """The outputs that a called file declares; None if that cannot be known."""
    data = work.library.data_of(plan) if plan is not None else {}
    written = data.get("outputs") if isinstance(data, dict) else None
    if plan is None or not isinstance(written, dict | None):
        return None
    return list(written or ())
