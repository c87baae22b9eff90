"""Rulings §9 in whole runs: where a run goes on after each step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.fakes import Stage


def order_of(stage: Stage) -> list[str]:
    """What the steps of a test have written down, in order."""
    path = stage.folder / "order"
    return path.read_text("utf-8").splitlines() if path.exists() else []


# A step that writes its name down, and fails if the file `bad` names it.
NOTE = """
    echo "$1" >> order
    ! grep -qx "$1" bad
"""


def stage_with_notes(tmp_path: Path, *bad: str) -> Stage:
    return Stage(tmp_path, {"note.sh": NOTE, "bad": "\n".join(bad) + "\n"})


LOOP = """
    version: "1.1"
    strict_flow: {strict}
    steps:
      - name: Each
        for_each:
          items: [a, b, c]
          steps:
            - {{name: First, command: ["sh", "note.sh", "${{item}}1"]}}
            - {{name: Second, command: ["sh", "note.sh", "${{item}}2"]}}
      - {{name: After, command: ["sh", "note.sh", "after"]}}
"""


def test_r9_5_a_failure_in_a_loop_fails_item_and_run(tmp_path: Path) -> None:
    stage = stage_with_notes(tmp_path, "b1")
    played = stage.play(LOOP.format(strict="true"), exit_code=1)
    assert order_of(stage) == ["a1", "a2", "b1"]
    assert played.state["status"] == "failed"
    assert played.loop("Each")[1]["First"]["status"] == "failed"


def test_r9_5_without_strict_flow_the_next_item_follows(tmp_path: Path) -> None:
    stage = stage_with_notes(tmp_path, "b1")
    played = stage.play(LOOP.format(strict="false"))
    # Ruled: a failing step fails its iteration; so the item's later steps do not run.
    assert order_of(stage) == ["a1", "a2", "b1", "c1", "c2", "after"]
    assert played.state["status"] == "completed"


def test_r9_6_goto_inside_an_iteration(tmp_path: Path) -> None:
    stage = stage_with_notes(tmp_path, "a1")
    played = stage.play("""
        version: "1.1"
        steps:
          - name: Each
            for_each:
              items: [a, b]
              steps:
                - name: First
                  command: ["sh", "note.sh", "${item}1"]
                  on: {failure: {goto: Third}}
                - {name: Second, command: ["sh", "note.sh", "${item}2"]}
                - {name: Third, command: ["sh", "note.sh", "${item}3"]}
    """)
    assert order_of(stage) == ["a1", "a3", "b1", "b2", "b3"]
    assert "Second" not in played.loop("Each")[0]


def test_r9_6_goto_back_inside_an_iteration(tmp_path: Path) -> None:
    stage = stage_with_notes(tmp_path)
    stage.play("""
        version: "1.1"
        steps:
          - name: Each
            for_each:
              items: [a, b]
              steps:
                - {name: Work, command: ["sh", "note.sh", "${item}"]}
                - name: Enough
                  command: ["sh", "-c", "[ $(grep -c ${item} order) -ge 3 ]"]
                  on: {failure: {goto: Work}}
    """)
    assert order_of(stage) == ["a", "a", "a", "b", "b", "b"]


def test_r9_6_goto_out_of_a_loop_leaves_it(tmp_path: Path) -> None:
    stage = stage_with_notes(tmp_path, "x-b")
    played = stage.play("""
        version: "1.1"
        steps:
          - name: Outer
            for_each:
              items: [x, y]
              as: outer
              steps:
                - name: Inner
                  for_each:
                    items: [a, b, c]
                    steps:
                      - name: Do
                        command: ["sh", "note.sh", "${outer}-${item}"]
                        on: {failure: {goto: Escape}}
          - {name: Between, command: ["sh", "note.sh", "between"]}
          - {name: Escape, command: ["sh", "note.sh", "escape"]}
    """)
    assert order_of(stage) == ["x-a", "x-b", "escape"]
    assert played.state["status"] == "completed"


def test_r9_7_end_ends_the_run_successfully(tmp_path: Path) -> None:
    stage = stage_with_notes(tmp_path, "a")
    played = stage.play("""
        version: "1.1"
        steps:
          - name: Outer
            for_each:
              items: [a, b]
              steps:
                - name: Do
                  command: ["sh", "note.sh", "${item}"]
                  on: {failure: {goto: _end}}
          - {name: After, command: ["sh", "note.sh", "after"]}
    """)
    assert order_of(stage) == ["a"]
    assert played.state["status"] == "completed"


def test_r9_8_loops_nest(tmp_path: Path) -> None:
    played = Stage(tmp_path).play("""
        version: "1.1"
        steps:
          - name: Rows
            for_each:
              items: [r0, r1]
              as: row
              steps:
                - {name: Top, command: ["echo", "${row} ${item} ${loop.index}/${loop.total}"]}
                - name: Cells
                  for_each:
                    items: [c0, c1, c2]
                    steps:
                      - name: Cell
                        command: ["echo", "${row} ${item} ${loop.index}/${loop.total}"]
                - {name: Bottom, command: ["echo", "${item} ${loop.index}"]}
    """)
    second = played.loop("Rows")[1]
    assert second["Top"]["output"] == "r1 r1 1/2\n"
    assert second["Cells"][2]["Cell"]["output"] == "r1 c2 2/3\n"
    # After the inner loop the outer one's item is back.
    assert second["Bottom"]["output"] == "r1 1\n"


def test_r9_9_results_of_this_iteration_else_of_the_scope_around(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    played = stage.play("""
        version: "1.1"
        steps:
          - {name: Same, command: ["printf", "outer"]}
          - {name: Other, command: ["printf", "around"]}
          - name: Each
            for_each:
              items: [a, b]
              steps:
                - name: Same
                  when: {equals: {left: "${loop.index}", right: "0"}}
                  command: ["printf", "${item}"]
                - name: Show
                  command: ["printf", "%s", "${steps.Other.output} ${steps.Same.status}"]
          - {name: After, command: ["printf", "%s", "${steps.Same.output}"]}
    """)
    first, second = (iteration["Show"]["output"] for iteration in played.loop("Each"))
    # The second iteration's own Same was skipped; the first one's result is not seen again.
    assert (first, second) == ("around completed", "around skipped")
    assert played.step("After")["output"] == "outer"


@pytest.mark.parametrize("ends", ["true", "false"])
def test_r9_10_always_overrides(tmp_path: Path, ends: str) -> None:
    stage = stage_with_notes(tmp_path)
    stage.play(f"""
        version: "1.1"
        steps:
          - name: Start
            command: ["{ends}"]
            on: {{success: {{goto: Good}}, failure: {{goto: Bad}}, always: {{goto: Always}}}}
          - {{name: Good, command: ["sh", "note.sh", "good"], on: {{always: {{goto: _end}}}}}}
          - {{name: Bad, command: ["sh", "note.sh", "bad"], on: {{always: {{goto: _end}}}}}}
          - {{name: Always, command: ["sh", "note.sh", "always"]}}
    """)
    assert order_of(stage) == ["always"]


def test_r9_10_skipped_steps_consult_no_handler(tmp_path: Path) -> None:
    stage = stage_with_notes(tmp_path)
    stage.play("""
        version: "1.1"
        steps:
          - name: Skipped
            command: ["true"]
            when: {exists: "no/such/file"}
            on: {success: {goto: _end}, always: {goto: _end}}
          - {name: Next, command: ["sh", "note.sh", "next"]}
    """)
    assert order_of(stage) == ["next"]


FAILING = """
    version: "1.1"
    strict_flow: {strict}
    steps:
      - {{name: One, command: ["false"], on: {{failure: {{goto: Two}}}}}}
      - {{name: Two, command: ["sh", "note.sh", "two"]}}
      - {{name: Three, command: ["sh", "note.sh", "three"]}}
"""


@pytest.mark.parametrize(
    ("strict", "flags", "bad", "ends", "order"),
    [
        ("true", [], True, ("failed", 1), ["two"]),
        ("false", [], True, ("completed", 0), ["two", "three"]),
        ("true", ["--on-error", "continue"], True, ("failed", 1), ["two", "three"]),
        # A failure that a handler took does not count.
        ("true", ["--on-error", "continue"], False, ("completed", 0), ["two", "three"]),
        ("false", ["--on-error", "stop"], True, ("failed", 1), ["two"]),
    ],
)
def test_r9_12_strict_flow_and_on_error(
    tmp_path: Path,
    strict: str,
    flags: list[str],
    bad: bool,
    ends: tuple[str, int],
    order: list[str],
) -> None:
    stage = stage_with_notes(tmp_path, *(["two"] if bad else []))
    played = stage.play(FAILING.format(strict=strict), *flags, exit_code=ends[1])
    assert played.state["status"] == ends[0]
    assert order_of(stage) == order
