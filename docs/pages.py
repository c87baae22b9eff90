"""Reads the pages and works through their examples in a workspace of their own.

What stands before a fence in a comment says what becomes of it:

    <!-- file: tidy.yaml -->      the next fence is that file, from here to the end of the page
    <!-- workspace: agents -->    what the page's workspace holds at the beginning (see `SUPPLIES`)

A `yaml` fence is a complete definition, unless it is marked `fragment` (YAML, but no definition),
`wrong` (must draw an error) or `warns` (must draw a warning, and no error). Each line of a
`console` fence that starts with `$ ` is run, and the lines after it are what it prints. What is
different each time (ids of runs, times, processes) is written as on one imagined morning.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrate.compile import Compilation, compile_file
from orchestrate.workspace import open_workspace

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"

# What a page's workspace holds at the beginning: folders of the repository -> their names there.
SUPPLIES: dict[str, dict[str, str]] = {
    "empty": {},
    "agents": {".orchestrate.example": ".orchestrate"},
    "project": {
        ".orchestrate.example": ".orchestrate",
        "workflows": "workflows",
        "prompts": "prompts",
        "schemas": "schemas",
    },
}

_FENCE = re.compile(
    r"^(?:<!-- file: (?P<file>\S+) -->\n+)?"
    r"^(?P<ticks>```+)(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=ticks)[ ]*$",
    re.MULTILINE | re.DOTALL,
)
_WORKSPACE = re.compile(r"^<!-- workspace: (\w+) -->$", re.MULTILINE)
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_RUN_ID = re.compile(r"\b\d{8}T\d{6}Z-[a-z0-9]{6}\b")
_RUN_IDS = ("k7m2xq", "p4w9ab", "t8c3ne", "d5r6vu", "h2j7sy", "b9g4lo")
_PASSING = (
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "2026-03-02T09:00:00.000Z"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b"), "2026-03-02 10:00:00"),
    (re.compile(r"\b\d+\.\ds\b"), "0.1s"),
    (re.compile(r"\bin \d+h\d\dm\d\ds\b"), "in 23h59m59s"),
    (re.compile(r"\(process \d+\)"), "(process 4242)"),
)


@dataclass(frozen=True, slots=True)
class Fence:
    """A block of code in a page; `start` and `end` are where its text stands."""

    language: str
    marks: tuple[str, ...]
    text: str
    file: str | None
    line: int
    start: int
    end: int
    heading: str


@dataclass(frozen=True, slots=True)
class Page:
    path: Path
    text: str
    supplies: str
    fences: tuple[Fence, ...]

    @property
    def name(self) -> str:
        return self.path.relative_to(REPOSITORY).as_posix()


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a fence: a definition was compiled, or commands were run."""

    fence: Fence
    compilation: Compilation | None = None
    console: str | None = None


def find_pages() -> list[Path]:
    """README, what agents are told (`orchestrate guide`), and the documentation."""
    skills = sorted((REPOSITORY / "skills").rglob("*.md"))
    return [REPOSITORY / "README.md", *skills, *sorted(DOCS.rglob("*.md"))]


def read_page(path: Path) -> Page:
    text = path.read_text("utf-8")
    supplies = _WORKSPACE.search(text)
    return Page(path, text, supplies[1] if supplies else "empty", tuple(_fences(text)))


def _fences(text: str) -> Iterator[Fence]:
    for match in _FENCE.finditer(text):
        language, *marks = match["info"].split() or [""]
        headings = list(_HEADING.finditer(text, 0, match.start()))
        yield Fence(
            language=language,
            marks=tuple(marks),
            text=match["text"],
            file=match["file"],
            line=text.count("\n", 0, match.start("ticks")) + 1,
            start=match.start("text"),
            end=match.end("text"),
            heading=headings[-1][1] if headings else "",
        )


def run_in_shell(command: str, folder: Path, environment: Mapping[str, str]) -> bytes:
    """What a command prints."""
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False, timeout=60,
    )  # fmt: skip
    return done.stdout


# A way to run a command in a folder and an environment.
Run = Callable[[str, Path, Mapping[str, str]], bytes]


def work_through(page: Page, run: Run = run_in_shell) -> Iterator[Result]:
    """Go through the fences of a page in order, as a reader would."""
    with open_page(page.supplies) as folder:
        commands = _install_command(folder.parent / "bin")
        runs: dict[str, str] = {}
        for fence in page.fences:
            if fence.file is not None:
                write_file(folder / fence.file, fence.text)
            if fence.language == "console":
                yield Result(fence, console=_run_console(fence.text, folder, commands, runs, run))
            elif fence.language == "yaml" and "fragment" not in fence.marks:
                yield Result(fence, compilation=_compile(fence, folder))


@contextmanager
def open_page(supplies: str) -> Iterator[Path]:
    """A workspace with the named supplies, for as long as the page is worked through."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve() / "project"
        folder.mkdir()
        for source, name in SUPPLIES[supplies].items():
            shutil.copytree(REPOSITORY / source, folder / name)
        yield folder


def hide_folder(text: str, folder: Path) -> str:
    """Where the workspace lies is different each time, and none of the reader's business."""
    return text.replace(str(folder), "/home/you/project")


def steady(text: str, runs: dict[str, str]) -> str:
    """The text as it would be on an imagined morning; `runs` keeps the names of the page's runs."""
    for run_id in _RUN_ID.findall(text):
        runs.setdefault(run_id, f"20260302T09{len(runs):02}00Z-{_RUN_IDS[len(runs)]}")
    text = _RUN_ID.sub(lambda found: runs[found[0]], text)
    for pattern, replacement in _PASSING:
        text = pattern.sub(replacement, text)
    return text


def write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _compile(fence: Fence, folder: Path) -> Compilation:
    name = fence.file
    if name is None:
        name = f"line-{fence.line}.yaml"
        write_file(folder / name, fence.text)
    with chdir(folder):
        return compile_file(Path(name), open_workspace())


def _install_command(folder: Path) -> Path:
    """A folder with an `orchestrate` that runs this checkout, for the front of PATH."""
    command = folder / "orchestrate"
    write_file(command, f'#!/bin/sh\nexec "{sys.executable}" -m orchestrate "$@"\n')
    command.chmod(0o755)
    return folder


def _run_console(text: str, folder: Path, commands: Path, runs: dict[str, str], run: Run) -> str:
    """The console text with what the commands in it really print."""
    environment = os.environ | {
        "PATH": f"{commands}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONUTF8": "1",
        # Both streams are shown as one: in the order in which they were written.
        "PYTHONUNBUFFERED": "1",
        "XDG_CONFIG_HOME": str(commands.parent / "config"),
        "XDG_STATE_HOME": str(commands.parent / "state"),
        "LC_ALL": "C.UTF-8",
    }
    shown = []
    for command in re.findall(r"^\$ (.+)$", text, re.MULTILINE):
        printed = run(command, folder, environment).decode()
        printed += "\n" if printed and not printed.endswith("\n") else ""
        if "bug in orchestrate" in printed:
            raise RuntimeError(f"{command}: {printed}")
        shown.append(f"$ {command}\n{steady(hide_folder(printed, folder), runs)}")
    return "".join(shown)
