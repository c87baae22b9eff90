"""Calls of other recipes: which plan a `recipe:` path leads to, and what is handed over."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrate.diagnostics import closest
from orchestrate.dialects.catalogue import SUFFIXES
from orchestrate.dialects.lowering import Lowering
from orchestrate.dialects.recipe.literals import check_keys
from orchestrate.dialects.recipe.members import Called, final_context
from orchestrate.dialects.recipe.names import (
    Names,
    Place,
    lower_value,
    may_search,
    read_template,
    reject_reserved_keys,
)
from orchestrate.lang.curly import NAMESPACES
from orchestrate.plan.expr import NOTHING, MapExpr, Text
from orchestrate.plan.nodes import Call, Plan, PlanId
from orchestrate.source.located import LocatedMap
from orchestrate.source.prune import walk_strings


def lower_call(work: Lowering, names: Names, step: LocatedMap, place: Place) -> Call:
    """The call of a recipe step."""
    arguments = NOTHING
    if "context" in step:
        reject_reserved_keys(work, step["context"])
        check_keys(work, step["context"])
        lowered = lower_value(work, names, place, step, "context")
        arguments = lowered if isinstance(lowered, MapExpr) else NOTHING
    recursion = step.get("recursion") or {}
    plan = _lower_path(work, names, step, place)
    if isinstance(plan, str) and "context" in step:
        _check_arguments(work, names, step["context"], plan)
    if isinstance(plan, str) and "output" in step and step["output"] != step.get("collect"):
        if plan not in names.finals:
            names.finals[plan] = final_context(work, plan)
        call = Called(names.finals[plan], tuple(step.get("context") or ()))
        names.called[str(step.get("id", "?")), step["output"]] = call
    return Call(
        plan=plan if plan is not None else Text(()),
        arguments=arguments,
        max_depth=recursion.get("max_depth"),
        max_steps=recursion.get("max_total_steps"),
    )


def _lower_path(
    work: Lowering, names: Names, step: LocatedMap, place: Place
) -> PlanId | Text | None:
    """The called plan; None after a report."""
    path = str(step.get("recipe", ""))
    if not path.strip():
        return None
    template = read_template(work, names, place, step, "recipe")
    if template.placed:
        work.report("W302", "which recipe this calls is known only when the step runs", step,
                    "recipe", hint="it is checked then; a fixed path is checked now")  # fmt: skip
        return Text(template.parts)
    if template.faults:
        return None
    return _find_plan(work, step, path)


def _find_plan(work: Lowering, step: LocatedMap, path: str) -> PlanId | None:
    folder = _folder_of(work, step)
    file = Path(os.path.normpath(folder / path)) if "\0" not in path else folder / "?"
    # An absolute path is meant as it stands (B); a relative one must not wander off.
    if not os.path.isabs(path) and not work.workspace.allows(file, folder):
        work.report("E311", f"the recipe '{path[:100]}' is outside the workspace", step, "recipe",
                    hint="copy the file into the workspace, name a wider one with --working-dir, "
                    "or write its absolute path")  # fmt: skip
        return None
    if not os.path.isfile(file):
        problem = "is a folder, not a file" if os.path.isdir(file) else "does not exist"
        near, hint = _near_file(work, folder, path)
        work.report("E311", f"the recipe '{path[:100]}' {problem}", step, "recipe", hint=hint,
                    suggestion=near)  # fmt: skip
        return None
    plan = work.library.by_path(file)
    if plan is None:
        work.report("E311", f"the recipe '{path}' cannot be used", step, "recipe",
                    hint="see the errors in that file")  # fmt: skip
        return None
    dialect = work.library.dialect_of(plan)
    if dialect != "recipe":
        work.report("E312", f"'{path}' is a {dialect}, not a recipe", step, "recipe",
                    hint="only recipes can call each other")  # fmt: skip
        return None
    _check_circle(work, step, plan)
    return plan


def _check_circle(work: Lowering, step: LocatedMap, called: PlanId) -> None:
    """Does the called recipe lead back to this one? The last of a circle to be lowered sees it."""
    chain = _chain(work, called) if work.first_time(f"circle {called}") else None
    if chain is None:
        return
    message = "this recipe calls itself"
    if len(chain) > 1:
        message = f"the recipes call each other: {' → '.join((work.plan_id, *chain))}"
    hint = "unless a condition stops it, the run fails when recursion.max_depth is reached"
    work.report("W301", message, step, "recipe", hint=hint)


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


_NAMED = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)")


def _check_arguments(work: Lowering, names: Names, context: Any, called: PlanId) -> None:
    """An argument that the called recipe neither declares nor mentions is probably a slip."""
    data = work.library.data_of(called)
    declared = data.get("context")
    known = list(declared) if isinstance(declared, dict) else []
    unknown = [key for key in context if key not in known]
    if not unknown or not may_search(names):
        return
    mentioned = {name for _, text in walk_strings(data) for name in _NAMED.findall(text)}
    for key in unknown:
        if key not in mentioned and key not in NAMESPACES:
            work.report("W407", f"the recipe '{data.get('name', called)}' has no variable '{key}'",
                        context, key, on_key=True,
                        hint=f"its context has: {', '.join(known[:12])}" if known else "remove it",
                        suggestion=closest(key, known))  # fmt: skip


def _folder_of(work: Lowering, step: LocatedMap) -> Path:
    """Paths of recipes start at the file that names them, which may be an include (rulings §1)."""
    source = work.document.sources.of(step.value_mark("recipe"))
    same = os.path.realpath(work.document.path) == os.path.realpath(source.path)
    return (work.document.path if same else source.path).parent


def _near_file(work: Lowering, folder: Path, path: str) -> tuple[str, str]:
    """A file that the author may have meant, and a hint if there is none."""
    hint = "the path starts at the folder of the file that names it"
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
    return (os.path.join(parent, near), "") if near else ("", hint)
