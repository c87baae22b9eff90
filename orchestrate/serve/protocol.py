"""The protocol of the seeds over a WebSocket (A §16, A3 §5): one JSON object in each text frame."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from orchestrate.app.definitions.recipes import recipes_of
from orchestrate.errors import OrchestrateError
from orchestrate.serve import actions
from orchestrate.serve.chats import Prompt
from orchestrate.serve.frames import DEFAULT_KB, LEAST_KB, MOST_KB, fitting, pages
from orchestrate.serve.problems import Problem
from orchestrate.serve.received import read_json
from orchestrate.serve.sessions import find_session, history, sessions
from orchestrate.serve.telling import ClientMessages
from orchestrate.view.messages import ASKED_TO_EXIT

if TYPE_CHECKING:
    from orchestrate.serve.chats import Chats
    from orchestrate.serve.console import Console
    from orchestrate.serve.watch import Listener, News, RunsWatch

Json = dict[str, Any]
HELLO = {"type": "hello", "message": "orchestrate", "version": "0.4.0", "auth_version": 1}
_RECENT = 10
CONNECT_S = 60.0
# What a message needs besides its type; every field is a text unless it is named here.
_NUMBERS = ("last_seq", "size_kb", "recent_sessions_limit", "auth_version", "protocol_version")


class BadMessage(Exception):
    """A message that lacks something; the connection stays."""


class ProtocolClient:
    """One client."""

    def __init__(self, socket: WebSocket, console: Console, watch: RunsWatch, chats: Chats) -> None:
        self._socket = socket
        self._console = console
        self._watch = watch
        self._chats = chats
        self._place = socket.client.host if socket.client is not None else ""
        self._most = DEFAULT_KB * 1024
        self._is_known = False
        self._key = ""
        self._sending = asyncio.Lock()
        # The last message of each session that the client has.
        self._subscribed: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        await self._socket.accept()
        await self._send(HELLO)
        self._start(self._expect_connect())
        listener: Listener | None = None
        try:
            while True:
                message = await self._receive()
                if message is None:
                    return
                self._forget_old_key()
                if not self._is_known and message.get("type") not in ("ping", "connect"):
                    await self._refuse("send connect first")
                    return
                if message.get("type") == "connect":
                    if not await self._connect(message):
                        return
                    if listener is None:
                        listener = await self._watch.join()
                        self._start(self._tell(listener))
                    await self._greet()
                    continue
                await self._answer(message)
        except WebSocketDisconnect:
            return
        finally:
            if listener is not None:
                self._watch.leave(listener)
            for task in self._tasks:
                task.cancel()

    async def _expect_connect(self) -> None:
        """A client that does not identify itself gives its place to others."""
        await asyncio.sleep(CONNECT_S)
        if not self._is_known:
            await self._refuse("no connect came")

    async def _receive(self) -> Json | None:
        """The next message; None when the connection is to end."""
        while True:
            frame = await self._socket.receive()
            if frame["type"] == "websocket.disconnect":
                return None
            text = frame.get("text")
            if text is None:
                await self._socket.close(1003)
                return None
            try:
                message = read_json(text)
            except ValueError:
                message = None
            if isinstance(message, dict) and isinstance(message.get("type"), str):
                return message
            await self._send({"type": "error", "message": "a message is a JSON object with a type"})

    async def _connect(self, message: Json) -> bool:
        key = message.get("api_key")
        if not isinstance(key, str) or not self._console.keys.is_key(key):
            await self._refuse("Invalid API key")
            return False
        self._key = key
        self._is_known = True
        return True

    def _forget_old_key(self) -> None:
        """A new key ends what the old one began."""
        if self._is_known:
            with suppress(OrchestrateError):
                self._is_known = False
                self._is_known = self._console.keys.is_key(self._key)

    async def _refuse(self, why: str) -> None:
        await self._send({"type": "auth_error", "message": why})
        await self._socket.close(1008)

    async def _greet(self) -> None:
        await self._send({"type": "connected", "message": "Session registered"})
        await self._refresh({})
        for messages in self._watch.active():
            if not messages.is_chat:
                await self._send(messages.started())

    async def _send(self, message: Json) -> None:
        async with self._sending:
            await self._socket.send_text(fitting(message, self._most))

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self, listener: Listener) -> None:
        """What happens in all runs, as it happens."""
        while not listener.is_lost:
            news = await listener.queue.get()
            self._forget_old_key()
            if not self._is_known:
                await self._refuse("the key was replaced")
                return
            for message in news.messages:
                await self._send(message)
            await self._tell_subscribed(news)
        await self._socket.close(1013)

    async def _tell_subscribed(self, news: News) -> None:
        if news.record is None or news.record["event"] not in ("step-finished", "attempt-ended"):
            return
        session = str(news.record["sessionId"] or news.run_id)
        for known in {session, news.run_id} & self._subscribed.keys():
            await self._send_history(known)

    async def _answer(self, message: Json) -> None:
        kind = message["type"]
        handler = self._handlers.get(kind)
        session = message.get("session_id")
        told = {"session_id": session} if isinstance(session, str) else {}
        if handler is None:
            shown = kind[:100]
            await self._send({"type": "error", "message": f"Unknown message type: {shown}", **told})
            return
        try:
            _check(message)
            await handler(self, message)
        except BadMessage as error:
            await self._send({"type": "error", "message": str(error), **told})
        except OrchestrateError as error:
            kind = "recipe_error" if kind == "start_recipe" else "error"
            field = "error" if kind == "recipe_error" else "message"
            own: Json = told or {"session_id": None} if kind == "recipe_error" else told
            await self._send({"type": kind, field: _words_of(error), **own})

    async def _ping(self, _: Json) -> None:
        await self._send({"type": "pong"})

    async def _recipes(self, _: Json) -> None:
        entries = await run_in_threadpool(
            lambda: [one for one in recipes_of(self._console.workspaces[0]) if not one.error]
        )
        found = [
            {"id": one.id, "label": one.title or one.name or one.id,
             "description": one.description, "dialect": one.dialect}
            for one in entries
        ]  # fmt: skip
        found.sort(key=lambda one: str(one["label"]).lower())
        await self._send({"type": "available_recipes", "recipes": found})

    async def _start_recipe(self, message: Json) -> None:
        """The answer is `recipe_started`, which all clients are sent once the run has begun."""
        recipe = _needed(message, "recipe_id")
        session = message.get("session_id") or ""
        if session and self._is_locked(session):
            await self._send({"type": "session_locked", "session_id": session})
            return
        workspace = self._console.workspace(message.get("working_directory"))
        entry = await run_in_threadpool(actions.find_entry, workspace, recipe)
        request = actions.StartRequest(
            entry.id, {}, session=session, backend=message.get("provider") or ""
        )
        self._console.change("protocol", self._place, f"start {entry.id}")
        try:
            await run_in_threadpool(actions.start, workspace, request)
        except Problem as error:
            if session and f"session {session}" in error.message:
                await self._send({"type": "session_locked", "session_id": session})
                return
            raise
        self._watch.poke()

    def _is_locked(self, session: str) -> bool:
        return self._chats.is_busy(session) or self._active(session) is not None

    def _active(self, session: str) -> ClientMessages | None:
        """The recipe that is active in a session; it may be named by its run."""
        for one in self._watch.active():
            if session in (one.session_id, one.run.id) and not one.is_chat:
                return one
        return None

    async def _exit_recipe(self, message: Json) -> None:
        session = _needed(message, "session_id")
        active = self._active(session)
        if active is None:
            raise BadMessage("no recipe is active in this session")
        self._console.change("protocol", self._place, "stop", active.run.id)
        await self._end(active)

    async def _end(self, active: ClientMessages) -> None:
        """Stop the run. One that was parked ends nothing by that: it leaves the session here."""
        workspace, run = self._console.find(active.run.id)
        await run_in_threadpool(actions.stop, self._console, workspace, run)
        self._watch.poke()
        await asyncio.sleep(0.5)
        if active.is_active:
            self._watch.tell_all(*active.exit(ASKED_TO_EXIT))

    async def _kill_session(self, message: Json) -> None:
        session = _needed(message, "session_id")
        active = self._active(session)
        is_chat = self._chats.is_busy(session)
        if active is None and not is_chat:
            raise BadMessage("nothing works in this session")
        self._console.change("protocol", self._place, f"kill session {session}"[:200])
        self._chats.kill(session)
        if active is not None:
            await self._end(active)
        await self._send({"type": "session_killed", "session_id": session})
        await self._send({"type": "turn_complete", "session_id": session, "aborted": True})

    async def _prompt(self, message: Json) -> None:
        text = _needed(message, "text")
        session = message.get("session_id") or message.get("resume_session_id") or ""
        new = "" if session else message.get("new_session_id") or ""
        place = session or new
        if place and self._is_locked(place):
            await self._send({"type": "session_locked", "session_id": place})
            return
        workspace = self._console.workspace(message.get("working_directory"))
        self._console.change("protocol", self._place, "chat")
        prompt = Prompt(text, workspace, session, new, message.get("provider") or "",
                        message.get("system_prompt") or "")  # fmt: skip
        await self._send({"type": "ack", "message": "Processing prompt..."})
        self._start(self._take_turn(prompt))

    async def _take_turn(self, prompt: Prompt) -> None:
        told = await self._chats.take_turn(prompt)
        session = told.get("session_id") or prompt.place or None
        if told["locked"]:
            await self._send({"type": "session_locked", "session_id": session})
            return
        answer = {"type": "response", "session_id": session, "text": told["text"],
                  "success": told["success"], "usage": told.get("usage"),
                  "cost_usd": told.get("cost_usd")}  # fmt: skip
        answer |= {} if told["success"] else {"error": told["error"]}
        await self._send(answer)
        await self._send({"type": "turn_complete", "session_id": session})

    async def _subscribe(self, message: Json) -> None:
        session = _needed(message, "session_id")
        self._subscribed[session] = message.get("last_seq") or 0
        if not await self._send_history(session, is_first=True):
            del self._subscribed[session]
            raise BadMessage("there is no such session in our runs")

    async def _unsubscribe(self, message: Json) -> None:
        self._subscribed.pop(_needed(message, "session_id"), None)
        await self._send({"type": "ack", "message": "Unsubscribed"})

    async def _send_history(self, session_id: str, *, is_first: bool = False) -> bool:
        session = await run_in_threadpool(find_session, self._console, session_id)
        if session is None:
            return False
        said = await run_in_threadpool(history, session)
        after = self._subscribed.get(session_id, 0)
        news = [message for message in said if message["seq"] > after]
        if news or is_first:
            self._subscribed[session_id] = len(said)
            for page in pages(session_id, news, len(said), self._most):
                await self._send(page)
        return True

    async def _refresh(self, message: Json) -> None:
        wanted = message.get("recent_sessions_limit")
        limit = _RECENT if wanted is None else wanted
        found = await run_in_threadpool(lambda: [one.to_json() for one in sessions(self._console)])
        count = len(found)
        await self._send({"type": "session_list", "sessions": found[:100], "total_count": count})
        await self._send({"type": "recent_sessions", "sessions": found[:limit], "limit": limit})

    async def _set_size(self, message: Json) -> None:
        size = message.get("size_kb")
        if not isinstance(size, int) or not LEAST_KB <= size <= MOST_KB:
            raise BadMessage(f"size_kb is from {LEAST_KB} to {MOST_KB}")
        self._most = size * 1024
        await self._send({"type": "ack", "message": f"Messages have at most {size} KB"})

    _handlers: dict[str, Callable[[ProtocolClient, Json], Awaitable[None]]] = {  # noqa: RUF012
        "ping": _ping,
        "get_available_recipes": _recipes,
        "start_recipe": _start_recipe,
        "exit_recipe": _exit_recipe,
        "kill_session": _kill_session,
        "prompt": _prompt,
        "subscribe": _subscribe,
        "unsubscribe": _unsubscribe,
        "refresh_sessions": _refresh,
        "set_max_message_size": _set_size,
    }


def _words_of(error: OrchestrateError) -> str:
    """Of a definition's mistakes the first is told, too: clients show one line."""
    found = error.more.get("diagnostics", ()) if isinstance(error, Problem) else ()
    for one in found:
        if one["severity"] == "error":
            return f"{error.message}: {one['file']}:{one['line']}: {one['message']}"
    return error.message


def _needed(message: Json, name: str) -> str:
    value = message.get(name)
    if not isinstance(value, str) or not value:
        raise BadMessage(f"'{name}' is missing")
    return value


def _check(message: Json) -> None:
    """The kinds of fields; null stands for one that is left out."""
    for name, value in message.items():
        if value is None:
            continue
        is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        is_right = is_number if name in _NUMBERS else isinstance(value, str)
        if name in _FIELDS and not is_right:
            raise BadMessage(f"'{name}' is not a {'number' if name in _NUMBERS else 'text'}")
        if isinstance(value, str) and "\0" in value:
            raise BadMessage(f"'{name}' has a NUL character")


_FIELDS = frozenset((
    "recipe_id", "session_id", "working_directory", "provider", "text", "resume_session_id",
    "new_session_id", "system_prompt", *_NUMBERS,
))  # fmt: skip
