"""`make fleet-demo`: a machine is lost, and the other one goes on."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrate.fleet.seat import Seat
from orchestrate.fleet.sitting import _announce_loss


def test_the_demo_knows_how_a_loss_is_announced(
    repository: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    _announce_loss(Seat("r", "", ""), "one", has_begun=True)
    demo = runpy.run_path(str(repository / "demo" / "fleet_demo.py"))
    assert demo["LOSS"] in capfd.readouterr().err


@pytest.mark.fleet
@pytest.mark.soak
def test_the_demo_shows_each_item_once_or_announced(repository: Path) -> None:
    """It fails by itself otherwise."""
    done = subprocess.run(
        [sys.executable, str(repository / "demo" / "fleet_demo.py")],
        capture_output=True, encoding="utf-8", check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "16 of 16 items" in done.stdout
