"""Reads contents from the store, one after another from the same program."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from orchestrate.checkpoints.model import CheckpointError, id_of
from orchestrate.checkpoints.store import Store


class Blobs:
    """The contents of files, by their objects."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> Self:
        self._process = self._store.read_many()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def read(self, oid: str) -> bytes:
        """The content of a file; git checks that it is what its name says."""
        header = self._ask("contents", oid)
        if len(header) != 3:
            raise self._missing(oid)
        source = self._process.stdout
        assert source is not None
        size = int(header[2])
        content = source.read(size)
        source.read(1)
        if len(content) != size or id_of(content, len(oid)) != oid:
            raise self._missing(oid)
        return content

    def require(self, oids: Iterable[str]) -> None:
        """Refuse now what could not be read later."""
        for oid in dict.fromkeys(oids):
            if len(self._ask("info", oid)) != 3:
                raise self._missing(oid)

    def _ask(self, command: str, oid: str) -> list[bytes]:
        target, source = self._process.stdin, self._process.stdout
        assert target is not None
        assert source is not None
        try:
            target.write(f"{command} {oid}\n".encode())
            target.flush()
        except BrokenPipeError:
            raise self._missing(oid) from None
        return source.readline().split()

    def _missing(self, oid: str) -> CheckpointError:
        return CheckpointError(f"the checkpoint is damaged: {oid} is missing in the store")
