"""Find the words that a program hands on to a shell: `watch`, `tmux`, `npx -c`, `git -c`, …"""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchestrate.lang.shell.argv import (
    ALL_SHELLS,
    ASSIGNMENT,
    UNKNOWN,
    VALUE,
    basename,
    find_programs,
    unwrap,
    word_set,
)
from orchestrate.record import record
from orchestrate.regex import regex

# Variables that decide what is executed, how words are split, or that the shell evaluates.
STEERING = word_set(
    "PATH ENV BASH_ENV IFS PS0 PS1 PS2 PS3 PS4 PROMPT_COMMAND SHELLOPTS BASHOPTS LD_PRELOAD "
    "LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES ZDOTDIR FPATH path fpath"
)


@record
class Runner:
    """Which words of a program become a command line; all of them unless an option says so."""

    trouble: str = "handed"
    code: frozenset[str] = frozenset()  # options whose value is a command line
    values: frozenset[str] = frozenset()  # options with another value
    permutes: bool = False  # options may stand behind operands
    begins: str = ""  # a pattern of the option behind which everything is the command line
    verbs: bool = False  # the first operand chooses an entry of its own, as in `git rebase`

    @property
    def takes_all(self) -> bool:
        return not (self.code or self.begins or self.verbs)


@record
class HandedWord:
    """A word that becomes part of a command line, with the program and the trouble's code."""

    program: str
    index: int
    trouble: str


_WHOLE = Runner()
_REMOTE = Runner("remote")
_NPX = Runner(
    code=word_set("-c --call"),
    values=word_set("-p --package -w --workspace --cache --prefix --registry --loglevel"),
)
RUNNERS: dict[str, Runner] = {
    "ssh": _REMOTE,
    "autossh": _REMOTE,
    "mosh": _REMOTE,
    "su": _WHOLE,
    "runuser": _WHOLE,
    "watch": _WHOLE,
    "script": _WHOLE,
    "parallel": _WHOLE,
    "hyperfine": _WHOLE,
    # tmux runs #(…) in any argument that is a format, and a name is one.
    "tmux": _WHOLE,
    "screen": _WHOLE,
    "at": _WHOLE,
    "batch": _WHOLE,
    "xterm": Runner(begins=r"-e", permutes=True),
    "entr": Runner(begins=r"-\w*s\w*"),
    "npx": _NPX,
    "npm": Runner(verbs=True),
    "npm exec": _NPX,
    "npm x": _NPX,
    "git": Runner(
        "setting",
        word_set("-c --config-env --exec-path"),
        word_set("-C --git-dir --work-tree --namespace"),
        verbs=True,
    ),
    "git clone": Runner("setting", word_set("-c --config"), permutes=True),
    "git rebase": Runner(code=word_set("-x --exec"), permutes=True),
    "git submodule": Runner(begins="foreach", permutes=True),
}
# Names that an author may well give to a program in the workspace.
_COMMON_NAMES = word_set("watch script parallel screen at batch")
_READERS = word_set("source . su runuser at batch autossh mosh")
_PIECE = regex(r"[\w.+-]+")
_EXECUTING = ALL_SHELLS | word_set(". source eval su sudo doas ssh xargs parallel at batch")
_SSH_VALUES = "BbcDEeFIiJLlmOopQRSWw"


def find_handed(tokens: Sequence[str]) -> tuple[HandedWord, ...]:
    """List the words of a direct command that become code outside a script of ours."""
    found = unwrap(tokens)
    if found.split is not None:
        wrapper = found.wrappers[-1]
        return tuple(HandedWord(wrapper, i, "handed") for i in range(found.split, len(tokens)))
    end = len(tokens) if found.index is None else found.index
    steering = [
        HandedWord(found.wrappers[-1], index, "steering")
        for index in range(end if found.wrappers else 0)
        if (name := ASSIGNMENT.match(tokens[index])) and name[0].rstrip("+=") in STEERING
    ]
    handed = [word for start in find_programs(tokens) for word in handed_words(tokens, start)]
    return (*steering, *handed)


def handed_words(tokens: Sequence[str], start: int) -> list[HandedWord]:
    """List the words that the program at `start` hands to a shell."""
    program = tokens[start]
    name = basename(program)
    runner = RUNNERS.get(name)
    if name in _COMMON_NAMES and "/" in program and program[0] not in {"/", UNKNOWN}:
        runner = None
    words: list[HandedWord] = []
    index = start + 1
    while runner is not None:
        if runner.takes_all:
            found = list(range(index, len(tokens)))
        elif runner.begins:
            found = _find_behind(runner, tokens, index)
        else:
            found, index = _read_options(runner, tokens, index)
        words += [HandedWord(name, word, runner.trouble) for word in found if word < len(tokens)]
        verb = tokens[index] if runner.verbs and index < len(tokens) else ""
        runner = RUNNERS.get(f"{name} {verb}")
        index += 1
    return words


def _find_behind(runner: Runner, tokens: Sequence[str], start: int) -> list[int]:
    begins = re.compile(runner.begins)
    for index in range(start, len(tokens)):
        if begins.fullmatch(tokens[index]):
            return list(range(index + 1, len(tokens)))
        if tokens[index][:1] != "-" and not runner.permutes:
            break
    return []


def _read_options(runner: Runner, tokens: Sequence[str], index: int) -> tuple[list[int], int]:
    """Give the command lines among a program's options, and where its first operand stands."""
    found: list[int] = []
    while index < len(tokens):
        token = tokens[index]
        name, equals, _ = token.partition("=")
        if token == "--" or (token[:1] != "-" and not runner.permutes):
            break
        if token in runner.code:
            found.append(index + 1)
            index += 2
        elif (equals and name in runner.code) or _is_glued(runner, token):
            found.append(index)
            index += 1
        else:
            index += 2 if token in runner.values else 1
    return found, index


def _is_glued(runner: Runner, token: str) -> bool:
    # A value in place of the option's letter may be the option that takes a command line.
    return len(token) > 2 and token[:2] in {"-" + VALUE, *runner.code}


def executes_input(tokens: Sequence[str], start: int) -> bool:
    """Say whether the program at `start` runs what it reads from its standard input."""
    name, rest = basename(tokens[start]), tokens[start + 1 :]
    if name == "parallel":
        # Without a command of its own, each line is one.
        return not any(token[:1].isalpha() for token in rest)
    if name == "ssh":
        command = _remote_command(rest)
        return UNKNOWN in command or not _EXECUTING.isdisjoint(_PIECE.findall(command) or ["sh"])
    return name in _READERS


def _remote_command(rest: Sequence[str]) -> str:
    index = 0
    while index < len(rest) and rest[index][:1] == "-":
        index += 2 if rest[index][-1:] in _SSH_VALUES and len(rest[index]) == 2 else 1
    return " ".join(rest[index + 1 :])
