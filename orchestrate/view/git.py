"""Asks git about a work tree without disturbing it: nothing is written, no program of it is run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from threading import Timer

from orchestrate.record import record

_PATIENCE_S = 20
_MOST_BYTES = 4 * 1024 * 1024
# Neither the user's pager, hooks, external programs nor locks that would disturb other programs;
# and paths as this module reads them, whatever the user's settings say. A large file is not read.
_QUIETLY = ("--no-optional-locks", "--no-pager", "--literal-pathspecs",
            "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
            "-c", "core.quotePath=false", "-c", "core.bigFileThreshold=8m",
            "-c", "diff.external=", "-c", "diff.relative=false", "-c", "log.showSignature=false",
            "-c", "status.submoduleSummary=false", "-c", "status.relativePaths=false")  # fmt: skip
_FILTERS = r"^filter\..*\.(clean|smudge|process|required)$"
DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules")


@record
class WorkTree:
    """The work tree that a workspace lies in, and what turns its filters off."""

    workspace: Path
    root: Path
    no_filters: tuple[str, ...]

    def ask(self, *arguments: str) -> bytes | None:
        """What git prints, as seen from the workspace; None if it fails or takes too long.

        The repository's own programs are not run: `git status` would start its filters on each
        file that looks changed. Without them a file may count as changed that is not.
        """
        return _ask(self.workspace, *self.no_filters, *arguments)

    def word(self, *arguments: str) -> str:
        """A line that git prints; '' if there is none."""
        return os.fsdecode(self.ask(*arguments) or b"").strip()

    @property
    def head(self) -> str:
        return self.word("rev-parse", "--verify", "--quiet", "HEAD")

    @property
    def head_or_nothing(self) -> str:
        """What the work tree is compared with: before the first commit, the empty tree."""
        return self.head or self.word("hash-object", "-t", "tree", os.devnull)

    def head_at(self, at: float) -> str:
        """Where HEAD stood at a time, as the repository's own log of it tells; '' if it does not.

        Git's own `HEAD@{time}` takes the oldest entry for anything that is before it.
        """
        told = self.ask("log", "-g", "-z", "--date=unix", "--format=%H %gd", "HEAD", "--")
        for entry in texts(told or b""):
            commit, _, named = entry.partition(" ")
            written = named.partition("@{")[2].rstrip("}")
            # Whole seconds: a commit of the very second counts as later, and so is shown.
            if written.isdigit() and int(written) < int(at):
                return commit
        return ""


def open_repository(workspace: Path) -> WorkTree | None:
    """None where there is no git, or no work tree of it."""
    top = _ask(workspace, "rev-parse", "--show-toplevel")
    if top is None:
        return None
    named = _ask(workspace, "config", "--null", "--name-only", "--get-regexp", _FILTERS)
    off: list[str] = []
    for name in dict.fromkeys(filter(None, texts(named or b""))):
        off += ["-c", f"{name}={'false' if name.endswith('.required') else ''}"]
    return WorkTree(workspace, Path(os.fsdecode(top).rstrip("\n")), tuple(off))


def texts(data: bytes) -> list[str]:
    """The parts of what `-z` prints, each with its end: one that was cut off is none."""
    return [os.fsdecode(part) for part in data.split(b"\0")[:-1]]


def _ask(folder: Path, *arguments: str) -> bytes | None:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_")
    } | {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "LC_ALL": "C",
    }
    try:
        process = subprocess.Popen(
            ["git", *_QUIETLY, *arguments], cwd=folder, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return None
    with process:
        assert process.stdout is not None
        patience = Timer(_PATIENCE_S, process.kill)
        patience.start()
        try:
            found = process.stdout.read(_MOST_BYTES)
            # What is more than that is not waited for.
            is_cut = len(found) == _MOST_BYTES
            if is_cut:
                process.kill()
            return found if process.wait() == 0 or is_cut else None
        finally:
            patience.cancel()
