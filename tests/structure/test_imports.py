"""Imports point one way (architecture.md)."""

from __future__ import annotations

import ast

import pytest

from tests.structure import rules
from tests.structure.modules import MODULES, PACKAGE, all_imports, imports_in, within


def test_every_package_has_a_layer() -> None:
    assert rules.packages_without_a_layer() == set(), "say in LAYERS what it may import"


@pytest.mark.parametrize("rule", rules.RULES)
def test_no_module_offends(rule: str) -> None:
    """Against layers, in cycles or in functions; and none prints below the front."""
    assert sorted(rules.RULES[rule]()) == []


def test_the_keeper_is_behind_its_seam() -> None:
    assert rules.imports_of_the_keeper() == []


def test_few_late_imports_have_a_reason() -> None:
    assert len(rules.LATE_IMPORTS_WITH_REASON) <= rules.MOST_LATE_IMPORTS
    happening = {(found.importer, found.imported) for found in all_imports() if found.in_function}
    for pair, reason in rules.LATE_IMPORTS_WITH_REASON.items():
        assert pair in happening, f"{pair} is imported late no more"
        assert len(reason.split()) > 3, f"{pair} needs its reason in words"


def test_third_party_packages_have_their_place() -> None:
    assert rules.third_party_imports_out_of_place() == []


def test_nothing_heavy_at_the_top_of_a_module() -> None:
    """What is imported at module level is paid for by every command but `serve`, which is alone.

    What imports Temporal's library is loaded by the few commands that speak to a server (ADR 0025).
    """
    speaks = {one.importer for one in all_imports() if within(one.imported, "temporalio")}
    # Who loads those at its top pays for no more with it.
    speaks |= {one.importer for one in all_imports() if one.imported in speaks}
    offenders = [
        str(found)
        for found in all_imports()
        if found.imported.partition(".")[0] in ("jsonschema", "asyncio", "inspect")
        and not within(found.importer, "orchestrate.serve")
        and found.importer not in speaks
        and not found.in_function
        and not found.for_types
    ]
    assert offenders == []


def test_the_modules_are_all_found() -> None:
    assert PACKAGE.is_dir()
    assert {"orchestrate.compile", "orchestrate.plan.nodes", "orchestrate.cli.main"} <= set(MODULES)
    assert sum(1 for found in all_imports() if found.is_ours) > 500


def test_cycles_are_found_and_only_cycles() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": set()}
    part_of = rules.components(graph)
    assert part_of["b"] == part_of["c"]
    assert len(set(part_of.values())) == 4


def test_imports_are_told_apart_by_where_they_stand() -> None:
    source = """
import os
if TYPE_CHECKING:
    from orchestrate.plan import nodes
def f():
    try:
        from orchestrate.plan.nodes import Plan, Program
    except ImportError: pass
class C:
    import re
"""
    listed = imports_in("m", ast.parse(source))
    assert [(found.imported, found.in_function, found.for_types) for found in listed] == [
        ("os", False, False),
        ("orchestrate.plan.nodes", False, True),
        ("orchestrate.plan.nodes", True, False),
        ("re", False, False),
    ]
