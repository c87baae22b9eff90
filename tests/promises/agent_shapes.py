"""Recipes and machines to kill: their agents are one shell script that keeps the same ledger.

A prompt names who it is for, `STEP:NAME:ITEM`; the shape has a script for that name, and what the
script prints is the answer. A reminder names nobody and is answered by the script `reminder`.
"""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

from tests.promises.shapes import Shape

# Speaks as `claude -p --output-format stream-json` does; the answer is made by `act`.
CLAUDE = r"""#!/bin/sh
for word; do
  case $before in --session-id|--resume) session=$word;; --model) model=$word;; esac
  case $word in --version) echo "2.1.325 (Claude Code)"; exit;; esac
  before=$word
done
prompt=$(cat)
name=reminder item=-
case $prompt in *STEP:*)
  found=${prompt#*STEP:} found=${found%%[!A-Za-z0-9:_-]*}
  name=${found%%:*} item=${found#"$name"} item=${item#:};;
esac
say() { printf '{"session_id": "%s", "model": "%s", %s}\n' "$session" "$model" "$1"; }
say '"type": "system", "subtype": "init"'
text=$(sh ../act "$name" "${item:--}" ". ../answers/$name") || { echo 'API Error: Unable to connect to API (ECONNREFUSED)' >&2; exit 1; }
text=$(printf %s "$text" | sed 's/\\/\\\\/g; s/"/\\"/g; s/\r/\\r/g' | awk '{printf "%s%s", (NR > 1 ? "\\n" : ""), $0}')
used='"usage": {"input_tokens": 10, "output_tokens": 1}, "total_cost_usd": 0.01'
say '"type": "result", "subtype": "success", "is_error": false, "result": "'"$text"'", '"$used"
"""  # noqa: E501 - a script

HELPER = {".orchestrate/agents/helper.md": "---\nname: helper\ndescription: Helps\n---\nHelp.\n"}


def recipe(body: str) -> str:
    return "name: trial\ndescription: A trial of ours\nversion: 1.2.3\n" + dedent(body).lstrip("\n")


def outcome(name: str) -> str:
    """A script that answers with an outcome."""
    return f"""echo looked; echo '{{"outcome": "{name}"}}'"""


def by_count(first: str, later: str) -> str:
    """One answer for the first time, another for all others."""
    return f"count $1 > /dev/null; if enough $1 1; then {later}; else {first}; fi"


RECIPE = Shape(
    "recipe",
    recipe("""
        context: {who: world, letters: [a, b]}
        steps:
          - {id: first, agent: helper, prompt: "STEP:first {{who}}", output: x}
          - {id: off, condition: "{{who}} == 'nobody'", agent: helper, prompt: "STEP:off"}
          - {id: flaky, agent: helper, prompt: "STEP:flaky {{x}}", output: y,
             retry: {max_attempts: 3, initial_delay: 0}}
          - {id: broken, agent: helper, prompt: "STEP:broken", on_error: continue,
             retry: {max_attempts: 2, initial_delay: 0}}
          - {id: each, foreach: "{{letters}}", as: letter, agent: helper,
             prompt: "STEP:each:{{letter}} {{y}}", collect: all}
          - {id: last, agent: helper, prompt: "STEP:last {{all}}", output: end}
        """),
    files=HELPER,
    answers={
        "first": "sleep 0.02; echo one",
        "flaky": "count tries; enough tries 1",
        "broken": "exit 1",
        "each": 'echo "{\\"said\\": \\"$2\\"}"',
        "last": "echo done",
    },
)

STAGED = Shape(
    "staged",
    recipe("""
        context: {who: world}
        stages:
          - name: one
            steps:
              - {id: a, agent: helper, prompt: "STEP:a {{who}}", output: x}
              - {id: b, agent: helper, prompt: "STEP:b {{x}}", output: y}
            approval: {required: true, prompt: "Was it {{y}}?"}
          - name: two
            steps: [{id: c, agent: helper, prompt: "STEP:c {{approval.message}}", output: z}]
            approval: {required: true, prompt: "And {{z}}?"}
          - name: three
            steps: [{id: d, agent: helper, prompt: "STEP:d {{x}} {{z}}", output: end}]
        """),
    files=HELPER,
    answers={name: f"echo {name}" for name in "abcd"},
)

