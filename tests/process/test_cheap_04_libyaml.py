"""The C part of ruamel, loaded by the command without the rest, reads and refuses the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

STEPS = 'version: "1.1"\nname: x\nsteps:\n  - name: A\n    command: '
FILES = {
    "valid": f"{STEPS}[echo, 'a b']\n",
    "of YAML 1.2, which only the pure parser knows": f"{STEPS}[curl, http://host, ok?]\n",
    "with a quote that is not closed": f'{STEPS}[echo, "a]\n',
    "with a control character": f"{STEPS}[echo, a\x01]\n",
    "with a tab": f"{STEPS}\n\t- echo\n",
    "with an alias of nothing": f"{STEPS}*a\n",
    "with a tag": f"{STEPS}!python/object [echo]\n",
    "with two keys alike": f"{STEPS}[echo]\nname: y\n",
    "with half a mapping": "a: {b: [c\n",
    "nested too deeply": "a: " + "[" * 200 + "]" * 200 + "\n",
}
# As a program does that uses ruamel itself: then all of it is there.
BESIDE_RUAMEL = "import ruamel.yaml; from orchestrate.__main__ import main; main()"
# What the command has loaded is no trap for who uses ruamel after it.
THEN_RUAMEL = """\
import orchestrate.__main__
from orchestrate.source.libyaml import c_parser
c_parser()
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
assert YAML(typ="safe").load("a: [1, {b: c}]") == {"a": [1, {"b": "c"}]}
assert YAML(typ="safe", pure=True).load("a: [1]") == {"a": [1]}
for pure in (False, True):
    try:
        YAML(typ="safe", pure=pure).load("a: [")
    except YAMLError as error:
        print(error.problem_mark is not None)
"""


def told(folder: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, encoding="utf-8", check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("what", FILES)
def test_a_file_is_read_as_with_all_of_ruamel(tmp_path: Path, what: str) -> None:
    (tmp_path / "w.yaml").write_text(FILES[what], "utf-8")
    alone = told(tmp_path, "-m", "orchestrate", "validate", "w.yaml")
    assert alone == told(tmp_path, "-c", BESIDE_RUAMEL, "validate", "w.yaml")
    assert alone[0] == (0 if what.startswith(("valid", "of YAML")) else 2)


def test_ruamel_works_behind_it(tmp_path: Path) -> None:
    assert told(tmp_path, "-c", THEN_RUAMEL) == (0, "True\nTrue\n")
