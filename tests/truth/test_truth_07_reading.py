"""7: reading what an agent printed obeys signals, however much it is."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.promises.processes import wait_until
from tests.truth.places import Place

# Seconds to read: a line costs us far more than its program.
LINES = 400_000
PRINT = f'yes \'{{"type":"x"}}\' | head -n {LINES}'


def test_truth_07_reading_a_large_output_obeys_a_signal(quick_top: Path) -> None:
    place = Place(quick_top, "machine", deed=PRINT)
    place.go()
    with place.started("run", "w.yaml") as process:
        place.await_starts(1, process)
        journal = place.root() / "keeper" / "journal"
        wait_until(lambda: b" exit b:1.1 " in journal.read_bytes(), "it never ended", 60)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert place.status()["status"] == "paused"
    place.run("resume", "latest", timeout_s=120).assert_success()
    assert place.step_result()["status"] == "completed"
    assert len(place.starts()) == 1, "its answer was there already"
    assert place.lost() == 0
