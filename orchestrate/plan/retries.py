"""Whether a failed attempt is tried again, and how long to wait before that."""

from __future__ import annotations

from orchestrate.exits import STEP_FAILED, STEP_TIMED_OUT
from orchestrate.plan.settings import Retry

# What every agent step does that says nothing else (rulings §7): six calls in all.
OUTAGE_RETRY = Retry(
    attempts=6, delay_s=1.0, when="outage", backoff="exponential", max_delay_s=60.0, jitter=True
)
# C: the one is a retryable API error.
_RETRYABLE = (STEP_FAILED, STEP_TIMED_OUT)


def retry_delay(
    retry: Retry | None,
    tries: int,
    exit_code: int,
    transient: bool,
    chance: float,
    *,
    is_outage: bool = False,
) -> float | None:
    """Seconds until the next attempt after `tries` of them, or None if this was the last.

    `chance` is between 0 and 1 and spreads retries that would otherwise come all at once.
    """
    if retry is None or tries >= retry.attempts:
        return None
    match retry.when:
        case "exit-1-or-124":
            if exit_code not in _RETRYABLE:
                return None
        case "outage":
            if not is_outage:
                return None
        case "transient":
            if not transient:
                return None
        case "any":
            pass
    return _delay(retry, tries, chance)


def _delay(retry: Retry, tries: int, chance: float) -> float:
    delay = retry.delay_s
    match retry.backoff:
        case "exponential":
            delay *= 2.0 ** min(tries - 1, 60)
        case "linear":
            delay *= tries
        case "none":
            pass
    if retry.max_delay_s is not None:
        delay = min(delay, retry.max_delay_s)
    # Up to a tenth less: never longer than the author's limit.
    return delay * (1 - 0.1 * chance) if retry.jitter else delay
