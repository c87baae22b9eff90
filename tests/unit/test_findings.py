"""Drawing findings: carets under the right characters, and nothing raw on a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrate.diagnostics import Diagnostic, Span
from orchestrate.plan.visible import clip, visible, width_of
from orchestrate.show.findings import COLUMNS, count_line, draw, draw_one
from orchestrate.show.formats import artifact_uri, github_commands, sarif_document


def finding(
    excerpt: str, column: int, length: int = 1, *, line: int = 22, code: str = "E404",
    message: str = "goto target 'Mising' is not a step", hint: str = "", suggestion: str = "",
    file: str = "workflows/x.yaml",
) -> Diagnostic:  # fmt: skip
    span = Span(file, line, column, length)
    return Diagnostic(code, message, span, hint=hint, suggestion=suggestion, excerpt=excerpt)


def test_text_form() -> None:
    drawn = draw_one(
        finding("        goto: Mising", 15, 6, hint="name a step", suggestion="Missing")
    )
    assert drawn == (
        "workflows/x.yaml:22:15: error E404: goto target 'Mising' is not a step"
        " (did you mean 'Missing'?)\n"
        "   22 |         goto: Mising\n"
        "      |               ^^^^^^\n"
        "      = hint: name a step"
    )


def test_warnings_and_counts() -> None:
    one, two = finding("a: b", 1, code="W201"), finding("a: b", 4)
    assert ": warning W201: " in draw_one(one)
    assert count_line([one]) == "1 warning"
    assert count_line([two, one, two]) == "2 errors, 1 warning"
    assert count_line([]) == "nothing to report"


def test_draw_ends_each_finding_with_a_newline_and_tells_of_dropped_ones() -> None:
    assert draw([]) == ""
    drawn = draw([finding("a: b", 1)], dropped=3)
    assert drawn.endswith("^\n… and 3 findings more, not shown\n")


def test_finding_without_a_line_has_no_excerpt() -> None:
    drawn = draw_one(finding("", 1, hint="x"))
    assert drawn.splitlines()[1:] == ["      = hint: x"]
    assert len(draw_one(finding("   ", 1)).splitlines()) == 1


def test_hint_of_several_lines_stays_aligned() -> None:
    lines = draw_one(finding("a: b", 1, hint="one\n  two\n\nthree")).splitlines()
    assert lines[-4:] == [
        "      = hint: one",
        "                two",
        "",
        "              three",
    ]


def test_tabs_take_one_column() -> None:
    lines = draw_one(finding("a:\t\tbad", 5, 3)).splitlines()
    assert lines[1] == "   22 | a:  bad"
    assert lines[2] == "      |     ^^^"


@pytest.mark.parametrize(
    ("excerpt", "column", "length", "before", "carets"),
    [
        ("日本: bad", 5, 3, 6, 3),  # two columns each
        ("bad: 日本", 6, 2, 5, 4),
        ("e\u0301: bad", 5, 3, 3, 3),  # a combining accent takes none
        ("\x1b[0m: bad", 7, 3, 6, 3),  # the stand-in for ESC takes one
        ("a\u202e: bad", 5, 3, 11, 3),  # <U+202E> takes eight
        ("short", 40, 3, 5, 1),  # past the end of the line
    ],
)
def test_caret_stays_under_its_word(
    excerpt: str, column: int, length: int, before: int, carets: int
) -> None:
    drawn = draw_one(finding(excerpt, column, length)).splitlines()[2]
    assert drawn == "      | " + " " * before + "^" * carets


@pytest.mark.parametrize("column", [1, 50, 95, 150, 5000, 9990])
def test_long_line_is_windowed_around_the_caret(column: int) -> None:
    excerpt = "x" * (column - 1) + "BAD" + "y" * (10000 - column)
    _, source, carets = draw_one(finding(excerpt, column, 3)).splitlines()
    assert width_of(source) <= COLUMNS
    assert source.index("BAD") == carets.index("^")
    assert carets.count("^") == 3
    assert source.endswith("…") == (column < 9990)
    assert source.startswith("   22 | …") == (column > 90)


def test_long_mark_is_cut_with_its_line() -> None:
    _, source, carets = draw_one(finding("a: " + "x" * 500, 4, 500)).splitlines()
    assert width_of(source) <= COLUMNS
    assert len(carets) <= COLUMNS
    assert carets.startswith("      |    ^^^^")


def test_long_message_is_cut() -> None:
    drawn = draw_one(finding("a: b", 1, message="m" * 10**6, suggestion="s" * 10**6))
    assert len(drawn.splitlines()[0]) < 1200


def test_six_digit_line_numbers_keep_the_bars_aligned() -> None:
    _, source, carets = draw_one(finding("a: b", 4, line=123456)).splitlines()
    assert source == "123456 | a: b"
    assert carets == "       |    ^"


def test_colour_is_the_only_difference() -> None:
    import re

    item = finding("        goto: Mising", 15, 6, hint="name a step")
    coloured = draw_one(item, colour=True)
    assert "\x1b[31m" in coloured
    assert re.sub(r"\x1b\[\d*m", "", coloured) == draw_one(item)


def harmless(text: str) -> bool:
    risky = ("Cc", "Cs", "Cn", "Zl", "Zp")
    joiners = "\u200c\u200d\u00ad"
    return not any(
        unicodedata.category(c) in risky or (unicodedata.category(c) == "Cf" and c not in joiners)
        for c in text
    )


@given(
    st.text(max_size=300), st.integers(1, 400), st.integers(0, 400), st.text(max_size=40)
)  # fmt: skip
@example("0" * 92, 93, 1, "a caret behind the last character")
def test_whatever_a_file_holds_is_drawn_tamely(
    excerpt: str, column: int, length: int, name: str
) -> None:
    excerpt = excerpt.replace("\n", " ")
    item = finding(excerpt, column, length, message=name, file=name, suggestion=name)
    lines = draw_one(item).split("\n")
    assert all(map(harmless, lines))
    if len(lines) > 1:
        _, source, carets = lines
        assert width_of(source) <= COLUMNS
        assert width_of(carets) <= COLUMNS
        assert "^" in carets


@given(st.text())
def test_visible_is_idempotent_and_tame(text: str) -> None:
    assert harmless(visible(text))
    assert visible(visible(text)) == visible(text)


@given(st.text(), st.integers(1, 60))
def test_clip_keeps_within_its_columns(text: str, columns: int) -> None:
    shown = visible(text)
    cut = clip(shown, columns)
    assert width_of(cut) <= columns
    assert cut == shown or cut.endswith("…")


def test_github_escapes_properties_and_data() -> None:
    item = finding("a", 3, 2, message="100% of\nit: a, b", hint="x\ny", file="a:b,c%d.yaml")
    assert github_commands([item]) == (
        "::error file=a%3Ab%2Cc%25d.yaml,line=22,col=3,endColumn=5,title=E404 unknown-goto::"
        "100%25 of␊it: a, b%0Ahint: x%0Ahint: y\n"
    )


def test_sarif_names_each_rule_once() -> None:
    items = [finding("a", 1), finding("b", 2, 4), finding("c", 1, code="W201")]
    (run,) = sarif_document(items)["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["E404", "W201"]
    assert [result["ruleIndex"] for result in run["results"]] == [0, 0, 1]
    assert [result["level"] for result in run["results"]] == ["error", "error", "warning"]
    assert run["results"][1]["locations"][0]["physicalLocation"]["region"] == {
        "startLine": 22,
        "startColumn": 2,
        "endColumn": 6,
    }


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("workflows/a.yaml", "workflows/a.yaml"),
        ("a b/c#d?e.yaml", "a%20b/c%23d%3Fe.yaml"),
        ("c:x.yaml", "c%3Ax.yaml"),
        ("/srv/ü.yaml", "file:///srv/%C3%BC.yaml"),
        ("caf\udce9.yaml", "caf%E9.yaml"),
    ],
)
def test_artifact_uris(file: str, uri: str) -> None:
    assert artifact_uri(file) == uri
