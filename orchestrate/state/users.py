"""Whose decision it is that a run records."""

from __future__ import annotations

import os
from collections.abc import Mapping


def user_name(environment: Mapping[str, str]) -> str:
    """The user's name. Services and containers may have no USER, but the system knows the account.

    An account without a name is shown by its number.
    """
    named = environment.get("USER") or environment.get("LOGNAME")
    if named:
        return named
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"
