"""8: a keeper that stands still is waited for with a word, and Ctrl-C is obeyed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from orchestrate.errors import KeeperSilent
from orchestrate.execute.base import SAY_AFTER_S
from orchestrate.execute.keeper import patience
from orchestrate.execute.keeper.patience import Patience
from tests.acceptance.fakes import Stage, read_state
from tests.conftest import Quicker
from tests.promises.processes import end_all_in, wait_until

WORKFLOW = """\
version: "1.1"
name: w
steps:
  - name: Long
    command: ["sh", "-c", "echo x >> ledger; touch started; until test -e go; do sleep 0.02; done"]
"""


@pytest.fixture
def stage(tmp_path: Path, quicker: Quicker) -> Iterator[Stage]:
    quicker("orchestrate.execute.keeper.patience:SAY_AFTER_S", 1.5)
    quicker("orchestrate.execute.keeper.patience:_ASK_AFTER_S", 0.5)
    quicker("orchestrate.engine.runtime:SAY_AFTER_S", 1.5)
    made = Stage(tmp_path)
    made.write("w.yaml", WORKFLOW)
    yield made
    end_all_in(tmp_path)


def keeper_of(stage: Stage) -> int:
    """The process that holds the lock of the newest run's keeper; its wardens do not."""
    folder = os.path.realpath(stage.runs_folder / "latest" / "keeper")
    lock = os.path.join(folder, "keeper.lock")
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                files = os.listdir(f"/proc/{name}/fd")
                if any(os.readlink(f"/proc/{name}/fd/{fd}") == lock for fd in files):
                    return int(name)
            except OSError:
                continue
    raise AssertionError("there is no keeper")


