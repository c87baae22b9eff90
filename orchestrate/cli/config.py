"""Settings that are not written in a recipe: flag > ORCHESTRATE_* > workspace > user > default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.errors import ConfigError, DefinitionError
from orchestrate.record import field, record

if TYPE_CHECKING:
    from orchestrate.plan.nodes import Program
    from orchestrate.workspace import Workspace

FILE = Path(".orchestrate") / "config.yaml"
# Names that may also be set by a variable of the environment, with the kind of their value.
_VARIABLES: dict[str, type] = {
    "backend": str,
    "model": str,
    "permissions": str,
    "max_parallel": int,
    "step_timeout": float,
    "silence_timeout": float,
    "keep_runs": int,
    "state_dir": str,
    "log_level": str,
}
_INVALID = 5


@record
class Config:
    """Values by name, and where each comes from."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def get(self, name: str, given: Any = None) -> Any:
        """The value of a flag if it was given, else what the configuration says, else None."""
        return given if given not in (None, ()) else self.values.get(name)

    def agent(self, name: str) -> Mapping[str, Any]:
        """How an agent's program is started here (`agents:`)."""
        found: Mapping[str, Any] = (self.values.get("agents") or {}).get(name) or {}
        return found


def load_config(workspace: Workspace, environment: Mapping[str, str] = os.environ) -> Config:
    """All configuration there is; a file that does not fit its schema is refused, with places."""
    config = Config()
    for path in (user_file(environment), workspace.root / FILE):
        if path is None or not os.path.lexists(path):
            continue
        for name, value in _read(path, workspace).items():
            config.values[name] = value
            config.origins[name] = workspace.display(path)
    for name, kind in _VARIABLES.items():
        variable = f"ORCHESTRATE_{name.upper()}"
        text = environment.get(variable, "")
        if text:
            config.values[name] = _typed(variable, text, kind)
            config.origins[name] = variable
    return config


def with_defaults(program: Program, defaults: Mapping[str, Any]) -> Program:
    """What the configuration says where neither the recipe nor a flag does."""
    from orchestrate.plan import override

    if "step_timeout" in defaults:
        program = override.with_step_timeout(program, float(defaults["step_timeout"]))
    if "max_parallel" in defaults:
        program = override.with_max_parallel(program, int(defaults["max_parallel"]))
    if "model" in defaults:
        program = override.with_default_model(program, str(defaults["model"]))
    return program


def user_file(environment: Mapping[str, str]) -> Path | None:
    """The user's own configuration, where XDG puts it."""
    given = environment.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(given):
        return Path(given) / "orchestrate" / "config.yaml"
    home = environment.get("HOME", "")
    return Path(home) / ".config" / "orchestrate" / "config.yaml" if os.path.isabs(home) else None


def _typed(variable: str, text: str, kind: type) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"{variable} is '{text}', which is not a number") from None


def _read(path: Path, workspace: Workspace) -> dict[str, Any]:
    from orchestrate.diagnostics import Diagnostic
    from orchestrate.source.breaks import unify_line_ends
    from orchestrate.source.include import Document
    from orchestrate.source.located import Sources, pack
    from orchestrate.source.reader import ReadFault, read_source
    from orchestrate.source.schema import check_shipped
    from orchestrate.source.yaml import parse_yaml

    sources = Sources()
    faults: list[ReadFault] = []
    data: Any = None
    try:
        source = read_source(path, workspace.display(path))
        source.text = unify_line_ends(source.text)
        sources.register(source)
        data = parse_yaml(source.text, 0, faults.append)
    except ReadFault as fault:
        if fault.code == "E005":  # only comments: every line is optional
            return {}
        faults.append(fault)
    if faults and not sources.files:
        raise ConfigError(f"{workspace.display(path)}: {faults[0].message}", faults[0].hint)
    found: list[Diagnostic] = [
        sources.diagnostic(f.code, f.message, sources.span(pack(0, f.line, f.column)), hint=f.hint)
        for f in faults
    ]
    if not found:
        if not isinstance(data, dict):
            raise ConfigError(f"{workspace.display(path)} is not a mapping", "e.g. backend: codex")
        from orchestrate.source.explain import explain

        document = Document(path, data, sources)
        explained = (explain(document, violation) for violation in check_shipped("config", data))
        found = [diagnostic for diagnostic in explained if diagnostic is not None]
    if found:
        raise DefinitionError(tuple(found), _INVALID)
    return dict(data)
