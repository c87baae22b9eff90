"""A file is written whole or not at all, and errors say what to do."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrate.errors import InternalError, StateError, explain
from orchestrate.state import durable
from orchestrate.state.durable import (
    dump_json,
    make_link_durably,
    parse_json,
    read_file,
    remove_leftovers,
    sync_data,
    sync_folder,
    write_durably,
    write_visibly,
)
from tests.state.killing import ROOT, command, environment, start


def test_replaces_the_file_with_a_private_one(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b"old")
    path.chmod(0o644)
    write_durably(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["state.json"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    path = tmp_path / "state.json"
    path.symlink_to(outside)
    write_durably(path, b"new")
    assert not path.is_symlink()
    assert outside.read_bytes() == b"precious"


def test_keeps_the_previous_content(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for content in (b"1", b"2", b"3"):
        write_durably(path, content, keep_previous=True)
    assert path.read_bytes() == b"3"
    assert (tmp_path / "state.json.prev").read_bytes() == b"2"
    assert sorted(os.listdir(tmp_path)) == ["state.json", "state.json.prev"]


def test_the_previous_one_of_a_link_is_the_link(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"precious")
    path = tmp_path / "state.json"
    path.symlink_to("outside")
    write_durably(path, b"new", keep_previous=True)
    assert os.readlink(tmp_path / "state.json.prev") == "outside"
    assert (tmp_path / "outside").stat().st_nlink == 1


def test_a_writer_killed_before_its_rename_leaves_the_next_one_nothing_to_tidy(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b"1")
    os.link(path, tmp_path / "state.json.prev")
    write_durably(path, b"2", keep_previous=True)
    assert (tmp_path / "state.json.prev").read_bytes() == b"1"
    assert sorted(os.listdir(tmp_path)) == ["state.json", "state.json.prev"]


def test_a_previous_content_that_cannot_be_kept_stops_the_write(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b"old")
    (tmp_path / "state.json.prev").mkdir()
    with pytest.raises(StateError, match="EISDIR"):
        write_durably(path, b"new", keep_previous=True)
    assert path.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == ["state.json", "state.json.prev"]


def test_keeps_the_previous_content_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "state.json"
    for content in (b"1", b"2"):
        write_durably(path, content, keep_previous=True)
    assert (tmp_path / "state.json.prev").read_bytes() == b"1"


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is synced and renamed, in its order."""
    order: list[str] = []
    fsync, rename = os.fsync, os.rename

    def see_sync(descriptor: int) -> None:
        order.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def see_rename(*names: Any) -> None:
        order.append("rename")
        rename(*names)

    monkeypatch.setattr(os, "fsync", see_sync)
    monkeypatch.setattr(os, "rename", see_rename)
    return order


def test_syncs_the_file_before_the_rename_and_the_folder_after(
    tmp_path: Path, order: list[str]
) -> None:
    write_durably(tmp_path / "state.json", b"x")
    assert order == ["file", "rename", "folder"]


def test_what_can_be_made_again_does_not_wait_for_the_folder(
    tmp_path: Path, order: list[str]
) -> None:
    write_visibly(tmp_path / "state.json", b"x")
    assert order == ["file", "rename"]
    assert (tmp_path / "state.json").read_bytes() == b"x"


def test_a_link_is_on_the_disk_when_it_is_made(tmp_path: Path, order: list[str]) -> None:
    make_link_durably(tmp_path / "latest", "a")
    assert order == ["rename", "folder"]


def test_content_is_synced_without_its_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: list[str]
) -> None:
    monkeypatch.setattr(os, "fdatasync", lambda _: order.append("content"), raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    with (tmp_path / "journal").open("wb") as file:
        sync_data(file.fileno())
    assert order == ["content"]


@pytest.mark.parametrize(
    ("function", "number", "word"),
    [
        ("open", errno.EACCES, "permission"),
        ("write", errno.ENOSPC, "disk space"),
        ("fsync", errno.EIO, "check it"),
        ("rename", errno.EROFS, "--state-dir"),
    ],
)
def test_an_error_keeps_the_old_file_and_leaves_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, number: int, word: str
) -> None:
    path = tmp_path / "state.json"
    write_durably(path, b"old")
    calls = []

    def fail(*_: Any, **__: Any) -> None:
        calls.append(function)
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        with pytest.raises(StateError) as caught:
            write_durably(path, b"new")
    assert calls == [function], "a failed call is not tried again"
    assert errno.errorcode[number] in caught.value.message
    assert str(path) in caught.value.message
    assert word in caught.value.hint
    assert caught.value.exit_code == 5
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state.json"]


@pytest.mark.parametrize("sync", [durable.sync_all, sync_data])
def test_on_macos_the_disks_cache_is_synced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: Callable[[int], None], order: list[str]
) -> None:
    """Its kernel's `fsync` stops at the cache. Here the calls are seen, not made."""
    fault = 0

    def see_full_sync(_: int, number: int) -> None:
        order.append(f"fcntl {number}")
        if fault:
            raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(fcntl, "fcntl", see_full_sync)
    with (tmp_path / "file").open("wb") as file:
        sync(file.fileno())
        assert order == ["fcntl 51"]
        fault = errno.ENOTSUP
        sync(file.fileno())
        assert order == ["fcntl 51", "fcntl 51", "file"]
        fault = errno.EIO
        with pytest.raises(OSError, match="output error"):
            sync(file.fileno())
    assert order == ["fcntl 51", "fcntl 51", "file", "fcntl 51"]


