"""Black-box tests start the real command in a real process, in a workspace of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Outcome:
    """What the command said and how it ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Project:
    """A folder with files, and the command to run in it."""

    folder: Path

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def run(self, *arguments: str, **environment: str) -> Outcome:
        return self.start([sys.executable, "-m", "orchestrate", *arguments], **environment)

    def start(self, command: list[str], **environment: str) -> Outcome:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


MACHINE = """\
id: tidy
label: Tidy Up
description: Clean the code and check it
initialStep: clean
steps:
  clean:
    prompt: Clean the code.
    outcomes: [complete, other]
    onOutcome:
      complete: {nextStep: check}
      other: {action: exit, reason: user-provided-other}
  check:
    prompt: |
      Check it.
      All of it.
    model: haiku
    outcomes: [good, bad, again, other]
    onOutcome:
      good: {action: exit, reason: all-good}
      bad: {nextStep: clean}
      again: {action: restart-new-session, recipeId: tidy}
      other: {action: exit, reason: user-provided-other}
"""

RECIPE = """\
name: look-twice
description: Look at a file twice
version: 1.0.0
context:
  target: src
  depth: 2
stages:
  - name: first
    steps:
      - id: look
        agent: reader
        prompt: Look at {{target}}.
        output: notes
    approval:
      required: true
      prompt: Go on with {{target}}?
      timeout: 60
  - name: second
    steps:
      - id: again
        agent: reader
        prompt: Again, {{item}}.
        foreach: "{{notes}}"
        collect: more
        parallel: true
"""

WORKFLOW = """\
# yaml-language-server: $schema=whatever
# Counts words. Then it stops.
version: "1.1"
name: words
context:
  who: world
steps:
  - name: List
    command: [ls]
    output_capture: lines
  - name: Count
    for_each:
      items_from: steps.List.lines
      steps:
        - name: Words
          command: [sh, -c, 'wc -w < "${item}"']
        - name: Ask
          provider: claude
          input_file: prompts/ask.md
    on:
      failure: {goto: Done}
  - name: Await
    wait_for: {glob: "out/*.txt", timeout_sec: 9}
  - name: Done
    command: [echo, "hello ${context.who}"]
"""

MISTAKE = MACHINE.replace("nextStep: check", "nextStep: chek")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A workspace with a recipe of each dialect and one mistake."""
    made = Project(tmp_path)
    made.write("workflows/tidy.yaml", MACHINE)
    made.write("workflows/look.yaml", RECIPE)
    made.write("workflows/words.yaml", WORKFLOW)
    made.write("broken/tidy.yaml", MISTAKE)
    made.write("prompts/ask.md", "Why?\n")
    made.write(".orchestrate/agents/reader.md", "---\nname: reader\n---\nYou read.\n")
    return made
