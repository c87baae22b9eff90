"""Messages on stderr, as the flags of a command let them through."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from orchestrate.show.findings import draw
from orchestrate.show.output import note, wants_colour

if TYPE_CHECKING:
    from orchestrate.diagnostics import Diagnostic


class Notes:
    """Prints messages; with --quiet only those that must not be left out."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet

    def note(self, text: str) -> None:
        note(text)

    def detail(self, text: str) -> None:
        if not self._is_quiet:
            note(text)

    def findings(self, found: tuple[Diagnostic, ...], dropped: int) -> None:
        self.detail(draw(found, dropped, colour=wants_colour(sys.stderr)))
