"""A chat while its turn is under way: in the HTTP interface, and on the page."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from orchestrate.serve import turns
from orchestrate.serve.console import Console
from orchestrate.state.recorded import Recorded, read_events
from orchestrate.testing import Project
from tests.programs import put_program
from tests.serve.browser import Browser, chromium
from tests.serve.conftest import MakeConsole, serving
from tests.serve.recipes import with_recipes
from tests.serve.test_api import V1, get, wait_for
from tests.serve.test_page import show, signed_in


@pytest.fixture
def work(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    program = tmp_path / "claude"
    put_program(program, Path(__file__).with_name("claude.py"), version="2.1.325 (Claude Code)")
    monkeypatch.setenv("CLAUDE_CLI_PATH", str(program))
    return project


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def active(client: TestClient, run: str, wanted: str, seconds: float = 60) -> Any:
    """What goes on in the session of a run, once its last passage has these words."""
    give_up = time.monotonic() + seconds
    while True:
        found = get(client, f"/sessions/{run}")["active"]
        if found and any(wanted in passage["text"] for passage in found["passages"]):
            return found
        assert time.monotonic() < give_up, found
        time.sleep(0.05)


def test_a_turn_is_read_along_before_it_has_ended(work: Project, client: TestClient) -> None:
    run = client.post(f"{V1}/sessions", json={"text": "Test {{it}}."}).json()["run_id"]
    found = active(client, run, "make test")
    assert (found["run_id"], found["is_chat"], found["asked"]) == (run, True, "Test {{it}}.")
    assert found["doing"]["activity"] == "tool"
    # Its session has got an id by now; the run's own still leads there.
    session = get(client, f"/sessions/{run}")["session"]["session_id"]
    assert session != run
    assert get(client, f"/sessions/{session}")["active"]["run_id"] == run
    work.write("go", "")
    give_up = time.monotonic() + 60
    while (told := get(client, f"/sessions/{session}"))["active"]:
        assert time.monotonic() < give_up, told
        time.sleep(0.05)
    assert [one["text"] for one in told["messages"]] == ["Test {{it}}.", "All is well."]


def test_a_turn_that_waits_for_quota_says_until_when(work: Project, client: TestClient) -> None:
    work.write("no-quota", "")
    run = client.post(f"{V1}/sessions", json={"text": "Hello"}).json()["run_id"]
    wait_for(client, run, "waits for quota", seconds=60)
    told = get(client, f"/sessions/{run}")
    found = told["active"]
    # The turn has been asked once, and its end is told in words.
    assert (found["asked"], found["state"]) == ("", "waits for quota")
    asked, answered = (one["text"] for one in told["messages"])
    assert asked == "Hello"
    assert "usage limit reached" in answered
    assert "{" not in answered
    assert found["waits"]["words"].startswith("waits for quota until ")
    assert client.post(f"{V1}/runs/{run}/cancel", json={}).status_code == 200


def test_a_turn_that_fails_at_once_is_shown_with_its_reason(
    work: Project, client: TestClient
) -> None:
    work.write("broken", "")
    run = client.post(f"{V1}/sessions", json={"text": "Hello"}).json()["run_id"]
    assert wait_for(client, run, "failed", seconds=60)["recipe"] == "chat"
    asked, answered = get(client, f"/sessions/{run}")["messages"]
    assert (asked["role"], asked["text"]) == ("user", "Hello")
    assert "Cannot find module" in answered["text"]


def test_what_a_command_prints_is_said_by_no_agent(project: Project, client: TestClient) -> None:
    run = with_recipes(project).run("run", "nap", "-d").assert_success().stdout.strip()
    wait_for(client, run, "working")
    found = get(client, f"/sessions/{run}")["active"]
    assert (found["is_chat"], found["step"]) == (False, "Nap")
    assert (found["agent"], found["passages"]) == ("", [])
    project.run("cancel", run).assert_success()


def test_the_turns_of_a_run_are_read_once(
    project: Project, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = "{approved: {nextStep: more}, denied: {action: exit, reason: no}}"
    ends = "{complete: {action: exit, reason: ok}, other: {action: exit, reason: no}}"
    project.write(
        "workflows/twice.yaml",
        "id: twice\nlabel: Twice\ndescription: Asks twice.\ninitialStep: one\nsteps:\n"
        "  one:\n    prompt: One.\n    outcomes: [complete, other]\n    onOutcome:\n"
        "      complete: {nextStep: ask}\n      other: {action: exit, reason: no}\n"
        f"  ask:\n    approval: {{prompt: Go on?, timeout: 24h}}\n    onOutcome: {routes}\n"
        f"  more:\n    prompt: Two.\n    outcomes: [complete, other]\n    onOutcome: {ends}\n",
    )
    project.write("script.yaml", "ask: [waits]\n")
    rehearsal = ("--backend", "rehearsal", "--script", "script.yaml")
    project.run("run", "twice", *rehearsal).assert_exit(6)
    afters: list[int] = []

    def read(path: Path, after: int, having: Sequence[bytes]) -> Iterator[Recorded]:
        afters.append(after)
        return read_events(path, after, having)

    monkeypatch.setattr(turns, "read_events", read)
    [(_, run)] = console.all_runs()
    [one] = turns.turns_of(run)
    assert turns.turns_of(run) == (one,)
    project.run("approve", run.id, "--resume").assert_success()
    assert [turn.name for turn in turns.turns_of(run)] == ["one", "more"]
    assert len(afters) == 2
    assert afters[0] == 0 < afters[1]


@pytest.mark.browser
def test_the_page_shows_a_turn_under_way(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    turn = "document.querySelectorAll('.message .passage')"
    with serving(make) as console, signed_in(browser, console) as page:
        show(page, console, "/sessions")
        page.until("document.querySelector('.say textarea')", 60)
        page.run("document.querySelector('.say textarea').value = 'Is it <i>well</i>?'")
        page.click(".say button")
        page.until(f"location.pathname.endsWith('/chat') && {turn}.length === 2", 60)
        text = page.run("document.querySelector('.tab').innerText")
        assert "Is it <i>well</i>?" in text
        assert "I look <b>first</b>." in text
        assert "make test" in text
        page.until("document.querySelector('.tab').innerText.includes('a tool runs')", 60)
        work.write("go", "")
        page.until(f"document.querySelector('textarea[aria-label=Message]') && !{turn}.length", 60)
        said = page.run("[...document.querySelectorAll('.message pre')].map(e => e.textContent)")
        assert said == ["Is it <i>well</i>?", "All is well."]
        (work.folder / "go").unlink()
        work.write("no-quota", "")
        page.run("document.querySelector('textarea[aria-label=Message]').value = 'More'")
        page.click(".say button")
        page.until("document.querySelector('.tab').innerText.includes('waits for quota until')", 60)
        assert "More" in page.run("document.querySelector('.tab').innerText")
        assert page.run("document.querySelector('.say button').textContent") == "stop"
        page.click(".say button")
        page.until("document.querySelector('textarea[aria-label=Message]')", 60)


@pytest.mark.browser
def test_a_step_that_waits_for_quota_before_it_began_has_no_log_to_open(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    with_recipes(work).write("no-quota", "")
    run = work.spawn("run", "-d", "look").assert_success().stdout.strip()
    with serving(make) as console, signed_in(browser, console) as page:
        page.until("document.querySelector('.runs .waits-for-quota')", 60)
        # The account is known to be out of quota now: a second run does not ask at all.
        later = work.spawn("run", "-d", "look", "--allow-concurrent").assert_success()
        waiting = later.stdout.strip()
        page.until("document.querySelectorAll('.runs .waits-for-quota').length === 2", 60)
        show(page, console, f"/runs/{waiting}/log")
        page.until("document.querySelector('[aria-label=Step]')?.value === ''", 60)
        assert not page.run("document.querySelector('.log .bad')")
    for one in (run, waiting):
        work.spawn("cancel", one).assert_success()
