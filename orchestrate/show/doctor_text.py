"""The findings of `doctor`, for people and programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from orchestrate.exits import DONE, ENVIRONMENT
from orchestrate.plan.visible import visible
from orchestrate.show.output import answer, answer_json
from orchestrate.view.doctor import Finding


def tell_findings(findings: Sequence[Finding], *, as_json: bool) -> int:
    """What was looked at, for people or programs; the exit code says whether all is there."""
    if as_json:
        answer_json({"findings": [_as_json(finding) for finding in findings]})
    else:
        answer("".join(f"{line}\n" for finding in findings for line in _lines(finding)))
    is_lacking = any(not finding.is_well and finding.is_needed for finding in findings)
    return ENVIRONMENT if is_lacking else DONE


def _as_json(finding: Finding) -> dict[str, Any]:
    return {
        "name": finding.name,
        "ok": finding.is_well,
        "detail": finding.detail,
        "advice": finding.advice,
    }


def _lines(finding: Finding) -> Iterator[str]:
    mark = "ok" if finding.is_well else "--"
    yield f"{mark}  {finding.name:16}  {visible(finding.detail)}"
    if finding.advice:
        yield f"    {'':16}  {visible(finding.advice)}"
