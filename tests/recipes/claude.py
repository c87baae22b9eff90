"""A program that speaks as `claude -p --output-format stream-json --verbose` does, from a table.

Started as `python -I -S claude.py FOLDER ARGUMENTS...`. FOLDER lies outside of every run; it has
the table (`answers.json`) and the ledger, a line when a call begins and one when it ends. The first
rule whose text is in the prompt answers; its answers are given one after the other, the last one
again and again. The lines are those of Claude Code 2.1.325, without what nobody reads.
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
    from typing import Any, NoReturn

MARKER = "STEP:"
_LONGEST_KEPT = 64 * 1024
# What the service answers, as Claude Code hands it on: status, kind, and its words.
_API_ERRORS: dict[str, tuple[int | None, str, str]] = {
    "rate-limit": (429, "rate_limit_error", "API Error: Request rejected (429) · slow down"),
    "overloaded": (
        529,
        "overloaded_error",
        "API Error: 529 fake 529. This is a server-side issue, usually temporary",
    ),
    "network": (None, "", "API Error: Unable to connect to API (ECONNREFUSED)"),
    "auth": (403, "permission_error", "Failed to authenticate. API Error: 403 fake 403"),
    "invalid-request": (400, "invalid_request_error", "API Error: 400 fake 400"),
}


def digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def main() -> None:
    folder, arguments = sys.argv[1], sys.argv[2:]
    Call(folder, arguments).answer()


class Call:
    """One call of the program."""

    def __init__(self, folder: str, arguments: list[str]) -> None:
        self.folder = folder
        self.arguments = arguments
        self.prompt = read_prompt(arguments)
        self.session = self.after("--session-id") or self.after("--resume")
        self.model = self.after("--model")
        self.marker = marker_in(self.prompt)

    def after(self, flag: str) -> str:
        return self.arguments[self.arguments.index(flag) + 1] if flag in self.arguments else ""

    def answer(self) -> None:
        rule, number = self.rule()
        self.note("start", rule=rule.get("when"), number=number, **self.about())
        answers = rule.get("answers") or [{}]
        answer = answers[min(number, len(answers)) - 1]
        self.say(
            type="system", subtype="init", cwd=os.getcwd(), model=self.model, tools=["Bash", "Edit"]
        )
        self.wait(answer)
        self.work(answer)
        if "run" in answer:
            import subprocess

            subprocess.run(answer["run"], check=True, stdin=subprocess.DEVNULL, capture_output=True)
        if "fail" in answer:
            self.fail(answer)
        text = answer.get("text", f"done {self.marker}".strip())
        if "size" in answer:
            text = (text + " ") * (answer["size"] // (len(text) + 1) + 1)
            text = text[: answer["size"] - 3] + "END"
        parts = [{"type": "text", "text": text}]
        said = {"role": "assistant", "model": self.model, "content": parts}
        self.say(type="assistant", message=said)
        self.finish(text, answer.get("cost", 0.006), tells_tokens=answer.get("tells_tokens", True))

    def wait(self, answer: dict[str, Any]) -> None:
        """Take time; a file that the answer names ends the waiting early."""
        end = time.monotonic() + answer.get("delay", 0)
        until = answer.get("until")
        while time.monotonic() < end and not (until and os.path.exists(until)):
            time.sleep(0.01 if until else max(0.0, end - time.monotonic()))

    def work(self, answer: dict[str, Any]) -> None:
        """Messages of which each tells what it takes, in two events; a second between them."""
        for number, used in enumerate(answer.get("messages", ())):
            said = {"id": f"m{number}", "role": "assistant", "model": self.model, "content": []}
            for _ in range(2):
                self.say(type="assistant", message={**said, "usage": used})
            time.sleep(answer.get("pause", 0))

    def finish(self, text: str, cost: float | None, *, tells_tokens: bool) -> NoReturn:
        used = {"inputTokens": 1000, "outputTokens": 100, "costUSD": cost}
        by_model = {self.model: used} if tells_tokens else {}
        self.say(
            type="result", subtype="success", is_error=False, result=text, stop_reason="end_turn",
            num_turns=1, api_error_status=None, terminal_reason="completed", total_cost_usd=cost,
            usage={"input_tokens": 1000, "output_tokens": 100} if tells_tokens else {},
            modelUsage=by_model, model_usage_since_last_result=by_model,
        )  # fmt: skip
        self.end(0)

    def fail(self, answer: dict[str, Any]) -> NoReturn:
        kind = answer["fail"]
        if kind in _API_ERRORS:
            status, name, words = _API_ERRORS[kind]
            if "resets_in" in answer:
                resets = {"status": "rejected", "resetsAt": time.time() + answer["resets_in"]}
                self.say(type="rate_limit_event", rate_limit_info=resets)
            self.say(type="system", subtype="api_retry", attempt=1, max_retries=4, error=name,
                     error_status=status)  # fmt: skip
            self.say(
                type="result", subtype="success", is_error=True, result=answer.get("text", words),
                stop_reason="stop_sequence", num_turns=1, api_error_status=status,
                api_error_type=name, terminal_reason="api_error", modelUsage={},
                total_cost_usd=answer.get("cost", 0),
                usage={"input_tokens": 0, "output_tokens": 0},
            )  # fmt: skip
            self.end(1)
        if kind == "budget":
            self.say(type="result", subtype="error_max_budget_usd", is_error=True, num_turns=2,
                     errors=["Reached maximum budget"], total_cost_usd=answer["cost"],
                     modelUsage={}, usage={"input_tokens": 9, "output_tokens": 9})  # fmt: skip
            self.end(1)
        if kind == "limit":
            self.say(type="result", subtype="error_max_turns", is_error=True, num_turns=2,
                     errors=["Reached maximum number of turns (1)"])  # fmt: skip
            self.end(1)
        if kind == "killed":
            import signal

            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "silent":
            self.end(0)
        sys.stderr.write(answer.get("text", "Error: something broke") + "\n")
        self.end(1)

    def end(self, code: int) -> NoReturn:
        self.note("end", code=code)
        sys.exit(code)

    def say(self, **event: Any) -> None:
        sys.stdout.write(json.dumps({**event, "session_id": self.session}) + "\n")
        sys.stdout.flush()

    def about(self) -> dict[str, Any]:
        raw = self.prompt.encode()
        is_kept = len(raw) <= _LONGEST_KEPT
        return {
            "model": self.model,
            "argv": self.arguments,
            "prompt": self.prompt if is_kept else None,
            "size": len(raw),
            "sha256": "" if is_kept else digest(raw),
            "attempt": os.environ.get("ORCHESTRATE_ATTEMPT", ""),
        }

    def note(self, kind: str, **more: Any) -> None:
        """One line, one write: lines of calls at the same time do not mix."""
        line = {"kind": kind, "pid": os.getpid(), "marker": self.marker, "at": time.monotonic()}
        ledger = os.open(f"{self.folder}/ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(ledger, json.dumps({**line, **more}).encode() + b"\n")
        os.close(ledger)

    def rule(self) -> tuple[dict[str, Any], int]:
        """The rule for this prompt, and how often it has been asked with this call."""
        with open(f"{self.folder}/answers.json", encoding="utf-8") as file:
            rules = json.load(file)
        for position, rule in enumerate(rules):
            if rule["when"] in self.prompt:
                return rule, self.count(position)
        return {}, 1

    def count(self, position: int) -> int:
        counter = os.open(f"{self.folder}/count-{position}", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(counter, fcntl.LOCK_EX)
        number = int(os.read(counter, 20) or b"0") + 1
        os.pwrite(counter, str(number).encode(), 0)
        os.close(counter)
        return number


def marker_in(prompt: str) -> str:
    """The word after the first STEP: that one follows."""
    for rest in prompt.split(MARKER)[1:]:
        ends = (n for n, c in enumerate(rest) if not (c.isalnum() or c in "_.[]-"))
        if word := rest[: next(ends, len(rest))]:
            return word
    return ""


def read_prompt(arguments: list[str]) -> str:
    given = sys.stdin.buffer.read().decode("utf-8", "surrogatepass")
    if "--input-format" not in arguments:
        return given
    return "".join(part["text"] for part in json.loads(given)["message"]["content"])


if __name__ == "__main__":
    main()
