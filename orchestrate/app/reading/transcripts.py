"""Which transcript a program's output makes: an agent's has events, any other one lines."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from orchestrate.agent_names import own_name
from orchestrate.agents.registry import PROGRAMS, STAND_INS
from orchestrate.agents.transcript import EventTranscript, LineTranscript
from orchestrate.app.secrets import secrets_of_run
from orchestrate.errors import ConfigError
from orchestrate.transcript import Transcript, TranscriptOf

if TYPE_CHECKING:
    from orchestrate.engine.secrets import Secrets
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace


def transcripts_of(run: Run, workspace: Workspace) -> TranscriptOf:
    """Makes transcripts of a run's turns.

    Its logs are masked, but a secret that a program printed in pieces shows when they are joined.
    """

    @cache
    def secrets() -> Secrets:
        return secrets_of_run(run, workspace)

    def mask(text: str, is_whole: bool) -> str:
        return secrets().text(text, is_whole)

    def transcript_of(backend: str) -> Transcript | None:
        try:
            ours = own_name(backend) if backend else ""
        except ConfigError:
            ours = ""
        if ours in STAND_INS:
            return None
        return EventTranscript(PROGRAMS[ours]().pieces_of, mask) if ours else LineTranscript()

    return transcript_of
