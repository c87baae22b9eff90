"""Where `spread` gives nothing away: runs here, and pools that no server knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.fleet.seat import Seat, encoded
from orchestrate.testing import Project

LOOP = """
version: "1.4"
name: loop
steps:
  - name: Each
    for_each:
      items: [a, b]
      parallel: true
      spread: desk
      steps:
        - {name: Make, command: [sh, -c, 'echo "$1" > "$1.txt"', make, "${item}"]}
"""
RECIPE = """
name: recipe
description: d
version: "1.0.0"
steps:
  - {id: call, type: recipe, recipe: inner.yaml, spread: desk}
"""
INNER = """
name: inner
description: d
version: "1.0.0"
steps:
  - {id: make, type: bash, command: echo made > made.txt}
"""
MACHINE = """
id: machine
label: M
description: d
initialStep: call
steps:
  call:
    call: inner.yaml
    spread: desk
    onOutcome:
      completed: {action: exit, reason: done}
      failed: {action: exit, reason: broken, status: failed}
"""
FILES = {"loop.yaml": LOOP, "recipe.yaml": RECIPE, "inner.yaml": INNER, "machine.yaml": MACHINE}


class Here(Project):
    """A folder whose user knows a pool that `ssh` leads to."""

    def __init__(self, top: Path) -> None:
        self._config = top / "config"
        settings = self._config / "orchestrate" / "fleet.yaml"
        settings.parent.mkdir(parents=True)
        settings.write_text("pools: {desk: {ssh: [host-a]}}\n")
        settings.chmod(0o600)
        (top / "here").mkdir()
        super().__init__(top / "here", FILES)

    @property
    def surroundings(self) -> dict[str, str]:
        return {**super().surroundings, "XDG_CONFIG_HOME": str(self._config)}


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


@pytest.mark.parametrize(
    ("file", "made"),
    [("loop.yaml", "b.txt"), ("recipe.yaml", "made.txt"), ("machine.yaml", "made.txt")],
)
def test_without_a_fleet_it_is_an_ordinary_loop_or_call(here: Here, file: str, made: str) -> None:
    here.run("run", file).assert_success()
    assert (here.folder / made).exists()


@pytest.mark.parametrize("file", ["loop.yaml", "recipe.yaml", "machine.yaml"])
def test_items_of_runs_over_ssh_need_a_pool_of_that_kind(here: Here, file: str) -> None:
    text = (here.folder / file).read_text()
    (here.folder / file).write_text(text.replace("spread: desk", "spread: gpu"))
    refused = here.run("run", file, "--fleet", "desk").assert_exit(2)
    step = "Each" if file == "loop.yaml" else "call"
    assert f"step '{step}' is spread over gpu, which needs a server" in refused.stderr
    assert "`ssh:` pools: desk" in refused.stderr


def test_items_have_places_and_references_of_their_own() -> None:
    assert encoded("Each[3]") == "Each%5B3%5D"
    assert encoded("restart-1/Größe:2[0]/Call@2()") == (
        "restart-1/Gr%C3%B6%C3%9Fe%3A2%5B0%5D/Call%402%28%29"
    )
    run = Seat("20261118T000000Z-aaaaaa", "/root", "mirror", remote="r")
    item = Seat(run.run, "/root", "mirror", remote="r", item="Each[3]")
    assert item.id == f"{run.run}/Each[3]"
    assert item.work == f"refs/orchestrate/{run.run}/items/Each%5B3%5D/work"
    assert run.state == f"refs/orchestrate/{run.run}/state"
    assert item.folder.name == run.folder.name
    assert {item.tree, item.states, item.branch}.isdisjoint({run.tree, run.states, run.branch})
