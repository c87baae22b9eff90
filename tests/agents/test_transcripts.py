"""The transcript of a turn, made from what real programs printed (issue 16, item 1)."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.agent_names import own_name
from orchestrate.agents.registry import PROGRAMS
from orchestrate.agents.transcript import EventTranscript, LineTranscript
from orchestrate.transcript import Doing, Passage

SAMPLES = Path(__file__).with_name("samples")
ANSWER = 'Done.\n{"outcome": "done"}'
NO_REPOSITORY = (
    "Exit code 128\nfatal: not a git repository (or any of the parent directories): .git"
)
NO_METADATA = (
    "Model metadata for `fake-model` not found. Defaulting to fallback metadata; this can degrade "
    "performance and cause issues."
)
LOOK = ("said", "", "I look first.")


def turn(sample: str, size: int = 1 << 20) -> list[Passage]:
    """The passages in the end, of an output that arrives in pieces of so many bytes."""
    transcript = EventTranscript(PROGRAMS[own_name(sample.partition("/")[0])]().pieces_of)
    output = (SAMPLES / f"{sample}.stdout").read_bytes()
    found: dict[int, Passage] = {}
    for start in range(0, len(output), size):
        found |= {p.number: p for p in transcript.feed(output[start : start + size])}
    found |= {p.number: p for p in transcript.finish()}
    assert transcript.doing.activity == ""
    assert [*found] == sorted(found)
    return [*found.values()]


TURNS = {
    "claude/stream-tool": [
        LOOK,
        ("runs", "Bash", "git status"),
        ("result", "Bash", NO_REPOSITORY),
        ("said", "", ANSWER),
    ],
    "codex/tool": [
        ("note", "", NO_METADATA),
        LOOK,
        ("runs", "shell", "echo hi"),
        ("result", "shell", "hi"),
        ("said", "", ANSWER),
    ],
    "gemini/stream-tool": [
        LOOK,
        ("runs", "run_shell_command", "echo hi"),
        ("result", "run_shell_command", "hi"),
        ("said", "", ANSWER),
    ],
    "copilot/tool": [
        LOOK,
        ("runs", "bash", "echo hi"),
        ("result", "bash", "hi\n<shellId: 0 completed with exit code 0>"),
        ("said", "", ANSWER),
    ],
    "opencode/tool-default": [
        ("said", "", "running"),
        ("runs", "bash", "touch made; echo rc=$?"),
        ("result", "bash", "rc=0"),
        ("said", "", "done"),
    ],
    "qwen/stream-tool": [
        LOOK,
        ("runs", "run_shell_command", "echo hi"),
        ("result", "run_shell_command", "hi"),
        ("said", "", ANSWER),
    ],
    "cursor/documented": [
        ("said", "", "I'll read the file"),
        ("runs", "read", "README.md"),
        ("result", "read", "# Project"),
        ("said", "", "I'll read the file\nIt says Project."),
    ],
}  # fmt: skip


@pytest.mark.parametrize("size", [1 << 20, 7])
@pytest.mark.parametrize("sample", TURNS)
def test_console_01_a_turn_is_readable_however_it_arrives(sample: str, size: int) -> None:
    found = turn(sample, size)
    assert [(p.kind, p.tool, p.text) for p in found] == TURNS[sample]
    assert not any(p.is_open for p in found)


@pytest.mark.parametrize(
    "sample", [f"{p.parent.name}/{p.stem}" for p in sorted(SAMPLES.glob("*/*.stdout"))]
)
def test_console_01_no_passage_of_a_real_program_shows_json_of_its_events(sample: str) -> None:
    for passage in turn(sample):
        assert passage.text or passage.tool
        assert '"type"' not in passage.text
        assert passage.kind != "result" or passage.text.count("\n") < 3


def test_console_01_a_failure_ends_with_what_the_program_says() -> None:
    (last,) = turn("claude/stream-429")[-1:]
    assert (last.kind, last.is_error) == ("note", True)
    assert "429" in last.text


def test_console_01_an_error_is_told_once_and_as_one() -> None:
    """Some programs tell it when it comes, and again when they end by it."""
    for sample in ("codex/d-err400", "copilot/d-err400", "gemini/d-err400-stream"):
        errors = [p for p in turn(sample) if "fake 400" in p.text]
        assert [p.is_error for p in errors] == [True], sample


def test_console_01_an_error_that_the_agent_says_first_is_told_once_and_as_one() -> None:
    transcript = EventTranscript(PROGRAMS["claude-code"]().pieces_of)
    error = "API Error: 400 no"
    said = {"type": "assistant", "message": {"content": [{"type": "text", "text": error}]}}
    assert transcript.feed(events(said)) == [Passage(0, "said", error)]
    ended = {"type": "result", "subtype": "success", "is_error": True, "result": error}
    assert transcript.feed(events(ended)) == [Passage(0, "note", error, is_error=True)]


def test_console_01_a_file_that_was_written_is_told_by_its_tool_alone() -> None:
    transcript = EventTranscript(PROGRAMS["github-copilot"]().pieces_of)
    begun = {"toolName": "create", "toolCallId": "1", "arguments": {"path": "a.txt"}}
    made = {"infoType": "file_created", "message": "/project/a.txt"}
    (told,) = transcript.feed(
        events({"type": "tool.execution_start", "data": begun},
               {"type": "session.info", "data": made})
    )  # fmt: skip
    assert (told.kind, told.text) == ("wrote", "a.txt")


def test_console_01_of_a_shell_that_tells_about_itself_the_output_is_shown() -> None:
    tell = (
        "Command: ls x\nDirectory: (root)\nOutput: {}\nError: (none)\n"
        "Exit Code: 2\nSignal: (none)\nProcess Group PGID: 32539"
    )
    for printed, shown in (("one\nno 'x'", "one\nno 'x'"), ("(empty)", "exit code 2")):
        transcript = EventTranscript(PROGRAMS["qwen"]().pieces_of)
        part = {"type": "tool_result", "tool_use_id": "1", "is_error": True,
                "content": tell.format(printed)}  # fmt: skip
        (told,) = transcript.feed(events({"type": "user", "message": {"content": [part]}}))
        assert told.text == shown


def test_console_01_a_tool_that_is_not_there_is_named() -> None:
    transcript = EventTranscript(PROGRAMS["opencode"]().pieces_of)
    state = {"input": {"tool": "write", "error": "no"}, "output": "unavailable tool 'write'"}
    part = {"tool": "invalid", "callID": "1", "state": state}
    begun, told = transcript.feed(events({"type": "tool_use", "part": part}))
    assert (begun.tool, told.tool) == ("write", "write")
    assert (told.text, told.is_error) == ("unavailable tool 'write'", True)


def test_console_01_the_refusal_of_a_tool_is_told_in_its_words() -> None:
    transcript = EventTranscript(PROGRAMS["claude-code"]().pieces_of)
    text = "<tool_use_error>No such tool available: Write.</tool_use_error>"
    part = {"type": "tool_result", "tool_use_id": "1", "is_error": True, "content": text}
    (told,) = transcript.feed(events({"type": "user", "message": {"content": [part]}}))
    assert (told.text, told.is_error) == ("No such tool available: Write.", True)


def events(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def delta(text: str) -> dict[str, object]:
    return {"type": "message", "role": "assistant", "content": text, "delta": True}


def gemini(secret: str = "") -> EventTranscript:
    def mask(text: str, is_whole: bool) -> str:
        text = text.replace(secret, "***") if secret else text
        ends = [n for n in range(1, len(secret)) if text.endswith(secret[:n])]
        return text if is_whole or not ends else text[: -max(ends)]

    return EventTranscript(PROGRAMS["gemini"]().pieces_of, mask)


def test_console_01_partial_text_grows_in_its_place() -> None:
    transcript = gemini()
    assert transcript.feed(events(delta("Half"))) == [Passage(0, "said", "Half", is_open=True)]
    assert transcript.doing == Doing("model", "Half")
    assert transcript.feed(events(delta(" a word"))) == [
        Passage(0, "said", "Half a word", is_open=True)
    ]
    call = {"type": "tool_use", "tool_id": "1", "tool_name": "write_file",
            "parameters": {"content": "x", "file_path": "a.txt"}}  # fmt: skip
    assert transcript.feed(events(call)) == [
        Passage(0, "said", "Half a word"),
        Passage(1, "wrote", "a.txt", "write_file", "1"),
    ]
    assert transcript.doing == Doing("tool", "write_file: a.txt")
    assert transcript.feed(events({"type": "tool_result", "tool_id": "1", "output": "ok"})) == []
    assert transcript.doing.activity == "model"


def test_console_01_a_secret_in_two_pieces_is_masked_when_they_are_joined() -> None:
    transcript = gemini("hunter2hunter2")
    assert transcript.feed(events(delta("the key is hunt")))[0].text == "the key is "
    assert transcript.feed(events(delta("er2hunter2, so")))[0].text == "the key is ***, so"


def test_console_01_the_whole_message_stands_in_the_place_of_its_deltas() -> None:
    transcript = EventTranscript(PROGRAMS["github-copilot"]().pieces_of)
    part = {"type": "assistant.message_delta", "data": {"deltaContent": "Do"}}
    whole = {"type": "assistant.message", "data": {"content": "Done."}}
    assert transcript.feed(events(part))[0].number == 0
    assert transcript.feed(events(whole)) == [Passage(0, "said", "Done.")]


def test_console_01_a_long_result_is_three_lines_and_says_how_many_are_missing() -> None:
    transcript = gemini()
    output = "\n".join(f"line {n}" for n in range(100))
    (found,) = transcript.feed(events({"type": "tool_result", "tool_id": "1", "output": output}))
    assert (found.text, found.left_out) == ("line 0\nline 98\nline 99", 97)


def test_console_01_hostile_output_stays_bounded() -> None:
    transcript = gemini()
    for _ in range(3):
        transcript.feed(b'{"type": "message", "content": "' + b"x" * (5 << 20))
    (left_out,) = transcript.feed(b'"}\n')
    assert left_out.kind == "note"
    assert "is left out" in left_out.text
    said = [transcript.feed(events(delta("y" * 10_000))) for _ in range(60)][-1][0]
    assert (len(said.text), said.left_out) == (40_000, 560_000)
    for number in range(1000):
        transcript.feed(events({"type": "tool_use", "tool_id": str(number), "tool_name": "t"}))
    assert len(transcript._calls) <= 200
    assert transcript.feed(events(delta("\x1b[31mred\x1b[0m\x07\u202e"))) == [
        Passage(said.number + 1001, "said", "red", is_open=True)
    ]


@given(st.lists(st.binary(max_size=200)), st.sampled_from(sorted(PROGRAMS)))
def test_console_01_no_bytes_break_a_transcript(parts: list[bytes], name: str) -> None:
    transcript = EventTranscript(PROGRAMS[name]().pieces_of)
    for part in parts:
        transcript.feed(part)
    transcript.finish()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "subtype", "message", "content", "item", "data", "part", "state",
                         "text", "error", "tool_call", "result", "changes", "input", "errors"]),
        inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
TYPES = ("assistant", "user", "result", "item.completed", "tool_use", "tool_call", "text", "error",
         "message", "tool_result", "tool.execution_start", "tool.execution_complete")  # fmt: skip


@given(st.sampled_from(TYPES), JSON, JSON, st.sampled_from(sorted(PROGRAMS)))
def test_console_01_no_event_breaks_a_transcript(
    kind: str, one: object, two: object, name: str
) -> None:
    transcript = EventTranscript(PROGRAMS[name]().pieces_of)
    keys = ("message", "item", "data", "part", "tool_call", "error", "result", "errors")
    for value in (one, two):
        transcript.feed(events({"type": kind, **dict.fromkeys(keys, value)}))
        transcript.feed(events({"type": kind, "message": {"content": [value]}, "item": value}))
    transcript.finish()


def test_console_01_a_plain_program_has_its_lines() -> None:
    transcript = LineTranscript()
    found = transcript.feed(b"one\n\n10 %\r20 %\rtwo\nthr")
    assert [p.text for p in found] == ["one", "two"]
    assert transcript.doing.words == "thr"
    assert [p.text for p in transcript.finish()] == ["thr"]


def test_console_01_a_log_of_50_mb_does_not_fill_memory(tmp_path: Path) -> None:
    """Lines of 1 MB and one of 12 MB, in a process that may have 160 MB in all."""
    path = tmp_path / "stdout"
    call = {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "make"}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": "some output\n" * 90_000}
    with path.open("wb") as file:
        for _ in range(36):
            file.write(events({"type": "assistant", "message": {"content": [call]}}))
            file.write(events({"type": "user", "message": {"content": [result]}}))
        file.write(b'{"endless": "' + b"y" * (12 << 20) + b'"}\n')
        file.write(events({"type": "result", "is_error": False, "result": "The end."}))
    assert path.stat().st_size > 50 << 20
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from orchestrate.agents.registry import PROGRAMS\n"
        "from orchestrate.agents.transcript import EventTranscript\n"
        "from orchestrate.view.transcripts import TurnFollower\n"
        "transcript = EventTranscript(PROGRAMS['claude-code']().pieces_of)\n"
        "follower = TurnFollower(Path(sys.argv[1]), transcript)\n"
        "while news := follower.news(): last = news[-1]\n"
        "print(last.number, last.text)\n"
    )
    limit = 160 << 20
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        cwd=Path(__file__).resolve().parents[2],
    )
    assert (done.stdout, done.stderr) == ("73 The end.\n", "")
