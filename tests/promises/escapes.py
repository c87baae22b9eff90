"""Ways out of a process tree, each tried by a program that this file is: `escapes.py NAMES THEN`.

Every process that is meant to survive writes its number and its birth into the file `pids` before
it lingers, so the tests need not trust names, sessions, parents or environments to find it. All of
them end by themselves after a minute, in case a test does not end them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable

LONGEST_S = 60.0
_SET_PDEATHSIG, _SET_NAME, _SET_SUBREAPER = 1, 15, 36
_EXIT_OF_A_THREAD = {"x86_64": 60, "aarch64": 93}
HERE = os.path.abspath(__file__)
PIDS = os.path.join(os.path.dirname(HERE), "pids")
GROWN = os.path.join(os.path.dirname(HERE), "grown")
Escape = Callable[[], None]
ESCAPES: dict[str, Escape] = {}


def escape(function: Escape) -> Escape:
    ESCAPES[function.__name__] = function
    return function


def birth_of(pid: int) -> str:
    """When a process began; with it a number names one process for ever."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[19].decode()


def note(name: str) -> None:
    line = f"{name} {os.getpid()} {birth_of(os.getpid())}\n"
    file = os.open(PIDS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, line.encode())
    os.close(file)


def linger(name: str) -> None:
    note(name)
    end = time.monotonic() + LONGEST_S
    while time.monotonic() < end:
        time.sleep(0.2)
    os._exit(0)


def fork(*deeds: Callable[[], object]) -> int:
    """A child that does one thing after the other, and ends."""
    pid = os.fork()
    if pid == 0:
        try:
            for deed in deeds:
                deed()
        finally:
            os._exit(0)
    return pid


def prctl(option: int, value: object) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def deaf() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def end_this_thread() -> None:
    """And not the process, as Python would."""
    ctypes.CDLL(None).syscall(_EXIT_OF_A_THREAD[os.uname().machine], 0)


def become(*words: str, name: str = "python", env: dict[str, str] | None = None) -> None:
    """Another program that lingers: this one again, with another face.

    Only the last part of its name can be a lie, for Python finds its library by the others.
    """
    face = os.path.join(os.path.dirname(sys.executable), name)
    arguments = [face, "-I", "-S", HERE, "linger", *words]
    os.execve(sys.executable, arguments, dict(os.environ) if env is None else env)


@escape
def own_session() -> None:
    fork(os.setsid, lambda: linger("own_session"))


@escape
def own_group() -> None:
    fork(lambda: os.setpgid(0, 0), lambda: linger("own_group"))


@escape
def double_fork() -> None:
    def middle() -> None:
        os.setsid()
        fork(lambda: linger("double_fork"))

    os.waitpid(fork(middle), 0)


@escape
def deaf_to_signals() -> None:
    fork(deaf, lambda: linger("deaf_to_signals"))


@escape
def blocked_signals() -> None:
    def child() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
        linger("blocked_signals")

    fork(child)


@escape
def stopped() -> None:
    def child() -> None:
        note("stopped")
        os.kill(os.getpid(), signal.SIGSTOP)
        linger("stopped")

    fork(child)


@escape
def stopped_in_own_session() -> None:
    def child() -> None:
        os.setsid()
        note("stopped_in_own_session")
        os.kill(os.getpid(), signal.SIGSTOP)

    fork(child)


@escape
def holder_of_output() -> None:
    """Nobody who waits for the end of the output may wait for this one."""
    fork(os.setsid, deaf, lambda: linger("holder_of_output"))


@escape
def fork_loop() -> None:
    """Never the same process for longer than some milliseconds, for a few hundred times."""

    def run() -> None:
        for _ in range(400):
            note("fork_loop")
            time.sleep(0.01)
            if os.fork():
                os._exit(0)

    fork(run)


@escape
def cleared_environment() -> None:
    fork(os.setsid, lambda: become("cleared_environment", env={}))


@escape
def nohup() -> None:
    line = f'nohup "{sys.executable}" -I -S "{HERE}" linger nohup > /dev/null 2>&1 &'
    fork(lambda: os.execvp("sh", ["sh", "-c", line]))


@escape
def disowned_job() -> None:
    line = f'set -m; "{sys.executable}" -I -S "{HERE}" linger disowned_job & disown -a'
    fork(lambda: os.execvp("bash", ["bash", "-c", line]))


@escape
def daemon() -> None:
    """As the books say: fork, session, fork, root folder, all descriptors closed."""

    def middle() -> None:
        os.setsid()

        def last() -> None:
            os.chdir("/")
            os.umask(0)
            os.closerange(0, 256)
            linger("daemon")

        fork(last)

    os.waitpid(fork(middle), 0)


@escape
def elsewhere() -> None:
    fork(lambda: os.chdir("/"), os.setsid, lambda: linger("elsewhere"))


