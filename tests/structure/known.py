"""The offenders that are known: a list that may only become shorter.

`python -m tests.structure` drops the lines that no longer offend.
"""

from __future__ import annotations

from pathlib import Path

from tests.structure.rules import RATCHETED

_FILE = Path(__file__).with_name("known_offenders.txt")
_HEAD = "# Only ever shorter: `python -m tests.structure` drops what no longer offends.\n"


def today() -> set[str]:
    """One line per offender: `RULE: OFFENDER`."""
    return {f"{rule}: {offender}" for rule, find in RATCHETED.items() for offender in find()}


def known() -> set[str]:
    lines = _FILE.read_text("utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def write(offenders: set[str]) -> None:
    _FILE.write_text(_HEAD + "".join(f"{line}\n" for line in sorted(offenders)), "utf-8")
