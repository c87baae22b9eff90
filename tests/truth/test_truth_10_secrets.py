"""10: secrets can be named in every dialect and in the configuration; keys are masked unasked."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrate.agents.keys import KEYS, key_variables
from orchestrate.agents.registry import PROGRAMS
from orchestrate.compile import compile_file, require_program
from orchestrate.engine.secrets import looks_secret
from orchestrate.show.dry_run import render_dry_run
from orchestrate.show.plan_text import render_text
from orchestrate.testing import Project, Result
from orchestrate.workspace import open_workspace
from tests.acceptance.fakes import Stage

KEY = "sk-ant-0123456789-abcdefghijkl"
TOKEN = "tok-98765-zyxwvuts"

MACHINE = """
    id: leak
    label: Leak
    description: An agent that tells what it has
    {head}
    initialStep: tell
    steps:
      tell:
        prompt: Tell what you know, but not {secret}.
        outcomes: [told, other]
        onOutcome:
          told: {{action: exit, reason: told}}
          other: {{action: exit, reason: user-provided-other}}
"""
RECIPE = """
    name: leak
    description: An agent that tells what it has
    version: 1.0.0
    {head}
    steps:
      - id: tell
        agent: teller
        prompt: Tell what you know, but not {secret}.
        output: told
      - id: again
        agent: teller
        prompt: "Again {{{{told}}}}"
"""
WORKFLOW = """
    version: "1.4"
    {head}
    steps:
      - name: Tell
        provider: claude
        input_file: prompt.md
      - name: Print
        command: ["sh", "-c", "env; env >&2; exit 3"]
        on: {{failure: {{goto: _end}}}}
