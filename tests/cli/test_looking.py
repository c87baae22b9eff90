"""`status`, `runs` and `logs`: the truth about runs, whatever became of them."""

from __future__ import annotations

import json
import os
import pty
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrate.testing import Project
from tests.cli.background import await_file, started
from tests.promises.processes import wait_until

MIXED = r"""
version: "1.1"
name: mixed
steps:
  - name: List
    command: [sh, -c, 'printf "a\nb\nc\n"; printf "war\377n\033[31m\n" >&2']
    output_capture: lines
  - name: Words
    for_each:
      items_from: steps.List.lines
      steps:
        - name: Say
          command: [sh, -c, 'echo "hi ${item}"']
  - name: Data
    command: [echo, '{"a": 1}']
    output_capture: json
  - name: Many
    command: [seq, "1", "5000"]
  - name: Bad
    command: [sh, -c, 'exit 3']
"""

SLOW_LOOP = """
version: "1.1"
steps:
  - name: Each
    for_each:
      items: [a, b, c]
      steps:
        - name: Do
          command: [sh, -c, 'echo "${item} begins"; test "${item}" = a && exit; touch begun; exec sleep 60']
"""  # noqa: E501


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A workspace with one run, which failed. Tests only look at it."""
    project = Project(tmp_path_factory.mktemp("failed"), {"w.yaml": MIXED})
    project.run("run", "w.yaml").assert_exit(1)
    return project


def test_without_runs(tmp_path: Path) -> None:
    project = Project(tmp_path)
    assert "There are no runs" in project.run("runs").assert_success().stdout
    assert project.run("runs", "--json").assert_success().json() == {"runs": [], "more": False}
    for command in (["status", "latest"], ["logs", "latest"], ["cancel", "latest"]):
        result = project.run(*command, "--json").assert_exit(2)
        assert "there are no runs" in result.json()["error"]["message"]
    assert not (tmp_path / ".orchestrate").exists()


def test_status_shows_each_step_and_how_to_go_on(failed: Project) -> None:
    run_id = failed.latest_run.name
    shown = failed.run("status", "latest").assert_success()
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert lines[0] == ["run", run_id, "has", "failed:", "step", "'Bad'", "failed"]
    assert ["Words", "completed", "3/3"] in lines
    assert [words[:4] for words in lines if words[:1] == ["Bad"]] == [
        ["Bad", "failed", "exit", "3"]
    ]
    names = [words[0] for words in lines if words[0] in ("List", "Words", "Data", "Many", "Bad")]
    assert names == ["List", "Words", "Data", "Many", "Bad"]
    assert ["go", "on:", "orchestrate", "resume", run_id] in lines
    assert ["look:", "orchestrate", "logs", run_id, "Bad"] in lines
    assert shown.stderr == ""


def test_status_as_json(failed: Project) -> None:
    root = failed.latest_run
    view = failed.run("status", root.name[:-1], "--json").assert_success().json()
    assert (view["run_id"], view["status"]) == (root.name, "failed")
    assert view["steps"]["Words"] == {
        "status": "completed", "total": 3, "completed": 3, "failed": [],
    }  # fmt: skip
    assert view["steps"]["Bad"]["exit_code"] == 3
    assert view["next"] == [f"orchestrate resume {root.name}"]
    assert view["elapsed_ms"] > 0


def test_advice_repeats_where_the_runs_are(tmp_path: Path) -> None:
    project = Project(tmp_path, {"ws/w.yaml": MIXED})
    where = ("--working-dir", "ws", "--state-dir", "my runs")
    project.run("run", "ws/w.yaml", *where).assert_exit(1)
    view = project.run("status", "latest", *where, "--json").assert_success().json()
    assert view["next"][0].endswith("--working-dir ws --state-dir 'my runs'")
    # A setting, which starts at the workspace; a flag starts at the current folder.
    by_variable = {"ORCHESTRATE_STATE_DIR": "../my runs"}
    view = project.run("status", "latest", *where[:2], "--json", env=by_variable).json()
    assert view["next"][0].endswith("--working-dir ws")


def is_at_work(project: Project) -> bool:
    live = project.run("status", "latest", "--json").assert_success().json()
    return [at["phase"] for at in live["current"]] == ["running"]


def test_a_live_run_and_one_whose_process_is_gone(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": SLOW_LOOP})
    with started(project, "run", "w.yaml") as process:
        await_file(project, "begun")
        # A step may be at work a moment before the state says so.
        wait_until(lambda: is_at_work(project), "the second item never ran")
        live = project.run("status", "latest", "--json").assert_success().json()
        assert (live["status"], live["programs_left"], live["next"]) == ("running", False, [])
        assert live["steps"]["Each"]["completed"] == 1
        (at,) = live["current"]
        assert (at["step"], at["phase"], at["attempt"]) == ("Each[1]/Do", "running", 1)
        assert at["for_ms"] > 0
        assert "Each[1]/Do runs for" in project.run("status", "latest").stdout
        assert project.run("runs").stdout.split()[1] == "running"

        process.kill()
        process.wait()
        assert project.latest_state["status"] == "running", "the state itself does not know it"
        gone = project.run("status", "latest").assert_success().stdout
        assert "is interrupted\n" in gone
        assert "its process is gone; its programs still run and will be adopted" in gone
        assert f"orchestrate resume {project.latest_run.name}" in gone
        listed = project.run("runs", "--status", "interrupted", "--json").json()["runs"]
        assert [run["status"] for run in listed] == ["interrupted"]
        assert project.run("runs", "--status", "running", "--json").json()["runs"] == []


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (
            '{name: W, wait_for: {glob: "never/*.x", timeout_sec: 77}}',
            "W waits for files never/*.x",
        ),
        (
            '{name: R, command: [sh, -c, "exit 7"], retries: {max: 3, delay_ms: 60000}}',
            "for retry 1 of 3: Command failed with exit code 7",
        ),
    ],
)
def test_what_a_run_waits_for(tmp_path: Path, step: str, told: str) -> None:
    project = Project(tmp_path, {"w.yaml": f'version: "1.1"\nsteps:\n  - {step}\n'})
    with started(project, "run", "w.yaml"):
        wait_until(lambda: told in project.run("status", "latest").stdout, f"nobody said {told}")


def test_status_reads_the_journal_where_the_state_lags(tmp_path: Path) -> None:
    """A state file that is older than the journal: what came since is folded in, if it can be."""
    project = Project(tmp_path, {"w.yaml": MIXED})
    project.run("run", "w.yaml").assert_exit(1)
    root = project.latest_run
    os.replace(root / "state.json.prev", root / "state.json")
    assert project.latest_state["status"] == "running"
    before = sorted(path.read_bytes() for path in root.rglob("*") if path.is_file())
    assert project.run("status", "latest", "--json").json()["status"] == "failed"
    project.write("w.yaml", MIXED + "  - {name: New, command: [ls]}\n")
    # The files do not matter: it goes by the plan that the run keeps.
    changed = project.run("status", "latest", "--json").assert_success().json()
    assert changed["status"] == "failed"
    project.write("w.yaml", "steps: [\n")
    assert "has failed" in project.run("status", "latest").assert_success().stdout
    after = sorted(path.read_bytes() for path in root.rglob("*") if path.is_file())
    assert after == before, "looking must not write"


def test_damaged_runs(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": MIXED})
    project.run("run", "w.yaml").assert_exit(1)
    root = project.latest_run
    (root / "state.json").write_text("{}")
    assert project.run("status", "latest", "--json").assert_success().json()["status"] == "failed"
    shown = project.run("runs").assert_success().stdout.split()
    assert (shown[1], shown[-1]) == ("failed", "w.yaml"), "the journal tells the truth"
    assert project.run("logs", "latest", "Bad").assert_success().exit_code == 0
    (root / "events.jsonl").write_text("nonsense\n")
    broken = project.run("status", "latest", "--json").assert_exit(5)
    assert root.name in broken.json()["error"]["message"]
    (root / "state.json").unlink()
    project.run("status", "latest").assert_exit(5)
    assert "damaged" in project.run("runs").assert_success().stdout


def test_control_characters_are_shown_not_obeyed(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w\x1b[31m.yaml": MIXED})
    project.run("run", "w\x1b[31m.yaml").assert_exit(1)
    for command in ("status", "runs"):
        shown = project.run(*([command, "latest"] if command == "status" else [command]))
        assert "\x1b" not in shown.stdout + shown.stderr
        assert "w␛[31m.yaml" in shown.stdout


def copies(project: Project, number: int) -> None:
    """So many runs like the newest one, older than it."""
    root = project.latest_run
    state = (root / "state.json").read_bytes()
    for index in range(number):
        folder = (
            root.parent / f"20200101T{index // 3600:02}{index // 60 % 60:02}{index % 60:02}Z-aaaaaa"
        )
        folder.mkdir()
        own = state.replace(root.name.encode(), folder.name.encode())
        (folder / "state.json").write_bytes(own)
        os.link(root / "run.lock", folder / "run.lock")


def cpu_seconds(project: Project, *arguments: str) -> float:
    """Of a process: what its start takes counts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    project.spawn(*arguments).assert_success()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_ten_thousand_runs_take_less_than_a_second(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": MIXED})
    project.run("run", "w.yaml").assert_exit(1)
    copies(project, 10_000)
    listed = project.run("runs", "--json").assert_success().json()
    assert listed["more"] is True
    assert len(listed["runs"]) == 20
    assert listed["runs"][0]["run_id"] == project.latest_run.name, "newest first"
    assert len(project.run("runs", "--limit", "3").stdout.splitlines()) == 4
    # Processor time, because the machine may be busy with other tests.
    assert cpu_seconds(project, "runs") < 1
    assert cpu_seconds(project, "runs", "--status", "running", "--limit", "0") < 1


def test_a_status_behind_very_many_files_is_found(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": MIXED})
    project.run("run", "w.yaml").assert_exit(1)
    path = project.latest_run / "state.json"
    many = {f"part-{number}.yaml": "sha256:" + "0" * 64 for number in range(1000)}
    lines = path.read_text("utf-8").splitlines(keepends=True)
    place = next(i for i, line in enumerate(lines) if line.startswith('  "sources"'))
    lines[place] = f'  "sources": {json.dumps(many)},\n'
    path.write_text("".join(lines), "utf-8")
    assert project.run("runs").stdout.split()[1] == "failed"
    path.write_text(path.read_text("utf-8").replace('"w.yaml",', "broken,"), "utf-8")
    assert project.run("runs").assert_success().stdout.split()[1] == "failed"


# Logs.


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["List", "--stdout"], "a\nb\nc\n"),
        (["Words[1]/Say"], "hi b\n"),
        (["Words.2.Say"], "hi c\n"),
        (["Data"], '{\n  "a": 1\n}\n'),
        (["Many", "-n", "2"], "4999\n5000\n"),
        (["Many", "-n", "0"], ""),
    ],
)
def test_what_a_step_printed(failed: Project, arguments: list[str], printed: str) -> None:
    assert failed.run("logs", "latest", *arguments).assert_success().stdout == printed


