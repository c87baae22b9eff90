"""The results of steps in the state of a run."""

from definitions.parts import (
    TIMESTAMP,
    Schema,
    amount,
    choice,
    count,
    field,
    filled,
    flag,
    free,
    listing,
    mapping,
    record,
    ref,
    text,
)

_TEXT: Schema = {"type": "string"}


def _names(description: str, *example: str) -> Schema:
    return listing(description, _TEXT, list(example))


def _size(description: str, example: int) -> Schema:
    return count(description, example, minimum=0)


ERROR_CONTEXT = record(
    {
        "undefined_vars": _names("Variables that had no value.", "${context.missing}"),
        "failed_deps": _names("Required files that were missing.", "data/required.csv"),
        "substituted_command": _names("The command as it was to run.", "cat", "data/file.csv"),
        "missing_secrets": _names("Secrets that were not set.", "GITHUB_TOKEN"),
        "missing_placeholders": _names("Provider parameters without a value.", "model"),
        "invalid_prompt_placeholder": field(
            "Where ${PROMPT} stands in a provider that reads standard input.", "${PROMPT}", True
        ),
        "invalid_reference": field(
            "A reference to a result that is missing or of the wrong kind.", "steps.List.lines"
        ),
        "json_schema_errors": _names("How the output breaks its schema.", "/approved: missing"),
        "json_require_failed": free(
            "The first requirement the output does not meet.",
            {"pointer": "/approved", "reason": "is false, not true"},
        ),
    },
    title="Error context",
    extensible=True,
)

ERROR = record(
    {
        "message": text("What went wrong, in a sentence.", "Command failed with exit code 1"),
        "exit_code": count("The exit code of the failure.", 1, 124),
        "stdout_tail": _names("The last lines of standard output.", "collected 3 items"),
        "stderr_tail": _names("The last lines of standard error.", "No such file"),
        "context": field(
            "Details by kind of failure.", {"failed_deps": ["data.csv"]}, ref="error_context"
        ),
    },
    "message",
    title="Error",
    description="Why a step failed.",
    extensible=True,
)

TRUNCATION = record(
    {
        "total_size": _size("Bytes there were.", 524288),
        "shown_size": _size("Bytes that were injected.", 262144),
        "files_shown": _size("Files injected in full.", 2),
        "files_truncated": _size("Files injected in part.", 1),
        "files_omitted": _size("Files left out.", 5),
    },
    title="Truncation",
    extensible=True,
)

INJECTION = record(
    {
        "injection_truncated": flag("Whether the injected files were cut at 256 KiB."),
        "truncation_details": field(
            "What was cut.", {"total_size": 524288, "shown_size": 262144}, ref="truncation"
        ),
    },
    title="Injection",
    extensible=True,
)

DEBUG = record(
    {
        "command": _names("The program and arguments that ran.", "echo", "hello"),
        "cwd": filled("The folder it ran in; absolute.", "/srv/project"),
        "env_count": _size("How many environment variables it got.", 42),
        "values": mapping(
            "The variables that carry values into a shell's script; long ones are cut.",
            {"type": "string"},
            {"ORCHESTRATE_VALUE_0": "src/app.py"},
        ),
        "depends_on": mapping(
            "The files that the patterns of `depends_on` found, required and optional.",
            {"type": "array", "items": {"type": "string"}},
            {"required": ["docs/design.md"]},
        ),
        "files": mapping(
            "The files of the workspace that the step itself reads and writes.",
            {"type": "string"},
            {"output_file": "reports/summary.md"},
        ),
        "injection": field(
            "How files were injected into the prompt.",
            {"injection_truncated": False},
            ref="injection",
        ),
        "json_parse_error": field(
            "Why the output was kept as text: no JSON, or too much of it.",
            {"reason": "invalid"},
            ref="json_parse_error",
        ),
    },
    title="Debug",
    extensible=True,
)

JSON_PARSE_ERROR = record(
    {"reason": choice("What was wrong with the output.", "invalid", "overflow")},
    "reason",
    title="JSON parse error",
    extensible=True,
)

LIFECYCLE = record(
    {
        "result": choice("How the item ended.", "success", "failure"),
        "action": choice("What was done with its file.", "move"),
        "from": text("Where the file was.", "inbox/engineer/task_001.task"),
        "to": field(
            "Where it went; null if that could not be told.",
            "processed/20250115T143022Z/task_001.task",
            None,
            type=["string", "null"],
        ),
        "action_applied": flag("Whether it was moved; it is never moved twice."),
        "error": field(
            "Why it could not be moved, or null.", None, "file is gone", type=["string", "null"]
        ),
    },
    "result",
    "action",
    "action_applied",
    title="Lifecycle",
    description="What became of an item's file.",
    extensible=True,
)

