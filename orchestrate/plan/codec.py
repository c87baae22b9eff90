"""A program as data that can be read again: what a run was started with, whatever became of files.

A record is a mapping with its class under `@` and the fields that differ from their defaults, so
that a later version with more fields reads what an earlier one wrote.
"""

from __future__ import annotations

import importlib
from typing import Any

from orchestrate.exits import usual_finish
from orchestrate.plan.expr import Const
from orchestrate.plan.nodes import Finish, Plan, Program
from orchestrate.record import field_names, is_record

# The modules whose records a plan is made of.
_MODULES = (
    "orchestrate.plan.nodes",
    "orchestrate.plan.data",
    "orchestrate.plan.settings",
    "orchestrate.plan.expr",
    "orchestrate.diagnostics",
)
_TAG = "@"
_SCALARS = {str, int, float, bool, type(None)}
# What a reader sees of a plan and the engine does not, and what is derived from the rest.
_SHOWN_ONLY = ("span", "title", "description", "files", "most_visits")


def freeze(value: Any) -> Any:
    """A program, or a part of one, as plain data."""
    return _freeze(value, ())


def meaning(plan: Plan) -> Any:
    """A plan without what makes no difference to a run: places in files, titles, descriptions."""
    return _freeze(plan, _SHOWN_ONLY)


def _freeze(value: Any, without: tuple[str, ...]) -> Any:
    if isinstance(value, tuple):
        return [_freeze(item, without) for item in value]
    if not is_record(value):
        return value
    kind: Any = type(value)
    written: dict[str, Any] = {_TAG: kind.__name__}
    defaults = kind.__record_defaults__
    for name in field_names(value):
        found = getattr(value, name)
        if name not in without and not (name in defaults and found is defaults[name]):
            written[name] = _freeze(found, without)
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
            return _constants(written) or tuple([self.read(item) for item in written])
        if not isinstance(written, dict):
            return written
        kind = self._kinds[written[_TAG]]
        fields = {key: self.read(value) for key, value in written.items() if key != _TAG}
        if kind is Finish:
            fields.setdefault("end", usual_finish(fields["reason"]))
        return kind(**fields)


def _constants(written: list[Any]) -> tuple[Const, ...] | None:
    """The items of a loop, of which there may be many thousands; None if it is another list."""
    try:
        values = [item["value"] for item in written if item[_TAG] == "Const" and len(item) == 2]
    except (KeyError, TypeError):
        return None
    if len(values) < len(written) or not {*map(type, values)} <= _SCALARS:
        return None
    return tuple(map(Const, values))
