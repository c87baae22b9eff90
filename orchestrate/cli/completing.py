"""What can stand at the cursor of a command line: commands, flags, recipes, runs, steps, files.

What a parameter takes is read off its metavar, so a new command that takes a RUN completes runs
without a line here. Nothing that goes wrong may reach the terminal while a person is typing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import click

from orchestrate.agent_names import BACKENDS
from orchestrate.app.reading.runs_folder import runs_of
from orchestrate.app.workspaces import workspace_of
from orchestrate.catalogue import recipe_files
from orchestrate.cli.commands.schema import SCHEMAS
from orchestrate.cli.group import COMMANDS, root
from orchestrate.cli.later import answer_later
from orchestrate.record import field, mutable_record, record
from orchestrate.state.runs import Runs, list_runs
from orchestrate.view.place import Place

Kind = Literal["words", "files", "dirs"]
_MOST = 200
# Each press of Tab starts a process, and few of them ask about steps.
_find_steps = answer_later("app.reading.completion:steps_of")
_find_steps_of_file = answer_later("app.reading.completion:steps_of_file")
_find_waiting_stages = answer_later("app.reading.completion:waiting_stages")


@record
class Candidate:
    """A candidate, and a few words about it."""

    value: str
    about: str = ""


@mutable_record
class TypedLine:
    """A command line up to the cursor, taken apart. `wanted` is what its last word is for.

    `options` are the flags given so far, by their first spelling.
    """

    command: click.Command
    options: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    wanted: click.Parameter | None = None
    # The last word is the name of a flag, or the part of `--flag=value` before the value.
    is_flag: bool = False
    prefix: str = ""


def complete(words: list[str], shell: str) -> tuple[Kind, list[Candidate]]:
    """The candidates for the last of the words, and what may stand there besides."""
    words = _as_typed(words, shell)
    *before, current = words
    names = [word for word in before if not word.startswith("-")]
    if not names:
        return "words", _fitting(_commands(current), current)
    command = root.get_command(click.Context(root), names[0])
    if command is None:
        return "words", []
    line = _parse(command, before[before.index(names[0]) + 1 :], current)
    current = current.removeprefix(line.prefix)
    try:
        kind, found = _candidates(line)
        items = _fitting(found, current)
    except Exception:  # noqa: BLE001  no traceback while a person is typing
        return "words", []
    # bash takes the word after = for one of its own; the others want it whole.
    prefix = "" if shell == "bash" else line.prefix
    return kind, [Candidate(prefix + item.value, item.about) for item in items]


def _as_typed(words: list[str], shell: str) -> list[str]:
    """The words as the other shells give them."""
    if shell == "powershell":
        return [*words[:-1], words[-1].removeprefix("=")]
    if shell != "bash":
        return words
    # bash splits at = and keeps quotes: `--backend=co` arrives as three words.
    joined: list[str] = []
    for word in words:
        if word == "=" and joined and joined[-1].startswith("--"):
            joined[-1] += "="
        elif joined and joined[-1].startswith("--") and joined[-1].endswith("="):
            joined[-1] += word
        else:
            joined.append(word)
    return [_unquoted(word) for word in joined]


def _unquoted(word: str) -> str:
    if word[:1] in ("'", '"'):
        return word[1:].removesuffix(word[0])
    return word.replace("\\", "")


def _parse(command: click.Command, before: list[str], current: str) -> TypedLine:
    """Read the words before the cursor as the command would."""
    line = TypedLine(command)
    flags = {name: option for option in _options(command) for name in _spellings(option)}
    waiting: click.Option | None = None
    is_open = True
    for word in before:
        name, equals, value = word.partition("=")
        if waiting is not None:
            line.options[waiting.opts[0]] = word
            waiting = None
        elif is_open and word == "--":
            is_open = False
        elif is_open and name in flags:
            option = flags[name]
            if equals:
                line.options[option.opts[0]] = value
            elif _takes_value(option):
                waiting = option
            else:
                line.options[option.opts[0]] = ""
        else:
            line.arguments.append(word)
    name, equals, _ = current.partition("=")
    if waiting is not None:
        line.wanted = waiting
    elif is_open and equals and name in flags:
        line.wanted, line.prefix = flags[name], f"{name}="
    elif is_open and current.startswith("-"):
        line.is_flag = True
    else:
        line.wanted = _argument_at(command, len(line.arguments))
    return line


def _options(command: click.Command) -> list[click.Option]:
    return [option for option in command.params if isinstance(option, click.Option)]


def _spellings(option: click.Option) -> list[str]:
    """`--live` and `--no-live` are one option."""
    return [*option.opts, *option.secondary_opts]


def _takes_value(option: click.Option) -> bool:
    """Does the next word belong to it? Not if it is a flag, or its value may be left out."""
    is_optional = isinstance(option.flag_value, str)
    return not (option.is_flag or option.count or is_optional)


def _argument_at(command: click.Command, position: int) -> click.Parameter | None:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    if position < len(arguments):
        return arguments[position]
    return arguments[-1] if arguments and arguments[-1].nargs == -1 else None


def _candidates(line: TypedLine) -> tuple[Kind, Iterable[Candidate]]:
    if line.is_flag:
        return "words", _flags(line)
    if line.wanted is None:
        return "words", ()
    if isinstance(line.wanted.type, click.Choice):
        return "words", (Candidate(str(choice)) for choice in line.wanted.type.choices)
    what = (line.wanted.metavar or "").strip("[].")
    if what == "FILE":
        # An argument names a recipe, by file or id; a flag's file is any file.
        what = "FILE|ID" if isinstance(line.wanted, click.Argument) else "PATH"
    if what in ("PATH", "ZIP"):
        return "files", ()
    if what == "DIR":
        return "dirs", ()
    if what == "FILE|ID":
        return "files", _recipes(line)
    source = _SOURCES.get((line.command.name or "", what)) or _SOURCES.get(("", what))
    return "words", source(line) if source is not None else ()


def _fitting(items: Iterable[Candidate], current: str) -> list[Candidate]:
    """Those that begin with what is typed; names that a terminal would act on are left out."""
    found: dict[str, Candidate] = {}
    for item in items:
        if item.value.startswith(current) and item.value.isprintable():
            about = " ".join(item.about.split())
            found.setdefault(
                item.value, Candidate(item.value, about if about.isprintable() else "")
            )
        if len(found) >= _MOST:
            break
    return list(found.values())


def _commands(current: str) -> Iterator[Candidate]:
    if current.startswith("-"):
        for option in (*_options(root), root.get_help_option(click.Context(root))):
            if option is not None:
                yield from (Candidate(name, option.help or "") for name in option.opts)
        return
    for name, (_, summary) in COMMANDS.items():
        yield Candidate(name, summary)


def _flags(line: TypedLine) -> Iterator[Candidate]:
    for option in _options(line.command):
        if not option.hidden and (option.multiple or option.opts[0] not in line.options):
            about = (option.help or "").split("; ")[0]
            yield from (
                Candidate(name, about) for name in _spellings(option) if name.startswith("--")
            )
    yield Candidate("--help", "Show this message and exit.")


def _recipes(line: TypedLine) -> Iterator[Candidate]:
    workspace = workspace_of(line.options.get("--working-dir"))
    for recipe_id, _, origin in recipe_files(workspace):
        if origin == "workspace" or "shared" not in recipe_id.split("/"):
            yield Candidate(recipe_id, origin)


def _runs_folder(line: TypedLine) -> Runs:
    return runs_of(Place(line.options.get("--working-dir"), line.options.get("--state-dir")))


def _runs(line: TypedLine) -> Iterator[Candidate]:
    found = list_runs(_runs_folder(line))
    if found:
        yield Candidate("latest", "the newest run")
    yield from (Candidate(run.id) for run in found)


def _run_named(line: TypedLine) -> str | None:
    return line.arguments[0] if line.arguments else None


def _steps_of_run(line: TypedLine) -> Iterator[Candidate]:
    for path, status in _find_steps(_runs_folder(line), _run_named(line)):
        yield Candidate(path, status)


def _runs_or_steps(line: TypedLine) -> Iterator[Candidate]:
    """One word after `logs` may also be a step of the latest run."""
    yield from _runs(line)
    yield from _steps_of_run(line)


def _steps_of_file(line: TypedLine) -> Iterator[Candidate]:
    found = _find_steps_of_file(line.options["--workflow"], line.options.get("--working-dir"))
    yield from (Candidate(step) for step in found)


def _stages(line: TypedLine) -> Iterator[Candidate]:
    for stage in _find_waiting_stages(_runs_folder(line), _run_named(line)):
        yield Candidate(stage, "waits for a decision")


def _schemas(_: TypedLine) -> Iterator[Candidate]:
    yield from (Candidate(name, about) for name, about in SCHEMAS.items())


def _agents(_: TypedLine) -> Iterator[Candidate]:
    yield from (Candidate(name) for name in dict.fromkeys(BACKENDS.values()))


def _tiers(_: TypedLine) -> Iterator[Candidate]:
    yield from (Candidate(name) for name in ("haiku", "sonnet", "opus"))


# By command and metavar; '' is any command.
_SOURCES: dict[tuple[str, str], Callable[[TypedLine], Iterable[Candidate]]] = {
    ("", "RUN"): _runs,
    ("logs", "RUN"): _runs_or_steps,
    ("", "STEP"): _steps_of_run,
    ("run-step", "STEP"): _steps_of_file,
    ("", "STAGE"): _stages,
    ("schema", "NAME"): _schemas,
    ("", "NAME"): _agents,
    ("", "MODEL"): _tiers,
}
