"""The OpenAPI document of the HTTP interface, made from its operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from orchestrate import __version__
from orchestrate.serve.operations import Operation, Param

Json = dict[str, Any]

_PROBLEM = {
    "description": "A problem (RFC 9457), with the exit code of the command.",
    "content": {
        "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
    },
}  # fmt: skip
_SCHEMAS = {
    "Problem": {
        "type": "object",
        "required": ["type", "title", "status", "detail", "exit_code"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "hint": {"type": "string"},
            "exit_code": {"type": "integer"},
        },
    }
}


def openapi_document(operations: Iterable[Operation]) -> Json:
    paths: Json = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "orchestrate",
            "version": __version__,
            "description": "Runs of recipes: read, started, answered and ended. Every route needs "
            "the key as a bearer token, or the page's session.",
        },
        "security": [{"key": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "orchestrate-8484"},
            },
        },
    }


def _described(operation: Operation) -> Json:
    answer: Json = {"description": operation.about}
    content = operation.media
    is_json = content == "application/json"
    answer["content"] = {content: {"schema": operation.answer if is_json else {"type": "string"}}}
    found: Json = {
        "operationId": operation.name,
        "summary": operation.about,
        "responses": {str(operation.status): answer, "default": _PROBLEM},
    }
    parameters = [_parameter(one) for one in operation.params]
    if operation.takes_key:
        parameters.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "The same key again gives the same answer, and starts nothing.",
                "schema": {"type": "string", "maxLength": 200},
            }
        )
    if parameters:
        found["parameters"] = parameters
    if operation.body is not None:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": operation.body}},
        }
    return found


def _parameter(one: Param) -> Json:
    return {
        "name": one.name,
        "in": "path" if one.is_path else "query",
        "required": one.required,
        "description": one.about,
        "schema": one.schema,
    }
