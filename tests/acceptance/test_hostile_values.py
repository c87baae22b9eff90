"""Values nobody has vetted, in every place where C fills values in: they stay values (rulings §9).

Each payload tries to make a file called `canary`, to leave the workspace, or to become more than
one word. Loops bring many payloads into few runs.
"""

from __future__ import annotations

import json
import os
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.fakes import Played, Stage

pytestmark = pytest.mark.faults

PAYLOADS = [
    "plain",
    "",
    " ",
    " two  words ",
    "'",
    '"',
    "it's",
    "'; touch canary; '",
    '"; touch canary; "',
    "'\"'\"; touch canary; '\"'\"'",
    "\\",
    "\\\\",
    "\\'; touch canary; #",
    "$(touch canary)",
    "`touch canary`",
    '"$(touch canary)"',
    "'$(touch canary)'",
    "; touch canary",
    "&& touch canary",
    "|| touch canary",
    "| touch canary",
    "& touch canary &",
    "> canary",
    ">> canary",
    "< /etc/passwd",
    "<(touch canary)",
    "\ntouch canary\n",
    "\r\ntouch canary",
    "a\nb",
    "ends with newlines\n\n",
    "*",
    "?",
    "[a-z]*",
    "~",
    "{a,b}",
    "-rf",
    "--help",
    "-",
    "--",
    "-c touch${IFS}canary",
    "$HOME",
    "$IFS",
    "${HOME}",
    "${context.secret}",
    "${steps.Load.json}",
    "$${x}",
    "$$",
    "$((1+1))",
    "{{context.secret}}",
    "!history",
    "#comment",
    "a=b",
    "%s%n%d",
    "() { :; }; touch canary",
    "x" * 60_000,
    "Zoë 日本語 🦜",
    "a\u202egpj.exe",
    "\u00a0\ufeff",
    "\x1b[2J\x1b]0;title\x07",
    "\x01\x02\x7f",
    "\t",
    "{json: [1, 2]}",
    '{"json": true}',
    "null",
    "true",
    "1e3",
    "../../canary",
    "/tmp/../etc/passwd",
    "..",
]
# Controls, marks that turn text round, halves of characters, and breaks of lines.
UNSHOWABLE = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
# What can be the name of a file.
NAMES = [text for text in PAYLOADS if 0 < len(text) < 200 and "/" not in text and text != ".."]


def stage_with_payloads(tmp_path: Path, payloads: list[str] = PAYLOADS) -> Stage:
    stage = Stage(tmp_path)
    stage.recorder("probe")
    (stage.folder / "payloads.json").write_text(json.dumps(payloads))
    return stage


def loop(steps: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A workflow that runs steps for every payload, which a step has printed."""
    return {
        "version": "1.3",
        "context": {"secret": "TOP SECRET"},
        "providers": more.pop("providers", {}),
        "steps": [
            {"name": "Load", "command": ["cat", "payloads.json"], "output_capture": "json"},
            {"name": "Each", "for_each": {"items_from": "steps.Load.json", "steps": steps, **more}},
        ],
    }


def play(stage: Stage, workflow: dict[str, Any], *flags: str, exit_code: int = 0) -> Played:
    """Run it; nothing may appear that only an executed payload would make."""
    played = stage.play(json.dumps(workflow), *flags, exit_code=exit_code, name="w.json")
    # Files that a test itself named after a payload have more in their names.
    assert list(stage.top.rglob("canary")) == []
    assert not (stage.top.parent / "canary").exists()
    shown = set(played.result.stdout + played.result.stderr)
    raw = {character for character in shown if unicodedata.category(character) in UNSHOWABLE}
    assert raw == {"\n"}, "control characters reach the terminal"
    return played


def test_r9_4_arguments_arrive_as_they_are(tmp_path: Path) -> None:
    stage = stage_with_payloads(tmp_path)
    steps = [{"name": "Call", "command": ["probe", "${item}", "a${item}b${item}", "--", "${item}"]}]
    play(stage, loop(steps))
    wanted = [[text, f"a{text}b{text}", "--", text] for text in PAYLOADS]
    assert stage.words("probe") == wanted


SCRIPT = """
probe ${item} "${item}" '${item}'
probe "in ${item} double" 'in ${item} single' in${item}bare
value=${item}
probe "$value" "$(printf '%sx' ${item})"
for word in ${item}; do probe "$word"; done
case ${item} in ${item}) probe same;; esac
[ ${item} = "${item}" ] && probe equal
"""


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_r9_4_scripts_get_words_and_no_code(tmp_path: Path, shell: str) -> None:
    stage = stage_with_payloads(tmp_path)
    play(stage, loop([{"name": "Call", "command": [shell, "-c", SCRIPT]}]))
    wanted = [
        call
        for text in PAYLOADS
        for call in (
            [text, text, text],
            [f"in {text} double", f"in {text} single", f"in{text}bare"],
            [text, f"{text}x"],
            [text],
            ["same"],
            ["equal"],
        )
    ]
    assert stage.words("probe") == wanted


def test_r9_4_outputs_of_steps_are_values(tmp_path: Path) -> None:
    """A program's own words come back as arguments, in scripts and in conditions."""
    short = [text for text in PAYLOADS if len(text.encode()) <= 8192]
    stage = stage_with_payloads(tmp_path, short)
    same = {"left": "${steps.Say.output}", "right": "${item}"}
    steps: list[dict[str, Any]] = [
        {"name": "Say", "command": ["printf", "%s", "${item}"]},
        {"name": "Hear", "command": ["probe", "${steps.Say.output}"], "when": {"equals": same}},
        {"name": "Script", "command": ["sh", "-c", "probe '${steps.Say.output}'"]},
    ]
    played = play(stage, loop(steps))
    assert stage.words("probe") == [[t] for t in short for _ in range(2)]
    assert [iteration["Say"]["output"] for iteration in played.loop("Each")] == short


