"""`orchestrate config`: the settings that hold here, and the file and line of each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from orchestrate.app.config import config_files, load_config
from orchestrate.app.config_model import FILE
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.options import json_option, working_dir_option
from orchestrate.errors import UsageError
from orchestrate.plan.visible import visible
from orchestrate.regex import regex
from orchestrate.show.output import answer, answer_json
from orchestrate.workspace import package_data

if TYPE_CHECKING:
    from orchestrate.app.config_model import Config
    from orchestrate.workspace import Workspace

_PLAIN = regex(r"[A-Za-z./][\w./@-]*( [\w./@-]+)*")
# Words that YAML would not read as texts.
_NOT_TEXT = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
# Variables for agents whose values are hidden, by a part of their names.
_SECRET = regex(r"key|token|secret|passw|credential|auth", re.IGNORECASE)
HIDDEN = "***"
_WIDEST = 40
# Which default holds is up to the dialect, so none can be shown as a value.
_STEP_TIMEOUT = "# step_timeout: 86400 in a machine, 600 in a recipe"


@click.command(short_help="Show the settings in effect, and where each comes from.")
@click.argument("what", type=click.Choice(["show", "path"]), metavar="[show|path]", default="show")
@click.option(
    "--origin",
    is_flag=True,
    help="With show: add the file and line, or the variable, of each setting.",
)
@working_dir_option
@json_option
def config(what: str, origin: bool, working_dir: str | None, as_json: bool) -> int:
    """Show the settings in effect (`show`), or the files they are read from (`path`).

    A flag wins over an ORCHESTRATE_... variable, which wins over .orchestrate/config.yaml of the
    workspace, then the user's file, then the defaults. Values that look like secrets are hidden.
    """
    workspace = workspace_of(working_dir)
    if what == "path":
        if origin:
            raise UsageError("--origin is for `config show`")
        return _show_paths(workspace, as_json)
    loaded = load_config(workspace)
    settings = _hidden(_with_defaults(loaded.values))
    origins = {name: str(loaded.origins.get(name, "default")) for name in _leaves(settings)}
    if as_json:
        answer_json({"settings": settings, "origins": _origins_json(loaded, origins)})
    else:
        answer("".join(f"{line}\n" for line in _lines(settings, origins if origin else {})))
        if "step_timeout" not in settings:
            answer(_STEP_TIMEOUT + ("  # default\n" if origin else "\n"))
    return 0


def _show_paths(workspace: Workspace, as_json: bool) -> int:
    ours = workspace.root / FILE
    files = [
        {
            "scope": "workspace" if path == ours else "user",
            "path": str(path),
            "exists": os.path.lexists(path),
        }
        for path in config_files(workspace, os.environ)
    ]
    if as_json:
        answer_json({"files": files})
    else:
        for file in files:
            there = "" if file["exists"] else "  (not there)"
            answer(f"{file['scope']:9}  {visible(str(file['path']))}{there}\n")
    return 0


def _with_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting in the schema's order: what is configured, else its default if it has one."""
    import json

    text = (package_data() / "schemas" / "config.schema.json").read_text("utf-8")
    known: dict[str, Any] = json.loads(text)["properties"]
    settings: dict[str, Any] = {}
    for name, field in known.items():
        if name in values:
            settings[name] = values[name]
        elif "default" in field:
            settings[name] = field["default"]
    return settings


def _hidden(value: Any, name: str = "", inside: str = "") -> Any:
    """The settings without what looks like a secret: variables of agents, paths of webhooks."""
    if isinstance(value, Mapping):
        return {key: _hidden(item, key, name) for key, item in value.items()}
    if isinstance(value, list):
        return [_hidden(item, name, inside) for item in value]
    if name == "webhook" and isinstance(value, str):
        return "/".join([*value.split("/", 3)[:3], HIDDEN])
    return HIDDEN if inside == "env" and _SECRET.search(name) else value


def _leaves(settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def _origins_json(loaded: Config, origins: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in origins:
        origin = loaded.origins.get(name)
        if origin is None:
            found[name] = {"kind": "default"}
        elif origin.line is None:
            found[name] = {"kind": "variable", "variable": origin.place}
        else:
            found[name] = {"kind": "file", "file": origin.place, "line": origin.line}
    return found


def _lines(
    settings: Mapping[str, Any], origins: Mapping[str, str], prefix: str = "", indent: str = ""
) -> Iterator[str]:
    """The settings as YAML, with origins as comments."""
    rows: list[tuple[str, str, str, Mapping[str, Any] | None]] = []
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            rows.append((f"{indent}{_scalar(name)}:", "", f"{prefix}{name}.", value))
        else:
            origin = origins.get(prefix + name, "")
            rows.append((f"{indent}{_scalar(name)}: {_scalar(value)}", origin, "", None))
    # One long value must not push the places of all others off the screen.
    lengths = (len(text) for text, origin, _, _ in rows if origin)
    width = max((length for length in lengths if length <= _WIDEST), default=0)
    for text, origin, deeper, value in rows:
        yield f"{text:{width}}  # {visible(origin)}" if origin else text
        if value is not None:
            yield from _lines(value, origins, deeper, indent + "  ")


def _scalar(value: Any) -> str:
    """A value as YAML; JSON is YAML, and ASCII has nothing in it that a terminal acts on."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    import json

    return json.dumps(value)
