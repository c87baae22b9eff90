"""A stage for whole runs: a workspace, fake programs on its PATH, and what a run leaves behind."""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

from orchestrate.testing import Project, Result
from tests.programs import put_program
from tests.promises.processes import wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
RUN_ID = re.compile(r"\d{8}T\d{6}Z-[a-z0-9]{6}")

# Every fake program first writes down how it was called; what follows is the test's own Python.
# There, `prompt` is standard input, and `number` counts the calls from 1.
_OPENING = """
import fcntl, json, os, sys, time
argv, prompt = sys.argv[1:], sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
with open({calls!r}, "a+") as _calls:
    # Others that run beside it must not read half of this line: it has the whole environment.
    fcntl.flock(_calls, fcntl.LOCK_EX)
    _call = dict(argv=argv, stdin=prompt, env=dict(os.environ), at=time.monotonic())
    _calls.write(json.dumps(_call) + chr(10))
    _calls.seek(0)
    number = sum(json.loads(_line)["argv"] != ["--version"] for _line in _calls)
"""

# `claude` as far as we use it: the prompt is an argument or standard input; the answer is text,
# one JSON object, or a stream of JSON lines. The test's part defines `answer(prompt) -> str`.
_CLAUDE = """
def after(flag, default=""):
    place = argv.index(flag) + 1 if flag in argv else len(argv)
    return argv[place] if place < len(argv) and not argv[place].startswith("-") else default
text = answer(after("-p") or prompt)
session = after("--session-id") or after("--resume") or "5f0c7d3e-0000-4000-8000-000000000000"
init = dict(type="system", subtype="init", session_id=session, model="fake", tools=[])
said = dict(role="assistant", content=[dict(type="text", text=text)])
result = dict(
    type="result", subtype="success", is_error=False, result=text, session_id=session,
    num_turns=1, total_cost_usd=0.01, usage=dict(input_tokens=10, output_tokens=5),
)
shape = after("--output-format", "text")
if shape == "text":
    print(text)
elif shape == "stream-json":
    for line in (init, dict(type="assistant", message=said, session_id=session), result):
        print(json.dumps(line), flush=True)
else:
    print(json.dumps([init, result] if "--verbose" in argv else result))
"""


@dataclass(frozen=True, slots=True)
class Call:
    """How a fake program was called."""

    argv: list[str]
    stdin: str
    env: dict[str, str]
    at: float


@dataclass(frozen=True, slots=True)
class Played:
    """What one run did: how the command ended, and the run's folder and state."""

    result: Result
    root: Path
    state: dict[str, Any]

    def step(self, name: str) -> dict[str, Any]:
        """The result of a step that stands outside loops."""
        found = self.state["steps"][name]
        assert isinstance(found, dict), f"{name} is a loop"
        return found

    def loop(self, name: str) -> list[dict[str, Any]]:
        """A loop's results, one map per item."""
        found = self.state["steps"][name]
        assert isinstance(found, list), f"{name} is no loop"
        return found

    def log(self, name: str) -> str:
        return (self.root / "logs" / name).read_text("utf-8")

    def has_log(self, name: str) -> bool:
        return (self.root / "logs" / name).exists()


