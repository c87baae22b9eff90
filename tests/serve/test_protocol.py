"""Every message of the seeds' protocol, by a real WebSocket client (serve.md §4)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from orchestrate import __version__
from orchestrate.serve import stream
from orchestrate.serve.console import Console
from orchestrate.serve.frames import fitting, pages
from orchestrate.serve.keys import key_file, new_key
from orchestrate.testing import Project
from orchestrate.workspace import open_workspace
from tests.machines.fakes import Scene, machine, said
from tests.serve.conftest import MakeConsole, serving
from tests.serve.recipes import with_recipes

Json = dict[str, Any]


class Client:
    """A client as A §16 and A3 imagine it."""

    def __init__(self, line: ClientConnection, console: Console) -> None:
        self.line = line
        self.console = console
        self.heard: list[Json] = []

    def send(self, kind: str, **fields: Any) -> None:
        self.line.send(json.dumps({"type": kind, **fields}))

    def next(self, seconds: float = 20) -> Json:
        message: Json = json.loads(self.line.recv(timeout=seconds))
        self.heard.append(message)
        return message

    def until(self, kind: str, seconds: float = 30, **fields: Any) -> Json:
        """The next message of a kind; what comes before it is kept in `heard`."""
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            message = self.next(max(0.1, give_up - time.monotonic()))
            wanted = fields.items() <= message.items()
            if message["type"] == kind and wanted:
                return message
        raise AssertionError(f"no {kind}: {self.heard}")

    def sign_in(self) -> Json:
        self.send("connect", api_key=self.console.keys.api_key())
        return self.until("recent_sessions")


@contextmanager
def dialled(console: Console, path: str = "/ws", *, known: bool = True) -> Iterator[Client]:
    with connect(f"ws://127.0.0.1:{console.port}{path}", proxy=None, max_size=2**24) as line:
        client = Client(line, console)
        assert client.next() == {
            "type": "hello", "message": "orchestrate", "version": "0.4.0", "auth_version": 1,
        }  # fmt: skip
        if known:
            client.sign_in()
        yield client


@pytest.fixture
def console(project: Project, make: MakeConsole) -> Iterator[Console]:
    with_recipes(project)
    with serving(make) as found:
        yield found


def test_connect_comes_first(console: Console) -> None:
    for path in ("/", "/ws"):
        with dialled(console, path, known=False) as client:
            client.send("ping")
            assert client.next() == {"type": "pong"}
            client.send("connect", api_key=console.keys.api_key(), protocol_version=1)
            assert client.next()["type"] == "connected"
            assert client.next() == {"type": "session_list", "sessions": [], "total_count": 0}
            assert client.next() == {"type": "recent_sessions", "sessions": [], "limit": 10}


@pytest.mark.parametrize(
    "sent", [{"type": "connect", "api_key": "x"}, {"type": "connect"}, {"type": "start_recipe"}]
)
def test_who_is_not_known_is_refused(console: Console, sent: Json) -> None:
    with dialled(console, known=False) as client:
        client.line.send(json.dumps(sent))
        assert client.next()["type"] == "auth_error"
        with pytest.raises(ConnectionClosed):
            client.next()


def test_a_new_key_ends_what_the_old_one_began(
    console: Console, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "BEAT_S", 0.1)
    with dialled(console) as one, dialled(console) as other, tab(console) as until:
        assert until("beat")
        new_key(key_file(os.environ))
        # One that only listens is told nothing more; one that wants to start something may not.
        other.send("start_recipe", recipe_id="hello")
        assert other.until("auth_error")
        project.run("run", "gate").assert_exit(6)
        assert one.until("auth_error")
        assert "recipe_started" not in kinds(one.heard)
        with pytest.raises(ConnectionClosed):
            until("never")
    assert [run.root for _, run in console.all_runs()] == [project.latest_run]


def test_frames_that_are_not_understood(console: Console) -> None:
    with dialled(console) as client:
        for bad in ("{", "[]", "1", "{}", '{"type": 7}', "[" * 5000, '{"type": "\\ud800"}'):
            client.line.send(bad)
            assert client.next()["type"] == "error"
        client.send("dance", session_id="s")
        told = client.next()
        assert told == {
            "type": "error",
            "message": "Unknown message type: dance",
            "session_id": "s",
        }
        client.send("start_recipe", recipe_id=7)
        assert "recipe_id" in client.next()["message"]
        client.send("subscribe", session_id="nobody's")
        assert client.next()["session_id"] == "nobody's"
        for kind in ("exit_recipe", "kill_session"):
            client.send(kind, session_id="nobody's")
            told = client.next()
            assert (told["type"], told["session_id"]) == ("error", "nobody's")
            client.send(kind)
            assert client.next()["message"] == "'session_id' is missing"
        client.send("ping")
        assert client.next() == {"type": "pong"}, "the connection stays"


def test_frames_that_close_the_connection(console: Console) -> None:
    for sent, code in ((b"binary", 1003), ("x" * 300_000, 1009)):
        with dialled(console) as client:
            client.line.send(sent)
            with pytest.raises(ConnectionClosed):
                client.until("never", 5)
            assert client.line.close_code == code
    with pytest.raises(InvalidStatus):
        connect(
            f"ws://127.0.0.1:{console.port}/ws",
            proxy=None,
            additional_headers={"Origin": "http://evil.example"},
        )


def test_recipes_are_listed_by_label(console: Console) -> None:
    with dialled(console) as client:
        client.send("get_available_recipes")
        recipes = client.until("available_recipes")["recipes"]
    labels = [one["label"].lower() for one in recipes]
    assert labels == sorted(labels)
    look = next(one for one in recipes if one["id"] == "look")
    assert look == {
        "id": "look", "label": "Look at it", "description": "Looks, then looks again.",
        "dialect": "machine",
    }  # fmt: skip


def kinds(messages: list[Json]) -> list[str]:
    return [one["type"] for one in messages]


def test_a_recipe_from_start_to_end(console: Console) -> None:
    """The order of the contract, for its starter and for another client; then the history."""
    with dialled(console) as client, dialled(console) as other:
        client.heard.clear()
        client.send("start_recipe", recipe_id="look", session_id=None, provider="rehearsal")
        client.until("turn_complete")
        told = client.heard
        run_id = told[0]["run_id"]
        other.heard.clear()
        other.until("turn_complete")
        assert other.heard == told
        assert told[0]["session_id"] == run_id
        changed = [one for one in told if "previous_session_id" in one]
        [session] = {one["session_id"] for one in changed}
        assert changed[0]["previous_session_id"] == run_id
        plain = [one for one in told if "previous_session_id" not in one]
        assert kinds(plain) == [
            "recipe_started", "recipe_step_started", "recipe_step_transition", "recipe_started",
            "recipe_step_started", "recipe_exited", "turn_complete",
        ]  # fmt: skip
        start, first, moved, again, second, ended, complete = plain
        assert start == {
            "type": "recipe_started", "recipe_id": "look", "recipe_label": "Look at it",
            "session_id": run_id, "current_step": "look", "step": "look", "step_count": 1,
            "run_id": run_id,
        }  # fmt: skip
        at = {"session_id": session}
        assert first == {"type": "recipe_step_started", "step": "look", "step_count": 1, **at}
        assert moved == {
            "type": "recipe_step_transition", "from_step": "look", "to_step": "again", **at,
        }  # fmt: skip
        assert (again["current_step"], again["step_count"]) == ("again", 2)
        assert second == {"type": "recipe_step_started", "step": "again", "step_count": 2, **at}
        assert ended == {"type": "recipe_exited", "reason": "no-issues", **at}
        assert complete == {"type": "turn_complete", **at}
        client.send("subscribe", session_id=session)
        said = client.until("session_history")
        assert [one["role"] for one in said["messages"]] == ["user", "assistant"] * 2
        assert said["messages"][0]["text"].startswith("Look.")
        assert [one["seq"] for one in said["messages"]] == [1, 2, 3, 4]
        assert set(said["messages"][0]) == {
            "uuid", "role", "text", "timestamp", "provider", "session_id", "seq",
        }  # fmt: skip
        about = {"first_seq": 1, "last_seq": 4, "next_seq": 5, "is_complete": True, "gap": None}
        assert about.items() <= said.items()
        client.send("subscribe", session_id=session, last_seq=3)
        assert [one["seq"] for one in client.until("session_history")["messages"]] == [4]
        client.send("unsubscribe", session_id=session)
        assert client.until("ack")
        client.send("refresh_sessions", recent_sessions_limit=1)
        listed = client.until("session_list")
        assert listed["sessions"][0]["session_id"] == session
        assert client.until("recent_sessions")["limit"] == 1


def test_ids_and_what_is_refused(console: Console, project: Project) -> None:
    project.write("workflows/two-words.yaml", (project.folder / "workflows/gate.yaml").read_text())
    with dialled(console) as client:
        client.send("start_recipe", recipe_id="nothing", session_id="s")
        told = client.until("recipe_error")
        assert told == {
            "type": "recipe_error", "session_id": "s", "error": "Recipe not found: nothing",
        }  # fmt: skip
        project.write(
            "workflows/bad.yaml", 'version: "1.4"\nname: bad\nnope: 1\nsteps: [{name: A}]\n'
        )
        client.send("start_recipe", recipe_id="bad")
        assert "workflows/bad.yaml:3: unknown field 'nope'" in client.until("recipe_error")["error"]
        client.send("refresh_sessions", recent_sessions_limit=0)
        assert client.until("recent_sessions")["sessions"] == []
        client.send("start_recipe", recipe_id="look", working_directory="/etc")
        assert "not in a workspace" in client.until("recipe_error")["error"]
        client.send("start_recipe", recipe_id="look", provider="no-such-agent")
        assert "no-such-agent" in client.until("recipe_error")["error"]
        client.send("start_recipe", recipe_id="two_words")
        assert client.until("recipe_started")["recipe_id"] == "gate"


def test_a_parked_run_is_active_and_can_be_left(console: Console, project: Project) -> None:
    project.run("run", "gate").assert_exit(6)
    with dialled(console) as client:
        started = client.until("recipe_started")  # sent to who connects
        session = started["session_id"]
        assert started["current_step"] == "ask"
        client.send("start_recipe", recipe_id="look", session_id=session)
        assert client.until("session_locked")["session_id"] == session
        client.send("prompt", text="hello", session_id=session, provider="rehearsal")
        assert client.until("session_locked")["session_id"] == session
        client.send("exit_recipe", session_id=session)
        exited = client.until("recipe_exited")
        assert (exited["session_id"], exited["reason"]) == (session, "user-requested")
        assert client.until("turn_complete")["session_id"] == session
        client.send("exit_recipe", session_id=session)
        assert client.until("error")["session_id"] == session


def test_a_run_of_the_command_line_is_told_and_stopped(console: Console, project: Project) -> None:
    with dialled(console) as client:
        run_id = project.run("run", "nap", "-d").assert_success().stdout.strip()
        assert client.until("recipe_started")["session_id"] == run_id
        assert client.until("recipe_step_started")["step"] == "Nap"
        client.send("exit_recipe", session_id=run_id)
        exited = client.until("recipe_exited", session_id=run_id)
        assert exited["reason"] == "user-requested"
        client.until("turn_complete", session_id=run_id)
        client.send("kill_session", session_id=run_id)
        assert client.until("error")
    assert "interrupted" in project.run("status", run_id).stdout


def test_a_run_whose_process_was_killed_is_not_active(console: Console, project: Project) -> None:
    with dialled(console) as client, project.background("run", "nap") as process:
        run_id = client.until("recipe_step_started", 60)["session_id"]
        process.kill()
        process.wait()
        exited = client.until("recipe_exited", 60, session_id=run_id)
        assert exited["reason"] == "interrupted"
        assert "is gone" in exited["error"]
        client.until("turn_complete", session_id=run_id)
        # Its session is free, and who comes now hears nothing of it.
        client.send("exit_recipe", session_id=run_id)
        assert client.until("error", session_id=run_id)
        with dialled(console) as late:
            late.send("ping")
            late.until("pong")
            assert "recipe_started" not in [one["type"] for one in late.heard]
        project.run("resume", run_id, "-d").assert_success()
        assert client.until("recipe_started", 60, session_id=run_id)["step"] == "Nap"
        client.send("kill_session", session_id=run_id)
        client.until("session_killed", 60, session_id=run_id)


def test_a_run_that_was_killed_before_a_client_came_is_not_told(
    console: Console, project: Project
) -> None:
    runs = project.folder / ".orchestrate" / "runs"
    with project.background("run", "nap") as process:
        give_up = time.monotonic() + 60
        while not any(b"step-started" in one.read_bytes() for one in runs.glob("*/events.jsonl")):
            assert time.monotonic() < give_up
            time.sleep(0.02)
        process.kill()
        process.wait()
    with dialled(console) as client:
        client.send("ping")
        client.until("pong")
        assert "recipe_started" not in [one["type"] for one in client.heard]
    project.run("cancel", "latest").assert_success()


def test_a_session_is_killed(console: Console, project: Project) -> None:
    with dialled(console) as client, dialled(console) as other:
        run_id = project.run("run", "nap", "-d").assert_success().stdout.strip()
        client.until("recipe_step_started", 60, session_id=run_id)
        client.send("kill_session", session_id=run_id)
        assert client.until("session_killed", 60) == {
            "type": "session_killed", "session_id": run_id,
        }  # fmt: skip
        ended = client.until("turn_complete", 60, session_id=run_id, aborted=True)
        assert ended["aborted"]
        exited = [one for one in client.heard if one["type"] == "recipe_exited"]
        exited += [other.until("recipe_exited", 60, session_id=run_id)]
        assert {one["reason"] for one in exited} == {"user-requested"}
        client.send("kill_session", session_id=run_id)
        assert client.until("error", 60)["session_id"] == run_id
    give_up = time.monotonic() + 60
    status = "running"
    while status == "running" and time.monotonic() < give_up:
        status = project.run("status", run_id, "--json").json()["status"]
    assert status == "paused", "it can be resumed"


AGAIN = machine({"look": {"again": "@again", "fine": "!looked"}}, name="again")


def test_retries_and_a_restart_in_a_new_session(tmp_path: Path, make: MakeConsole) -> None:
    """A reminder is a retry; a restart leaves the old session for good and begins a new one."""
    place = tmp_path / "scene"
    place.mkdir()
    scene = Scene(place, {"text": "no block"}, said("again"), said("fine"))
    scene.write("workflows/again.yaml", AGAIN)
    workspace = open_workspace(scene.folder)
    with serving(make, workspaces=(workspace,)) as console, dialled(console) as client:
        scene.run("run", "again").assert_success()
        client.until("recipe_exited", 60, reason="looked")
        client.until("turn_complete", 60)
    wanted = ("orchestration_retry", "recipe_step_started", "recipe_exited", "turn_complete")
    told = [one for one in client.heard if one["type"] in wanted]
    old, new = told[0]["session_id"], told[-1]["session_id"]
    assert old != new
    assert [(one["type"], one["session_id"]) for one in told] == [
        ("recipe_step_started", old), ("orchestration_retry", old), ("recipe_exited", old),
        ("turn_complete", old), ("recipe_step_started", new), ("recipe_exited", new),
        ("turn_complete", new),
    ]  # fmt: skip
    assert told[1]["step"] == "look"
    assert "No JSON block" in told[1]["error"]
    assert told[2]["reason"] == "restart-new-session"
    started = [one for one in client.heard if one["type"] == "recipe_started"]
    assert (started[-1]["session_id"], started[-1]["step_count"]) == (new, 1)


def test_chat(console: Console, project: Project) -> None:
    """A prompt in a new session, and in the same one again; it is no recipe, and never latest."""
    project.run("run", "hello").assert_success()
    with dialled(console) as client:
        new = "11111111-2222-4333-8444-555555555555"
        client.heard.clear()
        client.send("prompt", text="Hello {{you}}", new_session_id=new, provider="rehearsal")
        assert client.next()["type"] == "ack"
        response = client.until("response")
        assert response["success"] is True
        assert response["session_id"] == new
        assert "message" in response["text"]
        assert client.until("turn_complete") == {"type": "turn_complete", "session_id": new}
        client.send("prompt", text="Again", session_id=new, provider="rehearsal")
        assert client.until("response")["session_id"] == new
        client.until("turn_complete")
        assert "recipe_started" not in kinds(client.heard)
        client.send("subscribe", session_id=new)
        said = [one["text"] for one in client.until("session_history")["messages"]]
        assert said[0] == "Hello {{you}}"
        assert said[2] == "Again"
        client.send("prompt", text="x", provider="no-such-agent")
        failed = client.until("response")
        assert failed["success"] is False
        assert "no-such-agent" in failed["error"]
        assert client.until("turn_complete")
        client.send("prompt", text="x", working_directory="/etc")
        assert "not in a workspace" in client.until("error")["message"]
    assert "hello" in project.run("status", "latest").stdout


def test_sizes(console: Console) -> None:
    with dialled(console) as client:
        for wrong in (49, 251, "x", None):
            client.send("set_max_message_size", size_kb=wrong)
            assert client.next()["type"] == "error"
        client.send("set_max_message_size", size_kb=50)
        assert client.next()["type"] == "ack"
    long = {"type": "response", "text": "ä" * 100_000, "success": True}
    text = fitting(long, 50 * 1024)
    assert len(text.encode()) <= 50 * 1024
    assert "characters" in text
    messages = [{"seq": n, "text": "x" * 30_000, "role": "user"} for n in range(1, 8)]
    found = list(pages("s", messages, 7, 50 * 1024))
    assert [one["seq"] for page in found for one in page["messages"]] == list(range(1, 8))
    assert [page["is_complete"] for page in found] == [False] * (len(found) - 1) + [True]
    for page in found:
        assert len(fitting(page, 50 * 1024).encode()) <= 50 * 1024


def test_read_only_bars_changes(project: Project, make: MakeConsole, tmp_path: Path) -> None:
    with_recipes(project)
    project.run("run", "gate").assert_exit(6)
    with serving(make, read_only=True) as console, dialled(console) as client:
        session = client.until("recipe_started")["session_id"]
        for kind, fields in (
            ("start_recipe", {"recipe_id": "look"}),
            ("prompt", {"text": "x"}),
            ("exit_recipe", {"session_id": session}),
            ("kill_session", {"session_id": session}),
        ):
            client.send(kind, **fields)
            told = client.next()
            assert "--read-only" in json.dumps(told)
    assert not (tmp_path / "XDG_STATE_HOME/orchestrate/audit.jsonl").exists()


def test_the_client_of_the_docs(console: Console, repository: Path, tmp_path: Path) -> None:
    page = (repository / "docs/how-to/speak-the-protocol.md").read_text()
    code = page.partition("```python\n")[2].partition("```")[0]
    assert len(code.splitlines()) <= 36
    script = tmp_path / "client.py"
    script.write_text(code)
    console.keys.api_key()
    address = f"ws://127.0.0.1:{console.port}/ws"
    done = subprocess.run(
        [sys.executable, script, address, "look", "rehearsal"],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "Look at it: look"
    assert done.stdout.splitlines()[-1] == "ended: no-issues"


# The page's own stream.


@contextmanager
def tab(console: Console) -> Iterator[Callable[[str], Json]]:
    headers = {"authorization": f"Bearer {console.keys.api_key()}"}
    url = f"ws://127.0.0.1:{console.port}/api/v1/stream"
    with connect(url, proxy=None, additional_headers=headers) as line:

        def until(kind: str) -> Json:
            while True:
                message: Json = json.loads(line.recv(timeout=60))
                if message["type"] == kind:
                    return message

        until.send = lambda **fields: line.send(json.dumps(fields))  # type: ignore[attr-defined]
        yield until


def test_the_stream_replays_from_a_cursor_and_follows(console: Console, project: Project) -> None:
    project.run("run", "gate").assert_exit(6)
    run = console.all_runs()[0][1].id
    with tab(console) as until:
        assert until("beat")["version"] == __version__
        until.send(type="follow", run=run, after=0)  # type: ignore[attr-defined]
        records = until("events")["records"]
        assert [one["seq"] for one in records] == list(range(1, len(records) + 1))
        project.run("approve", run).assert_success()
        assert until("run")["event"] == "gate-decided"
        assert until("events")["records"][0]["event"] == "gate-decided"
        last = until("events")["records"][0]
        assert last["event"] == "run-ended"
    with tab(console) as until:  # after a break
        until.send(type="follow", run=run, after=last["seq"] - 1)  # type: ignore[attr-defined]
        assert [one["seq"] for one in until("events")["records"]] == [last["seq"]]
        for bad in ({"type": "nonsense"}, {"type": "follow", "run": run, "after": 1e999},
                    {"type": "log", "run": run, "step": "\ud800"}):  # fmt: skip
            until.send(**bad)  # type: ignore[attr-defined]
            assert until("error")


def test_the_stream_follows_a_log(console: Console, project: Project) -> None:
    run_id = project.run("run", "nap", "-d").assert_success().stdout.strip()
    with tab(console) as until:
        until.send(type="log", run=run_id, step="Nap", first=1)  # type: ignore[attr-defined]
        assert until("log")["lines"] == ["begun"]
    project.run("cancel", run_id).assert_success()
