"""The key of a step: what it was asked, as digests of named parts (ADR 0020).

A result is good as long as its key is the same. Parts have names so that *why* a step runs again is
a difference of fields; only digests are kept, secrets masked before.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from orchestrate.agents.settings import step_config
from orchestrate.digest import digest_of, digest_of_file
from orchestrate.engine.confine import open_regular
from orchestrate.engine.evaluate import Undefined, evaluate, render, render_all, render_pattern
from orchestrate.engine.faults import StepFault
from orchestrate.engine.ops.command import needs
from orchestrate.engine.prompts import compose
from orchestrate.engine.sessions import last_turn
from orchestrate.engine.step import Step
from orchestrate.errors import ConfigError
from orchestrate.plan.data import FileText
from orchestrate.plan.expr import literal, references_in
from orchestrate.plan.fingerprint import Fingerprint, fingerprint
from orchestrate.plan.nodes import (
    Ask,
    BuiltinProvider,
    Call,
    CommandTemplate,
    Each,
    Gate,
    NamedAgent,
    Node,
    Run,
    RunAgent,
    Wait,
)
from orchestrate.state.earlier import ACCEPTED, turn_of
from orchestrate.workspace import Workspace

VERSION = 1
# The parts that are made of a text with values filled in.
FILLED_IN = ("prompt", "argv", "script", "stdin", "agent")


def key_of(step: Step) -> dict[str, Any]:
    """The parts that the step has; what cannot be worked out fails the step a moment later."""
    known = step.rt.constant_keys.get(id(step.node))
    if known is not None and known[0] is step.node:
        return known[1]
    key = _key_of(step)
    if step.frame.is_iteration and _is_constant(step.node):
        step.rt.constant_keys[id(step.node)] = (step.node, key)
    return key


def _is_constant(node: Node) -> bool:
    """Is it asked the same at every item of a loop, whatever the run has come to?"""
    op = node.op
    return (
        isinstance(op, Run)
        and op.stdin is None
        and op.capture.schema is None
        and node.needs is None
        and not references_in((op, node.guard, node.stage_guard))
    )


def _key_of(step: Step) -> dict[str, Any]:
    print_ = fingerprint(step.node)
    key: dict[str, Any] = {"v": VERSION, "op": print_.op, "text": print_.text}
    if print_.env:
        key["env"] = print_.env
    with suppress(StepFault, ConfigError):
        match step.node.op:
            case Run() as op:
                key["script" if print_.is_script else "argv"] = _argv(step, op)
                if op.stdin is not None:
                    key["stdin"] = _file(step, render(op.stdin.path, step.scope))
            case Ask() as op:
                key["agent"] = _agent(step, op, print_)
                key["prompt"] = digest_of(step.rt.secrets.text(compose(step, op).prompt))
                turn = last_turn(step, op)
                if turn:
                    key["session"] = turn
            case Wait(pattern=pattern):
                key["argv"] = digest_of(render_pattern(pattern, step.scope))
            case Gate() | Each() | Call():
                pass
    if print_.refs:
        key["inputs"] = _inputs(step, print_)
    files = _files(step)
    if files:
        key["files"] = files
    return key


def accepted_key(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Of a result that a person takes for the step as it is now: good until that changes again.

    What was really asked stays known by its digest: the turns behind it go on from there.
    """
    return now | {ACCEPTED: turn_of(before)}


def _argv(step: Step, op: Run) -> str:
    words = render_all((*op.argv, *(text for _, text in op.values)), step.scope)
    return digest_of(step.rt.secrets.data(words))


def _agent(step: Step, op: Ask, print_: Fingerprint) -> str:
    """Who is asked as the definition has it: flags reach only what has not finished."""
    config: Any
    match op.agent:
        case RunAgent(settings):
            config = step_config(evaluate(settings, step.scope))
        case BuiltinProvider(_, params) | CommandTemplate(params=params):
            config = evaluate(params, step.scope)
        case NamedAgent(name, settings):
            config = [evaluate(settings, step.scope), step.rt.library.agent_file(name)]
    model = step.rt.library.model_of(step.frame.plan)
    return digest_of([print_.agent, step.rt.secrets.data(config), model])


def _inputs(step: Step, print_: Fingerprint) -> dict[str, str]:
    """The values that it uses, by name."""
    found = {}
    mask = step.rt.secrets.data
    for path in print_.refs:
        try:
            found[".".join(path)] = digest_of(mask(step.scope.look_up(path)))
        except (Undefined, StepFault):
            found[".".join(path)] = ""
    return found


def _files(step: Step) -> dict[str, str]:
    """The files that it declares to read, and the schema of its output."""
    op = step.node.op
    paths: tuple[str, ...] = ()
    with suppress(StepFault):
        source = getattr(op, "stdin", None) or getattr(op, "prompt", None)
        if isinstance(source, FileText):
            paths = (render(source.path, step.scope),)
        if step.node.needs is not None:
            paths += (step.needed or needs(step)).all
    found = {path: _file(step, path) for path in paths}
    if isinstance(op, Run | Ask) and op.capture.schema is not None:
        path = literal(op.capture.schema)
        schema = step.rt.library.kept_schemas().get(path)
        if schema is not None:
            found[path] = digest_of(schema)
    return found


def files_made(step: Step) -> dict[str, str]:
    """What the step has written to its `output_file`."""
    op = step.node.op
    if not isinstance(op, Run | Ask) or op.capture.output_file is None:
        return {}
    with suppress(StepFault):
        path = render(op.capture.output_file, step.scope)
        return {path: _file(step, path)}
    return {}


def _file(step: Step, path: str) -> str:
    return FILES.digest(step.rt.workspace, path)


class _Files:
    """Digests of files, remembered as long as nothing about them has changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], str] = {}

    def digest(self, workspace: Workspace, path: str) -> str:
        """Of the file's content; '' if there is none that can be read."""
        try:
            with open_regular(workspace, path) as opened:
                about = os.fstat(opened.fileno())
                stat = (
                    about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns
                )  # fmt: skip
                if stat not in self._known:
                    self._known[stat] = digest_of_file(opened)
                return self._known[stat]
        except (StepFault, OSError):
            return ""


FILES = _Files()
