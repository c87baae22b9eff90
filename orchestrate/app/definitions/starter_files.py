"""What `init` writes: the files of a first `.orchestrate`, made from the example that we ship.

The example (`.orchestrate.example`) is the one source. Here its settings become comments, so that
defaults stay ours to change, and its schema lines lead to where `init` puts the schemas.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestrate.agents.finding import Missing
from orchestrate.agents.registry import PROGRAMS, find_program
from orchestrate.catalogue import AGENT_STUB, agent_places
from orchestrate.errors import ConfigError
from orchestrate.record import record
from orchestrate.regex import regex
from orchestrate.view.outcomes import WrittenFile
from orchestrate.workspace import Workspace, package_data

FOLDER = ".orchestrate"
DEFAULT_PERMISSIONS = "bypass"
DIALECTS = ("machine", "recipe", "workflow")
AGENTS = ("code-reviewer", "implementer", "writer")
_AGENT = regex(r"[A-Za-z0-9_][\w.-]*(?::[A-Za-z0-9_][\w.-]*)*\Z")
IGNORED = f"{FOLDER}/runs/"
# Lines of a .gitignore that keep runs out as well, and those that keep out the whole folder.
_SAME = {IGNORED, f"{FOLDER}/runs", f"/{IGNORED}", f"/{FOLDER}/runs"}
_WHOLE = {FOLDER, f"{FOLDER}/", f"/{FOLDER}", f"/{FOLDER}/", f"{FOLDER}/*", f"/{FOLDER}/*"}
_SCHEMA_LINE = "# yaml-language-server: $schema="


@record
class StarterFile:
    """A file to write: where, what, and what it is for."""

    path: str
    text: str
    about: str


def starter_files(
    dialect: str, backend: str | None, permissions: str | None = None
) -> Iterator[StarterFile]:
    """Every file of a first `.orchestrate`, in the order in which a reader meets them."""
    example = package_data() / ".orchestrate.example"
    settings = (example / "config.yaml").read_text("utf-8")
    yield StarterFile(
        f"{FOLDER}/config.yaml",
        _with_schema(commented(settings, backend, permissions), "schemas/config.schema.json"),
        "settings; every line is explained there",
    )
    name = recipe_id(dialect)
    recipe = (example / "recipes" / f"{name}.yaml").read_text("utf-8")
    yield StarterFile(
        f"{FOLDER}/recipes/{name}.yaml",
        _with_schema(recipe, f"../schemas/{dialect}.schema.json"),
        f"a first {dialect}, to change",
    )
    for agent in AGENTS:
        text = (example / "agents" / f"{agent}.md").read_text("utf-8")
        yield StarterFile(f"{FOLDER}/agents/{agent}.md", text, "an agent that recipes can name")
    for schema in (*DIALECTS, "config"):
        text = (package_data() / "schemas" / f"{schema}.schema.json").read_text("utf-8")
        about = f"completion in editors: {schema}"
        yield StarterFile(f"{FOLDER}/schemas/{schema}.schema.json", text, about)


def recipe_id(dialect: str) -> str:
    return f"my-{dialect}"


def first_commands(dialect: str) -> list[str]:
    """What to try first."""
    name = recipe_id(dialect)
    return [f"orchestrate run {name} --dry-run", f"orchestrate run {name} --backend rehearsal"]


def agents_here(environment: Mapping[str, str]) -> tuple[tuple[str, ...], list[str]]:
    """The agents that we know, and those of them that are installed."""
    found = [n for n in PROGRAMS if not isinstance(find_program(n, environment), Missing)]
    return tuple(PROGRAMS), found


def write_all(
    root: Path, done: list[WrittenFile], dialect: str, backend: str | None, permissions: str | None
) -> None:
    """Write every piece that is not there; `done` says how far it came, also if one fails."""
    for piece in starter_files(dialect, backend, permissions):
        done.append(write_piece(root, piece))  # noqa: PERF401 - told if one fails
    done.append(ignore_runs(root))


def write_stubs(
    root: Path, done: list[WrittenFile], names: Iterator[str], workspace: Workspace
) -> None:
    """A definition for each agent that has none in the workspace."""
    for name in names:
        places = agent_places(name, workspace)
        found = next((place for place in places if place.is_file()), None)
        if found is not None:
            shown = found.relative_to(root).as_posix()
            done.append(WrittenFile(shown, False, f"is there, for '{name}'"))
            continue
        short = workspace.agent_called(name).rpartition(":")[2]
        text = (
            f"---\nname: {short}\ndescription: {AGENT_STUB}\n---\n"
            f"You are {short.replace('-', ' ')}. {AGENT_STUB}\n"
        )
        piece = StarterFile(
            places[0].relative_to(root).as_posix(), text, f"to be filled in: '{name}'"
        )
        done.append(write_piece(root, piece))


def agents_named(documents: Mapping[str, Any]) -> Iterator[str]:
    """The agents that the steps of recipes name, each once; not those that a run works out."""
    found: dict[str, None] = {}
    waiting: list[Any] = list(documents.values())
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, Mapping):
            # A workflow's steps have no id, and who resolves its conflicts is a provider.
            is_of_workflow = "for_each" in part
            resolver = part.get("resolve") if "pool" in part else None
            for holder in (part if "id" in part else None, resolver):
                name = holder.get("agent") if isinstance(holder, Mapping) else None
                if isinstance(name, str) and _AGENT.match(name):
                    found[str(name)] = None
            waiting += () if is_of_workflow else part.values()
        elif isinstance(part, list):
            waiting += part
    return iter(found)


def held_permissions(done: list[WrittenFile], permissions: str | None) -> str | None:
    """The permissions that the configuration has now; None if it was there before: it decides."""
    is_written = any(piece.is_written for piece in done if piece.path.endswith("config.yaml"))
    return (permissions or DEFAULT_PERMISSIONS) if is_written else None


def commented(settings: str, backend: str | None, permissions: str | None = None) -> str:
    """The example's settings as comments, but for the agent and permissions that were chosen."""
    chosen = {"backend": backend, "permissions": permissions}
    lines = []
    for line in settings.splitlines():
        is_setting = line.strip() and not line.startswith("#")
        key = line.partition(":")[0]
        if chosen.get(key) is not None:
            lines.append(f"{key}: {chosen[key]}")
        else:
            lines.append(f"# {line}" if is_setting else line)
    return "\n".join(lines) + "\n"


