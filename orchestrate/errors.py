"""The error tree: every way a command can end badly, each with its exit code.

    OrchestrateError
    ├── UsageError        2   the command line itself is wrong
    ├── ConfigError       5   an unknown agent, a missing tool, a lock somebody else holds
    ├── DefinitionError   1/2 a recipe that does not compile (1 for machines, 2 otherwise)
    ├── StateError        5   the state of a run cannot be read or written
    └── InternalError     70  our own bug

Only `orchestrate.cli.main` turns these into exit codes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrate.diagnostics import Diagnostic


class OrchestrateError(Exception):
    """Something we can explain to the user in a sentence."""

    exit_code = 70

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(OrchestrateError):
    """The command was called in a way that cannot work."""

    exit_code = 2


class ConfigError(OrchestrateError):
    """The machine or the configuration lacks what the command needs."""

    exit_code = 5


class KeeperSilent(ConfigError):
    """A run's keeper does not answer, and the time to wait for it is over."""


class DefinitionError(OrchestrateError):
    """A definition has errors; it carries all of them at once."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...], exit_code: int) -> None:
        errors = sum(d.severity == "error" for d in diagnostics)
        super().__init__(f"the definition has {errors} error{'' if errors == 1 else 's'}")
        self.diagnostics = diagnostics
        self.exit_code = exit_code


class StateError(OrchestrateError):
    """What a run has recorded cannot be read, or what it must record cannot be written."""

    exit_code = 5


class InternalError(OrchestrateError):
    """An invariant of ours does not hold: a bug in orchestrate, never the user's fault."""

    exit_code = 70


def repair_hint(run_id: str) -> str:
    """The way out of a run's damage; a journal lies in a folder that has its run's name."""
    return f"to go back to the newest valid state: orchestrate resume {run_id} --repair"
