"""The prompt of an `Ask` step: composed, with its outcome block, or as a reminder; made again."""

from __future__ import annotations

from hashlib import sha256

from orchestrate.engine.confine import open_regular
from orchestrate.engine.evaluate import render
from orchestrate.engine.faults import StepFault
from orchestrate.engine.inject import Composed, compose_prompt
from orchestrate.engine.ops.command import needs
from orchestrate.engine.outcome import reminder, with_outcome_block
from orchestrate.engine.step import Step
from orchestrate.engine.texts import encode
from orchestrate.plan.nodes import Ask, FileText

# Stands before the prompt in a session whose last turn has no end (rulings §7).
CUT_OFF = (
    "Note: your last turn in this session was cut off before it was finished. Check what it has "
    "already done, and do not do that twice. This is the task again:\n\n"
)


def compose(step: Step, op: Ask) -> Composed:
    """The prompt as it is sent: literal file contents or text, with the files it depends on."""
    needed = needs(step)
    if isinstance(op.prompt, FileText):
        path = render(op.prompt.path, step.scope)
        with open_regular(step.rt.workspace, path) as opened:
            prompt = _read_prompt(opened.read(), path)
    else:
        prompt = render(op.prompt, step.scope)
    inject = step.node.needs.inject if step.node.needs is not None else None
    return compose_prompt(prompt, needed, inject, step.rt.workspace)


def _read_prompt(data: bytes, path: str) -> str:
    """The file's text. What is no UTF-8 is refused: an agent must get what the author wrote."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"0x{data[error.start]:02x}"
        raise StepFault(
            f"the prompt in '{path}' is not UTF-8: line {line} has the byte {byte}; "
            "save the file as UTF-8 (it may be Latin-1, Windows-1252 or UTF-16)",
            {"input_file": path, "line": line, "byte": byte, "offset": error.start},
        ) from None


def prompt_for(step: Step, op: Ask) -> str:
    """What the turn is about: the step's prompt, or the reminder that its last answer needs."""
    if step.here.turn.get("error"):
        return reminder(str(step.here.turn["error"]), op.outcomes)
    prompt = compose(step, op).prompt
    return with_outcome_block(prompt, op.outcomes) if op.outcomes else prompt


def prompt_again(step: Step, op: Ask, note: str) -> str:
    """The prompt of a turn that was asked before we came; '' if it cannot be made again."""
    asked = step.about.prompt_sha256 if step.is_announced else None
    try:
        prompt = prompt_for(step, op)
    except StepFault:
        return ""
    return prompt if asked in (None, digest_of(note + prompt)) else ""


def digest_of(prompt: str) -> str:
    return sha256(encode(prompt)).hexdigest()
