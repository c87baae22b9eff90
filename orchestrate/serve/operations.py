"""An operation of the HTTP interface: its route, what it takes, and the work behind it.

One record makes the route, checks what a request carries, and is described in the OpenAPI document,
so that the three cannot differ.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrate.record import field, record
from orchestrate.serve.audit import Who
from orchestrate.serve.console import Console
from orchestrate.serve.problems import Problem
from orchestrate.serve.sign_in import body_of, console_of

Json = dict[str, Any]
MOST_TEXT = 100_000
NO_NUL = "^[^\\u0000]*$"


@record
class Param:
    """A parameter of the query, or with `is_path` of the path."""

    name: str
    about: str
    type: Literal["string", "integer", "boolean"] = "string"
    default: Any = None
    least: int = 0
    most: int = 2**31
    choices: tuple[str, ...] = ()
    is_path: bool = False
    required: bool = False

    @property
    def schema(self) -> Json:
        found: Json = {"type": self.type}
        if self.type == "integer":
            found |= {"minimum": self.least, "maximum": self.most}
        if self.type == "string" and not self.choices:
            found |= {"maxLength": 1000, "pattern": NO_NUL}
        if self.choices:
            found["enum"] = list(self.choices)
        if self.default is not None:
            found["default"] = self.default
        return found

    def value(self, text: str | None) -> Any:
        if text is None:
            if self.required:
                raise Problem(400, f"'{self.name}' is missing")
            return self.default
        if self.type == "boolean":
            if text not in ("true", "false"):
                raise Problem(400, f"'{self.name}' is true or false")
            return text == "true"
        if self.type == "integer":
            digits = text.removeprefix("-")
            if not (digits.isascii() and digits.isdigit() and len(digits) < 12):
                raise Problem(400, f"'{self.name}' is not a whole number")
            if not self.least <= int(text) <= self.most:
                raise Problem(400, f"'{self.name}' is not from {self.least} to {self.most}")
            return int(text)
        if self.choices and text not in self.choices:
            raise Problem(400, f"'{self.name}' is one of: {', '.join(self.choices)}")
        if len(text) > 1000 or "\0" in text:
            raise Problem(400, f"'{self.name}' has more than 1000 characters, or a NUL")
        return text


RUN = Param("run", "The run's id, or `latest`.", is_path=True, required=True)
WORKSPACE = Param("workspace", "The folder of a served workspace; the first by default.")


@record
class CheckedRequest:
    """What a request asks for, checked."""

    console: Console
    given: Mapping[str, Any]
    body: Json
    who: Who
    place: str
    key: str = ""


@record
class Operation:
    """`answer` is the schema of what is answered; `media` says that it is no JSON."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    name: str
    about: str
    work: Callable[[CheckedRequest], Any]
    params: tuple[Param, ...] = ()
    body: Json | None = None
    answer: Json = field(default_factory=lambda: {"type": "object"})
    status: int = 200
    media: str = "application/json"
    takes_key: bool = False

    @property
    def route(self) -> Route:
        async def handle(request: Request) -> Response:
            asked = await self._asked(request)
            found = await run_in_threadpool(self.work, asked)
            if isinstance(found, Response):
                return found
            content = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
            return Response(
                content.encode("utf-8", "backslashreplace"),
                self.status,
                media_type="application/json",
            )

        return Route(self.path, handle, methods=[self.method], name=self.name)

    async def _asked(self, request: Request) -> CheckedRequest:
        known = {one.name for one in self.params if not one.is_path}
        for name in request.query_params:
            if name not in known:
                raise Problem(400, f"there is no parameter '{name[:40]}'")
        given = {
            one.name: one.value(
                request.path_params.get(one.name)
                if one.is_path
                else request.query_params.get(one.name)
            )
            for one in self.params
        }
        body = await body_of(request) if self.method != "GET" else {}
        check_body(self.body or {"properties": {}}, body)
        key = request.headers.get("idempotency-key", "")
        if len(key) > 200:
            raise Problem(400, "the Idempotency-Key is too long")
        place = request.client.host if request.client is not None else ""
        return CheckedRequest(console_of(request), given, body, request.state.who, place, key)


def object_of(required: tuple[str, ...] = (), **properties: Any) -> Json:
    """The schema of a body: its properties, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def text(about: str, *choices: str) -> Json:
    limits: Json = (
        {"enum": list(choices)} if choices else {"maxLength": MOST_TEXT, "pattern": NO_NUL}
    )
    return {"type": "string", "description": about, **limits}


def flag(about: str) -> Json:
    return {"type": "boolean", "description": about}


def texts_by_name(about: str) -> Json:
    return {
        "type": "object",
        "description": about,
        "additionalProperties": {"type": "string", "maxLength": MOST_TEXT, "pattern": NO_NUL},
        "maxProperties": 100,
    }


def check_body(schema: Json, body: Json) -> None:
    """Refuse what the schema does not allow; it knows no more than the functions above make."""
    for name in schema.get("required", ()):
        if name not in body:
            raise Problem(400, f"'{name}' is missing")
    for name, value in body.items():
        wanted = schema["properties"].get(name)
        if wanted is None:
            raise Problem(400, f"there is no field '{name[:40]}'")
        if not _fits(wanted, value):
            raise Problem(400, f"'{name}' is not {_wanted_words(wanted)}")


def _wanted_words(wanted: Json) -> str:
    if "enum" in wanted:
        return f"one of: {', '.join(wanted['enum'])}"
    match wanted["type"]:
        case "boolean":
            return "true or false"
        case "object":
            return f"an object of at most {wanted['maxProperties']} texts"
        case _:
            most = wanted.get("maxLength", MOST_TEXT)
            return f"a text of at most {most} characters without a NUL"


def _fits(wanted: Json, value: Any) -> bool:
    match wanted["type"]:
        case "boolean":
            return isinstance(value, bool)
        case "object":
            entries = value.items() if isinstance(value, dict) else ()
            inner = wanted["additionalProperties"]
            return (
                isinstance(value, dict)
                and len(value) <= wanted["maxProperties"]
                and all(len(name) <= 200 and _fits(inner, one) for name, one in entries)
            )
        case _:
            is_text = isinstance(value, str) and len(value) <= wanted.get("maxLength", MOST_TEXT)
            return is_text and "\0" not in value and value in wanted.get("enum", (value,))
