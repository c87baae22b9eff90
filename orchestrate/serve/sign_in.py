"""Exchanges a one-time link or the key for the cookie of a session."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from orchestrate.serve.console import Console
from orchestrate.serve.keys import COOKIE_S
from orchestrate.serve.problems import Problem
from orchestrate.serve.received import read_json


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object that a request carries; no other body comes past the guard."""
    content = await request.body()
    try:
        found = read_json(content or b"{}")
    except ValueError:
        raise Problem(400, "the body is not JSON") from None
    if not isinstance(found, dict):
        raise Problem(400, "the body is not a JSON object")
    return found


def _form_of(content: bytes) -> dict[str, Any]:
    try:
        sent = parse_qs(content.decode("utf-8", "replace"), max_num_fields=4)
    except ValueError:
        raise Problem(400, "the form has too many fields") from None
    return {name: values[0] for name, values in sent.items()}


async def sign_in(request: Request) -> Response:
    """`{"link": …}` is the part of the link after `#k=`, `{"key": …}` the user's key."""
    keys = console_of(request).keys
    is_form = not request.headers["content-type"].startswith("application/json")
    if is_form:
        given = _form_of(await request.body())
    else:
        given = await body_of(request)
    link, key = given.get("link"), given.get("key")
    is_known = (isinstance(link, str) and keys.use_link(link)) or (
        isinstance(key, str) and keys.is_key(key.strip())
    )
    if not is_known:
        raise Problem(
            401,
            "the link was used already or is too old" if link else "that is not the key",
            "a new link: orchestrate serve --link",
        )
    answer: Response = RedirectResponse("/", 303) if is_form else JSONResponse({"signed_in": True})
    set_cookie(answer, request)
    return answer


def set_cookie(answer: Response, request: Request) -> None:
    keys = console_of(request).keys
    is_https = request.headers.get("origin", "").startswith("https:")
    answer.set_cookie(
        keys.cookie_name,
        keys.cookie(),
        max_age=COOKIE_S,
        path="/",
        httponly=True,
        samesite="strict",
        secure=is_https,
    )


async def sign_out(request: Request) -> Response:
    """Forget the cookie in this browser; `serve --new-key` revokes all of them."""
    answer = JSONResponse({"signed_in": False})
    answer.delete_cookie(console_of(request).keys.cookie_name, path="/")
    return answer


def console_of(request: Request) -> Console:
    found: Console = request.app.state.console
    return found
