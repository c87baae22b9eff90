"""What a `${…}` in a workflow means at its place, and what is wrong with it if nothing."""

from __future__ import annotations

from typing import Any

from orchestrate.diagnostics import Span, closest
from orchestrate.dialects.lowering import Lowering
from orchestrate.dialects.workflow.nesting import loop_of_variable, loops_around
from orchestrate.dialects.workflow.results import main_result, result_problem
from orchestrate.lang.dollar import Variable, parse_dollar
from orchestrate.plan.expr import Const, Expr, ListExpr, MapExpr, Ref, Text
from orchestrate.plan.flow import AT_END, Use
from orchestrate.plan.nodes import NodeId
from orchestrate.record import field, mutable_record, record
from orchestrate.regex import regex
from orchestrate.source.located import LocatedMap, PathKey, as_map

RUN_FIELDS = ("id", "root", "timestamp_utc")
LOOP_FIELDS = ("index", "total")
NAMESPACES = ("run", "loop", "item", "steps", "context", "inputs")
_CURLY = regex(r"\{\{ *([A-Za-z_][A-Za-z0-9_]*) *\}\}")
_NO_SHELL = 'no shell reads this: write ["sh", "-c", "…"] to use the shell, and $${ for its ${'


@record
class BlockScope:
    """The steps of one block by name, inside those of the blocks around it."""

    steps: dict[str, LocatedMap]
    prefix: str = ""
    variables: tuple[str, ...] = ()
    outer: BlockScope | None = None
    # Names that several steps of this block have: which one is meant cannot be known.
    repeated: frozenset[str] = frozenset()
    # The items of the loop around this block run at the same time.
    parallel: bool = False

    def find(self, name: str) -> tuple[NodeId, LocatedMap] | None:
        """The nearest step of that name."""
        scope: BlockScope | None = self
        while scope is not None:
            if name in scope.steps:
                return scope.prefix + name, scope.steps[name]
            scope = scope.outer
        return None

    def is_repeated(self, name: str) -> bool:
        """Do several steps have that name, where it is nearest?"""
        if name in self.steps or self.outer is None:
            return name in self.repeated
        return self.outer.is_repeated(name)

    def has(self, step: LocatedMap) -> bool:
        """Is it a step of this very block, and not one whose name was taken or reserved?"""
        return self.steps.get(step.get("name", "")) is step

    def names(self) -> list[str]:
        return [*self.steps, *(self.outer.names() if self.outer else [])]

    @property
    def in_loop(self) -> bool:
        return self.outer is not None

    @property
    def has_item(self) -> bool:
        """Is there a loop around this block that has items? A `repeat` has rounds."""
        return bool(self.variables)

    def leaves_parallel(self, name: str) -> bool:
        """Does a jump to the step of that name leave a loop whose items run at the same time?"""
        scope: BlockScope | None = self
        while scope is not None and name not in scope.steps:
            if scope.parallel:
                return True
            scope = scope.outer
        return False


@record
class VariablePlace:
    """Where a variable stands in the document."""

    work: Lowering
    container: Any
    key: PathKey
    variable: Variable | None = None

    def span(self) -> Span:
        if self.variable is None:
            return self.work.span(self.container, self.key)
        return self.work.span_inside(
            self.container, self.key, self.variable.start, self.variable.end
        )


