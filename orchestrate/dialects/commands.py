"""Argument lists: values become arguments, or environment variables of a shell, never code."""

from __future__ import annotations

from typing import Any, Protocol

from orchestrate.dialects.lowering import Lowering
from orchestrate.lang.shell.argv import (
    ALL_SHELLS,
    VALUE,
    basename,
    find_programs,
    has_value,
    read_shell,
    unwrap,
)
from orchestrate.lang.shell.lower import (
    POSIX_SHELLS,
    ScriptPlace,
    describe_trouble,
    find_inline_code,
    find_script,
    lower_script,
)
from orchestrate.lang.shell.runners import find_handed
from orchestrate.plan.expr import Ref, Text
from orchestrate.plan.nodes import Run
from orchestrate.record import record, replace
from orchestrate.regex import regex
from orchestrate.source.located import LocatedList, LocatedMap, PathKey, as_map

Parts = tuple[str | Ref, ...]

_COMMAND_FLAG = regex(r"-[A-Za-z]*c[A-Za-z]*\Z")
# The shell's variables and command substitutions; these programs expand them themselves.
_EXPANSION = regex(r"(?<![\\$])\$(?:\(|[A-Z][A-Z0-9_]+)")
_EXPANDING = frozenset(("ssh", "envsubst", "make", "docker", "kubectl"))
_SHELL_READS = frozenset(("handed", "remote"))
_SHELL_WORDS = frozenset(("|", "||", "&&", ";", ">", ">>", "<", "2>", "2>&1", "&>"))


class WrittenReference(Protocol):
    """A reference as it was written in a text."""

    @property
    def text(self) -> str: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


class Filler(Protocol):
    """How a dialect writes values into texts. `in_shell` and `in_template` shape its hints."""

    in_shell: bool

    @property
    def work(self) -> Lowering: ...
    @property
    def in_template(self) -> bool: ...

    def parts(self, container: Any, key: PathKey) -> Parts:
        """The text at a place, with references; mistakes are reported."""

    def written(self, text: str) -> tuple[Parts, tuple[WrittenReference, ...]]:
        """The pieces of a text and its references, unresolved."""


@record
class Arguments:
    """A lowered argument list and the environment variables its shell script reads."""

    argv: tuple[Text, ...]
    values: tuple[tuple[str, Text], ...] = ()
    integers: tuple[str, ...] = ()


def lower_arguments(filler: Filler, command: LocatedList) -> Arguments:
    """Lower `command:` of a step or of a provider template."""
    marked = [_mark_values(filler, str(token)) for token in command]
    place = find_script(marked)
    handed = {word.index: word.trouble for word in find_handed(marked)}
    filler.in_shell = place is not None or not _SHELL_READS.isdisjoint(handed.values())
    tokens = [filler.parts(command, index) for index in range(len(command))]
    filler.in_shell = False
    refused = [index for index in handed if has_value(marked[index])]
    for index in refused:
        reason, rewrite = describe_trouble(handed[index])
        _refuse(filler, command, index, reason, _as_hint(rewrite))
    if refused:
        return Arguments(tuple(Text(parts) for parts in tokens))
    if place is None:
        _check_program(filler, command, marked, frozenset(handed))
        _check_inline_code(filler, command, marked, tokens)
        return Arguments(tuple(Text(parts) for parts in tokens))
    script = tokens[place.index]
    lowered = Arguments((Text(script),))
    if _has_values(script):
        if place.shell in POSIX_SHELLS and place.passes_environment:
            lowered = _lower_shell(filler, command, place, script)
        else:
            _refuse(filler, command, place.index, *_explain_refusal(marked, place))
    argv = [Text(parts) for parts in tokens]
    argv[place.index] = lowered.argv[0]
    return replace(lowered, argv=tuple(argv))


def _explain_refusal(marked: list[str], place: ScriptPlace) -> tuple[str, str]:
    """Why a shell's script may not hold values, and what to write instead."""
    shells = (i for i in range(place.index) if basename(marked[i]) in ALL_SHELLS)
    if any(read_shell(marked, shell).chosen_by_value == place.index for shell in shells):
        return (
            f"may be an option of {place.shell}, and the next word a script",
            "write the script's name out",
        )
    if place.shell not in POSIX_SHELLS:
        return (
            f"is in a script for {place.shell}",
            "use sh or bash, or pass the value as an argument of its own",
        )
    return (
        "is in a script that our environment cannot reach",
        'add "sh" and the value as arguments after the script, and use "$1" in the script',
    )