PARALLEL = Shape(
    "parallel",
    recipe("""
        context: {items: [i1, i2, i3, i4, i5]}
        steps:
          - {id: first, agent: helper, prompt: "STEP:first", output: x}
          - {id: each, foreach: "{{items}}", parallel: true, agent: helper,
             prompt: "STEP:each:{{item}} {{x}}", collect: all}
          - {id: after, agent: helper, prompt: "STEP:after {{all}}", output: end}
        """),
    files=HELPER,
    flags=("--max-parallel", "3"),
    answers={"first": "echo x", "each": "sleep 0.03; echo $2", "after": "echo end"},
    is_ordered=False,
)

CALLING = Shape(
    "calling",
    recipe("""
        context: {items: [x, y]}
        steps:
          - {id: each, foreach: "{{items}}", type: recipe, recipe: child.yaml,
             context: {item: "{{item}}"}, collect: all}
          - {id: again, type: recipe, recipe: child.yaml, context: {item: z}, output: once}
          - {id: after, agent: helper, prompt: "STEP:after {{all}} {{once}}", output: end}
        """),
    files={
        **HELPER,
        "child.yaml": recipe("""
            context: {item: "", parts: [1, 2]}
            steps:
              - {id: one, agent: helper, prompt: "STEP:one:{{item}}", output: found}
              - {id: leaf, foreach: "{{parts}}", as: part, agent: helper,
                 prompt: "STEP:leaf:{{item}}{{part}} {{found}}", collect: leaves}
            """),
    },
    answers={"one": "echo one $2", "leaf": "echo leaf $2", "after": "echo end"},
)

# The second step answers without an outcome and is reminded; the review sends back once.
REMINDED = Shape(
    "reminded",
    """
    id: trial
    label: trial
    description: a trial
    initialStep: first
    steps:
      first:
        prompt: "STEP:first"
        outcomes: [done, other]
        onOutcome: {done: {nextStep: review}, other: {action: exit, reason: user-provided-other}}
      review:
        prompt: "STEP:review"
        outcomes: [fine, broken, other]
        onOutcome:
          fine: {action: exit, reason: reviewed}
          broken: {nextStep: fix}
          other: {action: exit, reason: user-provided-other}
      fix:
        prompt: "STEP:fix"
        outcomes: [done, other]
        onOutcome: {done: {nextStep: review}, other: {action: exit, reason: user-provided-other}}
    """,
    answers={
        "first": outcome("done"),
        "review": by_count("echo I forgot", outcome("fine")),
        "reminder": outcome("broken"),
        "fix": outcome("done"),
    },
)

# The machine hands over to another one in a new session, which starts itself afresh once.
RESTARTED = Shape(
    "restarted",
    """
    id: trial
    label: trial
    description: a trial
    initialStep: plan
    steps:
      plan:
        prompt: "STEP:plan"
        outcomes: [done, other]
        onOutcome: {done: {nextStep: hand}, other: {action: exit, reason: user-provided-other}}
      hand:
        prompt: "STEP:hand"
        outcomes: [on, other]
        onOutcome:
          on: {action: restart-new-session, recipeId: second}
          other: {action: exit, reason: user-provided-other}
    """,
    files={
        "workflows/second.yaml": dedent("""
            id: second
            label: second
            description: another
            initialStep: work
            steps:
              work:
                prompt: "STEP:work"
                outcomes: [again, end, other]
                onOutcome:
                  again: {action: restart-new-session, recipeId: second}
                  end: {action: exit, reason: all-done}
                  other: {action: exit, reason: user-provided-other}
            """),
    },
    answers={
        "plan": outcome("done"),
        "hand": outcome("on"),
        "work": by_count(outcome("again"), outcome("end")),
    },
)

