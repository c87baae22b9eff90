"""A signal ends the programs, leaves a paused run behind, and `resume` goes on from there."""

from __future__ import annotations

import ctypes
import os
import pty
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.commands import Command
from tests.promises.commands import await_file, do, doing, environment, workflow
from tests.promises.lanes import Lane, Lanes, strike_in_thread
from tests.promises.processes import kill, programs_in, wait_until
from tests.promises.shapes import act
from tests.promises.trials import Trial, sealed_state

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
# What a phase does until the test lets it end.
QUICK = "{name: Quick, command: [test, -e, go], on: {failure: {goto: Quick}}}"
# Programs are given far more time than a busy machine needs for anything: what ended before that
# was not waited for.
PATIENT = {".orchestrate/config.yaml": "kill_grace: 90\n"}
SOON_S = 45
UNTIL_GO = "echo . > began; until test -e go; do sleep 0.02; done"
# The kill that comes when the program has cleaned up, however long that takes.
LAST = 9


@dataclass(frozen=True)
class Phase:
    """A workflow that stays in a phase until `go` is there, and how to see that it is in it."""

    name: str
    steps: str
    is_in: Callable[[Trial], object]
    # How often its step is started in all: once before the signal, and once after it.
    starts: int
    # What a resume says so that nobody has to wait.
    flags: tuple[str, ...] = ()


def _has(trial: Trial, kind: str) -> bool:
    return any(event["on"] == kind for event in trial.events())


PHASES = (
    Phase(
        "a running step",
        f"{{name: Long, command: {act('Long', '-', UNTIL_GO)}}}",
        lambda trial: (trial.workspace / "began").exists(),
        starts=2,
    ),
    Phase(
        "a retry's rest",
        f"{{name: Fails, command: {act('Fails', '-', 'test -e go')},"
        " retries: {max: 1, delay_ms: 120000}}",
        lambda trial: _has(trial, "attempt-ended"),
        starts=2,
        flags=("--retry-delay", "0"),
    ),
    Phase(
        "wait_for",
        '{name: Waits, wait_for: {glob: "g[o]", timeout_sec: 60, poll_ms: 20}}',
        lambda trial: _has(trial, "step-started"),
        starts=0,
    ),
    Phase(
        "between steps",
        QUICK,
        lambda trial: sum(event["on"] == "step-finished" for event in trial.events()) > 5,
        starts=0,
    ),
)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
def test_a_signal_pauses_the_run(
    phase: Phase, number: signal.Signals, quick_top: Path, lanes: Lanes
) -> None:
    trial = workflow(
        quick_top,
        f"""
        version: "1.1"
        name: signals
        steps:
          - {phase.steps}
          - {{name: After, command: {act("After")}}}
        """,
        files=PATIENT,
    )
    sent: list[float] = []

    def send(pid: int) -> None:
        wait_until(lambda: phase.is_in(trial), f"never in {phase.name}")
        sent.append(time.monotonic())
        kill(pid, number)

    with lanes.one() as lane:
        sender = list[threading.Thread]()

        def begin(pid: int) -> None:
            sender.append(threading.Thread(target=send, args=(pid,)))
            sender[0].start()

        code = lane.run(trial.start_order(), begin)
        took = time.monotonic() - sent[0]
        sender[0].join()
        assert code == SIGNALS[number], trial.said()
        assert took < SOON_S, f"it took {took:.1f} s"
        _check_paused(trial)
        (trial.workspace / "go").touch()
        assert lane.run(trial.order("resume", "latest", *phase.flags)) == 0, trial.said()
    assert trial.status() == "completed"
    assert len([line for line in trial.lines() if line.kind == "start"]) == phase.starts + 1
    assert not [line for line in trial.lines() if line.kind == "twice"]


def _check_paused(trial: Trial) -> None:
    assert not programs_in(trial.top), "a program survived"
    assert not [line for line in trial.lines() if line.step == "After"], "something was started"
    state = sealed_state((trial.root / "state.json").read_bytes())
    assert state["status"] == "paused"
    assert trial.status() == "paused"


def test_a_signal_that_interrupts_nothing_is_heard(tmp_path: Path) -> None:
    """One that comes just before a system call is noted and ends no wait, as one that another
    thread takes; here the main thread waits for those of a parallel loop."""
    item = f"echo . > began-{{{{item}}}}; {UNTIL_GO.partition('; ')[2]}"
    trial = workflow(
        tmp_path,
        f"""
        name: parallel
        description: Two at once
        version: 1.0.0
        context: {{items: [a, b]}}
        steps:
          - {{id: each, type: bash, foreach: "{{{{items}}}}", parallel: true, command: "{item}"}}
        """,
    )
    with doing(trial, "run", "w.yaml") as process:
        for name in "ab":
            await_file(trial, f"began-{name}")
        threads = [int(name) for name in os.listdir(f"/proc/{process.pid}/task")]
        other = next(thread for thread in threads if thread != process.pid)
        assert ctypes.CDLL(None).tgkill(process.pid, other, signal.SIGTERM) == 0
        assert process.wait(timeout=60) == 143
    _check_paused(trial)


