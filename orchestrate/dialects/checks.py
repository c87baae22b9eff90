"""`check` and `produces`: an agent's word is not enough; each round is a node of the plan.

After an answer that is checked, a node looks for the files and runs the command. If that fails, a
follow-up in the same session gets what was found, and is checked in turn, so often as `rounds`
says.
"""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote
from typing import Any

from orchestrate.dialects.commands import Filler, lower_command
from orchestrate.plan.data import Capture, FileNeeds
from orchestrate.plan.durations import seconds_of
from orchestrate.plan.ends import CHECK_FAILED
from orchestrate.plan.expr import CARRIER, Ref, Text
from orchestrate.plan.nodes import (
    FAILED,
    LOST,
    OK,
    SKIPPED,
    Abort,
    Ask,
    Goto,
    Label,
    Node,
    NodeId,
    OnFailure,
    Run,
    Target,
)
from orchestrate.record import record, replace
from orchestrate.regex import regex
from orchestrate.source.located import LocatedMap, PathKey, as_map
from orchestrate.workspace import path_fault

ROUNDS = 3
NOTHING = Run((Text(("true",)),))
_OF_BASH = (Text(("bash",)), Text(("-c",)))
# How a script names a value that it is given in the environment.
_CARRIED = regex(r"\$\{(" + CARRIER + r"\d+)\}")


def is_checked(step: LocatedMap) -> bool:
    return "check" in step or "produces" in step


@record
class Check:
    """What is checked after a step's answers, and where the step leads then."""

    asking: Node
    run: Run
    needs: FileNeeds | None
    rounds: int
    timeout_s: float | None
    # What stands in the command and no agent may be told.
    secrets: tuple[str, ...] = ()
    outcomes: tuple[Label, ...] = (OK,)
    given_up: Target = Abort("check-failed", CHECK_FAILED)
    on_failure: OnFailure = "handled"


def lower_check(
    filler: Filler,
    step: LocatedMap,
    asking: Node,
    file_at: Callable[[Any, PathKey], Text] | None = None,
) -> Check:
    """What `check` and `produces` say; a failure is then that of the step."""
    written, inputs = as_map(step.get("check")), as_map(filler.work.data.get("inputs"))
    produced = step.get("produces") or ()
    read = file_at or (lambda container, key: _file_at(filler, container, key))
    files = tuple(read(produced, index) for index in range(len(produced)))
    run = NOTHING
    if "command" in written:
        run = replace(lower_command(filler, written), capture=Capture(from_end=True))
    return Check(
        asking=asking,
        run=run,
        needs=FileNeeds(required=files) if files else None,
        rounds=int(written.get("rounds", ROUNDS)),
        timeout_s=seconds_of(written.get("timeout", 0)) or asking.timeout_s,
        secrets=tuple(name for name, one in inputs.items() if as_map(one).get("secret")),
        given_up=dict(asking.routes).get(FAILED, asking.follow),
        on_failure=asking.on_failure,
    )


def _file_at(filler: Filler, container: Any, key: PathKey) -> Text:
    """A file of `produces`; one that cannot be there would cost every round."""
    text = Text(filler.parts(container, key))
    # A value inside a path is checked when the step runs; here it counts as one name.
    literal = "".join("x" if isinstance(part, Ref) else part for part in text.parts)
    fault = path_fault(literal)
    if fault:
        hint = "paths are relative to the workspace and stay inside it"
        filler.work.report(
            "E406", f"the path '{container[key]}' {fault}", container, key, hint=hint
        )
    elif "**" in literal:
        hint = "name the files, or look for them in `check`"
        message = f"'**' in '{container[key]}' is not supported"
        filler.work.report("E407", message, container, key, hint=hint)
    return text


def with_rounds(check: Check) -> tuple[Node, ...]:
    """The step's node with its rounds; its routes for checked outcomes lead to the checks."""
    asking = check.asking
    op = asking.op
    assert isinstance(op, Ask)
    if op.session == "fresh" and op.session_name is None:
        asking = replace(asking, op=replace(op, session="kept"))
        check = replace(check, asking=asking)
    nodes = [_sent_to_check(check, asking, 0)]
    for turn in range(check.rounds + 1):
        for outcome in check.outcomes:
            nodes.append(_check_node(check, turn, outcome))
            if turn < check.rounds:
                nodes.append(_follow_up(check, turn, outcome))
    return tuple(nodes)


