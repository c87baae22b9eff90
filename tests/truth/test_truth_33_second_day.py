"""33: what a new user stumbled over on the second day."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from tests.acceptance.fakes import Stage
from tests.gates import waiting_at
from tests.machines.fakes import PAIR, Scene, said

WORKFLOW = """
    version: "1.1"
    name: w
    steps:
      - {name: A, command: [printf, "no line break"]}
"""
# A command that reads a pipe to its end, which the writer finds open.
READER = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"


def finished(top: Path) -> Stage:
    stage = Stage(top)
    stage.write("w.yaml", WORKFLOW)
    stage.run("run", "w.yaml").assert_success()
    return stage


def writing(stage: Stage, kind: str, place: str) -> tuple[str, ...]:
    """A command that writes a file where the user says."""
    if kind == "report":
        return "report", "latest", "-o", place
    stage.write("processed/task.txt", "done")
    return "run", "w.yaml", "--archive-processed", place


def is_whole(kind: str, content: bytes) -> bool:
    if kind == "report":
        return content.endswith(b"</html>\n")
    return zipfile.ZipFile(BytesIO(content)).namelist() == ["task.txt"]


@pytest.mark.parametrize("kind", ["report", "archive"])
def test_truth_33_a_pipe_is_written_into_and_stays(tmp_path: Path, kind: str) -> None:
    stage = finished(tmp_path)
    pipe = stage.folder / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-c", READER, pipe], stdout=subprocess.PIPE) as reader:
        try:
            stage.run(*writing(stage, kind, "pipe")).assert_success()
            content, _ = reader.communicate(timeout=60)
        finally:
            reader.kill()
    assert is_whole(kind, content)
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)


@pytest.mark.parametrize("kind", ["report", "archive"])
@pytest.mark.parametrize("is_there", [True, False])
def test_truth_33_a_link_stays_and_its_target_is_written(
    tmp_path: Path, kind: str, is_there: bool
) -> None:
    stage = finished(tmp_path)
    target = tmp_path / "elsewhere" / "target"
    target.parent.mkdir()
    if is_there:
        target.write_text("old")
    (stage.folder / "link").symlink_to(target)
    stage.run(*writing(stage, kind, "link")).assert_success()
    assert (stage.folder / "link").is_symlink()
    assert is_whole(kind, target.read_bytes())
    assert os.listdir(target.parent) == ["target"]


@pytest.mark.parametrize("kind", ["report", "archive"])
def test_truth_33_a_full_device_is_told_and_stays(tmp_path: Path, kind: str) -> None:
    stage = finished(tmp_path)
    # Through a link, so that a fault in our code cannot replace the machine's own device.
    (stage.folder / "full").symlink_to("/dev/full")
    result = stage.run(*writing(stage, kind, "full")).assert_exit(5)
    assert "full: No space left on device" in result.stderr
    assert (stage.folder / "full").is_symlink()
    assert stat.S_ISCHR(os.stat(stage.folder / "full").st_mode)


def test_truth_33_a_report_goes_to_what_is_open_already(tmp_path: Path) -> None:
    stage = finished(tmp_path)
    shown = stage.run("report", "latest", "-o", "/dev/stdout").assert_success().stdout
    assert is_whole("report", shown.encode())


PLACE = ("--working-dir", "a b", "--state-dir", "my runs")
SHOWN = "--working-dir 'a b' --state-dir 'my runs'"
FAILS = WORKFLOW.replace('[printf, "no line break"]', '["false"]')
GATED = """
    name: gated
    description: two stages and a gate
    version: 1.0.0
    stages:
      - {name: one, steps: [{id: a, agent: helper, prompt: Do a}],
         approval: {required: true, timeout: 600, prompt: "Go on?"}}
      - {name: two, steps: [{id: b, agent: helper, prompt: Do b}]}
