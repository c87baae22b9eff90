"""Both values of what has changed in a step's question, as far as the run keeps them.

A key has digests only. What was filled in is looked for in the journal, and shown if it is the
value whose digest is in the key; what the author wrote is in the copies of the definition that a
run keeps, one for each edit. Secrets are masked in all of them.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrate.digest import digest_of
from orchestrate.errors import StateError
from orchestrate.state import events as on
from orchestrate.state.address import Address, name_of_node
from orchestrate.state.durable import dump_json, read_file
from orchestrate.state.earlier import Earlier, EarlierVisit, turn_of
from orchestrate.state.lineage import origin_journals
from orchestrate.state.plan_file import FILE, edit_folder, read_documents, read_plan_file
from orchestrate.state.recorded import read_events
from orchestrate.state.result import StepResult

if TYPE_CHECKING:
    from orchestrate.state.events import Event
    from orchestrate.state.runs import Run

Json = dict[str, Any]
# What lies in a step or a file beside what is asked there.
_OTHERS = (
    "name", "id", "label", "description", "version", "steps", "stages", "initialStep", "context",
    "prompt", "on", "onOutcome", "timeout", "timeout_sec", "retry", "retries",
)  # fmt: skip


class Values:
    """The values of a run `before` its last edit and `now`."""

    def __init__(self, run: Run, before: Earlier, now: Earlier) -> None:
        self._run = run
        self._now = now
        self._entries = [*before.entries.values(), *now.void, *now.entries.values()]

    def of(
        self, part: str, digests: Any, old: EarlierVisit | None, new: EarlierVisit
    ) -> Iterator[Json]:
        """Both sides of a part that changed, by their digests and, where they are kept, as they
        are; of what was filled in one after another."""
        if part != "inputs":
            yield {"part": part, **_sides(digests), **self._shown(part, digests, old, new)}
            return
        for name, pair in digests.items():
            known = self._filled_in(name, {*pair} - {""})
            texts = _both(known.get, *pair)
            yield {"part": part, "name": name, **_sides(pair), **texts}

    def _shown(self, part: str, digests: Any, old: EarlierVisit | None, new: EarlierVisit) -> Json:
        if part == "session":
            return _both(self._turn, *digests)
        if old is None:
            return {}
        if part == "prompt":
            return _with_diff(_both(self._prompt, old, new))
        texts = _both(_command_of, old, new) if part in ("argv", "script") else {}
        return texts or self._written(old, new)

    def _prompt(self, entry: EarlierVisit) -> str:
        return prompt_sent(self._run, log_of(_result_of(entry)) or entry.address.log_name())

    def _turn(self, digest: str) -> str:
        """The turn that came before in the session, by its step."""
        if not digest:
            return "first turn of its session"
        found = (entry for entry in self._entries if entry.key and turn_of(entry.key) == digest)
        return next((f"behind {entry.name} ({digest})" for entry in found), "")

    def _filled_in(self, name: str, digests: set[str]) -> dict[str, str]:
        """The values with these digests that the name can have stood for at any time."""
        path = name.split(".")
        found: dict[str, str] = {"": "undefined"}
        journals = [*(place for _, place in origin_journals(self._run)), self._run.events]
        for recorded in (one for journal in journals for one in read_events(journal)):
            for value, rest in _named(recorded.event, path):
                with suppress(LookupError, ValueError, TypeError):
                    inner = _descend(value, rest)
                    if (digest := digest_of(inner)) in digests:
                        found[digest] = _text(inner)
        return found

    def _written(self, old: EarlierVisit, new: EarlierVisit) -> Json:
        """What the author has otherwise: in the step, else in its file, else for its agent."""
        places: tuple[Callable[[EarlierVisit], Json], ...] = (self._step, self._file, self._agents)
        for fields_of in places:
            before, after = fields_of(old), fields_of(new)
            names = [n for n in before | after if before.get(n) != after.get(n)]
            if names:
                return _both(partial(_lines, names), before, after)
        return {}

    def _step(self, entry: EarlierVisit) -> Json:
        return _fields(_find(self._document(entry), entry.name))

    def _file(self, entry: EarlierVisit) -> Json:
        return _fields(self._document(entry))

    def _agents(self, entry: EarlierVisit) -> Json:
        """What the files of the named agents said."""
        with suppress(StateError):
            agents: Json = (read_plan_file(self._root(entry) / FILE) or {}).get("agents", {})
            return agents
        return {}

    def _document(self, entry: EarlierVisit) -> Json:
        documents = read_documents(self._root(entry))
        plan = self._now.called_plan(entry.path) or next(iter(documents), "")
        document: Json = documents.get(plan, {})
        return document

    def _root(self, entry: EarlierVisit) -> Path:
        """Where there is what the run, or the one that it is a fork of, was made of then."""
        of_run = _result_of(entry).from_run
        home = self._run.root.parent / of_run if of_run else self._run.root
        return edit_folder(home, entry.edit)


def prompt_sent(run: Run, log: str) -> str:
    """The prompt of an attempt, by the name of its log; it was masked when it was kept."""
    return (read_file(run.logs / f"{log}.prompt.txt") or b"").decode("utf-8", "replace")


def log_of(result: StepResult) -> str:
    """What the logs of a step's last attempt are called; '' if it had none."""
    named = Address.parse(result.address).log_name() if result.address else ""
    return result.log or named


