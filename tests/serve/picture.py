"""Makes the README's picture of the console from a real run: `python -m tests.serve.picture`."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from orchestrate.serve.console import Console
from orchestrate.serve.server import Wanted, make_console
from orchestrate.testing import Project
from orchestrate.workspace import open_workspace
from tests.serve.browser import chromium
from tests.serve.conftest import serving

PICTURE = Path(__file__).parents[2] / "docs" / "console.png"
RECIPE = """
id: ship
label: Implement, test, ask, ship
description: A program implements, the tests decide, a person approves.
initialStep: implement
steps:
  implement:
    command: ["sh", "-c", "sleep 1; echo 'print(1, 2, 3)' > greet.py; echo implemented"]
    onOutcome:
      passed: {nextStep: test}
      failed: {action: exit, reason: not-implemented, status: failed}
  test:
    command: ["sh", "-c", "test -e .tried || { touch .tried; exit 1; }; echo 14 passed"]
    onOutcome:
      passed: {nextStep: ask}
      failed: {nextStep: implement}
  ask:
    approval: {prompt: "The tests pass. Ship it?", timeout: 24h}
    onOutcome:
      approved: {nextStep: ship}
      denied: {action: exit, reason: denied}
  ship:
    command: ["echo", "shipped"]
    onOutcome:
      passed: {action: exit, reason: shipped}
      failed: {action: exit, reason: not-shipped, status: failed}
"""


def main() -> None:
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
            os.environ[name] = str(base / name)
        folder = base / "shop"
        project = Project(folder)
        project.write(".orchestrate/recipes/ship.yaml", RECIPE)
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        project.spawn("run", "ship").assert_exit(6)

        def make(port: int) -> Console:
            return make_console(Wanted((open_workspace(folder),), port=port))

        console = stack.enter_context(serving(make))
        page = stack.enter_context(stack.enter_context(chromium()).page())
        page.size(1000, 1120)
        page.open(f"http://127.0.0.1:{console.port}/#k={console.keys.link()}")
        page.until("document.querySelector('.runs tbody a')")
        page.click(".runs tbody a")
        page.until("document.querySelector('.question') && document.querySelector('svg.plan')")
        time.sleep(0.5)
        page.picture(PICTURE)


if __name__ == "__main__":
    main()
