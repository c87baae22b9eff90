"""Patterns that are compiled when they are first used."""

from __future__ import annotations

import re
from unittest import mock

import pytest

from orchestrate.regex import regex


def test_nothing_is_compiled_before_the_first_use_and_only_once() -> None:
    with mock.patch.object(re, "compile", wraps=re.compile) as compiled:
        found = regex(r"a(?P<rest>.*)", re.DOTALL)
        assert not compiled.called
        assert found.fullmatch("ab\nc")
        assert found.search("xa") is not None
        assert found.sub("-", "xa") == "x-"
        assert compiled.call_count == 1


def test_it_is_as_the_compiled_one() -> None:
    assert regex(rb"[0-9]+").findall(b"1 22") == [b"1", b"22"]
    assert regex("x").pattern == "x"
    assert regex("(a)(b)").groups == 2
    assert [found.start() for found in regex("a").finditer("aba")] == [0, 2]
    with pytest.raises(AttributeError):
        regex("a").nothing  # type: ignore[attr-defined]  # noqa: B018


def test_a_mistake_is_found_when_it_is_used() -> None:
    with pytest.raises(re.error):
        regex("(").match("")
