"""The status/v1 file that an agent leaves for people and tools."""

from definitions.parts import (
    RELATIVE_PATH,
    RUN_ID,
    TIMESTAMP,
    count,
    document,
    field,
    filled,
    flag,
    free,
    listing,
    record,
    ref,
    text,
)

_PATH_HINT = "write a path relative to the workspace, without .."

NEXT_ACTION = record(
    {
        "agent": filled("Who should go on.", "qa"),
        "file": text(
            "The task file left for that agent, relative to the workspace.",
            "inbox/qa/review_implementation.task",
            pattern=RELATIVE_PATH,
            hint=_PATH_HINT,
        ),
    },
    "agent",
    title="Next action",
    description="Work handed on to another agent.",
)

ROOT = record(
    {
        "schema": field(
            "The format of this file: always status/v1.", "status/v1", const="status/v1"
        ),
        "correlation_id": text("An id that ties related work together.", "feature-4711"),
        "agent": filled("Who reports.", "engineer"),
        "run_id": text(
            "The run in which the work was done.", "20250115T143022Z-a3f8c2", pattern=RUN_ID
        ),
        "step": filled("The step in which the work was done.", "ImplementFeature"),
        "timestamp": text(
            "When the status was written (ISO 8601).", "2025-01-15T10:30:00Z", pattern=TIMESTAMP
        ),
        "success": flag("Whether the work is done."),
        "exit_code": count("The exit code of the work; 0 is success.", 0, 2),
        "outputs": listing(
            "Files that were made, relative to the workspace.",
            {"type": "string", "pattern": RELATIVE_PATH, "x-hint": _PATH_HINT},
            ["artifacts/engineer/implementation.py"],
        ),
        "metrics": free(
            "Figures of the agent's own choice.", {"files_modified": 3, "lines_added": 150}
        ),
        "next_actions": listing(
            "Work for others that follows from this.",
            ref("next_action"),
            [{"agent": "qa", "file": "inbox/qa/review_implementation.task"}],
        ),
        "message": text("A sentence for people.", "Feature implemented"),
    },
    "schema",
    "agent",
    "step",
    "timestamp",
    "success",
)

SCHEMA = document(
    "status",
    "orchestrate status/v1",
    "What an agent reports about its work, usually in artifacts/AGENT/status_STEP.json. It is for "
    "people and tools; the run does not depend on it.",
    ROOT,
    {"next_action": NEXT_ACTION},
)
