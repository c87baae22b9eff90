"""POSIX patterns inside the workspace, matched so that nothing outside it can be named."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from orchestrate.engine.confine import (
    Folder,
    PathFault,
    encode_path,
    is_the_machines,
    open_folder,
    open_root,
    split_path,
)
from orchestrate.errors import explain
from orchestrate.record import record
from orchestrate.regex import regex
from orchestrate.workspace import Workspace

_SPECIAL = regex(r"([\\*?\[\]!^-])")
_ESCAPED = regex(r"\\(.)", re.DOTALL)
# What makes a path not exist, as opposed to what is wrong with the machine.
_ABSENT = (
    errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES, errno.EINVAL,
)  # fmt: skip
# ASCII on purpose: which files a step depends on must not change with the locale.
_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "space": " \\t\\n\\r\\f\\v",
    "punct": "!-/:-@\\[-`{-~", "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


@record
class _Part:
    """One component of a pattern: a name, or a test that names must pass."""

    name: str
    accepts: Callable[[str], bool] | None = None


def escape_pattern(text: str) -> str:
    """The pattern that matches exactly this text."""
    return _SPECIAL.sub(r"\\\1", text)


def match_pattern(workspace: Workspace, pattern: str) -> list[str]:
    """The paths that match, relative to the workspace, in ascending order of their bytes.

    `*`, `?` and `[…]` match within one component; a leading dot only matches a written one; `\\`
    takes a wildcard's meaning away. Links are followed; a match that lies outside the workspace is
    a `PathFault`. A pattern that ends in a slash matches folders only.
    """
    parts = _parse(pattern)
    with open_root(workspace) as root:
        found = set(_walk(root, "", parts, folders_only=pattern.endswith("/")))
    return sorted(found, key=encode_path)


def show_pattern(pattern: str) -> str:
    """The pattern as messages show it: without the escapes that keep values literal."""
    return _ESCAPED.sub(r"\1", pattern)


def _parse(pattern: str) -> list[_Part]:
    written = pattern.split("/")
    names = [show_pattern(part) for part in written]
    split_path("/".join(names))
    if "**" in pattern.replace("\\*", ""):
        raise PathFault(f"'**' in the pattern '{show_pattern(pattern)}' is not supported")
    return [
        _parse_part(part, name)
        for part, name in zip(written, names, strict=True)
        if name not in ("", ".")
    ]


def _parse_part(part: str, name: str) -> _Part:
    (first, *others), is_fixed = _translate(part)
    if is_fixed:
        return _Part(name)
    source = first
    if others:
        # Each stretch between stars is taken where it first fits, and never reconsidered:
        # matching stays linear for `*a*a*a*…`.
        *middle, last = others
        source += "".join(f"(?>.*?{stretch})" for stretch in middle) + f".*{last}"
    fits = re.compile(source + r"\Z", re.DOTALL).match
    if part.startswith((".", "\\.")):
        return _Part(name, lambda found: fits(found) is not None)
    return _Part(name, lambda found: not found.startswith(".") and fits(found) is not None)


def _translate(part: str) -> tuple[list[str], bool]:
    """Regular expressions for what is between the stars; and whether there is no wildcard."""
    stretches: list[str] = []
    source, is_fixed, position = "", True, 0
    while position < len(part):
        character = part[position]
        position += 1
        if character == "*":
            stretches.append(source)
            source, is_fixed = "", False
        elif character == "?":
            source, is_fixed = source + ".", False
        elif character == "[" and (end := _bracket_end(part, position)) is not None:
            source, is_fixed = source + _translate_bracket(part[position:end]), False
            position = end + 1
        elif character == "\\" and position < len(part):
            source += re.escape(part[position])
            position += 1
        else:
            source += re.escape(character)
    return [*stretches, source], is_fixed


def _bracket_end(part: str, start: int) -> int | None:
    """Where the `]` of a bracket expression is; None if the `[` is just a character."""
    position = start + (part[start : start + 1] in ("!", "^"))
    first = position
    while position < len(part):
        if part[position] == "]" and position > first:
            return position
        if part.startswith("[:", position) and (close := part.find(":]", position + 2)) >= 0:
            position = close + 2
        else:
            position += 2 if part[position] == "\\" else 1
    return None


def _translate_bracket(inner: str) -> str:
    negated = inner[:1] in ("!", "^")
    members = list(_members(inner[1:] if negated else inner))
    if not members:
        return "." if negated else "(?!)"
    return f"[{'^' if negated else ''}{''.join(members)}]"


def _members(inner: str) -> Iterator[str]:
    """The members of a bracket expression, written for a regular expression."""
    tokens: list[str] = []
    for token in re.finditer(r"\[:(\w+):\]|\\(.)|(.)", inner, re.DOTALL):
        if token[1] in _CLASSES:
            yield _CLASSES[token[1]]
        elif token[1]:
            raise PathFault(f"there is no character class '[:{token[1]}:]'")
        else:
            # A bare `-` makes a range and is kept apart, as ""; an escaped one is a character.
            tokens.append("" if token[3] == "-" else token[2] or token[3])
    position = 0
    while position < len(tokens):
        low = tokens[position] or "-"
        if position + 2 < len(tokens) and not tokens[position + 1]:
            high = tokens[position + 2] or "-"
            if low <= high:
                yield f"{re.escape(low)}-{re.escape(high)}"
            position += 3
        else:
            yield re.escape(low)
            position += 1


def _walk(folder: Folder, above: str, parts: list[_Part], *, folders_only: bool) -> Iterator[str]:
    """The matches below an open folder. Names are looked up in the very folder that was checked,
    so that a link which changes meanwhile cannot show what is elsewhere."""
    part, *rest = parts
    for name in _names(folder, part):
        path = f"{above}{name}"
        if rest:
            try:
                inner = open_folder(folder, name)
            except OSError as error:
                _pass_over_absent(error)
                continue
            with inner:
                # Among many names one that leads out does not match; a written one is a mistake.
                if part.accepts is None and not inner.is_inside():
                    whole = "/".join([path, *(other.name for other in rest)])
                    raise PathFault(f"'{whole}' leads out of the workspace through a link")
                yield from _walk(inner, f"{path}/", rest, folders_only=folders_only)
        elif (mode := _mode_of_match(folder, name, path)) is not None and (
            stat.S_ISDIR(mode) or not folders_only
        ):
            yield path


def _names(folder: Folder, part: _Part) -> list[str]:
    if part.accepts is None:
        return [part.name]
    try:
        names = os.listdir(folder.descriptor)
    except OSError as error:
        _pass_over_absent(error)
        return []
    return [name for name in names if part.accepts(name)]


def _mode_of_match(folder: Folder, name: str, path: str) -> int | None:
    """The kind of thing a match is; None if it is not there (or a link to nothing)."""
    try:
        found = folder.locate(name)
    except OSError as error:
        _pass_over_absent(error)
        return None
    if not found.inside:
        raise PathFault(f"'{path}' leads out of the workspace through a link")
    return found.mode


def _pass_over_absent(error: OSError) -> None:
    if error.errno not in _ABSENT:
        if is_the_machines(error):
            raise explain("look for files at", Path(error.filename or "."), error) from error
        raise PathFault(f"cannot look for files: {error.strerror}") from error
