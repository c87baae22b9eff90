"""A Claude Code that says something, waits for a file `go` and answers; or is out of quota."""

from __future__ import annotations

import json
import os
import sys
import time


def flag(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else ""


SESSION = flag("--session-id") or flag("--resume")


def show(**event: object) -> None:
    print(json.dumps({**event, "session_id": SESSION}), flush=True)


def say(**part: object) -> None:
    show(type="assistant", message={"role": "assistant", "content": [part]})


def main() -> None:
    sys.stdin.read()
    if os.path.exists("no-quota"):
        words = f"Claude AI usage limit reached|{int(time.time()) + 5000}"
        show(type="result", subtype="success", is_error=True, result=words, api_error_status=429)
        sys.exit(1)
    if os.path.exists("broken"):
        sys.exit("Cannot find module 'x'")
    show(type="system", subtype="init", model="fake-model")
    say(type="text", text="I look <b>first</b>.")
    say(type="tool_use", id="t1", name="Bash", input={"command": "make test"})
    give_up = time.monotonic() + 120
    while not os.path.exists("go") and time.monotonic() < give_up:
        time.sleep(0.02)
    show(type="result", subtype="success", is_error=False, result="All is well.", total_cost_usd=0)


if __name__ == "__main__":
    main()
