"""Stands before every route: host and origin, then the session, then size and kind of a body.

Starting an agent from a page is remote code execution. So nothing is routed before it is known who
asks, and a handler never has to remember to check.
"""

from __future__ import annotations

import asyncio
from email.utils import formatdate
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, Response

from orchestrate.errors import OrchestrateError
from orchestrate.serve.hosts import Refusal, header_of, judge
from orchestrate.serve.problems import Problem, problem_of
from orchestrate.serve.shell import refused_page, sign_in_page

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from orchestrate.serve.console import Console

MOST_BODY = 1024 * 1024
_MOST_QUERY = 8 * 1024
_MOST_PATH = 2 * 1024
_MOST_HEADERS = 32 * 1024
# A body that does not come is not waited for.
_BODY_S = 20.0
SIGN_IN = "/api/v1/session"
# The protocol of the seeds: it opens with `connect`, which carries the key.
PROTOCOL = ("/", "/ws")
_CHANGES = ("POST", "PUT", "PATCH", "DELETE")
_HEADERS = (
    (b"content-security-policy",
     (b"default-src 'self'; img-src 'self' data:; base-uri 'none'; object-src 'none'; "
     b"form-action 'self'; frame-ancestors 'none'")),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)  # fmt: skip


class Guard:
    """The outermost application."""

    def __init__(self, app: ASGIApp, console: Console) -> None:
        self._app = app
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, _with_headers(send))

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = judge(scope["headers"], self._console.hosts)
        who = None
        try:
            if refused is None:
                who = self._who(scope)
        except (OrchestrateError, ValueError):
            who = None
        # A browser always says its origin; a cookie without one is not from a page of ours.
        is_blind = who == "page" and header_of(scope["headers"], b"origin") is None
        is_open = scope["path"] in PROTOCOL
        if refused is not None or (not is_open and (who is None or is_blind)):
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        # A connection may last for days: what let it in may be revoked meanwhile.
        scope.setdefault("state", {}).update(who=who, is_let_in=lambda: self._is_known(scope))
        await self._app(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        try:
            return self._who(scope) is not None
        except (OrchestrateError, ValueError):
            return False

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = judge(scope["headers"], self._console.hosts)
        if refused is not None:
            await self._refuse(refused, scope, receive, send)
            return
        try:
            who = self._who(scope)
            answer = _admit(scope, who)
        except ValueError as error:
            answer = problem_of(Problem(400, f"the header '{error}' was sent twice"))
        except OrchestrateError as error:
            answer = problem_of(error)
        else:
            scope.setdefault("state", {})["who"] = who
        if answer is not None:
            await answer(scope, receive, send)
            return
        await self._app(scope, _limited(receive, scope), send)

    def _who(self, scope: Scope) -> str | None:
        """`key` or `page`; None without either. A wrong key is not helped by a cookie."""
        headers = scope["headers"]
        given = header_of(headers, b"authorization")
        if given is not None:
            kind, _, key = given.partition(" ")
            return "key" if kind.lower() == "bearer" and self._console.keys.is_key(key) else None
        cookies = b"; ".join(value for name, value in headers if name == b"cookie")
        try:
            jar: SimpleCookie = SimpleCookie(cookies.decode("latin-1")[:8192])
        except CookieError:
            return None
        found = jar.get(self._console.keys.cookie_name)
        return "page" if found is not None and self._console.keys.is_cookie(found.value) else None

    async def _refuse(self, why: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
        answer: Response = problem_of(Problem(why.status, why.detail))
        if wants_page(scope):
            answer = HTMLResponse(refused_page(why, self._console), why.status)
        await answer(scope, receive, send)


def wants_page(scope: Scope) -> bool:
    """Does a browser ask, for a person to read?"""
    accepts = (header_of(scope["headers"], b"accept") or "") if scope["method"] == "GET" else ""
    return "text/html" in accepts and not scope["path"].startswith("/api/")


def is_public(method: str, path: str) -> bool:
    """What holds no data: the shell, its files, and the exchange of a key for a session."""
    if method == "POST":
        return path == SIGN_IN
    return path == "/" or path.startswith("/static/")


def _admit(scope: Scope, who: str | None) -> Response | None:
    """None if the request may go on; else the answer to it."""
    method, path, headers = scope["method"], scope["path"], scope["headers"]
    if len(path) > _MOST_PATH or len(scope.get("query_string", b"")) > _MOST_QUERY:
        return problem_of(Problem(414, "the address is too long"))
    if sum(len(name) + len(value) for name, value in headers) > _MOST_HEADERS:
        return problem_of(Problem(431, "the headers are too long"))
    origin = header_of(headers, b"origin")
    is_open = is_public("GET" if method == "HEAD" else method, path)
    if who is None and not is_open:
        if wants_page(scope):
            return HTMLResponse(sign_in_page(), 401)
        answer = problem_of(Problem(401, "sign in first: open the link that `orchestrate serve` "
                                    "printed, or send the key", exit_code=2))  # fmt: skip
        answer.headers["www-authenticate"] = "Bearer"
        return answer
    if who == "page" and _is_foreign(headers, origin, method):
        return problem_of(Problem(403, "a session of the page is not for requests from elsewhere"))
    if method in _CHANGES:
        return _check_body(headers, path)
    return None


def _is_foreign(headers: Any, origin: str | None, method: str) -> bool:
    """A cookie alone is not proof. Browsers say where a request comes from; changes must say it."""
    if origin is not None:
        return False  # it has been compared with the host
    if method in _CHANGES:
        return True
    site = header_of(headers, b"sec-fetch-site")
    is_link = header_of(headers, b"sec-fetch-mode") == "navigate"
    return site not in (None, "same-origin", "none") and not is_link


def _check_body(headers: Any, path: str) -> Response | None:
    length = header_of(headers, b"content-length") or "0"
    if not (length.isascii() and length.isdigit()):
        return problem_of(Problem(400, "the Content-Length is malformed"))
    if len(length) > 12 or int(length) > MOST_BODY:
        return problem_of(Problem(413, f"a body has at most {MOST_BODY} bytes"))
    kind = (header_of(headers, b"content-type") or "").partition(";")[0].strip().lower()
    # Without scripts a browser signs in with a form.
    kinds = {"application/json", *(("application/x-www-form-urlencoded",) * (path == SIGN_IN))}
    if kind not in kinds:
        return problem_of(Problem(415, "bodies are application/json"))
    return None


def _limited(receive: Receive, scope: Scope) -> Receive:
    """No more than a body's limit, and no client that keeps us waiting for it."""
    if scope["method"] not in _CHANGES:
        return receive
    taken = 0
    is_over = False
    # For all of it: one byte now and then is not a body that comes.
    give_up = asyncio.get_running_loop().time() + _BODY_S

    async def take() -> Message:
        nonlocal taken, is_over
        if is_over:
            return await receive()
        try:
            async with asyncio.timeout_at(give_up):
                message = await receive()
        except TimeoutError:
            raise Problem(408, "the body did not come in time") from None
        taken += len(message.get("body", b""))
        is_over = not message.get("more_body", False)
        if taken > MOST_BODY:
            raise Problem(413, f"a body has at most {MOST_BODY} bytes")
        return message

    return take


def _with_headers(send: Send) -> Send:
    async def give(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            known = {name.lower() for name, _ in headers}
            headers += [pair for pair in _HEADERS if pair[0] not in known]
            headers.append((b"date", formatdate(usegmt=True).encode()))
            if b"cache-control" not in known:
                headers.append((b"cache-control", b"no-store"))
            message["headers"] = headers
        await send(message)

    return give
