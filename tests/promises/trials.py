"""A trial is one workspace in which a shape is run, killed and resumed, and what that left."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests.promises.agent_shapes import CLAUDE
from tests.promises.lanes import Before, Lane, Order
from tests.promises.shapes import ACT, Shape

# Of one moment by one author, equal commits have equal names.
_COMMITTING = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "T"), ("EMAIL", "t@localhost"), ("DATE", "1700000000 +0000"))
}
# A `make` that runs these tests hands its own settings down.
_OF_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
KILLED = -9
PARKED = 6
RUN_ID = re.compile(r"\d{8}T\d{6}Z-[a-z0-9]{6}\Z")
SEAL = re.compile(rb',\n  "checksum": "sha256:([0-9a-f]{64})"\n\}\n\Z')
# What may differ between two runs that did the same.
_VOLATILE = frozenset(
    ("run_id", "started_at", "updated_at", "completed_at", "duration_ms", "attempts", "seq",
     "synced", "clock", "place", "checksum", "wait_duration_ms", "poll_count", "times",
     "machine_started", "address", "cwd", "worked", "worked_before", "unwatched",
     # Which steps share a checkpoint depends on the time between them.
     "changed", "checkpoint",
     "metrics", "workspace", "session_id", "sessionId", "startTime", "requested_at", "decided_at",
     "expires_at")
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A line of the ledger."""

    kind: str
    step: str
    item: str
    attempt: str
    code: str = ""


@dataclass(frozen=True)
class Left:
    """What a finished run has left behind, without what differs between any two runs."""

    code: int
    ledger: list[Line]
    decisions: list[tuple[Any, ...]]
    state: Any
    files: dict[str, str]


