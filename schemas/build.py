"""Writes the JSON Schema files next to it from the definitions; --check says if they are stale."""

import argparse
import json
import sys
from pathlib import Path

from definitions import (
    agent,
    config,
    fleet,
    machine,
    qa_verdict,
    recipe,
    state,
    status,
    workflow,
)
from definitions.includes import allow_includes
from definitions.parts import Schema

FOLDER = Path(__file__).resolve().parent

# Only what people compose with `$include` is opened to it; the rest stays strict everywhere.
SCHEMAS: dict[str, Schema] = {
    "machine": allow_includes(machine.SCHEMA, "machine"),
    "recipe": allow_includes(recipe.SCHEMA, "recipe"),
    "workflow": allow_includes(workflow.SCHEMA, "workflow"),
    "state": state.SCHEMA,
    "status": status.SCHEMA,
    "qa_verdict": qa_verdict.SCHEMA,
    "config": config.SCHEMA,
    "fleet": fleet.SCHEMA,
    "agent": agent.SCHEMA,
}


def render(schema: Schema) -> str:
    """Give the text of a schema file."""
    return json.dumps(schema, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def find_stale(folder: Path) -> list[Path]:
    """List the schema files in a folder that differ from the definitions."""
    stale = []
    for name, schema in SCHEMAS.items():
        path = folder / f"{name}.schema.json"
        if not path.is_file() or path.read_bytes() != render(schema).encode():
            stale.append(path)
    return stale


def main(arguments: list[str] | None = None) -> int:
    """Write the schema files that changed, or with --check only report them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 when stale")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the files are")
    options = parser.parse_args(arguments)
    stale = find_stale(options.folder)
    for path in stale:
        if options.check:
            print(f"{path.name} is stale: run python schemas/build.py", file=sys.stderr)
        else:
            name = path.name.removesuffix(".schema.json")
            path.write_bytes(render(SCHEMAS[name]).encode())
            print(f"wrote {path.name}")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
