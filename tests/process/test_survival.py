"""Whoever is killed: nothing is lost that is on record, nothing runs twice, nothing runs on."""

from __future__ import annotations

import ast
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from orchestrate import exits
from orchestrate.errors import ConfigError
from orchestrate.execute.base import Lost, NotStarted, Running
from orchestrate.execute.keeper import launch, starter
from orchestrate.execute.keeper.client import ensure_keeper
from orchestrate.execute.keeper.facts import Ended, Unsettled, look
from orchestrate.execute.keeper.patience import Patience
from orchestrate.execute.keeper.protocol import FOLDER, JOURNAL, KEEPER_LOCK, LOG, is_locked
from orchestrate.execute.liveness import is_keeper_alive
from tests.process.conftest import (
    MakeRequest,
    children_of,
    do_at_once,
    is_alive,
    parent_of,
    pid_in,
    wait_until,
)

REPOSITORY = Path(__file__).resolve().parents[2]

CLIENT = """
import sys, time, os
from pathlib import Path
from orchestrate.execute.keeper.client import ensure_keeper
from orchestrate.execute.keeper.facts import Request
run_dir = Path(sys.argv[1])
keeper = ensure_keeper(run_dir)
keeper.start(Request("a", ("sh", "-c", sys.argv[2]), {"PATH": os.environ["PATH"]}, run_dir,
    run_dir / "a.stdout", run_dir / "a.stderr", timeout_s=float(sys.argv[3]),
    guarded=sys.argv[4] == "True"))
print("started", flush=True)
time.sleep(60)
"""


