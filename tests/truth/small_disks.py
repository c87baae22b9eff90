"""A disk that is too small, seen by the commands of one test only, and enlarged on demand."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from orchestrate.testing import Result

_HOLD = 'mount -t tmpfs -o "size=$2k" tmpfs "$1" && echo ready && exec sleep 600'
_GO_TO = 'cd "$1" && shift && exec "$@"'
_LIMIT = (
    "import os, resource, sys\n"
    "hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), hard))\n"
    "os.execvp(sys.argv[2], sys.argv[2:])"
)


def limited(size: int) -> list[str]:
    """A prefix of commands that may write no file beyond a size, as by `ulimit -f`."""
    return [sys.executable, "-c", _LIMIT, str(size)]


class SmallDisk:
    """A folder with room for so many KiB, for commands that are run through it.

    It is a mount in a name space of its own. Where none can be made, no file may grow beyond the
    size instead: then what fails says EFBIG, not ENOSPC.
    """

    def __init__(self, folder: Path, kib: int, holder: subprocess.Popen[str] | None) -> None:
        self.folder = folder
        self._kib: int | None = kib
        self._holder = holder

    @property
    def inside(self) -> Path:
        """The folder as this process sees it."""
        if self._holder is None:
            return self.folder
        return Path(f"/proc/{self._holder.pid}/root{self.folder}")

    @property
    def error(self) -> str:
        return "ENOSPC" if self._holder is not None else "EFBIG"

    def enlarge(self) -> None:
        """Let there be room enough."""
        self._kib = None
        if self._holder is not None:
            room = ["mount", "-o", "remount,size=200m", str(self.folder)]
            subprocess.run([*self._enter(), *room], check=True, capture_output=True)

    def orchestrate(
        self, cwd: Path, *arguments: str, env: Mapping[str, str], prefix: list[str] | None = None
    ) -> Result:
        """The real command, run where the disk can be seen."""
        before = self._enter() if self._holder is not None else []
        if self._holder is None and self._kib is not None:
            before = limited(self._kib * 1024)
        go_to = ["sh", "-c", _GO_TO, "sh", str(cwd)]
        words = [sys.executable, "-m", "orchestrate", *arguments]
        done = subprocess.run(
            [*before, *go_to, *(prefix or []), *words],
            env={**os.environ, "NO_COLOR": "1", **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Result(arguments, done.returncode, done.stdout, done.stderr)

    def _enter(self) -> list[str]:
        assert self._holder is not None
        own_users = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        return ["nsenter", "-t", str(self._holder.pid), *own_users, "-m", "--"]


@contextmanager
def small_disk(folder: Path, kib: int) -> Iterator[SmallDisk]:
    """Mount it over a folder that is there; it is gone with the last process that uses it."""
    kind = "-m" if os.geteuid() == 0 else "-rm"
    words = ["unshare", kind, "sh", "-c", _HOLD, "sh", str(folder), str(kib)]
    try:
        holder = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
    except FileNotFoundError:
        yield SmallDisk(folder, kib, None)
        return
    try:
        assert holder.stdout is not None
        is_ready = holder.stdout.readline() == "ready\n"
        yield SmallDisk(folder, kib, holder if is_ready else None)
    finally:
        holder.kill()
        holder.communicate()
