"""The keeper: one per run, the only starter of its programs; outlives whoever asked for them.

It holds a lock for life and records claims and exits in the journal. Each attempt has a warden to
watch it, except that a plain one that is alone is watched by the keeper itself, which saves two
changes of process and half of a quick step's time. Any number of clients may come and go. With
nobody connected and nothing running the keeper ends by itself.

It works in rounds: hear everybody who has something to say, make all of it durable with one sync,
then act on it. A warden prepares an attempt while its claim becomes durable; then it is told to go.
"""

from __future__ import annotations

import gc
import os
import select
import sys
import time

from orchestrate.execute.flat_json import json_of
from orchestrate.execute.keeper import tree, warden
from orchestrate.execute.keeper.connections import Line, WardenLine
from orchestrate.execute.keeper.identity import keep_identity
from orchestrate.execute.keeper.journal import Journal
from orchestrate.execute.keeper.own_attempt import Hand
from orchestrate.execute.keeper.protocol import KEEPER_ENDING, VERSION, Refused, encode, now
from orchestrate.execute.keeper.standard import accept, signal, socket
from orchestrate.execute.keeper.watch_loop import Post, do_nothing
from orchestrate.execute.reasons import KEEPER_TERMINATED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    # Where an attempt is watched.
    Place = WardenLine | Hand

_END_PATIENCE_S = 15.0


