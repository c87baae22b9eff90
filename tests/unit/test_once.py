"""A property that is worked out once for each object."""

from __future__ import annotations

from orchestrate.engine.once import once


class _Counted:
    def __init__(self, first: int) -> None:
        self.first = first
        self.calls = 0

    @once
    def doubled(self) -> int:
        """Twice the first."""
        self.calls += 1
        return 2 * self.first


def test_it_is_worked_out_once_for_each_object() -> None:
    one, other = _Counted(2), _Counted(5)
    assert (one.doubled, one.doubled, other.doubled) == (4, 4, 10)
    assert (one.calls, other.calls) == (1, 1)


def test_it_keeps_its_words() -> None:
    assert _Counted.__dict__["doubled"].__doc__ == "Twice the first."
