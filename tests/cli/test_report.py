"""`report`: one page about a run in any condition, with nothing in it that could act."""

from __future__ import annotations

import os
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from orchestrate.testing import Project
from tests.cli.background import await_file, started
from tests.gates import waiting_at

VOID = {"meta", "br", "hr"}
HOSTILE = "<script>alert(1)</script> & 'x' \"y\""

COMMITTING = """
version: "1.1"
name: committing
steps:
  - name: Names
    command: [printf, 'a\\nb\\nc\\n']
    output_capture: lines
  - name: Write
    for_each:
      items_from: steps.Names.lines
      steps:
        - name: One
          command: [sh, -c, 'echo hi > "${item}.txt"; test "${item}" != b']
          on: {failure: {goto: Next}}
        - name: Next
          command: ["true"]
  - name: Commit
    command: [sh, -c, 'git add a.txt && git commit -qm "add a <file>"']
  - name: Flaky
    command: [sh, -c, 'test -e tried || { touch tried; echo no >&2; exit 1; }']
    retries: {max: 1, delay_ms: 20}
  - name: Bad
    command: [sh, -c, 'echo some output; echo some trouble >&2; exit 3']
"""


class Page(HTMLParser):
    """Reads a page strictly: what is opened is closed, and what could act is noted."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.open: list[str] = []
        self.tags: list[str] = []
        self.suspicious: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in ("script", "iframe", "object", "img", "link", "form", "a", "base"):
            self.suspicious.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name in ("src", "href", "srcset", "action"):
                self.suspicious.append(f"{name}={value}")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> does not fit"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def seen(self) -> str:
        return " ".join(" ".join(self.words).split())

    def drawings(self) -> list[ET.Element]:
        return [ET.fromstring(t) for t in re.findall(r"<svg.*?</svg>", self.text, re.DOTALL)]


def report_of(project: Project, *arguments: str) -> Page:
    page = Page(project.run("report", "latest", *arguments).assert_success().stdout)
    assert page.suspicious == []
    assert not re.search(r"url\((?!#)|@import|http://(?!www\.w3\.org/2000/svg)|https://", page.text)
    # Neither control characters nor those that turn text around.
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page.text)
    return page


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A run in a repository: a loop, a commit, a retry, a failure. Tests only look at it."""
    project = Project(tmp_path_factory.mktemp("failed"), {"w.yaml": COMMITTING, "old.txt": "old\n"})
    os.utime(project.folder / "old.txt", (1e9, 1e9))
    git(project.folder, "init", "-q")
    git(project.folder, "config", "user.email", "somebody@example.org")
    git(project.folder, "config", "user.name", "Somebody")
    git(project.folder, "add", "w.yaml")
    git(project.folder, "commit", "-qm", "first")
    project.run("run", "w.yaml").assert_exit(1)
    return project


def test_a_page_shows_path_time_steps_and_changes(failed: Project) -> None:
    page = report_of(failed)
    plan, chart = page.drawings()
    words = " ".join(" ".join(plan.itertext()).split())
    assert "ok \N{MULTIPLICATION SIGN}2, failed" in words
    groups = plan.findall(".//{http://www.w3.org/2000/svg}g[@class='failed']")
    assert [g.findtext("{http://www.w3.org/2000/svg}text") for g in groups] == [
        "Bad", "step 'Bad' failed",
    ]  # fmt: skip
    rows = [text.text for text in chart.iter("{http://www.w3.org/2000/svg}text")]
    for name in ("Names", "Write", "Write[*]/One", "Write[*]/Next", "Commit", "Flaky", "Bad"):
        assert name in rows, name
    seen = page.seen
    assert "It has failed: step 'Bad' failed." in seen
    assert "2 completed, 1 failed" in seen
    assert f"orchestrate resume {failed.latest_run.name}" in seen
    assert "some trouble" in seen
    assert page.tags.count("details") >= 5
    assert "open" not in re.findall(r"<details([^>]*)>", page.text)


