"""Files that are as large, as long or as full of mistakes as a file can be."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from orchestrate.source.yaml import MAX_WRITTEN

if TYPE_CHECKING:
    from tests.hostile.conftest import Attack

MEGABYTE = 1024 * 1024
LARGEST = 10 * MEGABYTE
MANY = MAX_WRITTEN - 50


def _laughs() -> bytes:
    lines = ["a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    for level in range(1, 12):
        inner = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{inner}]")
    return "\n".join(lines).encode()


def _ladder() -> bytes:
    rungs = (b"a%d: &a%d [*a%d]\n" % (n, n, n - 1) for n in range(1, 3000))
    return b"a0: &a0 [x]\n" + b"".join(rungs)


def _keys(count: int, rest: bytes) -> bytes:
    return b"".join(b"k%d%b" % (n, rest) for n in range(count))


SIZES: dict[str, tuple[Callable[[], bytes], str, int]] = {
    # aliases
    "billion-laughs": (_laughs, "E012", 2),
    "quadratic-laughs": (
        lambda: b"a: &a [" + b"x," * 50_000 + b"]\nb: [" + b"*a," * 50_000 + b"]\n", "E012", 2),
    "ladder": (_ladder, "E011", 2),
    "many-anchors": (lambda: _keys(MANY // 2, b": &a x\n"), "E030", 2),
    # more values than there may be, and just as many as there may be
    "too-many-items": (lambda: b"- a\n" * (LARGEST // 4), "E012", 2),
    "too-many-flow-items": (lambda: b"[" + b"a," * (LARGEST // 2 - 2) + b"]\n", "E012", 2),
    "too-many-mappings": (lambda: b"- {}\n" * (LARGEST // 5), "E012", 2),
    "999,999-values": (lambda: b"- a\n" * 999_998, "E012", 2),
    "many-items": (lambda: b"- a\n" * MANY, "E030", 2),
    "many-mappings": (lambda: b"steps:\n" + b"- {}\n" * MANY, "E030", 2),
    "many-keys": (lambda: _keys(MANY // 2, b": 1\n"), "E030", 2),
    # as many mistakes as a file can have
    "unknown-keys": (
        lambda: _keys(MANY // 2, b": 1\n") + b"initialStep: a\nsteps: {}\n", "E101", 1),
    "repeated-keys": (lambda: b"initialStep: a\nsteps: {}\n" + b"a: 1\n" * (MANY // 2), "E007", 1),
    "repeated-keys-in-a-line": (
        lambda: b"initialStep: a\nsteps: {" + b"k: 1, " * (MANY // 2) + b"}\n", "E007", 1),
    "keys-that-are-numbers": (lambda: b"1: 1\n" * (MANY // 2), "E013", 2),
    "tags": (lambda: b"- !a b\n" * MANY, "E009", 2),
    "empty-machine-steps": (
        lambda: b"initialStep: a\nsteps:\n " + _keys(MANY // 2, b": {}\n "), "E102", 1),
    "wrong-machine-steps": (
        lambda: b"initialStep: a\nsteps:\n " + _keys(MANY // 2, b": 1\n "), "E103", 1),
    "broken-workflow-steps": (
        lambda: b"version: '1.1'\nname: x\nsteps:\n" + b"- {name: a, comand: b}\n" * (MANY // 5),
        "E101", 2),
    "broken-recipe-steps": (
        lambda: b"name: x\nsteps:\n" + b"- {id: a, promt: b}\n" * (MANY // 5), "E101", 2),
    "outcomes-that-are-numbers": (
        lambda: b"initialStep: a\nsteps: {a: {prompt: b, outcomes: ["
        + b"".join(b"%d," % n for n in range(MANY)) + b"]}}\n", "E103", 1),
    "outcomes-that-are-mappings": (
        lambda: b"initialStep: a\nsteps: {a: {prompt: b, outcomes: ["
        + b"".join(b"{a: %d}," % n for n in range(MANY // 3)) + b"]}}\n", "E103", 1),
    # long lines
    "one-line": (lambda: b"a: " + b"x" * (LARGEST - 4), "E030", 2),
    "one-line-of-words": (lambda: b"a: " + b"x " * (LARGEST // 2 - 4), "E030", 2),
    "one-quoted-line": (lambda: b'a: "' + b"\\n" * (LARGEST // 2 - 4) + b'"\n', "E030", 2),
    "one-open-quote": (lambda: b'a: "' + b"x" * (LARGEST - 8), "E006", 2),
    "newlines": (lambda: b"\n" * LARGEST, "E005", 2),
    "comment": (lambda: b"#" * LARGEST, "E005", 2),
    "comments": (lambda: b"#\n" * (LARGEST // 2), "E005", 2),
    "comments-and-a-bracket": (lambda: b"#a\n" * (LARGEST // 3 - 1) + b"[", "E006", 2),
    "comments-and-a-quote": (lambda: b"#a\n" * (LARGEST // 3 - 2) + b'- "\\', "E006", 2),
    "dashes": (lambda: b"-\n" * (LARGEST // 2), "E012", 2),
    "colons": (lambda: b"[" + b"a:b," * 24_000 + b"]", "E030", 2),
    "urls": (lambda: b"[a, http://b?c:" + b"d, e:" * 19_000 + b"]", "E030", 2),
    # long words
    "long-key": (lambda: b"x" * MEGABYTE + b": 1\n", "E006", 2),
    "long-explicit-key": (
        lambda: b"initialStep: a\nsteps: {}\n? " + b"x" * MEGABYTE + b"\n: 1\n", "E101", 1),
    "long-step-name": (
        lambda: b'initialStep: a\nsteps: {? "' + b"x" * MEGABYTE + b'" : {}}\n', "E102", 1),
    "long-initial-step": (lambda: b"steps: {}\ninitialStep: " + b"y" * MEGABYTE, "E102", 1),
    "long-tag": (lambda: b"steps: !" + b"y" * MEGABYTE + b" {}\n", "E009", 2),
    "long-anchor": (lambda: b"steps: *" + b"y" * MEGABYTE + b"\n", "E010", 2),
    # too large
    "100-megabytes": (lambda: b"# a\n" * (25 * MEGABYTE), "E003", 2),
    "one-byte-too-large": (lambda: b"#" * (LARGEST + 1), "E003", 2),
}  # fmt: skip


# Near relatives of other cases; `make soak` tries them too.
RARE = {
    "many-anchors", "too-many-flow-items", "too-many-mappings", "999,999-values", "many-items",
    "many-keys", "repeated-keys", "keys-that-are-numbers", "wrong-machine-steps",
    "one-line-of-words", "outcomes-that-are-mappings", "broken-recipe-steps",
    "one-quoted-line", "comment", "comments", "dashes", "urls", "long-tag", "long-anchor",
    "long-initial-step", "comments-and-a-quote", "one-byte-too-large",
}  # fmt: skip
CASES = [pytest.param(c, marks=pytest.mark.soak if c in RARE else ()) for c in SIZES]


@pytest.mark.parametrize("case", CASES)
def test_size(attack: Attack, case: str) -> None:
    make, code, exit_code = SIZES[case]
    name = attack.write("hostile.yaml", make())
    attack.run_measured("validate", name).assert_refused(code, name, exit_code)


@pytest.mark.parametrize("size", [100 * MEGABYTE, 1 << 40])
def test_sparse_file(attack: Attack, size: int) -> None:
    name = attack.write("hostile.yaml", b"")
    os.truncate(attack.folder / name, size)
    attack.run_measured("plan", name).assert_refused("E003", name)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (lambda: b"[" + b"1," * MANY + b"1]", "E030"),
        (lambda: b"[" + b"{}," * MANY + b"1]", "E030"),
        (lambda: b"[" + b"1," * (LARGEST // 2 - 2), "E012"),
        (lambda: b'"' + b"x" * (LARGEST - 2) + b'"', "E030"),
        (lambda: b" " * LARGEST, "E005"),
        (lambda: b"\n" * (LARGEST - 1) + b"x", "E006"),
    ],
    ids=["items", "mappings", "too-many-items", "one-string", "spaces", "newlines"],
)
def test_json_size(attack: Attack, content: Callable[[], bytes], code: str) -> None:
    name = attack.write("hostile.json", content())
    attack.run_measured("validate", name).assert_refused(code, name)


def _valid(kind: str) -> str:
    """Valid files with values that cost the compiler the most."""
    text = "x" * (5 * MEGABYTE)
    workflow = 'version: "1.1"\nname: x\nsteps:\n  - name: a\n    command: '
    return {
        "long-argument": f"{workflow}[echo, {text}]\n",
        "long-script": f"{workflow}[sh, -c, 'echo {text}']\n",
        "long-comment-before": f"# {text}\n{workflow}[echo, a]\n",
    }[kind]


@pytest.mark.parametrize("kind", ["long-argument", "long-script", "long-comment-before"])
def test_large_but_valid(attack: Attack, kind: str) -> None:
    name = attack.write("large.yaml", _valid(kind))
    assert attack.run_measured("validate", name).assert_well_behaved().exit_code == 0


@pytest.mark.parametrize(
    ("word", "times"),
    [
        ("${", 500_000),
        ("${}", 300_000),
        ("${a b", 200_000),
        ("$", 1_000_000),
        ("${steps.Nobody.output}", 50_000),
        ("${context.x}", 80_000),
    ],
    ids=["open", "empty", "spaces", "dollars", "unknown-step", "unknown-context"],
)
def test_text_full_of_dollars(attack: Attack, word: str, times: int) -> None:
    steps = f"steps:\n  - name: a\n    command: [echo, '{word * times}']\n"
    name = attack.write("large.yaml", f'version: "1.1"\nname: x\n{steps}')
    attack.run_measured("validate", name).assert_well_behaved()


@pytest.mark.parametrize(
    ("word", "times"),
    [
        ("{{", 500_000),
        ("{{}}", 250_000),
        ("{{a", 300_000),
        ("{{nobody}}", 100_000),
        ("}}", 500_000),
    ],
    ids=["open", "empty", "never-closed", "unknown", "closed"],
)
def test_text_full_of_braces(attack: Attack, word: str, times: int) -> None:
    steps = f"steps:\n  - id: a\n    agent: b\n    prompt: '{word * times}'\n"
    name = attack.write("large.yaml", f"name: x\ndescription: y\nversion: 1.0.0\n{steps}")
    attack.run_measured("validate", name).assert_well_behaved()


@pytest.mark.parametrize(
    ("word", "times", "end"),
    [("$(", 60_000, ""), ("'\"", 60_000, ""), ("${context.x} ", 9_000, ""),
     ("a;", 60_000, "${context.x}"), ("(", 100_000, "${context.x}"),
     ("<<A ", 25_000, "${context.x}"), ("`", 100_000, "${run.id}")],
    ids=["substitutions", "quotes", "values", "commands", "parentheses", "documents", "backticks"],
)  # fmt: skip
def test_script_that_is_hard_to_follow(attack: Attack, word: str, times: int, end: str) -> None:
    quoted = (word * times + end).replace("'", "''")
    head = 'version: "1.1"\nname: x\ncontext: {x: y}\n'
    steps = f"steps:\n  - name: a\n    command: [bash, -c, '{quoted}']\n"
    attack.run_measured("validate", attack.write("large.yaml", head + steps)).assert_well_behaved()


@pytest.mark.parametrize(
    ("begin", "word", "times", "end"),
    [("", "{{x}} == 'a' and ", 30_000, "{{x}} == 'a'"), ("", "{{", 200_000, ""),
     ("", "'", 300_001, ""), ("", "( ", 200_000, ""), ("{{x}} == 'a' ", " ", 400_000, "("),
     ("", "x", 500_000, ""), ("", "x ", 200_000, "(")],
    ids=["chain", "braces", "quotes", "parentheses", "spaces", "word", "words"],
)  # fmt: skip
def test_condition_that_is_long(
    attack: Attack, begin: str, word: str, times: int, end: str
) -> None:
    quoted = (begin + word * times + end).replace("'", "''")
    step = f"{{id: a, agent: b, prompt: c, condition: '{quoted}'}}"
    head = "name: x\ndescription: y\nversion: 1.0.0\ncontext: {x: y}\nsteps:\n  - "
    attack.run_measured(
        "validate", attack.write("large.yaml", head + step + "\n")
    ).assert_well_behaved()
