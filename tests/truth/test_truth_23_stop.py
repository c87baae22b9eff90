"""Number 23: `stop` is Ctrl-C from anywhere, `cancel` is final and says so; `latest` is a run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from orchestrate.interrupts import ASKED_TO_STOP
from orchestrate.state.locks import read_owner
from tests.acceptance.fakes import read_state
from tests.commands import Command
from tests.machines.fakes import PAIR, Scene, said
from tests.promises.processes import await_ends, wait_until
from tests.recipes.fakes import Workshop, recipe, rule

SLOW = recipe("""
    steps:
      - {id: a, agent: helper, prompt: "STEP:a"}
      - {id: b, agent: helper, prompt: "STEP:b"}
""")


@contextmanager
def slow_run(shop: Workshop, *flags: str, ignores: bool = False) -> Iterator[Command]:
    """A run whose second agent takes its time; SIGINT may be ignored, as in a shell's `&`."""
    shop.answers(rule("STEP:b", {"delay": 60}, "done"))
    shop.write("r.yaml", SLOW)
    process = Command(
        "run", "r.yaml", *flags, cwd=shop.folder, env={**os.environ, **shop.surroundings},
        ignored=[signal.SIGINT] if ignores else [],
    )  # fmt: skip
    try:
        shop.await_calls(1, "b")
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("ignores", [False, True])
def test_truth_23_stop_is_ctrl_c_from_anywhere(shop: Workshop, ignores: bool) -> None:
    with slow_run(shop, ignores=ignores) as process:
        told = shop.run("stop").assert_success()
        assert f"orchestrate resume {shop.latest.name}" in told.stdout
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "go on:" in stderr
    state = read_state(shop.latest)
    assert (state["status"], state["reason"]) == ("paused", "interrupted")
    again = shop.run("stop", "latest").assert_success()
    assert "is not running" in again.stdout
    shop.go_on()
    assert shop.asked() == ["a", "b", "b"]


def test_truth_23_stop_reaches_a_resume_that_is_just_about_to_begin(shop: Workshop) -> None:
    """From the instant on in which it holds the run's lock, and so can be found."""
    shop.play(SLOW, rules=(rule("STEP:b", {"fail": "crash"}),), exit_code=1)
    lock = shop.latest / "run.lock"
    for _ in range(3):
        with shop.started("resume") as process:
            wait_until(partial(is_owned_by, lock, process.pid), "it never began")
            process.send_signal(ASKED_TO_STOP)
            assert process.wait(60) == 130


def is_owned_by(lock: Path, pid: int) -> bool:
    owner = read_owner(lock)
    return owner is not None and owner.pid == pid


def test_truth_23_stop_reaches_a_detached_run(shop: Workshop) -> None:
    shop.answers(rule("STEP:b", {"delay": 60}, "done"))
    shop.write("r.yaml", SLOW)
    shop.run("run", "-d", "r.yaml").assert_success()
    (call,) = shop.await_calls(1, "b")
    shop.run("stop", "latest", "--json").assert_success()
    shop.await_gone([call.pid])
    shop.go_on()


def test_truth_23_stop_ends_what_a_killed_orchestrator_left(shop: Workshop) -> None:
    with slow_run(shop) as process:
        process.kill()
        process.wait()
        (call,) = shop.calls("b")
        told = shop.run("stop", "latest").assert_success()
        assert "is stopped" in told.stdout
        shop.await_gone([call.pid])
    assert read_state(shop.latest)["status"] == "paused"
    shop.go_on()
    assert shop.asked() == ["a", "b", "b"]


def test_truth_23_stop_of_what_is_over_says_so(shop: Workshop) -> None:
    shop.play(SLOW)
    assert "it is completed" in shop.run("stop", "latest").assert_success().stdout
    shop.run("stop", "nothing").assert_exit(2)


def test_truth_23_cancel_is_final_and_offers_no_way_on(shop: Workshop) -> None:
    with slow_run(shop) as process:
        told = shop.run("cancel", "latest").assert_success()
        assert "for good" in told.stdout
        _, stderr = process.communicate(timeout=60)
        assert "go on:" not in stderr
        assert "cancelled" in stderr
    assert not (shop.latest / "cancelling").exists()
    assert "go on:" not in shop.run("status", "latest").assert_success().stdout
    assert "was cancelled" in shop.run("resume", "latest").assert_exit(1).stdout


def test_truth_23_a_refused_run_does_not_become_latest(tmp_path: Path) -> None:
    """Two runs with one session: the second is refused, and leaves nothing behind."""
    scene = Scene(tmp_path, said("done", wait_for="go"), said("done"))
    with scene.started(PAIR) as process:
        call = scene.await_call(1)
        runs = scene.folder / ".orchestrate" / "runs"
        latest = os.readlink(runs / "latest")
        refused = ("run", "w.yaml", "--session", call.session, "--allow-concurrent")
        told = scene.run(*refused).assert_exit(5)
        assert call.session in told.stderr
        assert os.readlink(runs / "latest") == latest
        assert [path.name for path in runs.glob("2*")] == [latest]
        scene.let_go()
        process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("rounds", "rivals"), [(2, 3), pytest.param(6, 6, marks=pytest.mark.soak)], ids=["few", "many"]
)
def test_truth_23_of_two_runs_in_one_instant_the_refused_one_leaves_nothing(
    tmp_path: Path, rounds: int, rivals: int
) -> None:
    """Both used to be made before either had the session, and the refused one could be `latest`."""
    scene = Scene(tmp_path)
    lines = [(said("done", wait_for=f"go-{number}"), said("done")) for number in range(rounds)]
    scene.script(*chain.from_iterable(lines))
    scene.write("m.yaml", PAIR)
    runs = scene.folder / ".orchestrate" / "runs"
    for number in range(rounds):
        session = f"00000000-0000-4000-8000-00000000000{number}"
        scene.know(session)
        words = ("run", "m.yaml", "--session", session, "--allow-concurrent")
        with ExitStack() as stack:
            started = [stack.enter_context(scene.command(*words)) for _ in range(rivals)]
            # The winner must not be over before the others have tried.
            await_ends(started, rivals - 1)
            scene.let_go(f"go-{number}")
            codes = sorted(process.wait(60) for process in started)
        assert codes == [0, *[5] * (rivals - 1)]
        assert len(list(runs.glob("2*"))) == number + 1
        assert read_state(runs / "latest")["status"] == "completed"
    assert len(scene.ledger()) == 2 * rounds
