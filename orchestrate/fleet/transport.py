"""Git between machines: pushes and fetches with the user's own settings, keys and addresses."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrate.checkpoints.model import CheckpointError
from orchestrate.checkpoints.program import find_git, quoted
from orchestrate.errors import ConfigError
from orchestrate.plan.visible import visible_lines

# How long a large repository may take.
PATIENCE_S = 900.0


class PushRefused(CheckpointError):
    """Another machine has published meanwhile."""


def require_git() -> str:
    """The git program."""
    program = find_git(os.environ)
    if program is None:
        raise ConfigError("git is not installed", "it carries runs between machines")
    return program


def users_call(
    program: str, store: Path, *words: str, objects: Path | None = None, given: bytes = b""
) -> str:
    """What git prints in a store of ours, with everything that the user has told it."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    for name in ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"):
        if name in os.environ:
            variables[name] = os.environ[name]
    variables |= {"GIT_DIR": str(store), "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    if objects is not None:
        variables["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = quoted(str(objects))
    try:
        done = subprocess.run(
            (program, *words), env=variables, cwd=store, capture_output=True, input=given,
            timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise CheckpointError(f"git {_verb(words)} did not finish in time") from None
    if done.returncode != 0:
        told = visible_lines(done.stderr.decode("utf-8", "replace").strip())
        kind = PushRefused if "stale info" in told else CheckpointError
        raise kind(f"git {_verb(words)} failed", told)
    return done.stdout.decode("utf-8", "replace")


def _verb(words: Sequence[str]) -> str:
    return next(one for one in words if one.isalpha())


def push(
    program: str,
    store: Path,
    address: str,
    refs: Mapping[str, tuple[str, str]],
    objects: Path | None = None,
) -> None:
    """Let references there lead from what we read to what we made: all of them, or none.

    `refs`: the name, what it led to ('' if it was not there), and what it shall lead to. With
    `objects` from elsewhere nothing says what is there already, so that git asks.
    """
    leases = [f"--force-with-lease={name}:{old}" for name, (old, _) in refs.items()]
    targets = [f"{new}:{name}" for name, (_, new) in refs.items()]
    asks = ("-c", "push.negotiate=true") if objects is not None else ()
    words = (*asks, "push", "-q", "--no-verify", "--atomic", *leases, address, *targets)
    users_call(program, store, *words, objects=objects)


def fetch_refs(program: str, store: Path, address: str, *specs: str) -> None:
    """Fetch references into a store of ours; a pattern that matches nothing fetches nothing."""
    words = ("-q", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--prune")
    users_call(program, store, "fetch", *words, address, *specs)