_COURSE: dict[str, Schema] = {
    "status": choice(
        "How the step stands.", "pending", "running", "completed", "failed", "skipped"
    ),
    "exit_code": field(
        "0 success, 2 invalid input, 124 timeout, 126/127 not executable or not found; null while "
        "it runs. A skipped step has 0.",
        0,
        124,
        None,
        type=["integer", "null"],
    ),
    "reason": text("Why the step was skipped or stopped.", "condition evaluated to false"),
    "started_at": text("When it began (ISO 8601, UTC).", "2025-01-15T14:30:23Z", pattern=TIMESTAMP),
    "completed_at": text(
        "When it ended (ISO 8601, UTC).", "2025-01-15T14:30:25Z", pattern=TIMESTAMP
    ),
    "duration_ms": _size("How long it took, in milliseconds.", 2145),
    "attempts": _size("How often it was started, retries included.", 1),
    "address": filled(
        "The attempt that the result is of: restart, loops with visit and item, calls with their "
        "tries, the step with its visit and attempt.",
        "Build:1.1",
        "restart-1/work:2.1",
        "Loop:2[3]/Call@2()/Step:1.1",
    ),
    "reused": filled(
        "The attempt from before an edit whose result was taken over (`resume --edited`).",
        "Review:1.1",
    ),
    "changed": free(
        "Which files were others afterwards, where the workspace has checkpoints: how many of each "
        "kind, the first names, and with how many steps the checkpoint is `shared`.",
        {"files": 2, "changed": 1, "added": 1, "names": ["src/app.py", "src/new.py"]},
    ),
    "log": filled(
        "What the names of the attempt's files in logs/ begin with, where its address does not "
        "tell: two steps whose names differ only in upper and lower case.",
        "build~97d27a0a5e54d9fc",
    ),
    "error": field("Why it failed.", {"message": "Command failed", "exit_code": 1}, ref="error"),
    "debug": field("What helps to understand it.", {"command": ["ls"]}, ref="debug"),
}

_YIELD: dict[str, Schema] = {
    "output_capture": choice("How the output was kept.", "text", "lines", "json"),
    "output": text("The output as text, at most 8 KiB of it.", "First line\nSecond line\n"),
    "lines": _names("The output as lines, at most 10,000 of them.", "task1.task", "task2.task"),
    "json": field("The output as parsed JSON.", {"success": True}, ["a.py"], None),
    "truncated": flag("Whether output was cut; the log then has all of it."),
    "files": _names("The files a wait found.", "inbox/engineer/replies/task_001.task"),
    "wait_duration_ms": _size("How long a wait took, in milliseconds.", 12345),
    "poll_count": _size("How often a wait looked.", 25),
    "timed_out": flag("Whether a wait or a program ran out of time."),
}

_AGENT: dict[str, Schema] = {
    "outcome": filled("The outcome an agent reported (machine).", "no-issues"),
    "decision_message": text("What a person said who decided about a gate.", "ship it"),
    "outcome_description": text("What it said about the outcome `other`.", "The remote is down"),
    "session_id": filled("The agent's session.", "550e8400-e29b-41d4-a716-446655440000"),
    "model": field(
        "The model that answered; null when the program does not say.",
        "claude-sonnet-5-5",
        None,
        type=["string", "null"],
    ),
    "model_requested": filled("What was asked for, where it is not `model` itself.", "sonnet"),
    "permissions": filled("What the agent may do without asking.", "bypass"),
    "denials": listing(
        "Tool calls that permissions refused, over all attempts of the visit.",
        {"type": "object"},
        [{"tool": "Write", "count": 2}],
    ),
    "input_tokens": _size("Tokens read; absent when not reported.", 5200),
    "output_tokens": _size("Tokens written; absent when not reported.", 1800),
    "cost_usd": amount("Cost in US dollars; absent when not reported.", 0.042, minimum=0),
    "cost_computed": flag("Was the cost computed from `costs.prices`? Else it was reported."),
}

RESULT = record(
    _COURSE | _YIELD | _AGENT,
    "status",
    title="Step result",
    description="How one step went.",
    extensible=True,
)

ITERATION: Schema = {
    "title": "Iteration",
    "description": "The results of one item's steps, by name.",
    "type": "object",
    "properties": {
        "lifecycle": field(
            "What became of the item's file, with on_item_complete.",
            {
                "result": "success",
                "action": "move",
                "from": "inbox/a.task",
                "to": "processed/a.task",
                "action_applied": True,
                "error": None,
            },
            ref="lifecycle",
        )
    },
    "additionalProperties": ref("entry"),
}

ENTRY: Schema = {
    "title": "Entry",
    "description": "A step's result, or one map of results per item of a loop.",
    "anyOf": [{"type": "array", "items": ref("iteration")}, ref("result")],
}

STEP_DEFINITIONS: dict[str, Schema] = {
    "entry": ENTRY,
    "iteration": ITERATION,
    "result": RESULT,
    "error": ERROR,
    "error_context": ERROR_CONTEXT,
    "debug": DEBUG,
    "injection": INJECTION,
    "truncation": TRUNCATION,
    "json_parse_error": JSON_PARSE_ERROR,
    "lifecycle": LIFECYCLE,
}
