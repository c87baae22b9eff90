"""A disk that is too small, seen by the commands of one test only, and enlarged on demand."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from orchestrate.testing import Result
from tests.promises.lanes import Before, Lane, Order

_HOLD = 'mount -t tmpfs -o "size=$2k" tmpfs "$1" && echo ready && exec sleep 600'


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
            own_users = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
            enter = ["nsenter", "-t", str(self._holder.pid), *own_users, "-m", "--"]
            subprocess.run([*enter, *room], check=True, capture_output=True)

    def orchestrate(
        self,
        cwd: Path,
        *arguments: str,
        env: Mapping[str, str],
        file_limit: int = 0,
        before: Before = lambda _: None,
    ) -> Result:
        """A command that sees the disk; `before` does something to its process."""
        if self._holder is None and self._kib is not None:
            file_limit = self._kib * 1024
        out, err = (self.folder.parent / f"said-{name}" for name in ("stdout", "stderr"))
        for path in (out, err):
            path.unlink(missing_ok=True)
        order = Order(
            arguments, cwd, out, err, env={**os.environ, "NO_COLOR": "1", **env},
            mounts_of=self._holder.pid if self._holder else 0, file_limit=file_limit,
        )  # fmt: skip
        code = Lane().run(order, before)
        return Result(arguments, code, out.read_text("utf-8"), err.read_text("utf-8"))


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
