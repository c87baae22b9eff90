"""Find the program, the shell script and the inline code among the words of one command.

The same functions serve an argv from a workflow and the words of a simple command inside a
script.  A token is its text; `VALUE` stands in it for a value, `UNKNOWN` for an expansion of the
author's own, and `None` for a token of which nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from orchestrate.record import record
from orchestrate.regex import regex

VALUE = "\0"
UNKNOWN = "\1"


def word_set(text: str) -> frozenset[str]:
    """Split a line of names, which reads better than a long set of quoted strings."""
    return frozenset(text.split())


POSIX_SHELLS: frozenset[str] = frozenset({"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"})
# Shells with other quoting rules: found, so that values in their scripts can be refused.
FOREIGN_SHELLS: frozenset[str] = word_set(
    "fish csh tcsh pwsh powershell cmd rbash yash posh ksh88 ksh93 pdksh oksh lksh xonsh elvish"
)
ALL_SHELLS = POSIX_SHELLS | FOREIGN_SHELLS

ASSIGNMENT = regex(r"[A-Za-z_][A-Za-z0-9_]*\+?=", re.ASCII)


@record
class ScriptPlace:
    """Where a command's shell script stands, and whether the environment reaches that shell."""

    shell: str
    index: int
    passes_environment: bool


@record
class InlineCode:
    """A token that is program text for an interpreter other than a shell."""

    interpreter: str
    index: int


@record
class Wrapper:
    """The options of a program that runs another program; long options with `=` take a value."""

    flags: str = ""
    values: str = ""
    long: str = ""
    operands: int = 0
    assignments: bool = False
    passes: bool = True
    queries: str = ""  # options that make it report instead of run
    clears: str = ""  # options that empty the environment
    splits: str = ""  # options whose value is itself a command line
    numeric: bool = False  # takes -5 for an option
    line: str = ""  # words that, in the program's place, announce a command line


@record
class UnwrappedProgram:
    """What unwrapping found: the program's index, or why there is none."""

    index: int | None
    passes: bool
    certain: bool = True  # False: an option was not understood, so any word may be the program
    split: int | None = None  # a token that env -S takes apart, or flock -c hands to a shell
    wrappers: tuple[str, ...] = ()


@record
class ShellWords:
    """How a shell reads its own arguments."""

    code: int | None  # the script after -c
    operand: int | None  # the first word that is not an option (equal to code with -c)
    chosen_by_value: int | None  # a value that stands where an option may stand


_PLAIN = Wrapper()
_SUDO_LONG = (
    "askpass background bell close-from= chdir= group= host= non-interactive preserve-env "
    "prompt= chroot= reset-timestamp stdin set-home user= preserve-groups other-user="
)
WRAPPERS: dict[str, Wrapper] = {
    "env": Wrapper(
        "0v",
        "uC",
        "null debug unset= chdir= block-signal default-signal ignore-signal list-signal-handling",
        assignments=True,
        clears="i",
        splits="S",
    ),
    "timeout": Wrapper(
        "vfp", "ks", "foreground preserve-status verbose kill-after= signal=", operands=1
    ),
    "nice": Wrapper("", "n", "adjustment=", numeric=True),
    "nohup": _PLAIN,
    "setsid": Wrapper("cfw", "", "ctty fork wait"),
    "stdbuf": Wrapper("", "ioe", "input= output= error="),
    "time": Wrapper("apqvV", "fo", "append portability quiet verbose format= output="),
    "command": Wrapper("p", queries="vV"),
    "builtin": _PLAIN,
    "exec": Wrapper("l", "a", clears="c"),
    "noglob": _PLAIN,
    "nocorrect": _PLAIN,
    "ionice": Wrapper("t", "cn", "class= classdata= ignore", queries="pPu"),
    "chrt": Wrapper(
        "abdfimorRv",
        "TPD",
        "all-tasks batch deadline fifo idle other rr reset-on-fork verbose "
        "sched-runtime= sched-period= sched-deadline=",
        operands=1,
        queries="pm",
    ),
    "taskset": Wrapper("ac", "", "all-tasks cpu-list", operands=1, queries="p"),
    "xvfb-run": Wrapper(
        "adl",
        "efnpsw",
        "auto-servernum auto-display listen-tcp error-file= auth-file= server-num= "
        "xauth-protocol= server-args= wait=",
    ),
    "busybox": _PLAIN,
    "toybox": _PLAIN,
    "caffeinate": Wrapper("dimsu", "tw"),
    "chronic": Wrapper("ev"),
    "unbuffer": Wrapper("p"),
    "tini": Wrapper("svwg", "pe"),
    "dumb-init": Wrapper("cv", "r", "single-child verbose rewrite="),
    "chroot": Wrapper("", "", "groups= userspec= skip-chdir", operands=1),
    "flock": Wrapper(
        "seoxnuF",
        "wE",
        "shared exclusive nonblock unlock close no-fork verbose timeout= wait= conflict-exit-code=",
        operands=1,
        line="-c --command",
    ),
    "xargs": Wrapper(
        "0oprtxil",
        "adEILnPs",
        "null open-tty interactive no-run-if-empty verbose exit replace eof max-lines "
        "arg-file= delimiter= max-args= max-procs= max-chars= process-slot-var=",
    ),
    "sudo": Wrapper("AbBEHnPSk", "CDghpRrtTUu", _SUDO_LONG, assignments=True, passes=False),
    "sshpass": Wrapper("eVv", "fdpP"),
    "doas": Wrapper("nL", "Cu", passes=False),
}
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


