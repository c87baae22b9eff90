"""With --verbose: what the agents at work say and do, line by line, as they do it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.show.heartbeat import AtWork, programs_in
from orchestrate.show.output import note
from orchestrate.show.recurring import Recurring
from orchestrate.show.transcript_text import PassageLines
from orchestrate.state.address import log_name_in
from orchestrate.view.transcripts import TurnFollower

if TYPE_CHECKING:
    from orchestrate.state.result import StepResult
    from orchestrate.transcript import Passage, TranscriptOf
    from orchestrate.view.watched_run import WatchedRun

_EVERY_S = 1.0


class _Turn:
    """A turn that is told; its last words are held back where they are printed as the answer."""

    def __init__(self, label: str, follower: TurnFollower, *, holds: bool) -> None:
        self._label = label
        self.follower = follower
        self._holds = holds
        self._held: list[Passage] = []
        self._lines = PassageLines()

    def tell(self, passages: list[Passage], *, is_over: bool = False) -> None:
        if self._holds:
            passages = self._held + [p for p in passages if not (p.is_open and p.kind == "said")]
            self._held = passages[-1:] if passages and passages[-1].kind == "said" else []
            passages = passages[: len(passages) - len(self._held)]
        if is_over:
            self.follower.close()
        for line in self._lines.of(passages):
            note(f"{self._label}: {line}\n")


class Narrator:
    """Tells the transcripts of the agents at work until it is closed."""

    def __init__(
        self,
        store: WatchedRun,
        label: Callable[[str, str], str],
        transcript_of: TranscriptOf,
        *,
        holds_answers: bool,
    ) -> None:
        self._store = store
        self._label = label
        self._transcript_of = transcript_of
        self._holds = holds_answers
        self._turns: dict[str, _Turn] = {}
        # A step ends in another thread than the one that looks.
        self._telling = threading.Lock()
        self._thread = Recurring("narrator", _EVERY_S, self._look)

    def close(self) -> None:
        self._thread.close()
        with self._telling:
            for turn in self._turns.values():
                turn.follower.close()

    def ends(self, label: str, result: StepResult) -> None:
        """An attempt is over: the rest of what it did, before its end is told."""
        log = log_name_in(result)
        with self._telling:
            turn = self._turns.pop(log, None) or self._begin(log, label, result.backend)
            if turn is not None:
                self._catch_up(turn)
                turn.tell(turn.follower.finish(), is_over=True)

    def _look(self) -> None:
        at_work = self._store.look(lambda state: programs_in(state, self._store.index, self._label))
        with self._telling:
            for one in at_work:
                turn = self._turns.get(one.program.log) or self._know(one)
                if turn is not None:
                    self._catch_up(turn)

    def _know(self, one: AtWork) -> _Turn | None:
        turn = self._begin(one.program.log, one.label, one.program.backend)
        if turn is not None:
            self._turns[one.program.log] = turn
        return turn

    def _begin(self, log: str, label: str, backend: str) -> _Turn | None:
        transcript = self._transcript_of(backend) if log and backend else None
        if transcript is None:
            return None
        path = self._store.run.logs / f"{log}.stdout"
        return _Turn(label, TurnFollower(path, transcript), holds=self._holds)

    def _catch_up(self, turn: _Turn) -> None:
        while passages := turn.follower.news():
            turn.tell(passages)
