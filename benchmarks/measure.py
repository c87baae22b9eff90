"""Takes samples in turns, so that whatever else the machine does falls on all subjects alike."""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a subject: the time that passed, and the processor time it took."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Subject:
    """Something that can be run and timed, under the name that the tables show."""

    name: str
    take: Callable[[], Sample]


def call(name: str, function: Callable[[], Any]) -> Subject:
    """A call inside this process."""

    def take() -> Sample:
        # The waste of the subject before this one is not to be collected at this one's cost.
        gc.collect()
        cpu, wall = time.process_time(), time.perf_counter()
        result = function()
        sample = Sample(time.perf_counter() - wall, time.process_time() - cpu)
        del result
        return sample

    return Subject(name, take)


def process(name: str, argv: Sequence[str], folder: Path, env: Mapping[str, str]) -> Subject:
    """A whole process, from its start to its end, with its output thrown away.

    It runs once here, so that a command that fails is an error and not a fast result.
    """
    tried = subprocess.run(
        argv,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)} ended with {tried.returncode}:\n{tried.stderr}")
    silent = [
        (os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in range(3)
    ]

    def take() -> Sample:
        before = os.getcwd()
        os.chdir(folder)
        try:
            wall = time.perf_counter()
            child = os.posix_spawn(argv[0], list(argv), env, file_actions=silent)
            _, status, usage = os.wait4(child, 0)
            wall = time.perf_counter() - wall
        finally:
            os.chdir(before)
        if status != 0:
            raise RuntimeError(f"{name} failed, though it worked before")
        return Sample(wall, usage.ru_utime + usage.ru_stime)

    return Subject(name, take)


# A child is charged with the memory of the process that started it until it executes its program,
# so a small process stands between it and us.
_LAUNCHER = """\
import os, sys
quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak_memory(argv: Sequence[str], folder: Path, env: Mapping[str, str]) -> float:
    """The most memory that a process had resident at any time, in megabytes."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _LAUNCHER, *argv],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stderr}")
    # Linux counts in kilobytes and macOS in bytes.
    return int(done.stdout) / (1024 if sys.platform != "darwin" else 1024 * 1024)


def interleave(subjects: Sequence[Subject], rounds: int) -> dict[str, Sample]:
    """The median sample of each subject: A, B, C, A, B, C, … after one round that warms up."""
    taken: dict[str, list[Sample]] = {subject.name: [] for subject in subjects}
    if len(taken) != len(subjects):
        raise ValueError("two subjects share a name")
    for turn in range(rounds + 1):
        for subject in subjects:
            sample = subject.take()
            if turn:
                taken[subject.name].append(sample)
    return {
        name: Sample(
            statistics.median(sample.wall_s for sample in samples),
            statistics.median(sample.cpu_s for sample in samples),
        )
        for name, samples in taken.items()
    }


def clean_environment(repository: Path, *, installed: bool) -> dict[str, str]:
    """Our environment without what would slow Python down or record what it does."""
    unwanted = ("PYTHON", "COVERAGE", "ORCHESTRATE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    if not installed:
        kept["PYTHONPATH"] = str(repository)
    return kept
