"""Small files with hostile contents: each is refused with its code, at once and without a trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.hostile.conftest import Attack

DEEP = 1_000_000
# What is large is made when it is wanted.
Content = bytes | Callable[[], bytes]
# Shaped like a machine, whose faults end with 1 and not with 2 (rulings §4).
MACHINE = b"initialStep: a\nsteps: {}\n"
JSON_MACHINE = b'"initialStep": "a", "steps": {}}'

# What the file holds, the code that refuses it, the exit code.
YAML: dict[str, tuple[Content, str, int]] = {
    "binary": (bytes(range(256)) * 40, "E004", 2),
    "program": (b"\x7fELF\x02\x01\x01" + b"\0" * 64, "E004", 2),
    "empty": (b"", "E005", 2),
    "only-spaces": (b" \n\n  \n", "E005", 2),
    "only-comments": (b"# nothing\n# at all\n", "E005", 2),
    "only-markers": (b"---\n...\n", "E005", 2),
    "null": (b"null\n", "E005", 2),
    "only-a-byte-order-mark": (b"\xef\xbb\xbf", "E005", 2),
    "latin-1": ("name: caf\xe9\nsteps: []\n".encode("latin-1"), "E004", 2),
    "utf-16": ("name: x\nsteps: []\n".encode("utf-16"), "E004", 2),
    "utf-16-without-mark": ("name: x\n".encode("utf-16-le"), "E004", 2),
    "utf-32": ("name: x\n".encode("utf-32"), "E004", 2),
    "nul": (b"name: a\0b\n", "E004", 2),
    "overlong-utf-8": (b"name: \xc0\xaf\n", "E004", 2),
    "surrogate-in-utf-8": (b"name: \xed\xa0\x80\n", "E004", 2),
    "bell": (b"name: a\x07b\nsteps: []\n", "E006", 2),
    "escape-sequence-in-a-key": (b'"\\e[31mred\\e[0m\\a": 1\n' + MACHINE, "E101", 1),
    "direction-override-in-a-key": ('"\u202egnp.exe": 1\n'.encode() + MACHINE, "E101", 1),
    "line-ends-in-a-key": (b'"a\\nb\\rc\\Nd\\Le\\Pf": 1\n' + MACHINE, "E101", 1),
    "colon": (b":", "E006", 2),
    "tab": (b"steps:\n\t- name: x\n", "E006", 2),
    "open-quote": (b'name: "abc\n', "E006", 2),
    "open-bracket": (b"steps: [a, b\n", "E006", 2),
    "unknown-directive": (b"%YAML 9.9\n---\nsteps: []\n", "E006", 2),
    "two-documents": (MACHINE + b"---\n" + MACHINE, "E015", 2),
    "many-documents": (b"---\na: 1\n" * 100_000, "E015", 2),
    "text": (b"just a sentence\n", "E030", 2),
    "number": (b"42\n", "E030", 2),
    "list": (b"- a\n- b\n", "E030", 2),
    "mapping": (b"a: b\n", "E030", 2),
    "steps-is-text": (b"steps: all of them\n", "E030", 2),
    "key-twice": (MACHINE + b"steps: {}\n", "E007", 1),
    "merge-key": (b"initialStep: a\na: &a {x: 1}\nsteps: {<<: *a}\n", "E008", 1),
    "python-tag": (MACHINE + b"x: !!python/object/apply:os.system ['id']\n", "E009", 1),
    "own-tag": (MACHINE + b"x: !mine {}\n", "E009", 1),
    "binary-tag": (MACHINE + b"x: !!binary aGVsbG8=\n", "E009", 1),
    "set-tag": (MACHINE + b"x: !!set {a, b}\n", "E009", 1),
    "unknown-anchor": (b"steps: *nobody\n", "E010", 2),
    "anchor-in-itself": (b"steps: &a [*a]\n", "E010", 2),
    "anchor-far-in-itself": (b"steps: &a {b: {c: [1, {d: *a}]}}\n", "E010", 2),
    "anchor-as-its-own-key": (b"&a {*a : 1}\n", "E010", 2),
    "list-as-key": (b"? [a, b]\n: c\n", "E013", 2),
    "mapping-as-key": (b"{a: b}: c\n", "E013", 2),
    "number-as-key": (b"initialStep: a\nsteps: {1: {}}\n", "E013", 1),
    "null-as-key": (MACHINE + b"~: 1\n", "E013", 1),
    "nothing-as-key": (b"{? : 1}\n", "E013", 2),
    "nan": (MACHINE + b"x: .nan\n", "E014", 1),
    "infinity": (MACHINE + b"x: -.INF\n", "E014", 1),
    "too-large-a-number": (MACHINE + b"x: 1e999\n", "E014", 1),
    "long-number": (MACHINE + b"x: " + b"9" * 100_000, "E014", 1),
    "long-hexadecimal": (MACHINE + b"x: 0x" + b"f" * 100_000, "E014", 1),
    "long-fraction": (MACHINE + b"x: 0." + b"3" * 100_000, "E014", 1),
    "101-levels": (b"[" * 101 + b"]" * 101, "E011", 2),
    "brackets": (lambda: b"[" * DEEP, "E011", 2),
    "closed-brackets": (lambda: b"[" * DEEP + b"]" * DEEP, "E011", 2),
    "braces": (lambda: b"{a: " * DEEP, "E011", 2),
    "keys-of-keys": (lambda: b"? " * DEEP, "E013", 2),
    "stairs": (lambda: b"- " * DEEP + b"x\n", "E011", 2),
    "indented": (lambda: b"".join(b" " * n + b"a:\n" for n in range(3000)), "E011", 2),
}  # fmt: skip

JSON: dict[str, tuple[Content, str, int]] = {
    "empty": (b"", "E005", 2),
    "half": (b'{"steps": ', "E006", 2),
    "trailing-comma": (b'{"steps": {},}', "E006", 2),
    "comment": (b'{"steps": {}} // done', "E006", 2),
    "single-quotes": (b"{'steps': {}}", "E006", 2),
    "nan": (b'{"x": NaN}', "E006", 2),
    "infinity": (b'{"x": -Infinity}', "E006", 2),
    "long-number": (b'{"x": ' + b"9" * 100_000 + b"}", "E014", 2),
    "too-large-a-number": (b'{"x": 1e999}', "E014", 2),
    "key-twice": (b'{"steps": 1, ' + JSON_MACHINE, "E007", 2),
    "half-a-surrogate-pair": (b'{"a": "\\ud800", "steps": {}}', "E006", 2),
    "the-other-half": (b'{"\\udc00": 1, "steps": {}}', "E006", 2),
    "raw-newline": (b'{"a": "b\nc"}', "E006", 2),
    "nul": (b'{"a": "\0"}', "E004", 2),
    "escaped-nul-in-a-key": (b'{"a\\u0000b": 1, ' + JSON_MACHINE, "E101", 1),
    "escape-sequence-in-a-key": (b'{"\\u001b[2J": 1, ' + JSON_MACHINE, "E101", 1),
    "two-documents": (b"{} {}", "E006", 2),
    "lines": (b'{"a": 1}\n{"a": 2}\n', "E006", 2),
    "number": (b"1", "E030", 2),
    "101-levels": (b"[" * 101 + b"]" * 101, "E011", 2),
    "brackets": (lambda: b"[" * DEEP, "E011", 2),
    "closed-brackets": (lambda: b"[" * DEEP + b"]" * DEEP, "E011", 2),
    "braces": (lambda: b'{"a":' * DEEP, "E011", 2),
}


def made(content: Content) -> bytes:
    return content if isinstance(content, bytes) else content()


@pytest.mark.parametrize("case", YAML)
def test_yaml(attack: Attack, case: str) -> None:
    content, code, exit_code = YAML[case]
    name = attack.write("hostile.yaml", made(content))
    attack.run("validate", name).assert_refused(code, name, exit_code)


@pytest.mark.parametrize("case", JSON)
def test_json(attack: Attack, case: str) -> None:
    content, code, exit_code = JSON[case]
    name = attack.write("hostile.json", made(content))
    attack.run("validate", name).assert_refused(code, name, exit_code)


@pytest.mark.parametrize("case", ["binary", "open-quote", "key-twice", "escape-sequence-in-a-key"])
@pytest.mark.parametrize("command", [("plan",), ("plan", "--json"), ("run", "--dry-run")])
def test_other_commands_refuse_the_same(
    attack: Attack, case: str, command: tuple[str, ...]
) -> None:
    content, code, exit_code = YAML[case]
    name = attack.write("hostile.yaml", made(content))
    attack.run(*command, name).assert_refused(code, name, exit_code)


def test_a_listed_folder_may_hold_anything(attack: Attack) -> None:
    for case, (content, _, _) in YAML.items():
        if len(made(content)) < 10_000:
            attack.write(f"workflows/{case}.yaml", made(content))
    ending = attack.run("list").assert_well_behaved()
    assert ending.exit_code == 0
    assert "merge-key" in ending.stdout
