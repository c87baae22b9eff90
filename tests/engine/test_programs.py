"""Programs behind the seam: run once, found where they run, judged, stopped, lost; no process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrate.app.working.executors import executors_of
from orchestrate.engine.scheduler import note_unsettled
from orchestrate.errors import ConfigError, StateError
from orchestrate.execute.base import LOCAL, Executor, Exit, Lost, Running
from orchestrate.execute.fake import Act, FakeExecutor
from orchestrate.execute.reasons import KEEPER_TERMINATED
from orchestrate.record import replace
from orchestrate.state.codec import Encoder
from orchestrate.state.decode import decode
from orchestrate.state.model import Index
from orchestrate.workspace import Workspace
from tests.engine.performing import Run, running
from tests.execute.worlds import job_of
from tests.state.definitions import LINE
from tests.state.folding import compiled

FIRST = "One:1.1"


def announced(run: Run, **fields: Any) -> None:
    """As an earlier orchestrator left it: announced, and nothing more is on record."""
    run.record("step-started", frame="", node="One", visit=1, attempt=1, **fields)
    note_unsettled(run.rt)


class Dying(FakeExecutor):
    """A fake whose programs end in a way that only an executor can report."""

    def __init__(self, acts: Mapping[str, Act], **changes: Any) -> None:
        super().__init__(acts)
        self.changes = changes

    def run(self, *words: Any) -> Exit | Lost | Running:
        found = super().run(*words)
        return replace(found, **self.changes) if isinstance(found, Exit) else found

    def find(self, attempt: str, *, is_announced: bool = True) -> Any:
        found = super().find(attempt, is_announced=is_announced)
        return replace(found, **self.changes) if isinstance(found, Exit) else found


def test_a_program_becomes_a_result(tmp_path: Path) -> None:
    fake = FakeExecutor({FIRST: Act(stdout=b"hello\n")})
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        (finished,) = run.perform()
        assert finished["result"]["output"] == "hello\n"
        (job,) = fake.jobs
        assert (job.attempt, job.cwd, job.stdout) == (FIRST, ".", "One.stdout")
        (event,) = [event for event in run.journal if event["on"] == "step-started"]
        assert "where" not in event, "this machine goes without saying"


def test_a_program_is_looked_for_where_it_was_started(tmp_path: Path) -> None:
    here, there = FakeExecutor(), FakeExecutor({FIRST: Act(stdout=b"from there")})
    with running(tmp_path, compiled(LINE), executors={LOCAL: here, "there": there}) as run:
        announced(run, where="there")
        there.start(job_of(FIRST))
        (finished,) = run.perform()
        assert finished["result"]["output"] == "from there"
        assert here.jobs == []
        run.perform()
        assert [job.attempt for job in here.jobs] == ["Two:1.1"], "the next one begins here"


def test_a_state_says_where_its_program_runs(tmp_path: Path) -> None:
    program = compiled(LINE)
    with running(tmp_path, program, executors={}) as run:
        announced(run, where="there")
        content = Encoder(Index(program)).encode(run.store.state)
        again = decode(Index(program), content, run.store.state.run_id)
        assert again.root.here is not None
        assert again.root.here.where == "there"


def test_a_place_that_is_not_known_is_named(tmp_path: Path) -> None:
    with running(tmp_path, compiled(LINE)) as run:
        open_executor = executors_of(run.store, Workspace(tmp_path))
        with pytest.raises(ConfigError, match="'mars'"):
            open_executor("mars", lambda: None)


def test_a_program_that_still_runs_is_waited_for_not_started_again(tmp_path: Path) -> None:
    fake = FakeExecutor({FIRST: Act(stdout=b"first,", last=b"last", after_s=0.3)})
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        announced(run)
        fake.start(job_of(FIRST))
        (finished,) = run.perform()
        assert finished["result"]["output"] == "first,last"
        assert len(fake.jobs) == 1


def test_a_program_that_was_announced_and_never_begun_takes_its_own_time(tmp_path: Path) -> None:
    """Its claim could not be written, or a kill came before: a night may lie between."""
    fake = FakeExecutor({FIRST: Act(stdout=b"hello")})
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        announced(run, at=run.rt.now() - 3600)
        (finished,) = run.perform()
        assert finished["result"]["duration_ms"] < 3_000_000
        assert len(fake.jobs) == 1


def test_a_stop_ends_the_program_and_the_try_does_not_count(tmp_path: Path) -> None:
    fake = FakeExecutor({FIRST: Act(after_s=None)})
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        threading.Timer(0.2, run.rt.stop.request, [signal.SIGTERM]).start()
        (ended,) = run.perform()
        assert (ended["on"], ended["why"]) == ("attempt-ended", "stopped")
        found = fake.find(FIRST)
        assert isinstance(found, Exit)
        assert found.stopped == "terminated"


@pytest.mark.parametrize(
    ("writer", "after_s"), [("write_down", 0.0), ("write_down", 0.4), ("checkpoint", 0.4)]
)
def test_a_run_that_cannot_be_written_stops_when_its_program_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str, after_s: float
) -> None:
    """A full disk is our trouble: the program's work is neither cut off nor done again."""
    fake = FakeExecutor({FIRST: Act(stdout=b"first,", last=b"last", after_s=after_s)})
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        write = getattr(run.store, writer)

        def refuse(**how: Any) -> None:
            if fake.jobs:
                raise StateError("no space left on device")
            write(**how)

        monkeypatch.setattr(run.store, writer, refuse)
        with pytest.raises(StateError, match="no space"):
            run.perform()
        found = fake.find(FIRST)
        assert isinstance(found, Exit)
        assert (found.code, found.stopped) == (0, "")
        monkeypatch.undo()
        note_unsettled(run.rt)
        (finished,) = run.perform()
        assert finished["result"]["output"] == "first,last"
        assert len(fake.jobs) == 1


