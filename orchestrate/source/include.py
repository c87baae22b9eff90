"""`$include` and `$ref`: files are composed before anything else looks at them.

A mapping with `$include` is the target with the mapping's other keys applied as a JSON Merge
Patch (RFC 7396). Composing never copies what it does not change, and every value keeps the mark
of the file it was written in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orchestrate.diagnostics import Findings, Span
from orchestrate.record import field, mutable_record, record
from orchestrate.regex import regex
from orchestrate.source.breaks import unify_line_ends
from orchestrate.source.json import parse_json
from orchestrate.source.located import (
    HOLE,
    Hole,
    LocatedList,
    LocatedMap,
    Mark,
    Source,
    Sources,
    located_map,
    pack,
    token_length,
)
from orchestrate.source.merge import Idle, merge_patch
from orchestrate.source.reader import MAX_BYTES, ReadFault, read_source
from orchestrate.source.target import (
    KEYWORDS,
    IncludeFault,
    is_index,
    kind_of,
    offer_names,
    similar_file,
    targets_of,
)
from orchestrate.source.yaml import MAX_DEPTH, MAX_NODES, Allowance, Report, parse_yaml
from orchestrate.workspace import Workspace

_DATA = (".yaml", ".yml", ".json")
_TEXT = (".md", ".txt")
_TOLD = ""  # the code of a fault that was reported where it is: in the included file
# Each include in a row takes several levels of Python's stack.
MAX_CHAIN = 50
_URL = regex(r"[A-Za-z][A-Za-z0-9+.-]+://")


@record
class Document:
    """A composed definition: located data without any `$include` left in it.

    `own` is what the file itself says: it shows the dialect where an include could not be read.
    """

    path: Path
    data: Any
    sources: Sources
    own: Any = None


@record
class _File:
    path: Path
    index: int
    root: Any


@record
class _Measured:
    """A composed value with what it adds to the document: values and levels."""

    value: Any
    nodes: int
    height: int
    # Of a scalar, which cannot carry it itself: where it was written.
    mark: Mark | None = None


@mutable_record
class Loader:
    """Reads and composes the files of one compilation; each file is read and parsed once."""

    workspace: Workspace
    findings: Findings
    sources: Sources = field(default_factory=Sources)
    # Texts to read in place of files, by their real paths.
    texts: Mapping[Path, str] = field(default_factory=dict)
    _files: dict[Path, _File] = field(default_factory=dict)
    _composed: dict[tuple[Path, str], _Measured] = field(default_factory=dict)
    _allowance: Allowance = field(default_factory=Allowance)
    _bytes: int = 0

    def load(self, path: Path) -> Document | None:
        """The composed document of a file named by the user; None when it cannot be read."""
        try:
            file = self._read(Path(os.path.abspath(path)))
        except ReadFault as fault:
            self._report_read_fault(path, fault)
            return None
        if not _may_include(self.sources.files[file.index].text):
            return Document(file.path, file.root, self.sources)
        try:
            measured = self._compose_file(file, "", [(file.path, "")])
        except RecursionError:
            # Many files, each within the cap, can still nest deeper than any recipe does.
            too_deep = IncludeFault("E011", f"includes nest deeper than {MAX_DEPTH} levels")
            self._report(too_deep, pack(file.index, 0, 0))
            return Document(file.path, HOLE, self.sources, file.root)
        return Document(file.path, measured.value, self.sources, file.root)

    def _report_read_fault(self, path: Path, fault: ReadFault) -> None:
        display = fault.source.display if fault.source else self._display(path)
        span = Span(display, fault.line + 1, fault.column + 1, _length_of(fault, fault.source))
        diagnostic = self.sources.diagnostic(fault.code, fault.message, span, hint=fault.hint)
        self.findings.add(diagnostic)

    def _display(self, path: Path) -> str:
        return self.workspace.display(Path(os.path.abspath(path)))

    def _read(self, path: Path) -> _File:
        """Parse a data file once; its own mistakes are reported at their own place."""
        real = Path(os.path.realpath(path))
        if real in self._files:
            return self._files[real]
        display = self._display(path)
        given = self.texts.get(real)
        source = read_source(real, display) if given is None else Source(display, real, given)
        source.text = unify_line_ends(source.text)
        self._bytes += len(source.text)
        if self._bytes > MAX_BYTES:
            raise ReadFault("E003", "together with its includes is larger than 10 MB")
        index = self.sources.register(source)

        def report(fault: ReadFault) -> None:
            if self.findings.is_full:
                self.findings.dropped += 1
                return
            length = _length_of(fault, source)
            span = Span(source.display, fault.line + 1, fault.column + 1, length)
            self.findings.add(
                self.sources.diagnostic(fault.code, fault.message, span, hint=fault.hint)
            )

        parse = _parser_of(path)
        try:
            root = parse(source.text, index, report, self._allowance)
        except ReadFault as fault:
            fault.source = source
            raise
        self._files[real] = _File(path, index, root)
        return self._files[real]

    def _compose_file(self, file: _File, pointer: str, chain: list[tuple[Path, str]]) -> _Measured:
        """The composed value at a pointer into a file (memoised)."""
        key = (file.path, pointer)
        if key not in self._composed:
            value, mark = self._follow(file, pointer, chain)
            measured = self._compose(value, file, chain)
            if not isinstance(value, LocatedMap | LocatedList):
                measured = _Measured(value, 1, 0, mark)
            self._composed[key] = measured
        return self._composed[key]

    def _follow(self, file: _File, pointer: str, chain: list[tuple[Path, str]]) -> tuple[Any, Mark]:
        """The value that a pointer leads to, and where it was written."""
        value, mark = file.root, pack(file.index, 0, 0)
        passed = ""
        for token in pointer.split("/")[1:]:
            name = token.replace("~1", "/").replace("~0", "~")
            if isinstance(value, LocatedMap) and any(word in value for word in KEYWORDS):
                value = self._compose_file(file, passed, chain).value
            passed = f"{passed}/{token}"
            if isinstance(value, LocatedMap) and name in value:
                value, mark = value[name], value.value_mark(name)
            elif isinstance(value, LocatedList) and is_index(name) and int(name) < len(value):
                value, mark = value[int(name)], value.marks[int(name)]
            else:
                shown = self._display(file.path)
                message = f"'#{pointer}' names nothing in {shown}"
                raise IncludeFault("E023", message, offer_names(value, name))
        return value, mark

    def _compose(self, value: Any, file: _File, chain: list[tuple[Path, str]]) -> _Measured:
        """The value with every include below it followed; unchanged parts are shared."""
        if isinstance(value, LocatedMap):
            for word in KEYWORDS:
                if word in value:
                    return self._include(value, word, file, chain)
            return self._compose_map(value, file, chain)
        if isinstance(value, LocatedList):
            return self._compose_list(value, file, chain)
        return _Measured(value, 1, 0)

    def _compose_map(
        self, value: LocatedMap, file: _File, chain: list[tuple[Path, str]]
    ) -> _Measured:
        nodes, height, changed = 1, 0, False
        entries = []
        for key, item, key_mark, item_mark in value.entries():
            if isinstance(item, LocatedMap | LocatedList):
                measured = self._compose(item, file, chain)
                changed |= measured.value is not item
                nodes += measured.nodes + 1
                height = max(height, measured.height)
                if nodes > MAX_NODES:
                    break
                mark = _mark_of(measured, item_mark)
                entries.append((key, measured.value, key_mark, mark))
            else:
                nodes += 2
                entries.append((key, item, key_mark, item_mark))
        result = located_map(value.mark, entries) if changed else value
        return self._within_caps(_Measured(result, nodes, height + 1), value.mark)

    def _compose_list(
        self, value: LocatedList, file: _File, chain: list[tuple[Path, str]]
    ) -> _Measured:
        nodes, height, changed = 1, 0, False
        result = LocatedList(value.mark)
        for index, item in enumerate(value):
            mark = value.marks[index]
            if not isinstance(item, LocatedMap | LocatedList):
                nodes += 1
                result.put(item, mark)
                continue
            measured = self._compose(item, file, chain)
            changed |= measured.value is not item
            nodes += measured.nodes
            height = max(height, measured.height)
            if nodes > MAX_NODES:
                break  # before anything is spliced in: it could be the same thing, again and again
            is_include = isinstance(item, LocatedMap) and any(word in item for word in KEYWORDS)
            if is_include and isinstance(measured.value, LocatedList):
                for position, spliced in enumerate(measured.value):
                    result.put(spliced, measured.value.marks[position])
            else:
                result.put(measured.value, _mark_of(measured, mark))
        kept = result if changed else value
        return self._within_caps(_Measured(kept, nodes, height + 1), value.mark)

    def _within_caps(self, measured: _Measured, mark: Mark) -> _Measured:
        if measured.nodes > MAX_NODES:
            fault = IncludeFault("E012", f"includes expand to more than {MAX_NODES:,} values")
        elif measured.height > MAX_DEPTH:
            fault = IncludeFault("E011", f"includes nest deeper than {MAX_DEPTH} levels")
        else:
            return measured
        self._report(fault, mark)
        return _Measured(HOLE, 1, 0)

    def _include(
        self, value: LocatedMap, word: str, file: _File, chain: list[tuple[Path, str]]
    ) -> _Measured:
        """Targets in order, each over the one before, then the mapping's own keys over all."""
        mark = value.value_mark(word)
        if value[word] is None or all(keyword in value for keyword in KEYWORDS):
            mark = value.key_mark(KEYWORDS[-1] if value[word] is not None else word)
        try:
            targets = targets_of(value, word)
            own = located_map(
                value.mark, (entry for entry in value.entries() if entry[0] not in KEYWORDS)
            )
            base: _Measured | None = None
            for target, target_mark in targets:
                mark = target_mark
                measured = self._target(target, file, chain)
                if isinstance(measured.value, str) and (own or len(targets) > 1):
                    raise IncludeFault(
                        "E024",
                        f"'{target}' is text, so $include must be the mapping's only key",
                        "put the text under a key of its own",
                    )
                base = measured if base is None else _patched(base, measured)
                if base.nodes > MAX_NODES:
                    break
            assert base is not None
            if not own or isinstance(base.value, Hole) or base.nodes > MAX_NODES:
                return self._within_caps(base, value.mark)
            if not isinstance(base.value, LocatedMap):
                raise IncludeFault(
                    "E025",
                    f"the included value is {kind_of(base.value)}: "
                    "no other keys can stand beside it",
                    "include it alone, or include a mapping",
                )
        except IncludeFault as fault:
            if fault.code != _TOLD:
                self._report(fault, mark)
            return _Measured(HOLE, 1, 0)
        patch = self._compose_map(own, file, chain)
        return self._within_caps(_patched(base, patch, self._report_idle), value.mark)

    def _report_idle(self, key: str, mark: Mark) -> None:
        """An empty value beside an include is more often forgotten than meant."""
        message = f"'{key}' is empty, which removes it from what is included: it is not there"
        hint = "give it a value, or leave it out"
        name, colon, rest = key.partition(":")
        if colon:
            hint = f"a space is missing after the colon: write {name}: {rest}"
        span = self.sources.span(mark)
        self.findings.add(self.sources.diagnostic("W407", message, span, hint=hint))

    def _target(self, target: str, file: _File, chain: list[tuple[Path, str]]) -> _Measured:
        path_text, _, pointer = target.partition("#")
        if pointer and not pointer.startswith("/"):
            raise IncludeFault(
                "E023", f"'#{pointer}' is not a JSON pointer", f"write '{path_text}#/{pointer}'"
            )
        path = file.path if not path_text else self._resolve(path_text, file.path)
        if path.suffix.lower() in _TEXT:
            if pointer:
                raise IncludeFault(
                    "E024",
                    f"a text file has no '#{pointer}'",
                    f"include all of it: {path_text}",
                )
            return self._text(path)
        if path.suffix.lower() not in _DATA:
            raise IncludeFault(
                "E024",
                f"cannot include '{path_text}': it must end in one of {', '.join(_DATA + _TEXT)}",
                "rename it: .yaml, .yml and .json give data, .md and .txt give text",
            )
        key = (path, pointer)
        if len(chain) > MAX_CHAIN and key not in chain:
            raise IncludeFault(
                "E011",
                f"includes lead from file to file more than {MAX_CHAIN} times",
                "include the last of them directly",
            )
        if key in chain:
            shown = " → ".join(self._shown(step) for step in (*chain[chain.index(key) :], key))
            raise IncludeFault(
                "E021",
                f"files include each other in a circle: {shown}",
                "take one of these includes out, or move what both need into a third file",
            )
        try:
            target_file = self._read(path)
        except ReadFault as fault:
            raise self._read_failure(path, path_text, fault) from None
        return self._compose_file(
            _File(path, target_file.index, target_file.root), pointer, [*chain, key]
        )

    def _shown(self, step: tuple[Path, str]) -> str:
        return self._display(step[0]) + (f"#{step[1]}" if step[1] else "")

    def _read_failure(self, path: Path, path_text: str, fault: ReadFault) -> IncludeFault:
        """A file with text has a place of its own to point at; a missing one has not."""
        if fault.source is not None:
            self._report_read_fault(path, fault)
            return IncludeFault(_TOLD, "")
        near = similar_file(path)
        meant = f"{path_text[: -len(path.name)]}{near}"
        hint = f"did you mean '{meant}'?" if near else fault.hint
        return IncludeFault("E020", f"cannot include '{path_text}': {fault.message}", hint)

    def _resolve(self, text: str, including: Path) -> Path:
        if _URL.match(text):
            raise IncludeFault(
                "E024",
                f"cannot include '{text}': only files, no URLs",
                "save it in the workspace and include that file",
            )
        if "\0" in text:
            raise IncludeFault("E024", "the path contains a NUL character")
        path = Path(os.path.normpath(including.parent / text))
        if self.workspace.allows(path, including):
            return path
        raise IncludeFault(
            "E022",
            f"'{text}' leads out of the workspace",
            "copy the file into the workspace, or name a wider one with --working-dir",
        )

    def _text(self, path: Path) -> _Measured:
        real = Path(os.path.realpath(path))
        key = (real, "text")
        if key not in self._composed:
            try:
                source = read_source(real, self._display(path))
            except ReadFault as fault:
                raise self._read_failure(path, self._display(path), fault) from None
            self._bytes += len(source.text)
            if self._bytes > MAX_BYTES:
                raise IncludeFault("E003", "the includes together are larger than 10 MB")
            index = self.sources.register(source)
            self._composed[key] = _Measured(_IncludedText(source.text, pack(index, 0, 0)), 1, 0)
        return self._composed[key]

    def _report(self, fault: IncludeFault, mark: Mark) -> None:
        span = self.sources.span(mark)
        self.findings.add(self.sources.diagnostic(fault.code, fault.message, span, hint=fault.hint))


