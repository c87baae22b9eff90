"""What a loop of a recipe runs over, and fields that only a loop has."""

from __future__ import annotations

from orchestrate.dialects.recipe.names import read_template
from orchestrate.dialects.recipe.written import Recipe, WrittenStep
from orchestrate.dialects.resolvers import pool_of
from orchestrate.lang.curly import clip
from orchestrate.plan.expr import Expr, ListExpr, Ref
from orchestrate.source.located import LocatedMap

_LOOP_FIELDS = ("as", "collect", "max_iterations", "parallel")
_WHILE_FIELDS = ("max_while_iterations", "break_when", "update_context", "while_steps")
_WITHOUT_LOOP = {"collect": 'write output: instead, or add foreach: "{{list}}"'}


def reject_loop_fields(recipe: Recipe, step: LocatedMap) -> None:
    reject_while_fields(recipe, step)
    if not recipe.lacks(step, "foreach"):
        return
    for key in _LOOP_FIELDS:
        if key in step:
            recipe.work.report(
                "E305",
                f"'{key}' has no meaning without 'foreach'",
                step,
                key,
                on_key=True,
                hint=_WITHOUT_LOOP.get(key, 'add foreach: "{{list}}", or remove it'),
            )
    if "spread" in step and step.get("type") != "recipe" and not recipe.has_lost(step, "type"):
        message = "'spread' has no meaning without 'foreach' or type: recipe"
        report_loop_field(recipe, step, "spread", message, "remove it")


def reject_while_fields(recipe: Recipe, step: LocatedMap) -> None:
    if recipe.lacks(step, "while_condition"):
        for key in _WHILE_FIELDS:
            if key in step:
                message = f"'{key}' has no meaning without 'while_condition'"
                hint = "add while_condition: \"{{done}} != 'true'\", or remove it"
                report_loop_field(recipe, step, key, message, hint)


def spread_of_loop(recipe: Recipe, step: LocatedMap) -> str:
    """The pool that takes the items; only those that may run at once can be given away."""
    if "spread" in step and not step.get("parallel") and recipe.lacks(step, "parallel"):
        message = "'spread' has no meaning without 'parallel'"
        report_loop_field(recipe, step, "spread", message, "add parallel: true, or remove it")
    return pool_of(step)


def lower_items(recipe: Recipe, written: WrittenStep) -> Expr:
    step = written.step
    template = read_template(recipe.work, recipe.names, written.place, step, "foreach")
    around = "".join(part for part in template.parts if isinstance(part, str))
    if len(template.placed) == 1 and not around.strip():
        ref = template.placed[0].ref
        _check_list(recipe, written, ref)
        return ref
    if not template.faults:
        text = str(step["foreach"]).strip().strip("${}")
        fix = f"{{{{{text}}}}}" if text.replace(".", "_").isidentifier() else "{{files}}"
        if template.placed:
            fix = clip(template.placed[0].ref.text)
        recipe.work.report("E306", "'foreach' is not exactly one variable", step, "foreach",
                           hint=f'write foreach: "{fix}"')  # fmt: skip
    return ListExpr(())


def _check_list(recipe: Recipe, written: WrittenStep, ref: Ref) -> None:
    """Can the variable of a loop be a list at all?"""
    step, names, name = written.step, recipe.names, ref.path[1]
    if ref.path[0] != "var":
        recipe.work.report("E306", f"{ref.text} is never a list", step, "foreach",
                           hint="name a variable of the context or a result")  # fmt: skip
    elif name in names.context and name not in names.outputs and name not in written.place.given:
        value = recipe.work.data.get("context")
        for key in ref.path[1:]:
            value = value.get(key) if isinstance(value, dict) else None
        # An empty text is how B's recipes write an input that has to be given.
        if not isinstance(value, list) and value not in (None, ""):
            message = f"{ref.text} is not a list in this recipe's context"
            recipe.work.report("W303", message, step, "foreach",
                               hint=f"write {ref.path[-1]}: [one, two] there")  # fmt: skip


def report_loop_field(recipe: Recipe, step: LocatedMap, key: str, message: str, hint: str) -> None:
    recipe.work.report("E305", message, step, key, on_key=True, hint=hint)
