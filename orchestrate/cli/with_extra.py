"""Functions that speak to a server: loaded when they are called, and only if the extra is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrate.cli.later import later
from orchestrate.fleet.extra import require_extra


def with_extra(body: str) -> Callable[..., Any]:
    """As `later`; without the extra it is refused before anything of it is imported."""
    call = later(body)

    def checked(*given: Any, **named: Any) -> Any:
        require_extra()
        return call(*given, **named)

    return checked
