"""The variables from which the agents' programs take their keys: masked without being named."""

from __future__ import annotations

_ANTHROPIC = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_OPENAI = ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY")
_GOOGLE = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_AMAZON = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK")
_GITHUB = ("GITHUB_TOKEN", "GH_TOKEN")

# By our names of the agents. Those that talk to many services take the keys of each.
KEYS: dict[str, tuple[str, ...]] = {
    "claude-code": (
        *_ANTHROPIC, *_AMAZON, "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_FOUNDRY_API_KEY",
    ),
    "github-copilot": (
        *_GITHUB, "COPILOT_GITHUB_TOKEN", "COPILOT_PROVIDER_API_KEY",
        "COPILOT_PROVIDER_BEARER_TOKEN",
    ),
    "cursor": ("CURSOR_API_KEY", "CURSOR_AUTH_TOKEN"),
    "opencode": (
        *_ANTHROPIC, *_OPENAI, *_GOOGLE, *_AMAZON, *_GITHUB, "OPENCODE_API_KEY",
        "OPENROUTER_API_KEY",
    ),
    "codex": (*_OPENAI, "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"),
    "gemini": _GOOGLE,
    "qwen": (
        *_OPENAI, *_ANTHROPIC, *_GOOGLE, "DASHSCOPE_API_KEY", "QWEN_API_KEY",
        "BAILIAN_CODING_PLAN_API_KEY",
    ),
}  # fmt: skip


def key_variables() -> frozenset[str]:
    """All of them: programs other than agents print an agent's key just as well."""
    return frozenset(name for names in KEYS.values() for name in names)
