"""A fake agent program: speaks as Claude Code or Codex does, and answers from a test's script.

It is started as `acting.py PROGRAM FOLDER ARGUMENTS...` and uses the standard library only. FOLDER,
which lies outside the run and the workspace, has the script (`script.json`), the ledger of all
calls (`ledger.jsonl`), and a file for each session with its history, as the real programs keep it.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time

# A test waits for each start of this program: what it seldom needs is imported then.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Turn = dict[str, Any]
_UUID = [8, 4, 4, 4, 12]


def fail(words: str) -> None:
    """End as the real programs do on a bad call: words on stderr, nothing on stdout, exit 1."""
    print(words, file=sys.stderr)
    raise SystemExit(1)


def read(path: str) -> str:
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def write(path: str, text: str, mode: str = "w") -> None:
    with open(path, mode, encoding="utf-8", newline="") as file:
        file.write(text)


class Sessions:
    """Conversations in files. A conversation exists from its first call on, also a failed one."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        os.makedirs(folder, exist_ok=True)

    def path(self, session: str, suffix: str = "jsonl") -> str:
        return f"{self._folder}/{session}.{suffix}"

    def begin(self, session: str) -> None:
        if os.path.exists(self.path(session)):
            fail(f"Error: Session ID {session} is already in use.")
        write(self.path(session), "")

    def history(self, session: str) -> list[Turn]:
        if not os.path.exists(self.path(session)):
            fail(f"No conversation found with session ID: {session}")
        return [json.loads(line) for line in read(self.path(session)).splitlines()]

    def fork(self, session: str, name: str) -> str:
        """Go on under another id, as some versions do on a resume; the old one stays as it is."""
        for suffix in ("jsonl", "heard"):
            write(self.path(name, suffix), read(self.path(session, suffix)))
        self.leave(session)
        return name

    def hear(self, session: str, prompt: str) -> int:
        """Keep a prompt, as the real programs do before they answer it; how many were before."""
        with open(self.path(session, "heard"), "a+", encoding="utf-8") as file:
            file.seek(0)
            before = len(file.readlines())
            file.write(json.dumps(prompt) + "\n")
        return before

    def add(self, session: str, turn: Turn) -> None:
        write(self.path(session), json.dumps(turn) + "\n", "a")

    def enter(self, session: str) -> bool:
        """Come in; False if somebody is in there already, and still lives."""
        busy = self.path(session, "busy")
        is_alone = not (os.path.exists(busy) and os.path.exists(f"/proc/{read(busy)}"))
        write(busy, str(os.getpid()))
        return is_alone

    def leave(self, session: str) -> None:
        if os.path.exists(self.path(session, "busy")):
            os.unlink(self.path(session, "busy"))


