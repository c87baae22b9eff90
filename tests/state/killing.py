"""Start a child and kill it with SIGKILL in front of each of its system calls, one run per call."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_CALL = re.compile(r"^(?:\d+\s+)?(\w+)\(")


@dataclass(frozen=True)
class Killed:
    """One run: where it was killed, and what it had announced by then."""

    where: str
    said: list[str]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.state.children", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments),
        cwd=ROOT,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def sweep(action: str, prepare: Callable[[], Path], *, by_hook: bool) -> Iterator[Killed]:
    """Run the action anew for each of its calls, killed there; the last run reaches its end.

    With strace the calls are all system calls; by a hook, and where strace may not trace, they are
    those functions of `os` that change files.
    """
    calls = None if by_hook else _trace(action, prepare())
    if calls is None:
        yield from _sweep_with_hook(action, prepare)
        return
    for name, number in calls:
        said = _run_traced(action, prepare(), f"{name}:signal=KILL:when={number}")
        assert "end" not in said, f"{name} {number} did not happen"
        yield Killed(f"{name} #{number}", said)
    yield Killed("nowhere", _run_traced(action, prepare(), "kill:signal=KILL:when=1"))


def _sweep_with_hook(action: str, prepare: Callable[[], Path]) -> Iterator[Killed]:
    for number in range(1, 500):
        done = subprocess.run(
            command(action, str(prepare()), str(number)),
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        yield Killed(f"change #{number}", done.stdout.split("\n")[:-1])
        if done.returncode == 0:
            return
    raise AssertionError("the action does not end")


def _trace(action: str, folder: Path) -> list[tuple[str, int]] | None:
    """The calls of an undisturbed run, each with its number among those of its name."""
    if shutil.which("strace") is None:
        return None
    log = folder / "strace.log"
    try:
        said = _run_traced(action, folder, None, log)
    except PermissionError:
        return None
    assert said[-1] == "end"
    names = [found[1] for line in log.read_text("utf-8", "replace").splitlines()
             if (found := _CALL.match(line))]  # fmt: skip
    log.unlink()
    counted: Counter[str] = Counter()
    calls = []
    for name in names:
        counted[name] += 1
        # The read is the child's waiting for us; at exit_group everything is over.
        if name not in ("read", "restart_syscall", "exit_group"):
            calls.append((name, counted[name]))
    assert len(calls) > 8
    return calls


def _run_traced(
    action: str, folder: Path, inject: str | None, log: Path | None = None
) -> list[str]:
    child = start(action, str(folder), "traced")
    tracer = None
    try:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "ready\n"
        options = ["-o", os.devnull if log is None else str(log)]
        if inject is not None:
            options += ["-e", f"trace={inject.partition(':')[0]}", "-e", f"inject={inject}"]
        tracer = subprocess.Popen(
            ["strace", *options, "-p", str(child.pid)], stderr=subprocess.PIPE, text=True
        )
        _await_attached(tracer)
        out, err = child.communicate("go", timeout=60)
        assert child.returncode in (0, -signal.SIGKILL), err
        return out.split("\n")[:-1]
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout, child.stderr):
            assert pipe is not None
            pipe.close()
        if tracer is not None:
            assert tracer.stderr is not None
            tracer.stderr.close()
            tracer.wait(timeout=60)


def _await_attached(tracer: subprocess.Popen[str]) -> None:
    assert tracer.stderr is not None
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if select.select([tracer.stderr], [], [], 0.2)[0]:
            line = tracer.stderr.readline()
            if "attached" in line and "not" not in line:
                return
            raise PermissionError(line)
    raise AssertionError("strace does not attach")
