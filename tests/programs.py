"""Fake programs: little shell scripts that start Python only when there is something to be done."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

_LEAN = Path(__file__).with_name("lean.py")


def put_program(path: Path, script: Path, *words: str, version: str = "") -> None:
    """A program at a path, which is a script in Python; asked for its version it answers itself."""
    lines = ["#!/bin/sh"]
    if version:
        lines.append(f'[ "$*" = --version ] && echo {shlex.quote(version)} && exit')
    start = (sys.executable, "-I", "-S", str(_LEAN), str(script), *words)
    lines.append(f'exec {shlex.join(start)} "$@"')
    path.write_text("\n".join(lines) + "\n", "utf-8")
    path.chmod(0o755)
