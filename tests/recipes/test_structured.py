"""Answers that become data: JSON, JSON in a fence, the last `json` block, or plain text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrate.engine.answers import NO_JSON, find_json, structured
from tests.recipes.fakes import Workshop, recipe, rule

# The answer, and the value of the variable that keeps it (rulings §8).
ANSWERS: list[tuple[str, Any]] = [
    ('{"severity": "high", "issues": [1, 2]}', {"severity": "high", "issues": [1, 2]}),
    ('  \n["a", "b"]\n\n', ["a", "b"]),
    ('```json\n{"a": 1}\n```', {"a": 1}),
    ("```\n[1]\n```", [1]),
    ('```JSON\r\n{"a": 1}\r\n```\r\n', {"a": 1}),
    ('Here it is:\n\n```json\n{"a": 1}\n```\nThat was it.', {"a": 1}),
    ('```json\n{"a": 1}\n```\nNo, rather\n```json\n{"a": 2}\n```', {"a": 2}),
    ('```json\n{"a": 1}\n```\nand\n```python\nx = 2\n```', {"a": 1}),
    ("42", 42),
    ("true", True),
    ('"quoted"', "quoted"),
    ("null", None),
    # A fence inside a string of the data is no fence.
    (
        'Look:\n```json\n{"fix": "```sh\\nls\\n```", "n": 1}\n```\n',
        {"fix": "```sh\nls\n```", "n": 1},
    ),
    ('```json\n{"fix": "use ``` here"}\n```', {"fix": "use ``` here"}),
    # Text stays text, to the letter.
    ("All is well.", "All is well."),
    (" keeps its spaces \n", " keeps its spaces \n"),
    ("```json\n{broken\n```", "```json\n{broken\n```"),
    ("```yaml\na: 1\n```", "```yaml\na: 1\n```"),
    ('The last one counts:\n```json\n{"a": 1}\n```\n```json\n{broken\n```', None),
    ("NaN", "NaN"),
    ('{"a": NaN}', '{"a": NaN}'),
    # No JSON file can hold this number: it would become infinite.
    ("1e999", "1e999"),
    ('{"a": [-1e999]}', '{"a": [-1e999]}'),
    ("[" * 5000 + "]" * 5000, "[" * 5000 + "]" * 5000),
    ("1" * 5000, "1" * 5000),
    ('{"a": "\\ud800"}', {"a": "\ud800"}),
    ("ünïcode ✓ \x07 \u202e", "ünïcode ✓ \x07 \u202e"),
]


def expected(answer: str, value: Any) -> Any:
    """A last `json` block that is none leaves text, whatever stood in the block before it."""
    return answer if value is None and answer != "null" else value


@pytest.mark.parametrize(("answer", "value"), ANSWERS, ids=range(len(ANSWERS)))
def test_r8_2_an_answer_becomes_data_where_it_is_data(answer: str, value: Any) -> None:
    assert structured(answer) == expected(answer, value)


def test_r8_2_every_answer_is_kept_and_handed_on(shop: Workshop) -> None:
    """The same through real runs: the state keeps each of them, and later steps see it."""
    lines = [
        f'  - {{id: s{number}, agent: helper, prompt: "STEP:s{number}.", output: x{number}}}'
        for number in range(len(ANSWERS))
    ]
    lines = ["steps:", *lines]
    lines.append('  - {id: use, agent: helper, prompt: "STEP:use {{x0.issues}} {{x12.fix}}"}')
    rules = [rule(f"STEP:s{number}.", answer) for number, (answer, _) in enumerate(ANSWERS)]
    played = shop.play(recipe("\n".join(lines)), rules=tuple(rules))
    for number, (answer, value) in enumerate(ANSWERS):
        assert played.context[f"x{number}"] == expected(answer, value), answer[:80]
    assert shop.prompt("use") == "STEP:use [1,2] ```sh\nls\n```"


def test_r8_2_a_loop_can_go_over_a_fenced_list(shop: Workshop) -> None:
    fenced = "I found these:\n```json\n" + json.dumps(["a.py", "b.py"]) + "\n```\n"
    shop.play(
        recipe("""
            steps:
              - {id: find, agent: helper, prompt: "STEP:find", output: files}
              - {id: each, foreach: "{{files}}", agent: helper, prompt: "STEP:{{item}}"}
        """),
        rules=(rule("STEP:find", fenced),),
    )
    assert shop.asked() == ["find", "a.py", "b.py"]


def test_r8_2_a_huge_hostile_answer_is_read_in_time() -> None:
    """Fences without end, spaces without end: the reading stays linear."""
    import time

    began = time.process_time()
    for text in (
        "```json\n" * 40_000,
        "```\n" * 80_001,
        "```\n" + " " * 1_000_000,
        "```" * 300_000,
        "```json\n{\n```\n" * 20_000,
    ):
        assert structured(text) == text
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("42", 42),
        ('Here:\n```\n{"a": 1}\n```\nDone.', {"a": 1}),
        ('```yaml\na: 1\n```\n```json\n{"a": 2}\n```', {"a": 2}),
        # An example of the form, then the answer: the last one, as without `parse_json`.
        ('So:\n```json\n{"a": 0}\n```\nIt is:\n```json\n{"a": 4}\n```\n', {"a": 4}),
        ('```json\n{"a": 5}\n```\n```\n{"a": 0}\n```\n', {"a": 5}),
        ('```json\n{"a": 6}\n```\n```json\n{broken\n```\n', {"a": 6}),
        ('I found {"severity": "high"} and [1, 2].', {"severity": "high"}),
        ("The list [1, 2] it is, not {this}.", [1, 2]),
        ('a {broken {"a": {"b": []}} end', {"a": {"b": []}}),
        ("nothing at all", NO_JSON),
        ("{broken", NO_JSON),
        ("[" * 100_000, NO_JSON),
        ('{"a": NaN}', NO_JSON),
    ],
)
def test_parse_json_looks_at_the_whole_then_blocks_then_prose(answer: str, value: Any) -> None:
    assert find_json(answer) == value


PARSED = recipe("""
    steps:
      - {id: look, agent: helper, prompt: "STEP:look", parse_json: true, output: found}
      - {id: use, prompt: "STEP:use {{found.severity}}", output: said}
""")


def test_parse_json_gives_later_steps_the_fields(shop: Workshop) -> None:
    answer = 'Well: {"severity": "high"}, that is it.'
    played = shop.play(PARSED, rules=(rule("STEP:look", answer),))
    assert shop.prompt("use") == "STEP:use high"
    assert played.context["found"] == {"severity": "high"}


def test_parse_json_without_any_fails_the_step_and_says_so(shop: Workshop) -> None:
    played = shop.play(PARSED, rules=(rule("STEP:look", "All is well."),), exit_code=1)
    assert "parse_json" in played.message("look")
    assert "All is well." in played.message("look")
    assert shop.asked() == ["look"]
    assert "parse_json" in played.result.stderr
    shop.answers(rule("STEP:look", "[]"))
    resumed = shop.go_on(exit_code=1)
    assert "{{found.severity}}" in resumed.message("use")
