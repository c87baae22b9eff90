"""How a workflow goes on: waits, conditions, jumps, loops and retries."""

from definitions.limits import step_limits
from definitions.parts import (
    Schema,
    amount,
    count,
    effect,
    field,
    filled,
    listing,
    on_lost,
    record,
    ref,
    seconds,
    spread,
    variable,
)

WAIT_FOR = record(
    {
        "glob": filled(
            "The files to wait for, as a pattern with * and ? under the workspace.",
            "inbox/engineer/replies/*.task",
        ),
        "timeout_sec": seconds(
            "How long to wait; then the step fails with exit code 124. Default: 300 seconds.",
            300,
            "30m",
            default=300,
            exclusiveMinimum=0,
            hint="write seconds, more than 0, or with version 1.4 as in 90s, 5m",
        ),
        "poll_ms": amount(
            "Milliseconds between two looks. Default: 500.",
            500,
            default=500,
            minimum=1,
            hint="write milliseconds, at least 1",
        ),
        "min_count": count(
            "How many files must match. Default: 1.",
            1,
            3,
            default=1,
            minimum=1,
            hint="write a whole number of at least 1",
        ),
    },
    "glob",
    title="Wait",
    description="Blocks until files appear.",
)


def _operand(side: str, *examples: object) -> Schema:
    return field(
        f"The {side} side, after variables are filled in. Both sides are compared as text.",
        *examples,
        type=["string", "number", "boolean"],
        hint='write a text in quotes: "true"',
    )


EQUALS = record(
    {
        "left": _operand("left", "${steps.WriteStatus.json.success}"),
        "right": _operand("right", "true", 0),
    },
    "left",
    "right",
    title="Equals",
    description="True when both sides are the same text.",
)

WHEN = record(
    {
        "equals": field(
            "Run the step if two values are the same text.",
            {"left": "${context.mode}", "right": "full"},
            ref="equals",
            hint='write a mapping: equals: { left: "${…}", right: "…" }',
        ),
        "exists": filled("Run the step if at least one path matches.", "artifacts/qa/*.json"),
        "not_exists": filled("Run the step if no path matches.", "artifacts/done.txt"),
    },
    title="Condition",
    description="Exactly one of equals, exists, not_exists.",
)


def _jump(description: str, *examples: Schema) -> Schema:
    return field(
        description, *examples, ref="jump", hint="write a mapping with goto: { goto: StepName }"
    )


JUMP = record(
    {
        "goto": filled(
            "The step to go on with, or `_end` to end the run successfully.",
            "HandleFailure",
            "_end",
        ),
    },
    "goto",
    title="Jump",
    description="Where to go on.",
)

ON = record(
    {
        "success": _jump("Where to go when the step succeeded.", {"goto": "ProcessTasks"}),
        "failure": _jump(
            "Where to go when the step failed after its retries; the failure then counts as "
            "handled.",
            {"goto": "HandleFailure"},
        ),
        "always": _jump(
            "Where to go in either case; overrides `success` and `failure`.", {"goto": "_end"}
        ),
    },
    title="Handlers",
    description="Where to go on after the step. Without a handler the next step follows.",
)

MOVE = record(
    {
        "move_to": filled(
            "The folder under the workspace that the item's file is moved to; may use variables.",
            "processed/${run.timestamp_utc}",
        ),
    },
    title="Move",
    description="What to do with the item's file.",
)

ON_ITEM_COMPLETE = record(
    {
        "success": field(
            "After an item whose steps all succeeded, or whose failures were handled.",
            {"move_to": "processed/${run.timestamp_utc}"},
            ref="move",
        ),
        "failure": field(
            "After an item that failed, timed out or was left by a goto.",
            {"move_to": "failed/${run.timestamp_utc}"},
            ref="move",
        ),
    },
    title="Item lifecycle",
    description="Moves each item's file once its steps are done.",
)

