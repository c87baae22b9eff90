"""Cuts the power of a real ext4: `python -m tests.promises.cutting FOLDER SHAPE CUTS SEED`.

To be started as root in a mount namespace of its own (`unshare -m`). The runs' folder lies on a
file system in a file; at some moment that is shut down as by a power cut, with nothing flushed, all
processes are killed, and it is mounted again, which replays its journal as after a real cut. The
ledger and the workspace lie elsewhere and survive. Told on standard output, as one line of JSON.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.promises.agent_shapes import STEADY_MACHINE, STEADY_RECIPE
from tests.promises.commands import await_lines
from tests.promises.judging import check_nothing_repeated, check_same
from tests.promises.keepers import kill_keeper_and_company
from tests.promises.lanes import Lane
from tests.promises.processes import end_all_in, keepers_in, kill
from tests.promises.shapes import CHAINED, DERIVED, STEADY
from tests.promises.test_keeper_kills import go_on_until_over
from tests.promises.trials import KILLED, Left, Trial, sealed_state

SHAPES = {shape.name: shape for shape in (STEADY, DERIVED, CHAINED, STEADY_RECIPE, STEADY_MACHINE)}
# EXT4_IOC_SHUTDOWN, and: do not flush anything, not even the file system's own journal.
_SHUTDOWN = 0x8004587D
_NOTHING_IS_FLUSHED = 2


class Disk:
    """An ext4 in a file, mounted at a folder."""

    def __init__(self, image: Path, place: Path) -> None:
        self.image = image
        self.place = place
        place.mkdir(parents=True, exist_ok=True)
        with image.open("wb") as file:
            file.truncate(48 << 20)
        do("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(image))

    def mount(self) -> None:
        do("mount", "-o", "loop", str(self.image), str(self.place))

    def cut(self) -> None:
        folder = os.open(self.place, os.O_RDONLY)
        fcntl.ioctl(folder, _SHUTDOWN, struct.pack("I", _NOTHING_IS_FLUSHED))
        os.close(folder)

    def unmount(self) -> None:
        give_up = time.monotonic() + 60
        while subprocess.run(
            ["umount", str(self.place)], capture_output=True, check=False
        ).returncode:
            assert time.monotonic() < give_up, "somebody still uses the disk"
            time.sleep(0.02)


def do(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stderr}"


def check_that_cuts_take_something(top: Path) -> None:
    """What was synced is there after a cut, what was not is gone; else nothing would be tested."""
    disk = Disk(top / "image", top / "disk")
    disk.mount()
    for name in ("synced", "unsynced"):
        with (disk.place / name).open("wb") as file:
            file.write(b"here")
            if name == "synced":
                file.flush()
                os.fsync(file.fileno())
    disk.cut()
    disk.unmount()
    disk.mount()
    kept = sorted(
        path.name for path in disk.place.iterdir() if path.is_file() and path.read_bytes()
    )
    disk.unmount()
    assert kept == ["synced"], f"after a cut there are {kept}"


def judge_cut(
    trial: Trial, disk: Disk, reference: Left, moment: tuple[int, float], lane: Lane
) -> int:
    """One cut some time after a line of the ledger; how many attempts were lost."""
    with mounted(trial, disk):
        cutting = list[threading.Thread]()

        def begin(pid: int) -> None:
            cutting.append(threading.Thread(target=cut, args=(trial, disk, moment, pid)))
            cutting[0].start()

        code = lane.run(trial.start_order(), begin)
        # The run may have been quicker; then the power is cut when it is over.
        cutting[0].join()
        # It may have seen that its disk is gone before it was killed.
        assert code in (KILLED, 5, reference.code), f"exit code {code}: {trial.said()}"
        assert "Traceback" not in trial.said(), trial.said()
    with mounted(trial, disk):
        for root in trial.roots():
            sealed_state((root / "state.json").read_bytes())
        if not trial.roots():
            assert not trial.lines(), "a program ran in a run of which nothing is left"
        code = go_on_until_over(trial, lane)
        if trial.shape is DERIVED and trial.lost():
            check_nothing_repeated(trial)  # its steps notice an earlier attempt
        else:
            check_same(reference, trial.left(code), trial.lost())
        return len(trial.lost())


def cut(trial: Trial, disk: Disk, moment: tuple[int, float], pid: int) -> None:
    lines, delay_s = moment
    if lines:
        await_lines(trial, lines)
    time.sleep(delay_s)
    # Nothing acts once the power is gone. Without this a sync that the shutdown meets half-way may
    # claim success, and its process go on for some milliseconds as none after a real cut can.
    for one in (pid, *keepers_in(trial.top)):
        kill(one, signal.SIGSTOP)
    disk.cut()
    kill(pid)
    kill_keeper_and_company(trial)


@contextmanager
def mounted(trial: Trial, disk: Disk) -> Iterator[None]:
    disk.mount()
    try:
        yield
    finally:
        end_all_in(trial.top)
        disk.unmount()


def main() -> None:
    top, shape, cuts, seed = Path(sys.argv[1]), SHAPES[sys.argv[2]], int(sys.argv[3]), sys.argv[4]
    # What we mount is nobody else's business.
    do("mount", "--make-rprivate", "/")
    check_that_cuts_take_something(top)
    chance = random.Random(seed)
    lane = Lane()
    whole = Trial(top / "whole", shape)
    code = whole.go_on(lane)
    reference = whole.left(code)
    faults: list[str] = []
    lost = 0
    for number in range(cuts):
        trial = Trial(top / str(number), shape)
        disk = Disk(top / "image", trial.workspace / ".orchestrate" / "runs")
        moment = (chance.randrange(len(reference.ledger)), chance.uniform(0.0, 0.04))
        try:
            lost += judge_cut(trial, disk, reference, moment, lane)
        except AssertionError as error:
            faults.append(f"cut {moment[1]:.3f} s after line {moment[0]}: {error}"[:1500])
        trial.remove()
    print(json.dumps({"cuts": cuts, "lost": lost, "faults": faults}))


if __name__ == "__main__":
    main()
