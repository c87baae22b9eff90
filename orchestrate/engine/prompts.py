"""The prompt of an `Ask` step: composed, with its outcome block, or as a reminder; made again."""

from __future__ import annotations

from orchestrate.digest import sha256_of
from orchestrate.engine.confine import open_regular
from orchestrate.engine.evaluate import render
from orchestrate.engine.faults import StepFault
from orchestrate.engine.inject import Composed, compose_prompt
from orchestrate.engine.ops.command import needs
from orchestrate.engine.outcome import reminder, with_outcome_block
from orchestrate.engine.step import Step
from orchestrate.engine.texts import encode
from orchestrate.plan.data import FileText
from orchestrate.plan.expr import Text
from orchestrate.plan.nodes import Ask
from orchestrate.record import replace

# Stands before the prompt in a session whose last turn has no end (rulings §7).
CUT_OFF = (
    "Note: your last turn in this session was cut off before it was finished. Check what it has "
    "already done, and do not do that twice. This is the task again:\n\n"
)


def compose(step: Step, op: Ask, *, is_new: bool = True) -> Composed:
    """The prompt as it is sent: literal file contents or text, with the files it depends on.

    A round that no session remembers (`is_new`) is told the step's task first.
    """
    if op.task is not None and not is_new:
        return Composed(_text_of(step, op.prompt))
    needed = needs(step)
    prompt = _text_of(step, op.prompt if op.task is None else op.task)
    inject = step.node.needs.inject if step.node.needs is not None else None
    composed = compose_prompt(prompt, needed, inject, step.rt.workspace)
    if op.task is None:
        return composed
    return replace(composed, prompt=f"{composed.prompt}\n\n{_text_of(step, op.prompt)}")


def _text_of(step: Step, prompt: Text | FileText) -> str:
    if isinstance(prompt, Text):
        return render(prompt, step.scope)
    return _file_prompt(step, render(prompt.path, step.scope))


def _file_prompt(step: Step, path: str) -> str:
    try:
        with open_regular(step.rt.workspace, path) as opened:
            return _read_prompt(opened.read(), path)
    except StepFault as fault:
        # An earlier step would have written it.
        if not step.is_rehearsed or not isinstance(fault.__cause__, FileNotFoundError):
            raise
        return f"(the content of {path})"


def _read_prompt(data: bytes, path: str) -> str:
    """The file's text. Invalid UTF-8 is refused: an agent must get what the author wrote."""
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


def prompt_of(step: Step, op: Ask, note: str, *, is_new: bool, is_again: bool) -> str:
    """What the turn is about. Of one that was asked before we came (`is_again`) the same, made
    again; '' if that cannot be."""
    if not is_again:
        return _prompt_for(step, op, is_new)
    asked = step.about.prompt_sha256 if step.is_announced else None
    try:
        prompt = _prompt_for(step, op, is_new)
    except StepFault:
        return ""
    return prompt if asked in (None, digest_of(note + prompt)) else ""


def _prompt_for(step: Step, op: Ask, is_new: bool) -> str:
    """The step's prompt, or the reminder that its last answer needs."""
    if step.here.turn.get("error"):
        return reminder(str(step.here.turn["error"]), op.outcomes)
    prompt = compose(step, op, is_new=is_new).prompt
    return with_outcome_block(prompt, op.outcomes) if op.outcomes else prompt


def digest_of(prompt: str) -> str:
    return sha256_of(encode(prompt))
