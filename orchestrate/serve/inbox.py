"""What waits for a person, and answers to it: each about the very question that was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orchestrate.app.deciding.answer import (
    AnsweredOtherwise,
    NoSuchQuestion,
    QuestionChanged,
    answer_question,
)
from orchestrate.app.deciding.inbox import open_inbox
from orchestrate.errors import UsageError
from orchestrate.serve.problems import Problem
from orchestrate.show.spending import cost_words
from orchestrate.state.elsewhere import is_shadow
from orchestrate.state.known_workspaces import Known
from orchestrate.view.inbox import InboxQuestion
from orchestrate.view.source_files import shown_definition

if TYPE_CHECKING:
    from orchestrate.serve.console import Console
    from orchestrate.state.runs import Run
    from orchestrate.workspace import Workspace

Json = dict[str, Any]
_WORDS = {"approve": "approved", "deny": "denied"}


def questions(console: Console, *, with_files: bool = True) -> list[InboxQuestion]:
    """All that waits in all workspaces, oldest first; git is asked only `with_files`."""
    known = [Known(one.root, console.runs_of(one).folder) for one in console.workspaces]
    return list(open_inbox(known, lambda _: None, with_files=with_files).questions)


def question_json(one: InboxQuestion) -> Json:
    evidence = one.evidence
    return {
        "id": one.id,
        "digest": one.digest,
        "kind": one.kind,
        "workspace": one.workspace,
        "run_id": one.run_id,
        "recipe": shown_definition(one.definition),
        "about": one.about,
        "text": one.text,
        "since": one.since,
        "expires_at": one.expires_at,
        "default": one.default,
        "at_terminal": one.at_terminal,
        "choices": [{"value": choice.value, "then": choice.then} for choice in one.choices],
        "evidence": {
            "step": evidence.step,
            "answer": evidence.answer,
            "check": evidence.check,
            "files_since": evidence.files_since or None,
            "files": [change.to_json() for change in evidence.files],
            "files_left_out": evidence.files_left_out,
            "files_unknown": evidence.files_unknown,
            "cost": cost_words(evidence.costs) if evidence.costs.turns else "",
        },
    }


def answer(workspace: Workspace, run: Run, asked: Json) -> Json:
    """Record an answer. The same again is `already`; another one is refused with what counted."""
    runs = run.root.parents[3] if is_shadow(run) else run.root.parent
    known = [Known(workspace.root, runs)]
    message = asked.get("message", "")
    try:
        given = answer_question(
            known, asked["question"], asked["digest"], asked["value"], message, lambda _: None,
            goes_on=asked.get("resume", True),
        )  # fmt: skip
    except NoSuchQuestion:
        raise Problem(404, f"run {run.id} has no such question") from None
    except QuestionChanged:
        raise Problem(409, "the question has changed since it was shown; look again") from None
    except AnsweredOtherwise as error:
        winner = {"decision": _WORDS.get(error.value, error.value), "by": error.by}
        raise Problem(409, error.message, winner=winner) from None
    except UsageError as error:
        raise Problem(400, error.message, error.hint) from None
    return {
        "run_id": run.id,
        "decision": _WORDS.get(given.value, given.value),
        "by": given.by,
        "status": given.status,
        "already": given.result == "already",
        # The answer is recorded; that the run cannot go on from here is another matter.
        "resumed": given.went_on is not None,
        "note": given.stays,
    }
