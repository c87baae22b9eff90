"""The numbered items of the specifications and rulings that the compiler must honour.

`tests/acceptance/test_traceability.py` fails when an item has no test with its id in its name:
`a8_3` is owned by a test called `test_a8_3_…`. Sentences are ours; numbers are the documents'.
"""

from __future__ import annotations

MACHINE = {
    "a8_1": "initialStep names a step",
    "a8_2": "onOutcome's keys are declared outcomes",
    "a8_3": "nextStep names a step",
    "a8_4": "an exit has a reason",
    "a8_5": "other has a reason",
    "a8_6": "a model is haiku, sonnet or opus",
    "a8_7": "a step has prompt, outcomes and onOutcome",
    "a19_3": "the dry run draws the machine",
    "a20_1": "every catalogue recipe is valid, with its initial step, targets, reasons and limits",
    "a20_3_1": "the shared steps are the same in the recipes that share them",
    "a20_3_2": "implement-and-review-all differs in one transition only",
}

# B's check-list, numbered in the order it is written.
RECIPE = {
    "b_recipe_1": "name is there and well formed",
    "b_recipe_2": "description is there",
    "b_recipe_3": "version is there and semantic",
    "b_recipe_4": "steps is not empty",
    "b_recipe_5": "step ids are unique",
    "b_step_1": "id is there and unique",
    "b_step_2": "agent is there and available",
    "b_step_3": "prompt is there and not empty",
    "b_step_4": "a condition has a variable",
    "b_step_5": "timeout is a positive integer",
    "b_step_6": "retry.max_attempts is positive",
    "b_step_7": "on_error is one of its values",
    "b_step_8": "depends_on names existing steps",
    "b_step_9": "dependencies do not circle",
    "b_variable_1": "template variables are well formed",
    "b_variable_2": "variables will be available",
    "b_variable_3": "reserved names are not taken",
    "b_runtime_1": "agents are known",
    "b_runtime_2": "context variables are defined or will be",
}

# C's acceptance items that validation decides, and its notes on validation.
WORKFLOW = {
    "at_007": "${env.*} is rejected",
    "at_010": "provider and command exclude each other",
    "at_036": "wait_for excludes command, provider and for_each",
    "at_038": "absolute paths are rejected",
    "at_039": "parent paths and links out of the workspace are rejected",
    "at_040": "command_override is rejected",
    "at_048": "a provider placeholder without a value is seen",
    "at_049": "${PROMPT} with stdin is rejected",
    "at12_005": "move_to outside the workspace is rejected",
    "at12_gate": "on_item_complete needs version 1.2",
    "at13_004": "allow_parse_error excludes output_schema",
    "at13_gate": "output_schema and output_require need version 1.3",
    "c_inject_gate": "inject needs version 1.1.1",
    "c_strict": "unknown fields are rejected at every level",
    "c_goto": "goto names a step or _end",
    "c_end": "_end is reserved",
    "c_pointer": "items_from is a pointer to an earlier list",
    "c_globstar": "** is rejected",
    "c_unique": "names are unique within a scope, and only there",
    "c_capture": "allow_parse_error needs json capture",
    "c_one_kind": "a step is exactly one kind",
}

RULINGS = {
    "r1_1": "three dialects, one plan",
    "r1_2": "the dialect is the document's shape",
    "r1_3": "authored paths resolve against the workspace, includes against their file",
    "r2_1": "$include is a merge patch; later targets win; $ref is the same",
    "r2_2": "targets: path, pointer, this file, text; lists are spliced",
    "r2_3": "cycles print the chain; nothing outside the workspace; no URLs",
    "r2_4": "errors point at the file that was written; checksums cover every file",
    "r3_1": "hostile YAML is refused",
    "r3_2": "on is a string",
    "r3_3": "version as a float and command as a string show the right spelling",
    "r3_4": "all errors at once, with line, caret and near misses",
    "r4_1": "finished: 0",
    "r4_2": "an invalid definition: 1 for machines, 2 for the others",
    "r4_3": "bad usage: 2",
    "r4_4": "an unknown agent: 5",
    "r5_1": "an id is looked up in workflows, .orchestrate/recipes, the catalogue",
    "r5_2": "a flag that cannot apply is an error",
    "r5_3": "context: file < --context-file < --context; files keep types",
    "r5_4": "answers on stdout, the rest on stderr; --json is one document; NO_COLOR",
    "r5_5": "dry runs and validation start nothing and write nothing",
    "r7_1": "guardrails default; loops are allowed",
    "r7_2": "an outcome without a transition, an unknown restart, unknown keys",
    "r7_3": "exitOnOther decides whether other must exit",
    "r8_1": "stage names may have a colon; {{ x }} may have spaces",
    "r8_2": "mixing and/or warns",
    "r8_3": "uses that may be undefined warn; {{name?}} does not",
    "r8_4": "agents are looked for in two places, and the warning names them",
    "r9_1": "goto out of a loop and _end are fine; into a loop is not",
    "r9_2": "on.always overrides",
    "r9_3": "known providers need no declaration; unknown ones warn",
    "r9_4": "values never become code",
}

ITEMS = MACHINE | RECIPE | WORKFLOW | RULINGS
