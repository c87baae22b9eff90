"""Kills a process in front of one of its system calls, which strace counts for us."""

from __future__ import annotations

import functools
import os
import re
import select
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_CALL = re.compile(r"^(?:\d+\s+)?(\w+)\(")
# Waiting and leaving are no deeds; strace cannot count a restarted call.
_NO_DEEDS = ("restart_syscall", "exit_group")
Point = tuple[str, int]


@functools.cache
def can_trace() -> bool:
    """Is there an strace that may trace?"""
    if shutil.which("strace") is None:
        return False
    sleeper = subprocess.Popen(["sleep", "120"])
    try:
        with _attached(sleeper.pid, []):
            return True
    except PermissionError:
        return False
    finally:
        sleeper.kill()
        sleeper.wait()


def kill_at(point: Point) -> list[str]:
    """Options for strace: SIGKILL in front of the nth call of a name."""
    name, number = point
    return ["-e", f"trace={name}", "-e", f"inject={name}:signal=SIGKILL:when={number}"]


def fail_at(name: str, error: str, when: str, path: Path | None = None) -> list[str]:
    """Options for strace: let calls of a name fail, all of them or those on one path."""
    only = [] if path is None else ["-P", str(path)]
    return [*only, "-e", f"trace={name}", "-e", f"inject={name}:error={error}:when={when}"]


@contextmanager
def tracing(options: list[str]) -> Iterator[Callable[[int], None]]:
    """Something to do to a process that stands still; the tracer is gone when the block ends."""
    tracers: list[subprocess.Popen[str]] = []

    def attach(pid: int) -> None:
        tracers.append(_attach(pid, options))

    try:
        yield attach
    finally:
        for tracer in tracers:
            _end(tracer)


@contextmanager
def _attached(pid: int, options: list[str]) -> Iterator[None]:
    tracer = _attach(pid, options)
    try:
        yield
    finally:
        tracer.terminate()
        _end(tracer)


def _attach(pid: int, options: list[str]) -> subprocess.Popen[str]:
    output = [] if "-o" in options else ["-o", os.devnull]
    tracer = subprocess.Popen(
        ["strace", *output, *options, "-p", str(pid)], stderr=subprocess.PIPE, text=True
    )
    assert tracer.stderr is not None
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([tracer.stderr], [], [], 0.2)[0]:
            line = tracer.stderr.readline()
            if "attached" in line and "not" not in line:
                return tracer
            _end(tracer)
            raise PermissionError(line)
    raise AssertionError("strace does not attach")


def _end(tracer: subprocess.Popen[str]) -> None:
    try:
        tracer.wait(timeout=60)
    finally:
        tracer.kill()
        tracer.wait()
        assert tracer.stderr is not None
        tracer.stderr.close()


def points_in(log: Path) -> list[Point]:
    """The calls of an undisturbed run, each with its number among those of its name."""
    counted: Counter[str] = Counter()
    points = []
    for line in log.read_text("utf-8", "replace").splitlines():
        found = _CALL.match(line)
        if found and found[1] not in _NO_DEEDS:
            counted[found[1]] += 1
            points.append((found[1], counted[found[1]]))
    return points
