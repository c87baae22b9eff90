"""Prompts that are valid YAML but hardly what their author meant."""

from __future__ import annotations

from orchestrate.dialects.lowering import Lowering
from orchestrate.regex import regex
from orchestrate.source.located import LocatedMap

_FILE = regex(r"(?:\$include:? *)?(?P<path>[\w./-]+\.(?:md|txt))\Z")


def check_prompt_text(work: Lowering, step: LocatedMap) -> None:
    """A prompt that names a file instead of including it, or that a comment cuts short."""
    prompt = step.get("prompt")
    if not isinstance(prompt, str) or "\n" in prompt:
        return
    named = _FILE.match(prompt.strip())
    if named:
        work.report(
            "W407",
            f"the prompt is just the text '{prompt.strip()}': no file is read",
            step,
            "prompt",
            hint=f"write prompt: {{$include: {named['path']}}}",
        )
    comment = work.document.sources.comment_after(step.value_mark("prompt"))
    if comment and len(comment) > 1 and not comment[1].isspace():
        work.report(
            "W106",
            f"the prompt ends before '{comment[:30]}', which YAML reads as a comment",
            step,
            "prompt",
            hint="put the prompt in quotes, or write it below `prompt: |`",
        )
