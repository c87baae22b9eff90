"""How old a run must be for `clean` to remove it."""

from __future__ import annotations

from orchestrate.app.config.load import load_config
from orchestrate.app.moments import UNITS, age_in_seconds
from orchestrate.app.workspaces import workspace_of
from orchestrate.errors import ConfigError, UsageError

VARIABLE = "ORCHESTRATE_KEEP_RUNS"


def keep_age(older_than: str | None, keep: int | None, working_dir: str | None) -> float:
    """Seconds, from the flag, or from the days that the environment or the configuration say.

    With `--keep`, no age is needed.
    """
    if older_than is not None:
        return age_in_seconds("--older-than", older_than)
    days = load_config(workspace_of(working_dir)).get("keep_runs")
    if days is None and keep is not None:
        return 0.0
    if days is None:
        raise UsageError(
            "the age of the runs to remove is not given",
            f"say e.g. --older-than 7d or --keep 20, or set {VARIABLE} to a number of days",
        )
    if days < 0:
        raise ConfigError(f"{VARIABLE} is {days}: an age cannot be negative")
    return float(days * UNITS["d"])
