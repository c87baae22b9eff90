"""What a node asks, as digests: equal for two versions of a file where the step is the same.

Places, labels, descriptions, limits in time and retries are not part of it, nor are routes: where a
result leads is looked up anew.
"""

from __future__ import annotations

from typing import Any

from orchestrate.digest import digest_of
from orchestrate.plan.data import INHERIT
from orchestrate.plan.expr import SCALARS, references_in
from orchestrate.plan.nodes import Ask, Call, Each, Gate, Node, Op, Run, Wait
from orchestrate.record import field_names, is_record, record

# Facts of the run that hold as long as it lasts, or that only say where a step stands.
_CONSTANT = ("run", "session", "param", "prompt")


@record
class Fingerprint:
    """`op` is what is done, `text` what is said there as it was written, with what is filled in
    still to come. `refs` are the values that are looked up for it."""

    op: str
    text: str
    agent: str
    env: str
    refs: tuple[tuple[str, ...], ...]
    is_script: bool


def fingerprint(node: Node) -> Fingerprint:
    """The fingerprint of a node, made once for each: a loop asks for it at every item."""
    known = _KNOWN.get(id(node))
    if known is None or known[0] is not node:
        known = _KNOWN[id(node)] = (node, _fingerprint(node))
    return known[1]


_KNOWN: dict[int, tuple[Node, Fingerprint]] = {}


# What is said, as it was written; and what is a part by itself, or none. All other fields are `op`,
# those that a later version adds included.
_TEXT: dict[type[Op], tuple[str, ...]] = {
    Ask: ("prompt", "task"),
    Run: ("argv", "values", "stdin"),
    Wait: ("pattern",),
    Gate: ("prompt",),
    Each: ("items",),
    Call: ("plan", "arguments"),
}
_APART: dict[type[Op], tuple[str, ...]] = {
    Ask: ("agent", "model", "environment"),
    Run: ("environment",),
    Wait: ("timeout_s", "poll_ms"),
    Gate: ("timeout_s", "default"),
    Each: ("body", "stop_on_failure", "parallel", "limit", "spread", "has_resolver"),
    Call: ("max_depth", "max_steps", "spread", "has_resolver"),
}


def _fingerprint(node: Node) -> Fingerprint:
    op, kind = node.op, type(node.op)
    rules = _plain(op)
    said = {name: rules[1].pop(name, None) for name in _TEXT[kind]}
    for name in _APART[kind]:
        rules[1].pop(name, None)
    rules += [_plain(part) for part in (node.guard, node.needs, node.output, node.part_of)]
    rules += [_plain(part) for part in (node.stage_guard, node.stage_head) if part is not None]
    environment = getattr(op, "environment", INHERIT)
    agent = [_plain(op.agent), op.model] if isinstance(op, Ask) else None
    paths = (ref.path for ref in references_in((op, node.guard, node.stage_guard, node.needs)))
    refs = dict.fromkeys(path for path in paths if path[0] not in _CONSTANT)
    return Fingerprint(
        digest_of(rules),
        digest_of(said),
        "" if agent is None else digest_of(agent),
        "" if environment == INHERIT else digest_of(_plain(environment)),
        tuple(refs),
        isinstance(op, Run) and len(op.argv) > 1 and op.argv[1].parts == ("-c",),
    )


def _plain(value: Any) -> Any:
    """Records as lists of what differs from the defaults: a field that a later version adds
    changes nothing."""
    if isinstance(value, tuple):
        return [item if type(item) in SCALARS else _plain(item) for item in value]
    if not is_record(value):
        return value
    kind: Any = type(value)
    defaults = kind.__record_defaults__
    fields = {}
    for name in field_names(value):
        found = getattr(value, name)
        default = defaults[name]
        # Most have the very default.
        if found is not default and name != "span" and not _is_equal(found, default):
            fields[name] = found if type(found) in SCALARS else _plain(found)
    return [kind.__name__, fields]


def _is_equal(found: Any, default: Any) -> bool:
    return type(found) is type(default) and found == default
