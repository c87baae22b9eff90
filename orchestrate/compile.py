"""The pipeline, read top to bottom: a file becomes a checked program, or a list of findings.

    load and compose → detect the dialect → check the schema → prune what broke it
    → lower to a plan → analyse its flow → prove its invariants

Every stage goes on after mistakes, so that one run shows all of them. Recipes that a plan can
reach (sub-recipes, restarts) are compiled into the same program, each file once.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from orchestrate.catalogue import agent_places, find_recipe, recipe_files
from orchestrate.diagnostics import Diagnostic, Findings
from orchestrate.dialects.lowering import Lowering, TooManyFindings
from orchestrate.dialects.shape import (
    THREE_SHAPES,
    describe_mismatch,
    detect_dialect,
    has_hole,
    is_machine_at_heart,
)
from orchestrate.digest import sha256_of
from orchestrate.errors import DefinitionError
from orchestrate.exits import DONE, invalid_definition
from orchestrate.plan.check import check_program
from orchestrate.plan.flow import analyse
from orchestrate.plan.nodes import (
    Call,
    Dialect,
    Plan,
    PlanId,
    Program,
    Restart,
    SourceFile,
    nodes_in,
)
from orchestrate.record import field, mutable_record, record, replace
from orchestrate.source.include import Document, Loader
from orchestrate.source.located import Sources, mark_at
from orchestrate.source.prune import prune
from orchestrate.source.schema import Violation, check_shipped
from orchestrate.workspace import Workspace, is_within, package_data


@record
class Compilation:
    """What compiling a file gave: findings always, a program when there is no error."""

    path: Path
    dialect: Dialect | None
    program: Program | None
    diagnostics: tuple[Diagnostic, ...]
    dropped: int
    sources: Sources
    documents: dict[PlanId, Any]

    @property
    def exit_code(self) -> int:
        """The exit code of a command that only compiles."""
        return DONE if self.program is not None else invalid_definition(self.dialect)


def compile_file(
    path: Path, workspace: Workspace, texts: Mapping[Path, str] = MappingProxyType({})
) -> Compilation:
    """Compile a definition and everything it can reach; `texts` stand in for files."""
    with _collector_paused():
        session = _Session(workspace)
        session.loader.texts = texts
        return _compile_in(session, path)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Everything we build lives to the end: the garbage collector would walk it for nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _compile_in(session: _Session, path: Path) -> Compilation:
    main = session.request(Path(os.path.abspath(path)))
    session.compile_requested()
    findings = session.findings
    program = None
    if not findings.has_errors and main is not None:
        mains = {main, *_restarted(session.plans.values())}
        plans = tuple(
            _as_main(plan) if plan.id in mains else plan for plan in session.plans.values()
        )
        program = Program(main, plans)
        check_program(program)
    return Compilation(
        path,
        session.dialects.get(main or ""),
        program,
        findings.in_reading_order(),
        findings.dropped,
        session.loader.sources,
        session.documents,
    )


def _restarted(plans: Iterable[Plan]) -> Iterator[PlanId]:
    """The plans that a machine may go on as."""
    for node in (node for plan in plans for node in nodes_in(plan)):
        yield from (target.plan for _, target in node.routes if isinstance(target, Restart))


def _as_main(plan: Plan) -> Plan:
    """The plan that is run; what a called recipe inherits, the main one has by default."""
    nodes = nodes_in(plan)
    if plan.dialect != "recipe" and not any(isinstance(node.op, Call) for node in nodes):
        return plan
    from orchestrate.dialects.recipe.lower import MAX_DEPTH, with_default_limits

    if plan.dialect == "recipe":
        return replace(plan, limits=with_default_limits(plan.limits))
    return replace(plan, limits=replace(plan.limits, max_depth=MAX_DEPTH))


def require_program(compilation: Compilation) -> Program:
    """The program with the checksums of its files, or all its errors as one exception."""
    if compilation.program is None:
        raise DefinitionError(compilation.diagnostics, compilation.exit_code)
    files = tuple(
        SourceFile(source.display, sha256_of(source.text.encode()))
        for source in compilation.sources.files
    )
    return replace(compilation.program, files=files)


@mutable_record
class _Session:
    """One compilation: a worklist of files, and the library that lowering asks."""

    workspace: Workspace
    findings: Findings = field(default_factory=Findings)
    loader: Loader = field(init=False)
    plans: dict[PlanId, Plan] = field(default_factory=dict)
    dialects: dict[PlanId, Dialect] = field(default_factory=dict)
    documents: dict[PlanId, Any] = field(default_factory=dict)
    _requested: dict[Path, PlanId | None] = field(default_factory=dict)
    _waiting: list[tuple[PlanId, Document]] = field(default_factory=list)
    _calls: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.loader = Loader(self.workspace, self.findings)

    def request(self, path: Path) -> PlanId | None:
        """Load a file now and lower it later; None when it is not a definition at all."""
        real = Path(os.path.realpath(path))
        if real not in self._requested:
            self._requested[real] = None
            document = self.loader.load(path)
            if document is not None:
                self._requested[real] = self._admit(document)
        return self._requested[real]

    def _admit(self, document: Document) -> PlanId | None:
        plan_id = self._plan_id(document.path)
        dialect = detect_dialect(document.data)
        if dialect is None:
            if not has_hole(document.data):
                self._report_shape(document)
                return None
            # A broken include, which is reported, hides the steps: nothing is left to lower.
            if is_machine_at_heart(document.data) or is_machine_at_heart(document.own):
                self.dialects[plan_id] = "machine"
                self.documents[plan_id] = document.data
                return plan_id
            return None
        self.dialects[plan_id] = dialect
        self.documents[plan_id] = document.data
        self._waiting.append((plan_id, document))
        return plan_id

    def _report_shape(self, document: Document) -> None:
        odd = describe_mismatch(document.data)
        mark = mark_at(document.data, odd.path, on_key=odd.on_key) or self._first_mark(document)
        message = f"not a machine, a recipe or a workflow: {odd.message}"
        span = document.sources.span(mark)
        # The likeliest slip first; the three shapes in any case (rulings §1).
        hint = "\n".join(dict.fromkeys((odd.hint, THREE_SHAPES)))
        self.findings.add(document.sources.diagnostic("E030", message, span, hint=hint))

    def _first_mark(self, document: Document) -> int:
        index = next(
            (i for i, s in enumerate(self.loader.sources.files) if s.path == document.path), 0
        )
        return index << 48

    def _plan_id(self, path: Path) -> PlanId:
        """A name for the file that does not depend on where the user stands."""
        real = Path(os.path.realpath(path))
        if is_within(real, self.workspace.root):
            return real.relative_to(self.workspace.root).as_posix()
        data = package_data()
        if is_within(real, data):
            return f"catalogue:{real.relative_to(data / 'workflows').as_posix()}"
        return real.as_posix()

    def compile_requested(self) -> None:
        while self._waiting:
            plan_id, document = self._waiting.pop(0)
            plan = self._compile(plan_id, document)
            if plan is not None:
                self.plans[plan_id] = plan
        with suppress(TooManyFindings):
            for site in self._calls:
                if site.plan in self.plans:
                    site.check(self.plans[site.plan])

    def _compile(self, plan_id: PlanId, document: Document) -> Plan | None:
        dialect = self.dialects[plan_id]
        data = document.data
        version = str(data.get("version", "")) if dialect == "workflow" else ""
        violations = check_shipped(dialect, data, version)
        for number, violation in enumerate(violations):
            if self.findings.is_full:
                self.findings.dropped += len(violations) - number
                return None
            explained = self.explain(document, violation)
            if explained is not None:
                self.findings.add(explained)
        if self.findings.has_errors:
            data = prune(data, violations)
        work = Lowering(plan_id, document, data, self.workspace, self.findings, self)
        try:
            plan = _lower(dialect, work)
        except TooManyFindings:
            return None
        self._calls += work.calls
        # After an error the routes are not the author's: paths would seem broken that are not.
        if plan is not None and not self.findings.has_errors:
            for finding in analyse(plan, work.uses):
                work.report_at(finding.code, finding.message, finding.span, hint=finding.hint)
        return plan

    # What lowering asks of the library:

    def explain(self, document: Document, violation: Violation) -> Diagnostic | None:
        from orchestrate.source.explain import explain

        return explain(document, violation)

    def by_id(self, recipe_id: str) -> PlanId | None:
        path = find_recipe(recipe_id, self.workspace)
        return self.request(path) if path is not None else None

    def by_path(self, path: Path) -> PlanId | None:
        return self.request(path)

    def known_ids(self) -> Sequence[str]:
        return [recipe_id for recipe_id, _, _ in recipe_files(self.workspace)]

    def knows_agent(self, name: str) -> bool:
        return any(os.path.isfile(place) for place in agent_places(name, self.workspace))

    def dialect_of(self, plan_id: PlanId) -> Dialect:
        return self.dialects[plan_id]

    def data_of(self, plan_id: PlanId) -> Any:
        return self.documents[plan_id]

    def lowered(self, plan_id: PlanId) -> Plan | None:
        return self.plans.get(plan_id)


def _lower(dialect: Dialect, work: Lowering) -> Plan | None:
    """Each dialect's module is imported only for a file that is written in it."""
    match dialect:
        case "machine":
            from orchestrate.dialects.machine import lower_machine

            return lower_machine(work)
        case "recipe":
            from orchestrate.dialects.recipe.lower import lower_recipe

            return lower_recipe(work)
        case "workflow":
            from orchestrate.dialects.workflow.lower import lower_workflow

            return lower_workflow(work)
