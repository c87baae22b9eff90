"""Promises 1 to 7, from the outside: what kills, locks and process trees cannot break.

The promises about output, values, secrets, paths and terminals are in `test_promises_data.py`.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.commands import Command
from tests.promises.commands import (
    await_file,
    await_lines,
    do,
    doing,
    run_and_kill_at,
    workflow,
)
from tests.promises.hostile import Tree
from tests.promises.judging import check_same
from tests.promises.keepers import kill_keeper_and_company
from tests.promises.killing import can_trace, tracing
from tests.promises.lanes import Before, Lanes, strike_in_thread
from tests.promises.processes import end_all_in, is_alive, kill, progress_of, wait_until
from tests.promises.shapes import STEADY, act
from tests.promises.trials import Trial, sealed_state

REFUSED = 5


def test_promise_01_what_is_recorded_is_not_done_again(tmp_path: Path) -> None:
    """On a real disk, the real command, killed six times at six places."""
    whole = Trial(tmp_path / "whole", STEADY)
    reference = whole.left(do(whole, "run", "w.yaml").exit_code)
    trial = Trial(tmp_path / "killed", STEADY)
    for lines in (1, 4, 8, 12, 16, 20):
        with doing(trial, *trial.start_order().arguments) as process:
            await_lines(trial, lines)
            process.kill()
            process.wait()
    done = do(trial, "resume", "latest")
    assert not trial.lost()
    check_same(reference, trial.left(done.exit_code), set())


ADOPTED = f"""
    version: "1.1"
    name: adopted
    strict_flow: false
    steps:
      - name: Long
        command: {act("Long", "-", "echo before; pid > pid; until test -e go; do sleep 0.02; done; echo after; (exit 7)")}
      - name: Next
        command: {act("Next", "${steps.Long.exit_code}")}
    """  # noqa: E501 - a script


@pytest.mark.parametrize("ends", ["while nobody watches", "after the resume"])
def test_promise_02_a_running_program_is_adopted(tmp_path: Path, ends: str) -> None:
    trial = workflow(tmp_path, ADOPTED)
    run_and_kill_at(trial, "pid")
    pid = int((trial.workspace / "pid").read_text())
    assert is_alive(pid), "it died with its orchestrator"
    if ends == "while nobody watches":
        (trial.workspace / "go").touch()
        wait_until(lambda: not is_alive(pid), "it does not end")
        assert do(trial, "resume", "latest").exit_code == 0
    else:
        with doing(trial, "resume", "latest") as process:
            wait_until(lambda: "run-resumed" in {e["on"] for e in trial.events()}, "no resume")
            time.sleep(0.2)
            assert is_alive(pid), "the resume ended it"
            (trial.workspace / "go").touch()
            assert process.wait(timeout=60) == 0
    state = sealed_state((trial.root / "state.json").read_bytes())
    assert state["steps"]["Long"]["exit_code"] == 7
    assert state["steps"]["Long"]["output"] == "before\nafter\n"
    assert [(line.kind, line.step, line.item) for line in trial.lines()] == [
        ("start", "Long", "-"), ("end", "Long", "-"), ("start", "Next", "7"), ("end", "Next", "7"),
    ]  # fmt: skip
    assert (trial.workspace / "pid").read_text() == f"{pid}\n"


def test_promise_02_a_timeout_counts_while_nobody_watches(tmp_path: Path) -> None:
    trial = workflow(
        tmp_path,
        f"""
        version: "1.1"
        name: timed
        steps:
          - name: Long
            command: {act("Long", "-", "pid > pid; sleep 60")}
            timeout_sec: 6
        """,
    )
    began = time.monotonic()
    run_and_kill_at(trial, "pid")
    pid = int((trial.workspace / "pid").read_text())
    wait_until(lambda: not is_alive(pid), "nobody ended it")
    assert time.monotonic() - began > 5
    assert do(trial, "resume", "latest").exit_code == 1
    result = sealed_state((trial.root / "state.json").read_bytes())["steps"]["Long"]
    assert result["exit_code"] == 124
    assert result["attempts"] == 1


def lost_in_the_middle(top: Path, on_lost: str) -> Trial:
    """A run whose orchestrator, keeper and all that helps them were killed in its step."""
    trial = workflow(
        top,
        f"""
        version: "1.1"
        name: lost
        steps:
          - name: Risky
            command: {act("Risky", "-", "pid >> pid; test -e again || sleep 60; echo done")}
            on_lost: {on_lost}
        """,
    )
    with doing(trial, "run", "w.yaml") as process:
        await_file(trial, "pid")
        process.kill()
        kill_keeper_and_company(trial)
        process.wait()
    (trial.workspace / "again").touch()
    return trial


def test_promise_03_a_lost_attempt_is_reported_dead_and_renumbered(tmp_path: Path) -> None:
    trial = lost_in_the_middle(tmp_path, "retry")
    done = do(trial, "resume", "latest")
    assert done.exit_code == 0, done.stderr
    assert "attempt 1 was lost" in done.stderr
    assert trial.lost() == {"Risky:1.1"}
    started = [event["attempt"] for event in trial.events() if event["on"] == "step-started"]
    assert started == [1, 2]
    assert [line.attempt for line in trial.lines()] == ["Risky:1.1", "Risky:1.2", "Risky:1.2"]
    first = int((trial.workspace / "pid").read_text().split()[0])
    assert not is_alive(first), "the lost attempt lives"


def test_promise_03_a_step_may_wait_for_a_person_instead(tmp_path: Path) -> None:
    trial = lost_in_the_middle(tmp_path, "stop")
    done = do(trial, "resume", "latest")
    assert done.exit_code != 0
    assert "lost" in done.stderr
    assert trial.status() == "paused"
    assert [line.kind for line in trial.lines()] == ["start"], "it was started again unasked"
    assert do(trial, "resume", "latest").exit_code == 0, "the person has decided"
    assert [line.attempt for line in trial.lines()] == ["Risky:1.1", "Risky:1.2", "Risky:1.2"]


def test_promise_04_arguments_are_the_same_after_a_kill(tmp_path: Path) -> None:
    """Values go on as they were written: cut at 8 KiB, with secrets masked."""
    text = f"""
        version: "1.1.1"
        name: arguments
        providers:
          echoing: {{command: ["sh", "-c", "cat > prompt"], input_mode: stdin}}
        steps:
          - name: Say
            command: ["sh", "-c", "seq 4000; echo $TOKEN"]
            secrets: [TOKEN]
          - name: Tell
            command: ["sh", "-c", "echo my $TOKEN"]
            secrets: [TOKEN]
          - name: Pause
            command: {act("Pause", "-", "echo . > pausing; until test -e go; do sleep 0.02; done")}
          - name: Use
            command: ["sh", "-c", 'printf %s "$1" > said; printf %s "$2" > told',
                      "sh", "${{steps.Say.output}}", "${{steps.Tell.output}}"]
          - name: Ask
            provider: echoing
            input_file: said
            depends_on: {{required: [told], inject: {{mode: content}}}}
        """
    got = []
    for name in ("whole", "killed"):
        trial = workflow(tmp_path / name, text)
        token = {"TOKEN": "s3cret-value"}
        with doing(trial, "run", "w.yaml", env=token) as process:
            await_file(trial, "pausing")
            if name == "killed":
                process.kill()
            (trial.workspace / "go").touch()
            process.wait(timeout=60)
        if name == "killed":
            assert do(trial, "resume", "latest", env=token).exit_code == 0
        got.append([(trial.workspace / file).read_text() for file in ("said", "told", "prompt")])
    assert got[0] == got[1]
    assert len(got[0][0].encode()) == 8192
    assert got[0][1] == "my ***\n"


@pytest.mark.parametrize("checkpoints", [150, pytest.param(10_000, marks=pytest.mark.soak)])
def test_promise_05_a_reader_always_sees_a_whole_state(checkpoints: int, quick_top: Path) -> None:
    """A cycle of steps that mention the run's folder: each of them has a checkpoint before it."""
    script = f'printf . >> n; test "$(wc -c < n)" -ge {checkpoints}'
    trial = workflow(
        quick_top,
        f"""
        version: "1.1"
        name: read
        steps:
          - name: Again
            command: {json.dumps(["sh", "-c", script, "${run.root}"])}
            on: {{success: {{goto: _end}}, failure: {{goto: Again}}}}
        """,
    )
    seen: list[list[int]] = [[] for _ in range(4)]
    faults: list[str] = []
    is_over = threading.Event()

    def read(seqs: list[int]) -> None:
        while not is_over.wait(0.0005):
            for root in trial.roots():
                try:
                    seqs.append(sealed_state((root / "state.json").read_bytes())["seq"])
                except (AssertionError, OSError, ValueError) as error:
                    faults.append(repr(error)[:300])

    readers = [threading.Thread(target=read, args=(seqs,)) for seqs in seen]
    for reader in readers:
        reader.start()
    done = do(trial, "run", "w.yaml")
    is_over.set()
    for reader in readers:
        reader.join()
    assert done.exit_code == 0, done.stderr[-2000:]
    assert not faults, faults[:3]
    assert all(seqs == sorted(seqs) for seqs in seen), "a reader saw an older state again"
    different = len(set().union(*seen))
    print(f"{checkpoints} checkpoints, {sum(map(len, seen))} reads of {different} states")
    assert (trial.workspace / "n").stat().st_size == checkpoints
    assert different > checkpoints / 10, "the readers saw too little"


