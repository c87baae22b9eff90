"""Where a run works on a machine, and where what it publishes goes.

ROOT/
  mirrors/NAME.git      one for each repository: what was pushed and what is published
  seats/RUN/            the work tree of a run
  states/RUN/RUN/       its run folder, alone in its folder: there, `latest` is this run
  indexes/RUN/          what the last publication knew of unchanged files
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrate.record import record

# Whose commits ours are, as git wants to be told.
COMMITTER = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "orchestrate"), ("EMAIL", "orchestrate@localhost"))
}


@record
class Seat:
    """A run's place; `inside` is the workspace below the top of the repository, mostly ''.

    `remote`: the repository that publications are pushed to; '' if they stay in the mirror.
    `permit_s`: how long a permit of the fleet holds without a word; 0 where no worker gives any.
    """

    run: str
    root: str
    mirror: str
    inside: str = ""
    publish: str = "30s"
    remote: str = ""
    permit_s: float = 0

    @property
    def tree(self) -> Path:
        return Path(self.root) / "seats" / self.run

    @property
    def workspace(self) -> Path:
        return self.tree / self.inside

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.states / self.run

    @property
    def states(self) -> Path:
        return Path(self.root) / "states" / self.run

    @property
    def indexes(self) -> Path:
        return Path(self.root) / "indexes" / self.run

    @property
    def repository(self) -> Path:
        return Path(self.root) / "mirrors" / f"{self.mirror}.git"

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run, "root": self.root, "mirror": self.mirror,
            "inside": self.inside, "publish": self.publish,
            **({"remote": self.remote} if self.remote else {}),
            **({"permit_s": self.permit_s} if self.permit_s else {}),
        }  # fmt: skip


def seat_of(document: Mapping[str, Any]) -> Seat:
    """A seat as it was written down."""
    names = ("run", "root", "mirror", "inside", "publish", "remote")
    texts = {name: str(document[name]) for name in names if name in document}
    return Seat(**texts, permit_s=float(document.get("permit_s", 0)))


def work_ref(run: str) -> str:
    """The reference of the published workspace."""
    return f"refs/orchestrate/{run}/work"


def state_ref(run: str) -> str:
    """The reference of the published run folder."""
    return f"refs/orchestrate/{run}/state"
