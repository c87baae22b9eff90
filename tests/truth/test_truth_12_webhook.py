"""12: a malformed webhook address is told by name, never quoted, and never costs a run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrate.app.working import webhook
from orchestrate.testing import Project

TOKEN = "T0KEN-4711-hook"
MALFORMED = {
    "a space": (f"https://hooks.example.org/{TOKEN} x", "white space or a control character"),
    "a line break": (f"https://hooks.example.org/a\n{TOKEN}", "white space or a control"),
    "an escape": (f"https://hooks.example.org/\x1b[2J{TOKEN}", "white space or a control"),
    "a tab": (f"https://hooks.example.org/\t{TOKEN}", "white space or a control character"),
    "a port that is a word": (f"https://hooks.example.org:{TOKEN}/x", "malformed host or port"),
    "a port too large": (f"https://hooks.example.org:99999/{TOKEN}", "malformed host or port"),
    "port 0": (f"http://hooks.example.org:0/{TOKEN}", "malformed host or port"),
    "half an address": (f"http://[::1/{TOKEN}", "malformed host or port"),
    "no host": (f"https:///{TOKEN}", "no host"),
    "no host but a port": (f"https://:443/{TOKEN}", "no host"),
    "a user": (f"https://me:{TOKEN}@hooks.example.org/x", "a user name in it"),
    "no scheme": (f"hooks.example.org/{TOKEN}", "does not begin with https:// or http://"),
    "another scheme": (f"file:///etc/{TOKEN}", "does not begin with https:// or http://"),
    "not ASCII": (f"https://hooks.example.org/ä/{TOKEN}", "not ASCII"),
    "an endless label": (f"http://{'a' * 70}.example.invalid/{TOKEN}", ""),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_truth_12_the_program_never_shows_the_address(name: str) -> None:
    """The keeper's side: no exception leaves it, and what it says has nothing of the address."""
    address, expected = MALFORMED[name]
    said = webhook.post(address, b"{}")
    assert expected in said
    assert said
    for part in (address, TOKEN, "example"):
        assert part not in said


def test_truth_12_the_program_ends_without_a_traceback() -> None:
    for address in (MALFORMED["a space"][0], MALFORMED["a port that is a word"][0]):
        done = subprocess.run(
            [sys.executable, "-I", webhook.__file__],
            env={webhook.VARIABLE: address}, input=b"{}", capture_output=True, check=False,
            timeout=60,
        )  # fmt: skip
        assert done.returncode == 1
        assert b"Traceback" not in done.stderr
        assert TOKEN.encode() not in done.stderr + done.stdout


def test_truth_12_white_space_around_an_address_does_not_matter() -> None:
    assert webhook.address_fault(" https://hooks.example.org/x?y=1#z\n") == ""
    assert webhook.address_fault("http://[::1]:8080/") == ""


@pytest.mark.parametrize("name", ["a space", "a port that is a word", "an escape", "no host"])
def test_truth_12_a_run_goes_on_and_tells_the_variable(tmp_path: Path, name: str) -> None:
    """Warned of when the run starts, told again when nobody could be told; the run is as it is."""
    address, expected = MALFORMED[name]
    project = Project(tmp_path)
    config = {"notifications": [{"webhook_env": "TEAM_HOOK"}], "mask_env": "off"}
    project.write(".orchestrate/config.yaml", json.dumps(config))
    steps = 'steps: [{name: Work, command: ["sh", "-c", "echo $TEAM_HOOK; exit %d"]}]\n'
    for code in (0, 1):
        project.write("w.yaml", 'version: "1.1"\n' + steps % code)
        done = project.run("run", "w.yaml", env={"TEAM_HOOK": address}).assert_exit(code)
        warnings = [line for line in done.stderr.splitlines() if "TEAM_HOOK" in line]
        assert len(warnings) == 2, "before the first step, and after the last"
        for line in warnings:
            assert "notification 1 (webhook)" in line
            assert expected in line
        assert "Traceback" not in done.stderr
        for text in (done.stdout, done.stderr):
            assert TOKEN not in text
    for path in (tmp_path / ".orchestrate" / "runs").rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("name", ["a port too large", "no host", "a user", "half an address"])
def test_truth_12_an_address_in_the_file_is_refused_with_its_place(
    tmp_path: Path, name: str
) -> None:
    address, expected = MALFORMED[name]
    project = Project(tmp_path, {"w.yaml": 'version: "1.1"\nsteps: [{name: A, command: ["ls"]}]\n'})
    project.write(".orchestrate/config.yaml", f'notifications:\n  - webhook: "{address}"\n')
    done = project.run("run", "w.yaml").assert_exit(5)
    assert ".orchestrate/config.yaml:2:14: error E105" in done.stderr
    assert expected in done.stderr
