"""Copies into our store what the first checkpoint found in the user's repository already.

The first capture takes over the user's index, and so reads no file that has not changed since it
was committed. The objects are copied beside the run's own work. Until they all are, `pending` names
the tree; who finds it finishes the copy. The user may collect garbage afterwards.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from orchestrate.checkpoints.model import CheckpointError
from orchestrate.checkpoints.program import LONGEST_S, own_git, quoted
from orchestrate.state.durable import read_file, write_visibly

# Speed matters more than size: what is packed there already is taken over as it is.
_PACK = ("pack-objects", "-q", "--revs", "--window=0", "--threads=1")


class Copying:
    """One copy at a time; the newest tree that is wanted has the objects of its own capture."""

    def __init__(self, folder: Path, program: str) -> None:
        self._folder = folder
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def _pending(self) -> Path:
        return self._folder / "pending"

    def begin(self, tree: str, objects: Path) -> None:
        """Start to copy a tree from the objects of the user's repository."""
        self.finish()
        write_visibly(self._pending, f"{tree}\n{objects}\n".encode("utf-8", "surrogateescape"))
        self._start(tree, objects)

    def look(self) -> None:
        """Has the copy ended? Then it need not be asked about again."""
        if self._process is not None and self._process.poll() is not None:
            self.finish()

    def finish(self) -> None:
        """Wait until everything is copied; an error says that it cannot be."""
        wanted = read_file(self._pending)
        if wanted is not None and self._process is None:
            tree, objects = wanted.decode("utf-8", "surrogateescape").splitlines()
            self._start(tree, Path(objects))
        process, self._process = self._process, None
        if process is None:
            return
        try:
            code = process.wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = -1
        if code != 0:
            raise CheckpointError(
                f"the first checkpoint of {self._folder.parent.name} is not whole: "
                "not all of its objects could be copied from the repository"
            )
        self._pending.unlink(missing_ok=True)

    def _start(self, tree: str, objects: Path) -> None:
        git = own_git(self._program, self._folder).with_variables(
            GIT_ALTERNATE_OBJECT_DIRECTORIES=quoted(str(objects))
        )
        pack = str(self._folder / "objects" / "pack" / "pack")
        self._process = git.begin(*_PACK, pack, given=f"{tree}\n".encode())
