"""What is said to fields that similar tools have: our way, in fields that the dialect has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs.pages import REPOSITORY
from orchestrate.compile import compile_file
from orchestrate.source.foreign_fields import FOREIGN
from orchestrate.workspace import open_workspace

EXIT = {"action": "exit", "reason": "done"}
STEP = {
    "prompt": "Do it.",
    "outcomes": ["done", "other"],
    "onOutcome": {"done": EXIT, "other": EXIT},
}
FILES: dict[str, dict[str, Any]] = {
    "machine": {
        "id": "trial", "label": "Trial", "description": "A trial", "initialStep": "a",
        "steps": {"a": STEP},
    },
    "recipe": {
        "name": "trial", "description": "A trial", "version": "1.0.0",
        "steps": [{"id": "a", "prompt": "Do it."}],
    },
    "workflow": {
        "version": "1.4", "name": "trial",
        "steps": [{"name": "A", "provider": "claude", "prompt": "Do it."}],
    },
}  # fmt: skip
# The dialect that a marker belongs to, and whether its fields are those of a step.
PLACES = {
    "onOutcome": ("machine", True),
    "agent_config": ("recipe", True),
    "wait_for": ("workflow", True),
    "initialStep": ("machine", False),
    "stages": ("recipe", False),
    "strict_flow": ("workflow", False),
}
# Keys of the configuration, of an agent's settings and of an included file.
OTHERS = {"notifications", "max_turns"}


@pytest.mark.parametrize("marker", FOREIGN)
def test_a_field_of_another_tool_is_refused_with_our_way(
    marker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialect, is_of_step = PLACES[marker]
    monkeypatch.chdir(tmp_path)
    document = json.loads(json.dumps(FILES[dialect]))
    steps = document["steps"]
    holder = document if not is_of_step else steps["a"] if dialect == "machine" else steps[0]
    holder |= dict.fromkeys(FOREIGN[marker], "x")
    Path("trial.json").write_text(json.dumps(document), "utf-8")
    found = compile_file(Path("trial.json"), open_workspace()).diagnostics
    said = {one.message.split("'")[1]: one for one in found if one.code == "E101"}
    assert set(said) == set(FOREIGN[marker])
    for finding in said.values():
        assert finding.hint, finding.message
        assert not finding.suggestion, finding.message


@pytest.mark.parametrize("marker", FOREIGN)
def test_our_way_has_only_fields_of_the_dialect(marker: str) -> None:
    dialect, _ = PLACES[marker]
    schema = json.loads((REPOSITORY / "schemas" / f"{dialect}.schema.json").read_text("utf-8"))
    known = {name for part in schema["$defs"].values() for name in part.get("properties", {})}
    for field, hint in FOREIGN[marker].items():
        named = set(re.findall(r"(?:write |and |step: |[{,] ?)([a-zA-Z_]+):", hint))
        assert named - {"NAME", "done"} <= known | OTHERS, f"{field}: {hint}"
