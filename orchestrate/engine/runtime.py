"""What the engine needs from the world: the run's store, executors, the clock, the environment."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orchestrate.agents.base import Agent, Permissions, Question, Reply
from orchestrate.agents.definition import AgentDefinition
from orchestrate.engine.costing import MoneyRules
from orchestrate.engine.rehearsing import Rehearsal
from orchestrate.engine.scope import RunFacts, slug
from orchestrate.engine.secrets import Secrets
from orchestrate.engine.stop import Stop
from orchestrate.errors import SessionInUseError
from orchestrate.execute.base import LOCAL, SAY_AFTER_S, Executor, Exit, Job
from orchestrate.execute.liveness import is_keeper_alive
from orchestrate.exits import Ending
from orchestrate.git_head import head_of
from orchestrate.plan.nodes import Node, NodeId, Plan, PlanId
from orchestrate.plan.settings import Input
from orchestrate.record import field, mutable_record, record
from orchestrate.state import clock
from orchestrate.state.durable import read_file, write_durably
from orchestrate.state.earlier import Earlier
from orchestrate.state.events import RunEnded, run_ended
from orchestrate.state.ledger import Ledger, ledger_of
from orchestrate.state.locks import Lock, lock_session, user_state_folder
from orchestrate.state.logbook import Logbook
from orchestrate.state.runs import Run
from orchestrate.state.slots import Queue
from orchestrate.state.store import LAG_S, Store
from orchestrate.state.users import user_name
from orchestrate.state.values import restore_value, store_value
from orchestrate.workspace import Workspace

if TYPE_CHECKING:
    from orchestrate.checkpoints.store import Store as CheckpointStore
    from orchestrate.engine.checkpoints import Checkpoints
    from orchestrate.engine.spread import Spreader

# Tenths of a second.
_KEEPER_LEAVES_IN = 30

Answer = Literal["retry", "continue", "stop"]
# Opens what runs programs at a place that `StepStarted` names. The function that it is given says
# how many seconds are left for an answer; None if there is no hurry.
OpenExecutor = Callable[[str, Callable[[], float | None]], Executor]


@record
class Options:
    """How a run is to be watched; what it does is in the plan."""

    debug: bool = False
    trace: bool = False
    backup_state: bool = False
    # Variables whose values `debug` shows, too.
    debug_env: tuple[str, ...] = ()


class Operator:
    """The person at the terminal. Without a terminal no question is asked and nothing blocks."""

    def choose_after_failure(
        self,
        step: str,  # noqa: ARG002
        message: str,  # noqa: ARG002
        last_lines: Sequence[str],  # noqa: ARG002
    ) -> Answer:
        """What to do about a failed step (`--on-error interactive`)."""
        return "stop"

    def decide_gate(
        self,
        gate: str,  # noqa: ARG002
        prompt: str,  # noqa: ARG002
        seconds_left: float | None,  # noqa: ARG002
        is_decided: Callable[[], object],  # noqa: ARG002
    ) -> tuple[Literal["approved", "denied"], str] | None:
        """The decision about a gate and a message; None without a person to decide.

        The gate is called `stage 'x'`, or `step 'x'` where it is one.
        The question ends as soon as `is_decided` says that the gate was decided elsewhere.
        """
        return None

    def tell_decided(self, gate: str, decision: str, by: str) -> None:
        """The gate was decided elsewhere first."""


@record
class AgentRules:
    """How agents are asked in this run (flags and configuration)."""

    backend: str
    system_prompt: str | None = None
    permissions: Permissions = "bypass"
    # How long an agent may print nothing; 0 is for ever. A long command of its own is silence, too.
    silence_s: float = 3600.0
    # Between TERM and KILL; A §13.1 has 200 ms, in which few agents can save anything.
    grace_s: float = 5.0
    # Do agents finish their turn when another item has failed?
    lets_finish: bool = False
    # Without it a run parks whose calls all wait until their account's usage limit is over.
    waits_for_quota: bool = True
    # How many programs of an agent, and of all, may run at once on this machine.
    slots: Mapping[str, int] = field(default_factory=dict)
    # Set if nothing is really done.
    rehearsal: Rehearsal | None = None
    money: MoneyRules = MoneyRules()


@record
class FollowingStep:
    """The step that follows another one's success; `is_item`: as the first of the next item."""

    node: Node
    is_item: bool


