"""Machine-wide slots (`limits.concurrent`): never more at once, all finish, none twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrate.state.slots import Queue, draw_ticket
from tests.machines.fakes import said
from tests.promises.processes import wait_until
from tests.recipes.fakes import Call, Workshop, recipe, rule
from tests.truth.test_truth_14_sessions import DIALECTS, scene_of

ITEMS = recipe("""
    context: {items: [1, 2, 3, 4]}
    steps:
      - {id: each, foreach: "{{items}}", parallel: true, agent: helper,
         prompt: "STEP:NAME{{item}}", collect: all}
""")


@pytest.fixture
def shop(quick_top: object, shop: Workshop) -> Workshop:
    limit(shop, "claude-code: 2, total: 4")
    return shop


def limit(shop: Workshop, text: str) -> None:
    path = Path(shop.surroundings["XDG_CONFIG_HOME"]) / "orchestrate" / "config.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"limits: {{concurrent: {{{text}}}}}\n", "utf-8")


def most_at_once(calls: list[Call]) -> int:
    """How many calls were under way at the same time; a call that was killed never ended."""
    moments = [(call.begin, 1) for call in calls]
    moments += [(call.end, -1) for call in calls if call.end is not None]
    counts, now = [], 0
    for _, change in sorted(moments):
        now += change
        counts.append(now)
    return max(counts)


def events_of(shop: Workshop, kind: str) -> list[dict[str, Any]]:
    path = shop.runs_folder / "latest" / "events.jsonl"
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    events = [json.loads(line)["event"] for line in lines if line.endswith("\n")]
    return [event for event in events if event["on"] == kind]


def ahead(shop: Workshop) -> set[int]:
    return {event.get("ahead", 0) for event in events_of(shop, "call-waits")}


def waiting_now(shop: Workshop) -> list[dict[str, Any]]:
    """What steps wait for, as `status` tells it; those with fewer before them first."""
    document = json.loads(shop.run("status", "--json").stdout)
    waits = [at["waits"] for at in document["current"] if "waits" in at]
    return sorted(waits, key=lambda wait: wait["ahead"])


def slots_folder(shop: Workshop) -> Path:
    return Path(shop.surroundings["XDG_STATE_HOME"]) / "orchestrate" / "slots"


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "T"


def tickets(shop: Workshop) -> list[str]:
    folder = slots_folder(shop)
    return sorted(name for name in os.listdir(folder) if name != "lock") if folder.exists() else []


def test_two_processes_with_four_branches_share_two_slots_and_a_usage_limit(
    shop: Workshop,
) -> None:
    limited = {"fail": "rate-limit", "resets_in": 5}
    shop.answers(rule("STEP:a3", limited, {"delay": 0.1}), rule("STEP", {"delay": 0.1}))
    for name in "ab":
        shop.write(f"{name}.yaml", ITEMS.replace("NAME", name))
    with (
        shop.started("run", "a.yaml", "--allow-concurrent") as one,
        shop.started("run", "b.yaml", "--allow-concurrent") as two,
    ):
        assert (one.wait(120), two.wait(120)) == (0, 0)
    assert most_at_once(shop.calls()) <= 2
    asked = sorted(shop.asked())
    assert asked == sorted([f"{name}{n}" for name in "ab" for n in range(1, 5)] + ["a3"])
    assert tickets(shop) == []


def test_who_waits_is_told_and_shown(shop: Workshop) -> None:
    limit(shop, "claude-code: 1")
    go = str(shop.top / "go")
    shop.answers(rule("STEP", {"delay": 120, "until": go}))
    shop.write("r.yaml", ITEMS.replace("NAME", "i"))
    with shop.started("run", "r.yaml", "--max-parallel", "3") as process:
        wait_until(lambda: ahead(shop) >= {0, 1}, "nobody waits")
        wait_until(lambda: len(shop.calls()) == 1, "nobody is asked")
        wait_until(lambda: "slot" in shop.run("status").stdout, "status does not tell")
        assert "waits for a slot of claude-code, " in shop.run("status").stdout
        # The one that waits last was told of two before the first of them had its slot.
        wait_until(lambda: [w["ahead"] for w in waiting_now(shop)] == [0, 1], "it stays wrong")
        assert {one["for"] for one in waiting_now(shop)} == {"slot"}
        assert len(shop.calls()) == 1
        Path(go).touch()
        assert process.wait(120) == 0
        assert process.stderr is not None
        assert "waits for a slot of claude-code, 1 ahead" in process.stderr.read()
    assert most_at_once(shop.calls()) == 1
    log = (shop.latest / "logs" / "orchestrator.log").read_text("utf-8")
    assert "waits for a slot of claude-code" in log


def test_a_run_that_waits_for_a_slot_can_be_stopped_and_resumed(shop: Workshop) -> None:
    limit(shop, "total: 1")
    go = str(shop.top / "go")
    shop.answers(rule("STEP", {"delay": 120, "until": go}))
    for name in "ab":
        shop.write(f"{name}.yaml", recipe(f"""
            steps: [{{id: one, agent: helper, prompt: "STEP:{name}", timeout: 100}}]
        """))  # fmt: skip
    with shop.started("run", "a.yaml", "--allow-concurrent") as first:
        wait_until(lambda: len(shop.calls()) == 1, "the first is not asked")
        with shop.started("run", "b.yaml", "--allow-concurrent") as second:
            wait_until(lambda: bool(events_of(shop, "call-waits")), "the second does not wait")
            second.send_signal(signal.SIGINT)
            assert second.wait(60) == 130
        assert [name for name in tickets(shop) if name.endswith(".wait")] == []
        Path(go).touch()
        assert first.wait(60) == 0
    done = shop.go_on()
    assert sorted(shop.asked()) == ["a", "b"]
    assert not [event for event in done.events() if event["on"] == "attempt-ended"]


def test_a_slot_is_the_programs_and_outlives_the_orchestrator(shop: Workshop) -> None:
    limit(shop, "claude-code: 1")
    go = str(shop.top / "go")
    shop.answers(rule("STEP", {"delay": 120, "until": go}))
    shop.write("r.yaml", recipe('steps: [{id: one, agent: helper, prompt: "STEP:one"}]'))
    with shop.started("run", "r.yaml") as process:
        wait_until(lambda: len(shop.calls()) == 1, "it is not asked")
        process.kill()
        process.wait(60)
    (ticket,) = tickets(shop)
    assert ticket.endswith(".held")
    with shop.started("run", "r.yaml", "--allow-concurrent") as other:
        wait_until(lambda: bool(events_of(shop, "call-waits")), "the other run does not wait")
        os.kill(shop.calls()[0].pid, signal.SIGKILL)
        wait_until(lambda: len(shop.calls()) == 2, "the slot was not freed")
        Path(go).touch()
        assert other.wait(60) == 0
    assert tickets(shop) == []


def test_nobody_waits_for_a_run_that_was_stopped_in_the_queue(shop: Workshop) -> None:
    limit(shop, "claude-code: 1")
    go = str(shop.top / "go")
    shop.answers(rule("STEP", {"delay": 120, "until": go}))
    for name in "abc":
        steps = f'steps: [{{id: one, agent: helper, prompt: "STEP:{name}"}}]'
        shop.write(f"{name}.yaml", recipe(steps))
    with shop.started("run", "a.yaml", "--allow-concurrent") as first:
        wait_until(lambda: len(shop.calls()) == 1, "the first is not asked")
        with shop.started("run", "b.yaml", "--allow-concurrent") as stopped:
            wait_until(lambda: bool(events_of(shop, "call-waits")), "the second does not wait")
            os.kill(stopped.pid, signal.SIGSTOP)
            wait_until(lambda: is_stopped(stopped.pid), "the second goes on")
            (waiting,) = [name for name in tickets(shop) if name.endswith(".wait")]
            os.utime(slots_folder(shop) / waiting, (0, 0))
            Path(go).touch()
            assert first.wait(60) == 0
            shop.run("run", "c.yaml", "--allow-concurrent").assert_success()
            os.kill(stopped.pid, signal.SIGCONT)
            assert stopped.wait(60) == 0
    assert shop.asked() == ["a", "c", "b"]


@pytest.mark.parametrize("what", ["ticket", "folder"])
def test_who_waits_goes_on_when_somebody_tidies_the_queue_up(shop: Workshop, what: str) -> None:
    state = slots_folder(shop).parent
    first, second = (draw_ticket(state, "claude-code", {"claude-code": 1}) for _ in range(2))
    assert (first.ahead(), second.ahead()) == (None, 0)
    if what == "folder":
        shutil.rmtree(slots_folder(shop))
    else:
        next(slots_folder(shop).glob("*.wait")).unlink()
        assert second.ahead() == 0
    first.release()
    assert second.ahead() is None
    second.release()
    assert tickets(shop) == []


@pytest.mark.parametrize("counter", [b"", b"-5", b"abc", b"\0\0", b"9" * 25, b"1"])
def test_a_damaged_queue_is_no_hindrance(shop: Workshop, counter: bytes) -> None:
    limit(shop, "claude-code: 1")
    folder = slots_folder(shop)
    (folder / "000000000007.claude-code.wait").mkdir(parents=True)
    (folder / "000000000003.claude-code.held").symlink_to("nowhere")
    (folder / "lock").write_bytes(counter)
    shop.play(recipe('steps: [{id: one, agent: helper, prompt: "STEP:one"}]'))
    assert int((folder / "lock").read_bytes()) >= 8, "after all that lie there"


def test_a_queue_that_cannot_be_kept_is_named(shop: Workshop) -> None:
    lock = slots_folder(shop) / "lock"
    lock.mkdir(parents=True)
    shop.write("r.yaml", recipe('steps: [{id: one, agent: helper, prompt: "STEP:one"}]'))
    refused = shop.run("run", "r.yaml").assert_exit(5)
    assert f"cannot queue for a slot in {lock}: Is a directory" in refused.stderr
    assert shop.calls() == []
    lock.rmdir()
    shop.go_on()


def test_an_agent_that_starts_a_run_lends_it_its_slot(shop: Workshop) -> None:
    limit(shop, "claude-code: 1")
    shop.answers(rule("STEP", "done"))
    text = recipe('steps: [{id: one, agent: helper, prompt: "STEP:one"}]')
    shop.write("r.yaml", text)
    shop.run("run", "r.yaml", env={"ORCHESTRATE_SLOT": "claude-code"}).assert_success()
    assert tickets(shop) == []


def test_a_projects_configuration_cannot_set_slots(shop: Workshop) -> None:
    shop.write(".orchestrate/config.yaml", "limits:\n  concurrent: {total: 100}\n")
    refused = shop.refuse(recipe('steps: [{id: one, agent: helper, prompt: "STEP:one"}]'))
    assert ".orchestrate/config.yaml:2: limits.concurrent.total belongs in the" in refused.stderr


def test_a_file_cannot_set_slots_and_an_unknown_agent_is_refused(shop: Workshop) -> None:
    steps = 'steps: [{id: one, agent: helper, prompt: "STEP:one"}]'
    shop.refuse(recipe("limits: {concurrent: {total: 2}}\n" + steps), exit_code=2)
    limit(shop, "claud-code: 2")
    assert "claude-code" in shop.refuse(recipe(steps)).stderr


@pytest.mark.parametrize("dialect", DIALECTS)
def test_calls_of_every_dialect_wait_for_a_slot(tmp_path: Path, dialect: str) -> None:
    scene, text, flags = scene_of(tmp_path, dialect, said("done"))
    state = Path(scene.surroundings["XDG_STATE_HOME"]) / "orchestrate"
    config = Path(scene.surroundings["XDG_CONFIG_HOME"]) / "orchestrate" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("limits: {concurrent: {claude-code: 1}}\n", "utf-8")
    other = draw_ticket(state, "claude-code", {"claude-code": 1})
    assert other.ahead() is None
    with scene.started(text, *flags) as process:
        journal = scene.runs_folder / "latest" / "events.jsonl"
        waits_now = lambda: journal.exists() and bool(scene.happened("call-waits"))  # noqa: E731
        wait_until(waits_now, "it does not wait")
        assert scene.ledger() == []
        other.release()
        assert process.wait(60) == 0
    (waits,) = scene.happened("call-waits")
    (started,) = scene.happened("step-started")
    assert waits["why"] == "slot"
    assert waits["at"] <= started["at"]


def test_of_many_calls_that_wait_one_looks_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty-four that each looked at all tickets took an eighth of a core."""
    looks: list[Queue] = []
    look_once = Queue.look

    def look(queue: Queue) -> set[int]:
        looks.append(queue)
        return look_once(queue)

    monkeypatch.setattr(Queue, "look", look)
    queue = Queue(tmp_path, {"claude-code": 2})
    running = [draw_ticket(tmp_path, "claude-code", queue.limits) for _ in range(2)]
    assert [ticket.ahead() for ticket in running] == [None, None]
    waiting = [queue.draw("claude-code") for _ in range(64)]
    assert [ticket.ahead() for ticket in waiting] == list(range(64))
    looks.clear()
    assert [ticket.ahead() for ticket in waiting] == list(range(64))
    assert len(looks) == 1
    # Room for two: the first sees it, for the other, too, and nobody is passed by.
    for ticket in running:
        ticket.release()
    assert [ticket.ahead() for ticket in waiting] == [None, None, *range(62)]
    for ticket in waiting:
        ticket.release()
    assert list((tmp_path / "slots").iterdir()) == [tmp_path / "slots" / "lock"]


def test_a_call_behind_another_one_is_seen_to_wait_and_writes_its_ticket_again(
    tmp_path: Path,
) -> None:
    limits = {"total": 1}
    other, queue = draw_ticket(tmp_path, "codex", limits), Queue(tmp_path, limits)
    assert other.ahead() is None
    first, second = queue.draw("codex"), queue.draw("codex")
    assert (first.ahead(), second.ahead()) == (0, 1)
    (*_, ticket) = sorted((tmp_path / "slots").glob("*.wait"))
    for is_removed in (False, True):
        if is_removed:
            ticket.unlink()
        else:
            os.utime(ticket, (0, 0))
        second._noted = 0.0
        assert second.ahead() == 1
        assert time.time() - ticket.stat().st_mtime < 60
    first.release()
    other.release()
    assert second.ahead() is None, "with nobody before it, it looks itself"
    second.release()
