"""Runs that are copied, robbed of files, nested or lost: a ledger outside of them is the judge.

`work KEY` is a program that notes its start and its end in the ledger; in between it waits until
somebody makes the file `go`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from orchestrate.testing import Project, Result
from tests.promises.processes import is_alive, keepers_in, wait_until
from tests.recipes.fakes import Workshop, recipe

DIALECTS = ("workflow", "machine", "recipe")
WORK = """\
#!/bin/sh
echo "start $1 $$ ${ORCHESTRATE_ATTEMPT#*:}" >> '{top}/ledger'
if [ -n "$2" ]; then eval "$2"; fi
until [ -e '{top}/go' ]; do sleep 0.02; done
echo "end $1 $$ ${ORCHESTRATE_ATTEMPT#*:}" >> '{top}/ledger'
"""
# An agent as Claude Code answers, once its work is done.
CLAUDE = """\
#!/bin/sh
case "$1" in --version) echo '2.1.0 (Claude Code)'; exit;; esac
session=$(printf '%s\\n' "$@" | grep -A1 -e '--session-id' -e '--resume' | tail -1)
cat > /dev/null
echo "session $session $$ -" >> '{top}/ledger'
echo '{{"type":"system","subtype":"init","session_id":"'$session'"}}'
'{top}/work' agent "$(cat '{top}/deed' 2>/dev/null)" || exit
answer='"{{\\"outcome\\": \\"done\\"}}"'
echo '{{"type":"result","subtype":"success","is_error":false,"result":'"$answer"\\
',"session_id":"'$session'","total_cost_usd":0.01}}'
"""
WORKFLOW = """
version: "1.1"
name: w
steps:
  - name: A
    command: ["true"]
  - name: B
    command: ["{work}", B{deed}]
    {more}
  - name: C
    command: [sh, -c, "echo start C >> {top}/ledger"]
"""
MACHINE = """
id: m
label: M
description: One long step
initialStep: b
steps:
  b:
    prompt: STEP b
    outcomes: [done, other]
    {more}
    onOutcome: {{done: {{action: exit, reason: ok}}, other: {{action: exit, reason: other}}}}
"""
RECIPE = 'steps: [{{id: b, agent: helper, prompt: "STEP b", {more}}}]'


class Place(Workshop):
    """A workspace with one run whose long step is a command or an agent."""

    def __init__(self, top: Path, dialect: str, more: str = "", deed: str = "") -> None:
        super().__init__(top)
        self.dialect = dialect
        self.book = top / "ledger"
        self.book.touch()
        self._script("work", WORK.replace("{top}", str(top)))
        self._script("claude", CLAUDE.format(top=top))
        if deed and dialect != "workflow":
            (top / "deed").write_text(deed)
        words = f", {json.dumps(deed)}" if deed else ""
        text = {"workflow": WORKFLOW, "machine": MACHINE, "recipe": recipe(RECIPE)}[dialect]
        if dialect == "machine" and more:
            more = more.replace("on_lost", "onLost")
        filled = text.format(top=top, work=top / "work", more=more, deed=words)
        self.write("w.yaml", filled)

    def _script(self, name: str, text: str) -> None:
        path = self.top / name
        path.write_text(text, "utf-8")
        path.chmod(0o755)

    @property
    def key(self) -> str:
        return "B" if self.dialect == "workflow" else "agent"

    @property
    def step(self) -> str:
        return "B" if self.dialect == "workflow" else "b"

    def lines(self, kind: str = "") -> list[list[str]]:
        found = [line.split() for line in self.book.read_text("utf-8").split("\n")[:-1]]
        return [words for words in found if not kind or words[0] == kind]

    def starts(self) -> list[int]:
        """The numbers of the processes that the long step has started."""
        return [int(words[2]) for words in self.lines("start") if words[1] == self.key]

    def ends(self) -> list[int]:
        return [int(words[2]) for words in self.lines("end") if words[1] == self.key]

    def sessions(self) -> list[str]:
        return [words[1] for words in self.lines("session")]

    def await_starts(self, number: int, process: subprocess.Popen[str] | None = None) -> int:
        """The process of the long step's so many-th start, which a command is to bring about."""

        def is_so() -> bool:
            is_over = process is not None and process.poll() is not None
            assert not is_over or len(self.starts()) >= number, process and process.communicate()
            return len(self.starts()) >= number

        wait_until(is_so, f"start {number} never came", 120.0)
        return self.starts()[number - 1]

    def go(self) -> None:
        (self.top / "go").touch()

    def at(self, folder: Path, *arguments: str, timeout_s: float = 60) -> Result:
        """A command in another folder than the workspace."""
        return Project(folder).run(*arguments, env=self.surroundings, timeout_s=timeout_s)

    def started_at(
        self, folder: Path, *arguments: str
    ) -> AbstractContextManager[subprocess.Popen[str]]:
        return Project(folder).background(*arguments, env=self.surroundings)

    def _has_announced(self) -> bool:
        told = [e for e in self.events() if e["on"] == "step-started"]
        return any(event["node"] == self.step for event in told)

    def kill_orchestrator(self) -> int:
        """Start the run, kill its orchestrator at the long step; the step's process."""
        with self.started("run", "w.yaml") as process:
            pid = self.await_starts(1, process)
            # What happened before is written while the step starts (ADR 0017).
            wait_until(self._has_announced, "the long step was not announced")
            process.kill()
            process.wait()
        return pid

    def root(self, folder: Path | None = None) -> Path:
        return ((folder or self.folder) / ".orchestrate" / "runs" / "latest").resolve()

    def status(self, folder: Path | None = None) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root(folder) / "state.json").read_bytes())
        return found

    def events(self, folder: Path | None = None) -> list[dict[str, Any]]:
        """The journal; its last line may just be written."""
        text = (self.root(folder) / "events.jsonl").read_text("utf-8")
        return [json.loads(line)["event"] for line in text.split("\n")[:-1]]

    def lost(self, folder: Path | None = None) -> int:
        return sum(event.get("why") == "lost" for event in self.events(folder))

    def step_result(self, folder: Path | None = None) -> dict[str, Any]:
        found: dict[str, Any] = self.status(folder)["steps"][self.step]
        return found


def kill_helpers(folder: Path) -> None:
    """The keeper, its guardian and its wardens, at once: none may act on another's end."""
    helpers = keepers_in(folder)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in helpers:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
    wait_until(lambda: not any(map(is_alive, helpers)), "a helper does not die")
