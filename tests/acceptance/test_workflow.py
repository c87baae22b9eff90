"""Dialect C from outside: the items that validation decides, and rulings §9."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from orchestrate.testing import Project

FIRST = """
    version: "{version}"
    context: {{topic: birds}}
    steps:
      - name: List
        command: ["ls"]
        output_capture: lines
      - name: Use
        {body}
"""


def codes(tmp_path: Path, body: str, version: str = "1.3", more: str = "") -> list[str]:
    """The findings for a workflow whose second step has the given lines."""
    text = FIRST.format(version=version, body=body.replace("\n", "\n        "))
    result = Project(tmp_path, {"w.yaml": text + more}).validate("w.yaml")
    found = result.codes()
    assert result.exit_code == (2 if any(code.startswith("E") for code in found) else 0)
    return found


def test_the_pattern_itself_is_valid(tmp_path: Path) -> None:
    assert codes(tmp_path, 'command: ["echo", "${context.topic}"]') == []


def test_at_007_no_env_namespace(tmp_path: Path) -> None:
    assert codes(tmp_path, 'command: ["echo", "${env.HOME}"]') == ["E122"]


def test_at_010_provider_and_command(tmp_path: Path) -> None:
    assert codes(tmp_path, 'provider: claude\ncommand: ["true"]') == ["E401"]


@pytest.mark.parametrize(
    "other",
    [
        'command: ["true"]',
        "provider: claude",
        "for_each: {items: [1], steps: [{name: A, command: [a]}]}",
    ],
)
def test_at_036_wait_for_stands_alone(tmp_path: Path, other: str) -> None:
    assert codes(tmp_path, f'wait_for: {{glob: "x/*"}}\n{other}') == ["E401"]


PATHS = [
    'provider: claude\ninput_file: "{}"',
    'command: ["true"]\noutput_file: "{}"',
    'command: ["true"]\ndepends_on: {{required: ["{}"]}}',
    'command: ["true"]\ndepends_on: {{optional: ["{}"]}}',
    'wait_for: {{glob: "{}"}}',
    'command: ["true"]\nwhen: {{exists: "{}"}}',
    'command: ["true"]\nwhen: {{not_exists: "{}"}}',
    'command: ["true"]\noutput_capture: json\noutput_schema: "{}"',
]


@pytest.mark.parametrize("body", PATHS)
@pytest.mark.parametrize("path", ["/etc/passwd", "~/x", "C:/x"])
def test_at_038_absolute_paths(tmp_path: Path, body: str, path: str) -> None:
    assert codes(tmp_path, body.format(path)) == ["E406"]


@pytest.mark.parametrize("body", PATHS)
@pytest.mark.parametrize("path", ["../x", "a/../../x", "${context.topic}/../x"])
def test_at_039_parent_paths(tmp_path: Path, body: str, path: str) -> None:
    assert codes(tmp_path, body.format(path)) == ["E406"]


@pytest.mark.parametrize("body", PATHS)
def test_at_039_links_out_of_the_workspace(tmp_path: Path, body: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "outside").mkdir()
    os.symlink(tmp_path / "outside", inside / "link")
    os.symlink("real", inside / "harmless")
    (inside / "real").mkdir()
    assert codes(inside, body.format("link/file")) == ["E406"]
    assert codes(inside, body.format("harmless/file")) == []


@pytest.mark.parametrize("key", ["inbox_dir", "processed_dir", "failed_dir"])
def test_at_039_configured_folders(tmp_path: Path, key: str) -> None:
    text = FIRST.format(version="1.1", body='command: ["true"]')
    project = Project(tmp_path, {"w.yaml": text.replace("context:", f"{key}: ../up\n    context:")})
    assert project.validate("w.yaml").assert_exit(2).codes() == ["E406"]


def test_at_040_command_override(tmp_path: Path) -> None:
    assert codes(tmp_path, 'command_override: ["true"]') == ["E417"]


PROVIDER = """
    providers:
      tool:
        command: ["tool", "--model", "${model}"]
