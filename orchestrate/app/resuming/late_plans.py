"""Recipes that a run reaches by a path which it works out on its way (B): found, kept, refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.app.config.apply_flags import with_settings
from orchestrate.app.definitions.agents import refuse_unusable
from orchestrate.app.definitions.checksums import checksums
from orchestrate.app.resuming.frozen_run import (
    frozen_agents,
    frozen_bytes,
    keep_late,
    read_frozen_late,
)
from orchestrate.compile import compile_file, require_program
from orchestrate.engine.faults import StepFault
from orchestrate.errors import DefinitionError, OrchestrateError
from orchestrate.plan.nodes import main_plan
from orchestrate.record import record
from orchestrate.state.plan_file import LostPlanError, late_file
from orchestrate.view.source_files import file_at, stable_path

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.plan.nodes import Plan, Program
    from orchestrate.workspace import Workspace


@record
class LatePlans:
    """Compiles recipes that a run reaches by a path it worked out (B), with the run's flags."""

    workspace: Workspace
    settings: RunSettings
    # The folder of the run, which keeps what was found, with secrets masked; who only looks keeps
    # nothing, and has no mask.
    root: Path
    mask: Callable[[Any], Any] | None = None

    def compile(self, plan_id: str) -> tuple[Program, dict[str, str]]:
        """The program whose main plan this is, and the checksums of its files; the run keeps it."""
        compilation = compile_file(file_at(plan_id, self.workspace), self.workspace)
        program = require_program(compilation)
        running = with_settings(program, self.settings)
        sources = checksums(compilation, self.workspace)
        if self.mask is not None:
            late = {"documents": compilation.documents, "sources": sources}
            content = frozen_bytes(program, running, self.workspace, self.mask, late)
            keep_late(self.root, plan_id, content)
        return running, sources

    def whole(self, plan_id: str) -> Program:
        """The program whose main plan this is, as the run first found it."""
        return self._found(plan_id)[0]

    def _found(self, plan_id: str) -> tuple[Program, dict[str, str]]:
        frozen = None
        with suppress(LostPlanError):  # `restore_late` makes it again
            frozen = read_frozen_late(self.root, plan_id)
        if frozen is None or frozen.is_masked:
            return self.compile(plan_id)
        return with_settings(frozen.program, self.settings), frozen.sources

    def find(self, plan_id: str) -> Plan:
        """For the index: a plan that is not part of the program."""
        try:
            return main_plan(self.whole(plan_id))
        except DefinitionError as error:
            copy = late_file(self.root, plan_id)
            raise LostPlanError(
                f"{plan_id} cannot be compiled any more ({error.message}), and the run's copy of "
                f"it, {copy.relative_to(self.root)}, cannot be used",
                "put the file back as it was, or the copy",
            ) from None

    def find_called(self, path: str, caller: str) -> tuple[Program, dict[str, str]]:
        """What a step has worked out the path of; it resolves against the caller's file."""
        base = file_at(caller, self.workspace)
        found = Path(os.path.realpath(base.parent / path))
        if not os.path.isabs(path) and not self.workspace.allows(found, base):
            raise StepFault(f"the recipe '{path}' lies outside the workspace")
        try:
            program, sources = self._found(stable_path(found, self.workspace))
            agents = frozen_agents(self.root)
            refuse_unusable(program, self.workspace, self.settings, agents)
        except DefinitionError as error:
            first = next((d for d in error.diagnostics if d.severity == "error"), None)
            why = f": {first.message}" if first is not None else ""
            raise StepFault(f"the recipe '{path}' cannot be used{why}") from None
        except OrchestrateError as error:
            why = f"{error.message}: {error.hint}" if error.hint else error.message
            raise StepFault(f"the recipe '{path}' cannot be used: {why}") from None
        return program, sources
