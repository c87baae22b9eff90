"""Rulings §9 in whole runs: what a step takes in, and what becomes of what it gives out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.fakes import Stage

# Behind a condition, because what is certain to be undefined is refused before the start.
UNDEFINED = """
    version: "1.1"
    providers: {tool: {command: ["touch", "started", "${what}"]}}
    steps:
      - {name: Argument, when: {not_exists: "no-such-file"}, command: ["touch", "started", "${context.no}"]}
      - {name: Shell, when: {not_exists: "no-such-file"}, command: ["sh", "-c", "touch started ${context.no}"]}
      - {name: Output, when: {not_exists: "no-such-file"}, command: ["touch", "started"], output_file: "${context.no}.txt"}
      - {name: Input, when: {not_exists: "no-such-file"}, command: ["touch", "started"], input_file: "${context.no}.txt"}
      - {name: Need, when: {not_exists: "no-such-file"}, command: ["touch", "started"], depends_on: {optional: ["${context.no}"]}}
      - {name: Params, when: {not_exists: "no-such-file"}, provider: tool, provider_params: {what: "${context.no}"}}
      - {name: Wait, when: {not_exists: "no-such-file"}, wait_for: {glob: "${context.no}"}}
"""  # noqa: E501


def test_r9_11_undefined_variables_fail_the_step(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    played = stage.play(UNDEFINED, "--on-error", "continue", exit_code=1)
    names = ["Argument", "Shell", "Output", "Input", "Need", "Params", "Wait"]
    assert sorted(played.state["steps"]) == sorted(names)
    for name, step in played.state["steps"].items():
        assert (name, step["status"], step["exit_code"]) == (name, "failed", 2)
        assert step["error"]["context"]["undefined_vars"] == ["${context.no}"], name
    assert not (stage.folder / "started").exists()


def test_r9_13_known_providers_need_no_declaration(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"task.md": "Say hello to ${context.you}."})
    stage.claude("""
        def answer(prompt):
            return "heard: " + prompt
    """)
    played = stage.play("""
        version: "1.1"
        steps:
          - {name: Ask, provider: claude, input_file: task.md, output_file: artifacts/said.md}
    """)
    assert "heard: Say hello to ${context.you}." in played.step("Ask")["output"]
    assert "heard: Say hello" in (stage.folder / "artifacts/said.md").read_text()


def test_r9_13_a_declared_provider_replaces_ours(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"task.md": "Hello."})
    stage.program("mine", "print('mine')")
    played = stage.play("""
        version: "1.1"
        providers: {claude: {command: ["mine", "${PROMPT}"]}}
        steps: [{name: Ask, provider: claude, input_file: task.md}]
    """)
    assert played.step("Ask")["output"] == "mine\n"
    assert stage.calls("mine")[0].argv == ["Hello."]


def test_r9_13_an_unknown_provider_is_refused_before_anything_starts(tmp_path: Path) -> None:
    result = Stage(tmp_path).refuse(
        """
        version: "1.1"
        steps:
          - {name: First, command: ["touch", "started"]}
          - {name: Ask, provider: data_processor, input_file: w.yaml}
        """,
        exit_code=5,
    )
    assert "data_processor" in result.stderr


def test_r9_14_files_of_command_steps(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"in.txt": "from ${context.x} the file\n"})
    played = stage.play(
        """
        version: "1.1"
        steps:
          - {name: Read, command: ["cat"], input_file: in.txt, output_file: a/b/c/out.txt}
          - {name: Nothing, command: ["cat"]}
          - {name: Missing, command: ["touch", "started"], input_file: no.txt}
        """,
        exit_code=1,
    )
    assert played.step("Read")["output"] == "from ${context.x} the file\n"
    assert (stage.folder / "a/b/c/out.txt").read_text() == "from ${context.x} the file\n"
    assert played.step("Nothing")["output"] == ""
    assert played.step("Missing")["exit_code"] == 2
    assert "no.txt" in played.step("Missing")["error"]["message"]
    assert not (stage.folder / "started").exists()


def test_r9_15_retries_of_commands(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.program("tool", "sys.exit({1: 77, 2: 3}.get(number, 0))")
    step = stage.play("""
        version: "1.1"
        steps: [{name: Try, command: ["tool"], retries: {max: 5}}]
    """).step("Try")
    assert (step["exit_code"], step["attempts"], len(stage.calls("tool"))) == (0, 3, 3)


def test_r9_15_the_step_wins_over_the_flag(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.program("tool", "sys.exit(1)")
    step = stage.play(
        """
        version: "1.1"
        providers: {tool: {command: ["tool"]}}
        steps: [{name: Try, provider: tool, retries: {max: 0}}]
        """,
        "--max-retries",
        "3",
        exit_code=1,
    ).step("Try")
    assert (step["attempts"], len(stage.calls("tool"))) == (1, 1)


VALUES = ["null", "7", "-1.5e3", '"text"', "[1, [2]]", "true", '{"a": null}', ' \n{"b": 1}\n\n']


def test_r9_16_any_json_value_is_captured(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    steps = []
    for number, value in enumerate(VALUES):
        (stage.folder / f"{number}.json").write_text(value)
        command = ["cat", f"{number}.json"]
        steps.append({"name": f"V{number}", "command": command, "output_capture": "json"})
    played = stage.play(json.dumps({"version": "1.1", "steps": steps}))
    got = [played.step(f"V{number}")["json"] for number in range(len(VALUES))]
    assert got == [json.loads(value) for value in VALUES]


@pytest.mark.parametrize("printed", ["no json", '{\\"ok\\": true}'])
@pytest.mark.parametrize("allowed", ["true", "false"])
def test_r9_16_a_failed_program_stays_failed(tmp_path: Path, printed: str, allowed: str) -> None:
    step = (
        Stage(tmp_path)
        .play(
            f"""
        version: "1.1"
        steps:
          - name: Ask
            command: ["sh", "-c", "echo '{printed}'; exit 3"]
            output_capture: json
            allow_parse_error: {allowed}
        """,
            exit_code=1,
        )
        .step("Ask")
    )
    assert (step["status"], step["exit_code"], step["error"]["exit_code"]) == ("failed", 3, 3)


def test_r9_16_text_is_cut_between_characters(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    (stage.folder / "text").write_text("x" * 8191 + "é and more", "utf-8")
    step = stage.play("""
        version: "1.1"
        steps: [{name: Show, command: ["cat", "text"]}]
    """).step("Show")
    assert (step["output"], step["truncated"]) == ("x" * 8191, True)


def test_r9_16_one_trailing_newline_makes_no_line(tmp_path: Path) -> None:
    played = Stage(tmp_path).play(r"""
        version: "1.1"
        steps:
          - {name: One, command: ["printf", "a\\n"], output_capture: lines}
          - {name: Two, command: ["printf", "a\\n\\n"], output_capture: lines}
          - {name: None, command: ["true"], output_capture: lines}
    """)
    got = [played.step(name)["lines"] for name in ("One", "Two", "None")]
    assert got == [["a"], ["a", ""], []]


def test_r9_17_how_values_are_rendered(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.program("tool")
    stage.play("""
        version: "1.1"
        context: {n: null, o: {a: [1, "x", true]}, l: [], f: 1.5, t: true, s: " kept "}
        steps:
          - name: Show
            command:
              - tool
              - "${context.n}"
              - "${context.o}"
              - "${context.l}"
              - "${context.f}"
              - "${context.t}"
              - "<${context.s}>"
              - "$$ $${x} $x"
    """)
    (call,) = stage.calls("tool")
    nothing, mapping, *rest = call.argv
    assert (nothing, json.loads(mapping)) == ("null", {"a": [1, "x", True]})
    assert rest == ["[]", "1.5", "true", "< kept >", "$ ${x} $x"]


def test_r9_18_the_shorthand_gives_a_flat_list(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"p.md": "Go.\n", "a.md": "", "b.md": ""})
    stage.program("tool")
    stage.play("""
        version: "1.1.1"
        providers: {tool: {command: ["tool"], input_mode: stdin}}
        steps:
          - name: Ask
            provider: tool
            input_file: p.md
            depends_on: {required: [b.md], optional: [a.md], inject: true}
    """)
    sentence = "The following files are required inputs for this task:\n"
    assert stage.calls("tool")[0].stdin == sentence + "- a.md\n- b.md\n\nGo.\n"
