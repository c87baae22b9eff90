"""What a step can see: the run, its loops, the results around it, the context of its plan.

Look-ups climb from a frame to those around it and stop at the border of a plan, so that a called
plan sees nothing of its caller.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from orchestrate.engine.evaluate import Undefined, descend, kind_of
from orchestrate.plan.nodes import Node
from orchestrate.plan.visible import visible
from orchestrate.record import record
from orchestrate.state.gates import is_of_stage
from orchestrate.state.model import Frame, Index, RunState, plan_frame
from orchestrate.state.result import StepResult
from orchestrate.state.times import timestamp

# The old name of a step's field (C), and the one that authors use for what a person said.
_ALIASES = {"duration": "duration_ms", "message": "decision_message"}


@record
class RunFacts:
    """What `${run.*}` and `{{session.*}}` say."""

    id: str
    root: str
    started_at: float
    project: str
    # Has the values of secret inputs, which the state does not.
    environment: Mapping[str, str] = MappingProxyType({})


class StepScope:
    """The values around a step. `restore` turns what is stored beside the state into itself."""

    def __init__(
        self,
        index: Index,
        state: RunState,
        frame: Frame,
        facts: RunFacts,
        restore: Callable[[Any], Any],
        node: Node | None = None,
    ) -> None:
        self._index = index
        self._state = state
        self._frame = frame
        self._facts = facts
        self._restore = restore
        self._node = node

    def look_up(self, path: tuple[str, ...]) -> Any:
        head, rest = path[0], path[1:]
        match head:
            case "run":
                return self._run(rest)
            case "steps":
                return self._step(rest)
            case "context":
                return self._variable(plan_frame(self._frame).variables, rest)
            case "var":
                return self._var(rest)
            case "loop":
                return self._loop(rest)
            case "recipe" | "session" | "step" | "approval":
                return self._reserved(head, rest)
            case "@conflicts":
                return "\n".join(map(visible, self._frame.conflicts))
            case _:
                return self._item(head, rest)

    def _run(self, rest: tuple[str, ...]) -> str:
        values = {
            "id": self._facts.id,
            "root": self._facts.root,
            # The id's own: a run may be recorded in the second after the one that named it.
            "timestamp_utc": self._facts.id.partition("-")[0],
        }
        return str(descend(values, rest))

    def _step(self, rest: tuple[str, ...]) -> Any:
        name, *fields = rest
        if fields and fields[0] in _ALIASES:
            fields[0] = _ALIASES[fields[0]]
        frame: Frame | None = self._frame
        while frame is not None:
            result = frame.steps.get(name)
            if result is not None:
                value = _field(result, fields)
                return self._restore(value) if fields[:1] == ["outputs"] else value
            if any(loop.name == name for loop in frame.loops.values()):
                raise Undefined(f"'{name}' is a loop")
            frame = frame.parent if frame.is_iteration else None
        raise Undefined(f"step '{name}' has not run")

    def _loop(self, rest: tuple[str, ...]) -> int:
        frame = self._frame
        if not frame.is_iteration or rest not in (("index",), ("total",)):
            raise Undefined
        return frame.index or 0 if rest == ("index",) else frame.total

    def _item(self, name: str, rest: tuple[str, ...]) -> Any:
        """A loop's variable; `item` is always that of the innermost loop that has items."""
        frame: Frame | None = self._frame
        while frame is not None and frame.is_iteration:
            if frame.variable and name in ("item", frame.variable):
                return descend(self._restore(frame.item), rest)
            frame = frame.parent
        raise Undefined

    def _var(self, rest: tuple[str, ...]) -> Any:
        frame: Frame | None = self._frame
        while frame is not None and frame.is_iteration:
            if rest[0] == frame.variable:
                return _member(self._restore(frame.item), rest)
            frame = frame.parent
        plan = plan_frame(self._frame)
        if rest[0] not in plan.variables:
            secret = self._secret(rest)
            if secret is None:
                raise Undefined(self._why_unset(plan, rest[0]))
            return secret
        return self._variable(plan.variables, rest)

    def _variable(self, variables: Mapping[str, Any], rest: tuple[str, ...]) -> Any:
        if rest and rest[0] not in variables and (secret := self._secret(rest)) is not None:
            return secret
        if not rest or rest[0] not in variables:
            raise Undefined(_available(variables))
        return _member(self._restore(variables[rest[0]]), rest)

    def _secret(self, rest: tuple[str, ...]) -> str | None:
        """The value of a secret input, which is in no event and no state."""
        for one in self._index.plan(self._frame.plan).inputs:
            if one.secret and rest == (one.name,):
                return self._facts.environment.get(one.variable)
        return None

    def _why_unset(self, plan: Frame, name: str) -> str:
        """The step that would have set a variable but was skipped or failed (rulings §8)."""
        for node in self._index.plan(plan.plan).blocks[0].nodes:
            if name == node.output or name == getattr(node.op, "collect", None):
                result = plan.steps.get(node.name)
                if result is not None and result.status in ("skipped", "failed"):
                    return f"step '{node.name}', which sets it, {_was(result.status)}"
                if node.id in plan.loops:
                    return f"the loop '{node.name}', which sets it, failed"
        return _available(plan.variables)

    def _reserved(self, head: str, rest: tuple[str, ...]) -> Any:
        plan = self._index.plan(self._frame.plan)
        facts = self._facts
        match head:
            case "recipe":
                values: dict[str, Any] = {
                    "name": plan.name,
                    "version": plan.version,
                    "description": plan.description,
                }
            case "session":
                values = {
                    "id": facts.id,
                    "started": timestamp(facts.started_at),
                    "project": facts.project,
                }
            case "approval":
                message = plan_frame(self._frame).approval
                values = {} if message is None else {"message": message}
            case _:
                values = self._step_facts()
        return descend(values, rest)

    def _step_facts(self) -> dict[str, Any]:
        if self._node is None:
            return {}
        plan = self._index.plan(self._frame.plan)
        name = self._node.name
        if self._node.part_of is not None:
            name = self._index.place(plan.id, self._node.part_of).node.name
        steps = [
            node.name
            for node in plan.blocks[0].nodes
            if node.part_of is None and not is_of_stage(node.id)
        ]
        return {"id": name, "index": steps.index(name) if name in steps else 0}


