"""What every dialect's lowering has at hand: the document, the findings, the other recipes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from orchestrate.diagnostics import Diagnostic, Findings, Span, closest
from orchestrate.plan.expr import Const, Expr, ListExpr, MapExpr
from orchestrate.plan.flow import Use
from orchestrate.plan.nodes import Dialect, Plan, PlanId
from orchestrate.plan.settings import Secret
from orchestrate.record import field, mutable_record
from orchestrate.source.include import Document
from orchestrate.source.located import LocatedList, LocatedMap, Mark, PathKey, value_mark
from orchestrate.source.schema import Violation
from orchestrate.workspace import Workspace

# Comparing every wrong name of a hostile file with every known one would take minutes.
_MOST_GUESSES = 100


class TooManyFindings(Exception):
    """A file with so many mistakes is not worth reading to its end."""


class OtherRecipes(Protocol):
    """The recipes besides this one. Asking for one puts it into the program."""

    def explain(self, document: Document, violation: Violation) -> Diagnostic | None:
        """What a violation of a schema means to the author; None if another one says it."""

    def by_id(self, recipe_id: str) -> PlanId | None:
        """The plan of a recipe in the workspace or the catalogue."""

    def by_path(self, path: Path) -> PlanId | None:
        """The plan of the file, or None when it cannot be read."""

    def known_ids(self) -> Sequence[str]:
        """For near-miss suggestions."""

    def knows_agent(self, name: str) -> bool:
        """Is there a definition file for this agent (dialect B)?"""

    def dialect_of(self, plan_id: PlanId) -> Dialect:
        """What the plan's file is written in."""

    def data_of(self, plan_id: PlanId) -> Any:
        """The plan's document as it was read: it may still hold mistakes."""

    def lowered(self, plan_id: PlanId) -> Plan | None:
        """The plan itself, when it was lowered before this one."""


@mutable_record
class Lowering:
    """One document on its way to a plan. `data` has passed the schema, or was pruned to."""

    plan_id: PlanId
    document: Document
    data: Any
    workspace: Workspace
    findings: Findings
    library: OtherRecipes
    uses: list[Use] = field(default_factory=list)
    # The calls of other files, to be checked once those are lowered.
    calls: list[Any] = field(default_factory=list)
    # Session -> the agent that has it, and where that was first said.
    sessions: dict[str, tuple[str, Span]] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    _folders: dict[str, str] = field(default_factory=dict)

    def real_path(self, relative: str) -> str:
        """Where a path in the workspace leads, links followed. Files share folders: ask once."""
        parent, _, name = relative.rpartition("/")
        if parent not in self._folders:
            self._folders[parent] = os.path.realpath(self.workspace.root / parent)
        full = os.path.join(self._folders[parent], name)
        return os.path.realpath(full) if os.path.islink(full) else full.rstrip("/")

    def first_time(self, topic: str) -> bool:
        """True once per topic: some findings would only repeat themselves down the file."""
        if topic in self._told:
            return False
        self._told.add(topic)
        return True

    def span(self, container: Any, key: PathKey | None = None, *, on_key: bool = False) -> Span:
        """Where a value (or, with `on_key`, a mapping's key) was written."""
        return self.document.sources.span(self._mark(container, key, on_key))

    def span_of_name(self, step: LocatedMap, key: str) -> Span:
        """Where a step's name was written: asked for every step, so it has to be quick."""
        return self.document.sources.span_of(step.value_mark(key), str(step.get(key, "?")))

    def _mark(self, container: Any, key: PathKey | None, on_key: bool) -> Mark:
        if not isinstance(container, LocatedMap | LocatedList):
            return self.data.mark if isinstance(self.data, LocatedMap) else 0
        if key is None:
            return container.mark
        if on_key and isinstance(container, LocatedMap):
            return container.key_mark(str(key))
        return value_mark(container, key)

    def span_inside(self, container: Any, key: PathKey, start: int, end: int) -> Span:
        """Where a part of a string value was written."""
        mark = self._mark(container, key, False)
        return self.document.sources.span_inside(mark, str(container[key]), start, end)

    def _stop_when_full(self) -> None:
        if self.findings.is_full:
            self.findings.dropped += 1
            raise TooManyFindings

    def report_at(
        self, code: str, message: str, span: Span, *, hint: str = "", suggestion: str = ""
    ) -> None:
        self._stop_when_full()
        self.findings.add(
            self.document.sources.diagnostic(code, message, span, hint=hint, suggestion=suggestion)
        )

    def report(
        self,
        code: str,
        message: str,
        container: Any,
        key: PathKey | None = None,
        *,
        on_key: bool = False,
        hint: str = "",
        suggestion: str = "",
    ) -> None:
        """A finding at a value (or key) of the document."""
        self._stop_when_full()
        span = self.span(container, key, on_key=on_key)
        self.report_at(code, message, span, hint=hint, suggestion=suggestion)

    def report_name(
        self,
        code: str,
        message: str,
        container: Any,
        key: PathKey,
        known: Iterable[str],
        *,
        what: str = "known",
    ) -> None:
        """A finding about an unknown name."""
        names = list(known)
        word = str(container[key])
        near = closest(word, names) if len(self.findings.items) < _MOST_GUESSES else ""
        shown = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
        hint = f"{what}: {shown}" if names and not near else ""
        self.report(code, message, container, key, hint=hint, suggestion=near)


def lower_session(work: Lowering, step: LocatedMap, agent: str) -> str | None:
    """`session: NAME` on a step; all steps with the name must ask the same agent."""
    name = step.get("session")
    if name is None:
        return None
    known = work.sessions.setdefault(str(name), (agent, work.span(step, "session")))
    if known[0] != agent:
        whose, first = f"'{known[0]}'" if known[0] else "the run's own", known[1]
        work.report(
            "E126",
            f"session '{name}' has another agent: {whose}, at {first.file}:{first.line}",
            step,
            "session",
            hint="choose another name, or ask the same agent",
        )
    return str(name)


def lower_secrets(work: Lowering) -> tuple[Secret, ...]:
    """`secrets:` at the top of a definition."""
    listed = work.data.get("secrets") or ()
    return tuple(Secret(str(name), work.span(listed, i)) for i, name in enumerate(listed))


def constant(value: Any) -> Expr:
    """Free-form data of the file as an expression without references."""
    if isinstance(value, dict):
        return MapExpr(tuple((key, constant(item)) for key, item in value.items()))
    if isinstance(value, list):
        return ListExpr(tuple(constant(item) for item in value))
    return Const(str(value) if isinstance(value, str) else value)


def constant_map(value: Any) -> MapExpr:
    """A mapping of free-form data; nothing at all when it is absent."""
    expression = constant(value) if isinstance(value, dict) else MapExpr()
    assert isinstance(expression, MapExpr)
    return expression
