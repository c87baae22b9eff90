"""Whatever an author may write is shown before it runs: in the plan, and in the dry run.

`shown_fields/DIALECT.yaml` has for each field of the dialect's schema a change to a trial file that
gives it another value (`null` takes it away, `in` names another file than the usual one); some
fields have one for each kind of step. What is shown must then be different; the few fields that a
view leaves out are named there, with the reason.
"""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from docs.pages import REPOSITORY
from orchestrate.compile import compile_file, require_program
from orchestrate.record import replace
from orchestrate.show.dry_run import render_dry_run
from orchestrate.show.plan_text import render_text
from orchestrate.workspace import open_workspace

FIELDS = Path(__file__).with_name("shown_fields")
DIALECTS = ("machine", "recipe", "workflow")
CHILD = {
    "name": "child",
    "description": "What the trials call",
    "version": "1.0.0",
    "inputs": {"what": {"default": "all"}},
    "steps": [{"id": "look", "prompt": "Look at {{what}}."}],
}
_PLACE = re.compile(r" +\[\S+:\d+:\d+\+\d+\]")


@cache
def table(dialect: str) -> dict[str, Any]:
    """The dialect's files and changes, with the changes that all dialects have."""
    common, own = (
        YAML(typ="safe").load((FIELDS / f"{name}.yaml").read_text("utf-8"))
        for name in ("common", dialect)
    )
    return {**own, "changes": {**common["changes"], **own["changes"]}}


def fields_of(dialect: str) -> set[str]:
    """Every field of the schema, behind the name of the mapping that has it."""
    schema = json.loads((REPOSITORY / "schemas" / f"{dialect}.schema.json").read_text("utf-8"))
    found = set()
    for name, definition in schema["$defs"].items():
        for field, shape in definition.get("properties", {}).items():
            found.add(f"{name}.{field}")
            for part in (shape, *shape.get("anyOf", ())):
                found |= {f"{name}/{field}.{inner}" for inner in part.get("properties", {})}
    # What an editor reads, and what is gone once the files are composed.
    return {one for one in found if not one.endswith(".$schema") and not one.startswith("include.")}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_field_has_its_trial(dialect: str) -> None:
    assert {change.partition(" ")[0] for change in table(dialect)["changes"]} == fields_of(dialect)


def changed(document: Any, changes: dict[str, Any]) -> Any:
    """The document with other values at places such as `steps.ask.model`."""
    document = copy.deepcopy(document)
    for place, value in changes.items():
        *way, last = place.split(".")
        holder = document
        for word in way:
            is_list = isinstance(holder, list)
            holder = named(holder, word) if is_list else holder.setdefault(word, {})
        if isinstance(holder, list):
            holder[holder.index(named(holder, last))] = value
        elif value is None:
            del holder[last]
        else:
            holder[last] = value
    return document


def named(steps: list[Any], name: str) -> Any:
    return next(one for one in steps if name in (one.get("id"), one.get("name")))


def shown(document: Any) -> tuple[str, str]:
    """The plan without what follows from the text alone, and the dry run."""
    Path("case.yaml").write_text(json.dumps(document), "utf-8")
    compilation = compile_file(Path("case.yaml"), open_workspace())
    assert not [one for one in compilation.diagnostics if one.code.startswith("E")]
    program = replace(require_program(compilation), files=())
    return _PLACE.sub("", render_text(program)), render_dry_run(program)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_plan_and_dry_run_show_every_field(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("child.yaml").write_text(json.dumps(CHILD), "utf-8")
    Path("verdict.json").write_text("{}", "utf-8")
    files = table(dialect)["files"]
    silent: dict[str, set[str]] = {"plan": set(), "dry_run": set()}
    before = {name: shown(document) for name, document in files.items()}
    for change, places in table(dialect)["changes"].items():
        file = places.get("in", "usual")
        values = {place: value for place, value in places.items() if place != "in"}
        after = shown(changed(files[file], values))
        for view, then, now in zip(silent, before[file], after, strict=True):
            if then == now:
                silent[view].add(change)
    expected = {view: set(table(dialect).get(f"not_in_{view}", ())) for view in silent}
    assert silent == expected
