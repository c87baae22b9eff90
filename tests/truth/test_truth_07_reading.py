"""7: reading what an agent printed obeys signals, however much it is."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from orchestrate.engine.ops import agent_program
from orchestrate.engine.stop import Stop
from tests.truth.places import Place

LINES = 20_000
PRINT = f'yes \'{{"type":"x"}}\' | head -n {LINES}'


def test_truth_07_reading_a_large_output_obeys_a_signal(
    quick_top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes with the hundredth line, so that the load of the machine does not matter."""
    place = Place(quick_top, "machine", deed=PRINT)
    place.go()
    halting, lines = agent_program._halting, count(1)

    def struck(stop: Stop, *, is_ours: bool) -> Callable[[], None]:
        look = halting(stop, is_ours=is_ours)

        def go_on() -> None:
            if next(lines) == 100:
                os.kill(os.getpid(), signal.SIGINT)
                while not stop.is_requested:
                    time.sleep(0.001)
            look()

        return go_on

    with monkeypatch.context() as patch:
        patch.setattr(agent_program, "_READ_ON_S", 0.0)
        patch.setattr(agent_program, "_halting", struck)
        place.run("run", "w.yaml").assert_exit(130)
    assert next(lines) < LINES, "it was read to its end"
    assert place.status()["status"] == "paused"
    place.run("resume", "latest").assert_success()
    assert place.step_result()["status"] == "completed"
    assert len(place.starts()) == 1, "its answer was there already"
    assert place.lost() == 0
