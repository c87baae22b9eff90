"""Every module is small, says what it is for, and contains nothing that could execute a value."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tests.structure.modules import MODULES, REPOSITORY, all_imports, tree_of

MOST_LINES = 450
MOST_FUNCTION_LINES = 65
NAMES_WITHOUT_MEANING = re.compile(r"(Manager|Handler|Helper|Utils?|Base)\Z")
# An op of the plan and a run's folder; names that a server's payloads and our own settings share;
# the store of a run and that of its checkpoints.
NAMES_OF_TWO_TYPES = {"Run", "Sitting", "Store", "Timing"}
# A module in prose: `state/apply.py`, `state/apply`, `apply.py`.
NAMED_MODULE = re.compile(r"`([a-z_]+(?:/[a-z_]+)+(?:\.py)?|[a-z_]+\.py)`")
EXECUTES = {"eval", "exec", "compile", "__import__"}
NEVER_IMPORTED = {"pickle", "marshal", "shelve", "dill", "imp", "code", "codeop"}
# `record` writes the __init__ of its classes from their field names, which are ours.
MAY_EXECUTE = {"orchestrate.record"}
# Folders that belong to a checkout but not to the repository.
NOT_OURS = {".git", ".venv", "node_modules", "__pycache__", "build", "dist"}
BINARY = (".png", ".ico", ".gif", ".svg", ".db", ".pyc", ".gz", ".whl")
MACHINE_SPECIFIC = re.compile(
    r"/(?:home|Users|root|work)/(?!you/)[\w.-]+/|/tmp/(?!\w*[{*])v/|C:\\\\Users|\b(?:10|192\.168)\.\d+\.\d+\.\d+"
)


@cache
def _nodes_by_kind() -> dict[type[ast.AST], list[tuple[str, ast.AST]]]:
    """The tree of each module is walked once for all rules."""
    found: dict[type[ast.AST], list[tuple[str, ast.AST]]] = {}
    for module in MODULES:
        for node in ast.walk(tree_of(module)):
            found.setdefault(type(node), []).append((module, node))
    return found


def nodes(*kinds: type[ast.AST]) -> Iterator[tuple[str, Any]]:
    """Every node of these kinds in the package, with where it stands."""
    for kind in kinds:
        for module, node in _nodes_by_kind().get(kind, ()):
            yield f"{module}:{getattr(node, 'lineno', 1)}", node


def test_modules_open_with_a_sentence() -> None:
    openings = {module: ast.get_docstring(tree_of(module)) or "" for module in MODULES}
    offenders = [
        module
        for module, opening in openings.items()
        if "\n" not in opening and not opening.rstrip().endswith((".", ":", "…"))
    ]
    assert offenders == []


def test_what_is_loaded_late_is_there() -> None:
    """A name given to `later` is no import: neither mypy nor ruff knows of it."""
    defined = {
        f"{module.partition('.')[2]}:{node.name}"
        for module in MODULES
        for node in tree_of(module).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    named = [
        (place, argument.value)
        for place, call in nodes(ast.Call)
        if isinstance(call.func, ast.Name) and call.func.id in {"later", "answer_later"}
        for argument in call.args
        if isinstance(argument, ast.Constant)
    ]
    assert len(named) >= 30
    assert [(place, name) for place, name in named if name not in defined] == []


def test_modules_that_are_named_exist() -> None:
    pages = [REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs/contributing").glob("*.md")]
    top = REPOSITORY / "orchestrate"
    packages = {path.name for path in top.iterdir() if path.is_dir()}
    offenders = [
        f"{path.relative_to(REPOSITORY)} {named}"
        for path in (*MODULES.values(), *pages)
        for named in NAMED_MODULE.findall(path.read_text("utf-8"))
        if named.partition("/")[0] in packages
        or (named.endswith(".py") and "/" not in named and path.is_relative_to(top))
        if not any(
            (folder / f"{named.removesuffix('.py')}{end}").exists()
            for folder in (top, path.parent)
            for end in ("", ".py")
        )
    ]
    assert offenders == []


def test_modules_are_small() -> None:
    lines = {module: path.read_text("utf-8").count("\n") for module, path in MODULES.items()}
    offenders = {module: count for module, count in lines.items() if count >= MOST_LINES}
    assert offenders == {}, "a concept is missing"


def test_functions_are_small() -> None:
    offenders = [
        f"{place} {node.name} has {lines} lines"
        for place, node in nodes(ast.FunctionDef, ast.AsyncFunctionDef)
        if (lines := node.end_lineno - node.lineno + 1) > MOST_FUNCTION_LINES
    ]
    assert offenders == []


def test_names_say_something() -> None:
    offenders = [
        f"{place} {node.name}"
        for place, node in nodes(ast.ClassDef)
        if NAMES_WITHOUT_MEANING.search(node.name)
    ]
    assert offenders == []


def test_a_public_type_is_the_only_one_of_its_name() -> None:
    places: dict[str, list[str]] = {}
    for place, node in nodes(ast.ClassDef):
        if node.col_offset == 0 and not node.name.startswith("_"):
            places.setdefault(node.name, []).append(place)
    offenders = {name: found for name, found in places.items() if len(found) > 1}
    assert offenders.keys() == NAMES_OF_TWO_TYPES, offenders


def test_no_module_executes_text() -> None:
    offenders = [
        place
        for place, node in nodes(ast.Call)
        if isinstance(node.func, ast.Name)
        and node.func.id in EXECUTES
        and place.partition(":")[0] not in MAY_EXECUTE
    ]
    assert offenders == []


def test_no_module_starts_a_shell() -> None:
    assert [place for place, node in nodes(ast.Call) if starts_a_shell(node)] == []


def starts_a_shell(call: ast.Call) -> bool:
    """Whether `shell=` is given, as anything but a constant other than True."""
    return ast.unparse(call.func).startswith(("subprocess.", "os.")) and any(
        keyword.arg == "shell"
        and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is not True)
        for keyword in call.keywords
    )


def test_no_module_imports_what_executes_data() -> None:
    offenders = [
        str(found) for found in all_imports() if found.imported.partition(".")[0] in NEVER_IMPORTED
    ]
    assert offenders == []


def test_no_module_formats_text_from_outside() -> None:
    """`text % values` and `text.format` on anything but a literal would scan values."""
    offenders = [
        place
        for place, node in nodes(ast.Call)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("format_map", "vformat")
    ]
    assert offenders == []


def our_files() -> list[Path]:
    """What is, or is about to be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    names = [Path(os.fsdecode(name)) for name in listed.stdout.split(b"\0") if name]
    if not names:  # an unpacked archive has no git
        names = [path.relative_to(REPOSITORY) for path in REPOSITORY.rglob("*") if path.is_file()]
    return [
        REPOSITORY / name
        for name in names
        if not NOT_OURS & set(name.parts)
        and name.suffix not in BINARY
        and (REPOSITORY / name).is_file()
    ]


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    own = Path(__file__).resolve()
    files = our_files()
    assert len(files) > 50
    offenders = {}
    for path in files:
        text = path.read_text("utf-8", errors="replace")
        found = MACHINE_SPECIFIC.search(text) or re.search(re.escape(str(REPOSITORY)), text)
        if found and path.resolve() != own:
            offenders[str(path.relative_to(REPOSITORY))] = found.group()
    assert offenders == {}


