"""`make demo` shows the loop, with the product alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_demo_shows_the_loop(repository: Path) -> None:
    """It fails by itself when an agent's call is repeated or lost."""
    done = subprocess.run(
        [sys.executable, str(repository / "demo" / "demo.py")],
        capture_output=True, encoding="utf-8", check=False, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for shown in (
        "{nextStep: aprove}\n      |                            ^^^^^^",  # a typo
        "20 of 20 routes taken",
        "its programs still run and will be adopted",  # killed
        "Three calls in one session, though the run was killed",
        "Add slug()",  # committed
        "cost        $0.0360 in 3 agent calls",
        "Run `",  # the report
    ):
        assert shown in done.stdout, shown
    told = done.stderr
    assert "Step implement:check-1 failed" in told  # the tests decided
    assert "waits for an approval of 'approve'" in told
