"""A command loads no more than it needs (ADR 0006)."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import orchestrate
from tests.structure.modules import MODULES, REPOSITORY, tree_of, within


def loaded_by(folder: Path, *arguments: str) -> set[str]:
    """The modules that a successful command has loaded by its end."""
    program = (
        "import sys\n"
        "import orchestrate.__main__\n"  # by which a process is known as the command's
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
    "ruamel.yaml", "ruamel.yaml.main", "ruamel.yaml.constructor",
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


def test_a_dry_run_loads_no_engine() -> None:
    loaded = loaded_by(REPOSITORY, "run", "--dry-run", "workflows/examples/hello.yaml")
    assert "orchestrate.show.dry_run" in loaded
    heavy = {"engine.scheduler", "engine.runtime", "state.store", "execute.local", "show.progress"}
    assert not {f"orchestrate.{module}" for module in heavy} & loaded


def test_a_keeper_loads_little() -> None:
    """Each run starts one, and waits until it is ready."""
    program = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "import orchestrate.execute.keeper.boot, orchestrate.execute.keeper.server\n"
        "print(*sys.modules)\n"
    )
    command = [sys.executable, "-I", "-S", "-c", program, str(REPOSITORY)]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "orchestrate.execute.keeper.server" in loaded
    assert not {"typing", "re", "enum", "socket", "json", "pathlib", "collections"} & set(loaded)


def test_no_pattern_is_compiled_when_a_module_is_loaded() -> None:
    """`regex` compiles it when it is first used; a webhook's program stands alone."""
    offenders = [
        module
        for module in MODULES
        for statement in tree_of(module).body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        and any(ast.unparse(node).startswith("re.compile") for node in ast.walk(statement))
    ]
    assert set(offenders) <= {"orchestrate.app.working.webhook"}
