"""Judge each command of a scanned script: which of its words would evaluate a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from orchestrate.lang.shell.argv import (
    ALL_SHELLS,
    ASSIGNMENT,
    UNKNOWN,
    UnwrappedProgram,
    basename,
    find_commands,
    read_shell,
    unwrap,
    word_set,
)
from orchestrate.lang.shell.inline import find_inline_code
from orchestrate.lang.shell.runners import STEERING, executes_input, handed_words
from orchestrate.lang.shell.words import (
    PLAIN_SHELLS,
    Command,
    Scan,
    Word,
    holes_before,
    split_assignment,
)
from orchestrate.record import field, mutable_record, record
from orchestrate.regex import regex

_MOST_PROGRAMS = 20  # in one command; each costs a pass over its words
_PATTERN_MARKS = frozenset("*?[")
_NAME = regex(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)

_INTEGERS = word_set(
    "OPTIND RANDOM SRANDOM SECONDS HISTCMD LINENO EPOCHSECONDS BASHPID BASH_SUBSHELL UID EUID "
    "PPID COLUMNS LINES HISTSIZE TMOUT"
)
_EVALUATORS = {
    "eval": "eval",
    "source": "source",
    ".": "source",
    "trap": "trap",
    "alias": "alias",
    "let": "arithmetic",
    "integer": "name",
    "float": "name",
    "nameref": "name",
    "unset": "name",
    "mapfile": "name",
    "readarray": "name",
    "getopts": "name",
    "vared": "name",
    "emulate": "nested",
    "bind": "builtin",
    "complete": "builtin",
    "compgen": "builtin",
    "enable": "builtin",
    "fc": "builtin",
    "hash": "builtin",
    "autoload": "builtin",
    "functions": "builtin",
    "zle": "builtin",
}
# What these evaluate is a number or a name: what a program printed of a value is taken for one.
_NOT_RUN = frozenset({"arithmetic", "count", "format", "name", "operator"})
_DECLARERS = frozenset({"declare", "typeset", "local", "export", "readonly", "private"})
_COUNTS = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_TEST_WORDS = _COUNTS | word_set("= == != =~ < > -a -o -nt -ot -ef ! ( ) ] && ||")
_EVALUATING_SHELLS = frozenset({"zsh", "ksh", "mksh"})  # their builtins read numbers as arithmetic
_NUMBER_BUILTINS = frozenset({"exit", "return", "shift", "break", "continue", "kill"})


@record
class KeptValue:
    """What a variable of the script is given."""

    name: str
    holes: tuple[int, ...]
    uses: frozenset[str] = frozenset()
    printed: tuple[int, ...] = ()  # values of commands whose output it is


@mutable_record
class Verdict:
    """What the rules found so far, for the whole script."""

    shell: str
    troubles: list[tuple[int, str]] = field(default_factory=list)
    cautions: list[tuple[int, str]] = field(default_factory=list)
    evaluated: set[str] = field(default_factory=set)
    run: set[str] = field(default_factory=set)  # of those the ones that are commands
    arrays: set[str] = field(default_factory=set)
    kept: list[KeptValue] = field(default_factory=list)
    declared: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    reads_documents: bool = False
    aliased_from: int | None = None

    def blame(self, holes: Iterable[int], code: str) -> None:
        self.troubles.extend((hole, code) for hole in holes)

    def condemn(self, words: Iterable[Word], code: str) -> None:
        """Blame every value in the words, and note that their variables are evaluated."""
        for word in words:
            self.blame(word.values, code)
            self.evaluated |= word.uses
            self.run |= frozenset() if code in _NOT_RUN else word.uses
            if code in {"arithmetic", "name"}:
                # Arithmetic needs no dollar sign; of a name only its subscript is arithmetic.
                read = word.text if code == "arithmetic" else word.text.partition("[")[2]
                self.evaluated.update(_NAME.findall(read))


def judge(scan: Scan, shell: str) -> Verdict:
    """Apply the rules to every command and follow values through the script's variables."""
    verdict = Verdict(shell, evaluated=set(scan.evaluated), arrays=set(scan.arrays))
    verdict.evaluated |= _INTEGERS
    for command in scan.commands:
        if command.kind == "test":
            _judge_test(verdict, command)
        elif command.kind == "for":
            _judge_loop(verdict, command)
        else:
            _judge_simple(verdict, command)
    if verdict.reads_documents:
        verdict.evaluated |= scan.document_uses
    if verdict.aliased_from is not None:
        verdict.blame(range(verdict.aliased_from, len(scan.places)), "alias")
    for kept in _reached(verdict, verdict.evaluated):
        verdict.blame(kept.holes, "kept")
    for kept in _reached(verdict, verdict.run):
        verdict.blame(kept.printed, "kept")
    for kept in _reached(verdict, scan.unread):
        verdict.blame(kept.holes, "unread")
    for name, holes in verdict.declared:
        # `declare a="(…)"` reads the text as an array literal when a is an array.
        if name in verdict.arrays:
            verdict.blame(holes, "kept")
    return verdict


