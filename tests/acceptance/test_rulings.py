"""Rulings §1 to §5 from outside."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from orchestrate.testing import Project

MACHINE = """
    id: one
    label: One
    description: One step
    initialStep: a
    steps:
      a:
        prompt: {prompt}
        outcomes: [done, other]
        onOutcome:
          done: {{action: exit, reason: finished}}
          other: {{action: exit, reason: user-provided-other}}
"""
PLAIN_MACHINE = MACHINE.format(prompt="Do it.")
RECIPE = """
    name: r
    description: A recipe
    version: 1.0.0
    steps:
      - {id: a, agent: reviewer, prompt: Look}
"""
STAGED = """
    name: r
    description: A recipe
    version: 1.0.0
    stages:
      - {name: only, steps: [{id: a, agent: reviewer, prompt: Look}]}
"""
WORKFLOW = """
    version: "1.1"
    steps:
      - {name: A, command: ["echo", "hi"]}
"""


def test_r1_1_three_dialects_lower_to_one_kind_of_plan(tmp_path: Path) -> None:
    project = Project(tmp_path)
    for name, text in (("m", PLAIN_MACHINE), ("r", RECIPE), ("w", WORKFLOW)):
        project.write(f"{name}.yaml", text)
        plan = project.run("plan", f"{name}.yaml", "--format", "json").assert_success().json()
        node = plan["plans"][0]["blocks"][0]["nodes"][0]
        assert node["op"]["kind"] in ("ask", "run")
        assert node["routes"]


@pytest.mark.parametrize(
    ("text", "dialect"),
    [(PLAIN_MACHINE, "machine"), (RECIPE, "recipe"), (STAGED, "recipe"), (WORKFLOW, "workflow")],
)
def test_r1_2_dialect_is_the_shape(tmp_path: Path, text: str, dialect: str) -> None:
    # The name promises another dialect each time; it must not matter.
    project = Project(tmp_path, {"machine.yaml": text, "recipe.yaml": text, "workflow.yaml": text})
    files = project.validate("machine.yaml", "recipe.yaml", "workflow.yaml").json()["files"]
    assert [file["dialect"] for file in files] == [dialect] * 3


@pytest.mark.parametrize("text", ["steps: []", "a: 1", "steps: text", "[1, 2]", "just text", "7"])
def test_r1_2_other_shapes_name_the_three(tmp_path: Path, text: str) -> None:
    result = Project(tmp_path, {"x.yaml": text}).run("validate", "x.yaml").assert_exit(2)
    shown = result.stdout + result.stderr
    assert "E030" in shown
    for word in ("initialStep", "stages", "`id`", "`name`"):
        assert word in shown


def test_r1_2_json_is_accepted(tmp_path: Path) -> None:
    document = {"version": "1.1", "steps": [{"name": "A", "command": ["echo", "\U0001f600"]}]}
    project = Project(tmp_path, {"w.json": json.dumps(document, indent="\t")})
    project.run("validate", "w.json").assert_success()


def test_r1_3_paths_resolve_against_workspace_or_file(tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        {
            "deep/m.yaml": MACHINE.format(prompt="{$include: texts/p.md}"),
            "deep/texts/p.md": "From beside the file.",
        },
    )
    project.run("validate", "deep/m.yaml").assert_success()
    plan = project.run("plan", "deep/m.yaml", "--format", "json").json()
    assert "From beside the file." in json.dumps(plan)
    elsewhere = tmp_path / "deep"
    Project(elsewhere).run("validate", "m.yaml").assert_success()
    Project(tmp_path / "deep" / "texts").run(
        "validate", "../m.yaml", "--working-dir", str(tmp_path)
    ).assert_success()


def composed(project: Project, name: str = "w.yaml") -> dict[str, object]:
    plan = project.run("plan", name, "--format", "json").assert_success().json()
    context = plan["plans"][0]["context"]
    result: dict[str, object] = json.loads(json.dumps(context))
    return result


def context_of(tmp_path: Path, files: dict[str, str], authored: str) -> str:
    """The plan's context (as JSON text) for an authored `context:`."""
    text = 'version: "1.1"\nsteps: [{name: A, command: [a]}]\ncontext: ' + authored + "\n"
    project = Project(tmp_path, {**files, "w.yaml": text})
    return json.dumps(composed(project))


