"""Output on its way into files: all of it, masked, and on the disk before its end is told."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from orchestrate.execute.keeper import capture
from orchestrate.execute.keeper.capture import Sink, make_pipe, open_tee
from orchestrate.execute.keeper.launch import StartFault
from orchestrate.execute.keeper.protocol import INLINE_LIMIT, write_all
from orchestrate.execute.masking import Mask
from tests.process.conftest import descriptors_of


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were synced."""
    names: list[str] = []

    def sync(fd: int) -> None:
        names.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)

    monkeypatch.setattr(capture, "sync", sync)
    return names


def finished(
    folder: Path, data: bytes, mask: Mask | None = None, *, tee: bool = False
) -> tuple[Sink, str | None]:
    """What a program's output has become, and what the record has of it."""
    sink = Sink(make_pipe(), os.fsencode(folder / "out"), mask or Mask(()))
    if tee:
        sink.tee.fd = open_tee(os.fsencode(folder / "tee"), b"")
    for start in range(0, len(data), 4096):
        os.write(sink.program_end, data[start : start + 4096])
        assert sink.pump()
    assert not sink.pump()
    os.close(sink.program_end)
    return sink, sink.finish()


@pytest.mark.parametrize(
    ("size", "expected"), [(INLINE_LIMIT, []), (INLINE_LIMIT + 1, ["out"]), (100_000, ["out"])]
)
def test_what_is_not_in_the_record_is_synced(
    tmp_path: Path, synced: list[str], size: int, expected: list[str]
) -> None:
    _, text = finished(tmp_path, b"x" * size)
    assert synced == expected
    assert text == (None if expected else "x" * size)
    assert (tmp_path / "out").read_bytes() == b"x" * size


def test_the_authors_file_is_synced_however_short(tmp_path: Path, synced: list[str]) -> None:
    finished(tmp_path, b"x", tee=True)
    assert synced == ["tee"]
    assert (tmp_path / "tee").read_bytes() == b"x"


def test_without_output_there_is_no_file(tmp_path: Path, synced: list[str]) -> None:
    sink, _ = finished(tmp_path, b"")
    assert (sink.size, sink.log.error, synced, os.listdir(tmp_path)) == (0, "", [], [])


def test_a_sync_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "whatever")

    monkeypatch.setattr(capture, "sync", fail)
    assert finished(tmp_path, b"x", tee=True)[0].tee.error == "EIO"
    monkeypatch.setattr(capture, "sync", lambda _: (_ for _ in ()).throw(OSError("no number")))
    assert finished(tmp_path, b"x", tee=True)[0].tee.error == "EIO"


def test_what_was_held_back_as_a_secrets_beginning_is_not_lost(tmp_path: Path) -> None:
    finished(tmp_path, b"say hunter", Mask(["hunter2-secret"]))
    assert (tmp_path / "out").read_bytes() == b"say hunter"


def test_the_size_is_that_of_what_was_written(tmp_path: Path) -> None:
    sink, _ = finished(tmp_path, b"a hunter2-secret b", Mask(["hunter2-secret"]))
    assert sink.size == len(b"a *** b")


def test_somebody_outside_who_holds_the_pipe_is_not_waited_for(tmp_path: Path) -> None:
    sink = Sink(make_pipe(), os.fsencode(tmp_path / "out"), Mask(()))
    os.write(sink.program_end, b"before")
    assert sink.finish() == "before"
    assert not sink.is_open
    with pytest.raises(BrokenPipeError):
        os.write(sink.program_end, b"after")
    os.close(sink.program_end)
    sink.close_pipe()