@lru_cache(maxsize=1024)
def basename(token: str) -> str:
    """Give the last part of a program's path, without `.exe`, as if expansions were empty."""
    name = token.replace(UNKNOWN, "").replace("\\", "/").rpartition("/")[2]
    return name[:-4] if name.lower().endswith(".exe") else name


def has_value(token: str) -> bool:
    """Say whether a value stands in the token."""
    return VALUE in token


def _long_options(wrapper: Wrapper) -> tuple[frozenset[str], frozenset[str]]:
    names = wrapper.long.split()
    return (
        frozenset(name for name in names if not name.endswith("=")),
        frozenset(name[:-1] for name in names if name.endswith("=")),
    )


@record
class _Option:
    """The effect of one option word of a wrapper."""

    skip: int = 1
    known: bool = True
    clears: bool = False
    query: bool = False
    split: int | None = None


_STRANGE = _Option(known=False)


def _read_long(wrapper: Wrapper, token: str, index: int) -> _Option:
    name, equals, _ = token[2:].partition("=")
    flags, values = _long_options(wrapper)
    if wrapper.splits and name == "split-string":
        return _Option(split=index if equals else index + 1)
    if wrapper.clears and name == "ignore-environment":
        return _Option(clears=True)
    if name in flags:
        return _Option()
    if name in values:
        return _Option(skip=1 if equals else 2)
    return _STRANGE


def _read_short(wrapper: Wrapper, token: str, index: int) -> _Option:
    if wrapper.numeric and token[1:].lstrip("-").isdigit():
        return _Option()
    clears = query = False
    for position, letter in enumerate(token[1:], start=2):
        glued = position < len(token)
        if letter in wrapper.splits:
            return _Option(split=index if glued else index + 1)
        if letter in wrapper.values:
            return _Option(skip=1 if glued else 2, clears=clears, query=query)
        if letter in wrapper.clears:
            clears = True
        elif letter in wrapper.queries:
            query = True
        elif letter not in wrapper.flags:
            return _STRANGE
    return _Option(clears=clears, query=query)


def _leave(wrapper: Wrapper, tokens: Sequence[str], index: int) -> UnwrappedProgram:
    """Skip one wrapper's options and operands, up to the program that it runs."""
    operands, options, passes = wrapper.operands, True, wrapper.passes
    while index < len(tokens):
        token = tokens[index]
        if options and token == "--":
            options = False
            index += 1
        elif options and token == "-" and wrapper.clears and wrapper.assignments:
            passes = False
            index += 1
        elif options and len(token) > 1 and token[0] == "-":
            read = _read_long if token.startswith("--") else _read_short
            option = read(wrapper, token, index)
            if not option.known:
                # A value in an option's name may be the program itself.
                named = index if has_value(token) else None
                return UnwrappedProgram(named, passes, certain=False)
            if option.split is not None:
                return UnwrappedProgram(None, passes, split=option.split)
            if option.query:
                return UnwrappedProgram(None, passes)
            passes = passes and not option.clears
            index += option.skip
        elif wrapper.assignments and ASSIGNMENT.match(token):
            options = False
            index += 1
        elif operands:
            operands -= 1
            options = False
            index += 1
        elif token in wrapper.line.split():
            return UnwrappedProgram(None, passes, split=index + 1)
        else:
            return UnwrappedProgram(index, passes)
    return UnwrappedProgram(None, passes)