class WithMore:
    """A scope with a few values in front of it: the prompt, a provider's parameters."""

    def __init__(self, inner: StepScope, values: Mapping[tuple[str, ...], Any]) -> None:
        self._inner = inner
        self._values = values

    def look_up(self, path: tuple[str, ...]) -> Any:
        if path in self._values:
            return self._values[path]
        if path[0] in ("param", "prompt"):
            raise Undefined
        return self._inner.look_up(path)


class WithVariables:
    """A scope in which some variables have new values already."""

    def __init__(self, inner: StepScope, variables: Mapping[str, Any]) -> None:
        self._inner = inner
        self._variables = variables

    def look_up(self, path: tuple[str, ...]) -> Any:
        if path[0] == "var" and path[1] in self._variables:
            return _member(self._variables[path[1]], path[1:])
        return self._inner.look_up(path)


def slug(path: str) -> str:
    """A project's path as a word (B `{{session.project}}`)."""
    return re.sub(r"[^A-Za-z0-9]+", "-", path).strip("-")


def _available(variables: Mapping[str, Any]) -> str:
    return f"available: {', '.join(sorted(variables)) or 'none'}"


def _member(value: Any, path: tuple[str, ...]) -> Any:
    """What a path leads to inside a variable; if nowhere, the message says what is there."""
    for depth, name in enumerate(path[1:], 1):
        try:
            value = descend(value, (name,))
        except Undefined:
            outer = ".".join(path[:depth])
            if isinstance(value, dict):
                raise Undefined(f"{outer} has: {', '.join(map(str, value)) or 'nothing'}") from None
            raise Undefined(f"{outer} is {kind_of(value)}") from None
    return value


def _field(result: StepResult, fields: list[str]) -> Any:
    try:
        return descend(result.to_json(), fields)
    except Undefined:
        if result.status in ("skipped", "failed"):
            raise Undefined(f"the step {_was(result.status)}") from None
        raise


def _was(status: str) -> str:
    return "was skipped" if status == "skipped" else "failed"
