"""Black-box tests give commands in a workspace of their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from orchestrate.testing import Project, Result

ROOT = Path(__file__).resolve().parents[2]


def start(project: Project, command: list[str], env: Mapping[str, str] | None = None) -> Result:
    """Any program in a project's folder, for what only a process can show."""
    done = subprocess.run(
        command,
        cwd=project.folder,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return Result(tuple(command), done.returncode, done.stdout.decode(), done.stderr.decode())


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
