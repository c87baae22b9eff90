"""A stage for machines: fake agents with sessions and a ledger, and what a run leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.fakes import Stage
from tests.machines.terminal import Terminal
from tests.programs import put_program
from tests.promises.processes import wait_until

_ACTING = Path(__file__).with_name("acting.py")
_VERSIONS = {"claude": "2.1.325 (Claude Code)", "codex": "codex-cli 0.166.0"}

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a fake agent, as it wrote it down itself."""

    program: str
    argv: list[str]
    prompt: str
    env: dict[str, str]
    cwd: str
    pid: int
    session: str
    is_new: bool
    model: str | None
    # How many turns the session had before, and whether nobody else was in it.
    earlier: int
    is_alone: bool
    # How many prompts the session was sent before, those that were never answered among them.
    heard: int


def said(outcome: str, words: str = "I have looked at it.", **more: Any) -> Line:
    """A well-formed answer with an outcome on its last line."""
    return {"text": f"{words}\n\n{json.dumps({'outcome': outcome})}", **more}


def other(why: str, **more: Any) -> Line:
    return {"text": json.dumps({"outcome": "other", "otherDescription": why}), **more}


def machine(steps: Mapping[str, Mapping[str, str]], head: str = "", name: str = "trial") -> str:
    """A recipe in few words: step to its outcomes, each with the next step or `!reason` to exit.

    `other` exits by itself; the key `model` is the step's model; `head` are more lines at the top.
    """
    lines = [f"id: {name}", f"label: {name}", "description: a trial", *head.splitlines()]
    lines += [f"initialStep: {next(iter(steps))}", "steps:"]
    for step, given in steps.items():
        targets = {key: value for key, value in given.items() if key not in ("model", "prompt")}
        targets = {**targets, "other": targets.get("other", "!user-provided-other")}
        lines += [f"  {step}:", f"    prompt: {json.dumps(given.get('prompt', f'Do {step}.'))}"]
        if "model" in given:
            lines.append(f"    model: {given['model']}")
        lines += [f"    outcomes: [{', '.join(targets)}]", "    onOutcome:"]
        lines += [f"      {outcome}: {_transition(target)}" for outcome, target in targets.items()]
    return "\n".join(lines) + "\n"


def _transition(target: str) -> str:
    if target.startswith("!"):
        return f"{{action: exit, reason: {target[1:]}}}"
    if target.startswith("@"):
        return f"{{action: restart-new-session, recipeId: {target[1:]}}}"
    return f"{{nextStep: {target}}}"


# Two steps in a row, which most tests can do with.
PAIR = machine({"first": {"done": "second"}, "second": {"done": "!all-done"}})
# A review that may send back to a fix.
ROUND = machine(
    {
        "review": {"fine": "!reviewed", "broken": "fix"},
        "fix": {"complete": "review"},
    }
)


class Scene(Stage):
    """A workspace in which the agents `claude` and `codex` are played by `acting.py`."""

    def __init__(self, top: Path, *lines: Line, program: str = "claude") -> None:
        super().__init__(top)
        for name in ("claude", "codex"):
            (top / f"{name}-home").mkdir()
            self.install(name)
        self.script(*lines, program=program)

    def install(self, program: str) -> None:
        folder = self.top / f"{program}-home"
        starter = self.top / "programs" / program
        put_program(starter, _ACTING, program, str(folder), version=_VERSIONS[program])

    @property
    def surroundings(self) -> dict[str, str]:
        programs = self.top / "programs"
        return {
            **super().surroundings,
            "CLAUDE_CLI_PATH": str(programs / "claude"),
            "CODEX_CLI_PATH": str(programs / "codex"),
        }

    def script(self, *lines: Line, program: str = "claude") -> None:
        """What the agent answers from its first call on, also if it has been called before."""
        self._put_script(program, lines)

    def script_by_prompt(self, lines: Mapping[str, Line], program: str = "claude") -> None:
        """What the agent answers to prompts that begin with these lines."""
        self._put_script(program, lines)

    def _put_script(self, program: str, script: object) -> None:
        (self.top / f"{program}-home" / "script.json").write_text(json.dumps(script), "utf-8")

    def know(self, session: str) -> None:
        """Let Claude Code have a session that nothing was said in yet."""
        folder = self.top / "claude-home" / "sessions"
        folder.mkdir(exist_ok=True)
        (folder / f"{session}.jsonl").touch()

    def ledger(self, program: str = "claude") -> list[Call]:
        path = self.top / f"{program}-home" / "ledger.jsonl"
        # The last line may just be written.
        lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
        return [Call(**json.loads(line)) for line in lines]

    def await_call(self, number: int, program: str = "claude") -> Call:
        """The call of that number, counted from 1, as soon as it was made."""
        wait_until(lambda: len(self.ledger(program)) >= number, f"no call {number} was made")
        return self.ledger(program)[number - 1]

    def let_go(self, name: str = "go", program: str = "claude") -> None:
        """Let an agent go on that waits for this."""
        (self.top / f"{program}-home" / name).touch()

    def history(self, session: str, program: str = "claude") -> list[dict[str, Any]]:
        """The session as the agent keeps it."""
        path = self.top / f"{program}-home" / "sessions" / f"{session}.jsonl"
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    def at_terminal(self, *arguments: str) -> Terminal:
        """A command with a terminal of its own."""
        return Terminal(
            arguments, self.folder, {**os.environ, **self.surroundings, "TERM": "xterm"}
        )

    @property
    def run_id(self) -> str:
        """The newest run."""
        return os.readlink(self.runs_folder / "latest")

    @property
    def events(self) -> list[dict[str, Any]]:
        """The journal of the newest run; its last line may just be written."""
        text = (self.runs_folder / "latest" / "events.jsonl").read_text("utf-8")
        return [json.loads(line)["event"] for line in text.split("\n")[:-1]]

    def happened(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["on"] == kind]


def git(folder: Path, *arguments: str) -> str:
    """Git with a name of its own and nobody's settings."""
    who = ("-c", "user.name=Tester", "-c", "user.email=tester@localhost")
    done = subprocess.run(
        ["git", *who, *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout
