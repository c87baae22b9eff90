"""What a `{{…}}` in a recipe means at its place, and what to say when it may mean nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from orchestrate.diagnostics import MOST_FINDINGS, closest
from orchestrate.dialects.lowering import Lowering
from orchestrate.dialects.recipe.members import FinalContext, KeptCall, report_member
from orchestrate.lang.condition import explain_bare, is_bare, parse_condition
from orchestrate.lang.curly import (
    NAMESPACES,
    CurlyText,
    Fault,
    Placed,
    is_variable,
    parse_template,
)
from orchestrate.plan.expr import Cond, Const, Expr, ListExpr, MapExpr, Ref, Text
from orchestrate.plan.flow import AT_END, Use
from orchestrate.plan.nodes import NodeId, PlanId
from orchestrate.record import field, mutable_record, record, replace
from orchestrate.regex import regex
from orchestrate.source.located import LocatedMap, PathKey

DEFAULT_LOOP_VARIABLE = "item"
# The fields that name a variable which a step sets.
_SETTING = ("output", "collect", "output_exit_code")


@record
class Setter:
    """A step that sets a variable; `but` says why the variable may be missing all the same."""

    step: str
    position: int
    but: str


@mutable_record
class Names:
    """Every variable of a recipe: where it comes from, and which uses were already looked at."""

    context: frozenset[str]
    # Variable -> the steps that set it; loop variable -> the steps that loop with it.
    outputs: dict[str, list[Setter]] = field(default_factory=dict)
    loops: dict[str, list[str]] = field(default_factory=dict)
    # Step -> the variable that has its result, or '': people use a step's id as its result.
    results: dict[str, str] = field(default_factory=dict)
    # (Step, variable) -> the recipe whose final context becomes the variable's value.
    called: dict[tuple[str, str], KeptCall] = field(default_factory=dict)
    finals: dict[PlanId, FinalContext] = field(default_factory=dict)
    # Some were lost because they broke the schema: then nothing can be said about the others.
    incomplete: bool = False
    looked_at: set[tuple[NodeId, str]] = field(default_factory=set)
    searches: int = 0


@record
class ExpressionPlace:
    """Where an expression stands: its node, and what is special about it there.

    `given` are the loop variable and what the step's dependencies are known to have set.
    `position` is how many steps come before, `gates` how many gates.
    """

    node: NodeId
    position: int
    given: frozenset[str] = frozenset()
    gates: int = 0
    in_gate: bool = False


def collect_names(work: Lowering, steps: list[LocatedMap], *, incomplete: bool) -> Names:
    """All variables that the recipe's context and steps name; reserved names are reported."""
    context, inputs = work.data.get("context") or {}, work.data.get("inputs") or {}
    reject_reserved_keys(work, context)
    reject_reserved_keys(work, inputs)
    names = Names(frozenset((*context, *inputs)), incomplete=incomplete)
    for position, step in enumerate(steps):
        for key in (*_SETTING, "as"):
            if isinstance(step.get(key), str):
                _reject_reserved(work, step, key)
        step_id = str(step.get("id", "?"))
        for key in _SETTING:
            if isinstance(step.get(key), str):
                setter = Setter(step_id, position, _reservation(step, key))
                names.outputs.setdefault(step[key], []).append(setter)
                names.incomplete |= not is_variable(step[key])
        names.results[step_id] = str(step.get("collect") or step.get("output") or "")
        for key in step.get("update_context") or ():
            setter = Setter(step_id, position, "it may run no round")
            names.outputs.setdefault(key, []).append(setter)
        if "foreach" in step:
            names.loops.setdefault(loop_variable(step), []).append(step_id)
        if "context" in step and step.get("type") != "recipe":
            # It was meant for this step, and is reported: do not report its variables too.
            names.incomplete = True
    return names


def with_inner_steps(steps: Sequence[LocatedMap]) -> list[LocatedMap]:
    """Each step, and behind it those of its `while_steps`, however deep."""
    found: list[LocatedMap] = []
    for step in steps:
        found += [step, *with_inner_steps(inner_steps(step))]
    return found


def inner_steps(step: LocatedMap) -> list[LocatedMap]:
    return [item for item in step.get("while_steps") or () if isinstance(item, LocatedMap)]


