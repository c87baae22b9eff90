"""A §9, §16.3, §19: what a machine run tells on stdout, on stderr and in its log."""

from __future__ import annotations

import re
from pathlib import Path

from tests.machines.fakes import PAIR, ROUND, Scene, machine, other, said

STEPS = {
    "implement": {"complete": "commit"},
    "commit": {"model": "haiku", "committed": "!committed"},
}

CALLED = """\
name: inner
description: What is called
version: 1.0.0
steps:
  - {id: look, agent: helper, prompt: Look.}
  - {id: test, type: bash, command: exit 3}
"""
CALLING = """\
id: caller
label: Caller
description: Calls
initialStep: go
steps:
  go:
    call: in.yaml
    onOutcome:
      completed: {action: exit, reason: fine}
      failed: {action: exit, reason: bad, status: failed}
"""


def orchestration(stderr: str) -> list[str]:
    """The verbose lines, with the lengths of prompts left out."""
    lines = [line for line in stderr.splitlines() if line.startswith("[orchestration]")]
    return [re.sub(r"\(\d+ chars\)", "(N chars)", line) for line in lines]


def test_a9_stdout_has_the_answers_and_the_reason(tmp_path: Path) -> None:
    lines = (said("broken", "It is\nbroken."), said("complete", "Mended."), other("I give up"))
    scene = Scene(tmp_path, *lines)
    played = scene.play(ROUND)
    assert played.result.stdout == (
        'It is\nbroken.\n\n{"outcome": "broken"}\n'
        'Mended.\n\n{"outcome": "complete"}\n'
        '{"outcome": "other", "otherDescription": "I give up"}\n'
        "Exit: user-provided-other\n"
    )
    # Normal mode says nothing of the machine's inside.
    assert orchestration(played.result.stderr) == []


def test_a9_the_whole_answer_is_printed(tmp_path: Path) -> None:
    """Neither a long one nor one without an outcome is kept from the user."""
    line = "A line of the answer: ä漢.\n"
    scene = Scene(
        tmp_path,
        {"text": line, "times": 20_000, "end": '{"outcome": "done"}'},
        {"text": "I forgot the block."},
        said("done"),
    )
    played = scene.play(PAIR)
    first, _, rest = played.result.stdout.partition('{"outcome": "done"}\n')
    assert first == line * 20_000
    assert rest.startswith("I forgot the block.\n")
    assert played.step("first")["response_length"] == len(first) + len('{"outcome": "done"}')
    assert (played.root / "logs/first.answer.txt").read_text("utf-8").startswith(first)


def test_a9_steps_of_what_is_called_are_named_by_their_paths(tmp_path: Path) -> None:
    """As `logs` takes them; the same name may be another step's, too."""
    scene = Scene(tmp_path, said("done", "seen"))
    scene.write(".orchestrate/agents/helper.md", "---\nname: helper\n---\nHelp.\n")
    scene.write("in.yaml", CALLED)
    told = scene.play(CALLING, exit_code=1).result.stderr.splitlines()
    assert "-- go/look: answered" in told
    assert "[orchestration] Step go/test failed: Command failed with exit code 3" in told


def test_a9_answers_are_printed_as_they_come(tmp_path: Path) -> None:
    """Whoever reads along through a pipe does not wait for the end of the run."""
    scene = Scene(tmp_path, said("done", "the first answer"), said("done", wait_for="go"))
    with scene.started(PAIR) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "the first answer\n"
        assert len(scene.ledger()) <= 2
        scene.let_go()
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_a9_a_reader_that_goes_away_does_not_end_the_work(tmp_path: Path) -> None:
    """`orchestrate run ... | head -1`: the agent's work is paid for and goes on."""
    scene = Scene(tmp_path, said("done", wait_for="go"), said("done"))
    with scene.started(PAIR) as process:
        scene.await_call(1)
        assert process.stdout is not None
        process.stdout.close()
        scene.let_go()
        process.wait(timeout=60)
    assert len(scene.ledger()) == 2
    assert scene.happened("run-ended")[-1]["reason"] == "all-done"