def test_of_two_faults_the_first_is_told_and_the_rest_is_still_counted(tmp_path: Path) -> None:
    sink = Sink(make_pipe(), b"/dev/full", Mask(()))
    sink.tee.fd = open_tee(os.fsencode(tmp_path / "tee"), b"")
    for _ in range(2):
        os.write(sink.program_end, b"12345")
        assert sink.pump()
    os.close(sink.program_end)
    assert sink.finish() == "1234512345"
    assert (sink.size, sink.log.error, sink.tee.error) == (10, "ENOSPC", "")
    assert (tmp_path / "tee").read_bytes() == b"1234512345", "the other one has room"


@pytest.mark.parametrize("name", ["ENOSPC", "EDQUOT", "EFBIG", "EIO"])
@pytest.mark.parametrize("broken", ["out", "tee"])
def test_each_target_fails_for_itself(
    name: str, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = write_all

    def write(fd: int, data: bytes) -> None:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(broken):
            raise OSError(getattr(errno, name), "whatever")
        real(fd, data)

    monkeypatch.setattr(capture, "write_all", write)
    sink, text = finished(tmp_path, b"x" * 9000, tee=True)
    faults = {"out": sink.log.error, "tee": sink.tee.error}
    assert (faults.pop(broken), *faults.values(), text) == (name, "", None)
    other = "tee" if broken == "out" else "out"
    assert (tmp_path / other).read_bytes() == b"x" * 9000


def test_a_disk_that_tells_at_the_close_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = capture.Target()
    target.fd = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    real = os.close

    def close(fd: int) -> None:
        real(fd)
        raise OSError(errno.EDQUOT, "whatever")

    monkeypatch.setattr(os, "close", close)
    target.close(is_synced=False)
    assert target.error == "EDQUOT"


class TestTheAuthorsFile:
    """Made by somebody else, who checked where it is; links may have changed since."""

    def test_in_its_root(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"old")
        for root in (tmp_path, f"{tmp_path}/", "/"):
            fd = open_tee(os.fsencode(tmp_path / "file"), os.fsencode(root))
            assert fd is not None
            assert os.fstat(fd).st_size == 0
            os.close(fd)

    @pytest.mark.parametrize("beside", ["beside", "workspaces"])
    def test_out_of_its_root(self, tmp_path: Path, beside: str) -> None:
        """Also in a folder whose name only begins like the root's."""
        for folder in ("workspace", beside):
            (tmp_path / folder).mkdir()
        (tmp_path / beside / "file").write_bytes(b"precious")
        (tmp_path / "workspace/link").symlink_to(tmp_path / beside)
        with pytest.raises(StartFault, match=r"output_file: .*/workspace/link/file"):
            open_tee(
                os.fsencode(tmp_path / "workspace/link/file"), os.fsencode(tmp_path / "workspace")
            )
        assert (tmp_path / beside / "file").read_bytes() == b"precious"

    def test_with_a_root_it_is_not_made(self, tmp_path: Path) -> None:
        with pytest.raises(StartFault):
            open_tee(os.fsencode(tmp_path / "new"), os.fsencode(tmp_path))
        assert os.listdir(tmp_path) == []

    def test_without_one_it_is_made_as_the_user_makes_files(self, tmp_path: Path) -> None:
        before = os.umask(0o022)
        try:
            fd = open_tee(os.fsencode(tmp_path / "new"), b"")
        finally:
            os.umask(before)
        assert fd is not None
        assert os.fstat(fd).st_mode & 0o777 == 0o644
        os.close(fd)

    def test_none(self) -> None:
        assert open_tee(b"", b"") is None

    def test_a_refused_one_stays_not_open(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to("elsewhere")
        os.mkfifo(tmp_path / "fifo")
        before = descriptors_of(os.getpid())
        reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
        for path in ("link", "fifo", "no/folder", "zero\0byte"):
            for root in (b"", os.fsencode(tmp_path)):
                with pytest.raises(StartFault):
                    open_tee(os.fsencode(tmp_path) + b"/" + path.encode(), root)
        os.close(reader)
        assert descriptors_of(os.getpid()) == before
        assert not (tmp_path / "elsewhere").exists()