def lower_command(filler: Filler, holder: LocatedMap) -> Run:
    """`command:`, an argument list or a script of bash, in which values stay values; or an input
    of type `command`, which is the whole of it."""
    names = _command_inputs(filler.work)
    if names and (given := _command_input(filler, holder, names)) is not None:
        return given
    command = holder["command"]
    words = _bash_script(holder) if isinstance(command, str) else command
    arguments = lower_arguments(filler, words)
    return Run(arguments.argv, arguments.values, integers=arguments.integers)


def _command_inputs(work: Lowering) -> list[str]:
    declared = as_map(work.data.get("inputs"))
    return [name for name, one in declared.items() if as_map(one).get("type") == "command"]


def _command_input(filler: Filler, holder: LocatedMap, names: list[str]) -> Run | None:
    """What an input runs that stands as the command, alone; one beside other words is reported."""
    places: list[tuple[Any, PathKey]] = [(holder, "command")]
    if not isinstance(holder["command"], str):
        places = [(holder["command"], index) for index in range(len(holder["command"]))]
    for container, key in places:
        parts, variables = filler.written(str(container[key]))
        for variable in variables:
            if variable.text.strip("${} ?").removeprefix("inputs.") not in names:
                continue
            if len(places) == len(parts) == 1:
                return Run((Text(filler.parts(container, key)),), is_list=True)
            filler.work.report_at(
                "E127",
                f"{variable.text} is a command, which cannot be a part of another",
                filler.work.span_inside(container, key, variable.start, variable.end),
                hint=f"let it stand alone, command: ['{variable.text}'], or make it a list",
            )
            return Run((Text(("true",)),))
    return None


def _bash_script(holder: LocatedMap) -> LocatedList:
    """The command of a step that is one text."""
    mark = holder.value_mark("command")
    words = LocatedList(mark)
    for word in ("bash", "-c", holder["command"]):
        words.put(word, mark)
    return words


def _mark_values(filler: Filler, token: str) -> str:
    """Put a mark in the place of each value, as the functions for shells expect it."""
    parts, _ = filler.written(token)
    return "".join(part if isinstance(part, str) else VALUE for part in parts)


def _has_values(parts: Parts) -> bool:
    return any(isinstance(part, Ref) for part in parts)


def _lower_shell(
    filler: Filler, command: LocatedList, place: ScriptPlace, script: Parts
) -> Arguments:
    literals, holes = [""], []
    for part in script:
        if isinstance(part, Ref):
            holes.append(part)
            literals.append("")
        else:
            literals[-1] += part
    lowered = lower_script(literals, shell=place.shell, may_calculate=not filler.in_template)
    spans = _spans(filler, command, place.index) if lowered.faults or lowered.cautions else []
    for fault in lowered.faults:
        filler.work.report_at(
            "E416",
            f"{holes[fault.hole].text} {fault.reason}",
            spans[fault.hole],
            hint=_as_hint(fault.rewrite),
        )
    for caution in lowered.cautions:
        if _is_outside(holes[caution.hole]):
            filler.work.report_at(
                "W401",
                f"{holes[caution.hole].text} {caution.reason}",
                spans[caution.hole],
                hint=_as_hint(caution.rewrite),
            )
    values = tuple((name, Text((hole,))) for name, hole in zip(lowered.names, holes, strict=True))
    return Arguments((Text((lowered.text,)),), values, lowered.integers)


def _as_hint(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].removesuffix(".")


def _spans(filler: Filler, command: LocatedList, index: int) -> list[Any]:
    return [
        filler.work.span_inside(command, index, variable.start, variable.end)
        for variable in filler.written(str(command[index]))[1]
    ]