def test_a_folder_that_cannot_be_synced_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def fail(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StateError, match=f"cannot sync {tmp_path}: .*EIO"):
        write_durably(tmp_path / "state.json", b"new")
    assert (tmp_path / "state.json").read_bytes() == b"new"
    with pytest.raises(StateError, match=r"cannot sync .*ENOENT"):
        sync_folder(tmp_path / "missing")


def test_an_error_without_a_number_is_told_all_the_same(tmp_path: Path) -> None:
    told = explain("read", tmp_path, OSError("odd"))
    assert told.message == f"cannot read {tmp_path}: odd (unknown error)"
    assert told.hint == ""


@pytest.mark.parametrize("function", ["fsync", "rename"])
def test_an_interrupt_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, function, interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_durably(tmp_path / "state.json", b"new")
    assert os.listdir(tmp_path) == []


def test_writes_on_when_the_system_takes_only_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:7]))
    write_durably(tmp_path / "state.json", b"0123456789" * 10)
    assert (tmp_path / "state.json").read_bytes() == b"0123456789" * 10


def test_a_reader_never_sees_anything_but_valid_json(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_durably(path, dump_json({"n": -1, "filler": ""}))
    writer = start("rewrite", str(tmp_path))
    reads, last = 0, -1
    end = time.monotonic() + 60
    try:
        while writer.poll() is None:
            assert time.monotonic() < end
            state = json.loads(path.read_bytes())
            assert state["n"] >= last
            assert len(state["filler"]) == max(0, state["n"]) * 37 % 9000
            last, reads = state["n"], reads + 1
        out, err = writer.communicate(timeout=60)
    finally:
        writer.kill()
        writer.communicate()
    assert out == "written\nend\n", err
    assert json.loads(path.read_bytes())["n"] == 1999
    assert reads > 20


def limited(folder: Path) -> list[str]:
    """A command line prefix after which the folder has little room: a small disk, or a limit."""
    mount = 'mount -t tmpfs -o size=128k tmpfs "$1" && shift && exec "$@"'
    small_disk = ["unshare", "-rm", "sh", "-c", mount, "sh", str(folder)]
    try:
        works = subprocess.run([*small_disk, "true"], capture_output=True, check=False).returncode
    except FileNotFoundError:
        works = 1
    if works == 0:
        return small_disk
    code = (
        "import os, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (90_000, 90_000))\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    return [sys.executable, "-c", code]


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [*limited(tmp_path), *command("fill", str(tmp_path))],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    journal, state, unchanged, again, end = done.stdout.splitlines()
    _, last_seq, size, reason = journal.split(" ", 3)
    assert int(size) < int(last_seq) * 3100
    assert int(size) > int(last_seq) * 3000
    for text in (reason, state):
        assert "ENOSPC" in text or "EFBIG" in text
        assert "resume" in text
    assert unchanged == "unchanged True ['events.jsonl', 'state.json']"
    assert again == f"again {int(last_seq) + 1}" or "EFBIG" in reason
    assert end == "end"


@pytest.mark.parametrize(
    "value",
    ["half \ud83d", "\udcff.task", "\u2028", "\0\x1b", {"\ud800": ["é", 1e300, 2**70, None]}],
)
def test_any_text_survives_as_ascii(value: object) -> None:
    data = dump_json(value)
    assert data.isascii()
    assert data.count(b"\n") == 1
    assert parse_json(data) == value


def test_json_for_people_is_indented_and_for_programs_short() -> None:
    assert dump_json({"a": [1, 2]}) == b'{"a":[1,2]}\n'
    assert dump_json({"a": [1, 2]}, indent=1) == b'{\n "a": [\n  1,\n  2\n ]\n}\n'


@pytest.mark.parametrize("value", [math.nan, -math.inf, {"a": object()}, {1, 2}])
def test_what_is_not_json_is_our_bug(value: object) -> None:
    with pytest.raises(InternalError, match="JSON"):
        dump_json(value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "Expecting value"),
        (b"{", "Expecting property"),
        (b"NaN", "NaN is not JSON"),
        (b"[1]\0", "Extra data"),
        ("é".encode(), "ascii"),
        (b"[" * 200_000, "nested too deeply"),
    ],
    ids=["empty", "cut", "constant", "trailing", "not ascii", "deep"],
)
def test_damaged_json_is_a_value_error(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_json(data)


def test_reads_only_regular_files(tmp_path: Path) -> None:
    assert read_file(tmp_path / "missing") is None
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    for name in ("fifo", "folder"):
        with pytest.raises(StateError, match="not a regular file"):
            read_file(tmp_path / name)
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(StateError, match="ELOOP"):
        read_file(tmp_path / "link")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a regular file whose reading fails")
def test_a_file_that_opens_and_cannot_be_read_is_named() -> None:
    with pytest.raises(StateError, match=r"cannot read /proc/self/mem: .*EIO"):
        read_file(Path("/proc/self/mem"))


def test_a_link_is_moved_in_one_step(tmp_path: Path) -> None:
    for target in ("a", "b"):
        make_link_durably(tmp_path / "latest", target)
        assert os.readlink(tmp_path / "latest") == target
    (tmp_path / "taken").mkdir()
    with pytest.raises(StateError, match="taken"):
        make_link_durably(tmp_path / "taken", "a")
    assert sorted(os.listdir(tmp_path)) == ["latest", "taken"]


def test_only_our_leftovers_are_removed(tmp_path: Path) -> None:
    temporary = durable._temporary_name(tmp_path / "state.json").name
    for name in (temporary, ".hidden", "x.tmp", ".notes.tmp"):
        (tmp_path / name).write_bytes(b"")
    remove_leftovers(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".hidden", ".notes.tmp", "x.tmp"]
    with pytest.raises(StateError, match=r"cannot read .*missing: .*ENOENT"):
        remove_leftovers(tmp_path / "missing")
