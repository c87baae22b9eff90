"""The engine's side of the keeper: start an attempt, wait for its end, find it again after a kill.

keeper = ensure_keeper(run_dir)       start the run's keeper, or find the one that lives
keeper.start(request)                 durable claim, then the program; never twice for one id
keeper.wait(attempt)                  Ended(exit) | Lost(reason)
look(run_dir, attempt)                the four facts, also when nobody lives
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from orchestrate.errors import ConfigError, InternalError
from orchestrate.process.facts import (
    Ended,
    Look,
    Lost,
    NotStarted,
    Request,
    Running,
    are_wardens_left,
    as_message,
    exit_of,
    look,
)
from orchestrate.process.protocol import (
    ATTEMPT_ID,
    FOLDER,
    KEEPER_LOCK,
    LOG,
    SOCKET,
    VERSION,
    Frames,
    Message,
    encode,
    is_locked,
    now,
)

# The keeper's half: what is copied into the run directory.
_FROZEN = ("__init__", "protocol", "masking", "tree", "launch", "warden", "keeper")


def ensure_keeper(run_dir: Path, linger_s: float = 10.0) -> Keeper:
    """A connection to the run's keeper, which is started if none lives.

    A keeper that has nothing to run and nobody connected ends by itself after `linger_s`.
    """
    folder = run_dir / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    give_up = now() + 30.0
    while True:
        sock = _connect(folder)
        if sock is not None:
            return Keeper(run_dir, sock)
        answer = _launch(run_dir, linger_s)
        # Another starter may have been faster, or an old keeper be just about to end.
        if answer != "ready" and (now() > give_up or "another keeper" not in answer):
            raise ConfigError(
                f"the run's keeper did not start: {answer or 'it ended at once'}",
                f"see {folder / LOG}",
            )


def _connect(folder: Path) -> socket.socket | None:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Paths of sockets are limited to about 100 bytes; through the descriptor any folder fits.
        through = f"/proc/self/fd/{handle}"
        short = through if os.path.isdir(through) else str(folder)
        sock.connect(f"{short}/{SOCKET}")
    except (FileNotFoundError, ConnectionError):
        sock.close()
        return None
    finally:
        os.close(handle)
    return sock


def freeze_code(folder: Path) -> Path:
    """Copy the keeper's half, with its compiled form, so that an upgrade cannot change it."""
    source = Path(__file__).parent
    code = folder / f"code-{os.getpid()}-{time.monotonic_ns()}"
    package = code / "orchestrate" / "process"
    package.mkdir(mode=0o700, parents=True)
    (code / "orchestrate" / "__init__.py").write_bytes(b"")
    (code / "__main__.py").write_bytes(b"from orchestrate.process.keeper import main\n\nmain()\n")
    cache = package / "__pycache__"
    cache.mkdir(mode=0o700)
    for name in _FROZEN:
        # With its time of change, because that is how Python knows that the compiled form fits.
        shutil.copy2(source / f"{name}.py", package / f"{name}.py")
        compiled = source / "__pycache__" / f"{name}.{sys.implementation.cache_tag}.pyc"
        if compiled.exists():
            shutil.copyfile(compiled, cache / compiled.name)
    return code


def _launch(run_dir: Path, linger_s: float) -> str:
    """Start a keeper and wait until it serves or says why not."""
    folder = run_dir / FOLDER
    code = freeze_code(folder)
    answer, answer_end = os.pipe()
    log = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        python = sys.executable
        words = [python, "-I", "-S", "-B", "-X", "utf8", str(code), str(run_dir), str(linger_s)]
        files: list[Any] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, answer_end, 1),
            (os.POSIX_SPAWN_DUP2, log, 2),
        ]
        # None of our environment: it holds secrets, and requests bring their own.
        pid = os.posix_spawn(python, words, {}, file_actions=files)
    finally:
        os.close(answer_end)
        os.close(log)
    os.waitpid(pid, 0)
    with open(answer, "rb") as file:
        return file.read().decode("utf-8", "replace")


