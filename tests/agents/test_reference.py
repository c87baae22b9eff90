"""The reference page says what the adapters do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orchestrate.agents.base import FailureKind
from orchestrate.agents.registry import PROGRAMS, STAND_INS

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/agents.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def rows(section: str) -> dict[str, str]:
    """The rows of a section's tables by their first cell, without code marks."""
    found = re.findall(r"^\| *(.*?) *\|(.*)\|$", SECTIONS[section], re.MULTILINE)
    return {first.replace("`", ""): rest for first, rest in found}


@pytest.mark.parametrize("name", PROGRAMS)
def test_permissions(name: str) -> None:
    adapter = PROGRAMS[name]()
    cells = [cell.strip() for cell in rows("Permissions")[name].split("|")]
    for wanted, cell in zip(("bypass", "edit", "default", "read-only"), cells, strict=True):
        assert (cell == "refused") is (wanted not in adapter.permissions)


@pytest.mark.parametrize("name", PROGRAMS)
def test_tiers(name: str) -> None:
    for tier, model in PROGRAMS[name]().tiers.items():
        assert f"`{model}`" in rows("Models")[name], tier


def test_what_is_untried_is_said() -> None:
    assert "**Cursor is untried.**" in SECTIONS["Programs"]


def test_agents_without_a_bill() -> None:
    assert set(rows("Agents that cost nothing")) >= set(STAND_INS)


def test_kinds_of_failure() -> None:
    kinds = set(FailureKind.__args__)  # type: ignore[attr-defined]
    assert set(rows("When there is no answer")) - {"kind", "---"} == kinds
