"""2: output that could not be written whole is no result, whichever disk was full."""

from __future__ import annotations

import errno
import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from orchestrate.testing import Result
from tests.acceptance.fakes import Stage, read_state
from tests.promises.killing import can_trace, fail_at, tracing
from tests.promises.lanes import Before, strike_in_thread
from tests.promises.processes import end_all_in, wait_until
from tests.recipes.fakes import Workshop, recipe, rule
from tests.truth.small_disks import SmallDisk, small_disk

STOPPED = 5
LINES = 120_000  # 700 KB
HEAD = 'version: "1.1"\nname: w\n'
# Says how often it was started, and prints more than there is room for.
COUNT = "echo x >> {ledger}; seq 1 {lines}"


class Trial:
    """A workspace, the folder of its runs, and a disk under one of them that is too small."""

    def __init__(self, top: Path, workspace: Path, runs: Path, disk: SmallDisk) -> None:
        self.top = top
        self.workspace = workspace
        self.runs = runs
        self.disk = disk
        self.env: dict[str, str] = {}
        home = top / "home"
        for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            self.env[name] = str(home)

    def write(self, name: str, text: str) -> None:
        (self._seen(self.workspace) / name).write_text(dedent(text), "utf-8")

    def _seen(self, path: Path) -> Path:
        if path.is_relative_to(self.disk.folder):
            return self.disk.inside / path.relative_to(self.disk.folder)
        return path

    def orchestrate(
        self, *words: str, file_limit: int = 0, before: Before = lambda _: None
    ) -> Result:
        return self.disk.orchestrate(
            self.workspace, *words, "--state-dir", str(self.runs), env=self.env,
            file_limit=file_limit, before=before,
        )  # fmt: skip

    def file(self, name: str) -> Path:
        return self._seen(self.workspace) / name

    @property
    def root(self) -> Path:
        runs = self._seen(self.runs)
        return runs / os.readlink(runs / "latest")

    def state(self) -> dict[str, Any]:
        return read_state(self.root)

    def has_noted(self, words: str) -> bool:
        """Is it in the journal, and is the state up to date with that?"""
        with suppress(OSError, ValueError):  # not there yet, or a line that is being written
            lines = (self.root / "events.jsonl").read_text("utf-8").splitlines()
            newest = json.loads(lines[-1])["seq"] if lines else None
            return self.state()["seq"] == newest and any(words in line for line in lines)
        return False

    @property
    def held(self) -> str:
        """A shell's wait until `run_held` lets the program print what has no room."""
        return f"touch {self.top / 'begun'}; while ! test -e {self.go}; do sleep 0.02; done"

    @property
    def go(self) -> Path:
        return self.top / "go"

    def run_held(self, file: str, noted: str = "") -> Result:
        """Let the program speak once what came before has its place on the disk.

        Only its own output lacks one then. Otherwise the state, which is written a moment later,
        could be the first to find none.
        """

        def let_speak(_: int) -> None:
            if not noted:
                wait_until((self.top / "begun").exists, "no program has begun")
            wait_until(lambda: self.has_noted(noted or '"step-started"'), "nothing was noted")
            self.go.touch()

        return self.orchestrate("run", file, before=strike_in_thread(let_speak))

    def ledger(self) -> int:
        path = self.top / "ledger"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def count(self, lines: int = LINES) -> str:
        return COUNT.format(ledger=self.top / "ledger", lines=lines)


@pytest.fixture
def top(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "home").mkdir()
    yield tmp_path
    end_all_in(tmp_path)


@pytest.fixture
def full_workspace(top: Path) -> Iterator[Trial]:
    """The workspace has 400 KiB; the runs are elsewhere."""
    (top / "small").mkdir()
    with small_disk(top / "small", 400) as disk:
        yield Trial(top, top / "small", top / "runs", disk)