def _reservation(step: LocatedMap, key: str) -> str:
    """Why a step that comes first may still not have set its variable."""
    if key == "output" and "foreach" in step:
        return "its list may be empty"
    if "while_condition" in step:
        return "it may run no round"
    if "condition" in step or step.get("depends_on"):
        return "it may be skipped"
    return "it may fail"


def variables_surely_set_by(step: LocatedMap) -> list[str]:
    """What is defined once the step has succeeded: a loop over nothing has no last result."""
    keys = ("collect",) if "foreach" in step else ("output", "output_exit_code")
    return [step[key] for key in keys if isinstance(step.get(key), str)]


def loop_variable(step: LocatedMap) -> str:
    return str(step.get("as", DEFAULT_LOOP_VARIABLE))


def reject_reserved_keys(work: Lowering, context: Any) -> None:
    """No key of a context may be a reserved name."""
    for key in context:
        if key in NAMESPACES:
            work.report("E307", f"'{key}' is a reserved name", context, key, on_key=True,
                        hint=_RESERVED)  # fmt: skip


def _reject_reserved(work: Lowering, step: LocatedMap, key: str) -> None:
    if step[key] in NAMESPACES:
        work.report("E307", f"'{step[key]}' is a reserved name", step, key, hint=_RESERVED)


_RESERVED = f"choose another name than {', '.join(NAMESPACES)}"


# Lowering of values:


def lower_text(
    work: Lowering, names: Names, place: ExpressionPlace, container: Any, key: PathKey
) -> Text:
    """The value at a place as a text with references; mistakes are reported."""
    template = read_template(work, names, place, container, key)
    _check_other_braces(work, names, place, container, key, template)
    return Text(template.parts)


def lower_value(
    work: Lowering, names: Names, place: ExpressionPlace, container: Any, key: PathKey
) -> Expr:
    """Free-form data whose strings are templates, however deep; a lone `{{x}}` keeps its type."""
    value = container[key]
    if isinstance(value, dict):
        entries = ((name, lower_value(work, names, place, value, name)) for name in value)
        return MapExpr(tuple(entries))
    if isinstance(value, list):
        items = (lower_value(work, names, place, value, index) for index in range(len(value)))
        return ListExpr(tuple(items))
    if not isinstance(value, str):
        return Const(value)
    template = read_template(work, names, place, container, key)
    _check_other_braces(work, names, place, container, key, template)
    if not template.placed:
        return Const(str(value))
    return template.lone or Text(template.parts)


def read_template(
    work: Lowering, names: Names, place: ExpressionPlace, container: Any, key: PathKey
) -> CurlyText:
    text = str(container[key])
    template = parse_template(text)
    faults = tuple(_explain_fault(names, text, fault) for fault in template.faults)
    _report_faults(work, container, key, faults)
    _look_at(work, names, place, container, key, template.placed)
    return template


def lower_condition(
    work: Lowering, names: Names, place: ExpressionPlace, step: LocatedMap, key: str = "condition"
) -> Cond | None:
    """A condition of a step; None without one, or after a report."""
    if key not in step:
        return None
    text = str(step[key])
    condition = parse_condition(text)
    faults = [_explain_fault(names, text, fault) for fault in condition.faults]
    faults += (
        _unquoted(item)
        for item in condition.placed
        if is_bare(item.ref) and not _is_known(names, place, item.ref)
    )
    _report_faults(work, step, key, tuple(faults))
    if any(fault.code == "E123" for fault in faults):
        return None
    _look_at(work, names, place, step, key, condition.placed)
    if condition.mixed:
        work.report(
            "W101",
            "`and` and `or` are mixed: they are evaluated from left to right",
            step,
            key,
            hint="put parentheses around what belongs together",
        )
    return condition.cond


def _unquoted(item: Placed) -> Fault:
    message, hint = explain_bare(item.ref.text)
    return Fault("E123", message, item.start, item.end, hint)


def _is_known(names: Names, place: ExpressionPlace, ref: Ref) -> bool:
    """Can a name without braces only be a variable?"""
    if ref.path[0] != "var" or names.incomplete:
        return True
    name = ref.path[1]
    return name in names.context or name in names.outputs or name in place.given


