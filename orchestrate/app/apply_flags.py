"""What the configuration adds to a run's settings, and all of them applied to its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrate.app.settings import FLAGS
from orchestrate.plan import override
from orchestrate.plan.check import check_program
from orchestrate.record import replace

if TYPE_CHECKING:
    from orchestrate.app.config_model import Config
    from orchestrate.app.settings import RunSettings
    from orchestrate.plan.nodes import Program


def configured(settings: RunSettings, config: Config) -> RunSettings:
    """The settings with what the configuration says where no flag does."""
    values: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for name, row in FLAGS.items():
        # `--live` and the setting `live` are not of one kind: how a run is shown depends on both.
        if row.key is None or row.kind == "pair" or name not in config.values:
            continue
        if not settings.is_given(name):
            (defaults if row.group == "plan" else values)[name] = config.values[name]
    backend = values.get("backend", settings.backend)
    if backend is not None:
        values["backend"] = override.known_backend(backend)
    agents = config.values.get("agents") or {}
    return replace(settings, **values, defaults=defaults, agents=agents)


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
        kind = FLAGS[name].key
        assert kind is not None
        usual = getattr(override, f"with_{name}")
        program = getattr(override, f"with_default_{name}", usual)(program, kind(value))
    return program


def with_settings(program: Program, settings: RunSettings) -> Program:
    """The program as a run with these settings carries it out, but for its context."""
    return with_defaults(with_flags(program, settings), settings)
