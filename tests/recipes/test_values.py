"""Large results: handed on whole, stored once beside the state, and only referred to in it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from orchestrate.state.values import INLINE_LIMIT
from tests.recipes.fakes import Played, Workshop, recipe, rule

KB, MB = 1024, 1024 * 1024


def big_answer(size: int) -> str:
    """What the fake says when it is asked for so many bytes."""
    text = "done big"
    return ((text + " ") * (size // (len(text) + 1) + 1))[: size - 3] + "END"


def stored_files(played: Played) -> list[Path]:
    return sorted((played.root / "values").iterdir())


def assert_not_bloated(played: Played, most: int = 64 * KB) -> None:
    """Neither the state nor the journal repeats a large value."""
    assert os.path.getsize(played.root / "state.json") < most
    assert os.path.getsize(played.root / "events.jsonl") < 2 * most


HAND_ON = recipe("""
    steps:
      - {id: big, agent: helper, prompt: "STEP:big", output: big}
      - {id: next, agent: helper, prompt: "STEP:next {{big}}"}
      - {id: again, agent: helper, prompt: "STEP:again {{big}} {{big}}"}
""")


def test_b_values_over_100_kb_arrive_untrimmed(shop: Workshop) -> None:
    """One of the five failures: values over 100 KB come back trimmed elsewhere."""
    size = 300 * KB
    played = shop.play(HAND_ON, rules=(rule("STEP:big", size=size, text="done big"),))
    big = big_answer(size)
    (call,) = shop.calls("next")
    assert call.size == size + len("STEP:next ")
    assert call.sha256 == hashlib.sha256(f"STEP:next {big}".encode()).hexdigest()
    (call,) = shop.calls("again")
    assert call.sha256 == hashlib.sha256(f"STEP:again {big} {big}".encode()).hexdigest()
    (file,) = stored_files(played)
    assert json.loads(file.read_text("utf-8")) == big
    assert played.context["big"]["$stored"] == f"values/{file.name}"
    assert_not_bloated(played)


def test_b_values_of_10_mb_arrive_untrimmed(shop: Workshop) -> None:
    """As much as Claude Code reads: 10,000,000 bytes with the prompt around it."""
    size = 10_000_000 - 100
    text = HAND_ON.partition("  - {id: again")[0]
    played = shop.play(text, rules=(rule("STEP:big", size=size, text="done big"),))
    (call,) = shop.calls("next")
    assert call.sha256 == hashlib.sha256(f"STEP:next {big_answer(size)}".encode()).hexdigest()
    assert len(stored_files(played)) == 1
    assert_not_bloated(played)


def test_b_values_larger_than_a_prompt_may_be_are_refused_by_name(shop: Workshop) -> None:
    """Cutting off would answer half a question; the value itself is kept whole."""
    size = 10 * MB
    text = HAND_ON.partition("  - {id: again")[0]
    played = shop.play(text, rules=(rule("STEP:big", size=size, text="done big"),), exit_code=1)
    assert shop.asked() == ["big"]
    assert str(size + len("STEP:next ")) in played.message("next")
    (file,) = stored_files(played)
    assert json.loads(file.read_text("utf-8")) == big_answer(size)
    assert_not_bloated(played)


def test_b_values_survive_every_way_they_are_handed_on(shop: Workshop) -> None:
    """Members, loops, collect, sub-recipes, conditions, and a resume in between."""
    items = [f"item {number} " + "x" * 40_000 for number in range(5)]
    data = {"items": items, "note": "n" * 50_000, "kind": "good"}
    shop.write(
        "child.yaml",
        recipe("""
            context: {note: "", list: []}
            steps:
              - {id: in, foreach: "{{list}}", agent: helper, prompt: "STEP:in {{item}}",
                 collect: results}
        """),
    )
    text = recipe("""
        steps:
          - {id: find, agent: helper, prompt: "STEP:find", output: found}
          - {id: each, foreach: "{{found.items}}", agent: helper, prompt: "STEP:each {{item}}",
             collect: all}
          - {id: call, type: recipe, recipe: child.yaml, output: sub,
             context: {note: "{{found.note}}", list: "{{found.items}}"}}
          - {id: stop, agent: helper, prompt: "STEP:stop"}
          - {id: use, condition: "{{found.kind}} == 'good' and {{sub.note}} == {{found.note}}",
             agent: helper, prompt: "STEP:use {{all.4}}{{sub.results.4}}{{sub.note}}"}
    """)
    answers = (
        rule("STEP:find", json.dumps(data)),
        rule("STEP:each", size=60_000, text="each"),
        rule("STEP:in", size=70_000, text="in"),
        rule("STEP:stop", {"fail": "crash"}, "ok"),
    )
    shop.play(text, rules=answers, exit_code=1)
    played = shop.go_on()
    wanted = [hashlib.sha256(f"STEP:each {item}".encode()).hexdigest() for item in items]
    assert [call.sha256 for call in shop.calls("each")] == wanted
    wanted = [hashlib.sha256(f"STEP:in {item}".encode()).hexdigest() for item in items]
    assert [call.sha256 for call in shop.calls("in")] == wanted
    (use,) = shop.calls("use")
    assert use.size == len("STEP:use ") + 60_000 + 70_000 + 50_000
    # All that was handed on is over a megabyte; twelve steps may show a few words of theirs.
    assert_not_bloated(played, 128 * KB)


def test_b_values_that_are_equal_are_stored_once(shop: Workshop) -> None:
    played = shop.play(
        recipe("""
            context: {items: [1, 2, 3, 4, 5]}
            steps:
              - {id: each, foreach: "{{items}}", parallel: true, agent: helper,
                 prompt: "STEP:each", collect: all}
        """),
        rules=(rule("STEP:each", size=300 * KB),),
    )
    assert len(stored_files(played)) == 1
    assert_not_bloated(played)


@pytest.mark.parametrize(("size", "is_stored"), [(INLINE_LIMIT - 100, False), (INLINE_LIMIT, True)])
def test_b_values_are_whole_on_both_sides_of_being_stored(
    shop: Workshop, size: int, is_stored: bool
) -> None:
    text = HAND_ON.partition("  - {id: again")[0]
    played = shop.play(text, rules=(rule("STEP:big", size=size, text="done big"),))
    assert shop.prompt("next") == f"STEP:next {big_answer(size)}"
    assert isinstance(played.context["big"], dict) is is_stored


def test_b_values_a_reference_cannot_be_forged(shop: Workshop) -> None:
    """An agent that answers what looks like a reference gets to see only its own words."""
    secret = "values/" + "0" * 64 + ".json"
    forged = {"$stored": secret, "bytes": 1}
    shop.play(
        recipe("""
            steps:
              - {id: a, agent: helper, prompt: "STEP:a", output: x}
              - {id: b, agent: helper, prompt: "STEP:b {{x}}"}
        """),
        rules=(rule("STEP:a", json.dumps({"deep": [forged]})),),
    )
    assert json.loads(shop.prompt("b").removeprefix("STEP:b ")) == {"deep": [forged]}


def test_b_values_a_damaged_one_is_noticed(shop: Workshop) -> None:
    text = recipe("""
        steps:
          - {id: big, agent: helper, prompt: "STEP:big", output: big}
          - {id: stop, agent: helper, prompt: "STEP:stop"}
          - {id: next, agent: helper, prompt: "STEP:next {{big}}"}
    """)
    shop.play(
        text,
        rules=(rule("STEP:big", size=300 * KB), rule("STEP:stop", {"fail": "crash"}, "ok")),
        exit_code=1,
    )
    (file,) = (shop.latest / "values").iterdir()
    file.write_text('"something else"', "utf-8")
    said = shop.run("resume", "latest").assert_exit(5)
    assert file.name in said.stderr
    assert "next" not in shop.asked()
