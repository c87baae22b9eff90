"""Findings for other programs: JSON, GitHub's workflow commands and SARIF 2.1.0."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from orchestrate import __version__
from orchestrate.codes import CODES
from orchestrate.diagnostics import CheckedFile, Diagnostic, distinct
from orchestrate.errors import DefinitionError, OrchestrateError
from orchestrate.plan.visible import visible
from orchestrate.show.findings import sentence

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def json_document(files: Sequence[CheckedFile]) -> dict[str, Any]:
    """`validate --format json`."""
    severities = [diagnostic.severity for diagnostic in distinct(files)]
    return {
        "files": [
            {
                "file": file.file,
                "dialect": file.dialect,
                "valid": file.valid,
                "diagnostics": [diagnostic_json(diagnostic) for diagnostic in file.diagnostics],
                "dropped": file.dropped,
            }
            for file in files
        ],
        "errors": severities.count("error"),
        "warnings": severities.count("warning"),
    }


def diagnostic_json(diagnostic: Diagnostic) -> dict[str, Any]:
    span = diagnostic.span
    return {
        "code": diagnostic.code,
        "name": diagnostic.name,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
        "suggestion": diagnostic.suggestion,
        "file": span.file,
        "line": span.line,
        "column": span.column,
        "length": span.length,
    }


def error_document(error: OrchestrateError) -> dict[str, Any]:
    """What a command with --json answers when it has no answer."""
    document: dict[str, Any] = {
        "error": {"message": error.message, "hint": error.hint, "exit_code": error.exit_code}
    }
    if isinstance(error, DefinitionError):
        document["diagnostics"] = [diagnostic_json(diagnostic) for diagnostic in error.diagnostics]
    return document


def github_commands(diagnostics: Iterable[Diagnostic]) -> str:
    """One annotation per finding, as GitHub Actions reads them from a job's output."""
    return "".join(_github_command(diagnostic) for diagnostic in diagnostics)


def _github_command(diagnostic: Diagnostic) -> str:
    span = diagnostic.span
    properties = {
        "file": visible(span.file),
        "line": str(span.line),
        "col": str(span.column),
        "endColumn": str(span.column + max(span.length, 1)),
        "title": f"{diagnostic.code} {diagnostic.name}",
    }
    listed = ",".join(f"{key}={_escape_property(text)}" for key, text in properties.items())
    hint = "\n".join(f"hint: {visible(line)}" for line in diagnostic.hint.splitlines())
    message = sentence(diagnostic) + ("\n" + hint if hint else "")
    return f"::{diagnostic.severity} {listed}::{_escape_data(message)}\n"


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


def sarif_document(diagnostics: Sequence[Diagnostic]) -> dict[str, Any]:
    """`validate --format sarif`: one run, with the rules that were broken."""
    codes = sorted({diagnostic.code for diagnostic in diagnostics})
    return {
        "$schema": _SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "orchestrate",
                        "version": __version__,
                        "rules": [_sarif_rule(code) for code in codes],
                    }
                },
                # Our columns count characters, not UTF-16 units.
                "columnKind": "unicodeCodePoints",
                "results": [
                    _sarif_result(diagnostic, codes.index(diagnostic.code))
                    for diagnostic in diagnostics
                ],
            }
        ],
    }


def _sarif_rule(code: str) -> dict[str, Any]:
    level = "error" if code.startswith("E") else "warning"
    name, summary = CODES[code]
    return {
        "id": code,
        "name": name,
        "shortDescription": {"text": summary},
        "defaultConfiguration": {"level": level},
    }


def _sarif_result(diagnostic: Diagnostic, rule: int) -> dict[str, Any]:
    span = diagnostic.span
    hint = f"\n{diagnostic.hint}" if diagnostic.hint else ""
    region = {
        "startLine": span.line,
        "startColumn": span.column,
        "endColumn": span.column + max(span.length, 1),
    }
    return {
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": diagnostic.severity,
        "message": {"text": sentence(diagnostic) + hint},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": artifact_uri(span.file)},
                    "region": region,
                }
            }
        ],
    }


def artifact_uri(file: str) -> str:
    """A file's name as a URI reference: relative where the name is, else a file: URI."""
    from urllib.parse import quote

    path = quote(os.fsencode(file))
    return f"file://{path}" if file.startswith("/") else path