@pytest.fixture
def full_state(top: Path) -> Iterator[Trial]:
    """The runs have 1 MiB, most of which the keeper reserves; the workspace has room."""
    (top / "small").mkdir()
    (top / "workspace").mkdir()
    with small_disk(top / "small", 1024) as disk:
        yield Trial(top, top / "workspace", top / "small" / "runs", disk)


def assert_stopped(result: Result, error: str, step: str) -> None:
    """It stops as for a full disk anywhere: named, with what to do, and not as a failed step."""
    result.assert_exit(STOPPED)
    assert error in result.stderr
    assert f"step '{step}' has no result" in result.stderr
    assert "hint: " in result.stderr
    assert "orchestrate resume" in result.stderr
    assert "Traceback" not in result.stderr


def test_truth_02_a_workspace_that_is_full_makes_no_result(full_workspace: Trial) -> None:
    """(a): 500,000 lines became 165,083, exit 0."""
    trial = full_workspace
    trial.write(
        "w.yaml",
        HEAD
        + f"""\
steps:
  - name: Big
    command: ["sh", "-c", {json.dumps(trial.count())}]
    output_file: big.txt
  - name: After
    command: ["sh", "-c", "wc -l < big.txt"]
""",
    )
    assert_stopped(trial.orchestrate("run", "w.yaml"), trial.disk.error, "Big")
    state = trial.state()
    assert (state["status"], "After" in state["steps"]) == ("paused", False)
    assert (state["steps"]["Big"]["status"], state["steps"]["Big"]["last_attempt"]) == (
        "pending",
        "void",
    )
    assert_stopped(trial.orchestrate("resume", "latest"), trial.disk.error, "Big")
    trial.disk.enlarge()
    trial.orchestrate("resume", "latest").assert_success()
    assert trial.state()["steps"]["After"]["output"].strip() == str(LINES)
    assert trial.ledger() == 3


def test_truth_02_a_limit_of_file_sizes_makes_no_result(top: Path) -> None:
    """(a) again, with `ulimit -f`: raised, the next `resume` is not held to the old one."""
    (top / "workspace").mkdir()
    trial = Trial(top, top / "workspace", top / "runs", SmallDisk(top / "none", 0, None))
    trial.disk.enlarge()
    trial.write(
        "w.yaml",
        HEAD
        + f"""\
steps:
  - name: Big
    command: ["sh", "-c", {json.dumps(trial.count())}]
    output_capture: lines
    retries: {{max: 3}}
    on: {{failure: {{goto: Wrong}}, success: {{goto: _end}}}}
  - name: Wrong
    command: ["sh", "-c", "touch wrong"]
""",
    )
    assert_stopped(trial.orchestrate("run", "w.yaml", file_limit=600_000), "EFBIG", "Big")
    assert trial.ledger() == 1, "neither a retry nor another way"
    trial.orchestrate("resume", "latest").assert_success()
    assert (trial.ledger(), trial.file("wrong").exists()) == (2, False)
    big = trial.state()["steps"]["Big"]
    assert (big["truncated"], len(big["lines"]), big["attempts"]) == (True, 10_000, 2)


def test_truth_02_nothing_is_cut_after_the_disk_was_enlarged(top: Path) -> None:
    """(b): after "free some disk space, then resume" 9,000 lines became 5,294, not `truncated`."""
    (top / "small").mkdir()
    with small_disk(top / "small", 3072) as disk:
        trial = Trial(top, top / "small", top / "small" / "runs", disk)
        script = f"echo x >> {top}/ledger; yes {'y' * 190} | head -n 9000"
        trial.write(
            "w.yaml",
            HEAD
            + f"""\
steps:
  - name: Lines
    command: ["sh", "-c", {json.dumps(script)}]
    output_capture: lines
    output_file: out.txt
""",
        )
        trial.orchestrate("run", "w.yaml").assert_exit(STOPPED)
        disk.enlarge()
        trial.orchestrate("resume", "latest").assert_success()
        found = trial.state()["steps"]["Lines"]
        assert (len(found["lines"]), found["truncated"]) == (9000, False)
        assert set(found["lines"]) == {"y" * 190}
        assert len(trial.file("out.txt").read_text().splitlines()) == 9000
        assert trial.ledger() == 2


