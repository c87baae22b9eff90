"""The configuration file, .orchestrate/config.yaml."""

from definitions.limits import CONCURRENT, CONFIGURED_LIMITS, PER_DAY, limits
from definitions.parts import (
    ENV_NAME,
    VARIABLE,
    Schema,
    amount,
    choice,
    count,
    document,
    field,
    filled,
    listing,
    mapping,
    record,
    ref,
    seconds,
    secret_names,
    whole,
)

_TIERS = ("haiku", "sonnet", "opus")


def _tier(name: str, use: str, *examples: str) -> Schema:
    return filled(f"The model to use for the tier {name} ({use}).", *examples)


MODELS = record(
    {
        "haiku": _tier("haiku", "fast and cheap", "gpt-5-mini"),
        "sonnet": _tier("sonnet", "balanced", "gpt-5"),
        "opus": _tier("opus", "the most capable", "gpt-5-pro"),
    },
    title="Models",
    description="The agent's own model names for the three tiers.",
)

_PER_MILLION = "US dollars for a million {} tokens."
PRICE = record(
    {
        "input": amount(_PER_MILLION.format("input"), 3, minimum=0, hint="write dollars"),
        "output": amount(_PER_MILLION.format("output"), 15, minimum=0, hint="write dollars"),
    },
    "input",
    "output",
    title="Price",
    description="What the tokens of a model cost.",
)
COSTS = record(
    {
        "guess_usd": amount(
            "US dollars that a call is taken to cost where no earlier one is known. Default: 0.25.",
            0.25,
            default=0.25,
            exclusiveMinimum=0,
            hint="write dollars, more than 0",
        ),
        "guess_tokens": count(
            "Tokens that a call counts for in a budget that did not report them, where no earlier "
            "one is known. Default: 100000.",
            100_000,
            default=100_000,
            minimum=1,
            hint="write a whole number of at least 1",
        ),
        "unknown": choice(
            "What a call counts for in a budget that did not report what it used: `count` what "
            "earlier calls of the step have used, else the guess; `refuse` parks the run before "
            "the next call; `allow` counts nothing. Default: count.",
            "count",
            "refuse",
            "allow",
            default="count",
            hint="write count, refuse or allow",
        ),
        "prices": mapping(
            "Prices of models, by the name that the agent reports. A call that tells its tokens "
            "but no cost is computed from them, and marked so.",
            ref("price"),
            {"gpt-5": {"input": 1.25, "output": 10}},
            propertyNames={"minLength": 1},
        ),
    },
    title="Costs",
    description="What calls of agents are taken to cost where that is not known.",
)

AGENT = record(
    {
        "path": filled(
            "The program to start: a name found on PATH or a path. Default: the agent's usual "
            "name.",
            "claude",
            "tools/bin/codex",
        ),
        "args": listing(
            "Arguments to add to every call.",
            {"type": "string"},
            ["--max-turns", "50"],
            default=[],
            hint='write a list, one argument per item: args: ["--max-turns", "50"]',
        ),
        "env": mapping(
            "Environment variables to set for every call.",
            {"type": "string", "x-hint": 'put the value in quotes: DEBUG: "1"'},
            {"CLAUDE_CODE_MAX_RETRIES": "3"},
            default={},
            propertyNames={"pattern": ENV_NAME},
        ),
        "models": field(
            "What the model tiers mean for this agent. Default: what we know about it.",
            {"haiku": "gpt-5-mini", "opus": "gpt-5-pro"},
            ref="models",
        ),
    },
    title="Agent program",
    description="How one agent is started on this computer.",
)

