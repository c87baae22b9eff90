"""Who is alive: the processes that belong to a folder, found without asking orchestrate."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_MEMORY = "/dev/shm"
_ROOM = 2_000_000_000


def alive() -> list[int]:
    """Every process but zombies, which are only waiting to be collected."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and is_alive(int(name))]


def is_alive(pid: int) -> bool:
    """Does a process still run? One that only waits to be collected does not."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        return file.readall().rpartition(b")")[2].split()[0] != b"Z"
    return False


def progress_of(pid: int) -> bytes:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
        return file.readall()
    return b""


def keepers_in(folder: Path) -> list[int]:
    """Keepers and their wardens: started with a run's folder as an argument."""
    start = os.fsencode(f"\0{folder}/")
    return [pid for pid in alive() if pid != os.getpid() and start in progress_of(pid)]


def programs_in(folder: Path) -> list[int]:
    """Whatever else works in the folder or below it: programs of steps and what they started."""
    keepers = keepers_in(folder)
    found = []
    for pid in alive():
        with suppress(OSError):
            where = Path(os.readlink(f"/proc/{pid}/cwd"))
            if where.is_relative_to(folder) and pid not in keepers and pid != os.getpid():
                found.append(pid)
    return found


@contextmanager
def watching_peaks(folder: Path) -> Iterator[dict[int, int]]:
    """The most memory, in KB, that each keeper had while the block ran; read until it ends."""
    peaks: dict[int, int] = {}
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.03):
            for pid in keepers_in(folder):
                with suppress(OSError):
                    status = Path(f"/proc/{pid}/status").read_text("utf-8")
                    if "VmHWM:" in status:
                        peaks[pid] = int(status.partition("VmHWM:")[2].split()[0])

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peaks
    finally:
        is_over.set()
        watcher.join()


def wait_until(is_so: Callable[[], object], otherwise: str, timeout_s: float = 60.0) -> None:
    give_up = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < give_up, otherwise
        time.sleep(0.005)


def await_ends(processes: Sequence[subprocess.Popen[str]], number: int) -> None:
    """Wait until so many of the processes have ended."""
    wait_until(
        lambda: sum(process.poll() is not None for process in processes) >= number,
        f"fewer than {number} have ended",
    )


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _left_in(folder: Path) -> list[int]:
    """The keepers and programs of a folder, in one pass: most tests end with this."""
    top, start = str(folder), os.fsencode(f"\0{folder}/")
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with suppress(OSError):
                if f"{os.readlink(f'/proc/{name}/cwd')}/".startswith(f"{top}/"):
                    found.append(int(name))
                    continue
            if start in progress_of(int(name)):
                found.append(int(name))
    return found


def end_all_in(folder: Path) -> None:
    """Kill what tests have left in their folder; by then they have judged it."""
    give_up = time.monotonic() + 10
    while (left := _left_in(folder)) and time.monotonic() < give_up:
        for pid in left:
            kill(pid)
        time.sleep(0.01)


def memory_with_room() -> str | None:
    """A place where no sync and no removal waits for a disk, if there is one for programs, too."""
    with suppress(OSError):
        found = os.statvfs(_MEMORY)
        has_room = found.f_bavail * found.f_frsize >= _ROOM
        if has_room and not found.f_flag & os.ST_NOEXEC and os.access(_MEMORY, os.W_OK | os.X_OK):
            return _MEMORY
    return None


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """A folder in memory where there is one; keepers that are left in it end with it."""
    memory = memory_with_room()
    with tempfile.TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as folder:
        try:
            yield Path(folder)
        finally:
            end_all_in(Path(folder))
