"""Runs in the three dialects whose steps write into a ledger, which is the judge of what ran."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orchestrate.testing import Result
from tests.acceptance.fakes import Stage

# Answers with an outcome, as a machine wants it; who is asked is written down first. A file
# `fail-NAME` makes the answer a failure.
_CLAUDE = """
import os, re
def answer(prompt):
    name = re.findall(r"STEP:([A-Za-z0-9_-]+)", prompt)[-1]
    with open("ledger", "a") as ledger:
        ledger.write(name + "\\n")
    if os.path.exists("fail-" + name):
        sys.exit("no")
    return "did " + name + '\\n{"outcome": "done"}'
"""
_GIVE_UP = "other: {action: exit, reason: gave up, status: failed}"
HELPER = "---\nname: helper\ndescription: Helps\n---\nHelp.\n"


class Ledger(Stage):
    """A workspace whose runs are edited."""

    def __init__(self, top: Path) -> None:
        super().__init__(top, {".orchestrate/agents/helper.md": HELPER})
        self.claude(_CLAUDE)

    def ran(self) -> list[str]:
        """What has run since the last time this was asked."""
        ledger = self.folder / "ledger"
        words = ledger.read_text("utf-8").split() if ledger.exists() else []
        ledger.write_text("", "utf-8")
        return words

    def resume(self, *flags: str, exit_code: int = 0) -> Result:
        return self.run("resume", "latest", *flags).assert_exit(exit_code)

    def edit(self, old: str, new: str, name: str = "w.yaml") -> None:
        path = self.folder / name
        text = path.read_text("utf-8")
        assert old in text, f"{old!r} is not in {name}"
        path.write_text(text.replace(old, new, 1), "utf-8")

    def touch(self, name: str) -> None:
        (self.folder / name).write_text("", "utf-8")

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            (self.runs_folder / "latest" / "state.json").read_text("utf-8")
        )
        return found


def command(name: str, more: str = "", fields: str = "") -> str:
    """A workflow's step that writes its name down; `fail-NAME` makes it fail."""
    script = f"echo {name} >> ledger; {more or 'true'}; test ! -e fail-{name}"
    return f'  - {{name: {name}, command: ["sh", "-c", "{script}"]{fields}}}\n'


def workflow(*steps: str, head: str = "") -> str:
    return f'version: "1.4"\nname: trial\n{head}steps:\n' + "".join(steps)


def machine(*names: str, more: str = "") -> str:
    steps = ""
    for name, then in zip(names, (*names[1:], ""), strict=True):
        way = f"{{nextStep: {then}}}" if then else "{action: exit, reason: all done}"
        steps += f"  {name}: {{outcomes: [done, other], onOutcome: {{done: {way}, {_GIVE_UP}}}, "
        steps += f'prompt: "STEP:{name} do it"}}\n'
    return (
        f"id: trial\nlabel: Trial\ndescription: d\ninitialStep: {names[0]}\n{more}steps:\n{steps}"
    )


def recipe(*steps: str, head: str = "") -> str:
    return f"name: trial\ndescription: d\nversion: 1.0.0\n{head}steps:\n" + "".join(steps)


def asks(name: str, more: str = "", fields: str = "") -> str:
    return f'  - {{id: {name}, agent: helper, prompt: "STEP:{name} {more}"{fields}}}\n'
