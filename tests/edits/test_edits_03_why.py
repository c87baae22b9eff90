"""The five-way loop of the contract, with the agents' ledger as judge, and `why` as the witness."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.edits.ledger import Ledger, asks, command, machine, recipe, workflow
from tests.promises.processes import wait_until

LOOP = recipe(
    asks("plan"),
    '  - {id: each, foreach: "{{items}}", as: item, agent: helper, parallel: 5,\n'
    '     prompt: "STEP:each-{{item}}", collect: all}\n',
    asks("review", "of {{all}}"),
    asks("commit"),
    head="context: {items: [one, two, three, four, five]}\n",
)
ITEMS = ("one", "two", "three", "four", "five")
IN_WORKFLOW = workflow(
    command("plan"),
    "  - name: each\n    for_each:\n      parallel: true\n"
    "      items: [one, two, three, four, five]\n      steps:\n      "
    + command("work", "echo ${item} >> ledger; test ! -e fail-${item}"),
    command("review"),
    command("commit"),
)


@pytest.mark.parametrize("how", ["failed", "stopped", "killed"])
def test_edits_03_five_items_one_lost_and_a_later_prompt_edited(tmp_path: Path, how: str) -> None:
    stage = Ledger(tmp_path)
    stage.claude("""
        import os, re
        def answer(prompt):
            name = re.findall(r"STEP:([A-Za-z0-9_-]+)", prompt)[-1]
            if name == "each-three" and not os.path.exists("go"):
                open("hangs", "w").close()
                while not os.path.exists("fail"):
                    time.sleep(0.05)
                sys.exit("no")
            with open("ledger", "a") as ledger:
                ledger.write(name + "\\n")
            return "did " + name
    """)
    with stage.started(LOOP, "--retry-delay", "0") as command_:
        wait_until((stage.folder / "hangs").exists, "item three never began")
        wait_until(lambda: _finished(stage) == 5, "the others never ended")
        if how == "failed":
            stage.touch("fail")
        else:
            command_.send_signal(signal.SIGTERM if how == "stopped" else signal.SIGKILL)
        command_.wait(60)
    stage.touch("go")
    if how == "killed":
        # Its agent has outlived the orchestrator, and fails on its own.
        stage.touch("fail")
        wait_until(lambda: b" exit each[2]" in _keepers(stage), "item three never ended")
    ran = stage.ran()
    assert sorted({*ran} - {"each-three"}) == [
        "each-five", "each-four", "each-one", "each-two", "plan",
    ]  # fmt: skip
    for path in stage.folder.glob("fail-*"):
        path.unlink()
    stage.edit("STEP:review of", "Look closely. STEP:review of")
    told = stage.resume("--edited").stderr
    assert "reuse 5, run 1: each[2]" in told
    assert "changed and not yet reached: review (line" in told
    assert stage.ran() == ["each-three", "review", "commit"]
    # And once more, now that the review has a result: the part is named, with both texts.
    stage.edit("Look closely.", "Look twice.")
    assert "keeps about $0.06" in stage.resume("--edited").stderr
    assert stage.ran() == ["review", "commit"]
    status = stage.run("status", "latest", "--json").assert_success().json()
    saved_ms = status["reused"].pop("saved_ms")
    assert status["reused"] == {"steps": 6, "saved_usd": 0.06}
    assert saved_ms > 0
    words = "6 steps from before the edit, which had cost $0.0600 and taken "
    assert words in stage.run("status").stdout
    report = stage.run("report", "latest", "--json").assert_success().json()["steps"]
    assert {one["step"]: one["status"] for one in report}["plan"] == "reused"
    found = stage.run("why", "latest", "--json").assert_success().json()["steps"]
    by_name = {one["step"]: one for one in found}
    (change,) = by_name["review"]["changed"]
    assert change["part"] == "prompt"
    assert "Look closely." in change["before_text"]
    assert "Look twice." in change["after_text"]
    assert by_name["review"]["line"] == 9
    assert by_name["commit"]["because"] == "comes after review"
    assert by_name["each[2]"]["status"] == "reused"
    assert by_name["plan"]["saved_usd"] == 0.01
    words = stage.run("why", "latest", "review").assert_success().stdout
    assert "+Look twice." in words
    assert stage.run("why", "review").assert_success().stdout == words


def _keepers(stage: Ledger) -> bytes:
    """What the keeper has on record."""
    journal = stage.runs_folder / "latest" / "keeper" / "journal"
    return journal.read_bytes() if journal.exists() else b""


def _finished(stage: Ledger) -> int:
    """How many results are on record."""
    return (stage.runs_folder / "latest" / "events.jsonl").read_text("utf-8").count("step-finished")


def test_edits_03_an_agent_at_work_that_the_edit_does_not_touch_goes_on(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.claude("""
        import os, re
        def answer(prompt):
            name = re.findall(r"STEP:([A-Za-z0-9_-]+)", prompt)[-1]
            with open("ledger", "a") as ledger:
                ledger.write(name + "\\n")
            while name == "b" and not os.path.exists("go"):
                time.sleep(0.05)
            return "did " + name
    """)
    with stage.started(recipe(asks("a"), asks("b"), asks("c"))) as command_:
        wait_until(lambda: b" claim b" in _keepers(stage), "b never began")
        command_.kill()
        command_.wait(60)
    stage.edit("STEP:c", "Now STEP:c")
    with stage.command("resume", "latest", "--edited") as resumed:
        events = stage.runs_folder / "latest" / "events.jsonl"
        wait_until(lambda: '"origin"' in events.read_text("utf-8"), "b was not adopted")
        stage.touch("go")
        _, told = resumed.communicate(timeout=60)
    assert resumed.returncode == 0, told
    assert "reuse 1, run 0; still at work: b" in told
    assert stage.ran() == ["a", "b", "c"]


def test_edits_03_an_agent_at_work_on_a_changed_question_is_ended(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.claude("""
        import os, re
        def answer(prompt):
            name = re.findall(r"STEP:([A-Za-z0-9_-]+)", prompt)[-1]
            while name == "b" and "Now" not in prompt:
                time.sleep(0.05)
                open("beat", "w").close()
            with open("ledger", "a") as ledger:
                ledger.write(name + "\\n")
            return "did " + name
    """)
    with stage.started(recipe(asks("a"), asks("b"), asks("c"))) as command_:
        wait_until((stage.folder / "beat").exists, "b never began")
        command_.kill()
        command_.wait(60)
    stage.edit("STEP:b", "Now STEP:b")
    stage.resume("--edited")
    assert stage.ran() == ["a", "b", "c"]
    (stage.folder / "beat").unlink()
    assert b'"stopped":"the run was edited"' in _keepers(stage)


def test_edits_03_items_are_known_by_what_they_are(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.play(IN_WORKFLOW)
    stage.ran()
    stage.edit("[one, two, three, four, five]", "[five, zero, one, two, one, three]")
    stage.resume("--edited")
    ran = stage.ran()
    assert sorted(ran[:4]) == sorted(["work", "zero", "work", "one"])
    assert ran[4:] == ["review", "commit"]


def test_edits_03_one_item_is_done_again(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.play(IN_WORKFLOW)
    stage.ran()
    stage.resume("--redo", "each[1]/work")
    assert stage.ran() == ["work", "two", "review", "commit"]
    stage.resume("--redo", "each")
    assert sorted(stage.ran()[:10]) == sorted([*["work"] * 5, *ITEMS])
    refused = stage.resume("--redo", "nobody", exit_code=2).stderr
    assert "no result of a step 'nobody'" in refused
    # What is named there can be typed; items of a parallel loop stand there as they have ended.
    named = refused.partition("it has: ")[2].rstrip().split(", ")
    assert [*named[:2], *named[7:]] == ["plan", "each", "review", "commit"]
    assert sorted(named[2:7]) == [f"each[{number}]/work" for number in range(5)]
    mistyped = stage.run("why", "latest", "each[9]/works").assert_exit(2).stderr
    assert "(did you mean 'each[" in mistyped


def test_edits_03_the_session_goes_on_and_is_told(tmp_path: Path) -> None:
    """A machine's steps share a session: it cannot go back, so it is told what does not count."""
    stage = Ledger(tmp_path)
    stage.play(machine("a", "b", "c"))
    stage.ran()
    stage.resume("--redo", "b")
    assert stage.ran() == ["b", "c"]
    *_, b, c = stage.calls("claude")
    assert "these turns do not count any more: b, c. What stands: a." in b.stdin
    assert "do not count" not in c.stdin
    assert "--resume" in b.argv
    first = stage.calls("claude")[0].argv
    assert first[first.index("--session-id") + 1] == b.argv[b.argv.index("--resume") + 1]


