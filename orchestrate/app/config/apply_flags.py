"""What the configuration adds to a run's settings, and all of them applied to its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrate.agent_names import own_name
from orchestrate.app.given.settings import FLAGS
from orchestrate.plan import override
from orchestrate.plan.check import check_program
from orchestrate.plan.durations import seconds_of
from orchestrate.record import replace

if TYPE_CHECKING:
    from orchestrate.app.config.model import Config
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.plan.nodes import Program


# What a file may say of a limit besides `limits:`.
_ELSEWHERE = {
    "visits": ("guardrails", "maxStepVisits"),
    "steps": ("guardrails", "maxTotalSteps", "recursion", "max_total_steps"),
}


def configured(settings: RunSettings, config: Config, document: Any = None) -> RunSettings:
    """The settings with what the configuration says where no flag does; limits only where the
    file says nothing."""
    values: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    limits = config.values.get("limits") or {}
    for name, row in FLAGS.items():
        is_said = settings.is_given(name) or _says(document, row.limit)
        if row.limit in limits and not is_said:
            defaults[name] = limits[row.limit]
        # `--live` and the setting `live` are not of one kind: how a run is shown depends on both.
        if row.key is None or row.kind == "pair" or name not in config.values:
            continue
        if not settings.is_given(name):
            value = config.values[name]
            if row.group == "plan":
                defaults[name] = value
            else:
                values[name] = seconds_of(value) if row.kind == "duration" else value
    backend = values.get("backend", settings.backend)
    if backend is not None:
        values["backend"] = own_name(backend)
    agents = config.values.get("agents") or {}
    return replace(settings, **values, defaults=defaults, agents=agents)


def _says(document: Any, limit: str) -> bool:
    """Does a file set a limit itself?"""
    document = document or {}
    holders = ("limits", limit, *_ELSEWHERE.get(limit, ()))
    pairs = zip(holders[::2], holders[1::2], strict=True)
    return any(key in (document.get(holder) or ()) for holder, key in pairs)


def with_flags(program: Program, settings: RunSettings) -> Program:
    """The program with every flag that changes a plan: `with_NAME` of `override` applies each."""
    for row in settings.given("plan"):
        program = getattr(override, f"with_{row.name}")(program, getattr(settings, row.name))
    check_program(program)
    return program


def with_defaults(program: Program, settings: RunSettings) -> Program:
    """The program with what the configuration says where neither the recipe nor a flag does."""
    for name, value in settings.defaults.items():
        if settings.is_given(name):
            continue  # a flag of a later resume
        row = FLAGS[name]
        kind = seconds_of if row.kind == "duration" else row.key or (lambda limit: limit)
        usual = getattr(override, f"with_{name}")
        program = getattr(override, f"with_default_{name}", usual)(program, kind(value))
    return program


def with_settings(program: Program, settings: RunSettings) -> Program:
    """The program as a run with these settings carries it out, but for its context."""
    return with_defaults(with_flags(program, settings), settings)
