"""What is synced by itself, what is derived again on a resume, and what a fault in between does."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrate.engine.scheduler import note_unsettled
from orchestrate.errors import StateError
from orchestrate.execute.base import LOCAL, Exit, Lost, NotStarted
from orchestrate.execute.fake import Act, FakeExecutor
from orchestrate.state import journal as journal_module
from orchestrate.state import store as store_module
from orchestrate.state.events import StepStarted
from orchestrate.state.journal import Journal
from orchestrate.state.store import LAG_S
from tests.engine.performing import Run, running
from tests.execute.worlds import job_of
from tests.state.definitions import LINE, command, workflow
from tests.state.folding import compiled

FIRST, SECOND = "One:1.1", "Two:1.1"
MANY = workflow("".join(command(f"S{number}") for number in range(100)))
GUARDED = workflow(
    command("One", ', output_file: "out.txt"')
    + command("Two", ", when: {exists: flag}, depends_on: {required: [flag]}")
    + command("Three")
)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When the journal of the run was synced."""
    moments: list[float] = []
    monkeypatch.setattr(journal_module, "sync_data", lambda _: moments.append(time.monotonic()))
    return moments


@pytest.mark.parametrize(("step_s", "most"), [(0.0, 3), (LAG_S / 20, 40)])
def test_quick_programs_are_not_synced_one_by_one(
    tmp_path: Path, syncs: list[float], monkeypatch: pytest.MonkeyPatch, step_s: float, most: int
) -> None:
    """By a clock that goes on a little with each look: what is not synced is never old."""
    looks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(looks) * step_s)
    monkeypatch.setattr(store_module, "time", clock)
    with running(tmp_path, compiled(MANY), executors={LOCAL: FakeExecutor()}) as run:
        syncs.clear()
        assert run.to_end()[0] == "completed"
    assert len(syncs) <= most
    assert len(syncs) > 3 or not step_s


@pytest.mark.parametrize(
    ("text", "act"),
    [
        (LINE, Act(stdout=b"x" * 10_000)),
        (LINE, Act(stderr=b"x" * 10_000)),
        (workflow(command("One", ", when: {exists: nothing}") + command("Two")), Act()),
        (workflow(command("One", ", depends_on: {optional: [x]}") + command("Two")), Act()),
        (
            workflow(command("One", ", on: {failure: {goto: Two}}") + command("Two")),
            Act(code=3),
        ),
    ],
    ids=["long output", "long errors", "a skip", "files that were looked for", "a failure"],
)
def test_what_cannot_be_derived_is_durable_before_the_next_step(
    tmp_path: Path, syncs: list[float], text: str, act: Act
) -> None:
    synced: list[int] = []

    class Second(FakeExecutor):
        def start(self, job: Any) -> bool:
            if job.attempt == SECOND:
                synced.append(run.store.state.synced)
            return super().start(job)

    fake = Second({FIRST: act})
    with running(tmp_path, compiled(text), executors={LOCAL: fake}) as run:
        if act.stdout or act.stderr:
            for name, content in (("stdout", act.stdout), ("stderr", act.stderr)):
                (run.store.run.logs / f"One.{name}").write_bytes(content)
        assert run.to_end()[0] == "completed"
        finished = [event["on"] for event in run.journal].index("step-finished") + 1
    assert synced[0] >= finished


def started_before(run: Run, fake: FakeExecutor, *attempts: str) -> None:
    """As a power cut leaves it: the executor has the attempts on record, the journal does not."""
    for attempt in attempts:
        fake.start(job_of(attempt))
    note_unsettled(run.rt)


def test_a_resume_asks_about_each_attempt_before_it_looks_at_files(tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text("what the first one printed")
    fake = FakeExecutor({FIRST: Act(stdout=b"one"), SECOND: Act(stdout=b"two")})
    with running(tmp_path, compiled(GUARDED), executors={LOCAL: fake}) as run:
        started_before(run, fake, FIRST, SECOND)
        assert run.to_end()[0] == "completed"
        steps = run.document["steps"]
        outputs = {name: steps[name].get("output") for name in ("One", "Two", "Three")}
        assert outputs == {"One": "one", "Two": "two", "Three": ""}
        assert [job.attempt for job in fake.jobs] == [FIRST, SECOND, "Three:1.1"]
    assert (tmp_path / "out.txt").read_text() == "what the first one printed"


def test_what_was_never_started_is_checked_again(tmp_path: Path) -> None:
    fake = FakeExecutor()
    with running(tmp_path, compiled(GUARDED), executors={LOCAL: fake}) as run:
        started_before(run, fake, FIRST)
        assert run.to_end()[0] == "completed"
        assert run.document["steps"]["Two"]["status"] == "skipped"
        assert not run.rt.is_catching_up


def test_where_the_records_are_damaged_one_attempt_is_lost_and_no_more(tmp_path: Path) -> None:
    class Torn(FakeExecutor):
        """Of what it has not heard it cannot say that it never began."""

        def find(self, attempt: str, *, is_announced: bool = True) -> Any:
            found = super().find(attempt, is_announced=is_announced)
            return Lost("torn") if isinstance(found, NotStarted) else found

    fake = Torn()
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        started_before(run, fake, FIRST)
        assert run.to_end()[0] == "completed"
        assert [job.attempt for job in fake.jobs] == [FIRST, "Two:1.2"]


def test_a_derived_step_has_the_times_of_its_program(tmp_path: Path) -> None:
    fake = FakeExecutor()
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        started_before(run, fake, FIRST)
        found = fake.find(FIRST)
        assert isinstance(found, Exit)
        time.sleep(0.2)
        run.perform()
        (started,) = [event for event in run.journal if event["on"] == "step-started"]
        assert started["at"] == pytest.approx(found.started_at, abs=0.05)


def test_a_program_that_goes_on_though_its_start_cannot_be_written_down_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeExecutor({FIRST: Act(after_s=None)})
    append = Journal.append

    def refuse(journal: Journal, events: Any, *, sync: bool = True) -> int:
        if any(event["on"] == "step-started" for event in events):
            raise StateError("the disk is full")
        return append(journal, events, sync=sync)

    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        with monkeypatch.context() as patch:
            patch.setattr("orchestrate.engine.programs._LAST_S", 0.3)
            patch.setattr(Journal, "append", refuse)
            with pytest.raises(StateError, match="the disk is full"):
                run.to_end()
            found = fake.find(FIRST)
            assert isinstance(found, Exit)
            assert found.stopped == "the run could not record it"
        run.store.write_down()


def test_what_was_folded_in_is_told_with_its_number(tmp_path: Path) -> None:
    heard: list[tuple[int, str]] = []
    with running(tmp_path, compiled(LINE), executors={LOCAL: FakeExecutor()}) as run:
        run.store.listeners.append(
            lambda event, state: heard.append((state.seq, type(event).__name__))
        )
        run.store.fold(StepStarted("", "One", 1, 1, run.rt.now()))
        assert heard == []
        assert run.store.state.root.here is not None
        assert run.store.state.root.here.phase == "running"
        run.store.sync()
        assert heard == [(2, "StepStarted")]
        assert run.store.state.synced == 2
