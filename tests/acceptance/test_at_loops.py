"""Loops: where their items come from, what each iteration sees, and how results are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.fakes import Stage


def test_at_003_a_loop_over_lines(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    for name in ("b one.task", "a.task", "c.task"):
        stage.write(f"inbox/{name}", "work")
    played = stage.play("""
        version: "1.1"
        steps:
          - name: List
            command: ["sh", "-c", "ls inbox/*.task | LC_ALL=C sort"]
            output_capture: lines
          - name: Each
            for_each:
              items_from: "steps.List.lines"
              as: task
              steps:
                - name: Show
                  command: ["echo", "${task}", "${item}", "${loop.index}", "${loop.total}"]
          - name: After
            command: ["true"]
    """)
    items = ["inbox/a.task", "inbox/b one.task", "inbox/c.task"]
    shown = [iteration["Show"]["output"] for iteration in played.loop("Each")]
    assert shown == [f"{item} {item} {index} 3\n" for index, item in enumerate(items)]
    progress = played.state["for_each"]["Each"]
    assert progress["items"] == items
    assert progress["completed_indices"] == [0, 1, 2]
    assert played.step("After")["status"] == "completed"


def test_at_003_an_empty_list_runs_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    played = stage.play("""
        version: "1.1"
        steps:
          - {name: List, command: ["true"], output_capture: lines}
          - name: Each
            for_each:
              items_from: steps.List.lines
              steps: [{name: Touch, command: ["touch", "started"]}]
          - {name: After, command: ["echo", "on"]}
    """)
    assert played.loop("Each") == []
    assert played.step("After")["output"] == "on\n"
    assert not (stage.folder / "started").exists()


POINTER = """
    version: "1.1"
    steps:
      - name: Parse
        command: ["cat", "answer.json"]
        output_capture: json
      - name: Each
        for_each:
          items_from: "steps.Parse.{pointer}"
          steps:
            - name: Show
              command: ["echo", "${{item}}"]
"""
ANSWER = '{"files": ["x.py", "y.py"], "deep": {"er": {"list": [1, true, null]}}, "text": "no"}'


@pytest.mark.parametrize(
    ("answer", "pointer", "shown"),
    [
        (ANSWER, "json.files", ["x.py\n", "y.py\n"]),
        (ANSWER, "json.deep.er.list", ["1\n", "true\n", "null\n"]),
        ('["a", "b"]', "json", ["a\n", "b\n"]),
    ],
    ids=["nested", "deeper", "whole"],
)
def test_at_013_items_from_a_nested_array(
    tmp_path: Path, answer: str, pointer: str, shown: list[str]
) -> None:
    played = Stage(tmp_path, {"answer.json": answer}).play(POINTER.format(pointer=pointer))
    assert [iteration["Show"]["output"] for iteration in played.loop("Each")] == shown


@pytest.mark.parametrize("pointer", ["json.missing", "json.text", "json.deep", "json.files.more"])
def test_at_013_a_pointer_to_no_array_fails(tmp_path: Path, pointer: str) -> None:
    stage = Stage(tmp_path, {"answer.json": ANSWER})
    workflow = POINTER.format(pointer=pointer)
    handled = workflow + "        on: {failure: {goto: Told}}\n"
    handled += '      - {name: Told, command: ["true"]}\n'
    assert stage.play(handled).step("Told")["status"] == "completed"
    step = stage.play(workflow, exit_code=1).step("Each")
    assert (step["status"], step["exit_code"]) == ("failed", 2)
    assert step["error"]["context"]["invalid_reference"]


def test_at_043_results_are_kept_by_iteration(tmp_path: Path) -> None:
    played = Stage(tmp_path).play(
        """
        version: "1.1"
        steps:
          - name: Work
            for_each:
              items: [good, bad, never]
              steps:
                - name: First
                  command: ["echo", "${item}"]
                - name: Second
                  command: ["test", "-n", "${steps.First.output}"]
                - name: Third
                  command: ["test", "${item}", "!=", "bad"]
        """,
        exit_code=1,
    )
    first, second = played.loop("Work")[:2]
    assert first["First"]["output"] == "good\n"
    assert [first[name]["status"] for name in ("First", "Second", "Third")] == ["completed"] * 3
    assert second["First"]["output"] == "bad\n"
    assert (second["Third"]["status"], second["Third"]["exit_code"]) == ("failed", 1)
    # Nothing of the third item ran.
    assert all("First" not in iteration for iteration in played.loop("Work")[2:])


def test_at_043_two_loops_may_use_the_same_names(tmp_path: Path) -> None:
    played = Stage(tmp_path).play("""
        version: "1.1"
        steps:
          - name: Show
            command: ["echo", "outside"]
          - name: One
            for_each: {items: [a, b], steps: [{name: Show, command: ["echo", "one ${item}"]}]}
          - name: Two
            for_each: {items: [c], steps: [{name: Show, command: ["echo", "two ${item}"]}]}
    """)
    assert played.step("Show")["output"] == "outside\n"
    assert [one["Show"]["output"] for one in played.loop("One")] == ["one a\n", "one b\n"]
    assert [two["Show"]["output"] for two in played.loop("Two")] == ["two c\n"]
    assert played.state["for_each"]["One"]["items"] == ["a", "b"]


def test_at_043_logs_of_iterations_do_not_overwrite_each_other(tmp_path: Path) -> None:
    played = Stage(tmp_path).play("""
        version: "1.1"
        steps:
          - name: Work
            for_each:
              items: [a, b]
              steps:
                - {name: Say, command: ["sh", "-c", "echo 'about ${item}' >&2"]}
    """)
    assert played.log("Work.0.Say.stderr") == "about a\n"
    assert played.log("Work.1.Say.stderr") == "about b\n"
