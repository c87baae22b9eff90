"""Reads the data files that flags name: `--context-file`, `--inputs-file`, `--script`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from orchestrate.errors import DefinitionError, UsageError
from orchestrate.exits import UNUSABLE
from orchestrate.source.json import parse_json
from orchestrate.source.located import Sources, pack
from orchestrate.source.reader import ReadFault, read_source
from orchestrate.source.yaml import parse_yaml


def read_given_file(flag: str, name: str, display: str) -> Any:
    """The data of a JSON or YAML file; types are kept, and mistakes are shown where they stand."""
    path = Path(os.path.abspath(name))
    sources = Sources()
    faults: list[ReadFault] = []
    data: Any = None
    try:
        source = read_source(path, display)
        sources.register(source)
        parse = parse_json if path.suffix.lower() == ".json" else parse_yaml
        data = parse(source.text, 0, faults.append)
    except ReadFault as fault:
        faults.append(fault)
    if faults and not sources.files:
        raise UsageError(f"{flag}: '{display}': {faults[0].message}", faults[0].hint)
    if faults:
        found = (
            sources.diagnostic(
                f.code, f.message, sources.span(pack(0, f.line, f.column)), hint=f.hint
            )
            for f in faults
        )
        raise DefinitionError(tuple(found), UNUSABLE)
    return data
