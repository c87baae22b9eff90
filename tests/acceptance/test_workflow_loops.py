"""Version 1.4 of workflows: rounds until a condition holds, items at once, prompts in the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from orchestrate.testing import Project
from tests.acceptance.fakes import read_state

COUNT = "n=$(cat n 2>/dev/null || echo 0); n=$((n+1)); echo $n > n; echo $n; [ $n -ge {} ]"


def state_of(project: Project) -> dict[str, Any]:
    return read_state(project.folder / ".orchestrate" / "runs" / "latest")


def repeating(enough: int, most: int, more: str = "") -> str:
    script = json.dumps(COUNT.format(enough))
    return f"""
version: "1.4"
name: tries
strict_flow: false
steps:
  - name: Loop
    repeat:
      until: {{equals: {{left: "${{steps.Try.exit_code}}", right: "0"}}}}
      max: {most}
      steps:
        - {{name: Try, command: [sh, -c, {script}], on: {{failure: {{goto: Note}}}}}}
        - {{name: Note, command: [sh, -c, "echo ${{loop.index}}-of-${{loop.total}} >> notes"]}}
{more}
  - {{name: After, command: [sh, -c, "echo after >> notes"]}}
"""


def test_repeat_makes_rounds_until_the_condition_holds(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("w.yaml", repeating(3, 5))
    project.run("run", "w.yaml").assert_exit(0)
    notes = (tmp_path / "notes").read_text().split()
    assert notes == ["0-of-5", "1-of-5", "2-of-5", "after"]
    rounds = state_of(project)["steps"]["Loop"]
    assert [made["Try"]["exit_code"] for made in rounds] == [1, 1, 0]


def test_repeat_fails_when_its_rounds_are_used_up(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("w.yaml", repeating(9, 2).replace("strict_flow: false", "strict_flow: true"))
    result = project.run("run", "w.yaml").assert_exit(3)
    assert "the loop 'Loop' has made 2 rounds, the most it may" in result.stderr
    assert "after" not in (tmp_path / "notes").read_text()
    project.run("resume").assert_exit(3)
    assert (tmp_path / "n").read_text() == "2\n", "no round was made again"


def test_on_failure_of_a_repeat_is_asked(tmp_path: Path) -> None:
    project = Project(tmp_path)
    more = "    on: {failure: {goto: Rescue}}\n  - {name: Skipped, command: [touch, skipped]}"
    more += "\n  - {name: Rescue, command: [touch, rescued]}"
    project.write("w.yaml", repeating(9, 2, more))
    project.run("run", "w.yaml").assert_exit(0)
    assert (tmp_path / "rescued").exists()
    assert not (tmp_path / "skipped").exists()


PARALLEL = """
version: "1.4"
name: at-once
steps:
  - name: Loop
    for_each:
      items: [a, b, c, d]
      parallel: {most}
      steps:
        - name: Hold
          command:
            [sh, -c, "touch in-${{item}}; ls in-* | wc -l >> seen; sleep 0.4; rm in-${{item}}"]
  - {{name: After, command: [touch, done]}}
"""


def test_for_each_runs_so_many_items_at_once(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write("w.yaml", PARALLEL.format(most=2))
    project.run("run", "w.yaml").assert_exit(0)
    seen = [int(line) for line in (tmp_path / "seen").read_text().split()]
    assert max(seen) == 2
    assert len(state_of(project)["steps"]["Loop"]) == 4
    assert (tmp_path / "done").exists()


def test_a_prompt_in_the_file_is_filled_in(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.write(
        "w.yaml",
        """
version: "1.4"
name: asks
context: {who: "${steps.X} `id`"}
providers:
  echo: {command: [cat], input_mode: stdin}
steps:
  - {name: List, command: [printf, "one\\ntwo"]}
  - name: Ask
    provider: echo
    prompt: |
      For ${context.who}:
      ${steps.List.output}
  - name: Included
    provider: echo
    prompt: {$include: ask.md}
""",
    )
    project.write("ask.md", "Included for ${context.who}")
    project.run("run", "w.yaml").assert_exit(0)
    steps = state_of(project)["steps"]
    assert steps["Ask"]["output"] == "For ${steps.X} `id`:\none\ntwo\n"
    assert steps["Included"]["output"] == "Included for ${steps.X} `id`"


def test_rounds_inside_a_loop_see_its_item(tmp_path: Path) -> None:
    """A round is no item: `${item}` stays that of the `for_each` around it, by both names."""
    project = Project(tmp_path)
    project.write(
        "w.yaml",
        """
        version: "1.4"
        name: inside
        steps:
          - name: Loop
            for_each:
              items: [a, b]
              as: letter
              steps:
                - name: Rounds
                  repeat:
                    until: {equals: {left: "${loop.index}", right: "1"}}
                    max: 2
                    steps:
                      - name: Note
                        command: [sh, -c, "echo ${item}-${letter}-${loop.index} >> notes"]
        """,
    )
    project.run("run", "w.yaml").assert_exit(0)
    assert (tmp_path / "notes").read_text().split() == ["a-a-0", "a-a-1", "b-b-0", "b-b-1"]
