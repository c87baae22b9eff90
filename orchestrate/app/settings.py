"""What a run is started with: one record, whose fields are the one table of flags.

A field that is made with `flag` is a row: its click option, its place in `resume`, the dialects
that accept it, its configuration key and its variable are derived from there. A new flag is a new
row and its use; a flag of the group `plan` is used by `with_NAME` of `plan/override.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from orchestrate.errors import UsageError
from orchestrate.record import field, record, replace

if TYPE_CHECKING:
    from orchestrate.plan.nodes import Dialect, Program

Group = Literal["plan", "context", "queue", "agents", "concurrency", "detach", "output", "none"]
Kind = Literal["text", "optional text", "texts", "choice", "whole", "seconds", "switch", "pair"]
Permissions = Literal["bypass", "edit", "default", "read-only"]

_ALL: tuple[Dialect, ...] = ("machine", "recipe", "workflow")
_MACHINE: tuple[Dialect, ...] = ("machine",)
_RECIPE: tuple[Dialect, ...] = ("recipe",)
_WORKFLOW: tuple[Dialect, ...] = ("workflow",)
_AGENTS: tuple[Dialect, ...] = ("machine", "recipe")
_CONTEXT: tuple[Dialect, ...] = ("recipe", "workflow")


@record
class Flag:
    """A row of the table.

    `kept` says whether later resumes of the run go on with the value (rulings §7); `key` is the
    type that the value has in the configuration and in ORCHESTRATE_NAME, None if it has no place
    there; `variable` names a variable that sets the flag alone.
    """

    group: Group
    kind: Kind
    kept: bool
    help: str = ""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    least: int = 0
    short: str = ""
    dialects: tuple[Dialect, ...] = _ALL
    key: type | None = None
    variable: str = ""
    name: str = ""

    @property
    def default(self) -> Any:
        """The value of a flag that was not given."""
        match self.kind:
            case "switch":
                return False
            case "texts":
                return ()
            case _:
                return None

    @property
    def option(self) -> str:
        return "--" + self.name.replace("_", "-")

    def require_value(self, value: Any) -> None:
        """Refuse what the command line would not take: the Python interface gives any value."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        is_right = True
        match self.kind:
            case "choice":
                is_right = value in self.choices
            case "whole" | "seconds":
                is_right = is_number and self.least <= value < float("inf")
            case "switch" | "pair":
                is_right = isinstance(value, bool)
            case "texts":
                is_right = isinstance(value, tuple) and all(isinstance(v, str) for v in value)
            case "text" | "optional text":
                is_right = isinstance(value, str)
        if not is_right:
            choices = f"; one of {', '.join(self.choices)}" if self.choices else ""
            raise UsageError(f"{self.option} cannot be {value!r}{choices}")

    def require_applicable(self, dialect: Dialect) -> None:
        """Refuse a flag that would have no effect (rulings §5)."""
        if dialect in self.dialects:
            return
        hint = f"it has a meaning for a {' or a '.join(self.dialects)} only"
        if self.name == "backend":
            hint += (
                "; a workflow with providers cannot be rehearsed: its steps name their programs, "
                "and --dry-run shows them"
            )
        raise UsageError(f"{self.option} cannot be used with a {dialect}", hint)


def flag(group: Group, kind: Kind, *, kept: bool, help: str = "", **more: Any) -> Any:  # noqa: A002
    """A row, written as the default of its field."""
    return Flag(group, kind, kept, help, **more)


# The rows by name, in the order of the fields.
FLAGS: dict[str, Flag] = {}
_T = TypeVar("_T")


def _with_rows(cls: type[_T]) -> type[_T]:
    """Move the rows to `FLAGS`, and leave the default of each flag in its field."""
    for name, row in list(vars(cls).items()):
        if isinstance(row, Flag):
            FLAGS[name] = replace(row, name=name)
            setattr(cls, name, row.default)
    return cls


