"""What a program gets, and what is recorded of it."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from orchestrate.errors import InternalError
from orchestrate.execute.base import Exit, NotStarted
from orchestrate.execute.keeper import launch
from orchestrate.execute.keeper.client import Keeper
from orchestrate.execute.keeper.facts import Ended, Packer, Request, look
from orchestrate.execute.keeper.journal import read_facts
from orchestrate.execute.keeper.protocol import FOLDER, JOURNAL, MARKER, encode
from orchestrate.record import replace
from tests.process.conftest import MakeRequest, do_at_once, pid_in, wait_until


def run(keeper: Keeper, request: Request) -> Exit:
    assert keeper.start(request) == "started"
    return end_of(keeper, request.attempt)


def end_of(keeper: Keeper, attempt: str) -> Exit:
    end = keeper.wait(attempt, 90)
    assert isinstance(end, Ended)
    assert look(keeper.run_dir, attempt) == end
    return end.exit


def test_exit_codes_and_signals(keeper: Keeper, request_for: MakeRequest) -> None:
    for code in (0, 1, 2, 126, 127, 255):
        end = run(keeper, request_for(f"c{code}", "sh", "-c", f"exit {code}"))
        assert (end.code, end.signal, end.start_error, end.timed_out) == (code, None, "", False)
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
        end = run(keeper, request_for(f"s{int(number)}", "sh", "-c", f"kill -{int(number)} $$"))
        assert (end.code, end.signal) == (None, number)


def test_a_record_leaves_out_what_a_good_end_implies(
    keeper: Keeper, request_for: MakeRequest
) -> None:
    journal = str(keeper.run_dir / FOLDER / JOURNAL)
    run(keeper, request_for("good", "true"))
    run(keeper, request_for("bad", "false"))
    good, bad = (json.loads(read_facts(journal, name)["exit"]) for name in ("good", "bad"))
    assert not {"signal", "stopped", "stdout_fault", "survivors", "watched"} & good.keys()
    assert bad.items() >= {"code": 1, "signal": None, "stopped": "", "survivors": 0}.items()


def test_programs_that_cannot_start(
    keeper: Keeper, request_for: MakeRequest, run_dir: Path
) -> None:
    plain = run_dir / "plain"
    plain.write_text("no program")
    faults = {
        ("no-such-program",): 127,
        (str(run_dir / "missing"),): 127,
        ("",): 127,
        (str(plain),): 126,
        (str(run_dir),): 126,
        ("true", "x" * 3_000_000): 126,
        ("true", "a\0b"): 126,
    }
    for index, (argv, code) in enumerate(faults.items()):
        end = run(keeper, request_for(f"a{index}", *argv))
        assert (end.code, end.signal) == (code, None), argv
        assert end.start_error.startswith("program: ")
    end = run(keeper, request_for("cwd", "true", cwd=run_dir / "nowhere"))
    assert end.code == 126
    assert "cwd: No such file" in end.start_error
    os.mkfifo(run_dir / "fifo")
    for name in ("fifo", "nothing"):
        end = run(keeper, request_for(f"in-{name}", "cat", stdin=run_dir / name))
        assert end.start_error.startswith("stdin: ")
        assert end.start_error.endswith(f": {run_dir / name}")


def test_the_whole_environment_and_no_more(
    keeper: Keeper, request_for: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_CLIENT", "1")
    env = {"A": "1", "B": "two words\nand a line", "Ü": "ä\udcff", "EMPTY": ""}
    end = run(keeper, request_for("a", "/usr/bin/env", "-0", env=env))
    assert end.stdout is not None
    got = dict(line.split(b"=", 1) for line in end.stdout.split(b"\0") if line)
    mark = got.pop(MARKER.encode())
    assert re.fullmatch(rb"[0-9a-f]{32}:a", mark)
    assert got == {k.encode(): v.encode("utf-8", "surrogateescape") for k, v in env.items()}


def test_a_clean_process(keeper: Keeper, request_for: MakeRequest, run_dir: Path) -> None:
    """Its own session, its directory, default signals, no descriptor but three, nobody's lock."""
    program = (
        "import json,os,signal;"
        "d='/proc/self/fd/';"
        "fds=sorted(int(n) for n in os.listdir(d) if os.path.exists(d+n));"
        "status=dict(l.split(':',1) for l in open('/proc/self/status'));"
        "print(json.dumps([fds, os.getcwd(), os.getsid(0)==os.getpid()==os.getpgid(0),"
        " status['SigIgn'].strip(), status['SigBlk'].strip(), os.read(0,9).decode()]))"
    )
    work = run_dir / "wörk"
    work.mkdir()
    # Python ignores SIGPIPE and SIGXFSZ itself, so ask a shell's child for what it inherited.
    end = run(keeper, request_for("a", sys.executable, "-I", "-S", "-c", program, cwd=work))
    fds, cwd, leads, _, blocked, stdin = json.loads(end.stdout or b"")
    assert (fds, cwd, leads, stdin) == ([0, 1, 2], str(work), True, "")
    assert int(blocked, 16) == 0
    end = run(keeper, request_for("b", "grep", "SigIgn", "/proc/self/status"))
    # 32 and 33 belong to the C library, which lets nobody change them.
    assert int((end.stdout or b"").split()[1], 16) & ~(0b11 << 31) == 0


