"""The pages as the server writes them, and sessions in the HTTP interface."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from orchestrate.serve.pages import escape
from orchestrate.serve.static_files import static_files
from orchestrate.testing import Project
from tests.serve.recipes import with_recipes
from tests.serve.test_api import V1, get, wait_for

HTML = {"accept": "text/html"}


@pytest.fixture
def work(project: Project) -> Project:
    return with_recipes(project)


def test_pages_are_readable_without_scripts(work: Project, client: TestClient) -> None:
    work.run("run", "gate").assert_exit(6)
    work.run("run", "hello", "-i", "who=<script>").assert_success()
    runs = client.get("/runs", headers=HTML)
    assert runs.status_code == 200
    assert "waits for you" in runs.text
    assert "aria-current=page>Runs</a>" in runs.text
    inbox = client.get("/inbox", headers=HTML).text
    assert "Ship &lt;b&gt;it&lt;/b&gt;?" in inbox
    waiting = get(client, "/runs", status="paused")["runs"][0]["run_id"]
    asks = client.get(f"/runs/{waiting}", headers=HTML).text
    assert "Ship &lt;b&gt;it&lt;/b&gt;?" in asks
    assert "<h2>Steps" not in asks
    run = client.get("/runs/latest", headers=HTML).text
    assert '<span class="state completed">completed</span> ' in run
    assert "completed</strong> completed" not in run
    assert "Greet" in run
    assert "step-finished" in run
    assert "<script>" not in run
    assert escape("\u202egnp.exe <b>") == "&lt;U+202E&gt;gnp.exe &lt;b&gt;"
    for path, says in (("/runs/20250115T143022Z-a3f8c2", "there is no run"), ("/x", "Not Found")):
        told = client.get(path, headers=HTML)
        assert told.status_code == 404
        assert told.headers["content-type"].startswith("text/html")
        assert says in told.text
        assert client.get(path).headers["content-type"] == "application/problem+json"
    for path in ("/recipes", "/sessions", "/sessions/x", "/more", "/runs/latest/log"):
        assert client.get(path, headers=HTML).status_code == 200
    assert client.get("/").headers["location"] == "/runs"
    for page in (runs.text, inbox, run):
        assert " style=" not in page
        assert "<style" not in page


def test_the_files_of_the_page_are_small_and_cached(stranger: TestClient) -> None:
    assert sum(len(file.packed) for file in static_files().values()) <= 60 * 1024
    for name in static_files():
        answer = stranger.get(f"/static/{name}")
        assert answer.status_code == 200
        again = stranger.get(f"/static/{name}", headers={"if-none-match": answer.headers["etag"]})
        assert again.status_code == 304
    # Nothing is loaded from anywhere else.
    for name, file in static_files().items():
        if name.endswith((".js", ".css")):
            text = file.content.decode().replace("http://www.w3.org/2000/svg", "")
            assert "://" not in text.replace('"wss" : "ws"}://${location.host}', ""), name


def test_sessions(work: Project, client: TestClient) -> None:
    """A chat after a recipe, in the recipe's session; a transcript of the recipe's step."""
    work.run("run", "look", "--backend", "rehearsal").assert_success()
    [session] = get(client, "/sessions")["sessions"]
    address = f"/sessions/{session['session_id']}"
    shown = get(client, address)
    assert [one["role"] for one in shown["messages"]] == ["user", "assistant"] * 2
    assert shown["active_run"] is None
    answer = client.post(f"{V1}{address}/prompt", json={"text": "And now?"})
    assert answer.status_code == 200, answer.text
    wait_for(client, answer.json()["run_id"], "completed")
    assert get(client, address)["messages"][4]["text"] == "And now?"
    assert get(client, "/runs/latest")["row"]["recipe"].endswith("look.yaml")
    assert get(client, "/runs/latest/transcript", step="look")["passages"] == []
    assert client.get(f"{V1}/sessions/nobody").status_code == 404
    new = client.post(f"{V1}/sessions", json={"text": "Hi", "backend": "rehearsal"})
    assert new.status_code == 201, new.text
    wait_for(client, new.json()["run_id"], "completed")
    bad = client.post(f"{V1}/sessions", json={"text": "Hi", "backend": "no-such"})
    assert bad.status_code == 409


def test_a_session_in_which_a_run_is_parked_takes_no_message(
    work: Project, client: TestClient
) -> None:
    work.run("run", "gate").assert_exit(6)
    run = get(client, "/runs/latest")["row"]["run_id"]
    assert get(client, f"/sessions/{run}")["active_run"] == run
    assert client.post(f"{V1}/sessions/{run}/prompt", json={"text": "x"}).status_code == 409
