"""What a tab of the page hears: events of runs from a cursor on, lines of a log, and a beat.

A tab that was cut off says what it has, and gets the rest; a beat that does not come is a
connection that is not live, which the page says.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from orchestrate import __version__
from orchestrate.errors import OrchestrateError
from orchestrate.serve.log_pages import log_source, page_of
from orchestrate.serve.problems import Problem
from orchestrate.serve.received import read_json
from orchestrate.serve.records import records_after
from orchestrate.state.times import timestamp

if TYPE_CHECKING:
    from orchestrate.serve.console import Console
    from orchestrate.serve.watch import Listener, News, RunsWatch

Json = dict[str, Any]
BEAT_S = 10.0
_LOG_S = 0.3
_MOST_REPLAYED = 500
_MOST_LINES = 500
_STREAMS = ("stdout", "stderr", "prompt")


class Tab:
    """One tab: a run that it follows, and a log."""

    def __init__(self, socket: WebSocket, console: Console, watch: RunsWatch) -> None:
        self._socket = socket
        self._console = console
        self._watch = watch
        self._sending = asyncio.Lock()
        self._run = ""
        self._seq = 0
        self._log: Json | None = None
        self._log_changed = asyncio.Event()

    async def run(self) -> None:
        await self._socket.accept()
        listener = await self._watch.join()
        works = [
            asyncio.create_task(work)
            for work in (self._beat(), self._tell(listener), self._follow_log())
        ]
        try:
            while True:
                frame = await self._socket.receive()
                if frame["type"] == "websocket.disconnect":
                    return
                if frame.get("text") is None:
                    await self._socket.close(1003)
                    return
                if not self._socket.state.is_let_in():
                    await self._socket.close(1008)
                    return
                await self._hear(frame["text"])
        except WebSocketDisconnect:
            return
        finally:
            self._watch.leave(listener)
            for task in works:
                task.cancel()

    async def _send(self, message: Json) -> None:
        text = json.dumps(message, ensure_ascii=True, separators=(",", ":"))
        async with self._sending:
            await self._socket.send_text(text)

    async def _beat(self) -> None:
        while self._socket.state.is_let_in():
            await self._send(_beat())
            await asyncio.sleep(BEAT_S)
        await self._socket.close(1008)

    async def _hear(self, text: str) -> None:
        try:
            message = read_json(text)
            if not isinstance(message, dict):
                raise TypeError(text)
            match message.get("type"):
                case "follow":
                    await self._follow(str(message.get("run") or ""), _number(message, "after", 0))
                case "log":
                    self._log = _log_request(message)
                    self._log_changed.set()
                case "ping":
                    await self._send(_beat())
                case _:
                    raise TypeError(text)
        except OrchestrateError as error:
            await self._send({"type": "error", "message": error.message})
        except (ValueError, TypeError):
            await self._send({"type": "error", "message": "that is not understood"})

    async def _follow(self, run_id: str, after: int) -> None:
        """Replay what came after the cursor; from then on events come as they happen."""
        self._run = ""
        if not run_id:
            return
        records = await run_in_threadpool(self._after, run_id, after)
        is_more = len(records) > _MOST_REPLAYED
        shown = records[-_MOST_REPLAYED:]
        self._seq = records[-1]["seq"] if records else after
        self._run = run_id
        told = {"type": "events", "run_id": run_id, "skipped": is_more, "records": shown}
        await self._send(told)

    def _after(self, run_id: str, after: int) -> list[Json]:
        _, run = self._console.find(run_id)
        found: list[Json] = []
        for one in records_after(run, after):
            found.append(one)
            del found[: -_MOST_REPLAYED - 1]
        return found

    async def _tell(self, listener: Listener) -> None:
        while not listener.is_lost:
            news = await listener.queue.get()
            await self._tell_one(news)
        await self._socket.close(1013)

    async def _tell_one(self, news: News) -> None:
        if news.record is None:
            # Nothing is recorded of a run whose process was killed: the page looks again.
            if news.run_id:
                await self._send({"type": "run", "run_id": news.run_id, "event": "left"})
            return
        seq = news.record["seq"]
        told = {"type": "run", "run_id": news.run_id, "event": news.record["event"], "seq": seq}
        await self._send(told)
        if news.run_id == self._run and seq > self._seq:
            self._seq = seq
            one = {"type": "events", "run_id": news.run_id, "skipped": False}
            await self._send({**one, "records": [news.record]})

    async def _follow_log(self) -> None:
        while True:
            request = self._log
            if request is None:
                await self._log_changed.wait()
                self._log_changed.clear()
                continue
            try:
                page = await run_in_threadpool(self._read_log, request)
            except OrchestrateError:
                page = None
            if page is not None and page["lines"] and self._log is request:
                request["first"] = page["first"] + len(page["lines"])
                # The last line may not be whole yet: it is sent again.
                if request["first"] > page["total"] and page["open"]:
                    request["first"] -= 1
                if page["lines"] != request.get("sent"):
                    request["sent"] = page["lines"]
                    await self._send({"type": "log", **page})
            await asyncio.sleep(_LOG_S)

    def _read_log(self, request: Json) -> Json:
        _, run = self._console.find(request["run"])
        source, step = log_source(run, request["step"], request["stream"], raw=request["raw"])
        if not isinstance(source, bytes):
            try:
                size = source.stat().st_size
            except OSError:
                size = 0
            if size == request.get("size"):
                return {"lines": []}
            request["size"] = size
        return page_of(source, step, request["first"], _MOST_LINES).to_json()


def _beat() -> Json:
    """With our version: a page that outlives an update of the server says so."""
    return {"type": "beat", "at": timestamp(time.time()), "version": __version__}


def _number(message: Json, name: str, usual: int) -> int:
    value = message.get(name, usual)
    if not isinstance(value, int):
        raise TypeError(name)
    return value


def _log_request(message: Json) -> Json | None:
    """Whose lines are wanted from which one on; None for no more."""
    if not message.get("run"):
        return None
    stream = message.get("stream", "stdout")
    if stream not in _STREAMS:
        raise Problem(400, "there is no such stream")
    return {
        "run": str(message["run"]),
        "step": str(message.get("step") or ""),
        "stream": stream,
        "raw": bool(message.get("raw")),
        "first": max(1, _number(message, "first", 1)),
    }