NOTIFICATION = record(
    {
        "on": listing(
            "What to tell: `paused` (a gate waits for a person), `failed`, `finished`. Default: "
            "all three.",
            {"enum": ["paused", "failed", "finished"]},
            ["paused", "failed"],
            minItems=1,
            uniqueItems=True,
            hint="write a list: on: [paused, failed, finished]",
        ),
        "command": listing(
            "A program and its arguments. It gets the event as JSON on standard input, and its "
            "main facts as ORCHESTRATE_... variables.",
            {"type": "string"},
            ["notify-send", "orchestrate", "a run needs you"],
            minItems=1,
            hint='write a list: command: ["notify-send", "orchestrate"]',
        ),
        "webhook": filled(
            "An address that the event is posted to as JSON.",
            "https://example.com/hooks/orchestrate",
            pattern="^https?://[^\\s]+$",
            hint="write an address that begins with https:// or http://",
        ),
        "webhook_env": filled(
            "The variable of the environment that has the address, for one that is a secret.",
            "TEAM_WEBHOOK_URL",
            pattern=ENV_NAME,
        ),
        "timeout": seconds(
            "How long it may take before it is ended. Default: 10 seconds.",
            10,
            "1m",
            default=10,
            exclusiveMinimum=0,
            maximum=300,
            hint="write seconds, more than 0 and at most 300, or as in 90s, 5m",
        ),
    },
    title="Notification",
    description="What is told about a run, and how: one of `command`, `webhook` and `webhook_env`.",
)

WORKTREE = record(
    {
        "folder": filled(
            "The folder that worktrees are made in, relative to the repository. Default: "
            "../REPOSITORY.worktrees.",
            "../worktrees",
        ),
        "prepare": listing(
            "Commands that are run in a new worktree before the run begins, each a program with "
            "its arguments: git does not bring ignored files or submodules. Default: none.",
            {
                "type": "array",
                "items": {"type": "string"},
                "minItems": 1,
                "x-hint": 'write each command as a list: ["npm", "ci"]',
            },
            [["npm", "ci"], ["git", "submodule", "update", "--init"]],
            hint='write a list of commands: prepare: [["npm", "ci"]]',
        ),
    },
    title="Worktrees",
    description="Where `run --worktree` and `fork` work, and what is done there first.",
)

