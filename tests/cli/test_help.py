"""Help of every command: examples that parse, quickly, and what to do about a slip."""

from __future__ import annotations

import shlex
import sys

import pytest

from orchestrate.cli.group import COMMANDS, command_named
from orchestrate.cli.help_examples import EXAMPLES
from orchestrate.testing import Project
from tests.cli.conftest import start


def progress_of(line: str) -> list[str]:
    """The arguments of the one orchestrate command in a shell line."""
    inner = line.removeprefix('eval "$(').removesuffix(')"')
    words = shlex.split(inner)
    ends = [at for at, word in enumerate(words) if word in (">", "|")]
    assert words[0] == "orchestrate"
    return words[1 : ends[0] if ends else None]


def test_there_are_examples_of_every_command_and_of_no_other() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("name", list(COMMANDS))
def test_examples_parse(name: str) -> None:
    command = command_named(name)
    for line, about in EXAMPLES[name]:
        chosen, *words = progress_of(line)
        assert chosen == name
        command.make_context(name, list(words), obj={"json": False})
        assert about
        assert len(line) <= 78, "it has to fit on a terminal"


@pytest.mark.parametrize("name", ["resume", "fork", "run-step"])
def test_what_is_chosen_at_the_start_is_not_offered_later(name: str) -> None:
    """A fork that was refused for its `--session` was there all the same."""
    offered = {option for param in command_named(name).params for option in param.opts}
    assert "--backend" in offered
    assert "--session" not in offered


def test_help_shows_them_and_loads_no_compiler(project: Project) -> None:
    """All in one process: what one of them loads, all of them are seen to have loaded."""
    script = (
        "import sys\n"
        "from orchestrate.cli.main import run_command\n"
        f"for name in {list(COMMANDS)!r}:\n"
        "    assert run_command([name, '--help']) == 0\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
    )
    done = start(project, [sys.executable, "-c", script])
    assert done.exit_code == 0, done.stderr
    for examples in EXAMPLES.values():
        for line, _ in examples:
            assert f"  {line}\n" in done.stdout
    heavy = ("orchestrate.compile", "orchestrate.source", "orchestrate.dialects", "ruamel.yaml",
             "jsonschema", "rich", "asyncio", "starlette", "uvicorn")  # fmt: skip
    loaded = done.stderr.split()
    assert "orchestrate.cli.commands.run" in loaded
    assert not [m for m in loaded if m in heavy or m.startswith(tuple(f"{h}." for h in heavy))]


def test_help_as_a_word(project: Project) -> None:
    assert project.run("help").stdout == project.run("--help").stdout
    assert project.run("help", "runs").stdout == project.run("runs", "--help").stdout
    assert project.run("help", "rusn").exit_code == 2


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["stauts", "latest"], "status"),
        (["status", "latest", "--jsno"], "--json"),
        (["runs", "--status", "fialed"], "failed"),
        (["run", "tdiy", "--dry-run"], "tidy"),
        (["run", "workflows/tdiy.yaml", "--dry-run"], "workflows/tidy.yaml"),
        (["run", "tidy", "--backend", "rehersal"], "rehearsal"),
        (["schema", "recpie"], "recipe"),
        (["completion", "zhs"], "zsh"),
    ],
)
def test_a_slip_gets_a_suggestion(project: Project, words: list[str], meant: str) -> None:
    done = project.run(*words)
    assert done.exit_code in (2, 5)
    assert f"id you mean '{meant}'?" in done.stderr


def test_a_slip_in_a_run_id_or_a_step_gets_one_too(project: Project) -> None:
    project.write("one.yaml", 'version: "1.1"\nname: one\nsteps:\n- {name: Build, command: [ls]}\n')
    run_id = project.run("run", "one.yaml", "--json").json()["run_id"]
    other = "a" if run_id[-1] != "a" else "b"
    slip = project.run("status", run_id[:-1] + other)
    assert slip.exit_code == 2
    assert f"did you mean '{run_id}'?" in slip.stderr
    assert "did you mean 'Build'?" in project.run("logs", "latest", "Biuld").stderr
    assert (
        "did you mean 'Build'?" in project.run("run-step", "Biuld", "--workflow", "one.yaml").stderr
    )


def test_a_missing_name_says_where_names_are(project: Project) -> None:
    assert "`latest` is the newest run" in project.run("cancel").stderr
    assert "`orchestrate list` shows" in project.run("run").stderr