# The agent needs two rounds until `make test` passes; then somebody decides, and it commits. What
# the test prints names the answer to it, so the agent must be told what failed.
BUILT = Shape(
    "built",
    """
    id: build-it
    label: Build it
    description: Implement a task, prove it with the tests, ask, commit
    inputs: {task: {description: What to build}}
    initialStep: implement
    steps:
      implement:
        prompt: "STEP:implement {{task}}"
        check: {command: [make, test], rounds: 3}
        outcomes: [complete, check-failed, other]
        onOutcome:
          complete: {nextStep: approve}
          check-failed: {action: exit, reason: tests-still-fail, status: failed}
          other: {action: exit, reason: user-provided-other, status: failed}
      approve:
        approval: {prompt: "Commit this?", timeout: 24h, default: deny}
        onOutcome:
          approved: {nextStep: commit}
          denied: {action: exit, reason: denied, status: failed}
      commit:
        prompt: "STEP:commit {{steps.implement.output}}"
        model: haiku
        outcomes: [committed, other]
        onOutcome:
          committed: {action: exit, reason: changes-committed}
          other: {action: exit, reason: user-provided-other, status: failed}
    """,
    files={
        "Makefile": "test:\n\t@sh ../act test - '. ./test.sh'\n",
        "test.sh": dedent("""
            case $(cat greeting) in
              hello) echo passed;;
              hell) echo "STEP:second"; false;;
              *) echo "STEP:first"; false;;
            esac
            """),
    },
    flags=("a greeting",),
    answers={
        "implement": "echo hel | tee greeting; " + outcome("complete"),
        "first": "echo hell | tee greeting; " + outcome("complete"),
        "second": "echo hello | tee greeting; " + outcome("complete"),
        "commit": "git add greeting && git commit -qm Greet && " + outcome("committed"),
    },
    is_repository=True,
)
BUILT_BUT_DENIED = replace(BUILT, name="built but denied", is_denied=True, exit_code=1)

# The same in the other dialects, where an answer needs no outcome.
_ANSWERS = {
    "implement": "echo hel | tee greeting",
    "first": "echo hell | tee greeting",
    "second": "echo hello | tee greeting",
    "commit": "git add greeting && git commit -qm Greet && echo committed",
}
BUILT_RECIPE = replace(
    BUILT,
    name="built by a recipe",
    workflow=recipe("""
        inputs: {task: {description: What to build}}
        steps:
          - {id: implement, prompt: "STEP:implement {{task}}", output: made,
             check: {command: [make, test], rounds: 3}}
          - {id: approve, type: approval, approval: {prompt: "Commit {{made}}?", timeout: 24h}}
          - {id: commit, prompt: "STEP:commit {{made}} {{approval.message}}", output: end}
        """),
    answers=_ANSWERS,
)
BUILT_WORKFLOW = replace(
    BUILT,
    name="built by a workflow",
    workflow="""
    version: "1.4"
    name: build-it
    inputs: {task: {description: What to build}}
    steps:
      - {name: Implement, provider: claude, prompt: "STEP:implement ${inputs.task}",
         check: {command: [make, test], rounds: 3}}
      - {name: Approve, approval: {prompt: "Commit?", timeout: 24h}}
      - name: Commit
        provider: claude
        prompt: "STEP:commit ${steps.Implement.output} ${steps.Approve.message}"
    """,
    answers=_ANSWERS,
)
BUILT_ALL = (
    BUILT,
    BUILT_BUT_DENIED,
    BUILT_RECIPE,
    replace(BUILT_RECIPE, name="denied to a recipe", is_denied=True, exit_code=1),
    BUILT_WORKFLOW,
    replace(BUILT_WORKFLOW, name="denied to a workflow", is_denied=True, exit_code=1),
)

