"""`orchestrate serve` as a command: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import gc
import http.client
import json
import os
import re
import signal
import socket
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from orchestrate.cli.commands import serve
from orchestrate.serve import server
from orchestrate.testing import Project


def test_without_the_extra_it_says_how_to_install_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        serve, "find_spec", lambda name: None if name == "uvicorn" else find_spec(name)
    )
    result = project.run("serve").assert_exit(5)
    assert "needs uvicorn" in result.stderr
    assert "pip install 'orchestrate[serve]'" in result.stderr


def test_another_interface_is_refused_without_a_name(project: Project) -> None:
    result = project.run("serve", "--host", "0.0.0.0").assert_exit(2)
    assert "--allow-host" in result.stderr
    assert "tailscale" in result.stderr


def test_a_new_key_is_made_and_printed_nowhere(project: Project) -> None:
    result = project.run("serve", "--new-key").assert_success()
    assert "api-key" in result.stdout
    assert len(result.stdout.split()[0]) < 200
    result = project.run("serve", "--link").assert_exit(2)
    assert "start one: orchestrate serve" in result.stderr


def test_it_serves_signs_in_and_ends_at_once(project: Project) -> None:
    """One real process: the printed link works once, `--link` makes another, Ctrl-C ends it."""
    with project.background("serve", "--port", "0") as process:
        assert process.stderr is not None
        said = ""
        while "open:" not in said:
            said = process.stderr.readline()
            assert said, "it has ended"
        found = re.search(r"http://127.0.0.1:(\d+)/#k=(\S+)", said)
        assert found is not None
        port, link = int(found[1]), found[2]
        assert sign_in(port, link) == 200
        assert sign_in(port, link) == 401
        printed = project.run("serve", "--link").assert_success().stdout.strip()
        assert printed.startswith(f"http://127.0.0.1:{port}/#k=")
        assert sign_in(port, printed.partition("#k=")[2]) == 200
        taken = project.run("serve", "--port", str(port)).assert_exit(5)
        assert f"orchestrate serve has it: process {process.pid}" in taken.stderr
        assert str(project.folder) in taken.stderr
        # A client that stays does not hold it up.
        with socket.create_connection(("127.0.0.1", port)):
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
    project.run("serve", "--link").assert_exit(2)


def test_a_server_that_is_terminated_leaves_no_note(project: Project, tmp_path: Path) -> None:
    with project.background("serve", "--port", "0", "--host", "127.0.0.2") as process:
        assert process.stderr is not None
        while "open:" not in (said := process.stderr.readline()):
            assert said, "it has ended"
        address = said.split()[1].partition("#")[0]
        assert address.startswith("http://127.0.0.2:")
        assert address in project.run("serve", "--link").assert_success().stdout
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (143, -signal.SIGTERM)
    [folder] = tmp_path.glob("XDG_STATE_HOME/orchestrate/serve")
    assert list(folder.iterdir()) == []


def test_it_does_not_wait_for_what_still_reads(project: Project, tmp_path: Path) -> None:
    """As of a run of 100,000 events on a busy machine; here the doctor waits for a program."""
    program = tmp_path / "claude"
    asked = tmp_path / "asked"
    program.write_text(
        f"#!/bin/sh\necho $$ > {asked}.new; mv {asked}.new {asked}; exec sleep 600\n"
    )
    program.chmod(0o755)
    with project.background(
        "serve", "--port", "0", env={"CLAUDE_CLI_PATH": str(program)}
    ) as process:
        assert process.stderr is not None
        while "open:" not in (said := process.stderr.readline()):
            assert said, "it has ended"
        port = int(said.split()[1].partition("#")[0].rstrip("/").rpartition(":")[2])
        key = next(tmp_path.glob("XDG_CONFIG_HOME/orchestrate/api-key")).read_text().strip()
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        line.request("GET", "/api/v1/doctor", headers={"authorization": f"Bearer {key}"})
        while not asked.exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        line.close()
        os.kill(int(asked.read_text()), signal.SIGKILL)  # it was still at work


def test_garbage_of_a_server_is_looked_for_often() -> None:
    """A command may leave it lie; here each look at a large run would add some megabytes."""
    before = gc.get_threshold()
    try:
        gc.set_threshold(100_000, 20, 20)
        server.collect_often()
        first, second, third = gc.get_threshold()
        assert first * second * third <= 50_000
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def sign_in(port: int, link: str) -> int:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        headers = {"content-type": "application/json"}
        line.request("POST", "/api/v1/session", json.dumps({"link": link}), headers)
        return line.getresponse().status
    finally:
        line.close()
