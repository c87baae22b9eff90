"""The writer of JSON against `json.dumps`, with the encoder in C and without it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrate.json_writer import json_writer

VALUES: list[Any] = [
    None, True, 0, -1, 1.5, 1e300, "", "a", 'a "word"\n', "ü € 😀", "\ud800", [], {}, [1, [2, {}]],
    {"b": 1, "a": {"d": [None], "c": "\x7f"}}, {1: "a number", None: "nothing"}, ("a", "tuple"),
]  # fmt: skip


@pytest.fixture(params=["in C", "in Python"], autouse=True)
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in Python":
        monkeypatch.setattr(json.encoder, "c_make_encoder", None)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_it_writes_what_json_does(value: Any) -> None:
    assert json_writer()(value) == json.dumps(value, separators=(",", ":"))


def test_keys_are_sorted_where_that_is_wanted() -> None:
    assert json_writer(sort_keys=True)({"b": {"d": 1, "c": 2}, "a": 3}) == (
        '{"a":3,"b":{"c":2,"d":1}}'
    )


def test_what_is_no_number_is_refused_where_that_is_wanted() -> None:
    assert json_writer()(float("nan")) == "NaN"
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_writer(allow_nan=False)([float("inf")])


def test_what_json_does_not_know_is_for_the_default() -> None:
    assert json_writer(default=repr)([{1, 2}]) == '["{1, 2}"]'
    with pytest.raises(TypeError):
        json_writer()([{1, 2}])


def test_a_value_within_itself_is_refused_each_time() -> None:
    write = json_writer()
    inner: list[Any] = []
    inner.append(inner)
    for _ in range(2):
        with pytest.raises((RecursionError, ValueError)):
            write({"a": inner})
    assert write({"a": []}) == '{"a":[]}'
