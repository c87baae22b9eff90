"""Tells people that a run waits, has failed or has finished: by a command or a webhook.

Both are programs that the run's keeper starts, as it starts the steps' (nothing else starts
programs). So they are ended when their time is up, with all their children; secrets in what they
print are masked; they go on if we are killed; and, because the keeper never starts an attempt
twice, no ending is reported twice. Nothing here changes the run or its exit code.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.app.config.load import load_config
from orchestrate.app.secrets import secrets_for
from orchestrate.app.working import webhook
from orchestrate.engine.scheduler import run_to_end
from orchestrate.engine.stop import Stop
from orchestrate.errors import OrchestrateError
from orchestrate.execute.base import Executor, Exit, Job, Lost, Running
from orchestrate.execute.local import LocalExecutor
from orchestrate.exits import Ending
from orchestrate.plan.durations import seconds_of
from orchestrate.record import record
from orchestrate.state.address import NOTIFICATION
from orchestrate.state.logbook import Logbook
from orchestrate.state.times import timestamp
from orchestrate.view.advice import look_command, next_commands
from orchestrate.view.news import NEWS, News, news_of
from orchestrate.view.result_document import result_document
from orchestrate.view.run_view import RunView

if TYPE_CHECKING:
    from orchestrate.app.working.reporter import Reporter
    from orchestrate.engine.runtime import Runtime
    from orchestrate.engine.secrets import Secrets
    from orchestrate.engine.stop import Stop
    from orchestrate.plan.nodes import Program
    from orchestrate.state.logbook import Logbook
    from orchestrate.state.store import Store
    from orchestrate.view.place import Place
    from orchestrate.workspace import Workspace

_TIMEOUT_S = 10.0
# Beyond its time, for the keeper to end it and to say so.
_GRACE_S = 2.0
_LONGEST_VALUE = 4000


@record
class Notification:
    """One entry of `notifications:`; `number` is its place in the list, from 1."""

    number: int
    on: tuple[str, ...]
    command: tuple[str, ...]
    webhook: str
    webhook_env: str
    timeout_s: float

    @property
    def title(self) -> str:
        kind = f"command '{self.command[0]}'" if self.command else "webhook"
        return f"notification {self.number} ({kind})"


@record
class NotificationContext:
    """What telling needs of the run's surroundings."""

    notifications: tuple[Notification, ...]
    store: Store
    secrets: Secrets
    logbook: Logbook
    stop: Stop
    executor: Callable[[], Executor]
    environment: Mapping[str, str]
    workspace: Path
    place: Place


def notifications_in(values: Mapping[str, Any]) -> tuple[Notification, ...]:
    """The entries of a configuration that fits its schema."""
    return tuple(
        Notification(
            number=number,
            on=tuple(entry.get("on", NEWS)),
            command=tuple(entry.get("command", ())),
            webhook=entry.get("webhook", ""),
            webhook_env=entry.get("webhook_env", ""),
            timeout_s=seconds_of(entry.get("timeout", _TIMEOUT_S)),
        )
        for number, entry in enumerate(values.get("notifications") or (), 1)
    )


def run_and_notify(rt: Runtime, troubles: list[str], reporter: Reporter) -> Ending:
    """Let the engine work, then tell how the run has ended; `troubles` gets what went wrong."""
    notifications = notifications_in(load_config(rt.workspace, rt.environment).values)
    if not notifications:
        return run_to_end(rt)
    _warn_of_addresses(notifications, rt, reporter)
    with suppress(OSError):
        _owed(rt.store).touch(mode=0o600)
    try:
        return run_to_end(rt)
    finally:
        troubles += notify(
            NotificationContext(
                notifications=notifications,
                store=rt.store,
                secrets=rt.secrets,
                logbook=rt.logbook,
                stop=rt.stop,
                executor=rt.executor,
                environment=rt.environment,
                workspace=rt.workspace.root,
                place=reporter.place.absolute(),
            )
        )


def _warn_of_addresses(
    notifications: tuple[Notification, ...], rt: Runtime, reporter: Reporter
) -> None:
    """Hours before it is wanted, say that an address in the environment can never work."""
    for entry in notifications:
        fault = _address_fault(entry, rt.environment)
        if fault:
            rt.logbook.write("warn", f"{entry.title}: {fault}")
            reporter.note(f"orchestrate: warning: {entry.title}: {fault}\n")


def _address_fault(entry: Notification, environment: Mapping[str, str]) -> str:
    """What is wrong with the address in a variable, which is named and not quoted, or ''."""
    address = environment.get(entry.webhook_env, "") if entry.webhook_env else ""
    fault = webhook.address_fault(address) if address else ""
    return f"{entry.webhook_env}: {fault}" if fault else ""


def notify_missed(store: Store, program: Program, workspace: Workspace, place: Place) -> list[str]:
    """Make up for a process that was killed after the run's last event, before it notified."""
    if not _owed(store).exists():
        return []
    import os

    environment = dict(os.environ)
    secrets = secrets_for(program, workspace, environment)
    logbook = Logbook(store.run.logs / "orchestrator.log", "info", secrets.text)
    stop = Stop()
    executor = LocalExecutor(store.run.root, workspace.root)
    try:
        return notify(
            NotificationContext(
                notifications=notifications_in(load_config(workspace).values),
                store=store,
                secrets=secrets,
                logbook=logbook,
                stop=stop,
                executor=lambda: executor,
                environment=environment,
                workspace=workspace.root,
                place=place.absolute(),
            )
        )
    finally:
        executor.close(is_over=True)
        stop.close()
        logbook.close()


def _owed(store: Store) -> Path:
    """The file of a run whose ending is still to be reported."""
    return store.run.root / "notifications.owed"


