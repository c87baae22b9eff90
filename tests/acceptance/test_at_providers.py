"""Providers: how a template, its parameters and the prompt become a call."""

from __future__ import annotations

import re
from pathlib import Path

from tests.acceptance.fakes import Stage

PROMPT = 'Do it: ${context.topic} costs $5, $(date) and `date`.\nSecond line, with "quotes".\n'


def stage_with_tool(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path)
    stage.program("tool", "print('answered')")
    (stage.folder / "prompt.md").write_text(PROMPT)
    return stage


def test_at_008_template_defaults_and_params_compose(tmp_path: Path) -> None:
    stage = stage_with_tool(tmp_path)
    played = stage.play("""
        version: "1.1"
        context: {topic: birds}
        providers:
          tool:
            command: ["tool", "-p", "${PROMPT}", "--model=${model}", "--mode", "${mode}", "$${x}$$"]
            defaults: {model: small, mode: fast}
        steps:
          - name: Default
            provider: tool
            input_file: prompt.md
          - name: Own
            provider: tool
            provider_params: {model: big}
            input_file: prompt.md
            output_file: artifacts/answer.md
    """)
    # The file's text is one argument, as it is: nothing in it is filled in.
    default, own = (call.argv for call in stage.calls("tool"))
    assert default == ["-p", PROMPT, "--model=small", "--mode", "fast", "${x}$"]
    assert own == ["-p", PROMPT, "--model=big", "--mode", "fast", "${x}$"]
    assert played.step("Own")["output"] == "answered\n"
    assert (stage.folder / "artifacts/answer.md").read_text() == "answered\n"
    assert (stage.folder / "prompt.md").read_text() == PROMPT


def test_at_009_prompt_by_standard_input(tmp_path: Path) -> None:
    stage = stage_with_tool(tmp_path)
    long = PROMPT + "x" * 300_000
    (stage.folder / "long.md").write_text(long)
    stage.play("""
        version: "1.1"
        providers:
          tool: {command: ["tool", "exec"], input_mode: stdin}
        steps:
          - {name: Short, provider: tool, input_file: prompt.md}
          - {name: Long, provider: tool, input_file: long.md}
    """)
    calls = stage.calls("tool")
    assert [call.argv for call in calls] == [["exec"], ["exec"]]
    assert [call.stdin for call in calls] == [PROMPT, long]


def test_at_044_params_are_substituted(tmp_path: Path) -> None:
    stage = stage_with_tool(tmp_path)
    stage.play("""
        version: "1.1"
        context: {size: huge}
        providers:
          tool:
            command: ["tool", "${model}", "${number}", "${on}", "${nested}", "${fallback}"]
            defaults: {fallback: "default-${context.size}"}
        steps:
          - name: Ask
            provider: tool
            provider_params:
              model: "model-${context.size}"
              number: 7
              on: true
              nested: {list: ["${context.size}", 1], "${context.size}": plain}
    """)
    (call,) = stage.calls("tool")
    model, number, on, nested, fallback = call.argv
    assert (model, number, on, fallback) == ("model-huge", "7", "true", "default-huge")
    # Values are filled in at every depth; keys are names.
    assert nested.replace(" ", "") == '{"list":["huge",1],"${context.size}":"plain"}'


def test_at_048_a_placeholder_without_a_value_fails_the_step(tmp_path: Path) -> None:
    stage = stage_with_tool(tmp_path)
    workflow = """
        version: "1.1"
        providers:
          tool: {command: ["tool", "${model}", "${other}", "${PROMPT}"], defaults: {other: x}}
        steps:
          - {name: Ask, provider: tool, input_file: prompt.md, retries: {max: 2}}
          - {name: After, command: ["touch", "started"]}
    """
    played = stage.play(workflow, exit_code=1)
    step = played.step("Ask")
    assert (step["status"], step["exit_code"]) == ("failed", 2)
    assert step["error"]["context"]["missing_placeholders"] == ["model"]
    assert stage.calls("tool") == []
    assert not (stage.folder / "started").exists()


def test_at_049_prompt_in_a_stdin_template_is_refused(tmp_path: Path) -> None:
    result = stage_with_tool(tmp_path).refuse("""
        version: "1.1"
        providers:
          tool: {command: ["tool", "${PROMPT}"], input_mode: stdin}
        steps:
          - {name: First, command: ["touch", "started"]}
          - {name: Ask, provider: tool, input_file: prompt.md}
    """)
    assert "w.yaml:3:" in result.stderr
    assert "${PROMPT}" in result.stderr


def test_at_050_argv_template_without_a_prompt(tmp_path: Path) -> None:
    stage = stage_with_tool(tmp_path)
    played = stage.play("""
        version: "1.1"
        providers:
          tool: {command: ["tool", "--read-your-own-input"]}
        steps:
          - {name: Ask, provider: tool, input_file: prompt.md}
    """)
    (call,) = stage.calls("tool")
    assert (call.argv, call.stdin) == (["--read-your-own-input"], "")
    assert played.step("Ask")["status"] == "completed"


def test_at_051_params_see_every_namespace(tmp_path: Path) -> None:
    stage = stage_with_tool(tmp_path)
    stage.write("facts.json", '{"who": {"name": "Ada"}}')
    played = stage.play("""
        version: "1.1"
        context: {size: huge}
        providers:
          tool: {command: ["tool", "${a}", "${b}", "${c}", "${d}", "${loop.index}-${context.size}"]}
        steps:
          - {name: Facts, command: ["cat", "facts.json"], output_capture: json}
          - name: Each
            for_each:
              items: [x, y]
              as: letter
              steps:
                - name: Ask
                  provider: tool
                  provider_params:
                    a: "${run.id} ${run.root} ${run.timestamp_utc}"
                    b: "${context.size}"
                    c: "${letter} ${item} ${loop.index}/${loop.total}"
                    d: "${steps.Facts.json.who.name} ${steps.Facts.exit_code}"
    """)
    run_id = played.state["run_id"]
    first, second = (call.argv for call in stage.calls("tool"))
    stamp = run_id.partition("-")[0]
    assert first[0] == second[0] == f"{run_id} .orchestrate/runs/{run_id} {stamp}"
    assert (first[1:], second[1:]) == (
        ["huge", "x x 0/2", "Ada 0", "0-huge"],
        ["huge", "y y 1/2", "Ada 0", "1-huge"],
    )
    assert re.fullmatch(r"\d{8}T\d{6}Z-[a-z0-9]{6}", run_id)


def test_an_unused_parameter_is_ignored(tmp_path: Path) -> None:
    """C, parameter handling: not an error."""
    stage = stage_with_tool(tmp_path)
    stage.play("""
        version: "1.1"
        providers: {tool: {command: ["tool", "${PROMPT}"]}}
        steps:
          - {name: Ask, provider: tool, input_file: prompt.md, provider_params: {model: big}}
    """)
    assert [call.argv for call in stage.calls("tool")] == [[PROMPT]]
