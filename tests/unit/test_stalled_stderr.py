"""Notes to a pipe that nobody reads are dropped after a while: work and signals come first."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable

import pytest

from orchestrate.show import output


def a_socket() -> tuple[int, int]:
    """What Node.js gives its children for a pipe."""
    reader, writer = socket.socketpair()
    return reader.detach(), writer.detach()


@pytest.mark.parametrize("make", [os.pipe, a_socket])
def test_a_reader_that_stalls_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], tuple[int, int]]
) -> None:
    reader, writer = make()
    monkeypatch.setattr(output, "PATIENCE_S", 0.05)
    output.prepare_streams()
    with open(writer, "w", encoding="utf-8") as stream, open(reader, "rb", buffering=0) as pipe:
        monkeypatch.setattr(sys, "stderr", stream)
        for number in range(3000):
            output.note(f"line {number} {'x' * 90}\n")
        first = pipe.read(1_000_000)
        output.note("and on\n")
        second = pipe.read(1_000_000)
        monkeypatch.undo()
    lines = first.decode().splitlines()
    assert lines[0].startswith("line 0 ")
    assert len(lines) < 3000
    missing = 3000 - len(lines)
    assert second.decode() == (
        f"orchestrate: {missing} messages are missing here: they were not read\nand on\n"
    )