def test_what_was_changed_and_how_that_is_known(failed: Project) -> None:
    told = failed.run("report", "latest", "--json").assert_success().json()
    changes = told["changes"]
    found = {f["path"]: (f["what"], f["committed"], f["during_run"]) for f in changes["files"]}
    assert found["a.txt"] == ("added", True, True)
    assert found["b.txt"] == ("new", False, True)
    assert found["old.txt"] == ("new", False, False), "it was there before"
    assert "w.yaml" not in found
    assert any(line.endswith("add a <file>") for line in changes["commits"])
    (sitting,) = told["sittings"]
    assert sitting["commit_before"] != sitting["commit_after"]
    assert f"from {sitting['commit_before'][:12]}" in " ".join(changes["how"])


def test_figures_of_steps(failed: Project) -> None:
    told = failed.run("report", "latest", "--json").assert_success().json()
    steps = {step["step"]: step for step in told["steps"]}
    assert steps["Flaky"]["attempts"] == 2
    assert steps["Flaky"]["visits"] == 1
    assert (steps["Write"]["items"], steps["Write"]["status"]) == (3, "completed")
    assert steps["Write[*]/One"]["statuses"] == {"completed": 2, "failed": 1}
    assert steps["Bad"]["usage"]["turns"] == 0
    assert (told["status"], told["file"]) == ("failed", None)


def test_markdown_is_chosen_by_the_files_name(failed: Project) -> None:
    told = failed.run("report", "latest", "-o", "out.md").assert_success()
    assert told.stderr.startswith("wrote out.md (")
    text = (failed.folder / "out.md").read_text("utf-8")
    assert "```mermaid\nflowchart TD\n" in text
    assert re.search(r"^\| Flaky \| completed \| 1 \| 2 \|", text, re.MULTILINE)
    assert re.search(r"^Flaky +\| .*[!r=]", text, re.MULTILINE)
    assert "step 'Bad' failed" in text
    failed.run("report", "latest", "-o", ".").assert_exit(2)
    failed.run("report", "latest", "-o", "no/such/folder.html").assert_exit(5)
    assert not list(failed.folder.glob("*.tmp"))
    as_json = failed.run("report", "latest", "-o", "out.html", "--json").assert_success().json()
    assert as_json["file"] == str(failed.folder / "out.html")
    Page((failed.folder / "out.html").read_text("utf-8"))


def test_words_from_outside_stay_words(tmp_path: Path) -> None:
    name = HOSTILE.replace('"', '\\"')
    text = f"""
        version: "1.1"
        name: "{name}"
        steps:
          - name: Tell
            command: [sh, -c, 'cat words; cat words >&2; exit 1']
        """
    words = f"\x1b[31m{HOSTILE}\x07\u202e</pre></details>\n```\n| x |\n"
    project = Project(tmp_path, {"w.yaml": text, "words": words})
    project.run("run", "w.yaml").assert_exit(1)
    page = report_of(project)
    assert page.seen.count("<script>alert(1)</script>") >= 4  # twice its name, stdout, stderr
    assert "\N{SYMBOL FOR ESCAPE}[31m" in page.seen
    markdown = project.run("report", "latest", "--format", "md").assert_success().stdout
    outside = re.sub(r"(?ms)^(`{3,})\w*\n.*?^\1$", "", markdown)
    assert "<script" not in outside
    assert "</pre>" not in outside
    assert "\x1b" not in markdown


def test_secrets_stay_masked(tmp_path: Path) -> None:
    text = """
        version: "1.1"
        steps:
          - name: Tell
            command: [sh, -c, 'echo "it is $TOKEN"; echo "${TOKEN}" >&2; exit 1']
            secrets: [TOKEN]
        """.replace("${TOKEN}", "$TOKEN")
    project = Project(tmp_path, {"w.yaml": text})
    project.run("run", "w.yaml", "--debug", env={"TOKEN": "hunter2-hunter2"}).assert_exit(1)
    for shape in ("html", "md"):
        told = project.run("report", "latest", "--format", shape).assert_success().stdout
        assert "hunter2" not in told
        assert "it is ***" in told


