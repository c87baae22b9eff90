"""Number 24: the workspace is found upwards, and a run that works elsewhere says where."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrate.testing import Project, Result
from orchestrate.workspace import find_workspace

WORKFLOW = """
version: "1.1"
steps:
  - name: Where
    command: [pwd]
    output_file: where.txt
"""


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a recipe and `.orchestrate/`, and a subfolder in it; HOME is elsewhere."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "ws"
    Project(folder, {"x.yaml": WORKFLOW, ".orchestrate/config.yaml": "log_level: debug\n"})
    (folder / "sub" / "deep").mkdir(parents=True)
    return folder


def at(folder: Path, *arguments: str) -> Result:
    return Project(folder).run(*arguments)


def test_truth_24_a_run_in_a_subfolder_works_in_the_workspace_and_says_so(top: Path) -> None:
    sub = top / "sub"
    ran = at(sub, "run", "../x.yaml").assert_success()
    assert not (sub / ".orchestrate").exists()
    assert (top / "where.txt").read_text("utf-8").strip() == os.path.realpath(top)
    assert f"working in {os.path.realpath(top)}" in ran.stderr
    quiet = at(top, "run", "x.yaml").assert_success()
    assert "works in" not in quiet.stderr


@pytest.mark.parametrize("command", [("status", "latest"), ("runs",), ("logs", "latest"),
                                     ("resume", "latest"), ("report", "latest")])  # fmt: skip
def test_truth_24_commands_find_the_runs_from_a_subfolder(
    top: Path, command: tuple[str, ...]
) -> None:
    at(top, "run", "x.yaml").assert_success()
    assert at(top / "sub" / "deep", *command).exit_code == 0
    assert not (top / "sub" / ".orchestrate").exists()


def test_truth_24_names_on_the_command_line_start_where_the_user_stands(top: Path) -> None:
    sub = top / "sub"
    (top / "sub" / "y.yaml").write_text(WORKFLOW, "utf-8")
    assert at(sub, "validate", "y.yaml").assert_success().stdout.startswith("y.yaml: valid")
    assert at(sub, "validate", "../x.yaml").assert_success().stdout.startswith("../x.yaml: valid")
    at(sub, "run", "y.yaml", "--state-dir", "kept").assert_success()
    assert (sub / "kept" / "latest").exists()
    at(sub, "status", "latest", "--state-dir", "kept").assert_success()


def test_truth_24_the_configuration_and_recipes_of_the_workspace_hold(top: Path) -> None:
    Project(top, {".orchestrate/recipes/mine.yaml": WORKFLOW})
    shown = at(top / "sub", "config", "show", "--origin").assert_success().stdout
    assert "../.orchestrate/config.yaml:1" in shown
    assert "mine" in at(top / "sub", "list").assert_success().stdout
    at(top / "sub", "run", "mine").assert_success()


def test_truth_24_init_always_writes_here(top: Path) -> None:
    at(top / "sub", "init", "--yes").assert_success()
    assert (top / "sub" / ".orchestrate" / "config.yaml").is_file()


# Where the search ends.


def found_from(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return find_workspace().root


def _repository(top: Path) -> Path:
    (top / "sub" / ".git").mkdir()
    return top / "sub"


def _linked_tree(top: Path) -> Path:
    (top / "sub" / ".git").write_text("gitdir: /elsewhere\n", "utf-8")
    return top / "sub"


def _file_of_that_name(top: Path) -> Path:
    (top / "sub" / ".orchestrate").write_text("", "utf-8")
    return top


def _beside_the_top(top: Path) -> Path:
    (top / ".git").mkdir()
    return top


@pytest.mark.parametrize(
    "prepare", [_repository, _linked_tree, _file_of_that_name, _beside_the_top]
)
def test_truth_24_the_search_ends_at_the_top_of_a_git_work_tree(
    top: Path, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Path], Path]
) -> None:
    expected = prepare(top)
    deep = top / "sub" / "deep"
    found = found_from(deep, monkeypatch)
    assert found == (deep if expected != top else Path(os.path.realpath(top)))


def test_truth_24_a_real_submodule_and_work_tree_are_tops(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", *who, *words], cwd=top, check=True, capture_output=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    git("worktree", "add", "-q", "sub/tree")
    tree = top / "sub" / "tree"
    (tree / "inner").mkdir()
    assert found_from(tree / "inner", monkeypatch) == Path(os.path.realpath(tree / "inner"))
    (tree / ".orchestrate").mkdir()
    assert found_from(tree / "inner", monkeypatch) == Path(os.path.realpath(tree))


def test_truth_24_the_home_folder_counts_only_for_whoever_stands_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / ".orchestrate").mkdir(parents=True)
    (home / "notes").mkdir()
    (tmp_path / ".orchestrate").mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert found_from(home, monkeypatch) == home
    assert found_from(home / "notes", monkeypatch) == home / "notes"


def test_truth_24_a_link_to_the_current_folder_is_followed(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(top / "sub")
    assert found_from(tmp_path / "link", monkeypatch) == top


def test_truth_24_the_mark_of_another_user_is_passed_over(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings name programs: a folder that anybody can write to must not offer its own."""
    real = os.stat(top / ".orchestrate").st_uid
    monkeypatch.setattr("os.getuid", lambda: real + 1)
    if real == 0:
        os.chown(top / ".orchestrate", 12345, -1)
    assert found_from(top / "sub", monkeypatch) == top / "sub"
    assert found_from(top, monkeypatch) == top


def test_truth_24_the_working_dir_is_taken_as_it_is(top: Path) -> None:
    (top / "sub" / "x.yaml").write_text(WORKFLOW, "utf-8")
    ran = at(top, "run", "sub/x.yaml", "--working-dir", "sub").assert_success()
    assert (top / "sub" / ".orchestrate" / "runs").is_dir()
    assert f"working in {os.path.realpath(top / 'sub')}" in ran.stderr