def unwrap(tokens: Sequence[str], start: int = 0) -> UnwrappedProgram:
    """Find the program that a command runs in the end, behind any known wrappers."""
    names: list[str] = []
    passes, index = True, start
    while index < len(tokens):
        name = basename(tokens[index])
        wrapper = WRAPPERS.get(name)
        if wrapper is None or has_value(tokens[index]):
            return UnwrappedProgram(index, passes, wrappers=tuple(names))
        names.append(name)
        inner = _leave(wrapper, tokens, index + 1)
        passes = passes and inner.passes
        if inner.index is None or not inner.certain:
            return UnwrappedProgram(inner.index, passes, inner.certain, inner.split, tuple(names))
        index = inner.index
    return UnwrappedProgram(None, passes, wrappers=tuple(names))


def find_commands(tokens: Sequence[str], start: int) -> Iterator[int]:
    """Give the index of each program that a `find` starts."""
    for index in range(start, len(tokens) - 1):
        if tokens[index] in _FIND_RUNS:
            yield index + 1


def find_programs(tokens: Sequence[str]) -> list[int]:
    """Give the index of each program that a command runs, behind wrappers and `find -exec`."""
    found = unwrap(tokens)
    if found.index is None:
        return []
    if basename(tokens[found.index]) != "find":
        return [found.index]
    inner = (unwrap(tokens, start).index for start in find_commands(tokens, found.index + 1))
    return [found.index, *(index for index in inner if index is not None)]


def _read_foreign(shell: str, tokens: Sequence[str], start: int) -> ShellWords:
    if shell in {"cmd", "pwsh", "powershell"}:
        flags = {"/c", "/k", "-c", "-command", "-encodedcommand", "-e", "-ec"}
    else:
        flags = {"-c", "--command", "-lc", "-ic", "-ec", "-fc"}
    for index in range(start, len(tokens)):
        token = tokens[index]
        if token.lower() in flags and index + 1 < len(tokens):
            return ShellWords(index + 1, index + 1, None)
        if has_value(token) and token[0] == VALUE and index + 1 < len(tokens):
            return ShellWords(None, None, index)
        if token[:1] not in {"-", "/"}:
            return ShellWords(None, index, None)
    return ShellWords(None, None, None)


def read_shell(tokens: Sequence[str], start: int) -> ShellWords:
    """Read a shell's arguments as the shell itself does: options first, then script or file."""
    shell = basename(tokens[start])
    if shell in FOREIGN_SHELLS:
        return _read_foreign(shell, tokens, start + 1)
    index, code = start + 1, False
    while index < len(tokens):
        token = tokens[index]
        if token[:1] in {VALUE, UNKNOWN}:
            if index + 1 < len(tokens) and not code and token[0] == VALUE:
                return ShellWords(None, None, index)
            break
        if token[:1] in {"-", "+"} and has_value(token):
            return ShellWords(None, None, index)
        if token in {"--", "-"}:
            index += 1
            break
        if token in {"--rcfile", "--init-file"}:
            index += 2
        elif token.startswith("--"):
            index += 1
        elif len(token) > 1 and token[0] in "-+":
            letters = token[1:]
            code = code or (token[0] == "-" and "c" in letters)
            index += 1 + letters.count("o") + letters.count("O")
        else:
            break
    operand = index if index < len(tokens) else None
    return ShellWords(operand if code else None, operand, None)


def _normalise(argv: Sequence[str | None]) -> list[str]:
    return [VALUE if token is None else token for token in argv]


def _script_at(tokens: Sequence[str], start: int, passes: bool) -> ScriptPlace | None:
    shell = basename(tokens[start])
    words = read_shell(tokens, start)
    if words.code is not None:
        return ScriptPlace(shell, words.code, passes)
    if words.chosen_by_value is not None:
        # The value may turn out to be -c, and the next token would then be run.
        return ScriptPlace(shell, words.chosen_by_value, passes_environment=False)
    return None


def find_script(argv: Sequence[str | None]) -> ScriptPlace | None:
    """Find the shell script in a command, or give None where no shell is handed one."""
    tokens = _normalise(argv)
    found = unwrap(tokens)
    if found.split is not None and found.split < len(tokens):
        return ScriptPlace(found.wrappers[-1], found.split, passes_environment=False)
    for start in find_programs(tokens):
        if basename(tokens[start]) in ALL_SHELLS and not has_value(tokens[start]):
            return _script_at(tokens, start, found.passes)
    for start in range(1, len(tokens)):
        if basename(tokens[start]) in ALL_SHELLS:
            place = _script_at(tokens, start, passes=False)
            if place is not None:
                return place
    return None
