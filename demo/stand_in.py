"""Stands in for Claude Code in `make demo`: a fresh machine has neither an agent program nor a key.

It speaks as `claude -p --output-format stream-json` does, so that orchestrate runs it as the
real one, and "writes code" by copying one of two texts: the first has a bug, and the answer
to a prompt that shows the failed tests repairs it. What it says it cost is made up.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

FIRST = """\
def slug(title):
    return title.lower().replace(" ", "-")
"""
REPAIRED = """\
import re


def slug(title):
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))
"""
_MODEL = "stand-in"


def main() -> int:
    arguments = sys.argv[1:]
    if "--version" in arguments:
        print("2.1.325 (Claude Code)")
        return 0
    flag = "--session-id" if "--session-id" in arguments else "--resume"
    session = arguments[arguments.index(flag) + 1] if flag in arguments else "stand-in"
    prompt = sys.stdin.read()
    say(session, type="system", subtype="init", model=_MODEL, tools=["Edit"])
    answer = work(prompt, session)
    said = {"role": "assistant", "model": _MODEL, "content": [{"type": "text", "text": answer}]}
    say(session, type="assistant", message=said)
    used = {"inputTokens": 1200, "outputTokens": 90, "costUSD": 0.012}
    say(
        session, type="result", subtype="success", is_error=False, result=answer, num_turns=1,
        total_cost_usd=0.012, usage={"input_tokens": 1200, "output_tokens": 90},
        modelUsage={_MODEL: used}, model_usage_since_last_result={_MODEL: used},
    )  # fmt: skip
    return 0


def work(prompt: str, session: str) -> str:
    if "Your work was checked" in prompt:
        note("mend", session)
        await_look()
        Path("slug.py").write_text(REPAIRED, "utf-8")
        return 'Only letters and digits are kept now.\n\n{"outcome": "complete"}'
    if prompt.startswith("Implement"):
        note("implement", session)
        Path("slug.py").write_text(FIRST, "utf-8")
        return 'slug() is written.\n\n{"outcome": "complete"}'
    note("commit", session)
    subprocess.run(["git", "commit", "-qam", "Add slug()"], check=True)
    return 'Committed.\n\n{"outcome": "committed"}'


def await_look() -> None:
    """Be at work until the demo has killed the run and looked at it, and for a moment more."""
    give_up = time.monotonic() + 60
    looked = Path("looked")
    while not looked.exists() and time.monotonic() < give_up:
        time.sleep(0.02)
    looked.unlink(missing_ok=True)
    time.sleep(1)


def note(what: str, session: str) -> None:
    with Path("calls.txt").open("a", encoding="utf-8") as ledger:
        ledger.write(f"{what} in session {session}\n")


def say(session: str, **event: object) -> None:
    print(json.dumps({**event, "session_id": session}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
