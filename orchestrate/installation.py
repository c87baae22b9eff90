"""Whether the program is still the one that was started: it may be upgraded or removed meanwhile.

Much is imported only when it is needed. What is imported after an upgrade may be missing, or not
fit to what is loaded, and fail in any way; that is not a bug, and the next command is whole again.
"""

from __future__ import annotations

import os
import sys
import time

from orchestrate.errors import ConfigError, UpgradedError

_STARTED_AT = time.time()


def was_replaced() -> bool:
    """Has a file of a loaded module been removed, or written anew, since we started?

    Asked only when something has failed: it looks at each of them. The time of a change is taken,
    because some installers set the time of writing to that of the release.
    """
    places = _installed_in()
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or not path.startswith(places):
            continue
        try:
            if os.stat(path).st_ctime > _STARTED_AT:
                return True
        except FileNotFoundError:
            return True
        except OSError:
            continue  # inside an archive, or not ours to see
    return False


def _installed_in() -> tuple[str, ...]:
    """Where we, the packages that we need and Python are: the modules of a program that uses us
    are its own affair."""
    import sysconfig

    paths = sysconfig.get_paths()
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    found = {ours, *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
    return tuple(os.path.join(place, "") for place in found)


def replacement_of(error: BaseException, run_id: str = "") -> ConfigError | None:
    """The error to tell where another one came of a replaced installation; None if it did not."""
    if not isinstance(error, ImportError) and not was_replaced():
        return None
    what = "this run was going" if run_id else "this command was at work"
    then = f"orchestrate resume {run_id}" if run_id else "run the command again"
    return UpgradedError(
        f"orchestrate, or a package that it needs, was upgraded or removed while {what} "
        f"({type(error).__name__}: {str(error)[:200]})",
        f"nothing recorded is lost; make sure that it is installed, and resume with: {then}"
        if run_id
        else f"make sure that it is installed, then {then}",
    )
