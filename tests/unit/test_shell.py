"""Shell lowering: where values go, which places are refused, and how commands are taken apart."""

from __future__ import annotations

import time

import pytest

from orchestrate.lang.shell.lower import (
    POSIX_SHELLS,
    InlineCode,
    LoweredScript,
    ScriptPlace,
    find_inline_code,
    find_script,
    lower_script,
)
from orchestrate.lang.shell.runners import HandedWord, find_handed

HOLE = "¤"  # stands for ${…} in the scripts below


def lower(script: str, shell: str = "bash") -> LoweredScript:
    return lower_script(script.split(HOLE), prefix="V", shell=shell)


def test_a_script_without_values_is_not_touched_or_judged() -> None:
    script = 'eval "$(cat <<E\n`unbalanced'
    assert lower_script([script]) == LoweredScript(script, (), (), ())


def test_names_follow_the_prefix_and_equal_values_stay_apart() -> None:
    lowered = lower_script(["echo ", " ", ""])
    assert lowered.names == ("ORCHESTRATE_VALUE_0", "ORCHESTRATE_VALUE_1")
    assert lowered.text == 'echo "${ORCHESTRATE_VALUE_0}" "${ORCHESTRATE_VALUE_1}"'


# The scripts of C's own examples (C §"for_each", §"Variable Model", §"Trace Context", and the
# multi-agent and debugging examples) with every variable as a hole.
C_EXAMPLES = [
    (
        "echo 'Review ¤' > inbox/qa/$(basename \"¤\").task",
        "echo 'Review '\"${V0}\"'' > inbox/qa/$(basename \"${V1}\").task",
    ),
    (
        "jq -e '.approved == true' inbox/qa/results/$(basename \"¤\").json >/dev/null",
        "jq -e '.approved == true' inbox/qa/results/$(basename \"${V0}\").json >/dev/null",
    ),
    ("echo 'Analyze ¤' > temp/prompt.md", "echo 'Analyze '\"${V0}\"'' > temp/prompt.md"),
    ("TRACE_ID=¤ curl https://example/api", 'TRACE_ID="${V0}" curl https://example/api'),
    (
        "mkdir -p processed/¤_¤ && mv ¤ processed/¤_¤/",
        'mkdir -p processed/"${V0}"_"${V1}" && mv "${V2}" processed/"${V3}"_"${V4}"/',
    ),
    (
        "mv inbox/engineer/task_¤.tmp inbox/engineer/task_¤.task",
        'mv inbox/engineer/task_"${V0}".tmp inbox/engineer/task_"${V1}".task',
    ),
    (
        "printf 'Implement the architecture.' > inbox/engineer/task_¤.tmp",
        "printf 'Implement the architecture.' > inbox/engineer/task_\"${V0}\".tmp",
    ),
    (
        " echo 'Checking failure context...' && cat ¤/logs/ProcessWithDebug.stderr &&\n x ",
        " echo 'Checking failure context...' && cat \"${V0}\"/logs/ProcessWithDebug.stderr &&\n x ",
    ),
    (
        "jq '.steps.ProcessWithDebug.error' ¤/state.json ",
        "jq '.steps.ProcessWithDebug.error' \"${V0}\"/state.json ",
    ),
]

