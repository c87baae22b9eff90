"""A command in the test's own process says and does what a spawned one does, and leaves nothing."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrate.testing import Project, Result, TookTooLong
from tests.cli.conftest import MACHINE, MISTAKE, RECIPE
from tests.promises.processes import keepers_in, wait_until

WORKFLOW = """
version: "1.1"
name: counts
context: {who: world}
steps:
  - name: List
    command: [ls, prompts]
    output_capture: lines
  - name: Greet
    command: [sh, -c, 'echo "hello ${context.who}"; echo oh >&2']
  - name: Judge
    command: [test, -e, may-pass]
"""
SLOW = """
version: "1.1"
steps:
  - {name: Slow, command: [sh, -c, "touch started; sleep 60"]}
"""
FILES = {
    "words.yaml": WORKFLOW,
    "tidy.yaml": MACHINE,
    "look.yaml": RECIPE,
    "broken.yaml": MISTAKE,
    "slow.yaml": SLOW,
    "prompts/ask.md": "Why?\n",
    "waits.yaml": "first: [waits]\n",
    ".orchestrate/agents/reader.md": "---\nname: reader\n---\nYou read.\n",
}
# Each dialect's own commands, in order: a run that fails or parks, and what is done about it.
RUNS: dict[str, list[tuple[str, ...]]] = {
    "words.yaml": [("run", "words.yaml", "--quiet"), ("resume", "latest", "--json")],
    "tidy.yaml": [("run", "tidy.yaml", "--backend", "rehearsal")],
    "look.yaml": [
        ("run", "look.yaml", "--backend", "rehearsal", "--script", "waits.yaml"),
        ("approvals",),
        ("approve", "latest"),
        ("resume", "latest"),
    ],
}
AFTERWARDS: list[tuple[str, ...]] = [
    ("status", "latest"),
    ("status", "latest", "--json"),
    ("logs", "latest"),
    ("runs",),
    ("runs", "--json"),
    ("report", "latest", "--format", "md"),
    ("plan", "latest"),
]
CHANGING = [
    (r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
    (r"\d{8}T\d{6}Z-[a-z0-9]{6}", "RUN"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+Z?)?)?", "TIME"),
    (r"""(["']?(?:pid|seconds|at|\w+_ms|\w+_s|\w+Ms|\w+_at)["']?(?:=|: ))[\d.]+""", r"\1N"),
    (r"\(process \d+\)", "(process N)"),
    (r"\d+(\.\d+)? ?(s|ms)\b", "N s"),
    (r"\b\d{13}\b", "MS"),
    # A report's timeline.
    (r"(?m)\|[^|\w\n]*w*[^|\w\n]*\|$", "| LINE |"),
    (r" +", " "),
]


def alike(text: str, folder: Path) -> str:
    """A text without what no two runs have in common."""
    text = text.replace(folder.name, "FOLDER")
    for pattern, word in CHANGING:
        text = re.sub(pattern, word, text)
    return text


@pytest.fixture
def both(tmp_path: Path) -> Callable[..., Result]:
    """Gives a command both ways, each in a project of its own, and compares what came of it."""
    here, there = (Project(tmp_path / name, FILES) for name in ("project-here", "project-away"))

    def compare(*arguments: str, **env: str) -> Result:
        ran, spawned = here.run(*arguments, env=env), there.spawn(*arguments, env=env)
        assert ran.exit_code == spawned.exit_code, (ran, spawned)
        assert alike(ran.stdout, here.folder) == alike(spawned.stdout, there.folder)
        assert alike(ran.stderr, here.folder) == alike(spawned.stderr, there.folder)
        return ran

    return compare


@pytest.mark.parametrize("name", RUNS)
def test_runs_and_looking_at_them(both: Callable[..., Result], name: str) -> None:
    for words in (("validate", name), ("plan", name), *RUNS[name], *AFTERWARDS):
        both(*words)


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        (),
        ("list",),
        ("list", "--json"),
        ("validate", "broken.yaml"),
        ("validate", "--format", "json", "words.yaml", "broken.yaml"),
        ("run", "broken.yaml", "--json"),
        ("run", "missing.yaml"),
        ("run", "words.yaml", "--no-such-flag"),
        ("status", "latest"),
        ("config",),
        ("schema", "workflow"),
        ("doctor", "--json"),
    ],
    ids=" ".join,
)
def test_answers_and_refusals(both: Callable[..., Result], words: tuple[str, ...]) -> None:
    both(*words)


