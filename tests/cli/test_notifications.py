"""Notifications: who is told of a pause, a failure or an end, once, and never at the run's cost."""

from __future__ import annotations

import http.server
import json
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from orchestrate.testing import Project
from tests.cli.background import await_file, started
from tests.cli.conftest import RECIPE
from tests.gates import waiting_at
from tests.promises.processes import is_alive, wait_until

PYTHON = shlex.quote(sys.executable)
# Appends what it was told, a line for each time.
KEEP = """\
import json, os, sys
told = {"body": json.load(sys.stdin)}
told["variables"] = {k: v for k, v in os.environ.items() if k.startswith("ORCHESTRATE_")}
with open("told.jsonl", "a") as file:
    file.write(json.dumps(told) + "\\n")
"""
GOOD = 'version: "1.1"\nname: good\nsteps:\n- {name: Work, command: [echo, hello]}\n'
BAD = 'version: "1.1"\nname: bad\nsteps:\n- {name: Work, command: ["false"]}\n'


@pytest.fixture
def office(tmp_path: Path) -> Project:
    """A project whose every ending is written into told.jsonl."""
    made = Project(tmp_path)
    made.write("keep.py", KEEP)
    made.write("good.yaml", GOOD)
    made.write("bad.yaml", BAD)
    made.write("look.yaml", RECIPE)
    made.write(".orchestrate/agents/reader.md", "---\nname: reader\n---\nYou read.\n")
    configure(made, {"command": [sys.executable, "keep.py"]})
    return made


def configure(project: Project, *notifications: dict[str, Any]) -> None:
    project.write(".orchestrate/config.yaml", json.dumps({"notifications": notifications}))


def told(project: Project) -> list[dict[str, Any]]:
    path = project.folder / "told.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def events_told(project: Project) -> list[str]:
    return [entry["body"]["event"] for entry in told(project)]


def log_of(project: Project) -> str:
    return (project.latest_run / "logs/orchestrator.log").read_text()


def test_nobody_is_told_by_default(office: Project) -> None:
    (office.folder / ".orchestrate/config.yaml").unlink()
    assert office.run("run", "good.yaml").exit_code == 0
    assert told(office) == []
    assert not list(office.latest_run.rglob("*notif*"))


def test_a_command_learns_how_the_run_ended(office: Project) -> None:
    done = office.run("run", "good.yaml", "--json")
    assert done.exit_code == 0
    [entry] = told(office)
    body, variables = entry["body"], entry["variables"]
    assert body["event"] == "finished"
    assert body["run_id"] == done.json()["run_id"]
    assert body["status"] == "completed"
    assert body["steps"]["Work"]["status"] == "completed"
    assert body["workspace"] == str(office.folder)
    assert body["next"] == []
    assert variables["ORCHESTRATE_EVENT"] == "finished"
    assert variables["ORCHESTRATE_RUN_ID"] == body["run_id"]
    assert variables["ORCHESTRATE_RUN_DIR"] == str(office.latest_run)
    assert variables["ORCHESTRATE_RECIPE"] == "good.yaml"
    assert variables["ORCHESTRATE_RUN_EXIT_CODE"] == "0"
    assert "notification-delivered" in log_of(office)
    assert "notification" not in done.stderr
    assert not list(office.latest_run.rglob("*.owed"))


def test_each_failure_is_told_and_the_end_once(office: Project) -> None:
    first = office.run("run", "bad.yaml")
    assert first.exit_code == 1
    assert office.run("resume", "latest").exit_code == 1
    assert events_told(office) == ["failed", "failed"]
    assert told(office)[0]["body"]["reason"] == "step 'Work' failed"
    run_id = office.latest_run.name
    assert f"orchestrate resume {run_id}" in told(office)[0]["body"]["next"]
    assert office.run("run", "good.yaml").exit_code == 0
    assert office.run("resume", "latest").exit_code == 0
    assert events_told(office) == ["failed", "failed", "finished"]


def test_a_gate_is_told_once_however_often_it_is_passed_by(office: Project) -> None:
    assert office.run("run", "look.yaml", *waiting_at(office, "first")).exit_code == 6
    assert office.run("resume", "latest").exit_code == 6
    assert events_told(office) == ["paused"]
    body = told(office)[0]["body"]
    assert body["backend"] == "rehearsal"
    assert [gate["stage"] for gate in body["approvals"]] == ["first"]
    assert body["approvals"][0]["prompt"] == "Go on with src?"
    assert body["next"][0] == f"orchestrate approve {body['run_id']}"
    assert office.run("approve", "latest").exit_code == 0
    office.run("resume", "latest")
    assert events_told(office)[0] == "paused"
    assert len(events_told(office)) == 2


