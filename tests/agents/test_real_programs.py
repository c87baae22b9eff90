"""The real programs do what the adapters think they do, against a model server on this machine.

They are installed with npm into a cache (`installing.py`). Where that is impossible the tests of
`make soak` are skipped, and the reason is shown; `make test-agents` fails.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrate.agents.base import Permissions, Question, Reply
from orchestrate.agents.finding import version_in
from orchestrate.agents.qwen import DEFAULTS as QWEN_DEFAULTS
from orchestrate.agents.registry import PROGRAMS, make_agent, program_version
from orchestrate.agents.transcript import EventTranscript
from tests.agents.fakemodel import Answer, FakeModel, Request
from tests.agents.installing import OLD_CLAUDE, PACKAGES, CannotInstall, check_start, install
from tests.agents.running import Stage

pytestmark = pytest.mark.agents

# A program starts in a few seconds, but the machine may be busy.
PATIENCE_S = 150.0
MODELS = {"claude-code": "opus", "opencode": "fake/fake-model"}
# How each program writes a file: the tool, and its arguments for a path.
WRITING: dict[str, Callable[[str], tuple[str, dict[str, Any]]]] = {
    "claude-code": lambda path: ("Write", {"file_path": path, "content": "x"}),
    "codex": lambda path: ("exec_command", {"cmd": f"touch {path}"}),
    "gemini": lambda path: ("write_file", {"file_path": path, "content": "x"}),
    "github-copilot": lambda path: ("create", {"path": path, "file_text": "x"}),
    "opencode": lambda path: ("write", {"filePath": path, "content": "x"}),
    "qwen": lambda path: ("write_file", {"file_path": path, "content": "x"}),
}


@dataclass
class Program:
    """A real program, pointed at a fake model, in a home of its own."""

    name: str
    model: FakeModel
    environment: dict[str, str]
    stage: Stage
    version: str = ""

    def ask(self, prompt: str, **more: Any) -> Reply:
        values: dict[str, Any] = {
            "session": str(uuid.uuid4()),
            "version": self.version,
            "model": MODELS.get(self.name, "fake-model"),
            "usage_file": self.stage.folder / f"{len(self.stage.calls)}.usage.json",
            **more,
        }
        question = Question(prompt, self.stage.workspace, self.environment, **values)
        return make_agent(self.name).ask(question, self.stage.run)


def prepare_home(home: Path, url: str) -> dict[str, str]:
    """The environment and the files with which every program finds the fake model."""
    (home / ".codex").mkdir()
    (home / ".codex" / "config.toml").write_text(
        'model = "fake-model"\nmodel_provider = "fake"\n[features]\nplugins = false\n'
        f'[model_providers.fake]\nname = "fake"\nbase_url = "{url}/v1"\n'
        'env_key = "FAKE_KEY"\nwire_api = "responses"\nrequest_max_retries = 0\n'
        "stream_max_retries = 0\n"
    )
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text(
        json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}})
    )
    (home / ".qwen").mkdir()
    service = {"selectedType": "openai", "apiKey": "not-a-real-key", "baseUrl": f"{url}/v1"}
    (home / ".qwen" / "settings.json").write_text(json.dumps({"security": {"auth": service}}))
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "not-a-real-key"},
        "models": {"fake-model": {"name": "fake", "cost": {"input": 1, "output": 2}}},
    }
    opencode = home / ".config" / "opencode" / "opencode.json"
    opencode.parent.mkdir(parents=True)
    opencode.write_text(
        json.dumps({"provider": {"fake": provider}, "small_model": "fake/fake-model"})
    )
    return {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "not-a-real-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "FAKE_KEY": "not-a-real-key",
        "CODEX_HOME": str(home / ".codex"),
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "not-a-real-key",
        "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
        "COPILOT_PROVIDER_API_KEY": "not-a-real-key",
        "COPILOT_MODEL": "fake-model",
        "COPILOT_OFFLINE": "true",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    }


@pytest.fixture(scope="session")
def installed() -> Path:
    """The folder of the programs; installing takes about half a minute, once."""
    try:
        return install()
    except CannotInstall as reason:
        pytest.skip(f"the real agent programs are not here: {reason}")


@pytest.fixture(scope="session")
def model() -> Iterator[FakeModel]:
    with FakeModel() as model:
        yield model


@pytest.fixture(scope="session")
def surroundings(
    tmp_path_factory: pytest.TempPathFactory, model: FakeModel, installed: Path
) -> dict[str, str]:
    """One home for all: a program's first start in a new one is slow."""
    environment = prepare_home(tmp_path_factory.mktemp("home"), model.url)
    return environment | {"PATH": f"{installed}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture(params=PACKAGES)
def program(
    request: pytest.FixtureRequest,
    model: FakeModel,
    surroundings: dict[str, str],
    installed: Path,
    tmp_path: Path,
) -> Program:
    name = str(request.param)
    model.reset()
    version = PACKAGES[name].rpartition("@")[2]
    return Program(name, model, surroundings, Stage(tmp_path, PATIENCE_S), version)


def test_the_pinned_version_runs(program: Program, installed: Path) -> None:
    path = installed / PROGRAMS[program.name]().program.executables[0]
    assert program_version(program.name, path) == (str(path), "--version")
    try:
        printed = check_start(path, program.environment)
    except CannotInstall as reason:
        pytest.fail(str(reason))
    assert version_in(printed) == PACKAGES[program.name].rpartition("@")[2]


def test_a_session_is_begun_and_resumed(program: Program) -> None:
    first = program.ask("codeword=BANANA77 Remember it.")
    assert first.failure is None
    assert first.text == "ok"
    assert first.session

    def recall(request: Request) -> Answer:
        found = re.search(r"codeword=(\w+)", request.history)
        return Answer(f"It was {found[1] if found else 'never said'}.\n" + '{"outcome": "done"}')

    program.model.reset(recall)
    second = program.ask("Which word?", session=first.session, is_new_session=False)
    assert second.text == 'It was BANANA77.\n{"outcome": "done"}'
    assert second.session == first.session
    check_usage(program.name, first, second)


def check_usage(name: str, first: Reply, second: Reply) -> None:
    """The model reports 1000 and 100 tokens for each request."""
    read = (first.input_tokens, second.input_tokens)
    match name:
        case "codex" | "github-copilot" | "qwen":
            assert read == (1000, 2000)
            assert second.tokens_count_up
        case _:
            assert read == (1000, 1000)
            assert not second.tokens_count_up
    if name in ("claude-code", "opencode"):
        assert first.cost_usd
        assert second.cost_usd == pytest.approx(first.cost_usd)
    else:
        assert second.cost_usd is None


def test_an_error_of_the_service(program: Program) -> None:
    program.model.reset(lambda _: Answer(status=400, message="fake refusal"))
    reply = program.ask("x")
    assert reply.failure is not None
    assert reply.failure.kind == "invalid-request"
    assert "fake refusal" in reply.failure.message


def test_a_program_that_hangs_is_ended(program: Program) -> None:
    """As soon as it has asked the model, its time is over."""
    program.model.reset(lambda _: Answer(hang=True))
    program.stage.expire_when = lambda: bool(program.model.requests)
    reply = program.ask("x")
    assert len(program.model.requests) >= 1
    assert reply.failure is not None
    assert reply.failure.kind == "timeout"


def test_a_large_prompt_arrives_as_text(program: Program) -> None:
    """300 KB, and in it all that programs would read more into than text."""
    (program.stage.workspace / "secret.txt").write_text("SECRETWORD42")
    lines = "".join(f"{number}: words and more words\n" for number in range(12_000))
    prompt = f"/context --help\n@secret.txt and @./secret.txt\n{lines}-x \x1b[31m\x07 @secret.txt"
    assert len(prompt) > 300_000
    reply = program.ask(prompt)
    assert reply.text == "ok"
    (request,) = program.model.requests
    arrived = request.last_prompt
    if program.name in ("gemini", "qwen"):
        assert arrived.count("\\@") == 3
        arrived = arrived.replace("\\@", "@")
    assert prompt in arrived
    assert "SECRETWORD42" not in request.everything


def test_qwen_code_asks_only_what_it_is_told_to(
    model: FakeModel, surroundings: dict[str, str], tmp_path: Path
) -> None:
    """By itself it sends a second request, for its memory; and it rewrites old settings files."""
    program = Program("qwen", model, surroundings, Stage(tmp_path, PATIENCE_S))
    before = QWEN_DEFAULTS.read_bytes()
    model.reset()
    assert program.ask("one @\n\n  @ two").text == "ok"
    (request,) = model.requests
    assert "one \\@\n\n  \\@ two" in request.last_prompt
    assert QWEN_DEFAULTS.read_bytes() == before


# The rest takes longer.


@pytest.mark.soak
def test_an_unknown_session(program: Program) -> None:
    session = "ses_e1dd1bfe0fferCrPR4kVGpX28W" if program.name == "opencode" else str(uuid.uuid4())
    reply = program.ask("x", session=session, is_new_session=False)
    assert reply.failure is not None
    assert reply.failure.kind == "session"
    assert program.model.requests == []


@pytest.mark.soak
@pytest.mark.parametrize(("status", "kind"), [(401, "auth"), (404, "invalid-request")])
def test_other_errors_of_the_service(program: Program, status: int, kind: str) -> None:
    program.model.reset(lambda _: Answer(status=status))
    reply = program.ask("x")
    assert reply.failure is not None
    assert reply.failure.kind == kind


@pytest.mark.soak
@pytest.mark.parametrize(
    ("permissions", "may_write"), [("bypass", True), ("edit", True), ("read-only", False)]
)
def test_permissions_hold(program: Program, permissions: Permissions, may_write: bool) -> None:
    made = program.stage.workspace / "made"
    tool = WRITING[program.name](str(made))

    def write_once(_: Request) -> Answer:
        is_first = len(program.model.requests) == 1
        return Answer("writing", tool=tool) if is_first else Answer("done")

    program.model.reset(write_once)
    reply = program.ask("x", permissions=permissions)
    if program.name == "codex" and permissions == "edit" and not made.exists():
        # Its sandbox needs privileges that not every machine gives; then it writes nothing at all.
        assert "sandbox" in program.model.requests[-1].everything.lower()
    else:
        assert made.exists() is may_write
    assert reply.text == "done"


def test_console_01_a_turn_is_readable(program: Program) -> None:
    """What each program prints for us, as it is asked for, makes a transcript."""
    tool = WRITING[program.name](str(program.stage.workspace / "made"))

    def write_once(_: Request) -> Answer:
        is_first = len(program.model.requests) == 1
        return Answer("writing", tool=tool) if is_first else Answer("done")

    program.model.reset(write_once)
    partial = program.name in ("claude-code", "qwen")
    more = {"agent_args": ["--include-partial-messages"]} if partial else {}
    assert program.ask("x", settings=more).text == "done"
    transcript = EventTranscript(PROGRAMS[program.name]().pieces_of)
    output = (program.stage.folder / "1.stdout").read_bytes()
    news = [p for line in output.splitlines(keepends=True) for p in transcript.feed(line)]
    found = {p.number: p for p in (*news, *transcript.finish())}
    told = [(p.kind, p.text) for p in found.values() if p.kind != "note"]
    does = "runs" if program.name == "codex" else "wrote"
    assert [kind for kind, _ in told if kind != "result"] == ["said", does, "said"]
    assert any("made" in text for kind, text in told if kind == does)
    assert [text for kind, text in told if kind == "said"] == ["writing", "done"]
    is_streamed = partial or program.name in ("gemini", "github-copilot")
    assert any(p.is_open for p in news) is is_streamed


@pytest.mark.soak
def test_a_system_prompt_arrives(program: Program) -> None:
    program.ask("x", system_prompt='Speak "Latin" only.\nSYSTEMMARK ünïcödé')
    (request,) = program.model.requests
    assert 'Speak "Latin" only.' in request.everything
    assert "SYSTEMMARK ünïcödé" in request.everything


@pytest.mark.soak
@pytest.mark.parametrize("name", ["claude-code", "github-copilot", "opencode"])
def test_tools_can_be_limited(
    name: str, model: FakeModel, surroundings: dict[str, str], tmp_path: Path
) -> None:
    program = Program(name, model, surroundings, Stage(tmp_path, PATIENCE_S))
    tools = {"claude-code": ["Read", "Bash"], "github-copilot": ["view", "bash"]}
    wanted = tools.get(name, ["read", "bash"])
    model.reset()
    assert program.ask("x", settings={"tools": wanted}).text == "ok"
    # Claude Code adds one that only stands for tools which may be loaded later.
    assert {*model.requests[-1].tools} - {"DeferredToolPlaceholder"} == {*wanted}
    model.reset()
    denied = {"tools": wanted, "disallowed_tools": [wanted[1]]}
    assert program.ask("x", settings=denied).text == "ok"
    offered = model.requests[-1].tools
    # Copilot offers a tool that it would deny.
    assert wanted[0] in offered
    assert (wanted[1] in offered) is (name == "github-copilot")


@pytest.mark.soak
def test_limits_of_claude_code(
    model: FakeModel, surroundings: dict[str, str], tmp_path: Path
) -> None:
    program = Program("claude-code", model, surroundings, Stage(tmp_path, PATIENCE_S))
    for setting, value, kind in (("max_turns", 1, "limit"), ("budget_usd", 0.0001, "budget")):
        model.reset(lambda _: Answer("looking", tool=("Bash", {"command": "ls"})))
        reply = program.ask("x", settings={setting: value})
        assert reply.failure is not None
        assert reply.failure.kind == kind
        assert reply.cost_usd


@pytest.mark.soak
def test_limits_of_qwen_code(
    model: FakeModel, surroundings: dict[str, str], tmp_path: Path
) -> None:
    program = Program("qwen", model, surroundings, Stage(tmp_path, PATIENCE_S))
    tool = ("run_shell_command", {"command": "ls", "description": "x", "is_background": False})
    model.reset(lambda _: Answer("looking", tool=tool))
    reply = program.ask("x", settings={"max_turns": 1})
    assert reply.failure is not None
    assert reply.failure.kind == "limit"
    assert "Reached max session turns" in reply.failure.message
    assert len(model.requests) == 1
    model.reset()
    assert program.ask("x", settings={"disallowed_tools": ["run_shell_command"]}).text == "ok"
    assert "run_shell_command" not in model.requests[-1].tools
    assert "write_file" in model.requests[-1].tools


@pytest.mark.soak
@pytest.mark.parametrize(("status", "kind"), [(429, "rate-limit"), (500, "overloaded")])
def test_qwen_code_gives_up_by_itself(
    status: int, kind: str, model: FakeModel, surroundings: dict[str, str], tmp_path: Path
) -> None:
    """After 77 s; with what it does by itself a 429 would last for most of an hour."""
    program = Program("qwen", model, surroundings, Stage(tmp_path, PATIENCE_S))
    model.reset(lambda _: Answer(status=status))
    reply = program.ask("x")
    assert reply.failure is not None
    assert (reply.failure.kind, reply.failure.http_status) == (kind, status)
    assert len(model.requests) == 7


@pytest.mark.soak
def test_what_the_user_sets_for_qwen_code_wins_over_our_defaults(
    model: FakeModel, surroundings: dict[str, str], tmp_path: Path
) -> None:
    program = Program("qwen", model, surroundings, Stage(tmp_path, PATIENCE_S))
    settings = program.stage.workspace / ".qwen" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"memory": {"enableManagedAutoMemory": True}}))
    model.reset()
    assert program.ask("x").text == "ok"
    assert len(model.requests) == 2


@pytest.mark.soak
def test_the_claude_code_that_node_20_gets(
    model: FakeModel, surroundings: dict[str, str], tmp_path: Path
) -> None:
    """It knows no variable that turns file mentions off, and counts each call's cost by itself."""
    try:
        old = install(OLD_CLAUDE) / "claude"
    except CannotInstall as reason:
        pytest.skip(f"the older Claude Code is not here: {reason}")
    environment = surroundings | {"CLAUDE_CLI_PATH": str(old)}
    program = Program("claude-code", model, environment, Stage(tmp_path, PATIENCE_S))
    (program.stage.workspace / "secret.txt").write_text("SECRETWORD42")
    model.reset()
    first = program.ask("/context @secret.txt\nsee @secret.txt")
    assert first.failure is None
    assert "SECRETWORD42" not in model.requests[-1].everything
    assert "/context \\@secret.txt\nsee \\@secret.txt" in model.requests[-1].last_prompt
    second = program.ask("again", session=first.session, is_new_session=False)
    assert second.cost_usd == pytest.approx(first.cost_usd)
    assert not second.cost_counts_up
