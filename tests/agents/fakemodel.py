"""A model server on this machine that says what a test wants, so that real agent programs can run.

with FakeModel() as model:
    model.answer = lambda request: Answer(f"you said {request.last_prompt}")
    ...                            # start a program that is pointed at model.url
    model.requests                 # what it asked
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from tests.agents.fakemodel_wire import (
    Answer,
    Request,
    answer_events,
    dialect_of,
    error_body,
    read_request,
)

__all__ = ["Answer", "FakeModel", "Request"]
_KEYS = ("x-api-key", "authorization", "x-goog-api-key")


class FakeModel:
    """Listens on a port of its own, on the loopback interface only."""

    def __init__(self) -> None:
        self.answer: Callable[[Request], Answer] = lambda _: Answer()
        self.requests: list[Request] = []
        self.is_closing = False
        model = self

        class Handler(_Handler):
            fake = model

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def reset(self, answer: Callable[[Request], Answer] | None = None) -> None:
        """Forget what was asked, and answer like this from now on."""
        self.answer = answer or (lambda _: Answer())
        self.requests.clear()

    def __enter__(self) -> FakeModel:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.is_closing = True
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeModel

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        pass

    def do_HEAD(self) -> None:
        self._send_json(200, {})

    def do_GET(self) -> None:
        models = [{"id": "fake-model", "object": "model", "type": "model"}]
        self._send_json(200, {"object": "list", "data": models, "models": []})

    def do_POST(self) -> None:
        body = json.loads(self._read_body() or b"{}")
        path = self.path.partition("?")[0]
        dialect = dialect_of(path)
        if dialect is None:
            self._send_json(404, {"error": {"message": f"no such path: {path}"}})
            return
        key = next((self.headers[name] for name in _KEYS if self.headers[name]), "")
        request = read_request(dialect, path, body, key)
        if request.is_side_request:
            answer = Answer("A title")
        else:
            self.fake.requests.append(request)
            answer = self.fake.answer(request)
        try:
            if answer.status != 200:
                self._send_json(answer.status, error_body(dialect, answer))
            else:
                self._stream(request, answer)
        except (BrokenPipeError, ConnectionResetError):
            # The program was ended while we spoke to it.
            self.close_connection = True

    def _stream(self, request: Request, answer: Answer) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        while answer.hang and not self.fake.is_closing:
            self._send_chunk(b": patience\n\n")
            time.sleep(0.1)
        for name, data in answer_events(request, answer, len(self.fake.requests)):
            text = data if isinstance(data, str) else json.dumps(data)
            head = f"event: {name}\n" if name else ""
            self._send_chunk(f"{head}data: {text}\n\n".encode())
        self.wfile.write(b"0\r\n\r\n")

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _send_json(self, status: int, document: Any) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _read_body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        body = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body
