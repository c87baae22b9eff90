"""`run` and `resume` are read without click where that is easy, and alike."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click import Context

from orchestrate.app.given.settings import FLAGS, FLAGS_OF
from orchestrate.app.reading.open_run import newest_document
from orchestrate.cli import plain_line
from orchestrate.cli.commands import resume, run, status
from orchestrate.cli.main import run_command
from orchestrate.state.runs import Run
from orchestrate.testing import Project
from tests.structure.test_startup import loaded_by

Call = tuple[tuple[Any, ...], dict[str, Any]]
SWITCHES = [row.option for row in FLAGS.values() if row.kind == "switch" and row.group != "none"]


class Heard:
    """Stands for the function that carries a command out, and keeps what it was given."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def __call__(self, *given: Any, **named: Any) -> int:
        defaults = {
            "repair": False,
            "as_started": False,
            "edits": (False, (), ()),
            "force_restart": False,
        }
        # A context of click's is for `status --watch` alone.
        self.calls.append((tuple(v for v in given if not isinstance(v, Context)), defaults | named))
        return 0


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    heard = Heard()
    for module in (plain_line, run):
        monkeypatch.setattr(module, "_run_recipe", heard)
    for module in (plain_line, status):
        monkeypatch.setattr(module, "_show_status", heard)
    for module in (plain_line, resume):
        monkeypatch.setattr(module, "_resume_run", heard)
    monkeypatch.delenv("ORCHESTRATE_DEBUG", raising=False)
    return heard


def lines() -> list[list[str]]:
    """Each switch alone and with another, and all ways to name a file, a text and a run."""
    named = [
        ["run", "w.yaml"], ["run", "w.yaml", "some text"], ["resume"], ["resume", "latest"],
        ["resume", "2026"], ["run", ""],
    ]  # fmt: skip
    found = [
        *named,
        ["status"],
        ["status", "2026"],
        ["status", "--json"],
        ["status", "x", "--json"],
    ]
    for name, switch in itertools.product(named, [*SWITCHES, "--json"]):
        row = FLAGS.get(switch[2:].replace("-", "_"))
        if row is not None and row.group not in FLAGS_OF[name[0]]:
            continue
        found += [[*name, switch], [name[0], switch, *name[1:], "--quiet"]]
    return found


def test_it_is_read_as_click_reads_it(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = 0
    for line in lines():
        assert run_command(line) == 0
        is_plain = plain_line._read(line) is not None
        plain += is_plain
        with monkeypatch.context() as patch:
            patch.setattr("orchestrate.cli.plain_line._read", lambda _: None)
            assert run_command(line) == 0
        by_click, by_us = heard.calls.pop(), heard.calls.pop()
        assert [v for v in by_us[0] if v is not None or line[0] != "status"] == [*by_click[0]], line
        assert by_us[1] == by_click[1], line
    assert plain > 100


@pytest.mark.parametrize(
    "line",
    [
        ["run"], ["run", "--help"], ["run", "w.yaml", "--dry-run"], ["run", "w.yaml", "-v"],
        ["run", "w.yaml", "--raw"], ["run", "w.yaml", "--quie"], ["run", "w.yaml", "--backend=x"],
        ["run", "a", "b", "c"], ["run", "--", "w.yaml"], ["run", "-"], ["resume", "a", "b"],
        ["resume", "--clean-processed"], ["resume", "--repair"], ["status", "--watch"],
        ["status", "--quiet"], ["status", "a", "b"], ["run", "w", "--max-steps", "3"],
    ],
)  # fmt: skip
def test_any_other_line_is_left_to_click(line: Sequence[str]) -> None:
    assert plain_line._read(line) is None


def test_a_variable_that_sets_a_flag_is_clicks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHESTRATE_DEBUG", "1")
    assert plain_line._read(["run", "w.yaml"]) is None


# What takes long to load, and a run of commands has no use for.
NOT_FOR_ONE_COMMAND = (
    "click", "filelock", "inspect", "dataclasses", "logging", "platform", "_hashlib", "random",
    "concurrent.futures", "socket", "tempfile", "uuid", "jsonschema", "rich",
    "orchestrate.agents.adapter",
    "ruamel.yaml.main", "datetime", "string", "orchestrate.serve", "orchestrate.fleet",
    "orchestrate.checkpoints.store", "orchestrate.engine.checkpoints",
)  # fmt: skip


def test_a_run_of_one_command_loads_little(tmp_path: Path) -> None:
    steps = "steps:\n  - {name: Do, command: [echo, done]}\n"
    (tmp_path / "w.yaml").write_text(f'version: "1.1"\nname: one\n{steps}')
    loaded = loaded_by(tmp_path, "run", "w.yaml", "--quiet")
    assert "orchestrate.engine.scheduler" in loaded
    assert not loaded & {*NOT_FOR_ONE_COMMAND}


def test_a_resume_of_one_command_loads_no_more(tmp_path: Path) -> None:
    steps = "steps:\n  - {name: Do, command: [test, -f, mended]}\n"
    project = Project(tmp_path, {"w.yaml": f'version: "1.1"\nname: one\n{steps}'})
    project.run("run", "w.yaml").assert_exit(1)
    (tmp_path / "mended").touch()
    loaded = loaded_by(tmp_path, "resume", "--quiet")
    assert "orchestrate.engine.scheduler" in loaded
    assert not loaded & {*NOT_FOR_ONE_COMMAND}


def test_a_resume_reads_what_was_started_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state of a long run is megabytes of JSON."""
    steps = "steps:\n  - {name: Do, command: [test, -f, mended]}\n"
    project = Project(tmp_path, {"w.yaml": f'version: "1.1"\nname: one\n{steps}'})
    project.run("run", "w.yaml").assert_exit(1)
    (tmp_path / "mended").touch()
    read: list[Run] = []

    def count(run: Run) -> dict[str, Any]:
        read.append(run)
        return newest_document(run)

    monkeypatch.setattr("orchestrate.app.reading.open_run.newest_document", count)
    project.run("resume").assert_success()
    assert len(read) == 1