def _refuse(filler: Filler, command: LocatedList, index: int, reason: str, rewrite: str) -> None:
    variables = filler.written(str(command[index]))[1]
    for variable, span in zip(variables, _spans(filler, command, index), strict=True):
        filler.work.report_at("E416", f"{variable.text} {reason}", span, hint=rewrite)


def _check_program(
    filler: Filler, command: LocatedList, marked: list[str], handed: frozenset[int]
) -> None:
    """A program that a value chooses may be a shell, so nothing behind its -c may hold values."""
    # Behind `env`, `timeout` and the like stands the program that counts.
    program = unwrap(marked)
    if program.index is None or not has_value(marked[program.index]):
        if not filler.in_template:
            _check_script_file(filler, command, marked)
            _check_shell_words(filler, command, handed)
        return
    if not filler.in_template:
        filler.work.report(
            "W405",
            "a value chooses the program to run",
            command,
            program.index,
            hint="write the program's name out",
        )
    behind = range(program.index + 1, len(marked))
    flag = next((i for i in behind if _COMMAND_FLAG.match(marked[i])), len(marked))
    for index in range(flag + 1, len(marked)):
        if has_value(marked[index]):
            _refuse(
                filler,
                command,
                index,
                "may be in a script, as a value chooses the program",
                "write the program's name out",
            )


def _check_script_file(filler: Filler, command: LocatedList, marked: list[str]) -> None:
    """A shell without -c reads a file, which a value chooses or which is a forgotten script."""
    for start in find_programs(marked):
        shell = basename(marked[start])
        operand = read_shell(marked, start).operand if shell in ALL_SHELLS else None
        if operand is None:
            continue
        if any(character.isspace() for character in marked[operand].strip()):
            filler.work.report(
                "W403",
                f"without -c, {shell} would look for a script file of this name",
                command,
                operand,
                hint=f'add "-c" before it: ["{shell}", "-c", "…"]',
            )
        elif has_value(marked[operand]):
            filler.work.report(
                "W405",
                f"a value chooses the script that {shell} runs",
                command,
                operand,
                hint="write the script's name out",
            )


def _check_shell_words(filler: Filler, command: LocatedList, handed: frozenset[int]) -> None:
    """What only a shell would understand, in a command that none reads."""
    program = str(command[0]) if command else ""
    if any(character.isspace() for character in program):
        words = ", ".join(f'"{word}"' for word in program.split()[:4])
        more = ", …" if len(program.split()) > 4 else ""
        filler.work.report(
            "W403",
            f"this would start a program called '{program}', with spaces in its name",
            command,
            0,
            hint=f"write one argument per item: [{words}{more}]",
        )
    for index, token in enumerate(command[1:], start=1):
        if index in handed:
            continue
        if token in _SHELL_WORDS:
            problem = f"'{token}' is an ordinary argument: no shell reads this command"
            hint = 'write ["sh", "-c", "…"], or use output_file'
        elif "$" in token and program not in _EXPANDING and _is_expansion(command, index):
            problem = f"'{token}' stays as it is: no shell reads this command"
            hint = 'write ["sh", "-c", "…"] to have it filled in'
        else:
            continue
        filler.work.report("W403", problem, command, index, hint=hint)


def _is_expansion(command: LocatedList, index: int) -> bool:
    """Would a shell replace something here, and is it no other program's code?"""
    if _EXPANSION.search(str(command[index])) is None:
        return False
    code = find_inline_code([str(token) for token in command])
    return all(found.index != index for found in code)


def _check_inline_code(
    filler: Filler, command: LocatedList, marked: list[str], tokens: list[Parts]
) -> None:
    if not any(map(has_value, marked)):
        return
    for code in find_inline_code(marked):
        spans = _spans(filler, command, code.index)
        references = [part for part in tokens[code.index] if isinstance(part, Ref)]
        for reference, span in zip(references, spans, strict=False):
            if _is_outside(reference):
                filler.work.report_at(
                    "W401",
                    f"{reference.text} becomes part of a {code.interpreter} program",
                    span,
                    hint="pass it as an argument or in a file, and let the program read it",
                )


def _is_outside(reference: Ref) -> bool:
    """Comes from a step, a loop, a prompt or the outside; what `run.*` holds is our own."""
    return reference.path[0] != "run"
