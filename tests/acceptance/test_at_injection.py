"""Injection: how the files a step depends on are shown to its agent."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.acceptance.fakes import Played, Stage

KIB = 1024
PROMPT = "Implement it.\nTake care.\n"
FILES = {
    "design/system_design.md": "# System\n",
    "design/api_spec.md": "# API\n",
    "design/Zebra.md": "# Zebra\n",
    "docs/standards.md": "Be tidy.\n",
}
LIST_SENTENCE = "The following files are required inputs for this task:"
CONTENT_SENTENCE = "The following file contents are provided for context:"
# Bytes decide the order: capitals come first.
DESIGN_LIST = "- design/Zebra.md\n- design/api_spec.md\n- design/system_design.md\n"
ASK = """
    version: "1.1.1"
    context: {{folder: design}}
    providers: {{tool: {{command: ["tool"], input_mode: stdin}}}}
    steps:
      - name: Ask
        provider: tool
        input_file: prompt.md
        depends_on: {needs}
"""


def stage_with_files(tmp_path: Path) -> Stage:
    stage = Stage(tmp_path, {**FILES, "prompt.md": PROMPT})
    stage.program("tool")
    return stage


def ask(stage: Stage, needs: str) -> tuple[str, Played]:
    """The prompt that reached the program, and the run."""
    played = stage.play(ASK.format(needs=needs))
    assert (stage.folder / "prompt.md").read_text() == PROMPT
    return stage.calls("tool")[-1].stdin, played


def test_at_028_basic_injection(tmp_path: Path) -> None:
    prompt, _ = ask(stage_with_files(tmp_path), '{required: ["design/*.md"], inject: true}')
    assert prompt == f"{LIST_SENTENCE}\n{DESIGN_LIST}\n{PROMPT}"


def test_at_029_list_mode(tmp_path: Path) -> None:
    needs = '{required: ["design/*.md", "docs/*.md"], inject: {mode: list}}'
    prompt, _ = ask(stage_with_files(tmp_path), needs)
    assert prompt == f"{LIST_SENTENCE}\n{DESIGN_LIST}- docs/standards.md\n\n{PROMPT}"


def test_at_030_content_mode(tmp_path: Path) -> None:
    needs = '{required: ["design/[a-z]*.md"], inject: {mode: content}}'
    prompt, played = ask(stage_with_files(tmp_path), needs)
    shape = (
        re.escape(f"{CONTENT_SENTENCE}\n\n")
        + r"=== File: design/api_spec\.md \([^)]*\b6\b[^)]*\) ===\n# API\n\n"
        + r"=== File: design/system_design\.md \([^)]*\b9\b[^)]*\) ===\n# System\n\n"
        + re.escape(PROMPT)
    )
    assert re.fullmatch(shape, prompt), prompt
    assert "injection" not in played.step("Ask").get("debug", {})


def test_at_030_content_is_cut_at_256_kib(tmp_path: Path) -> None:
    stage = stage_with_files(tmp_path)
    sizes = {"a.txt": 100, "b.txt": 200, "c.txt": 50, "d.txt": 30}
    for name, size in sizes.items():
        stage.write(f"data/{name}", name[0] * (size * KIB))
    prompt, played = ask(stage, '{required: ["data/*.txt"], inject: {mode: content}}')
    assert f"\n{'a' * 100 * KIB}\n" in prompt
    header = re.search(r"^=== File: data/b\.txt \((\d+)/(\d+)\) ===\n(b+)$", prompt, re.MULTILINE)
    assert header, prompt[:300]
    shown = int(header[1])
    assert (int(header[2]), len(header[3])) == (200 * KIB, shown)
    assert 0 < shown <= 156 * KIB
    assert re.search(r"^\[\.\.\. truncated: .+ of 200 KiB shown\]$", prompt, re.MULTILINE)
    assert re.search(r"^=== Files not shown \(2 files, 80 KiB\) ===$", prompt, re.MULTILINE)
    assert re.search(r"^- data/c\.txt \(50 KiB\)$", prompt, re.MULTILINE)
    assert prompt.endswith(PROMPT)
    assert len(prompt.encode()) < 256 * KIB + 2 * KIB
    record = played.step("Ask")["debug"]["injection"]
    assert record == {
        "injection_truncated": True,
        "truncation_details": {
            "total_size": 380 * KIB,
            "shown_size": 100 * KIB + shown,
            "files_shown": 1,
            "files_truncated": 1,
            "files_omitted": 2,
        },
    }


def test_at_030_a_long_list_is_cut_too(tmp_path: Path) -> None:
    stage = stage_with_files(tmp_path)
    folder = stage.folder / "many" / ("n" * 200)
    folder.mkdir(parents=True)
    for number in range(2000):
        (folder / f"{number:04}.txt").touch()
    prompt, played = ask(stage, '{required: ["many/*/*.txt"], inject: true}')
    listed = prompt.count("\n- many/")
    note = re.search(r"^\[\.\.\. (\d+) more files truncated \(.* total\)\]$", prompt, re.MULTILINE)
    assert note
    assert 0 < listed < 2000
    assert listed + int(note[1]) == 2000
    details = played.step("Ask")["debug"]["injection"]["truncation_details"]
    assert (details["files_shown"], details["files_omitted"]) == (listed, 2000 - listed)


def test_at_031_custom_instruction(tmp_path: Path) -> None:
    stage = stage_with_files(tmp_path)
    needs = '{{required: ["docs/*.md"], inject: {{mode: {}, instruction: "Follow ${{these}}:"}}}}'
    listed, _ = ask(stage, needs.format("list"))
    assert listed == f"Follow ${{these}}:\n- docs/standards.md\n\n{PROMPT}"
    content, _ = ask(stage, needs.format("content"))
    assert content.startswith("Follow ${these}:\n\n=== File: docs/standards.md (")
    assert CONTENT_SENTENCE not in content


@pytest.mark.parametrize("mode", ["list", "content"])
def test_at_032_append(tmp_path: Path, mode: str) -> None:
    needs = f'{{required: ["docs/*.md"], inject: {{mode: {mode}, position: append}}}}'
    prompt, _ = ask(stage_with_files(tmp_path), needs)
    assert prompt.startswith(PROMPT + "\n")
    block = prompt.removeprefix(PROMPT + "\n")
    if mode == "list":
        assert block == f"{LIST_SENTENCE}\n- docs/standards.md\n"
    else:
        assert block.startswith(f"{CONTENT_SENTENCE}\n\n=== File: docs/standards.md (")
        assert block.endswith(") ===\nBe tidy.\n")


def test_at_033_patterns_become_files(tmp_path: Path) -> None:
    needs = '{required: ["docs/*.md", "${context.folder}/?*.md", "design/*_*.md"], inject: true}'
    prompt, _ = ask(stage_with_files(tmp_path), needs)
    # In one order over all patterns, each file once.
    assert prompt == f"{LIST_SENTENCE}\n{DESIGN_LIST}- docs/standards.md\n\n{PROMPT}"


def test_at_034_optional_files_in_sections(tmp_path: Path) -> None:
    stage = stage_with_files(tmp_path)
    needs = (
        '{required: ["design/api_spec.md"], optional: ["docs/*.md", "gone/*.md"],'
        ' inject: {mode: list, instruction: "Review these:"}}'
    )
    prompt, _ = ask(stage, needs)
    assert prompt == (
        "Review these:\nRequired:\n- design/api_spec.md\n"
        f"Optional (if available):\n- docs/standards.md\n\n{PROMPT}"
    )
    for path in ("docs/standards.md",):
        (stage.folder / path).unlink()
    without, played = ask(stage, needs)
    assert "standards" not in without
    assert "gone" not in without
    assert "- design/api_spec.md\n" in without
    assert played.step("Ask")["status"] == "completed"


def test_at_034_nothing_to_show_leaves_the_prompt(tmp_path: Path) -> None:
    needs = '{optional: ["gone/*.md"], inject: {mode: content, position: append}}'
    prompt, _ = ask(stage_with_files(tmp_path), needs)
    assert prompt == PROMPT


@pytest.mark.parametrize(
    "inject", ["", ", inject: false", ", inject: {mode: none}", ", inject: {instruction: Hear}"]
)
def test_at_035_no_injection_by_default(tmp_path: Path, inject: str) -> None:
    prompt, _ = ask(stage_with_files(tmp_path), f'{{required: ["design/*.md"]{inject}}}')
    assert prompt == PROMPT


def test_at_053_the_shorthand(tmp_path: Path) -> None:
    stage = stage_with_files(tmp_path)
    needs = '{{required: ["design/*.md"], inject: {}}}'
    short, _ = ask(stage, needs.format("true"))
    long, _ = ask(stage, needs.format("{mode: list, position: prepend}"))
    assert short == long == f"{LIST_SENTENCE}\n{DESIGN_LIST}\n{PROMPT}"


def test_injection_reaches_an_argument_too(tmp_path: Path) -> None:
    """C, reserved placeholder: in both modes the prompt is composed after injection."""
    stage = stage_with_files(tmp_path)
    text = ASK.format(needs='{required: ["docs/*.md"], inject: true}')
    text = text.replace('["tool"], input_mode: stdin', '["tool", "-p", "${PROMPT}"]')
    stage.play(text)
    assert stage.calls("tool")[0].argv == [
        "-p",
        f"{LIST_SENTENCE}\n- docs/standards.md\n\n{PROMPT}",
    ]
