"""A chat while its turn is under way: in the HTTP interface, and on the page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from orchestrate.testing import Project
from tests.programs import put_program
from tests.serve.browser import Browser, chromium
from tests.serve.conftest import MakeConsole, serving
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
    wait_for(client, run, "completed")
    told = get(client, f"/sessions/{session}")
    assert told["active"] is None
    assert [one["text"] for one in told["messages"]] == ["Test {{it}}.", "All is well."]


def test_a_turn_that_waits_for_quota_says_until_when(work: Project, client: TestClient) -> None:
    work.write("no-quota", "")
    run = client.post(f"{V1}/sessions", json={"text": "Hello"}).json()["run_id"]
    wait_for(client, run, "waits for quota", seconds=60)
    found = get(client, f"/sessions/{run}")["active"]
    assert (found["asked"], found["state"]) == ("Hello", "waits for quota")
    assert found["waits"]["words"].startswith("waits for quota until ")
    assert client.post(f"{V1}/runs/{run}/cancel", json={}).status_code == 200


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
