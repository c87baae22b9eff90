"""A §2.3: how an outcome is read off the end of an answer, and what is no outcome.

One run asks a step for each case below, so that all of them go the whole way: through the agent's
output, the reading, and the reminder with its words.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.machines.fakes import Line, Scene, machine, said

DONE = '{"outcome": "done"}'
MISSING = "No JSON block found in response"
PLACEHOLDER = '{"outcome": "other", "otherDescription": "<brief description>"}'
NEEDS_WHY = "Outcome 'other' needs an otherDescription that says why"
NO_OUTCOME = "The JSON block has no 'outcome' that is a string"

READ = {
    "alone": DONE,
    "after-text": f"I did it.\nAll of it.\n{DONE}",
    "no-space": '{"outcome":"done"}',
    "white-space": f"text\n \t {DONE} \t ",
    "trailing-blank-lines": f"text\n{DONE}\n\n   \n\t\n\n\n\n\n\n",
    "windows-lines": f"text\r\n{DONE}\r\n\r\n",
    "fifth-line-from-the-end": f"{DONE}\none\ntwo\nthree\nfour",
    "in-a-fence": f"text\n```json\n{DONE}\n```",
    "in-a-fence-then-blank": f"text\n```\n{DONE}\n```\n\n",
    "fence-on-the-line": f"text\n```json {DONE} ```",
    "fence-touches-it": f"text\n```{DONE}```",
    "newest-wins": f'{{"outcome": "other", "otherDescription": "no"}}\n{DONE}',
    "code-block-before-it": '```json\n{"a": 1,\n "b": {}}\n```\nDone.\n' + DONE,
    "more-keys": '{"outcome": "done", "confidence": 0.9, "notes": {"a": [1, {"b": null}]}}',
    "description-is-ignored": '{"outcome": "done", "otherDescription": ""}',
    "braces-in-a-string": '{"outcome": "done", "note": "} { ``` }"}',
    "sixth-line-from-the-end": f"{DONE}\none\ntwo\nthree\nfour\nfive",
    "after-a-bullet": f"- {DONE}",
    "over-several-lines": '{\n  "outcome": "done"\n}',
    "escaped-name": '{"outcome": "\\u0064one"}',
}

# Each with the error that the reminder tells the agent.
REFUSED = {
    "nothing": ("Done.", MISSING),
    "inside-a-sentence": (f"The outcome is {DONE}.", MISSING),
    "an-array": (f"[{DONE}]", MISSING),
    "newest-candidate-only": (f"{DONE}\n{{not json}}", "Invalid JSON: "),
    "two-on-one-line": (f"{DONE} {DONE}", "Invalid JSON: "),
    "single-quotes": ("{'outcome': 'done'}", "Invalid JSON: "),
    "comma-at-the-end": ('{"outcome": "done",}', "Invalid JSON: "),
    "not-a-number": ('{"outcome": "done", "n": NaN}', "Invalid JSON: "),
    "key-twice": ('{"outcome": "done", "outcome": "done"}', "Invalid JSON: "),
    "key-twice-below": ('{"outcome": "done", "x": {"a": 1, "a": 1}}', "Invalid JSON: "),
    "nested-too-deeply": ('{"outcome": "done", "x": ' + "[" * 9000 + "]" * 9000 + "}", "Invalid"),
    "empty-object": ("{}", NO_OUTCOME),
    "outcome-is-a-number": ('{"outcome": 1}', NO_OUTCOME),
    "outcome-is-a-list": ('{"outcome": ["done"]}', NO_OUTCOME),
    "outcome-is-null": ('{"outcome": null}', NO_OUTCOME),
    "another-case-of-the-key": ('{"Outcome": "done"}', NO_OUTCOME),
    "not-an-outcome": ('{"outcome": "complete"}', "Outcome 'complete' is not one of: done, other"),
    "another-case": ('{"outcome": "Done"}', "Outcome 'Done' is not one of: done, other"),
    "space-around": ('{"outcome": " done"}', "Outcome ' done' is not one of: done, other"),
    "other-without-a-word": ('{"outcome": "other"}', NEEDS_WHY),
    "other-with-blanks": ('{"outcome": "other", "otherDescription": " \\n\\t "}', NEEDS_WHY),
    "other-with-a-number": ('{"outcome": "other", "otherDescription": 7}', NEEDS_WHY),
    "other-with-null": ('{"outcome": "other", "otherDescription": null}', NEEDS_WHY),
    "other-with-the-placeholder": (PLACEHOLDER, NEEDS_WHY),
}


@dataclass(frozen=True)
class Read:
    """What became of one case: the error of its reminder, the line that was tried, the outcome."""

    error: str | None
    malformed: str | None
    outcome: str


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Read]:
    texts = READ | {name: text for name, (text, _) in REFUSED.items()}
    lines: dict[str, Line] = {f"Do {name}.": {"text": text} for name, text in texts.items()}
    lines["Your previous response did not include the required JSON outcome block."] = said("done")
    scene = Scene(tmp_path_factory.mktemp("extraction"))
    scene.script_by_prompt(lines)
    names = list(texts)
    follow = [*names[1:], "!all-read"]
    steps = {
        name: {"done": next_, "other": next_} for name, next_ in zip(names, follow, strict=True)
    }
    text = machine(steps, "guardrails: {exitOnOther: false}")
    played = scene.play(text)
    assert played.state["reason"] == "all-read"
    reminded = {event["node"]: event["result"] for event in scene.happened("attempt-ended")}
    prompts = [call.prompt for call in scene.ledger()]
    for result in reminded.values():
        assert any(f"\nError: {result['error']['message']}\n" in prompt for prompt in prompts)
    return {
        name: Read(
            reminded[name]["error"]["message"] if name in reminded else None,
            reminded[name]["error"].get("context", {}).get("malformedJson")
            if name in reminded
            else None,
            played.step(name)["outcome"],
        )
        for name in names
    }


@pytest.mark.parametrize("case", READ)
def test_a2_3_an_outcome_is_read(readings: dict[str, Read], case: str) -> None:
    assert readings[case] == Read(None, None, "done")


@pytest.mark.parametrize("case", REFUSED)
def test_a2_3_what_is_no_outcome_is_asked_for_again(readings: dict[str, Read], case: str) -> None:
    text, error = REFUSED[case]
    found = readings[case]
    assert found.error is not None
    assert found.error.startswith(error)
    assert found.outcome == "done", "the reminder's answer counts"
    if error == MISSING:
        assert found.malformed is None
    else:
        # For debugging, the line that was tried; a very long one is cut.
        assert found.malformed is not None
        assert found.malformed[:20] == text.splitlines()[-1][:20]
        assert len(found.malformed) < 1000


def test_a2_3_other_comes_with_its_description(tmp_path: Path) -> None:
    """Half a character and control characters break neither the state nor a terminal."""
    strange = '{"outcome": "other", "otherDescription": "a \\ud800 \\u001b[31m \\u0000 \\n b"}'
    scene = Scene(tmp_path, {"text": strange})
    played = scene.play(machine({"look": {"done": "!done"}}), "--verbose")
    assert played.step("look")["outcome_description"] == json.loads(strange)["otherDescription"]
    assert "\x1b" not in played.result.stderr
    assert "\0" not in played.result.stderr
