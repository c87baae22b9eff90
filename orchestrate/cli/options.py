"""The options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from orchestrate.app.given.settings import FLAGS, Flag, Group
from orchestrate.cli.params import Duration, Number
from orchestrate.errors import UsageError
from orchestrate.show.output import ask_for_raw
from orchestrate.view.place import Place

Command = TypeVar("Command", bound=Callable[..., Any])


def working_dir_option(command: Command) -> Command:
    """`--working-dir DIR`: the workspace."""
    return click.option(
        "--working-dir", "working_dir", metavar="DIR",
        help="The workspace (default: the nearest folder upwards with .orchestrate/, else the "
        "current folder).",
    )(command)  # fmt: skip


def run_argument(command: Command) -> Command:
    """`[RUN]`: an id, the beginning of one, or `latest`, which it means when it is left out."""
    return click.argument("run", metavar="[RUN]", required=False, default="latest")(command)


def named_run_argument(command: Command) -> Command:
    """`RUN`, for what is hard to take back: the run has to be named, if only as `latest`."""
    return click.argument("run", metavar="RUN")(command)


def is_unnamed(ctx: click.Context) -> bool:
    """Was RUN left out? A written `latest` means the latest run, whatever it does."""
    source = ctx.get_parameter_source("run")
    return source is not None and source.name == "DEFAULT"


def end_within_option(command: Command) -> Command:
    """`--wait`: for the commands that end what runs."""
    return click.option(
        "--wait",
        "wait_s",
        type=Duration(may_be_zero=True, most=86400),
        default=60.0,
        metavar="DURATION",
        help="How long the run may take to end its programs (default: 60).",
    )(command)


def diff_option(command: Command) -> Command:
    return click.option(
        "--diff", "with_hunks", is_flag=True, help="Show what has changed inside the files, too."
    )(command)


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


def place_options(command: Command) -> Callable[..., Any]:
    """`--state-dir DIR` and `--working-dir DIR`, which the command gets as one `place`."""

    @wraps(command)
    def with_place(
        *given: Any, working_dir: str | None, state_dir: str | None, **named: Any
    ) -> Any:
        return command(*given, place=Place(working_dir, state_dir), **named)

    return click.option(
        "--state-dir", metavar="DIR",
        help="Where runs are kept (default: .orchestrate/runs in the workspace).",
    )(working_dir_option(with_place))  # fmt: skip


def flag_options(*groups: Group) -> Callable[[Command], Command]:
    """The flags of some groups, in the order of the table (`app/given/settings.py`)."""

    def add(command: Command) -> Command:
        for row in reversed(FLAGS.values()):
            if row.group in groups:
                command = flag_option(row)(command)
        return command

    return add


def flag_option(row: Flag) -> Callable[[Command], Command]:
    """A row of the table as an option of click."""
    words = [row.short, row.option] if row.short else [row.option]
    more: dict[str, Any] = {"help": row.help, "metavar": row.metavar or None}
    if row.variable:
        more["envvar"] = row.variable
    if row.name == "raw":
        more["callback"] = _remember_raw
    match row.kind:
        case "text":
            pass
        case "optional text":
            more |= {"is_flag": False, "flag_value": ""}
        case "texts":
            more["multiple"] = True
        case "choice":
            more["type"] = click.Choice(row.choices)
        case "whole":
            more["type"] = Number(int, row.least)
        case "amount":
            more["type"] = Number(float, row.least)
        case "duration":
            more["type"] = Duration(may_be_zero=row.may_be_zero)
        case "switch":
            more["is_flag"] = True
        case "pair":
            words = [f"{row.option}/--no-{row.option[2:]}", row.name]
            more["default"] = None
    return click.option(*words, **more)


def _remember_raw(_: click.Context, __: click.Parameter, value: bool) -> bool:
    if value:
        ask_for_raw()
    return value


raw_option = flag_option(FLAGS["raw"])


def choose_format(chosen: str | None, as_json: bool) -> str:
    """`--json` is `--format json`; the two must not disagree."""
    if as_json and chosen not in (None, "json"):
        raise UsageError(f"--json and --format {chosen} exclude each other")
    return "json" if as_json else chosen or "text"