def test_long_output_is_whole(failed: Project) -> None:
    whole = "".join(f"{number}\n" for number in range(1, 5001))
    assert failed.run("logs", "latest", "Many").stdout == whole
    most = failed.run("logs", "latest", "Many", "--lines", "4999").stdout
    assert most == whole.partition("\n")[2]


def test_the_orchestrators_log(failed: Project) -> None:
    whole = failed.run("logs", "latest").assert_success().stdout
    assert whole.encode() == (failed.latest_run / "logs" / "orchestrator.log").read_bytes()
    assert failed.run("logs", "latest", "-n", "1").stdout == whole.splitlines(keepends=True)[-1]
    assert failed.run("logs", "latest", "--json").json()["log"] == whole
    failed.run("logs", "latest", "--stderr").assert_exit(2)


def test_a_step_that_is_not_there(failed: Project) -> None:
    slip = failed.run("logs", "latest", "Lisst").assert_exit(2)
    assert "no step 'Lisst' has run (did you mean 'List'?)" in slip.stderr
    many = failed.run("logs", "latest", "Say").assert_exit(2)
    assert "there are 3 steps 'Say'" in many.stderr
    assert "Words[0]/Say" in many.stderr
    failed.run("logs", "latest", "Words").assert_exit(2)


def test_a_step_without_output_has_its_error_told(failed: Project) -> None:
    silent = failed.run("logs", "latest", "Bad").assert_success()
    assert silent.stdout == ""
    assert "Bad printed nothing (failed: Command failed with exit code 3)" in silent.stderr


