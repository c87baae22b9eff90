"""Commands about runs on other machines: to start one, to list, hand over and release them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from orchestrate.app.config.load import runs_folder
from orchestrate.app.deciding.settle import parked_runs
from orchestrate.app.given.settings import RunSettings
from orchestrate.app.starting.prepare import Prepared
from orchestrate.app.working.reporter import Stop, has_terminal
from orchestrate.errors import (
    NoSuchRunError,
    OrchestrateError,
    RunElsewhereError,
    UsageError,
)
from orchestrate.fleet.extra import with_extra
from orchestrate.fleet.forward import forward, runs_on
from orchestrate.fleet.hosts import ItemsOnHosts, has_hosts
from orchestrate.fleet.publish import Publisher, begin_publishing
from orchestrate.fleet.release import release_seat, remove_published
from orchestrate.fleet.seat import WAITS, seat_of
from orchestrate.fleet.settings import DEFAULT_ADDRESS, find_pool, load_fleet
from orchestrate.fleet.shadow import Shadow
from orchestrate.fleet.spread import Items, Spread
from orchestrate.fleet.stub import Stub, read_fetched, read_stub, write_stub
from orchestrate.fleet.submit import submit
from orchestrate.plan.visible import visible
from orchestrate.record import replace
from orchestrate.show.output import answer, answer_json, note
from orchestrate.state.runs import Run, Runs
from orchestrate.state.store import Store
from orchestrate.view.place import Place
from orchestrate.view.run_summary import RunSummary
from orchestrate.view.run_view import RunView

__all__ = [
    "fetch_published",
    "find_on_server",
    "hand_over",
    "parked_elsewhere",
    "parked_in_fleet",
    "publisher_of",
    "release",
    "run_elsewhere",
    "spreader_of",
    "with_their_status",
]
# Reads the flags of `resume` off its words: the settings, and whether the answer is to be JSON.
ReadFlags = Callable[[list[str]], tuple[RunSettings, bool]]
_MOST_NAMED = 20
_carry_out_on_server: Callable[..., int] = with_extra("on_server:carry_out_on_server")
_submit_to_server = with_extra("on_server:submit_to_server")
_standings = with_extra("on_server:standings")
_list_server = with_extra("server_list:list_runs_of")
_stub_of: Callable[..., Stub | None] = with_extra("on_server:stub_of")
_open_items: Callable[..., Items] = with_extra("server_items:open_items")
_release_refs = with_extra("on_server:release_refs")
# How a run is shown that works in this process, and what needs no machine.
_NOT_AWAY = ("quiet", "verbose", "progress", "events", "raw", "cover")


def run_elsewhere(
    prepared: Prepared,
    file: str,
    text: str | None,
    place: Place,
    agrees: Callable[[str], bool],
    *,
    as_json: bool,
) -> int:
    """Start a run on a machine of a pool, and watch it from here unless it is detached."""
    settings = prepared.settings
    for row in settings.given():
        if row.name in _NOT_AWAY:
            raise UsageError(
                f"{row.option} cannot be used with --fleet",
                "start it with -d, and watch it with `attach`, `logs -f` or `logs -f --events`",
            )
    stub = _send(prepared, file, text, lambda files: settings.yes or _may_take(files, agrees))
    run = write_stub(runs_folder(prepared.workspace, prepared.config, place.state_dir), stub)
    note(f"run {run.id} starts {visible(stub.file)} on {stub.host or f'pool {stub.pool}'}\n")
    if settings.detach:
        if as_json:
            where = {"pool": stub.pool} if stub.is_on_server else {"host": stub.host}
            answer_json({"run_id": run.id, "run_root": str(run.root), **where})
        else:
            answer(f"{run.id}\n")
            note(f"  watch:  {place.command('attach', run.id)}\n")
        return 0
    shown = {True: ["--live"], False: ["--no-live"], None: []}[settings.live]
    words = ["attach", run.id, *shown, *(["--json"] if as_json else [])]
    return _carry_out_on_server(words, run, stub) if stub.is_on_server else forward(words, stub)


def _send(
    prepared: Prepared, file: str, text: str | None, may_take: Callable[[list[str]], bool]
) -> Stub:
    """To a machine that `ssh` leads to, or to the server that knows the pool."""
    name = str(prepared.settings.fleet)
    if not name or name != name.strip() or "," in name:
        # As a worker reads its --pools, none could ever serve it.
        raise UsageError(f"--fleet '{visible(name)}' does not name a pool")
    settings = load_fleet()
    known = settings.pools.get(name)
    if known is not None and known.hosts:
        return submit(known, settings.pools, prepared, (file, text), may_take)
    is_named = settings.address != DEFAULT_ADDRESS or "TEMPORAL_ADDRESS" in os.environ
    if not (settings.remote or is_named):
        find_pool(name)  # says which there are
    stub: Stub = _submit_to_server(settings, name, prepared, (file, text), may_take)
    return stub


def _may_take(files: Sequence[str], agrees: Callable[[str], bool]) -> bool:
    """Shown what would travel besides tracked files, does a person agree?"""
    note(f"{len(files)} untracked files would be sent, too:\n")
    note("".join(f"  {visible(name)}\n" for name in files[:_MOST_NAMED]))
    if len(files) > _MOST_NAMED:
        note(f"  and {len(files) - _MOST_NAMED} more\n")
    if not has_terminal():
        return False
    return agrees("Send them? [y/N] ")


def find_on_server(wanted: NoSuchRunError) -> None:
    """Give the workspace a stub of a run that the server knows; it may be of another workspace."""
    try:
        settings = load_fleet()
        stub = _stub_of(settings, wanted.named) if settings.uses_server(os.environ) else None
    except OrchestrateError as error:
        note(f"orchestrate: {visible(error.message)}\n")
        stub = None
    if stub is None:
        raise wanted
    write_stub(Runs(wanted.folder), stub, is_new=False)


@contextmanager
def parked_in_fleet() -> Iterator[list[RunView]]:
    """What the runs of the server's namespace have published that wait, as long as it is looked at.

    Those of `ssh:` machines belong to workspaces, and are listed there.
    """
    settings = load_fleet()
    waiting = [one for one in _list_server(settings, None) if one.status == "paused"]
    with tempfile.TemporaryDirectory(prefix="orchestrate-") as folder:
        stubs = [
            (Run(one.id, Path(folder) / one.id), _stub_of(settings, one.id)) for one in waiting
        ]
        yield list(_published(stubs))


def parked_elsewhere(runs: Sequence[Run]) -> Iterator[RunView]:
    """What has been published of runs elsewhere that may wait for a person."""
    return _published([(run, read_stub(run)) for run in runs])


def fetch_published(runs: Sequence[Run]) -> None:
    """Bring up to date what is shown here of runs elsewhere."""
    for run in runs:
        stub = read_stub(run)
        if stub is not None:
            _fetched(run, stub)


def _published(stubs: Sequence[tuple[Run, Stub | None]]) -> Iterator[RunView]:
    for run, stub in stubs:
        if stub is not None:
            yield from parked_runs(Runs(_fetched(run, stub).states), note)


def _fetched(run: Run, stub: Stub) -> Shadow:
    """Where nothing answers, what was fetched before is shown, and that is said."""
    shadow = Shadow(run, stub)
    try:
        shadow.refresh()
    except OrchestrateError as error:
        note(f"orchestrate: run {run.id}: {visible(error.message)}\n")
    return shadow


def publisher_of(store: Store) -> Publisher:
    """What publishes a run that works in a seat here; it hears of each step."""
    publisher = begin_publishing(store, note)
    store.listeners.append(publisher.hear)
    publisher.begin()
    return publisher


def spreader_of(store: Store, publisher: Publisher, stop: Stop) -> Spread | None:
    """Who brings items of a run in a seat to other machines; an item's own are not spread again."""
    seat = seat_of(store.state.settings["seat"])
    if seat.item:
        return None
    if has_hosts(seat):
        (seat.states / WAITS).unlink(missing_ok=True)  # of a process that was killed
        items = ItemsOnHosts(seat)
        return Spread(store, publisher, stop, items.settings, lambda: items, note)
    if not seat.remote:
        return None
    settings = load_fleet()
    return Spread(
        store, publisher, stop, settings, lambda: _open_items(settings, seat.remote), note
    )