@mutable_record
class Resolver:
    """Resolves the variables of one step (or, without a node, of a provider's template)."""

    work: Lowering
    scope: BlockScope
    node: NodeId | None
    # In a provider's template, single words are its parameters.
    in_template: bool = False
    in_shell: bool = False
    placeholders: list[str] = field(default_factory=list)

    @property
    def context(self) -> Any:
        return self.work.data.get("context")

    def text(self, container: Any, key: PathKey) -> Text:
        """The value at a place as a text with references; mistakes are reported."""
        return Text(self.parts(container, key))

    def parts(self, container: Any, key: PathKey) -> tuple[str | Ref, ...]:
        value = str(container[key])
        if "{{" in value:
            self._check_curly(value, container, key)
        if "$" not in value:
            return (value,) if value else ()
        parsed = parse_dollar(value)
        for fault in parsed.faults:
            span = self.work.span_inside(container, key, fault.start, fault.end)
            hint = fault.hint
            if fault.of_shell:
                hint = self._expansion_hint(value[fault.start + 2 : fault.end - 1]) or hint
            self.work.report_at("E120", fault.message, span, hint=hint)
        return tuple(
            part if isinstance(part, str) else self._resolve(part, container, key)
            for part in parsed.parts
        )

    def _check_curly(self, value: str, container: Any, key: PathKey) -> None:
        """`{{x}}` is text here (other programs use it); but not when it names what we know."""
        for match in _CURLY.finditer(value):
            name = match[1]
            meant = "" if not isinstance(self.context, dict) else f"${{context.{name}}}"
            if meant and name in self.context:
                span = self.work.span_inside(container, key, match.start(), match.end())
                self.work.report_at(
                    "W407",
                    f"{match[0]} stays as it is: that is how recipes write variables",
                    span,
                    hint=f"a workflow writes {meant}",
                )

    def _expansion_hint(self, inner: str) -> str:
        """How to use the shell's `${name%…}` on a variable of ours, which no shell knows."""
        if not self.in_shell:
            return _NO_SHELL
        name = next((v for v in (*self.scope.variables, "item") if inner.startswith(v)), "")
        if not name or not self.scope.in_loop or inner[len(name) : len(name) + 1].isalnum():
            return ""
        own = inner[len(name) :]
        return f"give the shell a variable of its own: v=${{{name}}}; then $${{v{own}}}"

    def written(self, text: str) -> tuple[tuple[str | Ref, ...], tuple[Variable, ...]]:
        """The pieces of a text and its variables, as they were written."""
        parsed = parse_dollar(text)
        pieces = (p if isinstance(p, str) else Ref(p.segments, p.text) for p in parsed.parts)
        return tuple(pieces), parsed.variables

    def tree(self, container: Any, key: PathKey) -> Expr:
        """Free-form data whose strings are substituted, however deep (provider parameters)."""
        value = container[key]
        if isinstance(value, dict):
            return MapExpr(tuple((name, self.tree(value, name)) for name in value))
        if isinstance(value, list):
            return ListExpr(tuple(self.tree(value, index) for index in range(len(value))))
        return self.text(container, key) if isinstance(value, str) else Const(value)

    def _resolve(self, variable: Variable, container: Any, key: PathKey) -> Ref:
        head, *rest = variable.segments
        path = variable.segments
        # Working a position out means searching the file, and nearly every variable is right.
        place = VariablePlace(self.work, container, key, variable)
        match head:
            case "run":
                self._member(place, variable, rest, RUN_FIELDS)
            case "loop":
                self._member(place, variable, rest, LOOP_FIELDS)
                self._inside_loop(place, variable)
            case "steps":
                path = self._step_result(place, variable, rest)
            case "context":
                self._context(place, variable, rest)
            case "inputs":
                path = self._input(place, variable, rest)
            case "env":
                self._no_environment(place, variable)
            case _:
                path = self._word(place, variable)
        return Ref(path, variable.text)

    def _no_environment(self, place: VariablePlace, variable: Variable) -> None:
        hint = "set env: or secrets: on the step; the program reads its environment"
        if self.in_shell and len(variable.segments) == 2:
            hint = f"write ${variable.segments[1]}: the shell reads it from the environment"
        self.work.report_at(
            "E122", f"{variable.text}: there is no env namespace", place.span(), hint=hint
        )

    def _word(self, place: VariablePlace, variable: Variable) -> tuple[str, ...]:
        """A single word: the loop's item, a provider's placeholder, or a mistake."""
        head = variable.segments[0]
        if head == "item" or head in self.scope.variables:
            if head == "item":
                self._inside_loop(place, variable)
                self._inside_items(place, variable)
            return variable.segments
        if head == "PROMPT":
            if not self.in_template:
                self.work.report_at(
                    "E415",
                    "${PROMPT} has a meaning only in a provider's command",
                    place.span(),
                    hint="declare a provider under `providers:` and use it with `provider:`",
                )
            return ("prompt",)
        if self.in_template and len(variable.segments) == 1:
            self.placeholders.append(head)
            return ("param", head)
        self._unknown(place, variable)
        return variable.segments

    def _unknown(self, place: VariablePlace, variable: Variable) -> None:
        loop = loop_of_variable(self.work.data.get("steps"), variable.segments[0])
        if loop:
            self.work.report_at(
                "E121",
                f"{variable.text} exists only inside the loop '{loop}'",
                place.span(),
                hint="move the step into the loop's steps",
            )
            return
        near = self._near(variable.segments)
        hint = "variables start with run, loop, item, steps or context"
        if self.in_shell:
            hint = f"for the shell's own variable write ${variable.text}"
        elif variable.segments[0].isupper():
            hint = _NO_SHELL
        elif near:
            hint = ""
        self.work.report_at(
            "E121", f"unknown variable {variable.text}", place.span(), hint=hint, suggestion=near
        )

    def _near(self, segments: tuple[str, ...]) -> str:
        """What an unknown variable was probably meant to be, or ''."""
        head, *rest = segments
        if head in as_map(self.work.data.get("inputs")):
            return f"${{{'.'.join(('inputs', *segments))}}}"
        if isinstance(self.context, dict) and head in self.context:
            return f"${{{'.'.join(('context', *segments))}}}"
        if self.scope.find(head):
            return f"${{{'.'.join(('steps', head, *(rest or ('output',))))}}}"
        names = list(self.scope.variables)
        # A loop's own words help only inside one, and the other namespaces only with a member.
        names += ["item"] if self.scope.has_item and not rest else []
        names += [name for name in NAMESPACES if name != "item"] if rest else []
        known = closest(head, names)
        if not known and isinstance(self.context, dict):
            key = closest(head, self.context)
            known = f"context.{key}" if key else ""
        return f"${{{'.'.join((known, *rest))}}}" if known else ""

    def _member(
        self, place: VariablePlace, variable: Variable, rest: list[str], known: tuple[str, ...]
    ) -> None:
        if len(rest) == 1 and rest[0] in known:
            return
        head = variable.segments[0]
        near = closest(rest[0], known) if len(rest) == 1 else ""
        listed = ", ".join(f"{head}.{name}" for name in known)
        self.work.report_at(
            "E121",
            f"unknown variable {variable.text}",
            place.span(),
            hint="" if near else f"there are: {listed}",
            suggestion=f"${{{head}.{near}}}" if near else "",
        )

    def _inside_loop(self, place: VariablePlace, variable: Variable) -> None:
        if not self.scope.in_loop and not self.in_template:
            self.work.report_at(
                "E121",
                f"{variable.text} exists only inside a loop",
                place.span(),
                hint="move the step into the loop's steps",
            )

    def _inside_items(self, place: VariablePlace, variable: Variable) -> None:
        if self.scope.in_loop and not self.scope.has_item:
            self.work.report_at(
                "E121",
                f"{variable.text} exists only inside for_each: rounds of repeat have no items",
                place.span(),
                hint="the round's number is ${loop.index}, from 0",
            )

    def _context(self, place: VariablePlace, variable: Variable, rest: list[str]) -> None:
        if not rest:
            self.work.report_at(
                "E121", "${context} names no key", place.span(), hint="write ${context.KEY}"
            )
            return
        depth, value = _walk(self.context, rest)
        if depth == len(rest):
            return
        name = rest[depth]
        near = closest(name, value) if isinstance(value, dict) else ""
        # Without a near miss it is an input, and one mention is enough.
        if not near and not self.work.first_time(".".join(variable.segments)):
            return
        message = f"{variable.text} is not in the file's context"
        hint = f"pass --context {name}=VALUE, or add it under context:"
        if depth:
            message += f": '{'.'.join(rest[:depth])}' has no '{name}'"
            hint = "add it there, or pass it with --context-file"
        fixed = ".".join((*variable.segments[: depth + 1], near, *rest[depth + 1 :]))
        self.work.report_at(
            "W103",
            message,
            place.span(),
            hint=hint,
            suggestion=f"${{{fixed}}}" if near else "",
        )

    def _input(self, place: VariablePlace, variable: Variable, rest: list[str]) -> tuple[str, ...]:
        declared = self.work.data.get("inputs") or {}
        if not rest or rest[0] not in declared:
            near = closest(rest[0], declared) if rest else ""
            self.work.report_at(
                "E121",
                f"{variable.text} is not an input of this workflow",
                place.span(),
                hint="" if near else f"declare it; inputs: {', '.join(declared) or 'none'}",
                suggestion=f"${{{'.'.join(('inputs', near, *rest[1:]))}}}" if near else "",
            )
        return ("context", *rest)

    def _step_result(
        self, place: VariablePlace, variable: Variable, rest: list[str]
    ) -> tuple[str, ...]:
        if len(rest) < 2:
            found = self.scope.find(rest[0]) if rest else None
            result = "output" if found is None else main_result(self.work, found[1])
            self.work.report_at(
                "E124",
                f"{variable.text} names no result",
                place.span(),
                hint=f"write ${{steps.{rest[0] if rest else 'NAME'}.{result}}}"
                if result
                else "a loop's results belong to its items: use them inside the loop",
            )
            return variable.segments
        if self.in_template and self.node is None:
            return variable.segments
        self.check_result(place, variable.text, rest[0], tuple(rest[1:]))
        return variable.segments

    def check_result(
        self, place: VariablePlace, shown: str, name: str, fields: tuple[str, ...]
    ) -> None:
        """A step of that name is in scope, has such a result, and has run by now."""
        found = self.scope.find(name)
        if found is None:
            self._no_step(place, shown, name)
            return
        node_id, step = found
        problem = result_problem(self.work, step, fields)
        if self.scope.is_repeated(name):
            return  # E402 says it; what the other one has may be what is meant here
        if problem:
            self.work.report_at(
                "E124",
                f"{shown}: step '{name}' {problem.message}",
                place.span(),
                hint=problem.hint,
                suggestion=problem.suggestion,
            )
        elif self.node is not None:
            key = "seen" if fields[0] in ("exit_code", "status") else "ran"
            hint = f"make sure that step '{name}' runs before this one on every path"
            if self.node == AT_END:
                hint = f"it is left out where step '{name}' has not run"
            self.work.uses.append(Use(self.node, f"{key}:{node_id}", shown, place.span, hint))

    def _no_step(self, place: VariablePlace, shown: str, name: str) -> None:
        loops = loops_around(self.work.data.get("steps"), name)
        if loops:
            self.work.report_at(
                "E124",
                f"{shown}: step '{name}' is inside the loop '{loops[-1]}', "
                "and its results exist only there",
                place.span(),
                hint="use them inside the loop, or let its steps write files",
            )
            return
        names = self.scope.names()
        near = closest(name, names)
        self.work.report_at(
            "E124",
            f"{shown}: there is no step '{name}'",
            place.span(),
            hint="" if near or not names else f"steps: {', '.join(names[:12])}",
            suggestion=near,
        )


def _walk(value: Any, path: list[str]) -> tuple[int, Any]:
    """How many steps of the path exist in the data, and the value where it ends."""
    for depth, name in enumerate(path):
        if isinstance(value, list) and name in map(str, range(len(value))):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            return depth, value
    return len(path), value
