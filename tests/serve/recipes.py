"""Recipes for a console to show and start: a command, a gate, a loop, a machine."""

from __future__ import annotations

from orchestrate.testing import Project

HELLO = """
version: "1.4"
name: hello
inputs:
  who: {type: string, default: world, description: "Who is greeted"}
steps:
  - name: Greet
    command: ["printf", "hello %s\\n\\u001b[31mred\\u001b[0m <b>bold</b>\\n", "${context.who}"]
  - name: Count
    command: ["seq", "1", "30"]
"""
GATE = """
id: gate
label: Ask first
description: Asks a person, then ends.
initialStep: ask
steps:
  ask:
    approval: {prompt: "Ship <b>it</b>?", timeout: 24h}
    onOutcome:
      approved: {nextStep: say}
      denied: {action: exit, reason: denied}
  say:
    command: ["printf", "shipped"]
    onOutcome:
      passed: {action: exit, reason: shipped}
      failed: {action: exit, reason: not-shipped, status: failed}
"""
SLEEP = """
version: "1.4"
name: nap
steps:
  - name: Nap
    command: ["sh", "-c", "echo begun; exec sleep 60"]
"""
LOOK = """
id: look
label: Look at it
description: Looks, then looks again.
initialStep: look
steps:
  look:
    prompt: Look.
    outcomes: [complete, other]
    onOutcome:
      complete: {nextStep: again}
      other: {action: exit, reason: user-provided-other}
  again:
    prompt: Look again.
    outcomes: [no-issues, other]
    onOutcome:
      no-issues: {action: exit, reason: no-issues}
      other: {action: exit, reason: user-provided-other}
"""


def with_recipes(project: Project) -> Project:
    for name, text in (("hello", HELLO), ("gate", GATE), ("nap", SLEEP), ("look", LOOK)):
        project.write(f"workflows/{name}.yaml", text)
    return project