def record_call(folder: str, entry: Turn) -> int:
    """Write a call down before anything is done for it; its number counts from 0."""
    with open(f"{folder}/ledger.jsonl", "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        number = len(file.readlines())
        file.write(json.dumps(entry) + "\n")
    return number


def line_of(folder: str, number: int, prompt: str) -> Turn:
    """What the script says for a call: by its number, or by the first line of its prompt.

    A call that the script does not foresee fails, and the test with it.
    """
    script: list[Turn] | dict[str, Turn] = json.loads(read(f"{folder}/script.json"))
    opening = prompt.partition("\n")[0]
    if isinstance(script, dict):
        return script[opening]
    if number >= len(script):
        fail(f"the script has {len(script)} answers, and this is call {number + 1}: {opening}")
    return script[number]


def act(line: Turn, folder: str) -> str:
    """Do what the script says, and give the answer."""
    if "wait_for" in line:
        end = time.monotonic() + 120
        while not os.path.exists(f"{folder}/{line['wait_for']}"):
            if time.monotonic() > end:
                fail("nobody let me go on")
            time.sleep(0.01)
    for command in line.get("run", ()):
        import subprocess

        done = subprocess.run(
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            fail(f"{command}: {done.stderr}")
    if "exit" in line:
        print(line.get("stderr", "it broke"), file=sys.stderr)
        raise SystemExit(line["exit"])
    return str(line.get("text", "")) * int(line.get("times", 1)) + str(line.get("end", ""))


def after(arguments: list[str], flag: str) -> str | None:
    return arguments[arguments.index(flag) + 1] if flag in arguments else None


def called(program: str, arguments: list[str], prompt: str, **more: Any) -> Turn:
    return {
        "program": program,
        "argv": arguments,
        "prompt": prompt,
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "pid": os.getpid(),
        **more,
    }


# Claude Code.


def read_message(text: str) -> str:
    """The prompt in `--input-format stream-json`: one message with its parts."""
    content = json.loads(text)["message"]["content"]
    return "".join(part["text"] for part in content)


def be_claude(folder: str, arguments: list[str], text: str) -> int:
    sessions = Sessions(f"{folder}/sessions")
    is_message = after(arguments, "--input-format") == "stream-json"
    prompt = read_message(text) if is_message else text
    new, resumed = after(arguments, "--session-id"), after(arguments, "--resume")
    session = new or resumed or ""
    if [len(part) for part in session.split("-")] != _UUID or set(session) - {*"0123456789abcdef-"}:
        fail(f"Error: Invalid session ID {session}")
    if new:
        sessions.begin(session)
    history = sessions.history(session)
    is_alone = sessions.enter(session)
    model = after(arguments, "--model") or "claude-opus-5-5"
    number = record_call(
        folder,
        called(
            "claude", arguments, prompt, session=session, is_new=bool(new), model=model,
            earlier=len(history), is_alone=is_alone, heard=sessions.hear(session, prompt),
        ),
    )  # fmt: skip
    line = line_of(folder, number, prompt)
    if "fork" in line:
        session = sessions.fork(session, line["fork"])
    # The real program resolves a tier, and may fall back to another model on its way.
    speaker = line.get("speaks_as", model)
    start: Turn = {"type": "system", "subtype": "init", "session_id": session, "model": model}
    start |= {"cwd": os.getcwd(), "tools": ["Bash", "Edit"], "permissionMode": "default"}
    is_stream = after(arguments, "--output-format") == "stream-json" and "shape" not in line
    if is_stream and not line.get("hides"):
        print(json.dumps(start), flush=True)
    if line.get("forgets"):
        os.unlink(sessions.path(session))
    try:
        answer = act(line, folder)
        result = claude_result(line, session, answer, history, speaker)
        sessions.add(session, {"prompt": prompt, "answer": answer, "bill": line.get("cost")})
    finally:
        sessions.leave(session)
    if "resets_at" in line:
        limit = {"status": "rejected", "resetsAt": line["resets_at"]}
        print(json.dumps({"type": "rate_limit_event", "rate_limit_info": limit}))
    content = [{"type": "text", "text": answer}]
    message = {"role": "assistant", "model": speaker, "content": content}
    said = {"type": "assistant", "message": message}
    if is_stream:
        print(json.dumps(said | {"session_id": session}), json.dumps(result), sep="\n")
    else:
        print(json.dumps([start, said, result] if line["shape"] == "array" else result))
    return int(line.get("then_exit", result["is_error"]))


def claude_result(
    line: Turn, session: str, answer: str, history: list[Turn], model: str
) -> dict[str, Any]:
    """The event that ends a call. Dollars and `modelUsage` count up over a session's calls."""
    result: dict[str, Any] = {
        "duration_ms": 12,
        "stop_reason": "end_turn",
        "session_id": session,
        "permission_denials": [
            {"tool_name": tool, "tool_use_id": f"toolu_{number}", "tool_input": {}}
            for number, tool in enumerate(line.get("denied", ()))
        ],
        "terminal_reason": "api_error" if "error" in line else "completed",
        "is_error": "error" in line,
        "num_turns": 1,
        # Also for errors of the service, as measured.
        "subtype": "success",
        "api_error_status": line.get("status"),
        "result": line.get("error", answer),
        "type": "result",
    }
    if "structured" in line:
        result["structured_output"] = line["structured"]
    cost = line.get("cost")
    if cost is not None:
        bills = [turn["bill"] for turn in history if turn["bill"] is not None]
        total = round(sum(bills) + cost, 10)
        calls = len(bills) + 1
        result["total_cost_usd"] = total
        result["usage"] = {"input_tokens": 100, "output_tokens": 10}
        counted = {"inputTokens": 100 * calls, "outputTokens": 10 * calls, "costUSD": total}
        if not line.get("is_terse"):
            result["modelUsage"] = {model: counted}
    return result


def new_uuid() -> str:
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


# Codex: the prompt is `-` on stdin, and it makes its sessions' ids up itself.


def be_codex(folder: str, arguments: list[str], prompt: str) -> int:
    sessions = Sessions(f"{folder}/sessions")
    resumed = after(arguments, "resume")
    session = resumed or new_uuid()
    if resumed is None:
        sessions.begin(session)
    history = sessions.history(session)
    is_alone = sessions.enter(session)
    number = record_call(
        folder,
        called(
            "codex", arguments, prompt, session=session, is_new=resumed is None,
            model=after(arguments, "-m"), earlier=len(history), is_alone=is_alone,
            heard=sessions.hear(session, prompt),
        ),
    )  # fmt: skip
    print(json.dumps({"type": "thread.started", "thread_id": session}), flush=True)
    print(json.dumps({"type": "turn.started"}), flush=True)
    line = line_of(folder, number, prompt)
    try:
        answer = act(line, folder)
        sessions.add(session, {"prompt": prompt, "answer": answer})
    finally:
        sessions.leave(session)
    if "error" in line:
        print(json.dumps({"type": "turn.failed", "error": {"message": line["error"]}}))
        return 1
    item = {"id": "item_0", "type": "agent_message", "text": answer}
    print(json.dumps({"type": "item.completed", "item": item}))
    calls = len(history) + 1
    usage = {"input_tokens": 1000 * calls, "cached_input_tokens": 0, "output_tokens": 50 * calls}
    print(json.dumps({"type": "turn.completed", "usage": usage}))
    return 0


def main() -> int:
    program, folder, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
    text = sys.stdin.buffer.read().decode("utf-8")
    if not text.strip():
        fail("Error: Input must be provided either through stdin or as a prompt argument")
    return (be_claude if program == "claude" else be_codex)(folder, arguments, text)


if __name__ == "__main__":
    raise SystemExit(main())