FOR_EACH = record(
    {
        "items_from": filled(
            "The list to loop over: an earlier step's `lines`, or an array in its `json`.",
            "steps.ListTasks.lines",
            "steps.Parse.json.files",
            hint="write steps.NAME.lines or steps.NAME.json.path, without ${}",
        ),
        "items": field(
            "The list to loop over, written out. Write either `items` or `items_from`.",
            ["a", "b", "c"],
            type="array",
            hint='write a list: items: ["a", "b"]',
        ),
        "as": variable(
            "A name for the current item, used as ${name}; ${item} works too. Default: item.",
            "task_file",
            default="item",
        ),
        "steps": listing(
            "The steps to run for each item. They also see ${loop.index} (from 0) and "
            "${loop.total}.",
            ref("step"),
            [{"name": "Show", "command": ["cat", "${item}"]}],
            minItems=1,
            hint="write a list of steps, each beginning with - name:",
        ),
        "parallel": field(
            "Run the items at the same time: eight, or so many; --max-parallel bounds both. A "
            "goto cannot leave such a loop. Needs version 1.4. Default: false.",
            True,
            4,
            type=["boolean", "integer"],
            minimum=1,
            default=False,
            since="1.4",
            hint="write true, or the most items at once: parallel: 4",
        ),
        "spread": spread("the items of a parallel loop", since="1.4"),
        "on_item_complete": field(
            "Move each item's file after its iteration, depending on how that went. Needs version "
            "1.2.",
            {"success": {"move_to": "processed"}, "failure": {"move_to": "failed"}},
            since="1.2",
            ref="on_item_complete",
        ),
    },
    "steps",
    title="Loop",
    description="Runs a block of steps once per item, one item after the other.",
)

REPEAT = record(
    {
        "until": field(
            "The loop ends when this holds after a round; it is written as `when` is, and sees the "
            "steps of the round.",
            {"equals": {"left": "${steps.Test.exit_code}", "right": "0"}},
            ref="when",
            hint='write until: { equals: { left: "${steps.Test.exit_code}", right: "0" } }',
        ),
        "max": count(
            "The most rounds; if `until` does not hold after them, the step fails.",
            3,
            5,
            minimum=1,
            maximum=10000,
            hint="write a whole number of at least 1",
        ),
        "steps": listing(
            "The steps of one round. They also see ${loop.index} (from 0) and ${loop.total}, which "
            "is `max`.",
            ref("step"),
            [{"name": "Test", "command": ["make", "test"]}],
            minItems=1,
            hint="write a list of steps, each beginning with - name:",
        ),
    },
    "until",
    "max",
    "steps",
    title="Repeat",
    description="Runs a block of steps again and again until a condition holds.",
)

RETRIES = record(
    {
        "max": count(
            "How often to try again after the first attempt. Default: 0.",
            2,
            default=0,
            minimum=0,
            hint="write a whole number, 0 or more",
        ),
        "delay_ms": amount(
            "Milliseconds to wait before each new attempt. Default: no delay.",
            1000,
            minimum=0,
            hint="write milliseconds, 0 or more",
        ),
    },
    title="Retries",
    description="How to repeat the step when it fails.",
)

FLOW_FIELDS: dict[str, Schema] = {
    "timeout_sec": seconds(
        "How long the command or agent may run; then it is ended and the exit code is 124. "
        "Default: no limit.",
        600,
        "10m",
        exclusiveMinimum=0,
        hint="write seconds, more than 0, or with version 1.4 as in 90s, 5m",
    ),
    "retries": field(
        "Repeat the step when it fails. Default: --max-retries for agents, none for commands.",
        {"max": 2, "delay_ms": 1000},
        ref="retries",
        hint="write a mapping: retries: { max: 3 }",
    ),
    "when": field(
        "Run the step only if this holds; else it is skipped, which counts as success.",
        {"exists": "artifacts/design/*.md"},
        ref="when",
        hint='write when: { equals: { left: "${…}", right: "…" } }, or { exists: "PATH" }',
    ),
    "on": field(
        "Where to go on, depending on how the step ended. Default: with the next step; a failure "
        "stops the run while strict_flow is true.",
        {"success": {"goto": "ProcessTasks"}, "failure": {"goto": "_end"}},
        ref="on",
        hint="write a mapping: on: { failure: { goto: NAME } }",
    ),
    "limits": step_limits(since="1.4"),
    "on_lost": on_lost(),
    "effect": effect(since="1.4"),
}

FLOW_DEFINITIONS: dict[str, Schema] = {
    "wait_for": WAIT_FOR,
    "when": WHEN,
    "equals": EQUALS,
    "on": ON,
    "jump": JUMP,
    "for_each": FOR_EACH,
    "repeat": REPEAT,
    "on_item_complete": ON_ITEM_COMPLETE,
    "move": MOVE,
    "retries": RETRIES,
}
