"""A run's settings applied to its plan: the flags, and what the configuration adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrate.app.settings import FLAGS
from orchestrate.plan import override
from orchestrate.plan.check import check_program

if TYPE_CHECKING:
    from orchestrate.app.settings import RunSettings
    from orchestrate.plan.nodes import Program


def with_flags(program: Program, settings: RunSettings) -> Program:
    """The program with every flag that changes a plan: `with_NAME` of `override` applies each."""
    for row in settings.given("plan"):
        program = getattr(override, f"with_{row.name}")(program, getattr(settings, row.name))
    check_program(program)
    return program


def with_defaults(program: Program, settings: RunSettings) -> Program:
    """The program with what the configuration says where neither the recipe nor a flag does."""
    for name, value in settings.defaults.items():
        kind = FLAGS[name].key
        assert kind is not None
        usual = getattr(override, f"with_{name}")
        program = getattr(override, f"with_default_{name}", usual)(program, kind(value))
    return program


def with_settings(program: Program, settings: RunSettings) -> Program:
    """The program as a run with these settings carries it out, but for its context."""
    return with_defaults(with_flags(program, settings), settings)
