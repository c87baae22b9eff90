"""Argument lists: values become arguments, or environment variables of a shell, never code."""

from __future__ import annotations

import re
from typing import Any

from orchestrate.dialects.workflow.scope import Resolver
from orchestrate.lang.dollar import parse_dollar
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
from orchestrate.record import record
from orchestrate.source.located import LocatedList

Parts = tuple[str | Ref, ...]

_COMMAND_FLAG = re.compile(r"-[A-Za-z]*c[A-Za-z]*\Z")
# The shell's variables and command substitutions; these programs expand them themselves.
_EXPANSION = re.compile(r"(?<![\\$])\$(?:\(|[A-Z][A-Z0-9_]+)")
_EXPANDING = frozenset(("ssh", "envsubst", "make", "docker", "kubectl"))
_SHELL_READS = frozenset(("handed", "remote"))
_SHELL_WORDS = frozenset(("|", "||", "&&", ";", ">", ">>", "<", "2>", "2>&1", "&>"))


@record
class Arguments:
    """A lowered argument list and the environment variables its shell script reads."""

    argv: tuple[Text, ...]
    values: tuple[tuple[str, Text], ...] = ()


def lower_arguments(resolver: Resolver, command: LocatedList) -> Arguments:
    """Lower `command:` of a step or of a provider template."""
    marked = [_mark_values(str(token)) for token in command]
    place = find_script(marked)
    handed = {word.index: word.trouble for word in find_handed(marked)}
    resolver.in_shell = place is not None or not _SHELL_READS.isdisjoint(handed.values())
    tokens = [resolver.parts(command, index) for index in range(len(command))]
    resolver.in_shell = False
    refused = [index for index in handed if has_value(marked[index])]
    for index in refused:
        reason, rewrite = describe_trouble(handed[index])
        _refuse(resolver, command, index, reason, _as_hint(rewrite))
    if refused:
        return Arguments(tuple(Text(parts) for parts in tokens))
    if place is None:
        _check_program(resolver, command, marked, frozenset(handed))
        _check_inline_code(resolver, command, marked, tokens)
        return Arguments(tuple(Text(parts) for parts in tokens))
    script = tokens[place.index]
    values: tuple[tuple[str, Text], ...] = ()
    if _has_values(script):
        if place.shell in POSIX_SHELLS and place.passes_environment:
            script, values = _lower_shell(resolver, command, place, script)
        else:
            _refuse(resolver, command, place.index, *_explain_refusal(marked, place))
    tokens[place.index] = script
    return Arguments(tuple(Text(parts) for parts in tokens), values)


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


def _mark_values(token: str) -> str:
    """Put a mark in the place of each value, as the functions for shells expect it."""
    if "${" not in token:
        return token
    parts = parse_dollar(token).parts
    return "".join(part if isinstance(part, str) else VALUE for part in parts)


def _has_values(parts: Parts) -> bool:
    return any(isinstance(part, Ref) for part in parts)


def _lower_shell(
    resolver: Resolver, command: LocatedList, place: ScriptPlace, script: Parts
) -> tuple[Parts, tuple[tuple[str, Text], ...]]:
    literals, holes = [""], []
    for part in script:
        if isinstance(part, Ref):
            holes.append(part)
            literals.append("")
        else:
            literals[-1] += part
    lowered = lower_script(literals, shell=place.shell)
    spans = _spans(resolver, command, place.index) if lowered.faults or lowered.cautions else []
    for fault in lowered.faults:
        resolver.work.report_at(
            "E416",
            f"{holes[fault.hole].text} {fault.reason}",
            spans[fault.hole],
            hint=_as_hint(fault.rewrite),
        )
    for caution in lowered.cautions:
        if _is_outside(holes[caution.hole]):
            resolver.work.report_at(
                "W401",
                f"{holes[caution.hole].text} {caution.reason}",
                spans[caution.hole],
                hint=_as_hint(caution.rewrite),
            )
    values = tuple((name, Text((hole,))) for name, hole in zip(lowered.names, holes, strict=True))
    return (lowered.text,), values


def _as_hint(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].removesuffix(".")


def _spans(resolver: Resolver, command: LocatedList, index: int) -> list[Any]:
    return [
        resolver.work.span_inside(command, index, variable.start, variable.end)
        for variable in parse_dollar(str(command[index])).variables
    ]


def _refuse(
    resolver: Resolver, command: LocatedList, index: int, reason: str, rewrite: str
) -> None:
    variables = parse_dollar(str(command[index])).variables
    for variable, span in zip(variables, _spans(resolver, command, index), strict=True):
        resolver.work.report_at("E416", f"{variable.text} {reason}", span, hint=rewrite)


def _check_program(
    resolver: Resolver, command: LocatedList, marked: list[str], handed: frozenset[int]
) -> None:
    """A program that a value chooses may be a shell, so nothing behind its -c may hold values."""
    # Behind `env`, `timeout` and the like stands the program that counts.
    program = unwrap(marked)
    if program.index is None or not has_value(marked[program.index]):
        if not resolver.in_template:
            _check_script_file(resolver, command, marked)
            _check_shell_words(resolver, command, handed)
        return
    if not resolver.in_template:
        resolver.work.report(
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
                resolver,
                command,
                index,
                "may be in a script, as a value chooses the program",
                "write the program's name out",
            )


def _check_script_file(resolver: Resolver, command: LocatedList, marked: list[str]) -> None:
    """A shell without -c reads a file, which a value chooses or which is a forgotten script."""
    for start in find_programs(marked):
        shell = basename(marked[start])
        operand = read_shell(marked, start).operand if shell in ALL_SHELLS else None
        if operand is None:
            continue
        if any(character.isspace() for character in marked[operand].strip()):
            resolver.work.report(
                "W403",
                f"without -c, {shell} would look for a script file of this name",
                command,
                operand,
                hint=f'add "-c" before it: ["{shell}", "-c", "…"]',
            )
        elif has_value(marked[operand]):
            resolver.work.report(
                "W405",
                f"a value chooses the script that {shell} runs",
                command,
                operand,
                hint="write the script's name out",
            )


def _check_shell_words(resolver: Resolver, command: LocatedList, handed: frozenset[int]) -> None:
    """What only a shell would understand, in a command that none reads."""
    program = str(command[0]) if command else ""
    if any(character.isspace() for character in program):
        words = ", ".join(f'"{word}"' for word in program.split()[:4])
        more = ", …" if len(program.split()) > 4 else ""
        resolver.work.report(
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
        resolver.work.report("W403", problem, command, index, hint=hint)


def _is_expansion(command: LocatedList, index: int) -> bool:
    """Would a shell replace something here, and is it no other program's code?"""
    if _EXPANSION.search(str(command[index])) is None:
        return False
    code = find_inline_code([str(token) for token in command])
    return all(found.index != index for found in code)


def _check_inline_code(
    resolver: Resolver, command: LocatedList, marked: list[str], tokens: list[Parts]
) -> None:
    if not any(map(has_value, marked)):
        return
    for code in find_inline_code(marked):
        spans = _spans(resolver, command, code.index)
        references = [part for part in tokens[code.index] if isinstance(part, Ref)]
        for reference, span in zip(references, spans, strict=False):
            if _is_outside(reference):
                resolver.work.report_at(
                    "W401",
                    f"{reference.text} becomes part of a {code.interpreter} program",
                    span,
                    hint="pass it as an argument or in a file, and let the program read it",
                )


def _is_outside(reference: Ref) -> bool:
    """Comes from a step, a loop, a prompt or the outside; what `run.*` holds is our own."""
    return reference.path[0] != "run"
