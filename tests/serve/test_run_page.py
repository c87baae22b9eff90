"""The page of one run in a real Chromium: its tabs while something happens, or takes long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from orchestrate.serve import read_api
from orchestrate.serve.histories import kept_chronicle
from orchestrate.testing import Project
from tests.serve.browser import Browser, chromium
from tests.serve.conftest import MakeConsole, serving
from tests.serve.recipes import with_recipes
from tests.serve.test_page import run_of, show, signed_in

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def work(project: Project) -> Project:
    return with_recipes(project)


def test_a_tab_that_takes_long_does_not_keep_the_page_waiting(
    browser: Browser, work: Project, make: MakeConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history of 100,000 events takes seconds to read; where the run stands does not."""
    work.spawn("run", "hello").assert_success()
    may_answer = threading.Event()
    real = kept_chronicle

    def held(*given: Any, **more: Any) -> Any:
        may_answer.wait(60)
        return real(*given, **more)

    monkeypatch.setattr(read_api, "kept_chronicle", held)
    with serving(make) as console, signed_in(browser, console) as page:
        show(page, console, f"/runs/{run_of(console, 'hello.yaml')}/steps")
        try:
            page.until("document.querySelector('.run-head .state.completed')", 60)
            assert page.run("document.querySelector('.tab').innerText") == "reading …"
        finally:
            may_answer.set()
        page.until("document.querySelector('.tab').innerText.includes('Greet')", 60)