def test_truth_02_a_full_state_disk_leaves_the_output_file_whole(full_state: Trial) -> None:
    """(c): the sinks are independent, but what one of them lacks is no result."""
    trial = full_state
    trial.write(
        "w.yaml",
        HEAD
        + f"""\
steps:
  - name: Big
    command: ["sh", "-c", {json.dumps(f"{trial.held}; {trial.count(300_000)}")}]
    output_file: big.txt
""",
    )
    assert_stopped(trial.run_held("w.yaml"), trial.disk.error, "Big")
    lines = trial.file("big.txt").read_text().splitlines()
    assert (len(lines), lines[-1]) == (300_000, "300000"), "this disk had room"
    trial.disk.enlarge()
    trial.orchestrate("resume", "latest").assert_success()
    assert trial.state()["steps"]["Big"]["truncated"] is True
    assert trial.ledger() == 2


def test_truth_02_a_loop_goes_on_at_the_item_without_a_result(full_state: Trial) -> None:
    trial = full_state
    wait = f"if test ${{item}} = 300000; then {trial.held}; fi"
    script = f"echo ${{item}} >> {trial.top / 'ledger'}; {wait}; seq 1 ${{item}}"
    trial.write(
        "w.yaml",
        HEAD
        + f"""\
strict_flow: false
steps:
  - name: Each
    for_each:
      items: ["9000", "300000", "8000"]
      steps:
        - name: Big
          command: ["sh", "-c", {json.dumps(script)}]
          output_capture: lines
""",
    )
    stopped = trial.run_held("w.yaml", '"step-started","frame":"Each[1]"')
    assert_stopped(stopped, trial.disk.error, "Each[1]/Big")
    trial.disk.enlarge()
    trial.orchestrate("resume", "latest").assert_success()
    items = trial.state()["steps"]["Each"]
    assert [item["Big"]["status"] for item in items] == ["completed"] * 3
    assert (trial.top / "ledger").read_text().split() == ["9000", "300000", "300000", "8000"]


def test_truth_02_a_declared_provider_is_held_to_it(full_workspace: Trial) -> None:
    trial = full_workspace
    trial.write("p.md", "Write a lot.")
    trial.write(
        "w.yaml",
        HEAD
        + f"""\
providers:
  big:
    command: ["sh", "-c", {json.dumps(trial.count())}]
    input_mode: stdin
steps:
  - name: Ask
    provider: big
    input_file: p.md
    output_file: answer.txt
    on: {{failure: {{goto: Wrong}}, success: {{goto: _end}}}}
  - name: Wrong
    command: ["sh", "-c", "touch wrong"]
""",
    )
    assert_stopped(trial.orchestrate("run", "w.yaml"), trial.disk.error, "Ask")
    trial.disk.enlarge()
    trial.orchestrate("resume", "latest").assert_success()
    assert len(trial.file("answer.txt").read_text().splitlines()) == LINES
    assert (trial.ledger(), trial.file("wrong").exists()) == (2, False)


def agents_of(trial: Trial, big: dict[str, Any]) -> Workshop:
    """The fake `claude` of the tests of recipes, for a trial's commands; its files have room."""
    (trial.top / "agents").mkdir()
    shop = Workshop(trial.top / "agents")
    trial.env |= {"CLAUDE_CLI_PATH": shop.surroundings["CLAUDE_CLI_PATH"]}
    shop.answers(big)
    return shop