def test_a9_verbose_tells_the_course(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("complete"), {"text": "hm"}, said("committed"))
    played = scene.play(machine(STEPS, "model: opus"), "--verbose")
    assert orchestration(played.result.stderr) == [
        "[orchestration] Starting recipe: trial",
        "[orchestration] Step: implement (visit 1/3, total 1/100)",
        "[orchestration] Sending prompt (N chars) to claude-code [opus]",
        "[orchestration] Outcome extracted: complete",
        "[orchestration] Transition: implement → commit",
        "[orchestration] Step: commit (visit 1/3, total 2/100)",
        "[orchestration] Sending prompt (N chars) to claude-code [haiku]",
        "[orchestration] Outcome not readable, sending a reminder: No JSON block found in response",
        "[orchestration] Sending prompt (N chars) to claude-code [haiku]",
        "[orchestration] Outcome extracted: committed",
        "[orchestration] Exit: committed",
    ]
    lengths = re.findall(r"\((\d+) chars\)", played.result.stderr)
    assert [int(length) for length in lengths] == [len(call.prompt) for call in scene.ledger()]


def test_a9_verbose_tells_visits_limits_and_restarts(tmp_path: Path) -> None:
    steps = {"task": {"again": "task", "next": "@trial", "none": "!no-tasks"}}
    scene = Scene(tmp_path, said("again"), said("next"), said("none"))
    played = scene.play(machine(steps), "--verbose", "--max-visits", "7", "--max-steps", "9")
    assert orchestration(played.result.stderr) == [
        "[orchestration] Starting recipe: trial",
        "[orchestration] Step: task (visit 1/7, total 1/9)",
        "[orchestration] Sending prompt (N chars) to claude-code",
        "[orchestration] Outcome extracted: again",
        "[orchestration] Transition: task → task",
        "[orchestration] Step: task (visit 2/7, total 2/9)",
        "[orchestration] Sending prompt (N chars) to claude-code",
        "[orchestration] Outcome extracted: next",
        "[orchestration] Transition: task → trial (new session)",
        "[orchestration] Restart 1: a new session",
        "[orchestration] Starting recipe: trial",
        "[orchestration] Step: task (visit 1/7, total 1/9)",
        "[orchestration] Sending prompt (N chars) to claude-code",
        "[orchestration] Outcome extracted: none",
        "[orchestration] Exit: no-tasks",
    ]


def test_a9_control_characters_of_an_agent_reach_no_terminal(tmp_path: Path) -> None:
    """What an agent says there has lost its power over the terminal."""
    evil = "\x1b]0;owned\x07\x1b[2J\u202e"
    why = '{"outcome": "other", "otherDescription": "\\u001b[2J"}'
    scene = Scene(tmp_path, {"text": f"{evil}\n{why}"})
    scene.write("w.yaml", machine({"look": {"done": "!done"}}))
    with scene.at_terminal("run", "w.yaml", "--verbose") as terminal:
        shown = terminal.finish()
    assert "user-provided-other" in shown
    assert "owned" in shown
    for character in ("\x07", "\u202e", "\x1b[2J", "\x1b]0"):
        assert character not in shown


# The structured log.


def records(scene: Scene) -> list[tuple[str, dict[str, str]]]:
    """The log's lines as words and fields."""
    path = scene.runs_folder / "latest" / "logs" / "orchestrator.log"
    found = []
    for line in path.read_text("utf-8").splitlines():
        words = re.sub(r" \w+=('[^']*'|\S+)", "", line).split(maxsplit=2)[2].strip()
        fields = re.findall(r" (\w+)=('[^']*'|\S+)", line)
        known = {name: value.strip("'") for name, value in fields if value != "-"}
        found.append((words, known))
    return found


