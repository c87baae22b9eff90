"""The modules of the package, and what their source says."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from orchestrate.record import record

# No expression does, and there are far more of them.
_MAY_HOLD_IMPORTS = (ast.stmt, ast.excepthandler, ast.match_case)
REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "orchestrate"


def _name_of(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES: dict[str, Path] = {_name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@record
class Import:
    """One module that is imported by one statement."""

    importer: str
    imported: str
    line: int
    in_function: bool
    # Under `if TYPE_CHECKING:`, which never happens while the program runs.
    for_types: bool

    @property
    def is_ours(self) -> bool:
        return within(self.imported, "orchestrate")

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


@cache
def imports_of(module: str) -> tuple[Import, ...]:
    """Everything that a module imports, at any depth."""
    return tuple(imports_in(module, tree_of(module)))


def all_imports() -> Iterator[Import]:
    for module in MODULES:
        yield from imports_of(module)


def imports_in(
    importer: str, parent: ast.AST, *, in_function: bool = False, for_types: bool = False
) -> Iterator[Import]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for imported in _names(node):
                yield Import(importer, imported, node.lineno, in_function, for_types)
            continue
        if not isinstance(node, _MAY_HOLD_IMPORTS):
            continue
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        is_typing = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        yield from imports_in(
            importer,
            node,
            in_function=in_function or is_function,
            for_types=for_types or is_typing,
        )


def _names(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    package = node.module or ""
    inner = [f"{package}.{alias.name}" for alias in node.names]
    return list(dict.fromkeys(name if name in MODULES else package for name in inner))