@mutable_record
class SentAhead:
    """Programs that are sent ahead (ADR 0019).

    `begun`: one that has begun by itself, and whose step is performed next, whatever comes.
    """

    begun: Job | None = None
    # Is the step that is performed the only one?
    is_alone: bool = False
    # Which step follows a step in any case, and may be sent ahead.
    followers: dict[tuple[PlanId, NodeId], FollowingStep | None] = field(default_factory=dict)

    def take(self, attempt: str) -> Job | None:
        """The program of this attempt, if it has begun."""
        job = self.begun
        if job is None or job.attempt != attempt:
            return None
        self.begun = None
        return job


@record
class Library:
    """What the engine asks for by name: agents, their definitions, plans that come late."""

    agent_of: Callable[[str], Agent]
    definition_of: Callable[[str, dict[str, Any]], AgentDefinition]
    # The plan at a path that was worked out in another plan (B: a templated `recipe:`), and the
    # checksums of its files.
    find_plan: Callable[[str, PlanId], tuple[Plan, dict[str, str]]]
    # The value of an input of a called plan, held against its declaration.
    settle: Callable[[Input, Any], Any]
    # The schemas of outputs as they were when the run began, by path.
    kept_schemas: Callable[[], Mapping[str, str]]
    # Records a turn for `replay`.
    keep_turn: Callable[[Question, Reply], None]
    # What the definition says of a named agent, and which model is a plan's default there.
    agent_file: Callable[[str], Any] = lambda name: name
    model_of: Callable[[PlanId], str | None] = lambda _: None


