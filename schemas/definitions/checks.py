"""What is checked after an agent, and what a person is asked: the same in every dialect."""

from typing import Any

from definitions.parts import (
    Schema,
    choice,
    count,
    duration,
    field,
    filled,
    listing,
    record,
)

_GATE: Schema = {"prompt": "Commit this?", "timeout": "24h", "default": "deny"}


def gate(prompt_is: str, answer: str) -> Schema:
    """Describe a question to a person that is a step of its own."""
    return record(
        {
            "prompt": filled(f"What to ask; {prompt_is}.", "Commit this?"),
            "timeout": duration(
                "How long to wait for an answer before `default` applies; without it, for ever.",
                "24h",
            ),
            "default": choice(
                "The decision if no answer comes in time. Default: deny.",
                "approve",
                "deny",
                default="deny",
                hint="write approve or deny",
            ),
        },
        "prompt",
        title="Approval",
        description=f"A question to a person; the answer {answer}.",
    )


def approval(description: str, *, ref: str = "approval", **more: Any) -> Schema:
    """Describe the field that makes a step a gate."""
    hint = 'write approval: { prompt: "Commit this?", timeout: 24h }'
    return field(description, _GATE, ref=ref, hint=hint, **more)


def check(**more: Schema) -> Schema:
    """Describe `check`; `more` are fields that only one dialect has."""
    return record(
        {
            "command": field(
                "What must exit with 0: an argument list, or one text that is a script of bash, or "
                "an input of type command; an empty one means no check.",
                ["make", "test"],
                type=["array", "string"],
                items={"type": "string"},
                minItems=1,
                minLength=1,
                hint="write an argument list: command: [make, test]",
            ),
            "rounds": count(
                "How many follow-ups the agent gets at most, in the same session. Default: 3.",
                3,
                default=3,
                minimum=0,
                maximum=20,
                hint="write a whole number from 0 to 20",
            ),
            **more,
            "timeout": duration("How long the command may take. Default: as the step.", "10m"),
        },
        "command",
        title="Check",
        description="What must hold after an answer; a failure goes back to the agent.",
    )


def checked(then: str, **more: Any) -> Schema:
    """Describe the field that has a step's answers checked."""
    return field(
        "A command that must succeed after an answer. If it fails, the agent is told what it "
        f"printed and goes on in the same session, up to `rounds` times; {then}",
        {"command": ["make", "test"], "rounds": 3},
        ref="check",
        hint="write check: { command: [make, test] }",
        **more,
    )


def produces(**more: Any) -> Schema:
    """Describe the files that a step must have made."""
    return listing(
        "Files that must exist after an answer; if one does not, it is as if `check` failed.",
        {"type": "string", "minLength": 1},
        ["docs/design.md"],
        minItems=1,
        hint="write a list of paths: produces: [docs/design.md]",
        **more,
    )
