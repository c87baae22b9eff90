"""The numbered items of the specifications, and the tests whose names carry their numbers."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML

REPOSITORY = Path(__file__).resolve().parents[2]
_TEST = re.compile(r"^def test_(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Item:
    """A sentence that must hold, and the section that says so."""

    page: str
    id: str
    source: str
    sentence: str


@functools.cache
def spec_items() -> tuple[Item, ...]:
    pages = YAML(typ="safe").load(Path(__file__).with_name("items.yaml").read_text("utf-8"))
    return tuple(
        Item(page, item, source, sentence)
        for page, items in pages.items()
        for item, (source, sentence) in items.items()
    )


def owners_of(item: str) -> list[str]:
    """The test modules, relative to tests/, with a test of this number."""
    begins = re.compile(rf"{item}(?:_|\Z)")
    return [path for path, names in _tests().items() if any(map(begins.match, names))]


@functools.cache
def _tests() -> dict[str, list[str]]:
    folder = REPOSITORY / "tests"
    return {
        path.relative_to(folder).as_posix(): _TEST.findall(path.read_text("utf-8"))
        for path in sorted(folder.rglob("test_*.py"))
    }
