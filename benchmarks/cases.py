"""The benchmarks themselves: what is run, what it is held against, and the ratio to reach."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from _ruamel_yaml import CParser
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from benchmarks.measure import Sample, Subject, call, interleave, peak_memory, process
from orchestrate.compile import compile_file, require_program
from orchestrate.source.schema import check_shipped, load_schema
from orchestrate.source.yaml import parse_yaml
from orchestrate.workspace import open_workspace

# The figures to reach, as the design sets them.
START_UP = 1.3
SMALL_FILE = 2.0
LARGE_FILE = 1.5
ONE_STEP_RUN = 2.5

_PARTS = ("parse_yaml", "ruamel safe (C)", "json.loads", "check_shipped", "jsonschema")
IMPORT_CLICK = "python -c 'import click'"
_ONE_STEP = """\
version: "1.1"
name: one
steps:
  - name: Step
    command: ["true"]
"""
_LOAD_ONLY = """\
import sys
from pathlib import Path
from ruamel.yaml import YAML
YAML(typ="safe").load(Path(sys.argv[1]).read_text("utf-8"))
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """Where the benchmarks run: generated files by dialect and size, and how often."""

    folder: Path
    env: Mapping[str, str]
    small: dict[str, Path]
    large: dict[str, Path]
    rounds: int


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. Without `reach` it is there for context."""

    measured: str
    baseline: str
    unit: str
    value: float
    base_value: float
    reach: float | None = None
    cpu_ratio: float | None = None

    @property
    def ratio(self) -> float:
        return self.value / self.base_value

    @property
    def is_over(self) -> bool:
        return self.reach is not None and self.ratio > self.reach


@dataclass(frozen=True, slots=True)
class Benchmark:
    title: str
    run: Callable[[Setting], list[Row]]


def measure_start_up(setting: Setting) -> list[Row]:
    """`--help` and `--version`, which load no compiler."""
    subjects = [_click(setting)]
    for shown, command in _commands().items():
        subjects += [
            _process(setting, f"{shown} {flag}", *command, flag) for flag in ("--help", "--version")
        ]
    taken = interleave(subjects, setting.rounds)
    return _against(taken, IMPORT_CLICK, START_UP)


def measure_small_files(setting: Setting) -> list[Row]:
    """`validate` of a file of ordinary size, in each dialect."""
    subjects = [_click(setting)]
    for shown, command in _commands().items():
        subjects += [
            _process(setting, f"{shown} validate {path.name}", *command, "validate", path.name)
            for path in setting.small.values()
        ]
    taken = interleave(subjects, setting.rounds)
    return _against(taken, IMPORT_CLICK, SMALL_FILE)


def measure_commands(setting: Setting) -> list[Row]:
    """Commands about one run of one step, and that run itself."""
    setting.folder.joinpath("one.yaml").write_text(_ONE_STEP, "utf-8")
    words = {"run": ["run", "one.yaml"], "run --dry-run": ["run", "--dry-run", "one.yaml"]}
    words |= {name: [name] for name in ("status", "runs", "logs")}
    subjects = [_click(setting)]
    subjects += [_process(setting, name, *_module(), *given) for name, given in words.items()]
    taken = interleave(subjects, setting.rounds)
    reach = {"run": ONE_STEP_RUN}
    return [_compare(taken, name, IMPORT_CLICK, reach.get(name)) for name in words]


def measure_large_files(setting: Setting) -> list[Row]:
    """`validate` of a large file against merely loading it, in one process and as a process."""
    rows = []
    for path in setting.large.values():
        compiled, loaded = f"compile_file {path.name}", f"ruamel safe (C) {path.name}"
        validate, load = f"validate {path.name}", f"python: ruamel safe (C) {path.name}"
        taken = interleave(
            [
                call(compiled, partial(_compile, path)),
                call(loaded, partial(load_with_c_part, path)),
                _process(setting, validate, *_module(), "validate", path.name),
                _process(setting, load, sys.executable, "-c", _LOAD_ONLY, path.name),
            ],
            setting.rounds,
        )
        rows += [
            _compare(taken, compiled, loaded, LARGE_FILE),
            _compare(taken, validate, load, LARGE_FILE),
            _compare(taken, validate, loaded),
        ]
    return rows


def measure_parts(setting: Setting) -> list[Row]:
    """What the stages of a large file cost beside other ways to do the same."""
    rows = []
    for dialect, path in setting.large.items():
        text = path.read_text("utf-8")
        data = parse_yaml(text, 0, _refuse)
        plain = json.dumps(data)
        version = str(data.get("version", "")) if dialect == "workflow" else ""
        validator = Draft202012Validator(load_schema(dialect))
        names = {word: f"{word} {path.name}" for word in _PARTS}
        taken = interleave(
            [
                call(names["parse_yaml"], partial(parse_yaml, text, 0, _refuse)),
                call(names["ruamel safe (C)"], partial(load_with_c_part, path)),
                call(names["json.loads"], partial(json.loads, plain)),
                call(names["check_shipped"], _checking(dialect, data, version)),
                call(names["jsonschema"], partial(validator.is_valid, data)),
            ],
            setting.rounds,
        )
        rows += [
            _compare(taken, names["parse_yaml"], names["ruamel safe (C)"]),
            _compare(taken, names["parse_yaml"], names["json.loads"]),
            _compare(taken, names["check_shipped"], names["jsonschema"]),
            _compare(taken, names["check_shipped"], names["parse_yaml"]),
        ]
    return rows


def measure_memory(setting: Setting) -> list[Row]:
    """The peak of a whole `validate` beside that of a process that only loads the file."""
    click = peak_memory([sys.executable, "-c", "import click"], setting.folder, setting.env)
    rows = []
    for path in (*setting.small.values(), *setting.large.values()):
        validate = [*_module(), "validate", path.name]
        rows.append(
            Row(
                f"validate {path.name}",
                IMPORT_CLICK,
                "MB",
                peak_memory(validate, setting.folder, setting.env),
                click,
            )
        )
        if path in setting.large.values():
            load = [sys.executable, "-c", _LOAD_ONLY, path.name]
            loaded = peak_memory(load, setting.folder, setting.env)
            rows.append(
                Row(rows[-1].measured, "python: ruamel safe (C)", "MB", rows[-1].value, loaded)
            )
    return rows


BENCHMARKS = {
    "startup": Benchmark("Start-up", measure_start_up),
    "small": Benchmark("validate of a file with 10 steps", measure_small_files),
    "commands": Benchmark("A run of one step, and commands about it", measure_commands),
    "large": Benchmark("validate of a large file", measure_large_files),
    "parts": Benchmark("The stages of a large file (context)", measure_parts),
    "memory": Benchmark("Peak memory (context)", measure_memory),
}


def require_c_part() -> None:
    """The comparison means nothing when ruamel.yaml runs without its C part."""
    if YAML(typ="safe").Parser is not CParser:
        raise RuntimeError("ruamel.yaml does not use its C part; install ruamel.yaml.clib")


def load_with_c_part(path: Path) -> Any:
    """What many tools do first: ruamel's safe loader over libyaml."""
    return YAML(typ="safe").load(path.read_text("utf-8"))


