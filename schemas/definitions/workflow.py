"""The workflow dialect: programs, agents, waits and loops over files."""

from definitions.checks import approval, check, checked, gate, produces
from definitions.inputs import INPUT, call, given, inputs, outputs
from definitions.limits import LIMIT_DEFINITIONS, limits
from definitions.parts import (
    ENV_NAME,
    NEEDED_SECRETS,
    SPREADS,
    Schema,
    choice,
    document,
    field,
    filled,
    flag,
    free,
    listing,
    mapping,
    record,
    ref,
    schema_line,
    secret_names,
    session,
    text,
    whole,
)
from definitions.workflow_flow import FLOW_DEFINITIONS, FLOW_FIELDS

VERSIONS = ("1.1", "1.1.1", "1.2", "1.3", "1.4")

_STEP_NAME = whole("[A-Za-z0-9_-]+(?: [A-Za-z0-9_-]+)*")
_POINTER = whole("(?:/(?:[^~/\\n]|~[01])*)*")
_STRINGS: Schema = {"type": "string"}
_PATTERN: Schema = {"type": "string", "minLength": 1}
_COMMAND_HINT = 'write a list, one argument per item: command: ["echo", "hi"]'
_GLOBS_HINT = 'write a list of patterns: ["src/*.py"]'

_STEP: Schema = {"name": "ListTasks", "command": ["ls", "inbox"], "output_capture": "lines"}
_LOOP: Schema = {
    "items_from": "steps.ListTasks.lines",
    "as": "task_file",
    "steps": [{"name": "Show", "command": ["cat", "inbox/${task_file}"]}],
}
_EXAMPLE: Schema = {
    "version": "1.1",
    "name": "show-tasks",
    "steps": [_STEP, {"name": "ShowTasks", "for_each": _LOOP}],
}

PROVIDER = record(
    {
        "command": listing(
            "The program and its arguments. ${PROMPT} is the prompt (argv mode only), ${key} a "
            "parameter from `defaults` or a step's `provider_params`.",
            _STRINGS,
            ["claude", "-p", "${PROMPT}", "--model", "${model}"],
            minItems=1,
            hint=_COMMAND_HINT,
        ),
        "input_mode": choice(
            "How the prompt reaches the program: as the argument ${PROMPT} or on standard input. "
            "Prefer stdin for long prompts. Default: argv.",
            "argv",
            "stdin",
            default="argv",
            hint="write argv or stdin",
        ),
        "defaults": free(
            "Values for the ${key} placeholders, which a step can override.",
            {"model": "claude-sonnet-4-20250514"},
        ),
    },
    "command",
    title="Provider",
    description="A template for calling an agent's command line.",
)

_INJECT = record(
    {
        "mode": choice(
            "`list` adds the files' paths to the prompt, `content` their contents, `none` nothing. "
            "Default: none.",
            "list",
            "content",
            "none",
            default="none",
            hint="write list, content or none",
        ),
        "instruction": text(
            "The sentence before the files. Each mode has its own if you leave it out.",
            "Implement the system described in these documents:",
        ),
        "position": choice(
            "Before or after the prompt's own text. Default: prepend.",
            "prepend",
            "append",
            default="prepend",
            hint="write prepend or append",
        ),
    }
)
# One schema with two types, not anyOf: then a wrong key is reported as just that.
INJECT: Schema = _INJECT | {"type": ["boolean", "object"]}

DEPENDS_ON = record(
    {
        "required": listing(
            "Files that must exist when the step starts; each pattern (* and ?) must match at "
            "least one path, else the step fails with exit code 2.",
            _PATTERN,
            ["config/*.yaml", "data/${context.dataset}/*.csv"],
            hint=_GLOBS_HINT,
        ),
        "optional": listing(
            "Files that are used if they exist; missing ones are not an error.",
            _PATTERN,
            ["docs/standards.md"],
            hint=_GLOBS_HINT,
        ),
        "inject": field(
            "Tell the agent about these files in its prompt: true for a plain list before the "
            "prompt, or an object to choose. Needs version 1.1.1. Default: false.",
            True,
            {"mode": "content", "instruction": "Reference data:", "position": "append"},
            default=False,
            since="1.1.1",
            hint="write true, false or a mapping with mode, instruction, position",
            **INJECT,
        ),
    },
    title="File dependencies",
    description="Files the step reads, checked right before it starts.",
)

