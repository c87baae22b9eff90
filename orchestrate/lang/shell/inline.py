"""Find program text of interpreters other than shells among the words of one command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrate.lang.shell.argv import (
    ASSIGNMENT,
    VALUE,
    InlineCode,
    basename,
    find_programs,
    word_set,
)
from orchestrate.record import record
from orchestrate.regex import regex

_VERSION = regex(r"[0-9.]+$")


@record
class Interpreter:
    """How an interpreter is handed its program text.

    `code` lists options whose value is a program; `values` options that take another value and
    `pairs` options that take two.  `operand` says that the first operand is the program unless
    one of `code` or `files` was given.
    """

    name: str
    code: frozenset[str]
    values: frozenset[str] = frozenset()
    pairs: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()
    operand: bool = False
    position: int = 0  # which operand holds the program


_JS = Interpreter("node", word_set("-e --eval -p --print -pe"), word_set("-r --require -C"))
_AWK = Interpreter(
    "awk",
    word_set("-e --source"),
    word_set("-F -v --field-separator --assign -i --include -l --load -m"),
    files=word_set("-f --file -E --exec"),
    operand=True,
)
_JQ = Interpreter(
    "jq",
    word_set(""),
    word_set("-L --indent --tab-width"),
    word_set("--arg --argjson --slurpfile --rawfile --argfile"),
    word_set("-f --from-file"),
    operand=True,
)
_SED = Interpreter(
    "sed",
    word_set("-e --expression"),
    word_set("-l --line-length"),
    files=word_set("-f --file"),
    operand=True,
)
_PYTHON = Interpreter("python", word_set("-c"), word_set("-W -X"))

_INTERPRETERS: dict[str, Interpreter] = {
    "python": _PYTHON,
    "pypy": _PYTHON,
    "node": _JS,
    "nodejs": _JS,
    "bun": _JS,
    "deno": Interpreter("deno", word_set("eval")),
    "perl": Interpreter("perl", word_set("-e -E"), word_set("-I -M")),
    "ruby": Interpreter("ruby", word_set("-e"), word_set("-I -r")),
    "php": Interpreter("php", word_set("-r -B -R -E --run"), word_set("-d -c")),
    "lua": Interpreter("lua", word_set("-e"), word_set("-l")),
    "R": Interpreter("R", word_set("-e")),
    "Rscript": Interpreter("R", word_set("-e")),
    "osascript": Interpreter("osascript", word_set("-e")),
    "psql": Interpreter("sql", word_set("-c --command"), word_set("-d -h -p -U -v -f -o")),
    "mysql": Interpreter("sql", word_set("-e --execute"), word_set("-h -u -P -D")),
    "sqlite": Interpreter(
        "sql", word_set("-cmd"), word_set("-separator"), operand=True, position=1
    ),
    "awk": _AWK,
    "gawk": _AWK,
    "mawk": _AWK,
    "nawk": _AWK,
    "jq": _JQ,
    "yq": _JQ,
    "gojq": _JQ,
    "jaq": _JQ,
    "sed": _SED,
    "gsed": _SED,
}


def find_inline_code(argv: Sequence[str | None]) -> tuple[InlineCode, ...]:
    """List the tokens of a command that an interpreter other than a shell would execute."""
    tokens = [VALUE if token is None else token for token in argv]
    return tuple(
        InlineCode(name, index)
        for start in _program_starts(tokens)
        for name, index in _code_of(tokens, start)
    )


def _program_starts(tokens: Sequence[str]) -> Iterator[int]:
    programs = find_programs(tokens)
    yield from programs
    if len(programs) == 1 and _interpreter(tokens[programs[0]]) is None:
        # An unknown program may run another one: `docker exec box python -c …`.
        for start in range(programs[0] + 1, len(tokens)):
            behind = _interpreter(tokens[start])
            if behind is not None and not behind.operand:
                yield start


def _interpreter(token: str) -> Interpreter | None:
    name = basename(token)
    return _INTERPRETERS.get(name) or _INTERPRETERS.get(_VERSION.sub("", name))


def _code_of(tokens: Sequence[str], start: int) -> Iterator[tuple[str, int]]:
    interpreter = _interpreter(tokens[start])
    if interpreter is not None:
        for index in _read(interpreter, tokens, start + 1):
            if index < len(tokens):
                yield interpreter.name, index
    elif basename(tokens[start]) in {"make", "gmake"}:
        # make expands $(shell …) in a variable given on its command line.
        for index in range(start + 1, len(tokens)):
            if ASSIGNMENT.match(tokens[index].replace(":=", "=")):
                yield "make", index


def _read(interpreter: Interpreter, tokens: Sequence[str], index: int) -> Iterator[int]:
    given, seen = False, 0
    while index < len(tokens):
        token = tokens[index]
        name, equals, _ = token.partition("=")
        if token in interpreter.code or _ends_in_code(interpreter, token):
            yield index + 1
            given = True
            index += 2
        elif _is_glued(interpreter.code, token) or (equals and name in interpreter.code):
            yield index
            given = True
            index += 1
        elif token in interpreter.files or (equals and name in interpreter.files):
            given = True
            index += 1 if equals else 2
        elif token in interpreter.values:
            index += 2
        elif token in interpreter.pairs:
            index += 3
        elif len(token) > 1 and token[0] == "-":
            index += 1
        elif not interpreter.operand:
            return
        else:
            if seen == interpreter.position and not given:
                yield index
                return
            seen += 1
            index += 1


def _ends_in_code(interpreter: Interpreter, token: str) -> bool:
    """Recognise a cluster such as `perl -lne` or `python -Ic`."""
    return (
        len(token) > 2
        and token[0] == "-"
        and token[1:].isalpha()
        and token[1] != "-"
        and f"-{token[-1]}" in interpreter.code
        and f"-{token[1]}" not in interpreter.values | interpreter.files
    )


def _is_glued(code: frozenset[str], token: str) -> bool:
    return len(token) > 2 and token[:2] in code and not token.startswith("--")
