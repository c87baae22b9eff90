"""A workshop for recipes: a workspace, and a fake `claude` with its answers and its ledger."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from textwrap import dedent
from typing import Any

from orchestrate.testing import Project, Result
from tests.acceptance.fakes import read_state
from tests.programs import put_program
from tests.promises.processes import is_alive, wait_until

FAKE_CLAUDE = Path(__file__).with_name("claude.py")
HEAD = "name: {name}\ndescription: A trial of ours\nversion: 1.2.3\n"
AGENT = "---\nname: {name}\ndescription: Helps\n---\nYou help.\n"


def recipe(body: str, name: str = "trial") -> str:
    """A recipe with its required fields; the body may be indented like the code around it."""
    return HEAD.format(name=name) + dedent(body).lstrip("\n")


def rule(when: str, *answers: str | dict[str, Any], **only: Any) -> dict[str, Any]:
    """Answers to prompts that contain a text, one per call; the last one is given again."""
    listed = [{"text": answer} if isinstance(answer, str) else answer for answer in answers]
    return {"when": when, "answers": listed or [only]}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the fake agent; `end` is None if it never came to its own end."""

    marker: str
    pid: int
    model: str
    argv: list[str]
    prompt: str | None
    size: int
    sha256: str
    attempt: str
    begin: float
    end: float | None

    def flag(self, name: str) -> str | None:
        """The value after a flag, or None."""
        if name in self.argv:
            return self.argv[self.argv.index(name) + 1]
        joined = (word for word in self.argv if word.startswith(f"{name}="))
        return next((word.partition("=")[2] for word in joined), None)

    @property
    def text(self) -> str:
        assert self.prompt is not None, "the prompt was too large for the ledger"
        return self.prompt


