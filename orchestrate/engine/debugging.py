"""What `--debug` writes beside a step's logs: how it was called."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from orchestrate.engine.step import Step, write_private
from orchestrate.engine.texts import encode
from orchestrate.plan.expr import show
from orchestrate.state.result import CallDebug


def write_call(
    step: Step, argv: Sequence[str], environment: Mapping[str, str], about: CallDebug
) -> None:
    """`logs/<Step>.debug`: command, folder, limits, values, files, names of the environment.

    Secrets are masked. Values of the environment are left out, but for those that carry
    values into a script, and those that were asked for by name.
    """
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
        # What those patterns have found, what a script's variables hold, what is read and written.
        "matched": about.depends_on,
        "values": about.values,
        "files": about.files,
        "environment": sorted(environment),
    }
    asked = [name for name in rt.options.debug_env if name in environment]
    if asked:
        record["environment_values"] = {name: environment[name] for name in asked}
    text = json.dumps(rt.secrets.data(record), indent=2, ensure_ascii=False)
    write_private(step.log("debug"), encode(text + "\n"))
    rt.logbook.write("debug", f"step {step.address.step.shown}: command {list(argv)!r}")
    for name, found in about.only("values", "depends_on", "files").to_json().items():
        if found:
            shown = json.dumps(found, ensure_ascii=False)
            rt.logbook.write("debug", f"step {step.address.step.shown}: {name} {shown}")


def _patterns(step: Step) -> dict[str, list[str]]:
    needs = step.node.needs
    if needs is None:
        return {}
    return {
        "required": [show(text) for text in needs.required],
        "optional": [show(text) for text in needs.optional],
    }
