"""What the state keeps of a program's output, at C's limits and with output of any kind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrate.engine.capture import (
    JSON_LIMIT,
    LINES_LIMIT,
    LINES_SIZE_LIMIT,
    TEXT_LIMIT,
    Captured,
    capture_output,
    read_tail,
)
from orchestrate.state.result import CallDebug, StepResult


@pytest.fixture
def stdout(tmp_path: Path) -> Path:
    return tmp_path / "Step.stdout"


def capture(stdout: Path, data: bytes, mode: Any, exit_code: int = 0, **options: Any) -> Captured:
    stdout.write_bytes(data)
    return capture_output(stdout, len(data), mode=mode, exit_code=exit_code, **options)


class TestText:
    def test_all_of_it(self, stdout: Path) -> None:
        captured = capture(stdout, b"First line\r\nSecond line\n", "text")
        assert captured == Captured(
            0,
            StepResult.from_json({"output": "First line\r\nSecond line\n", "truncated": False}),
            keep_log=False,
        )

    def test_nothing(self, stdout: Path) -> None:
        assert capture(stdout, b"", "text").output.to_json() == {"output": "", "truncated": False}

    def test_at_the_limit(self, stdout: Path) -> None:
        captured = capture(stdout, b"x" * TEXT_LIMIT, "text")
        assert captured.output.to_json() == {"output": "x" * TEXT_LIMIT, "truncated": False}
        assert not captured.keep_log

    def test_beyond_the_limit(self, stdout: Path) -> None:
        """C acceptance 45."""
        captured = capture(stdout, b"x" * TEXT_LIMIT + b"y", "text", exit_code=3)
        assert captured.output.to_json() == {"output": "x" * TEXT_LIMIT, "truncated": True}
        assert captured.keep_log
        assert captured.exit_code == 3

    @pytest.mark.parametrize("character", ["é", "€", "😀"])
    @pytest.mark.parametrize("offset", range(4))
    def test_no_character_is_cut(self, stdout: Path, character: str, offset: int) -> None:
        whole = "x" * offset + character * TEXT_LIMIT
        output = capture(stdout, whole.encode("utf-8"), "text").output.output
        assert whole.startswith(output)
        assert TEXT_LIMIT - 4 < len(output.encode("utf-8")) <= TEXT_LIMIT

    def test_a_character_that_ends_the_output_half_is_replaced(self, stdout: Path) -> None:
        assert capture(stdout, b"a\xe2\x82", "text").output.output == "a\ufffd"

    def test_any_bytes(self, stdout: Path) -> None:
        assert capture(stdout, b"a\0\xffb\x1b", "text").output.output == "a\0\ufffdb\x1b"

    def test_only_what_was_recorded(self, stdout: Path) -> None:
        stdout.write_bytes(b"12345")
        assert capture_output(stdout, 3, mode="text", exit_code=0).output.output == "123"
        assert capture_output(stdout, 9, mode="text", exit_code=0).output.output == "12345"


class TestLines:
    @pytest.mark.parametrize(
        ("data", "lines"),
        [
            (b"", []),
            (b"\n", [""]),
            (b"a\nb\n", ["a", "b"]),
            (b"a\nb", ["a", "b"]),
            (b"a\n\nb\n\n", ["a", "", "b", ""]),
            (b"a\r\nb\r\n", ["a", "b"]),
            (b"a\r\r\nb\rc\r", ["a\r", "b\rc\r"]),
            (b"\0\n\xff\n", ["\0", "\ufffd"]),
            ("ä\u2028ö\x85\n".encode(), ["ä\u2028ö\x85"]),
        ],
    )
    def test_split(self, stdout: Path, data: bytes, lines: list[str]) -> None:
        """C acceptance 1."""
        captured = capture(stdout, data, "lines")
        assert captured.output.to_json() == {
            "output_capture": "lines",
            "lines": lines,
            "truncated": False,
        }
        assert not captured.keep_log

    def test_at_the_limit(self, stdout: Path) -> None:
        captured = capture(stdout, b"x\n" * LINES_LIMIT, "lines")
        assert captured.output.lines == ["x"] * LINES_LIMIT
        assert captured.output.truncated is False

    @pytest.mark.parametrize("last", [b"y", b"\n", b"y\n" * 200_000])
    def test_beyond_the_limit(self, stdout: Path, last: bytes) -> None:
        """C acceptance 52, for lines."""
        captured = capture(stdout, b"x\n" * LINES_LIMIT + last, "lines")
        assert captured.output.lines == ["x"] * LINES_LIMIT
        assert captured.output.truncated is True
        assert captured.keep_log

    def test_a_long_line(self, stdout: Path) -> None:
        line = "€" * 1_000_000
        assert capture(stdout, line.encode() + b"\nx\n", "lines").output.lines == [line, "x"]

    def test_half_a_line_is_left_out(self, stdout: Path) -> None:
        captured = capture(stdout, b"a\n" + b"x" * LINES_SIZE_LIMIT + b"\nb\n", "lines")
        assert captured.output.lines == ["a"]
        assert captured.output.truncated is True

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.binary(max_size=200).map(lambda data: data.replace(b"a", b"\r\n")))
    def test_lines_and_their_ends_are_the_output(self, stdout: Path, data: bytes) -> None:
        lines = capture(stdout, data, "lines").output.lines
        expected = data.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")
        assert "\n".join(lines) == expected


class TestJson:
    @pytest.mark.parametrize(
        "value", [{"success": True, "files": ["a.py"]}, [], "text", 0, 1.5, None, False, {"a": "é"}]
    )
    def test_any_value(self, stdout: Path, value: Any) -> None:
        """C acceptance 2; rulings §9."""
        captured = capture(stdout, json.dumps(value, indent=1).encode(), "json")
        assert captured == Captured(
            0,
            StepResult.from_json({"output_capture": "json", "json": value, "truncated": False}),
            keep_log=False,
        )

    @pytest.mark.parametrize(
        "data",
        [b"", b"{", b"no json", b"NaN", b"[Infinity]", b"-Infinity", b"1e999", b"[-1e999]",
         b"{} {}", b"{'a': 1}", b"[" * 100_000, b"[" * 300 + b"]" * 300,
         b'{"a":' * 300 + b"1" + b"}" * 300, b"9" * 5000, b'"\n"', b"\0"],
    )  # fmt: skip
    def test_invalid(self, stdout: Path, data: bytes) -> None:
        """C acceptance (1.3) 3."""
        captured = capture(stdout, data, "json")
        assert captured.exit_code == 2
        assert captured.output.to_json() == {"output_capture": "json", "truncated": False}
        assert "JSON" in captured.error
        assert captured.context == {"json_parse_error": {"reason": "invalid"}}
        assert captured.keep_log

    def test_depth_below_the_limit(self, stdout: Path) -> None:
        captured = capture(stdout, b"[" * 200 + b"]" * 200, "json")
        assert captured.exit_code == 0

    def test_the_last_of_equal_keys(self, stdout: Path) -> None:
        assert capture(stdout, b'{"a": 1, "a": 2}', "json").output.json == {"a": 2}

    def test_marks_and_broken_bytes(self, stdout: Path) -> None:
        assert capture(stdout, b'\xef\xbb\xbf["\xff"]', "json").output.json == ["\ufffd"]

    def test_half_a_character_survives(self, stdout: Path) -> None:
        captured = capture(stdout, b'"\\ud800"', "json")
        assert json.loads(json.dumps(captured.output.json)) == "\ud800"

    def test_at_the_limit(self, stdout: Path) -> None:
        data = b'"' + b"x" * (JSON_LIMIT - 2) + b'"'
        assert capture(stdout, data, "json").exit_code == 0

    def test_beyond_the_limit(self, stdout: Path) -> None:
        """C acceptance 14; (1.3) 10."""
        captured = capture(stdout, b'"' + b"x" * (JSON_LIMIT - 1) + b'"', "json")
        assert captured.exit_code == 2
        assert captured.output.to_json() == {"output_capture": "json", "truncated": True}
        assert captured.context == {"json_parse_error": {"reason": "overflow"}}
        assert captured.error == "stdout has 1.0 MiB; at most 1.0 MiB are parsed as JSON"
        assert captured.keep_log

    def test_allowed_overflow(self, stdout: Path) -> None:
        """C acceptance 15."""
        captured = capture(stdout, b"x" * (JSON_LIMIT + 1), "json", allow_parse_error=True)
        assert captured == Captured(
            0,
            StepResult.from_json(
                {"output_capture": "json", "output": "x" * TEXT_LIMIT, "truncated": True}
            ),
            keep_log=True,
            debug=CallDebug(json_parse_error={"reason": "overflow"}),
        )

    def test_allowed_nonsense(self, stdout: Path) -> None:
        captured = capture(stdout, b"not json", "json", allow_parse_error=True)
        assert captured == Captured(
            0,
            StepResult.from_json(
                {"output_capture": "json", "output": "not json", "truncated": False}
            ),
            keep_log=True,
            debug=CallDebug(json_parse_error={"reason": "invalid"}),
        )

    def test_allowed_and_not_needed(self, stdout: Path) -> None:
        captured = capture(stdout, b"[]", "json", allow_parse_error=True)
        assert captured.output.to_json() == {
            "output_capture": "json",
            "json": [],
            "truncated": False,
        }
        assert captured.debug is None

    @pytest.mark.parametrize("exit_code", [1, 2, 124, 127, -9])
    @pytest.mark.parametrize("allowed", [True, False])
    @pytest.mark.parametrize("data", [b"[1]", b"no json", b"x" * (JSON_LIMIT + 1)])
    def test_a_failure_stays_that_failure(
        self, stdout: Path, exit_code: int, allowed: bool, data: bytes
    ) -> None:
        captured = capture(stdout, data, "json", exit_code, allow_parse_error=allowed)
        assert captured.exit_code == exit_code
        assert captured.error == ""
        assert ("json" in captured.output.to_json()) is (data == b"[1]")


class TestTail:
    @pytest.mark.parametrize(
        ("data", "tail"),
        [
            (b"", []),
            (b"one", ["one"]),
            (b"\r\n".join(b"%d" % n for n in range(15)), [str(n) for n in range(5, 15)]),
            (b"a\n\n", ["a", ""]),
            (b"\xff\0\n", ["\ufffd\0"]),
        ],
    )
    def test_last_lines(self, stdout: Path, data: bytes, tail: list[str]) -> None:
        stdout.write_bytes(data)
        assert read_tail(stdout, len(data)) == tail

    def test_a_line_without_a_beginning_is_left_out(self, stdout: Path) -> None:
        stdout.write_bytes(b"x" * 9000 + b"\nlast\n")
        assert read_tail(stdout, 9006) == ["last"]

    def test_one_long_line_is_cut(self, stdout: Path) -> None:
        stdout.write_bytes(b"x" * 9000)
        assert read_tail(stdout, 9000) == ["x" * 8192]


MEASURE = """
import resource, sys
from pathlib import Path
from orchestrate.engine.capture import capture_output, read_tail
path = Path(sys.argv[1])
size = path.stat().st_size
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for mode in ("text", "lines", "json"):
    assert capture_output(path, size, mode=mode, exit_code=1, allow_parse_error=True).keep_log
assert len(read_tail(path, size)) <= 10
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("line", [b"", b"a line\n" * 300_000])
def test_a_gigabyte_takes_little_memory(stdout: Path, line: bytes, repository: Path) -> None:
    with stdout.open("wb") as opened:
        opened.write(line)
        opened.truncate(1024**3)
    result = subprocess.run(
        [sys.executable, "-c", MEASURE, str(stdout)],
        cwd=repository, capture_output=True, encoding="utf-8", timeout=30, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(result.stdout) * unit < 60 * 1024**2
