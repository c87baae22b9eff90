"""Fields that people bring along from another place, dialect or tool, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Collection, Container
from typing import Any

from orchestrate.diagnostics import closest
from orchestrate.regex import regex
from orchestrate.source.foreign_fields import FOREIGN

# What other tools call a command that a step runs.
COMMAND_WORDS = ("run", "shell", "script", "cmd", "exec")

# The same thing under another name; the first one that the mapping knows is suggested.
_SYNONYMS: dict[str, tuple[str, ...]] = {
    "approved": ("success",),
    "args": ("command",),
    "attempts": ("rounds", "max_attempts", "maxAttempts"),
    "budget": ("cost_usd", "limits"),
    "context": ("with", "inputs"),
    "choices": ("enum",),
    "cost": ("cost_usd",),
    "cmd": ("command",),
    "condition": ("when",),
    "exec": ("command",),
    "denied": ("failure",),
    "delay": ("delay_ms", "initial_delay"),
    "depends": ("depends_on",),
    "file": ("input_file",),
    "goto": ("nextStep",),
    "help": ("description",),
    "id": ("name",),
    "if": ("when", "condition"),
    "for_each": ("foreach",),
    "in": ("items",),
    "inputs": ("context",),
    "instruction": ("prompt",),
    "instructions": ("prompt",),
    "input": ("input_file",),
    "key": ("id", "name"),
    "label": ("name",),
    "list": ("items",),
    "loop": ("for_each", "foreach"),
    "max": ("max_attempts", "maximum"),
    "max_attempts": ("max", "rounds"),
    "max_iterations": ("max",),
    "max_rounds": ("rounds", "max"),
    "max_cost": ("cost_usd",),
    "max_retries": ("max_attempts",),
    "max_steps": ("max_total_steps", "steps"),
    "max_time": ("time",),
    "message": ("reason", "prompt"),
    "min": ("minimum",),
    "name": ("id",),
    "needs": ("depends_on",),
    "next": ("nextStep",),
    "on": ("onOutcome",),
    "options": ("enum",),
    "on_failure": ("on_error",),
    "output_var": ("output",),
    "path": ("glob", "move_to"),
    "pattern": ("glob",),
    "question": ("prompt",),
    "regex": ("pattern",),
    "run": ("command",),
    "save_as": ("output",),
    "script": ("command",),
    "recipe": ("call",),
    "retries": ("retry", "max_attempts", "rounds"),
    "retry": ("retries",),
    "stages": ("steps",),
    "start": ("initialStep",),
    "stdin": ("input_file",),
    "stdout": ("output_file",),
    "strict": ("strict_flow",),
    "task": ("prompt",),
    "tasks": ("steps",),
    "times": ("max", "rounds"),
    "timeout": ("timeout_sec", "time"),
    "timeout_sec": ("timeout",),
    "title": ("name", "label"),
    "transitions": ("onOutcome",),
    "values": ("enum",),
    "unless": ("when", "condition"),
    "var": ("as",),
    "variables": ("context",),
    "vars": ("context",),
    "when": ("condition",),
    "with": ("items", "context"),
}

# Words of other tools for one of a few that are allowed.
FOREIGN_WORDS = {
    "shell": "bash",
    "command": "bash",
    "script": "bash",
    "gate": "approval",
    "human": "approval",
    "manual": "approval",
    "subrecipe": "recipe",
    "prompt": "agent",
    "llm": "agent",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "str": "string",
    "text": "string",
    "array": "list",
    "dict": "object",
    "map": "object",
    "mapping": "object",
    "file": "path",
    "folder": "path",
    "directory": "path",
}

_NUMBER = regex(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?\Z")

_IN_LOOP = "it belongs inside for_each"
_IN_WAIT = "it belongs inside wait_for"
_IN_NEEDS = "it belongs inside depends_on"
_IN_GUARDRAILS = "it belongs inside guardrails"
_VISITS = "write guardrails: {maxStepVisits: N} at the top: how often one step may run"
_GOTO_NEXT = "write on: { success: { goto: NAME } }"
_GOTO_FAILURE = "write on: { failure: { goto: NAME } }"
_GOTO_ALWAYS = "write on: { always: { goto: NAME } }"

_IN_ORDER = "the steps of a recipe run in the order written; a condition: can skip some"
_IN_STEPS = "it belongs inside a step: write steps: and below it - id: NAME"
_OF_WORKFLOW = "recipes have no such steps, but workflows: there a step begins with - name:"

_ABOUT = ("author", "created", "tags", "updated")
_COMMENT = "say it in a comment"
_FIRST_STEP = "remove it: the first step of the list begins"
_ONE_AGENT = "all steps ask the run's agent: give --backend NAME"
_SECRETS = "write secrets: at the top of the file"
_STEPS = "write limits: { steps: NUMBER } at the top of the file"
_SETTINGS = "write them on the step: model, permissions, tools, maxTurns, agentArgs"
_NO_ITEMS = "machines have no loops over items: call a recipe or workflow with one, call: FILE"
_NO_ROUNDS = "let an outcome lead back, {nextStep: NAME}; limits: { visits: NUMBER } bounds it"
_NO_CONDITIONS = "the outcomes decide, of an agent or of a command: onOutcome: {…: {nextStep: …}}"

# By a field that only this kind of mapping has, so that no author gets another dialect's advice.
_ADVICE: dict[str, dict[str, str]] = {
    "wait_for": {
        "always": _GOTO_ALWAYS,
        "as": _IN_LOOP,
        "failure": _GOTO_FAILURE,
        "glob": _IN_WAIT,
        "goto": _GOTO_NEXT,
        "inject": _IN_NEEDS,
        "items": _IN_LOOP,
        "items_from": _IN_LOOP,
        "min_count": _IN_WAIT,
        "model": "write provider_params: { model: NAME }",
        "next": _GOTO_NEXT,
        "nextStep": _GOTO_NEXT,
        "next_step": _GOTO_NEXT,
        "on_error": _GOTO_FAILURE,
        "on_failure": _GOTO_FAILURE,
        "on_item_complete": _IN_LOOP,
        "on_success": _GOTO_NEXT,
        "optional": _IN_NEEDS,
        "poll_ms": _IN_WAIT,
        "required": _IN_NEEDS,
        "steps": _IN_LOOP,
        "success": _GOTO_NEXT,
        "agentArgs": "write provider_params: { agent_args: [...] }",
        "agent_config": "write provider_params: { model: NAME }",
        "maxTurns": "write provider_params: { max_turns: NUMBER }",
        **dict.fromkeys(("permissions", "tools"), "write it below provider_params"),
        **dict.fromkeys(
            (
                "break_when",
                "max_while_iterations",
                "until",
                "update_context",
                "while",
                "while_condition",
                "while_steps",
            ),
            "write repeat: { until: { equals: … }, max: NUMBER, steps: … }",
        ),
        "collect": "let the steps of the loop write files, by ${loop.index}",
        "cwd": "start a shell: command: [bash, -c, 'cd FOLDER && make']",
        "exits": "the code is ${steps.NAME.exit_code}, and on: { failure: … } leads on",
        "max_iterations": _STEPS,
        "mode": "say it in the prompt",
        "onOutcome": "write on: { success: { goto: NAME }, failure: { goto: NAME } }",
        "outcomes": "let the agent answer with JSON (output_capture: json), and steps ask for it "
        "(when: { equals: … })",
        "output": "later steps read ${steps.NAME.output}; output_file: FILE keeps it in a file",
        "output_exit_code": "later steps read ${steps.NAME.exit_code}",
        "parallel": _IN_LOOP,
        "parse_json": "write output_capture: json",
        "recursion": _STEPS,
        "spread": _IN_LOOP,
        "type": "remove it: a step has a provider, a command, an approval, a loop or a call",
    },
    "not_exists": {
        "left": "write equals: { left: …, right: … }",
        "not_equals": "before this step, put one with when: equals that jumps past it",
        "right": "write equals: { left: …, right: … }",
    },
    "agent_config": {
        "approval": "it belongs to a stage, beside its steps",
        "goto": _IN_ORDER,
        "model": "write agent_config: { model: NAME }, or name the model in the agent's own file",
        "next": _IN_ORDER,
        "nextStep": _IN_ORDER,
        "next_step": _IN_ORDER,
        "input_file": _OF_WORKFLOW,
        "provider": "write backend: NAME in the agent's own file, or give --backend",
        "provider_preferences": "write agent_config: { model: NAME } with the one you prefer",
        "model_role": "write agent_config: { model: NAME }",
        "wait_for": _OF_WORKFLOW,
        **dict.fromkeys(COMMAND_WORDS, "write type: bash, and the script under command:"),
        **dict.fromkeys(("working_dir", "working-directory", "workdir"), "write cwd: FOLDER"),
        "exit_code": "write output_exit_code: NAME",
        "retries": "write retry: { max_attempts: NUMBER }",
        "max_concurrency": "write parallel: NUMBER, how many items run at once",
        **dict.fromkeys(
            ("continue-on-error", "continue_on_error", "ignore_errors", "allow_failure"),
            "write on_error: continue",
        ),
        **dict.fromkeys(
            ("timeout-minutes", "timeout_minutes", "timeout_seconds"),
            "write timeout: with seconds, or as in 90s, 5m, 1h30m",
        ),
        "tools": "name the tools in the agent's own file, or under agent_config:",
        "expected_output": "say in the prompt what to answer with",
        "human_input": "add a step with type: approval, and approval: { prompt: TEXT }",
        "matrix": "write foreach: a list, and as: the name of an item",
        **dict.fromkeys(("call", "uses"), "write type: recipe, and the file under recipe:"),
        "agentArgs": "write agent_config: { agent_args: [...] }",
        "maxTurns": "write agent_config: { max_turns: NUMBER }",
        "permissions": "write agent_config: { permissions: edit }",
        "provider_params": "write agent_config: { model: NAME }",
        "exits": "write output_exit_code: NAME, on_error: continue, and conditions on {{NAME}}",
        **dict.fromkeys(
            ("on", "onOutcome"), "write on_error: continue, and a condition: on the steps behind"
        ),
        "outcomes": "let the agent answer with JSON (parse_json: true, output: NAME), read in "
        "conditions",
        "allow_parse_error": "remove it: without parse_json: true an answer may be anything",
        "output_capture": "write output: NAME; parse_json: true takes JSON alone",
        "output_file": "write output: NAME, and let a bash step write the file",
        **dict.fromkeys(
            ("output_require", "output_schema"),
            "write parse_json: true, and check the parts with "
            "a condition:, or all of it with check: { command: … }",
        ),
        **dict.fromkeys(("repeat", "while"), "write while_condition: and while_steps:"),
        "until": "write break_when:, beside while_condition:",
        "steps": "write while_condition: and while_steps:, or a file of its own and type: recipe",
        "secrets": _SECRETS,
    },
    "strict_flow": {
        **dict.fromkeys(("description", *_ABOUT), _COMMENT),
        "guardrails": "write limits: { visits: NUMBER, steps: NUMBER }",
        "initialStep": _FIRST_STEP,
        "model": "write provider_params: { model: NAME } on the steps",
        "recursion": "write limits: { steps: NUMBER }",
        "retry": "write retries: { max: NUMBER } on the steps",
    },
    "stages": {
        "guardrails": "write limits: { steps: NUMBER }",
        "initialStep": _FIRST_STEP,
        "model": "write agent_config: { model: NAME } on the steps, or give --model",
        "providers": "each agent is a file: .orchestrate/agents/NAME.md",
        "retry": "write it on the steps",
        "strict_flow": "write on_error: continue on the steps that may fail",
        "approval": "write stages:, put the steps into one, and the approval beside them",
        "final_output": "write outputs: { result: '{{variable}}' }",
        "orchestrator": "remove it: each agent's own file says how that agent works",
        "rate_limiting": "remove it: --max-parallel says how many work at once; a rate limit is "
        "waited out",
    },
    "approval": {
        "agent": _IN_STEPS,
        "prompt": _IN_STEPS,
        "required": "it belongs inside approval",
        "timeout": "it belongs inside approval, or inside a step",
    },
    "initialStep": {
        "maxIterations": _VISITS,
        "max_iterations": _VISITS,
        "exitOnOther": _IN_GUARDRAILS,
        "maxStepVisits": _IN_GUARDRAILS,
        "maxTotalSteps": _IN_GUARDRAILS,
        "outcomes": "it belongs inside a step",
        "version": "a machine has no version: remove it",
        **dict.fromkeys(_ABOUT, _COMMENT),
        "providers": _ONE_AGENT,
        "recursion": "write guardrails: {maxTotalSteps: NUMBER}",
        "strict_flow": _NO_CONDITIONS,
    },
    "onOutcome": {
        "maxIterations": _VISITS,
        "max_iterations": _VISITS,
        "type": "remove it: a step has a prompt, a command, an approval or a call",
        **dict.fromkeys(
            ("agent", "provider"), "all steps ask the run's agent: give --backend NAME"
        ),
        **dict.fromkeys(("agent_config", "provider_params"), _SETTINGS),
        **dict.fromkeys(("as", "collect", "for_each", "foreach", "items", "parallel"), _NO_ITEMS),
        **dict.fromkeys(
            (
                "break_when",
                "max_while_iterations",
                "repeat",
                "until",
                "update_context",
                "while",
                "while_condition",
                "while_steps",
            ),
            _NO_ROUNDS,
        ),
        **dict.fromkeys(("condition", "if", "unless", "when"), _NO_CONDITIONS),
        **dict.fromkeys(("cwd", "env"), "write a script: command: 'cd FOLDER && NAME=VALUE make'"),
        "depends_on": "the outcomes decide what comes next: onOutcome: {done: {nextStep: NAME}}",
        **dict.fromkeys(("id", "name"), "remove it: the key below steps: is the step's name"),
        "input_file": "write prompt: {$include: FILE.md}",
        "mode": "say it in the prompt",
        **dict.fromkeys(
            ("on_error", "on_failure"),
            "a command's outcome `failed` may lead on; where an agent fails, `resume` goes on",
        ),
        **dict.fromkeys(
            ("output", "output_capture", "output_file"), "later steps read {{steps.NAME.output}}"
        ),
        "output_exit_code": "later steps read {{steps.NAME.exit_code}}",
        **dict.fromkeys(
            ("allow_parse_error", "output_require", "output_schema", "parse_json"),
            "outcomes say how a step went; to read JSON, call a recipe or workflow with call: FILE",
        ),
        "recursion": _STEPS,
        "secrets": _SECRETS,
        "session": "all steps share one session; action: restart-new-session begins another",
        "wait_for": "let a command wait: command: 'until test -e FILE; do sleep 1; done'",
    },
    "maxStepVisits": {
        "maxIterations": "write maxStepVisits: how often one step may run",
        "max_iterations": "write maxStepVisits: how often one step may run",
    },
    "nextStep": {
        "exit": "write {action: exit, reason: TEXT}",
        **dict.fromkeys(("code", "exit_code", "exitCode"), "write status: failed, for exit code 1"),
        "restart": "write {action: restart-new-session, recipeId: ID}",
    },
    "always": {"goto": "say when: write success:, failure: or always: around it"},
    "secret": {
        "optional": "write default: VALUE, and the input may be left out",
        "required": "remove it: an input without a default is required",
    },
    "until": {"while": "write until: with the condition that ends the rounds"},
}


def intended_field(key: str, allowed: Collection[str], siblings: Container[str]) -> str:
    """The field that an unknown key is probably meant to be, or ''."""
    names = [name for name in allowed if not name.startswith("$")]
    if advice(key, names):
        return ""
    free = [name for name in names if name not in siblings]
    for other in _SYNONYMS.get(key, ()):
        if other in free:
            return other
    return closest(key, free) or closest(key, names)


def quoting(value: Any, authored: str, schema: dict[str, Any]) -> str:
    """Text that YAML reads as something else, for lack of quotes; or the other way round."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if {"number", "integer"} & set(kinds) and isinstance(value, str):
        return f"leave the quotes out: {value}" if _NUMBER.match(value) else ""
    if schema["type"] == "boolean" and value in ("true", "false"):
        return f"leave the quotes out: {value}"
    if schema["type"] != "string" or not isinstance(value, int | float):
        return ""
    if "pattern" in schema and re.search(schema["pattern"], authored) is None:
        return ""
    return f'quote it: "{authored}"'


