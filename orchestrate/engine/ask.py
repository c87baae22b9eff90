"""An `Ask` step: compose the prompt, ask whoever answers, and make a result of the answer."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from orchestrate.agents.base import Agent, Failure, Finished, Invocation, Question, Reply
from orchestrate.agents.registry import is_program
from orchestrate.agents.worktree import worktree_environment
from orchestrate.engine.answers import structured
from orchestrate.engine.capture import capture_bytes
from orchestrate.engine.command import (
    Prepared,
    check_captured,
    conclude,
    debug_record,
    failed_attempt,
    lost,
    open_tee,
    render_program,
    request_of,
    write_answer,
)
from orchestrate.engine.evaluate import evaluate
from orchestrate.engine.faults import StepFault
from orchestrate.engine.inject import Composed
from orchestrate.engine.outcome import Unreadable, bare, read_outcome
from orchestrate.engine.programs import Watch, run_program, was_started
from orchestrate.engine.prompts import compose, digest_of, prompt_again, prompt_for
from orchestrate.engine.rehearsing import ways_out
from orchestrate.engine.runtime import AgentDefinition
from orchestrate.engine.scope import WithMore
from orchestrate.engine.sessions import (
    Turn,
    after_answer,
    after_failure,
    begin_turn,
    recall_turn,
    seen,
    usage_of,
)
from orchestrate.engine.step import TIMED_OUT, Step
from orchestrate.engine.texts import clip, encode
from orchestrate.engine.values import is_stored
from orchestrate.engine.versions import program_version
from orchestrate.errors import ConfigError
from orchestrate.plan.nodes import (
    INVALID,
    OK,
    Ask,
    BuiltinProvider,
    CommandTemplate,
    NamedAgent,
    RunAgent,
)
from orchestrate.process.facts import Exit, Lost, Request
from orchestrate.record import record, replace
from orchestrate.state.durable import read_file, write_visibly
from orchestrate.state.events import Event
from orchestrate.state.travel import inner_key

# What a failed agent call looks like to dialect C, which knows exit codes only.
_EXIT_CODES = {
    "timeout": TIMED_OUT, "silent": TIMED_OUT, "invalid-request": 2, "auth": 2,
    "not-installed": 127,
}  # fmt: skip
# How often a running agent's output is looked at until its session is known.
_LOOK_EVERY_S = 1.0
_SESSION_IN_FIRST = 64 * 1024
# As a shell says of a program that was interrupted.
_LEFT = 130
_SHOWN_OF_STORED = 200


class _LostAttempt(Exception):
    def __init__(self, ended: Lost) -> None:
        super().__init__(ended.reason)
        self.ended = ended


def perform_ask(step: Step, op: Ask) -> list[Event]:
    """Ask, and make events of what comes back."""
    if isinstance(op.agent, CommandTemplate):
        return [_ask_template(step, op, op.agent)]
    return _ask_agent(step, op)


# A provider that the workflow declares is a program like any other, with a prompt.


def _ask_template(step: Step, op: Ask, template: CommandTemplate) -> Event:
    prepared: Prepared | None = None
    if not was_started(step.rt, step.attempt_id):
        call = _call_of(step, op, template)
        tee = open_tee(step, op.capture)
        prepared = Prepared(tuple(call.argv), call.environment, call.stdin, tee)
        step.announce({"provider": template.name, "debug": call.debug})
    elif not step.is_announced:
        about: dict[str, Any] = {"provider": template.name}
        with suppress(StepFault):
            about["debug"] = _call_of(step, op, template).debug
        step.announce(about, is_begun=True)

    def request() -> Request:
        assert prepared is not None
        return request_of(step, prepared)

    ended = run_program(step.rt, step.attempt_id, request)
    more_fields: dict[str, Any] = {"provider": template.name}
    if isinstance(ended, Exit):
        more_fields["metrics"] = {"provider_ms": round(ended.duration_s * 1000)}
    return conclude(step, op.capture, ended, more_fields)


@record
class _TemplateCall:
    argv: list[str]
    environment: dict[str, str]
    stdin: bytes | None
    debug: dict[str, Any]


def _call_of(step: Step, op: Ask, template: CommandTemplate) -> _TemplateCall:
    """How a declared provider is called: its tokens filled in, the prompt among them or beside."""
    composed = compose(step, op)
    params = evaluate(template.params, step.scope)
    more: dict[tuple[str, ...], Any] = {("param", key): value for key, value in params.items()}
    scope = WithMore(step.scope, {**more, ("prompt",): composed.prompt})
    argv, values = render_program(template.argv, template.values, scope)
    environment = step.rt.secrets.environment_of(op.environment) | values
    stdin = encode(composed.prompt) if template.input_mode == "stdin" else None
    debug = debug_record(step, argv, environment) | _injection(composed)
    return _TemplateCall(argv, environment, stdin, debug)


def _injection(composed: Composed) -> dict[str, Any]:
    return {} if composed.truncation is None else {"injection": composed.truncation}


# An agent that we know.


def _ask_agent(step: Step, op: Ask) -> list[Event]:
    try:
        who = _definition(step, op)
    except ConfigError as error:
        raise StepFault(f"{error.message}: {error.hint}" if error.hint else error.message) from None
    asked = was_started(step.rt, step.attempt_id)
    # What was asked is read by whoever was asked, whatever a flag says now.
    backend = step.about.get("backend", who.backend) if asked else who.backend
    agent = step.rt.library.agent_of(backend)
    turn = recall_turn(step, op, agent) if asked else begin_turn(step, op, agent)
    prompt = prompt_again(step, op) if asked else prompt_for(step, op)
    version = {} if step.is_announced else program_version(step.rt, who.backend)
    question = Question(
        prompt=prompt,
        workspace=step.rt.workspace.root,
        environment=worktree_environment(step.rt.workspace.root)
        | step.rt.secrets.environment_of(op.environment),
        session=turn.session,
        is_new_session=turn.is_new,
        model=who.model,
        system_prompt=who.system_prompt,
        permissions=step.rt.rules.permissions,
        settings=dict(who.settings) | _rehearsal(step, op, agent),
        step=step.node.name,
        visit=_visit_for(step, agent),
        turn=2 if step.here.turn else 1,
        place=inner_key(step.frame, step.node.name),
        outcomes=op.outcomes,
        shown=bare(prompt, op.outcomes),
        version=str(version.get("agent_version", "")),
        usage_file=step.log("usage.json"),
    )
    if not asked:
        step.announce(_about(who, turn, prompt) | version)
    step.announce(_about(who, turn, prompt) | version, is_begun=True)
    if agent.name == "human":
        step.rt.store.checkpoint()  # who looks from elsewhere must see what a person is asked
    try:
        reply = agent.ask(question, _runner(step, agent, turn))
    except _LostAttempt as fault:
        return [*after_failure(step, turn, agent), lost(step, fault.ended, {"agent": agent.name})]
    return _conclude(step, op, agent, turn, question, reply)


def _definition(step: Step, op: Ask) -> AgentDefinition:
    """Who is asked, with the model that the step, the run or the agent says."""
    rt = step.rt
    default = step.plan.defaults.model
    match op.agent:
        case RunAgent():
            rules = rt.rules
            return AgentDefinition(
                rules.backend, rules.backend, op.model or default, rules.system_prompt
            )
        case BuiltinProvider(name, params):
            settings = evaluate(params, step.scope)
            model = settings.pop("model", None)
            return AgentDefinition(
                name, name, None if model is None else str(model), None, tuple(settings.items())
            )
        case NamedAgent(name, config):
            found = rt.library.definition_of(name, evaluate(config, step.scope))
            return replace(found, model=found.model or default)
        case CommandTemplate():
            raise AssertionError("a declared provider is no agent of ours")


def _visit_for(step: Step, agent: Agent) -> int:
    """A script of a rehearsal goes on over restarts; for all others each session begins anew."""
    before = step.rt.store.state.earlier_visits.get(step.node.id, 0)
    return step.here.visit + (before if agent.name == "rehearsal" else 0)


def _rehearsal(step: Step, op: Ask, agent: Agent) -> dict[str, Any]:
    if agent.name != "rehearsal" or not op.outcomes:
        return {}
    return {"shortest": ways_out(step.plan)[step.node.id]}


def _about(who: AgentDefinition, turn: Turn, prompt: str) -> dict[str, Any]:
    about: dict[str, Any] = {
        "agent": who.name,
        "backend": who.backend,
        "is_new_session": turn.is_new,
        "prompt_length": len(prompt),
        "prompt_sha256": digest_of(prompt),
    }
    if who.model is not None:
        about["model"] = who.model
    if turn.session is not None:
        about["session_id"] = turn.session
    return about


def _runner(step: Step, agent: Agent, turn: Turn) -> Any:
    """Starts or adopts the agent's program; its session is written down as soon as it shows."""
    out, err = step.log("stdout"), step.log("stderr")

    def look() -> float | None:
        try:
            with out.open("rb") as opened:
                session = agent.session_in(opened.read(_SESSION_IN_FIRST))
        except OSError:
            session = None
        events = seen(step, turn, session)
        if events:
            step.rt.store.record(*events)
        return None if session is not None or not turn.is_shared else _LOOK_EVERY_S

    watch: Watch = look

    def run(invocation: Invocation) -> Finished:
        def request() -> Request:
            prepared = Prepared(
                invocation.argv, dict(invocation.environment), invocation.stdin, None
            )
            step.log("usage.json").unlink(missing_ok=True)  # an earlier attempt's
            debug_record(step, invocation.shown or invocation.argv, dict(invocation.environment))
            silence_s = step.rt.rules.silence_s or None
            return replace(request_of(step, prepared), guarded=True, silence_s=silence_s)

        ended = run_program(step.rt, step.attempt_id, request, watch)
        if isinstance(ended, Lost):
            raise _LostAttempt(ended)
        step.ended_at = ended.ended_at
        _restore(out, ended.stdout, ended.stdout_bytes)
        _restore(err, ended.stderr, ended.stderr_bytes)
        return Finished(
            code=ended.code,
            signal=ended.signal,
            stdout=out,
            stderr=err,
            timed_out=ended.timed_out,
            fell_silent=ended.fell_silent,
            stopped=ended.stopped,
            start_error=ended.start_error,
        )

    return run


