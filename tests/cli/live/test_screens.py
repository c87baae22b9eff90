"""Whole screens of runs: a loop, a machine, parallel items, a gate, and screens of all sizes."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path

import pytest

from tests.cli.live.scenes import UNTIL, command, give_sign, loop, workflow
from tests.cli.live.screens import display
from tests.recipes.fakes import Workshop, recipe, rule

LOOPED = workflow(
    command("List", "three"),
    loop("Work", 3, command("First", "begun", "at it", sign="go-${loop.index}"), command("Second")),
    command("Last", "bye", sign="end"),
)


def test_a_workflow_with_a_loop(folder: Path) -> None:
    (folder / "w.yaml").write_text(LOOPED)
    with display(folder, "run", "w.yaml") as seen:
        seen.await_screen("""
            run RUN starts w.yaml (process N)
            ▶ demo          #s
              ✓ List        #s
              ● Work        0/3  #s
                ▸ [0] item 0
                  ● First   #s
                    at it
                  ○ Second
              ○ Last
        """)
        give_sign(folder, "go-0")
        seen.await_words("1/3", "[1] item 1", "at it")
        give_sign(folder, "go-1")
        give_sign(folder, "go-2")
        seen.await_screen("""
            run RUN starts w.yaml (process N)
            ▶ demo    #s
              ✓ List  #s
              ✓ Work  3/3
              ● Last  #s
                bye
        """)
        give_sign(folder, "end")
        assert seen.finish() == 0
        seen.await_screen("""
            run RUN starts w.yaml (process N)
            ✓ demo    #s
              ✓ List  #s
              ✓ Work  3/3
              ✓ Last  #s
            run RUN completed
        """)
        assert seen.cursor == (0, 6, True)
        assert seen.wraps


MACHINE = """\
id: tidy
label: Tidy
description: Tidy up
initialStep: tidy
guardrails: {maxStepVisits: 10, maxTotalSteps: 100}
steps:
  tidy:
    prompt: STEP:tidy
    outcomes: [complete, other]
    onOutcome:
      complete: {nextStep: check}
      other: {action: exit, reason: user-provided-other}
  check:
    prompt: STEP:check
    model: haiku
    outcomes: [good, bad, other]
    onOutcome:
      good: {action: exit, reason: all-good}
      bad: {nextStep: tidy}
      other: {action: exit, reason: user-provided-other}
"""


def test_a_machine_in_rehearsal(folder: Path) -> None:
    """Its answers stay above the view, which is left as the run ended."""
    (folder / "m.yaml").write_text(MACHINE)
    (folder / "s.json").write_text('{"check": ["bad", "good"]}')
    flags = ("--backend", "rehearsal", "--script", "s.json")
    with display(folder, "run", "m.yaml", *flags, size=(80, 40)) as seen:
        assert seen.finish() == 0
        told = "  REHEARSAL: no agent is asked, no command is run, no file is changed"
        answers = [
            f"-- {step}{f', visit {visit}' if visit > 1 else ''}: {outcome}\n"
            f'{{"outcome": "{outcome}"}}'
            for step, visit, outcome in (
                ("tidy", 1, "complete"),
                ("check", 1, "bad"),
                ("tidy", 2, "complete"),
                ("check", 2, "good"),
            )
        ]
        expected = [
            "run RUN starts m.yaml (process N)",
            told,
            *answers,
            "✓ tidy     #s  total 4/100",
            "  ✓ tidy   complete  #s  visit 2/10",
            "  ✓ check  good  #s  visit 2/10",
            "Exit: all-good",
            "run RUN completed: all-good",
            told,
        ]
        assert seen.shown == "\n".join(expected)


def test_a_machine_at_work(shop: Workshop) -> None:
    """The guardrails, the agent and its model, what it said last, and what it has cost so far."""
    shop.write("m.yaml", MACHINE)
    wait = {"delay": 30, "until": str(shop.top / "go")}
    shop.answers(
        rule("STEP:tidy", 'All is tidy.\n{"outcome": "complete"}'),
        rule("STEP:check", 'Bad.\n{"outcome": "bad"}', {"text": "Good", **wait}),
    )
    with display(shop.folder, "run", "m.yaml", environment=shop.surroundings) as seen:
        seen.await_screen("""
            run RUN starts m.yaml (process N)
              agent claude-code, model sonnet, permissions bypass (1 step)
              agent claude-code, model haiku, permissions bypass (1 step)
            -- tidy: complete
            All is tidy.
            {"outcome": "complete"}
            -- check: bad
            Bad.
            {"outcome": "bad"}
            -- tidy, visit 2: complete
            All is tidy.
            {"outcome": "complete"}
            ▶ tidy     #s  total 4/100  $0.0180 in 3 calls
              ✓ tidy   complete  #s  visit 2/10
              ● check  visit 2/10  claude-code haiku  #s  the model writes
        """)
        seen.type("\x03")
        assert seen.finish() == 130
        assert "orchestrate resume RUN" in seen.shown


QUESTION = "[a]pprove, [d]eny, or [l]ater? A message may follow the letter:"
PARALLEL = recipe("""
    context: {names: [ada, bob, cyd, dan]}
    stages:
      - name: reading
        steps:
          - id: read
            foreach: "{{names}}"
            as: name
            parallel: true
            agent: helper
            prompt: "STEP:read {{name}}"
            collect: notes
        approval: {required: true, timeout: 600, prompt: "Go on?"}
      - name: writing
        steps: [{id: write, agent: helper, prompt: "STEP:write"}]
