"""The verdict of a reviewing agent, for gates in workflows."""

from definitions.parts import (
    RELATIVE_PATH,
    choice,
    count,
    document,
    field,
    filled,
    flag,
    listing,
    record,
    text,
)

_PATH_HINT = "write a path relative to the workspace, without .."
_DETAILS = record(
    {
        "message": filled("What is wrong and what would be right.", "No test for an empty list"),
        "severity": choice("How bad it is.", "critical", "high", "medium", "low"),
        "file": text("The file it is in, relative to the workspace.", "src/auth.py"),
        "line": count("The line it is on, counted from 1.", 42, minimum=1),
    },
    "message",
)
_ISSUE = _DETAILS | {"type": ["string", "object"], "minLength": 1}

ROOT = record(
    {
        "approved": flag("The decision: true lets the work pass, false sends it back."),
        "reason": filled("Why, in a sentence or two.", "All acceptance criteria are met."),
        "issues": field(
            "What has to be fixed: a sentence or an object each. Empty or absent when approved.",
            [],
            ["The error message names the wrong file."],
            [{"message": "No test for an empty list", "severity": "high", "file": "src/auth.py"}],
            type="array",
            items=_ISSUE,
        ),
        "outputs": listing(
            "Files the reviewer wrote, such as a longer report, relative to the workspace.",
            {"type": "string", "pattern": RELATIVE_PATH, "x-hint": _PATH_HINT},
            ["artifacts/qa/logs/review_001.md"],
        ),
        "task_id": filled("The task that was reviewed.", "task_001"),
    },
    "approved",
    "reason",
)

SCHEMA = document(
    "qa_verdict",
    "orchestrate QA verdict",
    "One reviewer's decision about one piece of work, on standard output or in a verdict file.",
    ROOT,
    examples=({"approved": False, "reason": "Tests fail.", "issues": ["test_login fails"]},),
)
