"""What a checkpoint costs: of an unchanged tree of 10,000 files, and of 10 changed ones.

    python -m benchmarks.checkpoints

Processor time of this process and of the programs that it started, the least of several tries: on
a busy computer the clock says little.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from orchestrate.checkpoints.store import Store, open_store

# Milliseconds (issue 17).
UNCHANGED_MS, TEN_CHANGED_MS = 15.0, 40.0
_TRIES = 15
_WHO = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        place = _make(Path(folder) / "place")
        run = Path(folder) / "run"
        run.mkdir()
        store = open_store(run)
        if store is None:
            print("there is no git program")
            return 1
        first = _cost(store, place)
        store.complete()
        # An index of this very second is looked through twice.
        time.sleep(1.1)
        store.capture(place)
        unchanged = min(_cost(store, place) for _ in range(_TRIES))
        changed = []
        for number in range(_TRIES):
            for one in range(10):
                (place / f"d{one}" / "f1.txt").write_text(f"{number} {one}\n")
            changed.append(_cost(store, place))
        floor = min(_look_once(place) for _ in range(_TRIES))
        store.close()
    print(f"first, of 10,000 committed files   {first:6.1f} ms")
    print(f"unchanged                          {unchanged:6.1f} ms   (at most {UNCHANGED_MS:g})")
    print(
        f"10 changed files                   {min(changed):6.1f} ms   (at most {TEN_CHANGED_MS:g})"
    )
    print(
        f"git looking at each file once      {floor:6.1f} ms   "
        f"(unchanged is {unchanged / floor:.2f} of it)"
    )
    return 0 if unchanged <= UNCHANGED_MS and min(changed) <= TEN_CHANGED_MS else 1


def _make(place: Path) -> Path:
    for folder in range(500):
        (place / f"d{folder}").mkdir(parents=True)
        for file in range(20):
            (place / f"d{folder}" / f"f{file}.txt").write_text(f"{folder} {file}\n" * 20)
    for command in (("init", "-q"), ("add", "-A"), (*_WHO, "commit", "-q", "-m", "all")):
        subprocess.run(["git", *command], cwd=place, check=True)
    return place


def _look_once(place: Path) -> float:
    """What no checkpoint can go below on this computer: one `lstat` a file, and nothing else."""
    before = _cpu_s()
    look = ("git", "-c", "core.preloadIndex=false", "diff-files", "--quiet")
    subprocess.run(look, cwd=place, check=False)
    return (_cpu_s() - before) * 1000


def _cost(store: Store, place: Path) -> float:
    before = _cpu_s()
    store.capture(place)
    return (_cpu_s() - before) * 1000


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    sys.exit(main())