ACCEPTED = [
    *C_EXAMPLES,
    ("echo ¤", 'echo "${V0}"'),
    ('echo "a ¤ b"', 'echo "a ${V0} b"'),
    ("echo 'a ¤ b'", "echo 'a '\"${V0}\"' b'"),
    ("echo $'a\\t¤b'", "echo $'a\\t'\"${V0}\"$'b'"),
    ("echo $'it\\'s ¤'", "echo $'it\\'s '\"${V0}\"$''"),
    ('echo $"a ¤"', 'echo $"a ${V0}"'),
    ("echo x # it's ¤\necho ¤", 'echo x # it\'s ${V0}\necho "${V1}"'),
    ("echo a#¤", 'echo a#"${V0}"'),
    ("echo it\\'s ¤", 'echo it\\\'s "${V0}"'),
    ('echo "\\"¤\\$¤"', 'echo "\\"${V0}\\$${V1}"'),
    ('echo "$(cat \'¤\' "$(echo ¤)")"', 'echo "$(cat \'\'"${V0}"\'\' "$(echo "${V1}")")"'),
    ("diff <(sort ¤) >(cat ¤)", 'diff <(sort "${V0}") >(cat "${V1}")'),
    ("(cd ¤ && ls) | tee ¤ 2>&1", '(cd "${V0}" && ls) | tee "${V1}" 2>&1'),
    ("{ echo ¤; } &>>¤ || exit 1", '{ echo "${V0}"; } &>>"${V1}" || exit 1'),
    ("cat <<< ¤", 'cat <<< "${V0}"'),
    ("cat <<'E' > ¤\nit's $(x\nE\necho ¤", 'cat <<\'E\' > "${V0}"\nit\'s $(x\nE\necho "${V1}"'),
    ("cat <<-E\n\tplain\n\tE\necho ¤", 'cat <<-E\n\tplain\n\tE\necho "${V0}"'),
    (
        'case ¤ in a|¤) echo ¤;; (b) echo "¤";; esac',
        'case "${V0}" in a|"${V1}") echo "${V2}";; (b) echo "${V3}";; esac',
    ),
    ("x=$(case a in a) echo ¤;; esac)", 'x=$(case a in a) echo "${V0}";; esac)'),
    ("n=$(wc -l < ¤); echo $((n + 1))", 'n=$(wc -l < "${V0}"); echo $((n + 1))'),
    ('x=¤; y=`ls "$x"`; echo $y', 'x="${V0}"; y=`ls "$x"`; echo $y'),
    ("for f in a ¤; do echo ¤; done", 'for f in a "${V0}"; do echo "${V1}"; done'),
    ("for ((i=0;i<3;i++)); do echo ¤; done", 'for ((i=0;i<3;i++)); do echo "${V0}"; done'),
    ("echo $((1+2)) ¤; ((i++)); echo ¤", 'echo $((1+2)) "${V0}"; ((i++)); echo "${V1}"'),
    ("if [ -f ¤ ]; then cat ¤; fi", 'if [ -f "${V0}" ]; then cat "${V1}"; fi'),
    ("[ ¤ -gt 3 ] && test ¤ = ¤", '[ "${V0}" -gt 3 ] && test "${V1}" = "${V2}"'),
    (
        "[[ -n ¤ && ¤ == y* ]]||[[ $x =~ ^(a|b)$ ]]; echo ¤",
        '[[ -n "${V0}" && "${V1}" == y* ]]||[[ $x =~ ^(a|b)$ ]]; echo "${V2}"',
    ),
    ("a=(x ¤ [1]=¤); b+=(¤)", 'a=(x "${V0}" [1]="${V1}"); b+=("${V2}")'),
    ('export A=¤ "B=¤"; local c=¤', 'export A="${V0}" "B=${V1}"; local c="${V2}"'),
    ("f() { echo ¤; }; f ¤", 'f() { echo "${V0}"; }; f "${V1}"'),
    ("bash -c 'echo \"$1\"' _ ¤", 'bash -c \'echo "$1"\' _ "${V0}"'),
    ("bash script.sh ¤", 'bash script.sh "${V0}"'),
    ("env A=¤ timeout -k 5 ¤ make ¤", 'env A="${V0}" timeout -k 5 "${V1}" make "${V2}"'),
    ("find ¤ -exec grep ¤ {} \\;", 'find "${V0}" -exec grep "${V1}" {} \\;'),
    ("xargs -I{} cp {} ¤", 'xargs -I{} cp {} "${V0}"'),
    ("a |\\\n grep ¤ &&\\\n echo ¤", 'a |\\\n grep "${V0}" &&\\\n echo "${V1}"'),
    ("set -- ¤; set -euo pipefail; echo ¤", 'set -- "${V0}"; set -euo pipefail; echo "${V1}"'),
    ('echo "${x:-a}" ${x%.*} "${#x}" ¤', 'echo "${x:-a}" ${x%.*} "${#x}" "${V0}"'),
    ("trap 'rm -f \"$t\"' EXIT; t=¤", 'trap \'rm -f "$t"\' EXIT; t="${V0}"'),
    ('read -r -p "¤?" answer', 'read -r -p "${V0}?" answer'),
    ("flock ¤ grep -c ¤", 'flock "${V0}" grep -c "${V1}"'),
    ("npx eslint -c ¤", 'npx eslint -c "${V0}"'),
    ("npm run watch ¤", 'npm run watch "${V0}"'),
    ("git switch -c ¤", 'git switch -c "${V0}"'),
    ("git -C ¤ commit -m ¤", 'git -C "${V0}" commit -m "${V1}"'),
    ("ls | entr make -s ¤", 'ls | entr make -s "${V0}"'),
    ("./script ¤", './script "${V0}"'),
    ("printf %s ¤ | ssh -p 22 host wc -w", 'printf %s "${V0}" | ssh -p 22 host wc -w'),
    ("printf %s ¤ | parallel wc", 'printf %s "${V0}" | parallel wc'),
    ("command -v ¤ >/dev/null", 'command -v "${V0}" >/dev/null'),
    ("printf 'Review ¤\\n'", "printf 'Review '\"${V0}\"'\\n'"),
    ("cd ¤ || exit ¤", 'cd "${V0}" || exit "${V1}"'),
    ("time -p ls ¤ & wait", 'time -p ls "${V0}" & wait'),
]