def _report_faults(work: Lowering, container: Any, key: PathKey, faults: tuple[Fault, ...]) -> None:
    for fault in faults:
        span = work.span_inside(container, key, fault.start, fault.end)
        work.report_at(
            fault.code, fault.message, span, hint=fault.hint, suggestion=fault.suggestion
        )


def _explain_fault(names: Names, text: str, fault: Fault) -> Fault:
    """A hyphen cannot stand in a variable's name, but it can in the id of a step."""
    step = text[fault.start + 2 : fault.end - 2].strip()
    if step not in names.results:
        return fault
    hint, suggestion = _result_of(names, step)
    return replace(fault, hint=hint, suggestion=suggestion)


_OTHER_BRACES = regex(r"(?<![{$])\{(\w+)\}(?!\})|\$\{(?:context\.)?(\w+)\}")


def _check_other_braces(
    work: Lowering,
    names: Names,
    place: ExpressionPlace,
    container: Any,
    key: PathKey,
    template: CurlyText,
) -> None:
    """`{x}` and `${x}` are text in a recipe, but not meant to be when x is a variable of it.

    An author who writes `{{x}}` in the same text means the other one as it stands.
    """
    text = str(container[key])
    if "{" not in text:
        return
    told = {item.ref.path[1] for item in template.placed if item.ref.path[0] == "var"}
    for match in _OTHER_BRACES.finditer(text):
        name = match[1] or match[2]
        known = name in names.context or name in names.outputs or name in place.given
        if not known or name in told or len(work.findings.items) >= MOST_FINDINGS:
            continue
        told.add(name)
        work.report_at("W407", f"{match[0]} stays as it is: it is not how recipes write variables",
                       work.span_inside(container, key, match.start(), match.end()),
                       hint=f"write {{{{{name}}}}}")  # fmt: skip


# Checks of uses:


def _look_at(
    work: Lowering, names: Names, place: ExpressionPlace, container: Any, key: PathKey,
    placed: tuple[Placed, ...],
) -> None:  # fmt: skip
    """Check each variable of a node once, at its first use."""
    for item in placed:
        if len(work.findings.items) >= MOST_FINDINGS:
            return  # finding the place of each use costs time, and it would not be shown
        shown = ".".join(item.ref.path[:2])
        if names.called and len(item.ref.path) > 2:
            _look_at_member(work, names, place, container, key, item)
        if (place.node, shown) in names.looked_at:
            continue
        if item.ref.path[0] == "var":
            known = _look_at_variable(work, names, place, container, key, item)
        else:
            known = _look_at_reserved(work, place, container, key, item)
        if known:
            names.looked_at.add((place.node, shown))


def _look_at_variable(
    work: Lowering, names: Names, place: ExpressionPlace, container: Any, key: PathKey, item: Placed
) -> bool:
    """Is this variable settled for the whole node? Optional uses and loop variables are not."""
    ref = item.ref
    name = ref.path[1]
    if name in place.given:
        return False
    if name in names.context:
        return True
    if name in names.outputs:
        if not ref.optional:
            where = partial(work.span_inside, container, key, item.start, item.end)
            hint = _hint_for_output(ref, names.outputs[name], place)
            work.uses.append(Use(place.node, f"var:{name}", ref.text, where, hint))
        return not ref.optional
    if not names.incomplete:
        _report_unset(work, names, place, container, key, item)
    return not ref.optional


def _look_at_member(
    work: Lowering, names: Names, place: ExpressionPlace, container: Any, key: PathKey, item: Placed
) -> None:
    """`{{audit.x}}`, where `audit` can only be the result of recipes that are known here."""
    variable, member = item.ref.path[1:3]
    if item.ref.path[0] != "var" or variable in names.context or names.incomplete:
        return
    if place.node in names.loops.get(variable, ()):
        return  # here it is the item of the loop
    setters = [s for s in names.outputs.get(variable, ()) if s.position < place.position]
    called = [names.called.get((setter.step, variable)) for setter in setters]
    if not called or any(one is None or one.may_have(member) for one in called):
        return
    topic = (place.node, f"{variable}.{member}")
    if topic in names.looked_at or not may_search(names):
        return
    names.looked_at.add(topic)
    span = work.span_inside(container, key, item.start, item.end)
    report_member(work, [one for one in called if one is not None], item.ref, span)


