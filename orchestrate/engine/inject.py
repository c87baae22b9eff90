"""Files that a step depends on are found, and shown to its agent with the prompt (C 1.1.1)."""

from __future__ import annotations

import os
from typing import Any

from orchestrate.engine.confine import encode_path, open_regular
from orchestrate.engine.evaluate import Scope, render_patterns
from orchestrate.engine.faults import StepFault
from orchestrate.engine.patterns import match_pattern, show_pattern
from orchestrate.engine.texts import decode_wholly, encode, show_name
from orchestrate.plan.data import FileNeeds, Inject
from orchestrate.plan.visible import plural, show_size
from orchestrate.record import mutable_record, record
from orchestrate.workspace import Workspace

CAP = 256 * 1024
# Headers are not content, but a hundred thousand empty files must not make a prompt of them.
_HEADER_CAP = 64 * 1024
# Of the files that are there, when another one is missing.
_NAMED_FOUND = 40
# C's picture names two of the files that are not shown.
_NAMED_OF_HIDDEN = 2
# With more than this share of broken characters a file is not text in any encoding.
_BROKEN_SHARE = 0.1


@record
class Needed:
    """The files that are there: paths in ascending order of bytes, a required one not optional."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    # Whether the author named optional files at all, found or not.
    has_optional: bool = False

    @property
    def all(self) -> tuple[str, ...]:
        return tuple(sorted({*self.required, *self.optional}, key=encode_path))


@record
class Composed:
    """A prompt ready to send; `truncation` is the record for `debug.injection`, if any was cut."""

    prompt: str
    truncation: dict[str, Any] | None = None


class MissingFiles(StepFault):
    """Required files are not there; names every pattern without a match."""

    def __init__(self, field: str, patterns: list[str], found: tuple[str, ...] = ()) -> None:
        noun = "file is" if len(patterns) == 1 else "files are"
        super().__init__(
            f"{field}: required {noun} missing: {', '.join(patterns)}",
            {"failed_deps": patterns}
            | ({"depends_on": {"required": list(found[:_NAMED_FOUND])}} if found else {}),
        )


def resolve_needs(
    needs: FileNeeds,
    scope: Scope,
    workspace: Workspace,
    field: str = "depends_on",
    *,
    may_lack: bool = False,
) -> Needed:
    """Find the files a step depends on, right before it starts; `MissingFiles` if some are not.

    In a rehearsal they `may_lack`: an earlier step would have made them.
    """
    patterns = render_patterns((*needs.required, *needs.optional), scope)
    border = len(needs.required)
    required = {pattern: match_pattern(workspace, pattern) for pattern in patterns[:border]}
    missing = [show_pattern(pattern) for pattern, found in required.items() if not found]
    if missing and not may_lack:
        there = sorted({path for found in required.values() for path in found}, key=encode_path)
        raise MissingFiles(field, missing, tuple(there))
    optional = [match_pattern(workspace, pattern) for pattern in patterns[border:]]
    needed = {path for found in required.values() for path in found}
    extra = {path for found in optional for path in found} - needed
    return Needed(
        tuple(sorted(needed, key=encode_path)),
        tuple(sorted(extra, key=encode_path)),
        has_optional=bool(needs.optional),
    )


def compose_prompt(
    prompt: str, needed: Needed, inject: Inject | None, workspace: Workspace
) -> Composed:
    """The prompt with the files shown as the author asked; unchanged when there is nothing."""
    if inject is None or not needed.all:
        return Composed(prompt)
    # A block of YAML ends its last line itself.
    instruction = inject.instruction.rstrip("\n") + "\n"
    if inject.mode == "list":
        has_sections = inject.sections and needed.has_optional
        block, truncation = _list_files(needed, instruction, has_sections=has_sections)
    else:
        block, truncation = _Contents(workspace).show(needed.all, instruction)
    return Composed(_place(prompt, block, inject), truncation)


def _place(prompt: str, block: str, inject: Inject) -> str:
    """An empty line between the prompt and the block, which ends its last line."""
    if not prompt:
        return block
    if inject.position == "prepend":
        return f"{block}\n{prompt}"
    return prompt + ("\n" if prompt.endswith("\n") else "\n\n") + block


def _list_files(
    needed: Needed, instruction: str, *, has_sections: bool
) -> tuple[str, dict[str, Any] | None]:
    """The instruction and a line per file, in sections where the author told files apart."""
    sections: list[tuple[str, tuple[str, ...]]] = [("", needed.all)]
    if has_sections:
        sections = [
            ("Required:\n", needed.required),
            ("Optional (if available):\n", needed.optional),
        ]
    lines = [
        (heading if index == 0 else "") + f"- {show_name(path)}\n"
        for heading, paths in sections
        for index, path in enumerate(paths)
    ]
    room = CAP - _size_of(instruction)
    total = sum(map(_size_of, lines))
    shown: list[str] = []
    size = 0
    for line in lines:
        if size + _size_of(line) > room:
            break
        shown.append(line)
        size += _size_of(line)
    block = instruction + "".join(shown)
    hidden = len(lines) - len(shown)
    if not hidden:
        return block, None
    note = f"[... {plural(hidden, 'more file')} truncated ({show_size(total)} total)]\n"
    return block + note, _truncation(total, size, len(shown), 0, hidden)


@mutable_record
class _Contents:
    """The contents of files, as they are put one after the other under the cap."""

    workspace: Workspace
    content_size: int = 0
    header_size: int = 0
    total_size: int = 0
    shown: int = 0
    is_full: bool = False

    def show(self, paths: tuple[str, ...], instruction: str) -> tuple[str, dict[str, Any] | None]:
        pieces = [instruction]
        hidden: list[tuple[str, int]] = []
        cut = 0
        for path in paths:
            # Only the wording hangs on this; what is shown is checked when it is opened.
            if os.path.isdir(os.path.join(self.workspace.root, path)):
                piece, size, was_cut = self._folder(path), 0, False
            else:
                piece, size, was_cut = self._file(path)
            if piece:
                pieces.append(piece)
                cut += was_cut
            else:
                hidden.append((path, size))
        if hidden:
            pieces.append(_name_hidden(hidden))
        block = "\n".join(pieces)
        if not hidden and not cut:
            return block, None
        return block, _truncation(self.total_size, self.content_size, self.shown, cut, len(hidden))

    def _header(self, path: str, information: str) -> str:
        header = f"=== File: {show_name(path)} ({information}) ===\n"
        self.header_size += _size_of(header)
        return header

    def _folder(self, path: str) -> str:
        if self.header_size > _HEADER_CAP:
            return ""
        return self._header(path, "folder, not shown")

    def _file(self, path: str) -> tuple[str, int, bool]:
        """The text for a file ('' when there is no room), its size, and whether it was cut."""
        with open_regular(self.workspace, path) as opened:
            total = os.fstat(opened.fileno()).st_size
            room = CAP - self.content_size
            self.is_full = (
                self.is_full or self.header_size > _HEADER_CAP or (not room and total > 0)
            )
            data = b"" if self.is_full else opened.read(min(total, room))
        is_cut = len(data) < total and len(data) == room
        self.total_size += total
        if self.is_full:
            return "", total, False
        text, size, is_whole = decode_wholly(data, is_cut=is_cut)
        if "\0" in text or not is_whole:
            # Its path is enough for an agent that can open it; other bytes than its own are not.
            self.total_size -= total
            kind = "not UTF-8" if _is_nearly_text(text) else "binary"
            return self._header(path, f"{show_size(total)}, {kind}, not shown"), total, False
        if is_cut and not size:
            self.is_full = True
            return "", total, False
        self.content_size += size
        body = text if text.endswith("\n") or not text else text + "\n"
        if not is_cut:
            self.shown += 1
            return self._header(path, show_size(total)) + body, total, False
        self.is_full = True
        note = f"[... truncated: {show_size(size)} of {show_size(total)} shown]\n"
        return self._header(path, f"{size}/{total}") + body + note, total, True


def _is_nearly_text(text: str) -> bool:
    return "\0" not in text and text.count("\ufffd") <= len(text) * _BROKEN_SHARE


def _name_hidden(hidden: list[tuple[str, int]]) -> str:
    total = show_size(sum(size for _, size in hidden))
    named = "".join(
        f"- {show_name(path)} ({show_size(size)})\n" for path, size in hidden[:_NAMED_OF_HIDDEN]
    )
    rest = len(hidden) - _NAMED_OF_HIDDEN
    more = f"[... {plural(rest, 'more file')}]\n" if rest > 0 else ""
    return f"=== Files not shown ({plural(len(hidden), 'file')}, {total}) ===\n{named}{more}"


def _truncation(total: int, size: int, shown: int, cut: int, hidden: int) -> dict[str, Any]:
    return {
        "injection_truncated": True,
        "truncation_details": {
            "total_size": total,
            "shown_size": size,
            "files_shown": shown,
            "files_truncated": cut,
            "files_omitted": hidden,
        },
    }


def _size_of(text: str) -> int:
    return len(encode(text))
