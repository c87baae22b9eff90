"""Settings that are not written in a recipe: flag > ORCHESTRATE_* > workspace > user > default."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.app.config.model import FILE, Config, Origin
from orchestrate.app.given.settings import FLAGS
from orchestrate.errors import ConfigError, OrchestrateError
from orchestrate.state.runs import Runs, open_runs

if TYPE_CHECKING:
    from orchestrate.workspace import Workspace


def read_seconds(text: str) -> float | str:
    """A number, or a text that the schema may take for a duration."""
    return float(text) if text.replace(".", "", 1).isdigit() else text


# Settings that a variable of the environment may set, with the type of their value: those of runs,
# and those that are about all runs of a workspace.
_VARIABLES: dict[str, Callable[[str], Any]] = {
    **{
        name: read_seconds if row.kind == "duration" else row.key
        for name, row in FLAGS.items()
        if row.key is not None
    },
    "keep_runs": int,
    "state_dir": str,
}


# What holds for all runs of a user.
_USERS_OWN = ("limits.per_day.", "limits.concurrent.")
# How the variables of limits are read that are not whole numbers, by the kind of their flag.
_LIMITS: dict[str, Callable[[str], Any]] = {"amount": float, "duration": read_seconds}


def runs_folder(workspace: Workspace, config: Config, given: str | None) -> Runs:
    """Where the runs are: a path on the command line starts at the current folder, one in the
    configuration or the environment at the workspace."""
    if given:
        return Runs(Path(os.path.abspath(given)))
    return open_runs(workspace.root, config.values.get("state_dir"))


def load_config(workspace: Workspace, environment: Mapping[str, str] = os.environ) -> Config:
    """All configuration there is; a file that does not fit its schema is refused, with places."""
    config = Config()
    for path in config_files(workspace, environment):
        if os.path.lexists(path):
            _read_into(config, path, workspace.display(path))
            if path == workspace.root / FILE:
                _refuse_users_own(config, workspace.display(path), environment)
    for name, kind in _VARIABLES.items():
        variable = f"ORCHESTRATE_{name.upper()}"
        text = environment.get(variable, "")
        if text:
            _set_typed(config, name, variable, text, kind)
    for name, row in FLAGS.items():
        variable = f"ORCHESTRATE_{name.upper()}"
        text = environment.get(variable, "") if row.limit else ""
        if text:
            _set_typed(config, row.limit, variable, text, _LIMITS.get(row.kind, int), "limits")
    return config


def config_files(workspace: Workspace, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that are read, the later over the earlier."""
    user = user_file(environment)
    return (*((user,) if user is not None else ()), workspace.root / FILE)


def user_file(environment: Mapping[str, str]) -> Path | None:
    """The user's own configuration, where XDG puts it."""
    given = environment.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(given):
        return Path(given) / "orchestrate" / "config.yaml"
    home = environment.get("HOME", "")
    return Path(home) / ".config" / "orchestrate" / "config.yaml" if os.path.isabs(home) else None


# Most workspaces have no configuration, and no need of the YAML reader.


def _read_into(config: Config, path: Path, display: str) -> None:
    """Lay what a file says over the settings."""
    from orchestrate.app.config.file import overlay, read_config_file

    overlay(config, config.values, read_config_file(path, display), display)


def _refuse_users_own(config: Config, display: str, environment: Mapping[str, str]) -> None:
    """What holds for all runs of a user is not for a project's files to say."""
    for name, origin in config.origins.items():
        if name.startswith(_USERS_OWN) and origin.place == display:
            own = user_file(environment)
            raise ConfigError(
                f"{origin}: {name} belongs in the user's configuration",
                f"write it into {own or '~/.config/orchestrate/config.yaml'}"
                + "; in a recipe, limits.per_day is that recipe's" * ("per_day" in name),
            )


def _set_typed(
    config: Config,
    name: str,
    variable: str,
    text: str,
    kind: Callable[[str], Any],
    inside: str = "",
) -> None:
    """Lay what a variable says over the settings."""
    from orchestrate.app.config.file import typed

    value = typed(variable, text, kind, name, inside)
    if inside:
        config.values[inside] = {**(config.values.get(inside) or {}), name: value}
    else:
        config.values[name] = value
    config.origins[f"{inside}.{name}" if inside else name] = Origin(variable)


def state_dir_in(path: Path, fault: OrchestrateError) -> str | None:
    """Where the runs are, by a file that is faulty elsewhere; else the fault is raised."""
    from orchestrate.app.config.file import read_one_setting

    return read_one_setting(path, "state_dir", fault)