def test_what_an_agent_did_not_report_is_unknown(tmp_path: Path) -> None:
    text = """
        version: "1.1"
        providers: {echoer: {command: [cat], input_mode: stdin}}
        steps: [{name: Ask, provider: echoer, input_file: ask.md}]
        """
    project = Project(tmp_path, {"w.yaml": text, "ask.md": "Why?\n"})
    project.run("run", "w.yaml").assert_success()
    assert "unknown (1 call did not report it)" in report_of(project).seen
    usage = project.run("report", "latest", "--json").json()["usage"]
    assert (usage["turns"], usage["cost_usd"], usage["input_tokens"]) == (1, None, None)


STAGED = """
name: staged
description: Two stages
version: 1.0.0
stages:
  - name: plan
    steps: [{id: look, agent: reader, prompt: "Look at <b>."}]
    approval: {required: true, prompt: "Go on?", timeout: 3600}
  - name: do
    steps: [{id: work, agent: reader, prompt: Work.}]
"""


def test_a_parked_run_and_who_decided(tmp_path: Path) -> None:
    files = {"r.yaml": STAGED, ".orchestrate/agents/reader.md": "---\nname: reader\n---\nYou.\n"}
    project = Project(tmp_path, files)
    project.run("run", "r.yaml", *waiting_at(project, "plan")).assert_exit(6)
    parked = report_of(project).seen
    assert "plan : waits for a decision; deny at" in parked
    assert f"orchestrate approve {project.latest_run.name}" in parked
    assert "in no git repository" in parked
    project.run("approve", "latest", "--message", "well <done>", "--resume").assert_success()
    page = report_of(project)
    assert "approved by" in page.seen
    assert "well <done>" in page.seen
    assert "in 2 sittings" in page.seen
    assert "Cost not billed" in page.seen
    assert "Look at <b>." in page.seen, "the prompt of the recipe"


SLOW = (
    'version: "1.1"\nsteps: [{name: Slow, command: [sh, -c, "echo hi; touch begun; sleep 60"]}]\n'
)


