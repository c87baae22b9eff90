"""What `--debug` writes beside a step's logs: how it was called, and the prompt that was sent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from orchestrate.engine.step import Step, write_private
from orchestrate.engine.texts import encode


def write_call(step: Step, argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """`logs/<Step>.debug`: command, folder, limits, environment; secrets masked."""
    rt = step.rt
    record = {
        "step": step.node.name,
        "frame": step.frame.key,
        "visit": step.here.visit,
        "attempt": step.attempt,
        "attempt_id": step.attempt_id,
        "defined_at": f"{step.node.span.file}:{step.node.span.line}",
        "command": list(argv),
        "cwd": str(rt.workspace.root),
        "timeout_s": step.timeout_s,
        "depends_on": _patterns(step),
        "environment": dict(sorted(environment.items())),
    }
    text = json.dumps(rt.secrets.data(record), indent=2, ensure_ascii=False)
    write_private(step.log("debug"), encode(text + "\n"))
    rt.logbook.write("debug", f"step {step.node.name}: command {list(argv)!r}")


def write_prompt(step: Step, prompt: str) -> None:
    """`logs/<Step>.prompt.txt`: the prompt as it is sent, secrets masked (C)."""
    write_private(step.log("prompt.txt"), encode(step.rt.secrets.text(prompt)))


def _patterns(step: Step) -> dict[str, list[str]]:
    from orchestrate.plan.expr import show

    needs = step.node.needs
    if needs is None:
        return {}
    return {
        "required": [show(text) for text in needs.required],
        "optional": [show(text) for text in needs.optional],
    }