def _reached(verdict: Verdict, names: Iterable[str]) -> list[KeptValue]:
    """What is kept in these variables, also by way of others."""
    feeds: dict[str, set[str]] = {}
    for kept in verdict.kept:
        feeds.setdefault(kept.name, set()).update(kept.uses)
    reached, pending = set(names), list(names)
    while pending:
        for source in feeds.pop(pending.pop(), ()):
            if source not in reached:
                reached.add(source)
                pending.append(source)
    return [kept for kept in verdict.kept if kept.name in reached]


def _judge_loop(verdict: Verdict, command: Command) -> None:
    for word in command.words:
        verdict.kept.append(KeptValue(command.name, word.holes, word.uses, word.inner))


def _judge_test(verdict: Verdict, command: Command) -> None:
    words = command.words
    if verdict.shell in PLAIN_SHELLS:
        # There [[ is a program, and a word after && or || would be one too.
        verdict.condemn(words, "brackets")
    for index, word in enumerate(words):
        before = words[index - 1].text if index else ""
        after = words[index + 1].text if index + 1 < len(words) else ""
        if before in _COUNTS or after in _COUNTS:
            verdict.condemn([word], "count")
            verdict.evaluated.update(_NAME.findall(word.text))
        elif before in {"-v", "-R", "-t"}:
            verdict.condemn([word], "name")
            verdict.evaluated.update(_NAME.findall(word.text.partition("[")[2]))


def _assign(verdict: Verdict, word: Word, value_at: int, name: str) -> None:
    """Judge NAME=value or NAME[subscript]=value."""
    left = word.text[:value_at]
    verdict.blame(holes_before(word, value_at), "subscript")
    if "[" in left:
        verdict.evaluated.update(_NAME.findall(left, len(name)))
        if UNKNOWN in left:
            verdict.evaluated |= word.uses
    if verdict.shell in PLAIN_SHELLS and ("[" in left or "+" in left):
        verdict.blame(word.values, "program")
    if name in STEERING:
        verdict.blame(word.values, "steering")
    # Where the variable is arithmetic, so are the plain names in its value.
    uses = word.uses.union(_NAME.findall(word.text, value_at))
    verdict.kept.append(KeptValue(name, word.holes + word.elements, uses, word.inner))


def _judge_simple(verdict: Verdict, command: Command) -> None:
    words, start = command.words, 0
    while start < len(words):
        assigned = split_assignment(words[start].bare)
        if assigned is None:
            break
        _assign(verdict, words[start], assigned[1], assigned[0])
        start += 1
    texts = [word.text for word in words]
    pending, judged = ([start] if start < len(words) else []), 0
    while pending:
        pending.extend(_judge_program(verdict, command, texts, pending.pop()))
        judged += 1
        if judged > _MOST_PROGRAMS:
            verdict.condemn(words, "option")
            break
    for code in find_inline_code(texts[start:]):
        word = words[start + code.index]
        verdict.cautions.extend((hole, code.interpreter) for hole in word.holes + word.inner)


