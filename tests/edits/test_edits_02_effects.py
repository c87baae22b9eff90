"""`effect: true`: a step that must not happen twice never does so by itself."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path

import pytest

from orchestrate.cli.reporting import CommandLine
from tests.edits.ledger import Ledger, asks, command, machine, recipe, workflow
from tests.promises.processes import wait_until

SHAPES = {
    "workflow": workflow(command("a"), command("pay", fields=", effect: true"), command("b")),
    "machine": machine("a", "pay", "b").replace(
        'prompt: "STEP:pay do it"', 'prompt: "STEP:pay do it", effect: true'
    ),
    "recipe": recipe(asks("a"), asks("pay", fields=", effect: true"), asks("b")),
}


@pytest.mark.parametrize("dialect", SHAPES)
def test_edits_02_a_person_decides_whether_it_happens_again(tmp_path: Path, dialect: str) -> None:
    stage = Ledger(tmp_path)
    stage.play(SHAPES[dialect])
    assert stage.ran() == ["a", "pay", "b"]
    refused = stage.resume("--redo", "a", exit_code=2).stderr
    assert "step 'pay' has an effect" in refused
    assert "--redo a --accept pay" in refused
    assert "--redo a --redo pay" in refused
    assert stage.ran() == []
    stage.resume("--redo", "a", "--accept", "pay")
    assert stage.ran() == ["a", "b"]
    stage.edit("STEP:pay" if dialect != "workflow" else "echo pay", "STEP:pay  "
               if dialect != "workflow" else "echo  pay")  # fmt: skip
    assert "--accept pay" in stage.resume("--edited", exit_code=2).stderr
    assert stage.ran() == []
    stage.resume("--redo", "pay")
    assert stage.ran() == ["pay", "b"]


@pytest.mark.parametrize("dialect", ["machine", "recipe"])
def test_edits_02_it_is_not_tried_twice(tmp_path: Path, dialect: str) -> None:
    """Agents are tried again after an outage; one that pays is not."""
    stage = Ledger(tmp_path)
    stage.claude("""
        def answer(prompt):
            with open("ledger", "a") as ledger:
                ledger.write("asked ")
            sys.exit("API Error: Unable to connect to API (ECONNREFUSED)")
    """)
    shape = SHAPES[dialect].replace("STEP:a", "STEP:a first")
    stage.write("w.yaml", shape.replace("initialStep: a", "initialStep: pay"))
    if dialect == "recipe":
        stage.write("w.yaml", recipe(asks("pay", fields=", effect: true")))
    result = stage.run("run", "w.yaml", "--retry-delay", "0")
    assert result.exit_code in (1, 4)
    assert stage.ran() == ["asked"]


@pytest.mark.parametrize("changed", ["pay", "a"])
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_edits_02_one_that_has_begun_counts(tmp_path: Path, how: str, changed: str) -> None:
    """It has no result yet, and what it did is done: an edit does not begin it anew by itself."""
    stage = Ledger(tmp_path)
    stage.write("ledger", "")
    wait = "while [ ! -e go ]; do sleep 0.05; done"
    pay = command("pay", wait, fields=", effect: true")
    with stage.started(workflow(command("a"), pay, command("b"))) as command_:
        wait_until(lambda: "pay" in (stage.folder / "ledger").read_text("utf-8"), "pay never began")
        command_.send_signal(signal.SIGKILL if how == "killed" else signal.SIGTERM)
        command_.wait(60)
    stage.edit(f"echo {changed}", f"echo  {changed}")
    for flags in (["--edited"], ["--accept", "pay"]):
        refused = stage.resume(*flags, exit_code=2).stderr
        assert "step 'pay' has an effect" in refused
        assert "--redo pay" in refused
        assert ("--as-started" in refused) == (how == "killed")
    stage.touch("go")
    assert stage.ran() == ["a", "pay"]
    stage.resume("--redo", "pay")
    assert stage.ran() == (["a"] if changed == "a" else []) + ["pay", "b"]


HANGING = """
    import os, re
    def answer(prompt):
        name = re.findall(r"STEP:([A-Za-z0-9_-]+)", prompt)[-1]
        with open("ledger", "a") as ledger:
            ledger.write(name + "\\n")
        while name == "pay" and not os.path.exists("go"):
            time.sleep(0.05)
        return ANSWER