def test_a16_3_the_log_has_the_events_of_a_run(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("complete"), said("committed"))
    scene.play(machine(STEPS))
    session = scene.ledger()[0].session
    ours = ("[session:", "[run:asks]")
    words = [words for words, _ in records(scene) if not words.startswith(ours)]
    assert words == [
        f"[recipe:started] trial (session: {session})",
        "[step:started] implement (visit 1/3, total 1/100)",
        "[step:outcome] complete",
        "[step:transition] implement → commit",
        "[step:started] commit (visit 1/3, total 2/100) [model: haiku]",
        "[step:outcome] committed",
        "[recipe:exited] committed",
    ]


def test_a19_1_the_log_has_the_fields_of_a_step(tmp_path: Path) -> None:
    lines = (said("broken", cost=0.25), said("complete"), {"text": "hm"}, said("fine"))
    scene = Scene(tmp_path, *lines)
    scene.play(ROUND, "--model", "opus")
    session = scene.ledger()[0].session
    found = records(scene)
    first = next(fields for words, fields in found if words == "[step:outcome] broken")
    assert int(first.pop("durationMs")) > 0
    assert first == {
        "sessionId": session,
        "recipeId": "trial",
        "step": "review",
        "stepCount": "1",
        "visitCount": "1",
        "model": "opus",
        "outcome": "broken",
        "promptLength": str(len(scene.ledger()[0].prompt)),
        "responseLength": str(len('I have looked at it.\n\n{"outcome": "broken"}')),
        "costUsd": "0.25",
    }
    last = next(fields for words, fields in found if words == "[step:outcome] fine")
    assert (last["visitCount"], last["stepCount"]) == ("2", "3")
    assert "costUsd" not in last, "what was not reported is unknown"
    retry = next(fields for words, fields in found if words == "[step:reminded]")
    assert retry["error"] == "No JSON block found in response"
    assert {"sessionId", "recipeId", "step", "stepCount", "visitCount", "model"} <= retry.keys()


def test_a19_1_the_log_has_the_error_of_a_failed_step(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"exit": 1, "stderr": "Error: cannot find the moon"})
    scene.play(PAIR, exit_code=4)
    words, fields = next(record for record in records(scene) if "error" in record[1])
    assert words == "[step:failed]"
    assert "cannot find the moon" in fields["error"]
    assert fields["sessionId"] == scene.ledger()[0].session, "the session that failed, not the next"
    assert (fields["step"], fields["visitCount"]) == ("first", "1")


def test_a19_1_at_a_terminal_the_log_leaves_out_what_is_unknown_or_said(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), {"exit": 1, "stderr": "Error: no moon"})
    scene.play(PAIR, exit_code=4)
    with scene.at_terminal("logs") as terminal:
        shown = terminal.finish()
    assert "=-" not in shown
    assert "recipeId" not in shown
    assert re.search(r"INFO  \[step:started\] first \(visit 1/3, total 1/100\)", shown)
    assert re.search(r"\[step:failed\] step=\w+ error='.*no moon", shown)
    # What a program reads has all fields.
    assert "recipeId=trial" in scene.run("logs").assert_success().stdout


def test_a19_the_log_is_private_and_grows_over_a_resume(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"exit": 1}, said("done"), said("done"))
    scene.play(PAIR, exit_code=4)
    before = len(records(scene))
    scene.run("resume", "latest").assert_success()
    assert len(records(scene)) > before
    log = scene.runs_folder / "latest" / "logs" / "orchestrator.log"
    assert log.stat().st_mode & 0o077 == 0


def test_a9_json_is_one_document(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done", cost=0.1), said("done", cost=0.2))
    played = scene.play(PAIR, "--json", "--verbose")
    answer = played.result.json()
    assert (answer["status"], answer["reason"], answer["exit_code"]) == ("completed", "all-done", 0)
    assert answer["costs"]["cost_usd"] == 0.3


def test_a9_progress_is_on_stderr_only(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *[said("done")] * 4)
    plain = scene.play(PAIR).result.stdout
    assert scene.play(PAIR, "--verbose").result.stdout == plain
