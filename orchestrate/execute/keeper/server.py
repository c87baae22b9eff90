"""The keeper: one per run, the only starter of its programs; outlives the orchestrator.

It holds a lock for life and records claims and exits in the journal. Each attempt has a warden to
watch it, except that a plain one that is alone is watched by the keeper itself, which saves two
changes of process and half of a quick step's time. Any number of clients may come and go. With
no client and nothing running the keeper ends by itself.

It works in rounds: read from all who have sent something, make all of it durable with one sync,
then act on it. A warden prepares an attempt while its claim becomes durable; then it is told to go.
"""

from __future__ import annotations

import gc
import os
import select
import time

from orchestrate.execute.flat_json import json_of
from orchestrate.execute.keeper import tree, warden
from orchestrate.execute.keeper.connections import Connection, WardenConnection
from orchestrate.execute.keeper.identity import keep_identity
from orchestrate.execute.keeper.journal import KeeperJournal
from orchestrate.execute.keeper.own_attempt import OwnAttempt
from orchestrate.execute.keeper.protocol import (
    KEEPER_ENDING,
    TAKES_FOLLOWERS,
    TAKES_SLOTS,
    VERSION,
    Refused,
    encode,
    now,
)
from orchestrate.execute.keeper.standard import accept, signal, socket
from orchestrate.execute.keeper.watch_loop import WatchHost, do_nothing
from orchestrate.execute.reasons import KEEPER_TERMINATED

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Where an attempt is watched.
    Place = WardenConnection | OwnAttempt

_END_PATIENCE_S = 15.0
# How long an end waits for the claim that mostly follows, to be synced with it.
_SYNC_WITHIN_MS = 1.0


def serve(
    folder: str,
    journal: KeeperJournal,
    listener: socket.socket,
    guardian: socket.socket,
    linger_s: float,
) -> None:
    """Keep the run's programs until nothing is left to do, and end this process."""
    KeeperProcess(folder, journal, listener, guardian, linger_s).serve()
    journal.close()
    # Free the lock only by ending: what is left of us must be nothing.
    os._exit(0)