@dataclass(frozen=True, slots=True)
class Played:
    """What one run did: how the command ended, and the run's folder and state."""

    result: Result
    root: Path
    state: dict[str, Any]

    @property
    def run_id(self) -> str:
        return self.root.name

    @property
    def context(self) -> dict[str, Any]:
        found: dict[str, Any] = self.state["context"]
        return found

    def step(self, name: str) -> dict[str, Any]:
        found = self.state["steps"][name]
        assert isinstance(found, dict), f"{name} is a loop"
        return found

    def message(self, name: str) -> str:
        """Why a step failed."""
        return str(self.step(name)["error"]["message"])

    def skipped(self) -> dict[str, str]:
        return {skip["id"]: skip["reason"] for skip in self.state["skipped_steps"]}

    def stages(self) -> dict[str, str]:
        return {stage["name"]: stage["status"] for stage in self.state["stages"]}

    def events(self) -> list[dict[str, Any]]:
        lines = (self.root / "events.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line)["event"] for line in lines]


class Workshop(Project):
    """A workspace with an agent `helper` in it, and a fake `claude` that plays every agent."""

    def __init__(self, top: Path) -> None:
        self.top = top
        for folder in ("workspace", "home", "fake"):
            (top / folder).mkdir(exist_ok=True)
        super().__init__(top / "workspace")
        self.fake = top / "fake"
        self.answers()
        self.agent("helper")
        put_program(top / "claude", FAKE_CLAUDE, str(self.fake), version="2.1.325 (Claude Code)")

    @property
    def surroundings(self) -> dict[str, str]:
        """What is different for our commands: the fake is found, and nobody's settings count."""
        home = str(self.top / "home")
        return {
            "CLAUDE_CLI_PATH": str(self.top / "claude"),
            "HOME": home,
            "XDG_CONFIG_HOME": f"{home}/config",
            "XDG_STATE_HOME": f"{home}/state",
        }

    def agent(self, name: str, text: str | None = None, place: str = ".orchestrate/agents") -> None:
        """An agent's definition; `ns:name` is a file in a folder."""
        path = name.replace(":", "/")
        self.write(f"{place}/{path}.md", AGENT.format(name=name) if text is None else text)

    def answers(self, *rules: dict[str, Any]) -> None:
        """What the fake says from now on."""
        (self.fake / "answers.json").write_text(json.dumps(rules), "utf-8")

    # Running.

    def play(
        self,
        text: str,
        *flags: str,
        exit_code: int = 0,
        rules: tuple[dict[str, Any], ...] = (),
        env: Mapping[str, str] | None = None,
    ) -> Played:
        """Write a recipe, run it, and read what it left; the exit code must be the given one."""
        if rules:
            self.answers(*rules)
        self.write("r.yaml", text)
        return self.look(self.run("run", "r.yaml", *flags, env=env).assert_exit(exit_code))

    def go_on(self, *arguments: str, exit_code: int = 0) -> Played:
        """`resume` the newest run, or what the arguments say."""
        words = arguments or ("resume", "latest")
        return self.look(self.run(*words).assert_exit(exit_code))

    def refuse(self, text: str, *flags: str, exit_code: int = 5) -> Result:
        """A recipe that must not begin: no agent is asked and no run is recorded."""
        self.write("r.yaml", text)
        result = self.run("run", "r.yaml", *flags).assert_exit(exit_code)
        assert not self.calls(), "an agent was asked"
        assert not (self.runs_folder / "latest").is_symlink(), "a run was recorded"
        return result

    def started(self, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
        """A command in the background; what is left of it at the end is killed."""
        return self.background(*arguments)

    # Looking.

    @property
    def runs_folder(self) -> Path:
        return self.folder / ".orchestrate" / "runs"

    @property
    def latest(self) -> Path:
        return self.runs_folder / os.readlink(self.runs_folder / "latest")

    def look(self, result: Result) -> Played:
        """The newest run as its folder shows it."""
        return Played(result, self.latest, read_state(self.latest))

    def ledger(self) -> list[dict[str, Any]]:
        path = self.fake / "ledger"
        lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def calls(self, marker: str | None = None) -> list[Call]:
        """The calls of the agent in the order they began, all or those with a marker."""
        lines = self.ledger()
        ends = {line["pid"]: line["at"] for line in lines if line["kind"] == "end"}
        return [
            Call(
                marker=line["marker"],
                pid=line["pid"],
                model=line["model"],
                argv=line["argv"],
                prompt=line["prompt"],
                size=line["size"],
                sha256=line["sha256"] or sha256(line["prompt"].encode()).hexdigest(),
                attempt=line["attempt"],
                begin=line["at"],
                end=ends.get(line["pid"]),
            )
            for line in lines
            if line["kind"] == "start" and marker in (None, line["marker"])
        ]

    def asked(self) -> list[str]:
        """The markers of all calls in the order they began."""
        return [call.marker for call in self.calls()]

    def prompt(self, marker: str) -> str:
        """What the one call with a marker was asked."""
        (call,) = self.calls(marker)
        return call.text

    def await_calls(self, number: int, marker: str | None = None) -> list[Call]:
        """Wait until the agent has been called so often."""
        wait_until(lambda: len(self.calls(marker)) >= number, f"no {number} calls of {marker}")
        return self.calls(marker)

    def await_events(self, name: str, number: int) -> None:
        """Wait until the newest run has recorded so many events of a kind."""

        def has_them() -> bool:
            lines = (self.latest / "events.jsonl").read_text("utf-8").split("\n")[:-1]
            return [json.loads(line)["event"]["on"] for line in lines].count(name) >= number

        wait_until(has_them, f"no {number} events {name}")

    def await_gone(self, pids: list[int]) -> None:
        wait_until(lambda: not any(map(is_alive, pids)), "an agent survived")


def most_at_once(calls: list[Call]) -> int:
    """How many of the calls were at work at the same time."""
    moments = [(call.begin, 1) for call in calls]
    moments += [(call.end, -1) for call in calls if call.end is not None]
    at_once = most = 0
    for _, change in sorted(moments):
        at_once += change
        most = max(most, at_once)
    return most
