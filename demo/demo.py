"""`make demo`: a recipe of the catalogue in rehearsal, then a run that is killed and goes on.

Everything happens in a scratch folder that is removed at the end. No agent program, key or network
is needed: the rehearsal answers in their place.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COUNT = """\
version: "1.1"
name: count-slowly
steps:
  - name: ListFiles
    command: ["find", "notes", "-name", "*.txt"]
    output_capture: lines
  - name: CountEach
    for_each:
      items_from: steps.ListFiles.lines
      as: file
      steps:
        - name: Count
          command: ["sh", "-c", "echo counting ${file} >> ledger.txt; sleep 0.4; wc -w < ${file}"]
          output_file: "counts/${loop.index}.txt"
  - name: Report
    command: ["sh", "-c", "cat counts/*.txt | paste -sd+ -"]
"""
FILES = 5
_PATIENCE_S = 60.0


def main() -> int:
    scratch = Path(tempfile.mkdtemp(prefix="orchestrate-demo-"))
    try:
        rehearse(scratch / "repository")
        kill_and_resume(scratch / "counting")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def orchestrate(folder: Path, *arguments: str, code: int = 0) -> None:
    """Run the real command where the user would see it; anything but `code` ends the demo."""
    print(f"$ orchestrate {' '.join(arguments)}", flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "orchestrate", *arguments], cwd=folder, check=False
    )
    if done.returncode != code:
        sys.exit(f"the demo broke: exit code {done.returncode}, not {code}")


def rehearse(repository: Path) -> None:
    """`review-and-commit` on a small git repository, with a fix round from a script."""
    repository.mkdir(parents=True)
    git = ["git", "-c", "user.name=demo", "-c", "user.email=demo@example.invalid"]
    subprocess.run([*git, "init", "-q"], cwd=repository, check=True)
    (repository / "hello.py").write_text('print("hello")\n')
    subprocess.run([*git, "add", "."], cwd=repository, check=True)
    subprocess.run([*git, "commit", "-qm", "Say hello"], cwd=repository, check=True)
    (repository / "hello.py").write_text('print("hello, world")\n')
    script = repository / "script.json"
    script.write_text(json.dumps({"code-review": ["issues-found", "no-issues"]}))
    say("Is the recipe valid?")
    orchestrate(repository, "validate", "review-and-commit")
    say("Run it in rehearsal: no agent is asked, the script finds issues once")
    orchestrate(
        repository, "run", "review-and-commit", "--backend", "rehearsal",
        "--script", "script.json", "--verbose",
    )  # fmt: skip


def kill_and_resume(folder: Path) -> None:
    """A workflow that really starts programs, killed half-way with no chance to tidy up."""
    notes = folder / "notes"
    notes.mkdir(parents=True)
    for number in range(FILES):
        (notes / f"{number}.txt").write_text("word " * (number + 1))
    (folder / "count.yaml").write_text(COUNT)
    say("Run a workflow, and kill it (SIGKILL) half-way")
    print("$ orchestrate run count.yaml", flush=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "orchestrate", "run", "count.yaml"], cwd=folder
    )
    ledger = folder / "ledger.txt"
    give_up = time.monotonic() + _PATIENCE_S
    while time.monotonic() < give_up and process.poll() is None:
        if ledger.exists() and len(ledger.read_text().splitlines()) >= FILES // 2 + 1:
            break
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    say("What is known about it now")
    orchestrate(folder, "status", "latest")
    say("Go on: what was done is not done again, what still runs is adopted")
    orchestrate(folder, "resume", "latest")
    lines = ledger.read_text().splitlines()
    print("\nThe ledger that the steps themselves wrote:", flush=True)
    print("".join(f"  {line}\n" for line in lines), end="")
    if len(lines) != FILES or len(set(lines)) != FILES:
        sys.exit("the demo broke: a step was repeated or lost")
    print(f"{FILES} files, {FILES} lines: nothing repeated, nothing lost.")


if __name__ == "__main__":
    sys.exit(main())
