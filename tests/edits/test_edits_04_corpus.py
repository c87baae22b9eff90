"""A corpus of edits at every point that a run can stop at: the ledger is held against the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.edits.ledger import HELPER, Ledger, recipe
from tests.edits.model import (
    Definition,
    Loop,
    Model,
    Step,
    as_machine,
    as_recipe,
    as_workflow,
    with_part,
)
from tests.promises.processes import wait_until

pytestmark = pytest.mark.faults

BASE = Definition(
    (
        Step("a"),
        Step("b", uses="who"),
        Loop("l", ("x", "y", "z"), (Step("p"), Step("q"))),
        Step("c"),
        Step("d", uses="other"),
    )
)
Edit = Callable[[Definition], Definition]


def text(name: str) -> Edit:
    return lambda d: with_part(d, name, text="2")


def limit(name: str) -> Edit:
    return lambda d: with_part(d, name, limit=90)


def items(*names: str) -> Edit:
    return lambda d: with_part(d, "l", items=names)


def insert(at: int, *parts: Step | Loop) -> Edit:
    return lambda d: replace(d, parts=(*d.parts[:at], *parts, *d.parts[at:]))


def remove(name: str) -> Edit:
    return lambda d: replace(d, parts=tuple(p for p in d.parts if p.name != name))


def rename(name: str, new: str) -> Edit:
    return lambda d: with_part(d, name, name=new)


def order(*names: str) -> Edit:
    def ordered(d: Definition) -> Definition:
        by_name = {part.name: part for part in d.parts}
        return replace(d, parts=tuple(by_name[name] for name in names))

    return ordered


def value(name: str, to: str) -> Edit:
    return lambda d: replace(d, values=tuple((k, to if k == name else v) for k, v in d.values))


def body(*steps: Step) -> Edit:
    return lambda d: with_part(d, "l", body=steps)


def both(*edits: Edit) -> Edit:
    def all_of(d: Definition) -> Definition:
        for edit in edits:
            d = edit(d)
        return d

    return all_of


EDITS: dict[str, Edit] = {
    "comment": lambda d: replace(d, comment="# well"),
    "two-comments": lambda d: replace(d, comment="# well\n# done"),
    **{f"text-{n}": text(n) for n in ("a", "b", "p", "q", "c", "d")},
    **{f"limit-{n}": limit(n) for n in ("a", "b", "p", "q", "c", "d")},
    **{f"rename-{n}": rename(n, f"{n}2") for n in ("a", "b", "p", "q", "c", "d")},
    **{f"remove-{n}": remove(n) for n in ("a", "b", "l", "c", "d")},
    **{f"insert-{at}": insert(at, Step("new")) for at in range(6)},
    "insert-loop": insert(1, Loop("m", ("u", "v"), (Step("r"),))),
    "insert-loop-last": insert(5, Loop("m", ("u", "v"), (Step("r"),))),
    "item-first": items("w", "x", "y", "z"),
    "item-middle": items("x", "w", "y", "z"),
    "item-last": items("x", "y", "z", "w"),
    "item-gone": items("x", "z"),
    "item-twice": items("x", "y", "y", "z"),
    "items-thrice": items("x", "x", "x", "y", "z"),
    "items-reversed": items("z", "y", "x"),
    "items-reordered": items("y", "x", "z"),
    "items-others": items("s", "t"),
    "items-one": items("y"),
    "swap-a-b": order("b", "a", "l", "c", "d"),
    "swap-c-d": order("a", "b", "l", "d", "c"),
    "loop-first": order("l", "a", "b", "c", "d"),
    "loop-last": order("a", "b", "c", "d", "l"),
    "value-used-early": value("who", "you"),
    "value-used-late": value("other", "y"),
    "body-longer": body(Step("p"), Step("q"), Step("r")),
    "body-begins": body(Step("r"), Step("p"), Step("q")),
    "body-shorter": body(Step("p")),
    "body-swapped": body(Step("q"), Step("p")),
    "uses-now": lambda d: with_part(d, "a", uses="who"),
    "uses-no-more": lambda d: with_part(d, "b", uses=""),
    "text-and-item": both(text("c"), items("x", "w", "y", "z")),
    "text-twice": both(text("b"), text("d")),
    "limit-and-text": both(limit("a"), text("d")),
    "comment-and-text": both(lambda d: replace(d, comment="# x"), text("q")),
    "rename-and-value": both(rename("a", "first"), value("other", "z")),
    "remove-and-insert": both(remove("b"), insert(1, Step("new"))),
    "items-and-body": both(items("z", "w"), body(Step("p"), Step("r"))),
}
STOPS = ("a", "b", "p-x", "q-y", "p-z", "c", "d", "")
QUICK = [
    ("text-b", "d"), ("limit-a", "c"), ("item-first", ""), ("items-reversed", "q-y"),
    ("insert-1", ""), ("remove-b", "c"), ("item-twice", "d"), ("value-used-early", "d"),
    ("body-begins", ""), ("swap-c-d", ""), ("items-and-body", "d"), ("loop-first", "c"),
]  # fmt: skip


def test_edits_04_the_corpus_is_large() -> None:
    assert len(EDITS) >= 60


def compare(
    stage: Ledger, before: Definition, after: Definition, stop: str, again: str = "",
    render: Callable[[Definition], str] = as_workflow, code: int = 1,
) -> None:  # fmt: skip
    """Run, stop, edit, go on, stop again, go on: what ran is what the model says."""
    model = Model({})
    _fail(stage, stop)
    stage.write("w.yaml", render(before))
    done = stage.run("run", "w.yaml", "--retry-delay", "0")
    assert stage.ran() == model.run(before, stop)
    assert done.exit_code == (0 if model.is_over else code)
    was_over = model.is_over
    stage.write("w.yaml", render(after))
    _fail(stage, again)
    expected = model.run(after, again)
    if was_over and not expected:
        # Nothing to do, or nothing that matters: both are an end.
        stage.resume("--edited")
        assert stage.ran() == []
        return
    result = stage.run("resume", "latest", "--edited")
    assert stage.ran() == expected, result.stderr
    if not model.is_over:
        assert result.exit_code == code
        _fail(stage, "")
        stage.resume()
        assert stage.ran() == model.run(after)


def _fail(stage: Ledger, token: str) -> None:
    for path in stage.folder.glob("fail-*"):
        path.unlink()
    if token:
        stage.touch(f"fail-{token}")


@pytest.mark.parametrize(("edit", "stop"), QUICK)
def test_edits_04_an_edit_keeps_what_is_good(tmp_path: Path, edit: str, stop: str) -> None:
    compare(Ledger(tmp_path), BASE, EDITS[edit](BASE), stop)


@pytest.mark.parametrize("again", ["b", "p-y", "c"])
def test_edits_04_an_edit_is_resumed_when_it_stops(tmp_path: Path, again: str) -> None:
    after = both(text("b"), items("z", "y", "w"))(BASE)
    compare(Ledger(tmp_path), BASE, after, "d", again)


@pytest.mark.soak
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("edit", EDITS)
def test_edits_04_every_edit_at_every_stop(tmp_path: Path, edit: str, stop: str) -> None:
    after = EDITS[edit](BASE)
    for number, again in enumerate(("", "b", "p-y", "c")):
        folder = tmp_path / str(number)
        folder.mkdir()
        compare(Ledger(folder), BASE, after, stop, again)


SHORT = Definition((Step("a"), Step("b"), Loop("l", ("x", "y"), (Step("p"),)), Step("c")))
LINE = Definition((Step("a"), Step("b"), Step("c"), Step("d")))


@pytest.mark.parametrize(
    ("edit", "stop"),
    [("text-b", "c"), ("remove-b", ""), ("insert-2", ""), ("limit-a", "c"), ("text-c", "b")],
)
def test_edits_04_in_machines(tmp_path: Path, edit: str, stop: str) -> None:
    """One session: a turn that is gone, or stands before another one, counts."""
    after = EDITS[edit](LINE)
    stage = Ledger(tmp_path)
    if edit == "remove-b":
        stage.write("w.yaml", as_machine(LINE))
        stage.run("run", "w.yaml").assert_success()
        stage.ran()
        stage.write("w.yaml", as_machine(after))
        stage.resume("--edited")
        assert stage.ran() == ["c", "d"]
        return
    compare(stage, LINE, after, stop, render=as_machine, code=4)


@pytest.mark.parametrize(
    ("edit", "stop"),
    [
        ("text-b", "c"), ("remove-b", ""), ("insert-1", ""), ("limit-a", "c"), ("text-p", "c"),
        ("value-used-early", "c"),
    ],
)  # fmt: skip
def test_edits_04_in_recipes(tmp_path: Path, edit: str, stop: str) -> None:
    compare(Ledger(tmp_path), SHORT, EDITS[edit](SHORT), stop, render=as_recipe)


def test_edits_04_items_in_recipes(tmp_path: Path) -> None:
    compare(Ledger(tmp_path), SHORT, items("y", "z", "x")(SHORT), "c", render=as_recipe)


OF_FILES: dict[str, Edit] = {
    "include": text("b"),
    "agent": text("c"),
    "include-and-agent": both(text("b"), text("c")),
    "include-and-rename": both(text("b"), rename("b", "b2")),
    "include-no-more": remove("b"),
    "agent-no-more": remove("c"),
    "limit": limit("b"),
    "comment": lambda d: replace(d, comment="# well"),
}


def in_files(stage: Ledger) -> Callable[[Definition], str]:
    """As a recipe whose b has its prompt from an included file, and whose c an agent of its own."""

    def render(definition: Definition) -> str:
        steps = []
        for step in definition.parts:
            assert isinstance(step, Step)
            prompt, agent = f'"STEP:{step.name} {step.text}"', "helper"
            if step.name.startswith("b"):
                stage.write("b.md", f"STEP:{step.name} {step.text}")
                prompt = "{$include: b.md}"
            elif step.name == "c":
                body = f"Help {step.text} times."
                agent_file = HELPER.replace("helper", "other").replace("Help.", body)
                stage.write(".orchestrate/agents/other.md", agent_file)
                prompt, agent = '"STEP:c"', "other"
            fields = f"id: {step.name}, agent: {agent}, timeout: {step.limit}, prompt: {prompt}"
            steps.append(f"  - {{{fields}}}\n")
        return recipe(*steps, head=f"{definition.comment}\n")

    return render


@pytest.mark.parametrize(
    ("edit", "stop"),
    [("include", "d"), ("agent", ""), ("include-and-agent", "c"), ("include-and-rename", "d")],
)
def test_edits_04_in_other_files(tmp_path: Path, edit: str, stop: str) -> None:
    stage = Ledger(tmp_path)
    compare(stage, LINE, OF_FILES[edit](LINE), stop, render=in_files(stage))


@pytest.mark.soak
@pytest.mark.parametrize("stop", ["a", "b", "c", "d", ""])
@pytest.mark.parametrize("edit", OF_FILES)
def test_edits_04_in_other_files_at_every_stop(tmp_path: Path, edit: str, stop: str) -> None:
    for again in ("", "b", "c"):
        folder = tmp_path / (again or "none")
        folder.mkdir()
        stage = Ledger(folder)
        compare(stage, LINE, OF_FILES[edit](LINE), stop, again, render=in_files(stage))


def with_routes(definition: Definition) -> str:
    """As a workflow; one with a comment says of every step where it leads, with its meaning."""
    names = [part.name for part in definition.parts]
    found = as_workflow(definition)
    for name, then in zip(names, [*names[1:], "_end"], strict=True) if definition.comment else ():
        ways = f"on: {{success: {{goto: {then}}}}}"
        found = found.replace(f"{{name: {name}, ", f"{{name: {name}, {ways}, ")
    return found


@pytest.mark.parametrize(("edit", "stop"), [("comment", "c"), ("comment-and-text", "d")])
def test_edits_04_routes_are_no_question(tmp_path: Path, edit: str, stop: str) -> None:
    after = {
        "comment": EDITS["comment"],
        "comment-and-text": both(EDITS["comment"], text("b")),
    }[edit](LINE)
    compare(Ledger(tmp_path), LINE, after, stop, render=with_routes)


@pytest.mark.parametrize("after_events", [0, 2, 5, 9])
def test_edits_04_an_edit_that_is_killed_goes_on(tmp_path: Path, after_events: int) -> None:
    """Killed while it takes results over or runs steps: nothing runs twice, nothing is lost."""
    stage, model = Ledger(tmp_path), Model({})
    _fail(stage, "d")
    stage.write("w.yaml", as_workflow(BASE))
    stage.run("run", "w.yaml").assert_exit(1)
    assert stage.ran() == model.run(BASE, "d")
    after = both(text("c"), items("x", "w", "y", "z"))(BASE)
    stage.write("w.yaml", as_workflow(after))
    _fail(stage, "")
    journal = stage.runs_folder / "latest" / "events.jsonl"

    def is_far_enough() -> bool:
        _, edited, rest = journal.read_text("utf-8").partition('"on":"edited"')
        return bool(edited) and rest.count("\n") > after_events

    with stage.command("resume", "latest", "--edited") as resumed:
        wait_until(is_far_enough, "the edit never began")
        resumed.kill()
        resumed.wait(60)
    stage.resume()
    assert stage.ran() == model.run(after)
    assert stage.state()["status"] == "completed"