def test_r9_4_providers_get_parameters_and_prompts_as_they_are(tmp_path: Path) -> None:
    stage = stage_with_payloads(tmp_path)
    template = ["probe", "--model", "${model}", "p=${model};${loop.index}", "${PROMPT}"]
    steps: list[dict[str, Any]] = [
        {
            "name": "Write",
            "command": ["printf", "%s", "${item}"],
            "output_file": "prompts/${loop.index}.md",
        },
        {
            "name": "Ask",
            "provider": "tool",
            "provider_params": {"model": "${item}"},
            "input_file": "prompts/${loop.index}.md",
        },
    ]
    play(stage, loop(steps, providers={"tool": {"command": template}}))
    wanted = [["--model", t, f"p={t};{i}", t] for i, t in enumerate(PAYLOADS)]
    assert stage.words("probe") == wanted


def test_r9_4_a_provider_template_may_be_a_script(tmp_path: Path) -> None:
    stage = stage_with_payloads(tmp_path)
    template = ["sh", "-c", "probe ${model} '${model}' \"${model}\""]
    steps = [{"name": "Ask", "provider": "tool", "provider_params": {"model": "${item}"}}]
    play(stage, loop(steps, providers={"tool": {"command": template}}))
    assert stage.words("probe") == [[text] * 3 for text in PAYLOADS]


def test_r9_4_context_from_a_file_and_from_flags(tmp_path: Path) -> None:
    stage = stage_with_payloads(tmp_path)
    values = {f"k{number}": text for number, text in enumerate(PAYLOADS)}
    (stage.folder / "context.json").write_text(json.dumps(values))
    command = ["probe", *(f"${{context.{key}}}" for key in values)]
    flagged = dict(list(values.items())[:40])
    flags = [word for key, text in flagged.items() for word in ("--context", f"{key}={text}!")]
    workflow = {"version": "1.1", "steps": [{"name": "Call", "command": command}]}
    play(stage, workflow, "--context-file", "context.json", *flags)
    assert stage.words("probe") == [
        [f"{text}!" if key in flagged else text for key, text in values.items()]
    ]


def test_r9_4_literal_items_are_literal(tmp_path: Path) -> None:
    stage = stage_with_payloads(tmp_path)
    workflow = loop([{"name": "Call", "command": ["probe", "${item}"]}])
    workflow["steps"] = workflow["steps"][1:]
    each = workflow["steps"][0]["for_each"]
    del each["items_from"]
    each["items"] = PAYLOADS
    play(stage, workflow)
    assert stage.words("probe") == [[text] for text in PAYLOADS]


def test_r9_4_data_that_looks_like_ours_is_data(tmp_path: Path) -> None:
    """What a program prints cannot pass for the engine's own marks and references."""
    forged = [
        {"$stored": "values/" + "0" * 64 + ".json", "bytes": 3},
        {"deep": [{"$stored": "../../../secret.json", "bytes": 3}]},
        {"$include": "w.json"},
        {"$ref": "#/steps"},
        {"status": "completed", "exit_code": 0, "__class__": "x"},
    ]
    stage = Stage(tmp_path)
    stage.recorder("probe")
    (stage.folder / "payloads.json").write_text(json.dumps(forged))
    steps: list[dict[str, Any]] = [
        {"name": "Print", "command": ["printf", "%s", "${item}"], "output_capture": "json"},
        {"name": "Call", "command": ["probe", "${item}", "${steps.Print.json}"]},
    ]
    play(stage, loop(steps))
    assert [[json.loads(word) for word in call] for call in stage.words("probe")] == [
        [value, value] for value in forged
    ]