def test_the_spelling_of_an_end_is_not_told(tmp_path: Path) -> None:
    step = "{name: A, command: [echo, a], on: {success: {goto: _end}}}"
    project = Project(tmp_path, {"w.yaml": f'version: "1.1"\nsteps: [{step}]\n'})
    told = project.run("run", "w.yaml").assert_success()
    assert told.stderr.rstrip().endswith(" completed")
    for words in (["status"], ["wait"], ["report", "--format", "md"]):
        done = project.run(words[0], "latest", *words[1:]).assert_success()
        assert "completed" in done.stdout + done.stderr
        assert "completed: _end" not in done.stdout + done.stderr


LOOPS = """\
version: "1.1"
steps:
  - name: Outer
    for_each:
      items: [a, b]
      steps:
        - name: Inner
          for_each:
            items: [c]
            as: other
            steps:
              - {name: Chew, command: [echo, "${other}"]}
"""
REVIEWS = """\
name: reviews
context: {items: [x, y]}
description: A loop
version: 1.0.0
steps:
  - {id: review, agent: helper, prompt: "Look at {{item}}.", foreach: "{{items}}", collect: all}
"""


@pytest.mark.parametrize(
    ("text", "path", "more"),
    [
        (LOOPS, "Outer[1]/Inner[0]/Chew", "Outer.1.Inner.0.Chew"),
        (REVIEWS, "review[1]", "review[1]/review"),
    ],
)
def test_the_names_in_the_log_can_be_typed(tmp_path: Path, text: str, path: str, more: str) -> None:
    helper = "---\nname: helper\n---\nYou help.\n"
    project = Project(tmp_path, {"w.yaml": text, ".orchestrate/agents/helper.md": helper})
    flags = ["--backend", "rehearsal"] if text is REVIEWS else []
    project.run("run", "w.yaml", *flags).assert_success()
    log = project.run("logs", "latest").stdout
    assert f"step-finished step={path} " in log
    for name in (path, more):
        assert project.run("logs", "latest", name).assert_success().stdout.strip()


