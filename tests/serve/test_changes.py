"""What a run has changed since its start and since the last gate, over HTTP and in the inbox."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from starlette.testclient import TestClient

from orchestrate.testing import Project

V1 = "/api/v1"
TWO_GATES = """
id: two
label: Two gates
description: Writes, asks, writes, asks.
initialStep: first
steps:
  first:
    command: [sh, -c, 'echo "one $TOKEN" > first.txt']
    onOutcome: {passed: {nextStep: look}, failed: {action: exit, reason: bad}}
  look:
    approval: {prompt: "Go on?", timeout: 24h}
    onOutcome: {approved: {nextStep: second}, denied: {action: exit, reason: denied}}
  second:
    command: [sh, -c, 'echo "two $TOKEN" > second.txt']
    onOutcome: {passed: {nextStep: again}, failed: {action: exit, reason: bad}}
  again:
    approval: {prompt: "And now?", timeout: 24h}
    onOutcome: {approved: {action: exit, reason: done}, denied: {action: exit, reason: denied}}
"""


@pytest.fixture
def run(project: Project, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run that has been approved once and asks again."""
    monkeypatch.setenv("TOKEN", "hush-hush-hush")
    project.write("workflows/two.yaml", TWO_GATES)
    project.write(".orchestrate/config.yaml", "secrets: [TOKEN]\n")
    mine = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("add", "."), (*mine, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=project.folder, check=True, capture_output=True)
    project.run("run", "two").assert_exit(6)
    project.run("approve", "latest", "--resume").assert_exit(6)
    found: str = project.run("status", "latest", "--json").json()["run_id"]
    return found


def get(client: TestClient, url: str, **given: Any) -> Any:
    answer = client.get(f"{V1}{url}", params=given)
    assert answer.status_code == 200, answer.text
    return answer.json()


def paths(found: Any) -> list[str]:
    return sorted(one["path"] for one in found["files"] if one["during_run"])


def test_changes_since_the_start_and_since_the_last_gate(client: TestClient, run: str) -> None:
    whole = get(client, f"/runs/{run}/changes")
    since = get(client, f"/runs/{run}/changes", since="gate")
    assert (whole["gate"], paths(whole)) == (None, ["first.txt", "second.txt"])
    assert (since["gate"], paths(since)) == ("look", ["second.txt"])
    assert [(one["added"], one["removed"]) for one in whole["files"]] == [(1, 0)] * 2


def test_the_question_shows_what_changed_since_the_one_before(client: TestClient, run: str) -> None:
    (question,) = get(client, "/inbox")["questions"]
    evidence = question["evidence"]
    assert (question["run_id"], question["about"]) == (run, "again")
    assert (evidence["files_since"], paths(evidence)) == ("look", ["second.txt"])


def test_hunks_of_a_listed_file_with_secrets_masked(client: TestClient, run: str) -> None:
    found = get(client, f"/runs/{run}/changes/file", path="second.txt", since="gate")
    assert found["hunks"].startswith("@@ -0,0 +1,1 @@\n+two ")
    assert "hush" not in found["hunks"]


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", ".git/config", "workflows/two.yaml"])
def test_no_other_file_can_be_read(client: TestClient, run: str, path: str) -> None:
    answer = client.get(f"{V1}/runs/{run}/changes/file", params={"path": path})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_what_a_step_changed_is_told_by_the_checkpoints(client: TestClient, run: str) -> None:
    told = get(client, f"/runs/{run}/changes/step", step="second")
    assert [one["path"] for one in told["files"]] == ["second.txt"]
    assert "+two " in told["patch"]
    assert "hush" not in told["patch"]
    assert told["left_out"] == 0


AGAIN = """
version: "1.4"
name: again
steps:
  - name: Write
    command: [sh, -c, 'echo x >> count; cp count "round-$(wc -l < count)"']
  - {name: Ask, approval: {prompt: "Go on?"}}
  - {name: Look, command: [sh, -c, 'test "$(wc -l < count)" -ge 3'], on: {failure: {goto: Write}}}
"""


def test_every_visit_of_a_step_is_listed_with_what_it_changed(
    client: TestClient, project: Project
) -> None:
    """In order, by names that `changes/step` takes; the first visit, too."""
    subprocess.run(["git", "init", "-q"], cwd=project.folder, check=True)
    project.write("again.yaml", AGAIN)
    project.run("run", "again.yaml").assert_exit(6)
    for code in (6, 6, 0):
        project.run("approve", "latest", "--resume").assert_exit(code)
    run = project.run("status", "latest", "--json").json()["run_id"]
    steps = get(client, f"/runs/{run}/changes")["steps"]
    changed = {
        one["step"]: [
            file["path"]
            for file in get(client, f"/runs/{run}/changes/step", step=one["step"])["files"]
        ]
        for one in steps
    }
    # Nothing is captured between a command and the next one: `Look` shares with `Write`.
    written = [(name, files) for name, files in changed.items() if name.startswith("Write")]
    assert written == [(f"Write@{n}", ["count", f"round-{n}"]) for n in (1, 2, 3)]
    assert {one["files"] for one in steps} == {2}


@pytest.mark.parametrize("step", ["nosuch", "", "../x", "first..nosuch"])
def test_a_step_that_is_not_there_is_refused_in_words(
    client: TestClient, run: str, step: str
) -> None:
    answer = client.get(f"{V1}/runs/{run}/changes/step", params={"step": step})
    assert answer.status_code in (400, 404)
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_run_without_checkpoints_says_how_to_have_them(
    client: TestClient, project: Project
) -> None:
    """Outside of git there are none by default."""
    workflow = 'version: "1.1"\nname: w\nsteps: [{name: A, command: ["true"]}]\n'
    project.write("w.yaml", workflow)
    project.run("run", "w.yaml", "--checkpoints", "off").assert_success()
    run = project.run("status", "latest", "--json").json()["run_id"]
    answer = client.get(f"{V1}/runs/{run}/changes/step", params={"step": "A"})
    assert answer.status_code == 400
    assert "no checkpoints" in answer.text
