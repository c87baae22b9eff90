"""What `init` wrote and left alone, as text and as a document for programs."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrate.view.outcomes import WrittenFile

# The modes of permission, and what they mean.
PERMISSIONS = {
    "bypass": "everything; work in a container or a copy that you can throw away",
    "edit": "change files, but nothing riskier; recipes that commit or run tests will be stuck",
    "default": "only what the agent's own settings allow",
    "read-only": "look, but change nothing",
}


def permission_words(held: str | None, permissions: str | None) -> str:
    if held is None:
        wanted = f"; to have {permissions}, write it there" if permissions else ""
        return f"\nPermissions: as .orchestrate/config.yaml says, which was there{wanted}\n"
    default = "" if permissions else " (the default; `permissions:` in .orchestrate/config.yaml)"
    return f"\nPermissions: {held}{default}: {PERMISSIONS[held]}\n"


def written_json(root: str, done: Sequence[WrittenFile]) -> dict[str, object]:
    return {
        "workspace": root,
        "written": [piece.path for piece in done if piece.is_written],
        "left": [
            {"path": piece.path, "why": piece.about} for piece in done if not piece.is_written
        ],
    }


def written_text(done: Sequence[WrittenFile]) -> str:
    width = max((len(piece.path) for piece in done), default=0)
    return "".join(
        f"{'wrote' if piece.is_written else 'left '}  {piece.path:{width}}  {piece.about}\n"
        for piece in done
    )
