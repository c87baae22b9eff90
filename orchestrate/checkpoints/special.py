"""Finds what git says nothing of: pipes, sockets, devices, and folders that may not be read."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection

NO_FILE = "neither a file nor a link"


class Specials:
    """What there is of them below a folder; only folders that have changed are looked through."""

    def __init__(self, top: bytes, inside: bytes) -> None:
        self._top = top
        self._inside = inside
        self.forget()

    def forget(self) -> None:
        """Other paths may be ignored than before."""
        # Paths are relative to the top; folders end with a slash.
        self._seen: dict[bytes, int] = {self._inside: -1}
        # What is special in a folder, and why.
        self._within: dict[bytes, dict[bytes, str]] = {}
        self._passed_over: frozenset[bytes] = frozenset()

    def look(self, ignored: Callable[[], Collection[bytes]]) -> dict[bytes, str]:
        """All that there are, and what each is. `ignored` tells which folders are not to be looked
        into; it is asked only where there is one that is not known yet."""
        waiting = [folder for folder in self._seen if self._has_changed(folder)]
        while waiting:
            folder = waiting.pop()
            folders, self._within[folder] = self._look_into(folder)
            if not self._passed_over.issuperset(folders):
                self._passed_over = frozenset(ignored())
            for one in folders:
                if one not in self._passed_over:
                    self._seen[one] = -1
                    self._has_changed(one)
                    waiting.append(one)
        return {path: why for inside in self._within.values() for path, why in inside.items()}

    def _has_changed(self, folder: bytes) -> bool:
        """Is it otherwise than when this was asked last?"""
        try:
            stamp = os.stat(os.path.join(self._top, folder)).st_ctime_ns
        except OSError:
            stamp = -2
        before, self._seen[folder] = self._seen[folder], stamp
        return before != stamp

    def _look_into(self, folder: bytes) -> tuple[list[bytes], dict[bytes, str]]:
        """The folders in it that are not known, and what is special; no repository is entered."""
        folders: list[bytes] = []
        special: dict[bytes, str] = {}
        try:
            entries = os.scandir(os.path.join(self._top, folder))
        except PermissionError as error:
            return folders, {folder: f"cannot be read: {error.strerror}"}
        except OSError:  # it is gone by now
            return folders, special
        with entries:
            for entry in entries:
                path = folder + entry.name
                if entry.is_symlink() or entry.is_file() or entry.name == b".git":
                    continue
                if not entry.is_dir():
                    special[path] = NO_FILE
                elif path + b"/" not in self._seen and not _is_repository(entry.path):
                    folders.append(path + b"/")
        return folders, special


def _is_repository(folder: bytes) -> bool:
    return os.path.lexists(os.path.join(folder, b".git"))