def _compile(path: Path) -> object:
    return require_program(compile_file(path, open_workspace(path.parent)))


def _checking(dialect: str, data: Any, version: str) -> Callable[[], object]:
    def check() -> object:
        found = check_shipped(dialect, data, version)
        if found:
            raise RuntimeError(f"the generated {dialect} is invalid: {found[0]}")
        return found

    return check


def _refuse(fault: Exception) -> None:
    raise fault


def _module() -> list[str]:
    return [sys.executable, "-m", "orchestrate"]


def _commands() -> dict[str, list[str]]:
    """The command as a module, and as the script that users type where it is installed."""
    script = Path(sys.executable).parent / "orchestrate"
    found = {"python -m orchestrate": _module()}
    return found | {"orchestrate": [str(script)]} if script.is_file() else found


def _process(setting: Setting, name: str, *argv: str) -> Subject:
    return process(name, argv, setting.folder, setting.env)


def _click(setting: Setting) -> Subject:
    return _process(setting, IMPORT_CLICK, sys.executable, "-c", "import click")


def _against(taken: dict[str, Sample], baseline: str, reach: float) -> list[Row]:
    return [_compare(taken, name, baseline, reach) for name in taken if name != baseline]


def _compare(
    taken: dict[str, Sample], measured: str, baseline: str, reach: float | None = None
) -> Row:
    ours, theirs = taken[measured], taken[baseline]
    return Row(
        measured,
        baseline,
        "ms",
        ours.wall_s * 1000,
        theirs.wall_s * 1000,
        reach,
        ours.cpu_s / theirs.cpu_s if theirs.cpu_s else None,
    )
