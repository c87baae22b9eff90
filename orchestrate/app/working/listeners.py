"""Lets what only shows a run listen to it, so that a fault in showing never ends the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.errors import OrchestrateError, completed
from orchestrate.installation import replacement_of
from orchestrate.plan.visible import visible

if TYPE_CHECKING:
    from orchestrate.state.events import Event
    from orchestrate.state.model import RunState
    from orchestrate.state.store import Listener, Store


def listen_safely(
    store: Store, what: str, make: Callable[[], Listener], note: Callable[[str], None]
) -> None:
    """Add a listener; a fault of it is told once, and the run goes on without it.

    Errors that were meant (a full disk, a program that was replaced meanwhile) pass: they are told
    with their way out, and the run stands where it was.
    """
    try:
        listener = make()
    except Exception as error:  # noqa: BLE001 - the run matters more
        _tell_or_raise(store, what, error, note)
        return
    has_failed = False

    def hear(event: Event, state: RunState) -> None:
        nonlocal has_failed
        if has_failed:
            return
        try:
            listener(event, state)
        except Exception as error:  # noqa: BLE001 - the run matters more
            _tell_or_raise(store, what, error, note)
            has_failed = True

    store.listeners.append(hear)


def _tell_or_raise(store: Store, what: str, error: Exception, note: Callable[[str], None]) -> None:
    if isinstance(error, OrchestrateError) or replacement_of(error, store.run.id) is not None:
        raise error
    on_record = completed(f"orchestrate logs {store.run.id}")
    note(
        f"orchestrate: {what} cannot be shown any more: {visible(repr(error))}\n"
        f"  the run goes on; all of it is on record: {on_record}\n"
    )
