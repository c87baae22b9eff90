"""Run folders at some stage, and everything that can happen to their files while nobody looks."""

from __future__ import annotations

import copy
import os
import random
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.promises.keepers import kill_keeper_and_company
from tests.promises.lanes import Lane
from tests.promises.processes import programs_in, wait_until
from tests.promises.shapes import Shape
from tests.promises.trials import Left, Trial

STATE, EVENTS = "state.json", "events.jsonl"
FILES = (STATE, EVENTS)
HUGE = 30_000_000
COUNT = 1_000_000


@dataclass(frozen=True)
class Stage:
    """A run that was killed twice and of which nothing is alive; it is copied, never used."""

    name: str
    trial: Trial
    reference: Left
    # Its files after the first kill.
    older: dict[str, bytes]
    # Another run of the same workflow, killed at about the same place.
    other: Trial
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(1_000_000)))

    def content(self, name: str) -> bytes:
        return (self.trial.root / name).read_bytes()

    def fresh(self) -> Trial:
        """The same once more, to be damaged."""
        return copied(self.trial, self.trial.top.parent / f"{self.name}-{next(self.numbers)}")


@dataclass(frozen=True)
class Damage:
    """What is done to a run's folder."""

    name: str
    do: Callable[[Path], object]


def copied(trial: Trial, top: Path) -> Trial:
    def sockets(folder: str, names: list[str]) -> list[str]:
        return [n for n in names if stat.S_ISSOCK(os.lstat(os.path.join(folder, n)).st_mode)]

    shutil.copytree(trial.top, top, symlinks=True, ignore=sockets)
    twin = copy.copy(trial)
    twin.top, twin.workspace = top, top / "workspace"
    twin.ledger, twin.stderr = top / "ledger", top / "stderr"
    return twin


def make_stage(shape: Shape, shares: tuple[float, float], top: Path, lane: Lane) -> Stage:
    """A run of the shape, killed after these shares of its changes, the second in its resume."""
    whole = Trial(top / f"{shape.name}-whole", shape)
    with whole.company():
        code = whole.give(lane, die_before=COUNT)
        changes = lane.changes
        while whole.is_open:
            code = whole.give(lane)
    name = f"{shape.name}-{shares[1]}"
    made = []
    for twin in (name, f"{name}-other"):
        trial = Trial(top / twin, shape)
        older: dict[str, bytes] = {}
        for share in shares:
            _kill_after(trial, int(changes * share), lane)
            older = older or {file: (trial.root / file).read_bytes() for file in FILES}
        made.append((trial, older))
    (trial, older), (other, _) = made
    return Stage(name, trial, whole.left(code), older, other)


def _kill_after(trial: Trial, changes: int, lane: Lane) -> None:
    with trial.company():
        trial.give(lane, die_before=changes)
        # Programs that nobody waits for end, and their keeper records how.
        wait_until(lambda: not programs_in(trial.top), "a program does not end")
        wait_until(lambda: _all_ends_are_known(trial.root), "an end is not recorded")
    kill_keeper_and_company(trial)


def _all_ends_are_known(root: Path) -> bool:
    journal = root / "keeper" / "journal"
    content = journal.read_bytes() if journal.exists() else b""
    kinds = [line.split(b" ")[1] for line in content.split(b"\n")[:-1]]
    return kinds.count(b"claim") == kinds.count(b"exit") + kinds.count(b"lost")


# Every byte, every length, every line.


def flips(stage: Stage, name: str, every: int, chance: random.Random) -> Iterator[Damage]:
    """One bit of every so-manieth byte."""
    whole = stage.content(name)
    for place in range(chance.randrange(every), len(whole), every):
        bit = 1 << chance.randrange(8)
        yield _bytes(f"bit {bit} of byte {place} of {name}", name, _flipped(whole, place, bit))


def _flipped(whole: bytes, place: int, bit: int) -> bytes:
    return whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :]