@record
@_with_rows
class RunSettings:
    """Everything that a run is started with; a flag that was not given has its default."""

    backend: str | None = flag(
        "agents", "text", kept=True, metavar="NAME", dialects=_AGENTS, key=str,
        help="The agent to ask (machine, recipe); rehearsal, human and replay stand "
        "in for all. A workflow cannot be rehearsed.",
    )  # fmt: skip
    model: str | None = flag(
        "plan", "text", kept=True, metavar="MODEL", dialects=_MACHINE, key=str,
        help="Model tier or name for steps without one (machine).",
    )  # fmt: skip
    max_steps: int | None = flag(
        "plan", "whole", kept=True, metavar="N", least=1, dialects=_MACHINE,
        help="Steps before the run is stopped (machine).",
    )  # fmt: skip
    max_visits: int | None = flag(
        "plan", "whole", kept=True, metavar="N", least=1, dialects=_MACHINE,
        help="Visits of one step before the run is stopped (machine).",
    )  # fmt: skip
    max_restarts: int | None = flag(
        "plan", "whole", kept=True, metavar="N", dialects=_MACHINE,
        help="Restarts in a new session (machine).",
    )  # fmt: skip
    step_timeout: float | None = flag(
        "plan", "whole", kept=True, metavar="SECONDS", least=1, dialects=_AGENTS, key=float,
        help="Limit of each step without its own (machine, recipe).",
    )  # fmt: skip
    max_parallel: int | None = flag(
        "plan", "whole", kept=True, metavar="N", least=1, dialects=_RECIPE, key=int,
        help="Items of a loop worked on at once (recipe).",
    )  # fmt: skip
    context: tuple[str, ...] = flag(
        "context", "texts", kept=False, metavar="KEY=VALUE", short="-i", dialects=_CONTEXT,
        help="Set a context variable to a text (recipe, workflow); repeatable.",
    )  # fmt: skip
    context_file: str | None = flag(
        "context", "text", kept=False, metavar="FILE", dialects=_CONTEXT,
        help="JSON or YAML mapping of context variables (recipe, workflow).",
    )  # fmt: skip
    on_error: Literal["stop", "continue", "interactive"] | None = flag(
        "plan", "choice", kept=True, choices=("stop", "continue", "interactive"),
        dialects=_WORKFLOW,
        help="What to do when a step fails without a handler (workflow).",
    )  # fmt: skip
    max_retries: int | None = flag(
        "plan", "whole", kept=True, metavar="N", dialects=_WORKFLOW,
        help="Retries of provider steps without their own (workflow).",
    )  # fmt: skip
    retry_delay: int | None = flag(
        "plan", "whole", kept=True, metavar="MS",
        help="Pause before a first retry, and between those of --max-retries.",
    )  # fmt: skip
    clean_processed: bool = flag(
        "queue", "switch", kept=False, dialects=_WORKFLOW,
        help="Empty processed_dir before the run (workflow).",
    )  # fmt: skip
    archive_processed: str | None = flag(
        "queue", "optional text", kept=True, metavar="ZIP", dialects=_WORKFLOW,
        help="Zip processed_dir when the run succeeds; without a name: into the "
        "run's folder (workflow).",
    )  # fmt: skip
    system_prompt: str | None = flag(
        "agents", "text", kept=True, metavar="TEXT", dialects=_MACHINE,
        help="Appended to the agent's own system prompt (machine).",
    )  # fmt: skip
    silence_timeout: float | None = flag(
        "agents", "seconds", kept=True, metavar="SECONDS", key=float,
        help="End an agent that says nothing for so long; 0 never (default: 3600).",
    )  # fmt: skip
    # Seconds between TERM and KILL: only the configuration sets it.
    kill_grace: float | None = flag("none", "seconds", kept=True, key=float)
    permissions: Permissions | None = flag(
        "agents", "choice", kept=True, choices=("bypass", "edit", "default", "read-only"), key=str,
        help="What agents may do without asking (default: bypass).",
    )  # fmt: skip
    session: str | None = flag(
        "agents", "text", kept=True, metavar="ID", dialects=_MACHINE,
        help="Go on in an existing session of the agent (machine).",
    )  # fmt: skip
    script: str | None = flag(
        "agents", "text", kept=True, metavar="FILE",
        help="Outcomes for --backend rehearsal: step to list of outcomes.",
    )  # fmt: skip
    recording: str | None = flag(
        "agents", "text", kept=True, metavar="RUN",
        help="The earlier run that --backend replay answers from.",
    )  # fmt: skip
    allow_concurrent: bool = flag(
        "concurrency", "switch", kept=True, dialects=_AGENTS,
        help="Allow a second live run in this workspace (machine, recipe).",
    )  # fmt: skip
    let_finish: bool = flag(
        "concurrency", "switch", kept=True, dialects=_RECIPE,
        help="When an item of a parallel loop fails, let the agents of the others finish their "
        "turn; nothing new starts (recipe).",
    )  # fmt: skip
    detach: bool = flag(
        "detach", "switch", kept=False, short="-d",
        help="Let the run go on in a process of its own; print its id once it has started.",
    )  # fmt: skip
    raw: bool = flag(
        "output", "switch", kept=False,
        help="Do not escape control characters and commands of CI logs, except on a terminal.",
    )  # fmt: skip
    debug: bool = flag(
        "output", "switch", kept=False, variable="ORCHESTRATE_DEBUG",
        help="Write commands, prompts and the names of the environment into logs/, "
        "secrets masked.",
    )  # fmt: skip
    debug_env: tuple[str, ...] = flag(
        "output", "texts", kept=False, metavar="NAME",
        help="With --debug, show this variable's value, too; repeatable. A secret "
        "stays masked.",
    )  # fmt: skip
    events: bool = flag(
        "output", "switch", kept=False,
        help="Print the run's events to stdout as they happen, one JSON object a "
        "line, instead of answers.",
    )  # fmt: skip
    quiet: bool = flag("output", "switch", kept=False, help="Tell only the run id and errors.")
    verbose: bool = flag("output", "switch", kept=False, short="-v", help="Tell more.")
    live: bool | None = flag(
        "output", "pair", kept=False, key=str,
        help="Show the run as a moving picture, or as lines (default: on a "
        "terminal, unless in CI).",
    )  # fmt: skip
    progress: bool = flag("output", "switch", kept=False, help="Show how long running steps take.")
    trace: bool = flag(
        "output", "switch", kept=False, help="Put the run id on every line of the log."
    )
    backup_state: bool = flag(
        "output", "switch", kept=False,
        help="Copy state.json before each step; the last three are kept.",
    )  # fmt: skip
    log_level: Literal["debug", "info", "warn", "error"] | None = flag(
        "output", "choice", kept=False, choices=("debug", "info", "warn", "error"), key=str,
        help="What logs/orchestrator.log has (default: info).",
    )  # fmt: skip
    # What the configuration says of the plan where neither the recipe nor a flag does.
    defaults: dict[str, Any] = field(default_factory=dict)
    # How the programs of agents are started here, from the configuration.
    agents: dict[str, Any] = field(default_factory=dict)
    # Of a run of a single step: which one, and the steps whose results it was given.
    run_step: dict[str, Any] | None = None

    def is_given(self, name: str) -> bool:
        """Was the flag written? 0 was; it must not pass for False."""
        value = getattr(self, name)
        return value is not None and value is not False and value != ()

    def given(self, *groups: Group) -> tuple[Flag, ...]:
        """The rows of some groups, or of all, whose flags were given."""
        return tuple(
            row for name, row in FLAGS.items()
            if self.is_given(name) and (not groups or row.group in groups)
        )  # fmt: skip

    def check(self, program: Program) -> None:
        """Refuse flags that have no meaning in the dialect of a program, and an empty model."""
        dialect = next(plan.dialect for plan in program.plans if plan.id == program.main)
        for row in self.given():
            row.require_applicable(dialect)
            row.require_value(getattr(self, row.name))
        if self.model is not None and not self.model.strip():
            raise UsageError("--model: the name is empty")

    def over(self, earlier: RunSettings) -> RunSettings:
        """What a resume with these flags goes on with: the earlier ones where it has none."""
        return settings_of(earlier.kept() | self.kept()).with_unkept(self)

    def with_unkept(self, given: RunSettings) -> RunSettings:
        """These settings, with the flags that hold for one process as they were given to it."""
        unkept = (name for name, row in FLAGS.items() if not row.kept)
        return replace(self, **{name: getattr(given, name) for name in unkept})

    def kept(self) -> dict[str, Any]:
        """What a run's events and state keep, as JSON."""
        kept = {row.name: getattr(self, row.name) for row in self.given() if row.kept}
        others = {"defaults": self.defaults, "agents": self.agents, "run_step": self.run_step}
        return kept | {name: value for name, value in others.items() if value}


_KEPT_BESIDES_FLAGS = ("defaults", "agents", "run_step")


def settings_of(stored: Mapping[str, Any]) -> RunSettings:
    """The settings that a run keeps; what another version keeps besides is left aside."""
    known = (*(name for name, row in FLAGS.items() if row.kept), *_KEPT_BESIDES_FLAGS)
    return RunSettings(**{name: stored[name] for name in known if name in stored})
