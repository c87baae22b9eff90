"""Promises 8 to 13, from the outside: what output, values, paths and terminals cannot break."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from tests.promises.commands import (
    at_terminal,
    await_file,
    do,
    doing,
    environment,
    measure,
    words,
    workflow,
)
from tests.promises.flipping import flipping
from tests.promises.hostile import SPEAKER, spellings
from tests.promises.killing import can_trace
from tests.promises.processes import watching_peaks
from tests.promises.shapes import INJECTING
from tests.promises.trials import Trial, sealed_state, tree_of


def _outputs(megabytes: int) -> str:
    steps = {
        "Big": f"yes 0123456789abcde | head -c {megabytes}000000",
        "Lines": "seq 1000000",
        "Nothing": "head -c 3000000 /dev/zero",
        "Broken": "yes \"$(printf 'a\\377\\376\\355\\240\\200')\" | head -c 3000000",
        "Endless": "head -c 30000000 /dev/zero | tr '\\0' x",
        "Both": "head -c 20000000 /dev/zero | tee /dev/stderr",
    }
    listed = "".join(
        f"          - name: {name}\n"
        f"            command: {json.dumps(['bash', '-c', script])}\n"
        f"            output_capture: {'lines' if name == 'Lines' else 'text'}\n"
        f"            output_file: {name}.out\n"
        for name, script in steps.items()
    )
    return f'        version: "1.1"\n        name: outputs\n        steps:\n{listed}'


@pytest.mark.parametrize("megabytes", [200, pytest.param(1000, marks=pytest.mark.soak)])
def test_promise_08_output_of_any_size_and_kind(megabytes: int, quick_top: Path) -> None:
    trial = workflow(quick_top, _outputs(megabytes))
    with watching_peaks(trial.top) as keepers_kb:
        done = measure(trial, "run", "w.yaml")
    assert done.code == 0, done.stderr
    print(f"peaks in KB: orchestrator {done.max_rss_kb}, keeper {keepers_kb}")
    assert keepers_kb, "the keeper was not seen"
    assert max(done.max_rss_kb, *keepers_kb.values()) < 200 * 1024
    expected = {
        "Big": (b"0123456789abcde\n" * 62_500, megabytes),
        "Nothing": (b"\0" * 3_000_000, 1),
        "Broken": ((b"a\xff\xfe\xed\xa0\x80\n" * 430_000)[:3_000_000], 1),
        "Endless": (b"x" * 30_000_000, 1),
        "Both": (b"\0" * 20_000_000, 1),
        "Lines": (b"".join(b"%d\n" % n for n in range(1, 1_000_001)), 1),
    }
    for name, (data, times) in expected.items():
        wanted, found = hashlib.sha256(), hashlib.sha256()
        for _ in range(times):
            wanted.update(data)
        with (trial.workspace / f"{name}.out").open("rb") as file:
            while block := file.read(1 << 20):
                found.update(block)
        assert found.digest() == wanted.digest(), f"{name}.out is not what was written"
    steps = sealed_state((trial.root / "state.json").read_bytes())["steps"]
    assert len(steps["Lines"]["lines"]) == 10_000
    assert all(steps[name]["truncated"] for name in expected)


VALUES = [
    "; touch canary", "$(touch canary)", "`touch canary`", "'; touch canary; '", '"; touch canary"',
    "a b", "*", "~", "-rf", "--help", "-", "$HOME", "\\", "${context.other}", "a\nb", "&& false",
]  # fmt: skip


def test_promise_09_no_value_changes_what_is_executed(tmp_path: Path) -> None:
    """The whole table is in tests/acceptance; here also names of files that look like options."""
    trial = workflow(
        tmp_path,
        f"""
        version: "1.1"
        name: values
        steps:
          - name: All
            for_each:
              items: {json.dumps(VALUES)}
              steps:
                - name: Bare
                  command: ["sh", "-c", "printf %s ${{item}}"]
                - name: Single
                  command: ["sh", "-c", "printf %s '${{item}}'"]
                - name: Double
                  command: ["sh", "-c", 'printf %s "${{item}}"']
                - name: Word
                  command: ["printf", "%s", "${{item}}"]
          - name: File
            for_each:
              items: ["-rf", "--help", "-", "-n x"]
              steps:
                - {{name: Put, command: [printf, "%s", "${{item}}"], output_file: "${{item}}"}}
                - {{name: Get, command: [cat], input_file: "${{item}}"}}
        """,
    )
    do(trial, "run", "w.yaml").assert_success()
    steps = sealed_state((trial.root / "state.json").read_bytes())["steps"]
    for value, results in zip(VALUES, steps["All"], strict=True):
        for name in ("Bare", "Single", "Double", "Word"):
            assert results[name]["output"] == value, f"{name} of {value!r}"
    assert [found["Get"]["output"] for found in steps["File"]] == ["-rf", "--help", "-", "-n x"]
    assert not (trial.workspace / "canary").exists()


@pytest.mark.parametrize(
    "every", [9, pytest.param(1, marks=pytest.mark.soak)], ids=["some cuts", "every cut"]
)
def test_promise_10_secrets_are_masked_everywhere(every: int, tmp_path: Path) -> None:
    """Sixteen spellings, each cut in two at the bytes, in every place that we write or print."""
    secret = "pä/ss w\"o'rd$1+\\x\nsecond-line_of=it"
    forms = spellings(secret)
    (tmp_path / "speaker.py").write_text(SPEAKER, "utf-8")
    run = json.dumps([sys.executable, "../speaker.py"])[:-1]
    trial = workflow(
        tmp_path / "trial",
        f"""
        version: "1.1"
        name: secrets
        strict_flow: false
        context: {{flag: none}}
        steps:
          - {{name: Says, secrets: [TOKEN], output_file: kept.txt, command: {run}, "0", "{every}"]}}
          - {{name: Lines, secrets: [TOKEN], output_capture: lines,
             command: {run}, "0", "{every}"]}}
          - {{name: Fails, secrets: [TOKEN], command: {run}, "5", "{every}"]}}
          - name: Tells
            secrets: [TOKEN]
            command: ["sh", "-c", 'printf ''{{"t": "%s"}}'' "$WORD"']
            env: {{WORD: "completed"}}
            output_capture: json
          - {{name: Unable, secrets: [WORD, TOKEN], command: ["./no ${{steps.Says.output}}"]}}
          - {{name: Given, secrets: [LITERAL], env: {{LITERAL: literal-s3cret}}, command: ["true"]}}
          - {{name: Passed, secrets: [FLAG], command: [echo, "${{context.flag}}"]}}
        """.replace("../speaker.py", "../../speaker.py"),
    )
    env = {
        "TOKEN": secret,
        "FORMS_FOR_TEST": json.dumps(forms),
        "WORD": "completed",
        "LITERAL": "other-s3cret",
        "FLAG": "flag-s3cret",
    }
    flags = ("--debug", "--verbose", "--context", "flag=flag-s3cret")
    shown = at_terminal(trial, "run", "w.yaml", *flags, env=env)
    shown += at_terminal(trial, "logs", "latest", env=env)
    files = {str(path): path.read_bytes() for path in trial.root.rglob("*") if path.is_file()}
    assert len(files) > 8
    assert any(b"***" in content for content in files.values())
    places: dict[str, bytes] = {
        **files,
        "terminal": shown,
        "output_file": (trial.workspace / "kept.txt").read_bytes(),
    }
    for where, content in places.items():
        for form in (*forms, "literal-s3cret", "other-s3cret", "flag-s3cret"):
            assert form.encode() not in content, f"{where} shows {form!r}"
    state = sealed_state((trial.root / "state.json").read_bytes())
    assert state["status"] == "completed", "masking changed the meaning of the state"
    assert state["steps"]["Says"]["status"] == "completed"


def test_promise_11_declared_paths_stay_inside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("in.txt", "only.txt"):
        (outside / name).write_text("OUTSIDE\n")
    trial = workflow(
        tmp_path / "trial",
        """
        version: "1.2"
        name: paths
        strict_flow: false
        providers:
          keeps: {command: ["sh", "-c", "cat >> prompts"], input_mode: stdin}
        steps:
          - name: List
            command: ["sh", "-c", "echo . > began; until test -e go; do :; done; ls tasks/*"]
            output_capture: lines
          - name: Race
            for_each:
              items_from: steps.List.lines
              on_item_complete: {success: {move_to: link}, failure: {move_to: link}}
              steps:
                - {name: Read, command: ["sh", "-c", "cat >> read"], input_file: link/in.txt,
                   on: {failure: {goto: Write}}}
                - {name: Write, command: [echo, x], output_file: "link/out-${loop.index}",
                   on: {failure: {goto: Wait}}}
                - {name: Wait, on: {failure: {goto: Ask}},
                   wait_for: {glob: "link/*.txt", timeout_sec: 0.01, poll_ms: 5}}
                - {name: Ask, provider: keeps, input_file: ask.txt, on: {failure: {goto: End}},
                   depends_on: {optional: ["link/*.txt"], inject: {mode: content}}}
                - {name: End, command: ["true"]}
        """,
        files={
            "inside/in.txt": "inside\n",
            "ask.txt": "what?\n",
            **{f"tasks/{number:02}": "task\n" for number in range(40)},
        },
    )
    link = trial.workspace / "link"
    link.symlink_to("inside")
    with doing(trial, "run", "w.yaml") as process:
        await_file(trial, "began")
        with flipping(link, "inside", str(outside)):
            (trial.workspace / "go").touch()
            assert process.wait(timeout=60) == 0
    assert sorted(os.listdir(outside)) == ["in.txt", "only.txt"], "something was put outside"
    assert {(outside / name).read_text() for name in os.listdir(outside)} == {"OUTSIDE\n"}
    kept = [path for path in trial.workspace.rglob("*") if path.is_file() and path.parent != link]
    for path in kept:
        assert b"OUTSIDE" not in path.read_bytes(), f"{path} was read from outside"
    race = sealed_state((trial.root / "state.json").read_bytes())["steps"]["Race"]
    waited = [name for item in race for name in item["Wait"].get("files", [])]
    assert "link/only.txt" not in waited
    codes = {item[name]["exit_code"] for item in race for name in ("Read", "Write", "Ask")}
    assert codes == {0, 2}, f"both ends of the link must have been met: {codes}"


def test_promise_11_what_is_no_file_is_refused_without_hanging(tmp_path: Path) -> None:
    trial = workflow(
        tmp_path,
        """
        version: "1.1.1"
        name: devices
        strict_flow: false
        providers:
          keeps: {command: ["sh", "-c", "cat >> prompts"], input_mode: stdin}
        steps:
          - name: Each
            for_each:
              items: [fifo, socket, zero, folder]
              steps:
                - {name: Read, command: [cat], input_file: "${item}"}
                - {name: Write, command: [echo, x], output_file: "${item}"}
                - {name: Ask, provider: keeps, input_file: "${item}"}
        """,
        files={"folder/x": ""},
    )
    os.mkfifo(trial.workspace / "fifo")
    (trial.workspace / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as door:
        with contextlib.chdir(trial.workspace):
            door.bind("socket")
        done = measure(trial, "run", "w.yaml")
    assert done.code == 0, done.stderr
    assert done.cpu_s < 5
    results = sealed_state((trial.root / "state.json").read_bytes())["steps"]["Each"]
    for item in results:
        assert set(item) == {"Read"} or item["Write"]["exit_code"] == 2
        assert {step["exit_code"] for step in item.values()} == {2}, item
    assert not (trial.workspace / "prompts").exists()


@pytest.mark.skipif(
    not can_trace(), reason="needs strace; tests/hostile/test_no_effects.py does not"
)
@pytest.mark.parametrize(
    "arguments",
    [["validate", "w.yaml"], ["plan", "w.yaml"], ["list"], ["run", "w.yaml", "--dry-run"]],
    ids=" ".join,
)
def test_promise_12_who_only_looks_starts_nothing(arguments: list[str], tmp_path: Path) -> None:
    trial = Trial(tmp_path, INJECTING)
    before = tree_of(trial.workspace)
    log = tmp_path / "calls"
    calls = "trace=execve,execveat,fork,vfork,connect,socket,bind"
    traced = subprocess.run(
        ["strace", "-f", "--seccomp-bpf", "-o", str(log), "-e", calls, *words(*arguments)],
        cwd=trial.workspace,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert traced.returncode == 0, traced.stderr
    made = [line for line in log.read_text().splitlines() if "exited" not in line]
    assert len(made) == 1, made
    assert "execve" in made[0], "the command itself was not seen"
    done = measure(trial, *arguments)
    assert done.cpu_s < 2
    assert done.max_rss_kb < 256 * 1024
    assert not trial.lines()
    assert tree_of(trial.workspace) == before
    assert not (trial.workspace / ".orchestrate").exists()


def test_promise_13_control_characters_never_reach_a_terminal(tmp_path: Path) -> None:
    trial = workflow(
        tmp_path,
        r"""
        version: "1.1"
        name: rude
        strict_flow: false
        steps:
          - name: Says
            command: ["bash", "-c", 'tee /dev/stderr < ../rude; exit 3']
          - name: Missing
            command: ["./${steps.Says.output}"]
          - name: Loop
            for_each:
              items_from: steps.Names.lines
              steps:
                - {name: Item, command: ["bash", "-c", "cat ../rude >&2; exit 4"]}
        """.replace(
            "steps:\n",
            "steps:\n          - {name: Names, command: [cat, ../rude], output_capture: lines}\n",
            1,
        ),
    )
    controls = bytes(c for c in range(1, 32)) + "\x7f\x85\x9b31m\u202e\u2028".encode()
    (tmp_path / "rude").write_bytes(b"A\x1b[2J\x1b]0;owned\x07\r" + controls + b"\nB\n")
    seen = at_terminal(trial, "run", "w.yaml", "--verbose")
    for command in (["logs", "latest"], ["logs", "latest", "Says"], ["status", "latest"], ["runs"]):
        seen += at_terminal(trial, *command)
    assert b"Says" in seen
    shown = seen.decode("utf-8").replace("\r\n", "\n")
    raw = {c for c in shown if unicodedata.category(c) in ("Cc", "Cf", "Zl") and c not in "\n\t"}
    assert not raw, f"{sorted(map(hex, map(ord, raw)))} in {shown[:2000]!r}"
