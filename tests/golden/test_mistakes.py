"""Every mistake gives exactly the findings it names, each at its exact place, drawn as its golden.

A case is `<name>.yaml` (or `.json`) in a folder of `mistakes/`, or a folder `<name>/` with a
`main.yaml` and the files it needs. Its expectations are comment lines

    # expect: E404 | Mising

(a code and the text that the caret must underline, as it stands in the file), or, where the file
cannot hold comments, lines of the same form without `#` in `<name>.expect`. They are written by
hand, in reading order, so a golden cannot be wrong about a place without this test failing.
The folder of the case is its workspace.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrate.catalogue import SUFFIXES
from orchestrate.codes import CODES
from orchestrate.compile import Compilation, compile_file
from orchestrate.show.findings import draw
from orchestrate.workspace import open_workspace

MISTAKES = Path(__file__).parent / "mistakes"
_EXPECT = re.compile(r"^(?:# )?expect: ([EW]\d{3}) \| (.*)$", re.MULTILINE)


def case_files() -> list[Path]:
    found = []
    for dialect in sorted(MISTAKES.iterdir()):
        for entry in sorted(dialect.iterdir()):
            if entry.is_dir():
                found += [file for file in entry.glob("main.*") if file.suffix in SUFFIXES]
            elif entry.suffix in SUFFIXES:
                found.append(entry)
    return found


CASES = case_files()


def _name(case: Path) -> str:
    relative = case.relative_to(MISTAKES)
    return "/".join(relative.parts[:-1] if case.stem == "main" else relative.with_suffix("").parts)


def _expected(case: Path) -> list[tuple[str, str]]:
    beside = case.with_suffix(".expect")
    text = beside.read_text() if beside.exists() else case.read_text()
    return [(match[1], match[2]) for match in _EXPECT.finditer(text)]


def _compile(case: Path, monkeypatch: pytest.MonkeyPatch) -> Compilation:
    monkeypatch.chdir(case.parent)
    return compile_file(Path(case.name), open_workspace())


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_mistake(case: Path, monkeypatch: pytest.MonkeyPatch, update_goldens: bool) -> None:
    expected = _expected(case)
    assert expected, "the case names no finding"
    compilation = _compile(case, monkeypatch)
    seen = []
    for finding in compilation.diagnostics:
        span = finding.span
        lines = (case.parent / span.file).read_text("utf-8").split("\n")
        line = lines[span.line - 1]
        seen.append((finding.code, line[span.column - 1 :][: span.length]))
    assert seen == expected
    drawn = draw(compilation.diagnostics)
    golden = case.with_suffix(".diag")
    if update_goldens:
        golden.write_text(drawn)
    assert golden.exists(), "no golden yet: run with --update-goldens and read what it says"
    assert drawn == golden.read_text()


def test_there_are_at_least_150_distinct_mistakes() -> None:
    texts = {case.with_suffix(".diag").read_text() for case in CASES}
    assert len(texts) >= 150


def test_every_code_has_a_mistake_that_shows_it() -> None:
    elsewhere = {"E001", "E002", "E003", "E004", "E005", "E012"}  # tests/hostile makes those files
    elsewhere |= {"W108", "E128"}  # they depend on the agent: tests/truth/test_truth_33_checks.py
    shown = {expected for case in CASES for expected, _ in _expected(case)}
    assert sorted(CODES.keys() - shown - elsewhere) == []