def test_r9_4_file_names_are_names(tmp_path: Path) -> None:
    """Wildcards in a value are characters: each path and pattern leads to the one file."""
    stage = stage_with_payloads(tmp_path, NAMES)
    for folder in ("in", "schemas"):
        (stage.folder / folder).mkdir()
    for number, name in enumerate(NAMES):
        (stage.folder / "in" / name).write_text(f"file {number}")
        (stage.folder / "schemas" / name).write_text(f'{{"const": {number}}}')
    (stage.folder / "in/zz decoy").write_text("decoy")
    place = "in/${item}"
    steps: list[dict[str, Any]] = [
        {
            "name": "Read",
            "command": ["cat"],
            "input_file": place,
            "output_file": "out/${item}",
            "depends_on": {"required": [place]},
            "when": {"exists": place},
        },
        {"name": "Wait", "wait_for": {"glob": place, "timeout_sec": 5}},
        {"name": "Not", "command": ["probe"], "when": {"not_exists": place}},
        {
            "name": "Ask",
            "provider": "tool",
            "input_file": place,
            "depends_on": {"required": [place], "inject": {"mode": "content"}},
        },
        {
            "name": "Check",
            "command": ["echo", "${loop.index}"],
            "output_capture": "json",
            "output_schema": "schemas/${item}",
        },
    ]
    tool = {"command": ["cat"], "input_mode": "stdin"}
    played = play(stage, loop(steps, providers={"tool": tool}))
    assert stage.words("probe") == []
    for number, (name, iteration) in enumerate(zip(NAMES, played.loop("Each"), strict=True)):
        assert iteration["Read"]["output"] == f"file {number}", repr(name)
        assert iteration["Wait"]["files"] == [f"in/{name}"]
        assert iteration["Not"]["status"] == "skipped"
        assert (stage.folder / "out" / name).read_text() == f"file {number}"
        assert iteration["Ask"]["output"].count(f"file {number}\n") == 1
        assert "decoy" not in iteration["Ask"]["output"]
    assert sorted(os.listdir(stage.folder / "out")) == sorted(NAMES)


def test_r9_4_items_are_moved_by_their_names(tmp_path: Path) -> None:
    stage = stage_with_payloads(tmp_path, [f"queue/{name}" for name in NAMES])
    (stage.folder / "queue").mkdir()
    for name in NAMES:
        (stage.folder / "queue" / name).touch()
    move = {"success": {"move_to": "done/${loop.index}"}}
    steps = [{"name": "Do", "command": ["true"]}]
    played = play(stage, loop(steps, on_item_complete=move))
    assert all(iteration["lifecycle"]["action_applied"] for iteration in played.loop("Each"))
    assert os.listdir(stage.folder / "queue") == []
    for number, name in enumerate(NAMES):
        assert os.listdir(stage.folder / f"done/{number}") == [name]


def test_r9_4_folders_of_moves_are_names(tmp_path: Path) -> None:
    stage = stage_with_payloads(tmp_path, [f"queue/{number}" for number in range(len(NAMES))])
    (stage.folder / "names").mkdir()
    for number, name in enumerate(NAMES):
        stage.write(f"queue/{number}", "x")
        (stage.folder / f"names/{number}").write_text(name)
    move = {"success": {"move_to": "done/${steps.Name.output}"}}
    steps = [{"name": "Name", "command": ["cat", "names/${loop.index}"]}]
    play(stage, loop(steps, on_item_complete=move))
    assert sorted(os.listdir(stage.folder / "done")) == sorted(NAMES)
    for number, name in enumerate(NAMES):
        assert os.listdir(stage.folder / "done" / name) == [str(number)]


ESCAPES = ["../secret.json", "in/../../secret.json", "link/secret.json", "~/secret.json", ".."]
OPENING: list[dict[str, Any]] = [
    {"name": "Read", "command": ["cat"], "input_file": "${item}"},
    {"name": "Ask", "provider": "tool", "input_file": "${item}"},
    {"name": "Write", "command": ["echo", "leak"], "output_file": "${item}"},
    {"name": "Below", "command": ["echo", "leak"], "output_file": "${item}/deep/file"},
    {"name": "Need", "command": ["probe"], "depends_on": {"required": ["${item}"]}},
    {"name": "Wild", "command": ["probe"], "depends_on": {"optional": ["${item}/*"]}},
    {"name": "If", "command": ["probe"], "when": {"exists": "${item}"}},
    {"name": "Unless", "command": ["probe"], "when": {"not_exists": "${item}"}},
    {"name": "Wait", "wait_for": {"glob": "${item}", "timeout_sec": 0.1, "poll_ms": 20}},
    {
        "name": "Check",
        "command": ["echo", "{}"],
        "output_capture": "json",
        "output_schema": "${item}",
    },
]


