"""Finding an agent's program: where its variable says, in its usual places, on PATH."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from orchestrate.agents.base import Failure
from orchestrate.record import record
from orchestrate.regex import regex

_VERSION = regex(r"\d+\.\d+(?:\.\d+)*(?:[-+][\w.+-]+)?")


@record
class KnownProgram:
    """A program that we know: what it is called, where it may be, and how one gets it."""

    title: str
    executables: tuple[str, ...]
    # The environment variable with which a user names it, such as CLAUDE_CLI_PATH (A §13.3).
    variable: str
    # `~` is the home of the run's environment.
    places: tuple[str, ...]
    install: str


@record
class Missing:
    """A program that is not there, and where it was looked for."""

    program: KnownProgram
    looked: tuple[str, ...]
    # An absolute path at which it would have been found.
    expected: Path


def find_program(program: KnownProgram, environment: Mapping[str, str]) -> Path | Missing:
    """The program's absolute path. A variable that leads nowhere is not made up for by PATH."""
    looked = []
    first: Path | None = None
    for path, shown in _candidates(program, environment):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
        first = first or path
        looked.append(shown)
    if not environment.get(program.variable):
        names = " or ".join(program.executables)
        looked.append(f"{names} on PATH ({environment.get('PATH') or 'which is empty'})")
    return Missing(program, tuple(looked), first or Path("/") / program.executables[0])


def _candidates(
    program: KnownProgram, environment: Mapping[str, str]
) -> Iterator[tuple[Path, str]]:
    """Where to look, and how a message calls that; folders of PATH have a message of their own."""
    named = environment.get(program.variable)
    if named:
        yield Path(os.path.abspath(_expand(named, environment))), f"{program.variable} ({named})"
        return
    for place in program.places:
        if place.startswith("~") and not environment.get("HOME"):
            continue
        yield Path(_expand(place, environment)), place
    for folder in environment.get("PATH", "").split(os.pathsep):
        # A relative folder would be one of the workspace, whose files must not become programs.
        if os.path.isabs(folder):
            for name in program.executables:
                path = Path(folder) / name
                if os.path.isfile(path) and os.access(path, os.X_OK):
                    yield path, ""


def _expand(place: str, environment: Mapping[str, str]) -> str:
    return environment.get("HOME", "") + place[1:] if place.startswith("~/") else place


def missing_failure(missing: Missing) -> Failure:
    """Says what is missing, where it was looked for, and what to do."""
    program = missing.program
    message = f"{program.title} is not installed; looked at {', '.join(missing.looked)}"
    return Failure(
        "not-installed",
        f"{message}. To install it: {program.install}. Or name it with {program.variable}.",
    )


def version_in(output: str) -> str:
    """The version in what `--version` printed, or its first line."""
    found = _VERSION.search(output)
    return found[0] if found else output.strip().partition("\n")[0]
