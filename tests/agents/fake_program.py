"""Stands in for an agent program: takes its flags, keeps sessions, prints its format.

Started as `fake_program.py KIND FLAGS…`. What it does is in the variable FAKE_ORDER (JSON):

    text      the answer ({before} becomes the prompts of the session's earlier turns)
    status    an HTTP status with which the model's service answers instead
    end       "missing" (no terminal event), "empty" (no text), "hang", "crash", "killed"
    noise     lines of warnings around the output

Everything else is measured behaviour (docs/reference/agents.md): exit codes, what a signal does,
how usage is counted. How it was called is appended to the file FAKE_CALLS.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

# A test waits for each start of this program: `typing`, `pathlib` and `uuid` take half of it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Literal, NoReturn

    Kind = Literal["claude-code", "codex", "gemini", "github-copilot", "opencode", "cursor", "qwen"]

KIND: Kind = sys.argv[1]  # type: ignore[assignment]
ARGV = sys.argv[2:]
ORDER: dict[str, Any] = json.loads(os.environ.get("FAKE_ORDER", "{}"))
SESSIONS = os.path.join(os.environ["HOME"], f"sessions-{KIND}")
# With which code a program ends when it is asked to end while it works.
TERMINATED = {"gemini": 0, "github-copilot": 0, "claude-code": 143}
# Those that make up session ids themselves.
CHOOSES = ("codex", "opencode", "cursor")
RESUME_FLAG = {"codex": "resume", "opencode": "--session"}
NO_SESSION = {
    "claude-code": (1, "No conversation found with session ID: {0}"),
    "codex": (1, "Error: thread/resume failed: no rollout found for thread id {0}"),
    "gemini": (42, 'Error resuming session: Invalid session identifier "{0}".'),
    "github-copilot": (1, "Error: No session, task, or name matched '{0}'."),
    "opencode": (1, "\x1b[91m\x1b[1mError: \x1b[0mSession not found"),
    "cursor": (1, "Error: session {0} not found"),
    "qwen": (1, "No saved session found with ID {0}. Run `qwen --resume` without an ID."),
}


def flag(name: str) -> str | None:
    for place, argument in enumerate(ARGV):
        if argument == name:
            return ARGV[place + 1]
        if argument.startswith(name + "="):
            return argument.partition("=")[2]
    return None


def show(**event: Any) -> None:
    # The order of keys is not part of any program's promise.
    print(json.dumps(dict(reversed(event.items()))), flush=True)


def fail(code: int, message: str) -> NoReturn:
    print(message, file=sys.stderr, flush=True)
    sys.exit(code)


def open_session(prompt: str) -> tuple[str, list[str]]:
    """The session's id, and the prompts that were sent in it before."""
    os.makedirs(SESSIONS, exist_ok=True)
    resumed = flag(RESUME_FLAG.get(KIND, "--resume"))
    digits = os.urandom(16).hex()
    uuid = f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
    made_up = f"ses_{digits}" if KIND == "opencode" else uuid
    session = resumed or (made_up if KIND in CHOOSES else flag("--session-id"))
    assert session is not None
    path = os.path.join(SESSIONS, session)
    if resumed and not os.path.exists(path):
        code, message = NO_SESSION[KIND]
        fail(code, message.format(session))
    if not resumed and os.path.exists(path):
        fail(1, f"Error: Session ID {session} is already in use.")
    before: list[str] = []
    with open(path, "r+" if resumed else "w", encoding="utf-8") as file:
        if resumed:
            before = json.load(file)
            file.seek(0)
        file.write(json.dumps([*before, prompt]))
    return session, before


def begin(session: str) -> None:
    match KIND:
        case "claude-code" | "cursor" | "qwen":
            show(type="system", subtype="init", session_id=session, model="fake-model")
        case "codex":
            show(type="thread.started", thread_id=session)
            show(type="turn.started")
        case "gemini":
            show(type="init", session_id=session, model="fake-model")
            show(type="message", role="user", content="…")
        case "github-copilot":
            show(type="session.tools_updated", data={"model": "fake-model"}, ephemeral=True)
            show(type="user.message", data={"content": "…"})
        case "opencode":
            show(type="step_start", sessionID=session, part={"messageID": "m1"})


def say(session: str, text: str) -> None:
    """What is said on the way, before the terminal event."""
    match KIND:
        case "claude-code" | "cursor" | "qwen":
            message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
            show(type="assistant", message=message, session_id=session)
        case "codex":
            show(type="item.completed", item={"type": "agent_message", "text": text})
        case "gemini":
            for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
                show(type="message", role="assistant", content=piece, delta=True)
        case "github-copilot":
            show(type="assistant.message", data={"content": text, "model": "fake-model"})
        case "opencode":
            show(type="text", sessionID=session, part={"messageID": "m1", "text": text})


