"""Flags of a run that exclude each other."""

from __future__ import annotations

from orchestrate.app.given.settings import RunSettings
from orchestrate.errors import UsageError


def refuse_at_once(settings: RunSettings) -> None:
    if settings.quiet and settings.verbose:
        raise UsageError("--quiet and --verbose exclude each other")
    if settings.debug_env and not settings.debug:
        raise UsageError("--debug-env needs --debug")


def refuse_events(settings: RunSettings, as_json: bool, dry_run: bool = False) -> None:
    """`--events` is a stream of documents, `--json` is one: they cannot share stdout."""
    if not settings.events:
        return
    if as_json:
        raise UsageError(
            "--events and --json exclude each other",
            "--events gives many documents, one a line; --json gives one at the end",
        )
    if settings.detach:
        raise UsageError(
            "--events and --detach exclude each other",
            "start it, then: orchestrate logs latest -f --events",
        )
    if dry_run:
        raise UsageError("--events and --dry-run exclude each other", "a dry run has no events")
