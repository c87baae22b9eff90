"""The judge: was anything lost, done twice, or decided otherwise because of a kill?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.promises.trials import Left, Line, Trial, sealed_state


def check_moment(trial: Trial) -> list[dict[str, Any]]:
    """Right after a kill: what a reader finds is whole. The events that were recorded by then."""
    for root in trial.roots():
        sealed_state((root / "state.json").read_bytes())
    latest = trial.workspace / ".orchestrate" / "runs" / "latest"
    assert not latest.is_symlink() or latest.exists(), "latest leads nowhere"
    return trial.events()


def check_nothing_lost(before: list[dict[str, Any]], trial: Trial) -> None:
    """What was recorded stays recorded, in its place."""
    after = trial.events()
    assert after[: len(before)] == before, f"recorded events are gone: {before} / {after}"


def check_same(
    reference: Left, found: Left, lost: set[str], *, is_ordered: bool = True, by_deeds: bool = False
) -> None:
    """A run that was killed and resumed did what an undisturbed one does.

    Only attempts that were reported as lost may have left lines beyond that. Steps that run at the
    same time come in any order. Where the journal was damaged, only the deeds tell (`by_deeds`): an
    item whose file was moved, but whose move is not on record, is told as gone.
    """
    _check_no_twins(found.ledger)
    kept = [line for line in found.ledger if line.attempt not in lost]
    order = list if is_ordered else sorted
    wanted, had = order(_deeds(reference.ledger)), order(_deeds(kept))
    assert had == wanted, _difference(wanted, had)
    assert found.code == reference.code, f"exit code {found.code}"
    # A turn that was lost may have cost something, and counts as one that did not say what; the
    # next one in its session is told that it was cut off, and its prompt is longer by that note.
    untold = {"lifecycle"} if by_deeds else set()
    untold |= {"costs", "prompt_length"} if lost else set()
    # A call of an agent that was lost was made all the same.
    more_calls = _calls_in(found) - _calls_in(reference)
    assert 0 <= more_calls <= len(lost), f"{more_calls} calls more, {len(lost)} attempts lost"
    untold |= {"calls"} if more_calls else set()
    assert _without(untold, found.state) == _without(untold, reference.state)
    if not by_deeds:
        decisions = [order(map(repr, left.decisions)) for left in (reference, found)]
        assert decisions[0] == decisions[1]
    assert found.files == reference.files


def _calls_in(left: Left) -> int:
    engine: dict[str, Any] = left.state.get("engine", {})
    return int(engine.get("calls", 0))


def check_nothing_repeated(trial: Trial) -> None:
    """The step that was cut off may leave what it likes; no other was started again."""
    kept = [line for line in trial.lines() if line.attempt not in trial.lost()]
    started = [(line.step, line.item) for line in kept if line.kind == "start"]
    assert len(started) == len(set(started)), f"started again: {started}"
    assert len(trial.lost()) == 1, f"more than what ran was lost: {trial.lost()}"


def _without(names: set[str], value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(names, v) for key, v in value.items() if key not in names}
    if isinstance(value, list):
        return [_without(names, inner) for inner in value]
    return value


def _check_no_twins(lines: list[Line]) -> None:
    """Never two processes for one attempt, never two live attempts of one step."""
    twice = [line for line in lines if line.kind == "twice"]
    assert not twice, f"two live attempts: {twice}"
    for kind in ("start", "end"):
        attempts = [line.attempt for line in lines if line.kind == kind]
        doubled = {attempt for attempt in attempts if attempts.count(attempt) > 1}
        assert not doubled, f"{kind}ed twice: {doubled}"


def _deeds(lines: list[Line]) -> list[tuple[str, str, str, str]]:
    return [(line.kind, line.step, line.item, line.code) for line in lines]


def _difference(wanted: list[Any], had: list[Any]) -> str:
    same = next(
        (i for i, (a, b) in enumerate(zip(wanted, had, strict=False)) if a != b),
        min(len(wanted), len(had)),
    )
    return f"from line {same} on: expected {wanted[same:]}, found {had[same:]}"


def leftovers(root: Path) -> list[str]:
    """Temporary files that a finished run has left in its folder."""
    return [path.name for path in root.rglob("*.tmp")]