class Keeper:
    """The state of the keeper's process: the journal, the clients, the attempts."""

    def __init__(
        self,
        folder: str,
        journal: Journal,
        door: socket.socket,
        guardian: socket.socket,
        linger_s: float,
    ) -> None:
        # What is here now stays: children need not copy it, and next to no garbage is to come.
        gc.freeze()
        gc.enable()
        self._folder = folder
        self._folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._journal = journal
        self._has_identity = bool(journal.claimed)
        self._linger_s = linger_s
        self._clients: dict[int, Line] = {}
        self._wardens: dict[int, WardenLine] = {}
        self._free: list[WardenLine] = []
        self._running: dict[str, Place] = {}
        # What this round's sync makes true: who may start (and who asked), who hears of what.
        self._claims: list[tuple[Place, Line, str]] = []
        self._ends: dict[str, tuple[Place, bytes]] = {}
        self._ends_whole_trees: bool | None = None
        self._ending = False
        self._idle_since = now()
        self._post = Post(folder, journal.token, self._warden_pids)
        self._poll = self._post.poll
        self._hand = Hand(self._post, guardian)
        signal.signal(signal.SIGTERM, do_nothing)
        self._door = door
        self._poll.register(door.fileno(), select.POLLIN)

    # The loop.

    def serve(self) -> None:
        while not self._is_done():
            for fd, _ in self._poll.poll(self._patience_ms()):
                if fd in self._clients:
                    self._hear_client(self._clients[fd])
                elif self._hand.hears(fd):
                    continue
                elif fd in self._wardens:
                    self._hear_warden(self._wardens[fd])
                elif fd == self._post.wake:
                    self._hear_signals()
                elif fd == self._door.fileno():
                    self._welcome()
            record = self._hand.take_record()
            if record is not None:
                self._settle(self._hand, "exit", record)
            self._commit()
            if self._ends_whole_trees is None:
                # Late, because it takes a while and the first client has been answered now.
                self._ends_whole_trees = tree.become_subreaper()

    def _patience_ms(self) -> float | None:
        return 1000 * self._linger_s if self._is_idle() else self._hand.sleep_ms()

    def _is_idle(self) -> bool:
        return not self._clients and not self._running

    def _is_done(self) -> bool:
        if self._ending:
            return not self._running
        if not self._is_idle():
            self._idle_since = now()
        return now() - self._idle_since >= self._linger_s

    def _commit(self) -> None:
        """End a round: what was noted becomes durable, then true for everybody."""
        if not self._claims and not self._ends:
            return
        claims, self._claims = self._claims, []
        ends, self._ends = self._ends, {}
        try:
            self._journal.commit()
        except OSError as error:
            for place, asker, op in claims:
                place.drop()
                self._journal.claimed.discard(place.attempt)
                self._refuse(op, place.attempt, asker, error)
                self._release(place)
            if ends:  # an exit that cannot be recorded: nobody may trust us from here on
                raise
            return
        if claims and not self._has_identity:
            self._keep_identity()
        for place, asker, op in claims:
            place.go()
            if op == "start":
                self._tell(asker, encode(f"start {place.attempt} started"))
        for place, message in ends.values():
            for fd in self._watchers_of(place):
                self._tell(self._clients[fd], message)
            self._release(place)
        if ends and not self._hand.attempt:
            self._post.get_ready()

    def _hear_signals(self) -> None:
        if signal.SIGTERM in self._post.read_signals():
            self._stop_everything(KEEPER_TERMINATED.encode("ascii"))
        self._hand.collect()

    # Clients.

    def _welcome(self) -> None:
        try:
            sock = accept(self._door)
        except OSError:
            return
        line = Line(sock)
        self._clients[line.fd] = line
        self._poll.register(line.fd, select.POLLIN)
        self._tell(line, encode(f"hello {VERSION} {os.getpid()}"))

    def _tell(self, line: Line, message: bytes = b"") -> None:
        was_behind = bool(line.unsent)
        if not line.send(message):
            self._drop(line)
        elif was_behind or line.unsent:
            self._poll.modify(line.fd, select.POLLIN | (select.POLLOUT if line.unsent else 0))

    def _drop(self, line: Line) -> None:
        if self._clients.pop(line.fd, None) is not None:
            self._poll.unregister(line.fd)
            line.close()
            for place in self._running.values():
                place.watchers.discard(line.fd)

    def _hear_client(self, line: Line) -> None:
        if line.unsent:
            self._tell(line)
        messages = line.receive()
        if messages is None:
            self._drop(line)
            return
        for words, body in messages:
            try:
                self._obey(words, body, line)
            except ValueError:  # a client that speaks nonsense must not cost a run
                self._drop(line)
                return

    def _obey(self, words: list[str], body: bytes, line: Line) -> None:
        match words:
            case ["run" | "start" as op, attempt, is_plain]:
                self._start(op, attempt, body, line, is_plain=is_plain == "1")
            case ["watch", attempt]:
                self._tell(line, encode(f"watch {attempt} {self._watch(attempt, line):d}"))
            case ["stop", attempt, grace]:
                grace_s = float(grace)
                if attempt in self._running:
                    self._running[attempt].stop(body, grace_s)
            case ["renew", attempt, until]:
                lease_until = float(until)
                if attempt in self._running:
                    self._running[attempt].renew(lease_until)
                self._tell(line, encode(f"renew {attempt} {attempt in self._running:d}"))
            case ["about"]:
                self._tell(line, encode(f"about - {bool(self._ends_whole_trees):d}"))
            case ["shutdown", stops]:
                self._ending = True
                if int(stops):
                    self._stop_everything(body)
            case _:
                raise ValueError("no such order")

    def _start(self, op: str, attempt: str, request: bytes, line: Line, *, is_plain: bool) -> None:
        if attempt in self._journal.claimed:
            self._tell(line, encode(f"{op} {attempt} known {self._watch(attempt, line):d}"))
            return
        try:
            if self._ending:
                raise Refused(KEEPER_ENDING)
            self._journal.reserve(len(self._running) + 2)
            place = self._find_place(is_plain=is_plain)
            place.prepare(attempt, request)
        except (OSError, Refused) as error:
            self._refuse(op, attempt, line, error)
            return
        self._journal.note("claim", attempt, b'{"at":%.6f}' % time.time())
        self._running[attempt] = place
        self._claims.append((place, line, op))
        place.watchers = {line.fd}

    def _find_place(self, *, is_plain: bool) -> Place:
        if is_plain and not self._running and self._ends_whole_trees and self._hand.is_guarded():
            return self._hand
        return self._free.pop() if self._free else self._add_warden()

    def _refuse(self, op: str, attempt: str, line: Line, error: Exception) -> None:
        why = str(error)
        if isinstance(error, OSError):
            why = f"the claim cannot be recorded: {error.strerror}"
        self._tell(line, encode(f"{op} {attempt} refused", why.encode("utf-8", "replace")))

    def _watch(self, attempt: str, line: Line) -> bool:
        place = self._running.get(attempt)
        if place is not None:
            place.watchers.add(line.fd)
        return place is not None

    def _stop_everything(self, reason: bytes) -> None:
        self._ending = True
        for place in self._running.values():
            place.stop(reason, 2.0)

    # Attempts.

    def _settle(self, place: Place, kind: str, record: bytes) -> None:
        """Who asks before this is durable still finds it running, and hears of it with the rest."""
        if kind == "exit":
            is_watched = any(self._clients[fd].is_there() for fd in self._watchers_of(place))
            record = b'%b,"watched":%b}' % (record[:-1], b"true" if is_watched else b"false")
        self._journal.note(kind, place.attempt, record)
        self._ends[place.attempt] = (place, encode(f"{kind} {place.attempt}", record))

    def _watchers_of(self, place: Place) -> set[int]:
        return place.watchers & self._clients.keys()

    def _release(self, place: Place) -> None:
        del self._running[place.attempt]
        place.attempt = ""
        place.watchers = set()
        if isinstance(place, WardenLine) and place.fd in self._wardens:
            self._free.append(place)

    def _add_warden(self) -> WardenLine:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            self._become_warden(theirs)
        theirs.close()
        line = WardenLine(ours, pid)
        self._wardens[line.fd] = line
        self._poll.register(line.fd, select.POLLIN)
        return line

    def _become_warden(self, theirs: socket.socket) -> NoReturn:
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            # Being ignored would be inherited by every program. A signal to everybody must not end
            # who ends the program and says how.
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
                signal.signal(number, do_nothing)
            os.setsid()
            # Another warden's line kept open here would hide the keeper's end from it; and the
            # keeper's lock must go with the keeper.
            folder = self._find_folder()
            keep = theirs.fileno()
            os.closerange(3, keep)
            os.closerange(keep + 1, os.sysconf("SC_OPEN_MAX"))
            warden.serve(theirs, folder, self._journal.token)
            code = 0
        except BaseException:  # noqa: BLE001 - a forked child must not return into the keeper
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)

    def _keep_identity(self) -> None:
        try:
            keep_identity(os.path.dirname(self._find_folder()), self._journal.token)
        except OSError:
            return  # it is for the worst case only, and is tried again with the next claim
        self._has_identity = True

    def _find_folder(self) -> str:
        """Where our folder is now: the run's may have been moved."""
        try:
            return os.readlink(f"/proc/self/fd/{self._folder_fd}")
        except OSError:
            return self._folder

    def _warden_pids(self) -> frozenset[int]:
        return frozenset([line.pid for line in self._wardens.values()])

    def _hear_warden(self, line: WardenLine) -> None:
        messages = line.receive()
        if messages is None:
            self._bury(line)
            return
        for words, record in messages:
            self._settle(line, words[0], record)

    def _bury(self, line: WardenLine) -> None:
        """A warden died: its orphans come to us."""
        del self._wardens[line.fd]
        self._poll.unregister(line.fd)
        line.close()
        os.waitpid(line.pid, 0)
        tree.end_descendants(_END_PATIENCE_S, self._not_orphans)
        if line in self._free:
            self._free.remove(line)
        elif line.attempt not in self._ends:
            reason = "the process that watched it was killed"
            self._settle(line, "lost", json_of({"reason": reason, "at": time.time()}))

    def _not_orphans(self) -> frozenset[int]:
        """Children who are not a dead warden's.

        Nobody else's can be among ours, except those of the attempt that we watch ourselves; they
        have its mark, if they have not both left its tree and cleared their environment.
        """
        if not self._hand.attempt:
            return self._warden_pids()
        token, attempt = self._post.token, self._hand.attempt
        ours = {pid for pid in tree.children() if tree.has_mark(pid, token, attempt)}
        return self._warden_pids() | ours | {self._hand.pid}
