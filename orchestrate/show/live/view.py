"""The thread that draws: lines that stay above, the moving part below, and never in the run's way.

The cursor rests at the first column of the moving part's first line. From there it can be drawn
over after any resize, whether or not the terminal wraps old lines anew. The cursor is not hidden
and no mode of the terminal stays changed: after a kill there is nothing to restore.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from contextlib import suppress
from types import FrameType

from orchestrate.record import replace
from orchestrate.show.live.drawing import Pen
from orchestrate.show.live.picture import Artist, Row, passed
from orchestrate.show.live.screen import Screen
from orchestrate.show.live.tails import Tails
from orchestrate.state.events import AttemptEnded, Event, StepFinished, StepStarted
from orchestrate.state.model import RunState
from orchestrate.transcript import TranscriptOf
from orchestrate.view.watched_run import WatchedRun

# At most this often, however much happens; and this often when nothing does but the clock's ticking
# and the programs' talking.
_BETWEEN_S = 0.15
_LOOK_EVERY_S = 0.5
# A conversation has several questions: the view comes back when no other one follows at once.
_AFTER_QUESTION_S = 0.3
_PATIENCE_S = 1.0
# From here on it is worth a word that a program says nothing.
SILENT_S = 10.0
_LONG_SILENT_S = 120.0
_ACTIVITIES = {"tool": "a tool runs", "model": "the model writes"}
_STOPPING = "stopping: its programs are being ended (Ctrl-C again: at once)"
# Lines that a stopped terminal does not take are dropped in the end; the log has them.
_MOST_KEPT = 4 * 1024 * 1024
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_ERASE_LINE, _ERASE_BELOW = "\x1b[K", "\x1b[J"


class View:
    """A run, drawn until it is closed. `take` is where `note` and `answer` go meanwhile."""

    def __init__(self, told: WatchedRun, transcript_of: TranscriptOf, foot: str = "") -> None:
        self._told = told
        self._artist = Artist(told.index)
        self._tails = Tails(told.run.logs, transcript_of)
        self._foot = foot
        self._screen = Screen()
        self._kept: list[str] = []
        self._kept_size = 0
        self._keeping = threading.Lock()
        self._has_news = True
        self._is_paused = False
        self._is_standing_still = threading.Event()
        self._not_before = 0.0
        self._is_in_line = False
        # Set by a caller that does not wait for the next drawing.
        self._hurry = threading.Event()
        self._is_closing = False
        self._is_over = False
        self._drawn: tuple[list[str], tuple[int, int]] | None = None
        self._read, self._write = os.pipe()
        for descriptor in (self._read, self._write):
            os.set_blocking(descriptor, False)
        self._thread = threading.Thread(target=self._work, name="view", daemon=True)
        self._thread.start()
        self._hears_suspension = _is_suspension_ours()
        if self._hears_suspension:
            signal.signal(signal.SIGTSTP, self._suspend)

    # What the run's own threads call: nothing here waits for the terminal.

    def hear(self, event: Event, _: RunState | None = None) -> None:
        """Something happened in the run."""
        if isinstance(event, StepStarted):
            self._artist.began[event.frame] = event.at
        elif isinstance(event, StepFinished | AttemptEnded):
            self._artist.began.pop(event.frame, None)
        if not self._has_news:
            self._has_news = True
            self._wake()

    def stopping(self) -> None:
        """Called from a signal handler: no locks here, nothing that waits."""
        self._foot = _STOPPING
        self._has_news = True
        self._wake()

    def take(self, text: str) -> bool:
        """Take text that stays above the moving part; False if it is to be written as usual."""
        with self._keeping:
            if self._is_paused or self._is_over:
                return False
            if self._kept_size < _MOST_KEPT:
                self._kept.append(text)
                self._kept_size += len(text)
        self._wake()
        return True

    def pause(self) -> None:
        """Stand still, with all that was said on the screen: a question is asked now."""
        with self._keeping:
            if self._is_over:
                return
            self._is_standing_still.clear()
            self._is_paused = True
        self._hurry.set()
        self._wake()
        self._is_standing_still.wait(_PATIENCE_S)

    def go_on(self, *, is_at_line_start: bool) -> None:
        """Move again; the answer was typed with its line break, or it was not."""
        self._is_in_line = not is_at_line_start
        self._not_before = time.monotonic() + _AFTER_QUESTION_S
        with self._keeping:
            self._is_paused = False
        self._hurry.clear()
        self._wake()

    def close(self) -> None:
        """Draw the run as it ended, and let go of the terminal."""
        self._is_closing = True
        self._hurry.set()
        self._wake()
        self._thread.join(2 * _PATIENCE_S)
        if self._hears_suspension:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        if not self._thread.is_alive():
            for descriptor in (self._read, self._write):
                os.close(descriptor)

    def _suspend(self, number: int, _: FrameType | None) -> None:
        """Ctrl-Z: the shell goes on below our picture, which is drawn anew when we go on."""
        drawn = self._drawn
        self._screen.go_below(len(drawn[0]) if drawn is not None else 0)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        # Here we stand still until `fg` or `bg`.
        signal.signal(number, self._suspend)
        self._drawn = None
        self._has_news = True
        self._wake()

    def _wake(self) -> None:
        # When the pipe is full it is awake anyhow. At the end the descriptor may be another's.
        if not self._is_over:
            with suppress(OSError):
                os.write(self._write, b"!")

    # The thread.

    def _work(self) -> None:
        try:
            self._pen = Pen(self._screen.encoding)
            while not self._is_closing and not self._screen.is_gone:
                if self._is_paused:
                    self._stand_still()
                else:
                    self._draw()
                self._rest()
            self._draw_last()
        except Exception as error:  # noqa: BLE001  a view that fails must not end a run
            self._fail(error)
        finally:
            with self._keeping:
                self._is_over = True
                self._is_standing_still.set()
            self._screen.close()

    def _rest(self) -> None:
        """Until something happens, or it is time to look at the clock and the outputs."""
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        self._clear_wakes()
        if self._is_paused or not (self._has_news or self._kept):
            poll.poll(_LOOK_EVERY_S * 1000)
        # Much may be happening: what comes in the meantime is drawn together.
        self._hurry.wait(_BETWEEN_S)
        self._screen.push()

    def _clear_wakes(self) -> None:
        try:
            while len(os.read(self._read, 4096)) == 4096:
                pass
        except BlockingIOError:
            pass

    def _draw(self) -> None:
        if not self._screen.is_clear or time.monotonic() < self._not_before:
            return
        if not self._screen.is_in_front:
            self._say_plainly()
            return
        width, height = self._screen.size
        self._has_news = False
        lines = self._lines(width, max(1, height - 1))
        said = self._said()
        if not said and self._drawn == (lines, (width, height)):
            return
        self._drawn = (lines, (width, height))
        back = f"\x1b[{len(lines) - 1}A" if len(lines) > 1 else ""
        self._screen.write(self._above(said) + _moving(lines) + back + "\r")

    def _draw_last(self) -> None:
        """The run as it ended stays, and the cursor stands below it."""
        width, height = self._screen.size
        self._foot = ""
        lines = self._lines(width, max(1, height - 1))
        said = self._said(is_last=True)
        if self._screen.is_in_front:
            self._screen.write(self._above(said) + _moving(lines) + "\n")
        else:
            self._screen.write(said)
        self._screen.finish(_PATIENCE_S)

    def _stand_still(self) -> None:
        if not self._is_standing_still.is_set():
            self._drawn = None
            self._screen.write("\r" + _ERASE_BELOW + self._said(is_last=True))
            self._screen.finish(_PATIENCE_S)
            self._is_standing_still.set()

    def _say_plainly(self) -> None:
        """In the background lines are written as any job writes them, and nothing moves."""
        self._drawn = None
        said = self._said()
        if said:
            self._screen.write(said)

    def _said(self, *, is_last: bool = False) -> str:
        """The lines that are to stay; half a line waits for its other half, but not for ever."""
        with self._keeping:
            text = "".join(self._kept)
            end = len(text) if is_last else text.rfind("\n") + 1
            self._kept = [text[end:]] if end < len(text) else []
            self._kept_size = len(text) - end
        return text[:end]

    def _above(self, said: str) -> str:
        """Lines that stay take the place of the moving part, which is drawn anew below them."""
        # A question without an answer leaves the cursor behind it.
        start = "\n" if self._is_in_line else "\r"
        self._is_in_line = False
        return start + (_ERASE_BELOW + said if said else "")

    def _lines(self, width: int, height: int) -> list[str]:
        now = time.time()
        room = height - 1 if self._foot and height > 4 else height
        rows = self._told.look(lambda state: self._artist.picture(state, now, room))
        self._tails.forget_all_but([row.program for row in rows if row.program is not None])
        rows = [self._with_words(row, now) for row in rows]
        if room < height:
            rows.append(Row(0, "more", self._foot))
        return self._pen.lines(rows, max(1, width - 1), height)

    def _with_words(self, row: Row, now: float) -> Row:
        """The row with what its program said last, or for how long it has said nothing."""
        if row.program is None:
            return row
        tail = self._tails.of(row.program, now)
        is_silent = tail.silent_s is not None and tail.silent_s >= SILENT_S
        # Of a silent program it is not known that its model is at work; a tool that runs is.
        if tail.activity == "tool" or (tail.activity and not is_silent):
            row = replace(row, facts=(*row.facts, (_ACTIVITIES[tail.activity], "weak")))
        if tail.silent_s is None or not is_silent:
            return replace(row, words="\n".join(tail.lines) or tail.words)
        how = "silent for" if tail.has_spoken else "no output for"
        is_long = tail.silent_s >= _LONG_SILENT_S
        fact = (f"{how} {passed(tail.silent_s)}", "warn" if is_long else "weak")
        words = "\n".join(tail.lines) or tail.words
        return replace(row, words=words, facts=(*row.facts, fact))

    def _fail(self, error: Exception) -> None:
        said = self._said(is_last=True)
        words = f"orchestrate: the live view has failed ({type(error).__name__}); the run goes on\n"
        self._screen.write("\r" + _ERASE_BELOW + said + words)
        self._screen.finish(_PATIENCE_S)


def _is_suspension_ours() -> bool:
    """Signals are for the main thread, and one that is ignored stays ignored."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL


def _moving(lines: list[str]) -> str:
    """Each line erases what is left of the old one; a screen that is erased whole would flicker."""
    drawn = (_ERASE_LINE + "\n").join(lines)
    return _NO_WRAP + drawn + _ERASE_LINE + _ERASE_BELOW + _WRAP
