"""The page in a real Chromium: what it shows, at which widths, by keyboard, and live."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrate.serve import stream
from orchestrate.serve.console import Console
from orchestrate.serve.static_files import static_files
from orchestrate.testing import Project
from tests.serve.browser import Browser, Page, chromium
from tests.serve.conftest import MakeConsole, serving
from tests.serve.installing import judges
from tests.serve.recipes import with_recipes

pytestmark = pytest.mark.browser
WIDTHS = (320, 768, 1280)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def tools() -> Path | None:
    """axe-core and tsc; where npm cannot bring them, `tests.serve.installing` has said so."""
    return judges()


@pytest.fixture
def work(project: Project) -> Project:
    return with_recipes(project)


def run_of(console: Console, recipe: str) -> str:
    for _, run in console.all_runs():
        if recipe in (run.root / "state.json").read_text():
            return run.id
    raise AssertionError(recipe)


@contextmanager
def signed_in(browser: Browser, console: Console) -> Iterator[Page]:
    with browser.page() as page:
        page.size(1280)
        page.open(f"http://127.0.0.1:{console.port}/#k={console.keys.link()}")
        page.until("location.pathname === '/runs' && document.querySelector('#app h1')")
        yield page
        assert page.errors == []


def show(page: Page, console: Console, path: str) -> None:
    page.open(f"http://127.0.0.1:{console.port}{path}")
    page.until("document.querySelector('#app h1') && document.querySelector('body > nav')")


def test_a_link_signs_in_and_a_used_one_says_so(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    with serving(make) as console:
        link = console.keys.link()
        address = f"http://127.0.0.1:{console.port}/"
        assert console.keys.use_link(link)
        with browser.page() as page:
            page.open(f"{address}#k={link}")
            page.until("document.body.innerText.includes('was used already')")
            assert "k=" not in page.run("location.href")
            page.open(f"http://127.0.0.1:{console.port}/runs")
            page.until("document.querySelector('input[name=key]')")
            key = json.dumps(console.keys.api_key())
            page.run(f"document.querySelector('#key').value = {key}")
            page.click("form button")
            page.until("location.pathname === '/runs' && document.querySelector('table, .empty')")


def test_every_page_at_every_width(
    browser: Browser, work: Project, make: MakeConsole, tools: Path | None
) -> None:
    """Nothing scrolls sideways, nothing breaks the policy, and axe-core finds nothing."""
    work.spawn("run", "hello").assert_success()
    work.spawn("run", "gate").assert_exit(6)
    work.spawn("run", "look", "--backend", "rehearsal").assert_success()
    with serving(make) as console, signed_in(browser, console) as page:
        look = run_of(console, "look.yaml")
        hello, gate = run_of(console, "hello.yaml"), run_of(console, "gate.yaml")
        paths = ["/runs", "/inbox", "/recipes?id=hello", "/sessions", "/more",
                 f"/runs/{gate}", f"/runs/{hello}/log?step=Greet"]  # fmt: skip
        paths += [f"/runs/{look}/{tab}" for tab in
                  ("overview", "steps", "chat", "changes", "cost", "recipe", "events")]  # fmt: skip
        for width in WIDTHS:
            for dark in (False, True):
                page.size(width, dark=dark)
                for path in paths:
                    show(page, console, path)
                    time.sleep(0.2)
                    wide = page.run("document.documentElement.scrollWidth - innerWidth")
                    assert wide <= 0, (path, width, wide)
                    small = page.run(_SMALL_TARGETS)
                    assert not (small and width == 320), (path, small)
                    if tools is not None and width != 768:
                        assert judged(page, tools) == [], (path, width, dark)


_SMALL_TARGETS = (
    "[...document.querySelectorAll('button, nav a, input:not([type=checkbox]), select, summary')]"
    ".filter(e => e.offsetParent && e.getBoundingClientRect().height < 43.5)"
    ".map(e => e.outerHTML.slice(0, 80))"
)


def judged(page: Page, tools: Path) -> list[str]:
    page.run((tools / "axe-core" / "axe.min.js").read_text())
    found: list[str] = page.run(
        "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v => "
        "v.id + ': ' + v.nodes.map(n => n.html.slice(0, 120)).slice(0, 3).join(' | ')))"
    )
    return found


def test_what_an_agent_wrote_stays_text(browser: Browser, work: Project, make: MakeConsole) -> None:
    work.spawn("run", "gate").assert_exit(6)
    hidden = "\u202egpj.exe \U000e0041"
    work.spawn("run", "hello", "-i", f"who=<img src=x onerror=alert(1)>{hidden}").assert_success()
    with serving(make) as console, signed_in(browser, console) as page:
        show(page, console, "/inbox")
        page.until("document.querySelector('.question')")
        assert page.run("document.querySelector('.question pre').textContent") == "Ship <b>it</b>?"
        show(page, console, f"/runs/{run_of(console, 'hello.yaml')}/log?step=Greet")
        page.until("document.querySelectorAll('.line').length === 2")
        assert page.run("document.querySelectorAll('#app img').length") == 0
        assert page.run("document.querySelector('.line .ansi1').textContent") == "red"
        # What is not seen, or turns the direction around, is named.
        text = page.run("document.querySelector('.line').textContent")
        assert "<U+202E>gpj.exe <U+E0041>" in text


_HOSTILE = (
    "</title></text></svg><script xmlns='http://www.w3.org/1999/xhtml'>alert(1)</script>"
    "<img src=x onerror=alert(2)><a href='javascript:alert(3)'>x</a>"
)


def test_no_text_of_a_recipe_or_a_file_becomes_html(
    browser: Browser, project: Project, make: MakeConsole
) -> None:
    """On any page; a script that is barred by our policy would be an error of the page."""
    said = json.dumps(_HOSTILE)
    ends = "{approved: {action: exit, reason: ok}, denied: {action: exit, reason: no}}"
    project.write(
        "workflows/hostile.yaml",
        f"id: hostile\nlabel: {said}\ndescription: {said}\ninitialStep: look\nsteps:\n"
        f"  look:\n    prompt: {said}\n    outcomes: [complete, other]\n    onOutcome:\n"
        "      complete: {nextStep: ask}\n      other: {action: exit, reason: no}\n"
        f"  ask:\n    approval: {{prompt: {said}, timeout: 24h}}\n    onOutcome: {ends}\n",
    )
    project.write("script.yaml", f"ask: [waits]\nlook: [{{outcome: complete, text: {said}}}]\n")
    subprocess.run(["git", "init", "-q"], cwd=project.folder, check=True)
    project.write("<img src=x onerror=alert(4)>.txt", "<script>alert(5)</script>\n")
    rehearsal = ("--backend", "rehearsal", "--script", "script.yaml")
    project.spawn("run", "hostile", *rehearsal).assert_exit(6)
    with serving(make) as console, signed_in(browser, console) as page:
        run = run_of(console, "hostile.yaml")
        tabs = ("overview", "log", "chat", "changes", "recipe")
        seen = {"/inbox": ".question", "/recipes?id=hostile": "svg.plan"}
        seen |= {f"/runs/{run}/{tab}": ".question" for tab in tabs}
        for path, what in seen.items():
            show(page, console, path)
            page.until(f"document.querySelector('{what}')", 60)
            made = "#app img, #app script, #app a[href^=javascript]"
            assert page.run(f"document.querySelectorAll({json.dumps(made)}).length") == 0, path


def test_a_page_that_outlives_an_update_says_so(
    browser: Browser, work: Project, make: MakeConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(make) as console, signed_in(browser, console) as page:
        assert page.run("document.querySelector('#live').hidden")
        monkeypatch.setattr(stream, "__version__", "99.0.0")
        page.run("dispatchEvent(new Event('visibilitychange'))")
        page.until("document.querySelector('#live').innerText.includes('another version')", 60)


def test_two_tabs_race_for_one_approval(browser: Browser, work: Project, make: MakeConsole) -> None:
    work.spawn("run", "gate").assert_exit(6)
    with (
        serving(make) as console,
        signed_in(browser, console) as one,
        signed_in(browser, console) as other,
    ):
        for page in (one, other):
            show(page, console, "/inbox")
            page.until("document.querySelector('.question .good')")
        one.click(".question .good")
        other.run("(b => { b.click(); b.click(); })(document.querySelector('.question .bad'))")
        one.until("document.querySelector('.empty')")
        other.until("document.querySelector('.empty')")
        run = run_of(console, "gate.yaml")
        show(one, console, f"/runs/{run}")
        one.until("document.querySelector('.state.completed')")
        for page in (one, other):
            page.run("1")  # reads what the browser has to say until now
            # The refusal of the loser, whichever it is, is a line in the browser's log.
            page.errors[:] = [line for line in page.errors if "409" not in line]
        decided = [line for line in (work.folder / ".orchestrate/runs" / run / "events.jsonl")
                   .read_text().splitlines() if "gate-decided" in line]  # fmt: skip
        assert len(decided) == 1


def test_by_keyboard_alone(browser: Browser, work: Project, make: MakeConsole) -> None:
    work.spawn("run", "hello").assert_success()
    work.spawn("run", "gate").assert_exit(6)
    with serving(make) as console, signed_in(browser, console) as page:
        page.until("document.querySelectorAll('.runs tbody tr').length === 2")
        page.press("j")
        page.press("j")
        page.press("k")
        page.press("Enter")
        page.until("location.pathname.startsWith('/runs/2') && document.querySelector('.question')")
        page.press("d")
        page.until("document.body.innerText.includes('Enter to deny')")
        page.press("x")
        page.until("!document.body.innerText.includes('Enter to deny')")
        page.press("a")
        page.press("Enter")
        page.until("document.querySelector('.state.completed')")
        page.press("?")
        page.until("location.pathname === '/more'")
        page.run("history.back()")
        page.until("location.pathname.startsWith('/runs/2')")
        page.run("history.back()")
        page.until("location.pathname === '/runs' && document.querySelector('input[type=search]')")
        # The page that is come back to may still take the focus when it is drawn.
        for _ in range(50):
            page.press("/")
            if page.run("document.activeElement.type") == "search":
                break
        assert page.run("document.activeElement.type") == "search"


def test_it_is_live_and_says_when_it_is_not(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    """A run of the command line shows up; a killed server is told, and does not touch the run."""
    server = work.background("serve", "--port", "0")
    with server as process:
        assert process.stderr is not None
        line = ""
        while "open:" not in line:
            line = process.stderr.readline()
        address, _, link = line.split()[1].partition("#k=")
        with browser.page() as page:
            page.size(1280)
            page.open(f"{address}#k={link}")
            page.until("location.pathname === '/runs' && document.querySelector('#app h1')")
            run = work.spawn("run", "nap", "-d").assert_success().stdout.strip()
            page.until(f"document.querySelector('[data-run=\"{run}\"] .working')", 60)
            page.open(f"{address}runs/{run}/log?step=Nap")
            page.until("document.querySelector('.line')")
            os.kill(process.pid, signal.SIGKILL)
            page.until("document.querySelector('#live').innerText.includes('not live since')", 60)
    assert '"running"' in work.spawn("status", run, "--json").stdout
    work.spawn("cancel", run).assert_success()


_HEARD = """
window.WebSocket = class extends WebSocket {
  constructor(...given) { super(...given); window.line = this; }
};
"""


def test_a_run_is_looked_at_though_others_are_louder(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    """News of several runs in one moment are one look, which must not be that of the last one."""
    work.spawn("run", "hello").assert_success()
    with serving(make) as console, signed_in(browser, console) as page:
        run = run_of(console, "hello.yaml")
        page.call("Page.addScriptToEvaluateOnNewDocument", source=_HEARD)
        show(page, console, f"/runs/{run}")
        page.until("window.line?.readyState === 1 && document.querySelector('.run-head h1')", 60)
        asked = (
            f"performance.getEntriesByType('resource').filter(e => e.name.endsWith('/runs/{run}'))"
        )
        before = page.run(f"{asked}.length")
        told = [json.dumps({"type": "run", "run_id": one, "event": "x"}) for one in (run, "other")]
        for one in told:
            page.run(f"window.line.onmessage({{data: {json.dumps(one)}}})")
        page.until(f"{asked}.length > {before}", 60)


def test_an_event_that_is_read_stays_open_when_others_come(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    work.spawn("run", "gate").assert_exit(6)
    with serving(make) as console, signed_in(browser, console) as page:
        run = run_of(console, "gate.yaml")
        show(page, console, f"/runs/{run}/events")
        page.until("document.querySelector('.events details')", 60)
        page.click(".events details summary")
        page.until("document.querySelector('.events details[open]')", 60)
        work.spawn("approve", run, "--resume").assert_success()
        page.until("document.querySelector('.events').innerText.includes('run-ended')", 60)
        assert page.run("document.querySelectorAll('.events details[open]').length") == 1
        count = len((console.find(run)[1].root / "events.jsonl").read_text().splitlines())
        page.until(f"document.querySelectorAll('.events li').length === {count}", 60)


_HIDDEN_AND_ALLOWED = """
Object.defineProperty(document, 'hidden', { get: () => true });
window.told = [];
window.Notification = class {
  static permission = 'granted';
  constructor(title, more) { window.told.push(`${title}|${more.tag}`); }
};
"""


def test_a_hidden_tab_notifies_of_what_needs_a_person_failed_or_finished(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    with serving(make) as console, signed_in(browser, console) as page:
        page.call("Page.addScriptToEvaluateOnNewDocument", source=_HIDDEN_AND_ALLOWED)
        show(page, console, "/runs")
        page.until("document.querySelector('.runs, .empty')")
        work.spawn("run", "gate").assert_exit(6)
        gate = run_of(console, "gate.yaml")
        page.until("window.told.length === 1", 60)
        work.spawn("approve", gate, "--resume").assert_success()
        page.until("window.told.length === 2", 60)
        needs, finished = page.run("window.told")
        assert needs.endswith(f"gate.yaml needs you|{gate}")
        assert finished.endswith(f"gate.yaml finished|{gate}")


def test_changed_files_open_to_their_hunks(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=work.folder, check=True)
    work.write("made.txt", "<b>one</b>\n")
    work.spawn("run", "gate").assert_exit(6)
    work.write("workflows/gate.yaml", (work.folder / "workflows/gate.yaml").read_text() + "\n")
    with serving(make) as console, signed_in(browser, console) as page:
        show(page, console, f"/runs/{run_of(console, 'gate.yaml')}/changes?since=gate")
        page.until("document.querySelector('.files summary')", 60)
        assert "No gate was answered yet" in page.run("document.body.innerText")
        page.click("#app .tab .files details:has(code) summary")
        page.until("document.querySelector('.tab .diff .plus')", 60)
        text = page.run("document.querySelector('.tab .files').innerText")
        assert "+" in text
        assert page.run("document.querySelectorAll('.tab .files b').length") == 0


def test_a_long_path_is_broken_after_a_slash(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    """At the width of a phone the name of the file stays in one piece."""
    name = "a-folder-with-a-long-name/and-another-one/a-recipe-of-mine.yaml"
    one = 'version: "1.4"\nname: w\nsteps: [{name: A, command: ["true"]}]\n'
    work.write(name, one)
    work.spawn("run", name).assert_success()
    with serving(make) as console, signed_in(browser, console) as page:
        page.size(320)
        show(page, console, f"/runs/{run_of(console, name)}")
        page.until("document.querySelector('.run-head h1 wbr')", 60)
        lines = (
            "(() => { const r = document.createRange();"
            " r.selectNodeContents(document.querySelector('.run-head h1').lastChild);"
            " return r.getClientRects().length; })()"
        )
        assert page.run(lines) == 1
        assert page.run("document.querySelector('.run-head h1').textContent") == name


def test_on_a_phone_a_long_question_is_in_reach_and_hides_no_state(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    prompt = " ".join(["Read this with care."] * 200)
    step = f'{{name: ask, approval: {{prompt: "{prompt}"}}}}'
    work.write("workflows/long.yaml", f'version: "1.4"\nname: long\nsteps: [{step}]\n')
    work.spawn("run", "long").assert_exit(6)
    seen = (
        "(() => { const at = (q) => document.querySelector(q).getBoundingClientRect();"
        " const b = at('.question .good'); const x = b.x + b.width / 2, y = b.y + b.height / 2;"
        " return [document.elementFromPoint(x, y)?.textContent, at('.question').top]; })()"
    )
    with serving(make) as console, signed_in(browser, console) as page:
        page.size(360, 640)
        show(page, console, f"/runs/{run_of(console, 'long.yaml')}")
        page.until("document.querySelector('.question .good') && document.querySelector('svg')", 60)
        for place in ("document.body.scrollHeight", "0"):
            page.run(f"scrollTo(0, {place})")
            button, top = page.run(seen)
            assert button == "approve", place
            assert top >= 640 * 0.35, place
        state = "document.querySelector('.run-head .state').getBoundingClientRect().bottom"
        assert page.run(state) < page.run(seen)[1]


def test_the_changes_of_a_step_open_to_their_lines(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=work.folder, check=True)
    step = "{name: Make, command: [sh, -c, \"echo '<i>made</i>' > made.txt\"]}"
    work.write("workflows/write.yaml", f'version: "1.4"\nname: write\nsteps: [{step}]\n')
    work.spawn("run", "write").assert_success()
    with serving(make) as console, signed_in(browser, console) as page:
        show(page, console, f"/runs/{run_of(console, 'write.yaml')}/changes")
        page.until("document.querySelector('.steps-changed summary')", 60)
        page.click(".steps-changed summary")
        page.until("document.querySelector('.steps-changed .diff .plus')", 60)
        text = page.run("document.querySelector('.steps-changed').innerText")
        assert "+<i>made</i>" in text
        assert "1 file" in text
        assert page.run("document.querySelectorAll('.steps-changed i').length") == 0


def test_reading_works_without_scripts(browser: Browser, work: Project, make: MakeConsole) -> None:
    work.spawn("run", "hello").assert_success()
    with serving(make) as console, signed_in(browser, console) as page:
        page.call("Emulation.setScriptExecutionDisabled", value=True)
        page.open(f"http://127.0.0.1:{console.port}/runs/{run_of(console, 'hello.yaml')}")
        page.until("document.body.innerText.includes('completed')", 60)
        text = page.run("document.body.innerText")
        assert "Greet" in text
        assert "step-finished" in text


def test_large_runs_stay_within_bounds(
    browser: Browser, work: Project, make: MakeConsole, tmp_path: Path
) -> None:
    """A log of 50 MB and a list of many lines: few elements and little memory."""
    work.spawn("run", "hello").assert_success()
    with serving(make) as console:
        run = run_of(console, "hello.yaml")
        logs = work.folder / ".orchestrate/runs" / run / "logs"
        line = b"a line of a log that an agent has written, %07d\n"
        (logs / "orchestrator.log").write_bytes(b"".join(line % n for n in range(1_000_000)))
        with signed_in(browser, console) as page:
            show(page, console, f"/runs/{run}/log?step=")
            page.until("document.querySelector('.line')", 60)
            assert page.run("document.querySelectorAll('.line').length") <= 500
            assert page.run("document.querySelector('.line:last-child .n').dataset.n") == "1000000"
            page.run("document.querySelector('.log').scrollTop = 0")
            page.until("document.querySelector('.line .n').dataset.n < '999501'")
            assert page.run("document.querySelectorAll('.line').length") <= 500
            assert page.heap() < 150 * 1024 * 1024
            page.open(f"http://127.0.0.1:{console.port}/runs/{run}/log#L120-L140")
            page.until("document.querySelectorAll('.marked').length === 21")


def test_the_page_is_small() -> None:
    assert sum(len(file.packed) for file in static_files().values()) <= 60 * 1024


def test_the_types_of_the_page(tools: Path | None) -> None:
    if tools is None:
        return
    tsc = tools / ".bin" / "tsc"
    files = [str(path) for path in Path("orchestrate/serve/static").glob("*.js")]
    flags = ["--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "es2022", "--module",
             "es2022", "--lib", "es2023,dom,dom.iterable"]  # fmt: skip
    done = subprocess.run([tsc, *flags, *files], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout
