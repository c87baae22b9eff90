"""What attempts and the frames of items are called: quick steps ask several times for it."""

from __future__ import annotations

from functools import lru_cache

from orchestrate.record import record
from orchestrate.state.address import FrameKey, address_of


@record
class AttemptNames:
    """What an attempt is called: in the journal, by its keeper, and its files under `logs/`.

    `own_log` is set where the address alone does not say what these begin with.
    """

    text: str
    attempt_id: str
    log_name: str
    own_log: str | None


@lru_cache(64)
def names_of(
    frame_key: str, name: str, visit: int, attempt: int, twins: frozenset[str] = frozenset()
) -> AttemptNames:
    """The names of an attempt, worked out once; a program that is sent ahead has them early."""
    address = address_of(frame_key, name, visit, attempt)
    log_name = address.log_name(twins)
    own_log = log_name if twins and log_name != address.log_name() else None
    return AttemptNames(address.text, address.attempt_id, log_name, own_log)


def item_key(frame_key: str, loop: str, index: int, visit: int) -> str:
    """The key of an item's frame: that of `FrameKey.item`, without taking keys apart."""
    return f"{_item_prefix(frame_key, loop, visit)}[{index}]"


@lru_cache(64)
def _item_prefix(frame_key: str, loop: str, visit: int) -> str:
    return FrameKey.parse(frame_key).item(loop, 0, visit).text.removesuffix("[0]")
