"""The results of a loop's items, by position, as JSON: only people read them again.

As bytes they are small, and written at once. Those of a file stay one piece of it until one of them
is wanted: there may be very many, and hardly any reader wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping


class ItemResults:
    """What is done; a position that is not in it has not begun, or is at work."""

    __slots__ = ("_length", "_read", "_results")

    def __init__(self, length: int = 0, read: Callable[[], dict[int, bytes]] | None = None) -> None:
        """So many results that `read` gives when one of them is wanted."""
        self._results: dict[int, bytes] = {}
        self._length = length
        self._read = read

    def _all(self) -> dict[int, bytes]:
        read, self._read = self._read, None
        if read is not None:
            self._results = read()
        return self._results

    def by_position(self) -> Mapping[int, bytes]:
        """All of them; not to be changed."""
        return self._all()

    def __getitem__(self, position: int) -> bytes:
        return self._all()[position]

    def __setitem__(self, position: int, result: bytes) -> None:
        self._all()[position] = result

    def __contains__(self, position: int) -> bool:
        return position in self._all()

    def __iter__(self) -> Iterator[int]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._results) if self._read is None else self._length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ItemResults) and self._all() == other._all()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ItemResults({self._all()!r})"
