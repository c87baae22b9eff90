"""What a rehearsed answer looks like, so that the steps that read it find what they need.

Who reads what is in the plan: texts name fields, loops need lists, and conditions compare with
values. Of these the first that leads on is taken; another `variant` takes others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from orchestrate.engine.evaluate import render_value
from orchestrate.engine.example import example_of
from orchestrate.engine.faults import StepFault
from orchestrate.engine.outputs import check_requirements
from orchestrate.engine.rehearsing import choice_of
from orchestrate.engine.schemas import SchemaVerdict, is_quick, judge
from orchestrate.plan.data import Require
from orchestrate.plan.expr import (
    Chain,
    Compare,
    Cond,
    Const,
    Expr,
    ListExpr,
    MapExpr,
    Not,
    Ref,
    Text,
    Truth,
)
from orchestrate.plan.nodes import Ask, Call, Each, Node, Plan, Program, Run, nodes_in
from orchestrate.record import field_names, is_record, record

FILLER = "rehearsed"
_DEEPEST = 8
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
Path = tuple[str, ...]


def example_text(program: Program, plan: Plan, node: Node, schema: Any, variant: int) -> str | None:
    """What the step gives, as a program prints it or an agent writes it; None: any text will do.

    `schema` is what its output is held against.
    """
    op = node.op
    assert isinstance(op, Ask | Run)
    uses = _Uses(program, variant)
    if getattr(op, "gives_value", False) or op.capture.value:
        shape = uses.merged(plan, [("var", name) for name in _set_by(plan, node)])
        if shape is None and op.capture.value == "json":
            shape = {}
        return None if shape is None else json.dumps(shape)
    match op.capture.mode:
        case "json":
            base = example_of(schema)
            for require in op.capture.require:
                base = _required(base, require.pointer, require)
            roots: list[Path] = [("steps", node.name, "json")]
            shape = uses.merged(plan, roots, base)
            if variant and base is not None:
                # What is read leads to other routes only if it may stand in place of the example.
                other = _overlaid(base, uses.merged(plan, roots))
                shape = other if _is_taken(other, schema, op.capture.require) else shape
            return json.dumps({} if shape is None else shape)
        case "lines":
            lines = uses.merged(plan, [("steps", node.name, "lines")])
            return "".join(f"{render_value(line)}\n" for line in lines or ())
        case "text":
            text = uses.merged(plan, [("steps", node.name, "output")])
            return None if text is None else render_value(text)


def _overlaid(base: Any, wanted: Any) -> Any:
    """The example with what steps want to read, where that is of the same kind."""
    if isinstance(base, dict) and isinstance(wanted, dict):
        return base | {name: _overlaid(base.get(name), wanted[name]) for name in wanted}
    if isinstance(base, list) and isinstance(wanted, list) and base and wanted:
        return [_overlaid(base[0], wanted[0]), *base[1:]]
    if base is None or wanted is None or wanted == FILLER:
        return wanted if base is None else base
    if isinstance(wanted, str) and not isinstance(base, str):
        # Conditions of workflows compare texts.
        with suppress(ValueError):
            wanted = json.loads(wanted)
    return wanted if _kind(wanted) is _kind(base) else base


def _kind(value: Any) -> type:
    return float if type(value) is int else type(value)


def _is_taken(value: Any, schema: Any, requirements: Iterable[Require]) -> bool:
    try:
        check_requirements(value, requirements)
    except StepFault:
        return False
    return schema is None or (is_quick(schema, value) and judge(schema, value) == SchemaVerdict())


def _set_by(plan: Plan, node: Node) -> list[str]:
    """The variables that have the step's result, also through the loop whose body it is."""
    owners = [block.owner for block in plan.blocks if node in block.nodes]
    around = [one for one in nodes_in(plan) if one.id in owners]
    loops = [one.output for one in around if isinstance(one.op, Each)]
    collected = [one.op.collect for one in around if isinstance(one.op, Each)]
    return [name for name in dict.fromkeys((node.output, *loops, *collected)) if name]


@record
class _Use:
    """A value that is read, and examples of it, the best first."""

    path: Path
    examples: tuple[Any, ...]


