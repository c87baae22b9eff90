"""The one table of flags: everything that has to agree about a flag is derived from its row."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

import orchestrate
from orchestrate.app.config.apply_flags import configured
from orchestrate.app.config.load import load_config
from orchestrate.app.given.settings import FLAGS, RunSettings, settings_of
from orchestrate.cli.commands.resume import resume
from orchestrate.cli.commands.run import run
from orchestrate.cli.commands.run_step import run_step
from orchestrate.errors import UsageError
from orchestrate.plan import override
from orchestrate.plan.nodes import plan_of
from orchestrate.record import field_names, replace
from orchestrate.workspace import open_workspace, package_data
from tests.cli.conftest import MACHINE
from tests.unit.plans import every_kind

PROGRAM = every_kind()
SCHEMA = json.loads((package_data() / "schemas" / "config.schema.json").read_text("utf-8"))
VALUES = {"text": "x", "optional text": "", "texts": ("A",), "whole": 7, "amount": 0.0,
          "duration": 9.0, "switch": True, "pair": True}  # fmt: skip


def a_value_of(name: str) -> Any:
    row = FLAGS[name]
    return row.choices[0] if row.kind == "choice" else VALUES[row.kind]


@pytest.mark.parametrize("main", ["machine.yaml", "r.yaml", "w.yaml"])
@pytest.mark.parametrize("name", list(FLAGS))
def test_a_flag_that_cannot_apply_is_refused(name: str, main: str) -> None:
    program = replace(PROGRAM, main=main, plans=(plan_of(PROGRAM, main),))
    dialect = plan_of(program, main).dialect
    settings = RunSettings(**{name: a_value_of(name)})
    if (name, dialect) == ("backend", "workflow"):
        # Its steps name their agents; only a rehearsal stands in for them.
        RunSettings(backend="rehearsal").check(program)
    elif dialect in FLAGS[name].dialects:
        settings.check(program)
        return
    with pytest.raises(UsageError, match=f"{FLAGS[name].option}.* cannot be used with a {dialect}"):
        settings.check(program)


def test_a_flag_for_what_is_called_applies() -> None:
    """A workflow that calls a machine can be told the model of its steps."""
    RunSettings(model="opus", max_restarts=1).check(replace(PROGRAM, main="w.yaml"))
    with pytest.raises(UsageError, match="--session cannot be used with a workflow"):
        RunSettings(session="x").check(replace(PROGRAM, main="w.yaml"))


@pytest.mark.parametrize("name", [name for name, row in FLAGS.items() if row.kept])
def test_a_kept_flag_survives_the_state_and_holds_for_a_resume(name: str) -> None:
    given = RunSettings(**{name: a_value_of(name)})
    stored = json.loads(json.dumps(given.kept()))
    assert list(stored) == [name]
    assert settings_of(stored) == given
    assert RunSettings(quiet=True).over(settings_of(stored)) == replace(given, quiet=True)
    assert given.over(RunSettings()) == given


def test_what_is_not_kept_leaves_no_trace() -> None:
    others: dict[str, Any] = {name: a_value_of(name) for name, row in FLAGS.items() if not row.kept}
    assert {"context", "debug", "quiet", "live", "detach", "clean_processed"} <= set(others)
    assert RunSettings(**others).kept() == {}
    assert settings_of(others) == RunSettings()


def test_what_a_newer_version_keeps_is_left_aside() -> None:
    assert settings_of({"model": "opus", "colour": "red"}) == RunSettings(model="opus")


def test_zero_and_an_empty_name_were_given() -> None:
    settings = RunSettings(max_restarts=0, retry_delay=0, silence_timeout=0.0, archive_processed="")
    assert set(settings.kept()) == {
        "max_restarts", "retry_delay", "silence_timeout", "archive_processed",
    }  # fmt: skip


def test_every_flag_of_the_plan_has_its_override() -> None:
    for name, row in FLAGS.items():
        assert (row.group == "plan") <= callable(getattr(override, f"with_{name}", None)), name


def test_the_commands_have_the_options_of_the_table() -> None:
    for command, without in (
        (run, {"none"}),
        (resume, {"none", "queue", "worktree", "fleet", "start"}),
        (run_step, {"none", "queue", "concurrency", "worktree", "detach", "fleet", "start"}),
    ):
        options = {p.name: p for p in command.params if isinstance(p, click.Option)}
        for name, row in FLAGS.items():
            assert (name in options) == (row.group not in without), (command.name, name)
            if name in options:
                assert options[name].help == row.help
                assert row.option in options[name].opts


@pytest.mark.parametrize("name", [name for name, row in FLAGS.items() if row.key is not None])
def test_a_configuration_key_is_in_the_schema(name: str) -> None:
    field = SCHEMA["properties"][name]
    row = FLAGS[name]
    kinds = {"string": str, "integer": int, "number": float}
    kind = field.get("type")
    if row.kind == "duration":
        assert kind == ["number", "string"]
        kind = "number"
    assert row.key is (str if "enum" in field else kinds[kind])
    if row.choices:
        assert field["enum"] == list(row.choices)


def test_a_key_holds_where_no_flag_was_given(tmp_path: Path) -> None:
    (tmp_path / ".orchestrate").mkdir()
    settings = {name: row.choices[0] if row.choices else {str: "codex", int: 3, float: 5.0}[row.key]
                for name, row in FLAGS.items() if row.key is not None}  # fmt: skip
    settings |= {"model": "opus", "live": "never"}
    text = "".join(f"{name}: {value}\n" for name, value in settings.items())
    (tmp_path / ".orchestrate" / "config.yaml").write_text(text)
    config = load_config(open_workspace(tmp_path), {})
    found = configured(RunSettings(backend="gemini"), config)
    assert found.backend == "gemini"
    assert found.live is None
    for name, row in FLAGS.items():
        if row.key is not None and name not in ("backend", "live"):
            where = (
                found.defaults
                if row.group == "plan"
                else found.kept() | {"log_level": found.log_level}
            )
            assert where[name] == settings[name]
    variables = {f"ORCHESTRATE_{name.upper()}": str(value) for name, value in settings.items()}
    assert load_config(open_workspace(tmp_path), variables).values == settings
    assert configured(RunSettings(), load_config(open_workspace(tmp_path), variables)) == replace(
        found, backend="codex"
    )


def test_the_record_has_six_fields_that_are_no_flags() -> None:
    besides = {"defaults", "agents", "run_step", "seat", "lost_with", "sessions_here"}
    assert set(field_names(RunSettings())) - set(FLAGS) == besides


ROW = """    favourite: str | None = flag(
        "agents", "choice", kept=True, metavar="COLOUR", choices=("red", "blue"),
        dialects=("machine",), help="A colour that is kept.",
    )
    backend: str"""
WORKFLOW = """\
version: "1.1"
name: look
steps:
  - {name: Look, command: ["true"]}