class Trial:
    """A fresh workspace for a shape."""

    def __init__(self, top: Path, shape: Shape) -> None:
        self.top = top
        self.shape = shape
        self.workspace = top / "workspace"
        self.ledger = top / "ledger"
        self.stderr = top / "stderr"
        # Did the last command leave something that the next one has to do?
        self.is_open = False
        self._is_parked = False
        # Set to a file, it makes the wall clock of our commands wrong by what that says.
        self.clock: Path | None = None
        (top / "live").mkdir(parents=True)
        (top / "act").write_text(ACT, "utf-8")
        self.ledger.touch()
        for name, text in {**shape.files, "w.yaml": dedent(shape.workflow).lstrip()}.items():
            write(self.workspace / name, text)
        if shape.answers:
            write(top / "claude", CLAUDE)
            (top / "claude").chmod(0o755)
        for name, text in shape.answers.items():
            write(top / "answers" / name, text + "\n")
        if shape.is_repository:
            for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "Begin")):
                git(self.workspace, *words)

    # Running.

    @property
    def surroundings(self) -> dict[str, str]:
        """What is different for our commands: the agent is ours, and nobody's settings count."""
        if not self.shape.answers:
            return dict(os.environ)
        home = str(self.top / "home")
        ours = {name: value for name, value in os.environ.items() if name not in _OF_MAKE}
        return {
            **ours,
            **_COMMITTING,
            "CLAUDE_CLI_PATH": str(self.top / "claude"),
            "HOME": home,
            "XDG_CONFIG_HOME": f"{home}/config",
            "XDG_STATE_HOME": f"{home}/state",
        }

    def order(self, *arguments: str, die_before: int = 0) -> Order:
        return Order(
            arguments,
            self.workspace,
            self.top / "stdout",
            self.stderr,
            env=self.surroundings,
            die_before=die_before,
            clock=self.clock,
        )

    def start_order(self, die_before: int = 0) -> Order:
        """`run`, or `resume` if there is a run already."""
        roots = self.roots()
        if not roots:
            return self.order("run", "w.yaml", *self.shape.flags, die_before=die_before)
        assert len(roots) == 1, f"there are {len(roots)} runs"
        return self.order("resume", roots[0].name, die_before=die_before)

    def go_on(self, lane: Lane, before: Before = lambda _: None) -> int:
        """Give commands until the run has ended or was killed; `before` sees the first of them."""
        code = self.give(lane, before)
        while self.is_open:
            code = self.give(lane)
        return code

    def give(self, lane: Lane, before: Before = lambda _: None, die_before: int = 0) -> int:
        """Give the one command that is next: a run that waits for a decision gets it."""
        approves = self._is_parked
        if approves:
            decided = sum(event["on"] == "gate-decided" for event in self.events())
            word = "deny" if self.shape.is_denied else "approve"
            words = (word, self.root.name, "--message", f"message {decided}")
            order = self.order(*words, die_before=die_before)
        else:
            order = self.start_order(die_before)
        code = lane.run(order, before)
        if approves:
            # 2: it was recorded before a kill, as the command then says.
            assert code in (0, 2, KILLED), self.said()
            self._is_parked = code == KILLED
        else:
            self._is_parked = code == PARKED
        self.is_open = self._is_parked or (approves and code != KILLED)
        if code == KILLED:
            self.is_open = False
        return code

    @contextmanager
    def company(self) -> Iterator[None]:
        """Others make their files while the block runs."""
        if not self.shape.replies:
            yield
            return
        is_over = threading.Event()
        others = threading.Thread(target=self._reply, args=(is_over,))
        others.start()
        try:
            yield
        finally:
            is_over.set()
            others.join()

    def _reply(self, is_over: threading.Event) -> None:
        waiting = dict(self.shape.replies)
        while waiting and not is_over.wait(0.02):
            ended = {line.step for line in self.lines() if line.kind == "end"}
            for step in ended & waiting.keys():
                is_over.wait(0.1)
                spare = self.top / "spare"
                spare.write_text("answer\n", "utf-8")
                spare.rename(self.workspace / waiting.pop(step))

    # Looking.

    def roots(self) -> list[Path]:
        """The folders of the runs."""
        folder = self.workspace / ".orchestrate" / "runs"
        names = os.listdir(folder) if folder.is_dir() else []
        return [folder / name for name in names if RUN_ID.match(name)]

    @property
    def root(self) -> Path:
        (root,) = self.roots()
        return root

    def lines(self) -> list[Line]:
        return [Line(*line.split()) for line in self.ledger.read_text("utf-8").splitlines()]

    def events(self) -> list[dict[str, Any]]:
        """The events that were recorded; a line that was torn by a kill is none."""
        roots = self.roots()
        path = roots[0] / "events.jsonl" if roots else Path("/nowhere")
        if not path.exists():
            return []
        whole = path.read_bytes().split(b"\n")[:-1]
        return [json.loads(line)["event"] for line in whole]

    def status(self) -> str:
        """As the journal has it: `running` until an end is recorded."""
        status = "none"
        for event in self.events():
            if event["on"] in ("run-started", "run-resumed"):
                status = "running"
            elif event["on"] == "run-ended":
                status = event["status"]
        return status

    def lost(self) -> set[str]:
        """The attempts that were reported as lost."""
        return self._ended("lost")

    def void(self) -> set[str]:
        """Those that count for nothing, because their output could not be written whole."""
        return self._ended("void")

    def _ended(self, why: str) -> set[str]:
        return {
            attempt_of(event)
            for event in self.events()
            if event["on"] == "attempt-ended" and event["why"] == why
        }

    def gates(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.root / "state.json").read_bytes())[
            "approvals"
        ]
        return found

    def said(self) -> str:
        return self.stderr.read_text("utf-8") if self.stderr.exists() else ""

    def left(self, code: int, *, is_journal_whole: bool = True) -> Left:
        decided = decisions(self.events()) if is_journal_whole else []
        return Left(code, self.lines(), decided, plain_state(self.root), tree_of(self.workspace))

    def remove(self) -> None:
        shutil.rmtree(self.top, ignore_errors=True)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def git(folder: Path, *words: str) -> str:
    """Git by our author, with nobody's settings."""
    env = {**os.environ, **_COMMITTING, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    return subprocess.run(
        ["git", *words], cwd=folder, env=env, capture_output=True, text=True, check=True
    ).stdout


def attempt_of(event: dict[str, Any]) -> str:
    """The name under which the ledger knows an attempt."""
    name = event["node"].rpartition("/")[2].removesuffix("[]")
    where = f"{event['frame']}/{name}" if event["frame"] else name
    return f"{where}:{event['visit']}.{event['attempt']}"


def decisions(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Where the run went: each step's label, each loop's items, each item's move."""
    found: list[tuple[Any, ...]] = []
    for event in events:
        match event["on"]:
            case "step-finished":
                found.append((event["frame"], event["node"], event["visit"], event["label"]))
            case "loop-opened":
                found.append((event["frame"], event["node"], event["visit"], event["items"]))
            case "item-moved":
                found.append((event["frame"], event["lifecycle"]))
            case "gate-decided":
                found.append((event["node"], event["visit"], event["decision"], event["message"]))
            case "restarted":
                found.append(("restarted", event["plan"]))
            case _:
                continue
    return found


def sealed_state(content: bytes) -> dict[str, Any]:
    """A state file's content; it must be whole and its checksum must hold."""
    seal = SEAL.search(content)
    assert seal is not None, f"not a whole state file: {content[-200:]!r}"
    assert sha256(content[: seal.start()]).hexdigest().encode() == seal[1], "the checksum is wrong"
    state: dict[str, Any] = json.loads(content)
    return state


def plain_state(root: Path) -> Any:
    """The state without times, ids and counters of attempts."""
    return _plain(sealed_state((root / "state.json").read_bytes()))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: inner for key, inner in value.items() if key not in _VOLATILE}
        if "here" in kept:
            # Of a cursor only the node, the visit and the phase are not about time.
            kept["here"] = kept["here"][:3]
        if "is_created" in kept:
            del kept["id"]
        return {key: _plain(inner) for key, inner in kept.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value


def tree_of(folder: Path) -> dict[str, str]:
    """The files of a workspace with their contents, and its commits, without the runs."""
    found = {}
    if (folder / ".git").exists():
        found[".git"] = git(folder, "log", "--stat") + git(folder, "status", "--short")
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith((".orchestrate/", ".git/")):
            found[name] = path.read_text("utf-8")
    return found
