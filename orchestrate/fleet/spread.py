"""There: brings the items of a run that is spread to other machines, and back what they did.

An item begins with what the run has published: its files, and its folder, which goes on with the
item alone. Its workflow is called after the run and the item's frame, so that it is started once
however often that is asked for. What comes back are the events of the item's journal that ours
does not have yet: those in ours are always the first ones of those there. No other record is
needed to go on after a kill.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from orchestrate.app.working.reporter import How, Stop
from orchestrate.checkpoints.model import CheckpointError
from orchestrate.checkpoints.program import Git, own_git, split
from orchestrate.errors import ConfigError, StateError
from orchestrate.fleet.notes import order_of
from orchestrate.fleet.protocol import Decision, Order
from orchestrate.fleet.publish import Publisher, commit_of, tree_of
from orchestrate.fleet.seat import COMMITTER, WAITS, WANTS, Seat, seat_of
from orchestrate.fleet.settings import FleetSettings
from orchestrate.fleet.standing import Standing
from orchestrate.fleet.take import fetch_published, lay_out
from orchestrate.fleet.transport import PushRefused, push, require_git
from orchestrate.plan.visible import visible
from orchestrate.record import replace
from orchestrate.state.address import Called, FrameKey, is_inside, name_of_node
from orchestrate.state.delete import delete_tree
from orchestrate.state.durable import dump_json, read_file, write_durably
from orchestrate.state.events import CallExpired, Event, GateDecided
from orchestrate.state.model import RunState
from orchestrate.state.recorded import read_events
from orchestrate.state.result import Approval
from orchestrate.state.store import Store

# Between two looks at an item.
_LOOK_S = 0.5
_SLOT_S = 0.05
# What the end of an item is awaited for, beyond its grace and two beats.
_ENDS_S = 5.0
_GIT_TRIES = 5
# In the folder that has the run's: what the sitting was asked for.
ORDER = "order.json"


class Items(Protocol):
    """Runs of items, wherever they are; each call may raise that no machine answers."""

    def standing(self, item: str) -> Standing | None:
        """How an item stands; None if it was never begun."""

    def find_place(self, item: str, pool: str) -> bool:
        """Is there one for an item that is to begin? A server finds that out by itself."""

    def address_of(self, item: str) -> str:
        """The repository that an item publishes to."""

    def start(self, order: Order) -> None: ...

    def go_on(self, item: str, decisions: Sequence[Decision]) -> None: ...

    def end(self, item: str, how: str) -> None: ...

    def how_ends(self, run: str) -> str:
        """Is the run itself asked to 'stop' or 'cancel'? '' if it only leaves this machine."""


class Spread:
    """Follows the items of one run (`engine/spread`); threads call it."""

    def __init__(
        self,
        store: Store,
        publisher: Publisher,
        stop: Stop,
        settings: FleetSettings,
        open_items: Callable[[], Items],
        tell: Callable[[str], None],
    ) -> None:
        self._store = store
        self._publisher = publisher
        self._stop = stop
        self._settings = settings
        self._open_items = open_items
        self._tell = tell
        self._seat = seat_of(store.state.settings["seat"])
        self._order = order_at(self._seat)
        self._program = require_git()
        self._opening = threading.Lock()
        self._items: Items | None = None
        # How many of an item's events the run has; the state that was looked at last.
        self._taken: dict[str, int] = {}
        self._seen: dict[str, str] = {}
        # Items that were told to go on and have done nothing since, with their last sitting before
        # that; until when an end is awaited.
        self._told: dict[str, int] = {}
        self._ends: dict[str, float] = {}
        self._troubles: set[str] = set()
        self._waits = False

    def follow(self, key: str, pool: str) -> Sequence[Event] | None:
        """What an item has done since; it is begun where it has not."""
        tries = 0
        while not self._stop.is_requested:
            try:
                events = self._look(key, pool)
                tries = 0
            except CheckpointError as error:
                tries += 1
                if tries == _GIT_TRIES:
                    raise StateError(f"{key}: {error.message}", error.hint) from None
                events = []
            except ConfigError as error:
                # Who carries items is waited for, as workers do.
                self._say(f"{error.message}: waiting")
                events = []
            if events or events is None:
                self._told.pop(key, None)
                return events
            if time.monotonic() > self._ends.get(key, float("inf")):
                return []
            self._stop.rest(_LOOK_S)
        self._pass_on(key)
        return []

    def end(self, key: str, how: How) -> None:
        timing = self._order.timing
        self._ends.setdefault(key, time.monotonic() + timing.grace + 2 * timing.beat + _ENDS_S)
        self._end(key, "cancel" if how == "drop" else "stop")

    def merge(self, keys: Sequence[str], *, marks: bool) -> Sequence[str]:
        """All of it in order, or nothing; the names of the files that two have changed."""
        git = self._git()
        marked = self._marked(keys)
        if marked is None:
            first = self._publish("before its items are merged")[0]
            ours, conflicts = self._merged(git, first, keys, marks=marks)
            if not conflicts and ours != first:
                self._lay_open(git, first, ours)
            if not conflicts or not marks:
                return conflicts
            marked = {"keys": [*keys], "tree": tree_of(git, ours), "conflicts": conflicts}
            # From here on it is done to the end, after a kill, too: never on top of itself.
            write_durably(self._merging, dump_json(marked))
        self._lay_marked(git, marked["tree"])
        return [*marked["conflicts"]]

    def _merged(
        self, git: Git, first: str, keys: Sequence[str], *, marks: bool
    ) -> tuple[str, list[str]]:
        """A commit of everything, and the files in conflict; with `marks` it has their markers."""
        ours, conflicts = first, dict[str, None]()
        for key in keys:
            item = self._item(key)
            theirs, _ = fetch_published(git, item, item.seen)
            if not theirs:
                raise StateError(f"{item.refs}work is not in {item.remote}", "it was removed there")
            tree, *files = split(
                git.output(
                    "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours,
                    theirs, ok=1,
                )
            )  # fmt: skip
            conflicts |= dict.fromkeys(self._named_here(os.fsdecode(one)) for one in files)
            if (marks or not files) and tree.decode() != tree_of(git, ours):
                words = ("-p", ours, "-p", theirs, "-m", f"orchestrate {item.id}: merged")
                ours = git.output("commit-tree", tree.decode(), *words).decode().strip()
        return ours, [*conflicts]

    def _named_here(self, path: str) -> str:
        """A file of the repository by its path from the workspace."""
        return os.path.relpath(path, self._seat.inside) if self._seat.inside else path

    @property
    def _merging(self) -> Path:
        """In the run's folder, so that it travels with the files that have the markers."""
        return self._store.run.root / "merging.json"

    def _marked(self, keys: Sequence[str]) -> dict[str, Any] | None:
        """What was being laid open of these very items when we were killed."""
        content = read_file(self._merging)
        found: dict[str, Any] | None = None if content is None else json.loads(content)
        return found if found is not None and found["keys"] == [*keys] else None

    def _lay_marked(self, git: Git, tree: str) -> None:
        """Let the workspace have the markers, and publish it with what says so."""
        if git.answers("cat-file", "-e", tree):  # else another machine has published it
            self._here(git).output("read-tree", "--reset", "-u", tree)
        self._publish("with conflicts of its items")

    def wait_only(self, *, is_so: bool) -> None:
        """The worker sees by a file that the slot is free, and by another that it is wanted."""
        waits, wants = self._seat.states / WAITS, self._seat.states / WANTS
        if is_so and not self._waits:
            waits.touch()
        elif self._waits and not is_so and not self._seat.remote:
            waits.unlink(missing_ok=True)  # no worker is asked
        elif self._waits and not is_so:
            os.replace(waits, wants)
            while wants.exists() and not self._stop.rest(_SLOT_S):
                pass
        self._waits = is_so

    def _look(self, key: str, pool: str) -> Sequence[Event] | None:
        """Its news once it rests; [] as long as it works."""
        name, items = self._name(key), self._opened()
        standing = items.standing(name)
        if standing is None:
            if items.find_place(name, pool):
                self._send(self._item(key), pool)
                self._told[key] = 0
            return []
        if standing.is_at_work:
            return []
        events = self._news(self._item(key))
        if events:
            return events
        if not standing.is_open or key in self._ends:
            return None
        if standing.sitting <= self._told.get(key, -1):
            return []  # it has not heard it yet
        if key in self._told:
            raise StateError(
                f"{visible(key)} could not go on in pool {standing.pool}: {standing.told}",
                f"orchestrate resume {self._seat.run}",
            )
        self._told[key] = standing.sitting
        items.go_on(name, self._decisions(key))
        return []

    def _decisions(self, key: str) -> list[Decision]:
        gates = self._store.look(_gates)
        return [
            decision_of(gate)
            for gate in gates
            if gate.status in ("approved", "denied")
            and (gate.visited[0] == key or is_inside(gate.visited[0], key))
        ]

    def _send(self, item: Seat, pool: str) -> None:
        work, state = self._publish(f"before {item.item}")
        refs = {item.work: ("", work), item.state: ("", state)}
        with suppress(PushRefused):  # it was there before a kill
            push(self._program, item.repository, item.remote, refs)
        known = self._settings.pools.get(pool)
        prepare = list(known.prepare) if known else []
        flags: dict[str, Any] = {}  # those of the run are in its folder
        self._opened().start(
            dataclasses.replace(
                self._order, pool=pool, item=item.item, prepare=prepare, flags=flags, text=None
            )
        )

    def _publish(self, what: str) -> tuple[str, str]:
        """What the run has published now: the commits of its files and of its folder."""
        # Nothing is recorded meanwhile: the publisher itself is called while something is.
        try:
            self._store.look(lambda _: self._publisher.publish_now(what))
        except OSError as error:
            raise CheckpointError(f"the run could not be published: {error}") from error
        git = self._git()
        return commit_of(git, self._seat.work), commit_of(git, self._seat.state)

    def _news(self, item: Seat) -> list[Event]:
        """The events of an item that the run does not have, with the files that belong to them."""
        git, key = self._git(), item.item
        _, state = fetch_published(git, item, item.seen)
        if not state or self._seen.get(key) == state:
            return []
        above = self._seat.indexes / f"item-{item.name}"
        # A journal is read under the name of its run only.
        folder = above / self._seat.run
        lay_out(git, state, folder)
        try:
            theirs = [one.event for one in read_events(folder / "events.jsonl")]
            events = [*self._unknown(key, theirs)]
            _copy_missing(folder, self._store.run.root)
        finally:
            delete_tree(above.parent, above.name)
        self._seen[key] = state
        self._taken[key] += sum(not isinstance(event, GateDecided) for event in events)
        return events

    def _unknown(self, key: str, theirs: Sequence[Event]) -> Iterator[Event]:
        """Decisions were made here, and have been there since; all else happened there first."""
        if key not in self._taken:
            ours = (one.event for one in read_events(self._store.run.events))
            self._taken[key] = sum(
                belongs(event, key) and not isinstance(event, GateDecided) for event in ours
            )
        number = 0
        for event in theirs:
            if not belongs(event, key):
                continue
            if isinstance(event, GateDecided):
                visit = (event.frame, event.node, event.visit)
                gates = self._store.look(_gates)
                if any(g.visited == visit and g.status != "pending" for g in gates):
                    continue
            else:
                number += 1
            if number > self._taken[key]:
                yield event

    def _lay_open(self, git: Git, before: str, after: str) -> None:
        """Let the workspace have what was merged, and publish that."""
        seat = self._seat
        self._here(git).output("read-tree", "-m", "-u", before, after)
        if seat.remote:
            push(self._program, seat.repository, seat.remote, {seat.work: (before, after)})
        git.output("update-ref", seat.work, after, before)

    def _here(self, git: Git) -> Git:
        """Git in the work tree, with what the last publication knew of it."""
        seat = self._seat
        return git.with_variables(
            GIT_WORK_TREE=str(seat.tree), GIT_INDEX_FILE=str(seat.indexes / "work")
        )

    def _pass_on(self, key: str) -> None:
        """Who stops or cancels the run means its items, too; who moves it does not."""
        try:
            how = self._opened().how_ends(self._seat.run)
        except ConfigError:
            return
        if how:
            self._end(key, how)

    def _end(self, key: str, how: str) -> None:
        try:
            self._opened().end(self._name(key), how)
        except (ConfigError, StateError) as error:
            self._say(error.message)

    def _say(self, trouble: str) -> None:
        if trouble not in self._troubles:
            self._troubles.add(trouble)
            self._tell(f"orchestrate: {visible(trouble)}\n")

    def _opened(self) -> Items:
        with self._opening:
            if self._items is None:
                self._items = self._open_items()
            return self._items

    def _name(self, key: str) -> str:
        return replace(self._seat, item=key).id

    def _item(self, key: str) -> Seat:
        """Its place as seen from here, with the repository that it publishes to."""
        return replace(self._seat, item=key, remote=self._opened().address_of(self._name(key)))

    def _git(self) -> Git:
        return own_git(self._program, self._seat.repository).with_variables(**COMMITTER)


