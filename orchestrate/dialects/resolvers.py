"""`spread`: the pool that takes items, and the agent that is asked where their changes conflict.

The agent is a step of its own behind the loop or the call, with a name of its own. It begins only
where changes are in conflict, in files that have markers, and goes on where the loop, or the call,
would have gone on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrate.plan.expr import Ref, Text
from orchestrate.plan.nodes import (
    FAILED,
    LOST,
    OK,
    Ask,
    Call,
    Each,
    Goto,
    Label,
    Node,
    Target,
    conflict_of,
)
from orchestrate.record import replace
from orchestrate.regex import regex
from orchestrate.source.located import LocatedMap, as_map

# The variable that has the names of the files, each on a line of its own.
CONFLICTS = "conflicts"
_PLACE = Ref(("@conflicts",), "{{conflicts}}")
_WRITTEN = regex(r"\{\{\s*conflicts\s*\}\}")

# Makes an agent and a prompt of `{agent: NAME, prompt: TEXT}`.
LowerResolver = Callable[[LocatedMap], Ask]


def pool_of(holder: LocatedMap) -> str:
    """The pool of `spread`, as a name or in a mapping."""
    written: Any = holder.get("spread", "")
    return str(written.get("pool", "") if isinstance(written, dict) else written)


def with_resolver(node: Node, holder: LocatedMap, lower: LowerResolver) -> tuple[Node, ...]:
    """The node that gives its items away, with the agents that `spread` names for conflicts."""
    op, written = node.op, as_map(as_map(holder.get("spread")).get("resolve"))
    if not isinstance(op, Each | Call) or not op.spread or not {"agent", "prompt"} <= set(written):
        return (node,)
    ask = lower(written)
    assert isinstance(ask.prompt, Text)
    ask = replace(ask, prompt=_filled(ask.prompt), resolves=True)
    outcomes = op.outcomes if isinstance(op, Call) else ()
    routes = dict(node.routes)
    found = [
        _resolver(node, ask, label, routes[label], is_one=not outcomes)
        for label in outcomes or (OK,)
    ]
    bent: list[tuple[Label, Target]] = [
        (conflict_of(op, label), Goto(one.id))
        for label, one in zip(outcomes or (OK,), found, strict=True)
    ]
    op = replace(op, has_resolver=True)
    return (replace(node, op=op, routes=(*node.routes, *bent)), *found)


def _resolver(node: Node, ask: Ask, label: Label, target: Target, *, is_one: bool) -> Node:
    part = ":resolve" if is_one else f":resolve:{label}"
    again = Goto(node.id + part)
    return Node(
        id=node.id + part,
        name=node.name + part,
        op=ask,
        routes=((OK, target), (FAILED, dict(node.routes)[FAILED]), (LOST, again)),
        follow=node.follow,
        span=node.span,
        on_failure=node.on_failure,
        stage=node.stage,
    )


def _filled(prompt: Text) -> Text:
    """`{{conflicts}}` means the same in every dialect, however else it writes variables."""
    parts: list[str | Ref] = []
    for part in prompt.parts:
        if isinstance(part, Ref):
            parts.append(_PLACE if part.path == ("var", CONFLICTS) else part)
            continue
        for number, piece in enumerate(_WRITTEN.split(part)):
            parts += [_PLACE] if number else []
            parts += [piece] if piece else []
    return Text(tuple(parts))
