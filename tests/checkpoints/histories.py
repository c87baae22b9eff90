"""Random histories of a workspace: what agents, commands and people do to files."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.checkpoints.places import git, repository, write

_NAMES = ("a", "b.log", "c d", "new\nline", "é", "build/x", "src/deep/er/y", "src/z.log", "-dash")
_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n"
_RULES = ("*.log\n", "build/\n", "*.log\nbuild/\n!src/z.log\n", "src/\n", "c d\n")


class History:
    """One workspace, and the deeds that chance does to it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        kinds = ("sha1", "sha1", "sha256", "plain")
        self.kind = kinds[seed % len(kinds)]
        if self.kind == "plain":
            folder.mkdir()
        else:
            repository(folder, f"--object-format={self.kind}", a="one\n", src__z="two\n")
        write(folder, ".gitignore", self.chance.choice(_RULES))

    def live(self, deeds: int) -> list[str]:
        """Do some deeds; their names."""
        done = []
        for _ in range(deeds):
            deed: Callable[[], None] = self.chance.choice(
                [
                    self.write, self.write, self.write, self.delete, self.rename, self.chmod,
                    self.link, self.rules, self.nest, self.point, self.turn, self.pipe,
                    self.commit, self.submodule,
                ]
            )  # fmt: skip
            deed()
            done.append(deed.__name__)
        return done

    def _path(self) -> Path:
        return self.folder / self.chance.choice(_NAMES)

    def _free(self, path: Path) -> bool:
        """Can a file lie there, without anything else being in the way?"""
        above = [place for place in path.parents if place.is_relative_to(self.folder)]
        if any(os.path.lexists(p) and (p.is_symlink() or not p.is_dir()) for p in above):
            return False
        return path.is_symlink() or not path.is_dir()

    def write(self) -> None:
        path = self._path()
        if not self._free(path):
            return
        if path.is_symlink() or path.is_fifo():
            path.unlink()
        write(self.folder, str(path.relative_to(self.folder)), self._text())

    def _text(self) -> str:
        return f"{self.chance.random()}\r\n" * self.chance.randrange(4)

    def _files(self) -> list[Path]:
        """Those that are not in a repository of their own."""
        found = []
        for place, folders, names in os.walk(self.folder):
            if Path(place) != self.folder and ".git" in (*folders, *names):
                folders.clear()
                continue
            folders[:] = [name for name in folders if name != ".git"]
            found += [Path(place, name) for name in names if name != ".git"]
        return sorted(found)

    def delete(self) -> None:
        if files := self._files():
            os.unlink(self.chance.choice(files))

    def rename(self) -> None:
        target = self._path()
        files = self._files()
        if files and self._free(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.rename(self.chance.choice(files), target)

    def chmod(self) -> None:
        files = [path for path in self._files() if path.is_file() and not path.is_symlink()]
        if files:
            os.chmod(self.chance.choice(files), self.chance.choice((0o644, 0o755, 0o600, 0o700)))

    def link(self) -> None:
        path = self._path()
        if self._free(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            os.symlink(self.chance.choice(("a", "nowhere", "src", "..")), path)

    def rules(self) -> None:
        rules = self.folder / ".gitignore"
        match self.chance.randrange(4):
            case 0 if rules.exists():
                os.rename(rules, self.folder / "was-gitignore")
            case 1 if self._free(self.folder / "src" / "x"):
                write(self.folder, "src/.gitignore", self.chance.choice(_RULES))
            case _ if self._free(rules):
                write(self.folder, ".gitignore", self.chance.choice(_RULES))
            case _:
                pass

    def nest(self) -> None:
        path = self.folder / self.chance.choice(("nested", "src/nested"))
        if self._free(path / "x"):
            repository(path, inner=self._text())

    def submodule(self) -> None:
        if self.kind == "sha1" and not os.path.lexists(self.folder / "module"):
            origin = self.folder.parent / f"{self.folder.name}-origin"
            if not origin.exists():
                repository(origin, inner="x")
            git(self.folder, "submodule", "add", "-q", "-f", str(origin), "module")

    def point(self) -> None:
        write(self.folder, "large.bin", _POINTER.format(f"{self.chance.getrandbits(256):064x}"))
        write(self.folder, ".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")

    def turn(self) -> None:
        """A file becomes a folder, or a folder a file."""
        path = self.folder / "src"
        if path.is_symlink() or path.is_file():
            path.unlink()
            write(self.folder, "src/now-a-folder", self._text())
        elif path.is_dir() and not (path / "nested").exists():
            shutil.rmtree(path)
            write(self.folder, "src", self._text())

    def pipe(self) -> None:
        path = self.folder / "pipe"
        if not os.path.lexists(path):
            os.mkfifo(path)

    def commit(self) -> None:
        if self.kind != "plain":
            with suppress(subprocess.CalledProcessError):  # a nested one without a commit
                git(self.folder, "add", "-A", "--ignore-errors", ".")
            git(self.folder, "commit", "-q", "--allow-empty", "-m", "by the run")
