"""Whatever programs print and people name: the terminal acts on nothing of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.live.scenes import UNTIL, give_sign, workflow
from tests.cli.live.screens import display
from tests.recipes.fakes import Workshop, recipe, rule

# What the view itself may send: colours, erasing, moving up, wrapping off and on.
OURS = re.compile(rb"\x1b\[(?:[0-9;]*m|K|J|[0-9]+A|\?7[lh])")
NASTY = {
    "escapes": r"\033]0;owned\007\033[2J\033[31mred\033[0m",
    "overdrawn": r"10%%\r55%%\rdone",
    "bidi": r"safe \xe2\x80\xae evil",
    "bells": r"\007\007ding\010\010",
    "newlines": r"one\n\n\n   \n",
    "not text": r"\xff\xfe\x80abc",
    "nothing": "",
}
SHOWN = {
    "escapes": "red",
    "overdrawn": "done",
    "bidi": "safe evil",
    "bells": "ding",
    "newlines": "one",
    "not text": "\ufffd\ufffd\ufffdabc",
    "nothing": "",
}


def printing(name: str, text: str, sign: str) -> str:
    script = f"printf '{text}'; {UNTIL.format(sign=sign)}"
    return f"  - name: {name}\n    command: {json.dumps(['bash', '-c', script])}\n"


def test_output_of_programs(folder: Path) -> None:
    steps = [printing(f"Step{n}", text, f"go{n}") for n, text in enumerate(NASTY.values())]
    (folder / "w.yaml").write_text(workflow(*steps))
    with display(folder, "run", "w.yaml") as seen:
        for number, kind in enumerate(NASTY):
            said = f"\n    {SHOWN[kind]}\n" if SHOWN[kind] else ""
            seen.await_words(f"● Step{number}  #s{said}")
            give_sign(folder, f"go{number}")
        assert seen.finish() == 0
        assert b"\x1b" not in OURS.sub(b"", seen.raw)
        assert b"\x07" not in seen.raw
        assert b"\xe2\x80\xae" not in seen.raw
        assert b"\x08" not in seen.raw


def test_items_prompts_and_answers(shop: Workshop) -> None:
    """Names that an agent made up become items; its answer is part of a question."""
    shop.write(
        "r.yaml",
        recipe("""
            stages:
              - name: first
                steps:
                  - {id: find, agent: helper, prompt: "STEP:find", output: found}
                  - {id: each, foreach: "{{found}}", agent: helper, prompt: "STEP:each {{item}}"}
                approval: {required: true, timeout: 600, prompt: "{{found}}?"}
        """),
    )
    nasty = "\x1b]0;owned\x07\x1b[2Jname\u202e\r\n" + "x" * 500
    wait = {"text": "\x1b[31mhm", "delay": 30, "until": str(shop.top / "go")}
    shop.answers(rule("STEP:find", json.dumps([nasty])), rule("STEP:each", wait))
    with display(
        shop.folder, "run", "r.yaml", environment=shop.surroundings, size=(120, 24)
    ) as seen:
        seen.await_words("[0] ␛]0;owned␇␛[2Jname<U+202E>␍␊xxx")
        (shop.top / "go").touch()
        seen.await_words("A message may follow the letter:")
        seen.type("a\r")
        assert seen.finish() == 0
        assert b"\x1b" not in OURS.sub(b"", seen.raw)
        assert b"\x07" not in seen.raw


def test_a_rich_markup_is_text(folder: Path) -> None:
    (folder / "w.yaml").write_text(
        workflow(printing("Step", "[bold red]loud[/] [link=file:///x]y[/link] :smile:", "go"))
    )
    with display(folder, "run", "w.yaml") as seen:
        seen.await_words("[bold red]loud[/] [link=file:///x]y[/link] :smile:")
        give_sign(folder, "go")
        assert seen.finish() == 0