# Names of the values that only `orchestrate.exits` knows as numbers.
_IS_CODE = re.compile(r"(^|_)(exit_)?codes?$", re.IGNORECASE)
# Calls whose numbers are exit codes: a step's result, an ending, the end of our own process.
_TAKE_CODES = {"result", "Ending", "End", "RunEnded", "Captured", "DefinitionError"}
# Others speak of codes of characters, and of those that other programs exit with.
_HAVE_CODES = ("app", "cli", "compile", "engine", "errors", "show", "state", "view")


def _numbers(node: ast.AST | None) -> list[int]:
    """The numbers that an expression stands for, but 0, which says the same everywhere."""
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool) and number:
            return [number]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [number for part in parts for number in _numbers(part)]
        case ast.IfExp(body=body, orelse=other):
            return [*_numbers(body), *_numbers(other)]
        case ast.BinOp(left=ast.Constant(value=128), op=ast.Add()):
            return [128]
        case _:
            return []


def _name(node: ast.AST) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Constant(value=str(name)):
            return name
        case _:
            return ""


_MAY_HOLD_CODES = (
    ast.keyword, ast.Assign, ast.AnnAssign, ast.Compare, ast.Dict, ast.Call, ast.BinOp
)  # fmt: skip


def _codes_in(node: ast.AST) -> list[int]:
    """The exit codes that are written as numbers in a node itself."""
    match node:
        case ast.keyword(arg=str(name), value=value) if _IS_CODE.search(name):
            return _numbers(value)
        case ast.Assign(targets=[target], value=value) if _IS_CODE.search(_name(target)):
            return _numbers(value)
        case ast.AnnAssign(target=target, value=value) if _IS_CODE.search(_name(target)):
            return _numbers(value)
        case ast.Compare(left=left, comparators=others) if _IS_CODE.search(_name(left)):
            return [number for other in others for number in _numbers(other)]
        case ast.Dict(keys=keys, values=values):
            named = zip(keys, values, strict=True)
            return [n for k, v in named if k and _IS_CODE.search(_name(k)) for n in _numbers(v)]
        case ast.Call(func=func, args=arguments) if _name(func) in _TAKE_CODES:
            return [number for argument in arguments for number in _numbers(argument)]
        case ast.BinOp(left=ast.Constant(value=128), op=ast.Add()):
            return [128]
        case _:
            return []


