"""Hostile values in lowered scripts, run by real shells: one word each, and nothing executed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrate.lang.shell.lower import lower_script

pytestmark = pytest.mark.faults

HOLE = "¤"  # stands for ${…} in the scripts below
BASH, SH = shutil.which("bash") or "", shutil.which("sh") or ""

PAYLOADS = [
    "plain",
    "",
    " ",
    "two words",
    "  padded  ",
    "tab\tand\nnewline",
    "trailing newline\n",
    "\n\n",
    "'",
    '"',
    '"\'"',
    "'\"'",
    "''",
    '""',
    "it's",
    "\\",
    "\\\\",
    "\\n",
    "\\'",
    '\\"',
    "a\\",
    "$(touch canary)",
    "`touch canary`",
    "; touch canary",
    ";touch canary;",
    "| touch canary",
    "& touch canary &",
    "&& touch canary",
    "|| touch canary",
    "\ntouch canary\n",
    "'; touch canary; '",
    '"; touch canary; "',
    "'\"; touch canary; \"'",
    ") ; touch canary ; (",
    "} ; touch canary ; {",
    ";; esac; touch canary",
    "done; touch canary",
    "a[$(touch canary)]",
    "([$(touch canary)]=1)",
    "[$(touch canary)]=1",
    "x=$(touch canary)",
    "${x:-$(touch canary)}",
    "$((a[$(touch canary)]))",
    "() { :; }; touch canary",
    "<(touch canary)",
    "> canary",
    ">canary",
    "2>canary",
    "<<E\ntouch canary\nE",
    "E\ntouch canary\nE",
    "$'\\ntouch canary\\n'",
    '$"x"',
    "*",
    "?",
    "[a-z]*",
    "/*",
    "~",
    "~root",
    "{a,b}",
    "{1..3}",
    "!(x)",
    "!!",
    "!$",
    "# comment",
    "-",
    "--",
    "-n",
    "-e",
    "-v",
    "-c",
    "--help",
    "=",
    "(",
    ")",
    "]",
    "]]",
    "$",
    "$$",
    "$@",
    "$*",
    "$0",
    "${IFS}",
    "%s%n%d",
    "%",
    "a=b",
    "A  B* C",
    "é ü 漢字 🙂",
    "\u202e\u00a0",
    "\x01\x02\x03\x1b[31m\x7f",
    os.fsdecode(b"\xff\xfe invalid \x80"),
    "\r\n",
    "'" * 50,
    '"$(touch canary)"' * 20,
    "long $(touch canary) ' \" " * 400,  # 10 KB
]

# One line for each kind of place, and what the program then sees for a value.
EVERYWHERE = [
    ("printf '%s\\0' ¤", "{}"),
    ("printf '%s\\0' a¤b", "a{}b"),
    ("printf '%s\\0' ¤¤", "{}{}"),
    ("printf '%s\\0' \"x ¤ y\"", "x {} y"),
    ("printf '%s\\0' 'x ¤ y'", "x {} y"),
    ("printf '%s\\0' 'x'¤\"y\"", "x{}y"),
    ("printf '%s\\0' \\'¤\\'", "'{}'"),
    ('printf \'%s\\0\' "\\"¤\\$"', '"{}$'),
    ("printf '%s\\0' \"$(printf '%s.' ¤)\"", "{}."),
    ("printf '%s\\0' \"$(printf '%s.' \"¤\")\"", "{}."),
    ("printf '%s\\0' \"$(printf '%s.' '<¤>')\"", "<{}>."),
    ("x=¤; printf '%s\\0' \"$x\"", "{}"),
    ("x=a¤'¤'\"¤\"; printf '%s\\0' \"$x\"", "a{}{}{}"),
    ("export x=¤; printf '%s\\0' \"$x\"", "{}"),
    ("for i in ¤; do printf '%s\\0' \"$i\"; done", "{}"),
    ("case x¤ in y) ;; x¤) printf '%s\\0' ¤;; esac", "{}"),
    ("(printf '%s\\0' ¤)", "{}"),
    ("{ printf '%s\\0' ¤; } 2>&1", "{}"),
    ("printf '%s\\0' ¤ | cat", "{}"),
    ("if [ x¤ = x¤ ]; then printf '%s\\0' ¤; fi", "{}"),
    ("if [ ¤ = ¤ ]; then printf '%s\\0' ¤; fi", "{}"),
    ("[ -z ¤ ] || [ -n ¤ ] && printf '%s\\0' ¤", "{}"),
    ("[ ¤ -eq 1 ] 2>/dev/null; printf '%s\\0' ¤", "{}"),
    ("f() { printf '%s\\0' \"$1\"; }; f ¤", "{}"),
    ("set -- ¤; printf '%s\\0' \"$1\"", "{}"),
    ("printf '%s\\0' k # ¤ '", "k"),
    (": ${x:=1} $((1 + 1)); printf '%s\\0' ¤", "{}"),
    ("cat <<'E' >/dev/null\nit's $(x `\nE\nprintf '%s\\0' ¤", "{}"),
    ('sh -c \'printf "%s\\0" "$1"\' sh ¤', "{}"),
    ('env x=¤ sh -c \'printf "%s\\0" "$x"\'', "{}"),
]
IN_BASH = [
    ("printf '%s\\0' $'x\\t¤\\'y'", "x\t{}'y"),
    ("printf '%s\\0' $\"x ¤\"", "x {}"),
    ('a=(¤ "¤" [5]=¤); printf \'%s\\0\' "${a[*]:2:1}"', "{}"),
    ('declare x=¤ "y=¤"; printf \'%s\\0\' "$y"', "{}"),
    ("[[ ¤ == ¤ && -n x¤ ]] && printf '%s\\0' ¤", "{}"),
    ("[[ x¤ =~ ¤ ]] && printf '%s\\0' ¤", "{}"),
    ("while IFS= read -r -d '' i; do printf '%s\\0' \"$i\"; done < <(printf '%s\\0' ¤)", "{}"),
    ("printf '%s\\0' \"$(cat <<< ¤; echo .)\"", "{}\n."),
    ("a[0]=¤; printf '%s\\0' \"${a[0]}\"", "{}"),
    ("set -- {a,¤}b; printf '%s\\0' \"$2\"", "{}b"),
]
PLACES = [
    *[(SH, "sh", *place) for place in EVERYWHERE],
    *[(BASH, "bash", *place) for place in EVERYWHERE + IN_BASH],
]


def run(
    program: str, script: str, names: Sequence[str], values: Sequence[str], folder: Path, path: str
) -> bytes:
    environment = {"PATH": path, "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    environment |= dict(zip(names, values, strict=True))
    finished = subprocess.run(
        [program, "-c", script],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    return finished.stdout


def test_there_are_enough_payloads_and_they_would_bite(tmp_path: Path) -> None:
    assert len(set(PAYLOADS)) >= 40
    for payload in ("$(touch canary)", "; touch canary"):
        run(SH, f"echo {payload}", [], [], tmp_path, os.environ["PATH"])
        (tmp_path / "canary").unlink()


@pytest.mark.parametrize(("program", "shell", "line", "expected"), PLACES)
def test_a_program_sees_the_value_and_nothing_else_happens(
    program: str, shell: str, line: str, expected: str, tmp_path: Path
) -> None:
    # All payloads in one script, so that each place costs one process.
    per_line = line.count(HOLE)
    lowered = lower_script("\n".join([line] * len(PAYLOADS)).split(HOLE), shell=shell)
    assert lowered.faults == ()
    values = [payload for payload in PAYLOADS for _ in range(per_line)]
    output = run(program, lowered.text, lowered.names, values, tmp_path, os.environ["PATH"])
    seen = [os.fsdecode(word) for word in output.split(b"\0")]
    assert seen == [*(expected.replace("{}", payload) for payload in PAYLOADS), ""]
    assert os.listdir(tmp_path) == []


def test_a_redirection_writes_to_exactly_the_named_file(tmp_path: Path) -> None:
    names = [payload for payload in PAYLOADS if payload and "/" not in payload][:60]
    names = [name for name in names if name != "-" and len(os.fsencode(name)) < 200]
    lowered = lower_script("\n".join(["echo x > ./¤"] * len(names)).split(HOLE))
    assert lowered.faults == ()
    run(BASH, lowered.text, lowered.names, names, tmp_path, os.environ["PATH"])
    assert sorted(os.listdir(tmp_path)) == sorted(set(names))


# Pieces from which random scripts are made: the first list holds together more often.
STATEMENTS = [
    "echo ¤",
    'p "a¤" ¤',
    "p 'b ¤'c",
    "x=¤",
    'x="$(p ¤)"',
    "p $'t\\t¤'",
    "{ p ¤; }",
    "( p ¤ )",
    "if p ¤; then p ¤; fi",
    "for i in ¤ a; do p $i; done",
    "case ¤ in a) p ¤;; *) p;; esac",
    "[ -n ¤ ]",
    "[[ ¤ == a ]]",
    "a=(¤ b)",
    "f() { p ¤; }",
    "p <<< ¤",
    "p > o",
    "cat <<E\nx\nE",
    "p # ¤",
    "export y=¤",
    "printf %s ¤",
    "$z p ¤",
    "! p ¤",
]
FRAGMENTS = [
    HOLE,
    *" \t\n'\"\\$`#;&|<>(){}[]=!*~-+",
    *("$(", "$((", "))", "((", "${x}", "${x:-", "$x", "$'", '$"', "<(", "<<E\n", "\nE\n", "<<<"),
    *("&&", "||", ";;", "a)", "[[ ", " ]]", "[ ", " ]", "a[", "]=", "a=(", "x=", "\\\n", "$["),
    *("eval ", "source ", "exec ", "env ", "command ", "declare -i ", "declare ", "read ", "test "),
    *("if ", "then ", "fi", "case ", " in ", "esac", "for i in ", "do ", "done", "function f "),
    *("bash -c ", "trap ", "unset ", "let ", "printf -v ", "export ", " -eq ", " -v ", "p ", "x"),
]
ATTACKS = [
    "$(: >canary)",
    "a[$(: >canary)]",
    "; : >canary;",
    "'; : >canary; '",
    '"; : >canary; "',
    "\n: >canary\n",
    "([$(: >canary)]=1)",
    "evil",
    "./evil",
    "-v",
]
SEPARATORS = st.sampled_from(["; ", "\n", " && ", " | ", " "])
LIVELY = st.lists(st.tuples(st.sampled_from(STATEMENTS), SEPARATORS), min_size=1, max_size=5).map(
    lambda pairs: "".join(statement + separator for statement, separator in pairs)
)
NOISE = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)
SCRIPTS = st.one_of(
    LIVELY,
    LIVELY,
    LIVELY,
    NOISE,
    st.tuples(LIVELY, NOISE, LIVELY).map("".join),
    st.text(max_size=30),
)


@settings(max_examples=200, deadline=None)
@given(SCRIPTS, st.sampled_from(["bash", "sh", "zsh", "ksh"]))
def test_lowering_never_raises_and_keeps_the_authors_text(script: str, shell: str) -> None:
    literals = script.split(HOLE)
    lowered = lower_script(literals, shell=shell)
    assert len(lowered.names) == len(literals) - 1
    if lowered.faults:
        assert {fault.hole for fault in lowered.faults} <= set(range(len(lowered.names)))
        assert lowered.text == ""
        return
    position = 0
    for literal in literals:
        position = lowered.text.index(literal, position) + len(literal)
    assert all(lowered.text.count(f"${{{name}}}") == 1 for name in lowered.names)


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arena")


def arm(arena: Path) -> None:
    """Put back the one program that can be run, which leaves the canary."""
    evil = arena / "evil"
    evil.write_text(f"#!{SH}\n: >'{arena}/canary'\n")
    evil.chmod(0o755)


@pytest.mark.parametrize("program", [BASH, SH])
def test_the_arena_notices_an_attack(program: str, arena: Path) -> None:
    arm(arena)
    for script in ("evil", 'eval "$V0"', '"$V0"'):
        run(program, script, ["V0"], ["evil"], arena, str(arena))
        (arena / "canary").unlink()


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(SCRIPTS, st.data())
@pytest.mark.parametrize(("program", "shell"), [(BASH, "bash"), (SH, "sh")])
def test_an_accepted_script_never_executes_a_value(
    program: str, shell: str, arena: Path, script: str, data: st.DataObject
) -> None:
    lowered = lower_script(script.split(HOLE), shell=shell)
    # Random text is run for real: without a slash its redirections stay in the arena.
    if lowered.faults or not lowered.names or "\0" in script or "/" in script:
        return
    attacks = st.lists(
        st.sampled_from(ATTACKS), min_size=len(lowered.names), max_size=len(lowered.names)
    )
    values = data.draw(attacks)
    canary = arena / "canary"
    canary.unlink(missing_ok=True)  # of an example before this one
    arm(arena)  # a redirection of the script may have written over it
    text = 'p() { printf "%s\\n" "$@"; }\n' + lowered.text
    text = os.fsdecode(text.encode("utf-8", "surrogatepass"))
    run(program, text, lowered.names, values, arena, str(arena))
    if canary.exists():
        # A pattern of the script's own may be what ran the program, whatever the values are.
        canary.unlink()
        arm(arena)
        run(program, text, lowered.names, ["a"] * len(values), arena, str(arena))
        assert canary.exists(), "a value was executed"
