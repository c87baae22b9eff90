"""What went wrong, as RFC 9457 problem documents with our exit code and the command's own words."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse

from orchestrate.errors import (
    ConfigError,
    DefinitionError,
    InternalError,
    OrchestrateError,
    StateError,
    UsageError,
)
from orchestrate.show.formats import error_document

MEDIA_TYPE = "application/problem+json"


class Problem(OrchestrateError):
    """A refusal with a status; `more` are members of the document."""

    def __init__(
        self, status: int, message: str, hint: str = "", *, exit_code: int = 2, **more: Any
    ) -> None:
        super().__init__(message, hint)
        self.status = status
        self.exit_code = exit_code
        self.more = more


def status_of(error: OrchestrateError) -> int:
    match error:
        case Problem():
            return error.status
        case DefinitionError():
            return 422
        case UsageError():
            return 400
        case ConfigError() | StateError():
            return 409
        case _:
            return 500


def problem_of(error: OrchestrateError) -> JSONResponse:
    status = status_of(error)
    document: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": error.message,
        "exit_code": error.exit_code,
    }
    if error.hint:
        document["hint"] = error.hint
    if isinstance(error, DefinitionError):
        document["errors"] = error_document(error)
    if isinstance(error, InternalError):
        document["hint"] = error.hint or "this is a bug in orchestrate; please report it"
    if isinstance(error, Problem):
        document |= error.more
    return JSONResponse(document, status, media_type=MEDIA_TYPE)
