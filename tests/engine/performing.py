"""A run with a real folder and journal, answered by a script instead of an agent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orchestrate.agents.base import Failure, Question, Reply, RunProgram
from orchestrate.agents.definition import AgentDefinition
from orchestrate.agents.stand_ins.free import StandIn
from orchestrate.app.working.executors import executors_of
from orchestrate.engine.perform import perform
from orchestrate.engine.runtime import AgentRules, Library, Operator, Runtime
from orchestrate.engine.scheduler import run_to_end
from orchestrate.engine.secrets import Masking, Secrets
from orchestrate.engine.stop import Stop
from orchestrate.execute.base import Executor
from orchestrate.plan.nodes import Program
from orchestrate.record import replace
from orchestrate.state.events import RunStarted, event_from_json, event_to_json
from orchestrate.state.logbook import Logbook
from orchestrate.state.model import Frame, Index
from orchestrate.state.runs import create_run, open_runs
from orchestrate.state.store import Store, begin, first_files, load
from orchestrate.workspace import Workspace
from tests.state.folding import first_event

Answer = str | Failure | Reply | Callable[[Question], "str | Failure | Reply"]
# What each step is answered, one after the other.
Answers = Mapping[str, Sequence[Answer]]
# The script takes the place of a recording.
AGENT = "replay"


class ScriptedAgent(StandIn):
    """Answers each step with what is next for it; the last answer is given again."""

    name = AGENT

    def __init__(self, answers: Answers) -> None:
        self.answers = {step: list(given) for step, given in answers.items()}
        self.asked: list[Question] = []

    def ask(self, question: Question, run: RunProgram) -> Reply:  # noqa: ARG002
        self.asked.append(question)
        left = self.answers.get(question.step, ["fine"])
        answer = left.pop(0) if len(left) > 1 else left[0]
        if callable(answer):
            answer = answer(question)
        match answer:
            case str():
                return Reply(answer, session=question.session)
            case Failure():
                return Reply(failure=answer)
            case Reply():
                return answer

    @property
    def steps(self) -> list[str]:
        return [question.place for question in self.asked]


def outcome(name: str) -> str:
    return f'Done.\n{{"outcome": "{name}"}}'


class Run:
    """What a test may do with a run, and see of it."""

    def __init__(self, rt: Runtime, agent: ScriptedAgent, turns: list[str]) -> None:
        self.rt = rt
        self.agent = agent
        self.turns = turns

    @property
    def store(self) -> Store:
        return self.rt.store

    def to_end(self) -> tuple[str, str, int]:
        ending = run_to_end(self.rt)
        return ending.status, ending.reason, ending.code

    def perform(self, frame: Frame | None = None) -> list[dict[str, Any]]:
        """Perform the step at a cursor and record what came of it, as the journal has it."""
        events = perform(self.rt, frame or self.store.state.root)
        self.store.record(*events)
        return [event_to_json(event) for event in events]

    def record(self, on: str, **fields: Any) -> None:
        self.store.record(event_from_json({"on": on, "at": self.rt.now(), **fields}))

    @property
    def journal(self) -> list[dict[str, Any]]:
        lines = self.store.run.events.read_text("utf-8").splitlines()
        return [json.loads(line)["event"] for line in lines]

    @property
    def document(self) -> dict[str, Any]:
        """`state.json`, as it lies on the disk."""
        found: dict[str, Any] = json.loads(self.store.run.state.read_bytes())
        return found

    def log(self, name: str) -> str:
        return (self.store.run.logs / name).read_text("utf-8")


@contextmanager
def running(
    folder: Path,
    program: Program,
    answers: Answers | None = None,
    *,
    operator: Operator | None = None,
    environment: Mapping[str, str] | None = None,
    masking: Masking = Masking(),  # noqa: B008
    context: Mapping[str, Any] | None = None,
    executors: Mapping[str, Executor] | None = None,
) -> Iterator[Run]:
    """A run that has begun; nothing of it has been carried out.

    With `executors`, by the places they stand for, its programs are theirs.
    """
    workspace = Workspace(folder.resolve())
    index = Index(program)
    agent = ScriptedAgent(answers or {})
    turns: list[str] = []
    started: list[RunStarted] = []

    def contents(run_id: str) -> dict[str, bytes]:
        event = event_from_json(first_event(program, context or {}) | {"run_id": run_id})
        assert isinstance(event, RunStarted)
        started.append(event)
        return first_files(index, event)

    run, lock = create_run(open_runs(workspace.root), ["tests"], contents)
    store = begin(run, lock, index, started[-1])
    secrets = Secrets(program, environment or {}, masking)
    stop = Stop()
    rt = Runtime(
        workspace=replace(workspace, run=run.root),
        store=store,
        secrets=secrets,
        environment={**(environment or {}), "XDG_STATE_HOME": str(folder / "user-state")},
        stop=stop,
        logbook=Logbook(run.logs / "orchestrator.log", "info", secrets.text),
        operator=operator,
        rules=AgentRules(backend=AGENT, lets_finish=True),
        library=Library(
            agent_of=lambda _: agent,
            definition_of=lambda name, _: AgentDefinition(name, AGENT),
            find_plan=lambda path, _: (index.plan(path), {}),
            settle=lambda _, value: value,
            kept_schemas=dict,
            keep_turn=lambda _, reply: turns.append(reply.text),
        ),
        open_executor=(
            executors_of(store, workspace) if executors is None else lambda at, _: executors[at]
        ),
    )
    try:
        yield Run(rt, agent, turns)
        # What was recorded is all there is: the journal alone makes the same state.
        again = load(run, Index(program))
        assert (again.status, again.seq) == (store.state.status, store.state.seq)
    finally:
        rt.close(is_over=True)
        rt.logbook.close()
        store.close()
        stop.close()