"""
HELPER = "---\nname: helper\ndescription: helps\n---\nHelp.\n"


def gated(top: Path, folder: str = ".") -> Stage:
    stage = Stage(top)
    stage.write(f"{folder}/r.yaml", GATED)
    stage.write(f"{folder}/.orchestrate/agents/helper.md", HELPER)
    return stage


def test_truth_33_advised_commands_repeat_where_the_runs_are(tmp_path: Path) -> None:
    stage = gated(tmp_path, "a b")
    stage.write("a b/w.yaml", FAILS)
    failed = stage.run("run", "a b/w.yaml", *PLACE).assert_exit(1).stderr
    advised = [line for line in failed.splitlines() if line.startswith(("  look:", "  go on:"))]
    assert len(advised) == 2
    assert all(line.endswith(SHOWN) for line in advised)
    again = stage.run("resume", "latest", *PLACE).assert_exit(1).stderr
    assert [line for line in again.splitlines() if "  go on:" in line] == advised[1:]
    flags = (*PLACE, *waiting_at(stage, "one"))
    parked = stage.run("run", "a b/r.yaml", *flags).assert_exit(6).stderr
    for verb in ("approve", "deny"):
        (line,) = [line for line in parked.splitlines() if line.startswith(f"  {verb}:")]
        assert line.endswith(SHOWN)
    report = stage.run("report", "latest", "--format", "md", *PLACE).assert_success()
    assert f"STEP {SHOWN}" in report.stdout


def test_truth_33_notifications_name_the_folders_from_anywhere(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.write("w.yaml", FAILS)
    told = tmp_path / "told.json"
    entry = f"{{on: [failed], command: [sh, -c, 'cat > {told}']}}"
    stage.write(".orchestrate/config.yaml", f"notifications: [{entry}]\n")
    stage.run("run", "w.yaml", "--state-dir", "my runs").assert_exit(1)
    for command in json.loads(told.read_text())["next"]:
        assert command.endswith(f"--state-dir '{stage.folder}/my runs'")


def test_truth_33_nobody_takes_over_a_session_that_an_agent_works_in(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), said("done", wait_for="go"))
    with scene.started(PAIR) as process:
        scene.await_call(2)
        process.kill()
        process.wait(60)
        view = json.loads(scene.run("status", "latest", "--json").stdout)
        assert view["programs_left"]
        assert "takeover" not in view
        scene.let_go()
    scene.run("resume", "latest").assert_success()
    view = json.loads(scene.run("status", "latest", "--json").stdout)
    assert "takeover" in view


def test_truth_33_doctor_names_recipes_that_exist(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    found = json.loads(stage.run("doctor", "--json", env={"PATH": "/nowhere"}).stdout)
    (detail,) = [f["detail"] for f in found["findings"] if f["name"] == "bd"]
    named = detail.partition("needed by ")[2].split(", ")
    known = {r["id"] for r in json.loads(stage.run("list", "--json").stdout)["recipes"]}
    assert "review-and-commit" in named
    assert set(named) <= known


@pytest.mark.parametrize("since", ["2h", "2h ago", "1.5 d ago"])
def test_truth_33_since_takes_what_its_help_shows(tmp_path: Path, since: str) -> None:
    stage = finished(tmp_path)
    assert "w.yaml" in stage.run("runs", "--since", since).assert_success().stdout
    assert stage.run("logs", "--since", since).assert_success().stdout


def test_truth_33_json_is_honoured_behind_a_bad_flag(tmp_path: Path) -> None:
    result = Stage(tmp_path).run("run", "m.yaml", "--bogus", "--json").assert_exit(2)
    assert "--bogus" in json.loads(result.stdout)["error"]["message"]
    plain = Stage(tmp_path).run("run", "m.yaml", "--bogus", "--", "--json").assert_exit(2)
    assert plain.stdout == ""


def test_truth_33_each_part_of_the_logs_ends_its_line(tmp_path: Path) -> None:
    stage = finished(tmp_path)
    assert stage.run("logs", "latest", "A").stdout == "no line break\n"
    assert stage.run("logs", "latest", "A", "--all").stdout.endswith("\nno line break\n")
    assert stage.run("logs", "latest", "A", "--raw").stdout == "no line break"
    assert stage.run("logs", "latest", "A", "-f").stdout == "no line break\n"
    assert stage.run("logs", "latest", "A", "-f", "--raw").stdout == "no line break"
    assert stage.run("logs", "latest").stdout.endswith("\n")


def test_truth_33_prompts_of_a_loop_stand_apart(tmp_path: Path) -> None:
    stage = gated(tmp_path)
    each = "{id: each, foreach: '{{xs}}', as: x, agent: helper, prompt: 'Do {{x}}'}"
    head = "name: loop\ndescription: a loop\nversion: 1.0.0\n"
    stage.write("r.yaml", f"{head}context: {{xs: [a, b]}}\nsteps: [{each}]\n")
    stage.run("run", "r.yaml", "--backend", "rehearsal").assert_success()
    shown = stage.run("logs", "latest", "each[*]", "--prompt").stdout.splitlines()
    assert len([line for line in shown if line.startswith("--- prompt of each[")]) == 2


def test_truth_33_hints_can_be_followed(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    nothing = stage.run("status", "latest").assert_exit(2).stderr
    assert "orchestrate run FILE" in nothing
    stage.write("w.yaml", WORKFLOW)
    missing = stage.run("run", "v.yaml").assert_exit(2).stderr
    assert "did you mean 'w.yaml'?" in missing


def test_truth_33_an_edited_definition_is_resumed_as_started(tmp_path: Path) -> None:
    stage = gated(tmp_path)
    stage.run("run", "r.yaml", *waiting_at(stage, "one")).assert_exit(6)
    stage.write("r.yaml", GATED.replace("Do b", "Do c"))
    approved = stage.run("approve", "latest").assert_success().stdout
    assert approved.rstrip().endswith("--as-started")
    view = json.loads(stage.run("status", "latest", "--json").stdout)
    (command,) = view["next"]
    refused = stage.run("resume", "latest").assert_exit(2).stderr
    assert "--force-restart" in refused
    (stage.folder / "r.yaml").unlink()
    refused = stage.run("resume", "latest").assert_exit(2).stderr
    assert "--as-started" in refused
    assert "--force-restart" not in refused
    stage.run(*shlex.split(command)[1:]).assert_success()


def test_truth_33_hints_of_errors_repeat_where_the_runs_are(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.write("a b/w.yaml", WORKFLOW)
    stage.run("run", "a b/w.yaml", *PLACE).assert_success()
    (root,) = (stage.folder / "my runs").glob("2*")
    for name in ("events.jsonl", "state.json"):
        (root / name).write_text("{}\n")
    for flags in (PLACE, (*PLACE, "--json"), ("--working-dir=a b", "--state-dir=my runs")):
        said = stage.run("resume", root.name, *flags).assert_exit(5).stderr
        assert f"orchestrate resume {root.name} --repair {SHOWN}" in said
