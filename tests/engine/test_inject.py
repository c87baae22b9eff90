"""Dependencies and injection: C's texts, its order, its cap, and files that are no text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.engine.confine import PathFault
from orchestrate.engine.inject import (
    CAP,
    Composed,
    MissingFiles,
    Needed,
    compose_prompt,
    resolve_needs,
)
from orchestrate.engine.texts import decode
from orchestrate.plan.data import FileNeeds, Inject
from orchestrate.plan.visible import show_size
from orchestrate.workspace import Workspace
from tests.engine.conftest import Write
from tests.engine.values import Values, text

LIST = "The following files are required inputs for this task:"
CONTENT = "The following file contents are provided for context:"
SHORTHAND = Inject("list", LIST, "prepend", sections=False)
PROMPT = "Do the work.\n"


def listing(instruction: str = LIST, position: Any = "prepend") -> Inject:
    return Inject("list", instruction, position, sections=True)


def contents(instruction: str = CONTENT, position: Any = "prepend") -> Inject:
    return Inject("content", instruction, position, sections=True)


def needs(*required: str, optional: tuple[str, ...] = ()) -> FileNeeds:
    return FileNeeds(tuple(map(text, required)), tuple(map(text, optional)))


def details(composed: Composed) -> dict[str, int]:
    assert composed.truncation is not None
    assert composed.truncation["injection_truncated"] is True
    found: dict[str, int] = composed.truncation["truncation_details"]
    return found


class TestNeeds:
    def test_patterns_are_resolved_in_order(self, workspace: Workspace, write: Write) -> None:
        """C acceptance 23 and 33."""
        for name in ("src/b.py", "src/a.py", "src/B.py", "docs/x.md"):
            write(name)
        found = resolve_needs(needs("src/*.py", "docs/x.md"), Values({}), workspace)
        assert found == Needed(("docs/x.md", "src/B.py", "src/a.py", "src/b.py"))

    def test_each_iteration_looks_anew(self, workspace: Workspace, write: Write) -> None:
        """C acceptance 24 and 25."""
        write("0.csv")
        wanted = needs("${loop.index}.csv")
        assert resolve_needs(wanted, Values({"loop": {"index": 0}}), workspace).all == ("0.csv",)
        with pytest.raises(MissingFiles) as caught:
            resolve_needs(wanted, Values({"loop": {"index": 1}}), workspace)
        assert caught.value.context == {"failed_deps": ["1.csv"]}
        write("1.csv")
        assert resolve_needs(wanted, Values({"loop": {"index": 1}}), workspace).all == ("1.csv",)

    def test_missing_required_files_are_all_named(self, workspace: Workspace, write: Write) -> None:
        """C acceptance 22 and 27: exit code 2."""
        write("there")
        scope = Values({"x": "a[1].csv"})
        with pytest.raises(MissingFiles) as caught:
            resolve_needs(needs("gone.txt", "there", "${x}", "no/*"), scope, workspace)
        assert caught.value.exit_code == 2
        assert caught.value.context == {
            "failed_deps": ["gone.txt", "a[1].csv", "no/*"],
            "depends_on": {"required": ["there"]},
        }
        assert "gone.txt" in caught.value.message

    def test_missing_optional_files_are_left_out(self, workspace: Workspace, write: Write) -> None:
        """C acceptance 26 and 34."""
        write("a")
        write("b")
        found = resolve_needs(needs("a", optional=("gone", "b", "*")), Values({}), workspace)
        assert found == Needed(("a",), ("b",), has_optional=True)

    def test_a_folder_is_enough(self, workspace: Workspace, write: Write) -> None:
        write("data/x")
        assert resolve_needs(needs("data"), Values({}), workspace).required == ("data",)

    @pytest.mark.parametrize("path", ["/etc", "..", "out"])
    def test_unsafe_paths(self, workspace: Workspace, outside: Path, path: str) -> None:
        (workspace.root / "out").symlink_to(outside)
        with pytest.raises(PathFault):
            resolve_needs(needs(optional=("${p}",)), Values({"p": path}), workspace)


class TestList:
    def test_shorthand(self, workspace: Workspace) -> None:
        """C acceptance 28."""
        needed = Needed(("artifacts/architect/api_spec.md", "artifacts/architect/system_design.md"))
        assert compose_prompt(PROMPT, needed, SHORTHAND, workspace) == Composed(
            "The following files are required inputs for this task:\n"
            "- artifacts/architect/api_spec.md\n"
            "- artifacts/architect/system_design.md\n"
            "\n"
            "Do the work.\n"
        )

    def test_shorthand_is_the_object_form_with_defaults(self, workspace: Workspace) -> None:
        """C acceptance 53."""
        needed = Needed(("a", "b"))
        short = compose_prompt(PROMPT, needed, SHORTHAND, workspace)
        assert short == compose_prompt(PROMPT, needed, listing(), workspace)

    def test_shorthand_is_flat_with_optional_files(self, workspace: Workspace) -> None:
        composed = compose_prompt(
            PROMPT, Needed(("b",), ("a", "c"), has_optional=True), SHORTHAND, workspace
        )
        assert composed.prompt == f"{LIST}\n- a\n- b\n- c\n\n{PROMPT}"

    def test_sections(self, workspace: Workspace) -> None:
        """C acceptance 29 and 31; rulings §9."""
        needed = Needed(("b.md", "c.md"), ("docs/standards.md",), has_optional=True)
        inject = listing("Review these architecture files:")
        assert compose_prompt(PROMPT, needed, inject, workspace).prompt == (
            "Review these architecture files:\n"
            "Required:\n"
            "- b.md\n"
            "- c.md\n"
            "Optional (if available):\n"
            "- docs/standards.md\n"
            "\n"
            "Do the work.\n"
        )

    def test_sections_without_files_have_no_heading(self, workspace: Workspace) -> None:
        """C acceptance 34."""
        absent = compose_prompt(PROMPT, Needed(("a",), (), has_optional=True), listing(), workspace)
        assert absent.prompt == f"{LIST}\nRequired:\n- a\n\n{PROMPT}"
        only = compose_prompt(PROMPT, Needed((), ("a",), has_optional=True), listing(), workspace)
        assert only.prompt == f"{LIST}\nOptional (if available):\n- a\n\n{PROMPT}"

    @pytest.mark.parametrize("prompt", ["No newline", "One newline\n"])
    def test_append(self, workspace: Workspace, prompt: str) -> None:
        """C acceptance 32."""
        inject = listing(position="append")
        composed = compose_prompt(prompt, Needed(("a",)), inject, workspace)
        assert composed.prompt == f"{prompt.rstrip()}\n\n{LIST}\n- a\n"

    def test_without_a_prompt(self, workspace: Workspace) -> None:
        assert compose_prompt("", Needed(("a",)), SHORTHAND, workspace).prompt == f"{LIST}\n- a\n"

    def test_no_injection(self, workspace: Workspace) -> None:
        """C acceptance 35."""
        assert compose_prompt(PROMPT, Needed(("a",)), None, workspace) == Composed(PROMPT)
        assert compose_prompt(PROMPT, Needed(), SHORTHAND, workspace) == Composed(PROMPT)

    def test_an_instruction_from_a_block(self, workspace: Workspace) -> None:
        inject = listing("Read:\nall\n")
        composed = compose_prompt(PROMPT, Needed(("a",)), inject, workspace)
        assert composed.prompt == f"Read:\nall\n- a\n\n{PROMPT}"

    def test_a_name_cannot_add_a_line(self, workspace: Workspace) -> None:
        needed = Needed(("a\n- /etc/passwd", "caf\udce9", "Ünïcode name"))
        composed = compose_prompt(PROMPT, needed, SHORTHAND, workspace)
        assert composed.prompt == (
            f'{LIST}\n- "a\\n- /etc/passwd"\n- "caf\\udce9"\n- Ünïcode name\n\n{PROMPT}'
        )

    def test_truncation(self, workspace: Workspace) -> None:
        names = tuple(f"{index:04}" + "x" * 1018 for index in range(300))
        composed = compose_prompt(PROMPT, Needed(names), listing("Review these files:"), workspace)
        lines = composed.prompt.splitlines()
        shown = [line for line in lines if line.startswith("- ")]
        assert shown == [f"- {name}" for name in names[: len(shown)]]
        hidden = 300 - len(shown)
        assert lines[len(shown) + 1] == f"[... {hidden} more files truncated (300 KiB total)]"
        assert details(composed) == {
            "total_size": 300 * 1025,
            "shown_size": len(shown) * 1025,
            "files_shown": len(shown),
            "files_truncated": 0,
            "files_omitted": hidden,
        }
        assert CAP - 2048 < details(composed)["shown_size"] <= CAP
        assert composed.prompt.endswith(f"]\n\n{PROMPT}")


class TestContent:
    def test_all_of_it(self, workspace: Workspace, write: Write) -> None:
        """C acceptance 30."""
        write("a.md", "# A\n")
        write("b.json", '{"b": 1}')
        write("empty")
        needed = Needed(("a.md", "b.json"), ("empty",), has_optional=True)
        inject = contents("Review these architecture files:")
        assert compose_prompt(PROMPT, needed, inject, workspace) == Composed(
            "Review these architecture files:\n"
            "\n"
            "=== File: a.md (4 bytes) ===\n"
            "# A\n"
            "\n"
            "=== File: b.json (8 bytes) ===\n"
            '{"b": 1}\n'
            "\n"
            "=== File: empty (0 bytes) ===\n"
            "\n"
            "Do the work.\n"
        )

    def test_append(self, workspace: Workspace, write: Write) -> None:
        write("a", "A")
        inject = contents(position="append")
        composed = compose_prompt(PROMPT, Needed(("a",)), inject, workspace)
        assert composed.prompt == f"{PROMPT}\n{CONTENT}\n\n=== File: a (1 byte) ===\nA\n"

    def test_contents_are_not_scanned(self, workspace: Workspace, write: Write) -> None:
        write("a", "${context.x} {{y}} $$ %s\n")
        composed = compose_prompt("", Needed(("a",)), contents(), workspace)
        assert composed.prompt.endswith("\n${context.x} {{y}} $$ %s\n")

    def test_truncation(self, workspace: Workspace, write: Write) -> None:
        config, data = "c" * 45 * 1024, "d" * 300 * 1024
        write("a.yaml", config)
        write("b.json", data)
        olds = [f"old{index}.json" for index in range(5)]
        for index, name in enumerate(olds):
            write(name, "o" * (index + 1) * 1024)
        needed = Needed(("a.yaml", "b.json", *olds))
        composed = compose_prompt(PROMPT, needed, contents(), workspace)
        room = CAP - len(config)
        assert composed.prompt == (
            f"{CONTENT}\n\n"
            f"=== File: a.yaml (45 KiB) ===\n{config}\n\n"
            f"=== File: b.json ({room}/{len(data)}) ===\n{data[:room]}\n"
            "[... truncated: 211 KiB of 300 KiB shown]\n\n"
            "=== Files not shown (5 files, 15 KiB) ===\n"
            "- old0.json (1 KiB)\n- old1.json (2 KiB)\n[... 3 more files]\n\n"
            f"{PROMPT}"
        )
        assert details(composed) == {
            "total_size": (45 + 300 + 15) * 1024,
            "shown_size": CAP,
            "files_shown": 1,
            "files_truncated": 1,
            "files_omitted": 5,
        }

    def test_a_file_of_exactly_the_cap_is_whole(self, workspace: Workspace, write: Write) -> None:
        write("a", "x" * CAP)
        assert compose_prompt("", Needed(("a",)), contents(), workspace).truncation is None
        write("b", "y")
        write("c", "")
        composed = compose_prompt("", Needed(("a", "b", "c")), contents(), workspace)
        assert composed.prompt.endswith(
            "=== Files not shown (2 files, 1 byte) ===\n- b (1 byte)\n- c (0 bytes)\n"
        )
        assert details(composed)["files_truncated"] == 0

    @pytest.mark.parametrize("offset", range(4))
    def test_no_character_is_cut(self, workspace: Workspace, write: Write, offset: int) -> None:
        write("a", "x" * offset + "😀" * (CAP // 4))
        composed = compose_prompt("", Needed(("a",)), contents(), workspace)
        assert "\ufffd" not in composed.prompt
        if offset:
            assert details(composed)["shown_size"] == CAP - 4 + offset
        assert composed.prompt.encode("utf-8")

    @pytest.mark.parametrize("data", [b"\x7fELF\0\0", bytes(range(128, 256)), b"x" * 999 + b"\0"])
    def test_binary_files_are_named(self, workspace: Workspace, write: Write, data: bytes) -> None:
        write("a.bin", data)
        write("b", "text")
        composed = compose_prompt("", Needed(("a.bin", "b")), contents(), workspace)
        assert composed == Composed(
            f"{CONTENT}\n\n=== File: a.bin ({len(data)} bytes, binary, not shown) ===\n\n"
            "=== File: b (4 bytes) ===\ntext\n"
        )

    def test_text_in_another_encoding(self, workspace: Workspace, write: Write) -> None:
        write("a", "ein schönes Wort\n".encode("latin-1"))
        composed = compose_prompt("", Needed(("a",)), contents(), workspace)
        assert composed.prompt.endswith("=== File: a (17 bytes, not UTF-8, not shown) ===\n")

    def test_folders_are_named(self, workspace: Workspace, write: Write) -> None:
        write("src/x")
        composed = compose_prompt("", Needed(("src",)), contents(), workspace)
        assert composed.prompt == f"{CONTENT}\n\n=== File: src (folder, not shown) ===\n"

    def test_a_fifo_is_refused(self, workspace: Workspace) -> None:
        os.mkfifo(workspace.root / "fifo")
        with pytest.raises(PathFault, match="not a regular file"):
            compose_prompt("", Needed(("fifo",)), contents(), workspace)

    def test_a_link_out_is_refused(self, workspace: Workspace, outside: Path) -> None:
        (workspace.root / "x").symlink_to(outside / "secret.txt")
        with pytest.raises(PathFault, match="out of the workspace"):
            compose_prompt("", Needed(("x",)), contents(), workspace)

    def test_many_empty_files_make_no_endless_prompt(
        self, workspace: Workspace, write: Write
    ) -> None:
        names = tuple(f"{index:03}" + "n" * 200 for index in range(600))
        for name in names:
            write(name)
        composed = compose_prompt("", Needed(names), contents(), workspace)
        assert len(composed.prompt) < 80 * 1024
        counted = details(composed)
        assert counted["files_shown"] + counted["files_omitted"] == 600
        assert counted["total_size"] == counted["shown_size"] == 0

    def test_a_huge_file_is_not_read_to_its_end(self, workspace: Workspace) -> None:
        with (workspace.root / "big").open("wb") as opened:
            opened.write(b"x" * CAP)
            opened.truncate(10 * 1024**3)
        composed = compose_prompt("", Needed(("big",)), contents(), workspace)
        assert composed.prompt.endswith("[... truncated: 256 KiB of 10.0 GiB shown]\n")


@given(st.text(), st.integers(0, 60))
def test_a_cut_text_is_a_beginning_of_it(text: str, at: int) -> None:
    data = text.encode("utf-8")
    shown, size = decode(data[:at], is_cut=True)
    assert text.startswith(shown)
    assert size == len(shown.encode("utf-8"))


@pytest.mark.parametrize(
    ("size", "shown"),
    [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1 KiB"), (45 * 1024, "45 KiB"),
     (892 * 1024, "892 KiB"), (3 * 1024**2 // 2, "1.5 MiB"), (2 * 1024**3, "2.0 GiB")],
)  # fmt: skip
def test_sizes(size: int, shown: str) -> None:
    assert show_size(size) == shown
