"""Which results a step of a workflow has, by what was written of it."""

from __future__ import annotations

from typing import NamedTuple

from orchestrate.diagnostics import closest
from orchestrate.dialects.calls import RESULT, named_plan, outputs_of
from orchestrate.dialects.lowering import Lowering
from orchestrate.dialects.workflow.nesting import loop_of
from orchestrate.source.located import LocatedMap

_ALWAYS = ("exit_code", "status", "duration_ms", "duration", "started_at", "completed_at")
_WAIT_FIELDS = ("files", "wait_duration_ms", "poll_count", "timed_out")
_GATE_FIELDS = ("message", "outcome", "status", "exit_code", "completed_at")


class ResultProblem(NamedTuple):
    """Why a step cannot have a result, and the way out."""

    message: str
    hint: str = ""
    suggestion: str = ""


def main_result(work: Lowering, step: LocatedMap) -> str:
    """What is mostly read of a step; '' for a loop, which has nothing to read outside of it."""
    if "call" in step:
        known = outputs_of(work, named_plan(work, step))
        return f"outputs.{next(iter(known))}" if known else "status"
    if loop_of(step) is not None:
        return ""
    for key, result in (("approval", "message"), ("wait_for", "files")):
        if key in step:
            return result
    capture = step.get("output_capture", "text")
    return capture if capture in ("lines", "json") else "output"


def result_problem(
    work: Lowering, step: LocatedMap, fields: tuple[str, ...]
) -> ResultProblem | None:
    if "call" in step:
        return _call_problem(work, step, fields)
    if loop_of(step) is not None:
        return ResultProblem(
            "is a loop, whose results belong to its items", "use them inside the loop"
        )
    capture = step.get("output_capture", "text")
    allowed: tuple[str, ...] = _ALWAYS
    if "approval" in step:
        allowed = _GATE_FIELDS
    elif "wait_for" in step:
        allowed = _WAIT_FIELDS + allowed
    else:
        allowed = ((capture,) if capture in ("lines", "json") else ()) + allowed
        allowed = (("output",) if capture == "text" or _may_be_text(step) else ()) + allowed
    first = fields[0]
    if first in allowed:
        if len(fields) > 1 and first != "json":
            hint = "loop over it with items_from" if first in ("lines", "files") else ""
            return ResultProblem(f"has no parts below '{first}'", hint or "only json has parts")
        return None
    if "output_capture" in step.lost:
        return None
    if first in ("lines", "json") and not {"wait_for", "approval"} & set(step):
        return ResultProblem(f"does not capture {first}", f"add output_capture: {first} to it")
    if first == "output" and capture in ("lines", "json"):
        return ResultProblem(f"captures {capture}, so it has no output", f"use .{capture}")
    near = "output" if first in ("stdout", "result", "text") else closest(first, allowed)
    hint = "" if near in allowed else f"its results: {', '.join(allowed)}"
    return ResultProblem(f"has no result '{first}'", hint, near if near in allowed else "")


def _may_be_text(step: LocatedMap) -> bool:
    """Output that was no JSON is kept as text."""
    return bool(step.get("allow_parse_error"))


def _call_problem(
    work: Lowering, step: LocatedMap, fields: tuple[str, ...]
) -> ResultProblem | None:
    allowed = (*RESULT, *_ALWAYS)
    if fields[0] not in allowed:
        near = closest(fields[0], allowed)
        hint = "" if near else "its results: outputs.NAME, status, reason"
        return ResultProblem(f"has no result '{fields[0]}'", hint, near)
    known = outputs_of(work, named_plan(work, step)) if fields[0] == "outputs" else None
    if known is None or (len(fields) > 1 and fields[1] in known):
        return None
    if not known:
        return ResultProblem(
            "calls a file that declares no outputs", "declare them there: outputs:"
        )
    if len(fields) == 1:
        return ResultProblem("has outputs by name", f"name one of: {', '.join(known)}")
    near = closest(fields[1], known)
    hint = "" if near else f"outputs: {', '.join(known)}"
    return ResultProblem(f"calls a file that has no output '{fields[1]}'", hint, near)
