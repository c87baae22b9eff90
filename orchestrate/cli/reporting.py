"""Tells the person or program at the command line about a run, and asks the person."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from orchestrate.app.working.reporter import Operator, Person, Reporter, Spreader, Stop
from orchestrate.cli.notes import Notes
from orchestrate.cli.terminal import AtTerminal, agrees, has_terminal, read_line
from orchestrate.plan.visible import visible
from orchestrate.show.output import note
from orchestrate.show.resting import resting_lines
from orchestrate.view.source_files import shown_definition

if TYPE_CHECKING:
    from orchestrate.app.starting.detach import Starter
    from orchestrate.cli.telling import RunOutput
    from orchestrate.exits import Ending
    from orchestrate.state.runs import Run
    from orchestrate.state.store import Store
    from orchestrate.view.display_options import DisplayOptions
    from orchestrate.workspace import Workspace


class CommandLine(Notes, Reporter):
    """Shows a run as the flags of the command ask for it."""

    def __init__(self, display: DisplayOptions, starter: Starter | None = None) -> None:
        Notes.__init__(self, is_quiet=display.quiet)
        Reporter.__init__(self, display.place)
        self._display = display
        self._starter = starter
        self._telling: RunOutput | None = None

    def begins(self, store: Store, what: str, workspace: Workspace, *, is_resumed: bool) -> None:
        verb = "resumes" if is_resumed else "starts"
        note(f"run {store.run.id} {verb} {shown_definition(what)} (process {os.getpid()})\n")
        # A run that works elsewhere than in the current folder says so (rulings §1).
        if os.path.realpath(os.getcwd()) != str(workspace.root):
            self.detail(f"  working in {visible(str(workspace.root))}\n")

    def started(self, run: Run) -> None:
        if self._starter is not None:
            self._starter.started(run)

    def asks(self, lines: list[str]) -> None:
        self.detail("".join(f"  {line}\n" for line in lines))

    def rests(self, store: Store, now: float) -> None:
        """Steps whose retry is not due yet: else a resume would be silent, for hours perhaps."""
        for line in resting_lines(store.state, store.index, now):
            self.detail(f"{line}; Ctrl-C stops, --retry-delay 0 tries now\n")

    def follow(self, store: Store, stop: Stop) -> Callable[[], None]:
        # Loaded here, while the keeper of a new run starts, and with all that the end needs.
        from orchestrate.cli.telling import RunOutput

        self._telling = RunOutput(store, self._display)
        return self._telling.follow(stop)

    def spreader(self, store: Store, stop: Stop) -> Spreader | None:
        return self._telling.spreader(store, stop) if self._telling is not None else None

    def ended(self, store: Store, ending: Ending) -> None:  # noqa: ARG002
        if self._telling is not None:
            self._telling.tell_end(ending)

    def confirm(self, question: str) -> bool | None:
        if not has_terminal() or self._display.as_json or self._starter is not None:
            return None
        return agrees(f"{question}\n  go on with that? [y/N] ")

    def operator(self, stop: Stop) -> Operator:
        """No question is asked without a terminal on both sides, nor where the answer is JSON."""
        return AtTerminal(stop) if has_terminal() and not self._display.as_json else Operator()

    def person(self, stop: Stop) -> Person:
        return Person(lambda is_over: _line(stop, is_over), note, has_terminal())


def _line(stop: Stop, is_over: Callable[[], object]) -> str | None:
    line = read_line(stop, is_over=is_over)
    return line.rstrip("\n") if line else None