def test_promise_06_one_orchestrator_however_many_start_at_once(tmp_path: Path) -> None:
    trial = workflow(tmp_path, ADOPTED)
    run_and_kill_at(trial, "pid")
    resumes = [
        Command("resume", "latest", cwd=trial.workspace, stdout=subprocess.DEVNULL)
        for _ in range(8)
    ]
    wait_until(lambda: sum(r.poll() is not None for r in resumes) >= 7, "too many run", 60.0)
    (winner,) = [resume for resume in resumes if resume.poll() is None]
    (trial.workspace / "go").touch()
    told = [resume.communicate(timeout=60)[1] for resume in resumes]
    assert sorted(resume.returncode for resume in resumes) == [0] + 7 * [REFUSED]
    for resume, text in zip(resumes, told, strict=True):
        if resume is not winner:
            assert f"in use by process {winner.pid}" in text
    assert len([line for line in trial.lines() if line.kind == "start"]) == 2
    assert not [line for line in trial.lines() if line.kind == "twice"]


@pytest.mark.parametrize(
    ("times", "at_once"), [(2, 12), pytest.param(100, 50, marks=pytest.mark.soak)]
)
def test_promise_06_of_many_resumes_exactly_one_runs(
    times: int, at_once: int, quick_top: Path, lanes: Lanes
) -> None:
    """Let go in the same instant, again and again; the winner adopts what runs and ends it."""
    for number in range(times):
        trial = workflow(quick_top / str(number), ADOPTED)
        with lanes.one() as lane:
            assert lane.run(trial.start_order(), kill_when_begun(trial)) == -signal.SIGKILL
            helper = threading.Thread(target=let_one_end, args=(trial, at_once - 1))
            helper.start()
            codes = lane.run_many(trial.order("resume", "latest"), at_once)
            helper.join()
        assert sorted(codes) == [0] + (at_once - 1) * [REFUSED], trial.said()[-2000:]
        assert [line.kind for line in trial.lines()] == ["start", "end"] * 2
        end_all_in(trial.top)
        trial.remove()