def notify(context: NotificationContext) -> list[str]:
    """Notify of how the run has ended; returns what went wrong, in sentences."""
    # Our process still holds the lock, but has done its work.
    store = context.store
    view = RunView(store.run, store.state, store.index, store.state.status, is_live=False)
    event, key = news_of(view)
    wanted = [entry for entry in context.notifications if event in entry.on]
    troubles: list[str] = []
    if event is not None and wanted:
        body = _document(context, view, event)
        started: list[tuple[Notification, str]] = []
        for entry in wanted:
            attempt = f"{NOTIFICATION}{key}-{entry.number}"
            try:
                if _start(context, entry, attempt, event, body):
                    started.append((entry, attempt))
            except (OrchestrateError, OSError) as error:
                troubles.append(f"{entry.title}: {error}")
            except Exception as error:  # noqa: BLE001 - the run has ended well or badly without it
                troubles.append(f"{entry.title}: it failed ({type(error).__name__})")
        for entry, attempt in started:
            trouble = _await(context, entry, attempt)
            if trouble:
                troubles.append(f"{entry.title}: {trouble}")
            else:
                about = {"event": event, "number": entry.number}
                context.logbook.write("info", "notification-delivered", about)
    for trouble in troubles:
        context.logbook.write("warn", "notification-failed", {"reason": trouble})
    with suppress(OSError):
        _owed(context.store).unlink(missing_ok=True)
    return [context.secrets.text(trouble) for trouble in troubles]


def _document(context: NotificationContext, view: RunView, event: News) -> dict[str, Any]:
    state = view.state
    look = look_command(view, context.place)
    document = {
        "event": event,
        **result_document(view.run, state, context.store.index),
        "workspace": str(context.workspace),
        # A rehearsal notifies as a real run does, and the receiver must be able to see that.
        "backend": state.settings.get("backend"),
        "started_at": timestamp(state.started_at),
        "updated_at": timestamp(state.updated_at),
        "elapsed_s": round(max(0.0, state.updated_at - state.started_at), 3),
        "next": [*([look] if look else []), *next_commands(view, context.place)],
    }
    masked: dict[str, Any] = context.secrets.data(document)
    return masked


def _start(
    context: NotificationContext,
    entry: Notification,
    attempt: str,
    event: News,
    body: dict[str, Any],
) -> bool:
    """Let the executor start it; False if a killed orchestrator has done so before."""
    address = entry.webhook
    if entry.webhook_env:
        address = context.environment.get(entry.webhook_env, "")
        if not address:
            raise OrchestrateError(f"the variable {entry.webhook_env} is not set")
        fault = _address_fault(entry, context.environment)
        if fault:
            raise OrchestrateError(fault)
    return context.executor().start(_job(context, entry, attempt, event, body, address))


def _job(
    context: NotificationContext,
    entry: Notification,
    attempt: str,
    event: News,
    body: dict[str, Any],
    address: str,
) -> Job:
    import json

    facts = {
        "ORCHESTRATE_EVENT": event,
        "ORCHESTRATE_RUN_ID": body["run_id"],
        "ORCHESTRATE_RUN_DIR": body["run_root"],
        "ORCHESTRATE_RUN_STATUS": body["status"],
        "ORCHESTRATE_RUN_REASON": body["reason"] or "",
        "ORCHESTRATE_RUN_EXIT_CODE": str(body["exit_code"]),
        "ORCHESTRATE_RECIPE": body["workflow_file"],
        "ORCHESTRATE_WORKSPACE": body["workspace"],
    }
    environment = {**context.environment}
    # No variable can hold a NUL, and a very long one would keep the program from starting.
    environment |= {name: value.replace("\0", "")[:_LONGEST_VALUE] for name, value in facts.items()}
    argv, secrets = entry.command, context.secrets.values
    if not argv:
        argv = (sys.executable, "-I", webhook.__file__)
        environment[webhook.VARIABLE] = address
        secrets = (*secrets, address)
    return Job(
        attempt=attempt,
        argv=argv,
        env=environment,
        stdout=f"{attempt}.stdout",
        stderr=f"{attempt}.stderr",
        stdin=json.dumps(body).encode() + b"\n",
        timeout_s=entry.timeout_s,
        grace_s=1.0,
        secrets=secrets,
    )


def _await(context: NotificationContext, entry: Notification, attempt: str) -> str:
    """Why it was not delivered, or ''."""
    import time

    give_up = time.monotonic() + entry.timeout_s + _GRACE_S
    try:
        executor = context.executor()
        ended: Exit | Lost | Running = Running()
        while (
            isinstance(ended, Running)
            and not context.stop.is_requested
            and time.monotonic() < give_up
        ):
            ended = executor.wait(attempt, give_up - time.monotonic())
        if isinstance(ended, Running) and context.stop.is_requested:
            executor.stop(attempt, "interrupted", grace_s=0.5)
            return "interrupted"
    except (OrchestrateError, OSError) as error:
        return str(error)
    return _trouble(ended, entry)


def _trouble(found: Exit | Lost | Running, entry: Notification) -> str:
    if not isinstance(found, Exit):
        return "it is unknown whether it was delivered"
    if found.timed_out:
        return f"it took more than {entry.timeout_s:g} s and was ended"
    if found.start_error:
        return f"it could not be started: {found.start_error}"
    if found.code == 0:
        return ""
    said = (found.stderr or b"").decode("utf-8", "replace").strip().splitlines()
    why = f": {said[-1][:200]}" if said else ""
    if found.signal is not None:
        return f"it was killed by signal {found.signal}{why}"
    return f"exit code {found.code}{why}" if entry.command else why.removeprefix(": ")