def with_their_status(summaries: Sequence[RunSummary]) -> list[RunSummary]:
    """The summaries, with what the machines say of their runs; one that is silent is named."""
    stubs = {one.run.id: read_stub(one.run) for one in summaries if one.status == "unknown"}
    statuses: dict[str, str] = {}
    found = [stub for stub in stubs.values() if stub is not None]
    on_server = [stub.seat.run for stub in found if stub.is_on_server]
    if on_server:
        try:
            statuses |= _standings(on_server)
        except OrchestrateError as error:
            note(f"orchestrate: {visible(error.message)}\n")
    for host, root in {(stub.host, stub.seat.root) for stub in found if not stub.is_on_server}:
        try:
            statuses |= runs_on(host, root)
        except OrchestrateError as error:
            note(f"orchestrate: {visible(error.message)}\n")
    return [
        replace(one, status=statuses.get(one.run.id, one.status)) if one.run.id in stubs else one
        for one in summaries
    ]


def release(run: Run) -> None:
    """Give back what a run holds elsewhere, whose stub is removed; refused while it is open."""
    stub, fetched = read_stub(run), read_fetched(run)
    if fetched is not None:
        remove_published(fetched)
    elif stub is not None and stub.is_on_server:
        _release_refs(run.id, stub)
    elif stub is not None:
        release_seat(stub)


def hand_over(words: Sequence[str], found: RunElsewhereError, read_flags: ReadFlags) -> int:
    """A command about a run elsewhere is carried out there."""
    run = Run(found.run_id, found.folder)
    stub = read_stub(run)
    if stub is None:
        raise found
    if stub.is_on_server:
        return _carry_out_on_server(words, run, stub, read_flags)
    return forward(words, stub)
