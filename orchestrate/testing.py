"""For tests of recipes: a throw-away project that the real command runs in.

`Project(tmp_path, {"workflows/x.yaml": text}).run("validate", "workflows/x.yaml")` starts it as a
user would and returns what it did.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

from orchestrate.record import record


@record
class Result:
    """What one call of the command did."""

    arguments: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str

    def assert_success(self) -> Result:
        return self.assert_exit(0)

    def assert_exit(self, code: int) -> Result:
        assert self.exit_code == code, (
            f"orchestrate {' '.join(self.arguments)} ended with {self.exit_code}, not {code}\n"
            f"--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"
        )
        return self

    def json(self) -> Any:
        """Standard output as the one JSON document it must be."""
        return json.loads(self.stdout)

    def codes(self) -> list[str]:
        """The codes that `validate --format json` reported, in order."""
        return [finding["code"] for file in self.json()["files"] for finding in file["diagnostics"]]


class Project:
    """A folder with files in it, and a way to run `orchestrate` there as a user would."""

    def __init__(self, folder: Path, files: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        for name, text in (files or {}).items():
            self.write(name, text)

    def write(self, name: str, text: str) -> Path:
        """Write a file; the text may be indented like the code around it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"), "utf-8")
        return path

    def run(
        self, *arguments: str, env: Mapping[str, str] | None = None, timeout_s: float = 60
    ) -> Result:
        """Start the real command in a real process, with no terminal and no input."""
        surroundings = {**os.environ, "NO_COLOR": "1", **(env or {})}
        finished = subprocess.run(
            [sys.executable, "-m", "orchestrate", *arguments],
            cwd=self.folder,
            env=surroundings,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=timeout_s,
            check=False,
        )
        return Result(arguments, finished.returncode, finished.stdout, finished.stderr)

    def validate(self, *arguments: str) -> Result:
        """`validate` with findings as data, for `Result.codes`."""
        return self.run("validate", "--format", "json", *arguments)