def keep_order(seat: Seat, order: Order) -> None:
    """What the sitting was asked for: items are asked for alike."""
    write_durably(seat.states / ORDER, dump_json(dataclasses.asdict(order)))
    for name in (WAITS, WANTS):
        (seat.states / name).unlink(missing_ok=True)


def order_at(seat: Seat) -> Order:
    content = read_file(seat.states / ORDER)
    if content is None:
        raise StateError(f"{seat.states / ORDER} is gone")
    return order_of(json.loads(content))


def belongs(event: Event, key: str) -> bool:
    """Is an event about an item or what is in it, or about the end of a call that is one?"""
    frame = getattr(event, "frame", None)
    if frame is None:
        return False
    if frame == key or is_inside(frame, key):
        return True
    inner = FrameKey.parse(key)
    *_, last = inner.parts
    return (
        isinstance(event, CallExpired)
        and isinstance(last, Called)
        and frame == FrameKey(inner.restart, inner.parts[:-1], inner.edit).text
        and (name_of_node(event.node), event.visit) == (last.step, last.visit)
    )


def decision_of(gate: Approval) -> Decision:
    """What was decided about a gate, as it is told elsewhere."""
    frame, node, visit = gate.visited
    decision: Any = gate.status
    return Decision(frame, node, visit, decision, gate.decided_by or "", gate.message or "")


def _gates(state: RunState) -> list[Approval]:
    return [*state.approvals]


def _copy_missing(folder: Path, target: Path) -> None:
    """Files that belong to events: logs, values, artifacts; ours stay as they are."""
    for inside, _, names in os.walk(folder):
        where = os.path.relpath(inside, folder)
        for name in names if where != "." else ():
            new = target / where / name
            if not new.exists():
                new.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.copyfile(os.path.join(inside, name), new)
                os.chmod(new, 0o600)
