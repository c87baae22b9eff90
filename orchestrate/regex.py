"""Regular expressions that are compiled when they are first used.

A command uses few of the hundred that its modules hold, and compiling all of them took a tenth of
its start-up (ADR 0006).
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_OFFERED = (
    "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer", "pattern",
    "flags", "groups", "groupindex",
)  # fmt: skip


def regex(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`; a mistake in the text is found when it is used."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))


class _Pattern:
    """Stands for a compiled pattern, and has its methods for its own from the first use on."""

    def __init__(self, text: Any, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self._text, self._flags)
        vars(self).update({offered: getattr(compiled, offered) for offered in _OFFERED})
        return getattr(compiled, name)