class Runtime:
    """One run's connection to the world."""

    # The machine that an earlier sitting was lost with: what stood at a cursor was lost, too.
    lost_with = ""
    # The sessions that came along with a run that has moved.
    sessions_here: frozenset[str] = frozenset()
    # Of a run on a fleet: who brings items to other machines; and of such an item its frame.
    spreader: Spreader | None = None
    item = ""
    # After an edit: the results from before it.
    earlier: Earlier | None = None
    # Who records the workspace, where that is wanted.
    checkpoints: Checkpoints | None = None
    # Those that it has; loaded late, because only a run that was edited asks.
    open_checkpoints: Callable[[], CheckpointStore | None] = staticmethod(lambda: None)
    # The anchor that was looked at last, and what it counts from.
    _anchor: clock.Anchor | None = None
    _zero: float | None = None
    _queue: Queue | None = None

    def __init__(  # noqa: PLR0913 - it is the sum of what a run needs
        self,
        *,
        workspace: Workspace,
        store: Store,
        secrets: Secrets,
        environment: Mapping[str, str],
        stop: Stop,
        logbook: Logbook,
        options: Options | None = None,
        operator: Operator | None = None,
        rules: AgentRules,
        library: Library,
        open_executor: OpenExecutor,
    ) -> None:
        self.workspace = workspace
        self.store = store
        self.secrets = secrets
        self.environment = environment
        self.stop = stop
        self.logbook = logbook
        self.options = options or Options()
        self.operator = operator or Operator()
        self.rules = rules
        stop.usual_grace_s = self.rules.grace_s
        self.library = library
        # Attempts that an earlier orchestrator may have started: asked about before anything else.
        # True: it was announced.
        self.may_be_known: dict[str, bool] = {}
        # A `resume` has not yet come to what was never started: what was recorded last may be lost.
        self.is_catching_up = False
        # The exits of those of them that have ended.
        self.exits: dict[str, Exit] = {}
        # Where those of them run that do not run on this machine.
        self.whereabouts: dict[str, str] = {}
        # Those of them that were lost before we came.
        self.inherited_losses: set[str] = set()
        # Was the run's folder copied from another? Then what was announced is the original's.
        self.is_copy = False
        # What each agent's program said about its version, '' where it said nothing.
        self.versions: dict[str, str] = {}
        self.asking_versions = threading.Lock()
        state = store.state
        self.facts = RunFacts(
            id=state.run_id,
            root=_relative(store.run.root, workspace.root),
            started_at=state.started_at,
            project=slug(str(workspace.root)),
            environment=environment,
        )
        self.user = user_name(environment)
        self.logs = str(store.run.logs)  # asked for several times a step, and cheaper as a text
        self._litter: dict[str, list[Path]] = {}
        # The frames whose next event says no more than what an executor has on record.
        self._on_record: set[str] = set()
        self.sent_ahead = SentAhead()
        # Set when the executors cannot be of use to a `resume`: limits or disks have failed them.
        self.are_executors_spent = False
        self._is_leaving = False
        self._open_executor = open_executor
        self._executors: dict[str, Executor] = {}
        self._opening = threading.Lock()
        # The locks of the sessions in use, by agent and id: the run's own, and those of steps.
        self._sessions: dict[tuple[str, str], Lock] = {}
        self._own_session: tuple[str, str] | None = None

    @cached_property
    def constant_keys(self) -> dict[int, tuple[Node, dict[str, Any]]]:
        """What steps are asked that are asked the same at every item (`engine/keys`), by node."""
        return {}

    @cached_property
    def ledger(self) -> Ledger:
        return ledger_of(self.environment)

    @property
    def queue(self) -> Queue:
        """Where calls wait for one of the user's slots; the same for all threads."""
        with self._opening:
            if self._queue is None:
                self._queue = Queue(user_state_folder(self.environment), self.rules.slots)
            return self._queue

    @property
    def rehearsal(self) -> Rehearsal | None:
        return self.rules.rehearsal

    @property
    def run(self) -> Run:
        return self.store.run

    def executor_of(self, attempt: str) -> Executor:
        """What runs the program of an attempt, or is to run it."""
        return self.executor(self.whereabouts.get(attempt, LOCAL))

    def executor(self, where: str = LOCAL) -> Executor:
        """What runs programs there; a run that starts none opens none."""
        with self._opening:
            executor = self._executors.get(where)
            if executor is None:
                executor = self._executors[where] = self._open_executor(where, self._hurry_s)
                self.stop.on_request.append(executor.wake)
            return executor

    def _hurry_s(self) -> float | None:
        """How long an executor that is silent may keep us from ending; None if we are not to."""
        if self.stop.is_requested:
            return 1.0 if self.stop.is_urgent else SAY_AFTER_S
        return SAY_AFTER_S if self._is_leaving else None

    def hold_session(self, agent: str, session: str) -> None:
        """Be the only one who uses a session, until the run ends or starts another (A §3.3)."""
        if self._own_session == (agent, session):
            return
        self.release_session()
        self._lock_session(agent, session)
        self._own_session = (agent, session)

    def take_session(self, agent: str, session: str, lock: Lock) -> None:
        """Use a session whose lock the starter holds already, from before there was a run."""
        write_durably(_user_of(lock), os.fsencode(self.run.root))
        self._sessions[agent, session] = lock
        self._own_session = (agent, session)

    def hold_step_session(self, agent: str, session: str) -> None:
        """Be the only one who uses a step's session, until its attempt ends."""
        if (agent, session) not in self._sessions:
            self._lock_session(agent, session)

    def _lock_session(self, agent: str, session: str) -> None:
        command = ("orchestrate", "run", self.facts.id)
        lock = lock_session(agent, session, command, self.environment)
        try:
            self._refuse_orphan(lock, session)
            write_durably(_user_of(lock), os.fsencode(self.run.root))
        except BaseException:
            lock.release()
            raise
        self._sessions[agent, session] = lock

    def _refuse_orphan(self, lock: Lock, session: str) -> None:
        """An agent can outlive its orchestrator, whose lock is free then: look for its keeper."""
        content = read_file(_user_of(lock))
        root = Path(os.fsdecode(content)) if content else self.run.root
        if root == self.run.root:
            return
        # The keeper of a run that has just ended is about to go.
        for _ in range(_KEEPER_LEAVES_IN):
            if not is_keeper_alive(root):
                return
            self.stop.rest(0.1)
        if is_keeper_alive(root):
            raise SessionInUseError(
                f"session {session} is in use by an agent of run {root.name}, "
                "whose orchestrator is gone",
                f"go on with it: orchestrate resume {root.name}",
            )

    def release_session(self) -> None:
        """Let go of the run's own session."""
        if self._own_session is not None:
            lock = self._sessions.pop(self._own_session)
            _user_of(lock).unlink(missing_ok=True)
            lock.release()
            self._own_session = None

    def release_step_session(self, agent: str, session: str | None) -> None:
        """Let go of a step's session. There is one for each step, so its lock goes, too."""
        lock = self._sessions.pop((agent, session or ""), None)
        if lock is not None:
            _user_of(lock).unlink(missing_ok=True)
            lock.remove()

    def forget_later(self, frame: str, path: Path) -> None:
        """A file that is not needed once the frame's next event is on record, and not before."""
        self._litter.setdefault(frame, []).append(path)

    def forget_now(self, frame: str) -> None:
        for path in self._litter.pop(frame, ()):
            with suppress(OSError):
                os.unlink(path)

    def note_on_record(self, frame: str) -> None:
        """The frame's next event says what an executor has on record (ADR 0017)."""
        self._on_record.add(frame)

    def is_on_record(self, frame: str) -> bool:
        """Can the frame's next event be derived again? Asked once; not if it has a file deleted."""
        is_so = frame in self._on_record and frame not in self._litter
        self._on_record.discard(frame)
        return is_so

    def now(self) -> float:
        """The time of the run, which does not jump."""
        anchor = self.store.state.clock
        if anchor is not self._anchor:
            self._anchor, self._zero = anchor, clock.zero_of(anchor)
        return clock.now_by(anchor) if self._zero is None else self._zero + clock.since_boot()

    def ended(self, ending: Ending) -> RunEnded:
        """The end of the run, or of this sitting of it."""
        return run_ended(self.now(), ending, head_of(self.workspace.root))

    def rest(self, seconds: float) -> bool:
        """Sleep until it is time or a stop is requested; True for the latter."""
        self.store.checkpoint(is_due=seconds > LAG_S)
        return self.stop.rest(seconds)

    def new_session(self) -> str:
        import uuid

        return str(uuid.uuid4())

    def jitter(self) -> float:
        import random

        return random.random()

    def store_value(self, value: Any) -> Any:
        return store_value(self.run.root, value)

    def restore_value(self, value: Any) -> Any:
        return restore_value(self.run.root, value)

    def close(self, *, is_over: bool = False) -> None:
        """Let go of the sessions and the executors; when the run is over, these are seen out."""
        self.release_session()
        for agent, session in list(self._sessions):
            self.release_step_session(agent, session)
        self._is_leaving = True
        for executor in self._executors.values():
            self.stop.on_request.remove(executor.wake)
            executor.close(is_over=is_over or self.are_executors_spent)
        self._executors.clear()


def _user_of(lock: Lock) -> Path:
    """Beside a session's lock: the run that used the session last."""
    return lock.path.with_suffix(".run")


def _relative(path: Path, root: Path) -> str:
    """`${run.root}`: relative to the workspace where it lies in it."""
    return os.path.relpath(path, root) if path.is_relative_to(root) else str(path)