REQUIREMENT = record(
    {
        "pointer": text(
            "Where to look in the parsed output, as a JSON pointer (RFC 6901).",
            "/approved",
            "/issues/0",
            pattern=_POINTER,
            hint="begin each part with a slash: /approved",
        ),
        "exists": flag("Whether something must be there. Default: true.", default=True),
        "equals": field(
            "The exact value, of the same JSON type.",
            True,
            "done",
            type=["string", "number", "boolean", "null"],
        ),
        "type": choice(
            "The JSON type that the value must have.",
            "string",
            "number",
            "boolean",
            "array",
            "object",
            "null",
            hint="write string, number, boolean, array, object or null",
        ),
    },
    "pointer",
    title="Requirement",
    description="One thing that must hold for the parsed output.",
)

_WORK: dict[str, Schema] = {
    "name": text(
        "The step's name, unique in its block; used by goto, ${steps.NAME.…} and the log files. "
        "Letters, digits, - and _, with single spaces inside, at most 100.",
        "BuildReport",
        pattern=_STEP_NAME,
        maxLength=100,
        hint="use up to 100 letters, digits, -, _ and single spaces, no dots or slashes",
    ),
    "agent": text("A label for whose work this is; it changes nothing else.", "engineer"),
    "provider": filled(
        "The agent to call: one of `providers`, or a built-in such as claude, gemini, codex. "
        "A step has one of provider, command, wait_for, for_each, repeat, approval.",
        "claude",
        hint="write a name: provider: claude; what it needs goes under provider_params",
    ),
    "provider_params": free(
        "Values for the provider's placeholders, over its defaults; may use variables.",
        {"model": "${context.model_name}"},
        hint="write a mapping: provider_params: { model: NAME }",
    ),
    "command": listing(
        "The program and its arguments, started as they are, without a shell. Variables in a "
        "script after `bash -c` reach it as data, never as code. An input of type command may be "
        "all of it.",
        _STRINGS,
        ["echo", "hi"],
        ["bash", "-c", "wc -l ${item}"],
        ["${inputs.check}"],
        minItems=1,
        hint=_COMMAND_HINT,
    ),
    "approval": approval(
        "Ask a person; a denied run ends, unless on.failure leads on. Later steps read "
        "${steps.NAME.message}. Needs version 1.4.",
        since="1.4",
    ),
    "wait_for": field(
        "Wait until files appear.",
        {"glob": "inbox/qa/results/*.json", "timeout_sec": 3600},
        ref="wait_for",
        hint='write a mapping: wait_for: { glob: "inbox/*.task" }',
    ),
    "for_each": field(
        "Run a block of steps once per item.",
        _LOOP,
        ref="for_each",
        hint="write a mapping with items (or items_from) and steps",
    ),
    "repeat": field(
        "Run a block of steps again and again until a condition holds. Needs version 1.4.",
        {
            "until": {"equals": {"left": "${steps.Test.exit_code}", "right": "0"}},
            "max": 3,
            "steps": [{"name": "Test", "command": ["make", "test"]}],
        },
        since="1.4",
        ref="repeat",
        hint="write a mapping with until, max and steps",
    ),
    "call": call(
        "The step has succeeded when the file ended well; ${steps.NAME.outputs.x} is its output.",
        since="1.4",
    ),
    "with": given("${inputs.task}", since="1.4"),
}

