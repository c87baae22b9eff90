"""Settings that are not written in a recipe: flag > ORCHESTRATE_* > workspace > user > default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.app.settings import FLAGS
from orchestrate.errors import ConfigError
from orchestrate.record import field, record, replace

if TYPE_CHECKING:
    from orchestrate.app.settings import RunSettings
    from orchestrate.source.located import LocatedMap
    from orchestrate.state.runs import Runs
    from orchestrate.workspace import Workspace

FILE = Path(".orchestrate") / "config.yaml"
# Settings that a variable of the environment may set, with the type of their value: those of runs,
# and those that are about all runs of a workspace.
_VARIABLES: dict[str, type] = {
    **{name: row.key for name, row in FLAGS.items() if row.key is not None},
    "keep_runs": int,
    "state_dir": str,
}


@record
class Origin:
    """Where a setting was written: a file with a line, or a variable of the environment."""

    place: str
    line: int | None = None

    def __str__(self) -> str:
        return self.place if self.line is None else f"{self.place}:{self.line}"


@record
class Config:
    """Values by name, and where each comes from: `origins` has `agents.codex.path` and the like."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)

    def get(self, name: str, given: Any = None) -> Any:
        """The value of a flag if it was given, else what the configuration says, else None."""
        return given if given not in (None, ()) else self.values.get(name)

    def agent(self, name: str) -> Mapping[str, Any]:
        """How an agent's program is started here (`agents:`)."""
        found: Mapping[str, Any] = (self.values.get("agents") or {}).get(name) or {}
        return found


def runs_folder(workspace: Workspace, config: Config, given: str | None) -> Runs:
    """Where the runs are: a path on the command line starts at the current folder, one in the
    configuration or the environment at the workspace."""
    from orchestrate.state.runs import Runs, open_runs

    if given:
        return Runs(Path(os.path.abspath(given)))
    return open_runs(workspace.root, config.values.get("state_dir"))


def load_config(workspace: Workspace, environment: Mapping[str, str] = os.environ) -> Config:
    """All configuration there is; a file that does not fit its schema is refused, with places."""
    config = Config()
    for path in config_files(workspace, environment):
        if os.path.lexists(path):
            from orchestrate.app.config_file import read_config_file

            display = workspace.display(path)
            _overlay(config, config.values, read_config_file(path, display), display)
    for name, kind in _VARIABLES.items():
        variable = f"ORCHESTRATE_{name.upper()}"
        text = environment.get(variable, "")
        if text:
            config.values[name] = _typed(variable, text, kind, name)
            config.origins[name] = Origin(variable)
    return config


def config_files(workspace: Workspace, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that are read, the later over the earlier."""
    user = user_file(environment)
    return (*((user,) if user is not None else ()), workspace.root / FILE)


def _overlay(
    config: Config, values: dict[str, Any], over: LocatedMap, display: str, prefix: str = ""
) -> None:
    """Mappings merge, so that a project's agents do not take away the user's; the rest replaces."""
    from orchestrate.source.located import LocatedMap, line_of

    for name, value, mark, _ in over.entries():
        dotted = prefix + name
        if isinstance(value, LocatedMap):
            values[name] = dict(values.get(name) or {})
            _overlay(config, values[name], value, display, f"{dotted}.")
        elif dotted == "secrets":
            # What one file names must not stop being masked because another names something else.
            values[name] = list(dict.fromkeys((*values.get(name, ()), *value)))
            for place, secret in enumerate(value):
                line = line_of(value.marks[place]) + 1
                config.origins.setdefault(f"secrets.{secret}", Origin(display, line))
            config.origins[dotted] = Origin(display, line_of(mark) + 1)
        else:
            values[name] = value
            config.origins[dotted] = Origin(display, line_of(mark) + 1)


def configured(settings: RunSettings, config: Config) -> RunSettings:
    """The settings with what the configuration says where no flag does."""
    from orchestrate.plan.override import known_backend

    values: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for name, row in FLAGS.items():
        # `--live` and the setting `live` are not of one kind: how a run is shown depends on both.
        if row.key is None or row.kind == "pair" or name not in config.values:
            continue
        if not settings.is_given(name):
            (defaults if row.group == "plan" else values)[name] = config.values[name]
    backend = values.get("backend", settings.backend)
    if backend is not None:
        values["backend"] = known_backend(backend)
    agents = config.values.get("agents") or {}
    return replace(settings, **values, defaults=defaults, agents=agents)


def user_file(environment: Mapping[str, str]) -> Path | None:
    """The user's own configuration, where XDG puts it."""
    given = environment.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(given):
        return Path(given) / "orchestrate" / "config.yaml"
    home = environment.get("HOME", "")
    return Path(home) / ".config" / "orchestrate" / "config.yaml" if os.path.isabs(home) else None


def _typed(variable: str, text: str, kind: type, name: str) -> Any:
    """The value of a variable; it has to fit the schema as the setting itself does."""
    try:
        value = kind(text)
    except ValueError:
        raise ConfigError(f"{variable} is '{text}', which is not a number") from None
    from orchestrate.source.schema import check_shipped

    if check_shipped("config", {name: value}):
        from orchestrate.app.config_file import setting_faults
        from orchestrate.source.include import Document
        from orchestrate.source.located import Source, Sources, located_map

        sources = Sources()
        sources.register(Source(variable, Path(variable), text))
        document = Document(Path(variable), located_map(0, [(name, value, 0, 0)]), sources)
        fault = setting_faults(document)[0]
        raise ConfigError(f"{variable}: {fault.message}", fault.hint)
    return value
