"""`orchestrate inbox` and `answer`: what waits for a person in all workspaces, and the answers."""

from __future__ import annotations

import click

from orchestrate.app.deciding.answer import answer_question
from orchestrate.app.deciding.inbox import all_workspaces, open_elsewhere, open_inbox
from orchestrate.cli.later import answer_later
from orchestrate.cli.options import diff_option, json_option
from orchestrate.errors import UsageError
from orchestrate.exits import ABANDONED, DONE
from orchestrate.show.inbox_text import (
    answered_json,
    answered_text,
    gone_text,
    question_json,
    question_text,
)
from orchestrate.show.output import answer as tell
from orchestrate.show.output import answer_json, note

_fetch_published = answer_later("fleet.away:fetch_published")


@click.command(short_help="List what waits for you, in all workspaces.")
@diff_option
@json_option
def inbox(with_hunks: bool, as_json: bool) -> int:
    """List what waits for you, oldest first, in all workspaces that you have run something in.

    Gates, steps that were lost, limits that parked a run, and questions; each with what the last
    step answered, the files that changed as git tells, the cost so far, and what happens after
    each answer.
    """
    workspaces = all_workspaces()
    away = open_elsewhere(workspaces)
    if away:
        _fetch_published(away)
    found = open_inbox(workspaces, note, with_hunks=with_hunks)
    if as_json:
        questions = [question_json(question) for question in found.questions]
        answer_json({"questions": questions, "gone": list(found.gone)})
        return 0
    tell("\n".join(question_text(question) for question in found.questions))
    if not found.questions:
        tell("Nothing waits for you.\n")
    if found.gone:
        note(gone_text(found.gone))
    return 0


@click.command(short_help="Answer a question of the inbox.")
@click.argument("question", metavar="ID")
@click.argument("value", metavar="VALUE")
@click.option("-m", "--message", default="", metavar="TEXT",
              help="A message with a decision; later steps read it.")  # fmt: skip
@click.option("--no-resume", "stays", is_flag=True,
              help="Record the answer; leave the run as it is.")  # fmt: skip
@json_option
def answer(question: str, value: str, message: str, stays: bool, as_json: bool) -> int:
    """Answer a question: ID and VALUE are as `orchestrate inbox` shows them.

    ID stands for the question and for what was shown of it: if that has changed, the answer is
    refused. The first answer counts: the same one again is told as such, another one is refused.
    A parked run that waits for nothing else goes on in the background.
    """
    question_id, _, digest = question.rpartition(".")
    if "." not in question_id:
        raise UsageError(
            f"'{question}' is not the id of a question", "take it from: orchestrate inbox"
        )
    given = answer_question(
        all_workspaces(), question_id, digest, value, message, note, goes_on=not stays
    )
    if as_json:
        answer_json(answered_json(given))
    else:
        tell(answered_text(given))
    return ABANDONED if given.stays else DONE
