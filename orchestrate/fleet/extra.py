"""What the extra `orchestrate[fleet]` brings, or how to get it."""

from __future__ import annotations

from importlib.util import find_spec

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
