"""`orchestrate inbox` and `answer`: what waits for a person in all workspaces, and the answers."""

from __future__ import annotations

import click

from orchestrate.app.answer import Answered, answer_question
from orchestrate.app.inbox import all_workspaces, open_inbox
from orchestrate.cli.options import diff_option, json_option
from orchestrate.errors import UsageError
from orchestrate.exits import ABANDONED, DONE
from orchestrate.plan.visible import visible
from orchestrate.show.inbox_text import question_json, question_text
from orchestrate.show.output import answer as tell
from orchestrate.show.output import answer_json, note
from orchestrate.view.advice import view_flags
from orchestrate.view.place import Place
from orchestrate.view.run_view import run_view

# Of the workspaces that are gone; --json has all of them.
_MOST_GONE = 3


@click.command(short_help="List what waits for you, in all workspaces.")
@diff_option
@json_option
def inbox(with_hunks: bool, as_json: bool) -> int:
    """List what waits for you, oldest first, in all workspaces that you have run something in.

    Gates, steps that were lost, limits that parked a run, and questions; each with what the last
    step answered, the files that changed as git tells, the cost so far, and what happens after
    each answer.
    """
    found = open_inbox(all_workspaces(), note, with_hunks=with_hunks)
    if as_json:
        questions = [question_json(question) for question in found.questions]
        answer_json({"questions": questions, "gone": list(found.gone)})
        return 0
    tell("\n".join(question_text(question) for question in found.questions))
    if not found.questions:
        tell("Nothing waits for you.\n")
    if found.gone:
        what = "a workspace is" if len(found.gone) == 1 else f"{len(found.gone)} workspaces are"
        named = [visible(folder) for folder in found.gone[:_MOST_GONE]]
        more = ["…"] if len(found.gone) > _MOST_GONE else []
        note(f"orchestrate: {what} gone: {', '.join([*named, *more])}\n")
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
        raise UsageError(f"'{question}' is no id of a question", "take it from: orchestrate inbox")
    given = answer_question(
        all_workspaces(), question_id, digest, value, message, note, goes_on=not stays
    )
    if as_json:
        answer_json(_document(given))
    else:
        tell(_words(given))
    return ABANDONED if given.stays else DONE


def _words(given: Answered) -> str:
    run_id, place = given.run.id, Place(given.workspace)
    first = "recorded" if given.result == "recorded" else f"already answered so, by {given.by}"
    text = f"{given.value}: {visible(first)}\n"
    if given.went_on is not None:
        return text + f"run {run_id} goes on; watch: {visible(place.command('attach', run_id))}\n"
    if given.stays:
        command = place.command("resume", run_id, *view_flags(run_view(given.run)))
        return text + (
            f"run {run_id} stays as it is: {visible(given.stays)}\n"
            f"go on with it: {visible(command)}\n"
        )
    return text + f"run {run_id} is {given.status}\n"


def _document(given: Answered) -> dict[str, object]:
    return {
        "question": given.question_id,
        "result": given.result,
        "value": given.value,
        "by": given.by,
        "run_id": given.run.id,
        "workspace": given.workspace,
        "status": given.status,
        "pid": given.went_on,
        "stays": given.stays or None,
    }
