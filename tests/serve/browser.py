"""Drives a real Chromium over its debugging protocol, for tests of the page."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--remote-debugging-port=0", "--disable-extensions", "--disable-background-networking",
    "--hide-scrollbars", "about:blank",
)  # fmt: skip


def program() -> str | None:
    """Chromium, as $CHROMIUM names it or as it is called on this system."""
    given = os.environ.get("CHROMIUM")
    return given or next(filter(None, map(shutil.which, _NAMES)), None)


class Page:
    """One tab."""

    def __init__(self, line: ClientConnection) -> None:
        self._line = line
        self._number = 0
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._line.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self._line.recv(timeout=120))
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self._keep(message)

    def _keep(self, message: Any) -> None:
        if message.get("method") == "Runtime.exceptionThrown":
            details = message["params"]["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        if message.get("method") == "Log.entryAdded":
            entry = message["params"]["entry"]
            if entry["level"] == "error":
                self.errors.append(f"{entry['text']} {entry.get('url', '')}")

    def run(self, script: str) -> Any:
        """The value of an expression; promises are awaited."""
        told = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def until(self, script: str, seconds: float = 60) -> Any:
        give_up = time.monotonic() + seconds
        while True:
            try:
                found = self.run(f"!!({script})")
            except AssertionError:
                found = None  # the page is being changed
            if found:
                return found
            if time.monotonic() > give_up:
                text = self.run("document.body.innerText.slice(0, 1500)")
                raise AssertionError(f"not seen: {script}\n{self.errors}\n{text}")
            time.sleep(0.05)

    def press(self, key: str, code: int = 0) -> None:
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        codes = {"Enter": 13, "Tab": 9, "Escape": 27}
        number = {"windowsVirtualKeyCode": code or codes.get(key, ord(key[0].upper()))}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **number)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **number)

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def size(self, width: int, height: int = 800, *, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 500)  # fmt: skip
        scheme = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def picture(self, path: Path) -> None:
        taken = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(taken["data"]))

    def heap(self) -> int:
        self.call("HeapProfiler.collectGarbage")
        used: int = self.call("Runtime.getHeapUsage")["usedSize"]
        return used


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a profile of its own; ended by its process."""
    found = program()
    assert found is not None, "Chromium is not installed (Debian: apt install chromium)"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [found, f"--user-data-dir={profile}", *_FLAGS],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            yield Browser(_port_of(Path(profile) / "DevToolsActivePort", process))
        finally:
            process.kill()
            process.wait()
            # Its children may still write into the profile for a moment.
            time.sleep(0.3)


def _port_of(path: Path, process: subprocess.Popen[bytes]) -> int:
    give_up = time.monotonic() + 120
    while time.monotonic() < give_up:
        if path.exists() and (lines := path.read_text().splitlines()):
            return int(lines[0])
        assert process.poll() is None, "Chromium has ended"
        time.sleep(0.05)
    raise AssertionError("Chromium does not answer")


class Browser:
    def __init__(self, port: int) -> None:
        self._port = port

    @contextmanager
    def page(self) -> Iterator[Page]:
        import http.client

        line = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        line.request("PUT", "/json/new?about:blank")
        target = json.loads(line.getresponse().read())
        line.close()
        url = target["webSocketDebuggerUrl"]
        # Nobody reads while a test waits for something else: a ping's answer would lie behind what
        # the page has told, and the line would be given up.
        with connect(url, proxy=None, max_size=2**27, ping_interval=None) as socket:
            yield Page(socket)