@contextmanager
def frozen(stage: Stage) -> Iterator[int]:
    pid = keeper_of(stage)
    os.kill(pid, signal.SIGSTOP)
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def said(
    stage: Stage, process: subprocess.Popen[str], pid: int, place: tuple[str, ...] = ()
) -> None:
    """It has said on stderr whom it waits for, and what to do, there where the run is."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:  # the command's own time limit ends this, too
        lines.append(line)
        if f"kill -CONT {pid}" in line:
            break
    words = "".join(lines)
    assert f"waiting for the run's keeper (process {pid})" in words, words
    again = f"orchestrate resume {os.readlink(stage.runs_folder / 'latest')}"
    assert f"{again} {' '.join(place)} goes on later".replace("  ", " ") in words


def assert_resumable(stage: Stage) -> None:
    """The program has gone on all the while, or is done once more after it was ended by us."""
    stage.write("go", "")
    stage.run("resume", "latest").assert_success()
    state = read_state(stage.runs_folder / os.readlink(stage.runs_folder / "latest"))
    assert state["status"] == "completed"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_truth_08_a_run_obeys_signals(stage: Stage, number: signal.Signals, code: int) -> None:
    with stage.command("run", "w.yaml") as process:
        stage.await_file("started")
        with frozen(stage) as pid:
            process.send_signal(number)
            said(stage, process, pid)
            assert process.wait(60) == code
    assert read_state(stage.runs_folder / "latest")["status"] == "paused"
    assert_resumable(stage)


def test_truth_08_a_run_says_whom_it_waits_for_without_being_asked(stage: Stage) -> None:
    with stage.command("run", "w.yaml") as process:
        stage.await_file("started")
        with frozen(stage) as pid:
            said(stage, process, pid)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130, "it was said already: no more waiting"
    assert_resumable(stage)


def test_truth_08_a_freeze_beside_a_long_program_is_said_after_five_seconds(stage: Stage) -> None:
    """Also when the keeper has answered before: that used to buy it another half minute."""
    with stage.command("run", "w.yaml") as process:
        stage.await_file("started")
        time.sleep(SAY_AFTER_S)
        with frozen(stage) as pid:
            began = time.monotonic()
            said(stage, process, pid)
            assert time.monotonic() - began < 5 * SAY_AFTER_S
    stage.write("go", "")


def test_truth_08_a_resume_says_it_and_obeys(stage: Stage) -> None:
    with stage.command("run", "w.yaml") as process:
        stage.await_file("started")
        process.kill()
        process.wait()
    with frozen(stage) as pid, stage.command("resume", "latest") as process:
        said(stage, process, pid)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert_resumable(stage)
    assert (stage.folder / "ledger").read_text().split() == ["x"], "it was adopted in the end"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_truth_08_an_edit_says_it_once_and_obeys(
    stage: Stage, number: signal.Signals, code: int
) -> None:
    """A rewind waits for no keeper: it is refused while a program that a kill left works on."""
    first = "  - {name: First, command: ['true']}\n"
    stage.write("w.yaml", WORKFLOW.replace("steps:\n", f"steps:\n{first}"))
    # The words find the run again where it was said to be.
    place = ("--state-dir", str(stage.runs_folder))
    with stage.command("run", "w.yaml", "--checkpoints", "on", *place) as process:
        stage.await_file("started")
        process.kill()
        process.wait()
    stage.write("w.yaml", WORKFLOW.replace("echo x", "echo y"))
    with frozen(stage) as pid:
        stage.run("rewind", "latest", "First", "--yes", *place).assert_exit(5)
        with stage.command("resume", "--edited", *place) as process:
            said(stage, process, pid, place)
            process.send_signal(number)
            _, told = process.communicate(timeout=60)
            assert process.returncode == code
    assert "waiting for" not in told
    assert read_state(stage.runs_folder / "latest")["status"] == "running"


def test_truth_08_a_resume_goes_on_when_the_keeper_does(stage: Stage) -> None:
    with stage.command("run", "w.yaml") as process:
        stage.await_file("started")
        process.kill()
        process.wait()
    with ExitStack() as stack:
        # Before anything can end: then there is a keeper, and resume finds it so.
        with frozen(stage) as pid:
            stage.write("go", "")
            process = stack.enter_context(stage.command("resume", "latest"))
            said(stage, process, pid)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 0, rest
    assert "answers again" in rest


def test_truth_08_cancel_says_it_and_obeys(stage: Stage) -> None:
    with stage.command("run", "w.yaml") as process:
        stage.await_file("started")
        process.kill()
        process.wait()
    with frozen(stage) as pid:
        with stage.command("cancel", "latest") as process:
            said(stage, process, pid)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        with stage.command("cancel", "latest") as process:
            said(stage, process, pid)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) != 0
    assert_resumable(stage)


def test_truth_08_cancel_has_an_end(stage: Stage) -> None:
    """As `stop`: what runs is named, nothing is recorded, and the same command works later."""
    with stage.command("run", "w.yaml") as process:
        stage.await_file("started")
        process.kill()
        process.wait()
    run_id = os.readlink(stage.runs_folder / "latest")
    with frozen(stage) as pid:
        told = stage.run("cancel", "latest", "--wait", "1").assert_exit(5)
    assert f"programs of run {run_id} still run" in told.stderr
    assert f"kill -CONT {pid}; then orchestrate cancel {run_id}" in told.stderr
    assert read_state(stage.runs_folder / run_id)["status"] == "running"
    stage.run("cancel", "latest").assert_success()
    assert read_state(stage.runs_folder / run_id)["status"] == "cancelled"
    assert (stage.folder / "ledger").read_text().split() == ["x"]


def test_truth_08_cancel_of_a_run_at_work_ends_its_orchestrator(stage: Stage) -> None:
    with stage.command("run", "w.yaml") as process:
        stage.await_file("started")
        with frozen(stage) as pid, stage.command("cancel", "latest") as cancel:
            assert process.wait(60) == 143
            said(stage, cancel, pid)
            os.kill(pid, signal.SIGCONT)
            assert cancel.wait(60) == 0
    state = read_state(stage.runs_folder / os.readlink(stage.runs_folder / "latest"))
    assert state["status"] == "cancelled"


def test_truth_08_stop_says_that_programs_still_run(stage: Stage) -> None:
    """The orchestrator obeys, and cannot end what a keeper runs that stands still."""
    with stage.command("run", "w.yaml") as process:
        stage.await_file("started")
        with frozen(stage) as pid:
            told = stage.run("stop", "latest").assert_exit(5)
            assert process.wait(60) == 130
            shown = stage.run("status", "latest").assert_success().stdout
            again = stage.run("stop", "latest", "--wait", "1").assert_exit(5)
            wrong = stage.run("status", "latest", "--json").json()
    for words in (told.stderr, again.stderr):
        assert "still run" in words
        assert f"kill -CONT {pid}" in words
        assert f"orchestrate stop {wrong['run_id']}" in words
    assert "is stopped\n" not in told.stdout + again.stdout
    assert "its programs still run" in shown
    assert (wrong["status"], wrong["programs_left"]) == ("paused", True)
    # What was advised works: the keeper goes on, and stop has ended what runs.
    stage.run("stop", "latest").assert_success()
    assert not stage.run("status", "latest", "--json").json()["programs_left"]
    assert_resumable(stage)


def test_truth_08_stop_of_a_killed_orchestrators_run_says_it_too(stage: Stage) -> None:
    with stage.command("run", "w.yaml") as process:
        stage.await_file("started")
        process.kill()
        process.wait()
    with frozen(stage) as pid:
        told = stage.run("stop", "latest", "--wait", "1").assert_exit(5)
        assert f"kill -CONT {pid}" in told.stderr
    assert "is stopped" in stage.run("stop", "latest").assert_success().stdout
    assert_resumable(stage)


@pytest.mark.parametrize("verb", ["stop", "cancel"])
def test_truth_08_an_orchestrator_that_stands_still_is_named(stage: Stage, verb: str) -> None:
    with stage.command("run", "w.yaml") as process:
        stage.await_file("started")
        os.kill(process.pid, signal.SIGSTOP)
        try:
            told = stage.run(verb, "latest", "--wait", "0.2").assert_exit(5)
        finally:
            os.kill(process.pid, signal.SIGCONT)
        assert "is stopped (Ctrl-Z, SIGSTOP)" in told.stderr
        assert f"kill -CONT {process.pid}" in told.stderr
        assert "is still ending" not in told.stderr
        assert process.wait(60) in (130, 143), "it goes on, and ends"
    assert_resumable(stage)


def test_truth_08_a_large_request_does_not_block(stage: Stage) -> None:
    """More than fits between us and the keeper: the sending itself waits."""
    stage.write("in.txt", "x" * 900_000)
    stage.write(
        "w.yaml",
        WORKFLOW
        + """\
  - name: Large
    command: ["sh", "-c", "wc -c"]
    input_file: in.txt