def _judge_program(
    verdict: Verdict, command: Command, texts: Sequence[str], start: int
) -> list[int]:
    """Judge one program with its words; give the starts of programs that it runs in turn."""
    words = command.words
    found = unwrap(texts, start)
    if not found.certain:
        verdict.condemn(words[start:], "option")
        return []
    if found.split is not None:
        verdict.condemn(words[found.split :], "handed")
    end = len(words) if found.index is None else found.index
    for word in words[start:end]:
        assigned = ASSIGNMENT.match(word.text)
        if assigned and assigned[0].rstrip("+=") in STEERING:
            verdict.blame(word.values, "steering")
    if any(word.may_vanish or _expands(word) for word in words[start:end]):
        verdict.condemn(words[start:], "option")
        return []
    if found.index is None:
        return []
    program = words[found.index]
    verdict.condemn([program], "program")
    if _expands(program):
        verdict.condemn(words[start:], "program")
    _judge_arguments(verdict, command, texts, found)
    if basename(program.text) == "find":
        return _judge_find(verdict, words, texts, found.index)
    if program.may_vanish and found.index + 1 < len(words):
        return [found.index + 1]
    return []


def _judge_arguments(
    verdict: Verdict, command: Command, texts: Sequence[str], found: UnwrappedProgram
) -> None:
    start = found.index or 0
    name, rest = basename(texts[start]), command.words[start + 1 :]
    if name in ALL_SHELLS:
        _judge_shell(verdict, command, texts, start, "xargs" in found.wrappers)
        return
    for handed in handed_words(texts, start):
        verdict.condemn([command.words[handed.index]], handed.trouble)
    if executes_input(texts, start):
        _feed(verdict, command, "fed")
    _judge_unknown(verdict, command.words, texts, start)
    if name in _EVALUATORS:
        verdict.condemn(rest, _EVALUATORS[name])
        if name == "alias" and verdict.aliased_from is None:
            verdict.aliased_from = command.piped.stop
    elif name in _RULES:
        _RULES[name](verdict, command, rest)
    elif name in _DECLARERS:
        _judge_declaration(verdict, rest)
    elif verdict.shell in _EVALUATING_SHELLS and name in _NUMBER_BUILTINS:
        verdict.condemn(rest, "count")


def _expands(word: Word) -> bool:
    """Say whether a word may become another, or none, through braces or a file name pattern."""
    braces = "{" in word.bare and ("," in word.bare or ".." in word.bare)
    return braces or (word.bare != "[" and not _PATTERN_MARKS.isdisjoint(word.bare))


def _judge_shell(
    verdict: Verdict, command: Command, texts: Sequence[str], start: int, fed: bool
) -> None:
    """Judge a shell inside the script: its options, its script, and its standard input."""
    words = command.words
    read = read_shell(texts, start)
    if basename(texts[start]) == "cmd" and read.code is None:
        return  # a likely name for a program of the author's own
    if read.chosen_by_value is not None or read.operand is None:
        verdict.condemn(words[start + 1 :], "nested")
    else:
        verdict.condemn(words[start + 1 : read.operand + 1], "nested")
        if any(word.may_vanish for word in words[start + 1 : read.operand + 1]):
            verdict.condemn(words[start + 1 :], "nested")
    # -s lets a shell read its commands from standard input in spite of operands.
    options = texts[start + 1 : read.operand]
    stdin = any(text[:1] == "-" and text[:2] != "--" and "s" in text for text in options)
    if fed or read.operand is None or (read.code is None and stdin):
        _feed(verdict, command)


def _feed(verdict: Verdict, command: Command, code: str = "piped") -> None:
    """Blame what reaches the standard input of a program that executes it."""
    verdict.blame(command.piped, code)
    verdict.reads_documents = True
    verdict.condemn((word for op, word in command.redirects if op[0] == "<"), code)


def _judge_find(
    verdict: Verdict, words: Sequence[Word], texts: Sequence[str], start: int
) -> list[int]:
    inner = list(find_commands(texts, start + 1))
    if inner and any("{}" in text and text != "{}" for text in texts[start + 1 :]):
        # find puts file names, which may begin with the value, into the script text.
        verdict.condemn(words[start + 1 :], "nested")
    return inner


def _judge_unknown(
    verdict: Verdict, words: Sequence[Word], texts: Sequence[str], start: int
) -> None:
    """Look for `… sh -c script` behind a program that is not known to run others."""
    if UNKNOWN in texts[start]:
        options = [i for i in range(start + 1, len(texts)) if re.fullmatch(r"-\w*c", texts[i])]
        if options:
            verdict.condemn(words[options[0] :], "nested")
    for index in range(start + 1, len(texts)):
        if basename(texts[index]) in ALL_SHELLS:
            read = read_shell(texts, index)
            if read.code is not None:
                verdict.condemn(words[index + 1 : read.code + 1], "nested")


