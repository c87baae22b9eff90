"""What is refused before a run begins, and paths that only a value makes unsafe."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.fakes import Stage

REFUSED = {
    "007": 'command: ["echo", "${env.HOME}"]',
    "010": 'provider: claude\n        command: ["true"]',
    "036": 'wait_for: {glob: "x/*"}\n        command: ["true"]',
    "038": 'command: ["true"]\n        output_file: /tmp/x',
    "040": 'command_override: ["true"]',
}


def assert_refused(tmp_path: Path, item: str) -> None:
    """Validation comes before the run: the sound step before the bad one is not started."""
    Stage(tmp_path).refuse(f"""
    version: "1.1"
    steps:
      - name: Sound
        command: ["touch", "started"]
      - name: Bad
        {REFUSED[item]}
    """)


def test_at_007_run_refuses_env(tmp_path: Path) -> None:
    assert_refused(tmp_path, "007")


def test_at_010_run_refuses_two_kinds(tmp_path: Path) -> None:
    assert_refused(tmp_path, "010")


def test_at_036_run_refuses_wait_for_with_more(tmp_path: Path) -> None:
    assert_refused(tmp_path, "036")


def test_at_038_run_refuses_absolute_paths(tmp_path: Path) -> None:
    assert_refused(tmp_path, "038")


def test_at_040_run_refuses_command_override(tmp_path: Path) -> None:
    assert_refused(tmp_path, "040")


# Every place where C opens a path; `${context.path}` is known only when the run starts.
OPENING_PATHS = """
    version: "1.1"
    steps:
      - {name: Link, command: ["ln", "-s", "../outside", "link"]}
      - {name: Read, command: ["cat"], input_file: "${context.path}"}
      - {name: Ask, provider: cat, input_file: "${context.path}"}
      - {name: Write, command: ["echo", "leak"], output_file: "${context.path}"}
      - {name: Need, command: ["true"], depends_on: {required: ["${context.path}"]}}
      - {name: May, command: ["true"], depends_on: {optional: ["${context.path}"]}}
      - {name: If, command: ["true"], when: {exists: "${context.path}"}}
      - {name: Unless, command: ["true"], when: {not_exists: "${context.path}"}}
      - {name: Wait, wait_for: {glob: "${context.path}", timeout_sec: 0.2, poll_ms: 20}}
    providers: {cat: {command: ["cat"], input_mode: stdin}}
"""


def assert_every_use_fails(tmp_path: Path, path: str) -> None:
    """Each step fails with 2 and nothing outside is read or written."""
    secret = tmp_path / "outside/secret.txt"
    secret.parent.mkdir()
    secret.write_text("top secret")
    stage = Stage(tmp_path)
    played = stage.play(
        OPENING_PATHS, "--context", f"path={path}", "--on-error", "continue", exit_code=1
    )
    assert played.step("Link")["status"] == "completed"
    for name in ("Read", "Ask", "Write", "Need", "May", "If", "Unless", "Wait"):
        step = played.step(name)
        assert (name, step["status"], step["exit_code"]) == (name, "failed", 2)
        assert path in step["error"]["message"]
    assert "top secret" not in (played.root / "state.json").read_text()
    assert secret.read_text() == "top secret"
    assert [found.name for found in secret.parent.iterdir()] == ["secret.txt"]


def test_at_038_absolute_paths_that_a_value_makes(tmp_path: Path) -> None:
    assert_every_use_fails(tmp_path, str(tmp_path / "outside/secret.txt"))


def test_at_039_parent_paths_that_a_value_makes(tmp_path: Path) -> None:
    assert_every_use_fails(tmp_path, "../outside/secret.txt")


def test_at_039_a_link_that_appears_during_the_run(tmp_path: Path) -> None:
    assert_every_use_fails(tmp_path, "link/secret.txt")


def test_at_039_a_link_out_is_refused_whether_or_not_it_leads_to_a_file(tmp_path: Path) -> None:
    """Validation refuses such a path at once; a value must not get a different answer."""
    stage = Stage(tmp_path)
    (tmp_path / "outside").mkdir()
    played = stage.play(
        """
        version: "1.1"
        context: {folder: link}
        steps:
          - {name: Link, command: ["ln", "-s", "../outside", "link"]}
          - {name: Need, command: ["true"], depends_on: {required: ["${context.folder}/no*"]}}
          - {name: May, command: ["true"], depends_on: {optional: ["${context.folder}/no*"]}}
          - {name: If, command: ["true"], when: {exists: "${context.folder}/none"}}
          - {name: Unless, command: ["true"], when: {not_exists: "${context.folder}/none"}}
          - {name: Wait, wait_for: {glob: "${context.folder}/none", timeout_sec: 0.2}}
          - {name: Write, command: ["echo", "leak"], output_file: "${context.folder}/new"}
        """,
        "--on-error",
        "continue",
        exit_code=1,
    )
    names = ("Need", "May", "If", "Unless", "Wait", "Write")
    assert {name: played.step(name)["exit_code"] for name in names} == dict.fromkeys(names, 2)
    assert list((tmp_path / "outside").iterdir()) == []


def test_at_039_links_inside_the_workspace_are_followed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"real/note.txt": "inside"})
    (stage.folder / "link").symlink_to("real")
    played = stage.play("""
        version: "1.1"
        steps:
          - name: Read
            command: ["cat"]
            input_file: link/note.txt
            output_file: link/copy.txt
            depends_on: {required: ["link/*.txt"]}
    """)
    assert played.step("Read")["output"] == "inside"
    assert (stage.folder / "real/copy.txt").read_text() == "inside"
