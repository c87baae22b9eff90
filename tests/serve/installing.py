"""Makes sure that there is a Chromium for the tests of the page: installs Debian's where it can.

The exit code says whether there is one; the reason why not is printed by name. So it is told where
npm cannot bring what judges the page beside it: axe-core and the checker of types.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.agents.installing import CannotInstall, install
from tests.serve.browser import program

_JUDGES = {"axe-core": "axe-core@4.14.0", "typescript": "typescript@7.0.2"}


def judges() -> Path | None:
    """The folder of npm's modules that judge the page; None, and a line that says why, if not."""
    try:
        return install(_JUDGES).parent
    except CannotInstall as error:
        print(f"tests/serve: axe-core and tsc are left out: {error}", file=sys.stderr)
        return None


def main() -> int:
    judges()
    if program() is not None:
        return 0
    if shutil.which("apt-get") is None:
        return _tell("there is no apt-get here to install it with")
    if os.geteuid() != 0:
        return _tell("only root can install it: apt-get install chromium")
    install_words = ["install", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
    done = _apt_get(*install_words)
    if done.returncode:  # a new machine's lists may be missing or old
        _apt_get("update")
        done = _apt_get(*install_words)
    if done.returncode or program() is None:
        said = (done.stderr or done.stdout).strip().splitlines()
        return _tell(f"apt-get could not install it: {said[-1] if said else 'no reason given'}")
    return 0


def _apt_get(*words: str) -> subprocess.CompletedProcess[str]:
    """Wait for another apt-get that is at work, as on a machine that has just started."""
    return subprocess.run(
        ["apt-get", "--quiet", "-o", "DPkg::Lock::Timeout=180", *words],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip


def _tell(why: str) -> int:
    print(f"tests/serve: Chromium is not installed: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
