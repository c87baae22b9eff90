"""Finds pipes, sockets and devices: git does not see them, and nothing of them could be kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from contextlib import suppress


class Specials:
    """What there is of them below a folder; only folders that have changed are looked through."""

    def __init__(self, top: bytes, inside: bytes) -> None:
        self._top = top
        # Paths are relative to the top; folders end with a slash.
        self._seen: dict[bytes, int] = {inside: -1}
        self._known: set[bytes] = set()

    def new(self, ignored: Callable[[], Collection[bytes]]) -> list[bytes]:
        """Those that were not there before. `ignored` tells what is not to be looked at; it is
        asked only where there is a folder or special file that is not known yet."""
        waiting = [folder for folder in self._seen if self._has_changed(folder)]
        passed_over: Collection[bytes] | None = None
        found = []
        while waiting:
            folders, special = self._look_into(waiting.pop())
            if (folders or special) and passed_over is None:
                passed_over = ignored()
            for folder in folders:
                if folder not in (passed_over or ()):
                    self._seen[folder] = -1
                    self._has_changed(folder)
                    waiting.append(folder)
            found += [path for path in special if path not in (passed_over or ())]
        self._known |= {*found}
        return found

    def _has_changed(self, folder: bytes) -> bool:
        """Is it otherwise than when this was asked last?"""
        try:
            stamp = os.stat(os.path.join(self._top, folder)).st_mtime_ns
        except OSError:
            stamp = -2
        before, self._seen[folder] = self._seen[folder], stamp
        return before != stamp

    def _look_into(self, folder: bytes) -> tuple[list[bytes], list[bytes]]:
        """The folders and special files in it that are not known; no repository is entered."""
        folders: list[bytes] = []
        special: list[bytes] = []
        # It may be gone by now, or not be ours to read.
        with suppress(OSError), os.scandir(os.path.join(self._top, folder)) as entries:
            for entry in entries:
                path = folder + entry.name
                if entry.is_symlink() or entry.is_file() or entry.name == b".git":
                    continue
                if not entry.is_dir():
                    special += [path] if path not in self._known else []
                elif path + b"/" not in self._seen and not _is_repository(entry.path):
                    folders.append(path + b"/")
        return folders, special


def _is_repository(folder: bytes) -> bool:
    return os.path.lexists(os.path.join(folder, b".git"))
