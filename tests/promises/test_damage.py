"""Damaged, foreign and outdated files of a run: an error that names the way out, or the right end.

Each damage is read in this process, which tells what a resume would go on from; for each different
thing that it can go on from, or be refused for, the real commands are given and judged by the
ledger: nothing that was done is done again, and the end is that of an undisturbed run.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

import pytest

from orchestrate.app.reading.open_run import Header, header_of
from orchestrate.errors import OrchestrateError
from orchestrate.state.codec import Encoder
from orchestrate.state.plan_file import index_of
from orchestrate.state.runs import Run
from orchestrate.state.store import load
from orchestrate.view.run_summary import summary_of
from orchestrate.view.run_view import run_view
from orchestrate.workspace import Workspace, open_workspace
from tests.promises.agent_shapes import PARALLEL, RECIPE, REMINDED, RESTARTED, STAGED
from tests.promises.damaging import (
    EVENTS,
    FILES,
    Damage,
    Stage,
    cuts,
    flips,
    make_stage,
    replacements,
    shuffles,
)
from tests.promises.judging import check_same
from tests.promises.lanes import Lane, Lanes
from tests.promises.shapes import CYCLE, LIFECYCLE, LINEAR, NESTED, RETRYING, TOLERANT, Shape
from tests.promises.test_kill_sweep import seed_of
from tests.promises.trials import Trial

_NUMBERS = re.compile(r"\d+")


class Eyes:
    """Reads damaged copies of one stage in this process."""

    def __init__(self, stage: Stage) -> None:
        self.trial = stage.fresh()
        self.root = self.trial.root
        self.run = Run(self.root.name, self.root)
        self.workspace: Workspace = open_workspace(self.trial.workspace)
        self.header: Header = header_of(self.run)
        self.index = index_of(self.run)
        self._whole = {name: stage.content(name) for name in FILES}

    def see(self, damage: Damage) -> str:
        """What kind of thing a resume would find; damages of one kind are alike to it."""
        damage.do(self.root)
        try:
            return f"{self._header()} / {self._state()}"
        finally:
            for name, content in self._whole.items():
                path = self.root / name
                if path.is_dir():
                    path.rmdir()
                path.unlink(missing_ok=True)
                path.write_bytes(content)

    def _header(self) -> str:
        try:
            return "its own header" if header_of(self.run) == self.header else "another header"
        except OrchestrateError as error:
            return f"no header: {_kind_of(error)}"

    def _state(self) -> str:
        try:
            state = load(self.run, self.index)
            # As a file, for frames know their parents; without the seal.
            content = Encoder(self.index).encode(state).rpartition(b"checksum")[0]
            return f"state {state.seq} {sha256(content).hexdigest()[:12]}"
        except OrchestrateError as error:
            return f"no state: {_kind_of(error)}"

    def look(self, damage: Damage) -> None:
        """As `status` and `runs` do: it may be refused, but only by us."""
        damage.do(self.root)
        summary_of(self.run).fields()
        try:
            run_view(self.run)
        except OrchestrateError as error:
            _kind_of(error)


def _kind_of(error: OrchestrateError) -> str:
    assert error.hint, f"no way out: {error.message}"
    assert "state.json" in error.message or EVENTS in error.message or "run " in error.message
    return _NUMBERS.sub("N", f"{type(error).__name__} {error.message}")[:160]


# Of those that only look, each damage meets one.
LOOKS = (
    ["status", "latest"],
    ["status", "latest", "--json"],
    ["logs", "latest"],
    ["runs"],
    ["approvals"],
)


def judge(stage: Stage, damage: Damage, number: int, lane: Lane) -> str:
    """Give the real commands after a damage; what they came to, or a fault."""
    trial = stage.fresh()
    damage.do(trial.root)
    before = trial.lines()
    try:
        _give(trial, lane, *LOOKS[number % len(LOOKS)])
        came_to = "resumed"
        code = _resume(trial, lane)
        if code is None:
            came_to = "repaired"
            assert trial.lines() == before, "it was refused, but something was done"
            code = _resume(trial, lane, "--repair")
        if code is None:
            came_to = "refused"
            assert trial.lines() == before, "it was refused, but something was done"
        else:
            left = trial.left(code, is_journal_whole=False)
            is_ordered = stage.trial.shape.is_ordered
            check_same(stage.reference, left, set(), is_ordered=is_ordered, by_deeds=True)
    except AssertionError as error:
        return f"FAULT {stage.name}, {damage.name}: {error}\n{trial.said()[-900:]}"
    trial.remove()
    return came_to


def _resume(trial: Trial, lane: Lane, *flags: str) -> int | None:
    """The exit code of a run that went on to its end; None if it was refused."""
    known = len(trial.said())
    with trial.company():
        code = _give(trial, lane, "resume", trial.root.name, *flags)
        while code == 6:
            assert _give(trial, lane, "approve", trial.root.name, "--message", _next(trial)) == 0
            code = _give(trial, lane, "resume", trial.root.name)
    said = trial.said()[known:]
    if code == trial.shape.exit_code and "hint:" not in said:
        return code
    assert code in (2, 5), f"exit code {code}"
    assert "hint: " in said, "no way out is named"
    assert any(name in said for name in (*FILES, trial.root.name)), "the file is not named"
    return None


def _next(trial: Trial) -> str:
    return f"message {sum(gate['status'] == 'approved' for gate in trial.gates())}"


def _give(trial: Trial, lane: Lane, *words: str) -> int:
    known = len(trial.said())
    code = lane.run(trial.order(*words))
    said = trial.said()[known:]
    assert code != 70, f"{words} ended with a bug"
    assert "Traceback" not in said, f"{words}: a traceback"
    assert "unexpected" not in said, f"{words}: {said}"
    return code


def judge_all(
    stage: Stage, damages: Iterable[Damage], lanes: Lanes, chance: random.Random, more: int
) -> dict[str, int]:
    """See each damage; give the commands to the first of each kind, and to some more."""
    eyes = Eyes(stage)
    kinds: dict[str, Damage] = {}
    others: list[Damage] = []
    seen = 0
    for damage in damages:
        seen += 1
        try:
            kind = eyes.see(damage)
        except Exception as error:
            raise AssertionError(f"{stage.name}, {damage.name}: {error!r}") from error
        if kind not in kinds:
            kinds[kind] = damage
        else:
            others.append(damage)
    chosen = [*kinds.values(), *chance.sample(others, min(more, len(others)))]
    numbered = list(enumerate(chosen))
    told = lanes.spread(numbered, lambda lane, case: judge(stage, case[1], case[0], lane))
    faults = [word for word in told if word.startswith("FAULT")]
    assert not faults, f"{len(faults)} of {len(chosen)}:\n" + "\n".join(faults[:6])[:9000]
    counted = {word: told.count(word) for word in sorted(set(told))}
    print(f"{stage.name}: {seen} damages of {len(kinds)} kinds; {len(chosen)} resumed: {counted}")
    return counted


# Where each shape is killed, and where its resume is: shares of the changes that it makes.
STAGES: tuple[tuple[Shape, tuple[float, float]], ...] = (
    (LINEAR, (0.55, 0.4)),
    (RETRYING, (0.4, 0.3)),
    (NESTED, (0.4, 0.3)),
    (CYCLE, (0.5, 0.3)),
    (LIFECYCLE, (0.5, 0.3)),
    (RECIPE, (0.5, 0.4)),
    (STAGED, (0.6, 0.9)),
    (PARALLEL, (0.5, 0.3)),
    (REMINDED, (0.5, 0.3)),
    (RESTARTED, (0.5, 0.4)),
)
QUICK = (STAGES[4],)
# Another workflow, whose files are put into a run's folder.
STRANGE = TOLERANT


def name_of(value: object) -> str | None:
    return value.name if isinstance(value, Shape) else ""


def damage_everything(
    shape: Shape, shares: tuple[float, float], every: int, top: Path, lanes: Lanes
) -> None:
    """Each file of the stage, at every so-manieth byte and length, and as a whole."""
    chance = random.Random(seed_of(f"damage of {shape.name}"))
    with lanes.one() as lane:
        stage = make_stage(shape, shares, top, lane)
        strange = make_stage(STRANGE, (0.5, 0.3), top / "strange", lane).trial
    damages = [*replacements(stage, strange), *shuffles(stage)]
    for name in FILES:
        damages += flips(stage, name, every, chance)
        damages += cuts(stage, name, every, chance)
    told = judge_all(stage, damages, lanes, chance, more=300 // every)
    assert told.keys() >= {"resumed", "repaired", "refused"}, told
    eyes = Eyes(stage)
    for damage in chance.sample(damages, min(len(damages), 3000 // every)):
        eyes.look(damage)


@pytest.mark.parametrize(("shape", "shares"), QUICK, ids=name_of)
def test_damaged_files_lead_to_no_wrong_continuation(
    shape: Shape, shares: tuple[float, float], quick_top: Path, lanes: Lanes
) -> None:
    damage_everything(shape, shares, 60, quick_top, lanes)


@pytest.mark.soak
@pytest.mark.parametrize(("shape", "shares"), STAGES, ids=name_of)
def test_files_damaged_at_every_byte_lead_to_no_wrong_continuation(
    shape: Shape, shares: tuple[float, float], quick_top: Path, lanes: Lanes
) -> None:
    damage_everything(shape, shares, 1, quick_top, lanes)
