"""The agents by name, as authors, flags and settings may call them."""

from __future__ import annotations

from orchestrate.diagnostics import closest
from orchestrate.errors import ConfigError

# Names that A and C give the agents we know -> ours.
BACKENDS: dict[str, str] = {
    "claude-code": "claude-code",
    "claude": "claude-code",
    "github-copilot": "github-copilot",
    "copilot": "github-copilot",
    "cursor": "cursor",
    "opencode": "opencode",
    "codex": "codex",
    "gemini": "gemini",
    "qwen": "qwen",
    "rehearsal": "rehearsal",
    "human": "human",
    "replay": "replay",
}
# Those that a workflow may name as a provider without declaring it (C).
PROVIDERS = ("claude", "codex", "gemini", "copilot", "cursor", "opencode", "qwen")


def own_name(name: str) -> str:
    """Our name of an agent, by any of its names."""
    if name in BACKENDS:
        return BACKENDS[name]
    near = closest(name, BACKENDS)
    also = f" (did you mean '{near}'?)" if near else ""
    known = ", ".join(dict.fromkeys(BACKENDS.values()))
    raise ConfigError(f"there is no backend '{name}'{also}", f"known: {known}")