""")


def test_a_recipe_with_parallel_items_and_a_gate(shop: Workshop) -> None:
    shop.write("r.yaml", PARALLEL)
    slow = {"delay": 30, "until": str(shop.top / "go")}
    shop.answers(
        rule("bob", "quick"),
        rule("STEP:read", {"text": "read", **slow}),
        rule("STEP:write", "Written."),
    )
    with display(
        shop.folder, "run", "r.yaml", "--max-parallel", "3", environment=shop.surroundings
    ) as seen:
        seen.await_screen("""
            run RUN starts r.yaml (process N)
              agent helper (claude-code), model sonnet, permissions bypass
            ▶ trial                  #s  $0.0060 in 1 call
              ● read                 1/4  #s
                ● [0] ada            read  helper  #s  the model writes
                ● [2] cyd            read  helper  #s  the model writes
                ● [3] dan            read  helper  #s  the model writes
              ○ approval of reading
              ○ write
        """)
        (shop.top / "go").touch()
        seen.await_words("A message may follow the letter:")
        question = seen.shown
        assert seen.read_for(0.8) == b"", "the view moves while somebody is asked"
        assert question.endswith(f"Go on?\n\n{QUESTION}")
        seen.type("a fine\r")
        assert seen.finish() == 0
        assert seen.shown.endswith(
            """\
[a]pprove, [d]eny, or [l]ater? A message may follow the letter: a fine
the gate was approved by """
            + who()
            + """
✓ trial    #s  $0.0300 in 5 calls
  ✓ read   4/4
  ✓ approval of reading
  ✓ write  #s
