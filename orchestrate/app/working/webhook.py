"""A program of its own: posts what it reads on stdin to the address in ORCHESTRATE_WEBHOOK_URL.

The keeper starts it like any other program, so that it is ended when its time is up. Standard
library only. The address is often a secret, so nothing of it is ever printed: what libraries say
about an error may quote a part of it.
"""

from __future__ import annotations

import os
import sys

VARIABLE = "ORCHESTRATE_WEBHOOK_URL"


def address_fault(address: str) -> str:
    """What is wrong with an address, without quoting it, or ''; white space around it may be."""
    from urllib.parse import urlsplit

    address = address.strip()
    if not address.startswith(("https://", "http://")):
        return "the address does not begin with https:// or http://"
    if not address.isascii():
        return "the address has a character that is not ASCII: percent-encode it"
    if not address.isprintable() or " " in address:
        return "the address has white space or a control character in it"
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "the address has a malformed host or port"
    if not host:
        return "the address has no host"
    if "@" in parts.netloc:
        return "the address has a user name in it, which is not supported"
    # What `urlsplit` takes for an empty port is one that cannot be connected to.
    return "the address has a malformed host or port" if port == 0 else ""


def post(address: str, body: bytes) -> str:
    """Why it was not delivered, or ''. A redirection is not followed: it would lose the body."""
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class Refusing(HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            return None

    fault = address_fault(address)
    if fault:
        return fault
    headers = {"Content-Type": "application/json", "User-Agent": "orchestrate"}
    try:
        request = Request(address.strip(), data=body, headers=headers, method="POST")
        with build_opener(Refusing).open(request) as answer:
            answer.read(65536)
    except HTTPError as error:
        return f"the answer was HTTP {error.code}"
    except URLError as error:
        return _reason(error.reason)
    except Exception as error:  # noqa: BLE001 - a traceback would show the address
        return _reason(error)
    return ""


def _reason(error: object) -> str:
    """What went wrong; of what is not said by the system, only its kind."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"it was not delivered ({type(error).__name__})"


if __name__ == "__main__":
    trouble = post(os.environ.get(VARIABLE, ""), sys.stdin.buffer.read())
    if trouble:
        sys.exit(trouble)