ROOT = record(
    {
        "backend": filled(
            "The agent to use where a recipe names none. Default: claude-code.",
            "claude-code",
            "codex",
            "gemini",
            default="claude-code",
        ),
        "model": choice(
            "The model tier to use where a recipe names none. Default: what is chosen for the "
            "agent itself; of claude-code, sonnet where nothing is.",
            *_TIERS,
            hint="write haiku, sonnet or opus; other names go to agents.NAME.models",
        ),
        "permissions": choice(
            "What agents may do unasked: `bypass` everything, `edit` change files but nothing "
            "riskier, `default` only what the agent's own settings allow, `read-only` look but "
            "not touch. Default: bypass.",
            "bypass",
            "edit",
            "default",
            "read-only",
            default="bypass",
            hint="write bypass, edit, default or read-only",
        ),
        "checkpoints": choice(
            "Are the files of the workspace recorded after steps, for `diff` and `rewind`? `auto`: "
            "in a git work tree. `on`: elsewhere, too. Default: auto.",
            "auto",
            "on",
            "off",
            default="auto",
            hint="write auto, on or off",
        ),
        "max_parallel": count(
            "How many iterations of a parallel loop run at once. Default: 8.",
            8,
            2,
            default=8,
            minimum=1,
            hint="write a whole number of at least 1",
        ),
        "limits": limits(),
        "costs": field(
            "What calls of agents are taken to cost where that is not known.",
            {"guess_usd": 0.25, "unknown": "count"},
            ref="costs",
            hint="write a mapping: costs: { guess_usd: 0.25 }",
        ),
        "step_timeout": seconds(
            "How long one step may take that sets no limit itself. Default: 86400 seconds (a day) "
            "in a machine, 600 in a recipe.",
            86400,
            "1h",
            exclusiveMinimum=0,
            hint="write seconds, more than 0, or as in 90s, 5m, 1h30m",
        ),
        "silence_timeout": seconds(
            "How long an agent may print nothing before it is ended; 0 means no limit. "
            "Default: 3600 seconds.",
            3600,
            "2h",
            default=3600,
            minimum=0,
            hint="write seconds, 0 or more, or as in 90s, 5m, 1h30m",
        ),
        "kill_grace": seconds(
            "How long a program has between TERM and KILL when it is ended: by a time limit, "
            "a failed sibling, a signal or `cancel`. Default: 5 seconds.",
            5,
            "30s",
            default=5,
            minimum=0,
            hint="write seconds, 0 or more, or as in 30s, 1m",
        ),
        "keep_runs": count(
            "Days after which `orchestrate clean` removes a run, where --older-than is not given.",
            30,
            7,
            minimum=0,
            hint="write whole days, 0 or more",
        ),
        "state_dir": filled(
            "The folder of the runs, relative to the workspace. Default: .orchestrate/runs.",
            ".orchestrate/runs",
            default=".orchestrate/runs",
        ),
        "log_level": choice(
            "How much the log says. Default: info.",
            "debug",
            "info",
            "warn",
            "error",
            default="info",
            hint="write debug, info, warn or error",
        ),
        "live": choice(
            "Whether runs are shown live on a terminal; auto: not in CI. Default: auto.",
            "auto",
            "always",
            "never",
            default="auto",
            hint="write auto, always or never",
        ),
        "secrets": secret_names(
            "Names of environment variables that must be set before any run starts, and whose "
            "values are masked in everything that is written. The user's and the workspace's "
            "lists count together."
        ),
        "mask_env": field(
            "Which other environment variables are masked. Default: the agents' own keys, and "
            "values of at least 12 characters that are not paths in variables named like "
            "*_API_KEY, *_TOKEN, *_SECRET or *PASSWORD*. A list of names takes the place of that "
            "guess, beside the agents' keys; `off` masks neither.",
            "off",
            ["DEPLOY_KEY"],
            hint="write a list of names, or off",
            type=["string", "array"],
            pattern=whole("off"),
            items={"type": "string", "pattern": VARIABLE},
            uniqueItems=True,
        ),
        "agent_aliases": mapping(
            "Agents by the names that recipes from elsewhere give them, and which of ours each is: "
            "a file in .orchestrate/agents or .claude/agents.",
            {"type": "string", "minLength": 1, "x-hint": "name an agent: code-reviewer"},
            {"foundation:zen-architect": "architect"},
            propertyNames={"minLength": 1},
        ),
        "agents": mapping(
            "How single agents are started, by name.",
            ref("agent"),
            {"codex": {"path": "codex", "models": {"opus": "gpt-5-pro"}}},
            propertyNames={"minLength": 1},
        ),
        "worktree": field(
            "The git worktrees of `run --worktree` and `fork`.",
            {"prepare": [["npm", "ci"]]},
            ref="worktree",
        ),
        "notifications": listing(
            "Who is told when a run waits for a person, fails or finishes. Default: nobody.",
            ref("notification"),
            [{"on": ["paused"], "command": ["notify-send", "orchestrate", "a run needs you"]}],
            hint="write a list; each item has a command, a webhook or a webhook_env",
        ),
    },
)

SCHEMA = document(
    "config",
    "orchestrate configuration",
    "Settings of a workspace (.orchestrate/config.yaml) or of a user. A flag or an ORCHESTRATE_ "
    "variable overrides them.",
    ROOT,
    {
        "agent": AGENT,
        "models": MODELS,
        "notification": NOTIFICATION,
        "limits": CONFIGURED_LIMITS,
        "concurrent": CONCURRENT,
        "worktree": WORKTREE,
        "per_day": PER_DAY,
        "costs": COSTS,
        "price": PRICE,
    },
    examples=({"backend": "claude-code", "model": "sonnet", "max_parallel": 4},),
)
