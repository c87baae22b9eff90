"""`config show` and `config path`: what holds here, and where each setting was written."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from orchestrate.testing import Project
from tests.cli.conftest import ROOT

HERE = ".orchestrate/config.yaml"
USER = "home/orchestrate/config.yaml"


@pytest.fixture
def empty(tmp_path: Path) -> Project:
    return Project(tmp_path)


def show(project: Project, *flags: str, **environment: str) -> str:
    done = project.run(
        "config",
        "show",
        *flags,
        env={"XDG_CONFIG_HOME": str(project.folder / "home"), **environment},
    )
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_without_any_file_the_defaults_hold(empty: Project) -> None:
    shown = YAML(typ="safe").load(show(empty))
    assert shown["backend"] == "claude-code"
    assert shown["permissions"] == "bypass"
    assert "model" not in shown
    assert "# step_timeout: 86400 in a machine, 600 in a recipe\n" in show(empty)
    lines = show(empty, "--origin").splitlines()
    assert all(line.endswith("# default") for line in lines)


def test_a_long_value_does_not_push_the_others_aside(empty: Project) -> None:
    command = ", ".join(f"word{number}" for number in range(40))
    empty.write(HERE, f"keep_runs: 9\nnotifications: [{{on: [failed], command: [{command}]}}]\n")
    lines = show(empty, "--origin").splitlines()
    short = [line for line in lines if not line.startswith(("notifications", "#"))]
    assert len(short) > 5
    assert len({line.index("  # ") for line in short if line.index("  # ") > 25}) <= 1
    assert max(map(len, short)) < 80
    assert f"  # {HERE}:2" in next(line for line in lines if line.startswith("notifications"))


def test_each_setting_has_its_place(empty: Project) -> None:
    empty.write(USER, "# mine\nmodel: haiku\nkeep_runs: 9\nlog_level: warn\n")
    empty.write(HERE, "# ours\n\nmodel: opus\nlog_level: debug\n")
    shown = show(empty, "--origin", ORCHESTRATE_LOG_LEVEL="error")
    assert re.search(rf"^model: opus +# {re.escape(HERE)}:3$", shown, re.MULTILINE)
    assert re.search(rf"^keep_runs: 9 +# {re.escape(USER)}:3$", shown, re.MULTILINE)
    assert re.search(r"^log_level: error +# ORCHESTRATE_LOG_LEVEL$", shown, re.MULTILINE)
    assert YAML(typ="safe").load(shown)["model"] == "opus"


def test_agents_of_both_files_are_merged(empty: Project) -> None:
    empty.write(USER, "agents:\n  codex:\n    path: /opt/codex\n    args: [-a]\n")
    empty.write(HERE, "agents:\n  codex:\n    args: [-b]\n  gemini: {path: g}\n")
    document = empty.run(
        "config", "show", "--json", env={"XDG_CONFIG_HOME": f"{empty.folder}/home"}
    ).json()
    assert document["settings"]["agents"] == {
        "codex": {"path": "/opt/codex", "args": ["-b"]},
        "gemini": {"path": "g"},
    }
    assert document["origins"]["agents.codex.path"] == {"kind": "file", "file": USER, "line": 3}
    assert document["origins"]["agents.codex.args"] == {"kind": "file", "file": HERE, "line": 3}
    assert document["origins"]["backend"] == {"kind": "default"}


def test_secrets_are_hidden_and_odd_texts_stay_yaml(empty: Project) -> None:
    empty.write(
        HERE,
        'agents:\n  codex:\n    env: {API_TOKEN: "s3cr3t", MODE: "no: #x", X: "\\e[31m"}\n',
    )
    shown = show(empty, "--origin")
    assert "s3cr3t" not in shown
    assert "\x1b" not in shown
    env = YAML(typ="safe").load(shown)["agents"]["codex"]["env"]
    assert env == {"API_TOKEN": "***", "MODE": "no: #x", "X": "\x1b[31m"}
    document = empty.run("config", "--json").stdout
    assert "s3cr3t" not in document


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("bakend: codex\n", ":1:1:", "did you mean 'backend'?"),
        ("model: opus\nmax_parallel: 0\n", ":2:15:", "at least 1"),
        ("backend: codx\n", ":1:10:", "did you mean 'codex'?"),
        ("agents:\n  claude: {path: x}\n", ":2:3:", "did you mean 'claude-code'?"),
        ("notifications:\n  - on: [paused]\n", ":2:5:", "the notification has no receiver"),
        ("notifications: [{command: [a], webhook: 'http://b'}]\n", ":1:32:", "has both 'command'"),
        ("notifications: [{command: [a], on: [stopped]}]\n", ":1:37:", "cannot be 'stopped'"),
        ("notifications: [{webhook: 'ftp://b'}]\n", ":1:27:", "error E105"),
        ("step_timeout: 0s\n", ":1:15:", "write seconds, more than 0"),
        ("kill_grace: soon\n", ":1:13:", "write seconds, 0 or more"),
        ("notifications: [{command: [a], timeout: 6m}]\n", ":1:41:", "at most 300 seconds"),
        ("model: [\n", ":1:8:", "is not closed"),
    ],
)
def test_mistakes_are_shown_at_their_place(
    empty: Project, text: str, place: str, words: str
) -> None:
    empty.write(HERE, text)
    done = empty.run("config", "show")
    assert (done.exit_code, done.stdout) == (5, "")
    assert f"{HERE}{place}" in done.stderr
    assert words in done.stderr
    assert HERE in empty.run("doctor").stdout


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("ORCHESTRATE_MAX_PARALLEL", "0", "at least 1"),
        ("ORCHESTRATE_MAX_PARALLEL", "many", "not a number"),
        ("ORCHESTRATE_PERMISSIONS", "all", "cannot be 'all'"),
    ],
)
def test_variables_have_to_fit_the_schema_too(
    empty: Project, variable: str, value: str, words: str
) -> None:
    done = empty.run("config", "show", env={variable: value})
    assert done.exit_code == 5
    assert variable in done.stderr
    assert words in done.stderr


ONE = """
    id: one
    label: One
    description: d
    initialStep: work
    steps:
      work:
        prompt: Work.
        outcomes: [done, other]
        onOutcome: {done: {action: exit, reason: done}, other: {action: exit, reason: other}}
    """
DURATIONS = """
    step_timeout: 1h30m
    silence_timeout: 20m
    kill_grace: 3s
    limits: {time: 2h}
    notifications: [{on: [failed], command: ["true"], timeout: 1m}]
    """


def test_durations_are_written_as_in_recipes(empty: Project) -> None:
    """In the file, in a variable and as a flag; what a run keeps are seconds."""
    empty.write(HERE, DURATIONS)
    empty.write("one.yaml", ONE)
    assert 'step_timeout: "1h30m"\n' in show(empty)
    empty.run("run", "one.yaml", "--backend", "rehearsal").assert_success()
    kept = json.loads((empty.folder / ".orchestrate/runs/latest/state.json").read_text())
    settings = kept["settings"]
    assert (settings["silence_timeout"], settings["kill_grace"]) == (1200.0, 3.0)
    dry = ("run", "one.yaml", "--dry-run", "--json")
    assert '"timeout_s": 5400.0' in empty.run(*dry).assert_success().stdout
    env = {"ORCHESTRATE_STEP_TIMEOUT": "2m"}
    assert '"timeout_s": 120.0' in empty.run(*dry, env=env).assert_success().stdout
    shown = empty.run(*dry, "--step-timeout", "1m30s", "--silence-timeout", "0").assert_success()
    assert '"timeout_s": 90.0' in shown.stdout


def test_who_validates_the_configuration_is_told_how(empty: Project) -> None:
    empty.write(HERE, "model: opus\n")
    done = empty.run("validate", HERE)
    assert done.exit_code == 2
    assert "this is the configuration; `orchestrate config show` checks it" in done.stdout


def test_paths(empty: Project) -> None:
    empty.write(HERE, "model: opus\n")
    done = empty.run("config", "path", env={"XDG_CONFIG_HOME": f"{empty.folder}/home"})
    assert done.stdout.splitlines() == [
        f"user       {empty.folder}/{USER}  (not there)",
        f"workspace  {empty.folder}/{HERE}",
    ]
    listed = empty.run(
        "config", "path", "--json", env={"XDG_CONFIG_HOME": f"{empty.folder}/home"}
    ).json()
    assert [file["exists"] for file in listed["files"]] == [False, True]
    assert empty.run("config", "path", "--origin").exit_code == 2


def test_the_example_is_complete_and_valid(empty: Project) -> None:
    """Every setting of the schema stands in the example, set or as a comment, and it is valid."""
    import json

    text = (ROOT / ".orchestrate.example/config.yaml").read_text("utf-8")
    empty.write(HERE, text)
    settings = empty.run("config", "show", "--json").json()["settings"]
    schema = json.loads((ROOT / "schemas/config.schema.json").read_text("utf-8"))
    for name, field in schema["properties"].items():
        assert re.search(rf"^(# )?{name}:", text, re.MULTILINE), name
        if "default" in field:
            assert settings[name] == field["default"], "the example shows the defaults"
    # What is commented out, from a key to the end of its paragraph, is valid as well.
    blocks = re.compile(
        r"^# (?:agents|agent_aliases|limits|costs|worktree|notifications|secrets|mask_env):.*\n"
        r"(?:#.*\n)*",
        re.MULTILINE,
    )
    whole, count = blocks.subn(lambda found: re.sub(r"(?m)^# ", "", found[0]), text)
    assert count == 8
    empty.write(HERE, whole)
    shown = empty.run("config", "show", "--json").json()["settings"]
    assert set(shown) == set(schema["properties"])


FAILS = 'version: "1.1"\nsteps: [{name: Bad, command: ["false"]}]\n'
FAULTY = "notifications: [{command: [a], webhook: 'http://localhost'}]\n"


@pytest.mark.parametrize("fault", [FAULTY, "nonsense: 1\n", "a: [\n", FAULTY + "state_dir: here\n"])
def test_commands_that_only_look_go_on_with_a_note(tmp_path: Path, fault: str) -> None:
    project = Project(tmp_path, {"w.yaml": FAILS})
    where = ("--state-dir", "here") if "state_dir" in fault else ()
    project.run("run", "w.yaml", *where).assert_exit(1)
    project.write(".orchestrate/config.yaml", fault)
    for words in (["runs"], ["status", "latest"], ["logs", "latest"], ["approvals"],
                  ["report", "latest", "--format", "md"], ["plan", "--run", "latest"]):  # fmt: skip
        told = project.run(*words).assert_success()
        assert told.stderr.count("the configuration is ignored: ") == 1, words
        assert ".orchestrate/config.yaml:1" in told.stderr
        assert told.stdout
    assert "w.yaml" in project.run("runs").stdout
    project.run("wait", "latest").assert_exit(1)
    for words in (["run", "w.yaml"], ["resume", "latest"], ["clean", "--older-than", "0s"]):
        refused = project.run(*words).assert_exit(5)
        assert "ignored" not in refused.stderr
    assert "w.yaml" in project.run("runs").stdout, "nothing was removed"


@pytest.mark.parametrize("fault", ["state_dir: 7\n", "state_dir: x\na: [\n", "state_dir: ''\n"])
def test_where_runs_are_must_be_told(tmp_path: Path, fault: str) -> None:
    project = Project(tmp_path, {"w.yaml": FAILS, ".orchestrate/config.yaml": fault})
    refused = project.run("runs").assert_exit(5)
    assert ".orchestrate/config.yaml" in refused.stderr
    there = project.run("runs", "--state-dir", "there").assert_success()
    assert "ignored" in there.stderr
