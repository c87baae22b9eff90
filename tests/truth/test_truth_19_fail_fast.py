"""Truth 19: when an item of a parallel loop fails nothing new starts, and what runs is ended: also
a wait, and an agent that was just being made ready. A call's time limit ends a wait, too."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.fakes import Played, Stage

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
