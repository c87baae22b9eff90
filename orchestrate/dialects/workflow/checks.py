"""Which kind of step this is, and which fields have a meaning on it (C's validation notes)."""

from __future__ import annotations

from typing import Literal

from orchestrate.dialects.lowering import Lowering
from orchestrate.source.advice import intended_field
from orchestrate.source.located import LocatedMap, as_map

Kind = Literal["provider", "command", "wait_for", "for_each", "repeat", "approval", "call"]
KINDS: tuple[Kind, ...] = (
    "provider", "command", "wait_for", "for_each", "repeat", "approval", "call",
)  # fmt: skip

_EVERYWHERE = frozenset(("name", "agent", "when", "on", "depends_on"))
_PROGRAM = frozenset(
    (
        "input_file",
        "output_file",
        "output_capture",
        "allow_parse_error",
        "output_schema",
        "output_require",
        "env",
        "secrets",
        "timeout_sec",
        "retries",
        "on_lost",
        "effect",
    )
)
_FIELDS: dict[Kind, frozenset[str]] = {
    "provider": _EVERYWHERE
    | _PROGRAM
    | {"provider", "provider_params", "prompt", "session", "check", "produces", "limits"},
    "command": _EVERYWHERE | _PROGRAM | {"command"},
    "wait_for": _EVERYWHERE | {"wait_for"},
    "for_each": _EVERYWHERE | {"for_each"},
    "repeat": _EVERYWHERE | {"repeat"},
    "approval": _EVERYWHERE - {"depends_on"} | {"approval"},
    "call": _EVERYWHERE | {"call", "with", "timeout_sec", "retries"},
}
_HINTS = {
    ("timeout_sec", "wait_for"): "set timeout_sec inside wait_for",
    ("retries", "wait_for"): "a wait looks again by itself: set timeout_sec inside wait_for",
    ("timeout_sec", "approval"): "write timeout inside approval:",
    ("depends_on", "approval"): "write when: { exists: PATH } to ask only where the file is",
    ("prompt", "approval"): "write it inside approval:",
    ("prompt", "command"): "use provider: to ask an agent; a command reads input_file",
    ("provider_params", "command"): "a command takes its parameters as arguments",
}


def _hint(key: str, kind: Kind) -> str:
    of_steps = _FIELDS["provider"] - _EVERYWHERE - {"provider"}
    if kind in ("for_each", "repeat") and key in of_steps:
        return f"set {key} on the steps of the loop"
    return _HINTS.get((key, kind), "remove it")


def _may_be_kind(lost: str, step: LocatedMap) -> bool:
    """Was a field that the schema refused, perhaps for its spelling, what the step does?"""
    return lost in KINDS or lost == "command_override" or bool(intended_field(lost, KINDS, step))


def step_kinds(work: Lowering, step: LocatedMap) -> tuple[Kind, ...]:
    """The kinds a step has, in the order they were written; more than one, or none, is an error."""
    kinds = tuple(key for key in step if key in KINDS)
    name = step.get("name", "?")
    if not kinds and not any(_may_be_kind(key, step) for key in step.lost):
        work.report(
            "E401",
            f"step '{name}' does nothing",
            step,
            "name",
            hint=_first_hint(step),
        )
    elif len(kinds) > 1:
        counted = f"{', '.join(kinds[:-1])} and {kinds[-1]}"
        work.report(
            "E401",
            f"step '{name}' has {counted}, but a step is only one of them",
            step,
            kinds[1],
            on_key=True,
            hint=f"keep one of them, or make {len(kinds)} steps of it",
        )
    return kinds


def _first_hint(step: LocatedMap) -> str:
    """What the step lacks, going by the fields it has."""
    if {"prompt", "input_file", "provider_params"} & set(step):
        return "say who reads the prompt, for example provider: claude"
    return f"give it one of: {', '.join(KINDS)}"


def check_step_form(work: Lowering, step: LocatedMap, kind: Kind | None) -> None:
    """Fields that fit the kind of step and each other."""
    if kind is not None:
        for key in step:
            if key not in _FIELDS[kind] and key not in KINDS:
                work.report(
                    "E408",
                    f"'{key}' has no meaning on {'an' if kind == 'approval' else 'a'} {kind} step",
                    step,
                    key,
                    on_key=True,
                    hint=_hint(key, kind),
                )
    if "prompt" in step and "input_file" in step:
        work.report(
            "E408",
            "a step has either 'prompt' or 'input_file', not both",
            step,
            "input_file",
            on_key=True,
            hint="keep one; a file becomes part of a prompt by depends_on.inject",
        )
    _check_capture(work, step)
    _check_inject(work, as_map(step.get("depends_on")), kind)


def _check_inject(work: Lowering, needs: LocatedMap, kind: Kind | None) -> None:
    injects = needs.get("inject")
    asked = injects is True
    if isinstance(injects, LocatedMap):
        asked = injects.get("mode", "none") != "none"
        if injects and "mode" not in injects and "mode" not in injects.lost:
            work.report(
                "W407",
                "'inject' without a mode injects nothing",
                needs,
                "inject",
                on_key=True,
                hint="add mode: list or mode: content",
            )
    if asked and kind not in (None, "provider"):
        work.report(
            "E408",
            f"'inject' has no meaning on a {kind} step: it has no prompt",
            needs,
            "inject",
            on_key=True,
            hint="use it on a provider step",
        )


def _check_capture(work: Lowering, step: LocatedMap) -> None:
    is_json = step.get("output_capture", "text") == "json"
    for key in ("allow_parse_error", "output_schema", "output_require"):
        if key in step and not is_json:
            work.report(
                "E412",
                f"'{key}' needs output_capture: json",
                step,
                key,
                on_key=True,
                hint="add output_capture: json to the step",
            )
    if step.get("allow_parse_error"):
        for key in ("output_schema", "output_require"):
            if key in step:
                work.report(
                    "E413",
                    f"'{key}' and allow_parse_error: true exclude each other",
                    step,
                    key,
                    on_key=True,
                    hint="remove allow_parse_error",
                )
    for requirement in step.get("output_require") or ():
        for key in ("equals", "type"):
            if key in requirement and requirement.get("exists") is False:
                work.report(
                    "W407",
                    f"'{key}' says nothing about a value that must not exist",
                    requirement,
                    key,
                    on_key=True,
                    hint="remove it, or exists: false",
                )
