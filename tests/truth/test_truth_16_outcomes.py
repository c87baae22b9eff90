"""An outcome is read with tolerance, and asked for again with a schema (rulings §7)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrate.engine.outcome import Outcome, Unreadable, outcome_schema, read_outcome
from tests.machines.fakes import Scene, machine, other, said

OUTCOMES = ("done", "broken", "other")
DONE = '{"outcome": "done"}'
PRETTY = '{\n  "outcome": "done"\n}'
OTHER = '{\n  "outcome": "other",\n  "otherDescription": "the remote is down"\n}'

PLACEHOLDER = '{"outcome": "other", "otherDescription": "<brief description>"}'

# What agents really write.
READ = {
    "fenced": f"All green.\n\n```json\n{PRETTY}\n```",
    "fenced-without-a-language": f"All green.\n\n```\n{PRETTY}\n```\n",
    "pretty-printed": f"I did it.\n\n{PRETTY}\n",
    "pretty-with-windows-lines": f"I did it.\n\n{PRETTY}\n".replace("\n", "\r\n"),
    "inline-code": f"I did it.\n\n`{DONE}`",
    "inline-code-with-a-full-stop": f"I did it.\n\n`{DONE}`.",
    "bold": f"I did it.\n\n**{DONE}**",
    "bold-code": f"**`{DONE}`**",
    "emphasis": f"_{DONE}_",
    "bullet": f"Summary:\n- I did it.\n- {DONE}",
    "starred-bullet": f"* {DONE}",
    "numbered": f"1. I did it.\n2. {DONE}",
    "label": f"Outcome: {DONE}",
    "bold-label": f"**Outcome:** {DONE}",
    "bold-label-before-the-colon": f"**Final outcome**: `{DONE}`",
    "label-on-its-own-line": f"Outcome:\n\n{PRETTY}",
    "label-before-a-fence": f"**Outcome**\n\n```json\n{PRETTY}\n```",
    "full-stop": f"{DONE}.",
    "label-and-full-stop": f"The outcome: {DONE}.",
    "quoted": f"> I did it.\n>\n> {DONE}",
    "quoted-over-lines": "> {\n>   \"outcome\": \"done\"\n> }",
    "in-quotation-marks": f"\u201c{DONE}\u201d",
    "fortieth-line": '{\n"outcome": "done",\n"files": [\n' + "1,\n" * 34 + "1\n]\n}",
    "words-after-it": f"{PRETTY}\n\nLet me know if you need anything else.\nI am happy to help.",
    "one-word-after-it": f"{PRETTY}\n\nOK",
    "sixth-line-from-the-end": f"{DONE}\none\ntwo\nthree\nfour\nfive",
    "fortieth-line-from-the-end": f"{DONE}\n" + "word\n" * 39,
    "the-same-twice": f"- {DONE}\n\nAs I said:\n\n- {DONE}",
    "an-unknown-one-before": f'- {{"outcome": "perhaps"}}\n\nNo:\n\n- {DONE}',
    "marks-below-it": f"> **`{DONE}`**\n>\n> ---",
    "nested": '```json\n{\n  "outcome": "done",\n  "files": [\n    {"path": "a"}\n  ]\n}\n```',
    "nested-last": '{\n  "outcome": "done",\n  "by": {\n    "name": "x"\n  }\n}',
    # By the letter of rulings §7: the newest plain line is the only candidate of the first reading.
    "plain-and-another-ruled-out": f'{DONE}\n\n(Not {{"outcome": "broken"}}: the tests pass.)',
    "plain-before-the-others-quoted": f'{DONE}\n\n> {{"outcome": "broken"}}',
    "plain-before-an-invalid-one": f"{DONE}\n- {{'outcome': 'broken'}}",
    "code-before-it": "```js\nfunction f() {\n}\n```\n\n```json\n" + PRETTY + "\n```",
}  # fmt: skip
REFUSED = {
    "nothing": "Done.",
    "inside-a-sentence": f"The outcome is {DONE} as you asked.",
    "at-the-end-of-a-sentence": f"I would say that it is {DONE}.",
    "an-array": f"[{DONE}]",
    "an-array-over-lines": f"[\n{PRETTY}\n]",
    "a-value-of-another-object": '{\n  "answer": {\n    "outcome": "done"\n  }\n}',
    "forty-first-line": '{\n"outcome": "done",\n"files": [\n' + "1,\n" * 35 + "1\n]\n}",
    "forty-first-line-from-the-end": f"{DONE}\n" + "word\n" * 40,
    "taken-back-at-once": f"`{DONE}`, but the build is broken.",
    "two-that-differ": f"- {{\"outcome\": \"broken\"}}\n\nNo:\n\n- {DONE}",
    "two-in-one-fence": f'```json\n{PRETTY}\n{{\n  "outcome": "broken"\n}}\n```',
    "one-in-a-sentence-before": f'It is not {{"outcome": "broken"}}.\n\n{PRETTY}',
    "the-prompt-quoted": '> {"outcome": "broken"}\n> {"outcome": "done"}\nI have not done it.',
    "the-prompt-quoted-last": 'I was told:\n\n> {"outcome": "broken"}\n> {"outcome": "done"}',
    "last-is-invalid": f"- {DONE}\n\nor rather\n\n- {{'outcome': 'broken'}}",
    "last-is-another-outcome": f"- {DONE}\n\n- {{\"outcome\": \"perhaps\"}}",
    "last-is-in-a-sentence": f"- {DONE}\n\nNo, {{\"outcome\": \"broken\"}} fits better.",
    "code-after-it": f"```json\n{PRETTY}\n```\n\n```js\nfunction f() {{\n}}\n```",
    "braces-after-it": f"```json\n{PRETTY}\n```\n\nI left the {{ as it was.",
    "cut-off": '```json\n{\n  "outcome": "done"',
    "comma-at-the-end": '```json\n{\n  "outcome": "done",\n}\n```',
    "comments": '{\n  // fine\n  "outcome": "done"\n}',
    "key-twice": '{\n  "outcome": "done",\n  "outcome": "broken"\n}',
    "not-a-number": '{\n  "outcome": "done",\n  "n": NaN\n}',
    "another-outcome": '```json\n{\n  "outcome": "perhaps"\n}\n```',
    "other-without-a-word": '{\n  "outcome": "other"\n}',
    "other-with-the-placeholder": f"- {PLACEHOLDER}",
    "two-on-one-line": f"- {DONE} {DONE}",
    "a-long-label": f"{'x' * 81}: {DONE}",
    "nested-too-deeply": '{\n"outcome": "done", "x": ' + "[" * 9000 + "]" * 9000 + "\n}",
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_truth_16_what_agents_write_is_read(case: str) -> None:
    assert read_outcome(READ[case], OUTCOMES) == Outcome("done")


@pytest.mark.parametrize("case", REFUSED)
def test_truth_16_what_does_not_validate_is_not_read(case: str) -> None:
    assert isinstance(read_outcome(REFUSED[case], OUTCOMES), Unreadable)


def test_truth_16_other_keeps_its_description() -> None:
    assert read_outcome(f"```json\n{OTHER}\n```", OUTCOMES) == Outcome(
        "other", "the remote is down"
    )


def test_truth_16_the_error_is_about_the_object_that_was_found() -> None:
    found = read_outcome('```json\n{\n  "outcome": "perhaps"\n}\n```', OUTCOMES)
    assert isinstance(found, Unreadable)
    assert found.error == "Outcome 'perhaps' is not one of: broken, done, other"


PROSE = st.text(st.characters(exclude_characters="{}", exclude_categories=["Cs"]), max_size=200)
INDENT = st.sampled_from([None, 1, 2, 4])
BEFORE = st.sampled_from(["", "- ", "* ", "> ", "1. ", "Outcome: ", "**", "`", "```json\n", "  "])
AFTER = st.sampled_from(["", ".", "`", "**", "\n```", " ", "`.", "\r"])


@given(PROSE, st.sampled_from(OUTCOMES), INDENT, BEFORE, AFTER)
def test_truth_16_a_decorated_object_is_read_whatever_stands_before(
    prose: str, name: str, indent: int | None, before: str, after: str
) -> None:
    data = {"outcome": name} | ({"otherDescription": "why"} if name == "other" else {})
    text = f"{prose}\n{before}{json.dumps(data, indent=indent)}{after}"
    assert read_outcome(text, OUTCOMES) == Outcome(name, data.get("otherDescription"))


@settings(max_examples=300)
@given(st.text(st.sampled_from('{}[]":,`*->._\n\r \\outcmedn'), max_size=400))
def test_truth_16_nothing_breaks_the_reader_and_nothing_else_counts(text: str) -> None:
    found = read_outcome(text, OUTCOMES)
    if isinstance(found, Outcome):
        assert found.name in OUTCOMES
        assert '"outcome"' in text


@given(PROSE, st.sampled_from(["broken", "done"]), BEFORE)
def test_truth_16_a_later_object_that_is_invalid_asks_again(
    prose: str, name: str, before: str
) -> None:
    text = f"{prose}\n\n{before}{PRETTY}\n\n\n\n\n\n- {{'outcome': '{name}'}}"
    assert isinstance(read_outcome(text, OUTCOMES), Unreadable)


# Made when they are wanted: together they take 40 MB.
HOSTILE: dict[str, Callable[[], str]] = {
    "blanks": lambda: " " * 3_000_000 + "}",
    "braces": lambda: "{" * 3_000_000,
    "closing": lambda: "}" * 3_000_000,
    "pairs": lambda: "{}" * 1_500_000,
    "lines": lambda: "{\n" * 1_500_000 + "}",
    "backticks": lambda: "`" * 3_000_000 + "}",
    "backticks-apart": lambda: "` " * 1_500_000 + "{}",
    "stars": lambda: "*" * 3_000_000 + DONE + "*" * 3_000_000,
    "quotes": lambda: "> " * 1_500_000 + "}",
    "long-lines": lambda: "\n".join(["{" + '"a":' * 20_000] * 40) + "}",
    "deep": lambda: '{"a":' * 500_000 + "1" + "}" * 500_000,
    "labels": lambda: ("x: " * 20_000 + "{\n") * 40 + "}",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_truth_16_reading_takes_no_longer_than_it_must(case: str) -> None:
    text = HOSTILE[case]()
    began = time.process_time()
    assert isinstance(read_outcome(text, OUTCOMES), Unreadable)
    assert time.process_time() - began < 2


def test_truth_16_the_schema_says_what_the_reader_accepts() -> None:
    schema = outcome_schema(OUTCOMES)
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    assert check.is_valid({"outcome": "done", "otherDescription": None})
    assert check.is_valid({"outcome": "other", "otherDescription": "why"})
    assert not check.is_valid({"outcome": "perhaps", "otherDescription": None})
    assert not check.is_valid({"outcome": "done", "otherDescription": None, "more": 1})
    assert outcome_schema(("done",))["required"] == ["outcome"]


# In a run.

ONE = machine({"only": {"done": "!done", "broken": "!broken"}})
LOOK = "look at it"


def test_truth_16_a_fenced_block_needs_no_reminder(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"text": f"All green.\n\n```json\n{PRETTY}\n```"})
    played = scene.play(ONE)
    assert played.state["reason"] == "done"
    assert len(scene.ledger()) == 1


def test_truth_16_outcomes_that_differ_earn_the_reminder(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"text": REFUSED["two-that-differ"]}, said("broken"))
    played = scene.play(ONE)
    assert played.state["reason"] == "broken"
    assert len(scene.ledger()) == 2


@pytest.mark.parametrize("program", ["claude", "codex"])
def test_truth_16_only_the_reminder_has_a_schema(tmp_path: Path, program: str) -> None:
    scene = Scene(tmp_path, {"text": "hm"}, said("done"), program=program)
    scene.play(ONE, "--backend", program)
    flag = {"claude": "--json-schema", "codex": "--output-schema"}[program]
    first, second = scene.ledger(program)
    assert flag not in first.argv
    given_schema = second.argv[second.argv.index(flag) + 1]
    if program == "codex":
        assert second.argv.index(flag) < second.argv.index("resume")
        given_schema = Path(given_schema).read_text("utf-8")
    assert json.loads(given_schema) == outcome_schema(("done", "broken", "other"))
    assert "Respond with ONLY the JSON block" in second.prompt


def test_truth_16_an_older_program_gets_no_schema(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"text": "hm"}, said("done"))
    starter = scene.top / "programs" / "claude"
    old = 'case "$1" in --version) echo "2.1.197 (Claude Code)"; exit;; esac\n'
    starter.write_text(starter.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\n{old}"))
    scene.play(ONE)
    assert all("--json-schema" not in call.argv for call in scene.ledger())


def test_truth_16_a_structured_answer_is_read(tmp_path: Path) -> None:
    structured = {"outcome": "other", "otherDescription": "the remote is down"}
    scene = Scene(
        tmp_path, {"text": "hm"}, {"text": "I called the tool.", "structured": structured}
    )
    played = scene.play(ONE)
    assert played.step("only")["outcome_description"] == "the remote is down"


@pytest.mark.parametrize("program", ["claude", "codex"])
def test_truth_16_an_empty_answer_earns_the_reminder(tmp_path: Path, program: str) -> None:
    scene = Scene(tmp_path, {"text": ""}, said("done"), program=program)
    played = scene.play(ONE, "--backend", program)
    assert played.state["reason"] == "done"
    first, second = scene.ledger(program)
    assert second.prompt.startswith("Your previous response did not include")
    assert second.session == first.session


def test_truth_16_an_empty_answer_without_a_clean_end_is_a_failure(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"exit": 0})
    scene.play(ONE, exit_code=4)
    assert len(scene.ledger()) == 1


def test_truth_16_resume_sends_the_reminder_and_not_the_prompt(tmp_path: Path) -> None:
    lines = [{"text": "hm", "cost": 0.1}] * 3
    scene = Scene(tmp_path, *lines, other(LOOK, cost=0.1))
    scene.play(ONE, exit_code=2)
    scene.run("resume", "latest").assert_exit(2)
    played = scene.look(scene.run("resume", "latest").assert_success())
    calls = scene.ledger()
    assert len({call.session for call in calls}) == 1
    assert calls[0].prompt.startswith("Do only.")
    for call in calls[1:]:
        assert call.prompt.startswith("Your previous response did not include")
    assert played.step("only")["outcome_description"] == LOOK
    assert played.step("only")["cost_usd"] == 0.4
    assert played.state["costs"]["cost_usd"] == 0.4


def test_truth_16_a_reminder_is_repeated_after_a_failure(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"text": "hm"}, {"exit": 3}, said("done"))
    scene.play(ONE, exit_code=4)
    scene.run("resume", "latest").assert_success()
    _, second, third = scene.ledger()
    assert third.prompt.endswith(second.prompt)
    assert third.prompt != second.prompt, "the reminder was cut off, and that is said"


def test_truth_16_another_agent_gets_the_whole_prompt(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"text": "hm"}, {"text": "hm"})
    scene.script(said("done"), program="codex")
    scene.play(ONE, exit_code=2)
    scene.run("resume", "latest", "--backend", "codex").assert_success()
    (call,) = scene.ledger("codex")
    assert call.prompt.startswith("Do only.")
