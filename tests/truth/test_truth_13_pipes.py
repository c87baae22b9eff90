"""13: what agents and programs say commands neither a CI job nor whatever a pipe leads to."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrate.plan.visible import visible_lines
from orchestrate.show.inert import Inert, inert_json
from orchestrate.testing import Project
from tests.acceptance.fakes import Stage

EVIL = (
    "::stop-commands::x\n  ::add-mask::a\n\u00a0::warning::b\nword\r::error::c\n"
    "##[group]d\nsee ##vso[task.setvariable variable=x]y and ##[command]z\n"
    "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x9b31m\x00\x08tab\there\n"
    "## A heading, std::vector and a:: stay\n"
)
MARKERS = {"GITHUB_ACTIONS": "true", "TF_BUILD": "True"}
CALM = {"GITHUB_ACTIONS": "", "TF_BUILD": ""}


def commands_in(text: str) -> list[str]:
    """What the two runners would act on. .NET's ReadLine ends lines at LF, CR and CRLF."""
    lines = re.split(r"\r\n|\n|\r", text)
    return [
        line
        for line in lines
        if line.lstrip().startswith("::") or "##[" in line or "##vso[" in line
    ]


def controls_in(text: str) -> set[str]:
    return {c for c in text if (c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f"}


def test_truth_13_the_judge_sees_what_there_is_to_see() -> None:
    assert len(commands_in(EVIL)) == 6
    assert len(controls_in(EVIL)) == 6


PIECES = st.lists(
    st.sampled_from(["::", ":", "#", "##", "vso", "[", "VSO[", "\n", "\r", " ", "\u00a0", "a"])
)


@given(PIECES)
def test_truth_13_no_command_whatever_the_pieces(pieces: list[str]) -> None:
    stream = Inert()
    said = "".join(map(stream.make, pieces))
    assert commands_in(said.replace("VSO", "vso")) == []
    assert said.replace("\\", "") == "".join(pieces), "nothing is lost"
    assert said == Inert().make("".join(pieces)), "cuts do not matter"


def test_truth_13_what_is_no_command_stays() -> None:
    calm = "## A heading\nstd::vector a:: b\n#[derive]\n: :\n[##]\n"
    assert Inert().make(calm) == calm
    assert Inert().make("::a") == ":\\:a"
    assert Inert().make("##vso[x]") == "##vso\\[x]"


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_truth_13_json_holds_no_command_and_stays_the_same(document: object) -> None:
    document = [document, EVIL, {EVIL: EVIL}]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TF_BUILD", "True")
        pretty = inert_json(json.dumps(document, indent=2))
        line = inert_json(json.dumps(document, separators=(",", ":")))
    for text in (pretty, line):
        assert commands_in(text) == []
        assert json.loads(text) == document


@given(st.text())
def test_truth_13_lines_stay_lines(text: str) -> None:
    shown = visible_lines(text)
    assert controls_in(shown) == set()
    assert shown.count("\n") == text.count("\n")


def speaking(tmp_path: Path) -> Stage:
    """A machine whose agent answers with commands and control characters."""
    stage = Stage(tmp_path)
    stage.write("evil.txt", "")
    (stage.folder / "evil.txt").write_bytes(EVIL.encode())
    stage.claude(
        "def answer(prompt):\n"
        "    evil = open('evil.txt', newline='').read()\n"
        "    told = dict(outcome='other', otherDescription='##vso[x]y\\n::debug::z')\n"
        "    return evil + json.dumps(told)\n"
    )
    stage.write(
        "m.yaml",
        """
        id: talk
        label: Talk
        description: Let the agent talk
        initialStep: talk
        steps:
          talk:
            prompt: Talk.
            outcomes: [done, other]
            onOutcome:
              done: {action: exit, reason: done}
              other: {action: exit, reason: user-provided-other}
        """,
    )
    return stage


@pytest.mark.parametrize("variable", sorted(MARKERS))
def test_truth_13_answers_of_an_agent_command_nothing(tmp_path: Path, variable: str) -> None:
    stage = speaking(tmp_path)
    env = {**CALM, variable: MARKERS[variable]}
    for command in (
        "run m.yaml", "run m.yaml --verbose", "run m.yaml --json", "run m.yaml --events",
        "run m.yaml --debug --log-level debug", "logs latest talk", "logs latest",
        "logs latest talk --all", "logs latest talk --json", "logs latest --events",
        "status latest", "status latest --json", "report latest", "report latest --format md",
        "report latest --json", "runs", "resume latest",
    ):  # fmt: skip
        done = stage.run(*command.split(), env=env)
        done.assert_success()
        for text in (done.stdout, done.stderr):
            assert commands_in(text) == [], command
            assert controls_in(text) == set(), command
    shown = stage.run("logs", "latest", "talk", env=env).stdout
    assert ":\\:stop-commands::x" in shown
    assert "##vso\\[task.setvariable" in shown
    assert "## A heading, std::vector and a:: stay" in shown


@pytest.mark.parametrize("variable", sorted(MARKERS))
def test_truth_13_tails_of_errors_command_nothing(tmp_path: Path, variable: str) -> None:
    """A command that fails: the end of what it said goes to stderr."""
    project = Project(tmp_path)
    (tmp_path / "evil.txt").write_bytes(EVIL.encode())
    project.write(
        "w.yaml",
        """
        version: "1.1"
        steps:
          - {name: Fail, command: ["sh", "-c", "cat evil.txt; cat evil.txt >&2; exit 3"]}
        """,
    )
    env = {**CALM, variable: MARKERS[variable]}
    for command, code in (
        ("run w.yaml", 1), ("run w.yaml --verbose", 1), ("run w.yaml --json", 1),
        ("logs latest Fail", 0), ("logs latest Fail --stderr", 0), ("logs latest Fail -f", 0),
        ("status latest", 0), ("report latest --format md", 0), ("resume latest", 1),
    ):  # fmt: skip
        done = project.run(*command.split(), env=env).assert_exit(code)
        for text in (done.stdout, done.stderr):
            assert commands_in(text) == [], command
            assert controls_in(text) == set(), command


def test_truth_13_a_pipe_gets_control_characters_only_when_it_wants_them(tmp_path: Path) -> None:
    stage = speaking(tmp_path)
    plain = stage.run("run", "m.yaml", env=CALM).assert_success()
    assert controls_in(plain.stdout + plain.stderr) == set()
    assert "::stop-commands::x\n" in plain.stdout, "without a CI job there is nothing to break"
    assert "tab\there" in plain.stdout
    command = [sys.executable, "-m", "orchestrate"]
    env = {**os.environ, **stage.surroundings, **CALM}
    for words in (
        ["run", "m.yaml", "--raw", "--no-live"],
        ["logs", "latest", "talk", "--stdout", "--raw"],
    ):
        raw = subprocess.run(
            [*command, *words], cwd=stage.folder, env=env, capture_output=True, check=True
        )
        assert EVIL.encode() in raw.stdout, words
        ours, theirs = pty.openpty()
        done = subprocess.run(
            [*command, *words], cwd=stage.folder, env=env, stdout=theirs, stderr=theirs, check=False
        )
        os.close(theirs)
        shown = b""
        with open(ours, "rb", buffering=0) as terminal:
            try:
                while piece := terminal.read(65536):
                    shown += piece
            except OSError:  # Linux tells so that the other end is closed.
                pass
        assert done.returncode == 0
        assert b"\x1b]52" not in shown, "on a terminal it is escaped all the same"


def test_truth_13_commands_of_our_own_still_work(tmp_path: Path) -> None:
    project = Project(tmp_path, {"w.yaml": 'version: "1.1"\nsteps: [{name: A, comand: [ls]}]\n'})
    done = project.run("validate", "w.yaml", "--format", "github", env=MARKERS).assert_exit(2)
    assert done.stdout.startswith("::error file=w.yaml")
    for shell in ("bash", "zsh"):
        script = project.run("completion", shell, env=CALM).stdout
        assert project.run("completion", shell, env=MARKERS).stdout == script