_DATA: dict[str, Schema] = {
    "prompt": filled(
        "What the agent is to do, in place of `input_file`; variables are filled in. Needs version "
        "1.4.",
        "Repair what the tests found:\n${steps.Test.output}",
        since="1.4",
    ),
    "session": session(since="1.4"),
    "check": checked("then the step fails. Needs version 1.4.", since="1.4"),
    "produces": produces(since="1.4"),
    "input_file": filled(
        "The file with the prompt (provider) or the standard input (command). Its contents are "
        "passed as they are; a prompt must be UTF-8.",
        "prompts/analyze.md",
    ),
    "output_file": filled(
        "A file that gets the whole standard output; missing folders are made.",
        "artifacts/analysis_${loop.index}.md",
    ),
    "output_capture": choice(
        "How the output is kept for later steps: `text` as output, `lines` as a list, `json` "
        "parsed. Default: text.",
        "text",
        "lines",
        "json",
        default="text",
        hint="write text, lines or json",
    ),
    "allow_parse_error": flag(
        "With `output_capture: json`, keep output that is no JSON as text instead of failing. "
        "Default: false.",
        default=False,
    ),
    "output_schema": filled(
        "A JSON Schema file under the workspace that the parsed output must meet. Needs version "
        "1.3 and `output_capture: json`. The check may take ten seconds, or what is left of the "
        "step's time limit.",
        "schemas/qa_verdict.schema.json",
        since="1.3",
    ),
    "output_require": listing(
        "Assertions on the parsed output; all must hold. Needs version 1.3 and "
        "`output_capture: json`.",
        ref("requirement"),
        [{"pointer": "/approved", "equals": True}, {"pointer": "/issues", "type": "array"}],
        since="1.3",
        hint="write a list of mappings, each with a pointer",
    ),
    "env": mapping(
        "Environment variables for the program, laid over the inherited ones. Values are literal: "
        "no variables are filled in.",
        {"type": "string", "x-hint": 'put the value in quotes: DEBUG: "1"'},
        {"LOG_LEVEL": "debug"},
        hint='write a mapping: env: { LOG_LEVEL: "debug" }',
        propertyNames={"pattern": ENV_NAME},
    ),
    "secrets": secret_names(
        "Names of environment variables that must be set; they are passed on, and their values "
        "are masked in everything that is written."
    ),
    "depends_on": field(
        "Files the step needs; they are checked right before it starts.",
        {"required": ["src/*.py"], "optional": ["docs/standards.md"]},
        ref="depends_on",
        hint='write a mapping: depends_on: { required: ["src/*.py"] }',
    ),
}

STEP = record(
    _WORK | _DATA | FLOW_FIELDS,
    "name",
    title="Step",
    description="One unit of work: call an agent, run a program, ask a person, wait for files, or "
    "loop.",
)

ROOT = record(
    {
        "$schema": schema_line("workflow"),
        "version": choice(
            "The version of the workflow language. 1.1.1 adds depends_on.inject, 1.2 adds "
            "for_each.on_item_complete, 1.3 adds output_schema and output_require, 1.4 "
            "inputs, outputs, limits, call, prompt, session, repeat, for_each.parallel, approval, "
            "check, produces and durations.",
            *VERSIONS,
            hint='write it in quotes: version: "1.1"',
        ),
        "name": text("The name people read.", "data_pipeline"),
        "strict_flow": flag(
            "Stop the run at the first failure that no `on` handler takes. Default: true.",
            default=True,
        ),
        "context": free(
            "Variables for ${context.name}; --context and --context-file override them.",
            {"dataset": "customer_2024"},
        ),
        "providers": mapping(
            "Templates for calling agents, by name. The built-in ones need no entry; an entry of "
            "the same name replaces one.",
            ref("provider"),
            {"codex": {"command": ["codex", "exec"], "input_mode": "stdin"}},
            propertyNames={"minLength": 1},
        ),
        "inputs": inputs("${inputs.task}", since="1.4"),
        "outputs": outputs("${steps.Report.output}", since="1.4"),
        "limits": limits(since="1.4"),
        "secrets": secret_names(
            NEEDED_SECRETS.format(what="the workflow") + " Needs version 1.4.", since="1.4"
        ),
        "inbox_dir": filled(
            "The folder of incoming task files. Default: inbox.", "inbox", default="inbox"
        ),
        "processed_dir": filled(
            "The folder of finished task files, which --clean-processed empties. Default: "
            "processed.",
            "processed",
            default="processed",
        ),
        "failed_dir": filled(
            "The folder of failed task files. Default: failed.", "failed", default="failed"
        ),
        "task_extension": filled(
            "How the names of task files end. Default: .task.", ".task", default=".task"
        ),
        "steps": listing(
            "The steps, run in order unless a handler jumps.",
            ref("step"),
            [_STEP],
            minItems=1,
            hint="write a list of steps, each beginning with - name:",
        ),
    },
    "version",
    "steps",
)

SCHEMA = document(
    "workflow",
    "orchestrate workflow",
    "A workflow of agents and programs that exchange files: steps in order with jumps, "
    "conditions, loops and waits.",
    ROOT,
    {
        "step": STEP,
        "provider": PROVIDER,
        "depends_on": DEPENDS_ON,
        "requirement": REQUIREMENT,
        "input": INPUT,
        **LIMIT_DEFINITIONS,
        **SPREADS,
        "approval": gate("variables are filled in", "is the step's outcome"),
        "check": check(),
        **FLOW_DEFINITIONS,
    },
    examples=(_EXAMPLE,),
)