"""
WAITS = "while [ ! -e go ]; do sleep 0.05; done"
IN_LOOP = (
    'version: "1.4"\nname: trial\nsteps:\n  - name: each\n    for_each:\n      items: [x, y]\n'
    "      steps:\n      " + command("pay", WAITS, fields=", effect: true") + command("b")
)
STOPPED = {
    "workflow": workflow(
        command("a"), command("pay", WAITS, fields=", effect: true"), command("b")
    ),
    "loop": IN_LOOP,
    "machine": SHAPES["machine"],
    "recipe": SHAPES["recipe"],
}


@pytest.mark.parametrize("shape", STOPPED)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_edits_02_one_that_was_stopped_waits_for_a_person(
    tmp_path: Path, shape: str, how: signal.Signals
) -> None:
    """Half of it may have happened: `resume` tells so and does not begin it, as a lost one."""
    stage = Ledger(tmp_path)
    stage.write("ledger", "")
    answer = repr('{"outcome": "done"}') if shape == "machine" else '"did " + name'
    stage.claude(HANGING.replace("ANSWER", answer))
    with stage.started(STOPPED[shape]) as command_:
        wait_until(lambda: "pay" in (stage.folder / "ledger").read_text("utf-8"), "pay never began")
        command_.send_signal(how)
        assert command_.wait(60) == 128 + how
    began = ["pay"] if shape == "loop" else ["a", "pay"]
    assert stage.ran() == began
    stage.touch("go")
    told = stage.resume(exit_code=6).stderr
    path = "each[0]/pay" if shape == "loop" else "pay"
    assert f"step '{path}' has an effect and was stopped half-way" in told
    assert "orchestrate resume" in told
    assert stage.ran() == [], "it began again by itself"
    assert f"{path} waits for a person" in stage.run("status").stdout
    assert "it has an effect, and its attempt may have done a part" in stage.run("inbox").stdout
    stage.resume()
    again = ["pay", "pay", "b"] if shape == "loop" else ["pay", "b"]
    assert stage.ran() == again


def test_edits_02_in_a_recipe_at_a_path_that_was_worked_out(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    stage.write("c.yaml", recipe(asks("pay", fields=", effect: true")))
    call = '  - {id: call, type: recipe, recipe: "{{which}}.yaml"}\n'
    stage.play(recipe(asks("a"), call, asks("b"), head="context: {which: c}\n"))
    assert stage.ran() == ["a", "pay", "b"]
    assert "--redo a --accept call/pay" in stage.resume("--redo", "a", exit_code=2).stderr
    # Who names the call has not named the payment in it.
    assert "--accept call/pay" in stage.resume("--redo", "call", exit_code=2).stderr
    assert stage.ran() == []
    stage.resume("--redo", "a", "--accept", "call/pay")
    assert stage.ran() == ["a", "b"]


def test_edits_02_one_of_its_visits_is_named(tmp_path: Path) -> None:
    stage = Ledger(tmp_path)
    ways = "onOutcome: {passed: {nextStep: %s}, failed: {nextStep: pay}}"
    stage.play(
        "id: trial\nlabel: T\ndescription: d\ninitialStep: pay\nsteps:\n"
        '  pay: {command: "echo pay >> ledger", effect: true, ' + ways % "b" + "}\n"
        '  b: {command: "test $(wc -l < ledger) = 2", ' + ways % "c" + "}\n"
        '  c: {command: "true", onOutcome: {passed: {action: exit, reason: ok}, '
        "failed: {action: exit, reason: bad}}}\n"
    )
    assert stage.ran() == ["pay", "pay"]
    assert "--redo b --accept pay@2" in stage.resume("--redo", "b", exit_code=2).stderr
    stage.write("ledger", "pay\n")
    stage.resume("--redo", "pay@2")
    assert stage.ran() == ["pay", "pay"]


@pytest.mark.parametrize(("answer", "ran"), [(True, ["b", "c"]), (False, [])])
def test_edits_02_on_a_terminal_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bool, ran: list[str]
) -> None:
    stage = Ledger(tmp_path)
    stage.play(workflow(command("a"), command("b", fields=", effect: true"), command("c")))
    stage.ran()
    stage.edit("echo b", "echo  b")
    asked: list[str] = []

    def confirm(_: object, question: str) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(CommandLine, "confirm", confirm)
    stage.resume("--edited", exit_code=0 if answer else 2)
    assert asked == ["step 'b' has an effect (`effect: true`) and would run a second time"]
    assert stage.ran() == ran


def test_edits_02_all_of_them_are_named_at_once(tmp_path: Path) -> None:
    """The command that is advised is the whole answer, however many items a loop has."""
    stage = Ledger(tmp_path)
    look = '{name: look, command: ["sh", "-c", "echo look-${item} >> ledger"]}'
    pay = '{name: pay, effect: true, command: ["sh", "-c", "echo pay-${item} >> ledger"]}'
    stage.play(workflow(f"  - {{name: l, for_each: {{items: [x, y], steps: [{look}, {pay}]}}}}\n"))
    stage.ran()
    stage.edit("echo look", "echo  look")
    refused = stage.resume("--edited", exit_code=2).stderr
    assert "steps 'l[0]/pay' and 'l[1]/pay' have an effect" in refused
    advised = next(line for line in refused.splitlines() if "still holds: " in line)
    stage.resume(*shlex.split(advised[advised.index("--accept") :]))
    assert stage.ran() == ["look-x", "look-y"]