def _restore(path: Path, captured: bytes | None, size: int) -> None:
    """Let a file of the attempt be there as it was: a later attempt may have written over it.

    That is so after `resume --repair` went back to a state from before that attempt.
    """
    if not size:
        path.touch(mode=0o600)
    elif captured is not None and read_file(path) != captured:
        write_visibly(path, captured)


def _conclude(
    step: Step, op: Ask, agent: Agent, turn: Turn, question: Question, reply: Reply
) -> list[Event]:
    earlier = step.frame.steps.get(step.node.name, {})
    fields: dict[str, Any] = {
        key: earlier[key]
        for key in ("agent", "agent_version", "model", "prompt_length")
        if key in earlier
    }
    fields.setdefault("agent", agent.name)
    if reply.model:
        fields["model"] = reply.model
    session = reply.session or turn.session
    if session is not None:
        fields["session_id"] = session
    fields |= usage_of(step, turn, reply)
    if not is_program(agent.name):
        fields["billed"] = False
    took = step.end_at - step.attempt_began_at
    fields["metrics"] = {"provider_ms": max(0, round(took * 1000))}
    if reply.failure is not None:
        return _fail(step, agent, turn, reply.failure, fields)
    text = step.rt.secrets.text(reply.text)
    fields["response_length"] = len(text)
    step.keep_answer(text)
    if question.prompt:
        step.rt.library.keep_turn(question, replace(reply, text=text))
    events = after_answer(step, turn, reply)
    if op.outcomes:
        return [*events, _read_outcome(step, op, text, fields)]
    if step.plan.dialect == "recipe":
        value = step.rt.store_value(step.rt.secrets.data(structured(text)))
        shown = capture_bytes(encode(text), mode="text", exit_code=0).fields
        if is_stored(value):
            # It stands beside the state, once; here only its beginning is of use.
            shown = {"output": clip(text, _SHOWN_OF_STORED), "truncated": True}
        result = step.result("completed", 0, **shown, **fields)
        return [*events, step.finished(OK, result, value, has_value=True)]
    return [*events, _capture_answer(step, op, text, fields)]


