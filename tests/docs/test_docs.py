"""The documentation is true: its examples compile, its commands exist, its links lead somewhere."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from ruamel.yaml import YAML

from docs.build import main as build
from docs.build import renew
from docs.pages import (
    REPOSITORY,
    Fence,
    Page,
    Result,
    find_pages,
    read_page,
    run_in_shell,
    work_through,
)
from orchestrate.cli.group import COMMANDS, root
from orchestrate.codes import CODES
from orchestrate.testing import Project
from tests.commands import Command

PAGES = [path.relative_to(REPOSITORY).as_posix() for path in find_pages()]
DIALECTS = ("machine", "recipe", "workflow")
# Warnings that depend on where a definition is used, and say nothing against an example.
LOCAL = {"W104"}

MOST_WORDS = 25_000
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?orchestrate\s+(.*)$", re.MULTILINE)


@cache
def page(name: str) -> Page:
    return read_page(REPOSITORY / name)


@cache
def results(name: str) -> tuple[Result, ...]:
    return tuple(work_through(page(name), run))


def run(command: str, folder: Path, environment: Mapping[str, str]) -> bytes:
    """What a command prints; where there is nothing for a shell to do, without one."""
    words = shlex.split(command)
    if words[0] != "orchestrate" or re.search(r"[|&;<>()$`*?#~\n]", command):
        return run_in_shell(command, folder, environment)
    with Command(*words[1:], cwd=folder, env=environment, stderr=subprocess.STDOUT) as process:
        return process.communicate(timeout=60)[0].encode()


def prose(name: str) -> str:
    """The page without its fences."""
    text, position, kept = page(name).text, 0, []
    for fence in page(name).fences:
        kept.append(text[position : fence.start])
        position = fence.end
    return "".join([*kept, text[position:]])


def codes_of(result: Result) -> set[str]:
    assert result.compilation is not None
    return {finding.code for finding in result.compilation.diagnostics}


def place(name: str, fence: Fence) -> str:
    return f"{name}:{fence.line}"


def test_there_are_pages_of_all_four_kinds() -> None:
    kinds = {Path(name).parts[1] for name in PAGES if name.startswith("docs/")}
    assert {"tutorial", "how-to", "reference", "explanation"} <= kinds


@pytest.mark.parametrize("name", PAGES)
def test_a_page_shows_what_is_so(name: str, update_goldens: bool) -> None:
    """Its definitions compile, and what its commands and tables show is current."""
    fresh = renew(page(name), results(name))
    if update_goldens:
        (REPOSITORY / name).write_text(fresh, "utf-8")
    else:
        assert page(name).text == fresh, "run python -m docs.build, and read the diff"
    for result in results(name):
        if result.compilation is None:
            continue
        codes, marks = codes_of(result), set(result.fence.marks)
        where = place(name, result.fence)
        errors = {code for code in codes if code.startswith("E")}
        if "wrong" in marks:
            assert errors, f"{where} is said to be wrong, but is not"
        elif "warns" in marks:
            assert codes, f"{where} is said to draw a warning, but does not"
            assert not errors, f"{where} draws {errors}"
        else:
            assert codes <= LOCAL, f"{where} draws {codes}"


@pytest.mark.parametrize("name", PAGES)
def test_fragments_are_yaml(name: str) -> None:
    for fence in page(name).fences:
        assert set(fence.marks) <= {"fragment", "wrong", "warns"}, place(name, fence)
        if fence.language == "yaml" and "fragment" in fence.marks:
            assert YAML(typ="safe").load(io.StringIO(fence.text)) is not None, place(name, fence)


def test_users_are_given_no_more_to_read_than_they_need() -> None:
    """What is written by hand: without output, generated tables, and pages for contributors."""
    words = {
        name: sum(bool(re.search(r"\w", word)) for word in by_hand(name).split())
        for name in PAGES
        if not name.startswith(("CONTRIBUTING", "docs/adr/", "docs/contributing/", "docs/spec/"))
    }
    assert sum(words.values()) <= MOST_WORDS, sorted(words.items(), key=lambda item: item[1])


def by_hand(name: str) -> str:
    if name == "docs/reference/diagnostics.md":
        return ""
    text = page(name).text
    for fence in reversed(page(name).fences):
        if fence.language == "console":
            commands = [line for line in fence.text.splitlines() if line.startswith("$ ")]
            text = text[: fence.start] + "\n".join(commands) + text[fence.end :]
    text = re.sub(r"<!-- (?:generated:|written by) .*?<!-- end -->", "", text, flags=re.DOTALL)
    return re.sub(r"<!--.*?-->", "", text)


def shown(name: str, command: str) -> str:
    """What a page shows below a command."""
    after = page(name).text.partition(f"$ {command}\n")[2]
    return re.split(r"^(?:\$ |```)", after, maxsplit=1, flags=re.MULTILINE)[0]


def test_the_tutorial_teaches_what_it_says() -> None:
    """Output is generated, so nobody would notice a lesson that has stopped to work."""
    name = "docs/tutorial/start-here.md"
    headings = re.findall(r"^## (.+)$", prose(name), re.MULTILINE)
    assert headings == [
        "Install", "A first recipe", "A gate", "Kill it, and go on", "In a project of your own",
    ]  # fmt: skip
    flags = "--backend rehearsal --script stop.yaml"
    parked = f'orchestrate run notes.yaml {flags}; echo "exit code $?"'
    assert shown(name, parked).endswith("\nexit code 6\n")
    assert "stage 'write'" in shown(name, "orchestrate approvals")
    approve = "orchestrate approve latest --message 'mention the new licence'"
    assert "is approved" in shown(name, approve)
    assert shown(name, "cat ledger.txt") == "first\nsecond\nthird\n"
    killed = shown(name, "touch go\n$ orchestrate resume latest")
    assert "First" not in killed
    assert killed.endswith(" completed\n")


@pytest.mark.parametrize("name", PAGES)
def test_fences_hold_no_other_fence(name: str) -> None:
    """A fence that is not closed swallows what follows, and the builder then replaces it."""
    for fence in page(name).fences:
        assert fence.language != "console" or "```" not in fence.text, place(name, fence)
    assert not re.search(r"^[^`\n]+```$", page(name).text, re.MULTILINE)


def test_the_builder_tells_what_is_stale(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("docs.pages.REPOSITORY", tmp_path)
    stale = tmp_path / "page.md"
    stale.write_text("<!-- generated: exits -->\nold\n<!-- end -->\n")
    assert build(["--check", str(stale)]) == 1
    assert "page.md is stale" in capsys.readouterr().err
    assert "old" in stale.read_text()
    assert build([str(stale)]) == 0
    assert "| 70 | a bug in orchestrate |" in stale.read_text()
    assert build(["--check", str(stale)]) == 0


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    for link in _LINK.findall(prose(name)):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = ((REPOSITORY / name).parent / target).resolve() if target else REPOSITORY / name
        assert path.exists(), f"{name}: {link}"
        if anchor:
            assert anchor in anchors(path), f"{name}: {link}"


def anchors(path: Path) -> set[str]:
    """What a heading is called in a link, as GitHub does it."""
    text = prose(path.relative_to(REPOSITORY).as_posix())
    headings = re.findall(r"^#+ +(.+)$", text, re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("name", PAGES)
def test_commands_exist(name: str) -> None:
    context = click.Context(root)
    for fence in page(name).fences:
        if fence.language not in ("sh", "console"):
            continue
        for line in _COMMAND.findall(fence.text.replace("\\\n", " ")):
            words = re.split(r"[|;<>#&]", line)[0].split()
            if words[0].startswith("-"):
                assert words[0] in ("--help", "--version", "-h"), place(name, fence)
                continue
            assert words[0] in COMMANDS, f"{place(name, fence)}: {words[0]}"
            command = root.get_command(context, words[0])
            assert command is not None
            flags = (f for option in command.params for f in (*option.opts, *option.secondary_opts))
            known = {*flags, "--help", "-h"}
            used = {word.partition("=")[0] for word in words[1:] if word.startswith("-")}
            assert used <= known, f"{place(name, fence)}: {used - known}"


def test_every_command_and_flag_is_in_the_reference() -> None:
    text = page("docs/reference/cli.md").text
    context = click.Context(root)
    everywhere = text.partition("\n## ")[0]
    sections = {
        name: text.partition(f"\n## {name}\n")[2].partition("\n## ")[0] for name in COMMANDS
    }
    for name, section in sections.items():
        command = root.get_command(context, name)
        assert command is not None
        described = everywhere + section
        if "| [flags of `run`](#run) |" in section:
            described += sections["run"]
        for option in command.params:
            if isinstance(option, click.Option):
                assert all(f"`{flag}" in described for flag in option.opts), (name, option.opts)


def test_the_builder_follows_the_commands_and_keeps_what_was_written() -> None:
    cli = page("docs/reference/cli.md")
    row = next(line for line in cli.text.splitlines() if line.startswith("| `--older-than AGE`"))
    stale = cli.text.replace(row, "| `--vanished` | it is gone |")
    assert renew(replace(cli, text=stale), ()) == cli.text
    section = re.search(r"^## wait\n.*?(?=^## )", cli.text, re.MULTILINE | re.DOTALL)
    assert section is not None
    stale = cli.text.replace(section[0], "## vanished\n\nIt is gone.\n\n")
    again = renew(replace(cli, text=stale), ())
    assert "## vanished" not in again
    assert "\n```sh\norchestrate wait latest\n" in again
    assert again.index("## wait") < again.index("## Conventions")


def test_every_code_is_explained() -> None:
    headings = re.findall(r"^## (.+)$", page("docs/reference/diagnostics.md").text, re.MULTILINE)
    assert headings == [f"{code} {CODES[code][0]}" for code in sorted(CODES)]


@pytest.mark.parametrize("name", PAGES)
def test_codes_that_pages_mention_exist(name: str) -> None:
    assert set(re.findall(r"\b[EW]\d{3}\b", page(name).text)) <= set(CODES)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_field_is_in_the_reference(dialect: str) -> None:
    schema = json.loads((REPOSITORY / "schemas" / f"{dialect}.schema.json").read_text("utf-8"))
    # What the dialects share is described once.
    text = page(f"docs/reference/{dialect}.md").text + page("docs/reference/common.md").text
    fields = set(field_names(schema))
    assert len(fields) > 10
    missing = sorted(name for name in fields if f"`{name}`" not in text)
    assert not missing


def field_names(schema: Any) -> list[str]:
    """Every name under a `properties` of a schema, at any depth."""
    if isinstance(schema, list):
        return [name for item in schema for name in field_names(item)]
    if not isinstance(schema, dict):
        return []
    found = []
    for key, value in schema.items():
        if key == "properties":
            found += [*value, *(name for inner in value.values() for name in field_names(inner))]
        elif key not in ("examples", "default"):
            found += field_names(value)
    return found


def test_the_catalogue_is_described() -> None:
    text = page("docs/reference/catalogue.md").text
    for path in (REPOSITORY / "workflows").rglob("*.yaml"):
        if not {"shared", ".console"} & {*path.parts}:
            name = path.relative_to(REPOSITORY / "workflows").with_suffix("").as_posix()
            assert f"`{name}`" in text


def test_decisions_are_numbered_without_gaps_and_listed() -> None:
    folder = REPOSITORY / "docs" / "adr"
    files = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [name[:4] for name in files] == [f"{n:04}" for n in range(1, len(files) + 1)]
    titles = [(folder / name).read_text("utf-8").partition("\n")[0] for name in files]
    assert [title[2:6] for title in titles] == [name[:4] for name in files]
    table = (folder / "README.md").read_text("utf-8")
    listed = re.findall(r"^\| \[(\d{4})\]\((\S+)\)", table, re.MULTILINE)
    assert listed == [(name[:4], name) for name in files]


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed here")
def test_the_jq_examples_about_the_state_work_with_a_loop(tmp_path: Path) -> None:
    loop = """
        version: "1.1"
        steps:
          - {name: First, command: ["true"]}
          - name: Each
            for_each: {items: [a, b], steps: [{name: Do, command: ["true"]}]}
    """
    project = Project(tmp_path, {"w.yaml": loop})
    project.run("run", "w.yaml").assert_success()
    text = (REPOSITORY / "docs/reference/state.md").read_text("utf-8")
    (block,) = (part for part in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if "jq" in part)
    done = subprocess.run(
        ["sh", "-ec", block], cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    steps, _ = json.JSONDecoder().raw_decode(done.stdout)
    assert steps == {"First": {"status": "completed", "exit_code": 0}, "Each": {"items": 2}}
    assert '["Each/Do","@ok"]' in done.stdout
