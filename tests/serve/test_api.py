"""The HTTP interface: what it answers about runs, and what it does with them (serve.md §5)."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from orchestrate.serve.api import OPERATIONS
from orchestrate.serve.app import make_app
from orchestrate.serve.console import Console
from orchestrate.serve.log_pages import page_of, search
from orchestrate.testing import Project
from tests.serve.conftest import MakeConsole, client_of
from tests.serve.recipes import with_recipes

V1 = "/api/v1"


@pytest.fixture
def work(project: Project) -> Project:
    return with_recipes(project)


def get(client: TestClient, path: str, **given: Any) -> Any:
    answer = client.get(V1 + path, params=given)
    assert answer.status_code == 200, answer.text
    return answer.json()


def status_of(client: TestClient, path: str, **given: Any) -> int:
    return client.get(V1 + path, params=given).status_code


def wait_for(client: TestClient, run: str, *states: str, seconds: float = 30) -> Any:
    give_up = time.monotonic() + seconds
    while True:
        row = get(client, f"/runs/{run}")["row"]
        if row["state"] in states:
            return row
        assert time.monotonic() < give_up, row
        time.sleep(0.05)


def test_a_run_that_has_ended(work: Project, client: TestClient) -> None:
    work.run("run", "hello", "-i", "who=you").assert_success()
    [row] = get(client, "/runs")["runs"]
    assert (row["state"], row["recipe"], row["dialect"]) == (
        "completed",
        "workflows/hello.yaml",
        "workflow",
    )
    run = row["run_id"]
    shown = get(client, f"/runs/{run}")
    assert list(shown["status"]["steps"]) == ["Greet", "Count"]
    assert shown["commands"]["report"].startswith(f"orchestrate report {run} --working-dir ")
    assert get(client, "/runs/latest")["row"]["run_id"] == run
    events = get(client, f"/runs/{run}/events")
    assert events["events"][0]["event"] == "run-started"
    assert shown["last_seq"] == events["events"][-1]["seq"]
    half = get(client, f"/runs/{run}/events", after=2, limit=1)
    assert [one["seq"] for one in half["events"]] == [3]
    assert half["next"] == 3
    steps = get(client, f"/runs/{run}/steps")["steps"]
    assert [one["step"] for one in steps] == ["Greet", "Count"]
    assert steps[0]["bars"]
    log = get(client, f"/runs/{run}/log", step="Greet")
    assert log["lines"] == ["hello you", "\x1b[31mred\x1b[0m <b>bold</b>"]
    assert log["total"] == 2
    last = get(client, f"/runs/{run}/log", step="Count", limit=3)
    assert (last["first"], last["lines"], last["total"]) == (28, ["28", "29", "30"], 30)
    middle = get(client, f"/runs/{run}/log", step="Count", first=5, limit=2)
    assert middle["lines"] == ["5", "6"]
    found = get(client, f"/runs/{run}/log/search", step="Count", q="2", limit=2)
    assert found["count"] == 12
    assert [hit["line"] for hit in found["hits"]] == [2, 12]
    raw = client.get(f"{V1}/runs/{run}/log/raw", params={"step": "Count"})
    assert raw.text.splitlines()[0] == "1"
    assert raw.headers["content-disposition"].startswith("attachment")
    assert "step-finished" in "".join(get(client, f"/runs/{run}/log")["lines"])
    assert get(client, f"/runs/{run}/changes")["how"]
    assert get(client, f"/runs/{run}/report")["run_id"] == run
    assert (
        f"{run}.md"
        in client.get(f"{V1}/runs/{run}/report?format=md").headers["content-disposition"]
    )
    drawing = client.get(f"{V1}/runs/{run}/graph")
    assert drawing.headers["content-type"] == "image/svg+xml"
    assert "<style" not in drawing.text
    assert "Greet" in drawing.text
    documents = get(client, f"/runs/{run}/definition")["documents"]
    assert next(iter(documents.values()))["name"] == "hello"


def test_the_times_of_a_loops_steps_are_those_of_all_items(
    work: Project, client: TestClient
) -> None:
    inner = "{items: %s, steps: [{name: One, command: ['true']}]}" % [*range(120)]
    work.write(
        "workflows/loop.yaml",
        f'version: "1.4"\nname: loop\nsteps: [{{name: Loop, for_each: {inner}}}]\n',
    )
    work.run("run", "loop").assert_success()
    loop, one = get(client, "/runs/latest/steps")["steps"]
    assert len(one["bars"]) <= 101
    began, ended = loop["bars"][0]["start"], loop["bars"][-1]["end"]
    assert one["bars"][0]["start"] - began < (ended - began) / 20
    assert one["bars"][-1]["end"] <= ended


def test_what_is_not_there(work: Project, client: TestClient) -> None:
    missing = client.get(f"{V1}/runs/20250115T143022Z-a3f8c2")
    assert missing.status_code == 404
    assert missing.json()["exit_code"] == 2
    assert status_of(client, "/runs/latest") == 404
    assert status_of(client, "/runs/..%2f..%2fetc") == 404
    work.run("run", "hello").assert_success()
    assert status_of(client, "/runs/latest/log", step="Nothing") == 404
    assert status_of(client, "/runs/latest/log", limit=0) == 400
    assert status_of(client, "/runs/latest/log", stream="x") == 400
    assert status_of(client, "/runs", what=1) == 400
    assert status_of(client, "/recipe", id="../../etc/passwd") == 404
    assert status_of(client, "/recipe", id=str(work.folder / "workflows/hello.yaml")) == 404
    assert status_of(client, "/recipes", workspace="/etc") == 403


def test_runs_are_paged_by_a_cursor_and_filtered(work: Project, client: TestClient) -> None:
    latest = work.folder / ".orchestrate/runs/latest"
    started = []
    for _ in range(3):
        work.run("run", "hello").assert_success()
        started.append(latest.readlink().name)
    work.run("run", "gate").assert_exit(6)
    started.append(latest.readlink().name)
    # Several were started in one second, which is all that an id tells.
    first = get(client, "/runs", limit=2)
    second = get(client, "/runs", limit=2, cursor=first["next"])
    assert [row["run_id"] for row in first["runs"] + second["runs"]] == started[::-1]
    assert second["next"] is None
    assert len(get(client, "/runs", status="completed")["runs"]) == 3
    [waiting] = get(client, "/runs", status="paused")["runs"]
    assert waiting["state"] == "waits for you"
    assert waiting["step"] == "ask"
    assert len(get(client, "/runs", recipe="HELLO")["runs"]) == 3
    assert get(client, "/runs", text=waiting["run_id"][-6:])["runs"] == [waiting]
    assert get(client, "/runs", state="waits for you")["runs"] == [waiting]
    # Pages are filled with runs in that state: the newest run is in another.
    [newest] = get(client, "/runs", state="completed", limit=1)["runs"]
    assert newest["run_id"] == started[2]
    assert get(client, "/runs", state="nobody works on it")["runs"] == []
    # A page whose last run has been removed since goes on in that second at the latest.
    shutil.rmtree(work.folder / ".orchestrate/runs" / first["next"])
    rest = get(client, "/runs", cursor=first["next"])["runs"]
    assert [row["run_id"] for row in second["runs"]] == [row["run_id"] for row in rest][-2:]


def test_what_a_run_says_of_its_silence_is_no_activity(work: Project, client: TestClient) -> None:
    """A run in the background notes each minute how long its program has been silent."""
    work.run("run", "hello").assert_success()
    run = work.folder / ".orchestrate/runs/latest"
    active = get(client, "/runs/latest")["row"]["last_activity"]
    (run / "logs" / "detached.log").write_text("[1/2] Greet: at work for 9m00s; silent for 8m59s")
    later = time.time() + 600
    os.utime(run / "logs" / "detached.log", (later, later))
    assert get(client, "/runs/latest")["row"]["last_activity"] == active
    os.utime(run / "logs" / "orchestrator.log", (later, later))
    assert get(client, "/runs/latest")["row"]["last_activity"] > active


def test_workspaces_that_are_gone_are_named(work: Project, make: MakeConsole) -> None:
    client = client_of(make(missing=("/gone/before",)))
    assert get(client, "/runs")["gone"] == ["/gone/before"]
    work.folder.rename(work.folder.with_name("moved"))
    told = get(client, "/runs")
    assert told["gone"] == ["/gone/before", str(work.folder)]
    assert told["runs"] == []


def test_recipes(work: Project, client: TestClient) -> None:
    found = {one["id"]: one for one in get(client, "/recipes")["recipes"]}
    assert found["gate"]["title"] == "Ask first"
    assert found["rebase"]["origin"] == "catalogue"
    shown = get(client, "/recipe", id="hello")
    assert shown["inputs"][0]["name"] == "who"
    assert shown["inputs"][0]["default"] == "world"
    assert get(client, "/recipe/plan", id="hello")
    assert "Greet" in client.get(f"{V1}/recipe/graph?id=hello").text
    assert get(client, "/recipe/validate", id="hello")["errors"] == 0
    work.write(
        "workflows/bad.yaml", 'version: "1.4"\nname: bad\nsteps:\n  - {name: A, comand: [x]}\n'
    )
    assert get(client, "/recipe/validate", id="bad")["errors"] == 1
    broken = client.get(f"{V1}/recipe?id=bad")
    assert broken.status_code == 422
    assert broken.json()["errors"]["diagnostics"][0]["code"]
    dry = client.post(f"{V1}/recipe/dry-run", json={"recipe": "gate"}).json()
    assert "Ship" in dry["text"]
    assert dry["workspace"] == str(work.folder)
    assert dry["estimate_lines"] == ["estimate: no agent is asked"]
    asked = {"recipe": "look", "backend": "claude-code"}
    dry = client.post(f"{V1}/recipe/dry-run", json=asked).json()
    # Two steps are visited once, and reminded once at most.
    assert dry["estimate"]["worst"]["calls"] == 4
    assert "4 calls" in dry["estimate_lines"][0]
    assert get(client, "/runs")["runs"] == []
    assert get(client, "/doctor")["findings"]


def test_a_run_is_started_once_for_a_key(work: Project, client: TestClient) -> None:
    body = {"recipe": "hello", "inputs": {"who": "-x=1"}}
    key = {"idempotency-key": "k1"}
    answer = client.post(f"{V1}/runs", json=body, headers=key)
    assert answer.status_code == 201, answer.text
    run = answer.json()["run_id"]
    wait_for(client, run, "completed")
    assert get(client, f"/runs/{run}/log", step="Greet")["lines"][0] == "hello -x=1"
    again = client.post(f"{V1}/runs", json=body, headers=key).json()
    assert (again["run_id"], again["already"]) == (run, True)
    other = client.post(f"{V1}/runs", json={"recipe": "gate"}, headers=key)
    assert other.status_code == 409
    assert len(get(client, "/runs")["runs"]) == 1
    # What could not be started leaves the key free.
    wrong = client.post(f"{V1}/runs", json={"recipe": "none"}, headers={"idempotency-key": "k2"})
    assert wrong.status_code == 404
    unfit = {"recipe": "hello", "inputs": {"nobody": "1"}, "session": "s"}
    refused = client.post(f"{V1}/runs", json=unfit, headers={"idempotency-key": "k2"})
    assert refused.status_code == 400
    assert refused.json()["exit_code"] == 2
    assert "--session" in refused.json()["detail"]


def question_of(client: TestClient) -> Any:
    [question] = get(client, "/inbox")["questions"]
    return question


def answer_to(client: TestClient, question: Any, value: str, **more: Any) -> Any:
    body = {"question": question["id"], "digest": question["digest"], "value": value, **more}
    return client.post(f"{V1}/runs/{question['run_id']}/answer", json=body)


def test_an_answer_is_for_the_question_that_was_shown(work: Project, client: TestClient) -> None:
    work.run("run", "gate").assert_exit(6)
    question = question_of(client)
    assert question["text"] == "Ship <b>it</b>?"
    assert [choice["value"] for choice in question["choices"]] == ["approve", "deny"]
    stale = answer_to(client, {**question, "digest": "x"}, "approve")
    assert stale.status_code == 409
    assert answer_to(client, {**question, "id": "x"}, "approve").status_code == 404
    assert answer_to(client, question, "maybe").status_code == 400
    first = answer_to(client, question, "approve", message="go", resume=False)
    assert first.status_code == 200
    assert (first.json()["already"], first.json()["resumed"]) == (False, False)
    again = answer_to(client, question, "approve", resume=False)
    assert (again.status_code, again.json()["already"]) == (200, True)
    other = answer_to(client, question, "deny")
    assert other.status_code == 409
    assert other.json()["winner"]["decision"] == "approved"
    assert get(client, "/inbox")["questions"] == []
    assert get(client, f"/runs/{question['run_id']}")["row"]["state"] == "nobody works on it"
    resumed = client.post(f"{V1}/runs/{question['run_id']}/resume", json={})
    assert resumed.status_code == 200, resumed.text
    assert wait_for(client, question["run_id"], "completed")["reason"] == "shipped"


def test_approvals_of_machines_are_listed_too(work: Project) -> None:
    work.run("run", "gate").assert_exit(6)
    [waiting] = work.run("approvals", "--json").assert_success().json()["approvals"]
    assert waiting["stage"] == "ask"


def test_an_answer_goes_on_with_the_run(work: Project, client: TestClient) -> None:
    work.run("run", "gate").assert_exit(6)
    question = question_of(client)
    assert answer_to(client, question, "approve").json()["resumed"] is True
    wait_for(client, question["run_id"], "completed")


def test_two_tabs_race_for_one_answer(work: Project, console: Console) -> None:
    work.run("run", "gate").assert_exit(6)
    question = question_of(client_of(console))
    answers: list[tuple[int, Any]] = []
    barrier = threading.Barrier(4)

    def race(value: str) -> None:
        own = client_of(console)
        barrier.wait()
        answer = answer_to(own, question, value, resume=False)
        answers.append((answer.status_code, answer.json()))

    values = ["approve", "deny", "approve", "deny"]
    threads = [threading.Thread(target=race, args=(value,)) for value in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [body for status, body in answers if status == 200]
    assert sorted(status for status, _ in answers) == [200, 200, 409, 409]
    assert sorted(body["already"] for body in won) == [False, True]
    assert len({body["decision"] for body in won}) == 1
    decided = [e for e in get(client_of(console), f"/runs/{question['run_id']}/events")["events"]
               if e["event"] == "gate-decided"]  # fmt: skip
    assert len(decided) == 1


def test_a_run_is_stopped_resumed_and_cancelled(work: Project, client: TestClient) -> None:
    answer = client.post(f"{V1}/runs", json={"recipe": "nap"})
    run = answer.json()["run_id"]
    row = wait_for(client, run, "working")
    assert row["step"] == "Nap"
    stopped = client.post(f"{V1}/runs/{run}/stop", json={})
    assert (stopped.status_code, stopped.json()["status"]) == (200, "paused")
    assert get(client, f"/runs/{run}")["row"]["state"] == "nobody works on it"
    assert client.post(f"{V1}/runs/{run}/resume", json={}).status_code == 200
    wait_for(client, run, "working")
    assert client.post(f"{V1}/runs/{run}/cancel", json={}).json()["status"] == "cancelled"
    assert get(client, f"/runs/{run}")["row"]["state"] == "cancelled"


def test_a_damaged_run_is_shown_and_says_why(work: Project, client: TestClient) -> None:
    work.run("run", "hello").assert_success()
    run = get(client, "/runs")["runs"][0]["run_id"]
    root = work.folder / ".orchestrate/runs" / run
    (root / "events.jsonl").write_text("nonsense\n")
    assert get(client, f"/runs/{run}")["row"]["note"].startswith("shown from state.json alone")
    (root / "state.json").write_text("{}")
    shown = get(client, f"/runs/{run}")
    assert shown["row"]["state"] == "damaged"
    assert "can only be looked at" in shown["row"]["note"]
    assert "cannot be read" in shown["problem"]
    for path in ("", "/events", "/steps", "/log", "/changes", "/definition", "/graph"):
        assert client.get(f"{V1}/runs/{run}{path}").status_code in (200, 409), path


def test_a_run_on_another_machine_is_listed_and_says_how_to_ask(
    project: Project, client: TestClient
) -> None:
    """Of a run that has published nothing only its stub is here."""
    run = "20260102T030405Z-fleet1"
    stub = {"format": 1, "host": "builder", "pool": "ssh:builder", "file": "a.yaml", "seat": {}}
    project.write(f".orchestrate/runs/{run}/fleet.json", json.dumps(stub))
    [row] = get(client, "/runs")["runs"]
    assert (row["run_id"], row["state"], row["recipe"]) == (run, "unknown", "a.yaml")
    assert "another machine" in row["note"]
    shown = get(client, f"/runs/{run}")
    assert shown["problem"] is None
    assert shown["commands"]["status"].startswith(f"orchestrate status {run}")


def test_read_only_bars_every_change(work: Project, make: MakeConsole, tmp_path: Path) -> None:
    work.run("run", "gate").assert_exit(6)
    client = client_of(make(read_only=True))
    question = question_of(client)
    run = question["run_id"]
    assert answer_to(client, question, "approve").status_code == 403
    told = {"text": "x"}
    bodies: dict[str, Any] = {"start_run": {"recipe": "hello"}, "new_session": told}
    bodies["send_prompt"] = told
    asks = {"dry_run"}
    for operation in OPERATIONS:
        if operation.method == "POST" and operation.name not in {*asks, "answer_run"}:
            path = operation.path.replace("{run}", run).replace("{session}", run)
            answer = client.post(path, json=bodies.get(operation.name, {}))
            assert answer.status_code == 403, operation.name
            assert "--read-only" in answer.json()["detail"]
    assert question_of(client) == question
    assert not (tmp_path / "XDG_STATE_HOME/orchestrate/audit.jsonl").exists()


def test_changes_are_recorded(work: Project, client: TestClient, tmp_path: Path) -> None:
    work.run("run", "gate").assert_exit(6)
    question = question_of(client)
    answer_to(client, question, "deny")
    lines = (tmp_path / "XDG_STATE_HOME/orchestrate/audit.jsonl").read_text().splitlines()
    told = json.loads(lines[-1])
    assert (told["who"], told["what"], told["run"]) == ("key", "answer deny", question["run_id"])


def test_the_document_describes_the_routes(console: Console, client: TestClient) -> None:
    document = get(client, "/openapi.json")
    described = {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
    }
    app: Any = make_app(console)._app
    served = {
        (method, route.path)
        for route in app.routes
        if isinstance(route, Route) and route.path.startswith("/api/")
        for method in (route.methods or set()) - {"HEAD"}
    }
    # Signing in is told in words: it is what stands before the interface.
    served -= {("POST", f"{V1}/session"), ("DELETE", f"{V1}/session")}
    assert described == served


def test_pages_of_a_large_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    count = 60_000
    path.write_bytes(b"".join(b"line %d of a log\n" % number for number in range(1, count + 1)))
    for first in (1, 2, 777, 16_000, 59_999):
        page = page_of(path, "", first, 2)
        assert page.lines[0] == f"line {first} of a log"
    last = page_of(path, "", None, 3)
    assert (last.first, last.total) == (count - 2, count)
    with path.open("ab") as file:
        file.write(b"one more, without an end")
    grown = page_of(path, "", None, 2)
    assert grown.lines == [f"line {count} of a log", "one more, without an end"]
    assert grown.total == count + 1
    assert page_of(path, "", count + 5, 10).lines == []
    found = search(path, "", "LINE 100", 5)
    assert found["count"] == 111
    path.write_bytes(b"anew\n")
    assert page_of(path, "", None, 10).lines == ["anew"]
    path.write_bytes(b"x" * 300_000)
    [cut] = page_of(path, "", None, 10).lines
    assert len(cut) < 5000
    assert "296000 more bytes" in cut
    assert page_of(tmp_path / "none", "", None, 10).total == 0
