"""Where there is a view and where there are lines; and a view that fails, which ends no run."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.testing import Project
from tests.cli.live.scenes import command, workflow
from tests.cli.live.screens import display

LINES = """\
run RUN starts w.yaml (process N)
[1/1] Only: Running...
[1/1] Only: completed (#s)
run RUN completed"""
VIEW = """\
run RUN starts w.yaml (process N)
✓ demo    #s
  ✓ Only  #s
run RUN completed"""
QUIET = "run RUN starts w.yaml (process N)"


@pytest.fixture
def only(folder: Path) -> Path:
    (folder / "w.yaml").write_text(workflow(command("Only")))
    return folder


@pytest.mark.parametrize(
    ("flags", "environment", "expected"),
    [
        ((), {}, VIEW),
        (("--no-live",), {}, LINES),
        (("--quiet",), {}, QUIET),
        (("--progress",), {}, VIEW),
        ((), {"CI": "true"}, LINES),
        ((), {"CI": "false"}, VIEW),
        ((), {"CI": "true", "ORCHESTRATE_LIVE": "always"}, VIEW),
        (("--live",), {"CI": "true", "ORCHESTRATE_LIVE": "never"}, VIEW),
        ((), {"TERM": "dumb"}, LINES),
    ],
)
def test_view_or_lines(
    only: Path, flags: tuple[str, ...], environment: dict[str, str], expected: str
) -> None:
    with display(only, "run", "w.yaml", *flags, environment=environment) as seen:
        assert seen.finish() == 0
        assert seen.shown == expected
        assert (b"\x1b" in seen.raw) == (expected == VIEW)


def test_the_configuration_switches_it_off(only: Path) -> None:
    (only / ".orchestrate" / "config.yaml").write_text("live: never\n")
    with display(only, "run", "w.yaml") as seen:
        assert seen.finish() == 0
        assert seen.shown == LINES


@pytest.mark.parametrize(
    ("flags", "environment", "why"),
    [
        (("--quiet",), {}, "--quiet asks for something else"),
        (("--json",), {}, "--json asks for something else"),
        ((), {"TERM": "dumb"}, "the terminal cannot move its cursor (TERM)"),
    ],
)
def test_a_view_that_cannot_be_is_refused(
    only: Path, flags: tuple[str, ...], environment: dict[str, str], why: str
) -> None:
    with display(only, "run", "w.yaml", "--live", *flags, environment=environment) as seen:
        assert seen.finish() == 2
        assert f"--live: {why}" in seen.shown
    assert not (only / ".orchestrate" / "runs").exists()


# The terminal's foreground belongs to somebody else, as after `orchestrate run … &`.
IN_BACKGROUND = """
import fcntl, os, signal, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
if os.fork() == 0:
    os.setpgid(0, 0)
    from orchestrate.cli.main import main
    main()
os.wait()
"""


def test_a_job_in_the_background_writes_lines(only: Path) -> None:
    with display(only, "run", "w.yaml", start=IN_BACKGROUND) as seen:
        assert seen.finish() == 0
        assert seen.shown == LINES


BROKEN = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from orchestrate.show.live.drawing import Pen
def fail(*_):
    raise RuntimeError("no ink")
Pen.lines = fail
from orchestrate.cli.main import main
main()
"""


def test_a_view_that_fails_ends_no_run(only: Path) -> None:
    with display(only, "run", "w.yaml", start=BROKEN) as seen:
        assert seen.finish() == 0
        assert "the live view has failed (RuntimeError); the run goes on" in seen.shown
        assert "run RUN completed" in seen.shown
    assert Project(only).latest_state["status"] == "completed"


def test_plain_streams_load_no_rich(only: Path) -> None:
    """It is for the view alone (ADR 0011)."""
    (only / "sitecustomize.py").write_text(
        "import sys\nclass No:\n    def find_spec(self, name, *_):\n"
        "        if name == 'rich': raise RuntimeError('rich is loaded')\n"
        "sys.meta_path.insert(0, No())\n"
    )
    said = Project(only).spawn("run", "w.yaml", "--progress", env={"PYTHONPATH": str(only)})
    assert said.exit_code == 0, said.stderr
    assert Project(only).spawn("attach", "latest", env={"PYTHONPATH": str(only)}).exit_code == 0
