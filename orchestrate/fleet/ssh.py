"""Reaches a machine with the user's own `ssh`, which knows its address, its key and its user."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrate.errors import ConfigError, OrchestrateError
from orchestrate.fleet.seat import Seat
from orchestrate.plan.visible import visible

# No password is asked for: a pool is used by programs, too.
_QUIETLY = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=5")
# What `ssh` itself ends with when it cannot reach the machine.
_UNREACHED = 255
_NOT_FOUND = 127


class UnreachedError(ConfigError):
    """A machine does not answer."""


def ask(
    host: str,
    words: Sequence[str],
    given: Mapping[str, Any],
    limit_s: float,
    seat: Seat | None = None,
) -> Any:
    """Give `orchestrate WORDS` a document there, and read the one that it answers with."""
    command = ("ssh", *_QUIETLY, host, _line(words, seat))
    try:
        return _answer(host, command, given, limit_s)
    except FileNotFoundError:
        raise ConfigError("`ssh` is not installed", "install an OpenSSH client") from None


def ask_here(host: str, words: Sequence[str], given: Mapping[str, Any], limit_s: float) -> Any:
    """The same of this machine, which is called `host` elsewhere: without `ssh`."""
    command = (sys.executable, "-P", "-m", "orchestrate", *words)
    kept = {name: one for name, one in os.environ.items() if name != "ORCHESTRATE_STATE_DIR"}
    return _answer(host, command, given, limit_s, kept)


def _answer(
    host: str,
    command: Sequence[str],
    given: Mapping[str, Any],
    limit_s: float,
    environment: Mapping[str, str] | None = None,
) -> Any:
    try:
        done = subprocess.run(
            command, input=json.dumps(given).encode(), capture_output=True, timeout=limit_s,
            check=False, env=environment,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UnreachedError(f"{host} did not answer within {limit_s:g} s") from None
    told = visible(done.stderr.decode("utf-8", "replace").strip())
    refuse_unreached(host, done.returncode, told)
    try:
        document = json.loads(done.stdout)
    except ValueError:
        raise ConfigError(f"{host} gave no answer that can be read: {told or 'nothing'}") from None
    if "error" in document:
        raise RefusedThereError(host, document, done.returncode)
    return document


class RefusedThereError(OrchestrateError):
    """What the machine refused, with its own words and exit code."""

    def __init__(self, host: str, document: Mapping[str, Any], code: int) -> None:
        error = document["error"]
        super().__init__(f"{host}: {error['message']}", error.get("hint", ""))
        self.exit_code = code


def refuse_unreached(host: str, code: int, told: str = "") -> None:
    """What a command could not even begin with."""
    if code == _UNREACHED:
        last = told.splitlines()[-1] if told else "ssh could not connect"
        raise UnreachedError(f"{host} does not answer: {last}", f"try: ssh {host} true")
    if code == _NOT_FOUND:
        raise ConfigError(
            f"`orchestrate` is not on the PATH of {host}",
            f"a non-interactive login has to find it: ssh {host} orchestrate --version",
        )


def hand_over(host: str, words: Sequence[str], seat: Seat, *, at_terminal: bool) -> int:
    """Let a command work in a seat there, with our streams; its exit code."""
    screen = ("-t",) if at_terminal else ("-T",)
    command = ("ssh", *screen, *_QUIETLY, host, _line(words, seat))
    try:
        code = subprocess.run(command, check=False).returncode
    except FileNotFoundError:
        raise ConfigError("`ssh` is not installed", "install an OpenSSH client") from None
    refuse_unreached(host, code)
    return code


def output_of(host: str, words: Sequence[str], seat: Seat) -> bytes:
    """What a command prints there; what it says against it is told here."""
    command = ("ssh", "-T", *_QUIETLY, host, _line(words, seat))
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    told = done.stderr.decode("utf-8", "replace").strip()
    refuse_unreached(host, done.returncode, visible(told))
    if done.returncode != 0:
        message = told.removeprefix("orchestrate: ") or "it said nothing"
        raise RefusedThereError(host, {"error": {"message": message}}, done.returncode)
    return done.stdout


def _line(words: Sequence[str], seat: Seat | None) -> str:
    """For the shell there. The folders are not flags, so that advised commands hold here, too."""
    command = shlex.join(("orchestrate", *words))
    if seat is None:
        return command
    states = shlex.quote(str(seat.states))
    return f"cd {shlex.quote(str(seat.workspace))} && ORCHESTRATE_STATE_DIR={states} {command}"


def git_address(host: str, path: str) -> str:
    """How git names a repository there."""
    return f"{host}:{path}"
