"""The real agent programs, installed once into a cache outside of the repository.

The folder is `~/.cache/orchestrate-test-agents`, or what ORCHESTRATE_TEST_AGENTS names. Versions
are pinned: npm would choose others on a machine with another Node. A test that installs has the
marker `agents`; `python -m tests.agents.installing` says whether and why not they can be had.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PACKAGES = {
    "claude-code": "@anthropic-ai/claude-code@2.1.325",
    "codex": "@openai/codex@0.166.0",
    "gemini": "@google/gemini-cli@0.61.0",
    "github-copilot": "@github/copilot@1.0.102",
    "opencode": "opencode-ai@1.18.33",
    "qwen": "@qwen-code/qwen-code@0.24.4",
}
# What npm installs today on a machine with Node 20.
OLD_CLAUDE = {"claude-code": "@anthropic-ai/claude-code@2.1.197"}
VARIABLE = "ORCHESTRATE_TEST_AGENTS"
_INSTALL_LIMIT_S = 480
_START_LIMIT_S = 60


class CannotInstall(Exception):
    """Why there are no real programs to test with."""


def install(packages: Mapping[str, str] = PACKAGES) -> Path:
    """The folder with the programs' executables; installs them if nobody has done that yet."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise CannotInstall("npm and node are not on PATH")
    wanted = json.dumps(dict(packages), sort_keys=True)
    folder = _cache() / hashlib.sha256(wanted.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with _only_one_at_a_time(folder):
        done = folder / "installed.json"
        if not done.is_file():
            _npm_install(npm, folder, list(packages.values()))
            done.write_text(wanted)
    return folder / "node_modules" / ".bin"


def check_start(program: Path, environment: Mapping[str, str]) -> str:
    """What `--version` prints; a program that was installed but cannot start is explained."""
    try:
        done = subprocess.run(
            [program, "--version"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_START_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(f"{program.name} was installed but does not start: {error}") from error
    if done.returncode != 0:
        raise CannotInstall(
            f"{program.name} was installed but does not start: {(done.stdout + done.stderr)[-300:]}"
        )
    return done.stdout


def _cache() -> Path:
    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path.home() / ".cache" / "orchestrate-test-agents"


@contextmanager
def _only_one_at_a_time(folder: Path) -> Iterator[None]:
    """Tests run in several processes, and several checkouts share the cache."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _npm_install(npm: str, folder: Path, packages: list[str]) -> None:
    (folder / "package.json").write_text('{"private": true}\n')
    command = [npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *packages]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_INSTALL_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"npm took longer than {_INSTALL_LIMIT_S} s") from None
    if done.returncode != 0:
        why = " ".join(done.stderr.split())[:300]
        raise CannotInstall(f"npm cannot install {' '.join(packages)}: {why}")


def main() -> int:
    """Install the programs, and say by name which are there or are not."""
    try:
        install()
    except CannotInstall as reason:
        print(f"the real agent programs are not here: {reason}", file=sys.stderr)
        print(f"not here: {', '.join(PACKAGES.values())}", file=sys.stderr)
        return 1
    print(f"the real agent programs are here: {', '.join(PACKAGES.values())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
