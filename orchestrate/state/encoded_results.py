"""The results of steps as JSON, each turned into bytes once and then only copied."""

from __future__ import annotations

from functools import lru_cache

from orchestrate.state.durable import compact_json
from orchestrate.state.model import Frame, Loop


@lru_cache(256)
def _encoded_name(name: str) -> bytes:
    return compact_json(name)


def encode_results(frame: Frame) -> bytes:
    """What the state shows of a frame, on one line."""
    return b"{" + b",".join(name + b":" + body for name, body in result_pieces(frame)) + b"}"


def result_pieces(frame: Frame) -> list[tuple[bytes, bytes]]:
    """Names and results of a frame's steps, loops among them, and its item's lifecycle."""
    pieces = [(_encoded_name(name), step_piece(frame, name)) for name in frame.steps]
    pieces += [
        (_encoded_name(loop.name), b"[" + b",".join(loop_pieces(loop)) + b"]")
        for loop in frame.loops.values()
    ]
    if frame.lifecycle is not None:
        pieces.append((b'"lifecycle"', compact_json(frame.lifecycle)))
    return pieces


def step_piece(frame: Frame, name: str) -> bytes:
    """The result of one step; that of a running call has the steps of the called plan in it."""
    result = compact_json(frame.steps[name].to_json())
    called = frame.call
    if called is None or called.owner != name:
        return result
    return result[:-1] + b',"steps":' + encode_results(called) + b"}"


def loop_pieces(loop: Loop) -> list[bytes]:
    """One result per item up to the last one begun; what has not begun in between is empty."""
    done = loop.done.by_position()
    begun = {position: encode_results(frame) for position, frame in loop.open.items()}
    most = max((*done, *begun), default=-1) + 1
    return [done.get(position) or begun.get(position, b"{}") for position in range(most)]
