"""The plan's views: complete, deterministic, and safe to show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from orchestrate.plan.check import check_program
from orchestrate.plan.expr import Cond, Const, Expr, MapExpr, Text
from orchestrate.plan.nodes import Agent, Op, Plan, Program, Target
from orchestrate.plan.to_json import program_json
from orchestrate.record import field_names, is_record, replace
from orchestrate.show.draw.graph import render_dot, render_mermaid
from orchestrate.show.dry_run import render_dry_run
from orchestrate.show.plan_text import render_text
from tests.unit.plans import every_kind

PROGRAM = every_kind()
TEXT = render_text(PROGRAM)


def values(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, tuple):
        for item in value:
            yield from values(item)
    elif is_record(value):
        for name in field_names(value):
            yield from values(getattr(value, name))


def test_the_sample_is_a_valid_program_with_every_kind_of_value() -> None:
    check_program(PROGRAM)
    seen = {type(value) for value in values(PROGRAM)}
    for union in (Expr, Cond, Agent, Op, Target):
        assert set(get_args(union)) <= seen


def variants(value: Any) -> Iterator[Any]:
    """The same value with one leaf of it changed, for every leaf."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield value + 1
    elif isinstance(value, str):
        yield value + "~"
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            for other in variants(item):
                yield (*value[:index], other, *value[index + 1 :])
    elif is_record(value):
        for name in field_names(value):
            for other in variants(getattr(value, name)):
                yield replace(value, **{name: other})


def all_variants() -> list[Program]:
    """Every program that differs from the sample in one leaf and can still be drawn."""
    changed = []
    for index, plan in enumerate(PROGRAM.plans):
        for name in Plan.__match_args__:
            # A body without its owner, or a dialect there is none of, is no plan at all.
            if name in ("id", "dialect"):
                continue
            for other in variants(getattr(plan, name)):
                plans = list(PROGRAM.plans)
                plans[index] = replace(plan, **{name: other})
                changed.append(replace(PROGRAM, plans=tuple(plans)))
    return changed


def test_json_shows_every_difference() -> None:
    shown = json.dumps(program_json(PROGRAM))
    programs = all_variants()
    assert len(programs) > 300
    for program in programs:
        assert json.dumps(program_json(program)) != shown


def test_text_shows_every_difference() -> None:
    hidden = []
    for program in all_variants():
        try:
            shown = render_text(program)
        except KeyError:
            continue  # the body of a loop was renamed away
        if shown == TEXT:
            hidden.append(program)
    # The author's spelling of a reference is left out: its canonical path says the same.
    texts = {getattr(v, "text", None) for program in hidden for v in values(program)}
    assert all(str(text).endswith(("~", "}}", "}")) for text in texts if text is not None)
    spelled = [p for p in hidden if _without_spelling(p) == _without_spelling(PROGRAM)]
    cut = [p for p in hidden if _without_prompts(p) == _without_prompts(PROGRAM)]
    owner = [p for p in hidden if _without_owner(p) == _without_owner(PROGRAM)]
    assert [p for p in hidden if p not in spelled + cut + owner] == []


def _without_spelling(value: Any) -> Any:
    return _mapped(value, "text", "")


def _without_owner(value: Any) -> Any:
    return _mapped(value, "owner", None)


def _without_prompts(value: Any) -> Any:
    return _mapped(value, "prompt", None)


def _mapped(value: Any, name: str, constant: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_mapped(item, name, constant) for item in value)
    if is_record(value):
        return (
            type(value),
            *(
                constant if own == name else _mapped(getattr(value, own), name, constant)
                for own in field_names(value)
            ),
        )
    return value


def test_text_of_a_node_is_in_the_order_of_its_life() -> None:
    lines = TEXT.splitlines()
    start = lines.index("    List  [all.yaml:3:5+4]")
    assert lines[start : start + 31] == [
        "    List  [all.yaml:3:5+4]",
        '      needs required "a/*.md"',
        '      needs optional "b«item»"',
        '      inject content, append, in sections: "Read:"',
        "      run",
        '        "sh"',
        '        "-c"',
        "        |",
        '          first "${V0}"',
        "          second",
        '        value V0 = "«item»"',
        '        stdin: file "in.txt"',
        "        capture: json, parse errors allowed",
        '        schema: "s.json"',
        '        require "/a", is absent, equals null, type string',
        '        output file: "out.txt"',
        '        env A = "b c"',
        "        secrets: TOKEN",
        "      retry: 3 attempts, 0.5 s apart, when any, exponential backoff, at most 60 s, jitter",
        "      timeout: 12.5 s",
        "      @ok -> Loop",
        "      @failed -> ABORT failed \"step 'List' failed\"",
        "      @lost -> List",
        "      follow -> Loop",
        "    Loop  [all.yaml:3:5+4]",
        '      each item in ["x", 2, null, {"k": true}], stop on failure',
        '        after success move to "ok"',
        '        after failure move to "bad"',
        "      on failure: handled",
        "      @ok -> Wait",
        "      @failed -> Wait",
    ]


