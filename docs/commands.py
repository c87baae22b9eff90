"""Keeps the page of commands in step with the code: sections, and the tables of their flags.

Which flags there are, and how they are spelt, comes from the commands. What a person has written
about one stays; a flag or a command that nobody has written about yet gets the words of its help,
and one that is gone goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from orchestrate.app.settings import FLAGS
from orchestrate.cli.group import COMMANDS, root
from orchestrate.cli.help_examples import EXAMPLES

_TABLE = re.compile(r"^\| flag \|.*\n\|---.*\n(?P<rows>(?:\|.*\n)*)", re.MULTILINE)
_FLAG = re.compile(r"`(--?[a-z][a-z-]*)")
# Said once, at the top of the page.
_EVERYWHERE = {"--state-dir", "--working-dir"}
# It ends every table, so what is new stands before it.
_LAST = {"--json"}
_END = "\n## Conventions\n"


def complete_commands(text: str) -> str:
    """The page with a section for every command and a row for every flag, and no others."""
    head, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    kept = [_renewed(section) for section in sections if not _is_gone(section)]
    page = "".join([head, *kept])
    for name in COMMANDS:
        if f"\n## {name}\n" not in page:
            before, end, after = page.partition(_END)
            page = before + "\n" + _new_section(name).rstrip("\n") + "\n" + end + after
    return page


def _name_of(section: str) -> str:
    return section.removeprefix("## ").partition("\n")[0]


def _is_gone(section: str) -> bool:
    """Commands are written small, other headings are not."""
    name = _name_of(section)
    return name.islower() and name not in COMMANDS


def _command(name: str) -> click.Command:
    found = root.get_command(click.Context(root), name)
    assert found is not None
    return found


def _options(name: str) -> list[click.Option]:
    options = [option for option in _command(name).params if isinstance(option, click.Option)]
    return [option for option in options if not _EVERYWHERE & set(_spellings(option))]


def _spellings(option: click.Option) -> list[str]:
    return [*option.opts, *option.secondary_opts]


def _renewed(section: str) -> str:
    name = _name_of(section)
    if name not in COMMANDS:
        return section
    options = _options(name)
    table = _TABLE.search(section)
    if table is None:
        return f"{section.rstrip()}\n\n{_table(options)}\n" if options else section
    rows = [_with_dialects(row) for row in _kept_rows(table["rows"], options)]
    written = set(_FLAG.findall("".join(row.split(" | ")[0] for row in rows)))
    columns = table[0].partition("\n")[0].count("|") - 1
    fresh = [_row(o, columns) for o in options if not written & set(_spellings(o))]
    common = (at for at, row in enumerate(rows) if set(_FLAG.findall(row.split(" | ")[0])) & _LAST)
    place = next(common, len(rows))
    lines = "".join([*rows[:place], *fresh, *rows[place:]])
    return section[: table.start("rows")] + lines + section[table.end("rows") :]


def _kept_rows(rows: str, options: list[click.Option]) -> Iterator[str]:
    """The rows whose flags there are; where some of a row's are gone, without those."""
    known = {name for option in options for name in _spellings(option)}
    for row in rows.splitlines(keepends=True):
        first, bar, rest = row.partition(" | ")
        flags = set(_FLAG.findall(first))
        if flags <= known:
            yield row
        elif flags & known:
            spelt = first.removeprefix("| ").split(", ")
            left = [word for word in spelt if set(_FLAG.findall(word)) <= known]
            yield "| " + ", ".join(left) + bar + rest


def _row(option: click.Option, columns: int) -> str:
    value = "" if option.is_flag or option.count else f" {option.metavar or 'CHOICE'}"
    spelt = ", ".join(f"`{name}{value}`" for name in sorted(_spellings(option), key=len))
    dialects = [_dialects(option.name or "")] if columns == 3 else []
    cells = [spelt, *dialects, _meaning(option)]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _dialects(name: str) -> str:
    """Who accepts a flag of a run."""
    row = FLAGS.get(name)
    if row is None or len(row.dialects) == 3:
        return "agents" if row is not None and row.group == "agents" else "all"
    return ", ".join(row.dialects)


def _with_dialects(row: str) -> str:
    """In a table of three columns the second says who accepts the flag."""
    cells = row.split(" | ")
    spelt = [name.lstrip("-").replace("-", "_") for name in _FLAG.findall(cells[0])]
    if len(cells) < 3 or not spelt:
        return row
    return " | ".join([cells[0], _dialects(max(spelt, key=len)), *cells[2:]])


def _meaning(option: click.Option) -> str:
    text = (option.help or "").rstrip(".")
    meaning = text[:1].lower() + text[1:]
    if isinstance(option.type, click.Choice):
        choices = ", ".join(f"`{choice}`" for choice in option.type.choices)
        meaning += f"; one of {choices}"
    return meaning


def _table(options: list[click.Option]) -> str:
    return "| flag | meaning |\n|---|---|\n" + "".join(_row(option, 2) for option in options)


def _new_section(name: str) -> str:
    lines = "".join(f"{line}\n" for line, _ in EXAMPLES.get(name, ()))
    about = " ".join((_command(name).help or "").split())
    return f"## {name}\n\n```sh\n{lines}```\n\n{about}\n\n{_table(_options(name))}"