def lines_that_differ(before: str, after: str) -> list[str]:
    """The difference of two texts as `diff` shows it, without its head."""
    rows = difflib.unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=1)
    return list(rows)[2:]


def _sides(digests: Any) -> Json:
    return {"before": digests[0], "after": digests[1]}


def _both(look: Callable[[Any], str | None], old: Any, new: Any) -> Json:
    """Both texts; nothing where one of them is not known."""
    before, after = look(old), look(new)
    return {"before_text": before, "after_text": after} if before and after else {}


def _with_diff(texts: Json) -> Json:
    if not texts:
        return {}
    return texts | {"diff": lines_that_differ(texts["before_text"], texts["after_text"])}


def _result_of(entry: EarlierVisit) -> StepResult:
    return entry.finished.result if entry.finished is not None else StepResult()


def _command_of(entry: EarlierVisit) -> str:
    about = entry.started.about if entry.started is not None else StepResult()
    return command_of(_result_of(entry)) or command_of(about)


def command_of(result: StepResult) -> str:
    """The command of a step in one line; '' if it was none, or has not begun."""
    return " ".join(result.debug.command) if result.debug is not None else ""


def _named(event: Event, path: list[str]) -> Iterator[tuple[Any, list[str]]]:
    """Values of an event that a path may begin with, each with the rest of the path."""
    head, rest = path[0], path[1:]
    is_variable = head in ("context", "var") and bool(rest)
    match event:
        case on.RunStarted() | on.Edited() | on.RunResumed() | on.CallOpened() if is_variable:
            yield event.context.get(rest[0]), rest[1:]
        case on.LoopOpened():
            yield from ((item, rest[1:] if is_variable else rest) for item in event.items)
        case on.StepFinished() if head == "steps" and rest[:1] == [name_of_node(event.node)]:
            yield event.result.to_json(), rest[1:]
        case on.StepFinished() if is_variable:
            result = event.result.to_json()
            yield from ((result.get(name), rest[1:]) for name in ("json", "output", "lines"))
        case on.RunStarted() | on.Edited() | on.RunResumed() | on.CallOpened() | on.StepFinished():
            pass
        case (
            on.StepStarted() | on.AttemptEnded() | on.GateOpened() | on.GateDecided()
            | on.ItemMoving() | on.ItemMoved() | on.ItemsMerged() | on.ItemStopped()
            | on.RoundEnded() | on.CallExpired() | on.CallWaits() | on.Restarted()
        ):  # fmt: skip
            pass
        case (
            on.RunEnded() | on.Gap() | on.OutputsGiven() | on.SessionSeen() | on.SessionChosen()
            | on.CostReserved() | on.LimitNear() | on.Checkpointed()
        ):  # fmt: skip
            pass


def _descend(value: Any, path: Iterable[str]) -> Any:
    for name in path:
        value = value[int(name) if isinstance(value, list) else name]
    return value


def _find(document: Any, name: str) -> Json:
    """The step of that name, wherever it stands in a file."""
    inner: Iterable[Any] = document if isinstance(document, list) else ()
    if isinstance(document, dict):
        steps: Any = document.get("steps")
        if isinstance(steps, dict) and isinstance(steps.get(name), dict):
            return dict(steps[name])
        if name in (document.get("name"), document.get("id")) and steps is None:
            return document
        inner = document.values()
    return next((found for one in inner if (found := _find(one, name))), {})


def _fields(document: Json) -> Json:
    return {name: value for name, value in document.items() if name not in _OTHERS}


def _lines(names: list[str], fields: Json) -> str:
    return "\n".join(f"{n}: {_text(fields[n])}" for n in names if n in fields) or "(nothing)"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else dump_json(value).decode("ascii").strip()
