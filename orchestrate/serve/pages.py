"""The pages as the server writes them: readable without scripts; scripts take over from there."""

from __future__ import annotations

import time
from html import escape as escaped
from http import HTTPStatus
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from orchestrate.app.deciding.settle import settled_view
from orchestrate.app.secrets import secrets_of_run
from orchestrate.errors import OrchestrateError
from orchestrate.plan.visible import visible_lines
from orchestrate.serve.console import Console
from orchestrate.serve.inbox import questions
from orchestrate.serve.log_pages import log_source, page_of
from orchestrate.serve.rows import make_row, row_of
from orchestrate.serve.shell import document, sign_in_page
from orchestrate.serve.sign_in import console_of
from orchestrate.state.times import duration
from orchestrate.view.run_summary import summary_of
from orchestrate.view.status_document import step_summaries

_NAV = (("inbox", "Inbox"), ("runs", "Runs"), ("recipes", "Recipes"), ("more", "More"))
_MOST_RUNS = 50
_MOST_STEPS = 200
_LAST_LINES = 100


def escape(text: str) -> str:
    """As HTML; what turns the direction around or is not seen is named, as on a terminal."""
    return escaped(visible_lines(text))


def page(title: str, here: str, content: str, *, runs_script: bool = True) -> str:
    """The frame around each page; `content` is HTML that was escaped by its maker."""
    links = "".join(
        f'<a href="/{path}"{" aria-current=page" if path == here else ""}>{name}</a>'
        for path, name in _NAV
    )
    return document(
        f"{title} · orchestrate",
        f'<a class="skip" href="#app">Skip to the content</a>\n<nav aria-label="Console">{links}'
        f'</nav>\n<p id="live" role="status" hidden></p>\n<main id="app">\n{content}</main>\n'
        '<div id="said" class="unseen" role="status" aria-live="polite"></div>\n',
        runs_script=runs_script,
    )


def problem_page(status: int, error: OrchestrateError) -> str:
    """What a browser sees where a program gets a problem document."""
    hint = f"<p>{escape(error.hint)}</p>\n" if error.hint else ""
    told = f"<p class=note>{escape(error.message)}</p>\n{hint}"
    return page("Problem", "", f"<h1>{HTTPStatus(status).phrase}</h1>\n{told}", runs_script=False)


async def home(request: Request) -> Response:
    if request.state.who is not None:
        return RedirectResponse("/runs", 303)
    return HTMLResponse(sign_in_page())


async def runs_page(request: Request) -> Response:
    return HTMLResponse(await run_in_threadpool(_runs, console_of(request)))


async def run_page(request: Request) -> Response:
    shown = await run_in_threadpool(_run, console_of(request), request.path_params["run"])
    return HTMLResponse(shown)


async def inbox_page(request: Request) -> Response:
    return HTMLResponse(await run_in_threadpool(_inbox, console_of(request)))


async def other_page(request: Request) -> Response:
    here = request.url.path.split("/")[1]
    needs = "<p>This page needs JavaScript; reading runs does not.</p>\n"
    return HTMLResponse(page(here.capitalize(), here, needs))


def _runs(console: Console) -> str:
    now = time.time()
    rows = "".join(_row(row_of(*pair, now)) for pair in console.all_runs()[:_MOST_RUNS])
    table = (
        "<table><thead><tr><th>State</th><th>Recipe</th><th>Step</th><th>Elapsed</th><th>Cost</th>"
        f"</tr></thead><tbody>\n{rows}</tbody></table>\n"
    )
    empty = "<p>There are no runs yet: <code>orchestrate run FILE</code>.</p>\n"
    return page("Runs", "runs", f"<h1>Runs</h1>\n{table if rows else empty}")


def _row(row: dict[str, Any]) -> str:
    cells = (escape(str(row["step"] or "")), _took(row["elapsed_ms"]), escape(cost_words(row)))
    return (
        f'<tr><td>{_badge(row["state"])}</td><td><a href="/runs/{row["run_id"]}">'
        f"{escape(row['recipe'])}</a></td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"
    )


def _badge(state: str) -> str:
    name = escape(state)
    return f'<span class="state {name.replace(" ", "-")}">{name}</span>' if state else ""


def _took(elapsed_ms: int | None) -> str:
    return "" if elapsed_ms is None else escape(duration(elapsed_ms))


def cost_words(row: dict[str, Any]) -> str:
    """`~$0.42, 2 unknown`."""
    cost = row["cost"]
    if cost is None:
        return ""
    known = "" if cost["usd"] is None else f"${cost['usd']:.2f}"
    if not cost["unknown"]:
        return known
    return f"~{known}, {cost['unknown']} unknown" if known else f"{cost['unknown']} unknown"


def _run(console: Console, run_id: str) -> str:
    workspace, run = console.find(run_id)
    view, problem = None, ""
    try:
        view = settled_view(run)
    except OrchestrateError as error:
        problem = error.message
    row = make_row(workspace, summary_of(run), view, time.time())
    reason = "" if row["reason"] == row["state"] else escape(row["reason"] or "")
    told = (reason, _took(row["elapsed_ms"]), escape(cost_words(row)))
    parts = [
        f"<h1>{escape(row['recipe'])}</h1>\n",
        f"<p>{_badge(row['state'])} {' · '.join(filter(None, told))}</p>\n",
        f"<p><code>{escape(run.id)}</code> in <code>{escape(row['workspace'])}</code></p>\n",
    ]
    parts += [f"<p>{escape(budget['words'])}</p>\n" for budget in row["budgets"]]
    if row["note"]:
        parts.append(f"<p class=note>{escape(row['note'])}</p>\n")
    if view is None:
        parts.append(f"<p class=note>{escape(problem)}</p>\n")
    else:
        mask = secrets_of_run(run, workspace)
        parts += [_asked(mask.text(gate.prompt)) for gate in view.waiting_gates]
        steps = list(step_summaries(view.state.root).items())[:_MOST_STEPS]
        rows = "".join(
            f"<tr><td class=step>{escape(name)}</td><td>{_badge(str(one.get('status', '')))}</td>"
            f"<td>{escape(str(one.get('outcome') or one.get('error') or ''))}</td></tr>\n"
            for name, one in steps
        )
        parts.append(f"<h2>Steps</h2>\n<table><tbody>{rows}</tbody></table>\n" if rows else "")
    parts.append(_log(run))
    return page(row["recipe"], "runs", "".join(parts))


def _log(run: Any) -> str:
    try:
        source, _ = log_source(run, None, "stdout", raw=False)
        lines = page_of(source, "", None, _LAST_LINES).lines
    except OrchestrateError:
        return ""
    return f'<h2>Log</h2>\n<pre class="text" tabindex="0">{escape(chr(10).join(lines))}</pre>\n'


def _asked(text: str) -> str:
    return f'<pre class="text" tabindex="0">{escape(text)}</pre>\n'


def _inbox(console: Console) -> str:
    found = questions(console, with_files=False)
    shown = "".join(
        f'<article><h2><a href="/runs/{one.run_id}">{escape(one.definition)}</a>: '
        f"{escape(one.about)}</h2>\n{_asked(one.text)}</article>\n"
        for one in found
    )
    return page("Inbox", "inbox", f"<h1>Inbox</h1>\n{shown or '<p>Nothing waits for you.</p>'}\n")