def test_body_is_indented_under_its_loop_and_plans_follow() -> None:
    assert "      block Loop/, starts at Loop/Ask\n        Loop/Ask named" in TEXT
    heads = [line for line in TEXT.splitlines() if line and not line.startswith(" ")]
    assert heads == ["workflow w.yaml", "machine machine.yaml", "recipe r.yaml", "files"]


def test_conditions_gates_and_calls_are_told() -> None:
    level = "«var.notes.level?»"
    for line in (
        f'when {level} == "high" or {level} != "low" and not {level}',
        'when nothing matches "*.y"',
        'gate "one", without limit, then deny',
        "call machine.yaml",
        'call at "sub/«var.notes.level?»"',
        'prompt: "One" (2 lines, 26 characters)',
        "uses «var.notes.level?»",
        "on lost: stop",
    ):
        assert line in [shown.strip() for shown in TEXT.splitlines()], line


def with_hostile_texts() -> Program:
    """Every string that an author chooses freely holds whatever could hurt."""
    bad = '\x1b[2J\u202e"];\n%%{init}%%`|<b>\\#quot;&\x9b'
    plan = PROGRAM.plans[1]
    nodes = tuple(replace(node, name=node.name + bad) for node in plan.blocks[0].nodes)
    block = replace(plan.blocks[0], nodes=nodes)
    plan = replace(
        plan, name=bad, title=bad, description=bad, version=bad,
        context=MapExpr(((bad, Const(bad)), ("t", Text((bad,))))),
        blocks=(block, *plan.blocks[1:]),
    )  # fmt: skip
    return replace(PROGRAM, plans=(PROGRAM.plans[0], plan, PROGRAM.plans[2]))


@pytest.mark.parametrize("view", [render_text, render_dry_run, render_mermaid, render_dot])
def test_no_view_lets_raw_controls_through(view: Any) -> None:
    shown = view(with_hostile_texts())
    for raw in ("\x1b", "\u202e", "\x9b"):
        assert raw not in shown


def test_hostile_names_leave_drawings_well_formed() -> None:
    program = with_hostile_texts()
    plain, odd = render_mermaid(PROGRAM), render_mermaid(program)
    assert len(plain.splitlines()) == len(odd.splitlines())
    for line in odd.splitlines():
        assert line.count('"') % 2 == 0
        inside = "".join(line.split('"')[1::2])
        assert not set(inside) & set('`|<>[]{}"\\&%')
    dot = render_dot(program)
    assert len(dot.splitlines()) == len(render_dot(PROGRAM).splitlines())
    for line in dot.splitlines():
        assert line.replace('\\"', "").replace("\\\\", "").count('"') % 2 == 0


def test_mermaid_frames_loops_and_plans() -> None:
    lines = [line.strip() for line in render_mermaid(PROGRAM).splitlines()]
    assert lines[0] == "flowchart TD"
    assert sum(line.startswith("subgraph ") for line in lines) == 4  # three plans and a loop
    assert lines.count("end") == 4
    assert "each" in "".join(line for line in lines if "-.->" in line)
    assert any("==>" in line and "again" in line for line in lines)


def test_policy_routes_are_left_out_of_drawings_and_decisions_are_not() -> None:
    drawn = render_mermaid(PROGRAM)
    assert "lost" not in drawn
    assert "invalid" not in drawn
    assert "orchestration-error" not in drawn
    assert '"no"' in drawn  # a denied gate
    assert '|"ok, failed"|' in drawn  # the loop's own handler
    assert "partial" in drawn  # skip_remaining


def test_dry_run_of_each_dialect() -> None:
    shown = render_dry_run(PROGRAM)
    first, *_ = shown.splitlines()
    assert first == "Workflow: w"
    for line in (
        "Recipe: m",
        "  Model: haiku",
        "      Outcomes: again → RESTART(m), done → EXIT",
        "Recipe: r",
        "      (approval) waits for a decision",
        "        On failure: skip all that is left",
        "      late: recipe sub/{{notes.level?}}",
        "        Ask: provider mine < p.md (agent: engineer)",
        "      Item's file: success → ok, failure → bad",
    ):
        assert line in shown.splitlines(), line
