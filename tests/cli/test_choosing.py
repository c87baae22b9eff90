"""Choosing among runs and among what their steps printed: filters, order, attempts, following."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from orchestrate.testing import Project
from tests.cli.background import await_file, started

RETRIED = r"""
version: "1.1"
steps:
  - name: Each
    for_each:
      items: [a, b]
      steps:
        - name: Say
          command: [sh, -c, 'echo "hi ${item}"']
  - name: Flaky
    command: [sh, -c, 'echo x >> tries; echo "try $(wc -l < tries)"; echo "bad $(wc -l < tries)" >&2; test "$(wc -l < tries)" -ge 3']
    retries: {max: 3, delay_ms: 10}
"""  # noqa: E501


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("choosing"), {"w.yaml": RETRIED})
    made.run("run", "w.yaml").assert_success()
    root = made.latest_run
    state = (root / "state.json").read_text("utf-8")
    kinds = [("machine", "failed", 50), ("recipe", "paused", 3), ("workflow", "completed", 9)]
    for number, (dialect, status, minutes) in enumerate(kinds):
        folder = root.parent / f"2024020{number + 1}T120000Z-aaaaaa"
        folder.mkdir()
        day = f"2024-02-0{number + 1}T12:"
        own = state.replace(root.name, folder.name)
        for name, value in (
            ("dialect", dialect), ("status", status), ("workflow_file", f"flows/{dialect}-x.yaml"),
            ("started_at", f"{day}00:00.000Z"), ("completed_at", f"{day}{minutes:02}:00.000Z"),
            ("updated_at", f"2025-0{4 - number}-01T00:00:00.000Z"),
        ):  # fmt: skip
            own = re.sub(f'\n  "{name}": "[^"]*",', f'\n  "{name}": "{value}",', own)
        (folder / "state.json").write_text(own, "utf-8")
    return made


@pytest.mark.parametrize(
    ("arguments", "days"),
    [
        (["--dialect", "recipe"], ["02"]),
        (["--dialect", "recipe", "--dialect", "machine"], ["02", "01"]),
        (["--definition", "FLOWS/MACHINE"], ["01"]),
        (["--name", "*-x.yaml"], ["03", "02", "01"]),
        (["--name", "nothing-like-it"], []),
        (["--since", "2024-02-02T12:00:00Z", "--until", "2024-03-01"], ["03", "02"]),
        (["--until", "2024-02-02T12:00:00Z"], ["02", "01"]),
        (["--until", "2024-02-02T11:59:59Z"], ["01"]),
        (["--name", "flows", "--sort", "duration"], ["01", "03", "02"]),
        (["--name", "flows", "--sort", "duration", "--reverse"], ["02", "03", "01"]),
        (["--name", "flows", "--sort", "updated"], ["01", "02", "03"]),
        (["--name", "flows", "--sort", "definition"], ["01", "02", "03"]),
        (["--name", "flows", "--sort", "status"], ["02", "03", "01"]),
        (["--name", "flows", "--reverse", "--limit", "2"], ["01", "02"]),
    ],
)
def test_runs_are_chosen_and_ordered(
    project: Project, arguments: list[str], days: list[str]
) -> None:
    told = project.run("runs", *arguments, "--json").assert_success().json()
    assert [run["run_id"][6:8] for run in told["runs"]] == days


def test_the_newest_by_age_and_what_is_no_moment(project: Project) -> None:
    (run,) = project.run("runs", "--since", "1d", "--json").assert_success().json()["runs"]
    assert run["run_id"] == project.latest_run.name
    assert run["elapsed_ms"] > 0
    told = project.run("runs", "--since", "soon").assert_exit(2)
    assert "--since 'soon' is not a time" in told.stderr


def test_an_end_that_only_the_journal_has_is_told(tmp_path: Path) -> None:
    project = Project(
        tmp_path, {"w.yaml": 'version: "1.1"\nsteps: [{name: A, command: ["true"]}]\n'}
    )
    project.run("run", "w.yaml").assert_success()
    state = project.latest_run / "state.json"
    text = state.read_text("utf-8").replace(
        '"status": "completed",\n  "re', '"status": "running",\n  "re'
    )
    state.write_text(text, "utf-8")
    assert project.run("runs").stdout.split()[1] == "completed"
    journal = project.latest_run / "events.jsonl"
    journal.write_bytes(b"\n".join(journal.read_bytes().split(b"\n")[:-2]) + b"\n")
    assert project.run("runs").stdout.split()[1] == "interrupted"


# Logs.


def test_all_items_and_all_attempts(project: Project) -> None:
    items = project.run("logs", "latest", "Each[*]/Say").assert_success().stdout
    assert items == "--- stdout of Each[0]/Say\nhi a\n--- stdout of Each[1]/Say\nhi b\n"
    assert "no step 'Each[*]/Sai'" in project.run("logs", "latest", "Each[*]/Sai").stderr
    shown = project.run("logs", "latest", "Flaky", "--all").assert_success().stdout
    assert shown.startswith(
        "--- Flaky, attempt 1: failed: Command failed with exit code 1\ntry 1\n"
        "--- stderr of Flaky, attempt 1: failed\nbad 1\n"
        "--- Flaky, attempt 2: failed: Command failed with exit code 1\ntry 2\n"
    )
    errors = project.run("logs", "latest", "Flaky", "--all", "--stderr").assert_success().stdout
    assert [line for line in errors.splitlines() if not line.startswith("---")] == [
        "bad 1", "bad 2", "bad 3",
    ]  # fmt: skip
    data = project.run("logs", "latest", "Flaky", "--all", "--json").assert_success().json()
    assert [(a["attempt"], a["how"], a["stdout"]) for a in data["attempts"]] == [
        (1, "failed", "try 1\n"), (2, "failed", "try 2\n"), (3, "completed", "try 3\n"),
    ]  # fmt: skip


def test_since_a_moment(project: Project) -> None:
    path = project.latest_run / "logs" / "orchestrator.log"
    whole = path.read_text("utf-8").splitlines(keepends=True)
    stamp = whole[-1].split()[0]
    since = project.run("logs", "latest", "--since", stamp).assert_success().stdout
    assert since.splitlines(keepends=True)[-1] == whole[-1]
    assert all(line.split()[0] >= stamp for line in since.splitlines())
    assert project.run("logs", "latest", "--since", "2099-01-01").assert_success().stdout == ""
    assert project.run("logs", "latest", "--since", "1d", "--json").json()["log"] == "".join(whole)
    late = project.run("logs", "latest", "Flaky", "--since", "2099-01-01").assert_success()
    assert late.stdout == ""
    assert "has ended before that" in late.stderr
    assert project.run("logs", "latest", "Flaky", "--since", "1d", "--stdout").stdout == "try 3\n"


def test_following_survives_retries(tmp_path: Path) -> None:
    """Each attempt has a file of its own, which is followed when the attempt begins."""
    script = (
        "echo x >> tries; n=$(wc -l < tries); "
        'for i in $(seq $((n * 50))); do echo "try $n line $i"; done; '
        "while ! test -e go.$n; do sleep 0.05; done; "
        'echo "try $n ends"; test $n -ge 3'
    )
    text = 'version: "1.1"\nsteps:\n  - name: Flaky\n'
    text += f"    command: [sh, -c, '{script}']\n    retries: {{max: 3, delay_ms: 10}}\n"
    project = Project(tmp_path, {"w.yaml": text})
    wanted = [
        [*(f"try {n} line {i}" for i in range(1, n * 50 + 1)), f"try {n} ends"] for n in (1, 2, 3)
    ]
    with started(project, "run", "w.yaml"):
        await_file(project, "tries")
        with project.background("logs", "latest", "Flaky", "-f") as following:
            assert following.stdout is not None
            patience = threading.Timer(60.0, following.kill)
            patience.start()
            for number, lines in enumerate(wanted, 1):
                heard = [following.stdout.readline().rstrip("\n") for _ in lines[:-1]]
                assert heard == lines[:-1]
                (tmp_path / f"go.{number}").touch()
                assert following.stdout.readline() == lines[-1] + "\n"
            assert following.stdout.read() == ""
            assert following.wait(60) == 0
            patience.cancel()


def test_following_ends_with_a_run_that_is_killed(tmp_path: Path) -> None:
    slow = (
        'version: "1.1"\nsteps: [{name: A, command: [sh, -c, "echo hi; touch begun; sleep 60"]}]\n'
    )
    project = Project(tmp_path, {"w.yaml": slow})
    with started(project, "run", "w.yaml") as process:
        await_file(project, "begun")
        with project.background("logs", "latest", "A", "-f") as following:
            assert following.stdout is not None
            assert following.stdout.readline() == "hi\n"
            process.kill()
            process.wait()
            assert following.wait(60) == 0
            assert following.stdout.read() == ""