def _with_schema(text: str, schema: str) -> str:
    first, _, rest = text.partition("\n")
    assert first.startswith(_SCHEMA_LINE)
    return f"{_SCHEMA_LINE}{schema}\n{rest}"


def write_piece(root: Path, piece: StarterFile) -> WrittenFile:
    """Write a file unless something of that name is there already, whatever it is."""
    path = root / piece.path
    if not Path(os.path.realpath(path.parent)).is_relative_to(root):
        raise ConfigError(f"{piece.path} would lie outside of {root}", "a link leads out of it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_new(path, piece.text.encode())
    except (FileExistsError, NotADirectoryError) as error:
        if error.errno == errno.EEXIST and os.path.lexists(path):
            return WrittenFile(piece.path, False, _why_left(path, piece))
        raise ConfigError(f"cannot write {piece.path}: a part of it is not a folder") from None
    except OSError as error:
        raise ConfigError(f"cannot write {piece.path}: {error.strerror}") from None
    return WrittenFile(piece.path, True, piece.about)


def _why_left(path: Path, piece: StarterFile) -> str:
    try:
        is_same = path.is_file() and path.read_bytes() == piece.text.encode()
    except OSError:
        is_same = False
    if not is_same and piece.path.endswith(".schema.json"):
        name = path.name.partition(".")[0]
        return (
            f"exists, from another release; to renew it: orchestrate schema {name} > {piece.path}"
        )
    return "is there" if is_same else "exists, with other contents"


def _write_new(path: Path, data: bytes) -> None:
    """The whole file or none: what could not be written to its end does not stay."""
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o666)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def ignore_runs(root: Path) -> WrittenFile:
    """Add a line to .gitignore, unless one keeps runs out already; other lines stay as they are."""
    path = root / ".gitignore"
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        return WrittenFile(
            ".gitignore", False, f"is not a regular file; it should have the line {IGNORED}"
        )
    try:
        before = path.read_bytes() if path.exists() else b""
        lines = {line.strip() for line in before.decode("utf-8", "replace").splitlines()}
        if lines & _WHOLE:
            kept = f"keeps out all of {FOLDER}/, also what is worth committing"
            return WrittenFile(".gitignore", False, kept)
        if lines & _SAME:
            return WrittenFile(".gitignore", False, "keeps runs out already")
        end = b"\r\n" if b"\r\n" in before else b"\n"
        added = [
            b"# Runs of orchestrate: parts of your code and of agents' answers",
            IGNORED.encode(),
        ]
        opening = end if before and not before.endswith(b"\n") else b""
        with open(path, "ab") as file:
            file.write(opening + b"".join(line + end for line in added))
    except OSError as error:
        raise ConfigError(f"cannot write .gitignore: {error.strerror}") from None
    return WrittenFile(".gitignore", True, f"keeps {IGNORED} out of version control")
