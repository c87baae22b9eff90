"""What `init` writes: the files of a first `.orchestrate`, made from the example that we ship.

The example (`.orchestrate.example`) is the one source. Here its settings become comments, so that
defaults stay ours to change, and its schema lines lead to where `init` puts the schemas.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from orchestrate.errors import ConfigError
from orchestrate.record import record
from orchestrate.workspace import package_data

FOLDER = ".orchestrate"
DIALECTS = ("machine", "recipe", "workflow")
AGENTS = ("code-reviewer", "implementer", "writer")
IGNORED = f"{FOLDER}/runs/"
# Lines of a .gitignore that keep runs out as well, and those that keep out the whole folder.
_SAME = {IGNORED, f"{FOLDER}/runs", f"/{IGNORED}", f"/{FOLDER}/runs"}
_WHOLE = {FOLDER, f"{FOLDER}/", f"/{FOLDER}", f"/{FOLDER}/", f"{FOLDER}/*", f"/{FOLDER}/*"}
_SCHEMA_LINE = "# yaml-language-server: $schema="


@record
class Piece:
    """A file to write: where, what, and what it is for."""

    path: str
    text: str
    about: str


@record
class Done:
    """What became of a piece: written, or left alone for a reason."""

    path: str
    is_written: bool
    about: str


def pieces(dialect: str, backend: str | None, permissions: str | None = None) -> Iterator[Piece]:
    """Every file of a first `.orchestrate`, in the order in which a reader meets them."""
    example = package_data() / ".orchestrate.example"
    settings = (example / "config.yaml").read_text("utf-8")
    yield Piece(
        f"{FOLDER}/config.yaml",
        _with_schema(commented(settings, backend, permissions), "schemas/config.schema.json"),
        "settings; every line is explained there",
    )
    name = recipe_id(dialect)
    recipe = (example / "recipes" / f"{name}.yaml").read_text("utf-8")
    yield Piece(
        f"{FOLDER}/recipes/{name}.yaml",
        _with_schema(recipe, f"../schemas/{dialect}.schema.json"),
        f"a first {dialect}, to change",
    )
    for agent in AGENTS:
        text = (example / "agents" / f"{agent}.md").read_text("utf-8")
        yield Piece(f"{FOLDER}/agents/{agent}.md", text, "an agent that recipes can name")
    for schema in (*DIALECTS, "config"):
        text = (package_data() / "schemas" / f"{schema}.schema.json").read_text("utf-8")
        about = f"completion in editors: {schema}"
        yield Piece(f"{FOLDER}/schemas/{schema}.schema.json", text, about)


def recipe_id(dialect: str) -> str:
    return f"my-{dialect}"


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


def write_piece(root: Path, piece: Piece) -> Done:
    """Write a file unless something of that name is there already, whatever it is."""
    path = root / piece.path
    if not Path(os.path.realpath(path.parent)).is_relative_to(root):
        raise ConfigError(f"{piece.path} would lie outside of {root}", "a link leads out of it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_new(path, piece.text.encode())
    except (FileExistsError, NotADirectoryError) as error:
        if error.errno == errno.EEXIST and os.path.lexists(path):
            return Done(piece.path, False, _why_left(path, piece))
        raise ConfigError(f"cannot write {piece.path}: a part of it is no folder") from None
    except OSError as error:
        raise ConfigError(f"cannot write {piece.path}: {error.strerror}") from None
    return Done(piece.path, True, piece.about)


def _why_left(path: Path, piece: Piece) -> str:
    try:
        is_same = path.is_file() and path.read_bytes() == piece.text.encode()
    except OSError:
        is_same = False
    if not is_same and piece.path.endswith(".schema.json"):
        name = path.name.partition(".")[0]
        return (
            f"is there, of another release; to renew it: orchestrate schema {name} > {piece.path}"
        )
    return "is there" if is_same else "is there, with other contents"


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


def ignore_runs(root: Path) -> Done:
    """Add a line to .gitignore, unless one keeps runs out already; other lines stay as they are."""
    path = root / ".gitignore"
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        return Done(".gitignore", False, f"is no plain file; it should have the line {IGNORED}")
    try:
        before = path.read_bytes() if path.exists() else b""
        lines = {line.strip() for line in before.decode("utf-8", "replace").splitlines()}
        if lines & _WHOLE:
            kept = f"keeps out all of {FOLDER}/, also what is worth committing"
            return Done(".gitignore", False, kept)
        if lines & _SAME:
            return Done(".gitignore", False, "keeps runs out already")
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
    return Done(".gitignore", True, f"keeps {IGNORED} out of version control")
