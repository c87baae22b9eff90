"""Text of agents and programs commands nothing in a CI job whose log is read for commands.

GitHub's runner acts on a line that begins with `::`, white space before it or not, and on `##[`
anywhere; Azure's agent on `##vso[` anywhere and on `##[`. A visible backslash breaks
them apart. `::stop-commands::` would leave the text as it is, but both streams of a job share it,
and a process that is killed before it ends that takes away the commands of all that follows.
"""

from __future__ import annotations

import os

from orchestrate.regex import regex

_BREAK = regex(r"(?<![^\n\r])[^\S\n\r]*:(?=:)|##[A-Za-z]{0,16}(?=\[)")
_IN_JSON = regex(r"(##[A-Za-z]{0,16})\[")
# More than the longest beginning of a command that may need the bytes to come.
_MEMORY = 32


def is_wanted() -> bool:
    """Is our output the log of a job on GitHub or Azure?"""
    return bool(os.environ.get("GITHUB_ACTIONS") or os.environ.get("TF_BUILD"))


class Inert:
    """One stream; it remembers the beginning of its last line, which may come in pieces."""

    def __init__(self) -> None:
        self._line = ""

    def make(self, text: str) -> str:
        """The next piece of the stream, without commands."""
        whole = self._line + text
        done = len(self._line)
        out: list[str] = []
        for found in _BREAK.finditer(whole):
            if found.end() >= done:
                out += (whole[done : found.end()], "\\")
                done = found.end()
        out.append(whole[done:])
        self._remember(whole)
        return "".join(out)

    def pass_on(self, text: str) -> str:
        """The next piece as it is: commands of our own."""
        self._remember(self._line + text)
        return text

    def _remember(self, whole: str) -> None:
        line = whole[max(whole.rfind("\n"), whole.rfind("\r")) + 1 :]
        start = line.lstrip()
        # White space at the beginning is as good as none; of a line that goes on, only its end
        # matters, and that it is not a beginning.
        self._line = start if start in ("", ":") else "." + line[-_MEMORY:]


def inert_json(text: str) -> str:
    """The same for a JSON document, which stays the same document: no line begins with a colon."""
    return _IN_JSON.sub(r"\1\\u005b", text) if is_wanted() else text