def test_r9_4_no_value_leads_out_of_the_workspace(tmp_path: Path) -> None:
    """Every opening of every escape fails with 2; the next step goes on because of a handler."""
    secret = tmp_path / "secret.json"
    secret.write_text('{"secret": "TOP SECRET"}')
    stage = stage_with_payloads(tmp_path, [*ESCAPES, str(secret), "a\0b"])
    (stage.folder / "link").symlink_to(tmp_path)
    steps: list[dict[str, Any]] = []
    for step, after in zip(OPENING, [*OPENING[1:], {"name": "Last"}], strict=True):
        steps.append({**step, "on": {"failure": {"goto": after["name"]}}})
    steps.append({"name": "Last", "command": ["true"]})
    tool = {"command": ["probe"], "input_mode": "stdin"}
    played = play(stage, loop(steps, providers={"tool": tool}))
    for iteration in played.loop("Each"):
        for step in OPENING:
            result = iteration[step["name"]]
            assert (result["status"], result["exit_code"]) == ("failed", 2), step
    assert stage.words("probe") == []
    assert secret.read_text() == '{"secret": "TOP SECRET"}'
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "home", "programs", "secret.json", "workspace",
    ]  # fmt: skip


def test_r9_4_no_item_is_taken_from_outside(tmp_path: Path) -> None:
    """A loop's item is a path to move: one that lies outside stays where it is."""
    secret = tmp_path / "secret.json"
    secret.write_text("TOP SECRET")
    stage = stage_with_payloads(tmp_path, [*ESCAPES, str(secret), "a\0b"])
    (stage.folder / "link").symlink_to(tmp_path)
    steps = [{"name": "Do", "command": ["true"]}]
    played = play(stage, loop(steps, on_item_complete={"success": {"move_to": "stolen"}}))
    for iteration in played.loop("Each"):
        assert iteration["lifecycle"]["action_applied"] is False
        assert iteration["lifecycle"]["error"]
    assert secret.read_text() == "TOP SECRET"
    assert (stage.folder / "link").is_symlink()


@pytest.mark.parametrize(
    ("value", "command"),
    [
        ("a\0b", ["probe", "${item}"]),
        ("a\0b", ["sh", "-c", "probe ${item}"]),
        ("x" * 200_000, ["probe", "${item}"]),
        ("x" * 200_000, ["sh", "-c", "probe ${item}"]),
        ("x" * 120_000, ["probe", *["${item}"] * 40]),
    ],
    ids=["NUL", "NUL in a script", "too long", "too long in a script", "too much"],
)
def test_r9_4_what_no_program_can_be_given(tmp_path: Path, value: str, command: list[str]) -> None:
    """The step fails and says so; nothing is cut off to make it fit."""
    stage = stage_with_payloads(tmp_path, [value])
    played = play(stage, loop([{"name": "Call", "command": command}]), exit_code=1)
    result = played.loop("Each")[0]["Call"]
    assert result["status"] == "failed"
    assert result["exit_code"] in ((2,) if "\0" in value else (2, 126))
    assert result["error"]["message"]
    assert stage.words("probe") == []


def test_r9_4_cs_own_script_with_hostile_task_names(tmp_path: Path) -> None:
    """C moves tasks with `mv ${task_file} …`; that line is right for every name but options."""
    names = [name for name in NAMES if not name.startswith("-")]
    stage = stage_with_payloads(tmp_path, [f"inbox/{name}" for name in names])
    (stage.folder / "inbox").mkdir()
    for name in names:
        (stage.folder / "inbox" / name).touch()
    script = (
        "mkdir -p processed/${run.timestamp_utc}_${loop.index} && "
        "mv ${task_file} processed/${run.timestamp_utc}_${loop.index}/"
    )
    steps = [{"name": "Move", "command": ["bash", "-c", script]}]
    workflow = loop(steps)
    workflow["steps"][1]["for_each"]["as"] = "task_file"
    played = play(stage, workflow)
    stamp = played.state["run_id"].partition("-")[0]
    for number, name in enumerate(names):
        assert os.listdir(stage.folder / f"processed/{stamp}_{number}") == [name]