@pytest.mark.parametrize(("script", "expected"), ACCEPTED)
def test_a_value_becomes_a_reference_quoted_for_its_place(script: str, expected: str) -> None:
    lowered = lower(script)
    assert lowered.faults == ()
    assert lowered.text == expected


# Each script has one faulty value, the last; the word is part of the reason.
REFUSED = [
    ("cat <<E\n¤\nE", "here-document"),
    ("cat <<'E'\n¤\nE", "here-document"),
    ("cat <<¤\na\n", "here-document"),
    ("cat <<E\n$(x\nE\n)\nE\necho ¤", "here-document"),
    ("cat <<A <<B\n1\nA\n¤\nB", "here-document"),
    ("eval echo ¤", "eval"),
    ('eval "$(echo ¤)"', "eval"),
    ("builtin eval ¤", "eval"),
    ("${nothing}eval ¤", "eval"),
    ("source ¤", "source"),
    (". ./lib.sh ¤", "source"),
    ("source <(echo ¤)", "source"),
    ('bash -c "echo ¤"', "another shell"),
    ("sh -c 'echo ¤'", "another shell"),
    ("bash -lc ¤", "another shell"),
    ("bash -o pipefail -ec 'x ¤'", "another shell"),
    ("bash ¤", "another shell"),
    ("bash $OPTIONS ¤", "another shell"),
    ("bash --rcfile ¤ x", "another shell"),
    ("su -c 'x ¤' me", "another shell"),
    ("ssh host 'ls ¤'", "remote"),
    ("ssh ¤ ls", "remote"),
    ("env A=1 sh -c 'x ¤'", "another shell"),
    ("env -S 'x ¤'", "another shell"),
    ("timeout 5 bash -c 'x ¤'", "another shell"),
    ("xargs -I{} sh -c 'x ¤ {}'", "another shell"),
    ("find . -exec bash -c 'x ¤' \\;", "another shell"),
    ("find ¤ -exec sh -c 'cat {}' \\;", "another shell"),
    ("docker exec box sh -c 'x ¤'", "another shell"),
    ("$SHELL -c ¤", "another shell"),
    ("watch 'ls ¤'", "another shell"),
    ("script -c 'wc ¤' log", "another shell"),
    ("flock l -c 'wc ¤'", "another shell"),
    ("flock -w 5 l --command 'wc ¤'", "another shell"),
    ("tmux new 'wc ¤'", "another shell"),
    ("tmux split-window -t x 'wc ¤'", "another shell"),
    ("screen -dm wc ¤", "another shell"),
    ("hyperfine 'wc ¤'", "another shell"),
    ("parallel wc ::: ¤", "another shell"),
    ("xterm -T x -e 'wc ¤'", "another shell"),
    ("ls | entr -ns 'wc ¤'", "another shell"),
    ("npx -y -c 'wc ¤'", "another shell"),
    ("npx -p x --call='wc ¤'", "another shell"),
    ("npm exec -c 'wc ¤'", "another shell"),
    ("sshpass -e ssh host 'wc ¤'", "remote"),
    ("git -C d -c 'alias.x=!wc ¤' x", "setting of git"),
    ("git clone url -c core.sshCommand=¤", "setting of git"),
    ("git -C d rebase main -x 'wc ¤'", "another shell"),
    ("git submodule foreach 'wc ¤'", "another shell"),
    ("x='wc ¤'; watch \"$x\"", "kept"),
    ("at now <<< ¤", "would execute it"),
    ("echo 'wc ¤' | batch", "would execute it"),
    ("echo 'wc ¤' | parallel -j 4", "would execute it"),
    ("echo 'wc ¤' | ssh -p 22 host", "would execute it"),
    ("echo 'wc ¤' | ssh host 'cd x; sh'", "would execute it"),
    ("¤/env ls", "program"),
    ("echo ¤ | sh", "fed to a shell"),
    ("{ echo ¤; } | sudo bash -s", "fed to a shell"),
    ("bash <<< ¤", "fed to a shell"),
    ("trap 'rm ¤' EXIT", "trap"),
    ("echo `cat ¤`", "backticks"),
    ('echo "`cat \\`x ¤\\``"', "backticks"),
    ("x=¤; echo `$x`", "kept"),
    ('x=¤; echo "`echo \\`$x\\``"', "kept"),
    ("x=¤; echo `eval $x`", "kept"),
    ("x=$(echo ¤); $x", "kept"),
    ("for x in $(echo ¤); do $x; done", "kept"),
    ("x=¤; let x", "kept"),
    ("x=¤; declare -i y=x", "kept"),
    ("x=¤; read a[x]", "kept"),
    ("x=¤; unset a[x]", "kept"),
    ("x=¤; printf -v a[x] 1", "kept"),
    ("x=¤\ncat <<E\n$($x)\nE\n", "cannot be followed"),
    ("x=¤; echo $[1]; $x", "cannot be followed"),
    ("echo $((1 + ¤))", "arithmetic"),
    ("echo $(( $(echo ¤) ))", "arithmetic"),
    ("((x = ¤))", "arithmetic"),
    ("echo $[1 + ¤]", "arithmetic"),
    ("let x=¤", "arithmetic"),
    ("for ((i=0;i<¤;i++)); do :; done", "arithmetic"),
    ("a[¤]=1", "subscript"),
    ("a[x[1]=¤]=1", "subscript"),
    ("a=([¤]=1)", "subscript"),
    ("a=([$(echo ¤)]=1)", "subscript"),
    ("declare 'a[¤]=1'", "subscript"),
    ("exec {a[¤]}>f", "subscript"),
    ("[[ ¤ -eq 1 ]]", "number"),
    ("[[ x && 1 -le ¤ ]]", "number"),
    ("[[ -v ¤ ]]", "names a variable"),
    ("test -v ¤", "names a variable"),
    ("[ -v ¤ ]", "names a variable"),
    ("[ -n x -a $op ¤ ]", "operator"),
    ('echo "${x:-¤}"', "own ${"),
    ("echo ${x/a/¤}", "own ${"),
    ('echo "${x:-\'}" ¤', "quotes shells read differently"),
    ("read ¤", "names a variable"),
    ("unset ¤", "names a variable"),
    ("printf -v ¤ x", "names a variable"),
    ("mapfile ¤", "names a variable"),
    ("readarray -t ¤", "names a variable"),
    ("getopts ab ¤", "names a variable"),
    ("declare ¤=1", "names a variable"),
    ("typeset ¤", "names a variable"),
    ("local ¤", "names a variable"),
    ("export ¤", "names a variable"),
    ("readonly x¤=1", "names a variable"),
    ("for ¤ in a; do :; done", "names a variable"),
    ("¤", "program"),
    ('"¤" x', "program"),
    ("bin/¤ x", "program"),
    ("$(echo ¤) x", "program"),
    ("A=1 ¤", "program"),
    (">f ¤", "program"),
    ("¤=1", "program"),
    ("exec ¤", "program"),
    ("exec -a x ¤", "program"),
    ("command -p ¤", "program"),
    ("env -u A B=1 ¤", "program"),
    ("xargs -n 1 ¤", "program"),
    ("nohup ¤", "program"),
    ("time -p ¤", "program"),
    ("timeout 5 ¤", "program"),
    ("sudo -u me ¤", "program"),
    ("find . -exec ¤ \\;", "program"),
    ("if ¤; then :; fi", "program"),
    ("if (x) then ¤; fi", "program"),
    ("if [[ x ]] then ¤; fi", "program"),
    ("while ! ¤; do :; done", "program"),
    ("x && ¤", "program"),
    ("x | ¤", "program"),
    ("x & ¤", "program"),
    ("{ ¤; }", "program"),
    ("f() { ¤; }", "program"),
    ("case x in x) ¤;; esac", "program"),
    ("$maybe ¤", "program"),
    ('"$@" ¤', "program"),
    ("e{val,} ¤", "program"),
    ("flock $maybe x ¤", "options"),
    ("nice --strange 5 ¤", "options"),
    ("set ¤", "options"),
    ("¤() { :; }", "function"),
    ("function ¤ { :; }", "function"),
    ("alias x=¤", "alias"),
    ("alias q='echo \"'\necho ¤", "alias"),
    ("PATH=¤ x", "decides what the shell executes"),
    ("export PS4=¤", "decides what the shell executes"),
    ("env LD_PRELOAD=¤ x", "decides what the shell executes"),
    ("echo \\¤", "backslash"),
    ('echo "\\¤"', "backslash"),
    ("echo $'\\¤'", "backslash"),
    ("echo $'\\c¤'", "backslash"),
    ("echo $¤", "dollar"),
    ('echo "$¤"', "dollar"),
    ("ls !(¤)", "pattern"),
    ("n=¤; echo $((n + 1))", "kept"),
    ("declare -i n=¤", "kept"),
    ("declare -n n=¤", "kept"),
    ("declare -a n=¤", "kept"),
    ("n=(1); declare n=¤", "kept"),
    ("OPTIND=¤", "kept"),
    ('x=¤; y="a $x"; bash -c "$y"', "kept"),
    ("x=¤; eval $x", "kept"),
    ("x=¤; echo ${!x}", "kept"),
    ("x=¤; echo ${a[x]}", "kept"),
    ("x=¤; [[ x -eq 1 ]]", "kept"),
    ("read n <<< ¤; ((n))", "kept"),
    ("bash <<E\n$x\nE\nx=¤", "kept"),
    ("coproc x { ¤; }", "cannot be followed"),
    ("fi x ¤", "cannot be followed"),
    ("echo <\\\n<¤", "broken inside an operator"),
    ("echo \3 ¤", "control"),
    ("x" * 200_000 + " ¤", "too long"),
    ("echo " + "$(echo " * 70 + "¤" + ")" * 70, "nested too deeply"),
]


