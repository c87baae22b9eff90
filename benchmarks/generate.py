"""Writes a workspace with valid definitions of any size, in each dialect, as an author would.

The steps repeat a pattern that uses most of a dialect, so that no stage of the compiler is idle.
They are written as text and not dumped, because block texts, flow lists and comments are part of
what reading costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

AGENTS = ("explorer", "implementer", "reviewer", "writer")

# How many steps one turn of each dialect's pattern has.
PATTERN = {"workflow": 10, "recipe": 10, "machine": 5}


def write_workspace(
    folder: Path, sizes: Mapping[str, Sequence[int]]
) -> dict[tuple[str, int], Path]:
    """Create the definitions asked for, per dialect, and what they refer to."""
    agents = folder / ".orchestrate" / "agents"
    agents.mkdir(parents=True)
    for name in AGENTS:
        (agents / f"{name}.md").write_text(
            f"---\nname: {name}\ndescription: Works as the {name}.\n---\nYou are the {name}.\n"
        )
    written = {}
    for dialect, counts in sizes.items():
        for count in counts:
            path = folder / f"{dialect}-{count}.yaml"
            path.write_text(definition(dialect, count))
            written[dialect, count] = path
    return written


def definition(dialect: str, steps: int) -> str:
    """The text of a definition with so many steps, which must be whole turns of the pattern."""
    turns, rest = divmod(steps, PATTERN[dialect])
    if rest or not turns:
        raise ValueError(f"a {dialect} has a multiple of {PATTERN[dialect]} steps, not {steps}")
    make = {"workflow": workflow, "recipe": recipe, "machine": machine}[dialect]
    return make(turns)


def workflow(turns: int) -> str:
    """Dialect C: commands, scripts, a loop, an agent, a branch and a wait in each turn."""
    return _WORKFLOW + "".join(_WORKFLOW_TURN.replace("@", str(turn)) for turn in range(turns))


def recipe(turns: int) -> str:
    """Dialect B: one stage of ten steps for each turn, with an approval between the stages."""
    return _RECIPE + "".join(_RECIPE_TURN.replace("@", str(turn)) for turn in range(turns))


def machine(turns: int) -> str:
    """Dialect A: each turn implements, tests, reviews, repairs and commits, then goes on."""
    text = _MACHINE
    for turn in range(turns):
        last = turn == turns - 1
        onward = (
            "{action: exit, reason: all-done}" if last else f"{{nextStep: implement-{turn + 1}}}"
        )
        text += _MACHINE_TURN.replace("@next", onward).replace("@", str(turn))
    return text


_WORKFLOW = """\
# A generated workflow.
version: "1.1.1"
name: generated
strict_flow: true

context:
  pattern: "*.md"
  limit: 5

providers:
  claude:
    command: ["claude", "-p", "${PROMPT}", "--model", "${model}"]
    defaults:
      model: sonnet

steps:
"""

_WORKFLOW_TURN = """\
  # Turn @
  - name: Prepare@
    command: ["mkdir", "-p", "artifacts/turn@", "inbox/turn@"]

  - name: List@
    command:
      - sh
      - -c
      - |
        find . -type f -name ${context.pattern} -print |
          sed 's,^\\./,,' | LC_ALL=C sort | head -n ${context.limit}
    output_capture: lines
    timeout_sec: 60

  - name: Each@
    for_each:
      items_from: steps.List@.lines
      as: file
      steps:
        - name: Measure
          command:
            - sh
            - -c
            - |
              lines=$(wc -l < ${file})
              if [ "$lines" -ge 100 ]; then long=true; else long=false; fi
              printf '{"lines": %d, "long": %s}\\n' "$lines" "$long"
          output_capture: json

        - name: Row
          when:
            equals:
              left: "${steps.Measure.json.long}"
              right: "true"
          command: ["printf", "| %s | %d |", "${file}", "${steps.Measure.json.lines}"]
          output_file: "artifacts/turn@/row_${loop.index}.md"

  - name: Ask@
    agent: engineer
    provider: claude
    provider_params:
      model: opus
    input_file: prompts/turn@.md
    output_file: artifacts/turn@/log.md
    timeout_sec: 3600
    retries:
      max: 2
      delay_ms: 500
    depends_on:
      required:
        - docs/design.md
        - "artifacts/turn@/row_*.md"
      optional:
        - docs/coding_standards.md
      inject:
        mode: list
        instruction: "Your task, and the documents that it has to follow:"

  - name: Check@
    command: ["test", "-s", "artifacts/turn@/log.md"]
    on:
      success: {goto: Publish@}
      failure: {goto: Repair@}

  - name: Repair@
    command: ["cp", "artifacts/turn@/draft.md", "artifacts/turn@/log.md"]
    env:
      LANG: C.UTF-8

  - name: Publish@
    command: ["sh", "-c", "printf 'run %s\\n' ${run.id} > artifacts/turn@/published"]

  - name: Wait@
    wait_for:
      glob: "inbox/turn@/*.task"
      timeout_sec: 1800
      poll_ms: 500
      min_count: 1

