"""What is submitted is what the user would commit: filters, line ends, submodules and all."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from orchestrate.checkpoints.users import find_repository
from orchestrate.fleet.host import remove_seat
from orchestrate.fleet.seat import Seat
from orchestrate.fleet.submit import Snapshot, take_snapshot
from orchestrate.fleet.take import publish_rest, take_seat
from orchestrate.fleet.transport import push, require_git
from tests.fleet.test_fleet_01_ssh import Fleet


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


class Source:
    """A repository whose workspace is submitted."""

    def __init__(self, top: Path) -> None:
        self.top = top
        top.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=me", "-c", "user.email=me@here")
        found = subprocess.run(
            ("git", *who, "-c", "protocol.file.allow=always", *words), cwd=self.top, check=True,
            capture_output=True, text=True,
        )  # fmt: skip
        return found.stdout

    def commit(self, **files: str) -> None:
        for name, text in files.items():
            (self.top / name).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "more")

    def snapshot(self, folder: Path) -> Snapshot:
        program = require_git()
        repository = find_repository(program, self.top, os.environ)
        assert repository is not None
        folder.mkdir()
        return take_snapshot(folder, program, repository)

    def files(self, taken: Snapshot) -> list[str]:
        return self._there(taken, "ls-tree", "-r", taken.commit).splitlines()

    def text(self, taken: Snapshot, name: str) -> str:
        return self._there(taken, "show", f"{taken.commit}:{name}")

    def _there(self, taken: Snapshot, *words: str) -> str:
        variables = {
            **os.environ, "GIT_OBJECT_DIRECTORY": str(taken.store / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.top / ".git" / "objects"),
        }  # fmt: skip
        return subprocess.run(
            ("git", *words), cwd=self.top, env=variables, check=True, capture_output=True,
            text=True,
        ).stdout  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path / "source")


@pytest.fixture
def with_submodule(source: Source, tmp_path: Path) -> Source:
    inner = Source(tmp_path / "inner")
    inner.commit(inner="inner\n")
    source.commit(kept="kept\n")
    source.git("submodule", "add", "-q", str(inner.top), "sub")
    source.git("commit", "-q", "-m", "with a submodule")
    return source


def bytes_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_clean_is_head_itself(with_submodule: Source, tmp_path: Path) -> None:
    before = bytes_below(with_submodule.top / ".git")
    taken = with_submodule.snapshot(tmp_path / "taken")
    assert taken.commit == with_submodule.git("rev-parse", "HEAD").strip()
    assert taken.staying == ("sub",)
    assert bytes_below(with_submodule.top / ".git") == before


def test_a_submodule_stays_one(with_submodule: Source, tmp_path: Path) -> None:
    (with_submodule.top / "new").write_text("new\n")
    taken = with_submodule.snapshot(tmp_path / "taken")
    assert [line.split()[0] for line in with_submodule.files(taken)] == [
        "100644", "100644", "100644", "160000",
    ]  # fmt: skip
    assert taken.untracked == ("new",)


def test_filters_and_line_ends_are_the_users(source: Source, tmp_path: Path) -> None:
    source.git("config", "filter.lfs.clean", "sed s/REAL/POINTER/")
    source.git("config", "filter.lfs.smudge", "sed s/POINTER/REAL/")
    attributes = "*.big filter=lfs -text\n*.txt text eol=crlf\n"
    source.commit(**{".gitattributes": attributes, "a.big": "REAL a\n", "a.txt": "one\r\n"})
    assert source.snapshot(tmp_path / "clean").commit == source.git("rev-parse", "HEAD").strip()
    (source.top / "b.big").write_text("REAL b\n")
    (source.top / "a.txt").write_bytes(b"two\r\n")
    taken = source.snapshot(tmp_path / "taken")
    assert source.text(taken, "a.big") == "POINTER a\n"
    assert source.text(taken, "b.big") == "POINTER b\n"
    assert source.text(taken, "a.txt") == "two\n"


def test_repositories_inside_stay_and_are_named(source: Source, tmp_path: Path) -> None:
    source.commit(kept="kept\n")
    Source(source.top / "made").commit(one="one\n")
    Source(source.top / "empty")
    (source.top / "staged").write_text("staged\n")
    source.git("add", "staged")
    (source.top / "kept").unlink()
    taken = source.snapshot(tmp_path / "taken")
    assert [line.split("\t")[1] for line in source.files(taken)] == ["staged"]
    assert taken.staying == ("empty", "made")
    assert taken.untracked == ()


def test_a_repository_without_a_commit_is_submitted(source: Source, tmp_path: Path) -> None:
    (source.top / "new").write_text("new\n")
    taken = source.snapshot(tmp_path / "taken")
    assert [line.split("\t")[1] for line in source.files(taken)] == ["new"]


@pytest.mark.fleet
def test_fleet_a_run_keeps_the_submodules_of_its_repository(tmp_path: Path) -> None:
    inner = Source(tmp_path / "inner")
    inner.commit(inner="inner\n")
    fleet = Fleet(tmp_path)
    fleet.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.top), "sub")
    words = "[git, -c, protocol.file.allow=always, submodule, update, --init, -q]"
    fleet.settings(f"pools: {{desk: {{ssh: [alpha], prepare: {words}}}}}\n")
    recipe = fleet.folder / "r.yaml"
    recipe.write_text(recipe.read_text().replace("echo made", "cat sub/inner"))
    fleet.commit("with a submodule")
    sent = fleet.send("r.yaml").assert_success()
    assert "the files of sub are not sent: each is a repository of its own" in sent.stderr
    run = sent.stderr.split("run ")[1].split()[0]
    fleet.run("fetch", run).assert_success()
    fleet.git("merge", "-q", f"orchestrate/{run}")
    assert (fleet.folder / "made.txt").read_text() == "inner\n"
    assert (fleet.folder / "sub" / "inner").exists()
    assert fleet.git("ls-files", "-s", "sub").startswith("160000")
    assert fleet.seats() == []


@pytest.mark.fleet
def test_fleet_a_step_that_commits_finds_its_files_in_the_index(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    commits = "git -c user.name=a -c user.email=a@there commit -q -m theirs"
    recipe = fleet.folder / "r.yaml"
    steps = f"git status --short; echo made > made.txt; git add made.txt; {commits}; git status -s"
    recipe.write_text(recipe.read_text().replace("echo made > made.txt", steps))
    fleet.commit("commits")
    sent = fleet.send("r.yaml").assert_success()
    run = sent.stderr.split("run ")[1].split()[0]
    fleet.run("fetch", run).assert_success()
    assert fleet.run("logs", run, "make").assert_success().stdout == ""
    assert fleet.git("diff", "--name-status", "HEAD", f"orchestrate/{run}") == "A\tmade.txt"
    assert fleet.git("log", "-1", "--format=%s", f"orchestrate/{run}") == "theirs"
    assert fleet.git("show", "--name-status", "--format=", f"orchestrate/{run}") == "A\tmade.txt"


def packed(repository: Path) -> int:
    """How many bytes have come there so far, in packs that are kept as they came."""
    return sum(path.stat().st_size for path in repository.glob("objects/pack/*.pack"))


def test_a_second_run_brings_only_what_is_new(source: Source, tmp_path: Path) -> None:
    source.commit(large=os.urandom(500_000).hex())
    remote, root = tmp_path / "remote.git", tmp_path / "root"
    runs = ["20260101T000000Z-abcdef", "20260102T000000Z-abcdef"]
    seats = [Seat(run, str(root), "m", remote=str(remote)) for run in runs]
    for folder in (remote, seats[0].repository):
        folder.parent.mkdir(exist_ok=True, parents=True)
        source.git("init", "-q", "--bare", str(folder))
        source.git("--git-dir", str(folder), "config", "transfer.unpackLimit", "1")
    came = []
    for seat in seats:
        taken = source.snapshot(tmp_path / f"taken-{seat.run}")
        objects = source.top / ".git" / "objects"
        before = packed(remote), packed(seat.repository)
        push(require_git(), taken.store, str(remote), {seat.work: ("", taken.commit)}, objects)
        take_seat(seat, is_sha256=False, prepare=())
        came.append((packed(remote) - before[0], packed(seat.repository) - before[1]))
        # It has made something, and of what was submitted no reference tells any more.
        (seat.tree / "made").write_text(seat.run)
        seat.folder.mkdir()
        publish_rest(seat)
        remove_seat(seat)
        source.commit(new=seat.run)
    assert min(came[0]) > 250_000
    assert max(came[1]) < 10_000