def test_truth_02_an_agents_answer_is_held_to_it_in_a_recipe(full_state: Trial) -> None:
    """(d): "ended before it was done", and `on_error: continue` took the other way."""
    trial = full_state
    big = {"text": "word", "size": 900_000, "delay": 60, "until": str(trial.go)}
    shop = agents_of(trial, rule("STEP:big", big))
    agents = trial.file(".orchestrate/agents")
    agents.mkdir(parents=True)
    (agents / "helper.md").write_text("---\nname: helper\ndescription: Helps\n---\nYou help.\n")
    trial.write(
        "r.yaml",
        recipe("""\
            steps:
              - id: big
                agent: helper
                prompt: "STEP:big"
                on_error: continue
                retry: {max_attempts: 3, initial_delay: 0}
                output: big
              - id: after
                agent: helper
                condition: "{{big?}} != ''"
                prompt: "STEP:after"
            """),
    )

    assert_stopped(trial.run_held("r.yaml", '"session-seen"'), trial.disk.error, "big")
    assert shop.asked() == ["big"]
    trial.disk.enlarge()
    trial.orchestrate("resume", "latest").assert_success()
    assert shop.asked() == ["big", "big", "after"]
    (stored,) = trial.root.glob("values/*.json")
    assert stored.read_text().strip('"\n').endswith("END")


def test_truth_02_an_agents_answer_is_held_to_it_in_a_machine(full_state: Trial) -> None:
    trial = full_state
    answer = "word " * 180_000 + '\n\n{"outcome": "done"}'
    held = {"text": answer, "delay": 60, "until": str(trial.go)}
    shop = agents_of(trial, rule("STEP:work", held))
    trial.write(
        "m.yaml",
        """\
        id: m
        label: m
        description: a trial
        initialStep: work
        steps:
          work:
            prompt: "STEP:work"
            outcomes: [done, other]
            onOutcome:
              done: {action: exit, reason: well}
              other: {action: exit, reason: other}
        """,
    )
    result = trial.run_held("m.yaml", '"session-seen"')
    assert_stopped(result, trial.disk.error, "work")
    assert "word" not in result.stdout, "half an answer is no answer"
    trial.disk.enlarge()
    done = trial.orchestrate("resume", "latest").assert_success()
    assert "Exit: well" in done.stdout
    assert shop.asked() == ["work", "work"]
    assert trial.state()["machine"]["stepCount"] == 1, "a visit counts once"


def test_truth_02_an_answer_that_finds_no_room_is_written_on_resume(full_workspace: Trial) -> None:
    """The agent's own output was whole: `resume` takes it from there and asks nobody again."""
    trial = full_workspace
    shop = agents_of(trial, rule("STEP:big", {"text": "word", "size": 900_000}))
    trial.write("p.md", "STEP:big")
    trial.write(
        "w.yaml",
        HEAD
        + """\
steps:
  - name: Ask
    provider: claude
    input_file: p.md
    output_file: answer.txt
""",
    )
    result = trial.orchestrate("run", "w.yaml").assert_exit(STOPPED)
    assert trial.disk.error in result.stderr
    trial.disk.enlarge()
    trial.orchestrate("resume", "latest").assert_success()
    assert trial.file("answer.txt").stat().st_size >= 900_000
    assert shop.asked() == ["big"]


def test_truth_02_only_the_log_of_errors_counts_too(full_state: Trial) -> None:
    """A short, whole stdout, and the rest on stderr: it could not be written, so there is none."""
    trial = full_state
    trial.write(
        "w.yaml",
        HEAD
        + f"""\
steps:
  - name: Loud
    command: ["sh", "-c", {json.dumps(f"{trial.held}; {trial.count(200_000)} >&2; echo short")}]
""",
    )
    assert_stopped(trial.run_held("w.yaml"), trial.disk.error, "Loud")
    trial.disk.enlarge()
    trial.orchestrate("resume", "latest").assert_success()
    assert trial.state()["steps"]["Loud"]["output"] == "short\n"


