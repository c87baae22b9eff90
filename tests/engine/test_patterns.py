"""POSIX patterns: what matches, in which order, and that nothing outside the workspace does."""

from __future__ import annotations

import fnmatch
import os
import socket
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.engine import confine
from orchestrate.engine.confine import PathFault
from orchestrate.engine.evaluate import render_pattern
from orchestrate.engine.patterns import (
    _parse_part,
    escape_pattern,
    match_pattern,
    show_pattern,
)
from orchestrate.workspace import Workspace
from tests.engine.conftest import Write
from tests.engine.flipping import REFUSED, race
from tests.engine.values import Values, text


def accepts(pattern: str, name: str) -> bool:
    part = _parse_part(pattern, show_pattern(pattern))
    return part.accepts(name) if part.accepts else part.name == name


class TestMatching:
    """C acceptance 23: POSIX globbing."""

    @pytest.fixture(autouse=True)
    def files(self, write: Write) -> None:
        for name in ("a.csv", "b.csv", "B.csv", "ab.csv", "c.txt", ".hidden.csv", "data/x.csv",
                     "data/.dot", "data/deep/y.csv", ".conf/z.csv"):  # fmt: skip
            write(name)

    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("*.csv", ["B.csv", "a.csv", "ab.csv", "b.csv"]),
            ("?.csv", ["B.csv", "a.csv", "b.csv"]),
            ("[ab].csv", ["a.csv", "b.csv"]),
            ("[a-b]*.csv", ["a.csv", "ab.csv", "b.csv"]),
            ("[!a].csv", ["B.csv", "b.csv"]),
            ("[^a].csv", ["B.csv", "b.csv"]),
            ("[[:upper:]].csv", ["B.csv"]),
            ("[]a].csv", ["a.csv"]),
            ("[z-a].csv", []),
            (".*", [".conf", ".hidden.csv"]),
            (".h*", [".hidden.csv"]),
            ("[.]hidden.csv", []),
            ("?hidden.csv", []),
            (".conf/*", [".conf/z.csv"]),
            ("*/z.csv", []),
            ("*/*.csv", ["data/x.csv"]),
            ("*/*/*.csv", ["data/deep/y.csv"]),
            ("data", ["data"]),
            ("data/", ["data"]),
            ("*/", ["data"]),
            ("c.txt/", []),
            ("data/*", ["data/deep", "data/x.csv"]),
            ("./data//x.csv", ["data/x.csv"]),
            ("./a.csv", ["a.csv"]),
            ("missing", []),
            ("a.csv/x", []),
            ("missing/*", []),
            ("*" * 1 + "x" * 5000, []),
            ("x" * 5000, []),
            ("[", []),
        ],
    )
    def test_pattern(self, workspace: Workspace, pattern: str, found: list[str]) -> None:
        assert match_pattern(workspace, pattern) == found

    def test_variables_are_filled_in_first(self, workspace: Workspace) -> None:
        """C acceptance 24."""
        scope = Values({"context": {"file": "data/x.csv", "set": "data"}})
        assert match_pattern(workspace, render_pattern(text("${context.file}"), scope)) == [
            "data/x.csv"
        ]
        assert match_pattern(workspace, render_pattern(text("${context.set}/*.csv"), scope)) == [
            "data/x.csv"
        ]

    def test_the_folders_are_left_as_they_were(self, workspace: Workspace) -> None:
        before = len(os.listdir("/dev/fd"))
        for _ in range(20):
            match_pattern(workspace, "*/*/*")
        assert len(os.listdir("/dev/fd")) == before


def test_the_order_is_that_of_bytes(workspace: Workspace, write: Write) -> None:
    names = [b"Z", b"a", b"a b", b"a-b", b"\xc3\xa9", b"\xff", b"\xf0\x9f\x98\x80", b"z"]
    for name in names:
        write(os.fsdecode(name))
    assert [os.fsencode(name) for name in match_pattern(workspace, "*")] == sorted(names)


@pytest.mark.parametrize(
    "name", ["a[1].csv", "*.csv", "?", "a\\b", "[!a]", "a]b", "-", "^", "x\ny", "caf\udce9", "${x}"]
)
def test_a_value_matches_only_itself(workspace: Workspace, write: Write, name: str) -> None:
    for other in ("a1.csv", "b", "ab", "c.csv", "x"):
        write(other)
    write(name)
    scope = Values({"item": name})
    assert match_pattern(workspace, render_pattern(text("${item}"), scope)) == [name]


@pytest.mark.parametrize("member", ["]", "!", "^", "-", "[:alpha:]", "a-z", "\\"])
def test_a_value_in_brackets_is_a_set_of_characters(member: str) -> None:
    pattern = f"[{escape_pattern(member)}]"
    assert accepts(pattern, member[0])
    assert not accepts(pattern, "m")
    assert not accepts(pattern, "~")


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        (r"\*", "*", True), (r"\*", "a", False), (r"a\?", "a?", True), (r"\[a]", "[a]", True),
        (r"[\]]", "]", True), (r"[a\-c]", "b", False), (r"[a\-c]", "-", True), ("[a-", "[a-", True),
        ("[[:digit:]x]?", "7z", True), ("[![:digit:]]", "7", False), ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-b-b-d", False), ("*ab", "aab", True), ("*\n*", "x\ny", True),
        ("a\\", "a\\", True),
        (r"\.x*", ".xy", True), ("[a-]", "-", True), ("[--a]", "A", True), ("[&&~|]", "~", True),
    ],
)  # fmt: skip
def test_names(pattern: str, name: str, expected: bool) -> None:
    assert accepts(pattern, name) is expected


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_stars_agree_with_the_standard_library(pattern: str, name: str) -> None:
    assert accepts(pattern, name) == fnmatch.fnmatchcase(name, pattern)


