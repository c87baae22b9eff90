"""The error tree: every way a command can end badly, each with its exit code.

    OrchestrateError
    ├── UsageError        2   the command line itself is wrong
    ├── ConfigError       5   an unknown agent, a missing tool, a lock that another process holds
    ├── DefinitionError   1/2 a recipe that does not compile (1 for machines, 2 otherwise)
    ├── StateError        5   the state of a run cannot be read or written
    └── InternalError     70  our own bug

Only `orchestrate.cli.main` turns these into exit codes.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from orchestrate import exits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from orchestrate.diagnostics import Diagnostic


# The command line knows which folders the commands of a hint have to repeat.
_complete: Callable[[str], str] = str


def complete_hints(complete: Callable[[str], str]) -> None:
    """From now on hints are completed so before a person reads them."""
    global _complete  # noqa: PLW0603 - a process carries out one command at a time
    _complete = complete


def completed(hint: str) -> str:
    """A hint of a layer that knows of no folders, as it is shown."""
    return _complete(hint)


class OrchestrateError(Exception):
    """Something we can explain to the user in a sentence.

    `end` is how it ends a run that meets it.
    """

    exit_code = exits.BUG
    end: exits.FaultKind = "bug"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        # The message as a terminal has it: one line, and others below it.
        self.lines: tuple[str, ...] = (message,)


class UsageError(OrchestrateError):
    """The command was called in a way that cannot work."""

    exit_code = exits.UNUSABLE
    end: exits.FaultKind = "environment"


class SeveralFaults(UsageError):
    """Several things are wrong with what was given, and all of them are told at once."""

    def __init__(self, title: str, faults: Sequence[str], hint: str = "") -> None:
        super().__init__(f"{title}: {'; '.join(faults)}", hint)
        self.lines = (title, *faults)


class ConfigError(OrchestrateError):
    """The machine or the configuration lacks what the command needs."""

    exit_code = exits.ENVIRONMENT
    end: exits.FaultKind = "environment"


class UpgradedError(ConfigError):
    """The installation was changed while it was at work."""

    end: exits.FaultKind = "upgrade"


class SessionInUseError(ConfigError):
    """Another process, or a program that one left behind, uses the agent's session."""

    end: exits.FaultKind = "session-locked"


class KeeperSilent(ConfigError):
    """A run's keeper does not answer, and the time to wait for it is over."""


class DefinitionError(OrchestrateError):
    """A definition has errors; it carries all of them at once."""

    end: exits.FaultKind = "environment"

    def __init__(self, diagnostics: tuple[Diagnostic, ...], exit_code: int) -> None:
        errors = sum(d.severity == "error" for d in diagnostics)
        super().__init__(f"the definition has {errors} error{'' if errors == 1 else 's'}")
        self.diagnostics = diagnostics
        self.exit_code = exit_code


class StateError(OrchestrateError):
    """What a run has recorded cannot be read, or what it must record cannot be written."""

    exit_code = exits.ENVIRONMENT
    end: exits.FaultKind = "state"


class NoSuchRunError(UsageError):
    """The run that was named is not among those of the workspace."""

    def __init__(self, named: str, folder: Path, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.named = named
        self.folder = folder


class RunElsewhereError(StateError):
    """The run that was named is on another machine: the command belongs there."""

    def __init__(self, run_id: str, folder: Path) -> None:
        super().__init__(
            f"run {run_id} is on another machine",
            f"bring what it has published here: orchestrate fetch {run_id}",
        )
        self.run_id = run_id
        self.folder = folder


class InternalError(OrchestrateError):
    """An invariant of ours does not hold: a bug in orchestrate, never the user's fault."""


def repair_hint(run_id: str) -> str:
    """The way out of a run's damage; a journal lies in a folder that has its run's name."""
    return f"to go back to the newest valid state: orchestrate resume {run_id} --repair"


_RESUME = ", then resume"
_RESUME_WHOLE = f"{_RESUME}; nothing that was recorded is lost"
_KEPT_ELSEWHERE = (
    "; where a step may remove it (git clean -fdx), keep runs elsewhere with --state-dir or "
    "`state_dir` in the configuration"
)
# What to do about an error of the system, and what after that.
_WAYS_OUT = {
    errno.ENOSPC: ("free some disk space", _RESUME_WHOLE),
    errno.EDQUOT: ("free some of your quota", _RESUME_WHOLE),
    errno.EFBIG: ("raise the file size limit (ulimit -f)", _RESUME),
    errno.EROFS: ("the file system is read-only: choose another folder with --state-dir", ""),
    errno.EACCES: ("give yourself write permission there, or choose a folder with --state-dir", ""),
    errno.EPERM: ("give yourself write permission there, or choose a folder with --state-dir", ""),
    errno.EMFILE: ("raise the limit of open files (ulimit -n)", _RESUME),
    errno.ENFILE: ("the machine has too many open files: end other programs", _RESUME),
    errno.ENOMEM: ("the machine has too little memory: end other programs", _RESUME),
    errno.EIO: ("the disk reports errors: check it before you resume", ""),
    errno.ENOENT: ("the run's folder is gone: start a new run", _KEPT_ELSEWHERE),
    errno.ELOOP: ("a link stands where a file of ours belongs: remove it", ""),
}


def way_out(number: int) -> str:
    """What to do about an error of the system; '' if we do not know."""
    return _WAYS_OUT.get(number, ("", ""))[0]


def explain(verb: str, path: Path, error: OSError) -> StateError:
    """The error that names what failed, why, and a way out."""
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    reason = f"{error.strerror or error} ({name})"
    hint = "".join(_WAYS_OUT.get(error.errno or 0, ()))
    if verb == "make" and error.errno == errno.ENOENT:
        hint = "no folder can be made there: choose another one with --state-dir"
    elif error.errno == errno.ENOENT and (path.parent.parent / "events.jsonl").exists():
        hint = f"the run has lost its folder {path.parent.name}/, which a resume makes anew"
    return StateError(f"cannot {verb} {path}: {reason}", hint)


def linked_copy(run_dir: Path) -> ConfigError:
    """The refusal of a folder that cannot be told apart from the original by its files."""
    return ConfigError(
        f"{run_dir} is a copy of a run by hard links, and shares its files with the original",
        "copy the files themselves (cp -a)",
    )
