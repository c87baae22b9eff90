"""Fields of similar tools that we do not have, and our way to write what they mean.

By a field that only this kind of mapping has, as in `advice`.
"""

from __future__ import annotations

_Hints = dict[str, str]


def _each(words: str, hint: str) -> _Hints:
    return dict.fromkeys(words.split(), hint)


_COMMENT = _each("comment description summary metadata title label tags", "say it in a comment")
_SPENT = {
    **_each("budget cost_limit max_cost", "write limits: { cost_usd: NUMBER }"),
    **_each("max_tokens token_limit", "write limits: { tokens: NUMBER }"),
}
_CHOSEN_BY_AGENT = _each(
    "temperature top_p top_k seed",
    "remove it: the agent's program decides that; its own settings may say it",
)
_CONTAINER = _each(
    "image container services runs-on", "steps run on this machine: let a command start a container"
)
_ELSEWHERE = {
    **_each("notify notifications webhook", "write notifications: in the configuration"),
    **_each("cache memoize", "remove it: `resume` and edits keep the results that still hold"),
}
_CHECKED = {
    **_each(
        "assert assertions expect verify validate validation",
        "write check: { command: … } on a step of an agent",
    ),
    **_each("artifacts", "write produces: [FILE], the files that must exist after an answer"),
}

# Any step.
_OF_STEPS: _Hints = {
    **_COMMENT,
    **_SPENT,
    **_CHOSEN_BY_AGENT,
    **_CONTAINER,
    **_ELSEWHERE,
    **_CHECKED,
    **_each("async background detach", "items of a loop may run at once, steps run in turn"),
    **_each("include includes import imports extends template", "write $include: FILE"),
    **_each("arguments args", "write them behind the program: command: [PROGRAM, ARGUMENT]"),
}
_SAY_IT = _each(
    "system system_prompt system_message role goal backstory persona", "say it in the prompt"
)
_NAME_FILES = _each("files attachments inputs_from", "name the files in the prompt")

# Any file.
_OF_FILES: _Hints = {
    **_ELSEWHERE,
    **_each("triggers schedule cron on", "let cron or CI call `orchestrate run FILE`"),
    **_each("hooks before after finally setup teardown", "make it a step"),
    **_each("include includes import imports extends", "write $include: FILE"),
    **_each("permissions", "give --permissions MODE, or write it in the configuration"),
    **_each("cwd workdir working_dir working_directory", "give --working-dir FOLDER"),
    **_each("concurrency max_parallel max_concurrency", "give --max-parallel NUMBER"),
    **_each("budget cost_limit max_cost", "write limits: { cost_usd: NUMBER }"),
    **_each("timeout max_time", "write limits: { time: 2h }"),
    **_each("params parameters args arguments", "write inputs: { NAME: { description: … } }"),
    **_each("defaults settings config options", "write it on the steps"),
    **_each("metadata", "say it in a comment"),
    **_each("jobs tasks nodes", "write steps:"),
    **_each("env env_file environment", "set it where orchestrate is started, or on a command"),
    **_each("gates", "make each gate a step with an approval:"),
}

