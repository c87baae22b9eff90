"""Which values a run must not show, from its definition, the configuration and the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orchestrate.agents.keys import key_variables
from orchestrate.app.config.lenient import config_for_looking
from orchestrate.app.config.load import load_config
from orchestrate.engine.masked_keys import MASKED
from orchestrate.engine.secrets import Masking, Secrets
from orchestrate.errors import ConfigError
from orchestrate.execute.masking import SHORTEST
from orchestrate.plan.nodes import Program
from orchestrate.record import replace
from orchestrate.state.plan_file import programs_kept

if TYPE_CHECKING:
    from orchestrate.app.config.model import Config
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.app.resuming.late_plans import LatePlans
    from orchestrate.app.working.reporter import Reporter
    from orchestrate.plan.nodes import Program
    from orchestrate.state.logbook import Logbook
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace


def secrets_for(
    program: Program, workspace: Workspace, environment: Mapping[str, str] = os.environ
) -> Secrets:
    """The secrets of a program, run here and now."""
    return Secrets(program, environment, masking_in(load_config(workspace, environment)))


def secrets_of_run(run: Run, workspace: Workspace) -> Secrets:
    """The secrets of a run that is only looked at, by its own plans and the configuration.

    The configuration holds values that no run keeps (`agents.NAME.env`).
    """
    masking = masking_in(config_for_looking(workspace, lambda _: None))
    secrets = Secrets(Program("", ()), os.environ, masking)
    for program in programs_kept(run):
        secrets.learn(program)
    return secrets


def masking_in(config: Config) -> Masking:
    """What is masked besides the secrets that a definition names (`secrets`, `mask_env`)."""
    chosen = config.values.get("mask_env")
    listed = chosen if isinstance(chosen, list) else ()
    entries = config.values.get("notifications") or ()
    agents = (config.values.get("agents") or {}).values()
    return Masking(
        named=frozenset((*config.values.get("secrets", ()), *listed)),
        # An address that is kept in a variable is a secret, whatever `mask_env` says.
        known=frozenset(entry["webhook_env"] for entry in entries if "webhook_env" in entry)
        | (frozenset() if chosen == "off" else key_variables()),
        guesses=chosen is None,
        more=tuple(own["env"] for own in agents if own and own.get("env")),
    )


def refuse_unset(
    program: Program, workspace: Workspace, environment: Mapping[str, str] = os.environ
) -> None:
    """Refuse a program when a secret is not set that it or the configuration names."""
    missing: dict[str, str] = {}
    for plan in program.plans:
        for secret in plan.secrets:
            if secret.name not in environment:
                missing.setdefault(secret.name, f"{secret.span.file}:{secret.span.line}")
    config = load_config(workspace, environment)
    for name in config.values.get("secrets", ()):
        if name not in environment:
            missing.setdefault(name, str(config.origins[f"secrets.{name}"]))
    if not missing:
        return
    (name, place), *more = missing.items()
    others = "".join(f", nor is {other} ({where})" for other, where in more)
    raise ConfigError(
        f"{place}: the secret {name} is not set{others}",
        "set each in the environment of this command; an empty value counts as set",
    )


def refuse_unset_late(late: LatePlans, plan_ids: Mapping[str, Any]) -> None:
    """The same for recipes that a run has found on its way."""
    for plan_id in plan_ids:
        refuse_unset(late.whole(plan_id), late.workspace)


def tell_short(secrets: Secrets, logbook: Logbook, reporter: Reporter) -> None:
    """A secret that is too short to mask is shown where it is printed: that must not surprise."""
    for name in secrets.too_short:
        text = f"the secret {name} is shorter than {SHORTEST} characters and is not masked"
        logbook.write("warn", text)
        reporter.note(f"orchestrate: warning: {text}\n")


def mask_settings(
    settings: Mapping[str, Any], secrets: Secrets, reporter: Reporter
) -> dict[str, Any]:
    """What a run remembers of flags and configuration; `with_own_keys` is its other half."""
    masked: dict[str, Any] = secrets.data(dict(settings))
    for name, value in masked.items():
        if name != "agents" and value != settings[name]:
            flag = name.replace("_", "-")
            reporter.note(f"orchestrate: --{flag} holds a secret and is masked; use `secrets:`\n")
    return masked


def with_own_keys(settings: RunSettings, workspace: Workspace) -> RunSettings:
    """The settings with what is masked under `agents:` as the configuration has it now."""
    if MASKED not in repr(settings.agents):
        return settings
    now = load_config(workspace).values.get("agents") or {}
    return replace(settings, agents=_filled(settings.agents, now))


def _filled(stored: Any, now: Any) -> Any:
    """A value with its masked parts from another; what that lacks is left out."""
    if isinstance(stored, dict):
        found = now if isinstance(now, dict) else {}
        filled = {key: _filled(value, found.get(key)) for key, value in stored.items()}
        return {key: value for key, value in filled.items() if value is not None}
    return now if MASKED in repr(stored) else stored
