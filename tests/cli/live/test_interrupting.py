"""Ctrl-C at any moment, signals, terminals that stop or go away: `resume` can always go on."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from orchestrate.state.locks import is_held
from orchestrate.testing import Project
from tests.cli.live.scenes import (
    command,
    give_sign,
    loop,
    workflow,
)
from tests.cli.live.screens import Display, display

SLOW = workflow(
    command("First"),
    loop("Work", 3, command("Step", "at it", sign="go")),
    command("Last"),
)
# Moments of a run that takes about a second from the command to its first program.
DELAYS = [number * 0.06 for number in range(15)]
# From there on a signal is ours to tell.
SAYS_THAT_IT_BEGAN = """
import fcntl, pathlib, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from orchestrate.cli import main
dispatch = main._dispatch
def say_and_dispatch(*arguments):
    pathlib.Path("began").touch()
    return dispatch(*arguments)
main._dispatch = say_and_dispatch
main.main()
"""


def write(folder: Path, text: str = SLOW) -> None:
    (folder / "w.yaml").write_text(text)


def is_restored(seen: Display) -> bool:
    """Is the terminal as it was: a cursor, wrapping, the colours, and a new line begun?"""
    return seen.cursor[0] == 0 and seen.cursor[2] and seen.wraps


@pytest.mark.parametrize("delay", DELAYS)
def test_ctrl_c_at_any_moment_leaves_a_run_to_go_on_with(folder: Path, delay: float) -> None:
    write(folder)
    with display(folder, "run", "w.yaml", start=SAYS_THAT_IT_BEGAN) as seen:
        # Before this the interpreter starts, and a signal is Python's to tell.
        while not (folder / "began").exists():
            assert seen.read(0.005), seen.shown
        seen.read_for(delay)
        seen.type("\x03")
        assert seen.finish() == 130
        assert "Traceback" not in seen.shown
        assert is_restored(seen)
        has_begun = (folder / ".orchestrate" / "runs" / "latest").is_symlink()
        assert ("go on:  orchestrate resume RUN" in seen.shown) == has_begun
    give_sign(folder, "go")
    if not has_begun:
        return
    assert Project(folder).latest_state["status"] == "paused"
    if DELAYS.index(delay) % 3 == 0:  # every third one, because that takes as long again
        assert Project(folder).run("resume", "latest").exit_code == 0
        assert Project(folder).latest_state["steps"]["Last"]["status"] == "completed"


# As by the finalisers of imports: what is raised in one is printed, and gone.
SWALLOWS = """
import fcntl, signal, termios, weakref
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from orchestrate.cli import main
dispatch = main._dispatch
class Thing: pass
def swallow_and_dispatch(*arguments):
    thing = Thing()
    gone = weakref.ref(thing, lambda _: signal.raise_signal(signal.SIGINT))
    del thing
    return dispatch(*arguments)
