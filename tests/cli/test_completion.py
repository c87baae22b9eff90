"""Completion as shells do it: the real functions in real shells, and what they ask of us."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrate.testing import Project
from tests.cli.conftest import ROOT
from tests.cli.test_main import loaded_modules
from tests.gates import waiting_at

# Whoever has a shell tests it; bash is everywhere.
SHELLS = [name for name in ("bash", "zsh", "fish") if shutil.which(name)]

_BASH = """
eval "$(orchestrate completion bash)"
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=()
_orchestrate_complete orchestrate "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
_FISH = """
orchestrate completion fish | source
complete -C {line}
"""
# The line editor of zsh completes only at a terminal; this is one of its own (zsh/zpty).
_ZSH = """
zmodload zsh/zpty
zpty shell 'zsh -f -i'
zpty -w shell 'PS1=; unsetopt beep; TERM=dumb; autoload -Uz compinit; compinit -u -D'
zpty -w shell 'eval "$(orchestrate completion zsh)"'
zpty -w shell 'zstyle ":completion:*" list-grouped false; LISTMAX=0'
zpty -w shell 'print BEG""IN'
zpty -r shell seen '*BEGIN*'
zpty -w -n shell {line}$'\\t\\t'
zpty -w -n shell $'\\x01print -r -- "\\x05" END\\n'
zpty -r shell seen '*END*END*'
print -r -- "$seen"
"""


