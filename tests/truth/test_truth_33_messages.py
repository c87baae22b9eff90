"""Small things that trials found: what is said names what is at fault, and the way out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestrate.errors import ConfigError
from orchestrate.show.report.markdown import plain
from orchestrate.state.locks import lock_run
from tests.acceptance.fakes import Stage
from tests.machines.fakes import PAIR, Scene, git, said

STEPS = """
    steps:
      a:
        prompt: Do it.
        STEP
        outcomes: [done, other]
        onOutcome:
          done: {action: exit, reason: r}
          other: {action: exit, reason: o}
"""


@pytest.mark.parametrize(
    ("head", "step"),
    [("maxIterations: 5", ""), ("guardrails: {maxIterations: 5}", ""), ("", "maxIterations: 5")],
)
def test_truth_33_max_iterations_leads_to_max_step_visits(
    tmp_path: Path, head: str, step: str
) -> None:
    stage = Stage(tmp_path)
    text = f"    id: m\n    label: m\n    description: d\n    initialStep: a\n    {head}{STEPS}"
    stage.write("m.yaml", text.replace("STEP", step))

    result = stage.run("validate", "m.yaml").assert_exit(1)

    assert "maxStepVisits" in result.stdout


def test_truth_33_a_missing_file_names_the_field_at_fault(tmp_path: Path) -> None:
    played = Stage(tmp_path).play(
        """
        version: "1.1"
        name: needs
        steps:
          - {name: A, command: ["true"], depends_on: {required: [absent.md]}}
        """,
        exit_code=1,
    )

    assert played.step("A")["error"]["message"].startswith("depends_on: required file is missing")


@pytest.mark.parametrize("kind", ["a folder", "a link"])
def test_truth_33_a_lock_that_was_replaced_is_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "run.lock"
    if kind == "a folder":
        path.mkdir()
    else:
        path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConfigError) as caught:
        lock_run(path, "r1", ["orchestrate"])

    assert f"{path} is {kind}" in caught.value.message
    assert "file system" not in caught.value.message
    assert "remove it" in caught.value.hint
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "text",
    [
        "thanks to @octocat",
        "see https://evil.example/x?y=1",
        "www.evil.example",
        "mail a.b@evil.example now",
        "closes #12",
        "(@team/core)",
    ],
)
def test_truth_33_markdown_calls_nobody_and_leads_nowhere(text: str) -> None:
    """Outside of code spans there is neither a mention nor a link."""
    shown = plain(text)

    outside = "".join(shown.split("`")[::2])
    assert "@" not in outside
    assert "://" not in outside
    assert "www." not in outside
    assert "#12" not in outside
    assert shown.replace("`", "") == text


def test_truth_33_a_report_runs_none_of_the_repositorys_programs(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), said("done"))
    scene.write("m.yaml", PAIR)
    scene.write("a.txt", "one\n")
    git(scene.folder, "init", "-q")
    git(scene.folder, "add", "a.txt", "m.yaml")
    git(scene.folder, "commit", "-qm", "first")
    witness = tmp_path / "filter-ran"
    program = f"sh -c 'touch {witness}; cat'"
    scene.write(".gitattributes", "*.txt filter=mine diff=mine\n")
    for name in ("filter.mine.clean", "filter.mine.smudge", "diff.mine.textconv", "diff.external",
                 "diff.mine.command", "core.fsmonitor", "gpg.program"):  # fmt: skip
        git(scene.folder, "config", name, program)
    git(scene.folder, "config", "filter.mine.required", "true")
    git(scene.folder, "config", "log.showSignature", "true")
    hook = scene.folder / ".git/hooks/post-index-change"
    hook.write_text(f"#!/bin/sh\ntouch {witness}\n", "utf-8")
    hook.chmod(0o755)
    scene.run("run", "m.yaml").assert_success()
    scene.write("a.txt", "two\n")
    witness.unlink(missing_ok=True)

    result = scene.run("report", "latest", "--format", "md", "-o", "-").assert_success()

    assert "as it is now" in result.stdout, "git was asked, and answered"
    assert not witness.exists()
    # The same question without our care runs the filter: the witness is not blind.
    subprocess.run(["git", "status"], cwd=scene.folder, check=False, capture_output=True)
    assert witness.exists()
