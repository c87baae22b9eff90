"""Settings of steps that their agents cannot take, as findings of the file that gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrate.app.config.apply_flags import configured
from orchestrate.app.config.load import load_config
from orchestrate.app.definitions.agent_definitions import faults_of_settings, gives_settings
from orchestrate.app.given.settings import RunSettings
from orchestrate.diagnostics import Findings
from orchestrate.errors import DefinitionError, OrchestrateError
from orchestrate.exits import ENVIRONMENT
from orchestrate.record import replace

if TYPE_CHECKING:
    from orchestrate.compile import Compilation
    from orchestrate.plan.nodes import Program
    from orchestrate.workspace import Workspace


def with_refused_settings(
    compilation: Compilation, program: Program, workspace: Workspace
) -> Compilation:
    """Each is a warning, and not an error, because a run may be given another agent."""
    sources = compilation.sources
    findings = Findings(dropped=compilation.dropped)
    for found in compilation.diagnostics:
        findings.add(found)
    for fault in faults_of_settings(program, workspace, _without_flags(workspace)):
        span = sources.first_behind(fault.span, fault.setting) if fault.setting else fault.span
        findings.add(sources.diagnostic("W108", fault.message, span, hint="`run` refuses it"))
    return replace(compilation, diagnostics=findings.in_reading_order(), dropped=findings.dropped)


def refuse_at_their_place(
    compilation: Compilation, program: Program, workspace: Workspace, settings: RunSettings
) -> None:
    """All settings of steps that a run's agents cannot take, as one error, each with its caret.

    What stands in an agent's file, or comes with a flag, is refused by `refuse_settings`.
    """
    if not gives_settings(program):
        return
    sources = compilation.sources
    found = [
        sources.diagnostic("E128", fault.message, sources.first_behind(fault.span, fault.setting))
        for fault in faults_of_settings(program, workspace, settings)
        if fault.setting
    ]
    if found:
        raise DefinitionError(tuple(dict.fromkeys(found)), ENVIRONMENT)


def _without_flags(workspace: Workspace) -> RunSettings:
    """What a run without flags would be given; a faulty configuration is `run`'s to tell."""
    try:
        return configured(RunSettings(), load_config(workspace))
    except OrchestrateError:
        return RunSettings()