"""
DIALECTS = {"machine": MACHINE, "recipe": RECIPE, "workflow": WORKFLOW}


@pytest.fixture(params=sorted(DIALECTS))
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def leaking(folder: Path, dialect: str, head: str = "", secret: str = KEY) -> Stage:
    """A project whose agent and whose command print their whole environment."""
    stage = Stage(folder)
    stage.claude(
        "def answer(prompt):\n"
        "    print(dict(os.environ), file=sys.stderr)\n"
        "    told = json.dumps(dict(os.environ))\n"
        "    return told + prompt + chr(10) + json.dumps(dict(outcome='told'))\n"
    )
    stage.write(".orchestrate/agents/teller.md", "---\nname: teller\n---\nYou tell.\n")
    stage.write("prompt.md", f"Tell, but not {secret}.\n")
    stage.write("m.yaml", DIALECTS[dialect].format(head=head, secret=secret))
    return stage


def files_with(folder: Path, *values: str) -> list[str]:
    """The files under .orchestrate that hold a value."""
    return [
        str(path.relative_to(folder))
        for path in (folder / ".orchestrate").rglob("*")
        if path.is_file() and any(value.encode() in path.read_bytes() for value in values)
    ]


def never_shown(stage: Stage, result: Result, *values: str) -> None:
    assert files_with(stage.folder, *values) == []
    for value in values:
        assert value not in result.stdout + result.stderr


def test_truth_10_keys_are_masked_without_being_named(tmp_path: Path, dialect: str) -> None:
    """The reproduction: `ANTHROPIC_API_KEY=sk-… run m.yaml --debug; grep -rl sk- .orchestrate`."""
    stage = leaking(tmp_path, dialect)
    surroundings = {"ANTHROPIC_API_KEY": KEY, "MY_DB_PASSWORD_1": TOKEN, "PLAIN": "to be seen"}
    result = stage.run("run", "m.yaml", "--debug", env=surroundings).assert_success()
    never_shown(stage, result, KEY, TOKEN)
    assert files_with(stage.folder, "to be seen"), "what is no secret is not masked"
    # What else shows a run: no other command tells more.
    for command in ("report", "status", "logs", "report --format md", "status --json"):
        shown = stage.run(*command.split(), "latest", env={"PLAIN": ""}).assert_success()
        never_shown(stage, shown, KEY, TOKEN)


def test_truth_10_debug_writes_names_and_shows_values_by_name(tmp_path: Path, dialect: str) -> None:
    stage = leaking(tmp_path, dialect)
    surroundings = {"ANTHROPIC_API_KEY": KEY, "PLAIN": "a plain value", "OTHER": "another value"}
    flags = ("--debug", "--debug-env", "PLAIN", "--debug-env", "ANTHROPIC_API_KEY")
    result = stage.run("run", "m.yaml", *flags, env=surroundings).assert_success()
    never_shown(stage, result, KEY)
    records = [json.loads(path.read_text()) for path in stage.folder.rglob("logs/**/*.debug")]
    assert records
    for record in records:
        assert {"PLAIN", "OTHER", "ANTHROPIC_API_KEY"} <= set(record["environment"])
        shown = record["environment_values"]
        assert shown == {"PLAIN": "a plain value", "ANTHROPIC_API_KEY": "***"}
    assert "another value" not in json.dumps(records)
    refused = stage.run("run", "m.yaml", "--debug-env", "PLAIN").assert_exit(2)
    assert "--debug-env needs --debug" in refused.stderr


def test_truth_10_named_secrets_are_masked(tmp_path: Path, dialect: str) -> None:
    stage = leaking(tmp_path, dialect, "secrets: [NAMED, EMPTY]", secret="short1")
    result = stage.run("run", "m.yaml", env={"NAMED": "short1", "EMPTY": ""}).assert_success()
    never_shown(stage, result, "short1")


def test_truth_10_an_unset_secret_is_refused_before_the_start(tmp_path: Path, dialect: str) -> None:
    stage = leaking(tmp_path, dialect, "secrets: [NAMED, ABSENT_ONE, ABSENT_TWO]")
    line = next(
        number
        for number, text in enumerate((stage.folder / "m.yaml").read_text().splitlines(), 1)
        if "ABSENT_ONE" in text
    )
    for arguments in (("run", "m.yaml"), ("run", "m.yaml", "-d")):
        result = stage.run(*arguments, env={"NAMED": TOKEN}).assert_exit(5)
        assert f"m.yaml:{line}: the secret ABSENT_ONE is not set" in result.stderr
        assert f"nor is ABSENT_TWO (m.yaml:{line})" in result.stderr
        assert "NAMED" not in result.stderr
    assert stage.calls("claude") == []
    runs = stage.folder / ".orchestrate" / "runs"
    assert not runs.exists() or not any(path.is_dir() for path in runs.iterdir())
    # They are there: the advice works.
    there = {"NAMED": TOKEN, "ABSENT_ONE": "", "ABSENT_TWO": "there"}
    stage.run("run", "m.yaml", env=there).assert_success()
    stage.run("run", "m.yaml", "--dry-run").assert_success()
    stage.run("validate", "m.yaml").assert_success()


def test_truth_10_a_run_that_resumes_needs_its_secrets_too(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.write(
        "w.yaml",
        """
        version: "1.4"
        secrets: [NAMED]
        steps:
          - {name: One, command: ["sh", "-c", "echo $NAMED; test -e go"]}
        """,
    )
    stage.run("run", "w.yaml", env={"NAMED": "first-secret"}).assert_exit(1)
    result = stage.run("resume", "latest").assert_exit(5)
    assert "w.yaml:2: the secret NAMED is not set" in result.stderr
    stage.write("go", "")
    result = stage.run("resume", "latest", env={"NAMED": "other-secret"}).assert_success()
    # The environment has changed, and neither value is anywhere.
    never_shown(stage, result, "first-secret", "other-secret")
    assert files_with(stage.folder, "***")


def test_truth_10_secrets_of_sub_recipes_count(tmp_path: Path) -> None:
    stage = leaking(tmp_path, "recipe")
    sub = DIALECTS["recipe"].format(head="secrets: [SUBS]", secret="nothing")
    stage.write("sub.yaml", sub)
    body = """
        name: main
        description: Calls another
        version: 1.0.0
        context: {{which: sub.yaml}}
        steps:
          - {{id: call, type: recipe, recipe: "{path}"}}
    """
    stage.write("early.yaml", body.format(path="sub.yaml"))
    stage.write("late.yaml", body.format(path="{{which}}"))
    result = stage.run("run", "early.yaml").assert_exit(5)
    assert "sub.yaml:4: the secret SUBS is not set" in result.stderr
    assert stage.calls("claude") == []
    # A recipe that is found on the way is refused when it is reached: the step fails, and says so.
    result = stage.run("run", "late.yaml").assert_exit(1)
    assert "sub.yaml:4: the secret SUBS is not set" in result.stdout + result.stderr
    assert stage.calls("claude") == []
    result = stage.run("resume", "latest", env={"SUBS": "sub-secret"}).assert_success()
    never_shown(stage, result, "sub-secret")
    result = stage.run("run", "early.yaml", env={"SUBS": "sub-secret"}).assert_success()
    never_shown(stage, result, "sub-secret")


def test_truth_10_a_late_recipe_is_masked_after_a_resume(tmp_path: Path) -> None:
    """The run stops inside a recipe that it found on its way; its secret is known at once again."""
    stage = Stage(tmp_path)
    stage.claude("def answer(prompt): return 'got ' + os.environ['SUBS']")
    stage.write(".orchestrate/agents/teller.md", "---\nname: teller\n---\nYou tell.\n")
    stage.write(
        "sub.yaml",
        """
        name: sub
        description: Asks twice
        version: 1.0.0
        secrets: [SUBS]
        stages:
          - name: one
            steps: [{id: ask, agent: teller, prompt: Tell., output: told}]
            approval: {required: true, prompt: "Go on with {{told}}?"}
          - name: two
            steps: [{id: again, agent: teller, prompt: Tell again.}]
        """,
    )
    stage.write(
        "main.yaml",
        """
        name: main
        description: Calls another
        version: 1.0.0
        context: {which: sub.yaml}
        steps:
          - {id: call, type: recipe, recipe: "{{which}}"}
        """,
    )
    surroundings = {"SUBS": "sub-secret"}
    results = [
        stage.run("run", "main.yaml", env=surroundings).assert_exit(6),
        stage.run("approve", "latest", "--message", "for sub-secret", env=surroundings),
    ]
    refused = stage.run("resume", "latest").assert_exit(5)
    assert "sub.yaml:4: the secret SUBS is not set" in refused.stderr
    results.append(stage.run("resume", "latest", env=surroundings).assert_success())
    for result in results:
        never_shown(stage, result, "got sub-secret")


def test_truth_10_the_configuration_names_secrets(tmp_path: Path) -> None:
    stage = leaking(tmp_path, "workflow")
    stage.write(".orchestrate/config.yaml", "backend: claude-code\nsecrets:\n  - TEAM_PIN\n")
    stage.write("user/orchestrate/config.yaml", "secrets: [MY_PIN]\n")
    user = {"XDG_CONFIG_HOME": str(stage.folder / "user")}
    surroundings = {"TEAM_PIN": "t-1234", "MY_PIN": "m-1234", **user}
    result = stage.run("run", "m.yaml", env=surroundings).assert_success()
    never_shown(stage, result, "t-1234", "m-1234")
    result = stage.run("run", "m.yaml", env=user).assert_exit(5)
    assert ".orchestrate/config.yaml:3" in result.stderr
    assert "user/orchestrate/config.yaml:1: the secret MY_PIN is not set" in result.stderr


@pytest.mark.parametrize(
    ("setting", "shown", "hidden"),
    [
        ("off", {"ANTHROPIC_API_KEY", "MY_TOKEN", "DEPLOY_KEY"}, {"HOOK"}),
        ("[DEPLOY_KEY, ABSENT]", {"MY_TOKEN"}, {"ANTHROPIC_API_KEY", "DEPLOY_KEY", "HOOK"}),
        (None, {"DEPLOY_KEY"}, {"ANTHROPIC_API_KEY", "MY_TOKEN", "HOOK"}),
    ],
)
def test_truth_10_mask_env_changes_what_is_guessed(
    tmp_path: Path, setting: str | None, shown: set[str], hidden: set[str]
) -> None:
    stage = leaking(tmp_path, "workflow", secret="nothing")
    config = "notifications: [{on: [paused], webhook_env: HOOK}]\n"
    stage.write(".orchestrate/config.yaml", config + (f"mask_env: {setting}\n" if setting else ""))
    values = {
        name: f"{number}-value-of-one-variable"
        for number, name in enumerate(("ANTHROPIC_API_KEY", "MY_TOKEN", "DEPLOY_KEY"))
    } | {"HOOK": "https://hooks.example.org/services/T0/abcdef"}
    stage.run("run", "m.yaml", env=values).assert_success()
    assert {name for name in values if files_with(stage.folder, values[name])} == shown
    assert {name for name in values if not files_with(stage.folder, values[name])} == hidden


def test_truth_10_wrong_settings_are_refused_with_their_place(tmp_path: Path) -> None:
    workflow = 'version: "1.4"\nsteps: [{name: A, command: ["true"]}]\n'
    project = Project(tmp_path, {"w.yaml": workflow})
    for text, said in (
        ("mask_env: sometimes", "write a list of names, or off"),
        ("mask_env: [A-B]", "mask_env"),
        ("secrets: MY_TOKEN", "'secrets' must be a list"),
        ("secrets: [A, A]", "'A' stands twice in 'secrets'"),
        ("secret: [A]", "did you mean 'secrets'?"),
        ("mask-env: off", "did you mean 'mask_env'?"),
    ):
        project.write(".orchestrate/config.yaml", text + "\n")
        result = project.run("run", "w.yaml").assert_exit(5)
        assert said in result.stderr, text
        assert ".orchestrate/config.yaml:1:" in result.stderr


def test_truth_10_keys_in_the_configuration_stay_out_of_the_state(tmp_path: Path) -> None:
    """`agents.NAME.env` may hold a key: it reaches the agent, also after a resume, and no file."""
    stage = leaking(tmp_path, "workflow", secret="nothing")
    config = f"agents: {{claude-code: {{env: {{ANTHROPIC_API_KEY: {KEY}, PLAIN: seen}}}}}}\n"
    (tmp_path / "user/orchestrate").mkdir(parents=True)
    (tmp_path / "user/orchestrate/config.yaml").write_text(config)
    surroundings = {"XDG_CONFIG_HOME": str(tmp_path / "user")}
    again = stage.folder / "again.yaml"
    again.write_text(
        'version: "1.1"\nsteps:\n'
        '  - {name: Wait, command: ["test", "-e", "go"]}\n'
        "  - {name: Tell, provider: claude, input_file: prompt.md}\n"
    )
    stage.run("run", "again.yaml", env=surroundings).assert_exit(1)
    stage.write("go", "")
    result = stage.run("resume", "latest", env=surroundings).assert_success()
    never_shown(stage, result, KEY)
    call = [call for call in stage.calls("claude") if call.argv != ["--version"]][-1]
    assert (call.env["ANTHROPIC_API_KEY"], call.env["PLAIN"]) == (KEY, "seen")


def test_truth_10_reports_mask_what_git_says(tmp_path: Path) -> None:
    """Names of commits are no output of ours; their author is an agent."""
    stage = leaking(tmp_path, "workflow", "secrets: [NAMED]", secret="nothing")
    git = "git -c user.name=a -c user.email=a@example.org"
    stage.write(
        "w.yaml",
        f"""
        version: "1.4"
        secrets: [NAMED]
        steps:
          - name: Commit
            command: ["sh", "-c", "{git} commit -q --allow-empty -m \\"use $NAMED, $MY_TOKEN\\""]
        """,
    )
    for command in ("init -q", "commit -q --allow-empty -m first"):
        subprocess.run([*git.split(), *command.split()], cwd=stage.folder, check=True)
    surroundings = {"NAMED": "named-one", "MY_TOKEN": TOKEN}
    stage.run("run", "w.yaml", env=surroundings).assert_success()
    for flags in ((), ("--format", "md"), ("--json",)):
        shown = stage.run("report", "latest", *flags, env=surroundings).assert_success()
        assert "use ***, ***" in shown.stdout
        never_shown(stage, shown, "named-one", TOKEN)


def test_truth_10_flags_that_hold_a_secret_are_masked(tmp_path: Path) -> None:
    stage = leaking(tmp_path, "machine")
    result = stage.run(
        "run", "m.yaml", "--system-prompt", f"Use {KEY}.", env={"ANTHROPIC_API_KEY": KEY}
    ).assert_success()
    never_shown(stage, result, KEY)
    assert "--system-prompt holds a secret and is masked" in result.stderr


def test_truth_10_a_step_of_a_workflow_keeps_its_own_rule(tmp_path: Path) -> None:
    """C: what a step names and is not set fails the step, with exit code 2."""
    stage = Stage(tmp_path)
    played = stage.play(
        """
        version: "1.4"
        secrets: [THERE]
        steps:
          - {name: Use, command: ["true"], secrets: [ABSENT, THERE]}
        """,
        exit_code=1,
        env={"THERE": "x-there"},
    )
    step = played.step("Use")
    assert step["exit_code"] == 2
    assert step["error"]["context"]["missing_secrets"] == ["ABSENT"]


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("X_API_KEY", "0123456789ab", True),
        ("x_api_key", "0123456789ab", True),
        ("X_API_KEY", "0123456789a", False),
        ("X_API_KEY", "0123456789a\n", False),
        ("GH_TOKEN", "ghp_0123456789", True),
        ("CLIENT_SECRET", "0123456789abc", True),
        ("PGPASSWORD", "correct horse battery", True),
        ("DB_PASSWORD_2", "correct horse battery", True),
        ("API_KEYS", "0123456789abc", False),
        ("MAX_TOKENS", "0123456789abc", False),
        ("TOKENIZER", "0123456789abc", False),
        ("KEY_TOKEN", "/etc/tokens/mine", False),
        ("KEY_TOKEN", "~/tokens/mine", False),
        ("KEY_TOKEN", "./tokens/mine/one", False),
        ("KEY_TOKEN", "../tokens/mine", False),
        ("KEY_TOKEN", os.path.realpath(__file__), False),
        ("KEY_TOKEN", "/9j+4AAQSkZJ/RgABAQ==", True),
        ("KEY_TOKEN", "/9j4AAQSkZJRgABAQ", True),
        ("HOOK_TOKEN", "https://example.org/hooks/abc", True),
    ],
)
def test_truth_10_what_looks_like_a_secret(name: str, value: str, is_secret: bool) -> None:
    assert looks_secret(name, value) is is_secret


def test_truth_10_every_agent_has_its_keys() -> None:
    assert KEYS.keys() == PROGRAMS.keys()
    assert {
        "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY",
        "GEMINI_API_KEY", "GOOGLE_API_KEY", "GITHUB_TOKEN", "GH_TOKEN", "CURSOR_API_KEY",
        "DASHSCOPE_API_KEY",
    } <= key_variables()  # fmt: skip


def secrets_in(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if "secrets" in schema.get("properties", {}):
            yield schema["properties"]["secrets"]
        for value in schema.values():
            yield from secrets_in(value)


@pytest.mark.parametrize("name", ["machine", "recipe", "workflow", "config"])
def test_truth_10_editors_explain_the_field(name: str) -> None:
    path = Path(__file__).parents[2] / "schemas" / f"{name}.schema.json"
    found = list(secrets_in(json.loads(path.read_text())))
    assert len(found) == (2 if name == "workflow" else 1)
    for field in found:
        assert "masked in everything that is written" in field["description"]
        assert field["examples"]


def test_truth_10_plans_show_the_secrets(
    tmp_path: Path, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = leaking(tmp_path, dialect, "secrets: [FIRST_ONE, SECOND]")
    monkeypatch.chdir(stage.folder)
    program = require_program(compile_file(Path("m.yaml"), open_workspace()))
    text = (stage.folder / "m.yaml").read_text()
    line = text[: text.index("secrets:")].count("\n") + 1
    rendered = render_text(program)
    assert f"  secret FIRST_ONE  [m.yaml:{line}:11+9]\n" in rendered
    assert f"  secret SECOND  [m.yaml:{line}:22+6]\n" in rendered
    assert "  Secrets: FIRST_ONE, SECOND\n" in render_dry_run(program)


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("{{which}}", ""),
        ("{{which}}.yaml", ""),
        ("subs/{{which}}.yaml", "subs/"),
        ("{{which}}.yaml", "deep/down/"),
        ("./subs/{{which}}", "subs/deep/"),
    ],
)
def test_truth_10_a_recipe_that_may_be_called_is_masked_from_the_start(
    tmp_path: Path, path: str, folder: str
) -> None:
    """Its secret is printed before it is called, and its path is known only then."""
    stage = Stage(tmp_path)
    stage.claude("def answer(prompt): return 'the value is ' + os.environ['SUBS']")
    stage.write(".orchestrate/agents/teller.md", "---\nname: teller\n---\nYou tell.\n")
    inside = folder.removeprefix("subs/") if "subs/" in path else folder
    stage.write(
        f"{folder}sub.yaml",
        """
        name: sub
        description: Has a secret
        version: 1.0.0
        secrets: [SUBS]
        steps: [{id: in, agent: teller, prompt: Tell.}]
        """,
    )
    stage.write(
        "main.yaml",
        f"""
        name: main
        description: Calls another
        version: 1.0.0
        context: {{which: {inside}{"sub" if ".yaml" in path else "sub.yaml"}}}
        steps:
          - {{id: before, agent: teller, prompt: Tell first., output: told}}
          - {{id: call, type: recipe, recipe: "{path}"}}
        """,
    )
    result = stage.run("run", "main.yaml", env={"SUBS": "sub-secret"}).assert_success()
    never_shown(stage, result, "sub-secret")
