"""The machine dialect: steps, outcomes and transitions."""

from definitions.checks import approval, check, checked, gate, produces
from definitions.inputs import INPUT, call, given, inputs, outputs
from definitions.limits import LIMIT_DEFINITIONS, limits, step_limits
from definitions.parts import (
    KEBAB,
    NEEDED_SECRETS,
    SPREADS,
    STEP_KEY,
    Schema,
    choice,
    count,
    document,
    duration,
    effect,
    field,
    filled,
    flag,
    listing,
    mapping,
    on_lost,
    record,
    ref,
    schema_line,
    seconds,
    secret_names,
    spread,
    text,
    whole,
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
        "initialDelay": seconds(
            "How long to wait before the second call. Default: 1 second.",
            1,
            0.5,
            "5s",
            default=1,
            minimum=0,
        ),
        "maxDelay": seconds(
            "The longest delay, however often the agent was called. A usage limit is "
            "waited for until it ends all the same. Default: 60 seconds.",
            60,
            "5m",
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
        "status": choice(
            "With `action: exit`: `failed` ends the run as failed, with exit code 1. Default: "
            "completed.",
            "completed",
            "failed",
            default="completed",
            hint="write completed or failed",
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

APPROVAL = gate("a template as prompts are", "is the outcome `approved` or `denied`")
CHECK = check(
    outcomes=listing(
        "The outcomes that are checked. Default: all but `other`.",
        {"type": "string"},
        ["complete"],
        minItems=1,
        hint="write a list: outcomes: [complete]",
    )
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
        "command": field(
            "Run a program instead of asking an agent: an argument list, or one text that is a "
            "script of bash. {{values}} stay data in both. Exit code 0 is the outcome `passed`, "
            "any other `failed`, unless `exits` says otherwise.",
            ["make", "test"],
            "make test 2>&1 | tail -50",
            type=["array", "string"],
            items={"type": "string"},
            minItems=1,
            minLength=1,
            hint="write an argument list: command: [make, test]",
        ),
        "exits": mapping(
            "The outcome of each exit code; `*` is every other one but 0, which is `passed` "
            "unless it is named.",
            {"type": "string", "pattern": STEP_KEY, "x-hint": "name an outcome: flaky"},
            {"0": "passed", "2": "flaky", "*": "failed"},
            propertyNames={
                "pattern": whole("[1-9]?[0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5]|[*]"),
                "x-hint": 'write a code from 0 to 255, or "*"',
            },
            hint='write a mapping: exits: {0: passed, "*": failed}',
        ),
        "timeout": duration("How long the step may take. Default: a day.", "10m"),
        "approval": approval(
            "Ask a person instead of an agent; the outcomes are `approved` and `denied`."
        ),
        "call": call(
            "The outcome is `completed` or `failed`, or the reason it exits with where that is one "
            "of the step's outcomes; its outputs are {{steps.NAME.outputs.x}}."
        ),
        "with": given("{{task}}"),
        "spread": spread("the file that the step calls"),
        "check": checked("then the outcome is `check-failed`, or without that the run ends."),
        "produces": produces(),
        "onOutcome": mapping(
            "What to do for each outcome: one entry per name in `outcomes`.",
            ref("transition"),
            _TRANSITIONS,
        ),
        "model": _model("The model tier of this step only. Default: the recipe's."),
        "permissions": choice(
            "What the agent may do in this step without asking: `bypass` everything, `edit` change "
            "files, `default` what its own settings allow, `read-only` nothing that changes "
            "anything. Refused where the agent cannot be held to it. Default: the run's.",
            "bypass",
            "edit",
            "default",
            "read-only",
            hint="write bypass, edit, default or read-only",
        ),
        "tools": listing(
            "The only tools that the agent has in this step, by the names of its program. Refused "
            "where the program cannot be held to it.",
            {"type": "string", "minLength": 1},
            ["Read", "Grep"],
            hint="write a list of names: tools: [Read, Grep]",
        ),
        "maxTurns": count(
            "How many turns the agent may take in one call. Refused where the program has no such "
            "limit.",
            40,
            minimum=1,
            hint="write a whole number, at least 1",
        ),
        "agentArgs": listing(
            "Arguments that are handed on to the agent's program as they are. Flags that "
            "orchestrate sets (permissions, session, model, output) are refused.",
            {"type": "string", "minLength": 1},
            ["--add-dir", "../shared"],
            minItems=1,
            hint="write a list of arguments: agentArgs: [--add-dir, ../shared]",
        ),
        "limits": step_limits(),
        "onLost": on_lost(),
        "effect": effect(),
        "retry": _retry(
            "How this step is tried again after a passing trouble. Default: the recipe's."
        ),
    },
    "onOutcome",
    title="Step",
    description="One piece of work for an agent, a program or a person, which ends with one of "
    "its outcomes.",
) | {
    "if": {"not": {"anyOf": [{"required": [kind]} for kind in ("command", "approval", "call")]}},
    "then": {"required": ["prompt", "outcomes"]},
}

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
        "inputs": inputs("{{task}} in prompts and commands"),
        "secrets": secret_names(NEEDED_SECRETS.format(what="the machine")),
        "outputs": outputs("{{steps.review.output}}"),
        "limits": limits(),
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
    {
        "step": STEP,
        "transition": TRANSITION,
        "guardrails": GUARDRAILS,
        "retry": RETRY,
        "input": INPUT,
        **LIMIT_DEFINITIONS,
        **SPREADS,
        "approval": APPROVAL,
        "check": CHECK,
    },
    examples=(_EXAMPLE,),
)
