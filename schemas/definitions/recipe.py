"""The recipe dialect: flat or staged agent steps with approval gates and sub-recipes."""

from definitions.parts import (
    NEEDED_SECRETS,
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
    on_lost,
    record,
    ref,
    schema_line,
    secret_names,
    text,
    variable,
    whole,
)

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


def _recursion(description: str) -> Schema:
    return field(
        description,
        {"max_depth": 10, "max_total_steps": 200},
        {"max_depth": 3},
        ref="recursion",
        hint="write recursion: { max_depth: 5, max_total_steps: 100 }",
    )


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
        "initial_delay": count(
            "Seconds to wait before the second attempt. Default: 5.", 5, 10, default=5, minimum=0
        ),
        "max_delay": count(
            "The longest delay in seconds, however often the step was tried. Default: 300.",
            300,
            60,
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
        "timeout": count(
            "Seconds to wait for an answer before `default` applies; 0 waits for ever. Default: 0.",
            3600,
            0,
            default=0,
            minimum=0,
            hint="write whole seconds, 0 for no limit",
        ),
        "default": choice(
            "The decision when nobody answered in time. Default: deny.",
            "approve",
            "deny",
            default="deny",
            hint="write approve or deny",
        ),
    },
    title="Approval gate",
    description="A question to a person that follows a stage; a denied run ends there.",
)

_WHO: dict[str, Schema] = {
    "id": text(
        "The step's name in logs, in `depends_on` and when resuming; unique in the whole recipe. "
        "Letters, digits, - and _, at most 50.",
        "analyze-code",
        pattern=WORD,
        maxLength=50,
        hint="use up to 50 letters, digits, - and _: analyze-code",
    ),
    "type": choice(
        "`agent` sends a prompt to an agent, `recipe` runs another recipe. Default: agent.",
        "agent",
        "recipe",
        default="agent",
        hint="write agent or recipe",
    ),
    "agent": filled(
        "Who does the work: an agent defined in .orchestrate/agents/NAME.md or "
        ".claude/agents/NAME.md; `ns:name` looks in the folder ns. Required for agent steps.",
        "zen-architect",
        "developer-expertise:zen-architect",
    ),
    "mode": filled(
        "A way of working that the agent knows; it is put before the prompt as `MODE: …`.",
        "ANALYZE",
        "REVIEW",
    ),
    "prompt": filled(
        "What the agent is to do. {{name}} is replaced by a context variable or an earlier output, "
        "{{name?}} by nothing when it is undefined. Required for agent steps.",
        "Analyze {{file_path}} for {{severity}} issues",
    ),
    "recipe": filled(
        "The recipe to run, as a path relative to this file; may contain {{variables}}. Required "
        "when `type` is recipe.",
        "audits/security-audit.yaml",
        "{{audit_type}}-audit.yaml",
    ),
    "context": free(
        "The variables handed to the sub-recipe, laid over its own defaults; it sees nothing else. "
        "A value that is just {{name}} keeps its type.",
        {"target": "{{file_path}}", "severity_threshold": "high"},
    ),
}

_WHEN: dict[str, Schema] = {
    "condition": filled(
        "Run the step only if this holds, else skip it. Compares {{variables}} and quoted strings "
        "with == and !=, joined by and / or, evaluated from left to right.",
        "{{analysis.severity}} == 'critical'",
        "{{tests}} == 'passed' and {{review}} != 'rejected'",
        hint="write an expression in quotes: condition: \"{{severity}} == 'critical'\"",
    ),
    "foreach": filled(
        "Run the step once per item of this list variable.",
        "{{files}}",
        "{{results.files}}",
        hint='write the list under context: and its name here: foreach: "{{files}}"',
    ),
    "as": variable(
        "The variable that holds the current item inside the loop. Default: item.",
        "current_file",
        default="item",
    ),
    "collect": variable(
        "The variable that gets the list of all iterations' results, in the order of the items.",
        "file_analyses",
    ),
    "max_iterations": count(
        "The most items a loop accepts; a longer list fails the step. Default: 100.",
        100,
        500,
        default=100,
        minimum=1,
        hint=_POSITIVE,
    ),
    "parallel": flag(
        "Run the iterations at the same time, up to --max-parallel. The first failure ends the "
        "others. Default: false.",
        default=False,
    ),
    "depends_on": listing(
        "Earlier steps that must have succeeded; if one was skipped or failed, this step is "
        "skipped. Steps run in file order either way.",
        {"type": "string"},
        ["analyze-security", "analyze-performance"],
        hint='write a list of step ids: depends_on: ["analyze"]',
    ),
}

_HOW: dict[str, Schema] = {
    "output": variable(
        "The variable that keeps this step's result for later steps. Without it the result is not "
        "kept.",
        "analysis",
    ),
    "agent_config": free(
        "Overrides of the agent's own configuration for this step, merged deeply into it.",
        {"providers": [{"module": "provider-anthropic", "config": {"temperature": 0.8}}]},
    ),
    "timeout": count(
        "Seconds the step may take before it is ended and counts as failed. Default: 600.",
        300,
        1800,
        default=600,
        minimum=1,
        hint="write whole seconds, at least 1",
    ),
    "retry": field(
        "Repeat the step after a passing trouble, a time limit among them. Without it only an "
        "outage of the agent's service is waited out, five times; each of its keys has a default.",
        {"max_attempts": 5, "backoff": "exponential", "initial_delay": 10},
        ref="retry",
        hint="write retry: { max_attempts: 3 }",
    ),
    "on_error": choice(
        "After a failure: `fail` stops the recipe, `continue` goes on with the next step, "
        "`skip_remaining` skips all that is left and ends as a partial success. Default: fail.",
        "fail",
        "continue",
        "skip_remaining",
        default="fail",
        hint="write fail, continue or skip_remaining",
    ),
    "recursion": _recursion(
        "Limits for this one call of a sub-recipe; max_depth may be higher than the recipe's."
    ),
    "on_lost": on_lost(),
}

STEP = record(
    _WHO | _WHEN | _HOW,
    "id",
    title="Step",
    description="One unit of work: a prompt for an agent, or a call of another recipe.",
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
        "secrets": secret_names(NEEDED_SECRETS.format(what="the recipe")),
        "recursion": _recursion(
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
        "retry": RETRY,
        "recursion": RECURSION,
    },
    examples=(_EXAMPLE,),
)
