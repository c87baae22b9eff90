"""A §5, §20.4: the built-in machines at work, rehearsed and with an agent that really commits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machines.fakes import Scene, git, machine, said

CATALOGUE = (
    "review-and-commit", "document-design", "break-down-tasks", "implement-and-review",
    "implement-and-review-all", "rebase", "retrospective", "refine-design",
)  # fmt: skip


@pytest.mark.parametrize("name", CATALOGUE)
def test_a5_every_machine_can_be_rehearsed(tmp_path: Path, name: str) -> None:
    scene = Scene(tmp_path)
    result = scene.run("run", name, "--backend", "rehearsal").assert_success()
    played = scene.look(result)
    assert played.state["status"] == "completed"
    assert played.state["reason"] != "user-provided-other"
    assert f"Exit: {played.state['reason']}\n" in result.stdout
    assert result.stderr.count("REHEARSAL: no agent is asked") == 2
    assert "REHEARSAL" not in result.stdout
    plan = scene.run("plan", name, "--json").json()["plans"][0]
    steps = {node["id"] for node in plan["blocks"][0]["nodes"] if not node.get("part_of")}
    assert {step for step in steps_seen(played.root) if ":" not in step} == steps
    assert scene.ledger() == []
    assert scene.snapshot() == []


def steps_seen(run: Path) -> Iterator[str]:
    """Every step that was finished, also before a restart."""
    for line in (run / "events.jsonl").read_text().splitlines():
        event = json.loads(line)["event"]
        if event["on"] == "step-finished":
            yield event["node"]


def test_a5_1_a_script_drives_a_fix_round(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write(
        "script.yaml", "code-review: [issues-found, no-issues]\ncommit: [nothing-to-commit]"
    )
    flags = ("--backend", "rehearsal", "--script", "script.yaml", "--verbose")
    result = scene.run("run", "review-and-commit", *flags).assert_success()
    played = scene.look(result)
    assert played.state["reason"] == "no-changes-to-commit"
    visits = {"code-review": 2, "fix": 1, "commit": 1}
    assert played.state["machine"]["stepVisitCounts"] == visits
    assert "[orchestration] Transition: fix → code-review" in result.stderr


@pytest.mark.parametrize(
    ("script", "reason", "steps"),
    [
        ("implement: [no-tasks]", "no-tasks", 1),
        ("implement: [blocked]", "blocked", 1),
        ("implement: [complete]", "changes-committed", 5),
        ("implement: [complete]\ncode-review: [no-issues]\ncommit: [nothing-to-commit]",
         "no-changes-to-commit", 3),
        ("implement: [complete]\nfix: [complete]\ncode-review: [issues-found, no-issues]",
         "changes-committed", 5),
        ("implement: [{outcome: other, otherDescription: no disk}]", "user-provided-other", 1),
    ],
)  # fmt: skip
def test_a20_2_2_each_outcome_leads_where_the_recipe_says(
    tmp_path: Path, script: str, reason: str, steps: int
) -> None:
    scene = Scene(tmp_path)
    scene.write("script.yaml", script)
    flags = ("--backend", "rehearsal", "--script", "script.yaml")
    played = scene.look(scene.run("run", "implement-and-review", *flags).assert_success())
    assert played.state["reason"] == reason
    assert played.state["machine"]["stepCount"] == steps


def test_a5_1_a_script_can_reach_a_guardrail(tmp_path: Path) -> None:
    """The last line of a step repeats: issues are found for ever."""
    scene = Scene(tmp_path)
    scene.write("script.json", '{"code-review": ["issues-found"]}')
    flags = ("--backend", "rehearsal", "--script", "script.json")
    played = scene.look(scene.run("run", "review-and-commit", *flags).assert_exit(3))
    assert played.state["reason"] == "max-step-visits-exceeded:code-review"


# What a rehearsal does where nobody says otherwise: the way that leads furthest.
ROUNDABOUT = {
    "two-ways": ({"a": {"short": "c", "long": "b"}, "b": {"on": "c"}, "c": {"end": "!ended"}}, 3),
    "round-once": ({"a": {"on": "b"}, "b": {"bad": "c", "end": "!ended"}, "c": {"on": "b"}}, 4),
    "no-way-back": ({"a": {"on": "b", "dead": "c"}, "b": {"end": "!ended"}, "c": {"on": "c"}}, 2),
    "no-way-but-to-give-up": ({"a": {"on": "b"}, "b": {"back": "a"}}, 1),
    "only-restarts": ({"a": {"next": "@trial"}}, 1),
    "restart-or-end": ({"a": {"again": "@trial", "end": "!ended"}}, 1),
    "a-detour-is-better-than-giving-up": (
        {"a": {"on": "b"}, "b": {"back": "a", "on": "c"}, "c": {"end": "!ended"}},
        3,
    ),
}


@pytest.mark.parametrize("case", ROUNDABOUT)
def test_a20_4_a_rehearsal_always_comes_to_an_end(tmp_path: Path, case: str) -> None:
    steps, count = ROUNDABOUT[case]
    scene = Scene(tmp_path)
    played = scene.play(machine(steps), "--backend", "rehearsal")
    assert played.state["machine"]["stepCount"] == count
    gives_up = case in ("no-way-but-to-give-up", "only-restarts")
    assert played.state["reason"] == ("user-provided-other" if gives_up else "ended")


def test_a5_5_a_script_counts_visits_over_restarts(tmp_path: Path) -> None:
    """Else no script could say that the third task is the last, and it would never end."""
    scene = Scene(tmp_path)
    flags = ("--backend", "rehearsal", "--script", "script.yaml", "--max-restarts", "5")
    scene.write("script.yaml", "implement: [complete, complete, no-tasks]\ncommit: [committed]")
    result = scene.run("run", "implement-and-review-all", *flags).assert_success()
    played = scene.look(result)
    assert (played.state["reason"], played.state["machine"]["restarts"]) == ("no-tasks", 2)


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ("code-reveiw: [no-issues]", "did you mean 'code-review'"),
        ("code-review: [no-isues]", "no outcome 'no-isues'"),
        ("code-review: no-issues", "needs a list"),
        ("- code-review", "is a mapping of step names"),
        ("code-review: [no-issues", "script.yaml:1"),
    ],
)
def test_a5_1_a_script_that_does_not_fit_is_refused(tmp_path: Path, script: str, word: str) -> None:
    scene = Scene(tmp_path)
    scene.write("script.yaml", script)
    flags = ("--backend", "rehearsal", "--script", "script.yaml")
    refused = scene.run("run", "review-and-commit", *flags)
    assert refused.exit_code in (2, 5)
    assert word in refused.stderr
    assert not scene.has_runs()


# With an agent that edits and commits.


def repository(scene: Scene) -> Path:
    """A repository with a remote of its own, and a first commit in both; where the remote is."""
    remote = scene.top / "remote.git"
    git(scene.top, "init", "-q", "--bare", "-b", "main", str(remote))
    git(scene.folder, "init", "-q", "-b", "main")
    git(scene.folder, "config", "user.name", "Agent")
    git(scene.folder, "config", "user.email", "agent@localhost")
    git(scene.folder, "remote", "add", "origin", str(remote))
    scene.write("calc.py", "def add(a, b):\n    return a + b\n")
    git(scene.folder, "add", "calc.py")
    git(scene.folder, "commit", "-q", "-m", "add")
    git(scene.folder, "push", "-q", "-u", "origin", "main")
    return remote


def test_a5_1_review_and_commit_through_a_fix_round(tmp_path: Path) -> None:
    check = "python3 -c 'import calc; assert calc.sub(3, 2) == 1'"
    scene = Scene(
        tmp_path,
        said("issues-found", "sub adds", run=["git diff > ../diff"]),
        said("complete", "mended", run=["sed -i 's/x + y/x - y/' calc.py", check]),
        said("no-issues", "fine now", run=[check]),
        said("committed", run=["git add -A", "git commit -q -m 'Add sub'", "git push -q"]),
    )
    remote = repository(scene)
    with (scene.folder / "calc.py").open("a") as file:
        file.write("\n\ndef sub(x, y):\n    return x + y\n")
    env = {"PYTHONDONTWRITEBYTECODE": "1"}
    result = scene.run("run", "review-and-commit", env=env).assert_success()
    assert scene.look(result).state["reason"] == "changes-committed"
    assert "+    return x + y" in (scene.top / "diff").read_text()
    assert git(remote, "log", "--format=%s") == "Add sub\nadd\n"
    assert "return x - y" in git(remote, "show", "main:calc.py")
    # An agent's `git add -A` takes what was changed, and none of our own files.
    assert git(remote, "ls-tree", "-r", "--name-only", "main") == "calc.py\n"
    assert git(scene.folder, "status", "--porcelain") == ""
    calls = scene.ledger()
    assert len({call.session for call in calls}) == 1
    assert [call.earlier for call in calls] == [0, 1, 2, 3]
    assert [call.model for call in calls] == ["sonnet", "sonnet", "sonnet", "haiku"]


def test_a5_5_implement_and_review_all_works_off_three_tasks(tmp_path: Path) -> None:
    """Each task is implemented, reviewed and committed in a session of its own."""
    implement = ["t=$(ls tasks | head -1); cp tasks/$t done-$t"]
    commit = ["rm tasks/$(ls tasks | head -1)", "git add -A", "git commit -q -m 'Do a task'"]
    task = [
        said("complete", run=implement),
        said("no-issues", run=['test -n "$(git status --porcelain)"']),
        said("committed", run=commit),
    ]
    scene = Scene(tmp_path, *task, *task, *task, said("no-tasks", run=['test -z "$(ls tasks)"']))
    repository(scene)
    for name in ("a", "b", "c"):
        scene.write(f"tasks/{name}", name)
    git(scene.folder, "add", "tasks")
    git(scene.folder, "commit", "-q", "-m", "tasks")
    result = scene.run("run", "implement-and-review-all", "--verbose").assert_success()
    played = scene.look(result)
    assert played.state["reason"] == "no-tasks"
    assert played.state["machine"]["restarts"] == 3
    calls = scene.ledger()
    sessions = list(dict.fromkeys(call.session for call in calls))
    assert [sessions.index(call.session) for call in calls] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    assert [call.is_new for call in calls] == [True, False, False] * 3 + [True]
    assert git(scene.folder, "log", "--format=%s").splitlines().count("Do a task") == 3
    assert {f"done-{name}" for name in "abc"} <= set(scene.snapshot())
    assert result.stderr.count("Starting recipe: implement-and-review-all") == 4


def test_a20_4_a_bounded_task_loop(tmp_path: Path) -> None:
    task = [said("complete"), said("no-issues"), said("committed")]
    scene = Scene(tmp_path, *task * 3)
    flags = ("--max-restarts", "2")
    scene.run("run", "implement-and-review-all", *flags).assert_exit(3)
    assert len({call.session for call in scene.ledger()}) == 3


def test_a5_8_refine_design_has_room_for_its_passes(tmp_path: Path) -> None:
    """Its guardrails are wider: five visits of a step, 150 in all."""
    rounds = ["issues-found"] * 4 + ["no-issues"]
    reviews = ("completeness", "breadth", "simplicity", "consistency", "polish")
    lines = [f"review-{name}: [{', '.join(rounds)}]" for name in reviews]
    scene = Scene(tmp_path)
    scene.write("script.yaml", "\n".join([*lines, f"final-review: [{', '.join(rounds)}]",
                                          "locate-design: [found]"]))  # fmt: skip
    flags = ("--backend", "rehearsal", "--script", "script.yaml")
    played = scene.look(scene.run("run", "refine-design", *flags).assert_success())
    assert played.state["machine"]["stepVisitCounts"]["final-review"] == 5
    assert played.state["machine"]["stepCount"] == 1 + 6 * 9 + 1


@pytest.mark.parametrize(
    ("name", "words", "step", "told"),
    [
        ("implement-and-review", ["add a --json flag"], "implement", 'marks: "add a --json flag".'),
        ("implement-and-review", [], "implement", 'marks: "".'),
        ("document-design", ["how runs are kept"], "document", 'marks: "how runs are kept", else'),
        ("refine-design", ["docs/x.md"], "locate-design", 'marks: "docs/x.md"; else'),
        ("break-down-tasks", ["docs/x.md"], "analyze", 'marks: "docs/x.md"; else'),
        ("rebase", ["--input", "onto=develop"], "rebase", "`git rebase develop` - the **local**"),
        ("rebase", [], "rebase", "`git rebase main` - the **local** `main`, not `origin/main`"),
        ("rebase", [], "review", "`git range-diff main <starting-commit> HEAD`"),
    ],
)
def test_a5_a_machine_is_told_its_subject(
    tmp_path: Path, name: str, words: list[str], step: str, told: str
) -> None:
    scene = Scene(tmp_path)
    scene.write("docs/x.md", "A design.")
    result = scene.run("run", name, *words, "--backend", "rehearsal").assert_success()
    prompt = (scene.look(result).root / "logs" / f"{step}.prompt.txt").read_text()
    assert told in prompt
    assert "{{" not in prompt


def test_a5_inputs_of_the_catalogue_are_shown(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    listed = scene.run("list").assert_success().stdout
    for name, given in (("implement-and-review", "task, check"), ("document-design", "topic"),
                        ("refine-design", "document"), ("rebase", "onto"),
                        ("break-down-tasks", "document")):  # fmt: skip
        line = next(line for line in listed.splitlines() if line.split()[:1] == [name])
        assert line.endswith(f"[{given}]")
        assert (
            f"  {given.partition(',')[0]}, " in scene.run("describe", name).assert_success().stdout
        )
    missing = scene.run("run", "refine-design", "no.md", "--backend", "rehearsal").assert_exit(2)
    assert "'no.md' does not exist" in missing.stderr


def test_a3_2_what_a_run_was_told_holds_after_a_restart(tmp_path: Path) -> None:
    """It was lost with the session, and the first prompt of the next one could not be made."""
    task = [said("complete"), said("no-issues"), said("committed")]
    scene = Scene(tmp_path, *task, said("no-tasks"))
    scene.run("run", "implement-and-review-all", "mend the parser").assert_success()
    told = [call.prompt for call in scene.ledger() if "Implement the next" in call.prompt]
    assert len(told) == 2
    assert all('marks: "mend the parser".' in prompt for prompt in told)


def test_a5_4_a_check_is_made_only_if_one_is_given(tmp_path: Path) -> None:
    """The agent is told what failed, in the same session, and the review waits for it."""
    answers = [
        said("complete"),
        said("complete", run=["touch made"]),
        said("no-issues"),
        said("committed"),
    ]
    scene = Scene(tmp_path, *answers)
    scene.run("run", "implement-and-review", "-i", "check=test -e made").assert_success()
    calls = scene.ledger()
    assert 'The command: ["test","-e","made"]' in calls[1].prompt
    assert len({call.session for call in calls}) == 1

    (tmp_path / "plain").mkdir()
    scene = Scene(tmp_path / "plain", said("complete"), said("no-issues"), said("committed"))
    result = scene.run("run", "implement-and-review").assert_success()
    state = scene.look(result).state
    assert state["machine"]["stepCount"] == 3
    assert state["steps"]["implement:check-1"]["status"] == "skipped"
    assert len(scene.ledger()) == 3
