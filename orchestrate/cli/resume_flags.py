"""The flags of a `resume` that is carried out on another machine."""

from __future__ import annotations

from orchestrate.app.given.settings import FLAGS, RunSettings
from orchestrate.cli.group import command_named


def flags_of_resume(words: list[str]) -> tuple[RunSettings, bool]:
    """The flags of a command line that was accepted already; is the answer to be JSON?"""
    command = command_named("resume")
    given = command.make_context("resume", list(words), resilient_parsing=True).params
    flags = {name: value for name, value in given.items() if name in FLAGS}
    return RunSettings(**flags), bool(given.get("as_json"))
