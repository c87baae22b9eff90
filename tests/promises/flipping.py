"""A link that leads into the workspace and out of it by turns, while a run uses it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# There is no moment in which the link is missing. It ends by itself if nobody ends it.
_FLIP = """
import os, sys, time
link, *targets = sys.argv[1:]
end = time.monotonic() + 60
if os.path.lexists(link + ".spare"):
    os.unlink(link + ".spare")  # of one that was killed
while time.monotonic() < end:
    for target in targets:
        os.symlink(target, link + ".spare")
        os.replace(link + ".spare", link)
        time.sleep(0.0003)
"""


@contextmanager
def flipping(link: Path, inside: str, outside: str) -> Iterator[None]:
    flipper = subprocess.Popen([sys.executable, "-S", "-c", _FLIP, str(link), inside, outside])
    try:
        yield
        assert flipper.poll() is None, "nothing was flipped any more"
    finally:
        flipper.kill()
        flipper.wait()
