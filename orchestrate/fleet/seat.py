"""Where a run works on a machine, and where what it publishes goes.

ROOT/
  mirrors/NAME.git      one for each repository: what was pushed and what is published
  seats/RUN/            the work tree of a run
  states/RUN/RUN/       its run folder, alone in its folder: there, `latest` is this run
  indexes/RUN/          what the last publication knew of unchanged files

An item of a run that is spread has a place of its own, RUN-DIGEST; the folder in it is the run's,
as it was when the item was sent, and goes on with the item alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrate.digest import digest_of
from orchestrate.record import record

_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")

# In the folder that has the run's: it only waits for its items; it needs its slot again.
WAITS, WANTS = "waits", "wants"

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
    `machine`: what the machine of `root` is called where runs are listed.
    """

    run: str
    root: str
    mirror: str
    inside: str = ""
    publish: str = "30s"
    remote: str = ""
    permit_s: float = 0
    # The key of the item's frame.
    item: str = ""
    machine: str = ""

    @property
    def name(self) -> str:
        return f"{self.run}-{digest_of(self.item.encode())[-12:]}" if self.item else self.run

    @property
    def id(self) -> str:
        """What its workflow is called."""
        return f"{self.run}/{self.item}" if self.item else self.run

    @property
    def refs(self) -> str:
        """The references of what is published begin with this."""
        published = f"refs/orchestrate/{self.run}/"
        return f"{published}items/{encoded(self.item)}/" if self.item else published

    @property
    def work(self) -> str:
        return f"{self.refs}work"

    @property
    def state(self) -> str:
        return f"{self.refs}state"

    @property
    def fetched(self) -> str:
        """The references of what was fetched begin with this."""
        return f"refs/fetched/{self.name}/"

    @property
    def seen(self) -> str:
        """As `fetched`, of an item that its run looks at; its own machine may be the same one."""
        return f"refs/items/{self.run}/{self.name}/"

    @property
    def branch(self) -> str:
        return f"orchestrate/{self.name}"

    @property
    def tree(self) -> Path:
        return Path(self.root) / "seats" / self.name

    @property
    def workspace(self) -> Path:
        return self.tree / self.inside

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return self.states / self.run

    @property
    def states(self) -> Path:
        return Path(self.root) / "states" / self.name

    @property
    def indexes(self) -> Path:
        return Path(self.root) / "indexes" / self.name

    @property
    def repository(self) -> Path:
        return Path(self.root) / "mirrors" / f"{self.mirror}.git"

    def to_json(self) -> dict[str, Any]:
        return {
            "run": self.run, "root": self.root, "mirror": self.mirror,
            "inside": self.inside, "publish": self.publish,
            **({"remote": self.remote} if self.remote else {}),
            **({"permit_s": self.permit_s} if self.permit_s else {}),
            **({"item": self.item} if self.item else {}),
            **({"machine": self.machine} if self.machine else {}),
        }  # fmt: skip


def seat_of(document: Mapping[str, Any]) -> Seat:
    """A seat as it was written down."""
    names = ("run", "root", "mirror", "inside", "publish", "remote", "item", "machine")
    texts = {name: str(document[name]) for name in names if name in document}
    return Seat(**texts, permit_s=float(document.get("permit_s", 0)))


def encoded(key: str) -> str:
    """A frame's key as git takes it in the name of a reference."""
    return "/".join(
        "".join(c if c in _PLAIN else f"%{ord(c):02X}" for c in part.encode().decode("latin-1"))
        for part in key.split("/")
    )


def work_ref(run: str) -> str:
    """The reference of the published workspace."""
    return f"refs/orchestrate/{run}/work"


def state_ref(run: str) -> str:
    """The reference of the published run folder."""
    return f"refs/orchestrate/{run}/state"
