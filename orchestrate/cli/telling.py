"""What the command line tells of a run while it works, and when it has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from orchestrate.app.files.worktrees import left_in
from orchestrate.app.reading.transcripts import transcripts_of
from orchestrate.app.working.listeners import listen_safely
from orchestrate.cli.later import later
from orchestrate.installation import replacement_of
from orchestrate.plan.visible import visible
from orchestrate.show.event_lines import denied_more
from orchestrate.show.event_stream import EventStream
from orchestrate.show.last_words import last_words
from orchestrate.show.output import answer, answer_json, note, stop_answers_if
from orchestrate.show.progress import Progress
from orchestrate.show.worktree_words import worktree_words
from orchestrate.state.worktree import ready_file, worktree_of
from orchestrate.view.result_document import result_document
from orchestrate.workspace import open_workspace

if TYPE_CHECKING:
    from orchestrate.app.working.reporter import Spreader, Stop
    from orchestrate.exits import Ending
    from orchestrate.state.store import Store
    from orchestrate.view.display_options import DisplayOptions


# Of a run that works in a seat of a pool.
_publisher_of: Callable[..., Any] = later("fleet.away:publisher_of")
_spreader_of: Callable[..., Any] = later("fleet.away:spreader_of")


class RunOutput:
    """Tells of one run as the flags of the command ask for it."""

    def __init__(self, store: Store, display: DisplayOptions) -> None:
        self._store = store
        self._display = display
        self._publisher: Any = None

    def follow(self, stop: Stop) -> Callable[[], None]:
        """Tell what happens from here on; what is given ends that."""
        store = self._store
        workspace = open_workspace(store.state.workspace)
        progress = Progress(store, self._display, transcripts_of(store.run, workspace))
        stream = EventStream() if self._display.events else None
        if stream is not None:
            listen_safely(store, "events", lambda: stream.begin(store.run), note)
        listen_safely(store, "progress", lambda: progress.hear, note)
        stop.on_request.append(progress.stopping)
        stop_answers_if(lambda: stop.is_requested)
        publisher: Any = _publisher_of(store) if store.state.settings.get("seat") else None
        self._publisher = publisher

        def end() -> None:
            progress.close()
            if publisher is not None:
                publisher.publish("at rest")
            if stream is not None:
                stream.close(is_hurried=stop.is_requested)

        return end

    def spreader(self, store: Store, stop: Stop) -> Spreader | None:
        """What the run has published is what its items begin with."""
        found: Spreader | None = _spreader_of(store, self._publisher, stop)
        return found

    def tell_end(self, ending: Ending) -> None:
        run_id = self._store.run.id
        try:
            self._last_words(ending)
        except (ImportError, AttributeError, FileNotFoundError) as error:
            fault = replacement_of(error, run_id)
            if fault is None:
                raise
            # The run has ended as it has, whatever becomes of the words about it.
            note(f"run {run_id} {ending.status}: {visible(ending.reason)}\n")
            note(f"orchestrate: {visible(fault.message)}\n  hint: {visible(fault.hint)}\n")

    def _last_words(self, ending: Ending) -> None:
        store, display = self._store, self._display
        if display.as_json:
            answer_json(result_document(store.run, store.state, store.index))
            return
        if store.state.dialect == "machine" and not display.events:
            # A §9: the exit reason is part of the answer.
            answer(f"Exit: {visible(ending.reason)}{denied_more(store.state)}\n")
        if not display.quiet or ending.status != "completed" or store.state.denials:
            note(last_words(store, ending, display.place))
            tree = worktree_of(store.state)
            if tree is not None and ready_file(store.run).exists():
                note(worktree_words(tree, left_in(tree)))
