"""`run FILE`, `resume [RUN]` and `status [RUN]` with no more than switches, as most are given.

These need no click, which takes longer to load than a quick step (ADR 0006). Any other line is
click's, and what both can read both read alike (`tests/cli/test_plain_line.py`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from orchestrate.app.given.settings import FLAGS, FLAGS_OF, RunSettings
from orchestrate.cli.later import later
from orchestrate.view.place import Place

_run_recipe = later("cli.starting:run_recipe")
_resume_run = later("cli.resuming:resume_run")
_show_status = later("cli.status_answer:show_status")

# How many names a command takes, least and most.
_NAMES = {"run": (1, 2), "resume": (0, 1), "status": (0, 1)}
# Its option does more than to set a field.
_NOT_PLAIN = "raw"


def carry_out_plainly(arguments: Sequence[str], settings: dict[str, Any]) -> int | None:
    """The exit code; None if the line is not plain, and nothing was done."""
    read = _read(arguments)
    if read is None:
        return None
    command, names, switches = read
    as_json = settings["json"] = "json" in switches
    place = Place(None, None)
    if command == "status":
        run = names[0] if names else "latest"
        return _show_status(None, run, place, watches=False, as_json=as_json)
    flags: dict[str, Any] = dict.fromkeys(switches - {"json"}, True)
    given = RunSettings(**flags)
    if command == "run":
        text = names[1] if len(names) > 1 else None
        return _run_recipe(names[0], given, place, text=text, as_json=as_json)
    return _resume_run(names[0] if names else None, given, place, as_json=as_json)


def _read(arguments: Sequence[str]) -> tuple[str, list[str], set[str]] | None:
    """The command, its names and its switches."""
    command, words = arguments[0], arguments[1:]
    least, most = _NAMES[command]
    names = [word for word in words if not word.startswith("-")]
    known = {"--json": "json"}
    groups = FLAGS_OF.get(command, ())
    for row in (row for row in FLAGS.values() if row.group in groups):
        if row.variable and row.variable in os.environ:
            return None
        if row.kind == "switch" and row.name != _NOT_PLAIN:
            known[row.option] = row.name
    switches = [word for word in words if word.startswith("-")]
    # An empty name is click's to refuse, and to tell from one that was left out.
    if "" in names or not least <= len(names) <= most or not known.keys() >= set(switches):
        return None
    return command, names, {known[word] for word in switches}
