"""`make demo`: a typo is caught, tests decide, a run is killed and goes on, a person approves.

Everything happens in a scratch folder that is removed at the end. No agent program, key or network
is needed: `demo/stand_in.py` answers in place of Claude Code.
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
version: "1.1"
name: write-and-test
steps:
  - name: Write
    provider: claude
    input_file: prompts/write.md
  - name: Test
    command: ["python3", "-m", "unittest", "-q", "test_slug"]
    output_capture: text
    on:
      success: {goto: Commit}
      failure: {goto: Repair}
  - name: Repair
    provider: claude
    input_file: prompts/repair.md
    on:
      success: {goto: Test}
  - name: Commit
    command: ["git", "commit", "--quiet", "--all", "--message", "Add slug()"]
"""
NOTES = """\
name: release-notes
description: Write the notes and let a person read them before they go out
version: "1.0.0"
stages:
  - name: write
    steps:
      - id: draft
        agent: writer
        prompt: Describe the change in one sentence.
        output: notes
    approval:
      required: true
      timeout: 3600
      prompt: "Publish this? {{notes}}"
  - name: publish
    steps:
      - id: publish
        agent: writer
        prompt: "Publish: {{notes}}"
"""
FILES = {
    "prompts/write.md": "Write slug(title) into slug.py.\n",
    "prompts/repair.md": "Repair slug.py: test_slug.py fails.\n",
    "slug.py": "",
    "test_slug.py": (
        "import unittest\n"
        "from slug import slug\n\n\n"
        "class Slugs(unittest.TestCase):\n"
        "    def test_it(self):\n"
        "        self.assertEqual(slug('Hello, World!'), 'hello-world')\n"
    ),
    ".orchestrate/agents/writer.md": "---\nname: writer\ndescription: writes\n---\nBe brief.\n",
    ".gitignore": ".orchestrate/runs/\n.orchestrate/locks/\n__pycache__/\ncalls.txt\n",
    "notes.yaml": NOTES,
}
_PATIENCE_S = 60.0


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
        [sys.executable, "-m", "orchestrate", *arguments], cwd=folder, check=False
    )
    if done.returncode != code:
        sys.exit(f"the demo broke: exit code {done.returncode}, not {code}")


def catch_typo(project: Path) -> None:
    say("A typo costs a fraction of a second, not an hour of agent time")
    (project / "loop.yaml").write_text(LOOP.replace("goto: Repair", "goto: Repiar"))
    orchestrate(project, "validate", "loop.yaml", code=2)
    (project / "loop.yaml").write_text(LOOP)
    orchestrate(project, "validate", "loop.yaml")


def kill_and_resume(project: Path) -> None:
    """An agent writes, the tests decide; killed in the repair with no chance to tidy up."""
    say("An agent writes, the tests decide. We kill the run (SIGKILL) while the agent repairs")
    print("$ orchestrate run loop.yaml", flush=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrate", "run", "loop.yaml"], cwd=project
    )
    calls = project / "calls.txt"
    give_up = time.monotonic() + _PATIENCE_S
    while time.monotonic() < give_up and process.poll() is None:
        if calls.exists() and "Repair" in calls.read_text():
            break
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    say("What is known about it now")
    orchestrate(project, "status", "latest")
    say("Go on: what was done is not done again, and the agent that still runs is adopted")
    orchestrate(project, "resume", "latest")
    made = calls.read_text().splitlines()
    print("\nThe agent's own ledger:", flush=True)
    print("".join(f"  {line}\n" for line in made), end="")
    if [line.split()[0] for line in made] != ["Write", "Repair"]:
        sys.exit("the demo broke: an agent's call was repeated or lost")
    print("Two calls, though the run was killed: nothing repeated, nothing lost.")


def approve(project: Path) -> None:
    say("A person decides: without a terminal the run parks (exit code 6) until one does")
    print("$ orchestrate run notes.yaml", flush=True)
    parked = subprocess.run(
        [sys.executable, "-m", "orchestrate", "run", "notes.yaml"],
        cwd=project, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if parked.returncode != 6:
        sys.exit(f"the demo broke: exit code {parked.returncode}, not 6")
    orchestrate(project, "approve", "latest", "--message", "good")
    orchestrate(project, "resume", "latest")


def report(project: Path) -> None:
    say("What it cost, and the report that tells the whole story (also as a page of HTML)")
    orchestrate(project, "status", "latest")
    orchestrate(project, "report", "latest", "--format", "md")


if __name__ == "__main__":
    sys.exit(main())
