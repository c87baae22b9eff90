"""A program as data that can be read again: what a run was started with, whatever became of files.

A record is a mapping with its class under `@` and the fields that differ from their defaults, so
that a later version with more fields reads what an earlier one wrote. Scalars in a row, such as the
items of a loop, of which there may be many thousands, are written as they are, under `@Const`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from orchestrate.exits import usual_finish
from orchestrate.plan.expr import SCALARS, Const
from orchestrate.plan.nodes import Finish, Plan, Program
from orchestrate.record import is_record, many

# The modules whose records a plan is made of.
_MODULES = (
    "orchestrate.plan.nodes",
    "orchestrate.plan.data",
    "orchestrate.plan.settings",
    "orchestrate.plan.expr",
    "orchestrate.diagnostics",
)
_TAG = "@"
_SCALARS_IN_A_ROW = "@Const"
# What a reader sees of a plan and the engine does not, and what is derived from the rest.
_SHOWN_ONLY = ("span", "title", "description", "files", "most_visits")


def freeze(value: Any) -> Any:
    """A program, or a part of one, as plain data."""
    if isinstance(value, tuple):
        scalars = _scalars_of(value)
        if scalars is not None:
            return {_SCALARS_IN_A_ROW: scalars}
        return [item if type(item) in SCALARS else freeze(item) for item in value]
    return _freeze(value, (), freeze)


def meaning(plan: Plan) -> Any:
    """A plan without what makes no difference to a run: places in files, titles, descriptions."""
    if isinstance(plan, tuple):
        return [meaning(item) for item in plan]
    return _freeze(plan, _SHOWN_ONLY, meaning)


def _scalars_of(values: tuple[Any, ...]) -> list[Any] | None:
    """The values of constants alone; None of anything else, and of nothing."""
    if not values or type(values[0]) is not Const or {*map(type, values)} != {Const}:
        return None
    return [constant.value for constant in values]


def _freeze(value: Any, without: tuple[str, ...], part: Callable[[Any], Any]) -> Any:
    if not is_record(value):
        return value
    kind: Any = type(value)
    written: dict[str, Any] = {_TAG: kind.__name__}
    for name, default in kind.__record_defaults__.items():
        found = getattr(value, name)
        if found is not default and name not in without:
            written[name] = found if type(found) in SCALARS else part(found)
    return written


def thaw(written: Any) -> Program:
    """The program again; `ValueError` for what no version of ours can have written."""
    try:
        program = _Reader().read(written)
    except (KeyError, TypeError) as error:
        raise ValueError(f"it is not a plan: {error}") from None
    if not isinstance(program, Program):
        raise ValueError("it is not a program")
    return program


class _Reader:
    def __init__(self) -> None:
        self._kinds: dict[str, Any] = {}
        for name in _MODULES:
            module = importlib.import_module(name)
            self._kinds |= {
                key: kind
                for key, kind in vars(module).items()
                if isinstance(kind, type) and hasattr(kind, "__record_defaults__")
            }

    def read(self, written: Any) -> Any:
        if isinstance(written, list):
            return tuple([self.read(item) for item in written])
        if not isinstance(written, dict):
            return written
        if _SCALARS_IN_A_ROW in written:
            return many(Const, written[_SCALARS_IN_A_ROW])
        kind = self._kinds[written[_TAG]]
        fields = {key: self.read(value) for key, value in written.items() if key != _TAG}
        if kind is Finish:
            fields.setdefault("end", usual_finish(fields["reason"]))
        return kind(**fields)