@pytest.fixture
def shell(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Complete a line in a real shell, in the project; what it offers, as text."""
    commands = tmp_path_factory.mktemp("bin")
    program = commands / "orchestrate"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m orchestrate "$@"\n')
    program.chmod(0o755)

    def complete(name: str, *words: str) -> str:
        line = " ".join(["orchestrate", *words])
        quoted = " ".join(["orchestrate", *map(shlex.quote, words)])
        script = {"bash": _BASH, "fish": _FISH, "zsh": _ZSH}[name]
        text = script.format(words=quoted, line=shlex.quote(line))
        done = subprocess.run(
            [name, "-c", text], cwd=project.folder, stdin=subprocess.DEVNULL,
            env={**os.environ, "PATH": f"{commands}:{os.environ['PATH']}",
                 "PYTHONPATH": str(ROOT), "TERM": "dumb"},
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr.decode()
        return done.stdout.decode(errors="replace")

    return complete


@pytest.fixture
def run_id(project: Project) -> str:
    project.write("steps.yaml", STEPS)
    done = project.run("run", "steps.yaml", "--json")
    assert done.exit_code == 0, done.stderr
    return str(done.json()["run_id"])


STEPS = """\
version: "1.1"
name: steps
steps:
  - name: FetchAll
    command: [echo, hello]
  - name: ParseAll
    command: [echo, hello]
"""


@pytest.mark.parametrize("name", SHELLS)
def test_shells_complete_commands_recipes_runs_and_steps(
    shell: Callable[..., str], run_id: str, name: str
) -> None:
    assert "validate" in shell(name, "vali")
    assert "retrospective" in shell(name, "run", "retro")
    assert "steps.yaml" in shell(name, "run", "steps.y")
    assert run_id in shell(name, "status", run_id[:12])
    assert "ParseAll" in shell(name, "logs", "latest", "Par")
    assert "FetchAll" not in shell(name, "logs", "latest", "Par")
    assert "rehearsal" in shell(name, "run", "tidy", "--backend", "reh")


@pytest.mark.parametrize("name", [name for name in SHELLS if name != "zsh"])
def test_values_behind_an_equals_sign(shell: Callable[..., str], name: str) -> None:
    words = ["--backend", "=", "gem"] if name == "bash" else ["--backend=gem"]
    wanted = "gemini" if name == "bash" else "--backend=gemini"
    assert shell(name, "run", *words).split() == [wanted]


def test_hostile_names_stay_names(shell: Callable[..., str], project: Project) -> None:
    project.write("workflows/a $(touch pwned) b.yaml", STEPS)
    project.write("workflows/new\nline.yaml", STEPS)
    project.write("workflows/esc\x1b[31m.yaml", STEPS)
    shown = shell("bash", "run", "a")
    assert "a $(touch pwned) b" in shown
    assert "\x1b" not in shell("bash", "run", "")
    assert "line" not in asked(project, "run", "new")
    assert not (project.folder / "pwned").exists()


def test_words_are_quoted_for_bash(shell: Callable[..., str], project: Project) -> None:
    project.write("odd.yaml", STEPS.replace("ParseAll", "Parse it all"))
    project.write("go.yaml", STEPS)
    assert project.run("run", "odd.yaml").exit_code == 0
    assert shell("bash", "logs", "latest", "P").strip() == r"Parse\ it\ all"


def asked(project: Project, *words: str, shell: str = "fish") -> list[str]:
    """What the shell's function gets, without the first line."""
    done = project.run("completion", shell, "--", *words)
    assert (done.exit_code, done.stderr) == (0, "")
    return [line.partition("\t")[0] for line in done.stdout.splitlines()][1:]


def kind_asked(project: Project, *words: str) -> str:
    return project.run("completion", "zsh", "--", *words).stdout.partition("\n")[0]


def test_what_each_place_takes(project: Project, run_id: str) -> None:
    assert asked(project, "sch") == ["schema"]
    assert asked(project, "schema", "w") == ["workflow"]
    assert asked(project, "validate", "--form") == ["--format"]
    assert asked(project, "validate", "--format", "s") == ["sarif"]
    assert asked(project, "validate", "a.yaml", "tid") == ["tidy"]
    assert asked(project, "run-step", "--workflow", "steps.yaml", "P") == ["ParseAll"]
    assert asked(project, "run", "tidy", "--model", "o") == ["opus"]
    assert asked(project, "run", "--recording", "2") == [run_id]
    assert asked(project, "--v") == ["--version"]
    assert asked(project, "config", "") == ["show", "path"]
    assert asked(project, "run", "--quiet", "--qui") == []
    assert asked(project, "run", "--", "--qui") == []
    assert asked(project, "nonsense", "") == []
    assert "--context" in asked(project, "run", "--context", "a=b", "--con")
    assert kind_asked(project, "run", "--context-file", "") == "files"
    assert kind_asked(project, "run", "--working-dir", "") == "dirs"
    assert kind_asked(project, "run", "") == "files"


def test_a_stage_that_waits(project: Project) -> None:
    done = project.run("run", "look", *waiting_at(project, "first"))
    assert done.exit_code == 6, done.stderr
    assert asked(project, "approve", "latest", "") == ["first"]


def test_other_places_of_runs_are_looked_in(project: Project, tmp_path: Path) -> None:
    project.write("steps.yaml", STEPS)
    made = project.run("run", "steps.yaml", "--state-dir", "elsewhere", "--json").json()["run_id"]
    assert asked(project, "status", "2") == []
    assert asked(project, "status", "--state-dir", "elsewhere", "2") == [made]
    assert asked(project, "status", "--state-dir=elsewhere", "2") == [made]


def test_what_is_broken_stays_silent(project: Project) -> None:
    project.write(".orchestrate/config.yaml", "backend: [\n")
    assert asked(project, "status", "") == []
    assert asked(project, "logs", "nothing", "") == []
    assert asked(project, "run-step", "--workflow", "broken/tidy.yaml", "") == []
    project.write(".orchestrate/runs/20250101T000000Z-abcdef/state.json", "{")
    (project.folder / ".orchestrate/config.yaml").unlink()
    assert asked(project, "logs", "20250101T000000Z-abcdef", "") == []


def test_many_runs_and_powershell(project: Project) -> None:
    for number in range(1000):
        (project.folder / f".orchestrate/runs/20250101T{number:06}Z-abcdef").mkdir(parents=True)
    assert len(asked(project, "status", "2")) == 200
    assert asked(project, "status", "=20250101T000777") == []
    assert asked(project, "status", "=20250101T000777", shell="powershell") == [
        "20250101T000777Z-abcdef"
    ]


def test_completing_loads_no_compiler(project: Project) -> None:
    for words in (["va"], ["run", "--back"], ["run", "tid"], ["status", ""]):
        loaded = loaded_modules(project, "completion", "zsh", "--", *words)
        assert "orchestrate.cli.completing" in loaded
        heavy = {"orchestrate.compile", "ruamel.yaml", "jsonschema", "orchestrate.plan.nodes"}
        assert not loaded & heavy, words


@pytest.mark.parametrize("name", ["bash", "zsh", "fish", "powershell"])
def test_each_script_says_how_to_load_it(project: Project, name: str) -> None:
    script = project.run("completion", name).stdout
    assert f"orchestrate completion {name}" in script.partition("\n\n")[0]
    wrong = project.run("completion", "tcsh")
    assert wrong.exit_code == 2
    assert "'bash', 'zsh', 'fish', 'powershell'" in wrong.stderr


def test_as_json(project: Project) -> None:
    script = project.run("completion", "bash", "--json").json()
    assert script["script"] == project.run("completion", "bash").stdout
    found = project.run("completion", "zsh", "--json", "--", "schema", "work").json()
    assert found["kind"] == "words"
    assert [item["value"] for item in found["candidates"]] == ["workflow"]
