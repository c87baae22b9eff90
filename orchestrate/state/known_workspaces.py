"""The workspaces that a user has run something in: noted once each in the user's state folder.

What waits for a person is looked for in all of them. A note is only a hint: a run needs none, and
a folder that is gone is told as such for a month.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from orchestrate.digest import sha256_of
from orchestrate.errors import OrchestrateError
from orchestrate.record import record
from orchestrate.state.durable import dump_json, parse_json, read_file, write_visibly
from orchestrate.state.locks import user_state_folder

_FOLDER = "known"
_REMEMBERED_S = 30 * 86_400.0


@record
class Known:
    """A workspace, and the folder of its runs."""

    workspace: Path
    runs: Path

    @property
    def is_gone(self) -> bool:
        return not self.workspace.is_dir()


def note_workspace(workspace: Path, runs: Path, environment: Mapping[str, str]) -> None:
    """Remember the workspace of a run; whatever goes wrong here, the run goes on."""
    content = dump_json([os.fspath(workspace), os.fspath(runs)])
    with suppress(OSError, OrchestrateError):
        folder = user_state_folder(environment) / _FOLDER
        path = folder / f"{sha256_of(content)[:32]}.json"
        if not path.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_visibly(path, content)


def known_workspaces(environment: Mapping[str, str]) -> list[Known]:
    """Those that were noted, by their paths."""
    found = []
    with suppress(OSError, OrchestrateError):
        for path in (user_state_folder(environment) / _FOLDER).glob("*.json"):
            with suppress(OSError, ValueError, TypeError, OrchestrateError):
                workspace, runs = parse_json(read_file(path) or b"")
                known = Known(Path(workspace), Path(runs))
                if known.is_gone and time.time() - path.stat().st_mtime > _REMEMBERED_S:
                    path.unlink()
                else:
                    found.append(known)
    return sorted(found, key=lambda known: (known.workspace, known.runs))