def test_a_live_run_then_killed_then_changed(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": SLOW})
    with started(project, "run", "w.yaml") as process:
        await_file(project, "begun")
        assert "It is running." in report_of(project).seen
        process.kill()
        process.wait()
        page = report_of(project)
        assert "It was interrupted" in page.seen
        assert 'class="waiting"' in page.text
        project.run("cancel", "latest").assert_success()
    project.write("w.yaml", SLOW.replace("Slow", "Other"))
    page = report_of(project)
    assert "The plan cannot be shown" not in page.seen
    assert "Slow" in page.seen
    # Of a run that keeps no plan, and whose files are others now.
    (project.latest_run / "plan.json").unlink()
    page = report_of(project)
    assert "The plan cannot be shown, only the steps that ran" in page.seen
    assert "is not kept: plan.json is missing" in page.seen


def test_a_damaged_run_is_told_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": COMMITTING.replace("git add a.txt && git commit", ":")})
    project.run("run", "w.yaml").assert_exit(1)
    root = project.latest_run
    lines = (root / "events.jsonl").read_bytes().split(b"\n")
    lines[6] = lines[6].replace(b'"at"', b'"ta"')
    (root / "events.jsonl").write_bytes(b"\n".join(lines))
    page = report_of(project)
    assert "The journal can be read up to event 6 only" in page.seen
    assert "It has failed" in page.seen, "the state is whole"
    assert "steps that the journal does not have: from state.json" in page.seen
    told = project.run("report", "latest", "--json").assert_success().json()
    assert {"Names", "Commit", "Flaky", "Bad"} <= {step["step"] for step in told["steps"]}
    (root / "state.json").write_text("{", "utf-8")
    page = report_of(project)
    assert "It is damaged." in page.seen
    assert "Names" in page.seen
    assert project.run("report", "latest", "--json").json()["status"] == "damaged"
    (root / "events.jsonl").write_text("nonsense\n", "utf-8")
    told = project.run("report", "latest", "--json").assert_exit(5)
    assert "cannot be read" in told.json()["error"]["message"]


def test_no_run_and_no_such_run(tmp_path: Path) -> None:
    project = Project(
        tmp_path, {"w.yaml": 'version: "1.1"\nsteps: [{name: A, command: ["true"]}]\n'}
    )
    told = project.run("report", "latest").assert_exit(2)
    assert "there are no runs" in told.stderr
    project.run("run", "w.yaml").assert_success()
    name = project.latest_run.name
    slip = name[:-1] + ("x" if name[-1] != "x" else "y")
    told = project.run("report", slip, "--json").assert_exit(2)
    assert f"did you mean '{name}'?" in told.json()["error"]["message"]


def test_files_that_the_run_did_not_touch_are_counted_only(failed: Project) -> None:
    page = report_of(failed).text
    text = failed.run("report", "latest", "--format", "md").assert_success().stdout
    data = failed.run("report", "latest", "--json").json()["changes"]
    count = sum(not change["during_run"] for change in data["files"])
    assert count >= 1
    for shown in (page, text):
        assert "b.txt" in shown
        assert "old.txt" not in shown
        assert re.search(rf"{count} files? more (is|are) not committed, and not listed", shown)
    assert "<code>git status</code>" in page
    assert "`git status` as it is now" not in page
    assert "`git status` as it is now" in text


def test_markdown_escapes_only_what_means_something(failed: Project) -> None:
    from orchestrate.show.report.markdown import plain

    text = failed.run("report", "latest", "--format", "md").assert_success().stdout
    assert re.search(r"^- Elapsed: \d+\.\d+s$", text, re.MULTILINE)
    text = text.partition("## Prompts")[0]
    assert not re.search(r"\\[0-9a-zA-Z]", text), (
        "no sign of Markdown, so the backslash would be seen"
    )
    for written, shown in {
        "9.4s": "9.4s", "-5": "-5", "+2 more": "+2 more", "1. one": r"1\. one", "12)": r"12\)",
        "- item": r"\- item", "---": r"\---", "# head": r"\# head", "> said": r"\> said",
        "a*b": r"a\*b", "a|b": r"a\|b",
    }.items():  # fmt: skip
        assert plain(written) == shown


def test_a_step_is_shown_as_its_own_file_has_it(tmp_path: Path) -> None:
    """A file that is called, and its caller, have a step of one name."""
    inner = 'version: "1.4"\nname: inner\nsteps: [{name: Say, command: [echo, inner words]}]\n'
    outer = """
        version: "1.4"
        name: outer
        steps:
          - {name: Say, command: [echo, outer words]}
          - {name: Ask, call: inner.yaml}
    """
    project = Project(tmp_path, {"inner.yaml": inner, "outer.yaml": outer})
    project.run("run", "outer.yaml").assert_success()
    told = project.run("report", "latest", "--format", "md").assert_success().stdout
    own, called = told.partition("Ask/Say ·")[::2]
    assert '["echo", "outer words"]' in own
    assert '["echo", "inner words"]' in called
    assert '["echo", "outer words"]' not in called


def test_markdown_may_be_written_out(tmp_path: Path) -> None:
    project = Project(
        tmp_path, {"w.yaml": 'version: "1.1"\nname: w\nsteps: [{name: A, command: ["true"]}]\n'}
    )
    project.run("run", "w.yaml").assert_success()
    texts = [
        project.run("report", "latest", "--format", shape).assert_success().stdout
        for shape in ("md", "markdown")
    ]
    # But for the second in which each was written.
    short, long = ([t for t in text.splitlines() if " UTC from " not in t] for text in texts)
    assert short == long
    assert short[0].startswith("# ")


def test_the_settings_of_a_step_are_shown(tmp_path: Path) -> None:
    """All that its file says of it, but for what the drawing shows."""
    recipe = """
        name: trial
        description: A trial
        version: "1.0.0"
        steps:
          - id: count
            type: bash
            command: echo $WHAT
            env: {WHAT: words}
            timeout: 9m
            on_lost: stop
            output: counted
    """
    project = Project(tmp_path, {"recipe.yaml": recipe})
    project.run("run", "recipe.yaml").assert_success()
    told = project.run("report", "latest", "--format", "md").assert_success().stdout
    lines = ["type: bash", 'env: {"WHAT": "words"}', "timeout: 9m", "on_lost: stop"]
    assert "\n".join([*lines, "output: counted"]) in told
