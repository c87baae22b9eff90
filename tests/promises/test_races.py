"""Paths that change while they are opened: no read and no write ever leaves the workspace."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrate.engine.confine import PathFault, open_for_output, open_regular
from orchestrate.workspace import Workspace, open_workspace
from tests.promises.flipping import flipping

SECRET = "OUTSIDE\n"
Try = Callable[[Workspace], str]


def read(workspace: Workspace) -> str:
    with open_regular(workspace, "link/file.txt") as opened:
        return opened.read().decode()


def write(workspace: Workspace) -> str:
    with open_for_output(workspace, "link/out.txt") as opened:
        opened.write(b"x")
    return "written"


def make(workspace: Workspace) -> str:
    with open_for_output(workspace, "link/deep/new/out.txt") as opened:
        opened.write(b"x")
    return "written"


@pytest.mark.parametrize(
    "opens", [600, pytest.param(100_000, marks=pytest.mark.soak)], ids=["some", "many"]
)
@pytest.mark.parametrize("attempt", [read, write, make])
def test_no_open_leaves_the_workspace(attempt: Try, opens: int, quick_top: Path) -> None:
    """A link leads in and out by turns, every third of a millisecond."""
    outside = quick_top / "outside"
    inside = quick_top / "workspace" / "inside"
    for folder in (outside, inside):
        folder.mkdir(parents=True)
    (outside / "file.txt").write_text(SECRET, "utf-8")
    (inside / "file.txt").write_text("inside\n", "utf-8")
    workspace = open_workspace(quick_top / "workspace")
    link = workspace.root / "link"
    link.symlink_to("inside")
    seen: Counter[str] = Counter()
    done = 0
    # A quiet machine may be done with all of them before the flipper has begun.
    while done < opens or (len(seen) < 2 and done < opens + 100_000):
        # The flipper ends by itself after a minute.
        share = min(max(opens - done, 1000), 20_000)
        with flipping(link, "inside", str(outside)):
            for _ in range(share):
                try:
                    seen[attempt(workspace)] += 1
                except PathFault:
                    seen["refused"] += 1
        done += share
    print(f"{attempt.__name__}: {opens} opens, {dict(seen)}")
    assert SECRET not in seen, "a file outside was read"
    assert os.listdir(outside) == ["file.txt"], "something was put outside"
    assert (outside / "file.txt").read_text("utf-8") == SECRET
    assert len(seen) == 2, f"both ends of the link must have been met: {seen}"