class KeeperProcess:
    """The state of the keeper's process: the journal, the clients, the attempts."""

    def __init__(
        self,
        folder: str,
        journal: KeeperJournal,
        listener: socket.socket,
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
        self._clients: dict[int, Connection] = {}
        self._wardens: dict[int, WardenConnection] = {}
        self._free: list[WardenConnection] = []
        self._running: dict[str, Place] = {}
        # What this round's sync makes true: who may start (and who asked), who hears of what.
        self._claims: list[tuple[Place, Connection, str]] = []
        self._ends: dict[str, tuple[Place, bytes]] = {}
        # When the ends that were told are synced at the latest; None if they are.
        self._sync_by: float | None = None
        self._ends_whole_trees: bool | None = None
        self._ending = False
        self._idle_since = now()
        self._host = WatchHost(folder, journal.token, self._warden_pids)
        self._poll = self._host.poll
        self._own_attempt = OwnAttempt(self._host, guardian)
        signal.signal(signal.SIGTERM, do_nothing)
        self._listener = listener
        self._poll.register(listener.fileno(), select.POLLIN)

    def serve(self) -> None:
        while not self._is_done():
            for fd, _ in self._poll.poll(self._patience_ms()):
                if fd in self._clients:
                    self._hear_client(self._clients[fd])
                elif self._own_attempt.hears(fd):
                    continue
                elif fd in self._wardens:
                    self._hear_warden(self._wardens[fd])
                elif fd == self._host.wake:
                    self._hear_signals()
                elif fd == self._listener.fileno():
                    self._welcome()
            record = self._own_attempt.take_record()
            if record is not None:
                self._settle(self._own_attempt, "exit", record)
            self._commit()
            if self._ends_whole_trees is None:
                # Late, because it takes a while and the first client has been answered now.
                self._ends_whole_trees = tree.become_subreaper()

    def _patience_ms(self) -> float | None:
        sleep_ms = 1000 * self._linger_s if self._is_idle() else self._own_attempt.sleep_ms()
        if self._sync_by is None:
            return sleep_ms
        return _SYNC_WITHIN_MS if sleep_ms is None else min(sleep_ms, _SYNC_WITHIN_MS)

    def _is_idle(self) -> bool:
        return not self._clients and not self._running

    def _is_done(self) -> bool:
        if self._ending:
            return not self._running
        if not self._is_idle():
            self._idle_since = now()
        return now() - self._idle_since >= self._linger_s

    def _commit(self) -> None:
        """End a round: what was noted becomes durable, then true for all clients.

        Of an end its watchers hear before the sync: whatever they have started next is claimed
        behind it in the same file, so that a durable claim implies a durable exit. Mostly that
        comes at once, and one sync does for both.
        """
        if self._claim_follower():
            self._let_follow()
        elif self._ends and not self._claims:
            self._announce_ends()
        elif self._claims or (self._sync_by is not None and now() >= self._sync_by):
            self._sync()

    def _let_follow(self) -> None:
        """One sync for an exit and the claim behind it; their client hears of both before that."""
        own = self._own_attempt
        asker = self._clients[own.follower_fd]
        asker.unsent += encode(f"follow {own.follower} claimed")
        self._claims.append((own, asker, "follow"))
        self._announce_ends()
        if self._claims:
            self._sync()

    def _announce_ends(self) -> None:
        ends, self._ends = self._ends, {}
        self._journal.write()
        if self._sync_by is None:
            self._sync_by = now() + _SYNC_WITHIN_MS / 1000
        self._tell_and_release(ends)
        if now() >= self._sync_by:
            self._sync()

    def _sync(self) -> None:
        claims, self._claims = self._claims, []
        ends, self._ends = self._ends, {}
        has_told, self._sync_by = self._sync_by is not None, None
        try:
            self._journal.commit()
        except OSError as error:
            for place, asker, op in claims:
                place.drop()
                self._journal.claimed.discard(place.attempt)
                self._refuse(op, place.attempt, asker, error)
                self._release(place)
            if ends or (has_told and not self._journal.is_synced):
                raise  # an exit that cannot be recorded: we cannot be trusted from here on
            return
        if claims and not self._has_identity:
            self._keep_identity()
        for place, asker, op in claims:
            place.go()
            if op == "start":
                self._tell(asker, encode(f"start {place.attempt} started"))
        self._tell_and_release(ends)

    def _tell_and_release(self, ends: dict[str, tuple[Place, bytes]]) -> None:
        for place, message in ends.values():
            for fd in self._watchers_of(place):
                self._tell(self._clients[fd], message)
            self._release(place)
        if ends and not self._own_attempt.attempt:
            self._host.get_ready()

    def _hear_signals(self) -> None:
        if signal.SIGTERM in self._host.read_signals():
            self._stop_everything(KEEPER_TERMINATED.encode("ascii"))
        self._own_attempt.collect()

    def _welcome(self) -> None:
        try:
            sock = accept(self._listener)
        except OSError:
            return
        client = Connection(sock)
        self._clients[client.fd] = client
        self._poll.register(client.fd, select.POLLIN)
        self._tell(client, encode(f"hello {VERSION} {os.getpid()} {TAKES_FOLLOWERS} {TAKES_SLOTS}"))

    def _tell(self, client: Connection, message: bytes = b"") -> None:
        if not client.send(message):
            self._drop(client)
        elif bool(client.unsent) != client.is_behind:
            client.is_behind = not client.is_behind
            room = select.POLLOUT if client.is_behind else 0
            self._poll.modify(client.fd, select.POLLIN | room)

    def _drop(self, client: Connection) -> None:
        if self._clients.pop(client.fd, None) is not None:
            self._poll.unregister(client.fd)
            client.close()
            if self._own_attempt.follower_fd == client.fd:
                self._own_attempt.drop_follower()
            for place in self._running.values():
                place.watchers.discard(client.fd)

    def _hear_client(self, client: Connection) -> None:
        if client.unsent:
            self._tell(client)
        messages = client.receive()
        if messages is None:
            self._drop(client)
            return
        for words, body in messages:
            try:
                self._obey(words, body, client)
            except ValueError:  # a client that speaks nonsense must not cost a run
                self._drop(client)
                return

    def _obey(self, words: list[str], body: bytes, client: Connection) -> None:
        match words:
            case ["run" | "start" as op, attempt, is_plain]:
                self._start(op, attempt, body, client, is_plain=is_plain == "1")
            case ["follow", before, attempt]:
                self._take_follower(before, attempt, body, client)
            case ["watch", attempt]:
                self._tell(client, encode(f"watch {attempt} {self._watch(attempt, client):d}"))
            case ["stop", attempt, grace]:
                grace_s = float(grace)
                if attempt in self._running:
                    self._running[attempt].stop(body, grace_s)
                elif attempt == self._own_attempt.follower:
                    self._own_attempt.drop_follower()
                elif attempt not in self._journal.claimed:
                    client.early_stops[attempt] = (body, grace_s)
            case ["renew", attempt, until]:
                lease_until = float(until)
                if attempt in self._running:
                    self._running[attempt].renew(lease_until)
                self._tell(client, encode(f"renew {attempt} {attempt in self._running:d}"))
            case ["about"]:
                self._tell(client, encode(f"about - {bool(self._ends_whole_trees):d}"))
            case ["shutdown", stops]:
                self._ending = True
                self._own_attempt.drop_follower()
                if int(stops):
                    self._stop_everything(body)
            case _:
                raise ValueError("no such order")

    def _start(
        self, op: str, attempt: str, request: bytes, client: Connection, *, is_plain: bool
    ) -> None:
        if attempt in self._journal.claimed:
            self._tell(client, encode(f"{op} {attempt} known {self._watch(attempt, client):d}"))
            return
        if attempt == self._own_attempt.follower:
            self._own_attempt.drop_follower()  # it is wanted now
        try:
            if self._ending:
                raise Refused(KEEPER_ENDING)
            self._journal.reserve(len(self._running) + 2)
            place = self._find_place(is_plain=is_plain)
            place.prepare(attempt, request)
        except (OSError, Refused) as error:
            self._refuse(op, attempt, client, error)
            return
        self._journal.note("claim", attempt, b'{"at":%.6f}' % time.time())
        self._running[attempt] = place
        self._claims.append((place, client, op))
        place.watchers = {client.fd}
        if attempt in client.early_stops:
            place.stop(*client.early_stops.pop(attempt))

    def _take_follower(self, before: str, attempt: str, request: bytes, client: Connection) -> None:
        """What is to start as soon as another has ended well; `-` is nothing.

        There is no answer: where it cannot be it is forgotten, and its client asks for it later.
        """
        own = self._own_attempt
        own.drop_follower()
        if self._ending or attempt == "-" or attempt in self._journal.claimed:
            return
        if own.attempt == before and before not in self._ends and client.fd in own.watchers:
            try:
                own.prepare_follower(attempt, request, client.fd)
            except OSError:
                return

    def _claim_follower(self) -> bool:
        """Has our attempt ended well in this round? Then what follows it is claimed with its exit.

        Not without its client: nothing is started that no orchestrator waits for.
        """
        own = self._own_attempt
        if own.attempt not in self._ends or not own.follower:
            return False
        asker = self._clients.get(own.follower_fd)
        is_wanted = own.is_success and asker is not None and asker.is_there()
        try:
            if is_wanted:
                self._journal.reserve(len(self._running) + 2)
        except OSError:
            is_wanted = False
        if not is_wanted or self._ending or self._claims:
            own.drop_follower()
            return False
        self._journal.note("claim", own.follower, b'{"at":%.6f}' % time.time())
        return True

    def _find_place(self, *, is_plain: bool) -> Place:
        if (
            is_plain
            and not self._running
            and self._ends_whole_trees
            and self._own_attempt.is_guarded()
        ):
            return self._own_attempt
        return self._free.pop() if self._free else self._add_warden()

    def _refuse(self, op: str, attempt: str, client: Connection, error: Exception) -> None:
        why = str(error)
        if isinstance(error, OSError):
            why = f"the claim cannot be recorded: {error.strerror}"
        self._tell(client, encode(f"{op} {attempt} refused", why.encode("utf-8", "replace")))

    def _watch(self, attempt: str, client: Connection) -> bool:
        place = self._running.get(attempt)
        if place is not None:
            place.watchers.add(client.fd)
        return place is not None

    def _stop_everything(self, reason: bytes) -> None:
        self._ending = True
        for place in self._running.values():
            place.stop(reason, 2.0)

    def _settle(self, place: Place, kind: str, record: bytes) -> None:
        """Who asks before this is durable still finds it running, and hears of it with the rest."""
        watchers = [self._clients[fd] for fd in self._watchers_of(place)]
        if kind == "exit" and not any(client.is_there() for client in watchers):
            record = b'%b,"watched":false}' % record[:-1]
        self._journal.note(kind, place.attempt, record)
        self._ends[place.attempt] = (place, encode(f"{kind} {place.attempt}", record))

    def _watchers_of(self, place: Place) -> set[int]:
        return place.watchers & self._clients.keys()

    def _release(self, place: Place) -> None:
        del self._running[place.attempt]
        if place is self._own_attempt and self._own_attempt.follower in self._journal.claimed:
            self._own_attempt.let_follow()
            self._running[place.attempt] = place
            return
        place.attempt = ""
        place.watchers = set()
        if isinstance(place, WardenConnection) and place.fd in self._wardens:
            self._free.append(place)

    def _add_warden(self) -> WardenConnection:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            warden.become_warden(theirs, self._find_folder(), self._journal.token)
        theirs.close()
        added = WardenConnection(ours, pid)
        self._wardens[added.fd] = added
        self._poll.register(added.fd, select.POLLIN)
        return added

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
        return frozenset([warden.pid for warden in self._wardens.values()])

    def _hear_warden(self, warden: WardenConnection) -> None:
        messages = warden.receive()
        if messages is None:
            self._bury(warden)
            return
        for words, record in messages:
            self._settle(warden, words[0], record)

    def _bury(self, warden: WardenConnection) -> None:
        """A warden died: its orphans come to us."""
        del self._wardens[warden.fd]
        self._poll.unregister(warden.fd)
        warden.close()
        os.waitpid(warden.pid, 0)
        tree.end_descendants(_END_PATIENCE_S, self._not_orphans)
        if warden in self._free:
            self._free.remove(warden)
        elif warden.attempt not in self._ends:
            reason = "the process that watched it was killed"
            self._settle(warden, "lost", json_of({"reason": reason, "at": time.time()}))

    def _not_orphans(self) -> frozenset[int]:
        """Children who are not a dead warden's.

        Only those of the attempt that we watch ourselves can be among ours; they
        have its mark, if they have not both left its tree and cleared their environment.
        """
        if not self._own_attempt.attempt:
            return self._warden_pids()
        token, attempt = self._host.token, self._own_attempt.attempt
        ours = {pid for pid in tree.children() if tree.has_mark(pid, token, attempt)}
        return self._warden_pids() | ours | {self._own_attempt.pid}
