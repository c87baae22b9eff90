"""Prepares a run: compiles its recipe and applies flags, context and configuration.

Nothing here starts anything, and the engine is not loaded: a dry run ends here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from orchestrate.app.config.apply_flags import configured, with_defaults, with_flags
from orchestrate.app.config.load import load_config
from orchestrate.app.config.model import Config
from orchestrate.app.definitions.agent_definitions import refuse_settings
from orchestrate.app.definitions.agents_asked import agents_asked, asked_json, asked_lines
from orchestrate.app.definitions.find import compiled, given_names, without_given
from orchestrate.app.definitions.refused_settings import refuse_at_their_place
from orchestrate.app.definitions.undefined import refuse_undefined
from orchestrate.app.given.context import read_given
from orchestrate.app.given.inputs import Ask, refuse_all, require_inputs, with_text
from orchestrate.app.given.unread_context import tell_unread
from orchestrate.dialects.lowering import constant_map
from orchestrate.plan.override import with_context
from orchestrate.record import record

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.compile import Compilation
    from orchestrate.diagnostics import Diagnostic
    from orchestrate.plan.nodes import Program
    from orchestrate.workspace import Workspace


class WarningSink(Protocol):
    """Who hears what a recipe is warned of."""

    def detail(self, text: str) -> None:
        """A message that may be left out."""

    def findings(self, found: tuple[Diagnostic, ...], dropped: int) -> None:
        """Warnings about the definition, and how many more there are."""


@record
class Prepared:
    """A recipe that could be run: compiled, with its settings applied to it."""

    compilation: Compilation
    program: Program
    workspace: Workspace
    settings: RunSettings
    config: Config


def prepare(
    file: str,
    workspace: Workspace,
    settings: RunSettings,
    context: Mapping[str, Any] = MappingProxyType({}),
    *,
    text: str | None = None,
    ask: Ask | None = None,
    may_lack: bool = False,
) -> Prepared:
    """Compile a recipe, and apply flags, context and configuration; refuse what cannot work.

    `text` is the first input; `ask` asks a person for what is missing, and `may_lack` lets it be.
    """
    compilation, program = compiled(file, workspace)
    settings = with_text(program, settings, text)
    settings.check(program)
    given = read_given(program, settings, workspace, context)
    program = with_context(program, constant_map(given.values))
    if may_lack:
        refuse_all(given.faults)
    else:
        program = require_inputs(program, workspace, ask, given)
    program = with_flags(program, settings)
    refuse_undefined(compilation, program)
    config = load_config(workspace)
    settings = configured(settings, config, compilation.documents.get(program.main))
    program = with_defaults(program, settings)
    refuse_at_their_place(compilation, program, workspace, settings)
    return Prepared(compilation, program, workspace, settings, config)


def rehearse(prepared: Prepared, reporter: WarningSink) -> tuple[list[str], list[dict[str, Any]]]:
    """Whom a run would ask, as lines and as data; it is refused and warned of as a run would be."""
    refuse_settings(prepared.program, prepared.workspace, prepared.settings)
    warn(prepared, reporter)
    asked = agents_asked(prepared.program, prepared.workspace, prepared.settings)
    return list(asked_lines(asked)), asked_json(asked)


def warn(prepared: Prepared, reporter: WarningSink) -> None:
    """Say what the definition is warned of, and which given values nothing reads."""
    compilation, program = prepared.compilation, prepared.program
    found = without_given(compilation, given_names(program))
    if found:
        reporter.findings(found, compilation.dropped)
    tell_unread(compilation, program, prepared.settings, reporter.detail)
