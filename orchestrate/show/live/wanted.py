"""Whether a run is shown live: only on a terminal that can, where nothing else was asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from orchestrate.errors import UsageError

if TYPE_CHECKING:
    from orchestrate.view.display_options import DisplayOptions

# Set by most services that run jobs without a person; some of them offer a terminal.
_CI = ("CI", "CONTINUOUS_INTEGRATION", "BUILD_ID", "TEAMCITY_VERSION", "TF_BUILD")
_NO = ("", "0", "false", "no")
_POOR = ("dumb", "unknown")


def is_live(
    display: DisplayOptions,
    flag: bool | None,
    configured: str | None,
    environment: Mapping[str, str] = os.environ,
) -> bool:
    """Is the view shown? A `--live` that cannot be is refused."""
    if flag is False or (flag is None and configured == "never"):
        return False
    why_not = _hindrance(display, environment)
    if flag and why_not:
        raise UsageError(f"--live: {why_not}")
    is_wanted = flag or configured == "always" or not _is_ci(environment)
    return is_wanted and not why_not


def _hindrance(display: DisplayOptions, environment: Mapping[str, str]) -> str:
    """Why there cannot be a view; '' if there can."""
    for flag, is_given in (
        ("--json", display.as_json),
        ("--events", display.events),
        ("--quiet", display.quiet),
        ("--verbose", display.verbose),
    ):
        if is_given:
            return f"{flag} asks for something else"
    return why_no_screen(environment)


def why_no_screen(environment: Mapping[str, str] = os.environ) -> str:
    """Why nothing can be drawn on stderr; '' if it can."""
    if sys.stderr is None or not sys.stderr.isatty():
        return "standard error is not a terminal"
    if environment.get("TERM", "") in ("", *_POOR):
        return "the terminal cannot move its cursor (TERM)"
    if not _is_in_front():
        return "the command runs in the background"
    return ""


def _is_in_front() -> bool:
    """Are we in the foreground of our terminal? Where there is no telling, we are."""
    try:
        return os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return True


def _is_ci(environment: Mapping[str, str]) -> bool:
    return any(environment.get(name, "").lower() not in _NO for name in _CI)
