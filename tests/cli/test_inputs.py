"""Inputs: what a run is told, in every dialect, from the command line to the state."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrate.app.given import inputs
from orchestrate.testing import Project

MACHINE = """
    id: build
    label: Build
    description: Build a thing
    inputs:
      task: {description: What to build}
      rounds: {type: integer, default: 3, minimum: 1}
    initialStep: work
    steps:
      work:
        prompt: "Do {{task}} in {{rounds}} rounds, not \\\\{{task}}"
        outcomes: [complete, other]
        onOutcome:
          complete: {action: exit, reason: done}
          other: {action: exit, reason: user-provided-other}
    """
RECIPE = """
    name: build
    description: Build a thing
    version: "1.0.0"
    inputs:
      task: {description: What to build}
      rounds: {type: integer, default: 3, minimum: 1}
    steps:
      - {id: work, agent: builder, prompt: "Do {{task}} in {{rounds}} rounds, not \\\\{{task}}"}
    """
WORKFLOW = """
    version: "1.4"
    name: build
    inputs:
      task: {description: What to build}
      rounds: {type: integer, default: 3, minimum: 1}
    steps:
      - name: work
        command: ["echo", "Do ${inputs.task} in ${inputs.rounds} rounds, not {{task}}"]
    """
DIALECTS = {"machine": MACHINE, "recipe": RECIPE, "workflow": WORKFLOW}


@pytest.fixture(params=DIALECTS)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    project = Project(tmp_path, {"f.yaml": DIALECTS[request.param]})
    project.write(".orchestrate/agents/builder.md", "---\nname: builder\n---\nYou build.\n")
    return project


HINT = '  hint: give -i task=…; task can be the text after the file, too: run FILE "TEXT"'


def _flags(project: Project) -> list[str]:
    is_workflow = 'version: "1.4"' in (project.folder / "f.yaml").read_text()
    return [] if is_workflow else ["--backend", "rehearsal"]


def _said(project: Project) -> str:
    """What the step was told."""
    logs = project.folder / ".orchestrate/runs/latest/logs"
    prompts = sorted(logs.glob("work*.prompt.txt"))
    if prompts:
        return prompts[-1].read_text()
    state = json.loads((logs.parent / "state.json").read_text())
    return str(state["steps"]["work"]["output"])


def test_text_and_flags_reach_the_step(project: Project) -> None:
    project.run("run", "f.yaml", "a wall", "-i", "rounds=5", *_flags(project)).assert_success()
    assert _said(project).startswith("Do a wall in 5 rounds, not {{task}}")
    state = json.loads((project.folder / ".orchestrate/runs/latest/state.json").read_text())
    assert state["context"] == {"task": "a wall", "rounds": 5}


def test_values_of_a_file_keep_their_types(project: Project) -> None:
    project.write("in.yaml", "task: a wall\nrounds: 7\n")
    flags = ("--inputs-file", "in.yaml", *_flags(project))
    project.run("run", "f.yaml", *flags, "-i", "task=a door").assert_success()
    assert _said(project).startswith("Do a door in 7 rounds")
    project.write("in.yaml", "rounds: many\n")
    said = project.run("run", "f.yaml", "x", *flags).assert_exit(2).stderr
    assert "the input 'rounds': 'many' is not a whole number" in said


def test_a_value_is_never_read_as_a_template(project: Project) -> None:
    project.run("run", "f.yaml", "{{rounds}} ${run.id}", *_flags(project)).assert_success()
    assert _said(project).startswith("Do {{rounds}} ${run.id} in 3")


def test_everything_that_is_missing_is_named_at_once(project: Project) -> None:
    said = project.run("run", "f.yaml", *_flags(project)).assert_exit(2).stderr
    assert "an input has no value: task (What to build)" in said
    assert "give -i task=…" in said
    assert not (project.folder / ".orchestrate/runs").exists()


def test_what_is_wrong_and_what_is_missing_are_told_in_one_go(project: Project) -> None:
    flags = ("-i", "rounds=x", *_flags(project))
    said = project.run("run", "f.yaml", *flags).assert_exit(2).stderr
    assert said.splitlines() == [
        "orchestrate: 2 inputs are wrong or missing",
        "  the input 'rounds': 'x' is not a whole number",
        "  the input 'task' has no value (What to build)",
        HINT,
    ]
    assert not (project.folder / ".orchestrate/runs").exists()
    # A wrong value is not missing, too, and one that stands over it mends it.
    project.write("in.yaml", "task: 5\n")
    said = project.run("run", "f.yaml", *flags, "--inputs-file", "in.yaml").assert_exit(2).stderr
    assert said.splitlines() == [
        "orchestrate: 2 inputs cannot be taken",
        "  the input 'task': '5' is not a text (What to build)",
        "  the input 'rounds': 'x' is not a whole number",
    ]
    right = ("--inputs-file", "in.yaml", "-i", "task=y", "--dry-run", *_flags(project))
    project.run("run", "f.yaml", *right).assert_success()


@pytest.mark.parametrize("value", ["null", "true", '["a", null]'])
def test_a_value_is_told_as_files_have_it(tmp_path: Path, value: str) -> None:
    project = Project(tmp_path, {"f.yaml": typed("type: integer"), "in.yaml": f"x: {value}\n"})
    said = project.run("run", "f.yaml", "--inputs-file", "in.yaml").assert_exit(2).stderr
    assert f"the input 'x': '{value}' is not a whole number" in said


def test_a_secret_that_is_wrong_is_told_with_the_others(tmp_path: Path) -> None:
    text = """
        version: "1.4"
        inputs:
          task: {description: What to build}
          token: {secret: true, pattern: "s-.*", description: From the settings page}
          where: {type: path, default: no/such/place}
        steps: [{name: One, command: [echo, "${inputs.task} ${inputs.token} ${inputs.where}"]}]
    """
    project = Project(tmp_path, {"f.yaml": text})
    said = project.run("run", "f.yaml").assert_exit(2).stderr
    assert said.splitlines() == [
        "orchestrate: 3 inputs are wrong or missing",
        "  the input 'where': its default does not exist (give another: -i where=…)",
        "  the input 'task' has no value (What to build)",
        "  the input 'token' has no value (From the settings page)",
        f"{HINT}; set ORCHESTRATE_INPUT_TOKEN in the environment",
    ]
    given = {"ORCHESTRATE_INPUT_TOKEN": "wrong"}
    said = project.run("run", "f.yaml", env=given).assert_exit(2).stderr
    assert "_TOKEN does not match s-.* (From the settings page; set another value)" in said
    assert "the input 'task' has no value (What to build)" in said


def test_a_dry_run_shows_what_is_missing(project: Project) -> None:
    said = project.run("run", "f.yaml", "--dry-run", *_flags(project)).assert_success().stdout
    assert "task: missing" in said
    assert "(What to build)" in said
    assert "rounds: 3" in said


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("x", "-i", "task=y"), "the input 'task' is given twice"),
        (("x", "-i", "rounds=0"), "the input 'rounds': '0' is less than 1"),
        (("x", "-i", "rounds=1.5"), "the input 'rounds': '1.5' is not a whole number"),
        (("x", "-i", "round=1"), "there is no input 'round' (did you mean 'rounds'?)"),
        (("x", "-i", "rounds"), "-i 'rounds' is not KEY=VALUE"),
    ],
)
def test_a_wrong_value_is_refused_before_anything_starts(
    project: Project, words: tuple[str, ...], fault: str
) -> None:
    said = project.run("run", "f.yaml", *words, *_flags(project)).assert_exit(2).stderr
    assert fault in said
    assert not (project.folder / ".orchestrate/runs").exists()


def test_an_input_is_no_context_variable(project: Project) -> None:
    said = project.run("run", "f.yaml", "--context", "task=x", *_flags(project)).assert_exit(2)
    assert "'task' is an input" in said.stderr or "cannot be used with a machine" in said.stderr


def test_describe_and_list_name_the_inputs(project: Project) -> None:
    text = project.run("describe", "f.yaml").assert_success().stdout
    assert "  task, string, required: What to build\n" in text
    assert "  rounds, integer, default 3, at least 1\n" in text
    assert text.endswith('orchestrate run f.yaml "…"\n')
    data = project.run("describe", "f.yaml", "--json").assert_success().json()
    assert [(one["name"], one["required"], one["default"]) for one in data["inputs"]] == [
        ("task", True, None),
        ("rounds", False, 3),
    ]
    assert data["outputs"] == {}
    project.write("workflows/f.yaml", (project.folder / "f.yaml").read_text())
    assert "[task, rounds]" in project.run("list").assert_success().stdout


def test_describe_says_what_a_recipe_gives(project: Project) -> None:
    text = (project.folder / "f.yaml").read_text() + "outputs: {built: '{{task}}'}\n"
    project.write("g.yaml", text)
    assert "\nOutputs:\n  built: {{task}}\n" in project.run("describe", "g.yaml").stdout
    shown = project.run("describe", "g.yaml", "--json").assert_success().json()
    assert shown["outputs"] == {"built": "{{task}}"}


def test_a_text_needs_an_input(tmp_path: Path) -> None:
    project = Project(tmp_path, {"f.yaml": MACHINE.replace("{{task}} in {{rounds}}", "it in")})
    text = (tmp_path / "f.yaml").read_text()
    start, end = text.index("inputs:"), text.index("initialStep")
    (tmp_path / "f.yaml").write_text(text[:start] + text[end:])
    said = project.run("run", "f.yaml", "a wall", "--backend", "rehearsal").assert_exit(2).stderr
    assert "'a wall' is given as an input, and the file declares none" in said


@pytest.fixture
def secret(tmp_path: Path) -> Project:
    """A workflow that prints a secret input and then fails."""
    return Project(
        tmp_path,
        {
            "f.yaml": """
            version: "1.4"
            inputs: {token: {secret: true}, to: nobody}
            steps:
              - {name: Tell, command: [sh, -c, "echo ${inputs.token} > got; echo ${inputs.token}"]}
              - {name: Wait, command: [sh, -c, "test -e go && echo ${inputs.token} ${inputs.to}"]}
            """
        },
    )


def test_a_dry_run_shows_whether_a_secret_is_there(secret: Project) -> None:
    told = secret.run("run", "f.yaml", "--dry-run").assert_success().stdout
    assert "    token: missing: set ORCHESTRATE_INPUT_TOKEN in the environment\n" in told
    assert "  Secrets: ORCHESTRATE_INPUT_TOKEN (not set)\n" in told
    given = {"ORCHESTRATE_INPUT_TOKEN": "s3cret-value-of-mine"}
    told = secret.run("run", "f.yaml", "--dry-run", env=given).assert_success().stdout
    assert "    token: secret, from ORCHESTRATE_INPUT_TOKEN\n" in told
    assert "not set" not in told


def test_a_secret_is_used_and_kept_nowhere(secret: Project) -> None:
    given = {"ORCHESTRATE_INPUT_TOKEN": "s3cret-value-of-mine"}
    secret.run("run", "f.yaml", env=given).assert_exit(1)
    assert (secret.folder / "got").read_text() == "s3cret-value-of-mine\n"
    run = secret.folder / ".orchestrate/runs/latest"
    kept = [file for file in run.resolve().rglob("*") if file.is_file()]
    assert not [file for file in kept if b"s3cret-value-of-mine" in file.read_bytes()]
    (secret.folder / "go").touch()
    secret.run("resume", "latest").assert_exit(5)
    secret.run("resume", "latest", "-i", "to=me", env=given).assert_success()
    state = json.loads((run / "state.json").read_text())
    assert state["steps"]["Wait"]["output"] == "*** me\n"


@pytest.mark.parametrize("words", [("-i", "token=x"), ("x",)])
def test_a_secret_cannot_stand_on_the_command_line(secret: Project, words: tuple[str, ...]) -> None:
    said = secret.run("run", "f.yaml", *words).assert_exit(2).stderr
    assert "is a secret" in said
    assert "ORCHESTRATE_INPUT_TOKEN" in said


TYPED = """
    version: "1.4"
    inputs:
      x: {{{declaration}}}
    steps:
      - name: Show
        command: [{program}"${{inputs.x}}"]
    """


def typed(declaration: str) -> str:
    """A workflow that shows its input; a command cannot be a part of another (E127), so it runs."""
    program = "" if declaration == "type: command" else '"echo", '
    return TYPED.format(declaration=declaration, program=program)


@pytest.mark.parametrize(
    ("declaration", "text", "value"),
    [
        ("type: integer", "-4", "-4"),
        ("type: number", "1.50", "1.5"),
        ("type: boolean", "TRUE", "true"),
        ("type: list", '["a", 1]', '["a",1]'),
        ("type: object", '{"k": null}', '{"k":null}'),
        ("type: path", "sub/../sub/f", "sub/f"),
        ("type: command", "echo 'my  test'", "my  test"),
        ("type: command", '["echo", "my  test"]', "my  test"),
        ("enum: [low, high]", "low", "low"),
        ('pattern: "[a-z]+"', "abc", "abc"),
    ],
)
def test_each_type_is_read_from_a_text(
    tmp_path: Path, declaration: str, text: str, value: str
) -> None:
    project = Project(tmp_path, {"f.yaml": typed(declaration), "sub/f": "x"})
    project.run("run", "f.yaml", "-i", f"x={text}").assert_success()
    state = json.loads((tmp_path / ".orchestrate/runs/latest/state.json").read_text())
    assert state["steps"]["Show"]["output"] == value + "\n"


@pytest.mark.parametrize(
    ("declaration", "fault"),
    [
        ("type: path, default: gone", "its default does not exist"),
        ("type: path, default: ../x", "its default is not in the workspace"),
        ('default: ABC, pattern: "[a-z]+"', "its default does not match [a-z]+"),
        ('secret: true, pattern: "[a-z]+"', "what is in ORCHESTRATE_INPUT_X does not match"),
        ("secret: true, minimum: 20", "what is in ORCHESTRATE_INPUT_X is less than 20 long"),
        ("secret: true, enum: [other-value]", "is not one of"),
    ],
)
def test_defaults_and_secrets_are_held_against_their_declaration(
    tmp_path: Path, declaration: str, fault: str
) -> None:
    """What nobody has typed must fit, too; a secret's value is not shown."""
    project = Project(tmp_path, {"f.yaml": typed(declaration)})
    given = {"ORCHESTRATE_INPUT_X": "My-S3cret"}
    said = project.run("run", "f.yaml", env=given).assert_exit(2).stderr
    assert fault in said
    assert "My-S3cret" not in said
    assert not (tmp_path / ".orchestrate" / "runs" / "latest").is_symlink()


