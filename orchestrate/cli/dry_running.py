"""What `run --dry-run` does: it shows what would run, and loads no engine."""

from __future__ import annotations

from orchestrate.app.given.exclusive import refuse_events
from orchestrate.app.given.inputs import unset_secrets
from orchestrate.app.given.settings import RunSettings
from orchestrate.app.starting.estimate import estimate
from orchestrate.app.starting.prepare import prepare, rehearse
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.notes import Notes
from orchestrate.errors import UsageError
from orchestrate.exits import DONE
from orchestrate.plan.nodes import main_plan
from orchestrate.plan.to_json import program_json
from orchestrate.show.dry_run import render_dry_run
from orchestrate.show.estimate import estimate_lines
from orchestrate.show.output import answer, answer_json, note
from orchestrate.view.place import Place


def show_dry_run(
    file: str, settings: RunSettings, place: Place, *, text: str | None, as_json: bool
) -> int:
    """What would run, and who would be asked."""
    refuse_events(settings, as_json, dry_run=True)
    if settings.detach:
        raise UsageError("--dry-run and --detach exclude each other")
    workspace = workspace_of(place.working_dir)
    prepared = prepare(file, workspace, settings, text=text, may_lack=True)
    program = prepared.program
    lines, asked = rehearse(prepared, Notes(is_quiet=prepared.settings.quiet))
    expected = estimate(prepared).to_json()
    # Where no agent is asked, no line says so either.
    told = estimate_lines(expected) if asked else ()
    if as_json:
        dialect = main_plan(program).dialect
        answer_json({
            "dialect": dialect, "program": program_json(program), "asked": asked,
            "estimate": expected,
        })  # fmt: skip
    else:
        answer(render_dry_run(program, unset_secrets(program)))
        note("".join(f"{line}\n" for line in (*lines, *told)))
    return DONE
