"""Every numbered item has a test that carries its number, and every number is an item."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from tests.acceptance.items import ITEMS

FOLDER = Path(__file__).parent


@functools.cache
def owner_names() -> list[str]:
    names = []
    for path in FOLDER.glob("test_*.py"):
        tree = ast.parse(path.read_text())
        names += [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [name for name in names if name.startswith("test_")]


@pytest.mark.parametrize("item", ITEMS)
def test_item_has_an_owner(item: str) -> None:
    assert any(re.match(rf"test_{item}(?:_[a-z]|$)", name) for name in owner_names()), ITEMS[item]
