"""Random data for the tests of this folder: documents, their spellings, and damage to good ones."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

REPOSITORY = Path(__file__).resolve().parents[2]
RECIPES = sorted(
    path.relative_to(REPOSITORY).as_posix()
    for path in (REPOSITORY / "workflows").rglob("*.yaml")
    if "shared" not in path.parts
)

# What people and attackers put into values, besides plain words.
NASTY = ("${", "}", "{{", "}}", "$$", "$", "'", '"', "\n", "`", "$(", "\\", ";", "#", "é", "\u2028")
texts = st.lists(st.one_of(st.sampled_from(NASTY), st.text(max_size=6)), max_size=6).map("".join)
printable = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), exclude_characters="\ufeff"),
    max_size=12,
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False),
    printable,
)
data = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(printable, inner, max_size=4)
    ),
    max_leaves=20,
)


@st.composite
def spelled(draw: st.DrawFn, value: Any, level: int = 0) -> str:
    """A YAML spelling of the data: block or flow, plain or quoted, at random."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        pad = "  " * level
        lines = []
        for key, item in value.items():
            inner = draw(spelled(item, level + 1))
            lines.append(f"{pad}{json.dumps(key, ensure_ascii=False)}: {inner.lstrip(' ')}"
                         if "\n" not in inner else
                         f"{pad}{json.dumps(key, ensure_ascii=False)}:\n{inner}")  # fmt: skip
        return ("\n" if level else "") + "\n".join(lines)
    if isinstance(value, list) and value and draw(st.booleans()):
        pad = "  " * level
        lines = [f"{pad}- {json.dumps(item, ensure_ascii=False)}" for item in value]
        return ("\n" if level else "") + "\n".join(lines)
    if isinstance(value, str) and value.isascii() and "\\" not in value and draw(st.booleans()):
        return "'" + value.replace("'", "''") + "'"
    # YAML has no surrogate pairs: what needs one is written as itself.
    text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    return json.dumps(value, ensure_ascii=False) if "\\ud" in text else text


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside some data, the root left out."""
    found = []
    items = (
        value.items() if isinstance(value, dict)
        else enumerate(value) if isinstance(value, list) else ()
    )  # fmt: skip
    for key, item in items:
        found.append((*path, key))
        found.extend(places(item, (*path, key)))
    return found


replacements = st.one_of(
    scalars,
    texts,
    st.just([]),
    st.just({}),
    st.lists(scalars, max_size=3),
    st.dictionaries(printable, scalars, max_size=3),
    st.sampled_from(["_end", "other", "1.1", "1.4", "${steps.X.output}", "{{x}}", "../x", "-1", 0]),
)


@st.composite
def damaged(draw: st.DrawFn, document: Any) -> Any:
    """The document with one to three values deleted, doubled, renamed, moved or replaced."""
    broken = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        spots = places(broken)
        if not spots:
            break
        path = draw(st.sampled_from(spots))
        owner = broken
        for key in path[:-1]:
            owner = owner[key]
        key = path[-1]
        match draw(st.sampled_from(["delete", "replace", "double", "rename", "swap", "include"])):
            case "delete":
                del owner[key]
            case "replace":
                owner[key] = draw(replacements)
            case "double" if isinstance(owner, list):
                owner.insert(key, copy.deepcopy(owner[key]))
            case "rename" if isinstance(owner, dict):
                owner[draw(printable)] = owner.pop(key)
            case "include":
                owner[key] = {"$include": draw(st.sampled_from(["#/steps", "x.yaml", "", 1]))}
            case _:
                other = draw(st.sampled_from(spots))
                target = broken
                for name in other:
                    try:
                        target = target[name]
                    except (KeyError, IndexError, TypeError):
                        break
                owner[key] = copy.deepcopy(target)
    return broken
