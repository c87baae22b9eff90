"""Which kind of step this is, and which fields have a meaning on it (C's validation notes)."""

from __future__ import annotations

from typing import Literal

from orchestrate.dialects.lowering import Lowering
from orchestrate.source.advice import meant
from orchestrate.source.located import LocatedMap, as_map

Kind = Literal["provider", "command", "wait_for", "for_each"]
KINDS: tuple[Kind, ...] = ("provider", "command", "wait_for", "for_each")

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
    )
)
_FIELDS: dict[Kind, frozenset[str]] = {
    "provider": _EVERYWHERE | _PROGRAM | {"provider", "provider_params"},
    "command": _EVERYWHERE | _PROGRAM | {"command"},
    "wait_for": _EVERYWHERE | {"wait_for"},
    "for_each": _EVERYWHERE | {"for_each"},
}
_HINTS = {
    ("timeout_sec", "wait_for"): "set timeout_sec inside wait_for",
    ("timeout_sec", "for_each"): "set timeout_sec on the steps of the loop",
    ("retries", "for_each"): "set retries on the steps of the loop",
    ("retries", "wait_for"): "a wait looks again by itself: set timeout_sec inside wait_for",
    ("output_capture", "for_each"): "set output_capture on the steps of the loop",
    ("output_file", "for_each"): "set output_file on the steps of the loop",
    ("input_file", "for_each"): "set input_file on the steps of the loop",
    ("env", "for_each"): "set env on the steps of the loop",
    ("secrets", "for_each"): "set secrets on the steps of the loop",
    ("provider_params", "command"): "a command takes its parameters as arguments",
    ("provider_params", "for_each"): "set provider_params on the steps of the loop",
}


def _may_be_kind(lost: str, step: LocatedMap) -> bool:
    """Was a field that the schema refused, perhaps for its spelling, what the step does?"""
    return lost in KINDS or lost == "command_override" or bool(meant(lost, KINDS, step))


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
    if "input_file" in step or "provider_params" in step:
        return "say who reads the prompt, for example provider: claude"
    return "give it one of: provider, command, wait_for, for_each"


def check_step_form(work: Lowering, step: LocatedMap, kind: Kind | None) -> None:
    """Fields that fit the kind of step and each other."""
    if kind is not None:
        for key in step:
            if key not in _FIELDS[kind] and key not in KINDS:
                work.report(
                    "E408",
                    f"'{key}' has no meaning on a {kind} step",
                    step,
                    key,
                    on_key=True,
                    hint=_HINTS.get((key, kind), "remove it"),
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
