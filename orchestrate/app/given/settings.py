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

Group = Literal[
    "plan",
    "context",
    "queue",
    "agents",
    "concurrency",
    "worktree",
    "detach",
    "fleet",
    "start",
    "output",
    "none",
]
Kind = Literal[
    "text", "optional text", "texts", "choice", "whole", "amount", "duration", "switch", "pair"
]
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
    # Of a duration: 0 has a meaning of its own.
    may_be_zero: bool = False
    short: str = ""
    dialects: tuple[Dialect, ...] = _ALL
    key: type | None = None
    variable: str = ""
    # The key under `limits:` in files and in the configuration that says the same.
    limit: str = ""
    name: str = ""

    def __set_name__(self, _: type, name: str) -> None:
        """A row is called as its field; a changed copy of each would take 3 ms of every command."""
        object.__setattr__(self, "name", name)

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
            case "whole" | "amount" | "duration":
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
        hint = f"it applies to a {' or a '.join(self.dialects)} only"
        raise UsageError(f"{self.option} cannot be used with a {dialect}", hint)


def flag(group: Group, kind: Kind, *, kept: bool, help: str = "", **more: Any) -> Any:  # noqa: A002
    """A row, written as the default of its field."""
    return Flag(group, kind, kept, help, **more)


# Which groups of flags a command has that carries out a run.
FLAGS_OF: dict[str, tuple[Group, ...]] = {
    "run": (
        "plan", "context", "queue", "agents", "concurrency", "worktree", "detach", "fleet",
        "start", "output",
    ),
    "resume": ("plan", "context", "agents", "concurrency", "detach", "output"),
}  # fmt: skip
# The rows by name, in the order of the fields.
FLAGS: dict[str, Flag] = {}
_T = TypeVar("_T")


def _with_rows(cls: type[_T]) -> type[_T]:
    """Move the rows to `FLAGS`, and leave the default of each flag in its field."""
    for name, row in list(vars(cls).items()):
        if isinstance(row, Flag):
            FLAGS[name] = row
            setattr(cls, name, row.default)
    return cls