def _length_of(fault: ReadFault, source: Source | None) -> int:
    """How much a caret should underline."""
    if fault.length or source is None:
        return fault.length or 1
    return token_length(source.line(fault.line), fault.column)


class _IncludedText(str):
    """A text file's contents, with the mark of its first character."""

    __slots__ = ("mark",)
    mark: Mark

    def __new__(cls, text: str, mark: Mark) -> _IncludedText:
        self = super().__new__(cls, text)
        self.mark = mark
        return self


def _may_include(text: str) -> bool:
    """Can the text hold an include? A dollar sign may also be written as an escape."""
    return any(form in text for form in (*KEYWORDS, "\\x24", "\\u0024", "\\U00000024"))


def _parser_of(path: Path) -> Callable[[str, int, Report, Allowance | None], Any]:
    if path.suffix.lower() == ".json":
        return parse_json
    return parse_yaml


def _mark_of(measured: _Measured, otherwise: Mark) -> Mark:
    """Where an included value was really written."""
    mark: Mark = getattr(measured.value, "mark", otherwise)
    return mark if measured.mark is None else measured.mark


def _patched(base: _Measured, patch: _Measured, idle: Idle | None = None) -> _Measured:
    value = merge_patch(base.value, patch.value, idle)
    return _Measured(value, base.nodes + patch.nodes, max(base.height, patch.height))
