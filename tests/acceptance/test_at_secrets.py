"""Secrets: required from our own environment, passed on, and never written down."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.fakes import Played, Stage

SECRET = "s3cr3t-Value/with+odd=chars"
OVERLAID = "overlaid-by-env-42"


def assert_never_written(stage: Stage, played: Played, *values: str) -> None:
    """No file of the run and nothing on the terminal holds a value."""
    said = played.result.stdout + played.result.stderr
    for value in values:
        assert value not in said
        for path in played.root.rglob("*"):
            if path.is_file():
                assert value.encode() not in path.read_bytes(), f"{value} in {path.name}"


def test_at_041_missing_secrets_fail_the_step(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    played = stage.play(
        """
        version: "1.1"
        steps:
          - name: Use
            command: ["touch", "started"]
            secrets: [TEST_SECRET_X, TEST_SECRET_HERE, TEST_SECRET_Y]
            retries: {max: 2, delay_ms: 20000}
        """,
        exit_code=1,
        env={"TEST_SECRET_HERE": "there"},
    )
    step = played.step("Use")
    assert (step["status"], step["exit_code"]) == ("failed", 2)
    missing = step["error"]["context"]["missing_secrets"]
    assert missing == ["TEST_SECRET_X", "TEST_SECRET_Y"]
    assert not (stage.folder / "started").exists()


LEAKY = """
    version: "1.1"
    providers: {tool: {command: ["tool", "${PROMPT}"]}}
    steps:
      - name: Print
        command: ["sh", "-c", "echo out $TOKEN; echo err $TOKEN >&2"]
        secrets: [TOKEN]
      - name: Use
        command: ["echo", "got", "${steps.Print.output}"]
      - name: Ask
        provider: tool
        input_file: prompt.md
        secrets: [TOKEN]
      - name: Big
        command: ["sh", "-c", "seq 5000; echo $TOKEN"]
        secrets: [TOKEN]
      - name: Json
        command: ["sh", "-c", "printf '{\\"t\\": \\"%s\\"}' \\"$TOKEN\\""]
        secrets: [TOKEN]
        output_capture: json
      - name: Fail
        command: ["sh", "-c", "echo $TOKEN; echo $TOKEN >&2; exit 3"]
        secrets: [TOKEN]
"""


def test_at_042_secrets_are_masked_everywhere(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.program("tool", "print(os.environ['TOKEN'], argv)")
    stage.write("prompt.md", f"The token is {SECRET}.")
    played = stage.play(LEAKY, "--debug", exit_code=1, env={"TOKEN": SECRET})
    assert played.step("Print")["output"] == "out ***\n"
    assert played.log("Print.stderr") == "err ***\n"
    assert played.step("Use")["output"] == "got out ***\n\n"
    assert played.step("Json")["json"] == {"t": "***"}
    assert played.log("Big.stdout").endswith("5000\n***\n")
    assert played.step("Fail")["error"]["stderr_tail"] == ["***"]
    assert "***" in played.log("Ask.prompt.txt")
    assert_never_written(stage, played, SECRET)
    # The programs themselves got the real value.
    (call,) = stage.calls("tool")
    assert call.env["TOKEN"] == SECRET
    assert call.argv == [f"The token is {SECRET}."]


def test_at_054_secrets_come_from_our_environment_only(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {".env": "FROM_FILE=leaked\n", "home/.env": "FROM_FILE=leaked\n"})
    workflow = """
        version: "1.1"
        context: {FROM_FILE: context}
        steps:
          - name: Empty
            command: ["sh", "-c", "echo [$EMPTY] $${EMPTY+set}"]
            secrets: [EMPTY]
          - name: File
            command: ["touch", "started"]
            secrets: [FROM_FILE]
    """
    played = stage.play(workflow, exit_code=1, env={"EMPTY": ""})
    assert played.step("Empty")["output"] == "[] set\n"
    assert played.step("File")["exit_code"] == 2
    assert played.step("File")["error"]["context"]["missing_secrets"] == ["FROM_FILE"]
    assert not (stage.folder / "started").exists()
    assert stage.play(workflow, env={"EMPTY": "", "FROM_FILE": "y"}).step("File")["exit_code"] == 0


def test_at_055_env_wins_and_is_masked(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.program("tool", "print('value', os.environ['TOKEN'], os.environ['PLAIN'])")
    played = stage.play(
        f"""
        version: "1.1"
        steps:
          - name: Use
            command: ["tool"]
            env: {{TOKEN: "{OVERLAID}", PLAIN: "seen"}}
            secrets: [TOKEN]
        """,
        "--debug",
        env={"TOKEN": SECRET, "PLAIN": "inherited"},
    )
    (call,) = stage.calls("tool")
    assert (call.env["TOKEN"], call.env["PLAIN"]) == (OVERLAID, "seen")
    assert played.step("Use")["output"] == "value *** seen\n"
    assert SECRET.encode() not in (played.root / "state.json").read_bytes()
    for path in (played.root / "logs").rglob("*"):
        assert OVERLAID.encode() not in path.read_bytes(), path.name
        assert SECRET.encode() not in path.read_bytes(), path.name
    assert OVERLAID not in (played.root / "state.json").read_text()


def test_env_values_are_literal(tmp_path: Path) -> None:
    """C, environment: no substitution inside `env`; the rest of the environment is inherited."""
    stage = Stage(tmp_path)
    stage.program("tool")
    stage.play(
        """
        version: "1.1"
        context: {x: filled}
        steps:
          - {name: Use, command: ["tool"], env: {VALUE: "${context.x} $$ $HOME"}}
        """,
        env={"INHERITED": "yes"},
    )
    (call,) = stage.calls("tool")
    assert call.env["VALUE"] == "${context.x} $$ $HOME"
    assert call.env["INHERITED"] == "yes"
