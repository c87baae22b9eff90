"""A lease is renewed from when its heartbeat was sent, by a clock that counts a machine's sleep."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrate.errors import StateError
from orchestrate.execute.base import Lost, Running
from orchestrate.fleet import hold
from orchestrate.fleet.notes import Note
from orchestrate.fleet.protocol import Order, Sitting, Timing, Wish, sitting_key

RUN = "20261118T000000Z-abcdef"
ORDER = Order(RUN, "pool", "", "", "", "step", "w.yaml", timing=Timing(lease=60, beat=10))


class Machine:
    """One that sleeps between a heartbeat and its answer; the clock of its lease goes on."""

    def __init__(self, slept_s: float) -> None:
        self.slept_s = slept_s
        self.now = 1000.0
        self.renewed: list[float] = []

    async def heartbeat(self, *_: Any, **__: Any) -> None:
        self.now += self.slept_s

    def renew(self, until: float) -> None:
        self.renewed.append(until - self.now)


@pytest.mark.parametrize(("slept_s", "left"), [(0.0, 60.0), (40.0, 20.0), (90.0, -30.0)])
def test_fleet_sleep_before_an_answer_shortens_the_lease(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, slept_s: float, left: float
) -> None:
    machine = Machine(slept_s)
    monkeypatch.setattr(hold, "since_boot", lambda: machine.now)
    monkeypatch.setattr(hold, "Engine", lambda *_: machine)
    client: Any = None
    handle: Any = machine
    holder = hold.Holder(client, tmp_path, "here")
    note = Note(RUN, "", "1", Sitting(sitting_key(RUN, 1), ORDER, Wish()))
    held = hold._Held(holder, note, handle)
    asyncio.run(held._beat(machine.now))
    assert machine.renewed == [left]


class Keeper:
    """One that does not take a renewal, so that nobody knows what becomes of the engine."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find(self) -> Running:
        return Running()

    def renew(self, _: float) -> None:
        raise StateError("the keeper does not answer")

    def end(self, how: str) -> None:
        self.asked.append(how)

    def wait(self) -> Lost:
        while not self.asked:
            time.sleep(0.01)
        self.asked.append("over")
        return Lost("it was ended")


def test_fleet_what_cannot_be_followed_any_more_is_ended_before_that_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keeper = Keeper()
    monkeypatch.setattr(hold, "Engine", lambda *_: keeper)
    client: Any = None
    handle: Any = Machine(0.0)
    note = Note(RUN, "", "1", Sitting(sitting_key(RUN, 1), ORDER, Wish()))

    async def sit() -> None:
        held = hold._Held(hold.Holder(client, tmp_path, "here"), note, handle)
        with pytest.raises(StateError):
            await held.sit(is_new=False)
        await held.let_go()

    asyncio.run(sit())
    # What waited for it before hears of its end, too, maybe before this line.
    assert keeper.asked[:2] == ["stop", "over"]
