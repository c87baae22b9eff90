"""`fork`: another way from a step of a run, which itself stays as it is, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.edits.ledger import Ledger, asks, command, machine, recipe, workflow
from tests.edits.repositories import Repository, bytes_below
from tests.edits.test_edits_01_go_on import change
from tests.promises.processes import wait_until

NAMES = ("a", "b", "c")
TEXTS = {
    "workflow": workflow(*map(command, NAMES)),
    "recipe": recipe(*map(asks, NAMES)),
    "machine": machine(*NAMES),
}


@contextmanager
def untouched(stage: Ledger) -> Iterator[str]:
    """The newest run, of which no byte may change."""
    root = (stage.runs_folder / "latest").resolve()
    before = bytes_below(root)
    yield root.name
    assert bytes_below(root) == before


def done_in(worktree: Path) -> list[str]:
    """What was done there; what came before it is there too if it had a checkpoint of its own."""
    return (worktree / "ledger").read_text("utf-8").removeprefix("a\n").split()


@pytest.mark.parametrize("dialect", TEXTS)
def test_edits_12_a_fork_goes_on_from_a_step(
    tmp_path: Path, dialect: str, captured_each: None
) -> None:
    stage = Repository(tmp_path)
    stage.play(TEXTS[dialect])
    stage.ran()
    change(stage, dialect, "b")
    with untouched(stage) as origin:
        told = stage.run("fork", origin, "--from", "b").assert_success()
    assert "reuse 1, run 2: b (" in told.stderr
    assert stage.ran() == []
    assert (stage.worktree / "ledger").read_text("utf-8").split() == ["a", "b", "c"]
    state = stage.state()
    assert state["run_id"] != origin
    assert state["steps"]["a"]["from_run"] == origin
    if dialect != "workflow":
        # What was taken over is not counted again; what it saved is told.
        assert state["costs"]["turns"] == 2
        assert f"reused: 1 step of run {origin}, which had cost $0.0100" in told.stderr
    status = stage.run("status", "--json").json()
    assert status["forked"] == {"run_id": origin, "from": "b"}
    assert status["reused"]["from_run"] == origin
    assert {row["run_id"] for row in stage.run("runs", "--json").json()["runs"]} == {
        origin,
        state["run_id"],
    }
    for words in (("why",), ("logs", "latest", "a"), ("report",), ("resume",)):
        stage.run(*words).assert_success()


def test_edits_12_a_machine_goes_on_in_a_copy_of_its_session(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    stage.play(TEXTS["machine"])
    session = stage.state()["steps"]["a"]["session_id"]
    with untouched(stage):
        stage.run("fork", "--from", "b").assert_success()
    first, second = stage.calls("claude")[3:]
    place = first.argv.index("--fork-session")
    own = first.argv[first.argv.index("--session-id") + 1]
    assert first.argv[place - 2 : place] == ["--resume", session]
    assert own != session
    assert "these turns do not count any more: b, c. What stands: a." in first.stdin
    # From there on it is its own.
    assert second.argv[second.argv.index("--resume") + 1] == own
    assert "--fork-session" not in second.argv
    assert "count any more" not in second.stdin
    assert {stage.state()["steps"][name]["session_id"] for name in "bc"} == {own}


def test_edits_12_named_sessions_are_copied_too(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    named = [asks(name, fields=", session: one") for name in NAMES]
    stage.play(recipe(*named))
    session = stage.state()["steps"]["a"]["session_id"]
    stage.run("fork", "--from", "c").assert_success()
    (call,) = stage.calls("claude")[3:]
    assert call.argv[call.argv.index("--resume") + 1] == session
    assert "--fork-session" in call.argv
    # From its first step on there is nothing to stand on, but the session is known.
    stage.run("fork", "--from", "a", "--in-place").assert_success()
    assert "--fork-session" in stage.calls("claude")[4].argv


def test_edits_12_who_cannot_copy_a_session_is_told_what_stands(tmp_path: Path) -> None:
    """Gemini cannot; nor can anyone copy a session that is gone."""
    stage = Repository(tmp_path)
    stage.program(
        "gemini",
        """
        flag = "--session-id" if "--session-id" in argv else "--resume"
        session = argv[argv.index(flag) + 1]
        print(json.dumps(dict(type="init", session_id=session)))
        text = "did %d" % number + chr(10) + '{"outcome": "done"}'
        print(json.dumps(dict(type="message", role="assistant", content=text, delta=True)))
        print(json.dumps(dict(type="result", status="success", stats={})))
        """,
        version="0.61.0",
    )
    stage.play(TEXTS["machine"], "--backend", "gemini")
    stage.run("fork", "--from", "c").assert_success()
    call = stage.calls("gemini")[3]
    assert "--session-id" in call.argv
    assert "What stands, and what was answered there:\n- a: did 1" in call.stdin
    assert "- b: did 2" in call.stdin
    assert "- c" not in call.stdin


def test_edits_12_a_session_that_is_gone_is_followed_by_a_new_one(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    stage.play(TEXTS["machine"])
    stage.claude(
        """
        def answer(prompt):
            if "--fork-session" in argv:
                sys.stderr.write("No conversation found with session ID: x")
                sys.exit(1)
            return 'did it' + chr(10) + '{"outcome": "done"}'
        """
    )
    stage.run("fork", "--from", "c").assert_success()
    refused, told = stage.calls("claude")[3:]
    assert "--fork-session" in refused.argv
    assert "--fork-session" not in told.argv
    assert "- a: did a" in told.stdin


def test_edits_12_codex_copies_by_its_own_word(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    stage.program(
        "codex",
        """
        print(json.dumps(dict(type="thread.started", thread_id="thread-%d" % number)))
        text = "done" + chr(10) + '{"outcome": "done"}'
        said = dict(type="agent_message", text=text)
        print(json.dumps(dict(type="item.completed", item=said)))
        usage = dict(input_tokens=10 * number, output_tokens=number)
        print(json.dumps(dict(type="turn.completed", usage=usage)))
        """,
        version="codex-cli 0.166.0",
    )
    stage.play(TEXTS["machine"], "--backend", "codex")
    stage.run("fork", "--from", "c").assert_success()
    argv = stage.calls("codex")[3].argv
    assert argv[argv.index("fork") :] == ["fork", "thread-2", "-"]


def test_edits_12_values_reach_what_runs_anew(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    used = "echo ${context.who} >> ledger"
    steps = [command("a", used), command("b", used)]
    stage.play(workflow(*steps, head="context: {who: me}\n"))
    stage.run("fork", "--from", "b", "-i", "who=you").assert_success()
    assert done_in(stage.worktree)[-2:] == ["b", "you"]


def test_edits_12_visits_and_forks_of_forks(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    again = command("b", "test -e ok || { touch ok; exit 1; }", ", on: {failure: {goto: a}}")
    stage.play(workflow(command("a"), again, command("c")))
    assert stage.ran() == ["a", "b", "a", "b", "c"]
    with untouched(stage):
        stage.run("fork", "--from", "b@2", "--in-place").assert_success()
    assert stage.ran() == ["b", "c"]
    with untouched(stage):
        told = stage.run("fork", "--from", "c", "--in-place").assert_success()
    assert "reuse 4, run 1: c" in told.stderr
    assert stage.ran() == ["c"]
    # A fork is edited and done again as any run.
    stage.resume("--redo", "b@2")
    assert stage.ran() == ["b", "c"]


def test_edits_12_items_are_taken_over_by_what_they_are(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    loop = (
        "  - name: l\n    for_each:\n      items: [x, y, z]\n      parallel: true\n"
        '      steps:\n        - {name: p, command: ["sh", "-c", "echo ${item} >> ledger"]}\n'
    )
    stage.play(workflow(loop, command("c")))
    stage.ran()
    stage.run("fork", "--from", "l[1]/p", "--in-place").assert_success()
    assert stage.ran() == ["y", "c"]


def test_edits_12_an_effect_is_asked_for(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    pay = command("b", fields=", effect: true")
    stage.play(workflow(command("a"), pay, command("c")))
    stage.ran()
    with untouched(stage):
        refused = stage.run("fork", "--from", "a", "--in-place").assert_exit(2)
    assert "`effect: true`" in refused.stderr
    assert len(stage.run("runs", "--json").json()["runs"]) == 1
    advised = refused.stderr.partition("still holds: orchestrate ")[2].splitlines()[0].split()
    assert advised[0] == "fork"
    stage.run(*advised).assert_success()
    assert stage.ran() == ["a", "c"]
    stage.run("fork", "--from", "b", "--in-place").assert_success()
    assert stage.ran() == ["b", "c"]


def test_edits_12_one_that_is_refused_late_is_not_the_latest(tmp_path: Path) -> None:
    """It was a run already, and `latest`."""
    stage = Repository(tmp_path)
    pays = command("pay", fields=", effect: true")
    origin = stage.play(workflow(command("a"), pays)).root.name
    stage.run("fork", "--from", "a").assert_exit(2)
    assert os.readlink(stage.runs_folder / "latest") == origin
    assert sorted(path.name for path in stage.runs_folder.glob("*Z-*")) == [origin]


def test_edits_12_what_is_refused_leaves_nothing(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    stage.play(TEXTS["workflow"])
    with untouched(stage):
        missing = stage.run("fork", "--from", "x").assert_exit(2)
        assert "it has: a, b, c" in missing.stderr
        stage.run("fork", "--from", "b", "--in-place", "--worktree").assert_exit(2)
        stage.run("fork", "--from", "b", "--context", "x").assert_exit(2)
        (stage.folder / "w.yaml").write_text("version: [", "utf-8")
        stage.run("fork", "--from", "b").assert_exit(2)
    assert len(stage.run("runs", "--json").json()["runs"]) == 1
    assert not stage.worktree_exists()
    assert stage.branches() == ["main"]


def test_edits_12_outside_git_it_stays_in_place(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.play(TEXTS["workflow"])
    stage.ran()
    refused = stage.run("fork", "--from", "b").assert_exit(2)
    assert "--in-place" in refused.stderr
    stage.run("fork", "--from", "b", "--in-place").assert_success()
    assert stage.ran() == ["b", "c"]


def test_edits_12_a_run_that_works_can_be_forked(tmp_path: Path) -> None:
    """And what it still does stays its own."""
    stage = Repository(tmp_path)
    slow = command("b", "touch started; while test ! -e go; do sleep 0.05; done")
    with stage.started(workflow(command("a"), slow, command("c"))) as process:
        stage.await_file("started")
        stage.write("go", "")
        process.wait(60)
    (stage.folder / "go").unlink()
    (stage.folder / "started").unlink()
    stage.ran()
    with stage.command("resume", "latest", "--redo", "b") as resumed:
        stage.await_file("started")
        stage.git("add", "-f", "w.yaml")
        with stage.command("fork", "--from", "b") as forked:
            wait_until(lambda: len(stage.worktrees) == 1, "the fork has no worktree")
            wait_until((stage.worktree / "started").exists, "the fork never came to b")
            (stage.worktree / "go").write_text("", "utf-8")
            assert forked.wait(60) == 0
        stage.write("go", "")
        assert resumed.wait(60) == 0
    assert done_in(stage.worktree) == ["b", "c"]


def test_edits_12_in_the_background(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    stage.play(TEXTS["workflow"])
    run_id = stage.run("fork", "--from", "b", "-d").assert_success().stdout.strip()
    stage.run("wait", run_id).assert_success()
    assert done_in(stage.worktree) == ["b", "c"]


@pytest.mark.parametrize("events", range(6))
def test_edits_12_a_fork_that_is_killed_goes_on(
    tmp_path: Path, events: int, captured_each: None
) -> None:
    """Killed once its journal has so many events: nothing runs twice, nothing is lost."""
    stage = Repository(tmp_path)
    stage.play(TEXTS["workflow"])
    stage.ran()
    with untouched(stage) as origin:
        with stage.command("fork", origin, "--from", "b") as process:
            wait_until(
                lambda: process.poll() is not None or _events(stage, origin) >= events,
                "the fork never came so far",
            )
            process.kill()
            process.wait(60)
        if _events(stage, origin) >= 0:
            stage.run("resume").assert_success()
            assert done_in(stage.worktree) == ["b", "c"]
            assert stage.state()["steps"]["a"]["from_run"] == origin


def _events(stage: Repository, origin: str) -> int:
    """How many events the fork has; -1 if there is none yet."""
    runs = [p for p in stage.runs_folder.iterdir() if p.name not in (origin, "latest")]
    found = [p for p in runs if not p.name.startswith(".")]
    if not found:
        return -1
    journal = found[0] / "events.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def test_edits_12_a_fork_depends_on_nothing_of_the_other_run(tmp_path: Path) -> None:
    stage = Repository(tmp_path)
    big = "head -c 30000 /dev/zero | tr '\\\\0' x"
    first = f'  - {{name: a, command: ["sh", "-c", "{big}"], output_capture: text}}\n'
    uses = command("b", "printf %s '${steps.a.output}' | wc -c >> ledger; exit 1")
    stage.play(workflow(first, uses), exit_code=1)
    origin = (stage.runs_folder / "latest").resolve()
    sent = stage.ran()
    stage.run("fork", "--from", "b", "--in-place").assert_exit(1)
    shutil.rmtree(origin)
    stage.ran()
    stage.resume(exit_code=1)
    assert stage.ran() == sent
    stage.run("logs", "latest", "a").assert_success()
    journal = (stage.runs_folder / "latest/events.jsonl").read_text("utf-8")
    assert json.loads(journal.splitlines()[0])["event"]["forked"]["run"] == origin.name
