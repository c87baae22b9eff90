"""A link that leads here and there while the test looks, flipped by a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from orchestrate.engine.confine import PathFault

# There is no moment in which the link is not there. It ends by itself if nobody ends it.
FLIP = """
import os, sys, time
link, *targets = sys.argv[1:]
end = time.monotonic() + 30
while time.monotonic() < end:
    for target in targets:
        os.symlink(target, link + ".spare")
        os.replace(link + ".spare", link)
"""
REFUSED = "refused"


def race(
    link: Path, targets: list[str], attempt: Callable[[], str], expected: set[str]
) -> set[str]:
    """What an attempt comes to: for a second, or until all that is expected was seen."""
    flipper = subprocess.Popen([sys.executable, "-S", "-c", FLIP, str(link), *targets])
    outcomes: set[str] = set()
    started = time.monotonic()
    try:
        while (passed := time.monotonic() - started) < 1 or (
            not expected <= outcomes and passed < 10
        ):
            try:
                outcomes.add(attempt())
            except PathFault as fault:
                is_refusal = "out of the workspace" in fault.message
                outcomes.add(REFUSED if is_refusal else fault.message)
    finally:
        flipper.kill()
        flipper.wait()
    return outcomes