def test_an_interrupted_run(tmp_path: Path) -> None:
    """The test is the process that hears Ctrl-C."""
    here, there = (Project(tmp_path / name, FILES) for name in ("project-here", "project-away"))

    def interrupt(folder: Path, pid: int) -> None:
        wait_until((folder / "started").exists, "the step never started")
        os.kill(pid, signal.SIGINT)

    helper = threading.Thread(target=interrupt, args=(here.folder, os.getpid()))
    helper.start()
    ran = here.run("run", "slow.yaml")
    helper.join()
    with there.background("run", "slow.yaml") as process:
        interrupt(there.folder, process.pid)
        out, err = process.communicate(timeout=60)
    assert ran.exit_code == process.returncode == 130
    assert alike(ran.stdout, here.folder) == alike(out, there.folder)
    assert alike(ran.stderr, here.folder) == alike(err, there.folder)


def test_variables_reach_the_command_and_its_programs(both: Callable[..., Result]) -> None:
    """Also the zone of the clock, which the C library keeps."""
    zone = time.tzname
    both("config", ORCHESTRATE_BACKEND="rehearsal")
    both("run", "words.yaml", GITHUB_ACTIONS="true", TZ="Asia/Tokyo")
    both("status", "latest", TZ="Asia/Tokyo")
    assert "ORCHESTRATE_BACKEND" not in os.environ
    assert time.tzname == zone


def state_of_process() -> dict[str, object]:
    mask = os.umask(0o077)
    os.umask(mask)
    return {
        "folder": os.getcwd(),
        "variables": dict(os.environ),
        "words": list(sys.argv),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "signals": [signal.getsignal(number) for number in sorted(signal.valid_signals())],
        "mask": mask,
        "threads": set(threading.enumerate()),
        "descriptors": sorted(os.listdir("/dev/fd")),
        "timer": signal.getitimer(signal.ITIMER_REAL),
    }


def test_nothing_of_a_command_is_left(tmp_path: Path) -> None:
    project = Project(tmp_path, FILES)
    project.run("run", "words.yaml")
    before = state_of_process()
    for words in (
        ("validate", "broken.yaml"),
        ("run", "words.yaml", "--raw"),
        ("run", "tidy.yaml", "--backend", "rehearsal"),
        ("run", "look.yaml", "--backend", "rehearsal"),
        ("logs", "latest", "--json"),
        ("no-such-command",),
    ):
        project.run(*words)
        assert state_of_process() == before, words
    wait_until(lambda: not keepers_in(tmp_path), "a keeper is left")


def test_a_command_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    project = Project(tmp_path, FILES)
    before = state_of_process()
    with pytest.raises(TookTooLong):
        project.run("run", "slow.yaml", timeout_s=5)
    assert state_of_process() == before


def test_what_is_said_once_a_command_is_said_by_the_next_one_too(tmp_path: Path) -> None:
    project = Project(tmp_path, FILES)
    project.run("run", "words.yaml")
    project.write(".orchestrate/config.yaml", "no_such_setting: 1\n")
    for _ in range(2):
        assert "the configuration is ignored" in project.run("runs").stderr


def test_a_thread_and_a_detached_run_get_a_process(tmp_path: Path) -> None:
    project = Project(tmp_path, FILES)
    results: list[Result] = []
    threads = [
        threading.Thread(target=lambda: results.append(project.run("validate", "words.yaml")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.exit_code for result in results] == [0, 0]
    detached = project.run("run", "tidy.yaml", "--backend", "rehearsal", "-d").assert_success()
    project.run("wait", detached.stdout.strip()).assert_success()
