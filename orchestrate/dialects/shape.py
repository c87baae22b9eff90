"""The dialect is read off the document's shape, never guessed from a file name (rulings §1)."""

from __future__ import annotations

from typing import Any

from orchestrate.diagnostics import closest
from orchestrate.plan.nodes import Dialect
from orchestrate.record import record
from orchestrate.source.located import Hole, PathKey

THREE_SHAPES = (
    "a machine has `steps:` as a mapping (with `initialStep`); a recipe has `stages:`, or `steps:` "
    "as a list whose items have `id`; a workflow has `steps:` as a list whose items have `name`"
)
_ITEMS = "begin each step of a recipe with `- id:`, each step of a workflow with `- name:`"
_STATE_FIELDS = ("prompt", "outcomes", "onOutcome")
# Words that no other dialect has, nor another tool's files, at the top or on a step.
_TELLING: dict[Dialect, frozenset[str]] = {
    "recipe": frozenset((
        "agent_config", "break_when", "foreach", "max_while_iterations", "output_exit_code",
        "parse_json", "recursion", "update_context", "while_condition", "while_steps",
    )),
    "workflow": frozenset((
        "allow_parse_error", "for_each", "input_file", "output_capture", "output_require",
        "provider", "provider_params", "strict_flow", "wait_for",
    )),
}  # fmt: skip


@record
class Mismatch:
    """What is odd about a document without a dialect, and where."""

    message: str
    path: tuple[PathKey, ...] = ()
    on_key: bool = False
    hint: str = THREE_SHAPES


def detect_dialect(data: Any) -> Dialect | None:
    """machine, recipe or workflow; None when the document has none of the three shapes."""
    if not isinstance(data, dict):
        return None
    steps = data.get("steps")
    if isinstance(steps, dict):
        return "machine" if "initialStep" in data or _has_state(steps) else None
    if "stages" in data:
        return "recipe"
    if isinstance(steps, list) and "initialStep" not in data:
        return _by_items(steps) or _by_fields(data, steps)
    return None


def _by_fields(data: dict[str, Any], steps: list[Any]) -> Dialect | None:
    """Where `id` and `name` decide nothing: the only dialect that has the fields, beyond doubt."""
    fields = {*data, *(field for item in steps if isinstance(item, dict) for field in item)}
    found = [dialect for dialect, telling in _TELLING.items() if not telling.isdisjoint(fields)]
    return found[0] if len(found) == 1 else None


def _by_items(steps: list[Any]) -> Dialect | None:
    """Most items decide, so that one slip does not turn a workflow into a recipe."""
    marked = [
        "recipe" if "id" in item else "workflow"
        for item in steps
        if isinstance(item, dict) and ("id" in item) != ("name" in item)
    ]
    recipes = marked.count("recipe")
    if 2 * recipes == len(marked):
        return "recipe" if marked and marked[0] == "recipe" else "workflow" if marked else None
    return "recipe" if 2 * recipes > len(marked) else "workflow"


def _has_state(steps: dict[str, Any]) -> bool:
    """Is there a step of a machine in the mapping? (A broken include may hide one.)"""
    return any(
        isinstance(step, Hole)
        or (isinstance(step, dict) and any(name in step for name in _STATE_FIELDS))
        for step in steps.values()
    )


def has_hole(data: Any) -> bool:
    """Is the shape unknown because an include was broken, which is reported already?"""
    steps = data.get("steps") if isinstance(data, dict) else data
    items = steps if isinstance(steps, list) else [steps]
    return any(isinstance(item, Hole) for item in items)


def is_machine_at_heart(data: Any) -> bool:
    """Does the document say that it is a machine, although its steps could not be read?

    The exit code of an invalid definition depends on it (rulings §4).
    """
    if not isinstance(data, dict) or isinstance(data.get("steps"), list):
        return False
    return any(name in data for name in ("initialStep", "guardrails"))


def describe_mismatch(data: Any) -> Mismatch:
    """The likeliest slip in a document that has none of the three shapes."""
    if isinstance(data, list):
        return Mismatch(
            "the document is a list",
            hint="write `steps:` above it, and above that what such a file begins with",
        )
    if not isinstance(data, dict):
        return Mismatch("the document is not a mapping")
    if "steps" not in data:
        return _without_steps(data)
    steps = data["steps"]
    if isinstance(steps, dict):
        return _mapping(steps)
    if isinstance(steps, list):
        return _list(data, steps)
    if steps is None:
        return Mismatch("`steps` is empty", ("steps",), True, "indent the steps below it")
    return Mismatch("`steps` is neither a mapping nor a list", ("steps",), hint=_ITEMS)


def _without_steps(data: dict[str, Any]) -> Mismatch:
    message = "there are neither `steps` nor `stages`"
    for key in list(data)[:100]:
        meant = closest(key, ("steps", "stages"))
        if meant:
            return Mismatch(message, (key,), True, f"write `{meant}:` instead of `{key}:`")
    first = tuple(list(data)[:1])
    return Mismatch(message, first, bool(first))


def _mapping(steps: dict[str, Any]) -> Mismatch:
    for key in list(steps)[:100]:
        if key.startswith("-"):
            hint = f"write `- {key[1:]}:`"
            return Mismatch("a space is missing after the dash", ("steps", key), True, hint)
    for key in ("name", "id"):
        if isinstance(steps.get(key), str):
            hint = f"write `- {key}: {steps[key][:60]}` and indent what belongs to it"
            return Mismatch("a step in a list begins with a dash", ("steps", key), True, hint)
    return Mismatch("`steps` is a mapping, but there is no `initialStep`", ("steps",), True)


def _list(data: dict[str, Any], steps: list[Any]) -> Mismatch:
    if "initialStep" in data:
        return Mismatch(
            "`initialStep` belongs to a machine, but `steps` is a list",
            ("steps",),
            True,
            "write a mapping from step name to step: `review:` instead of `- name: review`",
        )
    for index, item in enumerate(steps):
        if not isinstance(item, dict):
            return Mismatch("a step must be a mapping", ("steps", index), hint=_ITEMS)
        if "id" in item and "name" in item:
            second = next(key for key in reversed(item) if key in ("id", "name"))
            hint = "keep `id` in a recipe, `name` in a workflow"
            message = "the step has both `id` and `name`"
            return Mismatch(message, ("steps", index, second), True, hint)
    if not steps:
        return Mismatch("`steps` is empty", ("steps",), hint=_ITEMS)
    first = next(iter(steps[0]), None)
    path = ("steps", 0) if first is None else ("steps", 0, first)
    return Mismatch("no step has an `id` or a `name`", path, first is not None, _ITEMS)
