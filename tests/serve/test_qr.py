"""QR codes: the marks of the standard, sizes by length, and one that was compared with another
encoder's (segno, level L, mask 0, a text that fills its version)."""

from __future__ import annotations

from hashlib import sha256

import pytest

from orchestrate.serve.qr import drawing_of, matrix_of
from orchestrate.testing import Project

TEXT = ("https://work.your-tailnet.ts.net/#k=" + "aB3_" * 40)[:78]


def test_a_code_that_another_encoder_makes_alike() -> None:
    rows = "".join("".join("#" if dark else "." for dark in row) + "\n" for row in matrix_of(TEXT))
    assert sha256(rows.encode()).hexdigest()[:16] == "54880b0a91325a7e"


@pytest.mark.parametrize(("length", "size"), [(1, 21), (17, 21), (18, 25), (78, 33), (134, 41)])
def test_sizes(length: int, size: int) -> None:
    modules = matrix_of("x" * length)
    assert len(modules) == size
    for row, column in ((0, 0), (0, size - 7), (size - 7, 0)):
        assert all(modules[row][column : column + 7])
        assert modules[row + 3][column + 3]
        assert not modules[row + 1][column + 1]


def test_a_drawing_has_a_quiet_border() -> None:
    lines = drawing_of(TEXT).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert set(lines[0]) == {"█"}
    with pytest.raises(ValueError, match="too long"):
        matrix_of("x" * 135)


def test_it_needs_a_host_that_a_phone_can_reach(project: Project) -> None:
    result = project.run("serve", "--qr").assert_exit(2)
    assert "--allow-host" in result.stderr