@escape
def orphan_of_orphans() -> None:
    def go(depth: int) -> None:
        if depth:
            fork(lambda: go(depth - 1))
            os._exit(0)
        linger("orphan_of_orphans")

    os.waitpid(fork(lambda: go(6)), 0)


@escape
def holder_of_zombies() -> None:
    def child() -> None:
        for _ in range(5):
            fork(lambda: None)
        linger("holder_of_zombies")

    fork(child)


@escape
def renamed() -> None:
    def child() -> None:
        prctl(_SET_NAME, b"kworker/0:1")
        os.setsid()
        become("renamed", name="[kworker]")

    fork(child)


@escape
def many_threads() -> None:
    def child() -> None:
        for _ in range(8):
            threading.Thread(target=time.sleep, args=(LONGEST_S,), daemon=True).start()
        linger("many_threads")

    fork(child)


@escape
def threads_without_their_leader() -> None:
    """The first thread has ended: the process looks like a zombie, but works on."""

    def child() -> None:
        os.setsid()
        note("threads_without_their_leader")
        threading.Thread(target=time.sleep, args=(LONGEST_S,), daemon=True).start()
        time.sleep(0.05)
        end_this_thread()

    fork(child)


@escape
def child_of_such_threads() -> None:
    """Its parent looks like a zombie, so whoever leaves those out does not find it."""

    def child() -> None:
        os.setsid()
        threading.Thread(target=time.sleep, args=(LONGEST_S,), daemon=True).start()
        fork(lambda: linger("child_of_such_threads"))
        time.sleep(0.05)
        end_this_thread()

    fork(child)


@escape
def chain_of_programs() -> None:
    """Each starts the next by posix_spawn, which may be a vfork, and ends."""
    words = [sys.executable, "-I", "-S", HERE, "chain", "5"]
    os.posix_spawn(sys.executable, words, dict(os.environ))


@escape
def held_by_a_socket() -> None:
    ours, theirs = socket.socketpair()

    def child() -> None:
        os.setsid()
        note("held_by_a_socket")
        theirs.recv(1)  # for ever, for it holds the other end itself

    fork(child)
    del ours


@escape
def forks_when_it_is_asked_to_end() -> None:
    def more(*_: object) -> None:
        for _again in range(3):
            fork(os.setsid, deaf, lambda: linger("forks_when_it_is_asked_to_end"))

    def child() -> None:
        signal.signal(signal.SIGTERM, more)
        linger("forks_when_it_is_asked_to_end")

    fork(child)


@escape
def takes_orphans_itself() -> None:
    """A subreaper below ours, which then ends with others still below it."""

    def child() -> None:
        prctl(_SET_SUBREAPER, 1)
        fork(lambda: fork(os.setsid, lambda: linger("takes_orphans_itself")))
        time.sleep(0.05)

    fork(child)


@escape
def no_death_signal() -> None:
    def child() -> None:
        prctl(_SET_PDEATHSIG, 0)
        os.setsid()
        linger("no_death_signal")

    fork(child)


@escape
def all_of_it() -> None:
    def middle() -> None:
        os.setsid()

        def last() -> None:
            deaf()
            signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
            prctl(_SET_PDEATHSIG, 0)
            os.chdir("/")
            os.closerange(0, 256)
            become("all_of_it", name="sh", env={})

        fork(last)

    os.waitpid(fork(middle), 0)


def chain(left: int) -> None:
    note("chain_of_programs")
    if left == 0:
        linger("chain_of_programs")
    words = [sys.executable, "-I", "-S", HERE, "chain", str(left - 1)]
    os.posix_spawn(sys.executable, words, dict(os.environ))


def noted(pids: str = PIDS) -> dict[str, list[tuple[int, str]]]:
    """Who has written itself down: numbers and births by the way out."""
    found: dict[str, list[tuple[int, str]]] = {}
    with open(pids, encoding="ascii") as file:
        for line in file:
            name, pid, birth = line.split()
            found.setdefault(name, []).append((int(pid), birth))
    return found


def main() -> None:
    what, *rest = sys.argv[1:]
    if what == "linger":
        deaf()
        linger(rest[0])
    if what == "chain":
        chain(int(rest[0]))
        return
    names = list(ESCAPES) if what == "all" else what.split(",")
    for name in names:
        ESCAPES[name]()
    end = time.monotonic() + 90
    while time.monotonic() < end and not (os.path.exists(PIDS) and noted().keys() >= set(names)):
        time.sleep(0.01)
    time.sleep(0.1)
    with open(GROWN, "w", encoding="ascii") as file:
        file.write(".")
    if rest[0] == "lingers":
        deaf()
        time.sleep(LONGEST_S)


if __name__ == "__main__":
    main()
