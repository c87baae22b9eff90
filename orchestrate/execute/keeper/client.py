"""The engine's side of the keeper: start an attempt, wait for its end, find it again after a kill.

keeper = ensure_keeper(run_dir)       start the run's keeper, or find the one that lives
keeper.run(request)                   durable claim, then the program; never twice for one id;
                                      Ended(exit) | Lost(reason)
keeper.start(request), .wait(attempt) the same in two steps
keeper.send_ahead(before, request)    start it when another has ended well, in the same instant
keeper.wake()                         make `run` and `wait` return None now, from anywhere
look(run_dir, attempt)                the four facts, also when no process lives
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from orchestrate.errors import ConfigError
from orchestrate.execute.base import Lost, NotStarted, Running
from orchestrate.execute.keeper.connect import GONE, connect, no_keeper, peer_of, refusal
from orchestrate.execute.keeper.facts import (
    Ended,
    Look,
    Packer,
    Request,
    Unsettled,
    are_wardens_left,
    exit_of,
    look,
    look_again,
    reason_of,
)
from orchestrate.execute.keeper.patience import Patience
from orchestrate.execute.keeper.protocol import (
    FOLDER,
    KEEPER_LOCK,
    TAKES_FOLLOWERS,
    VERSION,
    Frames,
    bytes_of,
    encode,
    is_locked,
    now,
)
from orchestrate.execute.keeper.standard import socket
from orchestrate.execute.keeper.starter import LINGER_S, KeeperStart

_Words = list[str]
_Messages = list[tuple[_Words, bytes]]


def ensure_keeper(
    run_dir: Path,
    linger_s: float = LINGER_S,
    patience: Patience | None = None,
    begun: KeeperStart | None = None,
) -> Keeper:
    """A connection to the run's keeper, which is started if none lives; one may have `begun`.

    A keeper that has nothing to run and no client ends by itself after `linger_s`.
    """
    patience = patience or Patience(run_dir.name)
    folder = run_dir / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    give_up = now() + 30.0
    started = silent = 0
    while True:
        sock = None if begun is not None else connect(folder)
        if sock is not None:
            keeper = Keeper(run_dir, sock, started, patience)
            try:
                if started or keeper.is_introduced():
                    return keeper
            except BaseException:
                keeper.close()
                raise
            keeper.close()  # it ended while we knocked
        starting = KeeperStart(run_dir, linger_s) if begun is None else begun
        begun = None
        verdict, _, detail = starting.wait(patience).partition(" ")
        if verdict == "ready":
            started = int(detail)
            continue
        silent += not verdict
        # Another starter may have been faster, or an old keeper be just about to end; one that
        # finds the lock deleted ends all others.
        is_rival = "another keeper" in detail or silent in (1, 2)
        if now() > give_up or not is_rival:
            raise no_keeper(folder, detail)


class Keeper:
    """A connection to a run's keeper. Threads may share it: the one that waits reads for all."""

    def __init__(
        self,
        run_dir: Path,
        sock: socket.socket,
        pid: int = 0,
        patience: Patience | None = None,
    ) -> None:
        """The number is known of a keeper that was just started; others introduce themselves."""
        self.run_dir = run_dir
        self.patience = patience or Patience(run_dir.name)
        self.patience.pid = pid or peer_of(sock)
        self._sock = sock
        self._frames = Frames()
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._is_reading = False
        self._is_gone = False
        self._answers: dict[str, tuple[_Words, bytes]] = {}
        # An error is a run that was refused; "on record", one that had ended before.
        self._settled: dict[str, Ended | Lost | ConfigError | Literal["on record"]] = {}
        # Wake-ups that arrived, and how many of them a waiter has returned for.
        self._wakes = self._answered_wakes = 0
        self._packer = Packer()
        # What was sent ahead and has begun.
        self.begun: set[str] = set()
        self._takes: tuple[str, ...] = ()
        self._wake, self._wake_end = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._wake_end, False)
        self._poll = select.poll()
        for fd in (sock.fileno(), self._wake):
            self._poll.register(fd, select.POLLIN)
        self.pid = pid

    def is_introduced(self) -> bool:
        """Wait for its first words; False if it ends before it says them."""
        hello, _ = self._answer("hello")
        if not hello and self._is_gone:
            return False
        if hello[:1] != [str(VERSION)]:
            self.close()
            raise ConfigError(
                "the run's keeper belongs to another version of orchestrate",
                "let its programs end, or resume with the version that started the run",
            )
        self.pid = int(hello[1])
        return True

    @property
    def is_gone(self) -> bool:
        """Was the keeper seen to end? It may have ended unseen, too."""
        return self._is_gone

    @property
    def ends_whole_trees(self) -> bool:
        """False where the platform can only end process groups (macOS); `doctor` says so."""
        self._send("about")
        words, _ = self._answer("about -")
        return words == ["1"]

    def run(self, request: Request, timeout_s: float | None = None) -> Ended | Lost | None:
        """Start a program, or adopt it if it is known, and wait; None if `wake` or the time comes.

        Cheaper than `start` and `wait`: the caller is woken once. After None, `wait` goes on.
        """
        self.ask(request)
        return self.wait(request.attempt, timeout_s)

    def start(self, request: Request) -> Literal["started", "known"]:
        """Start a program; `known` if this attempt was claimed before, by any client."""
        attempt = request.attempt
        self.ask(request, "start")
        words, why = self._answer(f"start {attempt}")
        match words:
            case ["started"]:
                return "started"
            case ["known", is_running]:
                if is_running == "0":
                    self._settle(attempt, "on record")
                return "known"
            case ["refused"]:
                raise refusal(why)
            case _:  # the keeper died: the record says whether it did claim the attempt
                if isinstance(look(self.run_dir, attempt), NotStarted):
                    raise refusal(GONE)
                return "known"

    def adopt(self, attempt: str, *, is_announced: bool = True) -> Look:
        """Take over an attempt that another client started; `Running` ones can be waited for."""
        self._send(f"watch {attempt}")
        words, _ = self._answer(f"watch {attempt}")
        if words == ["1"]:
            return Running()
        found = look_again(self.run_dir, attempt, is_announced=is_announced)
        if isinstance(found, Unsettled):
            self._have_it_settled()
            found = look_again(self.run_dir, attempt, is_announced=is_announced)
        return found

    @property
    def wakes(self) -> int:
        """How often `wake` was heard of so far, for `wait`."""
        return self._wakes

    def wait(
        self, attempt: str, timeout_s: float | None = None, wakes: int | None = None
    ) -> Ended | Lost | None:
        """The end of an attempt that was started or adopted; None if it does not come in time.

        None also if `wake` is called, or was called since the last wait. Of several threads
        one may answer a call that another has yet to hear of: a thread that looks at something
        before it waits says with `wakes` how many calls there were when it looked.
        """
        give_up = None if timeout_s is None else now() + timeout_s
        wakes = self._answered_wakes if wakes is None else wakes
        self._await(lambda: attempt in self._settled or self._is_gone, give_up, wakes)
        with self._changed:
            found = self._settled.pop(attempt, "on record" if self._is_gone else None)
        if isinstance(found, ConfigError):
            raise found
        if found == "on record":
            return self._wait_for_record(attempt, give_up, wakes)
        return found

    def wake(self) -> None:
        """Make every `run` and `wait` return None: those that are blocked, or else the next one.

        For other threads and for signal handlers: it takes no lock and never blocks.
        """
        # It fails if it is closed, or if so many are waiting that one more makes no difference.
        with contextlib.suppress(OSError):
            os.write(self._wake_end, b"!")

    def stop(self, attempt: str, reason: str, grace_s: float = 5.0) -> None:
        """End an attempt's tree: TERM, and KILL after the grace. Its exit comes through `wait`."""
        self._send(f"stop {attempt} {float(grace_s)!r}", bytes_of(reason))

    def renew(self, attempt: str, until: float) -> bool:
        """Let a lease last until a time of `protocol.now`; False if the attempt does not run."""
        self._send(f"renew {attempt} {float(until)!r}")
        words, _ = self._answer(f"renew {attempt}")
        return words == ["1"]

    def shutdown(self, *, stop: bool = False, reason: str = "shut down") -> None:
        """Let the keeper end when nothing runs any more; `stop` ends what runs. Waits for it."""
        folder = self.run_dir / FOLDER
        # Of a keeper that was killed another one has settled what it ran: that one lives now.
        heir = connect(folder) if self._is_gone else None
        if heir is not None:
            self.close()
            with Keeper(self.run_dir, heir, patience=self.patience) as keeper:
                if keeper.is_introduced():
                    keeper.shutdown(stop=stop, reason=reason)
                    return
        self._send(f"shutdown {stop:d}", bytes_of(reason))
        self._await(lambda: self._is_gone)
        self.close()
        self.patience.begin()
        while is_locked(str(folder / KEEPER_LOCK)) or are_wardens_left(folder):
            time.sleep(0.001)
            self.patience.look()

    def close(self) -> None:
        """Let go of the keeper, which goes on with what it runs."""
        self._sock.close()
        wake, self._wake, self._wake_end = (self._wake, self._wake_end), -1, -1
        for fd in wake:
            if fd >= 0:
                os.close(fd)

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: Request, op: Literal["run", "start"] = "run") -> None:
        """Have a program started, or adopted if it is known; `wait` has its end."""
        if op == "run" and request.attempt in self.begun:
            self.begun.discard(request.attempt)
            return
        words = f"{op} {request.attempt} {not request.guarded:d}"
        self._send(words, self._packer.pack(request, self._takes))

    def send_ahead(self, before: str, request: Request | None) -> None:
        """Have a program started when another has ended well, or not, after all (None)."""
        if TAKES_FOLLOWERS not in self._takes:
            return
        if request is None:
            self._send(f"follow {before} -")
        else:
            self._send(f"follow {before} {request.attempt}", self._packer.pack(request))

    def _send(self, words: str, body: bytes = b"") -> None:
        try:
            with self._sending:
                self._send_all(encode(words, body))
        except (OSError, ValueError):  # gone, or closed by us
            with self._changed:
                self._is_gone = True

    def _send_all(self, data: bytes) -> None:
        """A keeper that stands still takes no more than fits between us."""
        self.patience.begin()
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._sock.send(rest, socket.MSG_DONTWAIT) :]
                continue
            except BlockingIOError:
                poll = select.poll()
                poll.register(self._sock.fileno(), select.POLLOUT)
                poll.poll(1000 * self.patience.look())

    def _ask_if_there(self) -> None:
        """A thread that is sending something waits for it already."""
        if self._sending.acquire(blocking=False):
            try:
                self._sock.send(encode("about"), socket.MSG_DONTWAIT)
            except OSError:
                return  # full, or gone: both will show
            finally:
                self._sending.release()

    def _answer(self, key: str) -> tuple[_Words, bytes]:
        self._await(lambda: key in self._answers or self._is_gone)
        with self._changed:
            return self._answers.pop(key, ([], b""))

    def _settle(self, attempt: str, end: Ended | Lost | ConfigError | Literal["on record"]) -> None:
        with self._changed:
            self._settled.setdefault(attempt, end)

    def _wait_for_record(
        self, attempt: str, give_up: float | None, wakes: int
    ) -> Ended | Lost | None:
        """Without a keeper only its wardens can be left, and they are ending their programs."""
        self.patience.begin()
        while True:
            found = look(self.run_dir, attempt)
            if isinstance(found, NotStarted):
                raise refusal(GONE)
            if isinstance(found, Ended | Lost):
                return found
            if isinstance(found, Unsettled):
                self._have_it_settled()
                continue
            if give_up is not None and now() >= give_up:
                return None
            if self._await(lambda: False, now() + 0.005, wakes):
                return None
            self.patience.look()

    def _have_it_settled(self) -> None:
        """Only another keeper can end what is left of our keeper's attempts, and prove that."""
        ensure_keeper(self.run_dir, patience=self.patience).close()

    def _await(
        self,
        is_so: Callable[[], bool],
        give_up: float | None = None,
        wakes: int | None = None,
    ) -> bool:
        """Read messages, or let another thread read them, until something is so.

        With `wakes`, how many the caller knows of, another one ends it too: then True.
        """
        self.patience.begin()
        while True:
            left = None if give_up is None else max(give_up - now(), 0.0)
            with self._changed:
                if is_so():
                    return False
                if wakes is not None and self._wakes > wakes:
                    self._answered_wakes = self._wakes
                    return True
                if self._is_reading:
                    if left == 0.0:
                        return False
                    # Who reads looks after the time; after a fault of his another one does.
                    self._changed.wait(left)
                    continue
                self._is_reading = True
            heard: _Messages = []
            try:
                # A keeper that is gone is not waited for, only what it has left.
                patience_s = None if self._is_gone else self.patience.look(self._ask_if_there)
                heard = self._receive(_sooner(left, patience_s))
            finally:
                with self._changed:
                    self._is_reading = False
                    self._note(heard)
                    self._changed.notify_all()
            if not heard and left == 0.0:
                return False

    def _receive(self, timeout_s: float | None) -> _Messages:
        """What is said within the time."""
        heard: _Messages = []
        is_heard = False
        try:
            for fd, _ in self._poll.poll(None if timeout_s is None else timeout_s * 1000):
                if fd == self._wake:
                    os.read(fd, 4096)
                    heard.append((["wake"], b""))
                    continue
                data = self._sock.recv(1 << 16)
                if not data:
                    raise ConnectionResetError
                is_heard = True
                heard += self._frames.feed(data)
        except (OSError, ValueError):
            # From here on only a wake-up can be heard.
            self._poll = select.poll()
            if self._wake >= 0:
                self._poll.register(self._wake, select.POLLIN)
            heard.append((["gone"], b""))
        if is_heard:
            self.patience.heard()
        return heard

    def _note(self, heard: _Messages) -> None:
        for words, body in heard:
            match words:
                case ["exit", attempt]:
                    self._settled[attempt] = Ended(exit_of(body))
                case ["lost", attempt]:
                    self._settled[attempt] = Lost(reason_of(body))
                case ["run", attempt, "known", is_running]:
                    if is_running == "0":
                        self._settled[attempt] = "on record"
                case ["run", attempt, "refused"]:
                    self._settled[attempt] = refusal(body)
                case ["wake"]:
                    self._wakes += 1
                case ["gone"]:
                    self._is_gone = True
                    self.patience.pid = 0
                case ["follow", attempt, "claimed"]:
                    self.begun.add(attempt)
                case ["hello", *more]:
                    self._answers["hello"] = (more, body)
                    self._takes = tuple(more)
                case _:
                    self._answers[" ".join(words[:2])] = (words[2:], body)


def _sooner(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else min(one, other)
