"""Files that a step depends on: found right before it starts, or the step does not start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.fakes import Stage

NEEDS = """
    version: "1.1"
    context: {{file: data/in.csv, folder: data}}
    steps:
      - name: Use
        command: ["touch", "started"]
        depends_on: {needs}
"""


def runs_with(stage: Stage, needs: str) -> bool:
    """Does the step start? If not, it must have failed with 2."""
    (stage.folder / "started").unlink(missing_ok=True)
    stage.write("w.yaml", NEEDS.format(needs=needs))
    result = stage.run("run", "w.yaml")
    step = stage.look(result).step("Use")
    did_start = (stage.folder / "started").exists()
    assert result.exit_code == (0 if did_start else 1)
    assert step["exit_code"] == (0 if did_start else 2)
    return did_start


def test_at_022_a_missing_file_stops_the_step(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"there.txt": ""})
    text = NEEDS.format(needs='{required: ["there.txt", "missing.txt", "no/*.md"]}')
    played = stage.play(text, exit_code=1)
    step = played.step("Use")
    assert (step["status"], step["exit_code"]) == ("failed", 2)
    assert step["error"]["context"]["failed_deps"] == ["missing.txt", "no/*.md"]
    assert "missing.txt" in step["error"]["message"]
    assert not (stage.folder / "started").exists()


def test_at_022_a_missing_file_is_never_retried(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.program("tool")
    played = stage.play(
        """
        version: "1.1"
        providers: {tool: {command: ["tool"]}}
        steps:
          - name: Ask
            provider: tool
            depends_on: {required: ["missing.txt"]}
            retries: {max: 3, delay_ms: 20000}
        """,
        exit_code=1,
    )
    assert played.step("Ask")["exit_code"] == 2
    assert stage.calls("tool") == []


# A file that is there, a pattern, and whether it matches.
PATTERNS = [
    ("a.csv", "*.csv", True),
    ("data/a.csv", "data/*.csv", True),
    ("data/a.csv", "*.csv", False),
    ("data/deep/a.csv", "data/*.csv", False),
    ("data/deep/a.csv", "data/*/a.csv", True),
    (".hidden.csv", "*.csv", False),
    (".hidden.csv", ".*.csv", True),
    ("a1.csv", "a?.csv", True),
    ("a12.csv", "a?.csv", False),
    ("b.csv", "[a-c].csv", True),
    ("d.csv", "[!a-c].csv", True),
    ("data/a.csv", "data", True),
    ("data/a.csv", "dat*", True),
]


def test_at_023_patterns_are_posix(tmp_path: Path) -> None:
    """One step per pattern, each with its file in a folder of its own."""
    stage = Stage(tmp_path)
    steps = []
    for number, (file, pattern, _) in enumerate(PATTERNS):
        stage.write(f"case{number}/{file}", "x")
        needs = {"required": [f"case{number}/{pattern}"]}
        steps.append({"name": f"Case{number}", "command": ["true"], "depends_on": needs})
    workflow = json.dumps({"version": "1.1", "steps": steps})
    played = stage.play(workflow, "--on-error", "continue", exit_code=1)
    for number, (file, pattern, matches) in enumerate(PATTERNS):
        step = played.step(f"Case{number}")
        assert step["exit_code"] == (0 if matches else 2), (file, pattern)


def test_at_024_variables_in_dependencies(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    needs = '{required: ["${context.file}", "${context.folder}/*.csv"]}'
    failed = stage.play(NEEDS.format(needs=needs), exit_code=1)
    # The message names the path that was looked for, not the variable.
    assert failed.step("Use")["error"]["context"]["failed_deps"] == ["data/in.csv", "data/*.csv"]
    stage.write("data/in.csv", "x")
    assert runs_with(stage, needs)


def test_at_025_each_iteration_looks_anew(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"data/a.csv": "x"})
    played = stage.play(
        """
        version: "1.1"
        steps:
          - name: Each
            for_each:
              items: [a, b, c]
              steps:
                - name: Use
                  command: ["sh", "-c", "echo ${item} >> log; [ ${item} != a ] || touch data/b.csv"]
                  depends_on: {required: ["data/${item}.csv"]}
        """,
        exit_code=1,
    )
    first, second, third = played.loop("Each")
    # The first iteration makes what the second needs; nobody makes what the third needs.
    assert [it["Use"]["status"] for it in (first, second)] == ["completed", "completed"]
    assert third["Use"]["exit_code"] == 2
    assert third["Use"]["error"]["context"]["failed_deps"] == ["data/c.csv"]
    assert (stage.folder / "log").read_text() == "a\nb\n"


def test_at_026_optional_files_may_be_missing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"there.md": "x"})
    assert runs_with(stage, '{optional: ["cache/*.json", "gone.md", "there.md"]}')


def test_at_026_missing_optional_files_are_not_injected(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"prompt.md": "Work.\n", "b.md": "x", "need.md": "x"})
    stage.program("tool")
    stage.play("""
        version: "1.1.1"
        providers: {tool: {command: ["tool"], input_mode: stdin}}
        steps:
          - name: Ask
            provider: tool
            input_file: prompt.md
            depends_on: {required: [need.md], optional: [a.md, "b.*", "c/*"], inject: true}
    """)
    (call,) = stage.calls("tool")
    assert "- b.md\n" in call.stdin
    assert "a.md" not in call.stdin
    assert "c/" not in call.stdin


def test_at_027_a_handler_takes_the_missing_file(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    played = stage.play("""
        version: "1.1"
        steps:
          - name: Use
            command: ["touch", "started"]
            depends_on: {required: ["missing.txt"]}
            on: {failure: {goto: Handle}, success: {goto: _end}}
          - {name: Between, command: ["touch", "started"]}
          - {name: Handle, command: ["echo", "code ${steps.Use.exit_code}"]}
    """)
    assert played.step("Handle")["output"] == "code 2\n"
    assert played.state["status"] == "completed"
    assert not (stage.folder / "started").exists()


def test_files_made_by_an_earlier_step_count(tmp_path: Path) -> None:
    """C, behaviour rule 1: checked after previous steps complete."""
    played = Stage(tmp_path).play("""
        version: "1.1"
        steps:
          - {name: Make, command: ["sh", "-c", "mkdir d && touch d/x.md"]}
          - {name: Use, command: ["true"], depends_on: {required: ["d/*.md"]}}
    """)
    assert played.step("Use")["status"] == "completed"


@pytest.mark.parametrize(
    "work",
    [
        "wait_for: {glob: '*.md', timeout_sec: 1}",
        "for_each: {items: [a], steps: [{name: Inner, command: [touch, ran]}]}",
        "repeat: {until: {exists: ran}, max: 2, steps: [{name: Inner, command: [touch, ran]}]}",
        "call: called.yaml",
    ],
)
def test_every_kind_of_step_needs_its_files(tmp_path: Path, work: str) -> None:
    """A missing file is exit 2, and nothing of the step is done; with the file it is."""
    stage = Stage(tmp_path)
    stage.write(
        "called.yaml", 'version: "1.1"\nname: c\nsteps: [{name: T, command: [touch, ran]}]\n'
    )
    text = f"""
        version: "1.4"
        name: needy
        steps:
          - name: Needs
            {work}
            depends_on: {{required: ["missing.md"]}}
        """
    played = stage.play(text, exit_code=1)
    needy = played.state["steps"]["Needs"]
    assert (needy["status"], needy["exit_code"]) == ("failed", 2)
    assert "missing.md" in needy["error"]["message"]
    assert not (stage.folder / "ran").exists()
    stage.write("missing.md", "here")
    stage.run("resume").assert_success()
    assert (stage.folder / "ran").exists() != ("wait_for" in work)