def _fail(
    step: Step, agent: Agent, turn: Turn, failure: Failure, fields: dict[str, Any]
) -> list[Event]:
    code = _EXIT_CODES.get(failure.kind, 1)
    context: dict[str, Any] = {"kind": failure.kind}
    if failure.http_status is not None:
        context["http_status"] = failure.http_status
    if failure.retry_at is not None:
        context["retry_at"] = failure.retry_at
    message = failure.message
    if failure.kind == "timeout" and step.timeout_s is not None:
        message = f"timed out after {step.timeout_s:g} s: {message}"
    if failure.kind == "silent":
        context["silence_s"] = step.rt.rules.silence_s
    error = {"message": message, "exit_code": code, "context": context}
    result = step.result("failed", code, error=error, **fields)
    events = after_failure(step, turn, agent)
    if failure.kind == "stopped":
        ended: list[Event] = [*events, step.ended("stopped", result)]
        if not is_program(agent.name) and not step.rt.stop.is_requested:
            # Whoever was asked has left: to ask again at once would be to ask for ever.
            ended.append(step.rt.ended("paused", failure.message, _LEFT))
        return ended
    outcome = failed_attempt(
        step, result, code, transient=failure.is_transient, not_before=failure.retry_at
    )
    return [*events, outcome]


def _read_outcome(step: Step, op: Ask, text: str, fields: dict[str, Any]) -> Event:
    shown = capture_bytes(encode(text), mode="text", exit_code=0).fields
    outcome = read_outcome(text, op.outcomes)
    if not isinstance(outcome, Unreadable):
        fields["outcome"] = outcome.name
        if outcome.description is not None:
            fields["outcome_description"] = outcome.description
        return step.finished(outcome.name, step.result("completed", 0, **shown, **fields))
    error: dict[str, Any] = {"message": outcome.error, "exit_code": 2}
    if outcome.malformed:
        error["context"] = {"malformedJson": outcome.malformed}
    result = step.result("failed", 2, **shown, **fields, error=error)
    if step.here.turn:
        return step.finished(INVALID, result)
    return step.ended("reminded", result | {"turn": {"error": outcome.error}})


def _capture_answer(step: Step, op: Ask, text: str, fields: dict[str, Any]) -> Event:
    """A workflow keeps an answer as it keeps any program's output."""
    write_answer(step, op.capture, text)
    captured = capture_bytes(
        encode(text),
        mode=op.capture.mode,
        exit_code=0,
        allow_parse_error=op.capture.allow_parse_error,
    )
    fields = fields | captured.fields
    if captured.debug:
        fields["debug"] = captured.debug
    if captured.exit_code == 0:
        try:
            check_captured(step, op.capture, captured)
        except StepFault as fault:
            error = {"message": fault.message, "exit_code": 2, "context": fault.context}
            return failed_attempt(step, step.result("failed", 2, **fields, error=error), 2)
        return step.finished(OK, step.result("completed", 0, **fields))
    error = {"message": captured.error, "exit_code": captured.exit_code}
    if captured.context:
        error["context"] = captured.context
    return failed_attempt(
        step, step.result("failed", captured.exit_code, **fields, error=error), captured.exit_code
    )
