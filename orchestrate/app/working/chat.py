"""A message to an agent in a session, outside of any recipe: recorded like a run (A §13.2).

It does not count as a second run of the workspace: it may go on beside a recipe in another session,
and it never becomes `latest`. The session's lock keeps two turns from one session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrate.app.config.apply_flags import configured, with_defaults
from orchestrate.app.config.load import load_config, runs_folder
from orchestrate.app.definitions.agents import refuse_unusable
from orchestrate.app.definitions.find import compiled
from orchestrate.app.ending.stopping import stoppable
from orchestrate.app.given.context import with_given_context
from orchestrate.app.given.settings import RunSettings
from orchestrate.app.starting.new_run import start_run
from orchestrate.app.starting.stand_ins import holding_session
from orchestrate.app.starting.start import RunOutcome
from orchestrate.app.working.carry_out import carry_out
from orchestrate.plan.nodes import Ask, Program
from orchestrate.record import replace
from orchestrate.workspace import package_data

if TYPE_CHECKING:
    from orchestrate.app.working.reporter import Reporter
    from orchestrate.workspace import Workspace

FILE = "workflows/.console/chat.yaml"


def chat(
    text: str,
    workspace: Workspace,
    reporter: Reporter,
    *,
    settings: RunSettings,
    new_session: str | None = None,
) -> RunOutcome:
    """One turn: in `settings.session`, or in a new session, whose id an agent may choose itself."""
    compilation, program = compiled(str(package_data() / FILE), workspace)
    program = _in_the_runs_session(program)
    program = with_given_context(program, RunSettings(), workspace, {"message": text})
    config = load_config(workspace)
    settings = configured(settings, config)
    program = with_defaults(program, settings)
    refuse_unusable(program, workspace, settings)
    runs = runs_folder(workspace, config, None)
    with holding_session(settings) as held, stoppable() as stop:
        store = start_run(
            runs,
            program,
            compilation,
            workspace,
            settings,
            reporter,
            chat_session=new_session or "",
        )
        try:
            reporter.started(store.run)
            ending = carry_out(
                store, program, workspace, settings, reporter, stop, held_session=held
            )
        finally:
            store.close()
        return RunOutcome(store, ending)


def _in_the_runs_session(program: Program) -> Program:
    """The one step asks in the run's session, as the steps of a machine do."""
    [plan] = program.plans
    [block] = plan.blocks
    [node] = block.nodes
    assert isinstance(node.op, Ask)
    node = replace(node, op=replace(node.op, session="shared"))
    plan = replace(plan, blocks=(replace(block, nodes=(node,)),))
    return replace(program, plans=(plan,))
