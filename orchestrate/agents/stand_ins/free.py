"""What agents that start no program have in common: there is nothing to watch and to take over."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrate.agents.base import Used


class StandIn:
    """The part of the seam that is about programs, for agents that are none."""

    chooses_session = False
    forks_sessions = False
    is_program = False
    asks_person = False

    def session_in(self, output: bytes, asked: str | None = None) -> str | None:  # noqa: ARG002
        return None

    def used_in(self, output: bytes) -> list[Used]:  # noqa: ARG002
        return []

    def has_session(self, session: str, environment: Mapping[str, str]) -> bool:  # noqa: ARG002
        return False

    def takeover(self, session: str) -> tuple[str, ...] | None:  # noqa: ARG002
        return None
