"""Every numbered item has a test that carries its number, and every citation leads to an item."""

from __future__ import annotations

import re

from docs.spec.items import REPOSITORY, owners_of, spec_items

_CITED = re.compile(r"\b(A §\d+(?:\.\d+)?|rulings §\d+)")


def test_every_item_has_an_owner() -> None:
    assert [item.id for item in spec_items() if not owners_of(item.id)] == []


def test_every_test_with_a_number_of_the_workflows_is_an_item() -> None:
    """A slip in a number would leave an item to a test that is about something else."""
    known = {item.id for item in spec_items()}
    found = set()
    for path in (REPOSITORY / "tests" / "acceptance").glob("test_*.py"):
        found |= set(re.findall(r"def test_(at\d*_\d+|r\d+_\d+)_", path.read_text("utf-8")))
    assert found - known == set()


def test_every_section_that_a_comment_cites_is_in_the_digest() -> None:
    sources = {item.source for item in spec_items()}
    # A chapter is there if one of its sections is.
    sources |= {source.partition(".")[0] for source in sources}
    for path in sorted((REPOSITORY / "orchestrate").rglob("*.py")):
        cited = set(_CITED.findall(path.read_text("utf-8")))
        assert cited <= sources, path