def test_a_default_path_starts_at_the_workspace_and_an_empty_one_means_none(
    tmp_path: Path,
) -> None:
    declared = 'type: path, default: sub/f, pattern: "sub/.*"'
    project = Project(tmp_path, {"f.yaml": typed(declared), "sub/f": "x"})
    project.run("run", "f.yaml").assert_success()
    project.write("f.yaml", typed('type: path, default: ""'))
    project.run("run", "f.yaml", "").assert_success()
    assert project.latest_state["steps"]["Show"]["output"] == "\n"


def test_an_input_that_nothing_reads_is_named_as_one(tmp_path: Path) -> None:
    text = typed("minimum: 0")
    project = Project(tmp_path, {"f.yaml": text.replace("${inputs.x}", "fixed")})
    assert "warning: input: nothing here reads 'x'" in project.run("run", "f.yaml", "a").stderr
    project.write("f.yaml", text.replace("${inputs.x}", "f") + 'outputs: {x: "${inputs.x}"}\n')
    assert "nothing here reads" not in project.run("run", "f.yaml", "a").assert_success().stderr


@pytest.mark.parametrize(
    ("declaration", "text", "fault"),
    [
        ("type: number", "nan", "is not a number"),
        ("type: integer", "1_000", "is not a whole number"),
        ("type: integer", "٣", "is not a whole number"),
        ("type: number", " 1", "is not a number"),
        ("type: path", "", "is not a path"),
        ("type: boolean", "yes", "is neither true nor false"),
        ("type: list", "a,b", "is not JSON"),
        ("type: list", '{"a": 1}', "is not a list"),
        ("type: object", "[]", "is not a mapping"),
        ("type: path", "/etc/passwd", "is not in the workspace"),
        ("type: path", "gone", "does not exist"),
        ("type: command", "make 'x", "has a quote that is not closed"),
        ("enum: [low, high]", "mid", 'is not one of "low", "high"'),
        ('pattern: "[a-z]+"', "a1", "does not match [a-z]+"),
        ("maximum: 3", "four", "is more than 3 long"),
        ('pattern: "(a+)+b"', "a" * 40, "could not be held against (a+)+b within 0.5 s"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, declaration: str, text: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert inputs._MATCH_S == 5.0
    monkeypatch.setattr(inputs, "_MATCH_S", 0.5)
    project = Project(tmp_path, {"f.yaml": typed(declaration)})
    assert fault in project.run("run", "f.yaml", text).assert_exit(2).stderr
