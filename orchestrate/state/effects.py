"""Steps with an effect (`effect: true`), which never run twice by themselves."""

from __future__ import annotations

from orchestrate.state.model import Frame, Index


def may_have_happened(index: Index, frame: Frame) -> bool:
    """Is one next whose attempt was stopped half-way, or has left an end that is of no use?

    Only a person knows whether it may begin again.
    """
    node = index.here(frame).node
    if frame.here is None or frame.here.phase != "arriving" or not node.effect:
        return False
    result = frame.steps.get(node.name)
    return result is not None and result.last_attempt in ("stopped", "void")