"""


def test_a_new_flag_is_one_row(tmp_path: Path) -> None:
    """As a contributor would: one row is added to a copy of the package, and nothing else."""
    package = Path(orchestrate.__file__).parent
    shutil.copytree(package, tmp_path / "orchestrate", ignore=shutil.ignore_patterns("__pycache__"))
    for data in ("schemas", "workflows", "docs"):
        (tmp_path / data).symlink_to(package.parent / data)
    table = tmp_path / "orchestrate" / "app" / "given" / "settings.py"
    table.write_text(table.read_text("utf-8").replace("    backend: str", ROW, 1), "utf-8")
    project = tmp_path / "project"
    (project / ".orchestrate").mkdir(parents=True)
    (project / "m.yaml").write_text(MACHINE)
    (project / "w.yaml").write_text(WORKFLOW)

    def call(*words: str) -> tuple[int, str]:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NO_COLOR": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "orchestrate", *words], cwd=project, env=environment,
            capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    for command in ("run", "resume", "run-step", "watch"):
        assert "--favourite COLOUR" in call(command, "--help")[1]
    refused = call("run", "w.yaml", "--favourite", "red")[1]
    assert "--favourite cannot be used with a workflow" in refused
    code, told = call("run", "m.yaml", "--backend", "rehearsal", "--favourite", "blue", "--json")
    assert code == 0, told
    (folder,) = (project / ".orchestrate" / "runs").glob("2*")
    assert json.loads((folder / "state.json").read_bytes())["settings"]["favourite"] == "blue"
    script = (
        "from orchestrate.app.reading.open_run import find_stored, header_of\n"
        "from orchestrate.view.place import Place\n"
        "print(header_of(find_stored('latest', Place())[1]).settings.favourite)\n"
        "from orchestrate.cli.completing import complete\n"
        "print([item.value for item in complete(['run', '--favourite', ''], 'zsh')[1]])\n"
        "from docs.commands import command_text\n"
        "print('--favourite' in command_text('run'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, capture_output=True, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert done.stdout.split("\n")[:3] == ["blue", "['red', 'blue']", "True"], done.stderr