main._dispatch = swallow_and_dispatch
main.main()
"""


def test_ctrl_c_that_falls_into_a_finaliser_is_not_lost(folder: Path) -> None:
    write(folder)
    with display(folder, "run", "w.yaml", start=SWALLOWS) as seen:
        assert seen.finish() == 130
        assert "Traceback" not in seen.shown
        assert "KeyboardInterrupt" not in seen.shown
        assert is_restored(seen)


@pytest.mark.parametrize(
    ("number", "code", "why"),
    [
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 129, "interrupted"),
        (signal.SIGINT, 130, "interrupted"),
    ],
)
def test_signals_stop_the_run_and_restore_the_terminal(
    folder: Path, number: signal.Signals, code: int, why: str
) -> None:
    write(folder)
    with display(folder, "run", "w.yaml") as seen:
        seen.await_words("at it")
        seen.process.send_signal(number)
        assert seen.finish() == code
        assert is_restored(seen)
        assert f"run RUN stopped: {why}\n  go on:  orchestrate resume RUN" in seen.shown


def test_a_second_ctrl_c_does_not_wait_for_programs(folder: Path) -> None:
    stubborn = "trap '' TERM INT; echo deaf; while :; do sleep 0.1; done"
    write(folder, workflow(f'  - name: Deaf\n    command: ["bash", "-c", "{stubborn}"]\n'))
    (folder / ".orchestrate").mkdir(exist_ok=True)
    (folder / ".orchestrate" / "config.yaml").write_text("kill_grace: 90\n")
    with display(folder, "run", "w.yaml") as seen:
        seen.await_words("deaf")
        seen.type("\x03")
        seen.await_words("stopping: its programs are being ended (Ctrl-C again: at once)")
        began = time.monotonic()
        seen.type("\x03")
        assert seen.finish() == 130
        # The programs would have had a minute and a half.
        assert time.monotonic() - began < 45
        assert "stopping" not in seen.shown
        # Nothing is at work any more.
        assert "■ Deaf" in seen.shown
        assert "●" not in seen.shown
        assert "go on:  orchestrate resume RUN" in seen.shown
        assert is_restored(seen)


def test_a_stopped_terminal_does_not_hold_up_the_run(folder: Path) -> None:
    """Nobody reads the terminal any more, as after Ctrl-S: the run goes on and ends."""
    numbers = workflow(
        command("First", sign="go"),
        *(command(f"Step{number}", "x" * 100) for number in range(30)),
    )
    write(folder, numbers)
    with display(folder, "run", "w.yaml") as seen:
        seen.await_words("● First")
        seen.type("\x13")
        give_sign(folder, "go")
        end = time.monotonic() + 60
        while Project(folder).latest_state["status"] != "completed":
            assert time.monotonic() < end, "the run stands still"
            time.sleep(0.05)
        # Others can have the run, although its last words are not yet taken.
        while is_held(Project(folder).latest_run / "run.lock"):
            assert time.monotonic() < end, "the run's lock is kept"
            time.sleep(0.05)
        assert seen.process.poll() is None
        said = Project(folder).run("resume", "latest")
        assert "is completed" in said.stdout
        seen.type("\x11")
        assert seen.finish() == 0
        assert "run RUN completed" in seen.shown


def test_a_closed_terminal_stops_the_run_in_good_order(folder: Path) -> None:
    write(folder)
    with display(folder, "run", "w.yaml") as seen:
        seen.await_words("at it")
        seen.hang_up()
        assert seen.process.wait(60) == 129
    assert Project(folder).latest_state["status"] == "paused"
    give_sign(folder, "go")
    assert Project(folder).run("resume", "latest").exit_code == 0


MACHINE = """\
id: two
label: Two
description: Two steps
initialStep: one
steps:
  one:
    prompt: One.
    outcomes: [done, other]
    onOutcome:
      done: {nextStep: two}
      other: {action: exit, reason: user-provided-other}
  two:
    prompt: Two.
    outcomes: [done, other]
    onOutcome:
      done: {action: exit, reason: all-done}
      other: {action: exit, reason: user-provided-other}
"""
# The terminal closes between the steps of a machine, which prints answers to it.
NOHUP = """
import fcntl, os, signal, sys, termios, time
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
from orchestrate.agents.stand_ins.rehearsal import RehearsalAgent as Rehearsal
ask = Rehearsal.ask
def slowly(self, question, run):
    if question.step == "two":
        print("now", flush=True, file=sys.stderr)
        while not os.path.exists("go"):
            time.sleep(0.02)
    return ask(self, question, run)
Rehearsal.ask = slowly
from orchestrate.cli.main import main
main()
"""


def test_a_run_that_ignores_hang_ups_outlives_its_terminal(folder: Path) -> None:
    (folder / "m.yaml").write_text(MACHINE)
    with display(folder, "run", "m.yaml", "--backend", "rehearsal", start=NOHUP) as seen:
        seen.await_words("● two")
        seen.hang_up()
        give_sign(folder, "go")
        seen.process.wait(60)
    assert Project(folder).latest_state["reason"] == "all-done"


# A shell with one job: it is told when that stops, does something else, and says `fg`.
SHELL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    from orchestrate.cli.main import main
    main()
_, status = os.waitpid(job, os.WUNTRACED)
assert os.WIFSTOPPED(status)
os.tcsetpgrp(0, os.getpgrp())
os.write(1, b"$ ")
sys.stdin.readline()
os.tcsetpgrp(0, job)
os.kill(job, signal.SIGCONT)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]))
"""


def test_a_suspended_run_leaves_the_screen_to_the_shell(folder: Path) -> None:
    write(folder)
    with display(folder, "run", "w.yaml", start=SHELL) as seen:
        seen.await_words("at it")
        seen.type("\x1a")
        seen.await_words("○ Last\n$")
        assert seen.read_for(1.2) == b"", "it draws although it is suspended"
        seen.type("fg\n")
        seen.await_words("○ Last\n$ fg\n▶ demo")
        give_sign(folder, "go")
        assert seen.finish() == 0
        assert seen.shown.endswith("$ fg\n" + FINISHED)


FINISHED = """\
✓ demo     #s
  ✓ First  #s
  ✓ Work   3/3
  ✓ Last   #s
run RUN completed"""


def test_what_is_typed_does_not_disturb(folder: Path) -> None:
    write(folder)
    with display(folder, "run", "w.yaml") as seen:
        seen.await_words("at it")
        seen.type("ls -l foo")
        seen.read_for(0.3)
        seen.await_no("ls -l")
        give_sign(folder, "go")
        assert seen.finish() == 0
    assert os.path.isdir(Project(folder).latest_run)