@given(st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1))
def test_an_escaped_text_is_that_text(name: str) -> None:
    assert show_pattern(escape_pattern(name)) == name
    assert accepts(escape_pattern(name), name)
    assert not accepts(escape_pattern(name), name + "x")


@given(st.text("[]!^-\\:al*?.", max_size=12), st.text("[]!^-\\:al.", max_size=4))
def test_no_pattern_breaks_the_matcher(pattern: str, name: str) -> None:
    assert accepts(pattern, name) in (True, False)


def test_many_stars_take_no_time() -> None:
    started = time.process_time()
    assert not accepts("*a" * 60 + "*b", "a" * 255)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "..", "../x", "a/../b", "a/..", "~/x", "a\0b", "", ".", "./", "..\\x"],
)
def test_paths_that_are_refused_after_substitution(workspace: Workspace, path: str) -> None:
    with pytest.raises(PathFault) as caught:
        match_pattern(workspace, render_pattern(text("${p}"), Values({"p": path})))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("pattern", ["**", "a/**/b", "**.csv", "../*", "/*", r"\../*", "."])
def test_patterns_that_are_refused(workspace: Workspace, pattern: str) -> None:
    with pytest.raises(PathFault):
        match_pattern(workspace, pattern)


@pytest.mark.parametrize("path", ["\ud800", r"\.\./x", r"\/etc/passwd", "*/*"])
def test_odd_values_are_names_of_nothing(workspace: Workspace, write: Write, path: str) -> None:
    write("x/x")
    assert match_pattern(workspace, render_pattern(text("${p}"), Values({"p": path}))) == []


class TestLinks:
    """C acceptance 39: links are followed, but not out of the workspace."""

    def test_inside(self, workspace: Workspace, write: Write) -> None:
        write("data/x.csv")
        (workspace.root / "link").symlink_to("data")
        (workspace.root / "y.csv").symlink_to("data/x.csv")
        assert match_pattern(workspace, "link/*.csv") == ["link/x.csv"]
        assert match_pattern(workspace, "*.csv") == ["y.csv"]

    @pytest.mark.parametrize("pattern", ["out", "o*", "out/", "out/secret.txt", "out/*", "*/*.txt"])
    def test_outside(self, workspace: Workspace, outside: Path, pattern: str) -> None:
        (workspace.root / "out").symlink_to(outside)
        with pytest.raises(PathFault, match="leads out of the workspace"):
            match_pattern(workspace, pattern)

    @pytest.mark.parametrize("pattern", ["out/none", "out/*.csv", "out/deep/none"])
    def test_outside_though_nothing_matches(
        self, workspace: Workspace, outside: Path, pattern: str
    ) -> None:
        """C: a path that escapes is rejected; whether something is there must not be told."""
        (workspace.root / "out").symlink_to(outside)
        with pytest.raises(PathFault, match="leads out of the workspace"):
            match_pattern(workspace, pattern)

    @pytest.mark.parametrize("pattern", ["x*", "o*/none", "*/*.nothing"])
    def test_outside_among_many_names_is_no_match(
        self, workspace: Workspace, outside: Path, pattern: str
    ) -> None:
        (workspace.root / "out").symlink_to(outside)
        assert match_pattern(workspace, pattern) == []

    def test_the_workspace_itself(self, workspace: Workspace) -> None:
        (workspace.root / "self").symlink_to(".")
        assert match_pattern(workspace, "self/self/*") == ["self/self/self"]

    def test_to_nothing(self, workspace: Workspace) -> None:
        (workspace.root / "dangling").symlink_to("missing")
        (workspace.root / "loop").symlink_to("loop")
        (workspace.root / "far").symlink_to("/nonexistent/x")
        assert match_pattern(workspace, "*") == []

    def test_where_a_path_cannot_be_opened_as_such(
        self, workspace: Workspace, outside: Path, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As on macOS, which has no O_PATH."""
        monkeypatch.setattr(confine, "_PATH_ONLY", 0)
        write("data/x.csv")
        (workspace.root / "link").symlink_to("data")
        (workspace.root / "dangling").symlink_to("missing")
        assert match_pattern(workspace, "*/*") == ["data/x.csv", "link/x.csv"]
        (workspace.root / "out").symlink_to(outside)
        for pattern in ("out", "out/*"):
            with pytest.raises(PathFault, match="leads out of the workspace"):
                match_pattern(workspace, pattern)

    def test_a_link_that_flips_never_shows_a_name_from_outside(
        self, workspace: Workspace, outside: Path, write: Write
    ) -> None:
        write("good/inside.txt")
        link = workspace.root / "link"
        link.symlink_to("good")

        def look() -> str:
            return " ".join(match_pattern(workspace, "link/*"))

        expected = {"link/inside.txt", REFUSED}
        assert race(link, ["good", str(outside)], look, expected) == expected


def test_what_is_no_file_exists_nevertheless(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(workspace.root / "fifo")
    monkeypatch.chdir(workspace.root)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("socket")
        assert match_pattern(workspace, "*o*") == ["fifo", "socket"]


def test_a_workspace_that_is_gone(workspace: Workspace) -> None:
    workspace.root.rmdir()
    with pytest.raises(PathFault, match="cannot open the workspace"):
        match_pattern(workspace, "*")
