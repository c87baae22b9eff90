"""What this computer has of what runs need, and what to do about the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from orchestrate.agent_names import own_name
from orchestrate.agents.finding import Missing, version_in
from orchestrate.agents.registry import PROGRAMS, find_program, is_program, program_version, untried
from orchestrate.agents.versions import tried_words
from orchestrate.app.config.load import load_config, runs_folder
from orchestrate.app.config.model import FILE
from orchestrate.checkpoints.program import find_git
from orchestrate.checkpoints.store import size_of
from orchestrate.errors import DefinitionError, OrchestrateError
from orchestrate.plan.visible import plural, show_size
from orchestrate.state.locks import take
from orchestrate.state.runs import Runs, list_runs
from orchestrate.view.doctor import Finding
from orchestrate.workspace import package_data

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from orchestrate.agents.adapter import Login
    from orchestrate.app.config.model import Config
    from orchestrate.workspace import Workspace

_PATIENCE_S = 20


def examine(workspace: Workspace, state_dir: str | None) -> list[Finding]:
    """Everything that is looked at: the machine, the workspace, the agents."""
    return [*_machine(), *_workspace(workspace, state_dir), *_agents()]


def _machine() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", True, version)
    if sys.platform == "linux":
        yield Finding("process trees", True, "whole trees are ended (child subreaper)")
    else:
        yield Finding(
            "process trees", False, "only process groups can be ended here",
            "a program that leaves its group may outlive its step",
        )  # fmt: skip
    yield from _catalogue_tools()
    git = _first_line(("git", "--version"))
    yield Finding(
        "git", bool(git), git or "not found",
        "" if git else "the recipes of the catalogue that commit need it",
    )  # fmt: skip


def _catalogue_tools() -> Iterator[Finding]:
    """`bd`, which prompts of the catalogue tell agents to use."""
    import shutil

    prompts = package_data() / "prompts"
    folders = {file.parent.name for file in prompts.rglob("*.md") if _uses_bd(file)}
    users = _recipes_with(folders, package_data() / "workflows")
    found = shutil.which("bd")
    if users:
        yield Finding(
            "bd", found is not None, found or f"not found; needed by {', '.join(users)}",
            "" if found else "an agent's issue tracker (beads); other recipes work without it",
        )  # fmt: skip


def _recipes_with(folders: set[str], shelf: Path) -> list[str]:
    """The ids of the recipes that include a prompt of these folders, also by way of a shared file.

    Their texts are searched, which is enough for files of our own: nothing need be compiled.
    """
    texts = {file: file.read_text("utf-8") for file in sorted(shelf.rglob("*.yaml"))}
    wanted = {f"prompts/{folder}/" for folder in folders}
    users: set[Path] = set()
    while (
        found := {file for file, text in texts.items() if any(name in text for name in wanted)}
        - users
    ):
        users |= found
        wanted |= {f"$include: {file.relative_to(shelf).as_posix()}" for file in found}
    return [file.stem for file in sorted(users) if file.parent == shelf]


def _uses_bd(prompt: Path) -> bool:
    return "`bd " in prompt.read_text("utf-8", "replace")


def _workspace(workspace: Workspace, state_dir: str | None) -> Iterator[Finding]:
    try:
        config = load_config(workspace)
    except OrchestrateError as error:
        message = error.message
        if isinstance(error, DefinitionError):
            first = error.diagnostics[0]
            message = f"{first.span.file}:{first.span.line}: {first.message}"
        advice = error.hint or "to see all that is wrong: orchestrate config show"
        yield Finding("configuration", False, message, advice, is_needed=True)
        return
    origins = sorted({origin.place for origin in config.origins.values()})
    nothing = f"{FILE} sets nothing" if (workspace.root / FILE).is_file() else "none"
    yield Finding("configuration", True, ", ".join(origins) or f"{nothing}; defaults hold")
    folder = runs_folder(workspace, config, state_dir).folder
    yield _locks(folder)
    yield _checkpoints(folder)
    backend = config.values.get("backend", "claude-code")
    permissions = config.values.get("permissions", "bypass")
    yield _default_agent(config, str(backend), f"default {backend}, permissions {permissions}")


def _default_agent(config: Config, backend: str, detail: str) -> Finding:
    """Recipes that name no agent ask this one; it has to be there for them, but for no others."""
    name = own_name(backend)
    found = find_program(name, os.environ) if is_program(name) else None
    if not isinstance(found, Missing) or config.agent(name).get("path"):
        return Finding("agents", True, detail)
    return Finding(
        "agents", False, f"{detail}; but {name} is not installed",
        f"install it ({found.program.install}), choose another (backend: in the configuration), "
        "or try recipes without one: --backend rehearsal",
    )  # fmt: skip


def _locks(folder: Path) -> Finding:
    """Can a lock be taken where runs are kept? Tried in the nearest folder that is there."""
    import tempfile

    place = folder
    while not place.is_dir():
        place = place.parent
    try:
        with (
            tempfile.TemporaryDirectory(prefix=".orchestrate-doctor-", dir=place) as scratch,
            take(type(folder)(scratch) / "try.lock", "a lock", ("orchestrate", "doctor")),
        ):
            return Finding("runs", True, f"{folder} (locks work)")
    except (OSError, OrchestrateError) as error:
        return Finding(
            "runs", False, f"{folder}: {error}", "choose a folder on a local disk: --state-dir",
            is_needed=True,
        )  # fmt: skip


def _checkpoints(folder: Path) -> Finding:
    """Can the workspace be recorded, and what does that take on the disk?"""
    if find_git(os.environ) is None:
        return Finding(
            "checkpoints", False, "git is not installed: `diff` and `rewind` know no files",
            "install git",
        )  # fmt: skip
    sizes = [size for run in list_runs(Runs(folder)) if (size := size_of(run.root))]
    if not sizes:
        return Finding("checkpoints", True, "none yet")
    return Finding("checkpoints", True, f"{show_size(sum(sizes))} in {plural(len(sizes), 'run')}")


def programs_here() -> dict[str, str]:
    """The programs that runs use and that are here, and their versions."""
    git = _first_line(("git", "--version"))
    found = {"git": version_in(git)} if git else {}
    for name in PROGRAMS:
        program = find_program(name, os.environ)
        if not isinstance(program, Missing):
            said = _first_line(program_version(name, program))
            found[name] = version_in(said) if said else ""
    return found


def _agents() -> Iterator[Finding]:
    for name in PROGRAMS:
        found = find_program(name, os.environ)
        if isinstance(found, Missing):
            advice = f"to install it: {found.program.install}"
            yield Finding(name, False, f"not installed ({found.program.title})", advice)
            continue
        said = _first_line(program_version(name, found))
        version = version_in(said) if said else "does not say its version"
        adapter = PROGRAMS[name]()
        is_logged_in, login = _login(adapter.login, os.environ)
        detail = f"{version} at {found}; {_tried(adapter.tried)}{login}"
        how = "" if is_logged_in else f"to log in: {adapter.login.command}"
        untold = adapter.untold_denials
        blind = f"{untold} is not counted among the denied tool calls" if untold else ""
        notes = (untried(name), tried_words(version, adapter.tried), blind, how)
        yield Finding(name, bool(said) and is_logged_in, detail, "; ".join(filter(None, notes)))


def _tried(tried: tuple[str, ...]) -> str:
    words = " to ".join(dict.fromkeys((tried[0], tried[-1]))) if tried else ""
    return f"tried with {words}; " if words else ""


def _login(login: Login, environment: Mapping[str, str]) -> tuple[bool, str]:
    """Is a key or a login to be seen? Only whether it is there is looked at, never what it says."""
    variable = next((name for name in login.variables if environment.get(name)), "")
    if variable:
        return True, f"key: {variable}"
    home = environment.get("HOME", "")
    file = next((f for f in login.files if os.path.isfile(f.replace("~", home, 1))), "")
    if file:
        return True, f"login: {file}"
    looked = ", ".join((*login.variables, *login.files))
    keychain = "" if sys.platform == "linux" else "; a keychain was not looked at"
    return False, f"no key or login seen (looked for {looked}{keychain})"


def _first_line(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=_PATIENCE_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().partition("\n")[0] if done.returncode == 0 else ""
