"""The table of ends: whole, as the rulings say, and able to read what was recorded before it."""

from __future__ import annotations

import signal
from typing import Any, get_args

import pytest

from orchestrate import errors, exits
from orchestrate.execute.keeper import launch
from orchestrate.exits import ENDS, MEANINGS, Ending, EndKind, EndStatus, end, older_end
from orchestrate.plan.codec import freeze, thaw
from orchestrate.state.endings import encoded_ending, ending_in
from orchestrate.state.events import RunEnded, event_from_json
from tests.unit.plans import every_kind


def kinds_in(union: object) -> set[str]:
    """The texts of a union of literals."""
    return {
        text
        for member in get_args(union)
        for text in ([member] if isinstance(member, str) else kinds_in(member))
    }


def test_every_kind_has_its_row() -> None:
    assert set(ENDS) == kinds_in(EndKind)


@pytest.mark.parametrize("kind", ENDS)
def test_every_row_is_documented_and_fits_its_status(kind: EndKind) -> None:
    row = ENDS[kind]
    assert any(row.code in codes for codes in MEANINGS)
    assert row.status in get_args(EndStatus)
    assert (row.code == exits.DONE) == (row.status == "completed")


# Rulings §4, in its order.
CONTRACT: dict[EndKind, int] = {
    "completed": 0, "exit": 0, "partial": 0,
    "failed": 1, "failures": 1, "denied": 1, "cancelled": 1, "exit-failed": 1,
    "orchestration-error": 2,
    "guardrail-visits": 3, "guardrail-steps": 3, "guardrail-restarts": 3, "limit": 3,
    "no-progress": 3,
    "check-failed": 3,
    "agent": 4,
    "environment": 5, "session-locked": 5, "state": 5, "upgrade": 5,
    "gate": 6, "lost": 6, "approved": 6,
    "max-cost": 6, "max-tokens": 6, "max-time": 6, "max-calls": 6,
    "step-limit": 6, "day-limit": 6, "unknown-cost": 6, "quota": 6,
    "bug": 70,
    "hung-up": 129, "interrupted": 130, "left": 130, "rewound": 130, "terminated": 143,
}  # fmt: skip


def test_codes_are_those_of_the_rulings() -> None:
    assert {kind: row.code for kind, row in ENDS.items()} == CONTRACT


@pytest.mark.parametrize(
    ("dialect", "code"), [("machine", 1), ("recipe", 2), ("workflow", 2), (None, 2)]
)
def test_an_invalid_definition(dialect: str | None, code: int) -> None:
    assert exits.invalid_definition(dialect) == code


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (errors.UsageError, 2, "environment"),
        (errors.ConfigError, 5, "environment"),
        (errors.UpgradedError, 5, "upgrade"),
        (errors.SessionInUseError, 5, "session-locked"),
        (errors.StateError, 5, "state"),
        (errors.InternalError, 70, "bug"),
    ],
)
def test_errors_know_their_codes(
    error: type[errors.OrchestrateError], code: int, kind: EndKind
) -> None:
    assert (error.exit_code, error.end) == (code, kind)
    assert any(code in codes for codes in MEANINGS)


def test_the_keeper_which_loads_no_table_means_the_same() -> None:
    assert (exits.NOT_FOUND, exits.NOT_EXECUTABLE) == (launch.NOT_FOUND, launch.NOT_EXECUTABLE)


@pytest.mark.parametrize(
    ("number", "kind", "reason"),
    [
        (signal.SIGINT, "interrupted", "interrupted"),
        (signal.SIGHUP, "hung-up", "interrupted"),
        (signal.SIGTERM, "terminated", "terminated"),
    ],
)
def test_signals(number: int, kind: EndKind, reason: str) -> None:
    assert exits.stopped_by(number) == Ending("paused", reason, 128 + number, kind)