class Keeper:
    """A connection to a run's keeper. Threads may share it: whoever waits reads for all."""

    def __init__(self, run_dir: Path, sock: socket.socket) -> None:
        self.run_dir = run_dir
        self._sock = sock
        self._frames = Frames()
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._is_reading = False
        self._is_gone = False
        self._answers: dict[str, Message] = {}
        self._settled: dict[str, Ended | Lost] = {}
        self._await(lambda: "hello" in self._answers or self._is_gone, 30.0)
        hello = self._answers.pop("hello", {})
        if hello.get("version") != VERSION:
            raise ConfigError(
                "the run's keeper belongs to another version of orchestrate",
                "let its programs end, or resume with the version that started the run",
            )
        self.pid: int = hello["pid"]
        # False where the platform can only end process groups (macOS); `doctor` says so.
        self.ends_whole_trees: bool = hello["whole_trees"]

    def start(self, request: Request) -> Literal["started", "known"]:
        """Start a program; `known` if this attempt was claimed before, whoever asked then."""
        attempt = request.attempt
        if not ATTEMPT_ID.match(attempt):
            raise InternalError(f"{attempt!r} cannot be the name of an attempt")
        self._send({"op": "start", "attempt": attempt, "request": as_message(request)})
        answer = self._answer(f"start {attempt}")
        verdict = answer.get("is")
        if verdict == "started":
            return "started"
        if verdict == "known":
            if not answer["running"]:
                self._settle_from_record(attempt)
            return "known"
        if verdict == "refused":
            raise ConfigError(f"the program was not started: {answer['why']}")
        # The keeper died: the record says whether it did claim the attempt.
        if isinstance(look(self.run_dir, attempt), NotStarted):
            raise ConfigError("the program was not started: the run's keeper is gone")
        return "known"

    def adopt(self, attempt: str) -> Look:
        """Take over an attempt that another client started; `Running` ones can be waited for."""
        self._send({"op": "watch", "attempt": attempt})
        answer = self._answer(f"watch {attempt}")
        if answer.get("running"):
            return Running()
        return look(self.run_dir, attempt)

    def wait(self, attempt: str, timeout_s: float | None = None) -> Ended | Lost | None:
        """The end of an attempt that was started or adopted; None if it does not come in time."""
        self._await(lambda: attempt in self._settled or self._is_gone, timeout_s)
        if attempt not in self._settled and self._is_gone:
            return self._wait_for_record(attempt, timeout_s)
        with self._changed:
            return self._settled.pop(attempt, None)

    def poll(self, attempt: str) -> Ended | Lost | None:
        """The end of an attempt if it is known already."""
        return self.wait(attempt, 0.0)

    def stop(self, attempt: str, reason: str, grace_s: float = 5.0) -> None:
        """End an attempt's tree: TERM, and KILL after the grace. Its exit comes through `wait`."""
        order = {"op": "stop", "attempt": attempt, "reason": reason, "grace_s": grace_s}
        self._send(order)

    def shutdown(self, *, stop: bool = False, reason: str = "shut down") -> None:
        """Let the keeper end when nothing runs any more; `stop` ends what runs. Waits for it."""
        self._send({"op": "shutdown", "stop": stop, "reason": reason})
        self._await(lambda: self._is_gone, None)
        self.close()
        folder = self.run_dir / FOLDER
        while is_locked(str(folder / KEEPER_LOCK)) or are_wardens_left(folder):
            time.sleep(0.001)

    def close(self) -> None:
        """Let go of the keeper, which goes on with what it runs."""
        self._sock.close()

    def __enter__(self) -> Keeper:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _send(self, message: Message) -> None:
        try:
            with self._sending:
                self._sock.sendall(encode(message))
        except OSError:
            with self._changed:
                self._is_gone = True

    def _answer(self, key: str) -> Message:
        self._await(lambda: key in self._answers or self._is_gone, None)
        with self._changed:
            return self._answers.pop(key, {})

    def _settle_from_record(self, attempt: str) -> None:
        found = look(self.run_dir, attempt)
        if isinstance(found, Ended | Lost):
            with self._changed:
                self._settled.setdefault(attempt, found)

    def _wait_for_record(self, attempt: str, timeout_s: float | None) -> Ended | Lost | None:
        """Without a keeper only its wardens can be left, and they are ending their programs."""
        give_up = None if timeout_s is None else now() + timeout_s
        while True:
            found = look(self.run_dir, attempt)
            if isinstance(found, NotStarted):
                raise InternalError(f"attempt {attempt} was waited for but never started")
            if isinstance(found, Ended | Lost):
                return found
            if give_up is not None and now() >= give_up:
                return None
            time.sleep(0.005)

    def _await(self, is_so: Callable[[], bool], timeout_s: float | None) -> None:
        """Read messages, or let another thread read them, until something is so."""
        give_up = None if timeout_s is None else now() + timeout_s
        while True:
            left = None if give_up is None else max(give_up - now(), 0.0)
            with self._changed:
                if is_so():
                    return
                if self._is_reading:
                    if left == 0.0:
                        return
                    self._changed.wait(left)
                    continue
                self._is_reading = True
            heard: list[Message] | None = []
            try:
                heard = self._receive(left)
            finally:
                with self._changed:
                    self._is_reading = False
                    self._note(heard)
                    self._changed.notify_all()
            if not heard and left == 0.0:
                return

    def _receive(self, timeout_s: float | None) -> list[Message] | None:
        try:
            poll = select.poll()
            poll.register(self._sock.fileno(), select.POLLIN)
            if not poll.poll(None if timeout_s is None else timeout_s * 1000):
                return []
            data = self._sock.recv(1 << 16)
        except (OSError, ValueError):
            return None
        return list(self._frames.feed(data)) if data else None

    def _note(self, heard: list[Message] | None) -> None:
        if heard is None:
            self._is_gone = True
            return
        for message in heard:
            match message["on"]:
                case "hello":
                    self._answers["hello"] = message
                case "exit":
                    self._settled[message["attempt"]] = Ended(exit_of(message["exit"]))
                case "lost":
                    self._settled[message["attempt"]] = Lost(message["lost"]["reason"])
                case kind:
                    self._answers[f"{kind} {message['attempt']}"] = message
