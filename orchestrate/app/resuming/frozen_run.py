"""What a run keeps of its definition, so that it depends on no file: its plans and its agents.

definition.json      the composed files, as people wrote them
plan.json            the program, as compiled and as it runs, with the agents that it names
plans/DIGEST.json    all of that for a recipe that the run found on its way (B)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate import __version__
from orchestrate.dialects.agent_definitions import AgentFile, read_agent
from orchestrate.engine.faults import StepFault
from orchestrate.engine.outputs import read_schema_text
from orchestrate.errors import ConfigError, explain
from orchestrate.plan.codec import freeze
from orchestrate.plan.expr import literal
from orchestrate.plan.nodes import Ask, NamedAgent, Program, Run, all_nodes
from orchestrate.record import record
from orchestrate.state.durable import dump_json, parse_json, write_durably
from orchestrate.state.plan_file import (
    DOCUMENTS,
    FILE,
    FORMAT,
    LATE,
    ODD,
    LostPlanError,
    damaged,
    late_file,
    read_documents,
    read_plan_file,
    read_program,
    write_plan_data,
)

if TYPE_CHECKING:
    from orchestrate.dialects.agent_definitions import AgentFile
    from orchestrate.state.runs import Run as StoredRun
    from orchestrate.workspace import Workspace

Mask = Callable[[Any], Any]


@record
class Frozen:
    """The program of a run as it was compiled, and the definitions of the agents that it names.

    `documents` are the composed files by plan, or nothing where they cannot be read: the plans say
    as much. In a masked copy a secret that was written into the definition itself is missing: it
    can be looked at, but not carried out.
    """

    program: Program
    agents: dict[str, AgentFile]
    # The texts of the files that `output_schema` names.
    schemas: dict[str, str]
    documents: Any
    # Of a recipe that was found on the way; for the others the run's first event has them.
    sources: dict[str, str]
    is_masked: bool


def frozen_bytes(
    program: Program,
    running: Program,
    workspace: Workspace,
    mask: Mask,
    late: Mapping[str, Any] | None = None,
) -> bytes:
    """The content of `plan.json`, secrets masked; of a late plan its documents and sources, too.

    What flags bring in may be masked as well: `running` is for readers alone.
    """
    plain = {
        "program": freeze(program),
        "agents": agents_of(program, workspace),
        "schemas": schemas_of(program, workspace),
    }
    if late is not None:
        plain |= parse_json(dump_json(late))
    masked = mask(plain)
    head = {"format": FORMAT, "orchestrate": __version__, "is_masked": masked != plain}
    shown = {} if running is program else {"running": mask(freeze(running))}
    return write_plan_data(head | masked | shown)


def keep_running(path: Path, running: Program, mask: Mask) -> None:
    """Let readers see the program as it runs from now on: a resume has brought flags."""
    data = read_plan_file(path)
    if data is None:
        return
    shown = parse_json(dump_json(mask(freeze(running))))
    before = data.get("running", data["program"])
    # Values for the context are given once; a resume has them from the run's first event.
    contexts = {plan["id"]: plan["context"] for plan in before["plans"] if "context" in plan}
    for plan in shown["plans"]:
        if plan["id"] in contexts:
            plan["context"] = contexts[plan["id"]]
    if shown != before or data["format"] != FORMAT:
        write_durably(path, write_plan_data(data | {"format": FORMAT, "running": shown}))


def agents_of(program: Program, workspace: Workspace) -> dict[str, Any]:
    """What the files of the named agents say; one that is missing is left to those who need it."""
    found: dict[str, Any] = {}
    for name in sorted(_agent_names(program)):
        try:
            file = read_agent(name, workspace)
        except ConfigError:
            continue
        found[name] = parse_json(dump_json({"fields": file.fields, "body": file.body}))
    return found


def schemas_of(program: Program, workspace: Workspace) -> dict[str, str]:
    """The schemas of the program's outputs that are part of its definition.

    One that is not there yet, or that a step has as its `output_file`, is made by the run; so may
    be one whose path is.
    """
    captures = [node.op.capture for node in all_nodes(program) if isinstance(node.op, Run | Ask)]
    made = {literal(capture.output_file) for capture in captures}
    found = {}
    for path in sorted({literal(capture.schema) for capture in captures} - made - {""}):
        with suppress(StepFault):
            found[path] = read_schema_text(path, workspace)
    return found


def _agent_names(program: Program) -> set[str]:
    return {
        node.op.agent.name
        for node in all_nodes(program)
        if isinstance(node.op, Ask) and isinstance(node.op.agent, NamedAgent)
    }


def read_frozen(root: Path) -> Frozen | None:
    """What the run in a folder was started with; None for a run that has no such copy."""
    return _read(root / FILE)


def require_whole(run: StoredRun, root: Path) -> None:
    """Refuse to carry out a copy that lacks a secret which stood in the definition itself."""
    frozen = read_frozen(root)
    if frozen is not None and frozen.is_masked:
        raise ConfigError(
            f"the definition of run {run.id} holds the value of a secret, which the run's copy "
            "does not keep",
            "name the variable under `secrets:` instead of writing its value, and start anew with: "
            f"orchestrate resume {run.id} --force-restart",
        )


def read_frozen_late(root: Path, plan_id: str) -> Frozen | None:
    path = late_file(root, plan_id)
    frozen = _read(path)
    if frozen is not None and frozen.program.main != plan_id:
        raise damaged(path, f"it is the plan of {frozen.program.main}, not of {plan_id}")
    return frozen


def keep_late(root: Path, plan_id: str, content: bytes) -> None:
    """Keep a recipe that was found on the way, before the run acts on it."""
    path = late_file(root, plan_id)
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise explain("make", path.parent, error) from error
    write_durably(path, content)


def copy_frozen(source: Path, target: Path) -> None:
    """Let a run be made of the same after an edit as before it."""
    kept = [source / FILE, source / DOCUMENTS, *(source / LATE).glob("*.json")]
    for path in [path for path in kept if path.exists()]:
        copy = target / path.relative_to(source)
        try:
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_durably(copy, path.read_bytes())
        except OSError as error:
            raise explain("copy", path, error) from error


def frozen_agents(root: Path) -> dict[str, AgentFile]:
    """All agents that the plans of a run name, as they were."""
    found: dict[str, AgentFile] = {}
    for frozen in _all_frozen(root):
        found |= frozen.agents
    return found


def frozen_schemas(root: Path) -> dict[str, str]:
    """All schemas that the plans of a run name, as they were; where a secret stood in, the file
    counts."""
    found: dict[str, str] = {}
    for frozen in _all_frozen(root):
        found |= {} if frozen.is_masked else frozen.schemas
    return found


def _all_frozen(root: Path) -> list[Frozen]:
    """What the run has found on its way, and what it began with."""
    folder = root / LATE
    found = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        with suppress(LostPlanError):  # those that the run needs were made again
            found.append(_read(path))
    return [frozen for frozen in (*found, _read(root / FILE)) if frozen is not None]


def _read(path: Path) -> Frozen | None:
    data = read_plan_file(path)
    if data is None:
        return None
    program = read_program(path, data["program"], data)
    try:
        agents = {
            name: AgentFile(dict(agent["fields"]), str(agent["body"]))
            for name, agent in data["agents"].items()
        }
        schemas, sources = dict(data.get("schemas", {})), dict(data.get("sources", {}))
        documents = data.get("documents", read_documents(path.parent))
        return Frozen(program, agents, schemas, documents, sources, data["is_masked"])
    except ODD as error:
        raise damaged(path, error) from None