@record
class _Uses:
    """What is known of values by the places that read them."""

    program: Program
    variant: int

    def merged(self, plan: Plan, roots: list[Path], base: Any = None, depth: int = 0) -> Any:
        """A value that has all that is read of it under any of the paths."""
        shape = base
        for use in _uses_in(plan):
            for root in roots:
                fields = use.path[len(root) :]
                # The whole of it in a text may be any text.
                is_any = not fields and use.examples == (FILLER,)
                if use.path[: len(root)] == root and not is_any:
                    shape = _with(shape, fields, self._example(use))
        if depth < _DEEPEST:
            for path, other, target in _passed_on(self.program, plan):
                for root in roots:
                    if path[: len(root)] == root:
                        inner = self.merged(other, [target], depth=depth + 1)
                        if inner is not None:
                            shape = _with(shape, path[len(root) :], inner)
            shape = self._with_items(plan, roots, shape, depth)
        return shape

    def _with_items(self, plan: Plan, roots: list[Path], shape: Any, depth: int) -> Any:
        """The items of a loop over the value have the fields that the loop's steps read."""
        for node in nodes_in(plan):
            if not isinstance(node.op, Each) or not isinstance(node.op.items, Ref):
                continue
            for root in roots:
                path = node.op.items.path
                if path[: len(root)] != root:
                    continue
                variable = node.op.variable
                item = self.merged(plan, [("var", variable), (variable,)], depth=depth + 1)
                items = [FILLER if item is None else item]
                if root[0] == "var" and _collects(plan, root[1]) and path == root:
                    return items[0]  # the loop that collects makes the list of it
                shape = _with(shape, path[len(root) :], items)
        return shape

    def _example(self, use: _Use) -> Any:
        return choice_of(self.variant, str(use.path), use.examples)


def _collects(plan: Plan, name: str) -> bool:
    return any(isinstance(node.op, Each) and node.op.collect == name for node in nodes_in(plan))


def _passed_on(program: Program, plan: Plan) -> Iterator[tuple[Path, Plan, Path]]:
    """Values that go on under other names: to a called plan or back, or from round to round."""
    plans = {one.id: one for one in program.plans}
    for node in nodes_in(plan):
        match node.op:
            case Call(str() as called, MapExpr(arguments)) if called in plans:
                for name, value in arguments:
                    if isinstance(value, Ref):
                        yield value.path, plans[called], ("var", name)
            case Each(rounds=rounds) if rounds is not None:
                for name, value in rounds.updates.items:
                    if isinstance(value, Ref) and value.path != ("var", name):
                        yield value.path, plan, ("var", name)
            case _:
                pass
    # What a called plan gives is read by its caller: its outputs, or all that it knows in the end.
    for caller in program.plans:
        for node in nodes_in(caller):
            if not isinstance(node.op, Call) or node.op.plan != plan.id:
                continue
            results = [("steps", node.name), *([("var", node.output)] if node.output else [])]
            for result in results:
                for name, value in plan.outputs.items:
                    if isinstance(value, Ref):
                        yield value.path, caller, (*result, "outputs", name)
                names = {use.path[2] for use in _uses_in(caller) if use.path[:2] == result
                         and len(use.path) > 2}  # fmt: skip
                yield from ((("var", name), caller, (*result, name)) for name in sorted(names))


# Asked for each answer, and a plan is large: by identity, because hashing it reads all of it.
_KNOWN: dict[int, tuple[Plan, tuple[_Use, ...]]] = {}


def _uses_in(plan: Plan) -> tuple[_Use, ...]:
    known = _KNOWN.get(id(plan))
    if known is None or known[0] is not plan:
        known = _KNOWN[id(plan)] = (plan, _merged_uses(plan))
    return known[1]


def _merged_uses(plan: Plan) -> tuple[_Use, ...]:
    """Loops come first: one that never ended would be worse than a step that is skipped."""
    found: dict[Path, list[Any]] = {}
    for use in (*_of_loops(plan), *_of_guards(plan)):
        known = found.setdefault(use.path, [])
        known += [one for one in use.examples if one not in known or isinstance(one, bool)]
    for use in _of_texts(plan):
        found.setdefault(use.path, list(use.examples))
    return tuple(_Use(path, tuple(examples)) for path, examples in found.items())


def _of_loops(plan: Plan) -> Iterator[_Use]:
    for node in nodes_in(plan):
        if isinstance(node.op, Each) and node.op.rounds is not None:
            rounds = node.op.rounds
            if rounds.until is not None:
                yield from _wanted(rounds.until, True)
            if rounds.before is not None:
                yield from _wanted(rounds.before, False)


