"""There: items of a run on machines that `ssh` leads to, wherever a slot is free.

Which host has an item is noted before it gets the item: only that one is asked about it, after a
kill, too. This host is asked without `ssh`.

    STATES/hosts.json        what this host is called, and the pools, as the run's user has set them
    STATES/items/NAME.json   where an item is
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from orchestrate.errors import ConfigError, OrchestrateError, StateError
from orchestrate.fleet import ssh
from orchestrate.fleet.host import PROTOCOL
from orchestrate.fleet.protocol import Decision, Order
from orchestrate.fleet.seat import Seat
from orchestrate.fleet.settings import FleetSettings, Pool
from orchestrate.fleet.standing import Standing
from orchestrate.plan.visible import visible
from orchestrate.record import record, replace
from orchestrate.state.cancelling import is_cancelling
from orchestrate.state.durable import dump_json, read_file, write_durably
from orchestrate.state.runs import Run
from orchestrate.state.users import user_name

_ANSWER_S = 60.0
_BEGIN_S = 900.0
# Between two looks at the items of one host, however many they are.
_LOOK_S = 2.0
_FILE, _PLACES = "hosts.json", "items"


@record
class _Place:
    """Where an item is; `root` as that host has answered."""

    item: str
    host: str
    root: str
    pool: str


@record
class _Looked:
    at: float
    items: Mapping[str, Mapping[str, Any]]


def keep_hosts(seat: Seat, given: Mapping[str, Any]) -> None:
    """What the run's items need of what its user has set."""
    write_durably(seat.states / _FILE, dump_json(given))


def has_hosts(seat: Seat) -> bool:
    """Did the run come over `ssh`, with pools that its items may go to?"""
    return (seat.states / _FILE).is_file()


def hosts_to_send(host: str, pools: Mapping[str, Pool], *, is_sha256: bool) -> dict[str, Any]:
    """What a run is called by that goes to a host, and the pools that its items may go to."""
    return {
        "host": host, "sha256": is_sha256,
        "pools": {
            one.name: {
                "hosts": [*one.hosts], "root": one.root, "slots": one.slots,
                "prepare": [*one.prepare],
            }
            for one in pools.values() if one.hosts
        },
    }  # fmt: skip


