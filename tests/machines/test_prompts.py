"""A §2.2 and §2.4: the prompts that an agent is sent, to the letter."""

from __future__ import annotations

import json
from pathlib import Path

from tests.machines.fakes import PAIR, Scene, machine, said

OUTCOMES = {"zebra": "!z", "apple": "!a", "other": "!user-provided-other", "mango-1": "!m"}


def test_a2_2_the_prompt_is_the_step_and_then_the_block(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("apple"))
    text = "  Look at it.\n\n## Rules\n- [ ] one\tä\u00a0漢"
    scene.play(machine({"look": {"prompt": text, **OUTCOMES}}))
    assert scene.ledger()[0].prompt == (
        f"{text}\n"
        "\n"
        "End your response with one of these JSON blocks on the last line:\n"
        "\n"
        '{"outcome": "apple"}\n'
        '{"outcome": "mango-1"}\n'
        '{"outcome": "zebra"}\n'
        '{"outcome": "other", "otherDescription": "<brief description>"}'
    )


def test_a2_2_other_is_offered_only_where_it_is_an_outcome(tmp_path: Path) -> None:
    text = PAIR.replace("[done, other]", "[done]").replace(
        "\n      other: {action: exit, reason: user-provided-other}", ""
    )
    assert "other" not in text
    scene = Scene(tmp_path, said("done"), said("done"))
    scene.play(text)
    assert scene.ledger()[0].prompt == (
        "Do first.\n\nEnd your response with one of these JSON blocks on the last line:\n\n"
        '{"outcome": "done"}'
    )


def test_a2_2_nothing_is_put_before_the_prompt(tmp_path: Path) -> None:
    """No preamble and no system prompt, unless the flag gives one; then on every call."""
    scene = Scene(tmp_path, *[said("done")] * 4)
    scene.play(PAIR)
    scene.play(PAIR, "--system-prompt", "Be brief; --really.")
    plain, _, first, second = scene.ledger()
    assert not any("system-prompt" in word for word in plain.argv)
    for call in (first, second):
        assert "--append-system-prompt=Be brief; --really." in call.argv
        assert call.prompt.startswith("Do ")


def test_a2_2_a_prompt_of_300_kb_arrives_whole_and_in_no_argument(tmp_path: Path) -> None:
    words = "".join(f"line {number}: look at this, please\n" for number in range(10_000))
    assert len(words) > 300_000
    scene = Scene(tmp_path, said("done", wait_for="go"))
    with scene.started(machine({"long": {"prompt": words, "done": "!long-done"}})) as process:
        call = scene.await_call(1)
        shown = [_read(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
        scene.let_go()
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert call.prompt.startswith(words + "\n\nEnd your response")
    # Our own command, the keeper and the agent are among them.
    assert any(call.session.encode() in line for line in shown)
    assert not any(b"look at this, please" in line for line in shown)
    assert not any(b"look at this, please" in word.encode() for word in call.env.values())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended
        return b""


def test_a2_2_text_that_claude_would_act_on_stays_text(tmp_path: Path) -> None:
    """A leading `/` and `@path` are commands of Claude Code (agent-clis.md §3.1).

    They arrive so that it acts on neither, and so that a reader sees what was written. This
    version can be told to leave `@` alone, so that nothing of it needs an escape.
    """
    text = "/clear\nRead @STANDARDS.md and @/etc/hostname first."
    scene = Scene(tmp_path, said("done"))
    scene.play(machine({"look": {"prompt": text, "done": "!done"}}))
    (call,) = scene.ledger()
    assert not call.prompt.startswith("/")
    assert call.env.get("CLAUDE_CODE_DISABLE_FILE_MENTIONS") == "1"
    assert call.prompt.lstrip("\n").startswith(text + "\n\nEnd your response")


# The reminder.

REMINDER = (
    "Your previous response did not include the required JSON outcome block.\n"
    "Please respond now with ONLY the JSON outcome on a single line.\n"
    "\n"
    "Error: {error}\n"
    "\n"
    "Valid responses:\n"
    "\n"
    '{{"outcome": "apple"}}\n'
    '{{"outcome": "mango-1"}}\n'
    '{{"outcome": "zebra"}}\n'
    '{{"outcome": "other", "otherDescription": "<brief description>"}}\n'
    "\n"
    "Respond with ONLY the JSON block, nothing else."
)


def test_a2_4_the_reminder_goes_to_the_same_session(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"text": "All is well."}, {"text": '{"outcome": "zebra"}'})
    played = scene.play(machine({"look": {"model": "haiku", **OUTCOMES}}), "--model", "opus")
    first, second = scene.ledger()
    assert played.state["reason"] == "z"
    assert second.prompt == REMINDER.format(error="No JSON block found in response")
    assert (first.is_new, second.is_new) == (True, False)
    assert second.session == first.session
    assert scene.history(first.session)[0]["answer"] == "All is well."
    assert second.earlier == 1
    # Rulings §7: the reminder uses the step's model; A §17.1 would leave it to the session.
    assert (first.model, second.model) == ("haiku", "haiku")


def test_a20_2_5_the_second_unreadable_answer_ends_the_recipe(tmp_path: Path) -> None:
    bad = '{"outcome": "banana"}'
    scene = Scene(tmp_path, {"text": "Hm."}, {"text": bad})
    played = scene.play(machine({"look": OUTCOMES}), exit_code=2)
    assert len(scene.ledger()) == 2
    assert played.state["status"] == "failed"
    assert played.state["reason"] == "orchestration-error"
    assert played.step("look")["error"]["context"] == {"malformedJson": bad}
    assert "banana" in played.result.stderr
    assert played.result.stdout.rstrip().endswith("orchestration-error")


def test_a2_4_the_error_says_what_was_wrong(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"text": '{"outcome": "banana"}'}, said("apple"))
    scene.play(machine({"look": OUTCOMES}))
    error = "Outcome 'banana' is not one of: apple, mango-1, other, zebra"
    assert scene.ledger()[1].prompt == REMINDER.format(error=error)


def test_a2_4_resume_after_an_orchestration_error_sends_the_reminder(tmp_path: Path) -> None:
    """The work is done and paid for; only its outcome could not be read (rulings §7)."""
    scene = Scene(tmp_path, {"text": "Hm."}, {"text": "Hm."}, said("apple"))
    scene.play(machine({"look": OUTCOMES}), exit_code=2)
    played = scene.look(scene.run("resume", "latest").assert_success())
    first, second, third = scene.ledger()
    assert third.prompt == second.prompt
    assert third.prompt != first.prompt
    assert third.session == first.session
    assert not third.is_new
    assert played.state["machine"]["stepVisitCounts"] == {"look": 1}
    assert played.state["reason"] == "a"


def test_a2_2_the_block_is_json_for_any_outcome_name(tmp_path: Path) -> None:
    """What the block shows can be copied: each example line is read as its outcome."""
    scene = Scene(tmp_path, said("apple"))
    scene.play(machine({"look": OUTCOMES}))
    lines = scene.ledger()[0].prompt.splitlines()[-4:]
    assert [json.loads(line)["outcome"] for line in lines] == ["apple", "mango-1", "zebra", "other"]