@pytest.mark.parametrize("word", ["$include", "$ref"])
def test_r2_1_merge_patch(tmp_path: Path, word: str) -> None:
    files = {
        "base.yaml": "a: 1\nb: {c: 2, d: 3}\nlist: [1, 2]\ngone: x\n",
        "over.yaml": "b: {d: 4}\nfresh: yes\n",
        "plain.yaml": "a: 10\nb: {c: 2, d: 4, e: 5}\nlist: [3]\nfresh: yes\n",
    }
    authored = f"{{{word}: [base.yaml, over.yaml], a: 10, b: {{e: 5}}, list: [3], gone: null}}"
    got = context_of(tmp_path, files, authored)
    want = context_of(tmp_path, files, "{a: 10, b: {c: 2, d: 4, e: 5}, list: [3], fresh: yes}")
    assert json.loads(got) == json.loads(want)


def test_r2_2_pointers_text_and_splicing(tmp_path: Path) -> None:
    files = {
        "lib.yaml": "parts:\n  one: {x: 1}\n  'a/b': {y: 2}\nlist: [2, 3]\n",
        "note.txt": "Two\nlines\n",
    }
    got = context_of(
        tmp_path,
        files,
        "{one: {$include: 'lib.yaml#/parts/one'}, two: {$include: 'lib.yaml#/parts/a~1b'},"
        " text: {$include: note.txt}, list: [1, {$include: 'lib.yaml#/list'}, 4],"
        " here: {$include: '#/context/own'}, own: {z: 3}}",
    )
    want = context_of(
        tmp_path,
        files,
        '{one: {x: 1}, two: {y: 2}, text: "Two\\nlines\\n", list: [1, 2, 3, 4],'
        " here: {z: 3}, own: {z: 3}}",
    )
    assert json.loads(got) == json.loads(want)


@pytest.mark.parametrize(
    ("authored", "code"),
    [
        ("{$include: note.txt, more: 1}", "E024"),
        ("{$include: [note.txt, base.yaml]}", "E024"),
        ("{$include: 'note.txt#/a'}", "E024"),
        ("{$include: 'base.yaml#/nope'}", "E023"),
        ("{$include: 'base.yaml#nope'}", "E023"),
        ("{$include: missing.yaml}", "E020"),
        ("{$include: base.toml}", "E024"),
        ("{$include: 5}", "E024"),
        ("{$include: []}", "E024"),
        ("{$include: base.yaml, $ref: base.yaml}", "E024"),
        ("{list: {$include: list.yaml, more: 1}}", "E025"),
    ],
)
def test_r2_2_forms_that_have_no_meaning(tmp_path: Path, authored: str, code: str) -> None:
    text = 'version: "1.1"\nsteps: [{name: A, command: [a]}]\ncontext: ' + authored + "\n"
    files = {
        "note.txt": "x",
        "base.yaml": "a: 1",
        "list.yaml": "[1]",
        "base.toml": "",
        "w.yaml": text,
    }
    assert Project(tmp_path, files).validate("w.yaml").assert_exit(2).codes() == [code]


