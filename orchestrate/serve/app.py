"""Puts the console together: the guard, and behind it every route."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from orchestrate.errors import OrchestrateError
from orchestrate.serve import pages
from orchestrate.serve.api import OPERATIONS
from orchestrate.serve.chats import Chats
from orchestrate.serve.console import Console
from orchestrate.serve.guard import PROTOCOL, SIGN_IN, Guard, wants_page
from orchestrate.serve.problems import Problem, problem_of, status_of
from orchestrate.serve.protocol import ProtocolClient
from orchestrate.serve.sign_in import sign_in, sign_out
from orchestrate.serve.static_files import static_file
from orchestrate.serve.stream import Tab
from orchestrate.serve.watch import RunsWatch

_PAGES = ("/recipes", "/sessions", "/sessions/{session}", "/more")


async def _ours(request: Request, error: Any) -> Response:
    found: OrchestrateError = error
    if wants_page(request.scope):
        status = status_of(found)
        return HTMLResponse(pages.problem_page(status, found), status)
    return problem_of(found)


async def _http(request: Request, error: Any) -> Response:
    found: HTTPException = error
    return await _ours(request, Problem(found.status_code, str(found.detail)))


async def _bug(_: Request, error: Exception) -> Response:
    """A line for the client; where it happened is not told to the outside."""
    return problem_of(
        Problem(500, f"unexpected {type(error).__name__}; this is a bug in orchestrate",
                exit_code=70)
    )  # fmt: skip


async def _protocol(socket: WebSocket) -> None:
    state = socket.app.state
    await ProtocolClient(socket, state.console, state.watch, state.chats).run()


async def _stream(socket: WebSocket) -> None:
    state = socket.app.state
    await Tab(socket, state.console, state.watch).run()


def make_app(console: Console) -> Guard:
    """The application that a server runs."""
    app = Starlette(
        routes=[
            Route("/", pages.home),
            Route("/runs", pages.runs_page),
            Route("/runs/{run}", pages.run_page),
            Route("/runs/{run}/{tab}", pages.run_page),
            Route("/inbox", pages.inbox_page),
            *(Route(path, pages.other_page) for path in _PAGES),
            Route("/static/{name}", static_file),
            Route(SIGN_IN, sign_in, methods=["POST"]),
            Route(SIGN_IN, sign_out, methods=["DELETE"]),
            *(operation.route for operation in OPERATIONS),
            *(WebSocketRoute(path, _protocol) for path in PROTOCOL),
            WebSocketRoute("/api/v1/stream", _stream),
        ],
        exception_handlers={OrchestrateError: _ours, HTTPException: _http, Exception: _bug},
    )
    app.state.console = console
    app.state.watch = RunsWatch(console)
    app.state.chats = Chats()
    return Guard(app, console)
