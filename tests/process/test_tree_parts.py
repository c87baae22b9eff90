"""The parts from which process trees are ended, each tried on real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrate.execute.keeper import tree
from tests.process.conftest import descriptors_of, is_alive, wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
# Whoever ends all its children must be a process of its own, not the one that runs the tests.
PREFACE = """
import os, signal, subprocess, sys, time
from orchestrate.execute.keeper import tree

def sleeper(**more):
    process = subprocess.Popen(["sleep", "60"], **more)
    return process.pid

def is_alive(pid):
    return pid in tree.parents()

def wait_until(is_so):
    give_up = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.005)
"""


def in_own_process(script: str, **env: str) -> None:
    # Into a file: a pipe would be held open by whom a script that fails leaves behind.
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            [sys.executable, "-c", PREFACE + script],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), **env},
            stdout=said,
            stderr=said,
            timeout=180,
            check=False,
            start_new_session=True,
        )
        said.seek(0)
        assert (done.returncode, said.read().decode()) == (0, "end\n")


@pytest.fixture
def stranger() -> Iterator[int]:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process.pid
        process.kill()


def stays_alive(pid: int) -> bool:
    """Who is killed may take a moment to die."""
    time.sleep(0.1)
    return is_alive(pid)


def test_orphans_come_to_a_subreaper_and_are_ended() -> None:
    in_own_process("""
assert tree.become_subreaper()
subprocess.run(["sh", "-c", "sleep 60 & setsid sh -c 'sleep 60 & sleep 60; true' &"])
wait_until(lambda: len(tree.descendants(os.getpid())) == 4)
below = tree.descendants(os.getpid())
assert tree.children() <= set(below) and len(tree.children()) == 2
assert tree.end_descendants(10.0) == 0
assert not any(map(is_alive, below)) and tree.children() == set()
print("end")
""")


def test_who_is_spared_stays_with_all_below_him() -> None:
    in_own_process("""
tree.become_subreaper()
spared = subprocess.Popen(["sh", "-c", "sleep 60 & wait"]).pid
wait_until(lambda: len(tree.descendants(spared)) == 1)
[inner] = tree.descendants(spared)
other = sleeper()
assert sorted(tree.descendants(os.getpid(), frozenset({spared}))) == [other]
assert tree.end_descendants(10.0, lambda: frozenset({spared})) == 0
assert is_alive(spared) and is_alive(inner) and not is_alive(other)
assert tree.children() == {spared}
tree.signal_tree(spared, signal.SIGKILL, frozenset({inner}))
wait_until(lambda: not is_alive(spared))
assert tree.end_descendants(10.0) == 0
assert not is_alive(inner)
print("end")
""")


def test_who_will_not_die_is_counted_when_patience_ends() -> None:
    in_own_process("""
for _ in range(2):
    sleeper(env={"ORCHESTRATE_ATTEMPT": "stubborn:a"})
sent, tree.signal_process = [], lambda pid, number, is_ours: sent.append((number, is_ours(pid)))
for end in (lambda: tree.end_descendants(0.2), lambda: len(tree.end_marked("stubborn", 0.2))):
    began = time.monotonic()
    assert end() == 2
    assert 0.2 <= time.monotonic() - began < 10
assert set(sent) == {(signal.SIGKILL, True)}
for pid in tree.children():
    os.kill(pid, signal.SIGKILL)
print("end")
""")


def test_what_carries_the_mark_is_ended_wherever_it_is() -> None:
    in_own_process(
        """
M, W = "ORCHESTRATE_ATTEMPT", "ORCHESTRATE_WITHIN"
marked = [
    sleeper(env={M: "token:a"}),
    sleeper(env={"A": "1", M: "token:b"}, start_new_session=True),
    sleeper(env={M: "other:a", W: "more:a token:b"}),
]
others = [sleeper(env=env) for env in (
    {}, {M: "tokem:a"}, {"X" + M: "token:a"}, {"A": M + "=token:"}, {W: "more:token:a"},
    {M: "other:a", W: "more:a othertoken:b"},
)]
# The number of a process is there before its environment is that of its program.
wait_until(lambda: all(tree.has_mark(pid, "token") for pid in marked))
assert [tree.has_mark(pid, "token", "b") for pid in marked] == [False, True, True]
assert tree.has_mark(os.getpid(), "token")
assert tree.end_marked("token", 10.0) == []
assert not any(map(is_alive, marked))
assert all(map(is_alive, others))
assert not tree.has_mark(marked[0], "token")
for pid in others:
    os.kill(pid, signal.SIGKILL)
print("end")
""",
        ORCHESTRATE_ATTEMPT="token:me",
    )


def test_orphans_are_collected_and_the_leader_is_left() -> None:
    in_own_process("""
tree.become_subreaper()
leader, spared = sleeper(), sleeper()
assert not tree.collect_orphans(leader, frozenset({spared}))
subprocess.run(["sh", "-c", "for i in 1 2 3; do (true &); done"])
wait_until(lambda: not tree.descendants(os.getpid(), frozenset({leader, spared})))
assert not tree.collect_orphans(leader, frozenset({spared}))
assert tree.children() == {leader, spared}
os.kill(leader, signal.SIGTERM)
wait_until(lambda: not is_alive(leader))
assert tree.collect_orphans(leader, frozenset({spared}))
assert os.waitpid(leader, 0)[1] == signal.SIGTERM
os.kill(spared, signal.SIGTERM)
wait_until(lambda: not is_alive(spared))
assert not tree.collect_orphans(leader, frozenset({spared}))
assert os.waitpid(spared, 0)[1] == signal.SIGTERM
print("end")
""")


def test_a_tree_is_signalled_with_those_who_left_its_group() -> None:
    in_own_process("""
