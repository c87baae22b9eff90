"""Opening files of the workspace: regular ones in it, and nothing else, whatever links do."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from orchestrate.engine import confine
from orchestrate.engine.confine import (
    PathFault,
    encode_path,
    is_below,
    make_folders,
    open_for_output,
    open_regular,
    split_path,
)
from orchestrate.errors import StateError
from orchestrate.workspace import Workspace
from tests.engine.conftest import Write
from tests.engine.flipping import REFUSED, race

Open = Callable[[Workspace, str], BinaryIO]
BOTH = pytest.mark.parametrize("opens", [open_regular, open_for_output])


def test_reads(workspace: Workspace, write: Write) -> None:
    write("a/b.txt", b"\xff\0x")
    with open_regular(workspace, "./a//b.txt") as opened:
        assert opened.read() == b"\xff\0x"
        assert fcntl.fcntl(opened, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


def test_writes_into_folders_that_it_makes(workspace: Workspace) -> None:
    with open_for_output(workspace, "a/b/c.txt") as opened:
        opened.write(b"one")
        assert fcntl.fcntl(opened, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    with open_for_output(workspace, "a/b/c.txt") as opened:
        opened.write(b"2")
    assert (workspace.root / "a/b/c.txt").read_bytes() == b"2"


@BOTH
def test_through_links_inside(workspace: Workspace, write: Write, opens: Open) -> None:
    write("data/x.txt")
    (workspace.root / "link").symlink_to("data")
    (workspace.root / "data/y.txt").symlink_to("x.txt")
    with opens(workspace, "link/y.txt") as opened:
        assert os.path.samefile(opened.fileno(), workspace.root / "data/x.txt")


@BOTH
@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "a/../../x", "", ".", "a\0", "~x", "\udfff"]
)
def test_refused_by_its_text(workspace: Workspace, opens: Open, path: str) -> None:
    with pytest.raises(PathFault):
        opens(workspace, path)


@BOTH
@pytest.mark.parametrize("path", ["out/secret.txt", "secret.txt", "deep/out/secret.txt"])
def test_refused_because_it_leads_out(
    workspace: Workspace, outside: Path, opens: Open, path: str
) -> None:
    (workspace.root / "out").symlink_to(outside)
    (workspace.root / "deep").mkdir()
    (workspace.root / "deep/out").symlink_to("../../workspace-secret")
    (workspace.root / "secret.txt").symlink_to(outside / "secret.txt")
    with pytest.raises(PathFault, match="leads out of the workspace"):
        opens(workspace, path)
    assert (outside / "secret.txt").read_text("utf-8") == "do-not-show-this"


@pytest.mark.parametrize("path", ["out/new.txt", "out/new/new.txt", "new.txt"])
def test_nothing_is_made_outside(workspace: Workspace, outside: Path, path: str) -> None:
    (workspace.root / "out").symlink_to(outside)
    (workspace.root / "new.txt").symlink_to(outside / "new.txt")
    with pytest.raises(PathFault):
        open_for_output(workspace, path)
    assert os.listdir(outside) == ["secret.txt"]


@BOTH
class TestKinds:
    """None of these may hang, and none is opened."""

    def test_fifo(self, workspace: Workspace, opens: Open) -> None:
        os.mkfifo(workspace.root / "fifo")
        with pytest.raises(PathFault, match="not a regular file"):
            opens(workspace, "fifo")

    def test_fifo_with_somebody_at_the_other_end(self, workspace: Workspace, opens: Open) -> None:
        os.mkfifo(workspace.root / "fifo")
        other = os.open(workspace.root / "fifo", os.O_RDWR | os.O_NONBLOCK)
        try:
            with pytest.raises(PathFault, match="not a regular file"):
                opens(workspace, "fifo")
        finally:
            os.close(other)

    def test_socket(
        self, workspace: Workspace, opens: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(workspace.root)
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("socket")
            with pytest.raises(PathFault, match="not a regular file"):
                opens(workspace, "socket")

    def test_device(self, workspace: Workspace, opens: Open) -> None:
        (workspace.root / "zero").symlink_to("/dev/zero")
        with pytest.raises(PathFault, match="not a regular file"):
            opens(workspace, "zero")

    def test_folder(self, workspace: Workspace, opens: Open) -> None:
        (workspace.root / "folder").mkdir()
        with pytest.raises(PathFault, match="is a folder"):
            opens(workspace, "folder")

    def test_file_in_place_of_a_folder(
        self, workspace: Workspace, write: Write, opens: Open
    ) -> None:
        write("file")
        with pytest.raises(PathFault, match="'file/x'"):
            opens(workspace, "file/x")

    def test_link_to_itself(self, workspace: Workspace, opens: Open) -> None:
        (workspace.root / "loop").symlink_to("loop")
        with pytest.raises(PathFault, match="'loop'"):
            opens(workspace, "loop")


@BOTH
def test_what_becomes_a_fifo_after_the_look_neither_hangs_nor_passes(
    workspace: Workspace, write: Write, opens: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("file")
    look = os.stat

    def look_and_swap(path: str, **more: Any) -> os.stat_result:
        seen = look(path, **more)
        (workspace.root / "file").unlink()
        os.mkfifo(workspace.root / "file")
        return seen

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", look_and_swap)
        # To write where nobody reads is refused by the system itself.
        with pytest.raises(PathFault, match=r"not a regular file|No such device"):
            opens(workspace, "file")


def test_missing(workspace: Workspace) -> None:
    with pytest.raises(PathFault, match="cannot read 'gone': No such file"):
        open_regular(workspace, "gone")


def test_a_flipping_link_never_shows_what_is_outside(
    workspace: Workspace, outside: Path, write: Write
) -> None:
    write("good/secret.txt", "mine")
    link = workspace.root / "link"
    link.symlink_to("good")

    def read() -> str:
        with open_regular(workspace, "link/secret.txt") as opened:
            return opened.read().decode("utf-8")

    expected = {"mine", REFUSED}
    assert race(link, ["good", str(outside)], read, expected) == expected


def test_a_flipping_link_never_lets_a_file_out(
    workspace: Workspace, outside: Path, write: Write
) -> None:
    write("good/secret.txt")
    link = workspace.root / "link"
    link.symlink_to("good")

    def put() -> str:
        with open_for_output(workspace, "link/new/secret.txt") as opened:
            opened.write(b"overwritten")
        return "written"

    expected = {"written", REFUSED}
    assert race(link, ["good", str(outside)], put, expected) == expected
    assert os.listdir(outside) == ["secret.txt"]
    assert (outside / "secret.txt").read_text("utf-8") == "do-not-show-this"


def test_a_flipping_file_is_never_overwritten(workspace: Workspace, outside: Path) -> None:
    good = workspace.root / "good.txt"
    good.write_text("", "utf-8")
    link = workspace.root / "link"
    link.symlink_to("good.txt")

    def put() -> str:
        with open_for_output(workspace, "link") as opened:
            opened.write(b"overwritten")
        return "written"

    targets = ["good.txt", str(outside / "secret.txt"), str(outside / "new.txt")]
    expected = {"written", REFUSED}
    # A link to nothing has a message of its own.
    assert expected <= race(link, targets, put, expected)
    assert os.listdir(outside) == ["secret.txt"]
    assert (outside / "secret.txt").read_text("utf-8") == "do-not-show-this"


def test_what_was_in_a_file_is_gone_before_it_is_written(
    workspace: Workspace, write: Write
) -> None:
    write("out.txt", "old")
    open_for_output(workspace, "out.txt").close()
    assert (workspace.root / "out.txt").read_bytes() == b""


def test_where_nobody_tells_where_a_file_is_nothing_is_opened(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise FileNotFoundError(2, "No such file or directory")

    open_now = len(os.listdir("/dev/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "readlink", fail)
        patch.setattr(confine, "_GET_PATH", None)
        with pytest.raises(PathFault, match="is /proc there"):
            open_regular(workspace, "in.txt")
    assert len(os.listdir("/dev/fd")) == open_now


@BOTH
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("succeeding", [0, 1], ids=["the workspace", "the file or its folder"])
def test_what_the_machine_lacks_is_no_fault_of_the_step(
    workspace: Workspace,
    write: Write,
    opens: Open,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    succeeding: int,
) -> None:
    """A step that failed for it could send the run another way; this stops it, to be resumed."""
    write("a/file.txt")
    really_open, calls = os.open, itertools.count()

    def fail(*given: Any, **named: Any) -> int:
        if next(calls) == succeeding:
            raise OSError(number, os.strerror(number))
        return really_open(*given, **named)

    monkeypatch.setattr(os, "open", fail)
    with pytest.raises(StateError, match=errno.errorcode[number]) as caught:
        opens(workspace, "a/file.txt")
    assert caught.value.hint


@BOTH
def test_no_descriptor_stays_open(workspace: Workspace, outside: Path, opens: Open) -> None:
    (workspace.root / "out").symlink_to(outside)
    (workspace.root / "folder").mkdir()
    before = len(os.listdir("/dev/fd"))
    for path in ("out/secret.txt", "folder", "out/x/y", "../x") * 5:
        with pytest.raises(PathFault):
            opens(workspace, path)
    assert len(os.listdir("/dev/fd")) == before


def test_new_files_have_the_rights_that_the_user_gives_them(workspace: Workspace) -> None:
    before = os.umask(0o027)
    try:
        open_for_output(workspace, "strict").close()
        os.umask(0)
        open_for_output(workspace, "open").close()
    finally:
        os.umask(before)
    modes = [(workspace.root / name).stat().st_mode & 0o777 for name in ("strict", "open")]
    assert modes == [0o640, 0o666]


def test_folders_are_made_and_opened(workspace: Workspace) -> None:
    for _ in range(2):
        with make_folders(workspace, "a/b") as folder:
            assert os.path.samefile(folder.descriptor, workspace.root / "a/b")
            assert folder.is_inside()


def test_a_folder_that_was_moved_out_is_no_longer_inside(
    workspace: Workspace, outside: Path
) -> None:
    with make_folders(workspace, "a") as folder:
        (workspace.root / "a").rename(outside / "a")
        assert not folder.is_inside()


@pytest.mark.parametrize(
    ("path", "why"),
    [("", "names no file"), ("./", "names no file"), ("/", "is absolute"), ("a\0", "NUL")],
)
def test_the_first_fault_of_a_path_is_told(path: str, why: str) -> None:
    with pytest.raises(PathFault, match=why):
        split_path(path)


def test_paths_are_ordered_by_their_bytes() -> None:
    assert encode_path("ä/\udcff") == b"\xc3\xa4/\xff"


def test_below_goes_by_components() -> None:
    assert is_below("/a/b", "/a")
    assert is_below("/a", "/a")
    assert is_below("/a", "/")
    assert not is_below("/ab", "/a")
    assert not is_below("/", "/a")