# A machine of commands: the test decides where it goes, a person lets it end.
COMMANDED = Shape(
    "commanded",
    """
    id: trial
    label: trial
    description: a trial
    initialStep: test
    steps:
      test:
        command: "sh ../act test - 'count tests > /dev/null; echo told; enough tests 2'"
        onOutcome: {passed: {nextStep: ask}, failed: {nextStep: fix}}
      fix:
        prompt: "STEP:fix {{steps.test.exit_code}} {{steps.test.output}}"
        outcomes: [done, other]
        onOutcome: {done: {nextStep: test}, other: {action: exit, reason: user-provided-other}}
      ask:
        approval: {prompt: "Enough?", timeout: 24h}
        onOutcome:
          approved: {action: exit, reason: all-done}
          denied: {action: exit, reason: denied, status: failed}
    """,
    answers={"fix": outcome("done")},
)

# Each item has its own conversation, needs a round, and ends with a command.
CHECKED_ITEMS = Shape(
    "checked items",
    recipe("""
        context: {items: [i1, i2, i3]}
        steps:
          - {id: each, foreach: "{{items}}", parallel: 2, session: s, agent: helper,
             prompt: "STEP:each:{{item}}", collect: all,
             check: {command: [sh, ../act, "check", "{{item}}", . ./check.sh]}}
          - {id: count, type: bash, output: number,
             command: "sh ../act count - 'ls made-* | wc -l'"}
          - {id: last, agent: helper, prompt: "STEP:last {{all}} {{number}}", output: end}
        """),
    files={**HELPER, "check.sh": "cat made-$2 || { echo STEP:mend:$2; false; }\n"},
    answers={
        "each": "sleep 0.02; echo $2",
        "mend": "echo mended > made-$2; echo mended $2",
        "last": "echo end",
    },
    is_ordered=False,
)

# Rounds of a loop that a command ends, with a gate in each.
REPEATED = Shape(
    "repeated",
    """
    version: "1.4"
    name: trial
    steps:
      - name: Loop
        repeat:
          until: {equals: {left: "${steps.Test.output}", right: "enough"}}
          max: 4
          steps:
            - {name: Mend, provider: claude, prompt: "STEP:mend:${loop.index}", session: s}
            - name: Test
              command: [sh, ../act, test, "${loop.index}",
                        "count rounds > /dev/null; if enough rounds 2; then printf enough; fi"]
            - {name: Ask, approval: {prompt: "Go on after ${steps.Test.output}?", timeout: 24h}}
      - {name: Last, provider: claude, prompt: "STEP:last"}
    """,
    answers={"mend": "echo mended $2", "last": "echo end"},
)

# What is decided in these does not depend on how often an attempt was lost.
STEADY_RECIPE = Shape(
    "steady recipe",
    recipe("""
        context: {letters: [a, b]}
        steps:
          - {id: first, agent: helper, prompt: "STEP:first", output: x}
          - {id: each, foreach: "{{letters}}", as: letter, agent: helper,
             prompt: "STEP:each:{{letter}} {{x}}", collect: all}
          - {id: last, agent: helper, prompt: "STEP:last {{all}}", output: end}
        """),
    files=HELPER,
    answers={"first": "sleep 0.05; echo one", "each": "echo $2; sleep 0.02", "last": "echo done"},
)

STEADY_MACHINE = Shape(
    "steady machine",
    """
    id: trial
    label: trial
    description: a trial
    initialStep: first
    steps:
      first:
        prompt: "STEP:first"
        outcomes: [done, other]
        onOutcome: {done: {nextStep: second}, other: {action: exit, reason: user-provided-other}}
      second:
        prompt: "STEP:second"
        outcomes: [done, other]
        onOutcome: {done: {nextStep: third}, other: {action: exit, reason: user-provided-other}}
      third:
        prompt: "STEP:third"
        outcomes: [done, other]
        onOutcome:
          done: {action: exit, reason: all-done}
          other: {action: exit, reason: user-provided-other}
    """,
    answers={name: "sleep 0.02; " + outcome("done") for name in ("first", "second", "third")},
)

OF_AGENTS = (
    RECIPE,
    STAGED,
    PARALLEL,
    CALLING,
    REMINDED,
    RESTARTED,
    *BUILT_ALL,
    COMMANDED,
    CHECKED_ITEMS,
    REPEATED,
)
