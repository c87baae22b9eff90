"""What a step of a recipe may say."""

from definitions.checks import approval, checked, produces
from definitions.limits import step_limits
from definitions.parts import (
    ENV_NAME,
    WORD,
    Schema,
    choice,
    count,
    effect,
    field,
    filled,
    flag,
    free,
    listing,
    mapping,
    on_lost,
    record,
    ref,
    seconds,
    session,
    spread,
    text,
    variable,
)

_POSITIVE = "write a whole number of at least 1"


def recursion(description: str) -> Schema:
    return field(
        description,
        {"max_depth": 10, "max_total_steps": 200},
        {"max_depth": 3},
        ref="recursion",
        hint="write recursion: { max_depth: 5, max_total_steps: 100 }",
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
        "`agent` sends a prompt to an agent, `recipe` runs another recipe, `bash` a command, and "
        "`approval` asks a person. Default: agent.",
        "agent",
        "recipe",
        "bash",
        "approval",
        default="agent",
        hint="write agent, recipe, bash or approval",
    ),
    "agent": filled(
        "Who does the work: an agent defined in .orchestrate/agents/NAME.md or "
        ".claude/agents/NAME.md; `ns:name` looks in the folder ns. Default: the run's own "
        "agent, as --backend and the configuration say.",
        "zen-architect",
        "developer-expertise:zen-architect",
    ),
    "session": session(),
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
        "The file to run, of any dialect: a path relative to this file, which may contain "
        "{{variables}}, or the id of a recipe. Required when `type` is recipe.",
        "audits/security-audit.yaml",
        "{{audit_type}}-audit.yaml",
    ),
    "command": field(
        "What a bash step runs: a script, or an argument list that no shell reads. {{values}} stay "
        "data in both; in arithmetic a value must be a whole number. An input of type command may "
        "stand alone. Exit code 0 is success. Required when `type` is bash.",
        "make test 2>&1 | tail -50",
        ["make", "test"],
        type=["array", "string"],
        items={"type": "string"},
        minItems=1,
        hint="write a script or an argument list: command: [make, test]",
    ),
    "cwd": filled(
        "The folder in the workspace that a command runs in; may use {{variables}}. Default: the "
        "workspace.",
        "packages/{{package}}",
    ),
    "env": mapping(
        "Environment variables for a command, laid over the inherited ones; values may use "
        "{{variables}}.",
        {"type": ["string", "number", "boolean"]},
        {"LOG_LEVEL": "debug", "TARGET": "{{target}}"},
        hint='write a mapping: env: { LOG_LEVEL: "debug" }',
        propertyNames={"pattern": ENV_NAME},
    ),
    "approval": approval(
        "The question of an approval step; later steps read what the person said as "
        "{{approval.message}}. A denied run ends. Required when `type` is approval.",
        ref="question",
    ),
    "context": free(
        "The variables handed to the sub-recipe, laid over its own defaults; it sees nothing else. "
        "A value that is just {{name}} keeps its type.",
        {"target": "{{file_path}}", "severity_threshold": "high"},
    ),
}

_WHEN: dict[str, Schema] = {
    "condition": filled(
        "Run the step only if this holds, else skip it. Compares {{variables}}, 'texts' and "
        "numbers with == != < <= > >= and in, joined by and, or, not and parentheses; "
        "a variable alone is false when it is false, 0, null or empty.",
        "{{analysis.severity}} == 'critical'",
        "{{score}} >= 8 and not ({{review}} == 'rejected' or {{dry_run}})",
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
    "parallel": field(
        "Run the iterations at the same time: eight, or so many; --max-parallel bounds both. "
        "The first failure ends the others. Default: false.",
        True,
        4,
        type=["boolean", "integer"],
        minimum=1,
        default=False,
        hint="write true, or the most items at once: parallel: 4",
    ),
    "spread": spread("the items of a parallel `foreach`, or the recipe that the step calls"),
    "while_condition": filled(
        "Run the step, or its `while_steps`, again and again while this holds; it is looked at "
        "before each round. Written as `condition` is.",
        "{{verdict}} != 'approved'",
        hint="write an expression in quotes: while_condition: \"{{verdict}} != 'approved'\"",
    ),
    "max_while_iterations": count(
        "The most rounds; if the condition still holds after them, the step fails. Default: 100.",
        10,
        3,
        default=100,
        minimum=1,
        maximum=10000,
        hint=_POSITIVE,
    ),
    "break_when": filled(
        "End the loop when this holds after a round, once `update_context` was applied. Written as "
        "`condition` is.",
        "{{score}} >= 8",
    ),
    "update_context": free(
        "Variables to set after each round; texts are templates, and a value that is just {{name}} "
        "keeps its type.",
        {"draft": "{{improved}}"},
    ),
    "while_steps": field(
        "The steps of one round, in order. Without them the step itself is the round.",
        [{"id": "improve", "prompt": "Improve {{draft}}", "output": "improved"}],
        type="array",
        items=ref("step"),
        minItems=1,
        hint="write a list of steps, each beginning with - id:",
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
    "parse_json": flag(
        "Whether the result must be JSON: the whole text, else the last fenced block, else the "
        "first object or array in the prose. If there is none, the step fails. Default: false, and "
        "an answer is structured only where all of it, or its last `json` block, is JSON.",
        default=False,
    ),
    "output_exit_code": variable(
        "The variable that gets a command's exit code, also when the command failed and `on_error` "
        "goes on.",
        "test_exit",
    ),
    "check": checked("then the step fails."),
    "produces": produces(),
    "agent_config": free(
        "Overrides of the agent's own configuration for this step, merged deeply into it.",
        {"providers": [{"module": "provider-anthropic", "config": {"temperature": 0.8}}]},
    ),
    "timeout": seconds(
        "How long the step may take before it is ended and counts as failed. Default: 600 seconds.",
        300,
        "30m",
        kind="integer",
        default=600,
        minimum=1,
        hint="write whole seconds, at least 1, or as in 90s, 5m, 1h30m",
    ),
    "retry": field(
        "Repeat the step after a passing trouble, a time limit among them; a command after any "
        "failure. Without it only an "
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
    "recursion": recursion(
        "Limits for this one call of a sub-recipe; max_depth may be higher than the recipe's."
    ),
    "limits": step_limits(),
    "on_lost": on_lost(),
    "effect": effect(),
}

STEP = record(
    _WHO | _WHEN | _HOW,
    "id",
    title="Step",
    description="One unit of work: a prompt for an agent, a call of another recipe, a command, or "
    "a question to a person.",
)
