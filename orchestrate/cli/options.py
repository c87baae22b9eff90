"""The options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orchestrate.cli.params import SECONDS
from orchestrate.errors import UsageError
from orchestrate.record import replace
from orchestrate.show.output import ask_for_raw

if TYPE_CHECKING:
    from orchestrate.app.carry_out import Watching
    from orchestrate.app.config import Config

Command = TypeVar("Command", bound=Callable[..., Any])


def is_given(value: object) -> bool:
    """Was a flag written? 0 was; it must not pass for False."""
    return value is not None and value is not False and value != ()


def working_dir_option(command: Command) -> Command:
    """`--working-dir DIR`: the workspace."""
    return click.option(
        "--working-dir", "working_dir", metavar="DIR",
        help="The workspace that paths in recipes refer to (default: the nearest folder upwards "
        "with .orchestrate/, else the current folder).",
    )(command)  # fmt: skip


def run_argument(command: Command) -> Command:
    """`[RUN]`: an id, the beginning of one, or `latest`, which it means when it is left out.

    Not for what cannot be taken back: there, the run has to be named.
    """
    return click.argument("run", metavar="[RUN]", required=False, default="latest")(command)


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


def state_dir_option(command: Command) -> Command:
    """`--state-dir DIR`: where runs are kept."""
    return click.option(
        "--state-dir", metavar="DIR",
        help="Where runs are kept (default: .orchestrate/runs in the workspace).",
    )(command)  # fmt: skip


def queue_options(command: Command) -> Command:
    """What becomes of a workflow's folder of processed tasks (C)."""
    for option in (
        click.option("--archive-processed", metavar="ZIP", is_flag=False, flag_value="",
                     help="Zip processed_dir when the run succeeds; without a name: into the "
                     "run's folder (workflow)."),
        click.option("--clean-processed", is_flag=True,
                     help="Empty processed_dir before the run (workflow)."),
    ):  # fmt: skip
        command = option(command)
    return command


def agent_options(command: Command) -> Command:
    """How agents are asked."""
    for option in (
        click.option("--recording", metavar="RUN",
                     help="The earlier run that --backend replay answers from."),
        click.option("--script", metavar="FILE",
                     help="Outcomes for --backend rehearsal: step to list of outcomes."),
        click.option("--session", metavar="ID",
                     help="Go on in an existing session of the agent (machine)."),
        click.option("--permissions", type=click.Choice(["bypass", "edit", "default", "read-only"]),
                     help="What agents may do without asking (default: bypass)."),
        click.option("--silence-timeout", type=SECONDS, metavar="SECONDS",
                     help="End an agent that says nothing for so long; 0 never (default: 3600)."),
        click.option("--system-prompt", metavar="TEXT",
                     help="Appended to the agent's own system prompt (machine)."),
    ):  # fmt: skip
        command = option(command)
    return command


def raw_option(command: Command) -> Command:
    """`--raw`: what programs printed, as it is."""

    def remember(_: click.Context, __: click.Parameter, value: bool) -> bool:
        if value:
            ask_for_raw()
        return value

    return click.option(
        "--raw", is_flag=True, callback=remember,
        help="Do not escape control characters and commands of CI logs, except on a terminal.",
    )(command)  # fmt: skip


def watching_options(command: Command) -> Command:
    """How a run is shown and logged."""
    for option in (
        click.option("--log-level", type=click.Choice(["debug", "info", "warn", "error"]),
                     help="What logs/orchestrator.log has (default: info)."),
        click.option("--backup-state", is_flag=True,
                     help="Copy state.json before each step; the last three are kept."),
        click.option("--trace", is_flag=True, help="Put the run id on every line of the log."),
        click.option("--progress", is_flag=True, help="Show how long running steps take."),
        click.option("--live/--no-live", "live", default=None,
                     help="Show the run as a moving picture, or as lines (default: on a "
                     "terminal, unless in CI)."),
        click.option("-v", "--verbose", is_flag=True, help="Tell more."),
        click.option("--quiet", is_flag=True, help="Tell only the run id and errors."),
        click.option("--events", is_flag=True,
                     help="Print the run's events to stdout as they happen, one JSON object a "
                     "line, instead of answers."),
        click.option("--debug-env", metavar="NAME", multiple=True,
                     help="With --debug, show this variable's value, too; repeatable. A secret "
                     "stays masked."),
        click.option("--debug", is_flag=True, envvar="ORCHESTRATE_DEBUG",
                     help="Write commands, prompts and the names of the environment into logs/, "
                     "secrets masked."),
    ):  # fmt: skip
        command = option(command)
    return raw_option(command)


def watching_of(flags: dict[str, Any], as_json: bool, config: Config) -> Watching:
    """The flags of `watching_options` as one value."""
    from orchestrate.app.carry_out import Watching
    from orchestrate.show.live.wanted import is_live
    from orchestrate.view.place import Place

    refuse_events(flags, as_json)
    names = ("raw", "debug", "trace", "backup_state", "quiet", "verbose", "progress", "events")
    level = config.get("log_level", flags["log_level"]) or "info"
    departure = flags.get("departure")
    chosen = {name: flags[name] for name in names}
    if chosen["quiet"] and chosen["verbose"]:
        raise UsageError("--quiet and --verbose exclude each other")
    chosen["place"] = Place(flags["working_dir"], flags["state_dir"])
    chosen["debug_env"] = tuple(flags["debug_env"])
    if chosen["debug_env"] and not chosen["debug"]:
        raise UsageError("--debug-env needs --debug")
    if departure is not None:
        # Nobody looks on: what is said goes to a log, as lines.
        return Watching(log_level=level, departure=departure, **chosen)
    watching = Watching(as_json=as_json, log_level=level, **chosen)
    return replace(watching, live=is_live(watching, flags["live"], config.get("live")))


def concurrent_option(command: Command) -> Command:
    """`--allow-concurrent`: beside another live run of the workspace."""
    return click.option(
        "--allow-concurrent", is_flag=True,
        help="Allow a second live run in this workspace (machine, recipe).",
    )(command)  # fmt: skip


def let_finish_option(command: Command) -> Command:
    """`--let-finish`: a failed item does not cut short what its siblings have begun."""
    return click.option(
        "--let-finish", is_flag=True,
        help="When an item of a parallel loop fails, let the agents of the others finish their "
        "turn; nothing new starts (recipe).",
    )(command)  # fmt: skip


def refuse_events(flags: dict[str, Any], as_json: bool) -> None:
    """`--events` is a stream of documents, `--json` is one: they cannot share stdout."""
    if not flags.get("events"):
        return
    if as_json:
        raise UsageError(
            "--events and --json exclude each other",
            "--events gives many documents, one a line; --json gives one at the end",
        )
    if flags.get("detach") or flags.get("departure") is not None:
        raise UsageError(
            "--events and --detach exclude each other",
            "start it, then: orchestrate logs latest -f --events",
        )
    if flags.get("dry_run"):
        raise UsageError("--events and --dry-run exclude each other", "nothing happens in one")


def detach_option(command: Command) -> Command:
    """`-d`: the run gets a process of its own."""
    return click.option(
        "-d", "--detach", is_flag=True,
        help="Let the run go on in a process of its own; print its id once it has started.",
    )(command)  # fmt: skip


def choose_format(chosen: str | None, as_json: bool) -> str:
    """`--json` is `--format json`; the two must not disagree."""
    if as_json and chosen not in (None, "json"):
        raise UsageError(f"--json and --format {chosen} exclude each other")
    return "json" if as_json else chosen or "text"
