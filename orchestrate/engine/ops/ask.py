"""An `Ask` step: compose the prompt, ask the agent, and make a result of the answer."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from orchestrate.agent_names import BACKENDS
from orchestrate.agents.base import Agent, Failure, Permissions, Question, Reply
from orchestrate.agents.definition import AgentDefinition
from orchestrate.agents.settings import step_config
from orchestrate.agents.worktree import worktree_environment
from orchestrate.engine.answers import NO_JSON, find_json, structured
from orchestrate.engine.capture import capture_bytes
from orchestrate.engine.evaluate import evaluate
from orchestrate.engine.faults import StepFault
from orchestrate.engine.lost_attempts import lost
from orchestrate.engine.ops.agent_program import LostAttempt, runner
from orchestrate.engine.ops.command import check_target, files_of, matched_files
from orchestrate.engine.ops.declared import ask_declared
from orchestrate.engine.ops.program_result import (
    check_captured,
    failed_attempt,
    unfit,
    write_answer,
)
from orchestrate.engine.ops.rehearse import captured_as, rehearsed_answer
from orchestrate.engine.outcome import Unreadable, bare, outcome_schema, read_outcome
from orchestrate.engine.programs import was_started
from orchestrate.engine.prompts import CUT_OFF, digest_of, prompt_of
from orchestrate.engine.quota import note_quota, wait_for_quota
from orchestrate.engine.reserving import with_computed
from orchestrate.engine.reuse import go_on_in_session, standing_note, void_note
from orchestrate.engine.sessions import (
    Turn,
    after_failure,
    begin_turn,
    end_turn,
    is_gone,
    leave,
    recall_turn,
    seen,
    session_left,
    session_of,
    usage_of,
)
from orchestrate.engine.slots import slot_for
from orchestrate.engine.step import Step, write_private
from orchestrate.engine.texts import clip, encode
from orchestrate.engine.versions import program_version
from orchestrate.engine.watchdog import used_at_least
from orchestrate.engine.whole_output import NotWhole
from orchestrate.errors import ConfigError
from orchestrate.execute.base import Lost
from orchestrate.execute.reasons import COPIED, MOVED, lost_with
from orchestrate.exits import NOT_FOUND, STEP_FAILED, STEP_TIMED_OUT, STEP_UNUSABLE, end
from orchestrate.plan.nodes import (
    INVALID,
    OK,
    Ask,
    BuiltinProvider,
    CommandTemplate,
    NamedAgent,
    RunAgent,
)
from orchestrate.record import replace
from orchestrate.state.denials import count_denials
from orchestrate.state.events import AttemptEnded, Event, StepFinished
from orchestrate.state.result import StepError, StepResult
from orchestrate.state.slots import Ticket
from orchestrate.state.times import timestamp
from orchestrate.state.values import is_stored

# What a failed agent call looks like to dialect C, which knows exit codes only.
_EXIT_CODES = {
    "timeout": STEP_TIMED_OUT,
    "silent": STEP_TIMED_OUT,
    "invalid-request": STEP_UNUSABLE,
    "auth": STEP_UNUSABLE,
    "not-installed": NOT_FOUND,
}
_SHOWN_OF_STORED = 200
_NO_JSON = "parse_json: the answer has no JSON object or array in it"


def perform_ask(step: Step, op: Ask) -> list[Event]:
    """Ask, and make events of what comes back."""
    if isinstance(op.agent, CommandTemplate) and not step.is_rehearsed:
        name = BACKENDS.get(op.agent.name, op.agent.name)
        is_new = not was_started(step.rt, step.attempt_id)
        with slot_for(step, name, is_needed=is_new) as slot:
            return [ask_declared(step, op, op.agent, slot)]
    return _ask_agent(step, op)


def _ask_agent(step: Step, op: Ask) -> list[Event]:
    try:
        who = _definition(step, op)
    except ConfigError as error:
        raise StepFault(f"{error.message}: {error.hint}" if error.hint else error.message) from None
    asked = not step.is_rehearsed and was_started(step.rt, step.attempt_id)
    # The agent that was asked reads its own output, whatever a flag says now.
    backend = (step.about.backend if asked else "") or who.backend
    agent = step.rt.library.agent_of(backend)
    if not asked and (waits := _make_ready(step, op, agent)) is not None:
        return [waits]
    with slot_for(step, agent.name, is_needed=agent.is_program and not asked) as slot:
        # While it has waited, another call may have used up the account.
        late = None if slot is None else wait_for_quota(step, agent.name)
        return _ask_now(step, op, who, agent, slot, asked=asked) if late is None else [late]


def _ask_now(
    step: Step, op: Ask, who: AgentDefinition, agent: Agent, slot: Ticket | None, *, asked: bool
) -> list[Event]:
    turn = recall_turn(step, op, agent) if asked else begin_turn(step, op, agent)
    note = _note(step, op, turn) if agent.is_program else ""
    own_prompt = prompt_of(step, op, note, is_new=turn.is_new, is_again=asked)
    prompt = note + own_prompt if own_prompt else ""
    version = "" if step.is_announced else program_version(step.rt, who.backend)
    question = Question(
        prompt=prompt,
        workspace=step.rt.workspace.root,
        environment=worktree_environment(step.rt.workspace.root)
        | step.rt.secrets.environment_of(op.environment),
        session=turn.session,
        is_new_session=turn.is_new,
        fork_of=turn.fork_of,
        is_after_cut=turn.is_after_cut,
        model=who.model,
        system_prompt=who.system_prompt,
        permissions=step.rt.rules.permissions,
        settings=dict(who.settings),
        step=step.own_name,
        visit=step.here.visit,
        earlier_visits=_earlier_turns(step),
        rehearsed=lambda: rehearsed_answer(step),
        turn=2 if step.here.turn.get("error") else 1,
        place=step.address.step.shown,
        outcomes=op.outcomes,
        shown=bare(own_prompt, op.outcomes),
        over=step.over(),
        version=version,
        usage_file=step.log("usage.json"),
        budget_usd=step.here.reserved.cap,
        **_schema(step, op, agent),
    )
    about = _about(who, agent, turn, prompt, _permissions(question))
    _announce(step, agent, about | StepResult(agent_version=version or None), prompt, asked)
    session = None
    try:
        reply = agent.ask(question, runner(step, agent, turn, slot))
        session = reply.session
        return _conclude(step, op, agent, turn, replace(question, prompt=own_prompt), reply)
    except LostAttempt as fault:
        # The logs of a copy, or of what was lost elsewhere, name a session that is not here.
        is_elsewhere = fault.ended.reason in (COPIED, MOVED, lost_with(step.rt.lost_with))
        has_come = not turn.is_new and turn.session in step.rt.sessions_here
        is_ours = has_come or not is_elsewhere
        session = session_left(step, agent, turn, question) if is_ours else None
        used = StepResult() if is_elsewhere else used_at_least(step, agent)
        return _lose(step, agent, turn, session, fault.ended, used)
    except NotWhole as lack:
        session = session_left(step, agent, turn, question)
        lack.events = after_failure(step, turn, agent, session)
        lack.more = _fields_of(agent, session)
        lack.is_cut_off = session is not None
        raise
    finally:
        end_turn(step, turn, session)


def _make_ready(step: Step, op: Ask, agent: Agent) -> Event | None:
    """What is done before a call that was never made; the wait of one that may not be made yet."""
    check_target(step, op.capture)
    waits = wait_for_quota(step, agent.name) if agent.is_program else None
    if waits is None:
        go_on_in_session(step, op, agent.name)
    return waits


def _permissions(question: Question) -> Permissions:
    own: Permissions = question.settings.get("permissions") or question.permissions
    return own


def _note(step: Step, op: Ask, turn: Turn) -> str:
    """What the agent has to know of its session before the prompt."""
    note = CUT_OFF if turn.is_after_cut else ""
    if turn.follows:
        return standing_note(step, turn.follows) + note
    if turn.fork_of or not turn.is_new:
        return void_note(step, op, turn.fork_of or turn.session) + note
    return note


def _earlier_turns(step: Step) -> int:
    """How often the step was asked before this visit: its rounds, too, and before a restart."""
    own = step.node.part_of or step.node.id
    block = step.rt.store.index.block(step.frame.plan, step.frame.block)
    nodes = (node for node in block.nodes if own in (node.id, node.part_of))
    turns = [node.id for node in nodes if isinstance(node.op, Ask)]
    earlier = step.rt.store.state.earlier_visits
    visits = sum(step.frame.visits.get(name, 0) for name in turns if name != step.node.id)
    return visits + sum(earlier.get(name, 0) for name in turns)


def _announce(step: Step, agent: Agent, about: StepResult, prompt: str, was_asked: bool) -> None:
    if not was_asked:
        step.halt_if_useless()
        step.announce(about)
    step.announce(about, is_begun=True)
    if not agent.is_program:
        step.keep_prompt(prompt)
    if agent.asks_person:
        step.rt.store.checkpoint()  # other processes must see what a person is asked


def _definition(step: Step, op: Ask) -> AgentDefinition:
    """Who is asked, with the model that the step, the run or the agent says."""
    rt = step.rt
    default = step.plan.defaults.model
    match op.agent:
        case RunAgent(config):
            backend = rt.rules.backend
            own = step_config(evaluate(config, step.scope))
            model = op.model or own.pop("model", None) or default
            return AgentDefinition(
                backend, backend, model, rt.rules.system_prompt, tuple(own.items())
            )
        case BuiltinProvider(name, params):
            settings = evaluate(params, step.scope)
            model = settings.pop("model", None)
            backend = rt.rules.backend if step.is_rehearsed else name
            return AgentDefinition(
                name, backend, None if model is None else str(model), None, tuple(settings.items())
            )
        case NamedAgent(name, config):
            found = rt.library.definition_of(name, evaluate(config, step.scope))
            return replace(found, model=found.model or default)
        case CommandTemplate(name):
            # Only a rehearsal asks one here: it has no adapter.
            return AgentDefinition(name, rt.rules.backend)


def _schema(step: Step, op: Ask, agent: Agent) -> dict[str, Any]:
    """What holds the answer to a reminder, where a program takes that; answers else stay prose."""
    if not step.here.turn.get("error") or not agent.is_program:
        return {}
    schema, path = json.dumps(outcome_schema(op.outcomes)), step.log("schema.json")
    write_private(path, encode(schema))
    return {"schema": schema, "schema_file": path}


def _about(
    who: AgentDefinition, agent: Agent, turn: Turn, prompt: str, permissions: Permissions
) -> StepResult:
    about = StepResult(
        agent=who.name,
        backend=who.backend,
        is_new_session=turn.is_new,
        prompt_length=len(prompt),
        prompt_sha256=digest_of(prompt),
        permissions=permissions if agent.is_program else None,
    )
    if who.model is not None:
        about |= StepResult(model=who.model)
    # The id of a session that is only about to begin does not exist yet.
    if turn.is_new:
        return about | StepResult(new_session_id=turn.session)
    return about | StepResult(session_id=turn.session)


def _fields_of(agent: Agent, session: str | None) -> StepResult:
    return StepResult(agent=agent.name, session_id=session)


def _lose(
    step: Step, agent: Agent, turn: Turn, session: str | None, ended: Lost, used: StepResult
) -> list[Event]:
    event = lost(step, ended, _fields_of(agent, session) | used)
    return [*after_failure(step, turn, agent, session), _cut_off(event, session)]


def _cut_off(event: Event, session: str | None) -> Event:
    """The end of a turn in a session that continues says that the turn itself has none."""
    if session is not None and isinstance(event, AttemptEnded | StepFinished):
        return replace(event, cut_off=True)
    return event


def _conclude(
    step: Step, op: Ask, agent: Agent, turn: Turn, question: Question, reply: Reply
) -> list[Event]:
    answer = step.about.only("agent", "backend", "agent_version", "permissions", "prompt_length")
    if answer.agent is None:
        answer |= StepResult(agent=agent.name)
    session = session_of(agent, turn, reply)
    answer |= _model(step.about.model, reply.model) | StepResult(session_id=session)
    usage = usage_of(step, turn, reply)
    if reply.failure is not None and (reply.failure.kind == "budget" or not reply.tokens_count_up):
        # The total of a session tells it with its next turn.
        usage = used_at_least(step, agent) | usage
    answer |= with_computed(step, usage, answer.model)
    if reply.denied:
        answer |= StepResult(denials=count_denials(reply.denied))
    if not agent.is_program:
        answer |= StepResult(billed=False)
    took_ms = max(0, round((step.end_at - step.attempt_began_at) * 1000))
    answer |= StepResult(metrics={"provider_ms": took_ms})
    is_silent = reply.failure is not None and reply.failure.kind == "empty"
    if reply.failure is not None and not (is_silent and op.outcomes):
        return _fail(step, agent, turn, reply.failure, answer)
    text = step.rt.secrets.text(reply.text)
    answer |= StepResult(response_length=len(text))
    step.keep_answer(text)
    if question.prompt:
        step.rt.library.keep_turn(question, replace(reply, text=text))
    events = seen(step, turn, session)
    if op.outcomes:
        return [*events, _read_outcome(step, op, text, answer)]
    if op.gives_value:
        found = find_json(text) if op.capture.value == "json" else structured(text)
        if found is NO_JSON:
            return [*events, unfit(step, StepFault(f"{_NO_JSON}: {clip(text, 200)!r}"), answer)]
        value = step.rt.store_value(step.rt.secrets.data(found))
        shown = capture_bytes(encode(text), mode="text", exit_code=0).output
        if is_stored(value):
            # It stands beside the state, once; here only its beginning is of use.
            shown = StepResult(output=clip(text, _SHOWN_OF_STORED), truncated=True)
        result = step.result("completed", 0, shown | answer)
        return [*events, step.finished(OK, result, value, has_value=True)]
    return [*events, _capture_answer(step, op, text, answer, took_ms / 1000)]


def _model(requested: str | None, answered: str | None) -> StepResult:
    """The model that answered, null if the program did not say; beside it a tier or other name that
    it was asked for by."""
    if requested in (None, answered):
        return StepResult() if answered is None else StepResult(model=answered)
    return StepResult(model=answered, model_requested=requested)


def _fail(
    step: Step, agent: Agent, turn: Turn, failure: Failure, answer: StepResult
) -> list[Event]:
    code = _EXIT_CODES.get(failure.kind, STEP_FAILED)
    context: dict[str, Any] = {"kind": failure.kind}
    with suppress(StepFault):
        context |= (matched_files(step) | files_of(step)).to_json()
    if failure.http_status is not None:
        context["http_status"] = failure.http_status
    if failure.retry_at is not None:
        context["retry_at"] = failure.retry_at
    if failure.distrusted is not None:
        context["reset_told"] = timestamp(failure.distrusted)
    message = failure.message
    if failure.kind == "timeout" and step.timeout_s is not None:
        message = f"timed out after {step.timeout_s:g} s: {message}"
    if failure.kind == "silent":
        context["silence_s"] = step.rt.rules.silence_s
    error = StepError(message=message, exit_code=code, context=context)
    result = step.result("failed", code, StepResult(error=error) | answer)
    if failure.kind == "session" and is_gone(step, turn):
        return [leave(step, turn, agent), step.ended("no-session", result)]
    session = answer.session_id
    events = after_failure(step, turn, agent, session)
    # A program that was never started has not begun a turn.
    # Nor is one cut off that came to its end without a word.
    is_cut = agent.is_program and failure.kind not in ("not-installed", "empty")
    cut = session if is_cut else None
    if failure.kind == "stopped":
        ended: list[Event] = [*events, _cut_off(step.ended("stopped", result), cut)]
        if not agent.is_program and not step.why_useless:
            # The person has left: to ask again at once would be to ask for ever.
            ended.append(step.rt.ended(end("left", failure.message)))
        return ended
    if failure.distrusted is not None and agent.is_program:
        return [*events, _cut_off(step.ended("quota", result, waits=True), cut)]
    if failure.kind == "rate-limit" and agent.is_program:
        rest_s = note_quota(step, agent.name, failure.retry_at)
        if rest_s is not None:
            return [*events, _cut_off(step.ended("quota", result, rest_s), cut)]
    if failure.kind == "budget" and _is_our_cap(step, answer):
        return [*events, _cut_off(step.ended("budget", result), cut)]
    outcome = failed_attempt(
        step,
        result,
        code,
        transient=failure.is_transient,
        is_outage=failure.is_outage,
        not_before=failure.retry_at,
    )
    return [*events, _cut_off(outcome, cut)]


def _is_our_cap(step: Step, answer: StepResult) -> bool:
    """Has the program spent what we had set aside for it? Less than half of that is not a reason to
    stop: to let it go on would be to ask for ever."""
    reserved = step.here.reserved
    tokens = (answer.input_tokens or 0) + (answer.output_tokens or 0)
    if reserved.cap_tokens is not None and tokens > reserved.cap_tokens:
        return True
    return reserved.cap is not None and (answer.cost_usd or 0.0) >= reserved.cap / 2


def _read_outcome(step: Step, op: Ask, text: str, answer: StepResult) -> Event:
    answer = capture_bytes(encode(text), mode="text", exit_code=0).output | answer
    outcome = read_outcome(text, op.outcomes)
    if not isinstance(outcome, Unreadable):
        answer |= StepResult(outcome=outcome.name, outcome_description=outcome.description)
        return step.finished(outcome.name, step.result("completed", 0, answer))
    error = StepError(message=outcome.error, exit_code=STEP_UNUSABLE)
    if outcome.malformed:
        error |= StepError(context={"malformedJson": outcome.malformed})
    result = step.result("failed", STEP_UNUSABLE, answer | StepResult(error=error))
    if step.here.turn.get("error"):
        return step.finished(INVALID, result)
    return step.ended("reminded", result | StepResult(turn={"error": outcome.error}))


def _capture_answer(step: Step, op: Ask, text: str, answer: StepResult, took_s: float) -> Event:
    """A workflow keeps an answer as it keeps any program's output."""
    if not step.is_rehearsed:
        write_answer(step, op.capture, text)
    captured = capture_bytes(
        encode(text),
        mode=op.capture.mode,
        exit_code=0,
        allow_parse_error=op.capture.allow_parse_error,
    )
    answer |= captured.output | StepResult(debug=captured.debug)
    code = captured.exit_code
    if code == 0:
        try:
            check_captured(step, captured_as(step, op, text), captured, took_s)
        except StepFault as fault:
            return unfit(step, fault, answer)
        return step.finished(OK, step.result("completed", 0, answer))
    error = StepError(message=captured.error, exit_code=code)
    if captured.context:
        error |= StepError(context=captured.context)
    return failed_attempt(step, step.result("failed", code, answer | StepResult(error=error)), code)
