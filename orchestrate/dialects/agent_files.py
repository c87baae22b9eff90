"""Definition files of agents: the fields between the `---` lines are checked like a recipe's."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from orchestrate.catalogue import AGENT_STUB
from orchestrate.diagnostics import Span
from orchestrate.dialects.lowering import Lowering
from orchestrate.regex import regex
from orchestrate.source.advice import intended_field
from orchestrate.source.breaks import unify_line_ends
from orchestrate.source.include import Document
from orchestrate.source.located import LocatedMap, Source, pack, token_length
from orchestrate.source.reader import ReadFault, read_source
from orchestrate.source.schema import check_shipped
from orchestrate.source.yaml import parse_yaml

_FENCE = "---"
_CLOSING = regex(r"^---[ \t\r]*$", re.MULTILINE)


def check_agent_file(work: Lowering, name: str, path: Path) -> None:
    """Read the definition of an agent, which makes it a file of the program, and check it."""
    try:
        index = _register(work, path)
    except ReadFault as fault:
        _report_fault(work, fault.source or Source(work.workspace.display(path), path, ""), fault)
        return
    source = work.document.sources.files[index]
    _check_filled_in(work, name, source)
    fields = _fields_of(work, name, source)
    if not fields.strip():
        return
    try:
        data = parse_yaml(fields, index, lambda fault: _report_fault(work, source, fault))
    except ReadFault as fault:
        # Fields that are all comments do not count, and none is required.
        if fault.code != "E005":
            _report_fault(work, source, fault)
        return
    _check_fields(work, name, Document(path, data, work.document.sources), index)


def _check_filled_in(work: Lowering, name: str, source: Source) -> None:
    """A stub as `init --agents-of` writes it says nothing about its agent yet."""
    at = source.text.rfind(AGENT_STUB)
    if at < 0:
        return
    line = source.text.count("\n", 0, at)
    column = at - (source.text.rfind("\n", 0, at) + 1)
    span = Span(source.display, line + 1, column + 1, len(AGENT_STUB))
    work.report_at("W407", f"the definition of agent '{name}' is not filled in", span,
                   hint="write there what the agent is for and how it works")  # fmt: skip


def _register(work: Lowering, path: Path) -> int:
    """The number of the file among the sources: a prompt or another recipe may know it already."""
    real = Path(os.path.realpath(path))
    files = work.document.sources.files
    for index, known in enumerate(files):
        if known.path == real:
            return index
    source = read_source(real, work.workspace.display(path))
    source.text = unify_line_ends(source.text)
    return work.document.sources.register(source)


def _fields_of(work: Lowering, name: str, source: Source) -> str:
    """The front matter, with an empty line for the `---` above it so that lines keep numbers."""
    opening, _, rest = source.text.partition("\n")
    if opening.rstrip() != _FENCE:
        hint = f"put three lines before the text: {_FENCE}, name: {_short(name)}, {_FENCE}"
        fault = ReadFault("E105", f"the definition of agent '{name}' does not begin with ---", hint)
        _report_fault(work, source, fault)
        return ""
    if closing := _CLOSING.search(rest):
        return "\n" + rest[: closing.start()]
    hint = "write --- on a line of its own after the fields, before the text"
    _report_fault(work, source, ReadFault("E105", "no second --- ends the agent's fields", hint))
    return ""


def _check_fields(work: Lowering, name: str, document: Document, index: int) -> None:
    data = document.data
    if not isinstance(data, LocatedMap):
        span = document.sources.span(pack(index, 1, 0))
        hint = f"write name: {_short(name)}, with a space after the colon"
        work.report_at("E103", "the fields of an agent are a mapping", span, hint=hint)
        return
    for violation in check_shipped("agent", data):
        if violation.keyword == "additionalProperties":
            _report_unknown(work, document, str(violation.path[-1]), violation.schema)
            continue
        finding = work.library.explain(document, violation)
        if finding is not None and not work.findings.is_full:
            work.findings.add(finding)
    given = data.get("name")
    if isinstance(given, str) and given not in (name, _short(name)):
        work.report_at("W407", f"the file's name counts: recipes know this agent as '{name}'",
                       document.sources.span(data.value_mark("name")),
                       hint=f"write name: {_short(name)}, or rename the file")  # fmt: skip


def _report_unknown(work: Lowering, document: Document, key: str, schema: dict[str, Any]) -> None:
    """Only a warning, and in Claude Code's folder only for slips: it has fields of its own."""
    known = list(schema["properties"])
    near = intended_field(key, known, document.data)
    if not near and ".claude" in document.path.parts:
        return
    work.report_at("W407", f"'{key[:60]}' is not a field that is used here",
                   document.sources.span(document.data.key_mark(key)),
                   hint="" if near else f"known fields: {', '.join(known)}",
                   suggestion=near)  # fmt: skip


def _report_fault(work: Lowering, source: Source, fault: ReadFault) -> None:
    length = fault.length or token_length(source.line(fault.line), fault.column)
    span = Span(source.display, fault.line + 1, fault.column + 1, length)
    work.report_at(fault.code, fault.message, span, hint=fault.hint)


def _short(name: str) -> str:
    """The name without its folders."""
    return name.rpartition(":")[2]
