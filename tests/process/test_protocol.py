"""The journal forgets nothing that was durable and believes nothing that is torn."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.execute.base import Exit, NotStarted
from orchestrate.execute.flat_json import json_of, json_text
from orchestrate.execute.keeper.facts import Ended, Packer, Request, exit_of, look
from orchestrate.execute.keeper.journal import (
    LONGEST_RECORD,
    KeeperJournal,
    line_of,
    read_facts,
    read_whole,
    was_torn,
)
from orchestrate.execute.keeper.protocol import (
    FOLDER,
    JOURNAL,
    REQUEST_FIELDS,
    Frames,
    bytes_of,
    encode,
    is_locked,
    pack,
    sync,
    sync_folder,
    take_lock,
    text_of,
    unpack,
    write_all,
)
from orchestrate.record import replace
from tests.process.conftest import descriptors_of, read_lines


def whole(path: Path) -> list[tuple[bytes, bytes]]:
    return [(kind, attempt) for kind, attempt, _ in read_lines(str(path))[0]]


def test_torn_at_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = KeeperJournal(str(path))
    ends = [read_lines(str(path))[1]]
    for kind, attempt in (("claim", "a"), ("exit", "a"), ("claim", "b")):
        journal.append(kind, attempt, {"text": "ä\udcff\n"})
        ends.append(read_lines(str(path))[1])
    content = path.read_bytes()
    records = whole(path)
    assert records[1:] == [(b"claim", b"a"), (b"exit", b"a"), (b"claim", b"b")]
    for cut in range(ends[-1] + 1):
        for padding in (b"", b"\0" * 10):
            path.write_bytes(content[:cut] + padding)
            assert whole(path) == records[: sum(end <= cut for end in ends)], cut


def test_goes_on_after_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    first = KeeperJournal(str(path))
    first.append("claim", "a", {})
    with path.open("r+b") as file:
        file.seek(read_lines(str(path))[1])
        file.write(b"0000beef claim b {")
    again = KeeperJournal(str(path))
    assert (again.claimed, again.unsettled, again.token) == ({"a"}, {"a"}, first.token)
    again.append("exit", "a", {})
    assert whole(path)[-3:] == [(b"claim", b"a"), (b"torn", b"-"), (b"exit", b"a")]


def test_all_of_a_round_in_one_write(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = KeeperJournal(str(path))
    before = read_lines(str(path))[1]
    journal.note("claim", "a", b"{}")
    journal.note("exit", "b", b"{}")
    assert read_lines(str(path))[1] == before
    assert journal.claimed == {"a"}
    journal.commit()
    assert whole(path)[1:] == [(b"claim", b"a"), (b"exit", b"b")]


def test_what_stands_behind_a_torn_line_does_not_count(tmp_path: Path) -> None:
    """A power cut may keep the later of two pages that were written together."""
    path = tmp_path / "journal"
    journal = KeeperJournal(str(path))
    for attempt in "abc":
        journal.append("claim", attempt, {})
    content = path.read_bytes()
    assert len(whole(path)) == 4
    path.write_bytes(content.replace(b"claim b", b"claim x"))
    assert whole(path)[1:] == [(b"claim", b"a")]
    assert read_facts(str(path), "c") == {}
    again = KeeperJournal(str(path))
    assert again.claimed == {"a"}
    again.append("claim", "d", {})
    # That something stood there is not forgotten.
    assert whole(path)[1:] == [(b"claim", b"a"), (b"torn", b"-"), (b"claim", b"d")]
    assert was_torn(str(path))


def test_a_line_out_of_another_place_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    KeeperJournal(str(path))
    content = path.read_bytes().rstrip(b"\0")
    path.write_bytes(content + line_of("claim", "a", b"{}", 0))
    assert len(whole(path)) == 1


def test_a_program_cannot_print_records(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = KeeperJournal(str(path))
    journal.append("claim", "a", {})
    journal.append("exit", "a", {"stdout": '\n0000beef exit b {"code":0} \n exit b {} exit a {'})
    assert read_facts(str(path), "b") == {}
    found = read_facts(str(path), "a")
    assert set(found) == {"claim", "exit"}
    assert json.loads(found["exit"])["stdout"].endswith(" exit a {")
    assert read_facts(str(path), "-") == {}


def test_a_record_of_before_we_listened_for_silence() -> None:
    record = dict.fromkeys(Exit.__match_args__, 0) | {"stdout": "", "stderr": None}
    del record["fell_silent"]
    assert exit_of(json_of(record)).fell_silent is False


def test_a_record_with_one_fault_for_all_outputs() -> None:
    faults = ("stdout_fault", "stderr_fault", "tee_fault", "start_fault")
    record = dict.fromkeys(Exit.__match_args__, 0) | {"stdout": "", "stderr": None}
    earlier = {name: value for name, value in record.items() if name not in faults}
    found = exit_of(json_of(earlier | {"output_error": "ENOSPC"}))
    assert (found.stdout_fault, found.stderr_fault, found.start_fault) == ("ENOSPC", "", "")


def test_an_attempt_among_many_is_found_quickly(tmp_path: Path) -> None:
    """Counted in processor time, because a test machine may have much else to do."""
    (tmp_path / FOLDER).mkdir()
    path = str(tmp_path / FOLDER / JOURNAL)
    journal = KeeperJournal(path)
    plain = dict.fromkeys(Exit.__match_args__, 0) | {"stdout": "x" * 100, "stderr": ""}
    record = json_of(plain)
    for number in range(10_000):
        journal.note("claim", f"steps.Loop[{number}].Step@1", b'{"at":1234567890.123456}')
        journal.note("exit", f"steps.Loop[{number}].Step@1", record)
    journal.commit()
    began = time.process_time()
    assert isinstance(look(tmp_path, "steps.Loop[7777].Step@1"), Ended)
    assert look(tmp_path, "steps.Loop[7777].Step@2") == NotStarted()
    assert len(KeeperJournal(path).claimed) == 10_000
    assert time.process_time() - began < 0.2


def test_reserved_space_is_passed_over_quickly(tmp_path: Path) -> None:
    """Each look at an attempt reads the file: it took longer for the zeros than for the records."""
    path = tmp_path / JOURNAL
    KeeperJournal(str(path)).append("claim", "a", {})
    content = path.read_bytes().rstrip(b"\0")
    path.write_bytes(content + bytes(16 << 20))

    def least(read: Callable[[], bytes]) -> float:
        took = []
        for _ in range(5):
            began = time.process_time()
            assert read().startswith(content)
            took.append(time.process_time() - began)
        return min(took)

    assert least(lambda: read_whole(str(path))) < 4 * least(path.read_bytes) + 0.01


@given(st.text() | st.text(st.characters(exclude_categories=[], min_codepoint=0xD700)))
def test_json_that_we_write_ourselves(text: str) -> None:
    assert json.loads(f'"{json_text(text)}"') == json.loads(json.dumps(text))
    assert json_text(text).isascii()
    assert "\n" not in json_text(text)


def test_plain_text_is_itself_in_json() -> None:
    assert json_text(" a~}{'/") == " a~}{'/"
    assert json_text('"\\\x7f\x1f\n') == '\\"\\\\\\u007f\\u001f\\n'


def test_json_of_scalars() -> None:
    values = {"a": 1, "b": -1.5, "c": None, "d": True, "e": False, "f": 'x"\\\x7f\x00é😀'}
    assert json.loads(json_of(values)) == values


def test_space_is_reserved_before_it_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = KeeperJournal(str(path))
    journal.reserve(3)
    blocks = os.stat(path).st_blocks * 512
    assert blocks >= 3 * LONGEST_RECORD
    inode_size = os.stat(path).st_size
    journal.append("exit", "a", {"stdout": "\udcff" * 8192, "stderr": "\udcff" * 8192})
    assert os.stat(path).st_size == inode_size


def test_nothing_is_recorded_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = KeeperJournal(str(tmp_path / "journal"))

    def fail(fd: int) -> None:
        raise OSError(5, "I/O error")

    monkeypatch.setattr("orchestrate.execute.keeper.journal.sync", fail)
    with pytest.raises(OSError, match="I/O error"):
        journal.append("claim", "a", {})
    monkeypatch.undo()
    with pytest.raises(OSError, match="earlier"):
        journal.append("claim", "b", {})


def test_frames_in_any_pieces() -> None:
    sent = [(["a"], b"\n\0\xff"), ([""], b""), (["b", "c", "1"], b"x" * 300)]
    stream = b"".join(encode(" ".join(words), body) for words, body in sent)
    for size in (1, 3, 4, 5, 1000):
        frames = Frames()
        got = [m for i in range(0, len(stream), size) for m in frames.feed(stream[i : i + size])]
        assert got == sent


@given(st.lists(st.binary(max_size=300)))
def test_packed_is_unpacked(fields: list[bytes]) -> None:
    assert unpack(pack(fields)) == fields


def test_any_bytes_are_text() -> None:
    assert bytes_of(text_of(bytes(range(256)))) == bytes(range(256))


def test_half_a_character_is_no_obstacle() -> None:
    """JSON of an agent can contain one, and it may end up in an argument."""
    assert bytes_of("a\ud800b") == b"a\xed\xa0\x80b"


def test_a_request_as_it_travels() -> None:
    folder = Path("/a b/ü")
    request = Request(
        attempt="a",
        argv=("x", "", "two\nlines"),
        env={"A": "", "B": "b=\udcff"},
        cwd=folder,
        stdout_path=folder / "out",
        stderr_path=folder / "err",
        stdin=b"",
        timeout_s=1e-7,
        secrets=("s1", ""),
    )
    packed = Packer().pack(request)
    *plain, lease, slot = REQUEST_FIELDS
    assert lease == "lease_until", "keepers from before there were leases take what comes first"
    leased = Packer().pack(replace(request, lease_until=7.5))
    assert leased == packed + pack([b"7.5"])
    assert slot == "slot", "keepers from before there were slots take what comes first"
    assert Packer().pack(replace(request, slot="/s")) == packed + pack([b"", b"/s"])
    fields = dict(zip(plain, unpack(packed), strict=True))
    assert unpack(fields["argv"]) == [b"x", b"", b"two\nlines"]
    assert unpack(fields["env"]) == [b"A", b"", b"B", b"b=\xff"]
    assert unpack(fields["secrets"]) == [b"s1", b""]
    assert fields["cwd"] == "/a b/ü".encode()
    assert (fields["stdin"], fields["tee_path"], fields["guarded"]) == (b"=", b"", b"1")
    assert float(fields["timeout_s"]) == 1e-7


def test_locks(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    before = descriptors_of(os.getpid())
    assert not is_locked(path)
    assert not os.path.exists(path)
    held = take_lock(path)
    assert held is not None
    assert is_locked(path)
    assert take_lock(path) is None
    assert take_lock(path, shared=True) is None
    os.close(held)
    assert not is_locked(path)
    shared, other = take_lock(path, shared=True), take_lock(path, shared=True)
    assert shared is not None
    assert other is not None
    assert not is_locked(path)
    assert is_locked(path, also_shared=True)
    os.close(shared)
    os.close(other)
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert descriptors_of(os.getpid()) == before


def test_a_lock_is_waited_for_as_long_as_one_has_patience(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    held = take_lock(path)
    assert held is not None
    began = time.monotonic()
    assert take_lock(path, patience_s=0.2) is None
    assert time.monotonic() - began >= 0.2
    timer = threading.Timer(0.2, os.close, [held])
    timer.start()
    got = take_lock(path, patience_s=60)
    timer.join()
    assert got is not None
    os.close(got)


def test_a_lock_that_does_not_work_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "lock")
    numbers = [errno.EINTR, errno.ENOLCK]

    def fail(*_: int) -> None:
        number = numbers.pop(0)
        raise OSError(number, os.strerror(number))

    before = descriptors_of(os.getpid())
    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(OSError, match="No locks") as caught:
        take_lock(path, patience_s=60)
    assert caught.value.errno == errno.ENOLCK
    assert descriptors_of(os.getpid()) == before
    (tmp_path / "link").symlink_to("lock")
    with pytest.raises(OSError, match="symbolic"):
        take_lock(str(tmp_path / "link"))


def test_no_message_is_too_long_to_be_refused() -> None:
    """Nonsense that looks like a length would otherwise be waited for, in memory."""
    with pytest.raises(ValueError, match="too long"):
        Frames().feed(b"\x7f\xff\xff\xff")
    assert Frames().feed(b"\x00\xff\xff\xff half of it") == []
    with pytest.raises(UnicodeDecodeError):
        Frames().feed(b"\0\0\0\3\xff \n")


def test_a_write_that_takes_a_part_is_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:3]))
    with (tmp_path / "file").open("wb") as file:
        write_all(file.fileno(), b"0123456789")
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_what_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def see(name: str) -> Callable[[int], None]:
        return lambda fd: seen.append(f"{name} {os.path.basename(os.readlink(f'/dev/fd/{fd}'))}")

    monkeypatch.setattr(os, "fsync", see("fsync"))
    monkeypatch.setattr(os, "fdatasync", see("fdatasync"))
    before = descriptors_of(os.getpid())
    with (tmp_path / "file").open("wb") as file:
        sync(file.fileno())
    sync_folder(str(tmp_path))
    assert seen == ["fdatasync file", f"fsync {tmp_path.name}"]
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(5, "I/O error")))
    with pytest.raises(OSError, match="I/O error"):
        sync_folder(str(tmp_path))
    with pytest.raises(NotADirectoryError):
        sync_folder(str(tmp_path / "file"))
    assert descriptors_of(os.getpid()) == before