def test_truth_02_a_log_that_was_cut_afterwards_is_no_result(top: Path) -> None:
    """Between the program's end and a `resume` its log was cut: it is not taken for all of it."""
    stage = Stage(top)
    stage.write(
        "w.yaml",
        HEAD
        + """\
steps:
  - name: Big
    command:
      - sh
      - -c
      - echo x >> ledger; touch started; while ! test -e go; do sleep 0.02; done; seq 1 50000
    output_capture: lines
""",
    )
    with stage.command("run", "w.yaml") as process:
        stage.await_file("started")
        # An orchestrator that stands still records nothing.
        os.kill(process.pid, signal.SIGSTOP)
        stage.write("go", "")
        log = stage.runs_folder / os.readlink(stage.runs_folder / "latest") / "logs" / "Big.stdout"
        journal = log.parent.parent / "keeper" / "journal"
        wait_until(lambda: b" exit Big" in journal.read_bytes(), "it never ended")
        process.kill()
    os.truncate(log, 30_000)
    found = stage.look(stage.run("resume", "latest").assert_success()).step("Big")
    assert (stage.folder / "ledger").read_text().split() == ["x", "x"]
    assert (len(found["lines"]), found["truncated"]) == (10_000, True)


SINKS = {
    "output_file": "workspace/big.txt",
    "log": "runs/{run}/logs/Big.stdout",
    "state": "runs/{run}/events.jsonl",
}
# Each sink and each error once; all pairs of them take long.
MAIN_FAULTS = {("output_file", "EDQUOT"), ("log", "EIO"), ("log", "EFBIG"), ("state", "ENOSPC")}


@pytest.mark.skipif(not can_trace(), reason="needs an strace that may trace")
@pytest.mark.parametrize(
    ("sink", "error"),
    [
        pytest.param(sink, error, marks=() if (sink, error) in MAIN_FAULTS else pytest.mark.soak)
        for sink in SINKS
        for error in ("EDQUOT", "EIO", "EFBIG", "ENOSPC")
    ],
)
def test_truth_02_every_error_in_every_sink_makes_no_result(
    sink: str, error: str, top: Path
) -> None:
    """Whatever the system says, and whichever file it says it of, in the second write or later."""
    (top / "workspace").mkdir()
    trial = Trial(top, top / "workspace", top / "runs", SmallDisk(top / "none", 0, None))
    trial.disk.enlarge()
    trial.write(
        "w.yaml",
        HEAD
        + f"""\
steps:
  - name: Ready
    command: ["test", "-e", "ready"]
  - name: Big
    command: ["sh", "-c", {json.dumps(trial.count())}]
    output_file: big.txt
    retries: {{max: 2, delay_ms: 0}}
    on: {{failure: {{goto: Wrong}}, success: {{goto: _end}}}}
  - name: Wrong
    command: ["sh", "-c", "touch wrong"]
""",
    )
    trial.orchestrate("run", "w.yaml").assert_exit(1)  # now it has a name
    trial.write("ready", "")
    path = top / SINKS[sink].format(run=trial.root.name)
    calls = "write,pwrite64,writev"
    with tracing(["-f", "-o", str(top / "trace"), *fail_at(calls, error, "2+", path)]) as attach:
        stopped = trial.orchestrate("resume", "latest", before=attach).assert_exit(STOPPED)
    assert "INJECTED" in (top / "trace").read_text(), "nothing failed"
    assert "Traceback" not in stopped.stderr
    assert error in stopped.stderr or os.strerror(getattr(errno, error)) in stopped.stderr
    assert not trial.file("wrong").exists()
    if sink != "state":
        assert_stopped(stopped, error, "Big")
        assert (trial.state()["status"], trial.ledger()) == ("paused", 1), "and no retry"
    trial.orchestrate("resume", "latest").assert_success()
    assert not trial.file("wrong").exists()
    assert len(trial.file("big.txt").read_text().splitlines()) == LINES
    assert trial.state()["steps"]["Big"]["status"] == "completed"
    assert trial.ledger() <= 2
