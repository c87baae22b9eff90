"""Has the definition of a run changed since it started, in a way that matters?

What came with orchestrate is no definition of the user's: a run of the catalogue goes on with its
own copy, whatever an upgrade brought. Of the user's files those whose text has changed are compiled
again; if the composed document or the plan is the same, comments and order were all that changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orchestrate.app.checksums import checksums
from orchestrate.app.frozen_run import agents_of, read_frozen, read_frozen_late
from orchestrate.app.secrets import secrets_for
from orchestrate.compile import compile_file, require_program
from orchestrate.engine.faults import StepFault
from orchestrate.engine.outputs import read_schema_text
from orchestrate.errors import OrchestrateError, UsageError
from orchestrate.plan.codec import meaning
from orchestrate.plan.visible import visible
from orchestrate.state.durable import dump_json, parse_json
from orchestrate.view.place import Place
from orchestrate.view.source_files import changed_files, file_at, own_files

if TYPE_CHECKING:
    from orchestrate.app.frozen_run import Frozen
    from orchestrate.app.open_run import Header
    from orchestrate.app.reporter import Reporter
    from orchestrate.plan.nodes import Program
    from orchestrate.state.model import RunState
    from orchestrate.workspace import Workspace

_OURS = ("catalogue:", "package:")


def refuse_changed(
    header: Header, state: RunState, workspace: Workspace, reporter: Reporter
) -> None:
    """Refuse to go on if the definition has changed; say so if only its wording has."""
    frozen = read_frozen(header.root)
    if frozen is None:
        return  # `recompile` has compared the files
    found = _changes(header.definition, header.sources, frozen, workspace)
    found |= _changed_schemas(frozen, workspace)
    for plan_id, sources in state.late.items():
        late = read_frozen_late(header.root, plan_id)
        if late is not None:
            found |= _changes(plan_id, sources, late, workspace)
            found |= _changed_schemas(late, workspace)
    matters = {name: how for name, how in found.items() if how}
    if matters:
        is_there = file_at(header.definition, workspace).is_file()
        raise changed_error(header.run_id, matters, reporter.place, is_there=is_there)
    if found:
        names = ", ".join(sorted(found))
        reporter.note(f"  changed in nothing that matters: {visible(names)}\n")


def changed_error(
    run_id: str, changed: Mapping[str, str], place: Place, *, is_there: bool = True
) -> UsageError:
    """What differs, and the ways to go on; one that is gone cannot be started over."""
    names = ", ".join(name + how.removeprefix("changed") for name, how in sorted(changed.items()))
    as_started = place.command("resume", run_id, "--as-started")
    anew = place.command("resume", run_id, "--force-restart")
    ways = [f"to go on as it was started: {as_started}"]
    ways += [f"to start over with the files as they are: {anew}"] if is_there else []
    return UsageError(f"the definition of run {run_id} has changed: {names}", "\n".join(ways))


def _changes(
    definition: str, before: Mapping[str, str], frozen: Frozen, workspace: Workspace
) -> dict[str, str]:
    """The user's files that differ, each with how if that matters, else with ''."""
    own = own_files(before)
    differing = changed_files(before, workspace)
    if not differing:
        return {}
    gone = {path for path in differing if not file_at(path, workspace).is_file()}
    try:
        compilation = compile_file(file_at(definition, workspace), workspace)
        program = require_program(compilation)
    except OrchestrateError:
        return {path: " (gone)" if path in gone else "changed" for path in differing}
    now = checksums(compilation, workspace)
    own_now = own_files(now)
    changed = {path for path in {*own, *own_now} if own.get(path) != own_now.get(path)}
    if _is_same(program, compilation.documents, frozen, workspace):
        return dict.fromkeys(changed, "")
    return {
        path: " (gone)" if path not in own_now else " (new)" if path not in own else "changed"
        for path in changed
    }


def _changed_schemas(frozen: Frozen, workspace: Workspace) -> dict[str, str]:
    """The schemas of outputs that are not what they were when the run began."""
    found = {}
    for path, text in frozen.schemas.items() if not frozen.is_masked else ():
        try:
            if read_schema_text(path, workspace) != text:
                found[path] = "changed"
        except StepFault:
            found[path] = " (gone)"
    return found


def _is_same(
    program: Program, documents: Mapping[str, Any], frozen: Frozen, workspace: Workspace
) -> bool:
    """The same agents, and the same documents or the same plans."""
    mask = secrets_for(program, workspace).data if frozen.is_masked else lambda value: value
    agents = {n: {"fields": a.fields, "body": a.body} for n, a in frozen.agents.items()}
    if mask(agents_of(program, workspace)) != agents:
        return False
    before = {key: value for key, value in frozen.documents.items() if not key.startswith(_OURS)}
    now = mask(parse_json(dump_json(documents)))
    if {key: value for key, value in now.items() if not key.startswith(_OURS)} == before:
        return True
    plans = {p.id: p for p in frozen.program.plans if not p.id.startswith(_OURS)}
    plans_now = {p.id: p for p in program.plans if not p.id.startswith(_OURS)}
    return plans.keys() == plans_now.keys() and all(
        mask(meaning(plans_now[key])) == meaning(plans[key]) for key in plans
    )


def recompile(header: Header, workspace: Workspace) -> Program:
    """The program of a run that keeps no copy of it; refused if a file of it has changed."""
    compilation = compile_file(file_at(header.definition, workspace), workspace)
    before, now = header.sources, checksums(compilation, workspace)
    changed = {path for path in {*before, *now} if before.get(path) != now.get(path)}
    if changed:
        raise changed_error(header.run_id, dict.fromkeys(changed, "changed"), Place())
    return require_program(compilation)