def test_logs_as_json(failed: Project) -> None:
    shown = failed.run("logs", "latest", "List", "--json").assert_success().json()
    assert (shown["step"], shown["status"], shown["stdout"]) == ("List", "completed", "a\nb\nc\n")
    assert shown["stderr"] == "war\\xffn\x1b[31m\n"
    failed.run("logs", "latest", "List", "--json", "-f").assert_exit(2)


def test_bytes_stay_bytes_and_terminals_are_spared(failed: Project) -> None:
    command = [sys.executable, "-m", "orchestrate", "logs", "latest", "List", "--stderr"]
    piped = subprocess.run(command, cwd=failed.folder, capture_output=True, check=True)
    assert piped.stdout == "war\\xffn␛[31m\n".encode()
    raw = subprocess.run([*command, "--raw"], cwd=failed.folder, capture_output=True, check=True)
    assert raw.stdout == b"war\xffn\x1b[31m\n"
    ours, theirs = pty.openpty()
    subprocess.run(command, cwd=failed.folder, stdout=theirs, check=True)
    os.close(theirs)
    assert os.read(ours, 1000).decode() == "war\ufffdn␛[31m\r\n"
    os.close(ours)


def test_following_a_step_until_it_ends(tmp_path: Path) -> None:
    slow = 'for i in 1 2 3 4 5; do echo "line $i"; sleep 0.2; done; echo end >&2'
    steps = "steps:\n  - {name: First, command: [sleep, '0.5']}\n"
    steps += f"  - {{name: Slow, command: [sh, -c, '{slow}']}}\n"
    project = Project(tmp_path, {"w.yaml": f'version: "1.1"\n{steps}'})
    with started(project, "run", "w.yaml") as process:
        wait_until(
            lambda: bool(list(tmp_path.glob(".orchestrate/runs/latest/state.json"))), "start"
        )
        followed = project.run("logs", "latest", "Slow", "-f").assert_success()
        assert followed.stdout.splitlines() == [*(f"line {n}" for n in range(1, 6)), "end"]
        log = project.run("logs", "latest", "--follow").assert_success().stdout
        assert "run-ended status=completed" in log
        assert process.wait(60) == 0


def test_following_a_run_whose_process_was_killed_says_so(tmp_path: Path) -> None:
    steps = "steps:\n  - {name: Slow, command: [sh, -c, 'echo hi; touch begun; sleep 60']}\n"
    project = Project(tmp_path, {"w.yaml": f'version: "1.1"\n{steps}'})
    with started(project, "run", "w.yaml") as process:
        await_file(project, "begun")
        # That the program was begun is on record a moment later than it has begun.
        journal = project.folder / ".orchestrate" / "runs" / "latest" / "events.jsonl"
        wait_until(lambda: "step-started" in journal.read_text("utf-8"), "it was never told")
        process.kill()
        process.wait()
        for arguments in (("Slow",), ("--events",)):
            followed = project.run("logs", "latest", *arguments, "-f").assert_success()
            assert "is gone, and the run has not ended" in followed.stderr
        project.run("cancel", "latest").assert_success()


def test_the_log_has_numbers_and_no_python(tmp_path: Path) -> None:
    recipe = "name: r\ndescription: d\nversion: 1.0.0\nsteps: [{id: a, agent: x, prompt: Hi.}]\n"
    project = Project(tmp_path, {"r.yaml": recipe})
    project.write(".orchestrate/agents/x.md", "---\nname: x\n---\nYou help.\n")
    project.run("run", "r.yaml", "--backend", "rehearsal").assert_success()
    log = project.run("logs", "latest").assert_success().stdout
    assert " provider_ms=" in log
    assert "metrics" not in log
