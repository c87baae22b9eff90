"""What a step's output becomes: text, lines, JSON, and the file it is copied to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.fakes import Stage

KIB = 1024


def test_at_001_lines_are_captured(tmp_path: Path) -> None:
    played = Stage(tmp_path).play(r"""
        version: "1.1"
        steps:
          - name: List
            command: ["printf", "one\\ntwo words\\r\\n\\n  three"]
            output_capture: lines
    """)
    step = played.step("List")
    assert step["status"] == "completed"
    assert step["exit_code"] == 0
    # CRLF is normalised; an empty line in the middle is a line.
    assert step["lines"] == ["one", "two words", "", "  three"]
    assert step["truncated"] is False
    assert "output" not in step
    assert not played.has_log("List.stdout")


def test_at_001_lines_stop_at_ten_thousand(tmp_path: Path) -> None:
    played = Stage(tmp_path).play("""
        version: "1.1"
        steps:
          - {name: Exact, command: ["seq", "10000"], output_capture: lines}
          - {name: More, command: ["seq", "10001"], output_capture: lines}
    """)
    exact, more = played.step("Exact"), played.step("More")
    wanted = [str(number) for number in range(1, 10_001)]
    assert (exact["lines"], exact["truncated"]) == (wanted, False)
    assert (more["lines"], more["truncated"]) == (wanted, True)
    # A loop over them would pass for complete, so it is said.
    assert played.result.stderr.count("warning: only the first 10,000 lines are kept") == 1
    assert not played.has_log("Exact.stdout")
    assert played.log("More.stdout") == "".join(f"{number}\n" for number in range(1, 10_002))


def test_at_002_json_is_captured_and_usable(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.write("answer.json", '{"success": true, "files": ["a.py", "b.py"], "deep": {"n": 7}}')
    played = stage.play("""
        version: "1.1"
        steps:
          - {name: Ask, command: ["cat", "answer.json"], output_capture: json}
          - name: Use
            command:
              - printf
              - "%s|"
              - "${steps.Ask.json.success}"
              - "${steps.Ask.json.deep.n}"
              - "${steps.Ask.json.files}"
              - "${steps.Ask.json.files.1}"
    """)
    step = played.step("Ask")
    assert step["json"] == {"success": True, "files": ["a.py", "b.py"], "deep": {"n": 7}}
    assert step["output_capture"] == "json"
    assert "output" not in step
    success, number, files, second, _ = played.step("Use")["output"].split("|")
    assert (success, number, json.loads(files), second) == ("true", "7", ["a.py", "b.py"], "b.py")


BIG_JSON = """
    version: "1.1"
    steps:
      - name: Big
        command: ["cat", "big.json"]
        output_capture: json
        allow_parse_error: {allowed}
      - name: After
        command: ["true"]