def tidied(value: str, schema: dict[str, Any]) -> str:
    """A name of the required form that the author of a malformed one may have meant, or ''."""
    bare = value[:200].strip("${} ")
    for name in (bare, re.sub(r"[\s/.]+", "-", bare), re.sub(r"\W+", "_", bare)):
        if name != value and re.search(schema["pattern"], name) is not None:
            return name
    return ""


def reshaping(value: Any, schema: dict[str, Any]) -> str:
    """How to turn a value of the wrong kind into one of the right kind."""
    wanted = schema["type"]
    fields = schema.get("properties", {})
    if wanted == "string" and isinstance(value, dict | list):
        return "write one text; after `|` it may have several lines, indented below the key"
    if wanted != "object":
        return ""
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return "leave the dashes out"
    glued = advice(value, fields) if isinstance(value, str) else ""
    if glued:
        return glued
    if "nextStep" in fields:
        return f"write {{nextStep: {value}}}" if isinstance(value, str) and len(value) < 60 else ""
    # What most need stands in `then`; the condition is about the others.
    needed = (*schema.get("then", {}).get("required", ()), *schema.get("required", ()))
    if needed:
        return f"write a mapping with {', '.join(needed)}"
    return ""


def advice(key: str, allowed: Container[str]) -> str:
    """What to write instead of a key that has no counterpart of its own here."""
    name, colon, rest = key.partition(":")
    if colon and name in allowed:
        return f"a space is missing after the colon: write {name}: {rest[:60]}"
    for marker, hints in _ADVICE.items():
        # Steps may have an approval, too; only a stage has steps beside it.
        is_meant = marker in allowed and (marker != "approval" or "steps" in allowed)
        if is_meant and key in hints:
            return hints[key]
    of_others = (
        hints[key] for marker, hints in FOREIGN.items() if marker in allowed and key in hints
    )
    return next(of_others, "")
