"""A program outlives its orchestrator and is adopted: the same process, every byte, the real end.

The orchestrator is killed at any moment of a program that talks or sleeps, mostly its resumes too,
and the run is then resumed to its end.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest

from orchestrate.execute.base import Exit
from orchestrate.execute.keeper.facts import Ended, look
from tests.promises.lanes import Lane, Lanes
from tests.promises.processes import is_alive, kill, wait_until
from tests.promises.shapes import Shape
from tests.promises.test_kill_sweep import seed_of
from tests.promises.trials import KILLED, Trial, sealed_state

TIMEOUT_S = 5
WORKFLOW = f"""
version: "1.1"
name: adopted
strict_flow: false
steps:
  - name: Long
    command: [sh, long.sh]
    output_file: out.bin
    timeout_sec: {TIMEOUT_S}
"""
LONG = "echo $$ >> ../pids\n{deeds}"
SLEEPS = "cat part-0; exec sleep 60"


def talks(chance: random.Random, code: int) -> tuple[str, dict[str, bytes]]:
    """A script that prints files on both streams, resting in between, and the files.

    In its middle it waits until its orchestrator has been killed for the first time.
    """
    parts = {f"part-{n}": chance.randbytes(chance.choice((1, 500, 70_000))) for n in range(4)}
    deeds = [f"cat {name}; cat {name} >&2; sleep {chance.uniform(0, 0.15):.3f}" for name in parts]
    deeds.insert(2, "until test -e ../killed; do sleep 0.01; done")
    return "\n".join([*deeds, f"exit {code}"]), parts


def run_and_strike(trial: Trial, lane: Lane, delay_s: float) -> int:
    """Kill the next command so long after its program's beginning, if it still runs then."""
    is_over = threading.Event()
    strikers: list[threading.Thread] = []

    def strike(pid: int) -> None:
        wait_until((trial.top / "pids").exists, "its program never began")
        if not is_over.wait(delay_s):
            kill(pid)

    def begin(pid: int) -> None:
        strikers.append(threading.Thread(target=strike, args=(pid,)))
        strikers[0].start()

    code = lane.run(trial.start_order(), begin)
    is_over.set()
    strikers[0].join()
    return code


def end_in(trial: Trial) -> Exit:
    end = look(trial.root, "Long:1.1")
    assert isinstance(end, Ended)
    return end.exit


def recorded(short: bytes | None, long: Path) -> bytes:
    """What was kept of a stream: what is short is in the record."""
    return long.read_bytes() if short is None else short


def killed_and_resumed(
    trial: Trial, parts: dict[str, bytes], chance: random.Random, lane: Lane
) -> dict[str, Any]:
    """How the step ended, by its state; of the kills only the first comes in time for sure."""
    for name, content in parts.items():
        (trial.workspace / name).write_bytes(content)
    kills, wanted = 0, chance.choice((1, 2, 3))
    while kills < wanted:
        if run_and_strike(trial, lane, chance.uniform(0, 0.3)) != KILLED:
            break
        kills += 1
        (trial.top / "killed").touch()
    else:
        lane.run(trial.start_order())
    assert trial.status() in ("completed", "failed"), trial.said()
    assert not trial.lost()
    (pid,) = (trial.top / "pids").read_text("ascii").split()
    assert end_in(trial).pid == int(pid)
    assert not is_alive(int(pid))
    step: dict[str, Any] = sealed_state((trial.root / "state.json").read_bytes())["steps"]["Long"]
    assert step["attempts"] == 1
    return {**step, "kills": kills}


@pytest.mark.parametrize(
    "number", [5, pytest.param(100, marks=pytest.mark.soak)], ids=["some", "many"]
)
def test_promise_02_each_program_is_adopted(number: int, quick_top: Path, lanes: Lanes) -> None:
    """100 of 100: same process, output byte-identical, real exit code, timeout honoured."""
    seed = seed_of("adoption")

    def adopt(lane: Lane, case: int) -> int:
        chance = random.Random(f"{seed}-{case}")
        code = 0 if case % 5 == 4 else chance.randrange(1, 120)
        deeds, parts = talks(chance, code)
        is_timed = case % 3 == 0
        script = LONG.format(deeds=SLEEPS if is_timed else deeds)
        workflow = (
            WORKFLOW
            if is_timed
            else WORKFLOW.replace(f"timeout_sec: {TIMEOUT_S}", "timeout_sec: 90")
        )
        trial = Trial(quick_top / str(case), Shape("adopted", workflow, files={"long.sh": script}))
        step = killed_and_resumed(trial, parts, chance, lane)
        out = parts["part-0"] if is_timed else b"".join(parts.values())
        err = b"" if is_timed else out
        end = end_in(trial)
        logs = trial.root / "logs"
        for name, had, wanted in (
            ("out.bin", (trial.workspace / "out.bin").read_bytes(), out),
            ("stdout", recorded(end.stdout, logs / "Long.stdout"), out),
            ("stderr", recorded(end.stderr, logs / "Long.stderr"), err),
        ):
            assert had == wanted, f"{name} is {len(had)} bytes of {len(wanted)}"
        assert step["exit_code"] == (124 if is_timed else code)
        assert end.timed_out is is_timed
        if is_timed:
            assert TIMEOUT_S <= end.duration_s < TIMEOUT_S + 45, (
                "it counts from the program's start"
            )
        trial.remove()
        return int(step["kills"])

    kills = lanes.spread(list(range(number)), adopt)
    adopted = sum(kill > 0 for kill in kills)
    print(f"{number} programs, {adopted} adopted, {sum(kills)} kills")
    assert adopted == number
