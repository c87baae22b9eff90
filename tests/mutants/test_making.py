"""Mutants differ from the module, each from every other, and what is called equivalent exists."""

from __future__ import annotations

import ast

from tests.mutants.__main__ import TESTS, key_of, known_equivalents
from tests.mutants.making import mutants_of
from tests.mutants.trying import PROJECT

SOURCE = '''\
"""Words."""
LIMIT = 3


def f(a: int, b: bool = False) -> int:
    """More words."""
    if a < LIMIT and not b:
        forget(a)
        return a + 1
    raise ValueError(f"{a} is too much")
'''


def test_each_fault_is_made_once() -> None:
    found = mutants_of(SOURCE)
    assert [(mutant.line, mutant.before, mutant.after) for mutant in found] == [
        (2, "3", "4"),
        (5, "False", "True"),
        (7, "if a < LIMIT and (not b):", "if True:"),
        (7, "if a < LIMIT and (not b):", "if False:"),
        (7, "a < LIMIT and (not b)", "a < LIMIT or not b"),
        (7, "a < LIMIT and (not b)", "not b"),
        (7, "a < LIMIT and (not b)", "a < LIMIT"),
        (7, "a < LIMIT", "a <= LIMIT"),
        (7, "not b", "b"),
        (8, "forget(a)", "pass"),
        (9, "return a + 1", "return None"),
        (9, "a + 1", "a - 1"),
        (9, "1", "2"),
    ]
    assert len({mutant.source for mutant in found} | {ast.unparse(ast.parse(SOURCE))}) == 14


def test_modules_their_tests_and_equivalent_mutants_are_there() -> None:
    keys = set()
    for module, tests in TESTS.items():
        source = (PROJECT / module).read_text("utf-8")
        keys |= {key_of(module, source.splitlines(), mutant) for mutant in mutants_of(source)}
        assert all((PROJECT / file).is_file() for file in tests)
    assert known_equivalents() <= keys