def test_a_lost_program_is_tried_again_under_the_next_number(tmp_path: Path) -> None:
    fake = FakeExecutor({FIRST: Act(after_s=None)})
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        threading.Timer(0.1, fake.lose, [FIRST, "its machine burnt"]).start()
        (ended,) = run.perform()
        assert (ended["why"], ended["losses"]) == ("lost", 1)
        assert "its machine burnt" in ended["result"]["error"]["message"]
        run.rt.stop.rest(1.0)
        (finished,) = run.perform()
        assert finished["on"] == "step-finished"
        assert [job.attempt for job in fake.jobs] == [FIRST, "One:1.2"]


@pytest.mark.parametrize(
    ("act", "watched", "why"),
    [
        (Act(signal=signal.SIGTERM), True, "lost"),
        (Act(code=128 + signal.SIGKILL), True, "lost"),
        (Act(signal=signal.SIGSEGV), False, "lost"),
        (Act(signal=signal.SIGSEGV), True, ""),
        (Act(code=3), False, ""),
    ],
)
def test_an_end_that_no_orchestrator_saw(tmp_path: Path, act: Act, watched: bool, why: str) -> None:
    """Whoever killed the orchestrator, or the machine, has ended the program, too."""
    fake = Dying({FIRST: act}, watched=watched)
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        announced(run)
        fake.start(job_of(FIRST))
        (ended,) = run.perform()
        assert ended.get("why", "") == why
        assert ended.get("losses", 0) == 0, "it was lost before this sitting"


def test_a_program_that_went_down_with_its_keeper_is_lost(tmp_path: Path) -> None:
    fake = Dying({FIRST: Act(signal=signal.SIGTERM)}, stopped=KEEPER_TERMINATED)
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        (ended,) = run.perform()
        assert (ended["why"], ended["losses"]) == ("lost", 1)


def test_what_a_copy_s_original_has_started_is_not_started_again(tmp_path: Path) -> None:
    fake: Executor = FakeExecutor()
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        run.rt.is_copy = True
        announced(run)
        (ended,) = run.perform()
        assert ended["why"] == "lost"
        assert "copy" in ended["result"]["error"]["message"]
        assert fake.find(FIRST) != Running()