def _report_unset(
    work: Lowering, names: Names, place: ExpressionPlace, container: Any, key: PathKey, item: Placed
) -> None:
    """W103, unless the variable may be missing and is not a slip of another one."""
    ref = item.ref
    message = f"nothing in this recipe sets {ref.text}"
    looping = names.loops.get(ref.path[1])
    if looping:
        message = f"{ref.text} does not exist here"
        hint, suggestion = _hint_for_loop(looping, place), ""
    else:
        hint, suggestion = _search_meant(names, place, ref.path[1:])
    if ref.optional and not suggestion:
        return
    span = work.span_inside(container, key, item.start, item.end)
    work.report_at("W103", message, span, hint=hint, suggestion=suggestion)


def _hint_for_loop(looping: list[str], place: ExpressionPlace) -> str:
    if place.node in looping:
        return "the condition is asked once, before the loop begins"
    return f"it exists only inside the loop of {_listed(looping)}"


def _search_meant(names: Names, place: ExpressionPlace, path: tuple[str, ...]) -> tuple[str, str]:
    """What was probably meant by a variable that nothing sets: a hint and a suggestion."""
    match path:
        case ("context" | "inputs", name, *rest) if name in names.context:
            return "", f"{{{{{'.'.join((name, *rest))}}}}}"
        case ("steps" | "outputs", step, *_) | (step, *_) if step in names.results:
            return _result_of(names, step)
        case _:
            near = _search_near(names, place, path[0])
            return ("", f"{{{{{near}}}}}") if near else (_MUST_BE_GIVEN, "")


def _result_of(names: Names, step: str) -> tuple[str, str]:
    """A step was used as if it were its result."""
    variable = names.results[step]
    if variable:
        return f"'{step}' is a step; its result is in '{variable}'", f"{{{{{variable}}}}}"
    variable = step.replace("-", "_")
    return f"add output: {variable} to step '{step}', and write {{{{{variable}}}}}", ""


def _search_near(names: Names, place: ExpressionPlace, name: str) -> str:
    if not may_search(names):
        return ""
    known = (*names.context, *names.outputs, *place.given)
    return closest(name, [other for other in known if is_variable(other)])


def may_search(names: Names) -> bool:
    """Is one more near-miss search worth its time?"""
    names.searches += 1
    return names.searches <= _MOST_SEARCHES


# A search looks at every name; a file with more slips than this was not written by hand.
_MOST_SEARCHES = 100
_MUST_BE_GIVEN = "give it with --context, or a starting value under `context:`"


def _hint_for_output(ref: Ref, setters: list[Setter], place: ExpressionPlace) -> str:
    earlier = [setter for setter in setters if setter.position < place.position]
    named = _listed([setter.step for setter in earlier or setters])
    if len(earlier) == 1:
        why = f"{named} sets it, but {earlier[0].but}"
    elif earlier:
        why = f"{named} set it, but all of them may be skipped or fail"
    elif any(setter.position == place.position for setter in setters):
        why = f"{named} sets it only when it has ended"
    else:
        why = f"{named} sets it, but comes later"
    return f"{why}; write {{{{{'.'.join(ref.path[1:])}?}}}} if nothing may stand here"


def _listed(steps: list[str]) -> str:
    shown = ", ".join(f"'{step}'" for step in steps[:3])
    return f"step{'s' if len(steps) > 1 else ''} {shown}" + (", …" if len(steps) > 3 else "")


def _look_at_reserved(
    work: Lowering, place: ExpressionPlace, container: Any, key: PathKey, item: Placed
) -> bool:
    ref = item.ref
    if ref.path[0] == "approval" and not place.gates and not ref.optional:
        work.report_at(
            "W103",
            f"no approval comes before {ref.text}",
            work.span_inside(container, key, item.start, item.end),
            hint="it holds the message of the last approval; use it in a later stage",
        )
    if ref.path[0] == "step" and place.in_gate:
        what = "outputs belong to no step" if place.node == AT_END else "an approval is not a step"
        work.report_at("E121", f"{ref.text} does not exist here: {what}",
                       work.span_inside(container, key, item.start, item.end),
                       hint="name the step in the text")  # fmt: skip
    return not ref.optional
