"""The recipe dialect: flat or staged agent steps with approval gates and sub-recipes."""

from definitions.checks import check, gate
from definitions.inputs import INPUT, inputs, outputs
from definitions.limits import LIMIT_DEFINITIONS, limits
from definitions.parts import (
    NEEDED_SECRETS,
    SPREADS,
    TIMESTAMP,
    WORD,
    Schema,
    choice,
    count,
    document,
    field,
    filled,
    flag,
    free,
    listing,
    record,
    ref,
    schema_line,
    seconds,
    secret_names,
    text,
    whole,
)
from definitions.recipe_steps import STEP, recursion

_NUMBER = "(?:0|[1-9][0-9]*)"
_SEMVER = whole(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}")
_STAGE_NAME = whole(" *[A-Za-z0-9_:-][A-Za-z0-9_ :-]*")
_POSITIVE = "write a whole number of at least 1"

_STEP: Schema = {
    "id": "analyze",
    "agent": "analyzer",
    "prompt": "Analyze {{file_path}}",
    "output": "analysis",
}
_STAGE: Schema = {
    "name": "planning",
    "steps": [_STEP],
    "approval": {"required": True, "prompt": "Go on with {{analysis}}?", "timeout": 3600},
}
_EXAMPLE: Schema = {
    "name": "file-review",
    "description": "Analyze one file",
    "version": "1.0.0",
    "context": {"file_path": "src/auth.py"},
    "steps": [_STEP],
}


RECURSION = record(
    {
        "max_depth": count(
            "How deep recipes may call recipes; the main recipe is depth 1. From 1 to 20, "
            "default 5.",
            5,
            10,
            default=5,
            minimum=1,
            maximum=20,
            hint="write a whole number from 1 to 20",
        ),
        "max_total_steps": count(
            "How many steps the whole tree of recipes may execute, each loop iteration counting "
            "as one. A loop that is certain to exceed it is refused before its first item. "
            "From 1 to 1000, default 100.",
            100,
            200,
            default=100,
            minimum=1,
            maximum=1000,
            hint="write a whole number from 1 to 1000",
        ),
    },
    title="Recursion limits",
    description="Bounds on recipes that call recipes; a called recipe can only narrow them.",
)

RETRY = record(
    {
        "max_attempts": count(
            "How often the step is tried in all, the first attempt included. Default: 3.",
            3,
            5,
            default=3,
            minimum=1,
            hint=_POSITIVE,
        ),
        "backoff": choice(
            "How the delay grows: `exponential` doubles it each time, `linear` adds the initial "
            "delay each time. Default: exponential.",
            "exponential",
            "linear",
            default="exponential",
            hint="write exponential or linear",
        ),
        "initial_delay": seconds(
            "How long to wait before the second attempt. Default: 5 seconds.",
            5,
            "10s",
            kind="integer",
            default=5,
            minimum=0,
        ),
        "max_delay": seconds(
            "The longest delay, however often the step was tried. Default: 300 seconds.",
            300,
            "1m",
            kind="integer",
            default=300,
            minimum=0,
        ),
    },
    title="Retry",
    description="How to repeat a step after a passing trouble: network, timeout, rate limit.",
)

APPROVAL = record(
    {
        "required": flag(
            "Whether the run stops after this stage and asks a person. Default: false.",
            default=False,
        ),
        "prompt": text(
            "What to ask; may use {{variables}}, so that the person sees the results. Needed when "
            "`required` is true.",
            "Review the findings before fixes begin:\n{{findings}}",
        ),
        "timeout": seconds(
            "How long to wait for an answer before `default` applies; 0 waits for ever. Default: "
            "0.",
            3600,
            "24h",
            kind="integer",
            default=0,
            minimum=0,
            hint="write whole seconds or as in 24h, 0 for no limit",
        ),
        "default": choice(
            "The decision if no answer comes in time. Default: deny.",
            "approve",
            "deny",
            default="deny",
            hint="write approve or deny",
        ),
    },
    title="Approval gate",
    description="A question to a person that follows a stage; a denied run ends there.",
)


def _steps(description: str) -> Schema:
    hint = "write a list of steps, each beginning with - id:"
    return listing(description, ref("step"), [_STEP], minItems=1, hint=hint)