@pytest.mark.parametrize(("script", "word"), REFUSED)
def test_a_place_that_would_evaluate_a_value_is_refused(script: str, word: str) -> None:
    lowered = lower(script)
    assert [fault.hole for fault in lowered.faults] == [len(lowered.names) - 1]
    fault = lowered.faults[-1]
    assert word in fault.reason
    assert fault.reason[0].islower()
    assert fault.rewrite.endswith(".")
    assert lowered.text == ""


@pytest.mark.parametrize(
    "script", ["echo it's ¤ ¤", 'x "¤ ¤', "¤ $(x ¤", "¤ ${x ¤", "¤ `¤", "¤ ¤\\"]
)
def test_every_value_is_refused_when_quotes_do_not_balance(script: str) -> None:
    assert [(f.hole, "balance" in f.reason) for f in lower(script).faults] == [(0, True), (1, True)]


def test_a_fault_does_not_hide_another_nor_spoil_a_good_place() -> None:
    lowered = lower("echo ¤; eval ¤; echo ¤; ¤")
    assert [fault.hole for fault in lowered.faults] == [1, 3]


@pytest.mark.parametrize(
    "script", ["[[ -n ¤ ]]", "[[ x || ¤ == y ]]", "a[0]=¤", "x+=¤", "echo $'¤'"]
)
def test_what_only_some_shells_know_is_refused_in_plain_sh(script: str) -> None:
    assert lower(script, "bash").faults == ()
    assert len(lower(script, "dash").faults) == 1
    assert len(lower(script, "sh").faults) == 1