tree.become_subreaper()
leader = subprocess.Popen(
    ["sh", "-c", "sleep 60 & setsid sleep 60 & wait"], start_new_session=True
).pid
bystander = sleeper(start_new_session=True)
wait_until(lambda: len({os.getpgid(pid) for pid in tree.descendants(leader)}) == 2)
below = tree.descendants(leader)
sent, kill = [], tree.signal_process
def see(pid, number, is_ours):
    sent.append(pid)
    kill(pid, number, is_ours)
tree.signal_process = see
tree.signal_tree(leader, signal.SIGKILL, frozenset({bystander}))
wait_until(lambda: not any(map(is_alive, [leader, *below])))
assert is_alive(bystander)
assert len(sent) == 1 and sent[0] in below, "the group has its signal already"
os.kill(bystander, signal.SIGKILL)
print("end")
""")


def test_a_program_dies_with_its_parent_even_if_that_was_quicker() -> None:
    in_own_process("""
tree.become_subreaper()
def orphan(parent):
    ours, theirs = os.pipe()
    if os.fork() == 0:
        pid = os.fork()
        if pid == 0:
            tree.die_with_parent(parent or os.getppid())
            os.write(theirs, b"alive\\n")
            time.sleep(60)
        os.write(theirs, b"%d\\n" % pid)
        if parent:
            os._exit(0)
        time.sleep(60)
    os.close(theirs)
    return os.fdopen(ours, "rb")
said = orphan(0)
words = {said.readline(), said.readline()}
assert b"alive\\n" in words
[parent] = tree.children()
os.kill(parent, signal.SIGKILL)
wait_until(lambda: not tree.descendants(os.getpid()))
# Its parent is not who it should be: it ends at once, without a word.
said = orphan(1)
assert said.readline() != b"alive\\n" and said.readline() == b""
print("end")
""")


class TestOneProcess:
    def test_only_who_is_ours_is_signalled(self, stranger: int) -> None:
        asked: list[int] = []

        def is_ours(pid: int) -> bool:
            asked.append(pid)
            return False

        tree.signal_process(stranger, signal.SIGKILL, is_ours)
        assert asked == [stranger]
        assert stays_alive(stranger)
        before = descriptors_of(os.getpid())
        tree.signal_process(stranger, signal.SIGKILL, lambda _: True)
        wait_until(lambda: not is_alive(stranger))
        assert descriptors_of(os.getpid()) == before

    @pytest.mark.parametrize("how", ["missing", "refused"])
    def test_without_handles_its_number_must_do(
        self, stranger: int, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        def refuse(*_: int) -> int:
            raise PermissionError

        if how == "missing":
            monkeypatch.delattr(os, "pidfd_open")
        else:
            monkeypatch.setattr(os, "pidfd_open", refuse)
        tree.signal_process(stranger, signal.SIGKILL, lambda _: False)
        assert stays_alive(stranger)
        tree.signal_process(stranger, signal.SIGKILL, lambda _: True)
        wait_until(lambda: not is_alive(stranger))

    def test_whose_name_looks_like_a_table(self, tmp_path: Path) -> None:
        program = tmp_path / ") Z 1 (x"
        program.symlink_to("/bin/sleep")
        with subprocess.Popen([str(program), "60"]) as process:
            wait_until(lambda: tree.parents().get(process.pid) == os.getpid())
            process.kill()

    def test_a_zombie_is_nobody(self) -> None:
        process = subprocess.Popen(["true"])
        wait_until(lambda: process.pid not in tree.parents())
        assert process.pid in tree.children()
        assert process.pid not in tree.descendants(os.getpid())
        assert process.wait() == 0
        assert process.pid not in tree.children()

    def test_children_are_found_on_kernels_that_do_not_list_them(
        self, stranger: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(path: Any, *more: Any, **options: Any) -> Any:
            if str(path).endswith("/children"):
                raise FileNotFoundError
            return open(path, *more, **options)

        wait_until(lambda: stranger in tree.children())
        monkeypatch.setattr(tree, "open", refuse, raising=False)
        assert stranger in tree.children()
        assert os.getppid() not in tree.children()

    def test_below_whom_it_is(self, stranger: int) -> None:
        assert tree.is_below(stranger, os.getpid())
        with subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True) as parent:
            wait_until(lambda: tree.descendants(parent.pid))
            [inner] = tree.descendants(parent.pid)
            assert tree.is_below(inner, os.getpid())
            assert not tree.is_below(inner, stranger)
            os.killpg(parent.pid, signal.SIGKILL)
        assert not tree.is_below(os.getpid(), stranger)
        assert not tree.is_below(stranger, stranger)
        assert not tree.is_below(1, 0)

    def test_who_is_gone_is_no_fault(self) -> None:
        process = subprocess.Popen(["true"], start_new_session=True)
        process.wait()
        tree.signal_process(process.pid, signal.SIGKILL, lambda _: True)
        tree.signal_group(process.pid, signal.SIGKILL)
        with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
            began = time.monotonic()
            tree.signal_group(other.pid, signal.SIGTERM)
            assert other.wait() == -signal.SIGTERM
            assert time.monotonic() - began < 30
