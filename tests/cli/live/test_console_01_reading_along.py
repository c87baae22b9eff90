"""The view reads along with agents: their last lines, and whether a tool or the model works."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

from orchestrate.agents.registry import PROGRAMS
from orchestrate.agents.transcript import EventTranscript, LineTranscript
from orchestrate.show.heartbeat import AtWork, line_about
from orchestrate.show.live.drawing import Pen
from orchestrate.show.live.picture import Row, RunningProgram
from orchestrate.show.live.tails import Tail, Tails
from orchestrate.transcript import Transcript


def transcript_of(backend: str) -> Transcript | None:
    if backend == "human":
        return None
    return EventTranscript(PROGRAMS[backend]().pieces_of) if backend else LineTranscript()


def said(*parts: Mapping[str, object]) -> str:
    return json.dumps({"type": "assistant", "message": {"content": parts}}) + "\n"


def test_console_01_the_view_reads_on_where_it_was(tmp_path: Path) -> None:
    log = tmp_path / "look.stdout"
    program = RunningProgram("look", "claude-code", time.time())
    tails = Tails(tmp_path, transcript_of)
    assert tails.of(program, time.time()).has_spoken is False
    call = {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "make test"}}
    log.write_text(said({"type": "text", "text": "I look.\nAnd look."}, call))
    tail = tails.of(program, time.time())
    assert (tail.activity, tail.words) == ("tool", "Bash: make test")
    assert tail.lines == ("And look.", "> Bash: make test")
    # Half an event says nothing; the rest of it does. What was read is not read again.
    result = {"type": "tool_result", "tool_use_id": "1", "content": "ok"}
    event = json.dumps({"type": "user", "message": {"content": [result]}}) + "\n"
    with log.open("a") as file:
        file.write(event[:20])
    assert tails.of(program, time.time()).activity == "tool"
    with log.open("a") as file:
        file.write(event[20:])
    tail = tails.of(program, time.time())
    assert (tail.activity, tail.lines[-1]) == ("model", "  | ok")


def test_console_01_of_a_huge_log_only_the_end_is_read(tmp_path: Path) -> None:
    log = tmp_path / "look.stdout"
    filler = said({"type": "text", "text": "x" * 10_000})
    log.write_text(filler * 300 + said({"type": "text", "text": "The end."}))
    began = time.process_time()
    tail = Tails(tmp_path, transcript_of).of(
        RunningProgram("look", "claude-code", 0.0), time.time()
    )
    assert tail.words == "The end."
    assert len(tail.lines) == 3
    assert time.process_time() - began < 1.0


def test_console_01_lines_stand_below_a_row_where_there_is_room() -> None:
    rows = [Row(0, "head", "run"), Row(1, "work", "look", words="one\ntwo\nthree")]
    pen = Pen("utf-8")
    assert [line.strip() for line in pen.lines(rows, 80, 10)][2:] == ["one", "two", "three"]
    assert [line.strip() for line in pen.lines(rows, 80, 3)][2:] == ["three"]
    assert "three" in pen.lines(rows, 80, 2)[1]


def test_console_01_a_line_in_ci_says_that_a_tool_runs() -> None:
    one = AtWork("[1/2] look", RunningProgram("look", "claude-code", 0.0))
    tail = Tail("Bash: make test", 75.0, True, "tool")
    assert line_about(one, tail, "", 120.0) == (
        '[1/2] look: at work for 2m00s; a tool runs; silent for 1m15s: "Bash: make test"'
    )
