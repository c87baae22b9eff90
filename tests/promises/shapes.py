"""Workflows to kill: each a shape of control flow whose steps write down what they do.

Every step runs `../act STEP ITEM SCRIPT`, which notes its start and its end in the ledger beside
the workspace and in between does what the script says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

# The ledger lies outside of the workspace and of the run's folder. A line is one append. The lock
# is held by the step and all that it starts: who finds it taken is a second live attempt. While
# the file `hold` is there, no line comes after as many as it says: the test has all the time.
ACT = """\
#!/bin/sh
attempt="${ORCHESTRATE_ATTEMPT#*:}"
# For scripts: count a name, ask whether it was counted more than so often, say who we are.
count() { echo . >> "count-$1"; printf %s "$(wc -l < "count-$1")"; }
pid() { echo $$; }
enough() { test "$(wc -l < "count-$1")" -gt "$2"; }
exec 9> "../live/$1-$2"
flock -n 9 || echo "twice $1 $2 $attempt" >> ../ledger
held() { test -e ../hold && test "$(wc -l < ../ledger)" -ge "$(cat ../hold)"; }
note() { while held; do sleep 0.02; done; echo "$@" >> ../ledger; }
note start "$1" "$2" "$attempt"
eval "$3"
code=$?
note end "$1" "$2" "$attempt" $code
exit $code
"""


@dataclass(frozen=True)
class Shape:
    """A workflow, the files it finds, its flags, and what others do while it waits."""

    name: str
    workflow: str
    files: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    # When a step has ended, somebody else makes a file.
    replies: Mapping[str, str] = field(default_factory=dict)
    exit_code: int = 0
    # What an agent does when its step is asked (`agent_shapes`), and whether steps come in order.
    answers: Mapping[str, str] = field(default_factory=dict)
    is_ordered: bool = True
    # The workspace is a git repository with all files committed; its gates are denied.
    is_repository: bool = False
    is_denied: bool = False


def act(name: str, item: str = "-", script: str = "") -> str:
    """The `command` of a step, as YAML."""
    return json.dumps(["sh", "../act", name, item, script or f"echo {name} says so"])


LINEAR = Shape(
    "linear",
    f"""
    version: "1.1"
    name: linear
    steps:
      - name: First
        command: {act("First", "-", "printf one")}
      - name: Second
        command: {act("Second", "${steps.First.output}", "echo second; sleep 0.03")}
        output_file: made/second.txt
      - name: Third
        command: {act("Third", "-", "seq 3000")}
        output_capture: lines
      - name: Fourth
        input_file: made/second.txt
        command: {act("Fourth", "-", "cat")}
    """,
)

RETRYING = Shape(
    "retrying",
    f"""
    version: "1.1"
    name: retrying
    steps:
      - name: Flaky
        command: {act("Flaky", "-", "count tries; enough tries 2")}
        retries: {{max: 3, delay_ms: 40}}
      - name: Hopeless
        command: {act("Hopeless", "-", "echo no; exit 3")}
        retries: {{max: 1, delay_ms: 20}}
        on: {{failure: {{goto: Rescue}}}}
      - name: Unreached
        command: {act("Unreached")}
      - name: Rescue
        command: {act("Rescue", "${steps.Hopeless.exit_code}")}
    """,
)

NESTED = Shape(
    "nested",
    f"""
    version: "1.1"
    name: nested
    steps:
      - name: List
        command: {act("List", "-", "echo a; echo b")}
        output_capture: lines
      - name: Outer
        for_each:
          items_from: steps.List.lines
          as: letter
          steps:
            - name: Inner
              for_each:
                items: [x, y]
                steps:
                  - name: Look
                    command: {act("Look", "${letter}${item}", "echo $2; test $2 != ax")}
                    on: {{success: {{goto: Keep}}, failure: {{goto: Passed}}}}
                  - name: Passed
                    command: {act("Passed", "${letter}${item}")}
                  - name: Keep
                    when: {{equals: {{left: "${{item}}", right: "x"}}}}
                    command: {act("Keep", "${letter}${item}")}
            - name: After
              command: {act("After", "${letter}")}
      - name: Done
        command: {act("Done")}
    """,
)

WAITING = Shape(
    "waiting",
    f"""
    version: "1.1"
    name: waiting
    steps:
      - name: Ask
        command: {act("Ask")}
      - name: Await
        wait_for: {{glob: "replies/*.txt", timeout_sec: 120, poll_ms: 20}}
      - name: Read
        command: {act("Read", "-", "cat replies/answer.txt")}
        depends_on: {{required: ["replies/*.txt"]}}
    """,
    files={"replies/.keep": ""},
    replies={"Ask": "replies/answer.txt"},
)

CYCLE = Shape(
    "cycle",
    f"""
    version: "1.1"
    name: cycle
    steps:
      - name: Count
        command: {act("Count", "-", "count rounds")}
        on: {{success: {{goto: Enough}}}}
      - name: Enough
        command: {act("Enough", "-", "enough rounds 2")}
        on: {{success: {{goto: Done}}, failure: {{goto: Count}}}}
      - name: Done
        command: {act("Done", "${steps.Count.output}")}
    """,
)

REPEATING = Shape(
    "repeating",
    f"""
    version: "1.4"
    name: repeating
    steps:
      - name: Loop
        repeat:
          until: {{equals: {{left: "${{steps.Try.output}}", right: "3"}}}}
          max: 5
          steps:
            - name: Try
              command: {act("Try", "${loop.index}", "count Try")}
            - name: Note
              when: {{not_exists: "note-${{loop.index}}"}}
              command: {act("Note", "${loop.index}", "touch note-${loop.index}")}
      - name: After
        command: {act("After")}
    """,
)

LIFECYCLE = Shape(
    "lifecycle",
    f"""
    version: "1.2"
    name: lifecycle
    strict_flow: false
    steps:
      - name: Tasks
        command: {act("Tasks", "-", "ls inbox/*.task")}
        output_capture: lines
      - name: Each
        for_each:
          items_from: steps.Tasks.lines
          as: task
          on_item_complete:
            success: {{move_to: processed}}
            failure: {{move_to: "failed/${{loop.index}}"}}
          steps:
            - name: Work
              command: {act("Work", "${loop.index}", 'test "$2" != 1')}
            - name: More
              command: {act("More", "${loop.index}", 'test "$2" != 2')}
              on: {{failure: {{goto: Done}}}}
      - name: Passed
        command: {act("Passed")}
      - name: Done
        command: {act("Done", "-", "ls processed failed/1 failed/2")}
    """,
    files={f"inbox/{name}.task": f"{name}\n" for name in "abcd"},
)

TOLERANT = Shape(
    "tolerant",
    f"""
    version: "1.1"
    name: tolerant
    steps:
      - name: Good
        command: {act("Good")}
      - name: Bad
        command: {act("Bad", "-", "echo oh; exit 7")}
      - name: Loop
        for_each:
          items: [1, 2, 3]
          steps:
            - name: Odd
              command: {act("Odd", "${item}", 'test "$2" != 2')}
      - name: Last
        command: {act("Last", "${steps.Bad.exit_code}")}
    """,
    flags=("--on-error", "continue"),
    exit_code=1,
)

INJECTING = Shape(
    "injecting",
    f"""
    version: "1.1.1"
    name: injecting
    providers:
      argument:
        command: {act("Argument", "${model}", 'printf %s "$4"')[:-1]}, "${{PROMPT}}"]
        defaults: {{model: small}}
      stream:
        command: {act("Stream", "${model}", "cat > got-$2; cat got-$2")}
        input_mode: stdin
        defaults: {{model: large}}
    steps:
      - name: Make
        command: {act("Make", "-", "echo made > notes/two.md")}
      - name: Argument
        provider: argument
        input_file: prompts/ask.md
        depends_on: {{required: ["notes/*.md"], inject: true}}
      - name: Stream
        provider: stream
        provider_params: {{model: "${{steps.Argument.exit_code}}"}}
        input_file: prompts/ask.md
        output_file: answers/stream.md
        depends_on:
          required: ["notes/*.md"]
          optional: ["none/*.md"]
          inject: {{mode: content, position: append, instruction: "Look:"}}
    """,
    files={"prompts/ask.md": "What is ${this}?\n", "notes/one.md": "first\n"},
)

# Output and input that go through files: too long for the keeper's record or for a message.
HEAVY = Shape(
    "heavy",
    f"""
    version: "1.3"
    name: heavy
    strict_flow: false
    steps:
      - name: Json
        command: {act("Json", "-", "cat rows.json")}
        output_capture: json
        output_require: [{{pointer: /rows/0, equals: 0}}]
      - name: Text
        command: {act("Text", "-", "seq 9000; seq 9000 >&2")}
        output_file: made/text
      - name: Stdin
        input_file: big.txt
        command: {act("Stdin", "-", "sha256sum")}
      - name: Fails
        command: {act("Fails", "-", "seq 4000; seq 4000 >&2; count fails; enough fails 1")}
        output_capture: lines
        retries: {{max: 2, delay_ms: 10}}
      - name: Each
        for_each:
          items_from: steps.Json.json.rows
          steps:
            - name: Row
              when: {{equals: {{left: "${{loop.index}}", right: "7"}}}}
              command: {act("Row", "${item}", "seq 5000; exit 3")}
              output_capture: lines
    """,
    files={
        "rows.json": json.dumps({"rows": list(range(12)), "more": ["x" * 100] * 200}),
        "big.txt": "0123456789abcde\n" * 70_000,
    },
)

# Steps that take a while, with short and long output, and no memory of earlier attempts: what is
# decided does not depend on how often an attempt was lost.
STEADY = Shape(
    "steady",
    f"""
    version: "1.1"
    name: steady
    steps:
      - name: First
        command: {act("First", "-", "sleep 0.06; echo first")}
      - name: Each
        for_each:
          items: [a, b, c, d]
          steps:
            - name: Long
              command: {act("Long", "${item}", "seq 3000; sleep 0.02")}
              output_file: "made/${{item}}.txt"
            - name: Fails
              command: {act("Fails", "${item}", "sleep 0.01; echo no >&2; exit 4")}
              on: {{failure: {{goto: Short}}}}
            - name: Short
              command: {act("Short", "${item}", "echo $2")}
      - name: Last
        command: {act("Last", "-", "cat made/*.txt | sha256sum")}
    """,
)

# Quick steps whose results can be derived again from the keeper's records (ADR 0017), and among
# them some whose can not: long output, a skip, a failure. Done again, each would leave something
# else behind: a guard would not hold any more, a file be emptied, a count be higher.
DERIVED = Shape(
    "derived",
    f"""
    version: "1.1"
    name: derived
    steps:
      - name: Flag
        command: {act("Flag", "-", "echo x >> flag; count flags")}
      - name: Takes
        when: {{exists: flag}}
        command: {act("Takes", "-", "rm flag; printf taken")}
      - name: Skipped
        when: {{exists: flag}}
        command: {act("Skipped")}
      - name: Tee
        command: {act("Tee", "-", "count tees")}
        output_file: made/tee.txt
      - name: Moves
        when: {{exists: made/tee.txt}}
        command: {act("Moves", "${steps.Takes.output}", "mv made/tee.txt made/moved.txt")}
      - name: Lines
        command: {act("Lines", "-", "echo a; echo b; echo c")}
        output_capture: lines
      - name: Each
        for_each:
          items_from: steps.Lines.lines
          steps:
            - name: Quick
              command: {act("Quick", "${item}", "count quick")}
            - name: Gone
              when: {{exists: "made/*.txt"}}
              command: {act("Gone", "${item}", "mv made/moved.txt gone-$2; cat gone-$2")}
            - name: Back
              when: {{exists: "gone-${{item}}"}}
              command: {act("Back", "${item}", "mv gone-$2 made/moved.txt")}
      - name: Long
        command: {act("Long", "-", "seq 3000; count longs >&2")}
      - name: Fails
        command: {act("Fails", "-", "count fails; exit 4")}
        on: {{failure: {{goto: Last}}}}
      - name: Last
        command: {act("Last", "${steps.Tee.output}", "cat made/moved.txt count-*")}
    """,
)

# Programs that are sent ahead (ADR 0019), in a line and in a loop, and all that makes one of them
# be forgotten: long output, a failure, a value, a file, a guard.
CHAINED = Shape(
    "chained",
    f"""
    version: "1.1"
    name: chained
    steps:
      - name: One
        command: {act("One", "-", "printf one")}
      - name: Two
        command: {act("Two", "-", ":")}
      - name: Tee
        command: {act("Tee", "-", "echo made")}
        output_file: made/tee.txt
      - name: Three
        command: {act("Three", "${steps.Two.exit_code}", ":")}
      - name: Long
        command: {act("Long", "-", "seq 3000")}
      - name: Four
        command: {act("Four", "-", ":")}
      - name: Fails
        command: {act("Fails", "-", "exit 3")}
        on: {{failure: {{goto: Five}}}}
      - name: Unreached
        command: {act("Unreached")}
      - name: Five
        command: {act("Five", "${steps.One.output}", ":")}
      - name: Loop
        for_each:
          items: [a, b, c, d, e]
          steps:
            - name: Quick
              command: {act("Quick", "${item}", ":")}
            - name: Says
              command: {act("Says", "${item}", "printf %s $2")}
            - name: Reads
              command: {act("Reads", "${steps.Says.output}", ":")}
      - name: Guarded
        when: {{exists: made/tee.txt}}
        command: {act("Guarded", "-", "cat made/tee.txt")}
      - name: Last
        command: {act("Last", "-", ":")}
    """,
)

QUICK = (LINEAR, RETRYING, NESTED, WAITING, REPEATING, CHAINED)
ALL = (*QUICK, CYCLE, LIFECYCLE, TOLERANT, INJECTING, HEAVY, DERIVED)
