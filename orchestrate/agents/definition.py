"""An agent as recipes name it: which program answers, and how it is asked."""

from __future__ import annotations

from typing import Any

from orchestrate.record import record


@record
class AgentDefinition:
    """An agent as a file under `.orchestrate/agents` describes it, or one of those we know."""

    name: str
    backend: str
    model: str | None = None
    system_prompt: str | None = None
    settings: tuple[tuple[str, Any], ...] = ()
