"""Tells the person or program at the command line about a run, and asks the person."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from orchestrate.app.listeners import listen_safely
from orchestrate.app.reporter import Operator, Person, Reporter, Stop
from orchestrate.app.transcripts import transcripts_of
from orchestrate.app.worktrees import unmerged
from orchestrate.cli.group import later
from orchestrate.cli.notes import Notes
from orchestrate.cli.terminal import AtTerminal, has_terminal, read_line
from orchestrate.errors import OrchestrateError
from orchestrate.installation import replacement_of
from orchestrate.plan.visible import visible
from orchestrate.show.event_lines import denied_more
from orchestrate.show.event_stream import EventStream
from orchestrate.show.last_words import first_words, last_words
from orchestrate.show.output import answer, answer_json, note
from orchestrate.show.progress import Progress
from orchestrate.show.worktree_words import worktree_words
from orchestrate.state.address import shown_path
from orchestrate.state.model import frames_below
from orchestrate.state.result import StepResult
from orchestrate.state.times import local_time, timestamp
from orchestrate.state.worktree import ready_file, worktree_of
from orchestrate.view.event_words import retry_number, retry_reason
from orchestrate.view.result_document import result_document
from orchestrate.workspace import open_workspace

if TYPE_CHECKING:
    from orchestrate.cli.detach import Departure
    from orchestrate.exits import Ending
    from orchestrate.state.runs import Run
    from orchestrate.state.store import Store
    from orchestrate.state.worktree import Worktree
    from orchestrate.view.watching import Watching
    from orchestrate.workspace import Workspace

# Of a run that works in a seat of a pool.
_publisher_of: Callable[..., Any] = later("away:publisher_of")


def _left_in(tree: Worktree) -> tuple[int, int] | None:
    """The files and commits that only the worktree has; None if git cannot say."""
    try:
        left = unmerged(tree)
    except OrchestrateError:
        return None
    return (left.files, left.commits) if left.is_there else None


class CommandLine(Notes, Reporter):
    """Shows a run as the flags of the command ask for it."""

    def __init__(self, watching: Watching, departure: Departure | None = None) -> None:
        Notes.__init__(self, is_quiet=watching.quiet)
        Reporter.__init__(self, watching.place)
        self._watching = watching
        self._departure = departure

    def begins(self, store: Store, what: str, workspace: Workspace, *, is_resumed: bool) -> None:
        note(first_words(store.run.id, what, is_resumed=is_resumed))
        # A run that works elsewhere than in the current folder says so (rulings §1).
        if os.path.realpath(os.getcwd()) != str(workspace.root):
            self.detail(f"  it works in {visible(str(workspace.root))}\n")

    def started(self, run: Run) -> None:
        if self._departure is not None:
            self._departure.started(run)

    def asks(self, lines: list[str]) -> None:
        self.detail("".join(f"  {line}\n" for line in lines))

    def rests(self, store: Store, now: float) -> None:
        """Steps whose retry is not due yet: else a resume would be silent, for hours perhaps."""
        for frame in frames_below(store.state.root):
            here = frame.here
            if here is None or here.phase != "resting" or here.rest_until <= now:
                continue
            name = store.index.here(frame).node.name
            result = frame.steps.get(name, StepResult())
            why = retry_reason(result).removeprefix(": ")
            self.detail(
                f"{visible(shown_path(frame.key, name))} waits until "
                f"{local_time(timestamp(here.rest_until))} for {retry_number(result)}"
                f"{f' ({visible(why)})' if why else ''}; Ctrl-C stops, --retry-delay 0 tries now\n"
            )

    def follow(self, store: Store, stop: Stop) -> Callable[[], None]:
        workspace = open_workspace(store.state.workspace)
        progress = Progress(store, self._watching, transcripts_of(store.run, workspace))
        stream = EventStream() if self._watching.events else None
        if stream is not None:
            listen_safely(store, "events", lambda: stream.begin(store.run), note)
        listen_safely(store, "progress", lambda: progress.hear, note)
        stop.on_request.append(progress.stopping)
        publisher: Any = _publisher_of(store) if store.state.settings.get("seat") else None

        def end() -> None:
            progress.close()
            if publisher is not None:
                publisher.publish("at rest")
            if stream is not None:
                stream.close(is_hurried=stop.is_requested)

        return end

    def ended(self, store: Store, ending: Ending) -> None:
        try:
            self._last_words(store, ending)
        except (ImportError, AttributeError, FileNotFoundError) as error:
            fault = replacement_of(error, store.run.id)
            if fault is None:
                raise
            # The run has ended as it has, whatever becomes of the words about it.
            note(f"run {store.run.id} {ending.status}: {visible(ending.reason)}\n")
            note(f"orchestrate: {visible(fault.message)}\n  hint: {visible(fault.hint)}\n")

    def _last_words(self, store: Store, ending: Ending) -> None:
        watching = self._watching
        if watching.as_json:
            answer_json(result_document(store.run, store.state))
            return
        if store.state.dialect == "machine" and not watching.events:
            # A §9: the exit reason is part of the answer.
            answer(f"Exit: {visible(ending.reason)}{denied_more(store.state)}\n")
        if not watching.quiet or ending.status != "completed" or store.state.denials:
            note(last_words(store, ending, watching.place))
            tree = worktree_of(store.state)
            if tree is not None and ready_file(store.run).exists():
                note(worktree_words(tree, _left_in(tree)))

    def confirm(self, question: str) -> bool | None:
        if not has_terminal() or self._watching.as_json or self._departure is not None:
            return None
        note(f"{question}\n  go on with that? [y/N] ")
        return input().strip().lower() in ("y", "yes")

    def operator(self, stop: Stop) -> Operator:
        """No question is asked without a terminal on both sides, nor where the answer is JSON."""
        return AtTerminal(stop) if has_terminal() and not self._watching.as_json else Operator()

    def person(self, stop: Stop) -> Person:
        return Person(lambda: _line(stop), note, has_terminal())


def _line(stop: Stop) -> str | None:
    line = read_line(stop)
    return line.rstrip("\n") if line else None
