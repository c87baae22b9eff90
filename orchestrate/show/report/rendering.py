"""A report in the format that was asked for, masked."""

from __future__ import annotations

import os
from collections.abc import Callable

from orchestrate.show.report.data import Report
from orchestrate.show.report.html import render_html
from orchestrate.show.report.markdown import render_markdown

_ENDINGS = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md"}


def kind_of(shape: str | None, output: str | None) -> str:
    """`html` or `md`: what was asked for, else what the file ends in."""
    if shape:
        return _ENDINGS[f".{shape}"]
    return _ENDINGS.get(os.path.splitext(output or "")[1].lower(), "html")


def render(gathered: Report, kind: str, mask: Callable[[str], str]) -> bytes:
    text = render_html(gathered) if kind == "html" else render_markdown(gathered)
    # The run's own files are masked; names of files and commits were made by agents.
    return mask(text).encode("utf-8", "backslashreplace")
