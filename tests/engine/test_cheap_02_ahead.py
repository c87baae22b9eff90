"""Which programs are sent ahead, and what becomes of them when the run cannot go on."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path
from typing import Any

import pytest

from orchestrate.errors import StateError
from orchestrate.execute.base import LOCAL, Exit, Job, NotStarted
from orchestrate.execute.fake import Act, FakeExecutor
from orchestrate.plan.nodes import Program
from orchestrate.record import replace
from orchestrate.state import store as store_module
from orchestrate.state.earlier import Earlier
from orchestrate.state.journal import Journal
from tests.engine.performing import running
from tests.state.definitions import LINE, LOOP, MOVING, command, workflow
from tests.state.folding import compiled

FIRST, SECOND = "One:1.1", "Two:1.1"
WAITS_S = 1.0


class Watched(FakeExecutor):
    """Notes what it is sent ahead; a program that ends at once waits a while for that to come."""

    def __init__(self, acts: dict[str, Act] | None = None) -> None:
        super().__init__(acts)
        self.sent: list[tuple[str, str]] = []
        self.begun: list[str] = []

    def start(self, job: Job) -> bool:
        act = self.acts.get(job.attempt, Act())
        if act.after_s == 0.0 and not act.start_error:
            self.acts[job.attempt] = replace(act, after_s=WAITS_S)
        return super().start(job)

    def send_ahead(self, before: str, job: Job | None) -> None:
        super().send_ahead(before, job)
        if job is None:
            return
        self.sent.append((before, job.attempt))
        attempt = self._records.attempts[before]
        if attempt.act.after_s == WAITS_S:
            attempt.act = replace(attempt.act, after_s=0.01)

    def has_begun(self, attempt: str) -> bool:
        is_so = super().has_begun(attempt)
        if is_so:
            self.begun.append(attempt)
        return is_so


def after_one(more: str, first: str = "") -> str:
    return workflow(command("One", first) + command("Two", more))


SENT = {
    "a line": LINE,
    "a value of an earlier step": workflow(
        command("Zero") + command("One") + command("Two", ", output_capture: lines")
    ).replace('Two, command: ["true"]', 'Two, command: ["true", "${steps.Zero.output}"]'),
    "lines": after_one("", ", output_capture: lines"),
    "a limit of its own": after_one(", timeout_sec: 5"),
    "retries": after_one(", retries: {max: 2}", ", retries: {max: 2}"),
    "a guard of the first": after_one("", ", when: {not_exists: nothing}"),
}
KEPT = {
    "a value of it": LINE.replace(
        'Two, command: ["true"]', 'Two, command: ["a", "${steps.One.output}"]'
    ),
    "a value of it in a script": LINE.replace(
        'Two, command: ["true"]', "Two, command: [sh, -c, 'echo \"${steps.One.output}\"']"
    ),
    "a guard": after_one(", when: {not_exists: nothing}"),
    "files that it needs": after_one(", depends_on: {optional: [x]}"),
    "files that it needed": after_one("", ", depends_on: {optional: [x]}"),
    "an input file": after_one(', input_file: "in.txt"'),
    "an output file": after_one(', output_file: "x.txt"'),
    "an output file of the first": after_one("", ', output_file: "x.txt"'),
    "the run's folder": LINE.replace(
        'Two, command: ["true"]', 'Two, command: ["ls", "${run.root}"]'
    ),
    "json": after_one("", ", output_capture: json, allow_parse_error: true"),
    "on_lost: stop": after_one(", on_lost: stop"),
    "a wait": workflow(
        command("One")
        + "  - {name: Wait, wait_for: {glob: in.txt, timeout_sec: 5}}\n"
        + command("Two")
    ),
    "another way on": workflow(command("One", ", on: {success: {goto: _end}}") + command("Two")),
}


def sent_in(folder: Path, text: str | Program, **acts: Act) -> list[tuple[str, str]]:
    fake = Watched(acts)
    (folder / "in.txt").write_text("")
    program = compiled(text) if isinstance(text, str) else text
    with running(folder, program, executors={LOCAL: fake}) as run:
        assert run.to_end()[0] == "completed"
    assert fake.begun == [attempt for _, attempt in fake.sent]
    attempts = [job.attempt for job in fake.jobs]
    assert len(attempts) == len(set(attempts))
    return fake.sent


@pytest.mark.parametrize("text", SENT.values(), ids=SENT)
def test_what_depends_on_nothing_of_the_other_is_sent_ahead(tmp_path: Path, text: str) -> None:
    assert (FIRST, SECOND) in sent_in(tmp_path, text)


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_might_depend_on_it_is_not(tmp_path: Path, text: str) -> None:
    assert sent_in(tmp_path, text) == []


def test_the_next_item_of_a_loop_is_sent_ahead(tmp_path: Path) -> None:
    sent = sent_in(tmp_path, LOOP)
    inner = [f"Loop[{item}]/{name}:1.1" for item in range(3) for name in ("In", "Out")]
    assert sent == list(itertools.pairwise(inner))


@pytest.mark.parametrize(
    "text",
    [
        MOVING,
        LOOP.replace("items: [a, b, c]", "items: [a, b, c]\n      parallel: true")
        .replace(", on: {failure: {goto: After}}", "")
        .replace('"1.1"', '"1.4"'),
    ],
    ids=["moved", "parallel"],
)
def test_of_other_loops_it_is_not(tmp_path: Path, text: str) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).touch()
    assert not [sent for sent in sent_in(tmp_path, text) if sent[0].startswith("Loop")]


@pytest.mark.parametrize(("limits", "code"), [({"max_steps": 1}, 3), ({"max_time": 1e6}, 0)])
def test_a_step_that_a_limit_may_keep_from_beginning_is_not_sent(
    tmp_path: Path, limits: dict[str, Any], code: int
) -> None:
    program = compiled(LINE)
    plan = replace(program.plans[0], limits=replace(program.plans[0].limits, **limits))
    fake = Watched()
    limited = replace(program, plans=(plan, *program.plans[1:]))
    with running(tmp_path, limited, executors={LOCAL: fake}) as run:
        assert run.to_end()[2] == code
    assert fake.sent == []


def test_after_an_edit_nothing_is_sent(tmp_path: Path) -> None:
    """What comes next may have a result that is still good."""
    fake = Watched()
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        run.rt.earlier = Earlier()
        assert run.to_end()[0] == "completed"
    assert fake.sent == []


def test_the_results_are_the_same(tmp_path: Path) -> None:
    text = workflow("".join(command(f"S{number}") for number in range(5)))
    documents = []
    for name, fake in (("ahead", Watched()), ("plain", FakeExecutor())):
        fake.acts.update({f"S{n}:1.1": Act(stdout=f"out {n}\n".encode()) for n in range(5)})
        (tmp_path / name).mkdir()
        with running(tmp_path / name, compiled(text), executors={LOCAL: fake}) as run:
            assert run.to_end()[0] == "completed"
            steps = run.document["steps"]
        documents.append({name: step["output"] for name, step in steps.items()})
    assert documents[0] == documents[1] == {f"S{n}": f"out {n}\n" for n in range(5)}


def test_a_failure_leads_elsewhere(tmp_path: Path) -> None:
    text = workflow(
        command("One", ", on: {failure: {goto: Mend}}") + command("Two") + command("Mend")
    )
    fake = Watched({FIRST: Act(3)})
    with running(tmp_path, compiled(text), executors={LOCAL: fake}) as run:
        assert run.to_end()[0] == "completed"
    assert [job.attempt for job in fake.jobs] == [FIRST, "Mend:1.1"]
    assert (FIRST, SECOND) in fake.sent


def test_a_stop_comes_to_what_has_begun(tmp_path: Path) -> None:
    class Stopping(Watched):
        def has_begun(self, attempt: str) -> bool:
            run.rt.stop.request(signal.SIGINT)
            return super().has_begun(attempt)

    fake = Stopping({SECOND: Act(after_s=None)})
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        assert run.to_end()[2] == 130
        ended = [event for event in run.journal if event["on"] == "attempt-ended"]
        assert [(event["node"], event["why"]) for event in ended] == [("Two", "stopped")]
        found = fake.find(SECOND)
        assert isinstance(found, Exit)
        assert found.stopped


def fail_on(what: str, patch: pytest.MonkeyPatch) -> None:
    append = Journal.append

    def refuse(journal: Journal, events: Any, *, sync: bool = True) -> int:
        if any(event["on"] == what for event in events):
            raise StateError("the disk is full")
        return append(journal, events, sync=sync)

    patch.setattr(Journal, "append", refuse)


@pytest.mark.parametrize("more", ["", ", on_lost: stop"], ids=["sent ahead", "asked for"])
def test_no_program_waits_for_the_state_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    """Where that is due with every event: it is done while the next program runs."""
    done: list[str] = []

    class Noting(Watched):
        def start(self, job: Job) -> bool:
            done.append("next")
            return super().start(job)

        def send_ahead(self, before: str, job: Job | None) -> None:
            super().send_ahead(before, job)
            done.append("next")

    def write(path: Path, content: bytes) -> None:
        done.append("write")
        path.write_bytes(content)

    text = workflow("".join(command(f"S{number}", more) for number in range(4)))
    monkeypatch.setattr(store_module, "LAG_S", 0.0)
    with running(tmp_path, compiled(text), executors={LOCAL: Noting()}) as run:
        monkeypatch.setattr(store_module, "write_visibly", write)
        assert run.to_end()[0] == "completed"
        assert run.document["status"] == "completed"
    # One beside each program, and one at the end.
    assert [what for what, _ in itertools.groupby(done)].count("write") >= 4
    assert "write, write, next" not in ", ".join(done)


def test_what_was_sent_is_taken_back_when_the_run_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Watched({FIRST: Act(after_s=3.0)})
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        with monkeypatch.context() as patch:
            fail_on("step-started", patch)
            with pytest.raises(StateError, match="the disk is full"):
                run.to_end()
        assert fake.sent == [(FIRST, SECOND)]
        assert fake.find(SECOND) == NotStarted()
        run.store.write_down()


@pytest.mark.parametrize("after_s", [0.1, None])
def test_what_has_begun_when_the_run_cannot_be_written_is_seen_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after_s: float | None
) -> None:
    fake = Watched({FIRST: Act(stdout=b"one"), SECOND: Act(after_s=after_s)})
    with running(tmp_path, compiled(LINE), executors={LOCAL: fake}) as run:
        with monkeypatch.context() as patch:
            patch.setattr("orchestrate.engine.programs._LAST_S", 0.3)
            fail_on("step-finished", patch)
            with pytest.raises(StateError, match="the disk is full"):
                run.to_end()
        found = fake.find(SECOND)
        assert isinstance(found, Exit)
        assert bool(found.stopped) == (after_s is None)
