"""For tests of recipes: a throw-away project that the command runs in.

`Project(tmp_path, {"workflows/x.yaml": text}).run("validate", "workflows/x.yaml")` does what the
command does and returns what came of it. `run` works in the process of the test, which saves the
start of an interpreter and all imports; `spawn` and `background` start a process of their own, for
tests that signal, kill, time or environment of a process are the point of. `FakeExecutor` stands in
for the programs of a run (`orchestrate/execute/fake.py`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from textwrap import dedent
from types import FrameType
from typing import IO, Any, ClassVar

import orchestrate
from orchestrate.cli.main import run_command
from orchestrate.execute.fake import Act, FakeExecutor
from orchestrate.record import record

__all__ = [
    "Act",
    "FakeExecutor",
    "Project",
    "Result",
    "TookTooLong",
]

_Reaction = Callable[[int, FrameType | None], Any] | int | None
# How a new process reacts; a test may have it otherwise.
_REACTIONS: dict[signal.Signals, _Reaction] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGTSTP: signal.SIG_DFL,
    signal.SIGUSR2: signal.SIG_DFL,
}
_DETACHES = {"-d", "--detach"}
_THREADS_END_WITHIN_S = 2.0


@record
class Result:
    """What one call of the command did."""

    arguments: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str

    def assert_success(self) -> Result:
        return self.assert_exit(0)

    def assert_exit(self, code: int) -> Result:
        assert self.exit_code == code, (
            f"orchestrate {' '.join(self.arguments)} ended with {self.exit_code}, not {code}\n"
            f"--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"
        )
        return self

    def json(self) -> Any:
        """Standard output as the one JSON document it must be."""
        return json.loads(self.stdout)

    def codes(self) -> list[str]:
        """The codes that `validate --format json` reported, in order."""
        return [finding["code"] for file in self.json()["files"] for finding in file["diagnostics"]]


def start_process(*arguments: str, cwd: Path, env: Mapping[str, str]) -> subprocess.Popen[str]:
    """The command in a process of its own, with no terminal and no input."""
    return subprocess.Popen(
        [sys.executable, "-m", "orchestrate", *arguments],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


class Project:
    """A folder with files in it, and a way to run `orchestrate` there as a user would."""

    # Our own tests have a quicker way to start so many of them.
    start: ClassVar[Callable[..., subprocess.Popen[str]]] = staticmethod(start_process)

    def __init__(self, folder: Path, files: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        for name, text in (files or {}).items():
            self.write(name, text)

    @property
    def surroundings(self) -> Mapping[str, str]:
        """Variables that every command of this project has, beside those of the test itself."""
        return {}

    @property
    def latest_run(self) -> Path:
        """The folder of the newest run."""
        runs = self.folder / ".orchestrate" / "runs"
        return runs / os.readlink(runs / "latest")

    @property
    def latest_state(self) -> dict[str, Any]:
        """What the `state.json` of the newest run says."""
        state: dict[str, Any] = json.loads((self.latest_run / "state.json").read_text("utf-8"))
        return state

    def write(self, name: str, text: str) -> Path:
        """Write a file; the text may be indented like the code around it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"), "utf-8")
        return path

    def run(
        self, *arguments: str, env: Mapping[str, str] | None = None, timeout_s: float = 60
    ) -> Result:
        """Run the command with no terminal and no input, in this process where that can be.

        The folder, the environment and the signals are those of the whole process: a command that
        is given in a thread gets a process. So does a run that detaches itself, which forks.
        """
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or not _DETACHES.isdisjoint(arguments):
            with self.background(*arguments, env=env) as process:
                said = process.communicate(timeout=timeout_s)
            return Result(arguments, process.returncode, *said)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            with ExitStack() as stack:
                stack.enter_context(_no_threads_left())
                stack.enter_context(chdir(self.folder))
                stack.enter_context(_environment(self._environment(env)))
                stack.enter_context(_reactions(timeout_s))
                stack.enter_context(_streams(out, err))
                code = _run_command(arguments)
            return Result(arguments, code, _text_of(out), _text_of(err))

    def spawn(
        self, *arguments: str, env: Mapping[str, str] | None = None, timeout_s: float = 60
    ) -> Result:
        """Start the command in a real process, with no terminal and no input, and await its end."""
        finished = subprocess.run(
            [sys.executable, "-m", "orchestrate", *arguments],
            cwd=self.folder,
            env=self._environment(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        said = finished.stdout.decode(), finished.stderr.decode()
        return Result(arguments, finished.returncode, *said)

    @contextmanager
    def background(
        self, *arguments: str, env: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """A real process that works beside the test; what is left of it at the end is killed."""
        with self.start(*arguments, cwd=self.folder, env=self._environment(env)) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def validate(self, *arguments: str) -> Result:
        """`validate` with findings as data, for `Result.codes`."""
        return self.run("validate", "--format", "json", *arguments)

    def _environment(self, env: Mapping[str, str] | None) -> dict[str, str]:
        return {**os.environ, "NO_COLOR": "1", **self.surroundings, **(env or {})}


class TookTooLong(BaseException):
    """The command was not over in time; no handler for errors may hide that."""


def _run_command(arguments: tuple[str, ...]) -> int:
    words, sys.argv = sys.argv, [str(Path(orchestrate.__file__).with_name("__main__.py"))]
    sys.argv += arguments
    try:
        return run_command(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv = words


@contextmanager
def _streams(out: IO[bytes], err: IO[bytes]) -> Iterator[None]:
    """The three standard descriptors, which programs inherit, and the streams on top of them."""
    before = sys.stdin, sys.stdout, sys.stderr
    for stream in before[1:]:
        stream.flush()
    kept = [os.dup(number) for number in range(3)]
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((nothing, out.fileno(), err.fileno())):
        os.dup2(descriptor, number)
    os.close(nothing)
    ours = [_stream(0, "rb"), _stream(1, "wb"), _stream(2, "wb")]
    sys.stdin, sys.stdout, sys.stderr = ours
    try:
        yield
    finally:
        for stream in ours[1:]:
            with suppress(OSError, ValueError):
                stream.flush()
        sys.stdin, sys.stdout, sys.stderr = before
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)
        for stream in ours:
            with suppress(OSError, ValueError):
                stream.close()


def _stream(number: int, mode: str) -> TextIOWrapper:
    """As the interpreter makes them."""
    errors = "backslashreplace" if number == 2 else "strict"
    file: Any = open(number, mode, closefd=False)  # noqa: SIM115 - the wrapper closes it
    return TextIOWrapper(file, "utf-8", errors, line_buffering=number == 2)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    _become(variables)
    try:
        yield
    finally:
        _become(before)


def _become(variables: Mapping[str, str]) -> None:
    has_zone = os.environ.get("TZ") != variables.get("TZ")
    os.environ.clear()
    os.environ.update(variables)
    if has_zone:
        time.tzset()


@contextmanager
def _reactions(timeout_s: float) -> Iterator[None]:
    """The signals and the mask of a new process, and an end to it if it takes too long."""

    def give_up(_: int, __: FrameType | None) -> None:
        raise TookTooLong(f"the command was not over in {timeout_s} s")

    before = {number: signal.signal(number, how) for number, how in _REACTIONS.items()}
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, give_up)
    # Again and again, because one that falls into a finaliser is lost.
    signal.setitimer(signal.ITIMER_REAL, timeout_s, 5.0)
    mask = os.umask(0o077)
    os.umask(mask)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, how in before.items():
            signal.signal(number, how)
        os.umask(mask)


@contextmanager
def _no_threads_left() -> Iterator[None]:
    """The command's threads end with it. They have names; a thread that has none is the test's."""
    before = set(threading.enumerate())
    yield
    left = [
        thread
        for thread in set(threading.enumerate()) - before
        if not thread.name.startswith(("Thread-", "Dummy-"))
    ]
    for thread in left:
        thread.join(_THREADS_END_WITHIN_S)
    alive = [thread.name for thread in left if thread.is_alive()]
    assert not alive, f"the command has left threads: {alive}"


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
