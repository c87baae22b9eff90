"""Truth 19: when an item of a parallel loop fails nothing new starts, and what runs is ended: also
a wait, a question to a person, and an agent that was just being made ready. The time limit of a
call ends a wait, and that of a step a question."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.fakes import Played, Stage, read_state
from tests.recipes.fakes import Workshop, recipe
from tests.recipes.terminal import at_terminal

# One item fails as soon as the other one does what is to be ended.
ITEMS = """\
version: "1.4"
name: items
steps:
  - name: Each
    for_each:
      items: [bad, good]
      as: item
      parallel: true
      steps:
        - name: Fails
          when: {{equals: {{left: "${{item}}", right: bad}}}}
          command: [bash, -c, "{until}; exit 3"]
        - name: Goes
          {goes}
"""
WAITS = """\
version: "1.4"
name: waits
steps:
  - {name: Wait, wait_for: {glob: never.txt, timeout_sec: 900, poll_ms: 600000}}
"""
CALLS = """\
version: "1.4"
name: calls
steps:
  - {name: Call, call: waits.yaml, timeout_sec: 1}
"""
# Says its version as slowly as a real one does, and only then can be asked.
SLOW_VERSION = """
import pathlib
if argv == ["--version"]:
    pathlib.Path("is-asked").touch()
    events = pathlib.Path(".orchestrate/runs/latest/events.jsonl")
    while '"Fails"' not in events.read_text() or '"step-finished"' not in events.read_text():
        time.sleep(0.05)
    time.sleep(1)
    print("2.1.325 (Claude Code)")
    raise SystemExit
pathlib.Path("was-begun").touch()
time.sleep(600)
"""


def play_items(stage: Stage, until: str, goes: str) -> Played:
    return stage.play(ITEMS.format(until=until, goes=goes), exit_code=1)


def test_truth_19_a_wait_ends_when_another_item_has_failed(tmp_path: Path) -> None:
    """As soon as that is known: not when its own time is up, nor when it looks next."""
    stage = Stage(tmp_path)
    journal = ".orchestrate/runs/latest/events.jsonl"
    begun = f"until grep -q step-started.*Goes {journal}; do sleep .1; done"
    goes = "wait_for: {glob: never.txt, timeout_sec: 900, poll_ms: 600000}"
    played = play_items(stage, begun, goes)
    waited = played.loop("Each")[1]["Goes"]
    assert waited["last_attempt"] == "stopped"
    assert waited["error"]["message"] == "stopped: another item failed"


def test_truth_19_a_wait_ends_with_the_time_of_the_call_around_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"waits.yaml": WAITS})
    played = stage.play(CALLS, exit_code=1)
    assert "timed out after 1 s" in played.step("Call")["error"]["message"]


def test_truth_19_no_agent_begins_when_another_item_has_failed(tmp_path: Path) -> None:
    """Between an item's turn and its agent's start lie seconds: what it asks its program first."""
    stage = Stage(tmp_path)
    stage.program("claude", SLOW_VERSION)
    goes = "provider: claude\n          prompt: Do it."
    play_items(stage, "until [ -e is-asked ]; do sleep .1; done", goes)
    assert not (stage.folder / "was-begun").exists()


PEOPLE = recipe("""
    context: {items: [bad, good, best]}
    steps:
      - {id: each, type: recipe, recipe: "{{item}}.yaml", foreach: "{{items}}", parallel: true}
""")
PERSON = recipe('steps: [{id: ask, prompt: "What is it?"}]')
QUESTION = "Your answer, and then a line with only"


def test_truth_19_nobody_is_asked_any_more_when_another_item_has_failed(shop: Workshop) -> None:
    """Neither about the item that is talked about, nor about those that wait for their turn."""
    go = shop.top / "go"
    script = f"until [ -e {go} ]; do sleep .1; done; exit 3"
    shop.write("bad.yaml", recipe(f'steps: [{{id: s, type: bash, command: "{script}"}}]'))
    for name in ("good", "best"):
        shop.write(f"{name}.yaml", PERSON)
    shop.write("r.yaml", PEOPLE)
    words = ("run", "r.yaml", "--backend", "human", "--no-live")
    with at_terminal(shop.folder, shop.surroundings, *words) as terminal:
        terminal.read_until(QUESTION)
        shop.await_events("step-started", 3)
        go.touch()
        told = terminal.read_until("go on:")
        assert QUESTION not in told
        assert terminal.wait() == 1
    assert read_state(shop.latest)["status"] == "failed"


def test_truth_19_a_step_that_a_person_does_not_answer_in_time_has_failed(shop: Workshop) -> None:
    shop.write("r.yaml", recipe('steps: [{id: ask, prompt: "What is it?", timeout: 2}]'))
    words = ("run", "r.yaml", "--backend", "human", "--no-live")
    with at_terminal(shop.folder, shop.surroundings, *words) as terminal:
        terminal.read_until("timed out after 2 s: step 'ask' was not answered")
        assert terminal.wait() == 1
    assert read_state(shop.latest)["steps"]["ask"]["exit_code"] == 124