"""


def big_json(size: int) -> str:
    """A JSON document of exactly so many bytes."""
    return json.dumps({"text": "x" * (size - len('{"text": ""}'))})


def test_at_014_json_over_a_mebibyte_fails(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    (stage.folder / "big.json").write_text(big_json(KIB * KIB + 1))
    played = stage.play(BIG_JSON.format(allowed="false"), exit_code=1)
    step = played.step("Big")
    assert (step["status"], step["exit_code"]) == ("failed", 2)
    assert "json" not in step
    assert step["error"]["exit_code"] == 2
    assert "JSON" in step["error"]["message"]
    assert "After" not in played.state["steps"]
    assert played.state["status"] == "failed"
    # A stream that could not be parsed is kept whole.
    assert len(played.log("Big.stdout")) == KIB * KIB + 1


def test_at_014_json_of_a_mebibyte_is_parsed(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    (stage.folder / "big.json").write_text(big_json(KIB * KIB))
    step = stage.play(BIG_JSON.format(allowed="false")).step("Big")
    assert len(step["json"]["text"]) == KIB * KIB - len('{"text": ""}')


def test_at_015_parse_errors_can_be_allowed(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    text = big_json(KIB * KIB + 1)
    (stage.folder / "big.json").write_text(text)
    played = stage.play(BIG_JSON.format(allowed="true"))
    step = played.step("Big")
    assert (step["status"], step["exit_code"]) == ("completed", 0)
    assert "json" not in step
    assert (step["output"], step["truncated"]) == (text[: 8 * KIB], True)
    assert step["debug"]["json_parse_error"] == {"reason": "overflow"}
    assert played.step("After")["status"] == "completed"


def test_at_015_invalid_json_can_be_allowed(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"big.json": "{not json\n"})
    step = stage.play(BIG_JSON.format(allowed="true")).step("Big")
    assert (step["exit_code"], step["output"], step["truncated"]) == (0, "{not json\n", False)
    assert step["debug"]["json_parse_error"] == {"reason": "invalid"}
    refused = stage.play(BIG_JSON.format(allowed="false"), exit_code=1)
    assert refused.step("Big")["exit_code"] == 2
    assert refused.log("Big.stdout") == "{not json\n"


def test_at_045_text_stops_at_eight_kib(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    exact, more = "e" * (8 * KIB), "m" * (8 * KIB) + "rest"
    (stage.folder / "exact").write_text(exact)
    (stage.folder / "more").write_text(more)
    played = stage.play("""
        version: "1.1"
        steps:
          - {name: Exact, command: ["cat", "exact"]}
          - {name: More, command: ["cat", "more"]}
    """)
    assert played.step("Exact")["output"] == exact
    assert played.step("Exact")["truncated"] is False
    assert not played.has_log("Exact.stdout")
    assert played.step("More")["output"] == more[: 8 * KIB]
    assert played.step("More")["truncated"] is True
    assert played.log("More.stdout") == more


@pytest.mark.parametrize(
    ("capture", "text", "ends"),
    [
        ("text", "t" * (20 * KIB), 0),
        ("lines", "line\n" * 10_500, 0),
        ("json", big_json(KIB * KIB + 5), 2),
        ("json", '{"fine": true}', 0),
        ("json", "no json", 2),
    ],
    ids=["text", "lines", "json too big", "json", "no json"],
)
def test_at_052_the_output_file_gets_everything(
    tmp_path: Path, capture: str, text: str, ends: int
) -> None:
    stage = Stage(tmp_path)
    (stage.folder / "source").write_text(text)
    workflow = f"""
        version: "1.1"
        steps:
          - name: Copy
            command: ["cat", "source"]
            output_capture: {capture}
            output_file: deep/down/copy.txt
    """
    played = stage.play(workflow, exit_code=1 if ends else 0)
    assert played.step("Copy")["exit_code"] == ends
    assert (stage.folder / "deep/down/copy.txt").read_text() == text


def test_at_052_the_limits_hold_beside_the_output_file(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    (stage.folder / "text").write_text("t" * (20 * KIB))
    (stage.folder / "lines").write_text("line\n" * 10_500)
    played = stage.play("""
        version: "1.1"
        steps:
          - {name: Text, command: ["cat", "text"], output_file: a.txt}
          - {name: Lines, command: ["cat", "lines"], output_file: b.txt, output_capture: lines}
    """)
    assert len(played.step("Text")["output"]) == 8 * KIB
    assert len(played.step("Lines")["lines"]) == 10_000
    assert played.log("Text.stdout") == "t" * (20 * KIB)
    assert played.log("Lines.stdout") == "line\n" * 10_500


def test_c_error_context_of_a_failed_command(tmp_path: Path) -> None:
    """Stderr stands apart from stdout; the error has tails of both, and what was run."""
    stage = Stage(tmp_path, {"noisy.sh": "seq 30; seq 100 130 >&2; exit $1"})
    played = stage.play(
        """
        version: "1.1"
        context: {code: "7"}
        steps:
          - {name: Silent, command: ["echo", "out"]}
          - name: Noisy
            command: ["sh", "noisy.sh", "${context.code}"]
            on: {failure: {goto: Gone}}
          - {name: Gone, command: ["no-such-program-anywhere", "${context.code}"]}
        """,
        exit_code=1,
    )
    assert not played.has_log("Silent.stderr")
    assert played.log("Noisy.stderr") == "".join(f"{n}\n" for n in range(100, 131))
    step = played.step("Noisy")
    assert (step["exit_code"], step["output"].splitlines()[-1]) == (7, "30")
    error = step["error"]
    assert error["exit_code"] == 7
    assert error["stdout_tail"] == [str(n) for n in range(21, 31)]
    assert error["stderr_tail"] == [str(n) for n in range(121, 131)]
    assert error["context"]["substituted_command"] == ["sh", "noisy.sh", "7"]
    gone = played.step("Gone")["error"]
    assert "no-such-program-anywhere" in gone["message"]
    assert gone["context"]["substituted_command"] == ["no-such-program-anywhere", "7"]
