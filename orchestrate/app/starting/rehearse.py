"""A run that is only gone through, as its script says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrate.agents.stand_ins.rehearsal import EMPTY_SCRIPT, OF_GATES, parse_script
from orchestrate.app.given.data_files import read_given_file
from orchestrate.engine.rehearsing import Rehearsal, RehearsedReport, label_of
from orchestrate.plan.nodes import Ask, Call, Gate, Run, all_nodes

if TYPE_CHECKING:
    from orchestrate.app.given.settings import RunSettings
    from orchestrate.plan.nodes import Node, Plan, Program


def rehearsal_of(settings: RunSettings) -> Rehearsal | None:
    """How the run is gone through; None if it is a real one."""
    if settings.backend != "rehearsal":
        return None
    script = EMPTY_SCRIPT
    if settings.script is not None:
        script = parse_script(read_given_file("--script", settings.script, settings.script))

    def choose(_: Plan, node: Node, visit: int) -> RehearsedReport:
        line = script.line(_name(node), visit)
        if line is None:
            return RehearsedReport()
        label = None if line.outcome is None else label_of(line.outcome, node)
        return RehearsedReport(label, line.text)

    return Rehearsal(settings.rehearse_commands, choose)


def scripted_outcomes(program: Program) -> dict[str, tuple[str, ...]]:
    """By the names of the steps that a script may speak of, the outcomes it may give them."""
    found: dict[str, tuple[str, ...]] = {}
    for node in all_nodes(program):
        name = _name(node)
        found[name] = (*found.get(name, ()), *_outcomes(node))
    return found


def has_late(program: Program) -> bool:
    """May it call what is only found on the way, whose steps are not known yet?"""
    return any(
        isinstance(node.op, Call) and not isinstance(node.op.plan, str)
        for node in all_nodes(program)
    )


def _name(node: Node) -> str:
    """A gate is called by its stage."""
    return node.op.stage if isinstance(node.op, Gate) else node.name


def _outcomes(node: Node) -> tuple[str, ...]:
    match node.op:
        case Ask(outcomes=outcomes):
            return outcomes
        case Run(exits=exits) if exits:
            return tuple(dict.fromkeys(label for _, label in exits))
        case Gate():
            return OF_GATES
        case Run():
            return ("passed", "failed")
        case Call():
            return ("failed",)
        case _:
            return ()
