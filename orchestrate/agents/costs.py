"""What one turn used, when a program may report either that or its session's running totals.

A total that is lower than the last one is a fresh count and is taken whole. What is not reported is
unknown, never zero (rulings §7).
"""

from __future__ import annotations

from orchestrate.agents.base import Reply
from orchestrate.record import record


@record
class Usage:
    """Tokens read and written, and dollars; of a turn, or of a session so far."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


NOTHING_YET = Usage()
# More than any session can have used, of dollars or tokens.
_MOST = 1e12


def own_usage(reply: Reply, before: Usage = NOTHING_YET) -> tuple[Usage, Usage]:
    """What the turn itself used, and the session's totals after it; failed turns have a bill too.

    `before` is the second value that the session's last turn gave; nothing for a new session.
    """
    counts_up = reply.tokens_count_up
    read, all_read = _own(reply.input_tokens, before.input_tokens, counts_up)
    written, all_written = _own(reply.output_tokens, before.output_tokens, counts_up)
    cost, all_cost = _own(reply.cost_usd, before.cost_usd, reply.cost_counts_up)
    return (
        Usage(_whole(read), _whole(written), cost),
        Usage(_whole(all_read), _whole(all_written), all_cost),
    )


def _own(
    reported: float | None, before: float | None, counts_up: bool
) -> tuple[float | None, float | None]:
    """The turn's own part of a figure, and the figure's total after the turn."""
    if reported is None or not 0 <= reported <= _MOST:  # nothing that can be true was reported
        return None, before
    if not counts_up:
        return reported, _exact((before or 0) + reported)
    is_fresh = before is None or reported < before
    return (reported if is_fresh else _exact(reported - (before or 0))), reported


def _exact(value: float) -> float:
    """Without the dust of binary fractions: 0.095 - 0.0474 is 0.0476."""
    return round(value, 10)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