def kill_when_begun(trial: Trial) -> Before:
    def strike(pid: int) -> None:
        wait_until((trial.workspace / "pid").exists, "it never began")
        kill(pid)

    return strike_in_thread(strike)


def let_one_end(trial: Trial, refusals: int) -> None:
    def are_refused() -> bool:
        return trial.said().count("in use by process") >= refusals

    wait_until(are_refused, "too many run", 60.0)
    (trial.workspace / "go").touch()


@pytest.mark.skipif(not can_trace(), reason="needs strace; tests/state/test_locks.py does not")
@pytest.mark.parametrize("answer", ["retval=0", "error=ENOLCK"])
def test_promise_06_where_locks_do_not_work_nothing_starts(
    answer: str, tmp_path: Path, lanes: Lanes
) -> None:
    trial = workflow(tmp_path, ADOPTED)
    broken = ["-e", "trace=flock", "-e", f"inject=flock:{answer}"]
    with lanes.one() as lane, tracing(broken) as attach:
        code = trial.go_on(lane, attach)
    assert code == REFUSED, trial.said()
    assert "lock" in trial.said()
    assert not trial.lines()


@pytest.mark.parametrize("end", ["by itself", "failing", "timed out", "interrupted"])
def test_promise_07_nothing_of_a_tree_survives_its_step(end: str, tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    deaf = "trap '' TERM; sleep $1; sleep $1"
    then = {"by itself": "exit 0", "failing": "exit 3"}.get(end, deaf)
    timeout = "timeout_sec: 6" if end == "timed out" else ""
    trial = workflow(
        tmp_path,
        f"""
        version: "1.1"
        name: tree
        strict_flow: false
        steps:
          - name: Grow
            command: {json.dumps(tree.grow(then))}
            {timeout}
          - name: After
            command: {act("After", "-", "echo . > after; until test -e go; do sleep 0.02; done")}
        """,
    )
    stranger = subprocess.Popen(["sleep", "1000"], cwd=trial.workspace)
    try:
        with doing(trial, "run", "w.yaml") as process:
            await_file(trial, "grown")
            if end == "interrupted":
                wait_until(lambda: len(tree.living()) >= 5, "the tree did not grow")
                process.send_signal(signal.SIGINT)
                time.sleep(0.3)
                process.send_signal(signal.SIGINT)
            else:
                await_file(trial, "after")
                assert not tree.living(), [progress_of(pid) for pid in tree.living()]
                (trial.workspace / "go").touch()
            assert process.wait(timeout=60) == (130 if end == "interrupted" else 0)
        assert not tree.living(), [progress_of(pid) for pid in tree.living()]
        assert stranger.poll() is None, "a process that we did not start was signalled"
    finally:
        stranger.kill()
        stranger.wait()
