"""Makes mutants: a module's source with one small fault in it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One fault: where it is, what was there, what is there now, and the whole module with it."""

    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.line}: {self.before}  ->  {self.after}"


def mutants_of(source: str, lines: Collection[int] | None = None) -> list[Mutant]:
    """Every mutant of a module, or of some lines of it, that compiles and differs from it."""
    tree = ast.parse(source)
    plain = ast.unparse(tree)
    found = []
    seen = {plain}
    for place, parent, name, number in _places(tree):
        if lines is not None and place.lineno not in lines:
            continue
        for changed in _changes(place):
            mutated = _swapped(parent, name, number, changed, tree)
            if mutated in seen or not _compiles(mutated):
                continue
            seen.add(mutated)
            before, after = (_one_line(node) for node in (place, changed))
            found.append(Mutant(place.lineno, before, after, mutated))
    return found


Place = tuple[ast.stmt | ast.expr, ast.AST, str, int | None]


def _places(node: ast.AST) -> Iterator[Place]:
    """Each statement and expression that does something, with where it hangs."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_comment", "decorator_list"):
            continue
        children = value if isinstance(value, list) else [value]
        for number, child in enumerate(children):
            if not isinstance(child, ast.AST) or _says_nothing(child):
                continue
            if isinstance(child, ast.stmt | ast.expr):
                yield child, node, name, number if isinstance(value, list) else None
            yield from _places(child)


def _says_nothing(node: ast.AST) -> bool:
    """Docstrings, imports, what only the type checker reads, and words for people."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.JoinedStr():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Raise() | ast.Pass():
            return True
        case ast.Assign(targets=[ast.Name(id="TYPE_CHECKING")]):
            return True
        case _:
            return False


def _changes(node: ast.stmt | ast.expr) -> Iterator[ast.stmt | ast.expr]:
    yield from _changed_statements(node) if isinstance(node, ast.stmt) else _changed_values(node)


def _changed_values(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=right) if type(op) in _COMPARISONS:
            yield ast.Compare(left, [_COMPARISONS[type(op)]()], right)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            for left_out in range(len(values)):
                rest = values[:left_out] + values[left_out + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            yield ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=bytes(value)) if value:
            yield ast.Constant(b"")
        case ast.IfExp(body=body, orelse=orelse):
            yield body
            yield orelse
        case _:
            pass


def _changed_statements(node: ast.stmt) -> Iterator[ast.stmt]:
    match node:
        case ast.If() | ast.While():
            for constant in (True, False):
                changed = copy.copy(node)
                changed.test = ast.Constant(constant)
                yield changed
        case ast.Return(value=ast.Constant(value=bool())):
            return  # as a value it is turned round; None would be the same as False
        case ast.Return(value=ast.expr()):
            yield ast.Return(ast.Constant(None))
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
        case ast.Expr(value=ast.Call() | ast.YieldFrom()) | ast.AugAssign() | ast.Delete():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()
        case ast.Try(body=body, handlers=[], finalbody=[_, *_]):
            yield ast.If(ast.Constant(True), body, [])
        case _:
            pass


def _swapped(
    parent: ast.AST, name: str, number: int | None, changed: ast.AST, tree: ast.Module
) -> str:
    """The module's source with this one node changed, and the tree as it was."""
    if number is None:
        before = getattr(parent, name)
        setattr(parent, name, changed)
        source = ast.unparse(ast.fix_missing_locations(tree))
        setattr(parent, name, before)
        return source
    siblings = getattr(parent, name)
    before = siblings[number]
    siblings[number] = changed
    source = ast.unparse(ast.fix_missing_locations(tree))
    siblings[number] = before
    return source


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _one_line(node: ast.AST) -> str:
    text = ast.unparse(ast.fix_missing_locations(node))
    first = text.splitlines()[0]
    return first if len(first) <= 70 else first[:69] + "…"
