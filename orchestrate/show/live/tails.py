"""What running programs said last, and how long ago: read from the ends of their output files."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrate.agents.parse import one_line
from orchestrate.agents.registry import PROGRAMS, WITHOUT_A_BILL, make_agent, own_name
from orchestrate.errors import ConfigError
from orchestrate.plan.visible import visible
from orchestrate.record import record
from orchestrate.show.live.picture import Program

# Events of agents can be long; a line of a program that is longer is not for people.
_AGENT_TAIL = 64 * 1024
_PROGRAM_TAIL = 4 * 1024
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@record
class Tail:
    """The end of a program's output. `silent_s` None: there is no program that could speak."""

    words: str
    silent_s: float | None
    has_spoken: bool


_NOBODY = Tail("", None, False)
_Stamp = tuple[int, int]


class Tails:
    """Reads the ends of outputs; a file that has not changed is not read again."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._known: dict[str, tuple[_Stamp, str]] = {}

    def of(self, program: Program, now: float) -> Tail:
        agent = _agent_of(program.backend)
        if agent in WITHOUT_A_BILL:
            return _NOBODY
        files = [self._stamp(f"{program.log}.{stream}") for stream in ("stdout", "stderr")]
        heard = [found for found in files if found is not None]
        if not heard:
            return Tail("", now - program.began, False)
        spoke_at = max(stamp[1] for _, stamp in heard) / 1e9
        words = ""
        # What was said last counts; but the events of an agent say more than its warnings.
        for name, stamp in sorted(heard, key=lambda found: -found[1][1] if not agent else 0):
            words = words or self._words(name, stamp, agent if name.endswith(".stdout") else "")
        return Tail(words, max(0.0, now - max(spoke_at, program.began)), True)

    def forget_all_but(self, programs: list[Program]) -> None:
        """Only what is shown is remembered."""
        shown = {f"{p.log}.{stream}" for p in programs for stream in ("stdout", "stderr")}
        for name in self._known.keys() - shown:
            del self._known[name]

    def _stamp(self, name: str) -> tuple[str, _Stamp] | None:
        try:
            found = os.lstat(self._logs / name)
        except OSError:
            return None
        return (name, (found.st_size, found.st_mtime_ns)) if found.st_size else None

    def _words(self, name: str, stamp: _Stamp, agent: str) -> str:
        known = self._known.get(name)
        if known is not None and known[0] == stamp:
            return known[1]
        tail = _read_tail(self._logs / name, _AGENT_TAIL if agent else _PROGRAM_TAIL)
        words = visible(make_agent(agent).last_words(tail) if agent else last_line(tail))
        self._known[name] = (stamp, words)
        return words


def last_line(tail: bytes) -> str:
    """The last line that says something; of one that was drawn over, what it says now."""
    for line in reversed(tail.decode("utf-8", "replace").splitlines()):
        said = one_line(line)
        if said:
            return said
    return ""


def _agent_of(backend: str) -> str:
    """Our name of the agent whose events can be read; '' for any other program."""
    try:
        ours = own_name(backend) if backend else ""
    except ConfigError:
        return ""
    return ours if ours in PROGRAMS or ours in WITHOUT_A_BILL else ""


def _read_tail(path: Path, size: int) -> bytes:
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return b""
    try:
        end = os.fstat(descriptor).st_size
        return os.pread(descriptor, size, max(0, end - size))
    except OSError:
        return b""
    finally:
        os.close(descriptor)
