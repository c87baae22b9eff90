"""An account whose usage limit is reached is not asked before its reset time, by any run.

The account is an agent's program with its configuration folder. Who meets the limit notes its end
in the user's state folder; a note that is over, or further ahead than a limit can last, counts for
nothing. A program that tells such a time itself parks the run: a person has to look.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from orchestrate.agents.failures import LONGEST_LIMIT_S
from orchestrate.digest import sha256_of
from orchestrate.engine.step import Step
from orchestrate.errors import OrchestrateError
from orchestrate.state.durable import dump_json, parse_json, read_file, write_visibly
from orchestrate.state.events import CallWaits
from orchestrate.state.locks import user_state_folder
from orchestrate.state.model import Frame, Index
from orchestrate.state.result import StepResult
from orchestrate.state.times import local_time, timestamp

# Waits from this length on do not count as tries of the step. Shorter ones are retries: a service
# that keeps asking for one more second is not asked for ever.
_SHORTEST_S = 60.0
# Where programs keep whose account they use; elsewhere it is the home folder.
_CONFIGURED_BY = {"claude-code": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME"}


def wait_for_quota(step: Step, agent: str) -> CallWaits | None:
    """The wait of a call whose account may not be asked yet."""
    with suppress(OSError, ValueError, TypeError, OverflowError, OrchestrateError):
        path = _note(step, agent)
        if _is_waived(step, path):
            return None
        until = float(parse_json(read_file(path) or b"null"))
        if _is_trusted(step, until):
            here = step.here
            return CallWaits(step.frame.key, step.node.id, here.visit, step.rt.now(), "quota",
                             agent, until)  # fmt: skip
    return None


def _is_waived(step: Step, path: Path) -> bool:
    """`--retry-delay 0` tries now, whatever was noted before it was given; what is noted after
    that counts as usual."""
    state = step.rt.store.state
    if state.settings.get("retry_delay") != 0:
        return False
    begun = max(state.started_at, state.unwatched.resumed)
    return path.stat().st_mtime <= begun


def note_quota(step: Step, agent: str, until: float | None) -> float | None:
    """Tell every other call that the account is used up; how long this one waits, where that is
    long enough to be a wait."""
    if until is None or not _is_trusted(step, until):
        return None
    with suppress(OSError, OrchestrateError):
        path = _note(step, agent)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_visibly(path, dump_json(until))
    rest_s = until - step.rt.now()
    is_wait = rest_s >= _SHORTEST_S or not step.rt.rules.waits_for_quota
    return rest_s if is_wait and rest_s > 0 else None


def waits_for_quota(frame: Frame) -> bool:
    """Is the call at a frame put off until its account may be asked again?"""
    return frame.here is not None and frame.here.waits.why == "quota"


def quota_reason(index: Index, frame: Frame) -> str:
    """Why the call at a frame is not made, for a person who decides when it is."""
    assert frame.here is not None
    waits = frame.here.waits
    told = frame.steps.get(index.here(frame).node.name, StepResult()).context.get("reset_told")
    if frame.here.phase == "resting" or told is None:
        until = local_time(timestamp(waits.until))
        return f"the usage limit of {waits.agent} is reached until {until}; resume then goes on"
    return (
        f"{waits.agent} says that its usage limit ends {local_time(told)}, which is in the past "
        "or more than eight days ahead: look at the account; resume asks again"
    )


def _is_trusted(step: Step, until: float) -> bool:
    """Can a usage limit end then?"""
    now = step.rt.now()
    return now < until <= now + LONGEST_LIMIT_S


def _note(step: Step, agent: str) -> Path:
    environment = step.rt.environment
    folder = environment.get(_CONFIGURED_BY.get(agent, ""), "") or environment.get("HOME", "")
    account = sha256_of(dump_json([agent, folder]))[:32]
    return user_state_folder(environment) / "quotas" / f"{account}.json"
