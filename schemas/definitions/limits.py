"""How much a run may do and use: the same in every dialect and in the configuration."""

from typing import Any

from definitions.parts import Schema, amount, count, duration, field, record

_ONE_OR_MORE = "write a whole number of at least 1"
_EXAMPLE: Schema = {"cost_usd": 5, "time": "2h"}

LIMITS = record(
    {
        "visits": count(
            "How often any one step may run, outside of loops over items; then the run ends with "
            "exit code 3. `--max-visits` wins.",
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
            "US dollars: once this much was spent, the run is parked before an agent is asked "
            "again. What an agent does not report is not counted. `--max-cost` wins.",
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
    },
    title="Limits",
    description="How much a run may do and use. In a called file they hold for the call.",
)


def limits(**more: Any) -> Schema:
    """Describe `limits:`."""
    needs = f" Needs version {more['since']}." if "since" in more else ""
    return field(
        "How much a run may do and use: visits, steps, cost_usd, tokens, time, calls. A parked "
        f"run goes on with `resume` and a higher flag.{needs}",
        _EXAMPLE,
        ref="limits",
        hint="write a mapping: limits: { cost_usd: 5, time: 2h }",
        **more,
    )