def test_edits_03_a_deleted_turn_counts_in_a_session_only(tmp_path: Path) -> None:
    """Without a session in common a step does not depend on one that is gone."""
    stage = Ledger(tmp_path)
    stage.play(recipe(asks("a"), asks("b"), asks("c")))
    stage.ran()
    stage.write("w.yaml", recipe(asks("a"), asks("c")))
    stage.resume("--edited")
    assert stage.ran() == []
    together = [asks(name, fields=", session: one") for name in ("a", "b", "c")]
    stage.play(recipe(*together))
    stage.ran()
    stage.write("w.yaml", recipe(together[0], together[2]))
    assert "c (session changed" in stage.resume("--edited").stderr
    assert stage.ran() == ["c"]


def test_edits_03_a_gate_asks_again_when_something_before_it_ran(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    gated = (
        "name: trial\ndescription: d\nversion: 1.0.0\nstages:\n"
        "  - name: first\n    steps:\n    " + asks("a") + "    " + asks("b")
        + "    approval: {required: true, prompt: Well?}\n"
        "  - name: second\n    steps:\n    " + asks("c")
    )  # fmt: skip
    stage.play(gated, exit_code=6)
    stage.run("approve", "latest").assert_success()
    stage.resume()
    assert stage.ran() == ["a", "b", "c"]
    (decided,) = stage.state()["approvals"]
    stage.edit("STEP:c", "Now STEP:c")
    stage.resume("--edited")
    assert stage.ran() == ["c"]
    # It was asked and decided once, then.
    assert stage.state()["approvals"] == [decided | {"frame": "edit-1"}]
    assert stage.run("status").stdout.count("'first' approved by") == 1
    stage.edit("STEP:b", "Now STEP:b")
    stage.resume("--edited", exit_code=6)
    assert stage.ran() == ["b"]
    waits = stage.run("why", "latest", "first").assert_success().stdout
    assert "it waits for a person's decision" in waits
    stage.run("approve", "latest").assert_success()
    stage.resume()
    assert stage.ran() == ["c"]
    told = stage.resume("--redo", "first", exit_code=6).stderr
    assert "run 2: the approval of first (is to be done again), c (comes after it)" in told
    stage.run("approve", "latest").assert_success()
    stage.resume()
    assert stage.ran() == ["c"]


def test_edits_03_a_gate_that_an_edit_overtakes_was_decided_by_nobody(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    gated = (
        "name: trial\ndescription: d\nversion: 1.0.0\nstages:\n  - name: first\n    steps:\n"
        "    " + asks("a") + "    approval: {required: true, prompt: Well?}\n"
    )  # fmt: skip
    stage.play(gated, exit_code=6)
    stage.resume("--redo", "a", exit_code=6)
    assert "  decided     'first' expired\n" in stage.run("status").stdout
    assert "the run was edited before it was decided" in stage.run("report").stdout


def test_edits_03_files_that_changed_since_are_found(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.write("in.txt", "one")
    steps = (
        command("a", fields=", depends_on: {required: [in.txt]}"),
        command("b", fields=", output_file: out.txt"),
        command("c"),
    )
    stage.play(workflow(*steps))
    stage.ran()
    stage.resume("--redo", "c")
    assert stage.ran() == ["c"]
    stage.write("out.txt", "spoilt")
    assert "b (out.txt changed since)" in stage.resume("--redo", "c").stderr
    assert stage.ran() == ["b", "c"]
    # It is again as it was: there are no two digests to be shown.
    assert stage.run("why", "latest", "b").stdout == "b, line 5: completed: out.txt changed since\n"
    stage.write("in.txt", "two")
    assert "a (in.txt changed since)" in stage.resume("--redo", "c").stderr
    assert stage.ran() == ["a", "b", "c"]
    stage.write("in.txt", "three")
    stage.resume("--redo", "c", "--accept", "a")
    assert stage.ran() == ["c"]
