"""The settings that hold in a workspace, defaults included, and where each comes from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from orchestrate.app.config.load import config_files
from orchestrate.app.config.model import FILE
from orchestrate.workspace import Workspace, package_data

if TYPE_CHECKING:
    from orchestrate.app.config.model import Config


def with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting in the schema's order: what is configured, else its default if it has one."""
    text = (package_data() / "schemas" / "config.schema.json").read_text("utf-8")
    known: dict[str, Any] = json.loads(text)["properties"]
    settings: dict[str, Any] = {}
    for name, field in known.items():
        if name in values:
            settings[name] = values[name]
        elif "default" in field:
            settings[name] = field["default"]
    return settings


def origins_json(loaded: Config, names: Iterable[str]) -> dict[str, Any]:
    """Of each setting: a file and line, a variable, or the default."""
    found: dict[str, Any] = {}
    for name in names:
        origin = loaded.origins.get(name)
        if origin is None:
            found[name] = {"kind": "default"}
        elif origin.line is None:
            found[name] = {"kind": "variable", "variable": origin.place}
        else:
            found[name] = {"kind": "file", "file": origin.place, "line": origin.line}
    return found


def files_json(workspace: Workspace, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """The files that settings are read from, whether they are there or not."""
    ours = workspace.root / FILE
    return [
        {
            "scope": "workspace" if path == ours else "user",
            "path": str(path),
            "exists": os.path.lexists(path),
        }
        for path in config_files(workspace, environment)
    ]