IGNORES = "trap 'echo . > asked' TERM; echo . > began; while :; do sleep 9; done"
DEAF = f"""
    version: "1.1"
    name: deaf
    steps:
      - name: Deaf
        command: {act("Deaf", "-", IGNORES)}
    """


def test_a_second_interrupt_does_not_wait(tmp_path: Path) -> None:
    """The first one gives programs a few seconds to clean up; this one does not listen."""
    trial = workflow(tmp_path, DEAF, files=PATIENT)
    with doing(trial, "run", "w.yaml") as process:
        await_file(trial, "began")
        process.send_signal(signal.SIGINT)
        # Two of one kind that come before the first is heard are one.
        await_file(trial, "asked")
        time.sleep(0.5)
        assert process.poll() is None, "the program had no time to clean up"
        again = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert time.monotonic() - again < SOON_S
    _check_paused(trial)


def test_ctrl_c_reaches_a_program_once_and_through_us(tmp_path: Path) -> None:
    """At a terminal; the program has a session of its own and is asked by TERM to end."""
    heard = "trap 'echo term >> heard; exit 0' TERM; trap 'echo int >> heard' INT"
    trial = workflow(
        tmp_path,
        f"""
        version: "1.1"
        name: heard
        steps:
          - name: Listens
            command: {act("Listens", "-", f"{heard}; echo . > began; while :; do sleep 0.05; done")}
        """,
    )
    ours, theirs = pty.openpty()
    with Command(
        "run", "w.yaml", cwd=trial.workspace, env=environment(),
        stdin=theirs, stdout=theirs, stderr=theirs, at_terminal=True,
    ) as process:  # fmt: skip
        os.close(theirs)
        await_file(trial, "began")
        os.write(ours, b"\x03")
        assert process.wait(timeout=60) == 130
    os.close(ours)
    assert (trial.workspace / "heard").read_text() == "term\n"
    _check_paused(trial)


def test_a_resume_can_be_interrupted_too(tmp_path: Path) -> None:
    trial = workflow(
        tmp_path,
        f"""
        version: "1.1"
        name: again
        steps:
          - {{name: Long, command: {act("Long", "-", UNTIL_GO)}}}
        """,
    )
    for arguments in (["run", "w.yaml"], ["resume", "latest"], ["resume", "latest"]):
        (trial.workspace / "began").unlink(missing_ok=True)
        with doing(trial, *arguments) as process:
            await_file(trial, "began")
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 143
        _check_paused(trial)
    (trial.workspace / "go").touch()
    assert do(trial, "resume", "latest").exit_code == 0
    assert [line.attempt for line in trial.lines() if line.kind == "start"] == [
        f"Long:1.{number}" for number in range(1, 5)
    ]


def test_killed_while_it_stops(quick_top: Path, lanes: Lanes) -> None:
    """The program cleans up for a while; the orchestrator dies before, in and after that."""
    slow = "trap 'sleep 0.15; echo clean >> cleaned; exit 1' TERM; echo . > began"
    text = f"""
        version: "1.1"
        name: stopping
        steps:
          - name: Slow
            command: {act("Slow", "-", f"{slow}; until test -e go; do sleep 0.01; done")}
        """

    def judge(lane: Lane, number: int) -> bool:
        trial = workflow(quick_top / str(number), text, files=PATIENT)
        cleaned = trial.workspace / "cleaned"

        def stop(pid: int) -> None:
            wait_until((trial.workspace / "began").exists, "it never began")
            kill(pid, signal.SIGTERM)
            time.sleep(number * 0.03)
            if number == LAST:
                wait_until(cleaned.exists, "it was not asked to end")
            kill(pid)

        assert lane.run(trial.start_order(), strike_in_thread(stop)) in (-signal.SIGKILL, 143)
        (trial.workspace / "go").touch()
        code = trial.go_on(lane)
        assert code == 0, f"killed after {number}: {trial.said()}"
        assert not trial.lost()
        # Killed before it could pass the signal on, it left a program that was then adopted.
        was_stopped = cleaned.exists()
        again = ["start"] if was_stopped else []
        assert [line.kind for line in trial.lines()] == ["start", *again, "end"]
        return was_stopped

    assert any(lanes.spread(list(range(LAST + 1)), judge)), "no program was stopped"