def _of_guards(plan: Plan) -> Iterator[_Use]:
    for node in nodes_in(plan):
        for guard in (node.stage_guard, node.guard):
            if guard is not None:
                yield from _wanted(guard, True)


def _of_texts(value: Any) -> Iterator[_Use]:
    if isinstance(value, Ref):
        yield _Use(value.path, (FILLER,))
    elif isinstance(value, tuple):
        for item in value:
            yield from _of_texts(item)
    elif is_record(value):
        for name in field_names(value):
            yield from _of_texts(getattr(value, name))


def _wanted(condition: Cond, truth: bool) -> Iterator[_Use]:
    """Values for which a condition is as wanted, then values for which it is not."""
    match condition:
        case Compare(left, operator, right):
            yield from _compared(_plain(left), operator, _plain(right), truth)
        case Truth(value):
            if isinstance(ref := _plain(value), Ref):
                yield _Use(ref.path, (truth, not truth))
        case Not(inner):
            yield from _wanted(inner, not truth)
        case Chain(first, rest):
            for part in (first, *(other for _, other in rest)):
                yield from _wanted(part, truth)
        case _:
            pass


def _compared(left: Expr, operator: str, right: Expr, truth: bool) -> Iterator[_Use]:
    pair: tuple[Any, Any]
    match left, operator.removeprefix("not "), right:
        case Ref(path), "in", ListExpr((Const(value), *_)):
            pair = (value, _other_than(value))
        case Ref(path), "in", Const(value):
            pair = (value, FILLER)
        case Const(value), "in", Ref(path):
            pair = ([value], [])
        case Ref(path), _, Const(value):
            pair = _example_pair(operator, value)
        case Const(value), _, Ref(path):
            pair = _example_pair(_MIRRORED.get(operator, operator), value)
        case _:
            return
    if (operator.startswith("not ")) is truth:
        pair = pair[::-1]
    yield _Use(path, pair)


def _example_pair(operator: str, value: Any) -> tuple[Any, Any]:
    """A value that compares as it should, and one that does not."""
    number = _number(value)
    match operator:
        case "==":
            return value, _other_than(value)
        case "!=":
            return _other_than(value), value
        case "<" if number is not None:
            return number - 1, number
        case "<=" if number is not None:
            return number, number + 1
        case ">" if number is not None:
            return number + 1, number
        case ">=" if number is not None:
            return number, number - 1
        case _:
            return value, value


def _number(value: Any) -> float | int | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    try:
        return float(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _other_than(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else FILLER


def _plain(expression: Expr) -> Expr:
    match expression:
        case Text((Ref() as ref,)):
            return ref
        case Text((str() as text,)):
            return Const(text)
        case _:
            return expression


def _required(base: Any, pointer: str, require: Any) -> Any:
    """The value with what `json_require` asks for at a pointer."""
    if not require.exists:
        return base
    samples: dict[str | None, Any] = {
        "null": None, "boolean": True, "number": 1, "array": [], "object": {},
    }  # fmt: skip
    example = require.equals if require.has_equals else samples.get(require.type, FILLER)
    fields = tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    return _with(base, fields, example)


def _with(shape: Any, fields: Path, value: Any) -> Any:
    """The shape with an example at a path; the first that says more than the filler stays."""
    if not fields:
        if isinstance(shape, dict) and isinstance(value, dict):
            for name, inner in value.items():
                shape = _with(shape, (name,), inner)
            return shape
        is_vague = shape is None or shape == FILLER
        return value if is_vague and not isinstance(shape, list | dict) else shape
    is_unknown = shape is None or shape == FILLER
    if fields[0].isdigit() and (isinstance(shape, list) or (is_unknown and len(fields[0]) < 4)):
        shape = [] if is_unknown else shape
        listed = [*shape, *([None] * (int(fields[0]) + 1 - len(shape)))]
        listed[int(fields[0])] = _with(listed[int(fields[0])], fields[1:], value)
        return [FILLER if item is None else item for item in listed]
    outer = shape if isinstance(shape, dict) else {}
    return {**outer, fields[0]: _with(outer.get(fields[0]), fields[1:], value)}
