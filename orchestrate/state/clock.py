"""The time of a run: the wall clock of its start, carried on by a clock that cannot be set.

The wall clock may jump by years while a run waits, rests or is not worked on. What a run measures
must not: how long a wait, a call or a retry's rest has taken, and whether a gate's time is up. The
kernel's clock since the boot is the same for every process, so it counts between them, too. It ends
with a reboot; then, and where the boot has no name (macOS), the wall clock is all there is.
"""

from __future__ import annotations

import functools
import time
from typing import Any

# The boot that it holds for, and what to add to the time since then.
Anchor = list[Any]


def drop_anchor() -> Anchor:
    """What the clock shows now, for the next process of the run."""
    return [_boot(), time.time() - since_boot()]


def holds(anchor: Anchor | None) -> bool:
    """Was it taken since the machine was started?"""
    return anchor is not None and bool(_boot()) and anchor[0] == _boot()


def zero_of(anchor: Anchor | None) -> float | None:
    """The moment of the machine's start by an anchor that holds; it does for as long as we run."""
    return float(anchor[1]) if anchor is not None and holds(anchor) else None


def now_by(anchor: Anchor | None) -> float:
    """The time of a run in seconds since 1970."""
    zero = zero_of(anchor)
    return time.time() if zero is None else zero + since_boot()


def since_boot() -> float:
    """Unlike `monotonic`, it goes on while the machine sleeps, as people's deadlines do."""
    return time.clock_gettime(_CLOCK)


_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@functools.cache
def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):  # pragma: no cover - other systems than Linux
        return ""
