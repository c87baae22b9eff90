"""The command as a whole: help, exit codes of accidents, start-up, and what it must not do."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys

import pytest

from orchestrate import __version__
from orchestrate.cli.group import COMMANDS, command_named
from orchestrate.testing import Project
from tests.cli.conftest import MACHINE, ROOT, start
from tests.commands import Command

PYTHON = shlex.quote(sys.executable)


def test_help_lists_every_command(project: Project) -> None:
    result = project.run("--help")
    assert (result.exit_code, result.stderr) == (0, "")
    for name, (_, summary) in COMMANDS.items():
        assert f"  {name}" in result.stdout
        assert summary in " ".join(result.stdout.split())
    assert project.run("-h").stdout == result.stdout


@pytest.mark.parametrize("name", list(COMMANDS))
def test_summaries_in_the_table_are_the_commands_own(project: Project, name: str) -> None:
    command = command_named(name)
    assert command.name == name
    assert command.short_help == COMMANDS[name][1]
    assert project.run(name, "--help").exit_code == 0


def test_version(project: Project) -> None:
    assert project.run("--version").stdout == f"orchestrate, version {__version__}\n"


def test_without_a_command_the_help_is_an_error(project: Project) -> None:
    result = project.run()
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Commands:" in result.stderr


def test_unknown_command_has_a_suggestion(project: Project) -> None:
    result = project.run("vaildate")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no command 'vaildate' (did you mean 'validate'?)" in result.stderr


def loaded_modules(project: Project, *arguments: str) -> set[str]:
    script = (
        "import sys\n"
        "from orchestrate.cli.main import run_command\n"
        f"run_command({list(arguments)!r})\n"
        "print('\\n'.join(sys.modules), file=sys.stderr)\n"
    )
    return set(start(project, [sys.executable, "-c", script]).stderr.split())


def test_help_loads_no_compiler_code(project: Project) -> None:
    for arguments in (["--help"], ["--version"]):
        ours = {m for m in loaded_modules(project, *arguments) if m.startswith("orchestrate")}
        assert ours == {
            "orchestrate",
            "orchestrate.cli",
            "orchestrate.cli.group",
            "orchestrate.cli.main",
            "orchestrate.show",
            "orchestrate.show.inert",
            "orchestrate.show.output",
            "orchestrate.errors",
            "orchestrate.exits",
            "orchestrate.interrupts",
            "orchestrate.record",
            "orchestrate.regex",
        }


def test_accepting_a_file_loads_nothing_heavy(project: Project) -> None:
    loaded = loaded_modules(project, "validate", "workflows/words.yaml")
    assert "orchestrate.compile" in loaded
    heavy = {
        "click",
        "jsonschema",
        "asyncio",
        "importlib.metadata",
        "difflib",
        "subprocess",
        "socket",
    }
    assert not loaded & heavy
    assert not {m for m in loaded if m.startswith("orchestrate.dialects.recipe.lower")}


# What each command is allowed to do to the world: nothing.
_AUDITED = """
import sys
from orchestrate.cli.main import run_command
seen = []
def watch(event, args):
    if event == "open":
        flags = args[2] if isinstance(args[2], int) else 0
        if (flags & 3 or flags & 0o100) and ".coverage" not in str(args[0]):
            seen.append((event, args[0], flags))
    elif event.startswith(("subprocess.", "socket.", "os.exec", "os.fork", "os.posix_spawn",
                           "os.system", "os.spawn", "os.mkdir", "os.remove", "os.rename",
                           "os.rmdir", "os.symlink", "os.link", "os.truncate", "os.chmod",
                           "os.kill", "pty.", "shutil.", "tempfile.", "urllib.", "ctypes.")):
        seen.append((event, args))
sys.addaudithook(watch)
code = run_command(sys.argv[1:])
watched = list(seen)
print(watched, code, file=sys.stderr)
sys.exit(99 if watched else code)
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["validate", "workflows/words.yaml", "tidy", "look", "rebase"], 0),
        (["validate", "broken/tidy.yaml", "nowhere.yaml", "--json"], 2),
        (["plan", "workflows/look.yaml"], 0),
        (["plan", "words", "--format", "dot"], 0),
        (["list"], 0),
        (["schema", "machine"], 0),
        (["run", "words", "--dry-run", "--context", "who=you"], 0),
    ],
)
def test_commands_start_nothing_and_write_nothing(
    project: Project, arguments: list[str], code: int
) -> None:
    before = sorted(project.folder.rglob("*"))
    command = [sys.executable, "-c", _AUDITED, *arguments]
    result = start(project, command, env={"PYTHONDONTWRITEBYTECODE": "1"})
    assert result.exit_code == code, result.stderr
    assert sorted(project.folder.rglob("*")) == before


def test_the_audit_would_notice(project: Project) -> None:
    sly = _AUDITED.replace("code = run", "open('new.txt', 'w').close(); code = run")
    assert start(project, [sys.executable, "-c", sly, "schema"]).exit_code == 99


def test_reader_that_goes_away_is_no_error_to_talk_about(project: Project) -> None:
    many = "\n".join(f"  - {i}" for i in range(20000))
    project.write("big.yaml", f"id: big\nsteps:\n  a: 1\nnonsense:\n{many}\n")
    for arguments in ("schema machine", "plan words --json", "list --json"):
        command = f"{PYTHON} -m orchestrate {arguments} | true; echo ${{PIPESTATUS[0]}}"
        result = start(project, ["bash", "-c", command])
        assert result.stderr == ""
        assert int(result.stdout) in (0, 141)


