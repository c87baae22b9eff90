"""Checkpoints in runs of the three dialects: when they are taken, `diff`, `rewind`, resume."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints.places import git, inside_git, photograph, write
from tests.edits.ledger import Ledger, asks, machine, recipe, workflow

# Each step writes a file of its name, and one line into a file that all of them change.
_WORK = """
import os, re
def answer(prompt):
    name = re.findall(r"STEP:([A-Za-z0-9_-]+)", prompt)[-1]
    with open("ledger", "a") as ledger:
        ledger.write(name + "\\n")
    with open("common", "a") as common:
        common.write(name + "\\n")
    open("by-" + name, "w").write(name)
    if os.path.exists("fail-" + name):
        sys.exit("no")
    return "did " + name + '\\n{"outcome": "done"}'
"""
_SCRIPT = "echo {0} >> ledger; echo {0} >> common; echo {0} > by-{0}; test ! -e fail-{0}"


def works(name: str, fields: str = "") -> str:
    script = _SCRIPT.format(name)
    return f'  - {{name: {name}, command: ["sh", "-c", "{script}"]{fields}}}\n'


SHAPES = {
    "machine": machine("a", "b", "c"),
    "recipe": recipe(asks("a"), asks("b"), asks("c")),
}


class Worked(Ledger):
    """A workspace in a git work tree, whose steps change files."""

    def __init__(self, top: Path, *, is_git: bool = True) -> None:
        super().__init__(top)
        self.claude(_WORK)
        write(self.folder, ".gitignore", "ledger\nfail-*\n")
        if is_git:
            git(self.folder, "init", "-q")
            git(self.folder, "add", "-A")
            git(self.folder, "commit", "-q", "-m", "first")

    def events(self, kind: str = "checkpointed") -> list[dict[str, Any]]:
        lines = (self.runs_folder / "latest" / "events.jsonl").read_text().splitlines()
        found = [json.loads(line)["event"] for line in lines]
        return [event for event in found if event["on"] == kind]

    def files(self) -> set[str]:
        return {path.name for path in self.folder.iterdir() if path.name.startswith("by-")}


@pytest.mark.parametrize("dialect", SHAPES)
def test_agents_have_checkpoints_of_their_own(tmp_path: Path, dialect: str) -> None:
    stage = Worked(tmp_path)
    stage.play(SHAPES[dialect])
    theirs = inside_git(stage.folder)
    told = [(event.get("steps", []), event.get("changes", [])) for event in stage.events()]
    assert [len(steps) for steps, _ in told] == [0, 1, 1, 1]
    assert told[2][1] == [["added", "by-b"], ["changed", "common"]]
    assert stage.state()["steps"]["b"]["changed"] == {
        "files": 2,
        "added": 1,
        "changed": 1,
        "names": ["by-b", "common"],
    }
    shown = stage.run("diff", "latest", "b").assert_exit(0).stdout
    assert "+++ b/by-b\n" in shown
    assert "\n+b\n" in shown
    assert "by-a" not in shown
    listed = stage.run("diff", "latest", "a..b", "--files").assert_exit(0).stdout
    assert listed == "A by-a\nA by-b\nA common\n"
    assert inside_git(stage.folder) == theirs


def without_runs(found: dict[str, Any]) -> dict[str, Any]:
    return {name: what for name, what in found.items() if not name.startswith(".orchestrate/")}


@pytest.mark.parametrize("dialect", SHAPES)
def test_rewind_puts_files_and_run_before_a_step(tmp_path: Path, dialect: str) -> None:
    stage = Worked(tmp_path)
    stage.play(SHAPES[dialect])
    write(stage.folder, "by-a-person", "mine")
    ignored = write(stage.folder, "fail-never", "ignored").read_text()
    stage.ran()
    theirs, before = inside_git(stage.folder), photograph(stage.folder)
    refused = stage.run("rewind", "latest", "b").assert_exit(2)
    assert "agree with --yes" in refused.stderr
    mistyped = stage.run("rewind", "latest", "B").assert_exit(2).stderr
    assert "has not begun a step 'B' (did you mean 'b'?)" in mistyped
    mistyped = stage.run("resume", "latest", "--redo", "B").assert_exit(2).stderr
    assert "no result of a step 'B' (did you mean 'b'?)" in mistyped
    assert without_runs(photograph(stage.folder)) == without_runs(before)
    done = stage.run("rewind", "latest", "b", "--yes").assert_exit(0)
    assert "  delete by-b\n  delete by-c\n" in done.stderr
    assert "  keep   by-a-person (not of this run)\n" in done.stderr
    assert (stage.folder / "common").read_text() == "a\n"
    assert stage.files() == {"by-a", "by-a-person"}
    assert (stage.folder / "fail-never").read_text() == ignored
    assert inside_git(stage.folder) == theirs
    assert stage.state()["status"] == "paused"
    stands = stage.run("status").stdout
    assert " is interrupted: rewound to before 'b'\n" in stands
    assert "what came before is kept" in stands
    assert "a is next" not in stands
    assert "not yet" not in stands
    why = stage.run("why").stdout.splitlines()
    assert [line.endswith("does not count any more: it is done again") for line in why] == [
        False, True, True,
    ]  # fmt: skip
    told = stage.resume().stderr
    assert ("-- a: done (reused)\n" if dialect == "machine" else "a: reused, ") in told
    assert stage.ran() == ["b", "c"]
    assert (stage.folder / "common").read_text() == "a\nb\nc\n"
    assert stage.state()["status"] == "completed"


def test_what_a_person_made_stays_however_often_it_is_rewound(tmp_path: Path) -> None:
    """Also if it was there when the run went on, or took the place of a file of the run."""
    stage = Worked(tmp_path)
    stage.touch("fail-c")
    stage.play(SHAPES["recipe"], exit_code=1)
    (stage.folder / "fail-c").unlink()
    write(stage.folder, "by-a-person", "mine")
    stage.resume()
    stage.run("rewind", "latest", "b", "--yes").assert_exit(0)
    assert stage.files() == {"by-a", "by-a-person"}
    write(stage.folder, "by-b", "mine, too")
    write(stage.folder, "by-another", "mine")
    stage.run("rewind", "latest", "b", "--yes").assert_exit(0)
    stage.run("rewind", "latest", "a", "--yes").assert_exit(0)
    assert stage.files() == {"by-a-person", "by-another", "by-b"}
    assert (stage.folder / "by-b").read_text() == "mine, too"
    stage.run("rewind", "latest", "--undo", "--yes").assert_exit(0)
    assert stage.files() == {"by-a", "by-a-person", "by-another", "by-b"}


def test_what_was_rewound_can_be_undone(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.play(SHAPES["recipe"])
    stage.run("rewind", "latest", "a", "--yes").assert_exit(0)
    assert stage.files() == set()
    back = stage.run("rewind", "latest", "--undo", "--yes").assert_exit(0)
    assert "to before the last rewind: all results count again\n" in back.stderr
    assert stage.files() == {"by-a", "by-b", "by-c"}
    stage.ran()
    stage.resume()
    assert stage.ran() == []
    assert stage.state()["status"] == "completed"
    nothing = stage.run("rewind", "latest", "--undo", "--yes").assert_exit(2).stderr
    assert "nothing to undo" in nothing


@pytest.mark.parametrize("dialect", SHAPES)
def test_what_a_rewind_made_void_stays_so_over_an_edit(tmp_path: Path, dialect: str) -> None:
    stage = Worked(tmp_path)
    stage.play(SHAPES[dialect])
    stage.run("rewind", "latest", "b", "--yes").assert_exit(0)
    stage.ran()
    stage.edit("STEP:c", "Well, STEP:c")
    assert "run 2: b (is to be done again)" in stage.resume("--edited").stderr
    assert stage.ran() == ["b", "c"]
    assert (stage.folder / "common").read_text() == "a\nb\nc\n"
    stage.edit("Well, STEP:c", "STEP:c")
    stage.resume("--edited")
    assert stage.ran() == ["c"]


def test_what_an_undone_rewind_had_made_void_counts_over_an_edit(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.play(SHAPES["recipe"])
    stage.run("rewind", "latest", "a", "--yes").assert_exit(0)
    stage.run("rewind", "latest", "--undo", "--yes").assert_exit(0)
    stage.ran()
    stage.edit("STEP:c", "Well, STEP:c")
    stage.resume("--edited")
    assert stage.ran() == ["c"]


def test_one_undo_after_another(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.play(SHAPES["recipe"])
    stage.run("rewind", "latest", "c", "--yes").assert_exit(0)
    stage.run("rewind", "latest", "b", "--yes").assert_exit(0)
    stage.run("rewind", "latest", "--undo", "--yes").assert_exit(0)
    assert stage.files() == {"by-a", "by-b"}
    stage.ran()
    stage.resume()
    assert stage.ran() == ["c"]
    gone_on = stage.run("rewind", "latest", "--undo", "--yes").assert_exit(2).stderr
    assert "has gone on" in gone_on


def test_a_failed_run_goes_on_from_where_it_was_rewound_to(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.touch("fail-c")
    stage.play(SHAPES["machine"], "--retry-delay", "0", exit_code=4)
    (stage.folder / "fail-c").unlink()
    stage.ran()
    stage.run("rewind", "latest", "b", "--yes").assert_exit(0)
    stage.resume()
    assert stage.ran() == ["b", "c"]
    assert (stage.folder / "common").read_text() == "a\nb\nc\n"


def test_a_visit_is_named_by_its_number(tmp_path: Path) -> None:
    again = machine("a", "b").replace("{action: exit, reason: all done}", "{nextStep: a}")
    stage = Worked(tmp_path)
    stage.play(again, "--max-steps", "5", exit_code=3)
    assert (stage.folder / "common").read_text() == "a\nb\na\nb\na\n"
    stage.run("rewind", "latest", "a@2", "--yes").assert_exit(0)
    assert (stage.folder / "common").read_text() == "a\nb\n"


def test_items_behind_it_run_again_although_they_do_not_depend_on_it(tmp_path: Path) -> None:
    loop = recipe(
        '  - {id: each, agent: helper, prompt: "STEP:{{item}}", foreach: "{{names}}"}\n',
        head="context: {names: [a, b, c]}\n",
    )
    stage = Worked(tmp_path)
    stage.play(loop)
    stage.ran()
    stage.run("rewind", "latest", "each[1]", "--yes").assert_exit(0)
    assert stage.files() == {"by-a"}
    stage.resume()
    assert stage.ran() == ["b", "c"]


def test_a_parallel_loop_has_one_checkpoint(tmp_path: Path) -> None:
    loop = recipe(
        asks("first"),
        '  - {id: each, agent: helper, prompt: "STEP:{{item}}", foreach: "{{names}}", '
        "parallel: true}\n",
        head="context: {names: [a, b, c]}\n",
    )
    stage = Worked(tmp_path)
    stage.play(loop)
    assert [event.get("steps", []) for event in stage.events()][2:] == [["each:1"]]
    stage.ran()
    stage.run("rewind", "latest", "each", "--yes").assert_exit(0)
    assert stage.files() == {"by-first"}
    stage.resume()
    assert sorted(stage.ran()) == ["a", "b", "c"]


def test_commands_share_a_checkpoint_and_say_so(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.play(workflow(works("a"), works("b"), works("c")))
    shared = [event["steps"] for event in stage.events() if event.get("steps")]
    assert [step for steps in shared for step in steps] == ["a:1", "b:1", "c:1"]
    whole = stage.run("diff", "latest", "--files").assert_exit(0).stdout
    assert whole == "A by-a\nA by-b\nA by-c\nA common\n"
    stage.run("rewind", "latest", "a", "--yes").assert_exit(0)
    assert stage.files() == set()
    stage.ran()
    stage.resume()
    assert stage.ran() == ["a", "b", "c"]


def test_a_commit_of_the_run_is_left_alone(tmp_path: Path) -> None:
    commits = (
        '  - {name: commit, command: ["sh", "-c", "git add -A && git -c user.name=x '
        '-c user.email=x@y commit -qm step"]}\n'
    )
    stage = Worked(tmp_path)
    stage.play(workflow(works("a"), commits))
    head = git(stage.folder, "rev-parse", "HEAD")
    theirs = inside_git(stage.folder)
    done = stage.run("rewind", "latest", "a", "--yes").assert_exit(0)
    assert "HEAD, its branch and the index are left as they are" in done.stderr
    assert git(stage.folder, "rev-parse", "HEAD") == head
    assert stage.files() == set()
    # `git rev-parse` has not touched it, and neither have we.
    assert inside_git(stage.folder) == theirs


def test_a_repository_that_has_moved_on_is_refused(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.play(SHAPES["machine"])
    git(stage.folder, "add", "by-a")
    refused = stage.run("rewind", "latest", "b", "--yes").assert_exit(2)
    assert "what is staged changed since" in refused.stderr
    assert stage.files() == {"by-a", "by-b", "by-c"}
    stage.run("rewind", "latest", "b", "--yes", "--force").assert_exit(0)
    assert stage.files() == {"by-a"}


def test_nothing_is_recorded_where_it_is_not_wanted(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.play(SHAPES["machine"], "--checkpoints", "off")
    assert stage.events() == []
    assert not (stage.runs_folder / "latest" / "checkpoints").exists()
    hint = stage.run("diff", "latest").assert_exit(2).stderr
    assert "has no checkpoints" in hint
    (tmp_path / "plain").mkdir()
    plain = Worked(tmp_path / "plain", is_git=False)
    plain.play(SHAPES["machine"])
    assert plain.events() == []
    plain.play(SHAPES["machine"], "--checkpoints", "on")
    assert len(plain.events()) == 4
    plain.run("rewind", "latest", "c", "--yes").assert_exit(0)
    assert (plain.folder / "common").read_text() == "a\nb\nc\na\nb\n"


def test_the_configuration_turns_them_off(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.write(".orchestrate/config.yaml", "checkpoints: off\n")
    stage.play(SHAPES["machine"])
    assert stage.events() == []


def test_without_git_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Worked(tmp_path)
    monkeypatch.setattr("orchestrate.checkpoints.store.find_git", lambda _: None)
    told = stage.play(SHAPES["machine"])
    assert "git is not installed" in told.result.stderr
    assert stage.events() == []


def test_two_runs_are_compared(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.play(SHAPES["recipe"])
    first = os.readlink(stage.runs_folder / "latest")
    stage.play(SHAPES["recipe"].replace("STEP:c ", "Well, STEP:c "))
    answer = stage.run("diff", first, "latest", "--json").assert_exit(0).stdout
    about = {one["about"] for one in json.loads(answer)["differences"]}
    assert {"definition", "c: prompt", "file common"} <= about
    assert not about & {"a: prompt", "path", "status", "file by-a"}


@pytest.mark.parametrize("dialect", SHAPES)
def test_two_runs_are_compared_line_by_line(tmp_path: Path, dialect: str) -> None:
    """What was defined, asked, answered and left behind: as texts where they are kept."""
    stage = Worked(tmp_path)
    stage.play(SHAPES[dialect])
    first = os.readlink(stage.runs_folder / "latest")
    stage.claude(_WORK.replace('"did "', '"well did "').replace("(name)", "(name + '!')"))
    stage.play(SHAPES[dialect].replace("STEP:c ", "Well, STEP:c "))
    said = stage.run("diff", first, "latest").assert_success().stdout
    assert "c: prompt:\n" in said
    assert "    +Well, STEP:c " in said
    assert "c: answer:\n" in said
    assert "    +well did c" in said
    assert "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a!\n" in said
    assert '"prompt": "Well, STEP:c ' in said.partition("a: ")[0], "the definition comes first"
    listed = stage.run("diff", first, "latest", "--files").assert_success().stdout
    assert "file by-a: " in listed
    assert "@@ -1 +1 @@\n-a\n" not in listed


def test_repositories_inside_are_left_and_named(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    inner = stage.folder / "inner"
    for place in (inner, stage.folder / "same"):
        git(stage.folder, "init", "-q", str(place))
        write(place, "x", "one")
        git(place, "add", "-A")
        git(place, "commit", "-q", "-m", "first")
    stage.claude(
        _WORK.replace(
            "    return",
            """
    if name == "b":
        open("inner/x", "w").write("two")
        import subprocess
        subprocess.run(["git", "init", "-q", "new"], check=True)
    return""",
        )
    )
    stage.play(SHAPES["recipe"])
    theirs = photograph(stage.folder / "inner"), photograph(stage.folder / "new")
    changed = stage.run("diff", "latest", "b", "--json").assert_success().json()
    of_its_own = "not looked into, a repository of its own: "
    assert changed["notes"] == [f"{of_its_own}inner (was unchanged then)", f"{of_its_own}new (new)"]
    told = stage.run("rewind", "latest", "b", "--yes").assert_success().stderr
    words = "repositories inside are left as they are: inner (was unchanged then), new (new)\n"
    assert words in told
    assert (photograph(stage.folder / "inner"), photograph(stage.folder / "new")) == theirs


def test_files_are_shown_with_their_steps(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    played = stage.play(SHAPES["recipe"])
    assert "b: completed" in played.result.stderr
    assert "2 files changed" in played.result.stderr
    assert "2 files changed" in stage.run("status", "latest").stdout
    document = json.loads(stage.run("status", "latest", "--json").stdout)
    assert document["steps"]["c"]["changed"]["names"] == ["by-c", "common"]
    report = stage.run("report", "latest", "--format", "md")
    assert "by-c, common" in report.assert_exit(0).stdout
    assert "checkpoints" in stage.run("doctor").stdout
    assert "in 1 run" in stage.run("doctor").stdout


def test_an_effect_is_not_repeated_without_consent(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.play(workflow(works("a"), works("pay", ", effect: true")))
    refused = stage.run("rewind", "latest", "a", "--yes").assert_exit(2)
    assert "step 'pay' has an effect" in refused.stderr
    assert stage.files() == {"by-a", "by-pay"}
    stage.run("rewind", "latest", "a", "--yes", "--force").assert_exit(0)
    assert stage.files() == set()


def test_a_kill_between_files_and_journal_is_put_back(tmp_path: Path) -> None:
    stage = Worked(tmp_path)
    stage.play(SHAPES["recipe"])
    stage.ran()
    before = without_runs(photograph(stage.folder))

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        # Dead from the moment at which the files are back: nothing is put on record or put back.
        patched.setattr("orchestrate.app.files.rewind.checkpoint_to_json", die)
        patched.setattr("orchestrate.checkpoints.restore._put_back", die)
        with pytest.raises(Killed):
            stage.run("rewind", "latest", "b", "--yes")
    assert stage.files() == {"by-a"}
    stage.resume()
    assert stage.ran() == []
    assert without_runs(photograph(stage.folder)) == before