def test_what_to_do_next_is_what_status_advises(office: Project) -> None:
    """A limit needs a flag, and after a denial nothing goes on."""
    circle = 'version: "1.4"\nsteps: [{name: A, command: ["true"], on: {success: {goto: A}}}]\n'
    office.write("circle.yaml", circle)
    assert office.run("run", "circle.yaml", "--max-visits", "2").exit_code == 3
    assert office.run("run", "look.yaml", *waiting_at(office, "first")).exit_code == 6
    assert office.run("deny", "latest").exit_code == 0
    office.run("resume", "latest")
    limited, parked, *denied = [entry["body"] for entry in told(office)]
    assert limited["next"][-1] == f"orchestrate resume {limited['run_id']} --max-visits 4"
    assert len(parked["next"]) == 2
    assert not any("resume" in command for body in denied for command in body["next"])


def test_a_detached_run_tells_too(office: Project) -> None:
    left = office.run("run", "bad.yaml", "--detach")
    assert left.exit_code == 0, left.stderr
    assert office.run("wait", "latest").exit_code == 1
    # The run has ended before it is told that it has.
    wait_until(lambda: bool(told(office)), "nobody was told")
    assert events_told(office) == ["failed"]


def test_only_what_was_asked_for_is_told(office: Project) -> None:
    configure(office, {"on": ["failed"], "command": [sys.executable, "keep.py"]})
    assert office.run("run", "good.yaml").exit_code == 0
    assert told(office) == []
    assert office.run("run", "bad.yaml").exit_code == 1
    assert events_told(office) == ["failed"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["no-such-program-at-all"], "could not be started"),
        (["sh", "-c", "echo it is broken >&2; exit 3"], "exit code 3: it is broken"),
        (["sh", "-c", "kill -9 $$"], "killed by signal 9"),
    ],
)
def test_what_goes_wrong_is_told_and_changes_nothing(
    office: Project, command: list[str], words: str
) -> None:
    configure(office, {"command": command}, {"command": [sys.executable, "keep.py"]})
    done = office.run("run", "good.yaml", "--json")
    assert done.exit_code == 0
    assert done.json()["status"] == "completed"
    assert "notification 1 (command" in done.stderr
    assert words in done.stderr
    assert "notification-failed" in log_of(office)
    # The others are told all the same.
    assert events_told(office) == ["finished"]


def test_one_that_hangs_is_ended_with_all_its_children(office: Project) -> None:
    hanging = "trap '' TERM; echo $$ > pid; sleep 300 & wait; sleep 300"
    configure(office, {"command": ["sh", "-c", hanging], "timeout": 5})
    done = office.run("run", "good.yaml")
    assert done.exit_code == 0
    assert "it took more than 5 s and was ended" in done.stderr
    assert not is_alive(int((office.folder / "pid").read_text()))


def test_secrets_are_masked_in_what_is_told(office: Project) -> None:
    configure(
        office,
        {"command": [sys.executable, "keep.py"]},
        {"command": ["sh", "-c", "echo the key is $KEY >&2; exit 1"]},
    )
    office.write(
        "gate.yaml",
        'version: "1.1"\nname: s\nsteps:\n'
        '- {name: Work, secrets: [KEY], command: [sh, -c, "echo $${KEY} >&2; exit 4"]}\n',
    )
    done = office.run("run", "gate.yaml", env={"KEY": "hunter2-hunter2"})
    assert done.exit_code == 1
    assert "the key is ***" in done.stderr
    assert "hunter2" not in done.stderr
    assert events_told(office) == ["failed"]
    assert "hunter2" not in json.dumps(told(office)[0]["body"])
    for path in office.latest_run.rglob("*"):
        assert not path.is_file() or b"hunter2-hunter2" not in path.read_bytes(), path


def test_whoever_interrupts_a_run_is_not_told_so(office: Project) -> None:
    office.write(
        "slow.yaml",
        'version: "1.1"\nname: slow\nsteps:\n'
        "- {name: Work, command: [sh, -c, 'touch begun; exec sleep 60']}\n",
    )
    with started(office, "run", "slow.yaml") as process:
        await_file(office, "begun")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert told(office) == []


def test_ctrl_c_does_not_wait_for_one_that_hangs(office: Project) -> None:
    configure(office, {"command": ["sh", "-c", "echo $$ > pid; exec sleep 300"], "timeout": 300})
    with started(office, "run", "good.yaml") as process:
        await_file(office, "pid")
        process.send_signal(signal.SIGINT)
        # The run had ended, well, before it was told.
        assert process.wait(60) == 0
    pid = (office.folder / "pid").read_text()
    wait_until(lambda: not is_alive(int(pid)), "it outlived the command")
    assert "interrupted" in log_of(office)