@record
@_with_rows
class RunSettings:
    """Everything that a run is started with; a flag that was not given has its default."""

    backend: str | None = flag(
        "agents", "text", kept=True, metavar="NAME", key=str,
        help="The agent program, such as claude-code or codex; rehearsal, human and replay stand "
        "in for all. Of these only rehearsal applies to a workflow.",
    )  # fmt: skip
    model: str | None = flag(
        "plan", "text", kept=True, metavar="MODEL", dialects=_MACHINE, key=str,
        help="Model tier (haiku, sonnet, opus) or name for steps without one (machine).",
    )  # fmt: skip
    max_steps: int | None = flag(
        "plan", "whole", kept=True, metavar="N", least=1, limit="steps",
        help="End the run after this many steps.",
    )  # fmt: skip
    max_visits: int | None = flag(
        "plan", "whole", kept=True, metavar="N", least=1, limit="visits",
        help="End the run before a step is visited more often than this.",
    )  # fmt: skip
    max_cost: float | None = flag(
        "plan", "amount", kept=True, metavar="USD", limit="cost_usd",
        help="Park the run before an agent is asked once this was spent.",
    )  # fmt: skip
    max_tokens: int | None = flag(
        "plan", "whole", kept=True, metavar="N", least=1, limit="tokens",
        help="Park the run before an agent is asked once this many tokens were used.",
    )  # fmt: skip
    max_time: float | None = flag(
        "plan", "duration", kept=True, metavar="DURATION", limit="time",
        help="Park the run before a step once it has worked this long: seconds, 90s, 1h30m.",
    )  # fmt: skip
    max_calls: int | None = flag(
        "plan", "whole", kept=True, metavar="N", least=1, limit="calls",
        help="Park the run once agents were asked this often.",
    )  # fmt: skip
    max_restarts: int | None = flag(
        "plan", "whole", kept=True, metavar="N", dialects=_MACHINE,
        help="Allow this many restarts in a new session; default: no limit (machine).",
    )  # fmt: skip
    step_timeout: float | None = flag(
        "plan", "duration", kept=True, metavar="DURATION", dialects=_AGENTS, key=float,
        help="Time limit of each step that sets none: seconds, 90s, 1h30m (machine, recipe).",
    )  # fmt: skip
    max_parallel: int | None = flag(
        "plan", "whole", kept=True, metavar="N", least=1, dialects=_CONTEXT, key=int,
        help="Run at most this many items of a parallel loop at once; default: what the loop says, "
        "else 8 (recipe, workflow).",
    )  # fmt: skip
    context: tuple[str, ...] = flag(
        "context", "texts", kept=False, metavar="KEY=VALUE", dialects=_CONTEXT,
        help="Set a context variable to a text; repeatable (recipe, workflow).",
    )  # fmt: skip
    input: tuple[str, ...] = flag(
        "context", "texts", kept=False, metavar="NAME=VALUE", short="-i",
        help="Give an input of the file, or a context variable; repeatable.",
    )  # fmt: skip
    inputs_file: str | None = flag(
        "context", "text", kept=False, metavar="FILE",
        help="A JSON or YAML mapping of inputs.",
    )  # fmt: skip
    context_file: str | None = flag(
        "context", "text", kept=False, metavar="FILE", dialects=_CONTEXT,
        help="Read context variables, with their types, from a JSON or YAML mapping (recipe, "
        "workflow).",
    )  # fmt: skip
    on_error: Literal["stop", "continue", "interactive"] | None = flag(
        "plan", "choice", kept=True, choices=("stop", "continue", "interactive"),
        dialects=_WORKFLOW,
        help="When a step fails without a handler: stop, go on and fail at the end, or ask "
        "(workflow).",
    )  # fmt: skip
    max_retries: int | None = flag(
        "plan", "whole", kept=True, metavar="N", dialects=_WORKFLOW,
        help="Retries of provider steps that set none, after exit codes 1 and 124 (workflow).",
    )  # fmt: skip
    retry_delay: int | None = flag(
        "plan", "whole", kept=True, metavar="MS",
        help="Pause before an agent's first retry after an outage (default: 1000), and between "
        "those of --max-retries.",
    )  # fmt: skip
    clean_processed: bool = flag(
        "queue", "switch", kept=False, dialects=_WORKFLOW,
        help="Empty processed_dir before the run (workflow).",
    )  # fmt: skip
    archive_processed: str | None = flag(
        "queue", "optional text", kept=True, metavar="ZIP", dialects=_WORKFLOW,
        help="Zip processed_dir when the run succeeds; default: processed.zip in the run's "
        "folder (workflow).",
    )  # fmt: skip
    wait_for_quota: bool | None = flag(
        "agents", "pair", kept=True,
        help="Wait until an agent's usage limit is over (default), or park the run: exit code 6.",
    )  # fmt: skip
    system_prompt: str | None = flag(
        "agents", "text", kept=True, metavar="TEXT", dialects=_MACHINE,
        help="Append to the agent's system prompt, at a session's first turn (machine).",
    )  # fmt: skip
    silence_timeout: float | None = flag(
        "agents", "duration", kept=True, metavar="DURATION", may_be_zero=True, key=float,
        help="End an agent that prints nothing for this long; 0: never (default: 1h).",
    )  # fmt: skip
    # Seconds between TERM and KILL: only the configuration sets it.
    kill_grace: float | None = flag("none", "duration", kept=True, key=float)
    checkpoints: Literal["auto", "on", "off"] | None = flag(
        "agents", "choice", kept=True, choices=("auto", "on", "off"), key=str,
        help="Record the files of the workspace after steps, for `diff` and `rewind`; auto: in a "
        "git work tree (default).",
    )  # fmt: skip
    permissions: Permissions | None = flag(
        "agents", "choice", kept=True, choices=("bypass", "edit", "default", "read-only"), key=str,
        help="What agents may do without asking (default: bypass).",
    )  # fmt: skip
    session: str | None = flag(
        "start", "text", kept=True, metavar="ID", dialects=_MACHINE,
        help="Continue an existing session of the agent (machine).",
    )  # fmt: skip
    script: str | None = flag(
        "agents", "text", kept=True, metavar="FILE",
        help="Outcomes for --backend rehearsal: a mapping of step to list of outcomes, one per "
        "visit; a command's are passed and failed, a gate's approved, denied and waits.",
    )  # fmt: skip
    rehearse_commands: bool = flag(
        "agents", "switch", kept=True,
        help="With --backend rehearsal, run commands and checks; without, they pass unrun.",
    )  # fmt: skip
    cover: bool = flag(
        "agents", "switch", kept=False,
        help="With --backend rehearsal, go through again and again until every route was taken, "
        "and list those that cannot be; records no run.",
    )  # fmt: skip
    recording: str | None = flag(
        "agents", "text", kept=True, metavar="RUN",
        help="The earlier run that --backend replay answers from.",
    )  # fmt: skip
    allow_concurrent: bool = flag(
        "concurrency", "switch", kept=True, dialects=_AGENTS,
        help="Allow a second run at work in this workspace (machine, recipe).",
    )  # fmt: skip
    let_finish: bool = flag(
        "concurrency", "switch", kept=True, dialects=_RECIPE,
        help="When an item of a parallel loop fails, let the other items' agents finish their "
        "turn (recipe).",
    )  # fmt: skip
    worktree: str | None = flag(
        "worktree", "optional text", kept=True, metavar="[NAME]",
        help="Work in a git worktree of its own, on branch orchestrate/RUN_ID; NAME is its folder "
        "(default: the run's id).",
    )  # fmt: skip
    with_changes: bool = flag(
        "worktree", "switch", kept=True,
        help="With --worktree, take uncommitted changes along.",
    )  # fmt: skip
    detach: bool = flag(
        "detach", "switch", kept=False, short="-d",
        help="Run in the background; print the run's id once it has started.",
    )  # fmt: skip
    fleet: str | None = flag(
        "fleet", "text", kept=False, metavar="POOL",
        help="Run on a machine of this pool (`fleet.yaml`).",
    )  # fmt: skip
    yes: bool = flag(
        "fleet", "switch", kept=False,
        help="With --fleet, send untracked files without a question.",
    )  # fmt: skip
    confirm_above: float | None = flag(
        "start", "amount", kept=False, metavar="USD",
        help="Ask before a run that may cost more, as earlier runs or at worst; without a terminal "
        "nothing is started.",
    )  # fmt: skip
    raw: bool = flag(
        "output", "switch", kept=False,
        help="Leave control characters and CI commands in output as they are, except on a "
        "terminal.",
    )  # fmt: skip
    debug: bool = flag(
        "output", "switch", kept=False, variable="ORCHESTRATE_DEBUG",
        help="Write commands, prompts and names of environment variables into logs/, secrets "
        "masked; implies --backup-state.",
    )  # fmt: skip
    debug_env: tuple[str, ...] = flag(
        "output", "texts", kept=False, metavar="NAME",
        help="With --debug, also write this variable's value; repeatable. Secrets stay masked.",
    )  # fmt: skip
    events: bool = flag(
        "output", "switch", kept=False,
        help="Print the run's events to stdout as JSON lines, as they happen, instead of "
        "answers.",
    )  # fmt: skip
    quiet: bool = flag("output", "switch", kept=False, help="Print only the run's id and errors.")
    verbose: bool = flag(
        "output",
        "switch",
        kept=False,
        short="-v",
        help="Print more: what agents say and do; for machines, each transition.",
    )
    live: bool | None = flag(
        "output", "pair", kept=False, key=str,
        help="Show the run live, or as lines (default: live on a terminal, except in CI).",
    )  # fmt: skip
    progress: bool = flag("output", "switch", kept=False, help="Show how long running steps take.")
    trace: bool = flag(
        "output", "switch", kept=False, help="Put the run's id on every line of the log."
    )
    backup_state: bool = flag(
        "output", "switch", kept=False,
        help="Copy state.json before each step; the last three are kept.",
    )  # fmt: skip
    log_level: Literal["debug", "info", "warn", "error"] | None = flag(
        "output", "choice", kept=False, choices=("debug", "info", "warn", "error"), key=str,
        help="Least severe level in logs/orchestrator.log (default: info).",
    )  # fmt: skip
    # What the configuration says of the plan where neither the recipe nor a flag does.
    defaults: dict[str, Any] = field(default_factory=dict)
    # How the programs of agents are started here, from the configuration.
    agents: dict[str, Any] = field(default_factory=dict)
    # Of a run of a single step: which one, and the steps whose results it was given.
    run_step: dict[str, Any] | None = None
    # Of a run on a machine of a pool: its seat there (`fleet/seat`).
    seat: dict[str, Any] | None = None
    # Of a resume there: the machine with which the sitting before it was lost.
    lost_with: str = ""
    # And the sessions of agents that came along; None in another place than before.
    sessions_here: tuple[str, ...] | None = None

    def is_given(self, name: str) -> bool:
        """Was the flag written? 0 was, and `--no-…`; they must not pass for False."""
        value = getattr(self, name)
        is_off = value is False and FLAGS[name].kind != "pair"
        return value is not None and not is_off and value != ()

    def given(self, *groups: Group) -> tuple[Flag, ...]:
        """The rows of some groups, or of all, whose flags were given."""
        return tuple(
            row for name, row in FLAGS.items()
            if self.is_given(name) and (not groups or row.group in groups)
        )  # fmt: skip

    def check(self, program: Program) -> None:
        """Refuse flags that have no meaning in the dialect of a program, and an empty model."""
        dialect = next(plan.dialect for plan in program.plans if plan.id == program.main)
        others = {plan.dialect for plan in program.plans}
        for row in self.given():
            # What changes the plan of a called file has an effect, too.
            if row.group != "plan" or others.isdisjoint(row.dialects):
                row.require_applicable(dialect)
            row.require_value(getattr(self, row.name))
        # A machine or recipe that a workflow calls asks the run's own agent.
        if others == {"workflow"} and self.backend not in (None, "rehearsal"):
            raise UsageError(
                f"--backend {self.backend} cannot be used with a workflow",
                "its steps name their providers; --backend rehearsal goes through it without them",
            )
        if self.model is not None and not self.model.strip():
            raise UsageError("--model: the name is empty")

    def over(self, earlier: RunSettings) -> RunSettings:
        """What a resume with these flags goes on with: the earlier ones where it has none."""
        return settings_of(earlier.kept() | self.kept()).with_unkept(self)

    def with_unkept(self, given: RunSettings) -> RunSettings:
        """These settings, with the flags that hold for one process as they were given to it."""
        unkept = (name for name, row in FLAGS.items() if not row.kept)
        values = {name: getattr(given, name) for name in unkept}
        return replace(self, **values, lost_with=given.lost_with, sessions_here=given.sessions_here)

    def without_values(self) -> RunSettings:
        """The same flags without values for inputs and context."""
        return replace(self, context=(), input=(), inputs_file=None, context_file=None)

    def kept(self) -> dict[str, Any]:
        """What a run's events and state keep, as JSON."""
        kept = {row.name: getattr(self, row.name) for row in self.given() if row.kept}
        others = {name: getattr(self, name) for name in _KEPT_BESIDES_FLAGS}
        return kept | {name: value for name, value in others.items() if value}


_KEPT_BESIDES_FLAGS = ("defaults", "agents", "run_step", "seat")


def settings_of(stored: Mapping[str, Any]) -> RunSettings:
    """The settings that a run keeps; what only another version keeps is dropped."""
    known = (*(name for name, row in FLAGS.items() if row.kept), *_KEPT_BESIDES_FLAGS)
    return RunSettings(**{name: stored[name] for name in known if name in stored})
