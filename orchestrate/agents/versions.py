"""What a program's version tells: which of its flags it knows, and whether we have tried it."""

from __future__ import annotations

import re


def version_numbers(version: str) -> tuple[int, ...]:
    """`1.0.102` as numbers to compare; () where nothing is known."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def tried_words(version: str, tried: tuple[str, ...]) -> str:
    """How a version stands to those that were tried, oldest first; '' if it is within them."""
    if not tried or not version_numbers(version):
        return ""
    if version_numbers(version) < version_numbers(tried[0]):
        return f"older than {tried[0]}, the oldest that was tried"
    if version_numbers(version) > version_numbers(tried[-1]):
        return f"newer than {tried[-1]}, the newest that was tried"
    return ""
