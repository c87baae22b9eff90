"""`make demo`: the loop that everybody wants, in two minutes and without an agent program or a key.

An agent implements, the tests decide, what failed goes back to the same session, a person approves,
the agent commits; on the way a typo is caught, and the run is killed and goes on. Everything
happens in a scratch folder that is removed at the end; `demo/stand_in.py` answers in place of
Claude Code.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LOOP = """\
id: build-it
label: Build it
description: Implement a task, prove it with the tests, ask, commit
inputs: {task: {description: What to build}}
limits: {cost_usd: 5, time: 2h}
initialStep: implement
steps:
  implement:
    prompt: "Implement this: {{task}}"
    check: {command: [python3, -m, unittest, -q, test_slug], rounds: 3}
    outcomes: [complete, check-failed, other]
    onOutcome:
      complete: {nextStep: approve}
      check-failed: {action: exit, reason: tests-still-fail, status: failed}
      other: {action: exit, reason: user-provided-other, status: failed}
  approve:
    approval: {prompt: "Commit this?", timeout: 24h, default: deny}
    onOutcome:
      approved: {nextStep: commit}
      denied: {action: exit, reason: denied, status: failed}
  commit:
    prompt: Commit the changes with a clear message.
    model: haiku
    outcomes: [committed, other]
    onOutcome:
      committed: {action: exit, reason: changes-committed}
      other: {action: exit, reason: user-provided-other, status: failed}
"""
FILES = {
    "slug.py": "",
    "test_slug.py": (
        "import unittest\n"
        "from slug import slug\n\n\n"
        "class Slugs(unittest.TestCase):\n"
        "    def test_it(self):\n"
        "        self.assertEqual(slug('Hello, World!'), 'hello-world')\n"
    ),
    ".gitignore": ".orchestrate/runs/\n.orchestrate/locks/\n__pycache__/\ncalls.txt\nbuild.yaml\n",
}
TASK = "slug(title) in slug.py"
_PATIENCE_S = 60.0
_SHOWN_OF_REPORT = 14


def main() -> int:
    scratch = Path(tempfile.mkdtemp(prefix="orchestrate-demo-"))
    try:
        project = make_project(scratch)
        catch_typo(project)
        kill_and_resume(project)
        approve(project)
        report(project)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


def make_project(scratch: Path) -> Path:
    """A git repository with a failing test, and a stand-in for Claude Code on the PATH."""
    programs = scratch / "bin"
    programs.mkdir()
    stand_in = Path(__file__).parent / "stand_in.py"
    start = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(stand_in))} "$@"\n'
    (programs / "claude").write_text(start)
    (programs / "claude").chmod(0o755)
    os.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
    project = scratch / "project"
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        os.environ |= {f"{name}_NAME": "demo", f"{name}_EMAIL": "demo@example.invalid"}
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "Begin"]):
        subprocess.run(["git", *words], cwd=project, check=True)
    return project


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def orchestrate(folder: Path, *arguments: str, code: int = 0) -> None:
    """Run the real command where the user would see it; anything but `code` ends the demo."""
    print(f"$ orchestrate {shlex.join(arguments)}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "orchestrate", *arguments],
        cwd=folder, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode != code:
        sys.exit(f"the demo broke: exit code {done.returncode}, not {code}")


def catch_typo(project: Path) -> None:
    say("A typo costs a fraction of a second, not an hour of agent time")
    (project / "build.yaml").write_text(LOOP.replace("nextStep: approve", "nextStep: aprove"))
    orchestrate(project, "validate", "build.yaml", code=1)
    (project / "build.yaml").write_text(LOOP)
    say("Every route can be rehearsed, without an agent, a command or a change")
    orchestrate(project, "run", "build.yaml", TASK, "--backend", "rehearsal", "--cover")


def kill_and_resume(project: Path) -> None:
    """An agent writes, the tests decide; killed in the repair with no chance to tidy up."""
    say("An agent implements, the tests decide. We kill the run (SIGKILL) while it mends its bug")
    print(f"$ orchestrate run build.yaml {shlex.quote(TASK)} --verbose", flush=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrate", "run", "build.yaml", TASK, "--verbose"],
        cwd=project,
    )
    calls = project / "calls.txt"
    give_up = time.monotonic() + _PATIENCE_S
    while time.monotonic() < give_up and process.poll() is None:
        if calls.exists() and "mend" in calls.read_text():
            break
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    say("What is known about it now")
    orchestrate(project, "status")
    (project / "looked").touch()
    say("Go on: nothing is done again, the agent that still runs is adopted; a person is asked")
    orchestrate(project, "resume", code=6)


def approve(project: Path) -> None:
    say("The run is parked (exit code 6), and nothing runs, until somebody decides")
    orchestrate(project, "approve", "--message", "good")
    orchestrate(project, "resume")
    made = (project / "calls.txt").read_text().splitlines()
    print("\nThe agent's own ledger:", flush=True)
    print("".join(f"  {line}\n" for line in made), end="")
    if [line.split()[0] for line in made] != ["implement", "mend", "commit"]:
        sys.exit("the demo broke: an agent's call was repeated or lost")
    if len({line.split()[-1] for line in made}) != 1:
        sys.exit("the demo broke: what failed did not go back to the same session")
    print("Three calls in one session, though the run was killed: nothing repeated, nothing lost.")
    subprocess.run(["git", "--no-pager", "log", "--oneline"], cwd=project, check=True)


def report(project: Path) -> None:
    say("What it cost, and the report that tells the whole story (also as a page of HTML)")
    orchestrate(project, "status")
    orchestrate(project, "report", "--format", "md", "--output", "report.md")
    lines = (project / "report.md").read_text().splitlines()
    print("\n".join(lines[:_SHOWN_OF_REPORT]))
    print(f"... and {len(lines) - _SHOWN_OF_REPORT} lines more: each prompt, answer and check")


if __name__ == "__main__":
    sys.exit(main())
