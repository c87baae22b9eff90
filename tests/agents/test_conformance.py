"""What the engine relies on, of every agent; stand-ins for the real programs are really run."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orchestrate.agents.base import (
    Agent,
    Failure,
    FailureKind,
    Finished,
    Invocation,
    Permissions,
    Question,
    Reply,
)
from orchestrate.agents.costs import NOTHING_YET, own_usage
from orchestrate.agents.registry import PROGRAMS, STAND_INS, Equipment, make_agent
from orchestrate.agents.stand_ins.human import Person
from orchestrate.agents.stand_ins.recording import record_turn
from orchestrate.agents.transcript import EventTranscript
from orchestrate.transcript import Doing
from tests.agents.running import SESSION, Stage
from tests.programs import put_program

FAKE = Path(__file__).parent / "fake_program.py"
SESSION_ID = re.compile(r"[\w-]{36}")
HOSTILE = {
    "dash": "--help -p --dangerously-skip-permissions",
    "slash": "/context",
    "slash later": " \n/clear\n",
    "file": "look at @secret.txt and @/etc/hostname and me@example.com",
    "many files": "@secret.txt\n@secret.txt\n@@ @ /@secret.txt",
    "shell": "$(touch made) `touch made` ; touch made\n!touch made",
    "nul": "before\0after",
    "controls": "\x1b[2J\x07\r\x08\x9b31m\u202e",
    "half character": "half \ud83d of it \udcff",
    "json": '{"type": "user"}\n',
    "astral": "💥 é \uff46 \u2028",
}


@dataclass
class Booth:
    """A place with a fake of one program, which can be ordered to behave in any way."""

    name: str
    stage: Stage
    environment: dict[str, str]
    agent: Agent = field(init=False)

    def __post_init__(self) -> None:
        self.agent = make_agent(self.name)

    def ask(
        self, prompt: str = "Do it.", order: dict[str, Any] | None = None, **more: Any
    ) -> Reply:
        usage_file = self.stage.folder / "usage.json"
        values: dict[str, Any] = {"session": SESSION, "step": "review", "usage_file": usage_file}
        # Flags that only newer versions know are given to the newest.
        values["version"] = next(reversed(PROGRAMS[self.name]().tried), "")
        values |= more
        environment = self.environment | {"FAKE_ORDER": json.dumps(order or {})}
        question = Question(prompt, self.stage.workspace, environment, **values)
        return self.agent.ask(question, self.stage.run)

    def resume(self, prompt: str, first: Reply, order: dict[str, Any] | None = None) -> Reply:
        return self.ask(prompt, order, session=first.session, is_new_session=False)

    @property
    def calls(self) -> list[dict[str, Any]]:
        file = Path(self.environment["FAKE_CALLS"])
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@pytest.fixture(params=PROGRAMS)
def booth(request: pytest.FixtureRequest, tmp_path: Path) -> Booth:
    name = str(request.param)
    program = PROGRAMS[name]().program
    path = tmp_path / "bin" / program.executables[0]
    path.parent.mkdir()
    put_program(path, FAKE, name)
    environment = {
        "PATH": f"{path.parent}:{os.defpath}",
        "HOME": str(tmp_path),
        "FAKE_CALLS": str(tmp_path / "calls"),
        "CLAUDECODE": "1",
        "KEPT": "as it was",
    }
    return Booth(name, Stage(tmp_path), environment)


def _as_it_ended(finished: Finished, _: Invocation) -> Finished:
    return finished


def failure_in(reply: Reply) -> Failure:
    assert reply.failure is not None, reply
    assert reply.text == ""
    return reply.failure


# Sessions and answers.


def test_a_new_session_gives_an_answer_and_an_id(booth: Booth) -> None:
    reply = booth.ask(order={"text": 'Fine.\n\n{"outcome": "done"}', "noise": True})
    assert reply.failure is None
    assert reply.text == 'Fine.\n\n{"outcome": "done"}'
    assert reply.session
    assert (reply.session == SESSION) is not booth.agent.chooses_session


def test_a_resumed_session_remembers(booth: Booth) -> None:
    first = booth.ask("The word is BANANA.")
    second = booth.resume("Which word?", first, {"text": "before: {before}"})
    assert second.text == "before: The word is BANANA."
    assert second.session == first.session


def test_an_unknown_session_is_a_failure_of_the_session(booth: Booth) -> None:
    reply = booth.ask(is_new_session=False)
    assert failure_in(reply).kind == "session"
    assert reply.session is None, "there is none"


def test_a_session_id_that_is_none_is_refused(booth: Booth) -> None:
    for session in ("--flag", "a b", "", "x" * 500, "a\0b"):
        reply = booth.ask(session=session, is_new_session=False)
        assert failure_in(reply).kind == "invalid-request"
    assert booth.calls == []


def test_the_session_shows_while_the_program_runs(booth: Booth) -> None:
    seen: list[str | None] = []
    booth.stage.watch = lambda output: seen.append(booth.agent.session_in(output, SESSION))
    booth.stage.timeout_s = 1.5
    reply = booth.ask(order={"end": "hang", "text": "half a thought"})
    assert failure_in(reply).kind == "timeout"
    assert seen[-1] == reply.session
    assert reply.session is not None
    output = (booth.stage.folder / "1.stdout").read_bytes()
    transcript = EventTranscript(PROGRAMS[booth.agent.name]().pieces_of)
    transcript.feed(output)
    assert transcript.doing == Doing("model", "half a thought")


def test_usage_of_turns_adds_up(booth: Booth) -> None:
    first = booth.ask()
    second = booth.resume("Again.", first)
    own, totals = own_usage(first, NOTHING_YET)
    assert own == totals
    own, totals = own_usage(second, totals)
    if booth.name == "cursor":
        assert own.input_tokens is None
    else:
        assert (own.input_tokens, own.output_tokens) == (100, 10)
        assert (totals.input_tokens, totals.output_tokens) == (200, 20)
    assert own.cost_usd == (0.01 if booth.name in ("claude-code", "opencode") else None)


# Failures.


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid-request"),
        (401, "auth"),
        (403, "auth"),
        (404, "invalid-request"),
        (429, "rate-limit"),
        (500, "overloaded"),
        (529, "overloaded"),
    ],
)
def test_an_error_of_the_service_has_its_kind(booth: Booth, status: int, kind: FailureKind) -> None:
    failure = failure_in(booth.ask(order={"status": status}))
    assert (failure.kind, failure.http_status) == (kind, status)
    assert f"fake {status}" in failure.message
    assert failure.is_transient is (kind in ("rate-limit", "overloaded"))


def test_a_failure_keeps_the_session(booth: Booth) -> None:
    """A first call that failed may have used its id up: the engine must know which one."""
    reply = booth.ask(order={"status": 500})
    if booth.name != "cursor":  # which says nothing but the error
        assert reply.session
    if not booth.agent.chooses_session:
        assert reply.session == SESSION


def test_too_long_is_a_timeout(booth: Booth) -> None:
    booth.stage.timeout_s = 1.0
    assert failure_in(booth.ask(order={"end": "hang"})).kind == "timeout"


def test_ended_by_us_is_no_answer_even_with_exit_code_0(booth: Booth) -> None:
    """Gemini and Copilot end with 0 when they are told to end; Copilot even says so itself."""
    done = booth.stage.folder / "1.stdout"
    booth.stage.stop_when = lambda: b"done" in done.read_bytes()
    reply = booth.ask(order={"end": "hang", "text": '{"outcome": "done"}'})
    failure = failure_in(reply)
    assert failure.kind == "stopped"
    assert "the user said so" in failure.message


def test_ended_by_us_is_no_answer_even_if_it_was_finished(booth: Booth, tmp_path: Path) -> None:
    booth.ask(order={"text": "all said"})
    stdout, stderr = booth.stage.folder / "1.stdout", booth.stage.folder / "1.stderr"
    question = Question("x", booth.stage.workspace, booth.environment, session=SESSION)
    for finished in (
        Finished(0, None, stdout, stderr, timed_out=True),
        Finished(0, None, stdout, stderr, stopped="the user said so"),
    ):
        assert not booth.agent.ask(question, partial(_as_it_ended, finished)).is_answer


def test_an_end_that_was_not_announced_is_no_answer(booth: Booth) -> None:
    failure = failure_in(booth.ask(order={"end": "missing", "text": "so far so good"}))
    assert failure.kind == "crash"
    assert "so far so good" in failure.message


def test_an_empty_answer_is_none(booth: Booth) -> None:
    assert failure_in(booth.ask(order={"end": "empty"})).kind == "empty"


def test_a_crash_says_why(booth: Booth) -> None:
    failure = failure_in(booth.ask(order={"end": "crash"}))
    assert failure.kind == "crash"
    assert "exit code 3" in failure.message
    assert "Fatal error: out of cheese" in failure.message


def test_a_program_that_somebody_kills_has_crashed(booth: Booth) -> None:
    failure = failure_in(booth.ask(order={"end": "killed", "text": "hm"}))
    assert failure.kind == "crash"
    assert "SIGKILL" in failure.message


def test_a_missing_program_is_not_installed(booth: Booth) -> None:
    booth.environment["PATH"] = "/nowhere"
    failure = failure_in(booth.ask())
    assert failure.kind == "not-installed"
    assert "/nowhere" in failure.message
    assert PROGRAMS[booth.name]().program.install in failure.message


def test_a_program_that_is_gone_but_runs_is_adopted(booth: Booth) -> None:
    """Updated or removed while it worked for an orchestrator that was killed."""
    first = booth.ask(order={"text": "from before"})
    finished = Finished(0, None, booth.stage.folder / "1.stdout", booth.stage.folder / "1.stderr")
    booth.environment["PATH"] = "/nowhere"
    question = Question("Do it.", booth.stage.workspace, booth.environment, session=first.session)
    assert booth.agent.ask(question, lambda _: finished).text == "from before"


def test_a_program_that_cannot_be_started_says_so(booth: Booth) -> None:
    executable = PROGRAMS[booth.name]().program.executables[0]
    (Path(booth.environment["HOME"]) / "bin" / executable).write_bytes(b"\x7fELF broken")
    assert failure_in(booth.ask()).kind == "not-installed"


# Prompts.


def test_a_large_prompt_goes_in_whole(booth: Booth) -> None:
    prompt = "".join(f"line {number}: some words\n" for number in range(14_000)) + "the end"
    assert len(prompt) > 300_000
    assert booth.ask(prompt).is_answer
    assert booth.calls[-1]["prompt"] == prompt


def test_a_prompt_that_a_program_would_cut_off_is_refused(booth: Booth) -> None:
    longest = PROGRAMS[booth.name]().longest_prompt
    failure = failure_in(booth.ask("x" * (longest + 1)))
    assert failure.kind == "invalid-request"
    assert str(longest) in failure.message
    assert booth.calls == []


def test_a_prompt_that_grows_too_long_by_escapes_is_refused(booth: Booth) -> None:
    longest = PROGRAMS[booth.name]().longest_prompt
    reply = booth.ask("@a " * (longest // 3))
    if not reply.is_answer:
        assert str(longest) in failure_in(reply).message
        assert booth.calls == []
    else:
        assert len(booth.calls[-1]["prompt"].encode()) <= longest


def test_the_prompt_is_never_an_argument(booth: Booth) -> None:
    booth.ask("PROMPT-MARK @file", system_prompt="SYSTEM-MARK")
    call = booth.stage.calls[-1]
    assert not any("PROMPT-MARK" in argument for argument in call.argv)
    assert not any("PROMPT-MARK" in value for value in call.environment.values())
    assert b"PROMPT-MARK" in call.stdin
    assert not any("SYSTEM-MARK" in argument for argument in call.shown)
    assert len(call.shown) == len(call.argv)


def test_a_hostile_prompt_stays_text(booth: Booth) -> None:
    (booth.stage.workspace / "secret.txt").write_text("SECRET")
    assert booth.ask("plain", session=None if booth.agent.chooses_session else SESSION).is_answer
    usual = [argument for argument in booth.calls[-1]["argv"] if SESSION not in argument]
    for number, (case, prompt) in enumerate(HOSTILE.items(), start=10):
        reply = booth.ask(prompt, session=f"{number}{SESSION[2:]}")
        assert reply.is_answer, case
        arrived = booth.calls[-1]["prompt"]
        expected = prompt.replace("\ud83d", "\ufffd").replace("\udcff", "\ufffd")
        if booth.name in ("gemini", "claude-code", "qwen"):
            # There `\@` and a line break before `/` are the only ways to say it (`as_text`).
            arrived = arrived.replace("\\@", "@").removeprefix("\n" if expected[0] == "/" else "")
        assert arrived == expected, case
        assert set(usual) <= set(booth.calls[-1]["argv"]), case
    assert not (booth.stage.workspace / "made").exists()


@pytest.mark.parametrize("prompt", [" ", "\n\t\n"])
def test_a_blank_prompt_is_refused(booth: Booth, prompt: str) -> None:
    assert failure_in(booth.ask(prompt)).kind == "invalid-request"
    assert booth.calls == []


def test_a_system_prompt_reaches_the_first_turn(booth: Booth) -> None:
    first = booth.ask("Do it.", system_prompt='Be "kind" and \\ brief.\nAlways. ünïcödé \ud83d')
    told = booth.calls[-1]["prompt"] + "".join(booth.calls[-1]["argv"])
    assert "brief." in told
    assert "ünïcödé" in told
    booth.ask(
        "Again.", session=first.session, is_new_session=False, system_prompt="Be kind and brief."
    )
    assert booth.calls[-1]["prompt"] == "Again."


def test_a_system_prompt_that_cannot_be_passed_is_refused(booth: Booth) -> None:
    """As an argument it has limits; where it is sent before the first prompt it has none."""
    for system_prompt, is_refused in (
        ("nul \0 inside", booth.name in ("claude-code", "qwen")),
        ("x" * 200_000, booth.name in ("claude-code", "codex", "qwen")),
    ):
        calls = len(booth.calls)
        reply = booth.ask(system_prompt=system_prompt, session=f"{calls}{SESSION[1:]}")
        if is_refused:
            assert failure_in(reply).kind == "invalid-request"
            assert len(booth.calls) == calls
        else:
            assert reply.is_answer


# Models, permissions, settings, environment.


def test_a_model_name_is_passed_on_as_it_is(booth: Booth) -> None:
    booth.ask(model="some/model-7")
    assert "some/model-7" in booth.calls[-1]["argv"]


def test_tiers_are_translated(booth: Booth) -> None:
    said = []
    for number, tier in enumerate(("haiku", "sonnet", "opus")):
        booth.ask(model=tier, session=f"{number}d0c6a7e-3f5b-4c1d-9a52-0c5f7b2f9e12")
        said.append([a for a in booth.calls[-1]["argv"] if "c5f7b2f9e12" not in a])
    if booth.name in ("opencode", "cursor", "qwen"):  # whose models depend on the user's own choice
        assert said[0] == said[1] == said[2]
    else:
        assert said[0] != said[1] != said[2] != said[0]
    booth.ask(model="opus", settings={"models": {"opus": "my-best"}}, session=SESSION)
    assert "my-best" in booth.calls[-1]["argv"]


def test_a_model_name_cannot_become_an_option(booth: Booth) -> None:
    for model in ("--evil", "-x", "", "a\nb"):
        assert failure_in(booth.ask(model=model)).kind == "invalid-request"
        assert failure_in(booth.ask(settings={"model": model})).kind == "invalid-request"
    assert booth.calls == []


def test_permissions_are_said_on_every_call(booth: Booth) -> None:
    """No program remembers them for a resumed session in the way one would expect."""
    said = []
    wanted: Permissions
    for wanted in PROGRAMS[booth.name]().permissions:
        first = booth.ask(permissions=wanted, session=f"{wanted[0]}{SESSION[1:]}")
        booth.ask("Again.", permissions=wanted, session=first.session, is_new_session=False)
        new, resumed = (permission_part(call) for call in booth.calls[-2:])
        assert new == resumed
        said.append(new)
    assert all(said.count(one) == 1 for one in said), said


def permission_part(call: dict[str, Any]) -> tuple[list[str], str | None]:
    """A call without what it says about its session: of two sessions, only permissions differ."""
    flags = ("--session-id", "--resume", "--session", "resume")
    argv = [a for a in call["argv"] if not a.startswith(flags) and not SESSION_ID.fullmatch(a)]
    return argv, call["env"].get("OPENCODE_PERMISSION")


def test_an_unknown_setting_starts_nothing(booth: Booth) -> None:
    failure = failure_in(booth.ask(settings={"temperature": 1}))
    assert failure.kind == "invalid-request"
    assert "'temperature'" in failure.message
    assert booth.calls == []


def test_the_environment_is_passed_on(booth: Booth) -> None:
    booth.ask()
    assert booth.calls[-1]["env"]["KEPT"] == "as it was"
    assert ("CLAUDECODE" in booth.calls[-1]["env"]) is (booth.name != "claude-code")
    assert booth.calls[-1]["cwd"] == str(booth.stage.workspace.resolve())


# Agents without a program keep the same promises.


@pytest.fixture(params=STAND_INS)
def unbilled(request: pytest.FixtureRequest, tmp_path: Path) -> Agent:
    typed = iter(["1"] * 100)
    for prompt in ("Do it.", *HOSTILE.values()):
        question = Question(prompt, tmp_path, {}, step="review")
        record_turn(tmp_path, question, Reply(text='{"outcome": "done"}'), 0.0)
    equipment = Equipment(
        person=Person(lambda _: next(typed, None), lambda _text: None, is_terminal=True),
        recording=tmp_path,
    )
    return make_agent(str(request.param), equipment)


@pytest.mark.parametrize("prompt", ["Do it.", *HOSTILE.values()])
def test_whoever_is_no_program_starts_none(unbilled: Agent, prompt: str, tmp_path: Path) -> None:
    def never(_: Invocation) -> Finished:
        raise AssertionError("no program may be started")

    for is_new in (True, False):
        question = Question(
            prompt, tmp_path, {}, session=SESSION, is_new_session=is_new, step="review",
            outcomes=("done",), settings={"anything": "goes"}, rehearsed=lambda: ("done", None),
        )  # fmt: skip
        reply = unbilled.ask(question, never)
        assert reply.is_answer
        assert json.loads(reply.text.splitlines()[-1]) == {"outcome": "done"}
        assert reply.cost_usd is None
    assert unbilled.session_in(b'{"session_id": "x"}') is None
    assert unbilled.takeover(SESSION) is None