class ItemsOnHosts:
    """Asked by threads, one for each item."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        content = read_file(seat.states / _FILE)
        if content is None:
            raise StateError(f"{seat.states / _FILE} is gone")
        kept = json.loads(content)
        self._own: str = kept["host"]
        self._is_sha256: bool = kept["sha256"]
        self._pools = {name: _pool_of(name, one, seat) for name, one in kept["pools"].items()}
        self._places = seat.states / _PLACES
        self._choosing = threading.Lock()
        self._looking: dict[str, threading.Lock] = {}
        self._looked: dict[str, _Looked] = {}
        # Given to a host that does not count them yet; begun there; published there to their end.
        self._given: Counter[str] = Counter()
        self._begun: Counter[str] = Counter()
        self._settled: set[tuple[str, int]] = set()

    @property
    def settings(self) -> FleetSettings:
        """Of the pools alone."""
        return FleetSettings(path=Path(), pools=self._pools)

    def address_of(self, item: str) -> str:
        place = self._place_of(item)
        if place is None:
            raise StateError(f"{visible(item)} is on no machine")
        repository = str(self._there(place).repository)
        return repository if place.host == self._own else ssh.git_address(place.host, repository)

    def find_place(self, item: str, pool: str) -> bool:
        """Is there a slot for an item? Then it is noted whose."""
        if self._place_of(item) is not None:
            return True
        known = self._pools[pool]
        wanted = {
            "protocol": PROTOCOL, "root": known.root, "slots": known.slots,
            "mirror": self._seat.mirror, "sha256": self._is_sha256,
        }  # fmt: skip
        with self._choosing:
            found: list[tuple[int, _Place]] = []
            troubles: list[str] = []
            for host in known.hosts:
                try:
                    answer = self._ask(host, "offer", wanted, _ANSWER_S)
                except OrchestrateError as error:
                    troubles.append(error.message)
                    continue
                place = _Place(item, host, answer["root"], pool)
                found.append((answer["free"] - self._given[host], place))
            if not found:
                raise ConfigError("; ".join(troubles))
            free, place = max(found, key=lambda one: one[0])
            if free <= 0:
                return False
            self._places.mkdir(mode=0o700, exist_ok=True)
            write_durably(
                self._file_of(item),
                dump_json({"item": item, "host": place.host, "root": place.root, "pool": pool}),
            )
            self._given[place.host] += 1
        return True

    def start(self, order: Order) -> None:
        place = self._place_of(order.id)
        assert place is not None
        try:
            if not self._go(place, (), order.prepare):
                self._file_of(order.id).unlink()  # others were quicker
        except ssh.UnreachedError:
            raise
        except OrchestrateError as error:
            raise StateError(f"{visible(order.item)} could not begin: {error.message}") from None
        finally:
            with self._choosing:
                self._given[place.host] -= 1

    def standing(self, item: str) -> Standing | None:
        place = self._place_of(item)
        found = None if place is None else self._look_at(place).get(self._there(place).name)
        if place is None or found is None:
            return None
        rests = item, int(found["sitting"])
        if not found["is_at_work"] and rests not in self._settled:
            # The process of its end may have been killed before it had published that.
            self._ask(place.host, "publish", self._about(place), _BEGIN_S)
            self._settled.add(rests)
        return Standing(
            status="running" if found["is_at_work"] else found["status"],
            pool=place.pool, machine=place.host, code=0, told=found["told"], sitting=rests[1],
            is_open=found["is_open"],
        )  # fmt: skip

    def go_on(self, item: str, decisions: Sequence[Decision]) -> None:
        place = self._place_of(item)
        if place is not None:
            self._go(place, decisions, ())

    def end(self, item: str, how: str) -> None:
        place = self._place_of(item)
        if place is not None:
            about = self._about(place) | {"how": how}
            self._ask(place.host, "end", about, _BEGIN_S)

    def how_ends(self, run: str) -> str:
        return "cancel" if is_cancelling(Run(run, self._seat.folder)) else "stop"

    def all(self) -> Iterator[str]:
        """Every item that a host has."""
        for name in sorted(os.listdir(self._places)) if self._places.is_dir() else ():
            content = read_file(self._places / name)
            if content is not None:
                yield _Place(**json.loads(content)).item

    def remove(self, item: str) -> None:
        """Give back the seat of an item."""
        place = self._place_of(item)
        if place is not None:
            self._ask(place.host, "remove", self._about(place), _ANSWER_S)

    def _go(self, place: _Place, decisions: Sequence[Decision], prepare: Sequence[str]) -> bool:
        about = self._about(place) | {
            "prepare": [*prepare], "slots": self._pools[place.pool].slots,
            "decisions": [asdict(one) for one in decisions], "by": user_name(os.environ),
        }  # fmt: skip
        answer = self._ask(place.host, "item", about, _BEGIN_S)
        self._begun[place.host] += 1
        self._looked.pop(place.host, None)
        return bool(answer.get("is_begun", True))

    def _look_at(self, place: _Place) -> Mapping[str, Mapping[str, Any]]:
        """The items of the run on a host; what has begun meanwhile is among them."""
        host = place.host
        with self._choosing:
            looking = self._looking.setdefault(host, threading.Lock())
        with looking:
            looked = self._looked.get(host)
            while looked is None or time.monotonic() - looked.at > _LOOK_S:
                before = self._begun[host]
                about = {"protocol": PROTOCOL, "root": place.root, "run": self._seat.run}
                items = self._ask(host, "items", about, _ANSWER_S)["items"]
                if self._begun[host] == before:
                    looked = self._looked[host] = _Looked(time.monotonic(), items)
            return looked.items

    def _about(self, place: _Place) -> dict[str, Any]:
        return {"protocol": PROTOCOL, "seat": self._there(place).to_json()}

    def _there(self, place: _Place) -> Seat:
        return replace(self._seat, root=place.root, item=_key_of(place.item), machine=place.host)

    def _file_of(self, item: str) -> Path:
        return self._places / f"{replace(self._seat, item=_key_of(item)).name}.json"

    def _place_of(self, item: str) -> _Place | None:
        content = read_file(self._file_of(item))
        return None if content is None else _Place(**json.loads(content))

    def _ask(self, host: str, verb: str, given: Mapping[str, Any], limit_s: float) -> Any:
        try:
            if host != self._own:
                return ssh.ask(host, ("seat", verb), given, limit_s)
            return ssh.ask_here(host, ("seat", verb), given, limit_s)
        except ssh.RefusedThereError as error:
            raise StateError(error.message, error.hint) from None


def _key_of(item: str) -> str:
    return item.partition("/")[2]


def _pool_of(name: str, given: Mapping[str, Any], seat: Seat) -> Pool:
    return Pool(
        name, tuple(given["hosts"]), given["root"], given["slots"], tuple(given["prepare"]),
        seat.publish,
    )  # fmt: skip
