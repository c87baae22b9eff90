"""Imports point one way (architecture.md), and a command loads no more than it needs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import orchestrate
from tests.structure.modules import MODULES, PACKAGE, REPOSITORY, imports_of

# Who may see whom, by package; a package may always see itself. `cli` may see everything.
FOUNDATION = {
    "orchestrate",
    "orchestrate.record",
    "orchestrate.codes",
    "orchestrate.errors",
    "orchestrate.installation",
}
SEES: dict[str, set[str]] = {
    "orchestrate.record": set(),
    "orchestrate.codes": {"orchestrate.record"},
    "orchestrate.errors": {"orchestrate.diagnostics", "orchestrate.record"},
    "orchestrate.installation": {"orchestrate.errors"},
    "orchestrate.diagnostics": FOUNDATION,
    "orchestrate.workspace": FOUNDATION,
    "orchestrate.plan": FOUNDATION | {"orchestrate.diagnostics"},
    "orchestrate.lang": FOUNDATION | {"orchestrate.diagnostics", "orchestrate.plan.expr"},
    "orchestrate.source": FOUNDATION | {"orchestrate.diagnostics", "orchestrate.workspace"},
    "orchestrate.dialects": FOUNDATION
    | {
        "orchestrate.diagnostics",
        "orchestrate.workspace",
        "orchestrate.plan",
        "orchestrate.lang",
        "orchestrate.source",
    },
    "orchestrate.compile": FOUNDATION
    | {
        "orchestrate.diagnostics",
        "orchestrate.workspace",
        "orchestrate.plan",
        "orchestrate.source",
        "orchestrate.dialects",
    },
    "orchestrate.state": FOUNDATION | {"orchestrate.diagnostics", "orchestrate.plan"},
    "orchestrate.engine": FOUNDATION
    | {
        "orchestrate.diagnostics",
        "orchestrate.workspace",
        "orchestrate.plan",
        "orchestrate.state",
        "orchestrate.execute",
        "orchestrate.agents",
    },
    "orchestrate.agents": FOUNDATION | {"orchestrate.diagnostics", "orchestrate.workspace"},
    "orchestrate.execute": FOUNDATION,
    "orchestrate.testing": FOUNDATION,
    "orchestrate.__main__": {"orchestrate.cli"},
}
# The front of the house: its layers have rules of their own.
FRONT = ("orchestrate.cli", "orchestrate.app", "orchestrate.view", "orchestrate.show")
# What each third-party package is for, and who may therefore use it.
THIRD_PARTY = {
    "click": {"orchestrate.cli"},
    "jsonschema": {"orchestrate.engine.schemas"},
    "referencing": {"orchestrate.engine.schemas"},
    "filelock": {"orchestrate.state.locks"},
    "ruamel": {"orchestrate.source"},
    "_ruamel_yaml": {"orchestrate.source"},
    # Draws the live view, and nothing else (ADR 0011).
    "rich": {"orchestrate.show.live.drawing"},
}


def owner_of(module: str) -> str:
    """The entry of `SEES` that a module falls under."""
    parts = module.split(".")
    return ".".join(parts[:2])


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_one_way(module: str) -> None:
    owner = owner_of(module)
    if owner in ("orchestrate", *FRONT):
        return
    assert owner in SEES, f"say in SEES what {owner} may import"
    allowed = {owner, *SEES[owner]}
    for imported in imports_of(MODULES[module]):
        if imported == "orchestrate" or not within(imported, "orchestrate"):
            continue
        seen = any(within(imported, package) for package in allowed - {"orchestrate"})
        assert seen, f"{module} must not import {imported}"


@pytest.mark.parametrize("module", sorted(MODULES))
def test_third_party_packages_have_their_place(module: str) -> None:
    for imported in imports_of(MODULES[module]):
        top = imported.partition(".")[0]
        if top == "orchestrate" or top in sys.stdlib_module_names:
            continue
        assert top in THIRD_PARTY, f"{module} imports {imported}"
        users = THIRD_PARTY[top]
        assert any(within(module, user) for user in users), f"{module} imports {imported}"


RUNNING = {"state", "agents", "engine", "execute", "app", "view", "show", "cli"}


def test_the_compiler_never_sees_the_engine() -> None:
    """True from the first day of the engine on, because nobody has to think of it then."""
    for module, path in MODULES.items():
        if owner_of(module) in ("orchestrate.dialects", "orchestrate.compile", "orchestrate.plan"):
            for imported in imports_of(path):
                part = imported.split(".")[1:2]
                assert part not in (
                    ["state"],
                    ["agents"],
                    ["engine"],
                    ["execute"],
                    ["cli"],
                    ["app"],
                    ["view"],
                    ["show"],
                ), module


def loaded_by(folder: Path, *arguments: str) -> set[str]:
    """The modules that a successful command has loaded by its end."""
    program = (
        "import sys\n"
        "from orchestrate.cli.main import run_command\n"
        "code = run_command(sys.argv[1:])\n"
        "print(*sys.modules, sep='\\n', file=sys.stderr)\n"
        "sys.exit(code)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env={
            "PATH": os.defpath,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(Path(orchestrate.__file__).parent.parent),
        },
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return set(result.stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["validate", "--help"]])
def test_help_loads_no_compiler(arguments: list[str]) -> None:
    loaded = loaded_by(REPOSITORY, *arguments)
    assert "orchestrate.cli.main" in loaded
    for module in loaded:
        assert not within(module, "orchestrate.source")
        assert not within(module, "orchestrate.dialects")
        assert module not in ("orchestrate.compile", "jsonschema", "ruamel.yaml")


# Needed only to explain a mistake, or not at all; each costs start-up time.
NOT_FOR_VALID_FILES = (
    "jsonschema", "referencing", "difflib", "orchestrate.source.explain", "asyncio", "inspect",
    "unicodedata", "urllib.request", "subprocess", "socket", "ssl", "tempfile", "logging",
)  # fmt: skip


@pytest.mark.parametrize(
    ("dialect", "recipe"),
    [
        ("machine", "workflows/retrospective.yaml"),
        ("workflow", "workflows/examples/hello.yaml"),
        ("recipe", "workflows/examples/audits/security_audit.yaml"),
    ],
)
def test_a_valid_file_loads_only_its_dialect(dialect: str, recipe: str) -> None:
    loaded = loaded_by(REPOSITORY, "validate", recipe)
    assert f"orchestrate.dialects.{dialect}" in loaded
    others = {"machine", "workflow", "recipe"} - {dialect}
    assert not {f"orchestrate.dialects.{other}" for other in others} & loaded
    bare = loaded_by(REPOSITORY, "--version")
    assert not set(NOT_FOR_VALID_FILES) & (loaded - bare)


def test_nothing_heavy_at_the_top_of_a_module() -> None:
    """What is imported at module level is paid for by every command."""
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text("utf-8"))
        for node in tree.body:
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import)
                else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            )  # fmt: skip
            heavy = {n.partition(".")[0] for n in names} & {"jsonschema", "asyncio", "inspect"}
            assert not heavy, f"{module} imports {heavy} at module level"


def test_the_modules_are_all_found() -> None:
    assert PACKAGE.is_dir()
    assert {"orchestrate.compile", "orchestrate.plan.nodes", "orchestrate.cli.main"} <= set(MODULES)
