"""Templates, conditions and shell scripts: any text is parsed or faulted, values are never code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orchestrate.engine.evaluate import descend, holds
from orchestrate.lang.condition import parse_condition
from orchestrate.lang.curly import parse_template
from orchestrate.lang.dollar import parse_dollar
from orchestrate.lang.shell.lower import find_inline_code, find_script, lower_script
from tests.fuzz.strategies import texts

VARIABLES = ("context.a", "steps.Build all.output", "run.id", "item", "loop.index")
NAMES = ("a", "b.c", "analysis.severity", "x.y-z.0")
literals = texts.filter(lambda text: not {"$", "{"} & set(text) and not text.endswith("{"))


def render(parts: tuple[Any, ...], values: dict[str, str]) -> str:
    """The simplest evaluator there can be: pieces as they are, references looked up once."""
    return "".join(part if isinstance(part, str) else values[part.text] for part in parts)


@given(texts)
def test_any_dollar_text(text: str) -> None:
    parsed = parse_dollar(text)
    for fault in parsed.faults:
        assert 0 <= fault.start < fault.end <= len(text)
    for variable in parsed.variables:
        assert text[variable.start : variable.end] == variable.text
    if not parsed.faults and "$" not in text:
        assert "".join(map(str, parsed.parts)) == text


@given(st.lists(st.one_of(literals, st.sampled_from(VARIABLES).map(lambda v: (v,)))), st.data())
def test_dollar_values_are_never_scanned(pieces: list[Any], draw: st.DataObject) -> None:
    values = {f"${{{name}}}": draw.draw(texts) for name in VARIABLES}
    source = "".join(p if isinstance(p, str) else f"${{{p[0]}}}" for p in pieces)
    expected = "".join(p if isinstance(p, str) else values[f"${{{p[0]}}}"] for p in pieces)
    parsed = parse_dollar(source)
    assert not parsed.faults
    assert render(parsed.parts, values) == expected


@given(literals, st.sampled_from(VARIABLES))
def test_two_dollars_are_one(text: str, name: str) -> None:
    parsed = parse_dollar(f"{text}$${{{name}}}$$")
    assert not parsed.faults
    assert parsed.parts == (f"{text}${{{name}}}$",)


@given(texts)
def test_any_curly_text(text: str) -> None:
    template = parse_template(text)
    places = [(f.start, f.end) for f in template.faults]
    for start, end in (*places, *((p.start, p.end) for p in template.placed)):
        assert 0 <= start < end <= len(text)
    if not template.faults:
        shown = "".join(p if isinstance(p, str) else p.text for p in template.parts)
        assert shown == text


@given(st.lists(st.one_of(literals, st.sampled_from(NAMES).map(lambda n: (n,)))), st.data())
def test_curly_values_are_never_scanned(pieces: list[Any], draw: st.DataObject) -> None:
    values = {f"{{{{{name}}}}}": draw.draw(texts) for name in NAMES}
    source = "".join(p if isinstance(p, str) else f"{{{{{p[0]}}}}}" for p in pieces)
    assume("\\{{" not in source)  # a literal `{{`
    expected = "".join(p if isinstance(p, str) else values[f"{{{{{p[0]}}}}}"] for p in pieces)
    template = parse_template(source)
    assert not template.faults
    assert render(template.parts, values) == expected


tokens = st.sampled_from(
    ["{{a}}", "{{b.c}}", "'x'", '"y"', "==", "!=", "and", "or", "(", ")", "not", "{{", "'", "1",
     "=", "{{a", "}}", "&&", "é", "\n", "in", "and_", "\u201cx\u201d"]
)  # fmt: skip


@given(st.one_of(texts, st.lists(tokens, max_size=9).map(" ".join), st.lists(tokens).map("".join)))
def test_any_condition(text: str) -> None:
    condition = parse_condition(text)
    assert (condition.cond is None) == bool(condition.faults)
    places = [(f.start, f.end) for f in condition.faults]
    for start, end in (*places, *((p.start, p.end) for p in condition.placed)):
        assert 0 <= start <= end <= len(text)


@st.composite
def comparisons(draw: st.DrawFn) -> tuple[str, str, str]:
    quoted = texts.filter(lambda text: not {"'", "{"} & set(text)).map(lambda text: f"'{text}'")
    sides = [draw(st.sampled_from(["{{a}}", "{{b.c}}"])), draw(quoted)]
    if draw(st.booleans()):
        sides.reverse()
    return sides[0], draw(st.sampled_from(["==", "!="])), sides[1]


@given(
    st.lists(st.tuples(st.sampled_from(["and", "or"]), comparisons()), min_size=1, max_size=5),
    texts,
    texts,
)
def test_conditions_read_from_left_to_right(
    chain: list[tuple[str, tuple[str, str, str]]], a: str, b: str
) -> None:
    values = {"{{a}}": a, "{{b.c}}": b}
    source = ""
    expected = True
    for number, (word, (left, operator, right)) in enumerate(chain):
        source += f" {word} " if number else ""
        source += f"{left} {operator} {right}"
        sides = [values.get(side, side[1:-1]) for side in (left, right)]
        is_so = (sides[0] == sides[1]) == (operator == "==")
        if number == 0:
            expected = is_so
        else:
            expected = (expected and is_so) if word == "and" else (expected or is_so)
    condition = parse_condition(source)
    assert condition.cond is not None, condition.faults
    assert holds(condition.cond, _Given({"a": a, "b": {"c": b}}), lambda _: False) == expected


class _Given:
    """A scope of variables."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def look_up(self, path: tuple[str, ...]) -> Any:
        return descend(self._values, path[1:])


