"""The user's `fleet.yaml`: which pools there are, and how their machines are reached."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrate.app.config import user_file
from orchestrate.app.config_file import read_settings_file
from orchestrate.diagnostics import closest
from orchestrate.errors import ConfigError, UsageError
from orchestrate.record import record

FILE = "fleet.yaml"
DEFAULT_ROOT = "orchestrate-seats"
DEFAULT_SLOTS = 4


@record
class Pool:
    """Machines that are alike; `hosts` as the user's `ssh` knows them."""

    name: str
    hosts: tuple[str, ...]
    root: str
    slots: int
    prepare: tuple[str, ...]
    publish: str


def settings_file(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where the settings are, beside the user's configuration; never in a workspace."""
    beside = user_file(environment)
    return None if beside is None else beside.with_name(FILE)


def find_pool(name: str, environment: Mapping[str, str] = os.environ) -> Pool:
    """A pool by its name; everything wrong with the settings is refused with its place."""
    path = settings_file(environment)
    if path is None or not path.exists():
        raise ConfigError(
            f"there is no pool '{name}': {path or FILE} does not exist",
            f"name the machines there, e.g.\n  pools:\n    {name}: {{ssh: [HOST]}}",
        )
    _refuse_readable(path)
    settings = read_settings_file(path, str(path), "fleet")
    pools: Mapping[str, Any] = settings.get("pools") or {}
    if name not in pools:
        near = closest(name, list(pools))
        also = f" (did you mean '{near}'?)" if near else ""
        known = ", ".join(pools) or "none"
        raise UsageError(f"there is no pool '{name}' in {path}{also}", f"pools: {known}")
    given = pools[name]
    return Pool(
        name=name,
        hosts=tuple(given["ssh"]),
        root=given.get("root", DEFAULT_ROOT),
        slots=given.get("slots", DEFAULT_SLOTS),
        prepare=tuple(given.get("prepare", ())),
        publish=str(settings.get("publish", "30s")),
    )


def _refuse_readable(path: Path) -> None:
    """Who reads it learns where the machines are, and later keys: it is the user's alone."""
    if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
        raise ConfigError(f"{path} can be read by others", f"chmod 600 {path}")