@pytest.mark.parametrize("script", ["[ ¤ -eq 1 ]", "exit ¤", "printf '%d' ¤"])
def test_numbers_are_refused_where_a_shell_evaluates_them(script: str) -> None:
    assert lower(script, "bash").faults == ()
    assert len(lower(script, "zsh").faults) == 1
    assert len(lower(script, "ksh").faults) == 1


def test_an_escaped_quote_in_ansi_quotes_is_followed_only_where_shells_know_it() -> None:
    script = "echo $'\\'\"' ¤ $'\\'\"'"
    assert lower(script, "bash").text == "echo $'\\'\"' \"${V0}\" $'\\'\"'"
    assert len(lower(script, "dash").faults) == 1


@pytest.mark.parametrize(
    ("script", "interpreter"),
    [
        ("python3 -c \"print('¤')\"", "python"),
        ("timeout 5 python3.11 -Ic 'x ¤'", "python"),
        ("node -e 'x(¤)'", "node"),
        ("perl -lne 'print ¤'", "perl"),
        ("ruby -e 'puts ¤'", "ruby"),
        ("php -r 'echo ¤;'", "php"),
        ("awk -F: '{print ¤}' f", "awk"),
        ("jq -r '.a[¤]' f", "jq"),
        ("sed 's/a/¤/' f", "sed"),
        ("sed -n -e '/¤/p' f", "sed"),
        ("cat f | jq --arg x y '.[¤]'", "jq"),
        ("make X=¤", "make"),
    ],
)
def test_a_value_in_another_interpreters_code_is_a_caution(script: str, interpreter: str) -> None:
    lowered = lower(script)
    assert lowered.faults == ()
    assert [caution.hole for caution in lowered.cautions] == [0]
    assert interpreter in lowered.cautions[0].reason
    assert "${V0}" in lowered.text