def finish(session: str, text: str, turns: int) -> None:
    """The terminal event, with 100 tokens read and 10 written in every turn."""
    match KIND:
        case "claude-code":
            usage = {"inputTokens": 100, "outputTokens": 10, "costUSD": 0.01}
            total = {
                "inputTokens": 100 * turns,
                "outputTokens": 10 * turns,
                "costUSD": 0.01 * turns,
            }
            show(
                type="result", subtype="success", is_error=False, result=text, session_id=session,
                total_cost_usd=0.01 * turns, usage={"input_tokens": 100, "output_tokens": 10},
                modelUsage={"m": total}, model_usage_since_last_result={"m": usage},
            )  # fmt: skip
        case "cursor":
            show(type="result", subtype="success", is_error=False, result=text, session_id=session)
        case "qwen":
            usage = {"input_tokens": 100 * turns, "output_tokens": 10 * turns}
            show(type="result", is_error=False, result=text, session_id=session, usage=usage)
        case "codex":
            usage = {"input_tokens": 100 * turns, "output_tokens": 10 * turns}
            show(type="turn.completed", usage=usage)
        case "gemini":
            stats = {"input_tokens": 100, "output_tokens": 10, "models": {"fake-model": {}}}
            show(type="result", status="success", stats=stats)
        case "github-copilot":
            show(type="result", sessionId=session, exitCode=0, usage={"premiumRequests": 0})
            usage = {"inputTokens": 100 * turns, "outputTokens": 10 * turns}
            if (path := flag("--usage-output-file")) is not None:
                metrics = {"modelMetrics": {"fake-model": {"usage": usage}}}
                with open(path, "w", encoding="utf-8") as file:
                    file.write(json.dumps(metrics, indent=2))
        case "opencode":
            tokens = {"input": 100, "output": 10, "cache": {"read": 0, "write": 0}}
            part = {"messageID": "m1", "reason": "stop", "tokens": tokens, "cost": 0.01}
            show(type="step_finish", sessionID=session, part=part)


def report_error(session: str, status: int) -> NoReturn:
    """An error of the model's service, in the words of each program."""
    message = f"fake {status}"
    match KIND:
        case "claude-code":
            show(
                type="result", subtype="success", is_error=True, session_id=session,
                api_error_status=status, result=f"API Error: {status} {message}",
            )  # fmt: skip
        case "codex":
            words = f"unexpected status {status} Something: {message}, url: http://x/v1/responses"
            show(type="error", message=f"Reconnecting... 1/5 ({words})")
            show(type="turn.failed", error={"message": words})
        case "gemini":
            inner = json.dumps({"error": {"code": status, "message": message}})
            show(type="result", status="error", error={"message": f"[API Error: {inner}]"})
            sys.exit(status % 256)
        case "github-copilot":
            show(type="session.error", data={"message": message, "statusCode": status})
            show(type="result", sessionId=session, exitCode=1)
        case "opencode":
            data = {"message": message, "statusCode": status, "responseHeaders": {}}
            show(type="error", sessionID=session, error={"name": "APIError", "data": data})
        case "qwen":
            words = f"[API Error: {status} {message}]"
            say(session, words)
            show(type="result", is_error=True, session_id=session, error={"message": words})
        case "cursor":
            fail(1, f"Error: request failed with status {status}: {message}")
    sys.exit(1)


def hang() -> NoReturn:
    def end(_signal: int, _frame: FrameType | None) -> None:
        sys.exit(TERMINATED.get(KIND, 1))

    signal.signal(signal.SIGTERM, end)
    while True:
        time.sleep(0.05)


def main() -> None:
    prompt = sys.stdin.buffer.read().decode("utf-8")
    call = {"argv": ARGV, "prompt": prompt, "env": dict(os.environ), "cwd": os.getcwd()}
    with open(os.environ["FAKE_CALLS"], "a", encoding="utf-8") as calls:
        calls.write(json.dumps(call) + "\n")
    if ORDER.get("noise"):
        print("Warning: 256-color support not detected.\n{not json\n\x1b[31m[]\x1b[0m", flush=True)
        print("Warning: something else", file=sys.stderr, flush=True)
    session, before = open_session(prompt)
    begin(session)
    if "status" in ORDER:
        report_error(session, ORDER["status"])
    end = ORDER.get("end")
    if end == "crash":
        fail(3, "Warning: x\nFatal error: out of cheese\n    at Object.<anonymous> (x.js:1:1)")
    text = "" if end == "empty" else ORDER.get("text", "ok").replace("{before}", "|".join(before))
    say(session, text)
    if end == "hang":
        hang()
    if end == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if end != "missing":
        finish(session, text, len(before) + 1)


if __name__ == "__main__":
    main()