def killed_client(run_dir: Path, script: str, *, guarded: bool, timeout_s: float = 60) -> None:
    """A client of its own process group that starts attempt `a` and is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(run_dir), script, str(timeout_s), str(guarded)],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        os.killpg(process.pid, signal.SIGKILL)


def test_a_killed_clients_program_is_adopted(
    run_dir: Path, request_for: MakeRequest, is_guarded: bool
) -> None:
    script = "echo $$ > pid; echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; exit 9"
    killed_client(run_dir, script, guarded=is_guarded)
    pid = pid_in(run_dir / "pid")
    assert look(run_dir, "a") == Running()
    with ensure_keeper(run_dir) as keeper:
        assert keeper.adopt("a") == Running()
        assert keeper.start(request_for("a", "sh", "-c", "echo again > again")) == "known"
        assert keeper.wait("a", 0.0) is None
        (run_dir / "go").touch()
        end = keeper.wait("a", 60)
        assert isinstance(end, Ended)
        assert (end.exit.pid, end.exit.code, end.exit.stdout) == (pid, 9, b"one\ntwo\n")
        assert (run_dir / "a.stdout").read_bytes() == b"one\ntwo\n"
        assert not (run_dir / "again").exists()
        assert keeper.adopt("a") == end
        assert keeper.adopt("b") == NotStarted()


def test_the_timeout_counts_while_nobody_watches(run_dir: Path, is_guarded: bool) -> None:
    killed_client(run_dir, "exec sleep 60", guarded=is_guarded, timeout_s=0.7)
    time.sleep(1.0)
    wait_until(lambda: look(run_dir, "a") != Running())
    end = look(run_dir, "a")
    assert isinstance(end, Ended)
    assert end.exit.timed_out
    assert 0.7 <= end.exit.duration_s < 30


def test_it_ends_while_nobody_watches(run_dir: Path, is_guarded: bool) -> None:
    killed_client(run_dir, "sleep 0.2; echo out; exit 4", guarded=is_guarded)
    wait_until(lambda: look(run_dir, "a") != Running())
    with ensure_keeper(run_dir) as keeper:
        end = keeper.adopt("a")
        assert isinstance(end, Ended)
        assert (end.exit.code, end.exit.stdout) == (4, b"out\n")


# A child in another session, with an empty environment: only its ancestors give it away.
NESTED = "echo $$ > pid; env -i setsid sh -c 'echo $$ > inner; exec sleep 60' & wait"


def test_a_killed_keeper_takes_its_programs_along(run_dir: Path, request_for: MakeRequest) -> None:
    with ensure_keeper(run_dir) as keeper:
        keeper.start(request_for("a", "sh", "-c", NESTED))
        pids = [pid_in(run_dir / "pid"), pid_in(run_dir / "inner")]
        os.kill(keeper.pid, signal.SIGKILL)
        assert isinstance(keeper.wait("a", 60), Lost)
        assert not any(map(is_alive, pids))
        assert isinstance(look(run_dir, "a"), Lost)
    with ensure_keeper(run_dir) as second:
        assert second.pid != keeper.pid
        assert second.start(request_for("a", "touch", str(run_dir / "again"))) == "known"
        assert isinstance(second.wait("a", 60), Lost)
        assert not (run_dir / "again").exists()
        assert second.start(request_for("a2", "true")) == "started"
        assert isinstance(second.wait("a2", 60), Ended)
        assert isinstance(look(run_dir, "a"), Lost)


@pytest.mark.parametrize("spot", ["token", "claim", "exit", "cut", "first byte"])
def test_a_damaged_journal_starts_nothing_again(
    run_dir: Path, request_for: MakeRequest, spot: str
) -> None:
    """A bit that flipped, or a file that was cut: what stood behind it may have been started."""
    with ensure_keeper(run_dir) as keeper:
        assert isinstance(keeper.run(request_for("a", "true")), Ended)
        assert isinstance(keeper.run(request_for("b", "true")), Ended)
        assert isinstance(keeper.adopt("c"), NotStarted)
        keeper.shutdown()
    wait_until(lambda: not is_keeper_alive(run_dir))
    path = run_dir / "keeper" / "journal"
    data = bytearray(path.read_bytes())
    places = {"token": b"token", "claim": b" claim b ", "exit": b" exit a ", "cut": b" exit b "}
    place = 0 if spot == "first byte" else data.index(places[spot]) + 3
    if spot == "cut":
        del data[place:]
    else:
        data[place] ^= 1
    path.write_bytes(data)
    for _ in range(2):
        with ensure_keeper(run_dir) as keeper:
            known = ["a"] if spot in ("claim", "cut") else []
            for attempt in ("a", "b", "c"):
                expected = Ended if attempt in known else Lost
                assert isinstance(keeper.adopt(attempt), expected), attempt
            assert isinstance(keeper.run(request_for("d", "true")), Ended)
            keeper.shutdown()
        wait_until(lambda: not is_keeper_alive(run_dir))


def test_what_still_runs_is_ended_when_the_journal_is_damaged(
    run_dir: Path, plain_request: MakeRequest
) -> None:
    request_for = plain_request
    with ensure_keeper(run_dir) as keeper:
        keeper.start(request_for("a", "sh", "-c", "echo $$ > pid; exec sleep 60"))
        pid = pid_in(run_dir / "pid")
        everybody = {keeper.pid, parent_of(keeper.pid), *children_of(keeper.pid)} - {pid}
        for number in (signal.SIGSTOP, signal.SIGKILL):  # at once: none may act on another's end
            for other in everybody:
                os.kill(other, number)
        wait_until(lambda: not any(map(is_alive, everybody)))
    path = run_dir / "keeper" / "journal"
    path.write_bytes(path.read_bytes().replace(b" claim a ", b" claim b "))
    assert is_alive(pid)
    with ensure_keeper(run_dir) as second:
        assert not is_alive(pid)
        assert isinstance(second.adopt("a"), Lost)


def test_a_killed_warden_costs_one_attempt(run_dir: Path, guarded_request: MakeRequest) -> None:
    request_for = guarded_request
    with ensure_keeper(run_dir) as keeper:
        keeper.start(request_for("a", "sh", "-c", NESTED))
        [warden] = children_of(keeper.pid)
        pids = [pid_in(run_dir / "pid"), pid_in(run_dir / "inner")]
        until_go = "until test -e go; do sleep 0.02; done"
        keeper.start(request_for("b", "sh", "-c", f"echo $$ > other; {until_go}; exit 5"))
        other = pid_in(run_dir / "other")
        os.kill(warden, signal.SIGKILL)
        assert isinstance(keeper.wait("a", 60), Lost)
        assert not any(map(is_alive, pids))
        assert is_alive(other)
        (run_dir / "go").touch()
        end = keeper.wait("b", 60)
        assert isinstance(end, Ended)
        assert end.exit.code == 5
        keeper.start(request_for("c", "true"))
        assert isinstance(keeper.wait("c", 60), Ended)


def test_everybody_killed_at_once(
    run_dir: Path, request_for: MakeRequest, is_guarded: bool
) -> None:
    """A guarded program dies by the kernel; what is left is found by its mark before all else."""
    script = "echo $$ > pid; setsid sh -c 'echo $$ > inner; exec sleep 60' & wait"
    with ensure_keeper(run_dir) as keeper:
        keeper.start(request_for("a", "sh", "-c", script))
        pid, inner = pid_in(run_dir / "pid"), pid_in(run_dir / "inner")
        guardian = parent_of(keeper.pid)
        watchers = [child for child in children_of(keeper.pid) if child != pid]
        everybody = (*watchers, keeper.pid, guardian)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for victim in everybody:
                os.kill(victim, number)
        wait_until(lambda: not any(map(is_alive, everybody)))
        if is_guarded:
            wait_until(lambda: not is_alive(pid))
        assert isinstance(keeper.wait("a", 60), Lost)
    with ensure_keeper(run_dir):
        assert not is_alive(pid)
        assert not is_alive(inner)
        assert isinstance(look(run_dir, "a"), Lost)


@pytest.mark.parametrize("rounds", [8, pytest.param(300, marks=pytest.mark.soak)])
def test_killed_at_any_moment(run_dir: Path, request_for: MakeRequest, rounds: int) -> None:
    """No attempt runs twice, none that ended is forgotten, none that has begun is begun again."""
    chance = random.Random(f"{rounds}")
    log = run_dir / "log"
    log.touch()
    for number in range(rounds):
        attempt = f"a{number}"
        request = request_for(attempt, "sh", "-c", f"echo {attempt} >> log; sleep 0.005")
        with ensure_keeper(run_dir) as keeper:
            assert keeper.ends_whole_trees
            delay = chance.choice((0.0, 0.002, 0.01, 0.02)) * chance.random()
            kill = threading.Timer(delay, os.kill, (keeper.pid, signal.SIGKILL))
            kill.start()
            end = None
            with contextlib.suppress(ConfigError):
                end = keeper.run(request)
            kill.join()
        wait_until(lambda attempt=attempt: look(run_dir, attempt) != Running())  # type: ignore[misc]
        found = look(run_dir, attempt)
        assert end is None or end == found
        with ensure_keeper(run_dir) as keeper:
            runs = log.read_text().split().count(attempt)
            match found:
                case Ended(exit):
                    assert (exit.code, runs) == (0, 1)
                case Lost():
                    assert runs <= 1
                case NotStarted():
                    assert runs == 0
                case Running() | Unsettled():
                    raise AssertionError
            first = keeper.start(request)
            assert (first == "started") == (found == NotStarted())
            assert isinstance(keeper.wait(attempt, 60), Ended | Lost)
            assert log.read_text().split().count(attempt) == max(runs, found == NotStarted())


def test_an_upgrade_changes_nothing_under_a_run(
    run_dir: Path, request_for: MakeRequest, tmp_path: Path
) -> None:
    """All code is in memory before the first request is heard."""
    old = tmp_path / "old"
    shutil.copytree(REPOSITORY / "orchestrate", old / "orchestrate")
    program = (
        "import sys; from pathlib import Path;"
        "from orchestrate.execute.keeper.client import ensure_keeper;"
        "k = ensure_keeper(Path(sys.argv[1])); print(k.pid, k.ends_whole_trees)"
    )
    started = subprocess.run(
        [sys.executable, "-P", "-c", program, str(run_dir)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(old)},
        capture_output=True,
        check=True,
    )
    shutil.rmtree(old)
    with ensure_keeper(run_dir) as keeper:
        assert started.stdout == b"%d True\n" % keeper.pid
        keeper.start(
            request_for("a", "sh", "-c", "sleep 0.3; exit 2", secrets=("hunter2-hunter2",))
        )
        keeper.start(request_for("b", "sh", "-c", "setsid sleep 60 & exit 3", timeout_s=9))
        for attempt, code in (("b", 3), ("a", 2)):
            end = keeper.wait(attempt, 60)
            assert isinstance(end, Ended)
            assert end.exit.code == code
        assert (run_dir / FOLDER / "log").read_bytes() == b""


def test_a_claim_without_a_program_is_lost(run_dir: Path, request_for: MakeRequest) -> None:
    """Power failed right after the claim."""
    from orchestrate.execute.keeper.journal import KeeperJournal

    (run_dir / FOLDER).mkdir()
    KeeperJournal(str(run_dir / FOLDER / JOURNAL)).append("claim", "a", {"at": 0.0})
    assert look(run_dir, "b") == NotStarted()
    assert look(run_dir, "a") == Unsettled(), "a keeper has to prove it first"
    with ensure_keeper(run_dir) as keeper:
        assert keeper.start(request_for("a", "touch", str(run_dir / "again"))) == "known"
        assert isinstance(keeper.wait("a", 60), Lost)
    assert not (run_dir / "again").exists()


def test_two_keepers_cannot_have_one_run(run_dir: Path) -> None:
    with ensure_keeper(run_dir) as first, ensure_keeper(run_dir) as second:
        assert first.pid == second.pid
        assert "another keeper" in starter.KeeperStart(run_dir, 1.0).wait(Patience("run"))
        assert is_alive(first.pid)
        assert is_locked(str(run_dir / FOLDER / KEEPER_LOCK))


def test_a_keeper_that_cannot_start_says_why_at_once(run_dir: Path) -> None:
    (run_dir / FOLDER / JOURNAL).mkdir(parents=True)
    began = time.monotonic()
    with pytest.raises(ConfigError, match=r"did not start: .*Is a directory") as caught:
        ensure_keeper(run_dir)
    assert time.monotonic() - began < 28, "only another keeper is waited for"
    assert str(run_dir / FOLDER / LOG) in caught.value.hint
    assert not is_locked(str(run_dir / FOLDER / KEEPER_LOCK))


def test_many_clients_at_once_find_one_keeper(run_dir: Path) -> None:
    pids: list[int] = []

    def ask(_: int) -> None:
        with ensure_keeper(run_dir) as keeper:
            pids.append(keeper.pid)

    do_at_once(4, ask)
    assert len(pids) == 4
    assert len(set(pids)) == 1


def test_shutdown_waits_for_what_runs_or_stops_it(run_dir: Path, request_for: MakeRequest) -> None:
    keeper = ensure_keeper(run_dir)
    keeper.start(request_for("a", "sh", "-c", "sleep 0.3; exit 6"))
    keeper.shutdown()
    end = look(run_dir, "a")
    assert isinstance(end, Ended)
    assert end.exit.code == 6
    assert not is_locked(str(run_dir / FOLDER / KEEPER_LOCK))
    with pytest.raises(ConfigError, match="gone"):
        keeper.start(request_for("late", "true"))
    keeper = ensure_keeper(run_dir)
    keeper.start(request_for("b", "sleep", "60"))
    keeper.shutdown(stop=True, reason="cancelled")
    end = look(run_dir, "b")
    assert isinstance(end, Ended)
    assert (end.exit.signal, end.exit.stopped) == (signal.SIGTERM, "cancelled")


def test_shutdown_waits_until_nobody_of_the_run_is_left(
    run_dir: Path, request_for: MakeRequest
) -> None:
    keeper = ensure_keeper(run_dir)
    assert isinstance(keeper.run(request_for("a", "true")), Ended)
    guardian = parent_of(keeper.pid)
    os.kill(guardian, signal.SIGSTOP)
    ending = threading.Thread(target=keeper.shutdown)
    ending.start()
    wait_until(lambda: not is_alive(keeper.pid))
    ending.join(0.3)
    assert ending.is_alive()
    assert is_keeper_alive(run_dir), "its programs may still be ending"
    os.kill(guardian, signal.SIGCONT)
    ending.join(60)
    assert not ending.is_alive()
    assert not is_keeper_alive(run_dir)


def test_a_terminated_keeper_ends_its_programs_and_says_so(
    run_dir: Path, request_for: MakeRequest
) -> None:
    for number in range(4):
        with ensure_keeper(run_dir) as keeper:
            keeper.start(request_for(f"a{number}", "sleep", "60"))
            os.kill(keeper.pid, signal.SIGTERM)
            end = keeper.wait(f"a{number}", 60)
            assert isinstance(end, Ended)
            assert end.exit.stopped == "the keeper was terminated"
            assert end.exit.signal == signal.SIGTERM
            wait_until(lambda pid=keeper.pid: not is_alive(pid))  # type: ignore[misc]


def test_an_idle_keeper_ends_by_itself(run_dir: Path, request_for: MakeRequest) -> None:
    with ensure_keeper(run_dir, linger_s=0.2) as keeper:
        time.sleep(0.5)
        assert is_alive(keeper.pid), "somebody is connected"
        keeper.start(request_for("a", "sh", "-c", "until test -e go; do sleep 0.02; done"))
    time.sleep(0.5)
    assert is_alive(keeper.pid), "something runs"
    (run_dir / "go").touch()
    wait_until(lambda: not is_alive(keeper.pid))
    assert isinstance(look(run_dir, "a"), Ended)


@pytest.mark.parametrize("nonsense", ["stop", "stop a soon", "start b", "start b 1", "what?", ""])
def test_nonsense_costs_the_client_its_line_and_nobody_else(
    run_dir: Path, plain_request: MakeRequest, nonsense: str
) -> None:
    with ensure_keeper(run_dir) as keeper, ensure_keeper(run_dir) as fool:
        fool._send(nonsense)
        with pytest.raises(ConfigError, match="gone"):
            fool.start(plain_request("b", "true"))
        keeper.start(plain_request("a", "true"))
        assert isinstance(keeper.wait("a", 60), Ended)


def test_a_client_that_does_not_listen_is_no_danger(
    run_dir: Path, request_for: MakeRequest
) -> None:
    """Writing to it fails, and must not raise a signal that ends the keeper."""
    with ensure_keeper(run_dir) as keeper, ensure_keeper(run_dir) as deaf:
        deaf._sock.shutdown(socket.SHUT_RD)
        deaf._send("watch a")
        deaf._send("about")
        keeper.start(request_for("a", "true"))
        assert isinstance(keeper.wait("a", 60), Ended)
        assert is_alive(keeper.pid)


def test_the_keeper_is_detached(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_THE_CLIENT", "secret")
    with ensure_keeper(run_dir) as keeper:
        # Nobody's terminal and nobody's group, its guardian's neither.
        for pid in (keeper.pid, parent_of(keeper.pid)):
            assert os.getsid(pid) == os.getpgid(pid) == pid
        proc = Path(f"/proc/{keeper.pid}")
        status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines())
        assert int(status["SigBlk"], 16) == 0
        ignored = (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ)
        # 32 and 33 belong to the C library, which lets nobody change them.
        seen = int(status["SigIgn"], 16) & ~(0b11 << 31)
        assert seen == sum(1 << (number - 1) for number in ignored)
        assert b"OF_THE_CLIENT" not in (proc / "environ").read_bytes()
        assert os.readlink(proc / "fd" / "0") == os.readlink(proc / "fd" / "1") == "/dev/null"
        assert keeper.ends_whole_trees
        words = (proc / "cmdline").read_bytes().split(b"\0")
        assert words[1:3] == [b"-I", b"-S"]
        assert os.fsencode(run_dir) in words


def test_a_long_path_is_no_obstacle(run_dir: Path) -> None:
    deep = run_dir / ("d" * 100) / ("e" * 100)
    keeper = ensure_keeper(deep)
    assert is_alive(keeper.pid)
    keeper.shutdown()


def test_the_keepers_half_needs_nothing_but_itself_and_the_standard_library() -> None:
    folder = Path(starter.__file__).parent
    ours = {f"orchestrate.execute.keeper.{name}" for name in starter.KEEPERS_HALF}
    ours |= {f"orchestrate.execute.{name}" for name in starter.IN_COMMON}
    ours |= {"orchestrate.execute.keeper"}
    for name in (*starter.KEEPERS_HALF, *(f"../{name}" for name in starter.IN_COMMON)):
        for node in ast.walk(ast.parse((folder / f"{name}.py").read_text("utf-8"))):
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import)
                else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            )  # fmt: skip
            for imported in names:
                top = imported.partition(".")[0]
                assert imported in ours or top in sys.stdlib_module_names, (name, imported)


def test_the_keeper_s_exit_codes_are_those_of_the_table() -> None:
    ours = (launch.NOT_FOUND, launch.NOT_EXECUTABLE)
    assert ours == (exits.NOT_FOUND, exits.NOT_EXECUTABLE)
