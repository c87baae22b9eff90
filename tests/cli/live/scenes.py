"""Workflows whose steps wait for a sign, so that a screen can be looked at."""

from __future__ import annotations

import json
from pathlib import Path

# A step that prints its words and then waits until a file is there.
UNTIL = "until [ -e {sign} ]; do sleep 0.02; done"


def command(name: str, *words: str, sign: str = "") -> str:
    """A step of a workflow that prints lines, and waits for a sign."""
    said = [f"echo '{word}'" for word in words]
    script = "; ".join([*said, UNTIL.format(sign=sign) if sign else "true"])
    return f"  - name: {name}\n    command: {json.dumps(['bash', '-c', script])}\n"


def workflow(*steps: str) -> str:
    return 'version: "1.1"\nname: demo\nsteps:\n' + "".join(steps)


def loop(name: str, items: int, *steps: str) -> str:
    body = "".join("      " + line + "\n" for step in steps for line in step.splitlines())
    listed = json.dumps([f"item {number}" for number in range(items)])
    return f"  - name: {name}\n    for_each:\n      items: {listed}\n      steps:\n{body}"


def give_sign(folder: Path, sign: str) -> None:
    (folder / sign).touch()
