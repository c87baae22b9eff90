"""The pages that hold no data: the shell of the console, signing in, and a refusal."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from orchestrate.serve.ways_in import ways_in

if TYPE_CHECKING:
    from orchestrate.serve.console import Console
    from orchestrate.serve.hosts import Refusal

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="stylesheet" href="/static/console.css">
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="apple-touch-icon" href="/static/icon-192.png">
<link rel="manifest" href="/static/manifest.webmanifest">
{more}</head>
"""
_SCRIPT = '<script type="module" src="/static/main.js"></script>\n'


# With no referrer at all a browser calls the origin of a form `null`, which is refused.
_OWN_ORIGIN = '<meta name="referrer" content="same-origin">\n'


def document(title: str, body: str, *, runs_script: bool = True, has_form: bool = False) -> str:
    """A whole page; `body` is HTML that was escaped by its maker."""
    more = (_OWN_ORIGIN if has_form else "") + (_SCRIPT if runs_script else "")
    head = _HEAD.format(title=escape(title), more=more)
    return f"{head}<body>\n{body}</body>\n</html>\n"


def sign_in_page() -> str:
    """What a browser without a session sees, whatever it asked for."""
    return document(
        "orchestrate",
        """<main id="app" class="sign-in">
<h1>orchestrate</h1>
<p id="sign-in-state" role="status">Open the link that <code>orchestrate serve</code> printed;
<code>orchestrate serve --link</code> prints a new one. Or sign in with the key that lies in
<code>~/.config/orchestrate/api-key</code>.</p>
<form method="post" action="/api/v1/session">
<label for="key">Key</label>
<input id="key" name="key" type="password" autocomplete="current-password" required>
<button>Sign in</button>
</form>
</main>
""",
        has_form=True,
    )


def refused_page(why: Refusal, console: Console) -> str:
    """Names the refused host, the flag, and the ways in that need neither."""
    ways = "".join(
        f"<dt>{escape(what)}</dt><dd><code>{escape(command)}</code></dd>\n"
        for what, command in ways_in(console)
    )
    body = f"<main><h1>Refused</h1><p>{escape(why.detail)}</p>\n<dl>{ways}</dl></main>\n"
    return document("Refused", body, runs_script=False)
