"""A §9, §14 and rulings §5: the flags of a machine run, and the surroundings of its agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.machines.fakes import PAIR, Scene, git, machine, said

# Steps with and without a model of their own, in a recipe with or without one.
MODELS = {"own": {"model": "haiku", "done": "plain"}, "plain": {"done": "!done"}}


@pytest.mark.parametrize(
    ("head", "flags", "models"),
    [
        ("", (), ["haiku", "sonnet"]),
        ("model: opus", (), ["haiku", "opus"]),
        ("", ("--model", "opus"), ["haiku", "opus"]),
        ("model: opus", ("--model", "sonnet"), ["haiku", "sonnet"]),
        ("model: opus", ("--model", "claude-opus-9"), ["haiku", "claude-opus-9"]),
    ],
)
def test_a9_the_model_of_a_step(
    tmp_path: Path, head: str, flags: tuple[str, ...], models: list[str]
) -> None:
    """The step's, else the flag's, else the recipe's, else the agent's default (rulings §7)."""
    scene = Scene(tmp_path, said("done"), said("done"))
    scene.play(machine(MODELS, head), *flags)
    assert [call.model for call in scene.ledger()] == models


def test_a9_the_model_holds_over_a_restart(tmp_path: Path) -> None:
    steps = {"first": {"again": "@trial", "done": "!done"}}
    scene = Scene(tmp_path, said("again"), said("done"))
    scene.play(machine(steps, "model: haiku"), "--model", "opus")
    assert [call.model for call in scene.ledger()] == ["opus", "opus"]


def test_a9_a_backend_by_either_of_its_names(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *[said("done")] * 4)
    for name in ("claude-code", "claude"):
        played = scene.play(PAIR, "--backend", name)
        assert played.step("first")["agent"] == "claude-code"
    scene.script(said("done"), said("done"), program="codex")
    scene.play(PAIR, "--backend", "codex")
    assert len(scene.ledger()) == 4
    assert len(scene.ledger("codex")) == 2


def test_a9_an_unknown_backend_is_a_wrong_configuration(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    refused = scene.refuse(PAIR, "--backend", "claud", exit_code=5)
    assert "did you mean 'claude'" in refused.stderr


@pytest.mark.parametrize("backend", ["claude-code", "codex", "cursor", "opencode"])
def test_a9_a_program_that_is_not_installed(tmp_path: Path, backend: str) -> None:
    scene = Scene(tmp_path)
    scene.write("w.yaml", PAIR)
    bare = {"PATH": str(tmp_path), "CLAUDE_CLI_PATH": "", "CODEX_CLI_PATH": ""}
    refused = scene.run("run", "w.yaml", "--backend", backend, env=bare).assert_exit(5)
    assert "is not installed" in refused.stderr
    assert "install" in refused.stderr.partition("is not installed")[2]
    assert not scene.has_runs()


def test_a13_3_a_path_that_leads_nowhere_is_not_made_up_for(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.write("w.yaml", PAIR)
    nowhere = {"CLAUDE_CLI_PATH": str(tmp_path / "nowhere")}
    refused = scene.run("run", "w.yaml", env=nowhere).assert_exit(5)
    assert "CLAUDE_CLI_PATH" in refused.stderr
    assert not scene.has_runs()


def test_a13_3_the_usual_place_of_claude(tmp_path: Path) -> None:
    scene = Scene(tmp_path, said("done"), said("done"))
    scene.write("w.yaml", PAIR)
    local = tmp_path / "home/.claude/local"
    local.mkdir(parents=True)
    (tmp_path / "programs/claude").rename(local / "claude")
    scene.run("run", "w.yaml", env={"CLAUDE_CLI_PATH": ""}).assert_success()
    assert len(scene.ledger()) == 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), "--dangerously-skip-permissions"),
        (("--permissions", "bypass"), "--dangerously-skip-permissions"),
        (("--permissions", "edit"), "--permission-mode acceptEdits"),
        (("--permissions", "read-only"), "--permission-mode dontAsk"),
        (("--permissions", "default"), ""),
    ],
)
def test_a9_permissions_are_repeated_on_every_call(
    tmp_path: Path, given: tuple[str, ...], expected: str
) -> None:
    scene = Scene(tmp_path, said("done"), said("done"))
    scene.play(PAIR, *given)
    for call in scene.ledger():
        words = " ".join(call.argv)
        assert expected in words
        if not expected:
            assert "permission" not in words


def test_a9_codex_hears_model_sandbox_and_system_prompt_again(tmp_path: Path) -> None:
    """It forgets all of them from call to call; the flags stand before `resume`."""
    scene = Scene(tmp_path, said("done"), said("done"), program="codex")
    flags = ("--model", "gpt-9", "--permissions", "edit", "--system-prompt", "Be brief.")
    scene.play(PAIR, "--backend", "codex", *flags)
    for call in scene.ledger("codex"):
        before = call.argv[: call.argv.index("resume")] if "resume" in call.argv else call.argv
        assert before[before.index("-s") + 1] == "workspace-write"
        assert before[before.index("-m") + 1] == "gpt-9"
        assert 'developer_instructions="Be brief."' in before


@pytest.mark.parametrize("flag", ["--max-steps", "--max-visits", "--step-timeout"])
@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5e400"])
def test_a9_limits_are_positive_numbers(tmp_path: Path, flag: str, value: str) -> None:
    Scene(tmp_path).refuse(PAIR, flag, value)


def test_a9_flags_of_other_dialects_are_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for flag in (("--context", "a=b"), ("--on-error", "continue"), ("--clean-processed",)):
        assert flag[0] in scene.refuse(PAIR, *flag).stderr


# A §14: the working directory and the environment.


def test_a14_1_the_working_directory_is_the_agents(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *[said("done")] * 2)
    inner = scene.folder / "inner project"
    scene.write("inner project/w.yaml", PAIR)
    flags = ("--working-dir", str(inner))
    scene.run("run", "inner project/w.yaml", *flags).assert_success()
    assert {call.cwd for call in scene.ledger()} == {str(inner)}
    assert (inner / ".orchestrate" / "runs" / "latest").exists()


def test_a14_2_variables_of_an_outer_claude_are_taken_away(tmp_path: Path) -> None:
    outer = {"CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli", "ANTHROPIC_API_KEY": "k", "X": "ä"}
    scene = Scene(tmp_path, said("done"), said("done"))
    scene.play(PAIR, env=outer)
    for call in scene.ledger():
        assert not call.env.keys() & {"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"}
        assert (call.env["ANTHROPIC_API_KEY"], call.env["X"]) == ("k", "ä")


def test_a14_2_a_worktree_has_a_task_database_of_its_own(tmp_path: Path) -> None:
    scene = Scene(tmp_path, *[said("done")] * 6)
    scene.write("w.yaml", PAIR)
    scene.write(".beads-local/local.db", "")
    git(scene.folder, "init", "-q", "-b", "main")
    git(scene.folder, "add", "w.yaml")
    git(scene.folder, "commit", "-q", "-m", "first")
    tree = scene.top / "feature"
    git(scene.folder, "worktree", "add", "-q", str(tree))
    flags = ("run", "w.yaml", "--working-dir")
    # The main repository keeps its own; a worktree without a database has none.
    scene.run(*flags, str(scene.folder)).assert_success()
    scene.run(*flags, str(tree)).assert_success()
    (tree / ".beads-local").mkdir()
    (tree / ".beads-local/local.db").touch()
    scene.run(*flags, str(tree)).assert_success()
    given = [call.env.get("BEADS_DB") for call in scene.ledger()]
    assert given == [None] * 4 + [str(tree / ".beads-local/local.db")] * 2
