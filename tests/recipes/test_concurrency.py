"""Two runs in a workspace at the same time, and runs whose definition has changed."""

from __future__ import annotations

import os
import signal

import pytest

from orchestrate.execute.liveness import is_keeper_alive
from tests.promises.processes import wait_until
from tests.recipes.fakes import Workshop, recipe, rule

SLOW = recipe('steps: [{id: a, agent: helper, prompt: "STEP:a"}]')


def test_r8_12_a_second_live_run_of_the_workspace_is_refused(shop: Workshop) -> None:
    go = shop.top / "go"
    shop.answers(rule("STEP:a", delay=30, until=str(go)))
    shop.write("r.yaml", SLOW)
    with shop.started("run", "r.yaml") as first:
        shop.await_calls(1)
        said = shop.run("run", "r.yaml").assert_exit(5)
        assert "--allow-concurrent" in said.stderr
        assert str(first.pid) in said.stderr
        assert len(list(shop.runs_folder.glob("2*"))) == 1, "a run was recorded"
        go.touch()
        assert first.wait(60) == 0
    shop.run("run", "r.yaml").assert_success()


def test_r8_12_allow_concurrent_runs_both(shop: Workshop) -> None:
    go = shop.top / "go"
    shop.answers(rule("STEP:a", delay=30, until=str(go)))
    shop.write("r.yaml", SLOW)
    with (
        shop.started("run", "r.yaml", "--allow-concurrent") as first,
        shop.started("run", "r.yaml", "--allow-concurrent") as second,
    ):
        shop.await_calls(2)
        go.touch()
        assert (first.wait(60), second.wait(60)) == (0, 0)
    assert len(list(shop.runs_folder.glob("2*"))) == 2


def test_r8_12_another_recipe_is_refused_too(shop: Workshop) -> None:
    go = shop.top / "go"
    shop.answers(rule("STEP:a", delay=30, until=str(go)))
    shop.write("r.yaml", SLOW)
    shop.write("other.yaml", recipe('steps: [{id: b, agent: helper, prompt: "STEP:b"}]', "other"))
    with shop.started("run", "r.yaml") as first:
        shop.await_calls(1)
        said = shop.run("run", "other.yaml").assert_exit(5)
        assert shop.latest.name in said.stderr
        shop.run("run", "other.yaml", "--allow-concurrent").assert_success()
        go.touch()
        assert first.wait(60) == 0


def test_r8_12_a_resumed_run_is_a_live_run(shop: Workshop) -> None:
    """Both ways: no `run` beside a `resume` of another run of the recipe, and no such `resume`."""
    go = shop.top / "go"
    shop.play(SLOW, rules=(rule("STEP:a", {"fail": "crash"}),), exit_code=1)
    old = shop.latest.name
    shop.answers(rule("STEP:a", delay=30, until=str(go)))
    with shop.started("resume", old) as first:
        shop.await_calls(2)
        shop.run("run", "r.yaml").assert_exit(5)
        go.touch()
        assert first.wait(60) == 0
    go.unlink()
    shop.answers(rule("STEP:a", {"fail": "crash"}))
    shop.run("run", "r.yaml").assert_exit(1)
    failed = shop.latest.name
    shop.answers(rule("STEP:a", delay=30, until=str(go)))
    with shop.started("run", "r.yaml") as second:
        shop.await_calls(4)
        shop.run("resume", failed).assert_exit(5)
        go.touch()
        assert second.wait(60) == 0


def test_r8_12_a_parked_run_is_not_live(shop: Workshop) -> None:
    gated = recipe("""
        stages:
          - name: one
            steps: [{id: a, agent: helper, prompt: "STEP:a"}]
            approval: {required: true, prompt: "Go on?"}
    """)
    shop.play(gated, exit_code=6)
    shop.play(gated, exit_code=6)
    assert shop.asked() == ["a", "a"]


def test_r8_12_a_killed_run_does_not_stand_in_the_way(shop: Workshop) -> None:
    """Only a lock that is held counts, and a program that works: a killed orchestrator holds none
    (promise 6), and when what it left has ended, nothing has to be cleared away."""
    shop.answers(rule("STEP:a", {"delay": 300}, "quick"))
    shop.write("r.yaml", SLOW)
    with shop.started("run", "r.yaml") as first:
        (call,) = shop.await_calls(1)
        first.send_signal(signal.SIGKILL)
        first.wait(60)
    killed = shop.latest.name
    shop.run("run", "r.yaml").assert_exit(5)
    os.kill(call.pid, signal.SIGKILL)
    shop.await_gone([call.pid])
    wait_until(lambda: not is_keeper_alive(shop.latest), "its keeper did not end")
    shop.run("run", "r.yaml").assert_success()
    shop.run("cancel", killed).assert_success()


@pytest.mark.parametrize("changed", ["r.yaml", "child.yaml", ".orchestrate/agents/helper.md"])
def test_r6_resume_with_a_changed_definition_is_refused(shop: Workshop, changed: str) -> None:
    shop.write("child.yaml", recipe('steps: [{id: in, agent: helper, prompt: "STEP:in"}]'))
    text = recipe("""
        steps:
          - {id: call, type: recipe, recipe: child.yaml}
          - {id: a, agent: helper, prompt: "STEP:a"}
    """)
    shop.play(text, rules=(rule("STEP:a", {"fail": "crash"}, "ok"),), exit_code=1)
    path = shop.folder / changed
    kept = path.read_text("utf-8")
    path.write_text(kept.replace("STEP:", "STEP:new-").replace("You help", "You h"), "utf-8")
    said = shop.run("resume", "latest").assert_exit(2)
    assert changed in said.stderr
    assert "--force-restart" in said.stderr
    path.write_text(kept, "utf-8")
    shop.go_on()
    assert shop.asked() == ["in", "a", "a"]


def test_r6_force_restart_starts_over_under_a_new_id(shop: Workshop) -> None:
    text = recipe("""
        context: {x: default}
        steps:
          - {id: a, agent: helper, prompt: "STEP:a {{x}}"}
          - {id: b, agent: helper, prompt: "STEP:b"}
    """)
    rules = (rule("STEP:b", {"fail": "crash"}, "ok"),)
    first = shop.play(text, "--context", "x=given", rules=rules, exit_code=1)
    shop.write("r.yaml", text.replace("STEP:b", "STEP:changed"))
    played = shop.go_on("resume", first.run_id, "--force-restart")
    assert played.run_id != first.run_id
    assert [call.text for call in shop.calls()][2:] == ["STEP:a given", "STEP:changed"]


def test_r6_resuming_a_completed_run_says_so_and_changes_nothing(shop: Workshop) -> None:
    played = shop.play(SLOW)
    before = (played.root / "events.jsonl").read_bytes()
    said = shop.run("resume", "latest").assert_success()
    assert "completed" in said.stdout
    assert (played.root / "events.jsonl").read_bytes() == before
    assert shop.asked() == ["a"]


@pytest.mark.parametrize(
    "flag",
    [("--max-restarts", "3"), ("--model", "opus"), ("--on-error", "continue"), ("--session", "x")],
)
def test_r5_flags_of_other_dialects_are_refused(shop: Workshop, flag: tuple[str, str]) -> None:
    said = shop.refuse(SLOW, *flag, exit_code=2)
    assert flag[0] in said.stderr


def test_r5_dry_run_starts_nothing(shop: Workshop) -> None:
    shop.write("r.yaml", SLOW)
    shop.run("run", "r.yaml", "--dry-run").assert_success()
    assert shop.calls() == []
    assert not shop.runs_folder.exists()
