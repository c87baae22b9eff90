"""Commands that only look start no process, open no socket and write nothing (promise 12)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import orchestrate

WATCHED = Path(__file__).with_name("watched.py")
REPOSITORY = Path(__file__).resolve().parents[2]
RECIPES = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for path in (REPOSITORY / "workflows").rglob("*.yaml")
    if "shared" not in path.parts
)
BROKEN = {
    "syntax.yaml": "steps: [",
    "machine.yaml": "initialStep: a\nsteps: {b: {prompt: 1, outcoms: []}}\n",
    "workflow.yaml": 'version: "9"\nname: x\nsteps:\n- {name: a, comand: [b]}\n- {name: a}\n',
    "recipe.yaml": "name: x\nsteps:\n- {id: a, promt: '{{b}}', condition: 'x ==='}\n",
    "include.yaml": "initialStep: a\nsteps: {a: {$include: mising.yaml}}\n",
    "outside.yaml": "initialStep: a\nsteps: {a: {$include: ../x.yaml}}\n",
    "shape.yaml": "a: b\n",
}


@dataclass(frozen=True, slots=True)
class Look:
    """What some commands, run under watch one after the other, answered and ended with."""

    stdout: str
    stderr: str
    codes: tuple[int, ...]


def look(folder: Path, *commands: list[str]) -> Look:
    """Run commands under watch; they must leave the folder as it is."""
    before = snapshot(folder)
    words = [word for command in commands for word in (*command, "+")]
    result = subprocess.run(
        [sys.executable, str(WATCHED), *words],
        cwd=folder,
        env={
            "PATH": os.defpath,
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(Path(orchestrate.__file__).parent.parent),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert "ATTEMPT" not in result.stderr, result.stderr
    assert result.returncode == 0, result.stderr
    assert snapshot(folder) == before
    ended = re.findall(r"^ENDED (\d+) ", result.stderr, re.MULTILINE)
    assert len(ended) == len(commands)
    return Look(result.stdout, result.stderr, tuple(map(int, ended)))


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder with its size and time."""
    found = {}
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        found[str(path)] = (status.st_size, status.st_mtime_ns)
    return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalogue, the example configuration and some broken files."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("workflows", "prompts", "schemas"):
        shutil.copytree(
            REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copytree(REPOSITORY / ".orchestrate.example", folder / ".orchestrate")
    for name, text in BROKEN.items():
        (folder / name).write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize("shape", ["text", "json", "github", "sarif"])
def test_validate(project: Path, shape: str) -> None:
    seen = look(project, ["validate", "--format", shape, *RECIPES, *BROKEN])
    assert seen.codes == (2,)
    for name in BROKEN:
        assert name in seen.stdout


def test_validate_of_valid_files(project: Path) -> None:
    assert set(look(project, *(["validate", recipe] for recipe in RECIPES)).codes) == {0}


@pytest.mark.parametrize("shape", ["text", "json", "mermaid", "dot"])
def test_plan(project: Path, shape: str) -> None:
    seen = look(project, *(["plan", "--format", shape, recipe] for recipe in RECIPES))
    assert set(seen.codes) == {0}


def test_dry_run(project: Path) -> None:
    seen = look(project, *(["run", "--dry-run", recipe] for recipe in RECIPES))
    assert set(seen.codes) == {0}, seen.stderr


def test_broken_files(project: Path) -> None:
    commands = [["plan"], ["plan", "--json"], ["run", "--dry-run"]]
    seen = look(project, *([*command, name] for command in commands for name in BROKEN))
    assert set(seen.codes) == {1, 2}


def test_other_commands(project: Path) -> None:
    seen = look(project, ["list"], ["list", "--json"], ["schema"], ["schema", "machine"])
    assert set(seen.codes) == {0}


@pytest.mark.parametrize(
    "attempt",
    [
        "open('x', 'w')",
        "os.open('x', os.O_CREAT | os.O_WRONLY)",
        "os.mkdir('x')",
        "os.rename('syntax.yaml', 'x')",
        "os.remove('syntax.yaml')",
        "os.fork()",
        "os.system('true')",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "subprocess.run(['true'])",
        "socket.socket().connect(('127.0.0.1', 9))",
        "tempfile.mkdtemp()",
    ],
)
def test_the_watch_sees(project: Path, attempt: str) -> None:
    """What this module relies on: each of these is noticed, and stopped."""
    program = (
        "import os, socket, subprocess, sys, tempfile, watched\n"
        "sys.addaudithook(watched.watch)\n"
        f"{attempt}\n"
    )
    before = snapshot(project)
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=project,
        env={
            "PATH": os.defpath,
            "PYTHONPATH": str(WATCHED.parent),
            "TMPDIR": str(project),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert "ATTEMPT" in result.stderr
    assert result.returncode != 0
    assert snapshot(project) == before
