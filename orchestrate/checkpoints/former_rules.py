"""Keeps what the user's own files said is ignored: `info/exclude`, and their file for everywhere.

They lie outside the workspace, so that no checkpoint has them; a repository that is made anew has
lost them. On the way back, what was ignored once is left alone.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from orchestrate.digest import digest_of
from orchestrate.state.durable import write_visibly


def keep_rules(store: Path, everywhere: str, exclude: bytes) -> None:
    """Keep them as they are now; the latter of two rules counts, as git reads them."""
    content = b""
    with suppress(OSError):
        content = Path(everywhere).read_bytes() if everywhere else b""
    rules = content + b"\n" + exclude
    kept = _folder(store) / digest_of(rules)
    if not kept.exists():
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        write_visibly(kept, rules)


def kept_rules(store: Path) -> list[str]:
    """The files of rules of all captures; none where they were always the same."""
    with suppress(OSError):
        found = sorted(map(str, _folder(store).iterdir()))
        return found if len(found) > 1 else []
    return []


def _folder(store: Path) -> Path:
    return store / "info" / "rules"