def test_r2_3_cycles_print_the_chain(tmp_path: Path) -> None:
    text = 'version: "1.1"\nsteps: [{name: A, command: [a]}]\ncontext: {$include: a.yaml}\n'
    files = {"w.yaml": text, "a.yaml": "x: {$include: b.yaml}", "b.yaml": "y: {$include: a.yaml}"}
    result = Project(tmp_path, files).run("validate", "w.yaml").assert_exit(2)
    assert "a.yaml → b.yaml → a.yaml" in result.stdout


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("../outside.yaml", "E022"),
        ("link.yaml", "E022"),
        ("folder/outside.yaml", "E022"),
        ("https://example.org/x.yaml", "E024"),
        ("file:///etc/passwd", "E024"),
    ],
)
def test_r2_3_nothing_outside_the_workspace(tmp_path: Path, target: str, code: str) -> None:
    inside = tmp_path / "inside"
    text = (
        f'version: "1.1"\nsteps: [{{name: A, command: [a]}}]\ncontext: {{$include: "{target}"}}\n'
    )
    project = Project(inside, {"w.yaml": text})
    (tmp_path / "outside.yaml").write_text("a: 1")
    os.symlink(tmp_path / "outside.yaml", inside / "link.yaml")
    os.symlink(tmp_path, inside / "folder")
    assert project.validate("w.yaml").assert_exit(2).codes() == [code]


def test_r2_3_the_catalogue_includes_from_the_package(tmp_path: Path) -> None:
    Project(tmp_path).run("validate", "review-and-commit").assert_success()


def test_r2_4_errors_point_into_the_included_file(tmp_path: Path) -> None:
    files = {
        "m.yaml": MACHINE.format(prompt="Do it.").replace(
            "other: {action: exit, reason: user-provided-other}", "other: {$include: other.yaml}"
        ),
        "other.yaml": "# a comment\naction: exitt\nreason: x\n",
    }
    result = Project(tmp_path, files).validate("m.yaml").assert_exit(1)
    finding = result.json()["files"][0]["diagnostics"][0]
    assert (finding["file"], finding["line"], finding["column"]) == ("other.yaml", 2, 9)


def test_r2_4_checksums_cover_every_file(tmp_path: Path) -> None:
    files = {"m.yaml": MACHINE.format(prompt="{$include: p.md}"), "p.md": "Do it."}
    project = Project(tmp_path, files)
    before = project.run("plan", "m.yaml", "--format", "json").assert_success().json()["files"]
    assert [Path(file["path"]).name for file in before] == ["m.yaml", "p.md"]
    project.write("p.md", "Do it well.")
    after = project.run("plan", "m.yaml", "--format", "json").json()["files"]
    assert [a["sha256"] == b["sha256"] for a, b in zip(after, before, strict=True)] == [True, False]


BILLION_LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join(['*' + a] * 10)}]\n" for a, b in ("ab", "bc", "cd", "de", "ef", "fg")
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: 1\na: 2\nsteps: {}", "E007"),
        ("a: !custom 1", "E009"),
        ("a: &a [*a]", "E010"),
        ("a: {<<: {b: 1}}", "E008"),
        ("[" * 200 + "]" * 200, "E011"),
        (BILLION_LAUGHS, "E012"),
    ],
)
def test_r3_1_hostile_yaml(tmp_path: Path, text: str, code: str) -> None:
    result = Project(tmp_path, {"x.yaml": text}).validate("x.yaml")
    assert result.exit_code in (1, 2)
    assert code in result.codes()


def test_r3_1_too_large(tmp_path: Path) -> None:
    project = Project(tmp_path, {"x.yaml": "# " + "x" * (10 * 1024 * 1024)})
    assert project.validate("x.yaml").assert_exit(2).codes() == ["E003"]


def test_r3_2_on_is_a_string(tmp_path: Path) -> None:
    text = WORKFLOW.replace('["echo", "hi"]}', '["echo", "hi"], on: {failure: {goto: _end}}}')
    Project(tmp_path, {"w.yaml": text}).run("validate", "w.yaml").assert_success()


