"""How much a run may do and use: the same in every dialect and in the configuration."""

from typing import Any

from definitions.parts import Schema, amount, count, duration, field, record

_ONE_OR_MORE = "write a whole number of at least 1"
_EXAMPLE: Schema = {"cost_usd": 5, "time": "2h"}

LIMITS = record(
    {
        "visits": count(
            "How often any one step may run, rounds of a loop included, outside of loops over "
            "items; then the run ends with exit code 3. `--max-visits` wins.",
            10,
            minimum=1,
            hint=_ONE_OR_MORE,
        ),
        "steps": count(
            "How many steps the run may make in all, those of called files included; then it ends "
            "with exit code 3. `--max-steps` wins.",
            200,
            minimum=1,
            hint=_ONE_OR_MORE,
        ),
        "cost_usd": amount(
            "US dollars: the run is parked before a call of an agent that may not fit into what is "
            "left. A call that does not report its cost counts as `costs.unknown` of the "
            "configuration says. `--max-cost` wins.",
            5,
            exclusiveMinimum=0,
            hint="write dollars, more than 0: cost_usd: 5",
        ),
        "tokens": count(
            "Tokens, input and output together: once as many were used, the run is parked before "
            "an agent is asked again. `--max-tokens` wins.",
            2000000,
            minimum=1,
            hint=_ONE_OR_MORE,
        ),
        "time": duration(
            "How long the run may work, without the time in which it waits; then it is parked "
            "before the next step. `--max-time` wins.",
            "2h",
        ),
        "calls": count(
            "How often agents may be asked in all, retries and rounds of checks included; then "
            "the run is parked. `--max-calls` wins.",
            40,
            minimum=1,
            hint=_ONE_OR_MORE,
        ),
        "no_progress": count(
            "How many rounds in a row a circle of agents may leave the workspace unchanged, or get "
            "the same answers (at least two rounds of them); then the run ends with exit code 3 "
            "before the next. Counts only where checkpoints are taken; rounds of a `check` do not. "
            "Default: off.",
            2,
            minimum=1,
            hint=_ONE_OR_MORE,
        ),
        "per_day": field(
            "What all runs of this file may use in one calendar day of the user's, by the local "
            "clock; then runs are parked. In the user's configuration: what all runs may use.",
            {"cost_usd": 20},
            ref="per_day",
            hint="write a mapping: per_day: { cost_usd: 20 }",
        ),
    },
    title="Limits",
    description="How much a run may do and use. In a called file they hold for the call.",
)
# What only a user's configuration can say.
CONCURRENT = record(
    {
        name: count(f"{what} at once.", 2, minimum=1, hint=_ONE_OR_MORE)
        for name, what in {
            "total": "Programs of all agents",
            "claude-code": "Programs of Claude Code",
            "codex": "Programs of Codex",
            "gemini": "Programs of Gemini CLI",
            "cursor": "Programs of Cursor",
            "opencode": "Programs of OpenCode",
            "qwen": "Programs of Qwen Code",
            "github-copilot": "Programs of GitHub Copilot CLI",
        }.items()
    },
    title="Limits of the machine",
    description="How many agents may run at once, over all runs of the user.",
)
CONFIGURED_LIMITS = LIMITS | {
    "properties": {
        # A circle is the file's own.
        name: field_
        for name, field_ in LIMITS["properties"].items()
        if name != "no_progress"
    }
    | {
        "concurrent": field(
            "How many programs of an agent, and of all (`total`), may run at once on this "
            "machine, over all runs and processes of the user; who comes later waits, first come, "
            "first served. Only in the user's own configuration.",
            {"claude-code": 2, "total": 4},
            ref="concurrent",
            hint="write a mapping: concurrent: { claude-code: 2, total: 4 }",
        ),
    },
}
_USD = {"exclusiveMinimum": 0, "hint": "write dollars, more than 0: cost_usd: 5"}
PER_DAY = record(
    {
        "cost_usd": amount("US dollars in one day.", 20, **_USD),
        "tokens": count("Tokens, input and output.", 2000000, minimum=1, hint=_ONE_OR_MORE),
        "calls": count("Calls of agents.", 400, minimum=1, hint=_ONE_OR_MORE),
    },
    title="Limits of a day",
    description="What may be used in one calendar day of the user's.",
)
STEP_LIMITS = record(
    {
        "cost_usd": amount(
            "US dollars that the agent may spend in one visit of the step, retries and reminders "
            "included; then the run is parked, and `resume` allows as much again. As much is "
            "reserved in the run's budget before each call.",
            1,
            **_USD,
        ),
        "tokens": count(
            "Tokens, input and output together, that one visit of the step may use; then the run "
            "is parked before the agent is asked again.",
            200000,
            minimum=1,
            hint=_ONE_OR_MORE,
        ),
    },
    title="Limits of a step",
    description="What an agent may use in one visit of a step.",
)
LIMIT_DEFINITIONS: dict[str, Schema] = {
    "limits": LIMITS,
    "per_day": PER_DAY,
    "step_limits": STEP_LIMITS,
}


def step_limits(**more: Any) -> Schema:
    """Describe `limits:` of a step that asks an agent."""
    needs = f" Needs version {more['since']}." if "since" in more else ""
    return field(
        f"What the agent may use in one visit of the step; then the run is parked.{needs}",
        {"cost_usd": 1},
        ref="step_limits",
        hint="write a mapping: limits: { cost_usd: 1 }",
        **more,
    )


def limits(**more: Any) -> Schema:
    """Describe `limits:`."""
    needs = f" Needs version {more['since']}." if "since" in more else ""
    return field(
        "How much a run may do and use: visits, steps, cost_usd, tokens, time, calls, "
        "no_progress, per_day. A "
        f"parked run goes on with `resume` and a higher flag.{needs}",
        _EXAMPLE,
        ref="limits",
        hint="write a mapping: limits: { cost_usd: 5, time: 2h }",
        **more,
    )