def test_a_kill_while_it_is_told_tells_nobody_twice(office: Project) -> None:
    slow = f"{PYTHON} keep.py; touch half; until test -e go; do sleep 0.05; done; touch whole"
    configure(office, {"command": ["sh", "-c", slow], "timeout": 60})
    with started(office, "run", "good.yaml") as process:
        await_file(office, "half")
        process.kill()
        process.wait(60)
    (office.folder / "go").touch()
    # The keeper goes on with it, and the next command finds it told.
    await_file(office, "whole")
    done = office.run("resume", "latest")
    assert (done.exit_code, events_told(office)) == (0, ["finished"])


def test_a_kill_before_it_is_told_is_made_up_for(office: Project) -> None:
    assert office.run("run", "good.yaml").exit_code == 0
    (office.folder / "told.jsonl").unlink()
    root = office.latest_run
    # As a kill between the last event and the telling leaves it.
    (root / "notifications.owed").touch()
    for path in (root / "keeper").iterdir():
        if path.is_file() and not path.name.endswith(".lock"):
            path.unlink()
    assert office.run("resume", "latest").exit_code == 0
    assert office.run("resume", "latest").exit_code == 0
    assert events_told(office) == ["finished"]


# Webhooks.


@dataclass
class Listener:
    """A server on this computer; `answers` are the codes that it gives, the last one for ever."""

    address: str
    heard: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    answers: list[int] = field(default_factory=lambda: [204])


@pytest.fixture
def listener() -> Iterator[Listener]:
    class Answering(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.heard.append((self.path, dict(self.headers), body))
            code = made.answers.pop(0) if len(made.answers) > 1 else made.answers[0]
            self.send_response(code)
            if code == 302:
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    made = Listener(f"http://127.0.0.1:{server.server_address[1]}/hooks/t0ken-t0ken")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    thread.join(60)
    server.server_close()


def test_a_webhook_gets_the_event(office: Project, listener: Listener) -> None:
    configure(office, {"webhook": listener.address})
    assert office.run("run", "good.yaml", env={"no_proxy": "*"}).exit_code == 0
    [(path, headers, body)] = listener.heard
    assert path == "/hooks/t0ken-t0ken"
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body)["event"] == "finished"


def test_an_address_from_the_environment_is_a_secret(office: Project, listener: Listener) -> None:
    configure(office, {"webhook_env": "TEAM_HOOK"})
    listener.answers = [500]
    done = office.run("run", "good.yaml", env={"TEAM_HOOK": listener.address, "no_proxy": "*"})
    assert done.exit_code == 0
    assert len(listener.heard) == 1
    assert "notification 1 (webhook): the answer was HTTP 500" in done.stderr
    for path in office.latest_run.rglob("*"):
        assert not path.is_file() or b"t0ken-t0ken" not in path.read_bytes(), path
    assert "TEAM_HOOK is not set" in office.run("run", "good.yaml").stderr


def test_a_redirection_is_not_followed(office: Project, listener: Listener) -> None:
    configure(office, {"webhook": listener.address})
    listener.answers = [302, 200]
    done = office.run("run", "good.yaml", env={"no_proxy": "*"})
    assert "the answer was HTTP 302" in done.stderr
    assert len(listener.heard) == 1


def test_nobody_at_the_address(office: Project) -> None:
    configure(office, {"webhook": "http://127.0.0.1:9/hook/t0ken"})
    done = office.run("run", "good.yaml", env={"no_proxy": "*"})
    assert done.exit_code == 0
    assert "notification 1 (webhook): " in done.stderr
    assert "t0ken" not in done.stderr
    shown = office.run("config", "show").stdout
    assert "http://127.0.0.1:9/***" in shown
    assert "t0ken" not in shown


def test_many_are_told_at_once(office: Project) -> None:
    """They wait for each other: if they came one after the other, the first would never end."""
    meeting = "touch met.$0; until test -e met.1 -a -e met.2 -a -e met.3; do sleep 0.05; done"
    configure(
        office,
        *({"command": ["sh", "-c", meeting, str(n)], "timeout": 50} for n in (1, 2, 3)),
    )
    done = office.run("run", "good.yaml")
    assert (done.exit_code, "notification" in done.stderr) == (0, False)
    wait_until(lambda: os.path.exists(office.folder / "met.3"), "the third was not told")
