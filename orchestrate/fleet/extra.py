"""What the extra `orchestrate[fleet]` brings, loaded when it is needed, or how to get it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from orchestrate.errors import ConfigError

_NEEDS = ("temporalio", "cryptography")


def require_extra() -> None:
    """Refuse, before anything is started, where the extra is not installed."""
    missing = [name for name in _NEEDS if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"a Temporal server needs the extra orchestrate[fleet]: {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not installed",
            "pip install 'orchestrate[fleet]'",
        )


def with_extra(body: str) -> Callable[..., Any]:
    """A function of `fleet`, as `module:name`, that speaks to a server.

    Its module is loaded when it is called, which takes most of a second; without the extra it is
    refused before that.
    """

    def call(*given: Any, **named: Any) -> Any:
        require_extra()
        module, _, name = body.partition(":")
        return getattr(import_module(f"orchestrate.fleet.{module}"), name)(*given, **named)

    return call
