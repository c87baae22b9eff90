"""Gives a command about a run elsewhere to the machine where the run is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress

from orchestrate.app.user_files import write_named
from orchestrate.errors import OrchestrateError, UsageError
from orchestrate.fleet import ssh
from orchestrate.fleet.host import PROTOCOL
from orchestrate.fleet.stub import Stub

# What is about the files here, or would make another run of it.
_NOT_THERE = ("rewind", "fork", "diff", "run-step")
_EDITS = ("--edited", "--redo", "--from", "--accept", "--as-started")
_PLACES = ("--working-dir", "--state-dir")
_START_S = 60.0
_ANSWER_S = 10.0


def forward(words: Sequence[str], stub: Stub) -> int:
    """Run the command line there, with the folders of the run's seat; its exit code."""
    command, *rest = words
    refuse_here(command, rest, stub.seat.run, stub.host)
    at_terminal = sys.stdout.isatty() and sys.stdin.isatty()
    kept = without_places(rest)
    if command == "report":
        return _report(kept, stub)
    if command == "resume" and not {"-d", "--detach"} & set(kept):
        # There it goes on when this connection ends; here it is watched.
        code = ssh.hand_over(stub.host, [command, *kept, "--detach"], stub.seat, at_terminal=False)
        words = ["attach", stub.seat.run]
        return code or ssh.hand_over(stub.host, words, stub.seat, at_terminal=at_terminal)
    code = ssh.hand_over(stub.host, [command, *kept], stub.seat, at_terminal=at_terminal)
    if command in ("stop", "cancel"):
        _end_items(stub, command)
    if command in ("approve", "deny") and code == 0 and "--resume" not in kept:
        _go_on(stub)
    return code


def runs_on(host: str, root: str) -> dict[str, str]:
    """The runs that have seats on a machine, and how each stands."""
    found = ssh.ask(host, ("seat", "list"), {"protocol": PROTOCOL, "root": root}, _ANSWER_S)
    statuses: dict[str, str] = found["runs"]
    return statuses


def _report(words: Sequence[str], stub: Stub) -> int:
    """The page is made there and written here."""
    kept: list[str] = []
    target = ""
    rest = iter(words)
    for word in rest:
        name, is_joined, value = word.partition("=")
        if name in ("-o", "--output"):
            target = value if is_joined else next(rest, "")
        else:
            kept.append(word)
    if target.lower().endswith((".md", ".markdown")) and "--format" not in kept:
        kept += ["--format", "md"]
    page = ssh.output_of(stub.host, ["report", *kept], stub.seat)
    if target in ("", "-"):
        sys.stdout.write(page.decode("utf-8", "replace"))
    else:
        write_named(target, stub.seat.run, lambda file: file.write(page))
    return 0


def _go_on(stub: Stub) -> None:
    """No person is there to go on by hand; a run at work hears of the decision by itself."""
    with suppress(OrchestrateError):
        words = ("resume", stub.seat.run, "--detach", "--json")
        ssh.ask(stub.host, words, {}, _START_S, stub.seat)


def _end_items(stub: Stub, how: str) -> None:
    """Those that other machines have; of a run at work, its process has told them."""
    given = {"protocol": PROTOCOL, "seat": stub.seat.to_json(), "how": how}
    ssh.ask(stub.host, ("seat", "end"), given, _START_S)


def refuse_here(command: str, rest: Sequence[str], run: str, where: str) -> None:
    """What cannot be done with a run elsewhere."""
    edits = [word for word in rest if word.partition("=")[0] in _EDITS]
    if command in _NOT_THERE or (command == "resume" and edits):
        what = f"{command} {edits[0]}" if edits else command
        raise UsageError(
            f"`{what}` cannot be used on run {run}, which is on {where}",
            f"bring it here first: orchestrate fetch {run}",
        )


def without_places(words: Sequence[str]) -> list[str]:
    """The folders that were named here mean nothing there."""
    kept: list[str] = []
    skips = False
    for number, word in enumerate(words):
        if skips:
            skips = False
        elif word == "--":
            return [*kept, *words[number:]]
        elif word in _PLACES:
            skips = True
        elif word.partition("=")[0] not in _PLACES:
            kept.append(word)
    return kept
