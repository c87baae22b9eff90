"""Every module is small, says what it is for, and contains nothing that could execute a value."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.structure.modules import MODULES, REPOSITORY

MOST_LINES = 450
MOST_FUNCTION_LINES = 65
NAMES_WITHOUT_MEANING = re.compile(r"(Manager|Handler|Helper|Utils?|Base)\Z")
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


@pytest.fixture(params=sorted(MODULES))
def module(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


def test_opens_with_a_sentence(module: str) -> None:
    opening = ast.get_docstring(tree_of(module))
    assert opening, f"{module} has no docstring"
    assert opening.splitlines()[0].rstrip().endswith((".", ":", "…")) or "\n" in opening


def test_is_small(module: str) -> None:
    lines = MODULES[module].read_text("utf-8").count("\n")
    assert lines < MOST_LINES, f"{module} has {lines} lines: a concept is missing"


def test_functions_are_small(module: str) -> None:
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.FunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= MOST_FUNCTION_LINES, f"{module}.{node.name} has {lines} lines"


def test_names_say_something(module: str) -> None:
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.ClassDef):
            assert not NAMES_WITHOUT_MEANING.search(node.name), node.name


def test_executes_no_text(module: str) -> None:
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            assert called not in EXECUTES or module in MAY_EXECUTE, f"{module}:{node.lineno}"
            for keyword in node.keywords:
                is_shell = keyword.arg == "shell" and not (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value is not True
                )
                starts = ast.unparse(node.func).startswith(("subprocess.", "os."))
                assert not (is_shell and starts), f"{module}:{node.lineno} starts a shell"
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        assert not {name.partition(".")[0] for name in names} & NEVER_IMPORTED, module


def test_formats_no_text_from_outside(module: str) -> None:
    """`text % values` and `text.format` on anything but a literal would scan values."""
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            assert node.func.attr not in ("format_map", "vformat"), f"{module}:{node.lineno}"


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
    for path in files:
        if path.resolve() == own:
            continue
        text = path.read_text("utf-8", errors="replace")
        found = MACHINE_SPECIFIC.search(text)
        assert found is None, f"{path.relative_to(REPOSITORY)} mentions {found.group()}"
        assert str(REPOSITORY) not in text, path.relative_to(REPOSITORY)
