"""Turns of chats that this server has asked for: one at a time in a session."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from orchestrate.record import record

if TYPE_CHECKING:
    from orchestrate.workspace import Workspace

Json = dict[str, Any]
# A turn has an hour (A §13.2); its process ends it, and is given some time more for that.
_TURN_S = 3600 + 120


@record
class Prompt:
    """What is to be said, and where; '' where nothing is."""

    text: str
    workspace: Workspace
    session: str = ""
    new_session: str = ""
    backend: str = ""
    system_prompt: str = ""

    @property
    def place(self) -> str:
        return self.session or self.new_session

    def to_json(self) -> Json:
        return {
            "text": self.text,
            "workspace": str(self.workspace.root),
            "session": self.session,
            "new_session": self.new_session,
            "backend": self.backend,
            "system_prompt": self.system_prompt,
        }


class Chats:
    """Which sessions have a turn under way, and how to end one."""

    def __init__(self) -> None:
        self._busy: dict[str, asyncio.subprocess.Process | None] = {}

    def is_busy(self, session: str) -> bool:
        return session in self._busy

    async def take_turn(self, prompt: Prompt) -> Json:
        """What came of it; the caller has seen to it that the session is free."""
        name = prompt.place or f"new-{id(prompt)}"
        self._busy[name] = None
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "orchestrate.serve.chat_turn",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL, cwd=prompt.workspace.root,
                start_new_session=True, limit=64 * 1024 * 1024,
            )  # fmt: skip
            self._busy[name] = process
            wanted = json.dumps(prompt.to_json()).encode()
            said, _ = await asyncio.wait_for(process.communicate(wanted), _TURN_S)
        except TimeoutError:
            self.kill(name)
            return _failed("it took longer than an hour")
        finally:
            self._busy.pop(name, None)
        lines = said.splitlines()
        try:
            told: Json = json.loads(lines[-1])
        except (ValueError, IndexError):
            return _failed("the turn was ended" if process.returncode else "it said nothing")
        if "success" not in told:
            return _failed("the turn was ended")
        if len(lines) > 1:
            told["run_id"] = json.loads(lines[0]).get("run_id")
        return told

    def kill(self, session: str) -> bool:
        """End a turn as Ctrl-C does; False if there is none here."""
        process = self._busy.get(session)
        if process is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGINT)
        return True


def _failed(error: str) -> Json:
    return {"success": False, "error": error, "locked": False, "text": ""}