def test_r3_3_version_as_a_float(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": WORKFLOW.replace('"1.1"', "1.1")})
    result = project.run("validate", "w.yaml").assert_exit(2)
    assert 'version: "1.1"' in result.stdout


def test_r3_3_command_as_a_string(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": WORKFLOW.replace('["echo", "hi"]', '"echo hi"')})
    result = project.run("validate", "w.yaml").assert_exit(2)
    assert "command: [" in result.stdout


def test_r3_4_all_errors_with_line_caret_and_suggestion(tmp_path: Path) -> None:
    text = """
        version: "1.1"
        steps:
          - name: Fetch
            comand: ["true"]
          - name: Use
            command: ["echo", "${steps.Fecth.output}"]
            on: {failure: {goto: Fetsh}}
    """
    result = Project(tmp_path, {"w.yaml": text}).run("validate", "w.yaml").assert_exit(2)
    lines = result.stdout.splitlines()
    heads = [line for line in lines if line.startswith("w.yaml:")]
    assert [head.split(" ")[0] for head in heads] == ["w.yaml:4:5:", "w.yaml:6:24:", "w.yaml:7:26:"]
    for head, near in zip(heads, ("command", "Fetch", "Fetch"), strict=True):
        assert f"(did you mean '{near}'?)" in head
    caret = lines[lines.index(heads[1]) + 2]
    source = lines[lines.index(heads[1]) + 1]
    assert source[caret.index("^") : caret.rindex("^") + 1] == "${steps.Fecth.output}"


def test_r4_1_finished(tmp_path: Path) -> None:
    project = Project(tmp_path, {"m.yaml": PLAIN_MACHINE})
    for command in (["validate", "m.yaml"], ["plan", "m.yaml"], ["list"], ["schema", "machine"]):
        project.run(*command).assert_exit(0)
    project.run("run", "m.yaml", "--dry-run").assert_exit(0)


@pytest.mark.parametrize("command", [["validate"], ["plan"], ["run", "--dry-run"]])
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (PLAIN_MACHINE.replace("initialStep: a", "initialStep: b"), 1),
        (RECIPE.replace("version: 1.0.0", ""), 2),
        (WORKFLOW.replace("command:", "comand:"), 2),
        ("not: a recipe", 2),
    ],
)
def test_r4_2_an_invalid_definition(
    tmp_path: Path, command: list[str], text: str, code: int
) -> None:
    Project(tmp_path, {"x.yaml": text}).run(*command, "x.yaml").assert_exit(code)


def test_r4_2_several_files(tmp_path: Path) -> None:
    bad_machine = PLAIN_MACHINE.replace("initialStep: a", "initialStep: b")
    files = {"m.yaml": bad_machine, "w.yaml": WORKFLOW, "x.yaml": "a: 1"}
    project = Project(tmp_path, files)
    project.run("validate", "m.yaml", "w.yaml").assert_exit(1)
    project.run("validate", "m.yaml", "w.yaml", "x.yaml").assert_exit(2)


@pytest.mark.parametrize(
    "command",
    [
        ["validate"],
        ["validate", "--nope", "x"],
        ["nope"],
        ["plan"],
        ["validate", "missing.yaml"],
        ["plan", "missing.yaml"],
        ["run", "missing", "--dry-run"],
        ["schema", "nope"],
        ["plan", "m.yaml", "--format", "nope"],
        ["run", "m.yaml", "--dry-run", "--max-steps", "0"],
        ["run", "m.yaml", "--dry-run", "--max-steps", "many"],
    ],
)
def test_r4_3_bad_usage(tmp_path: Path, command: list[str]) -> None:
    Project(tmp_path, {"m.yaml": PLAIN_MACHINE}).run(*command).assert_exit(2)


def test_r4_4_an_unknown_agent(tmp_path: Path) -> None:
    project = Project(tmp_path, {"m.yaml": PLAIN_MACHINE})
    result = project.run("run", "m.yaml", "--dry-run", "--backend", "cluade-code").assert_exit(5)
    assert "claude-code" in result.stderr