@pytest.mark.parametrize(
    "script",
    [
        "python3 script.py ¤",
        "python3 -c 'import sys' ¤",
        "awk -v x=¤ '{print x}' ¤",
        "jq --arg x ¤ '.a == $x' ¤",
        "sed s/a/b/ ¤",
        "sed -f ¤ ¤",
    ],
)
def test_arguments_of_an_interpreter_draw_no_caution(script: str) -> None:
    assert lower(script).cautions == ()
    assert lower(script).faults == ()


@pytest.mark.parametrize(
    "unit",
    [
        "echo ¤ ; ",
        "¤",
        "¤ ",
        "$a ",
        "x(a)",
        "a=1 ",
        "$(a ¤) ",
        "bash ",
        "-exec a ; ",
        "a) b;; ",
        "[[",
    ],
)
def test_long_scripts_are_judged_in_linear_time(unit: str) -> None:
    # A quadratic pass over this many pieces would take minutes.
    script = "echo " + unit * (60_000 // len(unit)) + " ¤"
    started = time.process_time()
    lower(script)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["bash", "-c", "x"], ("bash", 2, True)),
        (["/bin/sh", "-c", None], ("sh", 2, True)),
        (["bash", "-lc", "x"], ("bash", 2, True)),
        (["dash", "-ec", "x"], ("dash", 2, True)),
        (["bash", "-euo", "pipefail", "-c", "x"], ("bash", 4, True)),
        (["bash", "-o", "pipefail", "-c", "x"], ("bash", 4, True)),
        (["bash", "--norc", "-c", "x"], ("bash", 3, True)),
        (["bash", "--rcfile", "f", "-c", "x"], ("bash", 4, True)),
        (["bash", "-c", "-l", "x", "y"], ("bash", 3, True)),
        (["bash", "-c", "--", "x"], ("bash", 3, True)),
        (["zsh", "-fc", "x"], ("zsh", 2, True)),
        (["busybox", "sh", "-c", "x"], ("sh", 3, True)),
        # After NAME=VALUE, env takes -u for the program.
        (["env", "A=1", "-u", "B", "bash", "-c", "x"], ("bash", 6, False)),
        (["env", "-u", "B", "A=1", "bash", "-c", "x"], ("bash", 6, True)),
        (["env", "A=\0", "bash", "-c", "x"], ("bash", 4, True)),
        (["env", "-i", "bash", "-c", "x"], ("bash", 4, False)),
        (["env", "-S", "bash -c x"], ("env", 2, False)),
        (["timeout", "-k", "5", "10", "bash", "-c", "x"], ("bash", 6, True)),
        (["timeout", None, "bash", "-c", "x"], ("bash", 4, True)),
        (["nice", "-n", "5", "bash", "-c", "x"], ("bash", 5, True)),
        (["nohup", "setsid", "stdbuf", "-oL", "bash", "-c", "x"], ("bash", 6, True)),
        (["command", "time", "-p", "sh", "-c", "x"], ("sh", 5, True)),
        (["exec", "ionice", "-c", "3", "sh", "-c", "x"], ("sh", 6, True)),
        (["chrt", "-b", "0", "sh", "-c", "x"], ("sh", 5, True)),
        (["xvfb-run", "-a", "sh", "-c", "x"], ("sh", 4, True)),
        (["find", ".", "-exec", "sh", "-c", "x", ";"], ("sh", 5, True)),
        (["xargs", "-0", "sh", "-c", "x"], ("sh", 4, True)),
        (["sudo", "-u", "me", "bash", "-c", "x"], ("bash", 5, False)),
        (["docker", "exec", "-it", "box", "bash", "-c", "x"], ("bash", 6, False)),
        (["ssh", "host", "bash", "-c", "x"], ("bash", 4, False)),
        (["flock", "lock", "-c", "x"], ("flock", 3, False)),
        (["flock", "lock", "sh", "-c", "x"], ("sh", 4, True)),
        (["bash", "-\0", "x"], ("bash", 1, False)),
        (["mywrapper", "sh", "-c", "x"], ("sh", 3, False)),
        (["fish", "-c", "x"], ("fish", 2, True)),
        (["tcsh", "-c", "x"], ("tcsh", 2, True)),
        (["pwsh", "-NoProfile", "-Command", "x"], ("pwsh", 3, True)),
        (["cmd.exe", "/c", "x"], ("cmd", 2, True)),
        (["bash", None, None], ("bash", 1, False)),
        (["bash", "scripts/\0.sh", None], None),
        (["bash", None], None),
        (["bash", "script.sh", "-c", "x"], None),
        (["bash"], None),
        (["bash", "-c"], None),
        (["echo", "hello", None], None),
        ([None, "x"], None),
        ([], None),
    ],
)
def test_find_script(argv: list[str | None], expected: tuple[str, int, bool] | None) -> None:
    assert find_script(argv) == (ScriptPlace(*expected) if expected else None)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["watch", "wc \0"], [("watch", 1, "handed")]),
        (["/usr/bin/watch", "x"], [("watch", 1, "handed")]),
        (["./watch", "x"], []),
        (["script", "-c", "x"], [("script", 1, "handed"), ("script", 2, "handed")]),
        (["flock", "l", "-c", "x"], [("flock", 3, "handed")]),
        (["flock", "l", "wc", "-c", "x"], []),
        (["env", "-S", "x"], [("env", 2, "handed")]),
        (["ssh", "host", "x"], [("ssh", 1, "remote"), ("ssh", 2, "remote")]),
        (["npx", "-c", "x", "y"], [("npx", 2, "handed")]),
        (["npx", "y", "-c", "x"], []),
        (["npm", "x", "-c", "x"], [("npm", 3, "handed")]),
        (["npm", "run", "x"], []),
        (["entr", "-s", "x"], [("entr", 2, "handed")]),
        (["entr", "make", "-s"], []),
        (["xterm", "-T", "t", "-e", "x"], [("xterm", 4, "handed")]),
        (["git", "-c", "a=b", "status"], [("git", 2, "setting")]),
        (["git", "--config-env=a=b", "x"], [("git", 1, "setting")]),
        (["git", "switch", "-c", "x"], []),
        (["git", "rebase", "main", "--exec=x"], [("git", 3, "handed")]),
        (
            ["find", ".", "-exec", "watch", "x", ";"],
            [("watch", 4, "handed"), ("watch", 5, "handed")],
        ),
        (["env", "PATH=\0", "make"], [("env", 1, "steering")]),
        (["make", "PATH=\0"], []),
        (["\0/watch-it", "x"], []),
        ([], []),
    ],
)
def test_words_that_a_program_hands_to_a_shell(
    argv: list[str], expected: list[tuple[str, int, str]]
) -> None:
    assert find_handed(argv) == tuple(HandedWord(*item) for item in expected)