def test_a_run_that_waits_says_for_what() -> None:
    gates = exits.waits_for_person([], ["plan", "ship"])
    assert (gates.kind, gates.reason) == ("gate", "waits for an approval of 'plan', 'ship'")
    lost = exits.waits_for_person(["step 'x' was lost"], ["plan"])
    assert lost.reason == "step 'x' was lost; waits for an approval of 'plan'"
    assert lost.kind == "lost"
    late = exits.waits_to_be_resumed("stage 'plan'", "approved", by_timeout=True)
    assert late.reason == "stage 'plan' is approved by timeout; waits to be resumed"


@pytest.mark.parametrize(
    ("kind", "reason", "tells"),
    [
        ("completed", "completed", False),
        ("completed", "_end", False),
        ("exit", "", False),
        ("exit", "completed", False),
        ("exit", "all-good", True),
        ("partial", "partial", True),
        ("cancelled", "cancelled by me", True),
    ],
)
def test_a_reason_is_worth_saying(kind: EndKind, reason: str, tells: bool) -> None:
    assert end(kind, reason).tells is tells


@pytest.mark.parametrize(
    "ending",
    [
        end("completed", "completed"),
        end("completed", "_end"),
        end("partial", "partial"),
        end("exit", "all-good"),
        exits.some_failed(),
        end("failed", "step 'x' failed"),
        end("orchestration-error", "orchestration-error"),
        end("agent", "the agent failed in step 'x'"),
        exits.visits_exceeded("x"),
        exits.steps_exceeded(),
        exits.restarts_exceeded(3),
        end("limit", "max_total_steps reached: 3 of 3 steps have run (r)"),
        exits.waits_for_person([], ["plan"]),
        exits.waits_for_person(["step 'x' was lost; resume starts it anew"], []),
        exits.waits_to_be_resumed("stage 'plan'", "approved", by_timeout=False),
        *(exits.stopped_by(n) for n in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)),
        end("session-locked", "session s of claude-code is in use by process 1 on h (x)"),
        end("environment", "codex is not installed"),
        end("bug", "the run is not over, but nothing is left to do"),
        exits.cancelled_by("me"),
    ],
    ids=lambda ending: f"{ending.kind}-{ending.reason[:12]}",
)
def test_what_was_recorded_without_its_kind(ending: Ending) -> None:
    assert older_end(ending.status, ending.reason, ending.code) == ending.kind


def test_an_older_state_file_is_read() -> None:
    written = {"status": "failed", "reason": "max-total-steps"}
    ended = {**written, "engine": {"ending": ["failed", "max-total-steps", 3]}}
    assert ending_in(ended) == exits.steps_exceeded()
    left = {"status": "cancelled", "reason": "cancelled by me", "engine": {"ending": None}}
    assert ending_in(left) == exits.cancelled_by("me")
    assert ending_in({"status": "running", "reason": None, "engine": {"ending": None}}) is None


def test_an_ending_is_read_as_it_was_written() -> None:
    ending = exits.waits_for_person([], ["plan"])
    document = {"status": "paused", "reason": "", "engine": {"ending": encoded_ending(ending)}}
    assert ending_in(document) == ending


def test_an_older_event_is_read() -> None:
    written = {"on": "run-ended", "at": 1.0, "status": "paused", "reason": "interrupted"}
    event = event_from_json({**written, "code": 130})
    assert isinstance(event, RunEnded)
    assert event.ending == exits.stopped_by(signal.SIGINT)


def test_an_older_plan_is_read() -> None:
    program = every_kind()
    assert thaw(_without_ends(freeze(program))) == program


def _without_ends(written: Any) -> Any:
    """The plan as it was frozen when a finish had its reason only."""
    if isinstance(written, list):
        return [_without_ends(item) for item in written]
    if not isinstance(written, dict):
        return written
    is_finish = written.get("@") == "Finish"
    return {
        key: _without_ends(value)
        for key, value in written.items()
        if not (is_finish and key == "end")
    }