shells = st.sampled_from(["sh", "bash", "dash", "zsh", "ksh"])
fragments = st.sampled_from(
    ["echo ", "cat <<E\n", "E\n", "$(", ")", "`", "'", '"', "$((", "))", "${x:-", "}", "[[ ", " ]]",
     "eval ", "sh -c ", "; ", "| ", "&& ", "# ", "\n", "\\", "$'", "case ", " in ", "x) ", ";; ",
     "esac", "for i in ", "; do ", "done", "{ ", "if ", "then ", "fi ", "a=", "[ ", "] ", "<", ">",
     "trap ", "test ", "printf ", "-eq ", "local ", "function f ", "() ", "\x01", "é", " "]
)  # fmt: skip
scripts = st.lists(st.lists(st.one_of(fragments, texts), max_size=6).map("".join), max_size=4)


@given(scripts.filter(bool), shells)
def test_any_script_is_lowered_or_refused(pieces: list[str], shell: str) -> None:
    lowered = lower_script(pieces, shell=shell)
    assert len(lowered.names) == len(pieces) - 1
    for fault in (*lowered.faults, *lowered.cautions):
        assert 0 <= fault.hole < len(lowered.names)
        assert fault.reason
        assert fault.rewrite
    if lowered.faults:
        assert lowered.text == ""
    else:
        for name in lowered.names:
            assert lowered.text.count(f"${{{name}}}") == 1
        position = 0
        for piece in pieces:
            position = lowered.text.index(piece, position) + len(piece)


@given(st.lists(st.one_of(texts, fragments, st.sampled_from(["sh", "bash", "-c", "env", "python3",
                                                             "-e", "sudo", "-lc", "jq", "xargs"])),
                max_size=5))  # fmt: skip
def test_any_command_line_is_looked_through(words: list[str]) -> None:
    find_script(words)
    find_inline_code(words)


@pytest.fixture(scope="module")
def empty_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("empty")


@pytest.mark.parametrize("shell", [s for s in ("sh", "bash") if shutil.which(s)])
@given(
    st.lists(
        st.sampled_from(["", "a", "a b", '"', "'", "x'y", '"z"', "\\", " ", "-n", "*", "#"]),
        min_size=2,
        max_size=3,
    ),
    st.data(),
)
def test_values_stay_one_word(
    empty_folder: Path, shell: str, pieces: list[str], draw: st.DataObject
) -> None:
    """A real shell sees each value of an accepted script unchanged, inside exactly one word."""
    literal = ["printf '<%s>' x" + pieces[0], *pieces[1:]]
    lowered = lower_script(literal, shell=shell)
    assume(not lowered.faults)
    values = [
        draw.draw(texts.filter(lambda t: "\0" not in t and _encodes(t)), label=name)
        for name in lowered.names
    ]
    named = dict(zip(lowered.names, values, strict=True))
    words = _words_of(lowered.text, shell, empty_folder, named)
    numbered = {name: f"@{index}@" for index, name in enumerate(lowered.names)}
    marks = _words_of(lowered.text, shell, empty_folder, numbered)
    expected = marks
    for index, value in enumerate(values):
        expected = expected.replace(f"@{index}@".encode(), value.encode())
    assert words == expected


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _words_of(script: str, shell: str, folder: Path, values: dict[str, str]) -> bytes:
    """What the script prints in an empty folder, where patterns match nothing."""
    return subprocess.run(
        [shell, "-c", script],
        cwd=folder,
        env={"LC_ALL": "C", **values},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    ).stdout