def _judge_declaration(verdict: Verdict, rest: Sequence[Word]) -> None:
    flags = ""
    for word in rest:
        if word.text[:1] in {"-", "+"} and not word.values:
            flags += word.text[1:]
            continue
        assigned = split_assignment(word.text)
        if assigned is None or assigned[1] < 0:
            verdict.condemn([word] if word.values else [], "name")
            name = _NAME.match(word.text)
            if name is None:
                continue
            assigned = (name[0], len(word.text))
        else:
            _assign(verdict, word, assigned[1], assigned[0])
            verdict.declared.append((assigned[0], word.holes))
        if set("inEF") & set(flags):
            verdict.evaluated.add(assigned[0])
        if set("aA") & set(flags):
            verdict.arrays.add(assigned[0])


def _judge_read(verdict: Verdict, command: Command, rest: Sequence[Word]) -> None:
    holes = tuple(command.piped)
    for operator, word in command.redirects:
        holes += word.holes if operator == "<<<" else ()
    value_follows = False
    for word in rest:
        if value_follows:
            value_follows = False
        elif word.values:
            verdict.condemn([word], "name")
        elif word.text[:1] == "-":
            value_follows = word.text[-1] in "pdtnNui" and len(word.text) > 1
        else:
            name, _, subscript = word.text.partition("[")
            verdict.evaluated.update(_NAME.findall(subscript))
            verdict.kept.append(KeptValue(name, holes))


def _judge_bracket(verdict: Verdict, _: Command, rest: Sequence[Word]) -> None:
    """Judge test and [: -v evaluates, and a value must not be taken for an operator."""
    for index, word in enumerate(rest):
        before = rest[index - 1].text if index else "("
        after = rest[index + 1].text if index + 1 < len(rest) else "]"
        if before in {"-v", "-R"}:
            verdict.condemn([word], "name")
        elif verdict.shell in _EVALUATING_SHELLS and (before in _COUNTS or after in _COUNTS):
            verdict.condemn([word], "count")
        elif word.values:
            operand = before in _TEST_WORDS or re.fullmatch(r"-[A-Za-z]", before)
            if not operand or after not in _TEST_WORDS:
                verdict.condemn([word], "operator")


def _judge_printf(verdict: Verdict, _: Command, rest: Sequence[Word]) -> None:
    rest = [word for word in rest if not word.may_vanish]
    if rest and rest[0].text[:2] == "-v":
        target = rest[:1] if len(rest[0].text) > 2 else rest[1:2]
        verdict.condemn(target, "name")
        holes = tuple(hole for word in rest[2:] for hole in word.values)
        if target:
            name = target[-1].text.removeprefix("-v").partition("[")[0]
            verdict.kept.append(KeptValue(name, holes))
        rest = rest[len(target) + (len(rest[0].text) == 2) :]
    elif rest and rest[0].text == "--":
        rest = rest[1:]
    if rest and rest[0].values and any(word.values for word in rest[1:]):
        # The format would decide what becomes of the other value, %n and -v included.
        verdict.condemn(rest[:1], "format")
    if verdict.shell in _EVALUATING_SHELLS and re.search(r"%[^%sbq]", rest[0].text if rest else ""):
        verdict.condemn(rest, "count")


def _judge_set(verdict: Verdict, _: Command, rest: Sequence[Word]) -> None:
    for word in rest:
        if word.text in {"--", "-"}:
            return
        verdict.condemn([word], "option")


def _judge_wait(verdict: Verdict, _: Command, rest: Sequence[Word]) -> None:
    verdict.condemn([b for a, b in pairwise(rest) if a.text == "-p"], "name")


_Rule = Callable[[Verdict, Command, Sequence[Word]], None]
_RULES: dict[str, _Rule] = {
    "read": _judge_read,
    "test": _judge_bracket,
    "[": _judge_bracket,
    "printf": _judge_printf,
    "set": _judge_set,
    "wait": _judge_wait,
}
