"""Language §7: recipes as people have them for similar tools compile as far as they can.

Each file in `foreign/` says first what becomes of it: `# compiles`, or `# refused: FIELD | WORDS`
with the field that we do not have and words of our way to write it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from orchestrate.compile import compile_file
from orchestrate.diagnostics import Diagnostic
from orchestrate.testing import Project
from orchestrate.workspace import open_workspace

FOREIGN = Path(__file__).parent / "foreign"
FIRST = {file: file.read_text("utf-8").partition("\n")[0] for file in sorted(FOREIGN.iterdir())}
FITTING = [file for file, said in FIRST.items() if said == "# compiles"]
REFUSED = [file for file, said in FIRST.items() if said.startswith("# refused: ")]


def findings(file: Path, monkeypatch: pytest.MonkeyPatch) -> list[Diagnostic]:
    monkeypatch.chdir(FOREIGN)
    found = compile_file(Path(file.name), open_workspace()).diagnostics
    return [one for one in found if one.code.startswith("E")]


def test_there_are_enough_of_both() -> None:
    assert len(FITTING) + len(REFUSED) == len(FIRST) >= 30
    assert min(len(FITTING), len(REFUSED)) >= 15


@pytest.mark.parametrize("file", FITTING, ids=lambda file: file.stem)
def test_it_compiles_and_rehearses(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert findings(file, monkeypatch) == []
    for other in FITTING:
        shutil.copy(other, tmp_path)
    Project(tmp_path).run("run", file.name, "--backend", "rehearsal").assert_success()


@pytest.mark.parametrize("file", REFUSED, ids=lambda file: file.stem)
def test_it_is_refused_by_the_field_with_our_way(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    field, words = FIRST[file].removeprefix("# refused: ").split(" | ")
    (finding,) = findings(file, monkeypatch)
    assert f"'{field}'" in finding.message
    assert words in f"{finding.hint} {finding.suggestion}"
    line = file.read_text("utf-8").splitlines()[finding.span.line - 1]
    assert line[finding.span.column - 1 :].startswith(field)