class Stage(Project):
    """A workspace with fake programs on its PATH and a home of its own."""

    def __init__(self, top: Path, files: Mapping[str, str] | None = None) -> None:
        self.top = top
        for folder in ("workspace", "programs", "home"):
            (top / folder).mkdir(exist_ok=True)
        super().__init__(top / "workspace", files)

    @property
    def surroundings(self) -> dict[str, str]:
        """What is different for our commands: fakes come first, and nobody's settings count."""
        home = str(self.top / "home")
        return {
            "PATH": f"{self.top / 'programs'}{os.pathsep}{os.environ['PATH']}",
            "HOME": home,
            "XDG_CONFIG_HOME": f"{home}/config",
            "XDG_STATE_HOME": f"{home}/state",
        }

    def program(self, name: str, body: str = "", version: str = "") -> None:
        """A program on the PATH that records its calls and then does what the body says."""
        script = self.top / f"{name}.py"
        opening = _OPENING.format(calls=str(self.top / f"{name}.calls"))
        # Python starts in half the time without it.
        more = "import pathlib\n" if "pathlib" in body else ""
        script.write_text(opening + more + dedent(body), "utf-8")
        put_program(self.top / "programs" / name, script, version=version)

    def claude(self, body: str) -> None:
        """A fake `claude`; the body defines `answer(prompt)`, which may write files."""
        self.program("claude", dedent(body) + _CLAUDE, version="2.1.325 (Claude Code)")

    def calls(self, name: str) -> list[Call]:
        """The calls of a fake program so far, oldest first; asking for its version is none."""
        path = self.top / f"{name}.calls"
        # The last line may just be written.
        lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
        calls = [Call(**json.loads(line)) for line in lines]
        return [call for call in calls if call.argv != ["--version"]]

    def recorder(self, name: str) -> None:
        """A program that only writes its arguments down; it starts faster than `program`."""
        starter = self.top / "programs" / name
        place = shlex.quote(str(self.top / f"{name}.words"))
        starter.write_text(f'#!/bin/sh\nprintf "%s\\0" $# "$@" >> {place}\n', "utf-8")
        starter.chmod(0o755)

    def words(self, name: str) -> list[list[str]]:
        """The arguments of each call of a `recorder`, byte for byte."""
        path = self.top / f"{name}.words"
        words = iter(path.read_bytes().decode().split("\0")[:-1] if path.exists() else [])
        return [[next(words) for _ in range(int(count))] for count in words]

    def play(
        self,
        workflow: str,
        *flags: str,
        exit_code: int = 0,
        env: Mapping[str, str] | None = None,
        name: str = "w.yaml",
    ) -> Played:
        """Write a workflow, run it, and read what it left; the exit code must be the given one."""
        self.write(name, workflow)
        result = self.run("run", name, *flags, env=env).assert_exit(exit_code)
        return self.look(result)

    def look(self, result: Result) -> Played:
        """The newest run as its folder shows it."""
        root = self.runs_folder / os.readlink(self.runs_folder / "latest")
        return Played(result, root, read_state(root))

    @property
    def runs_folder(self) -> Path:
        return self.folder / ".orchestrate" / "runs"

    def has_runs(self) -> bool:
        """Did any run begin?"""
        return self.runs_folder.exists() and any(map(RUN_ID.match, os.listdir(self.runs_folder)))

    def refuse(self, workflow: str, *flags: str, exit_code: int = 2) -> Result:
        """A run that must not begin: nothing starts and nothing is recorded."""
        self.write("w.yaml", workflow)
        result = self.run("run", "w.yaml", *flags).assert_exit(exit_code)
        assert not self.has_runs(), "a run was recorded"
        assert not (self.folder / "started").exists(), "a step was started"
        return result

    def snapshot(self) -> list[str]:
        """The paths of the workspace, without the runs."""
        return sorted(
            path.relative_to(self.folder).as_posix()
            for path in self.folder.rglob("*")
            if ".orchestrate" not in path.relative_to(self.folder).parts
        )

    def started(self, workflow: str, *flags: str) -> AbstractContextManager[subprocess.Popen[str]]:
        """A run in the background; whatever is left of the command at the end is killed."""
        self.write("w.yaml", workflow)
        return self.command("run", "w.yaml", *flags)

    def command(self, *arguments: str) -> AbstractContextManager[subprocess.Popen[str]]:
        """Any command in the background; whatever is left of it at the end is killed."""
        return self.background(*arguments)

    @contextmanager
    def once_started(self, act: Callable[[], None]) -> Iterator[None]:
        """Do something beside a run, as soon as one of its steps has made the file `started`."""
        is_over = threading.Event()

        def watch() -> None:
            while not (self.folder / "started").exists():
                if is_over.wait(0.01):
                    return
            act()

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield
        finally:
            is_over.set()
            watcher.join()

    def await_file(self, name: str) -> None:
        wait_until((self.folder / name).exists, f"{name} never appeared")


@functools.cache
def _state_check() -> Any:
    from jsonschema import Draft202012Validator

    schema = json.loads((REPOSITORY / "schemas/state.schema.json").read_text("utf-8"))
    return Draft202012Validator(schema)


def read_state(root: Path) -> dict[str, Any]:
    """A run's state.json, which always fits its published schema."""
    state: dict[str, Any] = json.loads((root / "state.json").read_text("utf-8"))
    faults = [f"{error.json_path}: {error.message}" for error in _state_check().iter_errors(state)]
    assert not faults, faults
    return state
