"""Read a shell script once, left to right, and say in which place each value stands.

The scanner knows just enough of the shell's grammar to tell quoting and command words apart.
Where shells disagree, or where it loses the thread, it stops: every value from the open command
onwards is then in trouble, which is the safe answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchestrate.lang.shell.argv import VALUE
from orchestrate.lang.shell.quotes import QuoteScanner
from orchestrate.lang.shell.words import (
    PLAIN_SHELLS,
    RESERVED,
    Command,
    OpenBracket,
    Scan,
    UnbalancedError,
    UnclearError,
    Word,
    close_bracket,
    holes_before,
    split_assignment,
)
from orchestrate.regex import regex

_NAME = regex(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_FD_NAME = regex(r"[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*(\[.*\])?\}", re.ASCII | re.DOTALL)
_BARE_RUN = regex(r"[^\\'\"$`\0 \t\n#;&|<>()]+")
_REDIRECT = regex(r"<<<|<<-|<<|<&|<>|<|>>|>&|>\||>")
_EMPTY_PARENS = regex(r"\([ \t]*\)")

_OPENERS = frozenset({"if", "then", "else", "elif", "while", "until", "do", "{", "!"})
_CLOSERS = frozenset({"fi", "done", "}", "esac"})
_COMPOUND = {
    "case": "case-word",
    "for": "for-name",
    "select": "for-name",
    "function": "function",
    "[[": "test",
}
_KEYWORDS = _OPENERS | _CLOSERS | _COMPOUND.keys() | {"time", "coproc"}
_ZSH_LOOPS = frozenset({"repeat", "foreach"})
_LONGEST_LEFT = 64  # pieces of a word before `=(`; more would cost a join for each bracket
_SKIPS_NEWLINES = frozenset({"test", "case-word", "case-in", "case-pattern", "for-in"})


class ScriptScanner(QuoteScanner):
    """The upper half: words become commands."""

    def run(self) -> None:
        while self.at < len(self.source):
            match self.stack[-1].kind:
                case "double":
                    self.step_double()
                case "parameter":
                    self.step_parameter()
                case "arithmetic":
                    self.step_arithmetic()
                case "pattern":
                    self.step_pattern()
                case _:
                    self.step_code()
        if len(self.stack) > 1:
            raise UnbalancedError
        self.end_command(newline=True)
        if self.documents:
            raise UnbalancedError
        if self.stack[0].mode != "simple":
            raise UnclearError("syntax")

    def step_code(self) -> None:
        if run := _BARE_RUN.match(self.source, self.at):
            self.add(run[0], quoted=False)
            self.at = run.end()
            return
        match self.source[self.at]:
            case " " | "\t":
                self.end_word()
                self.at += 1
            case "\n":
                self.end_line()
            case "'":
                self.read_single()
            case '"':
                self.push("double", 1)
            case "$":
                self.read_dollar(quoted=False)
            case "`":
                self.read_backtick()
            case "\\":
                self.skip_escape()
            case "\0":
                self.at += 1
                self.add_value("bare")
            case "#":
                self.read_hash()
            case "(":
                self.open_paren()
            case ")":
                self.close_paren()
            case "<" | ">":
                self.read_redirect()
            case operator:
                if self.stack[-1].kind == "array":
                    raise UnclearError("syntax")
                self.read_operator(operator)

    def read_hash(self) -> None:
        if self.stack[-1].draft is not None:
            self.add("#", quoted=False)
            self.at += 1
            return
        if self.stack[-1].mode == "test":
            raise UnclearError("syntax")
        end = self.source.find("\n", self.at)
        end = len(self.source) if end < 0 else end
        for _ in range(self.source.count(VALUE, self.at, end)):
            self.take("comment")
        self.at = end

    # Words

    def end_word(self) -> None:
        frame = self.stack[-1]
        if frame.draft is None:
            return
        word = frame.draft.finish()
        frame.draft = None
        frame.uses |= word.uses
        if frame.operator:
            self.end_redirect(frame, word)
        elif frame.kind == "array":
            self.end_element(word)
        else:
            self.place_word(frame, word)

    def place_word(self, frame: OpenBracket, word: Word) -> None:
        match frame.mode:
            case "simple":
                self.end_simple_word(frame, word)
            case "test":
                frame.words.append(word)
                if word.bare == "]]":
                    self.emit(frame, "test")
                    frame.words, frame.mode, frame.closed = [], "simple", True
            case "case-word":
                frame.mode = "case-in"
            case "case-in":
                if word.bare != "in":
                    raise UnclearError("syntax")
                frame.mode, frame.pattern_open = "case-pattern", False
                frame.cases += 1
            case "case-pattern":
                if word.bare == "esac" and not frame.pattern_open:
                    self.read_keyword(frame, word)
                frame.pattern_open = True
            case "for-name":
                self.blame(word.values, "name")
                frame.loop, frame.mode = word.text, "for-in"
            case "for-in":
                if word.bare not in {"in", "do"}:
                    raise UnclearError("syntax")
                frame.mode = "for-words" if word.bare == "in" else "simple"
            case "for-words":
                frame.words.append(word)
            case _:
                self.blame(word.values, "function")
                frame.mode = "simple"

    def end_simple_word(self, frame: OpenBracket, word: Word) -> None:
        keyword = word.bare in _KEYWORDS
        if frame.timed and word.text[:1] == "-":
            if word.bare not in {"-p", "--"}:
                raise UnclearError("syntax")
            return
        frame.timed = False
        if not frame.words and not frame.redirects and keyword:
            self.read_keyword(frame, word)
            return
        leading = frame.leading
        if frame.closed or (keyword and leading):
            raise UnclearError("syntax")
        if self.shell == "zsh" and (word.bare == "{" or (leading and word.bare in _ZSH_LOOPS)):
            raise UnclearError("syntax")
        assigned = split_assignment(word.bare)
        if assigned is not None and assigned[1] < 0:
            raise UnclearError("subscript")
        frame.leading = leading and assigned is not None
        frame.words.append(word)

    def read_keyword(self, frame: OpenBracket, word: Word) -> None:
        frame.closed = False
        if word.text in _COMPOUND:
            frame.mode = _COMPOUND[word.text]
            frame.words = [word] if word.text == "[[" else []
        elif word.text in _CLOSERS:
            if word.text == "esac":
                if not frame.cases:
                    raise UnclearError("syntax")
                frame.cases -= 1
            frame.mode, frame.closed = "simple", True
            # The whole compound feeds a pipe that follows; where it began is not kept.
            frame.piped_from = frame.first
        elif word.text == "coproc":
            raise UnclearError("syntax")
        elif word.text == "time":
            frame.timed = True

    def end_element(self, word: Word) -> None:
        """Check one element of an array literal, where [subscript]= is arithmetic."""
        if word.bare[:1] != "[":
            return
        end = close_bracket(word.bare, 0)
        if end < 0:
            raise UnclearError("subscript")
        if word.bare[end : end + 1] in {"=", "+"}:
            self.blame(holes_before(word, end), "subscript")
            self.evaluated.update(_NAME.findall(word.text, 0, end), word.uses)

    # Commands

    def emit(self, frame: OpenBracket, kind: str) -> None:
        piped = range(frame.piped_from, frame.command_from)
        words, redirects = tuple(frame.words), tuple(frame.redirects)
        self.commands.append(Command(kind, words, redirects, piped, frame.loop))

    def end_command(self, newline: bool = False, piped: bool = False) -> None:
        self.end_word()
        frame = self.stack[-1]
        if frame.operator:
            raise UnclearError("syntax")
        if newline and frame.mode in _SKIPS_NEWLINES:
            return
        if frame.mode == "for-words":
            self.emit(frame, "for")
        elif frame.mode == "simple":
            if frame.words or frame.redirects:
                self.emit(frame, "simple")
            elif piped and not frame.closed:
                raise UnclearError("syntax")
        elif frame.mode != "for-in":
            raise UnclearError("syntax")
        frame.mode, frame.words, frame.redirects = "simple", [], []
        frame.closed = frame.timed = False
        frame.leading = True
        frame.command_from = len(self.places)
        if not piped:
            frame.piped_from = frame.command_from
        if frame is self.stack[0]:
            self.followed_to = self.at

    def end_line(self) -> None:
        frame = self.stack[-1]
        if frame.kind == "array":
            self.end_word()
            self.refuse_newline("\n")
            self.at += 1
            return
        self.end_command(newline=True)
        self.at += 1
        documents, self.documents = self.documents, []
        for document in documents:
            if document.frame is not frame:
                raise UnclearError("after-document")
            self.read_document(document)

    def read_operator(self, char: str) -> None:
        self.end_test()
        frame, source, at = self.stack[-1], self.source, self.at
        double = source.startswith(char * 2, at)
        if frame.mode == "test":
            self.read_test_operator(char, double)
        elif char == "|" and frame.mode == "case-pattern":
            self.end_word()
            frame.pattern_open = True
            self.at += 1
        elif char == "&" and source.startswith("&>", at) and self.shell not in PLAIN_SHELLS:
            self.end_word()
            self.start_redirect("&>")
            self.at += 3 if source.startswith("&>>", at) else 2
        elif char == ";" and (double or (frame.cases and source.startswith(";&", at))):
            self.end_command()
            if not frame.cases:
                raise UnclearError("syntax")
            frame.mode, frame.pattern_open = "case-pattern", False
            self.at += 3 if source.startswith(";;&", at) else 2
        else:
            self.end_command(piped=char == "|" and not double)
            self.at += 2 if double or source.startswith("|&", at) else 1

    def end_test(self) -> None:
        """End [[ … ]] where an operator follows its last bracket without a blank."""
        frame = self.stack[-1]
        if frame.mode == "test" and frame.draft and frame.draft.bare == ["]]"]:
            self.end_word()

    def read_test_operator(self, char: str, double: bool) -> None:
        if char == "|" and not double:
            self.add("|", quoted=False)  # only a regular expression has it
            self.at += 1
        elif char == ";" or not double:
            raise UnclearError("syntax")
        else:
            self.end_word()
            self.stack[-1].words.append(Word(char * 2, char * 2))
            self.at += 2

    # Brackets

    def open_paren(self) -> None:
        frame = self.stack[-1]
        empty = _EMPTY_PARENS.match(self.source, self.at)
        fresh = not frame.words and not frame.redirects and not frame.operator
        if frame.kind == "array" and frame.draft is None:
            raise UnclearError("syntax")
        if empty and frame.mode in {"simple", "function"} and frame.kind == "commands":
            if frame.draft is not None and fresh:
                self.blame(frame.draft.finish().values, "function")
                frame.draft, frame.mode = None, "simple"
                self.at = empty.end()
                return
            if frame.draft is None and len(frame.words) == 1:
                self.blame(frame.words[0].values, "function")
                frame.words, frame.leading = [], True
                self.at = empty.end()
                return
        if frame.draft is not None:
            self.open_in_word(frame)
        elif frame.mode == "case-pattern" and not frame.pattern_open:
            frame.pattern_open = True
            self.at += 1
        elif frame.mode == "test":
            frame.words.append(Word("(", "("))
            self.at += 1
        elif self.source.startswith("((", self.at) and (
            frame.mode == "for-name" or (frame.mode == "simple" and fresh)
        ):
            frame.mode = "simple"
            self.push("arithmetic", 2, "arithmetic").statement = True
        elif frame.mode == "simple" and fresh and not frame.closed:
            self.push("commands", 1).statement = True
        else:
            raise UnclearError("syntax")

    def open_in_word(self, frame: OpenBracket) -> None:
        pieces = frame.draft.bare if frame.draft else []
        bare = "".join(pieces[:_LONGEST_LEFT])
        assigned = split_assignment(bare)
        if assigned is not None and assigned[1] == len(bare) and len(pieces) < _LONGEST_LEFT:
            self.arrays.add(assigned[0])
            self.push("array", 1)
        else:
            self.push("pattern", 1, "pattern")

    def close_paren(self) -> None:
        frame = self.stack[-1]
        self.end_word()
        if frame.kind == "array":
            self.pop(1)
        elif frame.mode == "case-pattern":
            frame.mode = "simple"
            frame.command_from = frame.piped_from = len(self.places)
            self.at += 1
        elif frame.mode == "test":
            frame.words.append(Word(")", ")"))
            self.at += 1
        elif len(self.stack) == 1 or frame.cases:
            raise UnclearError("syntax")
        else:
            self.end_command()
            if any(document.frame is frame for document in self.documents):
                raise UnclearError("after-document")
            self.pop(1)

    # Redirections

    def read_redirect(self) -> None:
        frame, source, at = self.stack[-1], self.source, self.at
        if source.startswith(("<(", ">("), at):
            self.push("commands", 2)
            return
        if frame.kind == "array":
            raise UnclearError("syntax")
        self.end_test()
        if frame.mode == "test":
            self.end_word()
            frame.words.append(Word(source[at], source[at]))
            self.at += 1
            return
        if frame.draft is not None and not frame.operator:
            word = frame.draft.finish()
            named = _FD_NAME.fullmatch(word.bare)
            if named and (word.bare.isdigit() or self.shell not in PLAIN_SHELLS):
                self.blame(word.values, "subscript")
                frame.draft = None
        self.end_word()
        match = _REDIRECT.match(source, at)
        operator = match[0] if match else source[at]
        self.start_redirect(operator)
        self.at += len(operator)

    def start_redirect(self, operator: str) -> None:
        frame = self.stack[-1]
        if frame.operator or frame.mode != "simple":
            raise UnclearError("syntax")
        frame.operator = operator


def scan(literals: Sequence[str], shell: str) -> Scan:
    """Find the place of each value that stands between the literals."""
    source = VALUE.join(literals)
    total = len(literals) - 1
    scanner = ScriptScanner(source, shell)
    balanced = True
    unread: set[str] = set()
    if RESERVED.intersection("".join(literals)):
        scanner.blame(range(total), "control")
    else:
        try:
            scanner.run()
        except UnclearError as unclear:
            scanner.blame(range(scanner.stack[0].piped_from, total), str(unclear))
            # What is not followed may evaluate any variable, also one that holds an earlier value.
            unread.update(_NAME.findall(source, scanner.followed_to))
        except UnbalancedError:
            balanced = False
    places = scanner.places + ["bare"] * (total - len(scanner.places))
    return Scan(
        tuple(places),
        tuple(scanner.troubles),
        tuple(scanner.commands),
        frozenset(scanner.evaluated),
        frozenset(scanner.arrays),
        frozenset(scanner.document_uses),
        frozenset(unread),
        balanced,
    )
