"""The exit code of a definition that cannot be composed follows the root's own shape.

And the bytes of a prompt reach the agent as they are, or not at all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.fakes import Stage
from tests.machines.fakes import PAIR

HEAD = "id: m\nlabel: m\ndescription: d\ninitialStep: a\n"
ENDS = """\
    outcomes: [done, other]
    onOutcome:
      done: {action: exit, reason: r}
      other: {action: exit, reason: o}
"""
MISSING = "steps: {$include: missing.yaml}\n"
# Root files beside `parts` below, and the exit code of an invalid definition of their kind.
CASES = {
    "machine whose steps are missing": (HEAD + MISSING, 1),
    "machine with a missing step": (HEAD + "steps:\n  a: {$include: missing.yaml}\n", 1),
    "machine with a missing prompt": (
        HEAD + "steps:\n  a:\n    prompt: {$include: missing.md}\n" + ENDS,
        1,
    ),
    "machine that includes itself": (HEAD + "steps: {$include: root.yaml#/steps}\n", 1),
    "machine in a circle of files": (HEAD + "steps: {$include: circle-1.yaml#/steps}\n", 1),
    "machine with broken YAML inside": (HEAD + "steps: {$include: broken.yaml}\n", 1),
    "machine with a pointer to nothing": (HEAD + "steps: {$include: parts.yaml#/nothing}\n", 1),
    "machine over a missing base": ("$include: missing.yaml\ninitialStep: a\n", 1),
    "machine over a broken base": ("$include: base.yaml\nlabel: mine\n", 1),
    "machine with a binary prompt": (
        HEAD + "steps:\n  a:\n    prompt: {$include: binary.md}\n" + ENDS,
        1,
    ),
    "machine with a prompt in Latin-1": (
        HEAD + "steps:\n  a:\n    prompt: {$include: latin.md}\n" + ENDS,
        1,
    ),
    "recipe whose steps are missing": ("name: r\ndescription: d\nversion: 1.0.0\n" + MISSING, 2),
    "recipe with a missing stage": (
        "name: r\ndescription: d\nversion: 1.0.0\nstages:\n  - {$include: missing.yaml}\n",
        2,
    ),
    "workflow whose steps are missing": ("version: '1.1'\nname: w\n" + MISSING, 2),
    "workflow with a missing step": (
        "version: '1.1'\nname: w\nsteps:\n  - $include: missing.yaml\n",
        2,
    ),
    "nothing but an include": ("$include: missing.yaml\n", 2),
    "no dialect at all": ("name: x\n", 2),
    "broken YAML in the root": (HEAD + "steps:\n  a: [\n", 2),
    "not UTF-8 in the root": ("# caf\xe9\n" + PAIR, 2),
}


def put_parts(stage: Stage) -> None:
    stage.write("circle-1.yaml", "steps: {$include: circle-2.yaml#/steps}\n")
    stage.write("circle-2.yaml", "steps: {$include: circle-1.yaml#/steps}\n")
    stage.write("broken.yaml", "a: [1,\n b: {\n")
    stage.write("parts.yaml", "something: 1\n")
    stage.write("base.yaml", HEAD + MISSING)
    (stage.folder / "binary.md").write_bytes(b"a\0b\n")
    (stage.folder / "latin.md").write_bytes("Gr\xfc\xdfe\n".encode("latin-1"))


@pytest.mark.parametrize("case", CASES)
def test_truth_29_the_root_tells_the_exit_code(tmp_path: Path, case: str) -> None:
    text, expected = CASES[case]
    stage = Stage(tmp_path)
    put_parts(stage)
    (stage.folder / "root.yaml").write_text(text, "latin-1")

    stage.run("validate", "root.yaml").assert_exit(expected)
    stage.run("run", "root.yaml").assert_exit(expected)
    assert not stage.has_runs()


@pytest.mark.parametrize("command", [("plan",), ("run", "--dry-run")])
def test_truth_29_every_command_that_compiles_exits_so(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    stage = Stage(tmp_path)
    for case in ("machine whose steps are missing", "workflow whose steps are missing"):
        text, expected = CASES[case]
        stage.write("root.yaml", text)
        stage.run(*command, "root.yaml").assert_exit(expected)


def test_truth_29_a_mix_of_invalid_files_exits_with_the_worst(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    machine, _ = CASES["machine whose steps are missing"]
    recipe, _ = CASES["recipe whose steps are missing"]
    stage.write("workflows/m.yaml", machine)
    stage.write("good.yaml", PAIR)

    stage.run("validate", "good.yaml", "workflows/m.yaml").assert_exit(1)
    stage.run("validate", "--all").assert_exit(1)
    stage.write("workflows/r.yaml", recipe)
    stage.run("validate", "--all").assert_exit(2)


ASKING = """
    version: "1.1"
    name: asking
    steps:
      - {name: Ask, provider: PROVIDER, input_file: prompt.md, retries: {max: 3, delay_ms: 1}}
      - {name: After, command: ["true"]}
