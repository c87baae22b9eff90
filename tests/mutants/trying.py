"""Tries a mutant: its tests run in a copy of the project that cannot reach anything else.

A fault in code that kills processes and removes files may kill and remove anything. So each trial
has process numbers of its own, and a file system that is read-only but for its scratch folders.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.mutants.modules import PROJECT

_COPIED = ("orchestrate", "tests", "schemas", "workflows", "prompts", "pyproject.toml", "Makefile")
# Mounts are private; the copy and its scratch folders are all that can be written to.
_ISOLATED = """\
mount --make-rprivate / &&
mount --bind "$1" "$1" &&
mount -t tmpfs tmpfs /dev/shm &&
mount -o remount,bind,ro / &&
cd "$1" && shift && exec "$@"
"""
# Enough for a slow machine; what takes longer hangs, and that was noticed.
_PATIENCE_S = 30.0
_SLOWER = 4.0
_LONGEST_TEST_S = 20


class CannotIsolate(Exception):
    """This machine gives us no namespaces; nothing is tried without them."""


class Copy:
    """A copy of the project with an interpreter that imports from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said = ""  # by the tests, the last time
        for name in _COPIED:
            if (PROJECT / name).is_dir():
                shutil.copytree(PROJECT / name, folder / name)
            else:
                shutil.copy(PROJECT / name, folder / name)
        (folder / "scratch").mkdir()
        venv.create(folder / ".venv", with_pip=False, symlinks=True)
        self._python = folder / ".venv" / "bin" / "python"
        packages = next((folder / ".venv" / "lib").glob("python*")) / "site-packages"
        # Files of this name are followed in one folder only, so the project's own is not.
        (packages / "copy.pth").write_text(f"{folder}\n{sysconfig.get_path('purelib')}\n")

    def is_healthy(self, tests: tuple[str, ...]) -> bool:
        """Do the tests pass without any fault, here and like this?"""
        return self.run(tests, patience_s=600, keeps_bytecode=True) == 0

    def kills(self, module: str, source: str, tests: tuple[str, ...], usual_s: float) -> bool:
        """Do the tests notice it?"""
        file = self.folder / module
        before, times = file.read_bytes(), file.stat()
        file.write_text(source, "utf-8")
        try:
            return self.run(tests, patience_s=_PATIENCE_S + _SLOWER * usual_s) != 0
        finally:
            file.write_bytes(before)
            # Bytecode goes by a source's time: that of the sound module holds again.
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    def run(
        self, tests: tuple[str, ...], patience_s: float, *, keeps_bytecode: bool = False
    ) -> int:
        """The exit code of the tests; they end at the first failure.

        Who noticed the mutant before, mostly one of the same line, is asked first.
        """
        scratch = self.folder / "scratch"
        command = [
            "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
            "sh", "-c", _ISOLATED, "sh", str(self.folder),
            str(self._python), "-m", "pytest", "-x", "-q", "--failed-first",
            "-o", f"faulthandler_timeout={_LONGEST_TEST_S}",
            "-o", "faulthandler_exit_on_timeout=true",
            "-o", f"cache_dir={self.folder / '.cache'}", f"--basetemp={scratch / 'pytest'}", *tests,
        ]  # fmt: skip
        environment = {
            **os.environ, "TMPDIR": str(scratch), "HOME": str(scratch), "PYTHONPATH": "",
            "PYTHONDONTWRITEBYTECODE": "" if keeps_bytecode else "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(scratch / "h"),
        }  # fmt: skip
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, timeout=patience_s, check=False,
                # `kill(0)` reaches the whole group, also those of it outside of the namespace.
                start_new_session=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return 124
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(exist_ok=True)
        if b"unshare:" in done.stderr or b"mount:" in done.stderr:
            raise CannotIsolate(done.stderr.decode("utf-8", "replace").strip())
        self.said = done.stdout.decode("utf-8", "replace")
        return done.returncode


def describe(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
