"""Makes the sections of the page of commands from their help: examples, description and flags.

A command and a flag are described once, in the code. What a section has below its generated part is
written by hand and stays; a command without a section gets one, and one that is gone goes.
"""

from __future__ import annotations

import re
from textwrap import fill

import click

from orchestrate.cli.group import COMMANDS, root
from orchestrate.cli.help_examples import EXAMPLES

# Described once, at the top of the page.
_EVERYWHERE = {"--state-dir", "--working-dir", "--json"}
# A command that shares so many flags with `run` refers to it.
_MANY = 10
_END = "\n## Conventions\n"


def complete_commands(text: str) -> str:
    """The page with a section for every command, and no others; they are filled in later."""
    head, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    page = "".join([head, *(section for section in sections if not _is_gone(section))])
    for name in COMMANDS:
        if f"\n## {name}\n" not in page:
            before, end, after = page.partition(_END)
            section = f"\n## {name}\n\n<!-- generated: command {name} -->\n<!-- end -->\n"
            page = before + section + end + after
    return page


def _is_gone(section: str) -> bool:
    """Commands are in lower case, other headings are not."""
    name = section.removeprefix("## ").partition("\n")[0]
    return name.islower() and name not in COMMANDS


def command_text(name: str) -> str:
    """The generated part of a section."""
    command = _command(name)
    lines = "".join(f"{line}\n" for line, _ in EXAMPLES.get(name, ()))
    paragraphs = re.split(r"\n\s*\n", (command.help or "").strip())
    about = "\n\n".join(fill(" ".join(text.split()), 105) for text in paragraphs)
    parts = [f"```sh\n{lines}```\n", f"{about}\n", _table(name)]
    return "\n".join(part for part in parts if part)


def _command(name: str) -> click.Command:
    found = root.get_command(click.Context(root), name)
    assert found is not None
    return found


def _options(name: str) -> list[click.Option]:
    options = [option for option in _command(name).params if isinstance(option, click.Option)]
    return [option for option in options if not _EVERYWHERE & set(_spellings(option))]


def _spellings(option: click.Option) -> list[str]:
    return [*option.opts, *option.secondary_opts]


def _table(name: str) -> str:
    options = _options(name)
    of_run = {str(option.name): option.help for option in _options("run")}
    same = [option for option in options if of_run.get(str(option.name)) == option.help]
    shared = ""
    if name != "run" and len(same) >= _MANY:
        missing = of_run.keys() - {str(option.name) for option in options}
        but = ", ".join(f"`--{word.replace('_', '-')}`" for word in sorted(missing))
        shared = f"| [flags of `run`](#run) | all{f' but {but}' if but else ''} |\n"
        options = [option for option in options if option not in same]
    rows = "".join(map(_row, options)) + shared
    return f"| flag | meaning |\n|---|---|\n{rows}" if rows else ""


def _row(option: click.Option) -> str:
    value = "" if option.is_flag or option.count else f" {option.metavar or 'CHOICE'}"
    spelt = ", ".join(f"`{name}{value}`" for name in sorted(_spellings(option), key=len))
    meaning = (option.help or "").rstrip(".")
    if not meaning[:2].isupper():
        meaning = meaning[:1].lower() + meaning[1:]
    if isinstance(option.type, click.Choice):
        meaning += ": " + ", ".join(f"`{choice}`" for choice in option.type.choices)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (spelt, meaning)) + " |\n"
