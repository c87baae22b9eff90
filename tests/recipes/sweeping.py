"""Recipes to kill, and one trial: killed somewhere, resumed to the end, judged by the ledger."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrate.state.ledger import LedgerEntry, day_around, ledger_of
from tests.acceptance.fakes import read_state
from tests.promises.lanes import Lane, Order
from tests.promises.processes import is_alive
from tests.recipes.conftest import zone_at_midnight
from tests.recipes.fakes import Workshop, recipe, rule

KILLED = -9
PARKED = 6
_RUN_ID = re.compile(r"\d{8}T\d{6}Z-[a-z0-9]{6}\Z")
# Runs, decisions and resumes: more than a trial can need.
_MOST_COMMANDS = 15


@dataclass(frozen=True)
class Shape:
    """A recipe with its files, and about how many changes of files each of its commands makes."""

    name: str
    text: str
    changes: tuple[int, ...]
    files: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    # What the agents say, and the flags that take a run further which its limits have parked.
    answers: tuple[dict[str, Any], ...] = (rule("STEP", delay=0.04),)
    wider: tuple[str, ...] = ()
    most_paid: int = 4
    # What all of the user's runs may spend in a day, of which another workspace has spent a part,
    # and much more before midnight; another day takes a run further that this has parked.
    day_cost: float = 0.0
    spent_elsewhere: float = 0.0

    @property
    def is_limited(self) -> bool:
        return bool(self.wider or self.day_cost)


STAGED = Shape(
    "staged",
    recipe("""
        context: {who: world}
        stages:
          - name: one
            steps:
              - {id: a, agent: helper, prompt: "STEP:a {{who}}", output: x}
              - {id: off, condition: "{{who}} == 'nobody'", agent: helper, prompt: "STEP:off"}
              - {id: b, agent: helper, prompt: "STEP:b {{x}}", output: y}
            approval: {required: true, prompt: "Was it {{y}}?"}
          - name: two
            steps: [{id: c, agent: helper, prompt: "STEP:c {{approval.message}}", output: z}]
            approval: {required: true, prompt: "And {{z}}?"}
          - name: three
            steps: [{id: d, agent: helper, prompt: "STEP:d {{x}} {{y}} {{z}}", output: end}]
    """),
    # run, approve, resume, approve, resume
    changes=(235, 50, 175, 50, 220),
)

PARALLEL = Shape(
    "parallel",
    recipe("""
        context: {items: [i1, i2, i3, i4, i5, i6]}
        steps:
          - {id: first, agent: helper, prompt: "STEP:first", output: x}
          - {id: each, foreach: "{{items}}", parallel: true, agent: helper,
             prompt: "STEP:{{item}} {{x}}", collect: all, output: last}
          - {id: after, agent: helper, prompt: "STEP:after {{all}} {{last}}", output: end}
    """),
    changes=(350,),
    flags=("--max-parallel", "3"),
)

NESTED = Shape(
    "nested",
    recipe("""
        context: {items: [x, y]}
        steps:
          - {id: each, foreach: "{{items}}", parallel: true, type: recipe, recipe: child.yaml,
             context: {item: "{{item}}"}, collect: all}
          - {id: again, type: recipe, recipe: child.yaml, context: {item: z}, output: once}
          - {id: after, agent: helper, prompt: "STEP:after {{all}} {{once}}", output: end}
    """),
    changes=(390,),
    files={
        "child.yaml": recipe("""
            context: {item: "", parts: [1, 2]}
            steps:
              - {id: one, agent: helper, prompt: "STEP:one-{{item}}", output: found}
              - {id: leaf, foreach: "{{parts}}", as: part, type: recipe, recipe: leaf.yaml,
                 context: {name: "{{item}}{{part}}", found: "{{found}}"}, collect: leaves}
        """),
        "leaf.yaml": recipe("""
            context: {name: "", found: ""}
            steps: [{id: ask, agent: helper, prompt: "STEP:leaf-{{name}} {{found}}", output: say}]
        """),
    },
)

WHILE = Shape(
    "while",
    recipe("""
        context: {draft: none, marks: "", last: ""}
        steps:
          - id: polish
            while_condition: "{{marks}} != 'xxx'"
            while_steps:
              - {id: w, agent: helper, prompt: "STEP:w{{marks}} {{draft}}", output: better}
              - {id: off, condition: "{{marks}} == 'none'", agent: helper, prompt: "STEP:off"}
              - {id: r, prompt: "STEP:r{{marks}} {{better}}", output: last}
            update_context: {draft: "{{last}}", marks: "{{marks}}x"}
            collect: all
          - {id: end, agent: helper, prompt: "STEP:end {{draft}} {{all}}", output: end}
    """),
    changes=(380,),
)

SESSIONS = Shape(
    "sessions",
    recipe("""
        context: {items: [i1, i2, i3]}
        steps:
          - {id: first, session: s, agent: helper, prompt: "STEP:first", output: x}
          - {id: each, foreach: "{{items}}", parallel: 2, session: s, agent: helper,
             prompt: "STEP:{{item}} {{x}}", collect: all}
          - {id: again, session: s, agent: helper, prompt: "STEP:again {{all}}", output: end}
    """),
    changes=(330,),
)

DONE = {"text": '{"outcome": "complete"}', "delay": 0.04}
CALLS = Shape(
    "calls",
    recipe("""
        context: {items: [x, y]}
        steps:
          - {id: first, agent: helper, prompt: "STEP:first", output: said}
          - {id: each, foreach: "{{items}}", parallel: true, type: recipe, recipe: machine.yaml,
             context: {word: "{{item}} {{said}}"}, collect: all}
          - {id: after, agent: helper, prompt: "STEP:after {{all}}", output: end}
    """),
    changes=(420,),
    files={
        "machine.yaml": """
            id: machine
            label: L
            description: D
            inputs: {word: {description: A word}}
            outputs: {said: "{{steps.flow.outputs.said}}", word: "{{word}}"}
            initialStep: think
            steps:
              think:
                prompt: "STEP:m-think {{word}}"
                outcomes: [complete, other]
                onOutcome:
                  complete: {nextStep: flow}
                  other: {action: exit, reason: gave-up, status: failed}
              flow:
                call: flow.yaml
                with: {word: "{{word}}"}
                onOutcome:
                  completed: {nextStep: end}
                  failed: {action: exit, reason: flow-failed, status: failed}
              end:
                prompt: "STEP:m-end {{steps.flow.outputs.said}}"
                outcomes: [complete, other]
                onOutcome:
                  complete: {action: exit, reason: fine}
                  other: {action: exit, reason: gave-up, status: failed}
        """,
        "flow.yaml": """
            version: "1.4"
            name: flow
            inputs: {word: {description: A word}}
            outputs: {said: "${steps.Leaf.outputs.say} ${steps.Echo.output}"}
            steps:
              - {name: Echo, command: [echo, "${inputs.word}"]}
              - {name: Leaf, call: leaf.yaml, with: {word: "${steps.Echo.output}"}}
        """,
        "leaf.yaml": recipe("""
            inputs: {word: {description: A word}}
            outputs: {say: "{{say}}"}
            steps: [{id: ask, agent: helper, prompt: "STEP:leaf {{word}}", output: say}]
        """),
    },
    answers=(rule("STEP:m-", DONE), rule("STEP", delay=0.04)),
)

LIMITED = Shape(
    "limited",
    recipe("""
        limits: {calls: 4}
        context: {items: [i1, i2, i3, i4, i5, i6]}
        outputs: {all: "{{all}}"}
        steps:
          - {id: first, agent: helper, prompt: "STEP:first", output: x}
          - {id: each, foreach: "{{items}}", parallel: 3, agent: helper,
             prompt: "STEP:{{item}} {{x}}", collect: all}
    """),
    # run, and a resume that may ask more often
    changes=(230, 170),
    wider=("--max-calls", "20"),
)

BUDGET = Shape(
    "budget",
    recipe("""
        limits: {cost_usd: 2}
        context: {items: [i1, i2, i3, i4, i5, i6, i7, i8, i9]}
        outputs: {all: "{{all}}"}
        steps:
          - {id: each, foreach: "{{items}}", parallel: true, agent: helper,
             prompt: "STEP:{{item}}", collect: all}
    """),
    # run, and a resume that may spend more
    changes=(240, 190),
    answers=(rule("STEP", {"cost": 0.4, "delay": 0.04}),),
    wider=("--max-cost", "20"),
    most_paid=5,
)
DOLLAR = Shape(
    "dollar",
    recipe("""
        limits: {cost_usd: 1}
        steps:
          - {id: one, agent: helper, prompt: "STEP:one"}
          - {id: two, agent: helper, prompt: "STEP:two"}
          - {id: three, agent: helper, prompt: "STEP:three"}
    """),
    changes=(130, 80),
    answers=(rule("STEP", {"cost": 0.4, "delay": 0.04}),),
    wider=("--max-cost", "20"),
    most_paid=2,
)

DOLLAR_MACHINE = replace(
    DOLLAR,
    name="dollar-machine",
    text="""