def test_r5_1_where_ids_are_looked_up(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert "Retrospective" in project.run("run", "retrospective", "--dry-run").stdout
    for folder, label in ((".orchestrate/recipes", "Second"), ("workflows", "First")):
        text = PLAIN_MACHINE.replace("label: One", f"label: {label}")
        project.write(f"{folder}/retrospective.yaml", text)
        shown = project.run("run", "retrospective", "--dry-run").assert_success().stdout
        assert f"Label: {label}" in shown


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("w.yaml", ["--max-restarts", "2"]),
        ("m.yaml", ["--max-parallel", "2"]),
        ("r.yaml", ["--on-error", "continue"]),
        ("r.yaml", ["--max-retries", "2"]),
        ("m.yaml", ["--context", "a=b"]),
        ("m.yaml", ["--on-error", "stop"]),
    ],
)
def test_r5_2_flags_that_cannot_apply(tmp_path: Path, name: str, flags: list[str]) -> None:
    project = Project(tmp_path, {"m.yaml": PLAIN_MACHINE, "r.yaml": RECIPE, "w.yaml": WORKFLOW})
    result = project.run("run", name, "--dry-run", *flags).assert_exit(2)
    assert flags[0] in result.stderr


def test_r5_3_context_precedence_and_types(tmp_path: Path) -> None:
    text = WORKFLOW + "    context: {a: file, b: file, c: file, n: 1}\n"
    project = Project(tmp_path, {"w.yaml": text, "c.json": '{"b": {"x": [1, true]}, "c": 2}'})
    result = project.run(
        "run", "w.yaml", "--dry-run", "--json",
        "--context-file", "c.json", "--context", "c=3", "--context", "d=x=y",
    ).assert_success()  # fmt: skip
    context = json.dumps(result.json()["program"]["plans"][0]["context"])
    same = WORKFLOW + '    context: {a: file, b: {x: [1, true]}, c: "3", n: 1, d: "x=y"}\n'
    project.write("same.yaml", same)
    expected = project.run("run", "same.yaml", "--dry-run", "--json").json()
    want = expected["program"]["plans"][0]["context"]
    assert sorted(json.dumps(i) for i in json.loads(context)["items"]) == sorted(
        json.dumps(i) for i in want["items"]
    )


@pytest.mark.parametrize(
    "command",
    [
        ["validate", "m.yaml", "--json"],
        ["validate", "bad.yaml", "--json"],
        ["list", "--json"],
        ["run", "m.yaml", "--dry-run", "--json"],
        ["plan", "m.yaml", "--format", "json"],
        ["validate", "m.yaml", "--format", "sarif"],
    ],
)
def test_r5_4_json_is_exactly_one_document(tmp_path: Path, command: list[str]) -> None:
    files = {"m.yaml": PLAIN_MACHINE, "bad.yaml": "a: ["}
    result = Project(tmp_path, files).run(*command)
    assert isinstance(result.json(), dict | list)


def test_r5_4_answers_and_the_rest(tmp_path: Path) -> None:
    warned = WORKFLOW.replace('"hi"', '"${context.who}"')
    project = Project(tmp_path, {"w.yaml": warned, "bad.yaml": "a: ["})
    plan = project.run("plan", "w.yaml").assert_success()
    assert "W103" in plan.stderr
    assert "W103" not in plan.stdout
    failed = project.run("plan", "bad.yaml").assert_exit(2)
    assert failed.stdout == ""
    assert "E006" in failed.stderr
    for result in (plan, failed):
        assert "\x1b" not in result.stdout + result.stderr


def test_r5_5_nothing_is_written(tmp_path: Path) -> None:
    project = Project(tmp_path, {"m.yaml": PLAIN_MACHINE, "w.yaml": WORKFLOW})
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    for command in (["validate", "m.yaml", "w.yaml"], ["plan", "w.yaml"], ["list"]):
        project.run(*command).assert_success()
    project.run("run", "w.yaml", "--dry-run").assert_success()
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
