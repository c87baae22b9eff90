"""Flags of agent programs that are orchestrate's to set, whichever program is asked."""

from __future__ import annotations

from collections.abc import Iterable

OWN_FIELDS = "permissions, session, model, prompt and output are fields of the step or the run"

# By their names without dashes: programs take `--approvalMode` for `--approval-mode`.
_OURS = frozenset(
    name.replace("-", "")
    for name in (
        # What the agent may do.
        "allow-all", "allow-all-paths", "allow-all-tools", "allow-all-urls", "allow-tool",
        "allow-dangerously-skip-permissions", "allowed-tools", "approval-mode", "ask-for-approval",
        "auto", "available-tools", "core-tools", "dangerously-bypass-approvals-and-sandbox",
        "dangerously-skip-permissions", "deny-tool", "disallowed-tools", "exclude-tools", "force",
        "full-auto", "permission-mode", "permission-prompt-tool", "sandbox", "setting-sources",
        "settings", "tools", "yolo",
        # Which conversation it is.
        "continue", "fork", "fork-session", "last", "resume", "session", "session-id",
        # What is asked of which model, and how it answers.
        "append-system-prompt", "format", "input-format", "json", "json-schema", "model",
        "output-format", "output-last-message", "output-schema", "print", "prompt",
        "prompt-interactive", "system-prompt", "usage-output-file",
    )
)  # fmt: skip


def flag_of_ours(argument: str, more: Iterable[str] = ()) -> str:
    """The flag in an argument that is not the author's to set, or ''.

    `more` are flags that a certain program is given, also short ones.
    """
    flag = argument.partition("=")[0]
    if flag == "--":
        return flag
    if flag.startswith("--"):
        ours = _OURS | {_bare(name) for name in more if name.startswith("--")}
        return flag if _bare(flag) in ours else ""
    short = {name for name in more if not name.startswith("--")}
    return flag[:2] if flag[:1] == "-" and flag[:2] in short else ""


def _bare(flag: str) -> str:
    return flag.lower().lstrip("-").replace("-", "").replace("_", "")