FOREIGN: dict[str, _Hints] = {
    # A step of a machine.
    "onOutcome": {
        **_OF_STEPS,
        **_SAY_IT,
        **_NAME_FILES,
        **_each(
            "enabled skip skip_if switch case branches then else next next_step on_success action "
            "after require requires",
            "the outcomes decide: onOutcome: {done: {nextStep: NAME}}",
        ),
        **_each("try catch rescue fallback", "let the outcome `failed` of a command lead on"),
        **_each("finally always_run", "let every outcome lead to that step"),
        **_each("delay sleep wait pause", "make it a step: command: [sleep, '30']"),
        **_each(
            "manual require_approval wait_for_approval human human_input ask",
            "make it a step: approval: { prompt: TEXT }",
        ),
        **_each(
            "json json_output output_format response_format schema",
            "outcomes say how a step went; to read JSON, call a recipe or workflow with call: FILE",
        ),
        **_each(
            "outputs result returns store set register save_as export capture",
            "later steps read {{steps.NAME.output}}",
        ),
        **_each("vars variables set_context", "write inputs: { NAME: VALUE } at the top"),
        **_each("uses workflow subworkflow", "write call: FILE"),
        **_each("shell bash sh python", "write command: with a script of bash, or a list"),
        **_each("backend", "all steps ask the run's agent: give --backend NAME"),
        **_each("instruction instructions message", "write prompt: TEXT"),
        **_each("max_retries max_attempts", "write retry: { maxAttempts: NUMBER }"),
        **_each("max_visits", "write limits: { visits: NUMBER } at the top"),
        **_each("times count loop_until while_max", "let an outcome lead back: {nextStep: NAME}"),
        **_each(
            "working_dir working_directory workdir env_file env_vars environment",
            "write a script: command: 'cd FOLDER && NAME=VALUE make'",
        ),
    },
    # A step of a recipe.
    "agent_config": {
        **_OF_STEPS,
        **_NAME_FILES,
        **_each(
            "system system_prompt system_message role goal backstory persona",
            "write it in the agent's own file: .orchestrate/agents/NAME.md",
        ),
        **_each("enabled skip skip_if switch case then else", "write condition: on each step"),
        **_each("branches action", "write a condition: on each step"),
        **_each(
            "try catch rescue fallback on_fail",
            "write on_error: continue, and a condition: on what follows",
        ),
        **_each("finally always_run", "make it the last step, and on_error: continue before it"),
        **_each("delay sleep wait pause", "make it a step: type: bash, command: sleep 30"),
        **_each(
            "manual require_approval wait_for_approval human ask",
            "add a step with type: approval, and approval: { prompt: TEXT }",
        ),
        **_each(
            "json json_output output_format response_format schema",
            "write parse_json: true, and say in the prompt what to answer with",
        ),
        **_each("result returns store set register save_as export capture", "write output: NAME"),
        **_each("vars variables set_context", "write context: { NAME: VALUE } at the top"),
        **_each("bash sh python", "write type: bash, and the script under command:"),
        **_each("env_vars environment", "write env: { NAME: VALUE }"),
        **_each("working_directory", "write cwd: FOLDER"),
        **_each("backend", "name it in the agent's own file, or give --backend NAME"),
        **_each("max_retries max_attempts", "write retry: { max_attempts: NUMBER }"),
        **_each("workflow subworkflow", "write type: recipe, and the file under recipe:"),
        **_each("after require requires", "write depends_on: [STEP]"),
        **_each("concurrency", "write parallel: NUMBER, how many items run at once"),
        **_each("max_visits", "write limits: { visits: NUMBER } at the top"),
        **_each("max_turns", "write agent_config: { max_turns: NUMBER }"),
        **_each("on_success", "the steps of a recipe run in the order written"),
        **_each("input", "name what the step reads in its prompt: {{NAME}}"),
        **_each("parallel_steps", "write foreach: over a list, and parallel: NUMBER"),
        **_each("times count loop_until while_max", "write while_condition: and while_steps:"),
        **_each("env_file", "let the script read it: command: 'set -a; . FILE; make'"),
    },
    # A step of a workflow.
    "wait_for": {
        **_OF_STEPS,
        **_SAY_IT,
        **_each("files attachments", "write depends_on: { required: [FILE], inject: true }"),
        **_each("enabled skip skip_if switch case then else", "write when: on each step"),
        **_each("branches action", "write when: on each step"),
        **_each("try catch rescue fallback on_fail", "write on: { failure: { goto: NAME } }"),
        **_each("finally always_run", "write on: { always: { goto: NAME } }"),
        **_each("delay sleep pause", "make it a step: command: [sleep, '30']"),
        **_each("wait", "write wait_for: { glob: … }, or command: [sleep, '30']"),
        **_each(
            "manual require_approval wait_for_approval human human_input ask",
            "make it a step: approval: { prompt: TEXT }",
        ),
        **_each("json json_output output_format response_format", "write output_capture: json"),
        **_each("schema", "write output_capture: json and output_schema: FILE"),
        **_each(
            "outputs result returns store set register save_as export capture",
            "later steps read ${steps.NAME.output}",
        ),
        **_each("vars variables set_context", "write context: { NAME: VALUE } at the top"),
        **_each("shell bash sh python", "start a shell: command: [bash, -c, SCRIPT]"),
        **_each("env_vars environment", "write env: { NAME: VALUE }"),
        **_each("backend", "write provider: NAME"),
        **_each("after require requires", "steps run in the order written"),
        **_each("max_visits", "write limits: { visits: NUMBER } at the top"),
        **_each("max_turns", "write provider_params: { max_turns: NUMBER }"),
        **_each("uses workflow subworkflow", "write call: FILE"),
        **_each("inputs", "write input_file: FILE or prompt: TEXT; a called file gets with:"),
        **_each("parallel_steps concurrency", "write for_each: with parallel: NUMBER"),
        **_each("times count loop_until while_max", "write repeat: { until: …, max: …, steps: … }"),
        **_each(
            "workdir working_dir working_directory",
            "start a shell: command: [bash, -c, 'cd FOLDER && make']",
        ),
        **_each("env_file", "start a shell: command: [bash, -c, 'set -a; . FILE; make']"),
    },
    # The top of each.
    "initialStep": {
        **_OF_FILES,
        **_each("agents", "all steps ask the run's agent: give --backend NAME"),
        **_each("approval", "make it a step: approval: { prompt: TEXT }"),
        **_each("vars variables", "write inputs: { NAME: VALUE }"),
        **_each("on_error", "the outcomes decide, each step's own"),
    },
    "stages": {
        **_OF_FILES,
        **_each("agents", "each agent is a file: .orchestrate/agents/NAME.md"),
        **_each("on_error", "write it on the steps"),
        **_each("entry start initial", "remove it: the first step of the list begins"),
    },
    "strict_flow": {
        **_OF_FILES,
        **_each("agents", "write providers:, or use one that is known: claude, codex, gemini"),
        **_each("on_error", "write strict_flow: false, or on: { failure: … } on the steps"),
        **_each("entry start initial", "remove it: the first step of the list begins"),
        **_each("approval", "make it a step: approval: { prompt: TEXT }"),
    },
}