"""


def test_at_048_placeholder_without_a_value(tmp_path: Path) -> None:
    assert codes(tmp_path, "provider: tool", more=PROVIDER) == ["W402"]
    body = "provider: tool\nprovider_params: {model: big}"
    assert codes(tmp_path, body, more=PROVIDER) == []


def test_at_049_stdin_provider_with_a_prompt_placeholder(tmp_path: Path) -> None:
    provider = """
    providers:
      tool: {command: ["tool", "${PROMPT}"], input_mode: stdin}
    """
    project = Project(tmp_path)
    text = FIRST.format(version="1.1", body="provider: tool") + provider
    project.write("w.yaml", text)
    result = project.validate("w.yaml").assert_exit(2)
    names = [finding["name"] for finding in result.json()["files"][0]["diagnostics"]]
    assert names == ["invalid_prompt_placeholder"]


LOOP = """for_each:
  items_from: steps.List.lines
  as: file
  {more}
  steps:
    - name: Inner
      command: ["cat", "${{file}}", "${{item}}", "${{loop.index}}"]"""


@pytest.mark.parametrize("path", ["/tmp/done", "../done", "a/../../b"])
def test_at12_005_move_to_stays_inside(tmp_path: Path, path: str) -> None:
    more = f'on_item_complete: {{success: {{move_to: "{path}"}}}}'
    assert codes(tmp_path, LOOP.format(more=more), "1.2") == ["E406"]


@pytest.mark.parametrize(
    ("version", "expected"), [("1.1", ["E109"]), ("1.1.1", ["E109"]), ("1.2", []), ("1.3", [])]
)
def test_at12_gate_on_item_complete(tmp_path: Path, version: str, expected: list[str]) -> None:
    more = 'on_item_complete: {success: {move_to: "done/${run.timestamp_utc}"}}'
    assert codes(tmp_path, LOOP.format(more=more), version) == expected


def test_at13_004_schema_and_allowed_parse_errors(tmp_path: Path) -> None:
    body = 'command: ["x"]\noutput_capture: json\nallow_parse_error: true\noutput_schema: s.json'
    assert codes(tmp_path, body) == ["E413"]
    assert codes(tmp_path, body.replace("error: true", "error: false")) == []


@pytest.mark.parametrize("field", ["output_schema: s.json", "output_require: [{pointer: /ok}]"])
@pytest.mark.parametrize(("version", "expected"), [("1.2", ["E109"]), ("1.3", [])])
def test_at13_gate_output_checks(
    tmp_path: Path, field: str, version: str, expected: list[str]
) -> None:
    assert codes(tmp_path, f'command: ["x"]\noutput_capture: json\n{field}', version) == expected


@pytest.mark.parametrize("inject", ["true", "{mode: list}"])
@pytest.mark.parametrize(("version", "expected"), [("1.1", ["E109"]), ("1.1.1", [])])
def test_c_inject_gate(tmp_path: Path, inject: str, version: str, expected: list[str]) -> None:
    body = f"provider: claude\ndepends_on: {{required: [a.md], inject: {inject}}}"
    assert codes(tmp_path, body, version) == expected


@pytest.mark.parametrize(
    "body",
    [
        'command: ["x"]\ncomand: ["y"]',
        'command: ["x"]\nretries: {max: 1, delay: 5}',
        'command: ["x"]\nwhen: {equals: {left: a, right: b, third: c}}',
        'wait_for: {glob: "*", timeout: 5}',
        'command: ["x"]\non: {failed: {goto: List}}',
        'command: ["x"]\ndepends_on: {requires: [a]}',
        "for_each: {items: [a], item_as: x, steps: [{name: A, command: [a]}]}",
    ],
)
def test_c_strict_unknown_fields(tmp_path: Path, body: str) -> None:
    assert codes(tmp_path, body) == ["E101"]


def test_c_goto_names_a_step(tmp_path: Path) -> None:
    assert codes(tmp_path, 'command: ["x"]\non: {failure: {goto: Lits}}') == ["E404"]
    assert (
        codes(tmp_path, 'command: ["x"]\non: {failure: {goto: _end}, success: {goto: _end}}') == []
    )


def test_c_end_is_reserved(tmp_path: Path) -> None:
    text = FIRST.format(version="1.1", body='command: ["x"]').replace("name: Use", "name: _end")
    assert Project(tmp_path, {"w.yaml": text}).validate("w.yaml").codes() == ["E403"]


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        ("steps.List.lines", []),
        ("steps.Lsit.lines", ["E124"]),
        ("steps.List.json.files", ["E124"]),
        ("List.lines", ["E410"]),
        ("steps.List.output", ["E410"]),
        ("steps.List.lines.first", ["E410"]),
        ("steps.List.json.*", ["E410"]),
    ],
)
def test_c_pointer_to_items(tmp_path: Path, pointer: str, expected: list[str]) -> None:
    body = f"for_each: {{items_from: {pointer}, steps: [{{name: A, command: [a]}}]}}"
    assert codes(tmp_path, body) == expected


@pytest.mark.parametrize("body", [PATHS[2], PATHS[4], PATHS[5]])
def test_c_globstar_is_rejected(tmp_path: Path, body: str) -> None:
    assert codes(tmp_path, body.format("src/**/*.py")) == ["E407"]


def test_c_unique_within_a_scope_only(tmp_path: Path) -> None:
    inner = "for_each: {items: [a], steps: [{name: List, command: [a]}, {name: Use, command: [b]}]}"
    assert codes(tmp_path, inner) == []
    assert codes(tmp_path, inner.replace("name: Use", "name: List")) == ["E402"]


def test_c_capture_of_parse_errors(tmp_path: Path) -> None:
    assert codes(tmp_path, 'command: ["x"]\nallow_parse_error: true') == ["E412"]


@pytest.mark.parametrize("body", ["agent: engineer", 'timeout_sec: 5\nenv: {A: "1"}'])
def test_c_one_kind_is_needed(tmp_path: Path, body: str) -> None:
    assert codes(tmp_path, body)[0] == "E401"


def test_r9_1_goto_out_of_and_into_loops(tmp_path: Path) -> None:
    body = """for_each:
  items: [a, b]
  steps:
    - name: Inner
      command: ["true"]
      on: {{failure: {{goto: {target}}}}}
    - name: Second
      command: ["true"]"""
    for target in ("List", "Second", "Use", "_end"):
        assert codes(tmp_path, body.format(target=target)) == []
    jump = 'command: ["x"]\non: {failure: {goto: Deep}}'
    inside = """
      - name: Loop
        for_each: {items: [a], steps: [{name: Deep, command: [a]}]}
    """
    assert codes(tmp_path, jump, more=inside) == ["E405"]


def test_r9_2_always_overrides(tmp_path: Path) -> None:
    body = 'command: ["x"]\non: {always: {goto: _end}, success: {goto: List}}'
    assert codes(tmp_path, body) == ["W406"]
    plan = Project(tmp_path).run("plan", "w.yaml", "--format", "json").assert_success().json()
    node = plan["plans"][0]["blocks"][0]["nodes"][1]
    targets = {label: target["kind"] for label, target in node["routes"]}
    assert targets["@ok"] == targets["@failed"] == "finish"


@pytest.mark.parametrize(
    "name", ["claude", "gemini", "codex", "copilot", "cursor", "opencode", "qwen"]
)
def test_r9_3_known_providers(tmp_path: Path, name: str) -> None:
    assert codes(tmp_path, f"provider: {name}\ninput_file: task.md") == []


def test_r9_3_unknown_providers_warn(tmp_path: Path) -> None:
    assert codes(tmp_path, "provider: data_processor\ninput_file: task.md") == ["W104"]


HOSTILE = "a'\"; touch canary; $(touch canary) `touch canary` ${x} \n-rf *"


@pytest.mark.parametrize(
    "script",
    [
        "printf '%s' ${context.topic}",
        "printf '%s' \"${context.topic}\"",
        "printf '%s' '${context.topic}'",
        "printf '%s' pre${context.topic}post | sed 's/^pre//; s/post$//'",
    ],
)
def test_r9_4_values_never_become_code(tmp_path: Path, script: str) -> None:
    """Run the lowered script as the engine will: values in the environment."""
    quoted = script.replace("\\", "\\\\").replace('"', '\\"')
    assert codes(tmp_path, f'command: ["bash", "-c", "{quoted}"]') == []
    plan = Project(tmp_path).run("plan", "w.yaml", "--format", "json").assert_success().json()
    op = plan["plans"][0]["blocks"][0]["nodes"][1]["op"]
    lowered = op["argv"][2]["parts"]
    assert len(lowered) == 1
    assert "context.topic" not in str(lowered)
    names = [name for name, _ in op["values"]]
    done = subprocess.run(
        ["bash", "-c", lowered[0]],
        env={"PATH": os.environ["PATH"], **dict.fromkeys(names, HOSTILE)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.rstrip("\n") == HOSTILE
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "script",
    [
        "cat <<END\\n${context.topic}\\nEND",
        "eval ${context.topic}",
        "sh -c 'echo ${context.topic}'",
        "let x=${context.topic}",
        "${context.topic}",
    ],
)
def test_r9_4_places_that_cannot_be_told(tmp_path: Path, script: str) -> None:
    assert codes(tmp_path, f'command: ["bash", "-c", "{script}"]') == ["E416"]


@pytest.mark.parametrize(("value", "code"), [("4", 0), (HOSTILE, 1), ("a[$(touch canary)]", 1)])
def test_r9_4_arithmetic_takes_whole_numbers_only(tmp_path: Path, value: str, code: int) -> None:
    """language.md, Settled: the place can be told, and a shell would evaluate anything else."""
    project = Project(tmp_path, {"w.yaml": """
        version: "1.1"
        context: {n: ""}
        steps: [{name: Sum, command: [bash, -c, "echo $((${context.n} + 1))"]}]
        """})  # fmt: skip
    project.write("c.json", json.dumps({"n": value}))
    project.run("run", "w.yaml", "--context-file", "c.json").assert_exit(code)
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    "command",
    [
        '["python3", "-c", "print(\'${context.topic}\')"]',
        '["node", "-e", "console.log(\'${context.topic}\')"]',
        '["awk", "/${context.topic}/", "file"]',
        '["jq", ".[\\"${context.topic}\\"]", "file"]',
    ],
)
def test_r9_4_inline_code_of_others_warns(tmp_path: Path, command: str) -> None:
    assert codes(tmp_path, f"command: {command}") == ["W401"]
