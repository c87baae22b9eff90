"""Settings that a program cannot take are refused, never ignored."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrate.agents.base import Permissions
from orchestrate.agents.registry import (
    PROGRAMS,
    STAND_INS,
    setting_faults,
)
from orchestrate.agents.settings import COMMON, names_of

GOOD: dict[str, Any] = {
    "names": ["Read", "Bash(git log:*)"],
    "count": 3,
    "amount": 0.5,
    "word": "high",
    "tiers": {"haiku": "small-model"},
    "permissions": "bypass",
    "arguments": ["--some-flag", "value"],
}
BAD: dict[str, list[Any]] = {
    "names": [7, ["Read", 7], ["--flag"], "", ["a\0b"], {"a": 1}],
    "count": [0, -1, 1.5, True, "3"],
    "amount": [0, -0.1, True, "1", None],
    "word": ["", " ", "-x", 3, "a\nb", None],
    "tiers": [[], {"huge": "x"}, {"haiku": ""}, {"haiku": "-x"}],
    "permissions": ["all", "", None],
    "arguments": ["--flag", ["value"], [7], ["--a\0b"], [""]],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_supported_setting_takes_good_values_and_no_bad_ones(name: str) -> None:
    for key, setting in (COMMON | dict(PROGRAMS[name]().settings)).items():
        assert setting_faults(name, {key: GOOD[setting.kind]}) == ()
        for value in BAD[setting.kind]:
            (fault,) = setting_faults(name, {key: value})
            assert f"'{key}'" in fault


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_unknown_setting_is_refused(name: str) -> None:
    (fault,) = setting_faults(name, {"temperature": 0.5})
    assert "cannot take the setting 'temperature'" in fault
    (near,) = setting_faults(name, {"permisions": "edit"})
    assert "did you mean 'permissions'?" in near


def test_a_setting_of_another_program_is_refused() -> None:
    assert setting_faults("claude", {"tools": ["Read"]}) == ()
    (fault,) = setting_faults("codex", {"tools": ["Read"]})
    assert "Codex cannot take the setting 'tools'" in fault


def test_all_faults_are_told_at_once() -> None:
    assert len(setting_faults("claude", {"max_turns": 0, "zork": 1}, "edit")) == 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_permissions_that_a_program_cannot_be_held_to_are_refused(name: str) -> None:
    wanted: Permissions
    for wanted in ("bypass", "edit", "default", "read-only"):
        can = wanted in PROGRAMS[name]().permissions
        assert (setting_faults(name, {}, wanted) == ()) is can
        assert (setting_faults(name, {"permissions": wanted}) == ()) is can


def test_permissions_of_a_step_win_over_those_of_the_run() -> None:
    assert setting_faults("cursor", {}, "edit") != ()
    assert setting_faults("cursor", {"permissions": "read-only"}, "edit") == ()


@pytest.mark.parametrize("name", STAND_INS)
def test_whoever_starts_nothing_takes_any_setting(name: str) -> None:
    assert setting_faults(name, {"tools": ["Read"], "zork": 1}, "edit") == ()


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("Read", ("Read",)),
        ("Read, Grep,Bash", ("Read", "Grep", "Bash")),
        ("Bash(git log, git diff), Read", ("Bash(git log, git diff)", "Read")),
        (["Read", "Bash(a, b)"], ("Read", "Bash(a, b)")),
        ([], ()),
        (" , ", ()),
    ],
)
def test_names_are_listed_or_separated_by_commas(value: Any, names: tuple[str, ...]) -> None:
    assert names_of(value) == names
