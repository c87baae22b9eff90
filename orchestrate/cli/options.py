"""The options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from orchestrate.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])


def working_dir_option(command: Command) -> Command:
    """`--working-dir DIR`: the workspace."""
    return click.option(
        "--working-dir", "working_dir", metavar="DIR",
        help="The workspace that paths in recipes refer to (default: the current folder).",
    )(command)  # fmt: skip


def json_option(command: Command) -> Command:
    """`--json`: one JSON document on stdout, also when the command fails."""

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> bool:
        if value and isinstance(ctx.obj, dict):
            ctx.obj["json"] = True
        return value

    return click.option(
        "--json", "as_json", is_flag=True, callback=remember,
        help="Answer with one JSON document.",
    )(command)  # fmt: skip


def choose_format(chosen: str | None, as_json: bool) -> str:
    """`--json` is `--format json`; the two must not disagree."""
    if as_json and chosen not in (None, "json"):
        raise UsageError(f"--json and --format {chosen} exclude each other")
    return "json" if as_json else chosen or "text"
