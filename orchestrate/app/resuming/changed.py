"""Has the definition of a run changed since it started, in a way that matters?

What came with orchestrate is not the user's definition: a run of the catalogue goes on with its
own copy, whatever an upgrade brought. Of the user's files those whose text has changed are compiled
again; if the composed document or the plan is the same, comments and order were all that changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.app.definitions.checksums import checksums
from orchestrate.app.resuming.edited_prompts import edited_prompts
from orchestrate.app.resuming.frozen_run import agents_of, read_frozen, read_frozen_late
from orchestrate.app.secrets import secrets_for
from orchestrate.compile import compile_file, require_program
from orchestrate.engine.faults import StepFault
from orchestrate.engine.masked_keys import MASKED
from orchestrate.engine.outputs import read_schema_text
from orchestrate.errors import OrchestrateError, StateError, UsageError
from orchestrate.plan.codec import meaning
from orchestrate.plan.nodes import Call, Each, Goto, Restart, Wait, block_of, nodes_in
from orchestrate.plan.visible import visible
from orchestrate.record import replace
from orchestrate.state.durable import dump_json, parse_json
from orchestrate.state.model import frames_below
from orchestrate.state.plan_file import DOCUMENTS, FILE, read_documents
from orchestrate.view.place import Place
from orchestrate.view.source_files import changed_files, file_at, own_files

if TYPE_CHECKING:
    from orchestrate.app.reading.open_run import Header
    from orchestrate.app.resuming.frozen_run import Frozen
    from orchestrate.app.working.reporter import Reporter
    from orchestrate.plan.nodes import Node, Plan, Program
    from orchestrate.state.model import RunState
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace

_PUT_BACK = "the run's own copy is lost: to go on, put the files back as they were"
_MASKED = (
    "the run's own copy lacks a secret that the files held: to go on as it was started, put them "
    "back as they were"
)
_OURS = ("catalogue:", "package:")


def changes_of(
    run: Run,
    header: Header,
    state: RunState,
    workspace: Workspace,
    reporter: Reporter,
    *,
    is_wanted: bool = False,
) -> dict[str, str]:
    """The files that have changed in a way that matters, each with how; says if others have."""
    frozen = read_frozen(header.root)
    if frozen is None:
        return {}  # `recompile` has compared the files
    found = _changes(header.definition, header.sources, frozen, workspace, state)
    found |= _changed_schemas(frozen, workspace)
    prompts = edited_prompts(run, frozen.program, state, workspace, at_any_time=is_wanted)
    found |= dict.fromkeys(prompts, "changed")
    for plan_id, sources in state.late.items():
        late = read_frozen_late(header.root, plan_id)
        if late is not None:
            found |= _changes(plan_id, sources, late, workspace, state)
            found |= _changed_schemas(late, workspace)
    # A copy that lacks a secret cannot be gone on with: whatever has changed, the files count.
    least = "changed" if frozen.is_masked else ""
    matters = {name: how or least for name, how in found.items() if how or least}
    if found and not matters:
        names = ", ".join(sorted(found))
        reporter.note(f"  changed without effect: {visible(names)}\n")
    return matters


def changed_error(
    run_id: str,
    changed: Mapping[str, str],
    place: Place,
    *,
    is_there: bool = True,
    has_copy: bool = True,
    is_masked: bool = False,
    foreseen: str = "",
    broken: str = "",
) -> UsageError:
    """What differs, and the ways to go on; one that is gone cannot be started over."""
    names = ", ".join(name + how.removeprefix("changed") for name, how in sorted(changed.items()))
    as_started = place.command("resume", run_id, "--as-started")
    anew = place.command("resume", run_id, "--force-restart")
    ways = [f"to go on as it was started: {as_started}"] if has_copy else [_PUT_BACK]
    edited = place.command("resume", run_id, "--edited")
    if is_masked:
        ways = [_MASKED, f"to go on with the files as they are: {edited}"]
    if foreseen:
        ways.insert(0, f"with the files as they are it would {foreseen}\nto do that: {edited}")
    if broken:
        ways += [f"as it is now it cannot be used: {broken}\nonce that is repaired: {edited}"]
    as_they_are = "once that is repaired" if broken else "with the files as they are"
    ways += [f"to start over {as_they_are}: {anew}"] if is_there else []
    return UsageError(f"the definition of run {run_id} has changed: {names}", "\n".join(ways))


def _changes(
    definition: str,
    before: Mapping[str, str],
    frozen: Frozen,
    workspace: Workspace,
    state: RunState,
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
    if _is_same(program, compilation.documents, frozen, workspace, state):
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
    program: Program,
    documents: Mapping[str, Any],
    frozen: Frozen,
    workspace: Workspace,
    state: RunState,
) -> bool:
    """The same agents, and the same documents or, but for the limits of what is done, the same
    plans."""
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
    is_done = done_with(frozen.program, state)
    return plans.keys() == plans_now.keys() and all(
        mask(meaning(_unlimited(plans_now[key], is_done)))
        == meaning(_unlimited(plans[key], is_done))
        for key in plans
    )


def _unlimited(plan: Plan, is_done: Callable[[str, str], bool]) -> Plan:
    """The plan without the time limits and retries of steps that are done."""

    def freed(node: Node) -> Node:
        if not is_done(plan.id, node.id):
            return node
        op = replace(node.op, timeout_s=0.0, poll_ms=0) if isinstance(node.op, Wait) else node.op
        return replace(node, op=op, timeout_s=None, retry=None)

    blocks = (replace(block, nodes=tuple(map(freed, block.nodes))) for block in plan.blocks)
    return replace(plan, blocks=tuple(blocks))


def done_with(program: Program, state: RunState) -> Callable[[str, str], bool]:
    """Says of a node, by its plan and id, whether no cursor can come to it any more."""
    plans = {plan.id: plan for plan in program.plans}
    reached: set[tuple[str, str]] = set()
    ahead = [
        (frame.plan, frame.here.node)
        for frame in frames_below(state.root)
        if frame.here is not None and frame.plan in plans
    ]
    while ahead:
        at = ahead.pop()
        if at in reached:
            continue
        reached.add(at)
        plan = plans[at[0]]
        nodes = {node.id: node for node in nodes_in(plan)}
        node = nodes[at[1]]
        targets = [node.follow, *(target for _, target in node.routes)]
        ahead += [(plan.id, target.node) for target in targets if isinstance(target, Goto)]
        starts = [target.plan for target in targets if isinstance(target, Restart)]
        if isinstance(node.op, Each):
            body = block_of(plan, node.op.body)
            ahead += [(plan.id, inner.id) for inner in body.nodes]
        elif isinstance(node.op, Call) and isinstance(node.op.plan, str):
            starts.append(node.op.plan)
        ahead += [(each, plans[each].blocks[0].entry) for each in starts if each in plans]
    return lambda plan_id, node_id: (plan_id, node_id) not in reached


def recompile(header: Header, workspace: Workspace, *, is_masked: bool = False) -> Program:
    """The program of a run that keeps no copy of it, or a masked one; refused if a file of it has
    changed."""
    compilation = compile_file(file_at(header.definition, workspace), workspace)
    before, now = header.sources, checksums(compilation, workspace)
    changed = {path for path in {*before, *now} if before.get(path) != now.get(path)}
    if changed:
        is_there = file_at(header.definition, workspace).is_file()
        names = dict.fromkeys(changed, "changed")
        raise changed_error(header.run_id, names, Place(), is_there=is_there, is_masked=is_masked)
    return require_program(compilation)


def recompile_documents(header: Header, workspace: Workspace) -> Program:
    """The same from the run's own composed files; refused if an agent's file has changed."""
    documents = read_documents(header.root)
    texts = {
        Path(os.path.realpath(file_at(plan_id, workspace))): dump_json(document).decode("ascii")
        for plan_id, document in documents.items()
    }
    if header.definition not in documents or any(MASKED in text for text in texts.values()):
        raise StateError(
            f"the plan of run {header.run_id} is lost: {FILE} cannot be read, the definition's "
            f"files have changed, and {DOCUMENTS} cannot stand in for them",
            f"put {header.root / FILE} or the files back as they were",
        )
    compilation = compile_file(file_at(header.definition, workspace), workspace, texts)
    before, now = header.sources, checksums(compilation, workspace)
    changed = {path for path in now if path not in documents and before.get(path) != now[path]}
    if changed:
        raise StateError(
            f"the plan of run {header.run_id} is lost: {FILE} cannot be read, and these files have "
            f"changed since: {visible(', '.join(sorted(changed)))}",
            f"put {header.root / FILE} or the files back as they were",
        )
    return require_program(compilation)
