"""The files of the page: read from the package, compressed once, with a tag for caches."""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from orchestrate.record import record
from orchestrate.serve.problems import Problem

FOLDER = Path(__file__).with_name("static")
_KINDS = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
}


@record
class StaticFile:
    content: bytes
    packed: bytes
    tag: str
    kind: str


@cache
def static_files() -> dict[str, StaticFile]:
    """All of them by name. Other names lead nowhere, so no path can leave the folder."""
    found = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in _KINDS:
            content = path.read_bytes()
            packed = gzip.compress(content, 9, mtime=0)
            tag = f'"{sha256(content).hexdigest()[:16]}"'
            found[path.name] = StaticFile(content, packed, tag, _KINDS[path.suffix])
    return found


async def static_file(request: Request) -> Response:
    found = static_files().get(request.path_params["name"])
    if found is None:
        raise Problem(404, "there is no such file")
    headers = {"etag": found.tag, "cache-control": "no-cache", "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    content = found.content
    if "gzip" in request.headers.get("accept-encoding", "") and found.kind != "image/png":
        content = found.packed
        headers["content-encoding"] = "gzip"
    return Response(content, headers=headers, media_type=found.kind)
