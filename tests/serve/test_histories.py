"""A history that is read on says what one says that is read at once."""

from __future__ import annotations

import time

from orchestrate.serve import histories
from orchestrate.show.draw.path_taken import index_or_reason
from orchestrate.show.report.data import tally_json
from orchestrate.state.runs import Run, Runs, list_runs
from orchestrate.testing import Project
from orchestrate.view.history import Chronicle, History, read_chronicle
from tests.serve.recipes import with_recipes


def only_run(project: Project) -> Run:
    (run,) = list_runs(Runs(project.folder / ".orchestrate" / "runs"))
    return run


def same(one: Chronicle, other: Chronicle) -> bool:
    """All but the objects that hold the sums."""
    return (
        (one.events, one.sittings, one.approvals, one.trail, one.notes)
        == (other.events, other.sittings, other.approvals, other.trail, other.notes)
        and [tally_json(tally) for tally in one.tallies.by_path.values()]
        == [tally_json(tally) for tally in other.tallies.by_path.values()]
        and one.tallies.steps_between == other.tallies.steps_between
    )


def test_kept_histories_read_on(project: Project) -> None:
    with_recipes(project).run("run", "gate").assert_exit(6)
    run, now = only_run(project), time.time()
    kept = [histories.kept_chronicle(run, index_or_reason(run)[0], now, is_live=False)]
    project.run("approve", "latest", "--resume").assert_success()
    kept.append(histories.kept_chronicle(run, index_or_reason(run)[0], now, is_live=False))
    assert kept[0].approvals[0].status == "pending"
    assert kept[1].events > kept[0].events
    assert same(kept[1], read_chronicle(run, index_or_reason(run)[0], now, is_live=False))


def test_asking_changes_nothing_of_what_is_kept(project: Project) -> None:
    with_recipes(project).run("run", "gate").assert_exit(6)
    run, now = only_run(project), time.time()
    history = History(run, index_or_reason(run)[0])
    history.read_on()
    told = [history.told(now, is_live=is_live) for is_live in (False, True, False)]
    assert same(told[0], told[2])
    bars = [[tally.bars for tally in one.tallies.by_path.values()] for one in told]
    assert bars[0] == bars[2]
    assert bars[0] != bars[1]


def test_an_unchanged_journal_is_not_read_again(project: Project) -> None:
    with_recipes(project).run("run", "hello").assert_success()
    run, now = only_run(project), time.time()
    first = histories.kept_chronicle(run, index_or_reason(run)[0], now, is_live=False)
    content = run.events.read_bytes()
    run.events.write_bytes(b"\0" * len(content))
    again = histories.kept_chronicle(run, index_or_reason(run)[0], now, is_live=False)
    run.events.write_bytes(content[:-1])
    cut = histories.kept_chronicle(run, index_or_reason(run)[0], now, is_live=False)
    assert same(first, again)
    assert cut.events == first.events - 1
