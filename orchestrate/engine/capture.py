"""A program's output becomes what the state keeps of it: text, lines or JSON, within C's limits."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Literal, NoReturn

from orchestrate.engine.masked_keys import pairs_hook
from orchestrate.engine.texts import decode, sendable
from orchestrate.exits import STEP_UNUSABLE
from orchestrate.plan.visible import show_size
from orchestrate.record import field, record
from orchestrate.state.result import CallDebug, StepResult

TEXT_LIMIT = 8 * 1024
LINES_LIMIT = 10_000
JSON_LIMIT = 1024 * 1024
# C bounds the number of lines, not their length; without this, output that never ends its line
# would fill the memory and the state.
LINES_SIZE_LIMIT = 8 * 1024 * 1024
# What is deeper than this would break code that walks through it later.
JSON_DEPTH_LIMIT = 200
_CHUNK = 64 * 1024
_TAIL_SIZE = 8 * 1024

Mode = Literal["text", "lines", "json"]


@record
class Captured:
    """What a step's record says about its output.

    `exit_code` is the program's, or 2 when it succeeded but its output was no JSON; then `error`
    says so, with `context` for the error's context. `keep_log`: logs/<Step>.stdout must stay.
    `debug` belongs under the step's `debug`.
    """

    exit_code: int
    output: StepResult
    keep_log: bool
    error: str = ""
    context: dict[str, Any] = field(default_factory=dict)
    debug: CallDebug | None = None


class _NoJson(Exception):
    """The output is not the JSON it should be."""

    def __init__(self, reason: Literal["invalid", "overflow"], message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def capture_output(
    path: Path, size: int, *, mode: Mode, exit_code: int, allow_parse_error: bool = False
) -> Captured:
    """Read what a program printed: the first `size` bytes of a file, but never more than needed."""
    with path.open("rb") as opened:
        size = min(size, os.fstat(opened.fileno()).st_size)
        return _capture(opened, size, mode, exit_code, allow_parse_error=allow_parse_error)


def capture_bytes(
    data: bytes, *, mode: Mode, exit_code: int, allow_parse_error: bool = False
) -> Captured:
    """The same for output that is in memory already."""
    opened = BytesIO(data)
    return _capture(opened, len(data), mode, exit_code, allow_parse_error=allow_parse_error)


def _capture(
    opened: BinaryIO, size: int, mode: Mode, exit_code: int, *, allow_parse_error: bool
) -> Captured:
    match mode:
        case "text":
            output = _as_text(opened, size)
            return Captured(exit_code, output, keep_log=output.truncated)
        case "lines":
            lines, is_cut = _read_lines(opened, size)
            output = StepResult(output_capture="lines", lines=lines, truncated=is_cut)
            return Captured(exit_code, output, keep_log=is_cut)
        case "json":
            return _capture_json(opened, size, exit_code, allow_parse_error=allow_parse_error)


def read_tail(path: Path, size: int, most: int = 10) -> list[str]:
    """The last lines of a program's output, for the error's context; at most 8 KiB of them."""
    with path.open("rb") as opened:
        size = min(size, os.fstat(opened.fileno()).st_size)
        start = max(0, size - _TAIL_SIZE)
        opened.seek(start)
        data = opened.read(size - start)
    return tail_of(data, most, is_cut=start > 0)


def tail_of(data: bytes, most: int = 10, *, is_cut: bool = False) -> list[str]:
    """The last lines of bytes in memory; of cut ones the first line is not whole."""
    lines = _split(data)
    if is_cut and len(lines) > 1:
        del lines[0]
    return [decode(line)[0] for line in lines[-most:]]


def _as_text(opened: BinaryIO, size: int) -> StepResult:
    is_cut = size > TEXT_LIMIT
    text, _ = decode(opened.read(min(size, TEXT_LIMIT)), is_cut=is_cut)
    return StepResult(output=text, truncated=is_cut)


def _capture_json(
    opened: BinaryIO, size: int, exit_code: int, *, allow_parse_error: bool
) -> Captured:
    try:
        value = _read_json(opened, size)
    except _NoJson as fault:
        detail = {"json_parse_error": {"reason": fault.reason}}
        if allow_parse_error:
            opened.seek(0)
            output = StepResult(output_capture="json") | _as_text(opened, size)
            debug = CallDebug(json_parse_error=detail["json_parse_error"])
            return Captured(exit_code, output, keep_log=True, debug=debug)
        output = StepResult(output_capture="json", truncated=fault.reason == "overflow")
        # A program that failed has said so itself; its code is what matters.
        if exit_code != 0:
            return Captured(exit_code, output, keep_log=True)
        return Captured(STEP_UNUSABLE, output, keep_log=True, error=fault.message, context=detail)
    output = StepResult(output_capture="json", json=value, truncated=False)
    return Captured(exit_code, output, keep_log=False)


def _read_json(opened: BinaryIO, size: int) -> Any:
    if size > JSON_LIMIT:
        raise _NoJson(
            "overflow",
            f"stdout has {show_size(size)}; at most {show_size(JSON_LIMIT)} are parsed as JSON",
        )
    text, _ = decode(opened.read(size))
    return _parse_json(text)


def _parse_json(text: str) -> Any:
    """Any JSON value; of two equal keys the last counts. No NaN, no number beyond a float's."""
    try:
        value = json.loads(
            text.removeprefix("\ufeff"), parse_constant=_refuse_constant, parse_float=_finite,
            object_pairs_hook=pairs_hook(text),
        )  # fmt: skip
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise _NoJson("invalid", f"stdout is not valid JSON: {sendable(str(error))}") from None
    if is_too_deep(value):
        raise _too_deep()
    return value


def _too_deep() -> _NoJson:
    return _NoJson(
        "invalid", f"stdout is not usable JSON: nested deeper than {JSON_DEPTH_LIMIT} levels"
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return number


def is_too_deep(value: Any) -> bool:
    """Level by level, so that depth costs no stack."""
    level = [value]
    for _ in range(JSON_DEPTH_LIMIT + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _read_lines(opened: BinaryIO, size: int) -> tuple[list[str], bool]:
    """The first lines, and whether there were more.

    A line that the size limit would go through is left out whole: half a file name is a wrong one.
    """
    lines: list[str] = []
    room = LINES_SIZE_LIMIT
    for line in _raw_lines(opened, size):
        room -= len(line)
        if len(lines) == LINES_LIMIT or room < 0:
            return lines, True
        lines.append(decode(line)[0])
    return lines, False


def _raw_lines(opened: BinaryIO, size: int) -> Iterator[bytes]:
    """Lines without their ends; the last one may lack its end. A line past the limit comes cut."""
    rest = bytearray()
    while size > 0 and (chunk := opened.read(min(_CHUNK, size))):
        size -= len(chunk)
        rest += chunk
        if b"\n" in chunk:
            *whole, last = rest.split(b"\n")
            for line in whole:
                yield bytes(line.removesuffix(b"\r"))
            rest = last
        if len(rest) > LINES_SIZE_LIMIT:
            break
    if rest:
        yield bytes(rest)


def _split(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    last = lines.pop()
    return [line.removesuffix(b"\r") for line in lines] + ([last] if last else [])
