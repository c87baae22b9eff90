"""`orchestrate cancel`: ends a run for good, whoever works on it and whatever became of it."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

import click

from orchestrate.cli.numbers import Number
from orchestrate.cli.options import json_option, state_dir_option, working_dir_option
from orchestrate.cli.output import answer, answer_json, note
from orchestrate.errors import ConfigError

if TYPE_CHECKING:
    from orchestrate.state.locks import Owner
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace

_POLL_S = 0.05


@click.command(short_help="End a run for good.")
@click.argument("run", metavar="RUN")
@click.option("--wait", "wait_s", type=Number(float, 0, 86400), default=60.0, metavar="SECONDS",
              help="How long the run may take to end its programs (default: 60).")  # fmt: skip
@state_dir_option
@working_dir_option
@json_option
def cancel(
    run: str, wait_s: float, state_dir: str | None, working_dir: str | None, as_json: bool
) -> int:
    """End a run for good: RUN is its id, the beginning of one, or `latest`.

    Its programs are ended, and it cannot be resumed any more. A run that is over stays as it is.
    """
    from orchestrate.cli.stored import find_stored

    _, found, workspace = find_stored(run, working_dir, state_dir, is_looking=True)
    message, status = _cancel(found, workspace, time.monotonic() + wait_s)
    if as_json:
        answer_json({"run_id": found.id, "status": status, "message": message})
    else:
        answer(message + "\n")
    return 0


def _cancel(run: Run, workspace: Workspace, give_up: float) -> tuple[str, str]:
    """What was done, and how the run stands now."""
    from orchestrate.cli.claiming import AtWorkError, claim_briefly
    from orchestrate.cli.ending import program_if_unchanged, record_cancelled
    from orchestrate.cli.looking import look_at
    from orchestrate.state.users import user_name

    # Compiled before the lock is taken, so that it is held for an instant only.
    program = program_if_unchanged(run, workspace)
    told: set[int] = set()
    lock = None
    while lock is None:
        over = _is_over(run, workspace, bool(told))
        if over is not None:
            return over
        try:
            lock = claim_briefly(run, "cancel")
        except AtWorkError as error:
            if error.owner.pid not in told:
                told.add(error.owner.pid)
                _terminate(run, error.owner)
            _await_end(run, error.owner, give_up)
    ended = False
    try:
        # Now that it cannot change any more.
        over = _is_over(run, workspace, bool(told))
        if over is None:
            is_interrupted = look_at(run, workspace).document["status"] == "running"
            ended = _end_programs(run, is_interrupted=is_interrupted)
    except BaseException:
        lock.release()
        raise
    if over is not None:
        lock.release()
        return over
    record_cancelled(run, lock, program, workspace, f"cancelled by {user_name(os.environ)}")
    return f"run {run.id} is cancelled" + (
        "; its programs were ended" if ended else ""
    ), "cancelled"


def _is_over(run: Run, workspace: Workspace, was_at_work: bool) -> tuple[str, str] | None:
    from orchestrate.cli.looking import is_denied, look_at

    document = look_at(run, workspace).document
    status = document["status"]
    if status == "completed":
        how = "was completed before it could be cancelled" if was_at_work else "is completed"
        return f"run {run.id} {how}; there is nothing to cancel", status
    if status == "cancelled":
        return f"run {run.id} is cancelled already", status
    if status == "failed" and is_denied(document):
        return f"run {run.id} was denied, which is final; there is nothing to cancel", status
    return None


def _terminate(run: Run, owner: Owner) -> None:
    """Ask the orchestrator to end; only a process of this host that has the run's lock."""
    from orchestrate.cli.claiming import has_open

    if owner.host != os.uname().nodename:
        raise ConfigError(
            f"run {run.id} is worked on by {owner.describe()}", f"cancel it on {owner.host}"
        )
    note(f"ending {owner.describe()}\n")
    try:
        handle = os.pidfd_open(owner.pid)
    except AttributeError:  # pragma: no cover - macOS has no such handles
        if has_open(owner.pid, run):
            os.kill(owner.pid, signal.SIGTERM)
        return
    except ProcessLookupError:
        return
    try:
        # Once more: the handle stands for one process, whatever becomes of its number.
        if has_open(owner.pid, run):
            signal.pidfd_send_signal(handle, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise ConfigError(
            f"run {run.id} belongs to another user: {owner.describe()}", "ask them to cancel it"
        ) from None
    finally:
        os.close(handle)


def _await_end(run: Run, owner: Owner, give_up: float) -> None:
    from orchestrate.cli.claiming import orchestrator_of

    while orchestrator_of(run) is not None:
        if time.monotonic() >= give_up:
            raise ConfigError(
                f"run {run.id} has not ended yet: {owner.describe()} was told to end, "
                "and is still ending its programs",
                f"try again; if it hangs, kill -9 {owner.pid} and cancel again",
            )
        time.sleep(_POLL_S)


def _end_programs(run: Run, *, is_interrupted: bool) -> bool:
    """End what the run's keeper runs for nobody; True if there was a keeper.

    If that was killed too, a new one finds what its programs left behind and ends it.
    """
    from orchestrate.cli.looking import is_kept
    from orchestrate.process.client import ensure_keeper
    from orchestrate.process.protocol import FOLDER

    was_kept = is_kept(run)
    if not was_kept and not (is_interrupted and (run.root / FOLDER).is_dir()):
        return False
    ensure_keeper(run.root).shutdown(stop=True, reason="cancelled")
    return was_kept and is_interrupted