def test_the_list_of_steps_is_live_below_the_graph(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    work.spawn("run", "gate").assert_exit(6)
    with serving(make) as console, signed_in(browser, console) as page:
        run = run_of(console, "gate.yaml")
        show(page, console, f"/runs/{run}")
        page.until("document.querySelector('.tab svg') && document.querySelector('.tab table')", 60)
        work.spawn("approve", run, "--resume").assert_success()
        page.until("document.querySelector('.tab table').innerText.includes('say')", 60)


def test_what_an_agent_did_comes_first_in_its_log(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    work.spawn("run", "look", "--backend", "rehearsal").assert_success()
    work.spawn("run", "hello").assert_success()
    shown = "document.querySelector('.logs select[aria-label=Output]')?.value"
    with serving(make) as console, signed_in(browser, console) as page:
        for recipe, step, stream in (("look", "again", "transcript"), ("hello", "Greet", "stdout")):
            run = run_of(console, f"{recipe}.yaml")
            show(page, console, f"/runs/{run}/log?step={step}")
            page.until(f"{shown} === '{stream}'", 60)
        show(page, console, f"/runs/{run_of(console, 'look.yaml')}/log?step=look&stream=stdout")
        page.until(f"{shown} === 'stdout'", 60)


def test_a_log_opens_at_the_step_that_matters(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    work.spawn("run", "hello").assert_success()
    shown = "document.querySelector('.log').innerText"
    with serving(make) as console, signed_in(browser, console) as page:
        run = run_of(console, "hello.yaml")
        show(page, console, f"/runs/{run}/log")
        page.until(f"{shown}.includes('30')", 60)
        # The address says what is shown, also when the run has gone on since.
        assert page.run("location.search") == "?step=Count"
        show(page, console, f"/runs/{run}/log?step=")
        page.until(f"{shown}.includes('Greet')", 60)
        assert page.run("document.querySelector('[aria-label=Step]').value") == ""


def test_a_log_opens_at_the_step_that_worked_last(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    """In a machine that went back to its first step, this is not the last one of the list."""
    ends = "{action: exit, reason: seen}"
    steps = "".join(
        f"  {name}:\n    prompt: Do it.\n    outcomes: [{', '.join(routes)}, other]\n"
        "    onOutcome:\n"
        + "".join(f"      {outcome}: {to}\n" for outcome, to in (*routes.items(), ("other", ends)))
        for name, routes in (
            ("look", {"issues-found": "{nextStep: mend}", "no-issues": ends}),
            ("mend", {"complete": "{nextStep: look}"}),
        )
    )
    head = "id: back\nlabel: Back\ndescription: Goes back.\ninitialStep: look\nsteps:\n"
    work.write("workflows/back.yaml", head + steps)
    work.spawn("run", "back", "--backend", "rehearsal").assert_success()
    with serving(make) as console, signed_in(browser, console) as page:
        show(page, console, f"/runs/{run_of(console, 'back.yaml')}/log")
        page.until("document.querySelector('[aria-label=Step]')?.value === 'look'", 60)


def test_a_failed_run_shows_what_the_step_printed_last(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    step = "{name: Test, command: [sh, -c, 'seq 1 40; echo \"3 <b>failed</b>\"; exit 1']}"
    work.write("workflows/test.yaml", f'version: "1.4"\nname: test\nsteps: [{step}]\n')
    work.spawn("run", "test").assert_exit(1)
    with serving(make) as console, signed_in(browser, console) as page:
        show(page, console, f"/runs/{run_of(console, 'test.yaml')}")
        page.until("document.querySelector('.failure pre')", 60)
        text = page.run("document.querySelector('.failure').innerText")
        assert text.startswith("Test: Command failed with exit code 1")
        assert "3 <b>failed</b>" in text
        assert "\n20\n" not in text
        page.click(".failure a")
        page.until("location.search.includes('step=Test') && document.querySelector('.line')", 60)


def test_the_log_of_a_failed_step_that_printed_errors_only_opens_at_them(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    command = "printf '\\\\033[31mno module\\\\033[0m' >&2; exit 1"
    step = f'{{name: Test, command: [sh, -c, "{command}"]}}'
    work.write("workflows/test.yaml", f'version: "1.4"\nname: test\nsteps: [{step}]\n')
    work.spawn("run", "test").assert_exit(1)
    with serving(make) as console, signed_in(browser, console) as page:
        show(page, console, f"/runs/{run_of(console, 'test.yaml')}/log")
        page.until("document.querySelector('.log .ansi1')?.textContent === 'no module'", 60)
        assert page.run("document.querySelector('[aria-label=Output]').value") == "stderr"
        # Whoever asks for the output gets it, although there is none.
        page.run(
            "const s = document.querySelector('[aria-label=Output]'); s.value = 'stdout';"
            " s.dispatchEvent(new Event('change'))"
        )
        page.until("document.querySelector('.log').innerText.includes('Nothing has been')", 60)


def test_the_items_of_a_loop_are_counted_by_how_they_ended(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    do = "{name: Do, command: [sh, -c, 'test ${item} != 2']}"
    loop = f"{{name: Each, for_each: {{items: [1, 2, 3], steps: [{do}]}}}}"
    head = 'version: "1.4"\nname: loop\nstrict_flow: false\n'
    work.write("workflows/loop.yaml", f"{head}steps: [{loop}]\n")
    work.spawn("run", "loop").assert_success()
    with serving(make) as console, signed_in(browser, console) as page:
        show(page, console, f"/runs/{run_of(console, 'loop.yaml')}/steps")
        page.until("document.querySelectorAll('.tab tbody tr').length === 2", 60)
        text = page.run("document.querySelectorAll('.tab tbody tr')[1].children[1].innerText")
        assert text.replace(" \N{MULTIPLICATION SIGN}", " ") == "completed 2\nfailed 1"


def test_a_recipe_that_is_wrong_names_each_mistake(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    work.write("workflows/bad.yaml", 'version: "1.4"\nname: bad\nnope: 1\nsteps: [{name: A}]\n')
    with serving(make) as console, signed_in(browser, console) as page:
        show(page, console, "/recipes?id=bad")
        page.until("document.querySelector('.note.bad')?.innerText.includes('bad.yaml:3:1')", 60)
        assert "unknown field 'nope'" in page.run("document.querySelector('.note.bad').innerText")
        page.errors.clear()  # Chromium says that the answer was 422


def test_a_step_that_nobody_works_on_is_not_told_as_running(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    with (
        work.background("run", "nap") as program,
        serving(make) as console,
        signed_in(browser, console) as page,
    ):
        page.until("document.querySelector('.runs tbody .working')", 60)
        program.kill()
        program.wait()
        show(page, console, f"/runs/{run_of(console, 'nap.yaml')}")
        page.until("document.querySelector('.tab .state')?.innerText === 'unfinished'", 60)


def test_names_of_steps_fit_on_every_screen(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    long = (
        "a_step_with_a_name_that_is_as_long_as_names_may_be_and_has_no_place_to_break_it_012345678"
    )
    steps = f"[{{name: {long}, command: [sleep, '0.1']}}, {{name: B, command: ['true']}}]"
    work.write("workflows/long.yaml", f'version: "1.4"\nname: long\nsteps: {steps}\n')
    work.spawn("run", "long").assert_success()
    overlap = (
        "[...document.querySelectorAll('.tab tr')].flatMap(row => [...row.children]"
        ".filter(td => td.textContent).map(td => td.getBoundingClientRect())"
        ".filter((r, i, all) => all.some((o, j) => j < i && r.left < o.right - 1"
        " && r.top < o.bottom - 1 && o.left < r.right - 1 && o.top < r.bottom - 1))).length"
    )
    tall = "[...document.querySelectorAll('.tab td:nth-child(3)')].map(td => td.offsetHeight)"
    with serving(make) as console, signed_in(browser, console) as page:
        run = run_of(console, "long.yaml")
        for width in (320, 768, 1280):
            page.size(width)
            for tab in ("overview", "steps"):
                show(page, console, f"/runs/{run}/{tab}")
                page.until("document.querySelectorAll('.tab tbody tr').length === 2", 60)
                assert page.run("document.documentElement.scrollWidth - innerWidth") <= 0
                assert page.run(overlap) == 0, (width, tab)
                if width == 320:
                    assert max(page.run(tall)) < 40, tab
        work.spawn("run", "gate").assert_exit(6)
        steps = f"[{{name: {long}, command: ['false']}}]"
        work.write("workflows/fail.yaml", f'version: "1.4"\nname: fail\nsteps: {steps}\n')
        work.spawn("run", "fail").assert_exit(1)
        page.size(768)
        show(page, console, "/runs")
        page.until("document.querySelectorAll('.runs tbody tr').length === 3", 60)
        assert page.run("document.documentElement.scrollWidth - innerWidth") <= 0
        # Why a run waits is not stood on its end beside a long name.
        waiting = "document.querySelector('.runs .waits-for-you').closest('tr')"
        assert page.run(f"{waiting}.querySelector('td.step small').offsetHeight") < 50


def test_a_chat_opens_at_its_newest_message(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    work.spawn("run", "look", "--backend", "rehearsal").assert_success()
    last = "document.querySelector('.chat').lastElementChild?.getBoundingClientRect()"
    with serving(make) as console, signed_in(browser, console) as page:
        page.size(320, 480)
        show(page, console, f"/runs/{run_of(console, 'look.yaml')}/chat")
        page.until("document.querySelectorAll('.message').length === 4", 60)
        box = "document.querySelector('.tab .sticky').getBoundingClientRect()"
        page.until(f"{last}.bottom <= {box}.top", 60)
        assert page.run(f"{last}.top") > 0


def test_nothing_is_started_that_the_dry_run_has_not_shown(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    start = "[...document.querySelectorAll('button')].find(e => e.textContent === 'Start it there')"
    with serving(make) as console, signed_in(browser, console) as page:
        show(page, console, "/recipes?id=hello")
        page.until("document.querySelector('form #in-who')", 60)
        page.run("document.querySelector('form #in-who').form.requestSubmit()")
        page.until(start, 60)
        page.run("document.querySelector('form #in-who').focus()")
        page.call("Input.insertText", text="somebody else")
        page.until(f"!({start})", 60)


def test_runs_of_one_recipe_are_picked(browser: Browser, work: Project, make: MakeConsole) -> None:
    work.spawn("run", "hello").assert_success()
    work.spawn("run", "gate").assert_exit(6)
    pick = "document.querySelector('select[aria-label=recipe]')"
    with serving(make) as console, signed_in(browser, console) as page:
        show(page, console, "/runs")
        page.until(f"{pick}?.options.length === 3", 60)
        page.run(
            f"{pick}.value = {pick}.options[1].value; {pick}.dispatchEvent(new Event('change'))"
        )
        page.until("document.querySelectorAll('.runs tbody tr').length === 1", 60)
        assert "gate.yaml" in page.run("document.querySelector('.runs tbody').innerText")
        # An address of its own: the choice survives a reload.
        page.call("Page.reload")
        page.until(f"{pick}?.value.endsWith('gate.yaml')", 60)
        page.until("document.querySelectorAll('.runs tbody tr').length === 1", 60)


def test_on_a_phone_the_chat_and_the_question_share_the_screen(
    browser: Browser, work: Project, make: MakeConsole
) -> None:
    work.spawn("run", "gate").assert_exit(6)
    with serving(make) as console, signed_in(browser, console) as page:
        page.size(320, 640)
        show(page, console, f"/runs/{run_of(console, 'gate.yaml')}/chat")
        page.until(
            "document.querySelector('.question') && document.querySelector('.tab .sticky p')", 60
        )
        page.run("scrollTo(0, document.body.scrollHeight)")
        below, above = (
            f"document.querySelector('{one}').getBoundingClientRect()"
            for one in (".question", ".tab .sticky")
        )
        assert page.run(f"{above}.bottom <= {below}.top || {above}.top >= {below}.bottom")
        # Beside what a tab shows the question is folded; whoever is about to answer it sees it.
        assert page.run("document.querySelector('.question > details').open") is False
        page.press("a")
        page.until("document.querySelector('.question > details').open")
        page.press("x")
        # Approve and deny stand side by side: the question hides less of the page.
        tops = page.run("[...document.querySelectorAll('.choice button')].map(e => e.offsetTop)")
        assert len(set(tops)) == 1
        wide = page.run("[...document.querySelectorAll('.tabs a')].every(a => "
                        "a.getBoundingClientRect().right <= innerWidth)")  # fmt: skip
        assert wide
