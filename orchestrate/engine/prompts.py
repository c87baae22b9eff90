"""The prompt of an `Ask` step: composed, with its outcome block, or as a reminder; made again."""

from __future__ import annotations

from hashlib import sha256

from orchestrate.engine.command import needs
from orchestrate.engine.confine import open_regular
from orchestrate.engine.evaluate import render
from orchestrate.engine.faults import StepFault
from orchestrate.engine.inject import Composed, compose_prompt
from orchestrate.engine.outcome import reminder, with_outcome_block
from orchestrate.engine.step import Step
from orchestrate.engine.texts import decode, encode
from orchestrate.plan.nodes import Ask, FileText


def compose(step: Step, op: Ask) -> Composed:
    """The prompt as it is sent: literal file contents or text, with the files it depends on."""
    needed = needs(step)
    if isinstance(op.prompt, FileText):
        path = render(op.prompt.path, step.scope)
        with open_regular(step.rt.workspace, path) as opened:
            prompt = decode(opened.read())[0]
    else:
        prompt = render(op.prompt, step.scope)
    inject = step.node.needs.inject if step.node.needs is not None else None
    composed = compose_prompt(prompt, needed, inject, step.rt.workspace)
    if step.rt.options.debug:
        from orchestrate.engine.debugging import write_prompt

        write_prompt(step, composed.prompt)
    return composed


def prompt_for(step: Step, op: Ask) -> str:
    if step.here.turn:
        return reminder(str(step.here.turn["error"]), op.outcomes)
    prompt = compose(step, op).prompt
    return with_outcome_block(prompt, op.outcomes) if op.outcomes else prompt


def prompt_again(step: Step, op: Ask) -> str:
    """The prompt of a turn that was asked before we came; '' if it cannot be made again."""
    asked = step.about.get("prompt_sha256") if step.is_announced else None
    try:
        prompt = prompt_for(step, op)
    except StepFault:
        return ""
    return prompt if asked in (None, digest_of(prompt)) else ""


def digest_of(prompt: str) -> str:
    return sha256(encode(prompt)).hexdigest()
