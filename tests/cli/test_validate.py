"""`orchestrate validate` as its users and their programs see it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from orchestrate.testing import Project
from tests.cli.conftest import MISTAKE

ALL = ("workflows/tidy.yaml", "workflows/look.yaml", "workflows/words.yaml")


def test_valid_files_are_named_with_dialect_and_steps(project: Project) -> None:
    result = project.run("validate", *ALL)
    assert result.exit_code == 0, result
    assert result.stdout.splitlines() == [
        "workflows/tidy.yaml: valid machine (2 steps)",
        "workflows/look.yaml: valid recipe (2 steps)",
        "workflows/words.yaml: valid workflow (4 steps, 2 more in loops)",
        "nothing to report in 3 files",
    ]
    assert result.stderr == ""


def test_mistake_is_drawn_with_caret_and_suggestion(project: Project) -> None:
    result = project.run("validate", "broken/tidy.yaml")
    assert result.exit_code == 1
    line = MISTAKE.splitlines().index("      complete: {nextStep: chek}") + 1
    assert result.stdout.startswith(f"broken/tidy.yaml:{line}:28: error E203: ")
    assert "(did you mean 'check'?)" in result.stdout
    drawn = result.stdout.splitlines()
    assert drawn[1] == f"{line:>5} |       complete: {{nextStep: chek}}"
    assert drawn[2] == "      |" + " " * 28 + "^^^^"
    assert "1 error" in drawn[-1]
    assert drawn[-1].endswith("in 1 file")


@pytest.mark.parametrize(
    ("files", "code"),
    [
        (["workflows/tidy.yaml"], 0),
        (["broken/tidy.yaml"], 1),
        (["broken/look.yaml"], 2),
        (["broken/words.yaml"], 2),
        (["broken/none.yaml"], 2),
        (["nowhere.yaml"], 2),
        (["broken"], 2),
        (["workflows/tidy.yaml", "broken/tidy.yaml"], 1),
        (["broken/tidy.yaml", "broken/words.yaml"], 2),
        (["broken/words.yaml", "broken/tidy.yaml", "workflows/tidy.yaml"], 2),
    ],
)
def test_exit_code_follows_the_dialect(project: Project, files: list[str], code: int) -> None:
    project.write("broken/look.yaml", "name: x\ndescription: y\nversion: 1.0.0\nstages: 7\n")
    project.write("broken/words.yaml", 'version: "1.1"\nname: w\nsteps:\n  - name: A\n')
    project.write("broken/none.yaml", "hello: world\n")
    assert project.run("validate", *files).exit_code == code


def test_missing_file_is_a_finding_with_a_near_name(project: Project) -> None:
    result = project.run("validate", "workflows/tidi.yaml")
    assert result.exit_code == 2
    assert result.stdout.startswith("workflows/tidi.yaml:1:1: error E001: there is no such file")
    assert "(did you mean 'workflows/tidy.yaml'?)" in result.stdout


def test_id_is_looked_up_when_there_is_no_such_path(project: Project) -> None:
    assert "workflows/tidy.yaml: valid machine" in project.run("validate", "tidy").stdout
    slip = project.run("validate", "tdiy")
    assert slip.exit_code == 2
    assert "(did you mean 'tidy'?)" in slip.stdout
    assert "orchestrate list" in slip.stdout


def test_same_file_twice_is_compiled_once(project: Project) -> None:
    result = project.run("validate", "broken/tidy.yaml", "./broken/tidy.yaml", "broken/tidy.yaml")
    assert result.stdout.count("E203") == 1
    assert result.stdout.endswith("in 1 file\n")


def test_mistake_in_a_shared_include_is_told_once(project: Project) -> None:
    project.write("parts/bad.yaml", "a: 1\na: 2\n")
    for name in ("one", "two"):
        project.write(f"{name}.yaml", "steps:\n  $include: parts/bad.yaml\n")
    result = project.run("validate", "one.yaml", "two.yaml")
    assert result.stdout.count("E007") == 1
    files = project.run("validate", "one.yaml", "two.yaml", "--json").json()["files"]
    assert all("E007" in [d["code"] for d in file["diagnostics"]] for file in files)


def warned(project: Project) -> str:
    text = (project.folder / "workflows/tidy.yaml").read_text()
    alone = text.replace("outcomes: [complete, other]", "outcomes: [complete]")
    alone = alone.replace("      other: {action: exit, reason: user-provided-other}\n", "", 1)
    project.write("warned.yaml", alone)
    return "warned.yaml"


@pytest.mark.parametrize("words", ["ok?", "a?b", "may it go on? really", "so ?what"])
def test_question_mark_inside_brackets_belongs_to_its_word(project: Project, words: str) -> None:
    """YAML 1.2, which libyaml does not know."""
    gate = f"    approval: {{required: true, prompt: {words}, timeout: 100, default: deny}}\n"
    stage = "  - name: s\n    steps: [{id: a, agent: r, prompt: é?}]\n"
    head = "name: q\ndescription: d\nversion: 1.0.0\nstages:\n"
    project.write("q.yaml", head + stage + gate)
    plan = project.run("plan", "q.yaml")
    assert plan.exit_code == 0, plan.stderr
    assert words in plan.stdout
    # A real mistake behind it is still found where it is.
    project.write("q.yaml", head + stage + gate.replace(", timeout: 100", " timeout: 100"))
    broken = project.run("validate", "q.yaml")
    assert broken.exit_code != 0
    assert f"q.yaml:7:{gate.index('timeout:') + len('timeout')}: error E006" in broken.stdout


def test_strict_turns_warnings_into_invalidity(project: Project) -> None:
    name = warned(project)
    mild, strict = project.run("validate", name), project.run("validate", "--strict", name)
    assert (mild.exit_code, strict.exit_code) == (0, 1)
    assert "warning W203" in mild.stdout
    assert "valid machine" not in mild.stdout
    assert mild.stdout.endswith("1 warning in 1 file\n")
    assert "--strict" in strict.stdout
    assert strict.stdout.startswith(mild.stdout.rsplit("1 warning", 1)[0])
    assert project.run("validate", "--strict", "workflows/tidy.yaml").exit_code == 0
    told = project.run("validate", "--strict", "--json", name).json()
    assert told["files"][0]["valid"] is False
    assert (told["errors"], told["warnings"]) == (0, 1)


def test_json_is_one_document_with_every_field(project: Project) -> None:
    for flag in (["--json"], ["--format", "json"]):
        result = project.run("validate", "broken/tidy.yaml", "workflows/tidy.yaml", *flag)
        assert result.exit_code == 1
        document = result.json()
        assert [f["valid"] for f in document["files"]] == [False, True]
        assert [f["dialect"] for f in document["files"]] == ["machine", "machine"]
        (finding, *_) = document["files"][0]["diagnostics"]
        line = MISTAKE.splitlines().index("      complete: {nextStep: chek}") + 1
        assert finding == {
            "code": "E203",
            "name": "unknown-next-step",
            "severity": "error",
            "message": finding["message"],
            "hint": finding["hint"],
            "suggestion": "check",
            "file": "broken/tidy.yaml",
            "line": line,
            "column": 28,
            "length": 4,
        }
        assert "chek" in finding["message"]
        assert document["errors"] == 1
        assert result.stderr == ""


def test_github_annotations_are_escaped(project: Project) -> None:
    project.write("a,b:c%d.yaml", MISTAKE)
    result = project.run("validate", "a,b:c%d.yaml", "--format", "github")
    assert result.exit_code == 1
    first = result.stdout.splitlines()[0]
    assert first.startswith("::error file=a%2Cb%3Ac%25d.yaml,line=")
    assert ",col=28,endColumn=32,title=E203 unknown-next-step::" in first
    assert project.run("validate", "workflows/tidy.yaml", "--format", "github").stdout == ""


def test_sarif_has_rules_regions_and_relative_uris(project: Project) -> None:
    project.write("a b#ü.yaml", MISTAKE)
    result = project.run("validate", "a b#ü.yaml", "--format", "sarif")
    assert result.exit_code == 1
    document: Any = result.json()
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    finding = next(r for r in run["results"] if r["ruleId"] == "E203")
    assert run["tool"]["driver"]["rules"][finding["ruleIndex"]]["id"] == "E203"
    place = finding["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%20b%23%C3%BC.yaml"
    assert place["region"]["startColumn"] == 28
    assert place["region"]["endColumn"] == 32
    empty = project.run("validate", "workflows/tidy.yaml", "--format", "sarif").json()
    assert empty["runs"][0]["results"] == []


def test_working_dir_is_where_ids_and_agents_are_found(project: Project, tmp_path: Any) -> None:
    inner = tmp_path / "elsewhere"
    # A repository of its own: what stands above it is not its workspace.
    (inner / ".git").mkdir(parents=True)
    away = Project(inner)
    assert away.run("validate", "tidy").exit_code == 2
    result = away.run("validate", "tidy", "look", "--strict", "--working-dir", "..")
    assert result.exit_code == 0, result


@pytest.mark.parametrize(
    "arguments",
    [
        ["validate"],
        ["validate", "x", "--format", "xml"],
        ["validate", "x", "--nonsense"],
        ["validate", "x", "--json", "--format", "github"],
        ["validate", "x", "--working-dir", "nowhere"],
    ],
)
def test_bad_usage_exits_with_2_and_says_why(project: Project, arguments: list[str]) -> None:
    result = project.run(*arguments)
    assert result.exit_code == 2
    assert "orchestrate: " in result.stderr
    assert "Traceback" not in result.stderr
    if "--json" not in arguments:
        assert result.stdout == ""


def test_hostile_file_reaches_the_terminal_tamed(project: Project) -> None:
    escape, bidi = "\x1b[31m", "\u202e"
    text = MISTAKE.replace("{nextStep: chek}", f'{{nextStep: "ch{bidi}ek"}} # {bidi}')
    project.write("evil\x1b[2Jfile.yaml", text)
    project.write("evil2.yaml", f"steps: [{escape}]\n")
    result = project.run("validate", "evil\x1b[2Jfile.yaml", "evil2.yaml")
    assert result.exit_code in (1, 2)
    assert "E203" in result.stdout
    for raw in ("\x1b", bidi):
        assert raw not in result.stdout + result.stderr


IN_ASCII = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}


def test_names_outside_the_encoding_do_not_crash(project: Project) -> None:
    project.write("grüße.yaml", MISTAKE)
    result = project.spawn("validate", "grüße.yaml", env=IN_ASCII)
    assert result.exit_code == 1
    assert "gr\\xfc" in result.stdout
    odd = os.fsdecode(b"caf\xe9.yaml")
    assert project.run("validate", odd).exit_code == 2
    assert project.run("validate", odd, "--json").json()["files"][0]["valid"] is False
