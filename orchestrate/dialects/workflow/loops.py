"""`for_each`: items from a list or an earlier result, and what becomes of each item's file."""

from __future__ import annotations

from orchestrate.dialects.lowering import Lowering, constant
from orchestrate.dialects.prompts import check_prompt_text
from orchestrate.dialects.resolvers import pool_of
from orchestrate.dialects.workflow.ops import StepLowering, lower_when
from orchestrate.dialects.workflow.paths import lower_target
from orchestrate.dialects.workflow.providers import check_prompt, lower_agent
from orchestrate.dialects.workflow.scope import NAMESPACES, Resolver, VariablePlace
from orchestrate.plan.expr import Expr, ListExpr, Ref
from orchestrate.plan.nodes import Ask, BlockId, Each, ItemMoves, Rounds
from orchestrate.record import replace
from orchestrate.regex import regex
from orchestrate.source.located import LocatedMap, located_map
from orchestrate.source.prune import walk_strings

_POINTER = regex(r"steps\.(?P<name>[^.]+)\.(?P<field>[A-Za-z_]+)(?P<path>(?:\.[^.\s*\[\]]+)*)\Z")
_RESERVED = frozenset((*NAMESPACES, "env", "PROMPT")) - {"item"}


def lower_each(
    one: StepLowering, body: BlockId, *, stop_on_failure: bool, inside: Resolver
) -> Each:
    """The Each op. `inside` resolves variables as the loop's own steps would."""
    loop: LocatedMap = one.step["for_each"]
    work = one.work
    variable = loop.get("as", "item")
    if variable in _RESERVED:
        work.report(
            "E307",
            f"'{variable}' is a reserved name",
            loop,
            "as",
            hint="choose another name for the loop's variable",
        )
    return Each(
        items=_items(one, loop),
        variable=variable,
        body=body,
        stop_on_failure=stop_on_failure,
        parallel=loop.get("parallel", False),
        moves=_moves(loop, inside),
        spread=_spread(work, loop),
    )


def _spread(work: Lowering, loop: LocatedMap) -> str:
    """The pool that takes the items; only those that may run at once can be given away."""
    if "spread" in loop and not loop.get("parallel") and "parallel" not in loop.lost:
        work.report(
            "E408",
            "'spread' has no meaning without 'parallel'",
            loop,
            "spread",
            on_key=True,
            hint="add parallel: true, or remove it",
        )
    return pool_of(loop)


def lower_resolver(one: StepLowering, resolve: LocatedMap) -> Ask:
    """The provider that is asked where items are in conflict."""
    # It is named and checked as those of steps are.
    named = located_map(
        resolve.mark,
        (
            ("provider" if key == "agent" else key, value, key_mark, value_mark)
            for key, value, key_mark, value_mark in resolve.entries()
        ),
    )
    agent = lower_agent(one.work, one.providers, named, one.resolver)
    check_prompt(one.work, one.providers, named)
    check_prompt_text(one.work, named)
    return Ask(agent, one.resolver.text(named, "prompt"), "fresh")


def lower_repeat(one: StepLowering, body: BlockId, inside: Resolver) -> Each:
    """`repeat`: rounds until a condition holds, which sees the steps of the round."""
    loop: LocatedMap = one.step["repeat"]
    within = replace(one, resolver=inside)
    return Each(
        items=ListExpr(()),
        variable="",
        body=body,
        stop_on_failure=True,
        limit=int(loop.get("max", 1)),
        rounds=Rounds(until=lower_when(within, loop, "until")),
    )


def _items(one: StepLowering, loop: LocatedMap) -> Expr:
    work = one.work
    if ("items" in loop) == ("items_from" in loop):
        problem = "has both items and items_from" if "items" in loop else "has no items"
        if not {"items", "items_from"} & set(loop.lost):
            work.report(
                "E411",
                f"the loop '{one.step.get('name', '?')}' {problem}",
                one.step,
                "for_each",
                on_key=True,
                hint="give it either items: [...] or items_from: steps.NAME.lines",
            )
        return ListExpr(())
    if "items" in loop:
        for path, text in walk_strings(loop["items"]):
            if "${" in text and len(path) == 1:
                work.report(
                    "W407",
                    "items are literal: '${' is not filled in here",
                    loop["items"],
                    path[0],
                    hint="use items_from to loop over a step's result",
                )
        return constant(loop["items"])
    pointer = loop["items_from"]
    match = _POINTER.match(pointer)
    if (
        match is None
        or match["field"] not in ("lines", "json")
        or (match["field"] == "lines" and match["path"])
    ):
        work.report(
            "E410",
            f"'{pointer}' does not point to a list of results",
            loop,
            "items_from",
            hint=_pointer_hint(pointer),
        )
        return ListExpr(())
    fields = (match["field"], *match["path"].split(".")[1:])
    place = VariablePlace(work, loop, "items_from")
    one.resolver.check_result(place, f"'{pointer}'", match["name"], fields)
    return Ref(("steps", match["name"], *fields), pointer)


def _pointer_hint(pointer: str) -> str:
    bare = pointer.removeprefix("${").removesuffix("}")
    if bare != pointer and _POINTER.match(bare):
        return f"write it without ${{}}: items_from: {bare}"
    if pointer.endswith((".output", ".lines", ".stdout")):
        return "write steps.NAME.lines, and give that step output_capture: lines"
    if bare.startswith("context."):
        return "only a step's result can be looped over; write fixed items under items:"
    return "write steps.NAME.lines or steps.NAME.json.path.to.list"


def _moves(loop: LocatedMap, inside: Resolver) -> ItemMoves | None:
    lifecycle = loop.get("on_item_complete")
    if lifecycle is None:
        return None
    targets = {
        result: lower_target(inside, lifecycle[result], "move_to")
        for result in ("success", "failure")
        if isinstance(lifecycle.get(result), LocatedMap) and "move_to" in lifecycle[result]
    }
    return ItemMoves(targets.get("success"), targets.get("failure"))