id: trial
label: Trial
description: A trial of ours
initialStep: one
limits: {cost_usd: 1}
steps:
"""
    + "".join(
        f"""
  {name}: {{outcomes: [complete, other], prompt: "STEP:{name}",
    onOutcome: {{complete: {{{then}}}, other: {{action: exit, reason: other, status: failed}}}}}}
"""
        for name, then in (
            ("one", "nextStep: two"),
            ("two", "nextStep: three"),
            ("three", "action: exit, reason: completed"),
        )
    ),
    answers=(rule("STEP", {**DONE, "cost": 0.4}),),
)
DOLLAR_WORKFLOW = replace(
    DOLLAR,
    name="dollar-workflow",
    text="""
version: "1.4"
name: trial
limits: {cost_usd: 1}
steps:
  - {name: one, provider: claude, prompt: "STEP:one"}
  - {name: two, provider: claude, prompt: "STEP:two"}
  - {name: three, provider: claude, prompt: "STEP:three"}
""",
)
DOLLARS = (DOLLAR, DOLLAR_MACHINE, DOLLAR_WORKFLOW)
DAY = replace(
    DOLLAR,
    name="day",
    text=DOLLAR.text.replace("limits: {cost_usd: 1}\n", ""),
    wider=(),
    day_cost=1.4,
    spent_elsewhere=0.4,
)

SHAPES = (STAGED, PARALLEL, NESTED, WHILE, SESSIONS, CALLS, LIMITED, BUDGET, *DOLLARS, DAY)


@dataclass(frozen=True)
class Kill:
    """Kill a command, counted from 0, in front of one of its changes."""

    command: int
    change: int


@dataclass(frozen=True)
class Left:
    """What a finished run has left behind, without what differs between any two runs."""

    prompts: list[tuple[str, str]]
    context: dict[str, Any]
    skipped: list[Any]
    approvals: list[tuple[str, str, str]]
    # Dollars and turns, by the run's own state and by the user's ledger; and what is reserved.
    bill: dict[str, float | None]


class Trial:
    """One workspace in which a shape is run, killed and resumed."""

    def __init__(self, top: Path, shape: Shape) -> None:
        top.mkdir(parents=True)
        self.shop = Workshop(top)
        self.shape = shape
        for name, text in {**shape.files, "r.yaml": shape.text}.items():
            self.shop.write(name, text)
        self.shop.answers(*shape.answers)
        self.kills = 0
        self._is_widened = False
        self._zone: dict[str, str] = {}
        self._ledger = ledger_of(self.shop.surroundings)
        if shape.day_cost:
            self._limit_the_day()
        self._messages = (f"message {number}" for number in range(1, 100))

    def _limit_the_day(self) -> None:
        config = Path(self.shop.surroundings["XDG_CONFIG_HOME"]) / "orchestrate" / "config.yaml"
        config.parent.mkdir(parents=True)
        config.write_text(f"limits: {{per_day: {{cost_usd: {self.shape.day_cost}}}}}\n", "utf-8")
        last_night, now = day_around(time.time())[0] - 1, time.time()
        for at, usd in ((last_night, 99.0), (now, self.shape.spent_elsewhere)):
            self._ledger.write(LedgerEntry(
                f"other/{at}", at, "other", "/elsewhere", ("r.yaml",), "one",
                is_settled=True, cost_usd=usd,
            ))  # fmt: skip

    def play(self, lane: Lane, kills: list[Kill]) -> Left:
        """Give commands until the run has completed; some of them are killed on their way."""
        points = {kill.command: kill.change for kill in kills}
        words = self._first_words()
        for number in range(_MOST_COMMANDS):
            before = self.recorded()
            code = self._give(lane, words, points.get(number, 0))
            self.kills += code == KILLED
            assert before <= self.recorded(), "what was recorded as done is gone"
            if code == 0 and words[0] != "approve":
                assert self._is_widened or not self.shape.is_limited, "the limit has parked nothing"
                return self._left()
            words = self._next_words(words, code)
        raise AssertionError(f"no end after {_MOST_COMMANDS} commands:\n{self.said()}")

    def _first_words(self) -> tuple[str, ...]:
        return ("run", "r.yaml", *self.shape.flags)

    def _next_words(self, words: tuple[str, ...], code: int) -> tuple[str, ...]:
        """What a person would do now."""
        if not self.roots():
            return self._first_words()
        run_id = self.roots()[0].name
        if words[0] == "approve":
            if code == KILLED:
                return words
            # 2: it was recorded before the kill, as the command says.
            assert code in (0, 2), self.said()
            return ("resume", run_id)
        assert code in (KILLED, PARKED), f"{words} ended with {code}:\n{self.said()}"
        if code == KILLED:
            return ("resume", run_id)
        if self.shape.is_limited:
            assert len(self.shop.calls()) <= self.shape.most_paid, (
                "more than the limit was paid for"
            )
            self._is_widened = True
            if self.shape.day_cost:
                self._zone = {"TZ": zone_at_midnight()}
            return ("resume", run_id, *self.shape.wider)
        return ("approve", run_id, "--message", next(self._messages))

    def _give(self, lane: Lane, words: tuple[str, ...], die_before: int) -> int:
        top = self.shop.top
        env = {**os.environ, **self.shop.surroundings, **self._zone}
        order = Order(words, self.shop.folder, top / "stdout", top / "stderr", env, die_before)
        return lane.run(order)

    # Looking.

    def said(self) -> str:
        path = self.shop.top / "stderr"
        return path.read_text("utf-8") if path.exists() else ""

    def roots(self) -> list[Path]:
        folder = self.shop.runs_folder
        names = os.listdir(folder) if folder.is_dir() else []
        return [folder / name for name in names if _RUN_ID.match(name)]

    def events(self) -> Iterator[dict[str, Any]]:
        """What is recorded; a line that was torn by a kill is not."""
        for root in self.roots():
            path = root / "events.jsonl"
            for line in path.read_bytes().split(b"\n")[:-1] if path.exists() else ():
                yield json.loads(line)["event"]

    def recorded(self) -> set[tuple[str, str, int]]:
        """The steps that are recorded as done."""
        return {
            (event["frame"], event["node"], event["visit"])
            for event in self.events()
            if event["on"] == "step-finished"
        }

    def _left(self) -> Left:
        roots = self.roots()
        assert len(roots) == 1, f"there are {len(roots)} runs"
        lost = [event for event in self.events() if event.get("why") == "lost"]
        assert not lost, "lost, though the keeper lived"
        state = read_state(roots[0])
        assert (state["status"], state["reason"]) == ("completed", "completed")
        calls = self.shop.calls()
        assert not [call.marker for call in calls if call.end is None], "an agent was ended"
        assert not [call.marker for call in calls if is_alive(call.pid)], "an agent still runs"
        return Left(
            sorted((call.marker, call.text) for call in calls),
            state["context"],
            state.get("skipped_steps", []),
            [(one["stage"], one["status"], one["prompt"]) for one in state.get("approvals", [])],
            self._bill(state),
        )

    def _bill(self, state: dict[str, Any]) -> dict[str, float | None]:
        own = [call for call in self._ledger.since(0) if call.run != "other"]
        costs = state.get("costs", {})
        return {
            "cost_usd": costs.get("cost_usd"),
            "turns": costs.get("turns"),
            "calls": len(own),
            "spent_usd": round(sum(call.cost_usd or 0.0 for call in own), 6),
            "open": sum(not call.is_settled for call in own),
        }