def test_exit_codes_have_names() -> None:
    offenders = [
        place
        for place, node in nodes(*_MAY_HOLD_CODES)
        if place.startswith(tuple(f"orchestrate.{name}" for name in _HAVE_CODES))
        and _codes_in(node)
    ]
    assert offenders == [], "take it from orchestrate.exits"


def test_a_number_that_is_an_exit_code_is_found() -> None:
    for line in (
        "f(exit_code=3)", "_CODE = 130", "x = a.code == 6", "d = {'exit_code': 1}",
        "step.result('failed', 2)", "x = 128 + number", "codes = (129, 130)",
        "code = 1 if machine else 2", "code: int = 70",
    ):  # fmt: skip
        assert any(_codes_in(node) for node in ast.walk(ast.parse(line))), line
    for line in ("f(exit_code=0)", "x = a.code == PARKED", "step.result('completed', 0)", "x = 6"):
        assert not any(_codes_in(node) for node in ast.walk(ast.parse(line))), line


# What the state file of a run has besides its steps is the dialect's own.
_SHAPES_BY_DIALECT = {("orchestrate.state.codec", "_by_dialect")}


def test_the_engine_asks_no_dialect() -> None:
    """Policy stands in the plan; the engine and the state only hand the dialect's name on."""
    offenders = []
    for module in MODULES:
        if not module.startswith(("orchestrate.engine", "orchestrate.state")):
            continue
        tree = tree_of(module)
        allowed = {id(inner) for node in ast.walk(tree) for inner in _handed_on(node, module)}
        offenders += [
            f"{module}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and node.attr == "dialect"
            and id(node) not in allowed
        ]
    assert offenders == []


def _handed_on(node: ast.AST, module: str) -> Iterator[ast.AST]:
    """The places in a node where reading a dialect is only passing it on."""
    match node:
        case ast.keyword(arg="dialect", value=value):
            yield value
        case ast.Dict(keys=keys, values=values):
            yield from (v for k, v in zip(keys, values, strict=True) if k and _name(k) == "dialect")
        case ast.FunctionDef(name=name) if (module, name) in _SHAPES_BY_DIALECT:
            yield from ast.walk(node)
        case _:
            pass