def _part(check: Check, kind: str, turn: int, outcome: Label) -> str:
    which = f":{outcome}" if len(check.outcomes) > 1 else ""
    return f":{kind}-{turn + 1}{which}"


def _id(check: Check, kind: str, turn: int, outcome: Label) -> NodeId:
    return check.asking.id + _part(check, kind, turn, outcome)


def _sent_to_check(check: Check, node: Node, turn: int) -> Node:
    """The node with the routes of checked outcomes bent to this turn's checks."""
    bent = {outcome: Goto(_id(check, "check", turn, outcome)) for outcome in check.outcomes}
    routes = tuple((label, bent.get(label, target)) for label, target in node.routes)
    return replace(node, routes=routes)


def _check_node(check: Check, turn: int, outcome: Label) -> Node:
    node_id = _id(check, "check", turn, outcome)
    is_last = turn == check.rounds
    failed = check.given_up if is_last else Goto(_id(check, "round", turn, outcome))
    return Node(
        id=node_id,
        name=check.asking.name + _part(check, "check", turn, outcome),
        op=check.run,
        routes=(
            (OK, dict(check.asking.routes)[outcome]),
            (FAILED, failed),
            (LOST, Goto(node_id)),
        ),
        follow=check.asking.follow,
        span=check.asking.span,
        needs=check.needs,
        timeout_s=check.timeout_s,
        on_failure=check.on_failure if is_last else "handled",
        stage=check.asking.stage,
        part_of=check.asking.id,
    )


def _follow_up(check: Check, turn: int, outcome: Label) -> Node:
    """The same agent in the same session, told what the check has found."""
    node_id = _id(check, "round", turn, outcome)
    found = check.asking.name + _part(check, "check", turn, outcome)
    asked = check.asking.op
    assert isinstance(asked, Ask)
    routes = tuple(
        (label, Goto(node_id) if label == LOST and isinstance(target, Goto) else target)
        for label, target in check.asking.routes
        if label != SKIPPED
    )
    node = replace(
        check.asking,
        id=node_id,
        name=check.asking.name + _part(check, "round", turn, outcome),
        op=replace(asked, prompt=_prompt(check, found), task=asked.prompt),
        routes=routes,
        guard=None,
        after=(),
        part_of=check.asking.id,
    )
    return _sent_to_check(check, node, turn + 1)


def _prompt(check: Check, found: str) -> Text:
    message = Ref(("steps", found, "error", "message"), "what failed", optional=True)
    output = Ref(("steps", found, "output"), "its output", optional=True)
    parts: tuple[str | Ref, ...] = ("Your work was checked, and the check failed: ", message)
    if check.run is not NOTHING:
        parts += ("\n\nThe command: ", *_command(check), "\n\nThe end of what it printed:\n\n")
        parts += (output,)
    return Text((*parts, "\n\nMend the cause, then answer as before."))


def _command(check: Check) -> tuple[str | Ref, ...]:
    """The command as one would type it in bash, with its values: of a script, the script alone."""
    parts: list[str | Ref] = []
    values = dict(check.run.values)
    words = check.run.argv
    is_script = len(words) == 3 and words[:2] == _OF_BASH
    for number, word in enumerate(words[2:] if is_script else words):
        parts += [" "] if number else []
        if not is_script and all(isinstance(part, str) for part in word.parts):
            parts.append(quote("".join(map(str, word.parts))))
            continue
        for part in word.parts:
            if isinstance(part, Ref):
                parts.append(_told(check, part))
                continue
            for piece in _CARRIED.split(part):
                found = values[piece].parts[0] if piece in values else piece
                parts.append(_told(check, found) if isinstance(found, Ref) else found)
    return tuple(parts)


def _told(check: Check, ref: Ref) -> str | Ref:
    return ref.text if ref.path[-1] in check.secrets else ref
