"""What real programs printed is understood: every sample has one meaning, written down here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrate.agent_names import own_name
from orchestrate.agents.adapter import Parsed, ProgramAgent
from orchestrate.agents.base import FailureKind, Used
from orchestrate.agents.parse import Event, read_events
from orchestrate.agents.registry import PROGRAMS, make_agent
from orchestrate.agents.transcript import EventTranscript
from orchestrate.record import replace

SAMPLES = Path(__file__).parent / "samples"
NOW = 1_794_800_000.0
HELLO = "Hello from the fake model."
DONE = 'Done.\n{"outcome": "done"}'


def parse(sample: str) -> Parsed:
    adapter = PROGRAMS[own_name(sample.partition("/")[0])]()
    return adapter.parse(read_events(SAMPLES / f"{sample}.stdout"), NOW)


# Sample -> the answer, and what else the program reports.
ANSWERS: dict[str, tuple[str, dict[str, Any]]] = {
    "claude/b-json": (HELLO, {"input_tokens": 11817, "output_tokens": 6, "cost_usd": 0.047388}),
    "claude/b-json-verbose": (HELLO, {"model": "claude-opus-5-5"}),
    "claude/b-json-settings-verbose-true": ("ok", {"model": "claude-opus-5-5"}),
    "claude/b-stream-json": (
        HELLO,
        {"input_tokens": 11817, "cost_usd": 0.047388, "cost_counts_up": False},
    ),
    "claude/c1-new-session": ("Noted, codeword=BANANA77.", {"cost_counts_up": False}),
    "claude/c2-resume": ("The codeword was BANANA77.", {"cost_counts_up": True}),
    "claude/cost-0": ("ok", {"cost_usd": 0.006, "cost_counts_up": False, "input_tokens": 1000}),
    "claude/cost-1": ("ok", {"cost_usd": 0.012, "cost_counts_up": True, "input_tokens": 1000}),
    "claude/cost-2": ("ok", {"cost_usd": 0.018, "cost_counts_up": True, "output_tokens": 100}),
    "claude/cost-stream-resume": ("ok", {"cost_usd": 0.006, "cost_counts_up": False}),
    "claude/old-stream-new": ("ok", {"cost_usd": 0.0045, "cost_counts_up": False}),
    "claude/old-stream-resume": ("ok", {"cost_usd": 0.0045, "cost_counts_up": False}),
    "claude/schema-ok": ('{"outcome":"a"}', {}),
    "claude/stream-tool": (DONE, {"input_tokens": 22886, "cost_usd": 0.045862}),
    "claude/stream-denied": (DONE, {"denied": ("Bash",)}),
    "claude/stream-withheld": ("done", {"denied": ("Write",)}),
    "codex/b-json-stdin": (HELLO, {"input_tokens": 10051, "output_tokens": 6}),
    "codex/c1-new-session": (
        "Noted, codeword=BANANA77.",
        {"session": "01a1e209-5a33-7750-a553-399cbdbcce23", "input_tokens": 10052},
    ),
    "codex/c2-resume": (
        "The codeword was BANANA77.",
        {
            "session": "01a1e209-5a33-7750-a553-399cbdbcce23",
            "input_tokens": 20191,
            "tokens_count_up": True,
            "cost_usd": None,
        },
    ),
    "codex/schema-ok": ('{"outcome":"a"}', {}),
    # What the sandbox stops is a command that failed, and only its words tell it apart.
    "codex/sandboxed": ("done", {"denied": (), "sandboxed": ("command_execution (sandbox)",)}),
    "codex/tool": (DONE, {"output_tokens": 9}),
    "copilot/b-json-stdin": ("ok", {"model": "fake-model", "input_tokens": None}),
    "copilot/c1-new-session": ("Noted, codeword=BANANA77.", {}),
    "copilot/c2-resume": (
        "The codeword was BANANA77.",
        {"session": "6f3ed2df-f2fe-42fc-bf1b-76b3c1d836cd"},
    ),
    "copilot/denied": ("done", {"denied": ("create",)}),
    "copilot/tool": (DONE, {"cost_usd": None}),
    "cursor/documented": (
        "I'll read the file\nIt says Project.",
        {"session": "c6b62c6f-7ead-4fd6-9922-e952131177ff", "model": "Some Model"},
    ),
    "gemini/b-json": (HELLO, {"input_tokens": 873 + 9774, "output_tokens": 13 + 6}),
    "gemini/b-stream-json": (HELLO, {"input_tokens": 10647, "output_tokens": 19, "model": "auto"}),
    "gemini/c1-new-session": ("Noted, codeword=BANANA77.", {"model": "fake-model"}),
    "gemini/c2-resume": ("The codeword was BANANA77.", {"input_tokens": 9702}),
    "gemini/tool-default-mode": ("done", {}),
    "gemini/denied": ("done", {"denied": ("write_file",)}),
    "gemini/withheld": ("done", {"denied": ("run_shell_command",)}),
    "gemini/stream-tool": (DONE, {"input_tokens": 24507, "output_tokens": 9}),
    "opencode/b-json-stdin": (
        HELLO,
        {"input_tokens": 7775, "output_tokens": 6, "cost_usd": 0.007787},
    ),
    "opencode/c1-new-session": (
        "Noted, codeword=BANANA77.",
        {"session": "ses_e1dd15a82ffeAO2kefzXDSBD2p"},
    ),
    "opencode/c2-resume": ("The codeword was BANANA77.", {"tokens_count_up": False}),
    "opencode/withheld": ("done", {"denied": ("bash",)}),
    "opencode/tool-default": (
        "done",
        {"input_tokens": 7771 + 7844, "output_tokens": 2, "cost_usd": 0.007773 + 0.007846},
    ),
    "qwen/b-json-stdin": (HELLO, {"input_tokens": 26356, "output_tokens": 13}),
    "qwen/b-stream-json": (HELLO, {"model": "fake-model", "cost_usd": None}),
    "qwen/c1-new-session": ("Noted, codeword=BANANA77.", {"input_tokens": 32921}),
    "qwen/c2-resume": (
        "The codeword was BANANA77.",
        {
            "session": "5e4052ba-e5a7-44d5-843a-872b7ee8da79",
            "input_tokens": 59353,
            "tokens_count_up": True,
        },
    ),
    "qwen/stream-new": ("ok", {"input_tokens": 1000, "output_tokens": 100}),
    "qwen/stream-resume": ("ok", {"input_tokens": 2000, "tokens_count_up": True}),
    "qwen/stream-tool": (DONE, {"input_tokens": 2000, "output_tokens": 200}),
    "qwen/denied": ("done", {"denied": ("write_file",)}),
    "qwen/tool-default": ("done", {"denied": ("run_shell_command",)}),
}

# Sample -> the kind of failure, its HTTP status, and words of its message.
FAILURES: dict[str, tuple[FailureKind, int | None, str]] = {
    "claude/d-err400": ("invalid-request", 400, "fake 400"),
    "claude/d-err403": ("auth", 403, "fake 403"),
    "claude/d-err404": ("invalid-request", 404, "selected model"),
    "claude/d-err429-retries2": ("rate-limit", 429, "fake 429"),
    "claude/d-err429-retry-after": ("rate-limit", 429, "fake 429"),
    "claude/d-err500-retries2": ("overloaded", 500, "fake 500"),
    "claude/d-err529-retries2": ("overloaded", 529, "fake 529"),
    "claude/e-sigint-waiting": ("crash", None, "ede_diagnostic"),
    "claude/max-turns-1": ("limit", None, "Reached maximum number of turns (1)"),
    "claude/budget-exceeded": ("budget", None, "Reached maximum budget ($0.0001)"),
    "claude/stream-429": ("rate-limit", 429, "slow down"),
    "claude/stream-budget": ("budget", None, "Reached maximum budget"),
    "claude/stream-connection-refused": ("network", None, "ECONNREFUSED"),
    "claude/stream-max-turns": ("limit", None, "Reached maximum number of turns"),
    "claude/stream-no-session": ("session", None, "No conversation found"),
    "claude/stream-refusal": ("refused", None, "safeguards flagged this message"),
    "codex/context-window": ("limit", None, "Your input exceeds the context window"),
    "codex/d-err400": ("invalid-request", None, "fake 400"),
    "codex/d-err401": ("auth", 401, "Unauthorized"),
    "codex/d-err403": ("auth", 403, "Forbidden"),
    "codex/d-err404": ("invalid-request", None, "fake 404"),
    "codex/d-err429": ("rate-limit", 429, "exceeded retry limit"),
    "codex/d-err500": ("overloaded", None, "high demand"),
    "codex/d-err500-noretry": ("overloaded", None, "high demand"),
    "codex/d-err529": ("overloaded", 529, "fake 529"),
    "codex/usage-limit": ("rate-limit", None, "hit your usage limit"),
    "copilot/d-err400": ("invalid-request", 400, "fake 400"),
    "copilot/d-err401": ("auth", 401, "Authentication failed"),
    "copilot/d-err403": ("auth", 403, "Authentication failed"),
    "copilot/d-err404": ("invalid-request", 404, "not found on provider"),
    "copilot/d-err429": ("rate-limit", 429, "retried 5 times"),
    "copilot/d-err500": ("overloaded", 500, "fake 500"),
    "copilot/d-err529": ("overloaded", 529, "fake 529"),
    "gemini/d-err400-stream": ("invalid-request", 400, "fake 400"),
    "gemini/stream-401": ("auth", 401, "bad key"),
    "gemini/stream-404": ("invalid-request", None, "not found"),
    "gemini/stream-empty": ("overloaded", None, "empty response"),
    "opencode/429": ("rate-limit", 429, "slow down"),
    "opencode/d-err400": ("invalid-request", 400, "fake 400"),
    "opencode/d-err401": ("auth", 401, "fake 401"),
    "opencode/d-err403": ("auth", 403, "fake 403"),
    "opencode/d-err404": ("invalid-request", 404, "fake 404"),
    "opencode/rejected": ("refused", None, "rejected permission"),
    "opencode/unknown-model": ("crash", None, "Unexpected server error"),
    "qwen/d-err400": ("invalid-request", 400, "fake 400"),
    "qwen/d-err401": ("auth", 401, "fake 401"),
    "qwen/stream-429": ("rate-limit", 429, "slow down"),
    "qwen/stream-connection-refused": ("network", None, "fetch failed"),
    "qwen/stream-empty": ("overloaded", None, "empty response"),
    "qwen/stream-no-auth-type": ("auth", None, "No auth type is selected"),
    "qwen/stream-no-key": ("auth", None, "Missing API key"),
}

# Programs that were ended before they had come to a result: sample -> the last thing they said.
CUT_OFF = {
    "claude/d-err401-stream": "waits to try again (8 of 10): authentication_failed (401)",
    "codex/e-sigint-waiting": "",
    "copilot/e-sigint-waiting": "",
    "qwen/stream-max-turns": "run_shell_command: echo hi",
}


@pytest.mark.parametrize("sample", ANSWERS)
def test_an_answer_is_heard(sample: str) -> None:
    text, more = ANSWERS[sample]
    parsed = parse(sample)
    assert (parsed.text, parsed.is_done, parsed.failure) == (text, True, None)
    for name, value in more.items():
        expected = pytest.approx(value) if isinstance(value, float) else value
        assert getattr(parsed, name) == expected, name


@pytest.mark.parametrize("sample", FAILURES)
def test_a_failure_is_heard(sample: str) -> None:
    kind, status, words = FAILURES[sample]
    parsed = parse(sample)
    assert parsed.failure is not None
    assert (parsed.failure.kind, parsed.failure.http_status) == (kind, status)
    assert words in parsed.failure.message
    assert not parsed.is_done


@pytest.mark.parametrize("sample", CUT_OFF)
def test_an_output_without_an_end_is_no_answer(sample: str) -> None:
    parsed = parse(sample)
    assert not parsed.is_done
    assert parsed.failure is None
    assert parsed.note == CUT_OFF[sample]


def test_every_sample_has_a_meaning() -> None:
    found = {path.relative_to(SAMPLES).with_suffix("").as_posix() for path in SAMPLES.glob("*/*")}
    assert found == {*ANSWERS, *FAILURES, *CUT_OFF}


@pytest.mark.parametrize("sample", [*ANSWERS, *FAILURES, *CUT_OFF])
def test_cutting_the_output_anywhere_never_makes_an_answer_of_a_failure(
    sample: str, tmp_path: Path
) -> None:
    """A full disk or a kill may leave any part of it; the parser neither fails nor invents."""
    adapter = PROGRAMS[own_name(sample.partition("/")[0])]()
    whole = (SAMPLES / f"{sample}.stdout").read_bytes()
    last_line = whole.rstrip().rfind(b"\n") + 1
    for cut in (0, 1, len(whole) // 3, len(whole) // 2, max(last_line - 1, 0), len(whole) - 3):
        path = tmp_path / "cut"
        path.write_bytes(whole[:cut])
        parsed = adapter.parse(read_events(path), NOW)
        assert not parsed.is_done or parsed.text == parse(sample).text


@pytest.mark.parametrize("sample", [*ANSWERS, *FAILURES])
def test_the_session_is_seen_in_the_output(sample: str) -> None:
    agent = ProgramAgent(PROGRAMS[own_name(sample.partition("/")[0])]())
    output = (SAMPLES / f"{sample}.stdout").read_bytes()
    seen = agent.session_in(output)
    assert seen == parse(sample).session
    assert seen


@pytest.mark.parametrize(
    "name", ["claude/b-stream-json", "codex/tool", "gemini/stream-tool", "qwen/stream-tool"]
)
def test_the_session_is_seen_before_the_end(name: str) -> None:
    agent = ProgramAgent(PROGRAMS[own_name(name.partition("/")[0])]())
    output = (SAMPLES / f"{name}.stdout").read_bytes()
    first_line = output[: output.index(b"\n") + 1]
    assert agent.session_in(first_line) == parse(name).session
    assert agent.session_in(first_line[:-20]) is None


LAST_WORDS = {
    "claude/stream-tool": [DONE.replace("\n", " "), "Bash: git status", "I look first."],
    "claude/d-err401-stream": ["waits to try again (8 of 10): authentication_failed (401)"],
    "codex/tool": [DONE.replace("\n", " "), "shell: "],
    "copilot/tool": [DONE.replace("\n", " "), "bash: echo hi"],
    "gemini/stream-tool": [DONE.replace("\n", " "), "run_shell_command: echo hi"],
    "opencode/tool-default": ["done", "bash: touch made; echo rc=$?", "running"],
    "cursor/documented": ["I'll read the file It says", "read: README.md", "I'll read the file"],
    "qwen/stream-tool": [DONE.replace("\n", " "), "run_shell_command: echo hi", "I look first."],
    "qwen/stream-empty": ["[API Error: Model stream ended", "tries again"],
}


@pytest.mark.parametrize("sample", LAST_WORDS)
def test_last_words_are_those_of_the_newest_event(sample: str) -> None:
    adapter = PROGRAMS[own_name(sample.partition("/")[0])]()
    lines = (SAMPLES / f"{sample}.stdout").read_bytes().splitlines(keepends=True)
    said: list[str] = []
    for end in range(len(lines), 0, -1):
        # A tail begins anywhere; what is left of a line is no event.
        transcript = EventTranscript(adapter.pieces_of)
        transcript.feed(b"".join(lines[:end])[5:])
        words = transcript.doing.words
        if words and words not in said:
            said.append(words)
    for expected in LAST_WORDS[sample]:
        assert any(words.startswith(expected) for words in said), said
    assert said[0].startswith(LAST_WORDS[sample][0])


def test_two_results_in_one_stream_are_summed_up() -> None:
    """A background task of Claude Code gives a second result, with its own part of the bill."""
    events = list(read_events(SAMPLES / "claude" / "cost-stream-resume.stdout"))
    adapter = PROGRAMS["claude-code"]()
    parsed = adapter.parse([*events, events[-1]], NOW)
    assert parsed.cost_usd == pytest.approx(0.012)
    assert parsed.input_tokens == 2000
    assert replace(parsed, cost_usd=0.006, input_tokens=1000, output_tokens=100) == adapter.parse(
        events, NOW
    )


def _parsed_of(program: str, sample: str, told: str, instead: str) -> Parsed:
    """What is read of a sample in which a figure is another one."""
    text = (SAMPLES / f"{sample}.stdout").read_text("utf-8")
    assert told in text
    lines = text.replace(told, instead).splitlines()
    return PROGRAMS[program]().parse([json.loads(line) for line in lines], NOW)


def test_thoughts_count_as_what_is_written() -> None:
    """Both programs tell them apart from the output; they are paid for as that."""
    opencode = _parsed_of("opencode", "opencode/tool-default", '"reasoning":0', '"reasoning":4000')
    assert opencode.output_tokens == 2 + 2 * 4000
    gemini = _parsed_of(
        "gemini", "gemini/stream-tool", '"total_tokens":24516', '"total_tokens":29516'
    )
    assert (gemini.input_tokens, gemini.output_tokens) == (24507, 9 + 5000)


# What each message takes, as told while the program works, is in sum what it reports at its end.
TOLD_BY_MESSAGE = ("claude/stream-tool", "opencode/tool-default", "qwen/stream-tool")


@pytest.mark.parametrize("sample", TOLD_BY_MESSAGE)
def test_what_messages_take_is_what_the_turn_takes(sample: str) -> None:
    program = own_name(sample.partition("/")[0])
    output = (SAMPLES / f"{sample}.stdout").read_bytes()
    told = {used.message: used for used in make_agent(program).used_in(output)}.values()
    parsed = parse(sample)
    assert sum(used.read + used.cached for used in told) == parsed.input_tokens
    if program == "opencode":
        assert sum(used.cost_usd or 0 for used in told) == parsed.cost_usd
    if program != "claude-code":  # whose events of a message do not tell its last words
        assert sum(used.written for used in told) == parsed.output_tokens


def test_qwen_reads_again_a_part_of_what_it_reads() -> None:
    used = {"input_tokens": 1000, "cache_read_input_tokens": 900, "output_tokens": 5}
    event = {"type": "assistant", "message": {"id": "m1", "model": "q", "usage": used}}
    (told,) = make_agent("qwen").used_in(json.dumps(event).encode() + b"\n")
    assert told == Used("m1", "q", 100, 900, 5)


def test_the_order_of_keys_does_not_matter() -> None:
    for sample in ANSWERS:
        adapter = PROGRAMS[own_name(sample.partition("/")[0])]()
        events = list(read_events(SAMPLES / f"{sample}.stdout"))
        turned = [dict(reversed(event.items())) for event in events]
        assert adapter.parse(turned, NOW) == adapter.parse(events, NOW)


def test_the_shape_of_the_specification_is_understood(tmp_path: Path) -> None:
    """A §17.2: an array with nothing but a result in it."""
    path = tmp_path / "stdout"
    path.write_text(
        '[{"type": "result", "session_id": "550e8400-e29b-41d4-a716-446655440000",'
        ' "is_error": false, "result": "I reviewed it.\\n\\n{\\"outcome\\": \\"no-issues\\"}",'
        ' "usage": {"input_tokens": 5200, "output_tokens": 1800}, "total_cost_usd": 0.042}]'
    )
    parsed = PROGRAMS["claude-code"]().parse(read_events(path), NOW)
    assert parsed.is_done
    assert parsed.text.endswith('{"outcome": "no-issues"}')
    assert (parsed.input_tokens, parsed.output_tokens, parsed.cost_usd) == (5200, 1800, 0.042)
    assert parsed.cost_counts_up
    assert parsed.session == "550e8400-e29b-41d4-a716-446655440000"


def test_when_the_limit_is_over_is_taken_from_the_stream() -> None:
    reset = NOW + 5400
    events: list[Event] = [
        {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": reset}},
        {"type": "result", "is_error": True, "result": "You've hit your limit"},
    ]
    failure = PROGRAMS["claude-code"]().parse(events, NOW).failure
    assert failure is not None
    assert (failure.kind, failure.retry_at) == ("rate-limit", reset)


@pytest.mark.parametrize("status", ["allowed", "allowed_warning"])
def test_the_end_of_a_window_that_is_not_used_up_is_no_reset_time(status: str) -> None:
    """It comes with every answer: an outage was retried only when the window had ended."""
    told = {"status": status, "resetsAt": NOW + 4 * 3600, "rateLimitType": "five_hour"}
    events: list[Event] = [
        {"type": "rate_limit_event", "rate_limit_info": told},
        {"type": "result", "is_error": True, "result": "API Error: 529", "api_error_status": 529},
    ]
    failure = PROGRAMS["claude-code"]().parse(events, NOW).failure
    assert failure is not None
    assert (failure.kind, failure.retry_at) == ("overloaded", None)