"""
BROKEN = {
    "latin-1": (b"one\nGr\xfc\xdfe\n", "0xfc", 2),
    "utf-16": ("hello".encode("utf-16"), "0xff", 1),
    "half of a surrogate pair": (b"\n\n\xed\xa0\x80\n", "0xed", 3),
    "cut inside a character": (b"caf\xc3", "0xc3", 1),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_truth_29_a_prompt_that_is_no_utf_8_is_refused(tmp_path: Path, kind: str) -> None:
    data, byte, line = BROKEN[kind]
    stage = Stage(tmp_path)
    stage.claude("def answer(prompt): return 'done'")
    (stage.folder / "prompt.md").write_bytes(data)

    played = stage.play(ASKING.replace("PROVIDER", "claude"), exit_code=1)

    step = played.step("Ask")
    assert (step["status"], step["exit_code"], step["attempts"]) == ("failed", 2, 1)
    assert f"line {line} has the byte {byte}" in step["error"]["message"]
    assert "prompt.md" in step["error"]["message"]
    assert step["error"]["context"]["input_file"] == "prompt.md"
    assert stage.calls("claude") == []
    assert "After" not in played.state["steps"]


# What is text goes through byte by byte, whatever it is.
KEPT = {
    "plain": b"Hello.\n",
    "byte order mark": b"\xef\xbb\xbfHello.\n",
    "line ends": b"one\r\ntwo\rthree\n\n\n",
    "NUL": b"a\0b\n",
    "replacement character of the author's own": "a \ufffd b\n".encode(),
    "no line end": b"x",
}


@pytest.mark.parametrize("kind", KEPT)
def test_truth_29_a_prompt_arrives_byte_by_byte(tmp_path: Path, kind: str) -> None:
    stage = Stage(tmp_path)
    stage.claude("def answer(prompt): return 'done'")
    (stage.folder / "prompt.md").write_bytes(KEPT[kind])

    stage.play(ASKING.replace("PROVIDER", "claude"))

    assert [call.stdin.encode() for call in stage.calls("claude")] == [KEPT[kind]]


def test_truth_29_a_command_gets_its_input_whatever_it_is(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    data = b"\xef\xbb\xbfa\0\xff\xfe\xed\xa0\x80\r\n"
    (stage.folder / "in").write_bytes(data)

    stage.play("""
        version: "1.1"
        name: copies
        steps:
          - {name: Copy, command: [cat], input_file: in, output_file: out}
    """)

    assert (stage.folder / "out").read_bytes() == data


def test_truth_29_an_injected_file_that_is_no_utf_8_is_named_not_changed(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.claude("def answer(prompt): return 'done'")
    stage.write("prompt.md", "Read them.\n")
    (stage.folder / "a.txt").write_bytes("ein sch\xf6nes Wort\n".encode("latin-1"))
    stage.write("b.txt", "schön\n")

    stage.play("""
        version: "1.1.1"
        name: injects
        steps:
          - name: Ask
            provider: claude
            input_file: prompt.md
            depends_on: {required: [a.txt, b.txt], inject: {mode: content}}
    """)

    prompt = stage.calls("claude")[0].stdin
    assert "\ufffd" not in prompt
    assert "=== File: a.txt (17 bytes, not UTF-8, not shown) ===" in prompt
    assert "schön" in prompt
