"""Exactly how each program is called: the tables that docs/reference/agents.md shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrate.agents.adapter import ProgramCall, read_settings
from orchestrate.agents.base import Question
from orchestrate.agents.gemini import as_text
from orchestrate.agents.registry import PROGRAMS

ID = "7d0c6a7e-3f5b-4c1d-9a52-0c5f7b2f9e11"
RETRIES = "features.unbounded_connection_retries=false"
# Program -> the flags of a new session, of a resumed one, and for each kind of permissions.
CALLS: dict[str, tuple[list[str], list[str], dict[str, list[str]]]] = {
    "claude-code": (
        ["--session-id", ID],
        ["--resume", ID],
        {
            "bypass": ["--dangerously-skip-permissions"],
            "edit": ["--permission-mode", "acceptEdits"],
            "default": [],
            "read-only": ["--permission-mode", "dontAsk"],
        },
    ),
    "codex": (
        ["-"],
        ["resume", ID, "-"],
        {
            "bypass": ["--dangerously-bypass-approvals-and-sandbox"],
            "edit": ["-s", "workspace-write"],
            "default": [],
            "read-only": ["-s", "read-only"],
        },
    ),
    "gemini": (
        ["--session-id", ID],
        ["--resume", ID],
        {
            "bypass": ["--approval-mode", "yolo"],
            "edit": ["--approval-mode", "auto_edit"],
            "default": ["--approval-mode", "default"],
            "read-only": ["--approval-mode", "plan"],
        },
    ),
    "github-copilot": (
        [f"--session-id={ID}"],
        [f"--resume={ID}"],
        {
            "bypass": ["--allow-all"],
            "edit": ["--allow-tool=write"],
            "default": [],
            "read-only": ["--deny-tool=write"],
        },
    ),
    "qwen": (
        ["--session-id", ID],
        ["--resume", ID],
        {
            "bypass": ["--approval-mode", "yolo"],
            "edit": ["--approval-mode", "auto-edit"],
            "default": ["--approval-mode", "default"],
            "read-only": ["--approval-mode", "plan"],
        },
    ),
    "opencode": ([], ["--session", ID], {"bypass": ["--auto"], "default": []}),
    "cursor": (
        [],
        ["--resume", ID],
        {"bypass": ["--force"], "default": [], "read-only": ["--mode", "ask"]},
    ),
}
ALWAYS = {
    "claude-code": ["-p", "--output-format", "stream-json", "--verbose"],
    "codex": ["exec", "--json", "--skip-git-repo-check", "-c", RETRIES],
    "gemini": ["-o", "stream-json", "--skip-trust"],
    "github-copilot": [
        "--output-format", "json", "--no-auto-update", "--no-ask-user", "--no-color", "-C", "/w",
    ],
    "opencode": ["run", "--format", "json"],
    "cursor": ["-p", "--output-format", "stream-json", "--trust"],
    "qwen": ["-o", "stream-json"],
}  # fmt: skip


def call(name: str, prompt: str = "Do it.", **more: Any) -> ProgramCall:
    values: dict[str, Any] = {"session": ID, "environment": {}, **more}
    adapter = PROGRAMS[name]()
    return adapter.make_call(read_settings(adapter, Question(prompt, Path("/w"), **values)))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("is_new", [True, False])
def test_the_whole_argument_list(name: str, is_new: bool) -> None:
    new, resumed, permissions = CALLS[name]
    model = {"claude-code": ["--model", "sonnet"]}.get(name, [])
    for wanted, flags in permissions.items():
        made = call(name, permissions=wanted, is_new_session=is_new)
        denied = ["--disallowedTools=Edit,Write,NotebookEdit"]
        more = denied if (name, wanted) == ("claude-code", "read-only") else []
        session = new if is_new else resumed
        assert list(made.arguments) == [*ALWAYS[name], *flags, *model, *session, *more]
        assert made.stdin == "Do it."


def test_every_program_has_its_table() -> None:
    assert set(CALLS) == set(ALWAYS) == set(PROGRAMS)


@pytest.mark.parametrize(
    ("name", "model", "flags"),
    [
        ("claude-code", None, ["--model", "sonnet"]),
        ("claude-code", "haiku", ["--model", "haiku"]),
        ("claude-code", "claude-opus-4-1", ["--model", "claude-opus-4-1"]),
        ("codex", "haiku", ["-c", 'model_reasoning_effort="low"']),
        ("codex", "sonnet", ["-c", 'model_reasoning_effort="medium"']),
        ("codex", "opus", ["-c", 'model_reasoning_effort="high"']),
        ("codex", "gpt-6", ["-m", "gpt-6"]),
        ("gemini", "haiku", ["-m", "flash-lite"]),
        ("gemini", "sonnet", ["-m", "flash"]),
        ("gemini", "opus", ["-m", "pro"]),
        ("github-copilot", "opus", ["--model", "claude-opus-5.5"]),
        ("opencode", "prov/model", ["-m", "prov/model"]),
        ("cursor", "some-model", ["--model", "some-model"]),
        ("qwen", "qwen3-coder-plus", ["-m", "qwen3-coder-plus"]),
    ],
)
def test_models(name: str, model: str | None, flags: list[str]) -> None:
    assert " ".join(flags) in " ".join(call(name, model=model).arguments)


def test_the_default_model_of_claude_code_may_be_in_the_environment() -> None:
    made = call("claude-code", environment={"ANTHROPIC_MODEL": "claude-x"})
    assert "claude-x" in made.arguments
    made = call("claude-code", environment={"ANTHROPIC_MODEL": "claude-x"}, model="opus")
    assert "claude-x" not in made.arguments


def test_a_tier_may_be_given_another_model() -> None:
    made = call("gemini", model="opus", settings={"models": {"opus": "gemini-9"}})
    assert "gemini-9" in made.arguments
    made = call("codex", model="opus", settings={"models": {"opus": "gpt-9"}})
    assert {"gpt-9", 'model_reasoning_effort="high"'} <= set(made.arguments)


def test_the_step_wins_over_the_run() -> None:
    made = call("claude-code", model="opus", settings={"model": "haiku", "permissions": "edit"})
    assert {"haiku", "acceptEdits"} <= set(made.arguments)
    assert "--dangerously-skip-permissions" not in made.arguments


def test_copilot_with_a_provider_of_ones_own_has_no_tiers() -> None:
    own = {"COPILOT_PROVIDER_BASE_URL": "http://127.0.0.1:1"}
    assert "--model" not in call("github-copilot", model="opus", environment=own).arguments
    assert "mine" in call("github-copilot", model="mine", environment=own).arguments


@pytest.mark.parametrize(
    ("name", "settings", "flags"),
    [
        ("claude-code", {"tools": "Read, Bash(git log, git diff)"},
         ["--tools=Read,Bash(git log, git diff)"]),
        ("claude-code", {"tools": []}, ["--tools="]),
        ("claude-code", {"allowed_tools": ["Read"], "disallowed_tools": ["Bash"]},
         ["--allowedTools=Read", "--disallowedTools=Bash"]),
        ("claude-code", {"max_turns": 3, "budget_usd": 0.5, "effort": "low"},
         ["--max-turns", "3", "--max-budget-usd", "0.5", "--effort", "low"]),
        ("codex", {"effort": "xhigh"}, ["-c", 'model_reasoning_effort="xhigh"']),
        ("github-copilot", {"tools": ["view", "grep"], "allowed_tools": ["shell(git:*)"],
                            "disallowed_tools": ["write"]},
         ["--available-tools=view,grep", "--allow-tool=shell(git:*)", "--deny-tool=write"]),
        ("opencode", {"effort": "max"}, ["--variant", "max"]),
        ("qwen", {"disallowed_tools": ["edit", "agent"], "max_turns": 3},
         ["--exclude-tools=edit,agent", "--max-session-turns", "3"]),
    ],
)  # fmt: skip
def test_settings_become_flags(name: str, settings: dict[str, Any], flags: list[str]) -> None:
    made = call(name, settings=settings)
    place = made.arguments.index(flags[0]) if flags else 0
    if flags[0] == "-c":
        place = made.arguments.index(flags[1]) - 1
    assert list(made.arguments[place : place + len(flags)]) == flags


@pytest.mark.parametrize(
    ("permissions", "settings", "rules"),
    [
        ("bypass", {}, None),
        ("default", {}, None),
        ("edit", {}, {"bash": "deny"}),
        ("read-only", {}, {"edit": "deny", "bash": "deny"}),
        ("bypass", {"tools": ["read", "bash"]}, {"*": "deny", "read": "allow", "bash": "allow"}),
        ("edit", {"tools": ["read", "bash"]}, {"*": "deny", "read": "allow", "bash": "deny"}),
        ("bypass", {"disallowed_tools": "webfetch"}, {"webfetch": "deny"}),
    ],
)
def test_opencode_is_held_to_rules(
    permissions: str, settings: dict[str, Any], rules: dict[str, str] | None
) -> None:
    made = call("opencode", permissions=permissions, settings=settings)
    given = made.environment.get("OPENCODE_PERMISSION")
    assert (None if given is None else json.loads(given)) == rules


def test_the_environment_of_claude_code() -> None:
    made = call("claude-code").environment
    assert made["CLAUDECODE"] is None
    assert made["CLAUDE_CODE_ENTRYPOINT"] is None
    assert made["CLAUDE_CODE_DISABLE_BACKGROUND_TASKS"] == "1"
    assert made["CLAUDE_CODE_MAX_RETRIES"] == "6"
    own = call("claude-code", environment={"CLAUDE_CODE_MAX_RETRIES": "1"}).environment
    assert own["CLAUDE_CODE_MAX_RETRIES"] == "1"


@pytest.mark.parametrize(("user", "permissions"), [(0, "bypass"), (0, "edit"), (1000, "bypass")])
def test_only_root_that_bypasses_needs_to_be_in_a_sandbox(
    user: int, permissions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    made = call("claude-code", permissions=permissions)
    assert made.environment.get("IS_SANDBOX") == (
        "1" if (user, permissions) == (0, "bypass") else None
    )


def test_gemini_does_not_start_itself_again() -> None:
    assert call("gemini").environment == {"GEMINI_CLI_NO_RELAUNCH": "true"}


def test_qwen_code_gets_our_defaults_unless_there_are_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    relaunch, path = "QWEN_CODE_NO_RELAUNCH", "QWEN_CODE_SYSTEM_DEFAULTS_PATH"
    monkeypatch.setattr("orchestrate.agents.qwen._PLACES_OF_DEFAULTS", (str(tmp_path / "admin"),))
    made = call("qwen").environment
    assert set(made) == {relaunch, path}
    defaults = json.loads(Path(str(made[path])).read_text())
    assert defaults["memory"]["enableManagedAutoMemory"] is False
    for own in (path, "QWEN_CODE_SYSTEM_SETTINGS_PATH"):
        assert call("qwen", environment={own: "/mine"}).environment == {relaunch: "true"}
    (tmp_path / "admin").touch()
    assert call("qwen").environment == {relaunch: "true"}


def test_a_system_prompt_for_qwen_code_is_said_on_every_call_and_not_shown() -> None:
    for is_new in (True, False):
        made = call("qwen", system_prompt="-x\nBe terse.", is_new_session=is_new)
        assert made.arguments[-1] == "--append-system-prompt=-x\nBe terse."
        assert made.hidden == {made.arguments[-1]: "--append-system-prompt=…"}
        assert made.stdin == "Do it."


def test_a_system_prompt_is_a_toml_string_for_codex() -> None:
    import tomllib

    text = 'say "hi" \\ and\nnewline \t \x7f \x01 é 💥'
    made = call("codex", system_prompt=text)
    given = next(a for a in made.arguments if a.startswith("developer_instructions="))
    assert tomllib.loads(given) == {"developer_instructions": text}


@pytest.mark.parametrize("version", ["2.1.299", "2.1.325 (Claude Code)", "2.2.0", "3.0"])
def test_a_prompt_for_a_claude_code_that_can_be_told_is_hardly_changed(version: str) -> None:
    made = call("claude-code", "see @a.txt\n@b", version=version)
    assert made.stdin == "see @a.txt\n@b"
    assert made.environment["CLAUDE_CODE_DISABLE_FILE_MENTIONS"] == "1"
    assert call("claude-code", "/context @x", version=version).stdin == "\n/context @x"


@pytest.mark.parametrize("version", ["", "2.1.298", "2.1.197", "1.9.999", "unknown"])
@pytest.mark.parametrize(
    ("prompt", "sent"),
    [
        ("plain, me@example.com and (@a) `@b`", "plain, me@example.com and (@a) `@b`"),
        ("a lone @ stays, and one at the end @", "a lone @ stays, and one at the end @"),
        ("see @a.txt\n\t@b and\ufeff@c", "see \\@a.txt\n\t\\@b and\ufeff\\@c"),
        ('@"a b.txt"', '\\@"a b.txt"'),
        ("/context @x", "\n/context \\@x"),
        ("a\n/b", "a\n/b"),
        ("/", "\n/"),
    ],
)
def test_a_prompt_for_an_older_claude_code_is_escaped(prompt: str, sent: str, version: str) -> None:
    assert call("claude-code", prompt, version=version).stdin == sent


@pytest.mark.parametrize(
    ("prompt", "sent"),
    [
        ("plain", "plain"),
        ("/zork a", "\n/zork a"),
        ("a\n/b", "a\n/b"),
        ("@a.txt and a@b.c", "\\@a.txt and a\\@b.c"),
        ("already \\@a.txt", "already \\@a.txt"),
        ("a lone @ stays, and @, too @", "a lone @ stays, and @, too @"),
    ],
)
def test_a_prompt_for_gemini_is_escaped(prompt: str, sent: str) -> None:
    assert as_text(prompt) == sent


@pytest.mark.parametrize(
    ("prompt", "sent"),
    [
        ("plain", "plain"),
        ("/context a", "\n/context a"),
        ("a\n/b", "a\n/b"),
        ("@a.txt and a@b.c", "\\@a.txt and a\\@b.c"),
        ("already \\@a.txt", "already \\@a.txt"),
        ("one @ alone, @, and @@", "one \\@ alone, \\@, and \\@\\@"),
    ],
)
def test_a_prompt_for_qwen_code_is_escaped(prompt: str, sent: str) -> None:
    assert call("qwen", prompt).stdin == sent