""",
    )
    with stage.command("run", "w.yaml", "--debug") as process:
        stage.await_file("started")
        pid = keeper_of(stage)
        # Between the end of the first step and the request of the second: it has been told of the
        # one, and stands still when the other comes.
        os.kill(process.pid, signal.SIGSTOP)
        stage.write("go", "")
        journal = stage.runs_folder / "latest" / "keeper" / "journal"
        wait_until(lambda: b" exit Long" in journal.read_bytes(), "it never ended")
        os.kill(pid, signal.SIGSTOP)
        try:
            os.kill(process.pid, signal.SIGCONT)
            said(stage, process, pid)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            os.kill(pid, signal.SIGCONT)
    stage.run("resume", "latest").assert_success()


def test_truth_08_patience_in_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(patience, "now", lambda: clock[0])
    hurry: list[float | None] = [None]
    told: list[str] = []
    asked: list[float] = []
    it = Patience("RUN", lambda: hurry[0], told.append)
    it.pid = 7

    def look(seconds: float) -> float:
        clock[0] += seconds
        return it.look(lambda: asked.append(clock[0]))

    it.begin()
    assert look(0.0) == 2.0
    look(2.0)
    assert (asked, told) == ([102.0], [])
    it.heard()
    assert look(1.0) == pytest.approx(1.0), "a program that runs for hours changes nothing"
    look(1.0)
    look(2.9)
    it.begin()
    assert not told
    look(0.1)
    assert len(told) == 1
    assert "process 7" in told[0]
    look(50.0)
    assert (len(asked), len(told)) == (2, 1)
    hurry[0] = 5.0
    with pytest.raises(KeeperSilent, match="does not answer"):
        look(0.0)
    it.heard()
    assert told[1:] == ["orchestrate: the run's keeper answers again\n"]
    look(1.0)
    look(1.5)
    assert len(asked) == 3, "who is to stop asks sooner"
    with pytest.raises(KeeperSilent):
        look(5.0)