STAGE = record(
    {
        "name": text(
            "The stage's name, which `approve` and `deny` use; unique in the recipe. Letters, "
            "digits, spaces, - _ and :, at most 100.",
            "planning",
            "Phase 1: Critical Fixes",
            pattern=_STAGE_NAME,
            maxLength=100,
            hint="use up to 100 letters, digits, spaces, -, _ and :",
        ),
        "condition": filled(
            "Run the stage only if this holds when it is reached, else skip its steps and its "
            "approval; as `condition` of a step.",
            "{{severity}} == 'critical'",
            hint="write an expression in quotes: condition: \"{{severity}} == 'critical'\"",
        ),
        "steps": _steps("The steps of this stage, run in order."),
        "approval": field(
            "A gate after the stage. Without one the next stage follows at once.",
            {"required": True, "prompt": "Apply the fixes?", "timeout": 3600, "default": "deny"},
            ref="approval",
            hint='write approval: { required: true, prompt: "Apply the fixes?", timeout: 3600 }',
        ),
    },
    "name",
    "steps",
    title="Stage",
    description="A group of steps, with an optional gate at its end.",
)

_DATE_HINT = 'write an ISO 8601 time in quotes: "2025-11-18T14:30:00Z"'

ROOT = record(
    {
        "$schema": schema_line("recipe"),
        "name": text(
            "The recipe's name: letters, digits, - and _, at most 100.",
            "code-review-flow",
            pattern=WORD,
            maxLength=100,
            hint="use up to 100 letters, digits, - and _: code-review-flow",
        ),
        "description": text(
            "What the recipe does, in one paragraph of at most 500 characters.",
            "Code review with analysis, feedback and validation",
            maxLength=500,
        ),
        "version": text(
            "The recipe's own version as MAJOR.MINOR.PATCH, without a pre-release tag.",
            "1.0.0",
            "2.3.1",
            pattern=_SEMVER,
            hint='write three numbers in quotes: version: "1.0.0"',
        ),
        "author": text("Who wrote it.", "Platform Team <platform@example.com>"),
        "created": text(
            "When it was written (ISO 8601).",
            "2025-11-18T14:30:00Z",
            pattern=TIMESTAMP,
            hint=_DATE_HINT,
        ),
        "updated": text(
            "When it was last changed (ISO 8601).",
            "2025-11-20T09:15:00-08:00",
            pattern=TIMESTAMP,
            hint=_DATE_HINT,
        ),
        "tags": listing(
            "Words to find the recipe by.",
            {"type": "string"},
            ["code-quality", "python"],
            hint='write a list: tags: ["python", "security"]',
        ),
        "context": free(
            "Variables that every step can use as {{name}}, with their starting values; "
            "--context and --context-file override them.",
            {"file_path": "src/auth.py", "severity_threshold": "high"},
        ),
        "inputs": inputs("{{task}}"),
        "outputs": outputs("{{summary}}"),
        "limits": limits(),
        "secrets": secret_names(NEEDED_SECRETS.format(what="the recipe")),
        "recursion": recursion(
            "Limits for recipes that call recipes. Default: depth 5, 100 steps in all."
        ),
        "steps": _steps(
            "A flat recipe: these steps, run in order. Write either `steps` or `stages`."
        ),
        "stages": listing(
            "A staged recipe: groups of steps with approval gates between them. Write either "
            "`stages` or `steps`.",
            ref("stage"),
            [_STAGE],
            minItems=1,
            hint="write a list of stages, each beginning with - name:",
        ),
    },
    "name",
    "description",
    "version",
)

SCHEMA = document(
    "recipe",
    "orchestrate recipe",
    "A recipe of agent steps, flat or in stages with approval gates; steps share variables, loop "
    "over lists and call other recipes.",
    ROOT,
    {
        "step": STEP,
        "stage": STAGE,
        "approval": APPROVAL,
        "question": gate("may use {{variables}}", "lets the run go on or ends it"),
        "check": check(),
        "retry": RETRY,
        "recursion": RECURSION,
        "input": INPUT,
        **LIMIT_DEFINITIONS,
        **SPREADS,
    },
    examples=(_EXAMPLE,),
)
