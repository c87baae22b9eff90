"""What a `{{…}}` means in the prompts and commands of a machine: an input, or a step's result.

Texts are templates only in a machine that declares `inputs` or has a command; in all others they
stay as they were written.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from orchestrate.diagnostics import closest
from orchestrate.dialects.calls import named_plan, outputs_of
from orchestrate.dialects.lowering import Lowering
from orchestrate.lang.curly import Placed, parse_template
from orchestrate.plan.expr import Const, Expr, ListExpr, MapExpr, Ref, Text
from orchestrate.plan.flow import AT_END, Use
from orchestrate.plan.nodes import NodeId
from orchestrate.record import mutable_record
from orchestrate.regex import regex
from orchestrate.source.located import LocatedMap, PathKey, as_map

_STEPS = "steps"
_LIKE_ONE = regex(r"(?<!\\)\{\{\s*(?:steps\.[\w-]+\.[\w.]+|(?P<input>[A-Za-z_]\w*))\??\s*\}\}")
_RESULTS = {
    "command": ("output", "exit_code", "outcome"),
    "approval": ("outcome", "message"),
    "call": ("outputs", "status", "reason", "outcome"),
    "prompt": ("output", "outcome"),
}


@mutable_record
class Templates:
    """The names that the texts of a machine may use; `is_on` says whether they are templates."""

    work: Lowering
    inputs: tuple[str, ...]
    is_on: bool
    node: NodeId = ""
    in_shell: bool = False
    in_template: bool = False

    def text(self, container: Any, key: PathKey) -> Text:
        """The value at a place as a text with references; mistakes are reported."""
        return Text(self.parts(container, key))

    def written(self, text: str) -> tuple[tuple[str | Ref, ...], tuple[Placed, ...]]:
        """The pieces of a text and its references, as they were written."""
        if not self.is_on:
            return (text,), ()
        template = parse_template(text)
        return template.parts, template.placed

    def tree(self, container: Any, key: PathKey) -> Expr:
        """Free-form data whose texts are templates, however deep; a lone `{{x}}` keeps its type."""
        value = container[key]
        if isinstance(value, dict):
            return MapExpr(tuple((name, self.tree(value, name)) for name in value))
        if isinstance(value, list):
            return ListExpr(tuple(self.tree(value, index) for index in range(len(value))))
        if not isinstance(value, str):
            return Const(value)
        parts = self.parts(container, key)
        match parts:
            case ():
                return Const("")
            case (str(text),):
                return Const(text)
            case (Ref() as lone,):
                return lone
            case _:
                return Text(parts)

    def parts(self, container: Any, key: PathKey) -> tuple[str | Ref, ...]:
        written = str(container[key])
        if not self.is_on:
            self._warn_of_literal(container, key, written)
            return (written,)
        template = parse_template(written)
        for fault in template.faults:
            span = self.work.span_inside(container, key, fault.start, fault.end)
            self.work.report_at(fault.code, fault.message, span, hint=fault.hint,
                                suggestion=fault.suggestion)  # fmt: skip
        meant = {item.ref: self._meaning(container, key, item) for item in template.placed}
        return tuple(meant[part] if isinstance(part, Ref) else part for part in template.parts)

    def _warn_of_literal(self, container: Any, key: PathKey, written: str) -> None:
        """What reads like a template, in a machine that has none."""
        for match in _LIKE_ONE.finditer(written):
            span = self.work.span_inside(container, key, match.start(), match.end())
            name = match["input"] or ""
            say = f"inputs: {{{name}: {{description: …}}}}" if name else "inputs: {}"
            hint = f"write {say} at the top, which makes texts templates"
            self.work.report_at("W110", f"{match[0]} stays as it is written", span, hint=hint)

    def _meaning(self, container: Any, key: PathKey, item: Placed) -> Ref:
        ref = item.ref
        path = ref.path[1:] if ref.path[0] == "var" else ref.path
        where = partial(self.work.span_inside, container, key, item.start, item.end)
        if path[0] == _STEPS:
            problem, hint, suggestion = self._result_problem(path[1:])
            if problem:
                self.work.report_at("E124", f"{ref.text}: {problem}", where(), hint=hint,
                                    suggestion=suggestion)  # fmt: skip
            elif not ref.optional and self.node:
                hint = f"make sure that step '{path[1]}' runs before this one on every path"
                if self.node == AT_END:
                    hint = f"step '{path[1]}' may not have run by then; write "
                    hint += f"{{{{{'.'.join(path)}?}}}} if nothing may stand here"
                self.work.uses.append(Use(self.node, f"ran:{path[1]}", ref.text, where, hint))
            return Ref(path, ref.text, ref.optional)
        if path[0] not in self.inputs:
            near = closest(path[0], self.inputs)
            if path[0] == "inputs" and len(path) > 1 and path[1] in self.inputs:
                near, path = path[1], path[1:]  # as workflows write it
            known = ", ".join(self.inputs) or "none"
            self.work.report_at(
                "E121",
                f"{ref.text} is not an input of this machine",
                where(),
                hint=""
                if near
                else f"declare it under `inputs:` (inputs: {known}), or write "
                "{{steps.NAME.output}}; for the text itself write \\{{",
                suggestion=f"{{{{{'.'.join((near, *path[1:]))}}}}}" if near else "",
            )
        return Ref(("var", *path), ref.text, ref.optional)

    def _result_problem(self, path: tuple[str, ...]) -> tuple[str, str, str]:
        """Why there is no such result, a hint and a suggestion; empty if there is."""
        steps = as_map(self.work.data.get(_STEPS))
        called = as_map(steps.get(path[0])) if path else LocatedMap(0)
        if len(path) >= 3 and path[1] == "outputs" and "call" in called:
            return self._output_problem(path[0], path[2], called)
        if len(path) != 2:
            if len(path) > 2 and path[1] == "outputs" and path[0] in steps:
                has_none = f"step '{path[0]}' calls no file, so that it has no outputs"
                return has_none, f"what it gave is {{{{steps.{path[0]}.output}}}}", ""
            return "write {{steps.NAME.output}}", "a step's result has one name", ""
        name, field = path
        if name not in steps:
            near = closest(name, steps)
            known = "" if near else f"steps: {', '.join(list(steps)[:12])}"
            return f"there is no step '{name}'", known, near
        step = as_map(steps[name])
        kind = next((kind for kind in _RESULTS if kind in step), "prompt")
        if field in _RESULTS[kind] or step.lost:
            return "", "", ""
        near = closest(field, _RESULTS[kind])
        hint = "" if near else f"its results: {', '.join(_RESULTS[kind])}"
        return f"step '{name}' has no result '{field}'", hint, near

    def _output_problem(self, name: str, output: str, step: LocatedMap) -> tuple[str, str, str]:
        known = outputs_of(self.work, named_plan(self.work, step))
        if known is None or output in known:
            return "", "", ""
        near = closest(output, known)
        hint = "" if near else f"outputs: {', '.join(known) or 'none'}"
        return f"what step '{name}' calls has no output '{output}'", hint, near


def templates_of(work: Lowering, inputs: tuple[str, ...]) -> Templates:
    """Are the texts of this machine templates? A step named `steps` cannot be confused: no input
    may be called that."""
    declared = as_map(work.data.get("inputs"))
    if _STEPS in declared:
        work.report("E307", "'steps' is a reserved name", declared, _STEPS, on_key=True,
                    hint="choose another: {{steps.NAME.output}} is a step's result")  # fmt: skip
    steps = as_map(work.data.get(_STEPS)).values()
    has_command = any(isinstance(step, LocatedMap) and "command" in step for step in steps)
    return Templates(work, inputs, "inputs" in work.data or has_command)