def cuts(stage: Stage, name: str, every: int, chance: random.Random) -> Iterator[Damage]:
    whole = stage.content(name)
    for length in range(chance.randrange(every), len(whole), every):
        yield _bytes(f"{name} cut to {length} bytes", name, whole[:length])
        zeros = whole[:length].ljust(len(whole), b"\0")
        if length % 5 == 0:
            yield _bytes(f"{name} all zeros from byte {length} on", name, zeros)


def shuffles(stage: Stage) -> Iterator[Damage]:
    """Each line of the journal dropped, doubled, swapped with the next, taken from elsewhere."""
    lines = stage.content(EVENTS).splitlines(keepends=True)
    others = (stage.other.root / EVENTS).read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines):
        before, after = lines[:number], lines[number + 1 :]
        yield _lines(f"event {number + 1} dropped", [*before, *after])
        yield _lines(f"event {number + 1} doubled", [*before, line, line, *after])
        if after:
            yield _lines(f"event {number + 1} swapped", [*before, after[0], line, *after[1:]])
        if number < len(others):
            yield _lines(f"event {number + 1} of another run", [*before, others[number], *after])
            yield _lines(f"another run's from event {number + 1} on", [*before, *others[number:]])


def replacements(stage: Stage, strange: Trial) -> Iterator[Damage]:
    """Whole files that are not what they were, each alone and both together."""
    for name in FILES:
        whole = stage.content(name)
        contents = {
            "missing": None,
            "empty": b"",
            "zeros": bytes(len(whole)),
            "huge zeros": bytes(HUGE),
            "huge and without a line": whole + b"x" * HUGE,
            "noise": random.Random(len(whole)).randbytes(len(whole)),
            "JSON of nobody": b'{"seq": 5, "status": "completed"}\n' * 20,
            "deep JSON": b"[" * 100_000,
            "an older copy": stage.older[name],
            "another run's": (stage.other.root / name).read_bytes(),
            "another workflow's": (strange.root / name).read_bytes(),
            "the other file": stage.content(STATE if name == EVENTS else EVENTS),
        }
        for what, content in contents.items():
            yield _bytes(f"{name} is {what}", name, content)
        yield Damage(f"{name} is a folder", _in_place_of(name, lambda path: path.mkdir()))
        yield Damage(f"{name} is a pipe", _in_place_of(name, os.mkfifo))
        outside = stage.other.root / name
        yield Damage(f"{name} is a link", _in_place_of(name, _linked_to(outside)))
    own, older = {name: stage.content(name) for name in FILES}, stage.older
    others = {name: (stage.other.root / name).read_bytes() for name in FILES}
    stranger = {name: (strange.root / name).read_bytes() for name in FILES}
    yield _both("an older state and an older journal", older[STATE], older[EVENTS])
    yield _both("both files of another run", others[STATE], others[EVENTS])
    yield _both("both files of another workflow", stranger[STATE], stranger[EVENTS])
    yield _both("both files missing", None, None)
    yield _both("both files empty", b"", b"")
    yield _both("an older state, another run's journal", older[STATE], others[EVENTS])
    yield _both("a damaged state, an older journal", own[STATE][:-40], older[EVENTS])
    yield _both("another run's state, an older journal", others[STATE], older[EVENTS])


def _both(what: str, state: bytes | None, events: bytes | None) -> Damage:
    def do(root: Path) -> None:
        _put(root / STATE, state)
        _put(root / EVENTS, events)

    return Damage(what, do)


def _in_place_of(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda root: make(_put(root / name, None))


def _linked_to(target: Path) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


def _lines(name: str, lines: list[bytes]) -> Damage:
    return _bytes(f"{EVENTS}: {name}", EVENTS, b"".join(lines))


def _bytes(what: str, name: str, content: bytes | None) -> Damage:
    return Damage(what, lambda root: _put(root / name, content))


def _put(path: Path, content: bytes | None) -> Path:
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    return path
