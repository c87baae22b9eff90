"""The scope of values that were written as constants."""

from __future__ import annotations

from typing import Any


class NoScope:
    """Nothing can be looked up: a context and an agent's settings are constants."""

    def look_up(self, path: tuple[str, ...]) -> Any:
        raise AssertionError(f"a constant cannot refer to {path}")
