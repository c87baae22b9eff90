"""`state.json` is brought up to date soon, and rarely enough to cost next to nothing."""

from __future__ import annotations

import json
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from orchestrate.execute.base import LOCAL, Job
from orchestrate.execute.fake import Act, FakeExecutor
from orchestrate.plan.nodes import OK
from orchestrate.state import store as module
from orchestrate.state.durable import write_visibly
from tests.engine.performing import running
from tests.state.definitions import LINE, command, workflow
from tests.state.folding import compiled

MANY = workflow("".join(command(f"S{number}") for number in range(200)))
LOOK = '  - {name: Two, command: ["cat", "${run.root}/state.json"]}\n'
LOOKS = workflow(command("One") + LOOK + command("End"))


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every content that `state.json` had while the run went on."""
    contents: list[bytes] = []

    def keep(path: Path, data: bytes) -> None:
        contents.append(data)
        write_visibly(path, data)

    monkeypatch.setattr(module, "write_visibly", keep)
    return contents


def test_quick_steps_share_a_state(tmp_path: Path, written: list[bytes]) -> None:
    began = time.monotonic()
    with running(tmp_path, compiled(MANY), executors={LOCAL: FakeExecutor()}) as run:
        assert run.to_end()[0] == "completed"
        taken = time.monotonic() - began
        assert len(written) <= 2 + taken / module.LAG_S
        assert run.document["status"] == "completed", "at the end it is current"


def test_a_step_that_takes_its_time_is_seen_at_work(tmp_path: Path) -> None:
    fake = FakeExecutor({"Two:1.1": Act(after_s=None)})
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        ending: list[Any] = []
        thread = threading.Thread(target=lambda: ending.append(run.to_end()))
        thread.start()
        give_up = time.monotonic() + 60
        while run.document["steps"].get("Two", {}).get("status") != "running":
            assert time.monotonic() < give_up, run.document["steps"]
            time.sleep(0.01)
        assert run.document["steps"]["One"]["status"] == "completed"
        fake.acts["Two:1.1"] = Act()
        fake.stop("Two:1.1", "enough")
        thread.join()
        assert ending


def test_a_step_that_looks_into_the_run_s_folder_finds_it_current(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []

    class Looking(FakeExecutor):
        def start(self, job: Job) -> bool:
            seen.append(json.loads(run.store.run.state.read_bytes())["steps"])
            return super().start(job)

    with running(tmp_path, compiled(LOOKS), executors={LOCAL: Looking()}) as run:
        assert run.to_end()[0] == "completed"
    found = seen[1]
    assert (found["One"]["status"], found["Two"]["status"]) == ("completed", "running")


def test_a_large_state_takes_a_fiftieth_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments: list[float] = []

    def take_long(path: Path, data: bytes) -> None:
        moments.append(time.monotonic())
        time.sleep(0.03)
        write_visibly(path, data)

    monkeypatch.setattr(module, "_LARGE", 100)
    monkeypatch.setattr(module, "write_visibly", take_long)
    acts = {f"S{number}:1.1": Act(after_s=0.01) for number in range(200)}
    with running(tmp_path, compiled(MANY), executors={LOCAL: FakeExecutor(acts)}) as run:
        assert run.to_end()[0] == "completed"
    assert len(moments) > 1
    assert all(b - a > 1.5 for a, b in pairwise(moments))


def test_a_large_state_is_not_left_behind_for_more_than_five_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LARGE", 100)
    monkeypatch.setattr(module, "write_visibly", lambda *_: time.sleep(0.2))
    with running(tmp_path, compiled(LINE), executors={LOCAL: FakeExecutor()}) as run:
        run.record("step-started", frame="", node="One", visit=1, attempt=1)
        before = time.monotonic()
        run.store.checkpoint()
        assert run.store.due_in_s() is None
        run.record("step-finished", frame="", node="One", visit=1, label=OK, result={})
        due = run.store.due_in_s()
        assert due is not None
        assert 5.0 - (time.monotonic() - before) <= due <= 5.0


def test_what_a_resume_finds_has_ended_shares_a_state(
    tmp_path: Path, written: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LAG_S", 60.0)
    with running(tmp_path, compiled(LINE), executors={LOCAL: FakeExecutor()}) as run:
        store = module.Store(run.store.run, run.store._lock, run.store.index, run.store.state)
        run.rt.store = store
        written.clear()
        run.record("step-started", frame="", node="One", visit=1, attempt=1)
        store.checkpoint(is_due=False)
        assert not written
        due = store.due_in_s()
        assert due is not None
        assert 0 < due <= 60.0
