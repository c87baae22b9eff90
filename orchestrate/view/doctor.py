"""What `doctor` looked at, one finding a thing."""

from __future__ import annotations

from orchestrate.record import record


@record
class Finding:
    """One thing that was looked at. `is_needed`: without it nothing runs."""

    name: str
    is_well: bool
    detail: str
    advice: str = ""
    is_needed: bool = False
