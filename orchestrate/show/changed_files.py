"""How many files a step changed, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrate.plan.visible import plural, visible


def changed_words(changed: Mapping[str, Any] | None) -> str:
    """`3 files changed`; '' where none did, or that is not known."""
    if not changed or not changed.get("files"):
        return ""
    shared = f", with {plural(changed['shared'] - 1, 'other step')}" if "shared" in changed else ""
    return f"{plural(changed['files'], 'file')} changed{shared}"


def changed_names(changed: Mapping[str, Any] | None) -> str:
    """The same, with the first names."""
    words = changed_words(changed)
    if not words or changed is None:
        return ""
    names = [visible(name) for name in changed["names"]]
    more = ", …" if len(names) < changed["files"] else ""
    return f"{words}: {', '.join(names)}{more}"