def test_stdin(keeper: Keeper, request_for: MakeRequest, run_dir: Path) -> None:
    data = bytes(range(256)) * 5
    (run_dir / "in").write_bytes(data)
    assert run(keeper, request_for("file", "cat", stdin=run_dir / "in")).stdout == data
    assert run(keeper, request_for("bytes", "cat", stdin=data)).stdout == data
    assert run(keeper, request_for("none", "cat")).stdout == b""
    big = b"0123456789" * 400_000
    end = run(keeper, request_for("big", "cat", stdin=big))
    assert (end.stdout, end.stdout_bytes) == (None, len(big))
    assert (run_dir / "big.stdout").read_bytes() == big


def test_stdin_where_there_are_no_files_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It touches the disk then, but under no name."""
    monkeypatch.delattr(os, "memfd_create", raising=False)
    fd = launch._open_stdin(b"=some text", str(tmp_path))
    assert os.read(fd, 100) == b"some text"
    assert os.fstat(fd).st_nlink == 0
    assert not os.get_inheritable(fd)
    os.close(fd)
    assert os.listdir(tmp_path) == []


def test_output_of_any_kind(keeper: Keeper, request_for: MakeRequest, run_dir: Path) -> None:
    script = r"printf '\000\377\012a\rb'; printf 'err\377' >&2"
    end = run(keeper, request_for("a", "bash", "-c", script))
    assert (end.stdout, end.stderr) == (b"\0\xff\na\rb", b"err\xff")
    assert (run_dir / "a.stdout").read_bytes() == b"\0\xff\na\rb"
    assert (run_dir / "a.stderr").read_bytes() == b"err\xff"
    assert (run_dir / "a.stdout").stat().st_mode & 0o777 == 0o600
    run(keeper, request_for("quiet", "true"))
    assert not (run_dir / "quiet.stdout").exists()
    for size, inline in ((8192, True), (8193, False)):
        end = run(keeper, request_for(f"n{size}", "head", "-c", str(size), "/dev/zero"))
        assert end.stdout == (b"\0" * size if inline else None)
        assert (run_dir / f"n{size}.stdout").stat().st_size == size == end.stdout_bytes


def test_secrets_reach_the_program_and_no_file(
    keeper: Keeper, request_for: MakeRequest, run_dir: Path
) -> None:
    secret = "s3cr3t-välue'42"
    script = (
        'printf %s "$S"; sleep 0.05; printf %s "$S1"; sleep 0.05; printf %s "$S2";'
        'printf %s "$S" | base64; printf %s "$S" >&2; test "$(cat)" = "$S"'
    )
    env = {"S": secret, "S1": secret[:9], "S2": secret[9:], "PATH": os.environ["PATH"]}
    end = run(
        keeper,
        request_for(
            "a", "bash", "-c", script, env=env,
            secrets=(secret,), stdin=secret.encode(), tee_path=run_dir / "tee",
        ),
    )  # fmt: skip
    assert (end.code, end.stdout, end.stderr) == (0, b"*********\n", b"***")
    assert (run_dir / "tee").read_bytes() == b"*********\n"
    bad = run(keeper, request_for("b", f"/{secret}", secrets=(secret,)))
    assert bad.start_error == "program: No such file or directory: /***"
    for path in run_dir.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
            assert b"s3cr3t" not in path.read_bytes(), path


def test_tee(keeper: Keeper, request_for: MakeRequest, run_dir: Path) -> None:
    tee = run_dir / "out.txt"
    tee.write_text("old, and longer than what comes")
    run(keeper, request_for("a", "echo", "new", tee_path=tee))
    assert tee.read_text() == "new\n"
    run(keeper, request_for("b", "true", tee_path=tee))
    assert tee.read_text() == ""
    os.mkfifo(run_dir / "fifo")
    (run_dir / "link").symlink_to(tee)
    for name in ("fifo", "link", "no/folder"):
        made = run_dir / f"made-by-{name[:2]}"
        attempt = f"t-{name[:2]}"
        end = run(keeper, request_for(attempt, "touch", str(made), tee_path=run_dir / name))
        assert end.code == 126
        assert end.start_error.startswith("output_file: ")
        assert not made.exists()


def test_output_that_cannot_be_written(keeper: Keeper, request_for: MakeRequest) -> None:
    request = request_for("a", "head", "-c", "300000", "/dev/zero")
    end = run(keeper, replace(request, stdout_path=Path("/dev/full")))
    assert (end.code, end.stdout_bytes) == (0, 300_000)
    assert (end.stdout_fault, end.stderr_fault, end.tee_fault) == ("ENOSPC", "", "")


def test_timeout(keeper: Keeper, request_for: MakeRequest) -> None:
    end = run(keeper, request_for("a", "sleep", "60", timeout_s=0.2))
    assert (end.timed_out, end.signal, end.stopped) == (True, signal.SIGTERM, "")
    assert 0.2 <= end.duration_s < 30


def test_timeout_of_those_who_react(keeper: Keeper, request_for: MakeRequest) -> None:
    """Side by side: each needs time to say how it reacts before it is told to end."""
    polite = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    stubborn = "trap '' TERM; while :; do sleep 0.01; done"
    frozen = "trap 'exit 8' TERM; kill -STOP $$; sleep 60"
    for name, script, grace_s in (("b", polite, 25), ("c", stubborn, 0.2), ("d", frozen, 25)):
        keeper.start(request_for(name, "bash", "-c", script, timeout_s=5, grace_s=grace_s))
    end = end_of(keeper, "b")
    assert (end.timed_out, end.code, end.stdout) == (True, 7, b"ready\nbye\n")
    end = end_of(keeper, "c")
    assert (end.timed_out, end.signal) == (True, signal.SIGKILL)
    end = end_of(keeper, "d")
    assert (end.timed_out, end.code) == (True, 8), "what stands still cannot obey"


def test_silence(keeper: Keeper, request_for: MakeRequest) -> None:
    """What counts is the time since it last printed anything, on either stream."""
    talks = "for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; echo $i >&2; sleep 0.5; done"
    stops = "echo hello; exec sleep 60"
    deaf = "trap '' TERM; exec >&- 2>&-; while :; do sleep 0.01; done"
    # Side by side, because each has time enough on a machine that is busy with other things.
    for name, script, limits in (
        ("a", "exec sleep 60", {"silence_s": 0.2}),
        ("b", talks, {"silence_s": 5}),
        ("c", stops, {"silence_s": 5, "timeout_s": 90}),
        ("d", stops, {"silence_s": 30, "timeout_s": 0.3}),
        ("e", deaf, {"silence_s": 5, "grace_s": 0.2}),
    ):
        keeper.start(request_for(name, "bash", "-c", script, **limits))
    end = end_of(keeper, "a")
    assert (end.fell_silent, end.timed_out, end.signal) == (True, False, signal.SIGTERM)
    end = end_of(keeper, "b")
    assert (end.fell_silent, end.code, end.stdout_bytes) == (False, 0, 12)
    assert end.duration_s > 5
    end = end_of(keeper, "c")
    assert (end.fell_silent, end.timed_out, end.stdout) == (True, False, b"hello\n")
    end = end_of(keeper, "d")
    assert (end.fell_silent, end.timed_out) == (False, True)
    end = end_of(keeper, "e")
    assert (end.fell_silent, end.signal) == (True, signal.SIGKILL)


def test_stop(keeper: Keeper, request_for: MakeRequest) -> None:
    keeper.start(request_for("a", "sleep", "60"))
    assert keeper.wait("a", 0.0) is None
    keeper.stop("a", "the user pressed Ctrl-C")
    end = keeper.wait("a", 60)
    assert isinstance(end, Ended)
    assert (end.exit.signal, end.exit.stopped) == (signal.SIGTERM, "the user pressed Ctrl-C")
    assert not end.exit.timed_out
    keeper.stop("a", "too late")
    keeper.stop("never", "unknown")
    assert run(keeper, request_for("b", "true")).stopped == ""


STUBBORN = "trap '' TERM; echo $$ > pid; while :; do sleep 0.02; done"


@pytest.mark.parametrize("graces", [(60.0, 0.1), (0.1, 60.0)])
def test_the_more_impatient_of_two_stops_counts(
    keeper: Keeper, request_for: MakeRequest, run_dir: Path, graces: tuple[float, float]
) -> None:
    keeper.start(request_for("a", "bash", "-c", STUBBORN))
    pid_in(run_dir / "pid")
    for number, grace_s in enumerate(graces):
        keeper.stop("a", f"reason {number}", grace_s)
    end = keeper.wait("a", 60)
    assert isinstance(end, Ended)
    assert (end.exit.signal, end.exit.stopped) == (signal.SIGKILL, "reason 0")


def test_a_stop_that_comes_with_the_start_is_not_forgotten(
    keeper: Keeper, request_for: MakeRequest
) -> None:
    """Both are heard in one round, before the claim is durable."""
    for number in range(3):
        request = request_for(f"a{number}", "sleep", "60")
        body = Packer().pack(request)
        order = encode(f"run a{number} {not request.guarded:d}", body)
        keeper._sock.sendall(order + encode(f"stop a{number} 5.0", b"at once"))
        end = keeper.wait(f"a{number}", 60)
        assert isinstance(end, Ended)
        assert (end.exit.signal, end.exit.stopped) == (signal.SIGTERM, "at once")


def test_secrets_and_environments_are_each_attempts_own(
    keeper: Keeper, request_for: MakeRequest
) -> None:
    for number, mine in enumerate(("hunter2-one", "hunter2-two", "hunter2-two", "hunter2-one")):
        env = {"PATH": os.environ["PATH"], "MINE": mine}
        script = 'echo "$MINE" hunter2-one hunter2-two'
        request = request_for(f"a{number}", "sh", "-c", script, env=env, secrets=(mine,))
        shown = f"{mine} hunter2-one hunter2-two\n".replace(mine, "***").encode()
        assert run(keeper, request).stdout == shown


def test_which_file_a_programs_name_means(
    keeper: Keeper, request_for: MakeRequest, run_dir: Path
) -> None:
    """As a shell finds it, by the PATH that the program itself is given."""
    for folder, mode in (("no", 0o644), ("one", 0o755), ("two", 0o755)):
        (run_dir / folder).mkdir()
        (run_dir / folder / "tool").write_text(f"#!/bin/sh\necho {folder}\n")
        (run_dir / folder / "tool").chmod(mode)
    (run_dir / "file").touch()

    def found(attempt: str, name: str, *folders: str) -> tuple[int | None, bytes | None]:
        path = ":".join(str(run_dir / folder) for folder in folders)
        end = run(keeper, request_for(attempt, name, env={"PATH": path}))
        return end.code, end.stdout

    assert found("a", "tool", "one", "two") == (0, b"one\n")
    assert found("b", "tool", "missing", "file", "two", "one") == (0, b"two\n")
    assert found("c", "tool", "no", "one") == (0, b"one\n")
    assert found("d", "tool", "no") == (126, b"")
    assert found("e", "tool", "missing") == (127, b"")
    assert found("f", "two/tool", "one") == (0, b"two\n")
    assert found("g", "tool") == (127, b"")
    end = run(keeper, request_for("h", "sh", "-c", "echo default", env={}))
    assert (end.code, end.stdout) == (0, b"default\n")


def test_a_claimed_attempt_is_never_started_again(
    keeper: Keeper, request_for: MakeRequest, run_dir: Path
) -> None:
    count = f"echo x >> {run_dir}/count"
    assert look(run_dir, "a") == NotStarted()
    first = run(keeper, request_for("a", "sh", "-c", count))
    assert keeper.start(request_for("a", "sh", "-c", count)) == "known"
    assert keeper.wait("a", 60) == Ended(first)
    assert (run_dir / "count").read_text() == "x\n"
    with pytest.raises(InternalError):
        keeper.start(request_for("a b", "true"))
    with pytest.raises(InternalError):
        keeper.start(request_for("rel", "true", cwd=Path("here")))


def test_many_at_once_from_many_threads(keeper: Keeper, request_for: MakeRequest) -> None:
    """Each program waits until all of them run."""
    ends: dict[int, Exit] = {}

    def one(number: int) -> None:
        meet = "while [ $(ls here-* | wc -l) -lt 8 ]; do sleep 0.02; done"
        script = f"touch here-{number}; {meet}; exit {number}"
        ends[number] = run(keeper, request_for(f"t{number}", "sh", "-c", script, timeout_s=90))

    do_at_once(8, one)
    assert {n: end.code for n, end in ends.items()} == {n: n for n in range(8)}


def peak_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def test_much_output_in_little_memory(
    keeper: Keeper, guarded_request: MakeRequest, run_dir: Path
) -> None:
    """200 MB as they are, and 20 MB without a newline through the mask and into two files."""
    size, masked_size = 200_000_000, 20_000_000
    masked = f"yes 'a line of output' | tr -d '\\n' | head -c {masked_size}"
    tee = run_dir / "tee"
    keeper.start(guarded_request("plain", "head", "-c", str(size), "/dev/zero"))
    keeper.start(
        guarded_request("m", "bash", "-c", masked, tee_path=tee, secrets=("s3cr3t-value",))
    )
    for attempt, expected in (("plain", size), ("m", masked_size)):
        end = keeper.wait(attempt, 60)
        assert isinstance(end, Ended)
        assert end.exit.stdout_bytes == expected
        assert (run_dir / f"{attempt}.stdout").stat().st_size == expected
    assert tee.stat().st_size == masked_size
    children = Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children").read_text().split()
    assert len(children) == 2
    assert max(peak_kb(pid) for pid in [keeper.pid, *map(int, children)]) < 40_000
    (run_dir / "plain.stdout").unlink()


def is_pattern(path: Path, pattern: bytes, size: int) -> bool:
    """Is the file the pattern over and over, cut at the size?"""
    whole = pattern * 100_000
    with path.open("rb") as file:
        for start in range(0, size, len(whole)):
            if file.read(len(whole)) != whole[: size - start]:
                return False
        return file.read(1) == b""


@pytest.mark.parametrize("size", [300_000_000, pytest.param(1_000_000_000, marks=pytest.mark.soak)])
def test_much_output_is_exact(
    keeper: Keeper, plain_request: MakeRequest, run_dir: Path, size: int
) -> None:
    """The keeper itself pumps it, and what it passes on it does not keep."""
    tee = run_dir / "tee"
    script = f"yes 0123456789abcdef | head -c {size}"
    end = run(keeper, plain_request("a", "sh", "-c", script, tee_path=tee))
    assert (end.code, end.stdout_bytes, end.stdout, end.stdout_fault) == (0, size, None, "")
    assert peak_kb(keeper.pid) < 40_000
    for path in (tee, run_dir / "a.stdout"):
        assert is_pattern(path, b"0123456789abcdef\n", size)
        path.unlink()


def test_what_was_captured_can_be_read_while_it_runs(
    keeper: Keeper, request_for: MakeRequest, run_dir: Path
) -> None:
    script = "echo session-17; exec sleep 60"
    keeper.start(request_for("a", "sh", "-c", script, secrets=("a-long-secret-value",)))
    wait_until((run_dir / "a.stdout").exists)
    wait_until(lambda: (run_dir / "a.stdout").read_bytes() == b"session-17\n")
    keeper.stop("a", "seen", grace_s=0.1)
    assert keeper.wait("a", 60) is not None
