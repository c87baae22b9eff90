"""The machine dialect: steps, outcomes and transitions."""

from definitions.parts import (
    KEBAB,
    NEEDED_SECRETS,
    STEP_KEY,
    Schema,
    amount,
    choice,
    count,
    document,
    field,
    filled,
    flag,
    listing,
    mapping,
    on_lost,
    record,
    ref,
    schema_line,
    secret_names,
    text,
)

_EXIT = {"action": "exit", "reason": "changes-committed"}
_TRANSITIONS: Schema = {
    "no-issues": {"nextStep": "commit"},
    "issues-found": {"nextStep": "fix"},
    "other": {"action": "exit", "reason": "user-provided-other"},
}
_STEP: Schema = {
    "prompt": "Commit the changes with a clear message.",
    "model": "haiku",
    "outcomes": ["committed", "other"],
    "onOutcome": {
        "committed": _EXIT,
        "other": {"action": "exit", "reason": "user-provided-other"},
    },
}
_EXAMPLE: Schema = {
    "id": "commit-only",
    "label": "Commit",
    "description": "Commit what is in the working tree",
    "initialStep": "commit",
    "steps": {"commit": _STEP},
}


def _model(description: str) -> Schema:
    return choice(
        f"{description} `haiku` is fast and cheap, `sonnet` balanced, `opus` the most capable; "
        "each agent maps them to its own models.",
        "haiku",
        "sonnet",
        "opus",
        hint="write haiku, sonnet or opus",
    )


def _retry(description: str) -> Schema:
    return field(
        description,
        {"maxAttempts": 3, "initialDelay": 5},
        ref="retry",
        hint="write retry: { maxAttempts: 6 }",
    )


RETRY = record(
    {
        "maxAttempts": count(
            "How often the agent is called in all, the first call included. Default: 6.",
            6,
            1,
            default=6,
            minimum=1,
            hint="write a whole number, at least 1",
        ),
        "initialDelay": amount(
            "Seconds to wait before the second call. Default: 1.", 1, 0.5, default=1, minimum=0
        ),
        "maxDelay": amount(
            "The longest delay in seconds, however often the agent was called. A usage limit is "
            "waited for until it ends all the same. Default: 60.",
            60,
            300,
            default=60,
            minimum=0,
        ),
        "backoff": choice(
            "How the delay grows: `exponential` doubles it each time, `linear` adds the initial "
            "delay each time. Default: exponential.",
            "exponential",
            "linear",
            default="exponential",
            hint="write exponential or linear",
        ),
    },
    title="Retry",
    description="How to call the agent again, in the same session, after a passing trouble: rate "
    "limit, overload, network, time limit.",
)


TRANSITION = record(
    {
        "nextStep": text(
            "Go on with this step of the same recipe. Stands alone: no other key beside it.",
            "code-review",
        ),
        "action": choice(
            "Leave this recipe: `exit` ends it and needs a `reason`; `restart-new-session` begins "
            "another recipe in a fresh agent session and needs a `recipeId`.",
            "exit",
            "restart-new-session",
            hint="write exit or restart-new-session, or use nextStep",
        ),
        "reason": text(
            "Why the recipe ended, for the report and the exit message. Required with "
            "`action: exit`.",
            "changes-committed",
            "user-provided-other",
        ),
        "recipeId": text(
            "The recipe to start in the new session; it may be this one again. Required with "
            "`action: restart-new-session`.",
            "implement-and-review-all",
        ),
    },
    title="Transition",
    description=(
        "What follows an outcome, in exactly one of three forms: {nextStep}, {action: exit, "
        "reason} or {action: restart-new-session, recipeId}."
    ),
)

STEP = record(
    {
        "prompt": filled(
            "The whole instruction for the agent. The list of outcomes and how to report one is "
            "appended when it is sent, so do not write it here.",
            "Review the uncommitted changes. Report findings; change nothing.",
        ),
        "outcomes": listing(
            "The answers the agent may give. Each one needs a transition in `onOutcome`. `other` "
            "is the way out when nothing fits; it asks the agent for a description.",
            {
                "type": "string",
                "pattern": STEP_KEY,
                "x-hint": "use letters, digits, - and _: issues-found",
            },
            ["no-issues", "issues-found", "other"],
            minItems=1,
            uniqueItems=True,
            hint='write a list of different names: outcomes: ["complete", "other"]',
        ),
        "onOutcome": mapping(
            "What to do for each outcome: one entry per name in `outcomes`.",
            ref("transition"),
            _TRANSITIONS,
        ),
        "model": _model("The model tier of this step only. Default: the recipe's."),
        "onLost": on_lost(),
        "retry": _retry(
            "How this step is tried again after a passing trouble. Default: the recipe's."
        ),
    },
    "prompt",
    "outcomes",
    "onOutcome",
    title="Step",
    description="One piece of work for the agent, which ends by reporting one of its outcomes.",
)

GUARDRAILS = record(
    {
        "maxStepVisits": count(
            "How often any one step may run before the recipe is stopped. Default: 3.",
            3,
            5,
            default=3,
            minimum=1,
            hint="write a whole number of at least 1",
        ),
        "maxTotalSteps": count(
            "How many steps the recipe may make in all before it is stopped. Default: 100.",
            100,
            150,
            default=100,
            minimum=1,
            hint="write a whole number of at least 1",
        ),
        "exitOnOther": flag(
            "Whether the outcome `other` must end the recipe. With false it follows its "
            "transition, which may be a next step. Default: true.",
            default=True,
        ),
    },
    title="Guardrails",
    description="Limits that stop a recipe which would otherwise go in circles.",
)

ROOT = record(
    {
        "$schema": schema_line("machine"),
        "id": text(
            "The recipe's name for the command line and for `recipeId`, in kebab-case.",
            "review-and-commit",
            pattern=KEBAB,
            hint="use lower-case words joined by hyphens: review-and-commit",
        ),
        "label": text("The name people read.", "Review & Commit"),
        "description": text(
            "One line on what the recipe does; `orchestrate list` shows it.",
            "Review existing changes, fix issues, and commit",
        ),
        "initialStep": text("The step to begin with; one of `steps`.", "code-review"),
        "steps": mapping(
            "All steps by name. Their order in the file has no meaning: transitions decide.",
            ref("step"),
            {"commit": _STEP},
            minProperties=1,
            propertyNames={
                "pattern": STEP_KEY,
                "x-hint": "use letters, digits, - and _ in step names: code-review",
            },
            hint="write a mapping from step name to step",
        ),
        "secrets": secret_names(NEEDED_SECRETS.format(what="the machine")),
        "guardrails": field(
            "Limits against endless loops. Default: 3 visits per step, 100 steps in all, `other` "
            "exits.",
            {"maxStepVisits": 3, "maxTotalSteps": 100, "exitOnOther": True},
            default={"maxStepVisits": 3, "maxTotalSteps": 100, "exitOnOther": True},
            ref="guardrails",
        ),
        "model": _model("The model tier of steps that name none. Default: the agent's own."),
        "retry": _retry(
            "How steps that say nothing themselves are tried again after a passing trouble. "
            "Default: five times after an outage of the agent's service, never after a time limit."
        ),
    },
    "id",
    "label",
    "description",
    "initialStep",
    "steps",
)

SCHEMA = document(
    "machine",
    "orchestrate machine",
    "A recipe as a state machine: an agent works on a step, reports one of its outcomes, and the "
    "outcome decides what comes next.",
    ROOT,
    {"step": STEP, "transition": TRANSITION, "guardrails": GUARDRAILS, "retry": RETRY},
    examples=(_EXAMPLE,),
)
