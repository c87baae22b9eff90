"""Read a shell's quotes and expansions, and gather the words between them.

This is the lower half of the scanner in `scan`: an explicit stack of open quotes and
brackets, so that deep nesting costs no recursion, and the one word that is being read in each.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchestrate.lang.shell.argv import UNKNOWN, VALUE
from orchestrate.lang.shell.words import (
    PLAIN_SHELLS,
    QUOTED,
    Command,
    Draft,
    HereDocument,
    OpenBracket,
    UnbalancedError,
    UnclearError,
    Word,
)
from orchestrate.regex import regex

DEEPEST = 60  # keeps the work linear; no script written by hand comes near

_NAME = regex(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PARAMETER = regex(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!-]", re.ASCII)
_DOUBLE_RUN = regex(r"[^\\\"$`\0]+")
_ARITHMETIC_RUN = regex(r"[^\\'\"$`\0()#<]+")

_SUBSCRIPT = regex(r"\[|:[^-=?+]")
# What a backslash in backticks is taken from before their commands are read.
_ESCAPED = regex(r"\\([$`\\])")
_ESCAPED_IN_DOUBLE = regex(r"\\([$`\\\"])")
_INDIRECT = regex(r"[!#]?([A-Za-z_][A-Za-z0-9_]*)", re.ASCII)


class QuoteScanner:
    """The lower half: characters become words."""

    def __init__(self, source: str, shell: str) -> None:
        self.source = source
        self.shell = shell
        self.at = 0
        self.places: list[str] = []
        self.troubles: list[tuple[int, str]] = []
        self.commands: list[Command] = []
        self.evaluated: set[str] = set()
        self.arrays: set[str] = set()
        self.documents: list[HereDocument] = []
        self.document_uses: set[str] = set()
        self.stack = [OpenBracket("commands", 0, 0)]
        self.followed_to = 0  # where the last command ended that was read

    # Values and words

    def take(self, place: str, trouble: str = "") -> int:
        hole = len(self.places)
        self.places.append(place)
        trouble = trouble or self.stack[-1].doom
        if trouble:
            self.troubles.append((hole, trouble))
        return hole

    def blame(self, holes: Sequence[int], code: str) -> None:
        self.troubles.extend((hole, code) for hole in holes)

    def host(self) -> OpenBracket:
        """Give the frame whose word is being read: double quotes belong to the frame below."""
        index = len(self.stack) - 1
        while self.stack[index].kind == "double":
            index -= 1
        return self.stack[index]

    def draft(self) -> Draft:
        frame = self.host()
        if frame.draft is None:
            frame.draft = Draft()
        return frame.draft

    def add(self, text: str, quoted: bool) -> None:
        draft = self.draft()
        draft.text.append(text)
        draft.bare.append(QUOTED * len(text) if quoted else text)

    def add_value(self, place: str, trouble: str = "") -> None:
        hole = self.take(place, trouble)
        self.add(VALUE, quoted=False)
        self.draft().holes.append(hole)

    def add_expansion(self, body: str) -> None:
        """Add an expansion of the script's own; unquoted, or for "$@", it may give no word."""
        quoted = self.stack[-1].kind == "double" and "@" not in body
        draft = self.draft()
        draft.text.append(UNKNOWN)
        draft.bare.append(QUOTED if quoted else UNKNOWN)

    def add_literal(self, text: str, place: str) -> None:
        """Add quoted text that may hold values."""
        for number, piece in enumerate(text.split(VALUE)):
            if number:
                self.add_value(place)
            self.add(piece, quoted=True)

    def push(self, kind: str, width: int, doom: str = "", quoted: bool = False) -> OpenBracket:
        if len(self.stack) > DEEPEST:
            raise UnclearError("deep")
        self.draft()
        below = self.stack[-1]
        hole = len(self.places)
        self.at += width
        frame = OpenBracket(kind, hole, self.at, below.doom or doom, quoted)
        frame.piped_from = frame.command_from = hole
        self.stack.append(frame)
        return frame

    def pop(self, width: int) -> None:
        """Close the top frame; what it held becomes one expansion of the word around it."""
        frame = self.stack.pop()
        self.at += width
        if frame.kind == "double":
            return
        draft = self.draft()
        held = range(frame.first, len(self.places))
        if frame.kind == "array":
            draft.elements.extend(held)
        else:
            draft.inner.extend(held)
        if frame.draft is not None:
            frame.uses |= frame.draft.uses
        draft.uses |= frame.uses
        parameter = frame.kind == "parameter"
        self.add_expansion(self.source[frame.start : self.at] if parameter else "")
        if frame.statement:
            # After a compound command the shell looks for an operator or a keyword.
            self.stack[-1].draft = None
            self.stack[-1].closed = True

    # Quotes and expansions, alike in bare text and in double quotes

    def read_single(self) -> None:
        end = self.source.find("'", self.at + 1)
        if end < 0:
            raise UnbalancedError
        text = self.source[self.at + 1 : end]
        self.refuse_newline(text)
        self.add_literal(text, "single")
        self.at = end + 1

    def read_ansi(self) -> None:
        """Read $'…', where a backslash can hide a quote in some shells and not in others."""
        index = self.at + 2
        while index < len(self.source) and self.source[index] != "'":
            step = 1
            if self.source[index] == "\\":
                step = 2
                following = self.source[index + 1 : index + 2]
                if following == "'" and self.shell in PLAIN_SHELLS:
                    raise UnclearError("ansi")
                if VALUE in self.source[index + 1 : index + 3] and following in {VALUE, "c"}:
                    raise UnclearError("backslash")
            index += step
        if index >= len(self.source):
            raise UnbalancedError
        text = self.source[self.at + 2 : index]
        if VALUE in text and self.shell in PLAIN_SHELLS:
            raise UnclearError("ansi")
        self.refuse_newline(text)
        self.add_literal(text, "ansi")
        self.at = index + 1

    def read_backtick(self) -> None:
        end = self.at + 1
        while end < len(self.source) and self.source[end] != "`":
            end += 2 if self.source[end] == "\\" else 1
        if end >= len(self.source):
            raise UnbalancedError
        body = self.source[self.at : end]
        self.refuse_newline(body)
        draft = self.draft()
        draft.inner.extend(self.take("bare", "backtick") for _ in range(body.count(VALUE)))
        draft.uses.update(_NAME.findall(body))
        self.follow_backtick(body[1:])
        self.add_expansion("")
        self.at = end + 1

    def follow_backtick(self, body: str) -> None:
        """Read the commands in backticks: they may evaluate a variable that holds a value."""
        escaped = _ESCAPED_IN_DOUBLE if self.stack[-1].kind == "double" else _ESCAPED
        inner = type(self)(escaped.sub(r"\1", body.replace(VALUE, "")), self.shell)
        try:
            inner.run()
        except (UnclearError, UnbalancedError):
            self.evaluated.update(_NAME.findall(body))
        self.commands += inner.commands
        self.evaluated |= inner.evaluated
        self.arrays |= inner.arrays
        self.document_uses |= inner.document_uses

    def run(self) -> None:
        """Read all of the source; the upper half knows how."""
        raise NotImplementedError

    def refuse_newline(self, text: str) -> None:
        """A here-document would begin inside this text, and shells differ on that."""
        if self.documents and "\n" in text:
            raise UnclearError("after-document")

    def read_dollar(self, quoted: bool) -> None:
        source, at = self.source, self.at
        following = source[at + 1 : at + 2]
        if following == VALUE:
            self.add("$", quoted)
            self.at += 2
            self.add_value("bare", "dollar")
        elif following == "(":
            if source.startswith("((", at + 1):
                self.push("arithmetic", 3, "arithmetic")
            else:
                self.push("commands", 2)
        elif following == "{":
            self.open_parameter(quoted)
        elif following == "[":
            raise UnclearError("arithmetic")
        elif following == "'" and not quoted:
            self.read_ansi()
        elif following == '"' and not quoted:
            self.push("double", 2)
        elif following == "\\" and source[at + 2 : at + 3] == "\n":
            raise UnclearError("continuation")
        elif name := _PARAMETER.match(source, at + 1):
            if self.shell == "zsh" and source[name.end() : name.end() + 1] == "[":
                raise UnclearError("arithmetic")
            self.draft().uses.add(name[0])
            self.add_expansion(name[0])
            self.at = name.end()
        else:
            self.add("$", quoted)
            self.at += 1

    def open_parameter(self, quoted: bool) -> None:
        if self.source[self.at + 2 : self.at + 3] in {" ", "\t", "\n", "|", ""}:
            raise UnclearError("parameter")
        frame = self.push("parameter", 2, "parameter", quoted)
        if name := _INDIRECT.match(self.source, self.at):
            frame.uses.add(name[1])

    def close_parameter(self) -> None:
        """Note the variables that subscripts, offsets, ${!x} and ${x@P} evaluate."""
        body = self.source[self.stack[-1].start : self.at]
        name = _INDIRECT.match(body)
        if name and (body[0] == "!" or body.endswith("@P")):
            self.evaluated.add(name[1])
        end = name.end() if name else 0
        if _SUBSCRIPT.match(body, end):
            self.evaluated.update(_NAME.findall(body, end))
        self.pop(1)

    def skip_escape(self) -> None:
        """Pass a backslash and the next character in bare text."""
        following = self.source[self.at + 1 : self.at + 2]
        if following == "":
            raise UnbalancedError
        if following == "\n":
            self.skip_continuation()
        elif following == VALUE:
            self.at += 2
            self.add_value("bare", "backslash")
        else:
            self.at += 2
            self.add(following, quoted=True)

    def skip_continuation(self) -> None:
        """Pass a backslash and a newline, unless they may hide a longer operator."""
        before = self.source[self.at - 1] if self.at else ""
        after = self.source[self.at + 2 : self.at + 3]
        if self.documents or (before in {*"<>&|;()"} and after in {*"<>&|;()-\\"}):
            raise UnclearError("continuation")
        self.at += 2

    # Frames that are not commands

    def step_double(self) -> None:
        source, at = self.source, self.at
        if run := _DOUBLE_RUN.match(source, at):
            self.refuse_newline(run[0])
            self.add(run[0], quoted=True)
            self.at = run.end()
            return
        char = source[at]
        if char == '"':
            self.draft()
            self.pop(1)
        elif char == "$":
            self.read_dollar(quoted=True)
        elif char == "`":
            self.read_backtick()
        elif char == VALUE:
            self.at += 1
            self.add_value("double")
        elif source[at + 1 : at + 2] == VALUE:
            self.at += 2
            self.add_value("double", "backslash")
        elif source[at + 1 : at + 2] == "\n":
            self.refuse_newline("\n")
            self.at += 2
        else:
            escaped = source[at + 1 : at + 2]
            self.add(escaped if escaped in {*'$`"\\'} else "\\" + escaped, quoted=True)
            self.at += 2

    def step_parameter(self) -> None:
        char = self.source[self.at]
        quoted = self.stack[-1].quoted
        if char == "}":
            self.close_parameter()
        elif char in "'\"" and quoted:
            raise UnclearError("quotes-in-parameter")
        elif char == "'":
            self.read_single()
        elif char == '"':
            self.push("double", 1)
        elif char == "\\":
            self.skip_escape()
        else:
            self.step_nested(char, quoted)

    def step_arithmetic(self) -> None:
        source, frame = self.source, self.stack[-1]
        if run := _ARITHMETIC_RUN.match(source, self.at):
            self.at = run.end()
            return
        char = source[self.at]
        if char == "(":
            frame.depth += 1
            self.at += 1
        elif char == ")" and frame.depth:
            frame.depth -= 1
            self.at += 1
        elif char == ")" and source.startswith("))", self.at):
            self.evaluated.update(_NAME.findall(source, frame.start, self.at))
            self.pop(2)
        elif (char == "#" and source[self.at - 1].isalnum()) or (
            char == "<" and source[self.at + 1 : self.at + 2] != "<"
        ):
            self.at += 1
        elif char in ")#<'\"\\":
            raise UnclearError("arithmetic")
        elif char == VALUE:
            self.at += 1
            self.add_value("arithmetic")
        else:
            self.step_nested(char, quoted=True)

    def step_pattern(self) -> None:
        char = self.source[self.at]
        if char == ")":
            self.pop(1)
        elif char == "(":
            self.push("pattern", 1, "pattern")
        elif char == "'":
            self.read_single()
        elif char == '"':
            self.push("double", 1)
        elif char == "\\":
            self.skip_escape()
        else:
            self.step_nested(char, quoted=False)

    def step_nested(self, char: str, quoted: bool) -> None:
        if char == "$":
            self.read_dollar(quoted)
        elif char == "`":
            self.read_backtick()
        elif char == VALUE:
            self.at += 1
            self.add_value("bare")
        else:
            if char == "\n":
                self.refuse_newline(char)
            self.add(char, quoted=True)
            self.at += 1

    # Here-documents

    def end_redirect(self, frame: OpenBracket, word: Word) -> None:
        operator, frame.operator = frame.operator, ""
        frame.redirects.append((operator, word))
        if operator in {"<<", "<<-"}:
            self.blame(word.values, "document")
            if word.values or UNKNOWN in word.text or not word.text:
                raise UnclearError("after-document")
            literal = QUOTED in word.bare
            self.documents.append(HereDocument(frame, word.text, literal, operator == "<<-"))

    def read_document(self, document: HereDocument) -> None:
        while self.at < len(self.source):
            end = self.source.find("\n", self.at)
            end = len(self.source) if end < 0 else end
            line = self.source[self.at : end]
            self.at = end + 1
            if (line.lstrip("\t") if document.tabs else line) == document.delimiter:
                return
            for _ in range(line.count(VALUE)):
                self.take("bare", "document")
            if not document.literal:
                self.document_uses.update(_NAME.findall(line))
                if "`" in line or "$(" in line or "${" in line or line.endswith("\\"):
                    # An expansion may run over the closing line in one shell and not in another.
                    raise UnclearError("after-document")
        raise UnbalancedError