"""

_RECIPE = """\
# A generated recipe.
name: generated
description: Explores, implements, reviews and reports, stage after stage
version: "1.0.0"
author: orchestrate contributors
tags: [generated, benchmark]

context:
  target: src
  auto_fix: "false"

stages:
"""

_RECIPE_TURN = (
    """\
  - name: "stage-@"
    approval:
      required: true
      prompt: "Is stage @ of {{target}} done?"
      timeout: 86400
      default: deny
    steps:
      - id: explore-@
        agent: explorer
        prompt: |
          Read {{target}} and list the modules that stage @ has to touch. Do not change anything.
          Answer with a JSON list of paths.
        output: modules_@
        timeout: 1800

"""
    + "".join(
        f"""\
      - id: analyze-{part}-@
        agent: reviewer
        mode: REVIEW
        prompt: |
          Review {{{{target}}}} for faults of kind {part}. Read the code and its callers.

          Answer with one JSON object and nothing else:
          - "severity": the worst fault found, one of "critical", "high", "low" or "none"
          - "issues": a list of sentences, each with file and line
          The modules are: {{{{modules_@}}}}
        output: analysis_{part}_@
        timeout: 1800
        retry:
          max_attempts: 2
          backoff: exponential
          initial_delay: 10

      - id: repair-{part}-@
        condition: "{{{{analysis_{part}_@.severity}}}} == 'critical' and {{{{auto_fix}}}} == 'true'"
        agent: implementer
        prompt: |
          Repair the critical faults in this list, and only those. Add a test for each.

          {{{{analysis_{part}_@.issues}}}}
        output: repairs_{part}_@
        depends_on: [analyze-{part}-@]
        on_error: continue

"""
        for part in "abc"
    )
    + """\
      - id: each-module-@
        foreach: "{{modules_@}}"
        as: module
        collect: notes_@
        max_iterations: 50
        parallel: true
        agent: explorer
        prompt: "Describe {{module}} of {{target}} in one paragraph."

      - id: summarize-@
        agent: writer
        prompt: |
          Write a summary of stage @ in Markdown.

          Notes: {{notes_@}}
          Findings: {{analysis_a_@.issues}} {{analysis_b_@.issues}} {{analysis_c_@.issues}}
          Repairs: {{repairs_a_@?}} {{repairs_b_@?}} {{repairs_c_@?}}
        output: summary_@
        agent_config:
          temperature: 0.2

      - id: report-@
        agent: writer
        prompt: |
          Turn the summary into a report for {{recipe.name}}, session {{session.id}}.

          {{summary_@}}
        output: report_@

"""
)

_MACHINE = """\
# A generated machine.
id: generated
label: Generated
description: Implements, tests, reviews, repairs and commits, one part after the other
initialStep: implement-0

guardrails:
  maxStepVisits: 3
  maxTotalSteps: 5000
  exitOnOther: true

steps:
"""

_MACHINE_TURN = """\
  # Part @
  implement-@:
    prompt: |
      Implement part @ of the design in docs/design.md. Read the code around it first, keep the
      change small, and write a test for each behaviour that you add.

      Say `complete` when the tests pass and `blocked` when something is missing.
    outcomes: [complete, blocked, other]
    onOutcome:
      complete: {nextStep: test-@}
      blocked: {action: exit, reason: blocked}
      other: {action: exit, reason: user-provided-other}

  test-@:
    prompt: |
      Run the tests of part @ and everything that depends on it.
    model: haiku
    outcomes: [passed, failed, other]
    onOutcome:
      passed: {nextStep: review-@}
      failed: {nextStep: fix-@}
      other: {action: exit, reason: user-provided-other}

  review-@:
    prompt: |
      Review the change of part @ as a colleague would: correctness, names, tests, documents.
      List each finding with its file and line.
    model: opus
    outcomes: [no-issues, issues-found, other]
    onOutcome:
      no-issues: {nextStep: commit-@}
      issues-found: {nextStep: fix-@}
      other: {action: exit, reason: user-provided-other}

  fix-@:
    prompt: |
      Repair what the review or the tests of part @ found, and nothing else.
    outcomes: [complete, other]
    onOutcome:
      complete: {nextStep: test-@}
      other: {action: exit, reason: user-provided-other}

  commit-@:
    prompt: |
      Commit part @ with a message that says why.
    model: haiku
    outcomes: [committed, nothing-to-commit, other]
    onOutcome:
      committed: @next
      nothing-to-commit: {action: exit, reason: no-changes-to-commit}
      other: {action: exit, reason: user-provided-other}

"""
