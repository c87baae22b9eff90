"""Gathers what a report says of a run, from its state, journal, logs and git; it only reads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Protocol

from orchestrate.errors import OrchestrateError
from orchestrate.exits import Ending
from orchestrate.plan.nodes import main_plan
from orchestrate.plan.visible import plural
from orchestrate.record import field, mutable_record, replace
from orchestrate.show.draw.drawing import vertices_in
from orchestrate.show.draw.path_taken import draw_path, index_or_reason
from orchestrate.show.plan_head import limit_words
from orchestrate.show.report.details import find_details
from orchestrate.state.budget import Budget
from orchestrate.state.events import RunStarted
from orchestrate.state.locks import is_held
from orchestrate.state.result import Denials
from orchestrate.state.times import timestamp
from orchestrate.view.advice import next_commands
from orchestrate.view.budgets import budgets_of
from orchestrate.view.changes import Changes, find_changes
from orchestrate.view.history import Chronicle, read_chronicle
from orchestrate.view.result_document import outputs_document
from orchestrate.view.run_summary import last_sign
from orchestrate.view.run_view import RunView, run_view
from orchestrate.view.status_document import lineage_document, step_summaries
from orchestrate.view.step_logs import entries_of
from orchestrate.view.step_totals import Tally
from orchestrate.view.usage import TotalUsage

if TYPE_CHECKING:
    from orchestrate.plan.nodes import Program
    from orchestrate.show.draw.drawing import Drawing
    from orchestrate.show.report.details import Detail
    from orchestrate.state.model import Index
    from orchestrate.state.runs import Run
    from orchestrate.transcript import TranscriptOf
    from orchestrate.view.place import Place
    from orchestrate.workspace import Workspace

# A report is read, not searched: the rest is counted, and its place named.
MOST_STEPS = 400
MOST_DRAWN = 250


@mutable_record
class Report:
    """Everything that a report says, not yet made safe for any language."""

    run_id: str
    root: str
    name: str
    definition: str
    dialect: str
    status: str
    ending: Ending | None
    # Which step gave up, and why, where that ended the run (`view/giving_up`).
    giving_up: str
    started: float
    ended: float | None
    # Until when it has taken time: a program may outlive the one that was killed.
    end: float
    now: float
    chronicle: Chronicle
    changes: Changes
    usage: TotalUsage
    tallies: list[Tally] = field(default_factory=list)
    drawing: Drawing | None = None
    graph_note: str = ""
    details: list[Detail] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    next: list[str] = field(default_factory=list)
    whole_plan: str = ""
    # The command that shows what a step printed.
    all_logs: str = ""
    outputs: dict[str, Any] = field(default_factory=dict)
    limits: str = ""
    budgets: list[Budget] = field(default_factory=list)
    # Where the run is from, where it works, and what it took over, as `status --json` has it.
    lineage: dict[str, Any] = field(default_factory=dict)

    @property
    def denials(self) -> Denials:
        """Tool calls that permissions refused, over all steps."""
        return tuple(replace(denial, step=t.path) for t in self.tallies for denial in t.denials)


class ChronicleOf(Protocol):
    """Reads a journal, or knows what it says."""

    def __call__(
        self, run: Run, index: Index | None, now: float, *, is_live: bool
    ) -> Chronicle: ...


def gather(
    run: Run,
    workspace: Workspace,
    place: Place,
    now: float,
    transcript_of: TranscriptOf,
    chronicle_of: ChronicleOf = read_chronicle,
) -> Report:
    """The report of a run in any condition; an error only if nothing at all can be read."""
    notes: list[str] = []
    view: RunView | None = None
    damage: OrchestrateError | None = None
    try:
        view = run_view(run)
    except OrchestrateError as error:
        damage = error
        notes.append(f"The run is damaged: {error.message}.")
    is_live = view.is_live if view is not None else is_held(run.lock_file)
    index, why_no_plan = (view.index, "") if view is not None else (None, "")
    if index is None:
        index, _, why_no_plan = index_or_reason(run)
    program = None if index is None else index.program
    chronicle = chronicle_of(run, index, now, is_live=is_live)
    if damage is not None and chronicle.started is None:
        raise damage
    notes += [f"{text[0].upper()}{text[1:]}." for text in chronicle.notes]
    if view is not None and view.note:
        notes.append(f"{view.note[0].upper()}{view.note[1:]}.")
    notes += _add_results(chronicle, view)
    tallies = list(chronicle.tallies.by_path.values())
    usage = TotalUsage()
    for tally in tallies:
        usage.include(tally.usage)
    started, ended = _times(chronicle, view, is_live)
    report = Report(
        run_id=run.id,
        root=str(run.root),
        name=_name_of(program, chronicle, view),
        definition=_definition_of(chronicle.started, view),
        dialect=_dialect_of(chronicle.started, view),
        status=view.status if view is not None else "damaged",
        ending=None if view is None else view.ending,
        giving_up="" if view is None else view.giving_up,
        started=started,
        ended=ended,
        end=_end_of(view, ended, now),
        now=now,
        chronicle=chronicle,
        changes=find_changes(workspace.root, chronicle.sittings, now),
        usage=usage,
        tallies=tallies,
        notes=notes,
        whole_plan=place.command("plan", "--run", run.id, "--format", "svg"),
        all_logs=place.command("logs", run.id, "STEP"),
        outputs={} if view is None else outputs_document(run, view.state).get("outputs", {}),
        limits="" if program is None else limit_words(main_plan(program).limits),
        budgets=_budgets(view, now),
        lineage={} if view is None else lineage_document(view.state),
    )
    _add_standing(report, view, place)
    _add_drawing(report, program, index, why_no_plan)
    report.details = find_details(run, view, tallies, transcript_of)
    return report


def _budgets(view: RunView | None, now: float) -> list[Budget]:
    if view is None:
        return []
    return budgets_of(view.state, view.index, now if view.is_live else view.state.updated_at)


def _add_results(chronicle: Chronicle, view: RunView | None) -> list[str]:
    """A journal that is whole has all that the state has."""
    if view is None or not (chronicle.gaps or chronicle.events < view.state.seq):
        return []
    added = chronicle.tallies.add_results((e.address, e.result) for e in entries_of(view.state))
    steps = f"{plural(added, 'step')} that the journal does not have"
    return [f"{steps}: from state.json, without times."] if added else []


def _times(chronicle: Chronicle, view: RunView | None, is_live: bool) -> tuple[float, float | None]:
    if chronicle.started is not None:
        started = chronicle.started.at
    else:
        started = view.state.started_at if view is not None else 0.0
    if is_live:
        return started, None
    if chronicle.tallies.last_at:
        return started, chronicle.tallies.last_at
    return started, view.state.updated_at if view is not None else started


def _end_of(view: RunView | None, ended: float | None, now: float) -> float:
    if view is not None and view.status == "interrupted" and ended is not None:
        return last_sign(view.run, ended, now)
    return now if ended is None else ended


def _name_of(program: Program | None, chronicle: Chronicle, view: RunView | None) -> str:
    if program is not None:
        plan = main_plan(program)
        return plan.title or plan.name or plan.id
    return os.path.basename(_definition_of(chronicle.started, view)) or "?"


def _definition_of(started: RunStarted | None, view: RunView | None) -> str:
    if started is not None:
        return started.definition
    return "unknown" if view is None else view.state.definition


def _dialect_of(started: RunStarted | None, view: RunView | None) -> str:
    if started is not None:
        return started.dialect
    return "unknown" if view is None else view.state.dialect


def _add_standing(report: Report, view: RunView | None, place: Place) -> None:
    """What `status` says: how to go on, and how loops and calls stand, which have no end events."""
    if view is None:
        return
    report.next = next_commands(view, place)
    steps = step_summaries(view.state.root)
    for tally in report.tallies:
        step = steps.get(tally.path)
        if not tally.last and step is not None:
            tally.last = step["status"]


def _add_drawing(
    report: Report, program: Program | None, index: Index | None, why_no_plan: str
) -> None:
    report.drawing, report.graph_note = draw_path(report.chronicle, program, index, why_no_plan)
    vertices = _vertex_count(report.drawing)
    if vertices > MOST_DRAWN:
        report.drawing = None
        report.graph_note += (
            f" The graph has {vertices} steps and ends, more than a report should hold."
        )


def _vertex_count(drawing: Drawing) -> int:
    return sum(1 for _ in vertices_in(drawing.top))


def as_json(report: Report) -> dict[str, Any]:
    """The report as data."""

    def moment(at: float | None) -> str | None:
        return None if at is None else timestamp(at)

    return {
        "run_id": report.run_id,
        "run_root": report.root,
        "name": report.name,
        "workflow_file": report.definition,
        "dialect": report.dialect,
        "status": report.status,
        "reason": report.ending.reason or None if report.ending else None,
        "started_at": moment(report.started),
        "ended_at": moment(report.ended),
        "notes": report.notes,
        "next": report.next,
        **report.lineage,
        "usage": usage_json(report.usage),
        "budgets": [budget.to_json() for budget in report.budgets],
        "denials": [denial.to_json() for denial in report.denials],
        **({"outputs": report.outputs} if report.outputs else {}),
        "sittings": [
            {"started_at": moment(s.start), "ended_at": moment(s.end), "status": s.how or None,
             "commit_before": s.head or None, "commit_after": s.end_head or None}
            for s in report.chronicle.sittings
        ],
        "steps": [tally_json(tally) for tally in report.tallies],
        "approvals": [
            {"stage": a.stage, "asked_at": a.requested_at,
             "decision": None if a.status == "pending" else a.status,
             "by": a.decided_by or None, "message": a.message, "decided_at": a.decided_at}
            for a in report.chronicle.approvals
        ],
        "changes": {
            "how": report.changes.how,
            "commits": report.changes.commits,
            "files": [change.to_json() for change in report.changes.files],
            "left_out": report.changes.left_out,
        },
    }  # fmt: skip


def usage_json(usage: TotalUsage) -> dict[str, Any]:
    """Figures that were not reported are null."""
    return {
        "turns": usage.turns,
        "cost_usd": usage.cost_usd,
        "turns_without_cost": usage.without_cost,
        "turns_computed": usage.computed,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "turns_without_tokens": usage.without_tokens,
        "unbilled_turns": usage.free_turns,
    }


def _changed(tally: Tally) -> list[str]:
    """The first files that the visits which are kept in full have changed."""
    changed = [one.result.changed or {} for one in tally.examples]
    return list(dict.fromkeys(name for one in changed for name in one.get("names", ())))


def tally_json(tally: Tally) -> dict[str, Any]:
    return {
        "step": tally.path,
        "status": tally.last or None,
        "statuses": tally.statuses,
        "visits": tally.visits,
        "attempts": tally.attempts,
        "items": tally.items,
        "duration_ms": round(tally.seconds * 1000),
        "longest_ms": round(tally.longest * 1000),
        "outcomes": tally.outcomes,
        "agents": list(tally.agents),
        "permissions": list(tally.permissions),
        "error": tally.error or None,
        "denials": [denial.to_json() for denial in tally.denials],
        "usage": usage_json(tally.usage),
        "changed": _changed(tally),
    }