def test_closed_or_full_output(project: Project) -> None:
    run = f"{PYTHON} -m orchestrate schema machine"
    assert start(project, ["bash", "-c", f"{run} >&-"]).exit_code == 0
    full = start(project, ["bash", "-c", f"{run} > /dev/full"])
    assert full.exit_code == 5
    assert full.stderr.startswith("orchestrate: cannot write the answer")
    again = start(project, ["bash", "-c", f"{PYTHON} -m orchestrate list --json > /dev/full"])
    assert (again.exit_code, again.stderr.count("cannot write the answer")) == (5, 1)


def test_interrupt_exits_with_130(project: Project) -> None:
    script = (
        "import os, signal, sys\n"
        "import orchestrate.compile\n"
        "def interrupt(*_):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "orchestrate.compile.compile_file = interrupt\n"
        "from orchestrate.cli.main import run_command\n"
        "sys.exit(run_command(['validate', 'workflows/tidy.yaml']))\n"
    )
    result = start(project, [sys.executable, "-c", script])
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert "Traceback" not in result.stderr


ZERO = "ZeroDivisionError('by \\x1b[31m zero')"


def crash(project: Project, error: str = ZERO, **environment: str) -> tuple[int, str]:
    script = (
        "import sys\n"
        "import orchestrate.compile\n"
        "def crash(*_):\n"
        f"    raise {error}\n"
        "orchestrate.compile.compile_file = crash\n"
        "from orchestrate.cli.main import run_command\n"
        "sys.exit(run_command(['validate', 'workflows/tidy.yaml']))\n"
    )
    result = start(project, [sys.executable, "-c", script], environment)
    assert "\x1b[31m" not in result.stderr.split("orchestrate: ", 1)[1]
    return result.exit_code, result.stderr


def test_our_own_bug_exits_with_70_in_one_line(project: Project) -> None:
    code, err = crash(project)
    assert code == 70
    assert "unexpected ZeroDivisionError" in err
    assert "report" in err
    assert "Traceback" not in err
    assert "Traceback" in crash(project, ORCHESTRATE_DEBUG="1")[1]


def test_a_broken_disk_is_no_bug_wherever_it_is_met(project: Project) -> None:
    code, err = crash(project, "OSError(5, 'Input/output error', 'some\\x1b[31m/file')")
    assert code == 5
    assert "Input/output error (EIO)" in err
    assert "/file" in err
    assert "hint: the disk reports errors" in err
    assert crash(project, "OSError(22, 'Invalid argument')")[0] == 70


def test_nothing_waits_for_input(project: Project) -> None:
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "orchestrate", "validate", "workflows/tidy.yaml"],
            cwd=project.folder, env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=reading, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(reading)
        os.close(writing)
    assert done.returncode == 0


def test_colour_only_on_a_terminal(project: Project) -> None:
    def on_terminal(**environment: str) -> str:
        main, terminal = os.openpty()
        process = Command(
            "validate", "broken/tidy.yaml", cwd=project.folder, stdout=terminal, stderr=terminal,
            env={**os.environ, "TERM": "xterm", **environment},
        )  # fmt: skip
        os.close(terminal)
        process.wait(60)
        shown = os.read(main, 65536).decode()
        os.close(main)
        return shown

    assert "\x1b[31m" in on_terminal(NO_COLOR="")
    assert "\x1b[" not in on_terminal(NO_COLOR="1")
    assert "\x1b[" not in on_terminal(TERM="dumb")
    assert (
        "\x1b[" not in project.run("validate", "broken/tidy.yaml", env={"FORCE_COLOR": "1"}).stdout
    )


def test_missing_current_folder_is_explained(project: Project) -> None:
    project.write("gone/tidy.yaml", MACHINE)
    script = f"cd gone && rm -r ../gone && {PYTHON} -m orchestrate validate tidy.yaml"
    result = start(project, ["bash", "-c", script])
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


def test_terminated_by_sigterm() -> None:
    # The default action is right; nothing of ours may swallow the signal.
    script = "import os, signal, orchestrate.cli.main; os.kill(os.getpid(), signal.SIGTERM)"
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False
    )
    assert done.returncode == -signal.SIGTERM


DROPPED_WHILE_LOADING = """
import os, signal, sys
class Interrupting:
    def __del__(self):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            list(range(1000))
        except KeyboardInterrupt:
            print("dropped", file=sys.stderr)
            raise
    def find_spec(self, name, path=None, target=None):
        if name == "orchestrate.app.starting.start":
            sys.meta_path.pop(0)
sys.meta_path.insert(0, Interrupting())
from orchestrate.__main__ import main
main()
"""


def test_ctrl_c_that_python_drops_while_it_loads_is_heard(project: Project) -> None:
    project.write(
        "w.yaml",
        """
        version: "1.1"
        name: w
        steps:
          - name: Touch
            command: ["touch", "begun"]
        """,
    )
    done = subprocess.run(
        [sys.executable, "-c", DROPPED_WHILE_LOADING, "run", "w.yaml"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=project.folder,
        check=False,
        capture_output=True,
        text=True,
    )
    assert "dropped" in done.stderr, "the exception was not dropped: nothing is tested"
    assert "Traceback" not in done.stderr
    assert done.returncode == 130, done.stderr
    assert not (project.folder / "begun").exists()
    assert not (project.folder / ".orchestrate" / "runs" / "latest").exists()


INTERRUPTED_WHILE_LOADING = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == loading:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
loading = sys.argv.pop(1)
from orchestrate.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("loading", "code", "told"),
    [
        ("orchestrate.cli.main", -signal.SIGINT, ""),
        ("orchestrate.cli.group", 130, "orchestrate: interrupted\n"),
    ],
)
def test_ctrl_c_while_it_loads_shows_no_traceback(loading: str, code: int, told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_LOADING, loading, "--help"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", told)
