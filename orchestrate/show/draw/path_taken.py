"""The plan of a run with the path that it took, ready to be drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrate.errors import OrchestrateError
from orchestrate.plan.to_json import program_json
from orchestrate.record import replace
from orchestrate.show.draw.drawing import Drawing, Edge, Group, Vertex, draw_program
from orchestrate.show.plan_text import show_target
from orchestrate.state.plan_file import index_of
from orchestrate.view.history import Chronicle

if TYPE_CHECKING:
    from orchestrate.plan.nodes import Program
    from orchestrate.plan.trail import Mark, Trail
    from orchestrate.show.draw.drawing import Drawing, Shape
    from orchestrate.state.model import Index
    from orchestrate.state.runs import Run
    from orchestrate.view.step_totals import Tallies


def draw_path(
    chronicle: Chronicle, program: Program | None, index: Index | None, why_no_plan: str
) -> tuple[Drawing, str]:
    """The drawing, and what has to be said with it; without the plan, the steps that ran."""
    trail = chronicle.trail
    if program is None or index is None or trail is None:
        return draw_steps(chronicle.tallies), (
            "The plan cannot be shown, only the steps that ran and how they followed each other: "
            f"{why_no_plan}."
        )
    whole, missing = with_late_plans(program, index, trail)
    return draw_program(whole, trail), missing


def path_json(
    run_id: str, program: Program | None, trail: Trail | None, notes: list[str]
) -> dict[str, Any]:
    """The plan of a run and the path that it took, for programs."""
    document: dict[str, Any] = {} if program is None else program_json(program)
    path: dict[str, Any] = {"run_id": run_id, "notes": [text for text in notes if text]}
    if trail is not None:
        path["visits"] = [
            {"plan": plan, "node": node, "visits": count, "mark": trail.marks.get((plan, node))}
            for (plan, node), count in trail.visits.items()
        ]
        path["moves"] = [
            {"plan": plan, "node": node, "label": label, "to": show_target(target), "count": count}
            for (plan, node, target), counts in trail.moves.items()
            for label, count in counts.items()
        ]
    return {"run": path, **document}


def index_or_reason(run: Run) -> tuple[Index | None, Program | None, str]:
    """The plan of the run, or why it cannot be had."""
    try:
        index = index_of(run)
    except OrchestrateError as error:
        return None, None, error.message
    return index, index.program, ""


def with_late_plans(program: Program, index: Index, trail: Trail) -> tuple[Program, str]:
    """The program with the recipes that the run found by a path which it worked out, and why one
    is missing."""
    known = {plan.id for plan in program.plans}
    late, missing = [], ""
    for plan_id in trail.starts:
        try:
            late += [] if plan_id in known else [index.plan(plan_id)]
        except OrchestrateError as error:
            missing = f"A recipe that was called cannot be shown: {error.message}."
    return replace(program, plans=(*program.plans, *late)), missing


def draw_steps(tallies: Tallies) -> Drawing:
    """The steps in the order in which they were first reached, when that is all that is known."""
    ids = {tally.path: f"s{number}" for number, tally in enumerate(tallies.by_path.values())}
    drawing = Drawing(Group("top", ""))
    for tally in tallies.by_path.values():
        mark: Mark | None = "failed" if tally.last == "failed" and not tally.is_inner else None
        shape: Shape = "loop" if tally.items is not None else "step"
        name = ids[tally.path]
        drawing.top.members.append(Vertex(name, tally.path, shape, tally.visits, mark))
    for (before, after), count in tallies.steps_between.items():
        drawing.edges.append(Edge(ids[before], ids[after], "", "solid", count))
    return drawing
