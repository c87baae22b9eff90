"""Programs that somebody else ends: lost while no orchestrator watches, a failure while one does.

At a machine's shutdown everybody gets the same signal, in any order: the run is interrupted then.
"""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from orchestrate.execute.keeper.facts import Ended, look
from tests.promises.processes import is_alive, keepers_in, wait_until
from tests.truth.places import DIALECTS, Place

# How a program ends when it is told to: by the signal, by a code that names it, or as if all were
# well (as Gemini does, with nothing printed).
WAYS = {
    "by the signal": "",
    "with 143": "trap 'exit 143' TERM",
}


def program_of(place: Place) -> int:
    """The process that the keeper has started for the long step."""
    if place.dialect == "workflow":
        return place.starts()[-1]
    return int(place.lines("session")[-1][2])


def await_exit_on_record(place: Place, attempt: str) -> None:
    wait_until(lambda: isinstance(look(place.root(), attempt), Ended), "its end is not on record")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_18_a_program_that_died_unwatched_is_lost(
    dialect: str, number: signal.Signals, quick_top: Path
) -> None:
    place = Place(quick_top, dialect)
    place.kill_orchestrator()
    os.kill(program_of(place), number)
    await_exit_on_record(place, f"{place.step}:1.1")
    place.go()
    said = place.run("resume", "latest").assert_success()
    assert "was lost" in said.stderr
    assert place.lost() == 1
    assert place.step_result()["attempts"] == 2
    assert len(place.ends()) == 1


@pytest.mark.parametrize("how", WAYS)
def test_truth_18_a_shell_says_it_with_its_exit_code(how: str, quick_top: Path) -> None:
    place = Place(quick_top, "workflow", deed=WAYS[how] or "true")
    place.kill_orchestrator()
    os.kill(program_of(place), signal.SIGTERM)
    await_exit_on_record(place, "B:1.1")
    place.go()
    place.run("resume", "latest").assert_success()
    assert place.lost() == 1


def test_truth_18_a_command_that_says_it_has_succeeded_has(quick_top: Path) -> None:
    """It did not die by the signal (rulings §7, promise 3), and only its author knows what 0 means:

    to do again what may be done would be worse than to believe it.
    """
    place = Place(quick_top, "workflow", deed="trap 'exit 0' TERM")
    place.kill_orchestrator()
    os.kill(program_of(place), signal.SIGTERM)
    await_exit_on_record(place, "B:1.1")
    place.run("resume", "latest").assert_success()
    assert (place.lost(), len(place.starts())) == (0, 1)
    assert place.step_result()["exit_code"] == 0


def test_truth_18_an_agent_that_obeys_without_a_word_is_lost(quick_top: Path) -> None:
    """As Gemini: exit 0 and nothing printed."""
    place = Place(quick_top, "machine")
    claude = place.top / "claude"
    quiet = "\n".join(
        line for line in claude.read_text("utf-8").splitlines() if '"init"' not in line
    ).replace("cat > /dev/null", "cat > /dev/null\ntrap 'kill $!; exit 0' TERM")
    quiet = quiet.replace('2>/dev/null)"', '2>/dev/null)" & wait $!')
    claude.write_text(quiet + "\n", "utf-8")
    place.kill_orchestrator()
    os.kill(program_of(place), signal.SIGTERM)
    await_exit_on_record(place, "b:1.1")
    place.go()
    place.run("resume", "latest").assert_success()
    assert place.lost() == 1


@pytest.mark.parametrize(("dialect", "code"), [("workflow", 1), ("machine", 4), ("recipe", 1)])
def test_truth_18_with_an_orchestrator_watching_it_is_a_failure(
    dialect: str, code: int, quick_top: Path
) -> None:
    place = Place(quick_top, dialect)
    with place.started("run", "w.yaml") as run:
        place.await_starts(1, run)
        os.kill(program_of(place), signal.SIGKILL)
        _, said = run.communicate(timeout=60)
    assert run.returncode == code, said
    assert place.lost() == 0
    assert place.status()["status"] == "failed"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_18_a_shutdown_interrupts_the_run(dialect: str, quick_top: Path) -> None:
    """SIGTERM to every process of the run, in any order and again and again."""
    chance = random.Random(f"shutdown of a {dialect}")
    place = Place(quick_top, dialect)
    for round_number in range(3):
        words = ("resume", "latest") if round_number else ("run", "w.yaml")
        with place.started(*words) as run:
            place.await_starts(round_number + 1, run)
            everybody = [run.pid, *keepers_in(quick_top), program_of(place), place.starts()[-1]]
            chance.shuffle(everybody)
            for pid in everybody:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            _, said = run.communicate(timeout=60)
        assert run.returncode == 143, said
        assert place.status()["status"] == "paused"
        assert not any(map(is_alive, place.starts()))
    place.go()
    place.run("resume", "latest").assert_success()
    assert len(place.starts()) == 4
    assert len(place.ends()) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_truth_18_after_a_power_cut_the_first_resume_goes_on(dialect: str, quick_top: Path) -> None:
    place = Place(quick_top, dialect)
    with place.started("run", "w.yaml") as run:
        pid = place.await_starts(1, run)
        everybody = [run.pid, *keepers_in(quick_top), program_of(place), pid]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for one in everybody:
                with suppress(ProcessLookupError):
                    os.kill(one, number)
        run.wait(60)
    place.go()
    said = place.run("resume", "latest").assert_success()
    assert "was lost" in said.stderr
    assert (len(place.starts()), len(place.ends())) == (2, 1)


def test_truth_18_the_keeper_says_whether_anybody_watched(quick_top: Path) -> None:
    place = Place(quick_top, "workflow")
    place.kill_orchestrator()
    place.go()
    await_exit_on_record(place, "B:1.1")
    for attempt, is_watched in (("A:1.1", True), ("B:1.1", False)):
        end = look(place.root(), attempt)
        assert isinstance(end, Ended)
        assert end.exit.watched is is_watched
    place.run("resume", "latest").assert_success()
    assert (place.lost(), len(place.starts())) == (0, 1), "an end of its own counts"
