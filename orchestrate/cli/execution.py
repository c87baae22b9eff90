"""What `run` does once the plan is known: refuse what cannot work, start, carry out, tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrate.cli.agents import outcomes_of
from orchestrate.cli.config import load_config, plan_defaults, with_defaults
from orchestrate.cli.definition import given_names, tell_warnings
from orchestrate.cli.output import note
from orchestrate.cli.progress import first_words
from orchestrate.cli.running import carry_out, show_end, start_run, stoppable
from orchestrate.cli.unread import tell_unread
from orchestrate.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from orchestrate.cli.config import Config
    from orchestrate.compile import Compilation
    from orchestrate.plan.nodes import Program
    from orchestrate.state.runs import Runs
    from orchestrate.workspace import Workspace

# Flags that hold for every resume of the run (rulings §7).
KEPT = (
    "model", "max_steps", "max_visits", "max_restarts", "step_timeout", "max_parallel", "on_error",
    "max_retries", "retry_delay", "system_prompt", "permissions", "session", "archive_processed",
    "script", "recording", "allow_concurrent",
)  # fmt: skip


def execute(
    compilation: Compilation,
    program: Program,
    workspace: Workspace,
    as_json: bool,
    flags: dict[str, Any],
) -> int:
    """Start a run and carry it out."""
    from orchestrate.cli.agents import refuse_unusable
    from orchestrate.cli.options import watching_of
    from orchestrate.cli.queues import archive_processed, check_archive, clean_processed
    from orchestrate.state.runs import open_runs

    config = load_config(workspace)
    watching = watching_of(flags, as_json, config)
    runs = open_runs(workspace.root, config.get("state_dir", flags["state_dir"]))
    settings = settings_of(flags, config)
    program = with_defaults(program, settings.get("defaults", {}))
    _check_stand_in(program, settings, runs)
    refuse_unusable(program, workspace, settings)
    check_archive(program, workspace, settings.get("archive_processed"))
    with only_run_of(runs, program, flags.get("allow_concurrent", False)), stoppable() as stop:
        if flags["clean_processed"]:
            clean_processed(program, workspace)
        store, _ = start_run(runs, program, compilation, workspace, settings)
        try:
            note(first_words(store.run.id, store.state.definition, is_resumed=False))
            tell_warnings(compilation, given_names(program))
            tell_unread(compilation, program, flags)
            watching.started(store)
            ending = carry_out(store, program, workspace, watching, stop)
            if ending.status == "completed":
                archive_processed(program, workspace, store.run, settings.get("archive_processed"))
        finally:
            store.close()
        # Others may go on with the run, also while a stopped terminal does not take our last words.
        return show_end(store, ending, watching)


def settings_of(flags: dict[str, Any], config: Config) -> dict[str, Any]:
    """What a later `resume` has to know of the command line and the configuration."""
    from orchestrate.plan.override import known_backend

    settings = {name: flags[name] for name in KEPT if flags.get(name) not in (None, (), False)}
    backend = config.get("backend", flags.get("backend"))
    if backend:
        settings["backend"] = known_backend(backend)
    for name in ("permissions", "silence_timeout"):
        value = config.get(name, flags.get(name))
        if value is not None:
            settings[name] = value
    defaults = plan_defaults(config, flags)
    if defaults:
        settings["defaults"] = defaults
    if config.values.get("agents"):
        settings["agents"] = config.values["agents"]
    return settings


def _check_stand_in(program: Program, settings: dict[str, Any], runs: Runs) -> None:
    """`--script` and `--recording` belong to one backend each; what they name must be there."""
    import os

    from orchestrate.cli.agents import TURNS, read_mapping
    from orchestrate.state.runs import find_run

    backend = settings.get("backend")
    for flag, owner in (("script", "rehearsal"), ("recording", "replay")):
        if flag in settings and backend != owner:
            raise UsageError(f"--{flag} needs --backend {owner}")
    if "script" in settings:
        from orchestrate.agents.rehearsal import parse_script, script_faults

        settings["script"] = os.path.abspath(settings["script"])
        script = parse_script(read_mapping("--script", settings["script"]))
        faults = script_faults(script, outcomes_of(program))
        if faults:
            raise ConfigError(faults[0], "\n".join(faults[1:]))
    if backend == "replay":
        if "recording" not in settings:
            raise UsageError("--backend replay needs --recording RUN, the run to answer from")
        found = find_run(runs, settings["recording"])
        settings["recording"] = found.id
        if not (found.root / TURNS).is_dir():
            raise UsageError(f"run {found.id} has recorded no answers of agents")


class only_run_of:  # noqa: N801 - reads as what it says
    """Refuses a second live run of the same recipe in this workspace (rulings §8)."""

    def __init__(self, runs: Any, program: Program, allow: bool) -> None:
        self._runs = runs
        self._program = program
        self._allow = allow
        self._lock: Any = None

    def __enter__(self) -> None:
        from orchestrate.plan.nodes import main_plan

        if main_plan(self._program).dialect != "recipe" or self._allow:
            return
        import sys
        from hashlib import sha256

        from orchestrate.errors import ConfigError
        from orchestrate.state.locks import LockHeldError, take

        folder = self._runs.folder / "recipes"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = sha256(self._program.main.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        try:
            self._lock = take(folder / f"{key}.lock", f"recipe {self._program.main}", sys.argv)
        except LockHeldError as error:
            raise ConfigError(
                error.message, "wait for it, or add --allow-concurrent to run both"
            ) from None

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.release()