def test_the_shells_whose_scripts_can_be_lowered() -> None:
    assert frozenset({"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"}) == POSIX_SHELLS


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["python", "-c", None], [("python", 2)]),
        (["env", "A=1", "python3.12", "-X", "dev", "-c", "x"], [("python", 6)]),
        (["python", "-m", "x", "-c", None], []),
        (["node", "--eval=\0"], [("node", 1)]),
        (["node", "app.js", "-e", None], []),
        (["perl", "-e", "a", "-e", "b"], [("perl", 2), ("perl", 4)]),
        (["perl", "-pe", "a"], [("perl", 2)]),
        (["awk", "-f", "x.awk", None], []),
        (["gawk", "-v", "a=\0", "{x}", None], [("awk", 3)]),
        (["jq", "--arg", "a", None, ".b"], [("jq", 4)]),
        (["jq", "-f", "x.jq", None], []),
        (["sed", "-e", "a", None], [("sed", 2)]),
        (["sed", "-i", "a", None], [("sed", 2)]),
        (["docker", "exec", "box", "python", "-c", None], [("python", 5)]),
        (["find", ".", "-exec", "perl", "-e", None, ";"], [("perl", 5)]),
        (["sqlite3", "x.db", None], [("sql", 2)]),
        (["psql", "-c", None], [("sql", 2)]),
        (["claude", "-p", None], []),
        (["grep", "-e", None], []),
        ([], []),
    ],
)
def test_find_inline_code(argv: list[str | None], expected: list[tuple[str, int]]) -> None:
    assert find_inline_code(argv) == tuple(InlineCode(*item) for item in expected)
