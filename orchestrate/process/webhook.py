"""A program of its own: posts what it reads on stdin to the address in ORCHESTRATE_WEBHOOK_URL.

The keeper starts it like any other program, so that it is ended when its time is up. Standard
library only; the address is never printed, because it is often a secret.
"""

from __future__ import annotations

import os
import sys

VARIABLE = "ORCHESTRATE_WEBHOOK_URL"


def post(address: str, body: bytes) -> str:
    """Why it was not delivered, or ''. A redirection is not followed: it would lose the body."""
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Refusing(HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    if not address.startswith(("https://", "http://")):
        return "the address does not begin with https:// or http://"
    headers = {"Content-Type": "application/json", "User-Agent": "orchestrate"}
    try:
        request = Request(address, data=body, headers=headers, method="POST")
        with build_opener(Refusing).open(request) as answer:
            answer.read(65536)
    except HTTPError as error:
        return f"the answer was HTTP {error.code}"
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        # What went wrong may quote the address.
        return str(reason).replace(address, "the address") or type(error).__name__
    return ""


if __name__ == "__main__":
    trouble = post(os.environ.get(VARIABLE, ""), sys.stdin.buffer.read())
    if trouble:
        sys.exit(trouble)