run RUN completed
  cost: $0.0300 in 5 agent calls"""
        )


def who() -> str:
    return os.environ.get("USER") or os.environ.get("LOGNAME") or pwd.getpwuid(os.getuid()).pw_name


def test_a_failure_stays_above_with_its_reason(folder: Path) -> None:
    text = workflow(command("Good"), command("Wait", sign="go"))
    text += '  - name: Bad\n    command: ["bash", "-c", "echo oh no >&2; exit 3"]\n'
    (folder / "w.yaml").write_text(text)
    give_sign(folder, "go")
    with display(folder, "run", "w.yaml") as seen:
        assert seen.finish() == 1
        seen.await_screen("""
            run RUN starts w.yaml (process N)
            [3/3] Bad: failed with exit code 3 (#s)
                Command failed with exit code 3
                | oh no
            ✗ demo    #s  failed
              ✓ Good  #s
              ✓ Wait  #s
              ✗ Bad   exit code 3  #s
                Command failed with exit code 3
            run RUN failed: step 'Bad' failed
              look:   orchestrate logs RUN Bad
              go on:  orchestrate resume RUN
        """)


def test_a_narrow_screen(folder: Path) -> None:
    (folder / "w.yaml").write_text(LOOPED.replace("Second", "A-very-long-name-of-a-step"))
    with display(folder, "run", "w.yaml", size=(20, 12)) as seen:
        seen.await_words("at it", "○ Last")
        assert moving(seen.shown) == (
            "▶ demo    #s\n  ✓ List  #s\n  ● Work  0/3  #s\n    ▸ [0] item 0\n"
            "      ● …  #s\n        at it\n      ○ A-very-lon…\n  ○ Last"
        )
        assert all(len(row) < 20 for row in seen.lines[-8:])


@pytest.mark.parametrize("height", [1, 3])
def test_a_tiny_screen_shows_what_is_at_work(folder: Path, height: int) -> None:
    (folder / "w.yaml").write_text(LOOPED)
    with display(folder, "run", "w.yaml", size=(60, height)) as seen:
        seen.await_words("▶ demo" if height < 3 else "● Work")
        for sign in ("go-0", "go-1", "go-2"):
            give_sign(folder, sign)
        seen.await_words("▶ demo" if height < 3 else "● Last")
        assert sum("demo" in row for row in seen.lines) == 1
        give_sign(folder, "end")
        assert seen.finish() == 0
        assert b"completed" in seen.raw
        assert seen.wraps


def moving(screen: str) -> str:
    """The moving part; what stood above may have been cut by the terminal."""
    return screen[screen.index("▶") :]


def test_a_resized_screen_is_drawn_anew(folder: Path) -> None:
    (folder / "w.yaml").write_text(LOOPED)
    with display(folder, "run", "w.yaml") as seen:
        seen.await_words("at it", "○ Last")
        before = moving(seen.shown)
        seen.resize(100, 30)
        seen.resize(30, 10)
        seen.await_that(
            lambda: (
                all(words in seen.shown for words in ("▶ demo", "○ Last"))
                and all(len(row) < 30 for row in seen.lines)
            )
        )
        seen.resize(80, 24)
        seen.await_that(lambda: "▶" in seen.shown and moving(seen.shown) == before)
        give_sign(folder, "go-0")
        seen.await_words("1/3")
        assert sum("demo" in row for row in seen.lines) == 1


def test_more_steps_than_rows(folder: Path) -> None:
    names = [f"Step-{number}" for number in range(40)]
    steps = [command(name, sign="go" if name == "Step-20" else "") for name in names]
    (folder / "w.yaml").write_text(workflow(*steps))
    with display(folder, "run", "w.yaml", size=(60, 10)) as seen:
        seen.await_screen("""
            run RUN starts w.yaml (process N)
            ▶ demo       #s
              … 18 steps before
              ✓ Step-18  #s
              ✓ Step-19  #s
              ● Step-20  #s
              ○ Step-21
              ○ Step-22
              ○ Step-23
              … 16 steps to come
        """)
        give_sign(folder, "go")
        assert seen.finish() == 0


def test_colours_are_used_unless_nobody_wants_them(folder: Path) -> None:
    (folder / "w.yaml").write_text(workflow(command("Only")))
    with display(folder, "run", "w.yaml") as seen:
        assert seen.finish() == 0
        assert "green" in seen.colours()
    with display(folder, "run", "w.yaml", environment={"NO_COLOR": "1"}) as seen:
        assert seen.finish() == 0
        assert seen.colours() == {"default"}
        assert b"\x1b[3" not in seen.raw
        assert "✓ Only" in seen.shown


def test_a_terminal_without_our_signs(folder: Path) -> None:
    (folder / "w.yaml").write_text(workflow(command("Only")))
    plain = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    with display(folder, "run", "w.yaml", environment=plain) as seen:
        assert seen.finish() == 0
        assert "+ demo" in seen.shown
        assert "  + Only" in seen.shown


# As in real life, but nobody has to wait ten seconds for it.
IMPATIENT = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from orchestrate.show.live import view
view.SILENT_S = 5.0
from orchestrate.cli.main import main
main()
"""


def test_silence_is_told_from_work(shop: Workshop) -> None:
    talk = f"echo begun; {UNTIL.format(sign='go')}; while :; do echo $((n++)); sleep 0.1; done"
    step = f"  - name: Talk\n    command: {json.dumps(['bash', '-c', talk])}\n"
    shop.write("w.yaml", workflow(step))
    with display(shop.folder, "run", "w.yaml", start=IMPATIENT) as seen:
        seen.await_words("● Talk  #s  silent for #s\n    begun")
        give_sign(shop.folder, "go")
        seen.await_words("● Talk  #s\n    1")
        seen.read_for(6)
        assert "silent" not in seen.shown
        seen.type("\x03")
        assert seen.finish() == 130


def test_a_silent_agent_is_told_from_one_that_never_spoke(shop: Workshop) -> None:
    shop.write("w.yaml", workflow(command("Mute", sign="go")))
    with display(shop.folder, "run", "w.yaml", start=IMPATIENT) as seen:
        seen.await_words("● Mute  #s  no output for #s")
        give_sign(shop.folder, "go")
        assert seen.finish() == 0
    shop.write("m.yaml", MACHINE)
    shop.answers(rule("STEP:tidy", {"text": "hm", "delay": 60}))
    environment = shop.surroundings
    with display(shop.folder, "run", "m.yaml", environment=environment, start=IMPATIENT) as seen:
        seen.await_words("● tidy   visit 1/10  claude-code  #s  silent for #s")
        seen.type("\x03")
        assert seen.finish() == 130
