"""Runs on other machines, as far as the command line is concerned: start, watch, hand over."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrate.app.config import runs_folder
from orchestrate.app.prepare import Prepared
from orchestrate.cli.terminal import has_terminal
from orchestrate.errors import OrchestrateError, RunElsewhereError, UsageError
from orchestrate.fleet.forward import forward, runs_on
from orchestrate.fleet.publish import Publisher, begin_publishing
from orchestrate.fleet.release import release
from orchestrate.fleet.settings import find_pool
from orchestrate.fleet.stub import read_stub, write_stub
from orchestrate.fleet.submit import submit
from orchestrate.plan.visible import visible
from orchestrate.record import replace
from orchestrate.show.output import answer, answer_json, note
from orchestrate.state.runs import Run
from orchestrate.state.store import Store
from orchestrate.view.place import Place
from orchestrate.view.run_summary import RunSummary

__all__ = ["hand_over", "publisher_of", "release", "run_elsewhere", "with_their_status"]
_MOST_NAMED = 20
# How a run is shown that works in this process, and what needs no machine.
_NOT_AWAY = ("quiet", "verbose", "progress", "events", "raw", "cover")


def run_elsewhere(
    prepared: Prepared, file: str, text: str | None, place: Place, *, as_json: bool
) -> int:
    """Start a run on a machine of a pool, and watch it from here unless it is detached."""
    settings = prepared.settings
    for row in settings.given():
        if row.name in _NOT_AWAY:
            raise UsageError(
                f"{row.option} cannot be used with --fleet",
                "start it with -d, and watch it with `attach`, `logs -f` or `logs -f --events`",
            )
    pool = find_pool(str(settings.fleet))
    stub = submit(pool, prepared, file, text, lambda files: settings.yes or _agrees(files))
    run = write_stub(runs_folder(prepared.workspace, prepared.config, place.state_dir), stub)
    note(f"run {run.id} starts {visible(stub.file)} on {stub.host}\n")
    if settings.detach:
        if as_json:
            answer_json({"run_id": run.id, "run_root": str(run.root), "host": stub.host})
        else:
            answer(f"{run.id}\n")
            note(f"  watch:  {place.command('attach', run.id)}\n")
        return 0
    shown = {True: ["--live"], False: ["--no-live"], None: []}[settings.live]
    return forward(["attach", run.id, *shown, *(["--json"] if as_json else [])], stub)


def _agrees(files: Sequence[str]) -> bool:
    """Shown what would travel besides tracked files, does a person agree?"""
    note(f"{len(files)} untracked files would be sent, too:\n")
    note("".join(f"  {visible(name)}\n" for name in files[:_MOST_NAMED]))
    if len(files) > _MOST_NAMED:
        note(f"  and {len(files) - _MOST_NAMED} more\n")
    if not has_terminal():
        return False
    note("Send them? [y/N] ")
    return input().strip().lower() in ("y", "yes")


def publisher_of(store: Store) -> Publisher:
    """What publishes a run that works in a seat here; it hears of each step."""
    publisher = begin_publishing(store, note)
    store.listeners.append(publisher.hear)
    return publisher


def with_their_status(summaries: Sequence[RunSummary]) -> list[RunSummary]:
    """The summaries, with what the machines say of their runs; one that is silent is named."""
    stubs = {one.run.id: read_stub(one.run) for one in summaries if one.status == "unknown"}
    statuses: dict[str, str] = {}
    for host, root in {(stub.host, stub.seat.root) for stub in stubs.values() if stub}:
        try:
            statuses |= runs_on(host, root)
        except OrchestrateError as error:
            note(f"orchestrate: {visible(error.message)}\n")
    return [
        replace(one, status=statuses.get(one.run.id, one.status)) if one.run.id in stubs else one
        for one in summaries
    ]


def hand_over(words: Sequence[str], found: RunElsewhereError) -> int:
    """A command about a run elsewhere is carried out there."""
    stub = read_stub(Run(found.run_id, found.folder))
    if stub is None:
        raise found
    return forward(words, stub)
