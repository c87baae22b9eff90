"""`orchestrate doctor`: what this computer has of what runs need, and what to do about the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from orchestrate.app.doctor import Finding, examine
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.options import json_option, state_dir_option, working_dir_option
from orchestrate.exits import DONE, ENVIRONMENT
from orchestrate.plan.visible import visible
from orchestrate.show.output import answer, answer_json


@click.command(short_help="Check whether this computer has what runs need.")
@state_dir_option
@working_dir_option
@json_option
def doctor(state_dir: str | None, working_dir: str | None, as_json: bool) -> int:
    """Check the agent programs, locks, git and the configuration.

    Works offline: it only calls the agents with --version, and looks whether a key or login is
    present, not whether the service accepts it. Exit code 5 if something that every run needs is
    missing, else 0. An agent that is not installed is no fault: you need those that your recipes
    name.
    """
    return tell_findings(examine(workspace_of(working_dir), state_dir), as_json=as_json)


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
