"""What commands came to: runs removed, a gate decided, a question answered, files written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from orchestrate.record import field, mutable_record, record

if TYPE_CHECKING:
    from orchestrate.exits import Ending
    from orchestrate.state.runs import Run
    from orchestrate.view.run_summary import RunSummary

# A person may still go on with these, or decide about them: they go only when they are named.
UNFINISHED = ("interrupted", "paused", "unknown")


@mutable_record
class Tidied:
    """What `clean` did, or would do."""

    removed: list[str] = field(default_factory=list)
    in_use: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    # Old enough, but not finished; by id, with how they stand.
    left: dict[str, str] = field(default_factory=dict)
    # Their worktrees have what no other branch has.
    unmerged: list[str] = field(default_factory=list)
    # What stands in the list that is shown before anything is removed.
    shown: list[RunSummary] = field(default_factory=list)
    freed: int = 0


@record
class Decided:
    """What became of a gate, and how its run stands now; `ending` is None while it runs."""

    stage: str
    decision: str
    by: str
    message: str
    status: str
    ending: Ending | None
    # Was it decided just now, and not the same by another process meanwhile?
    is_first: bool = True
    # The gate's node, which tells whether it is a step.
    node: str = ""

    @property
    def asks_more(self) -> bool:
        """Does the run wait for a decision about another gate?"""
        return self.ending is not None and self.ending.kind == "gate"


@record
class Answered:
    """What became of an answer; `went_on` is the process that goes on with the run."""

    result: Literal["recorded", "already"]
    question_id: str
    run: Run
    workspace: str
    value: str
    by: str
    status: str
    went_on: int | None = None
    flags: tuple[str, ...] = ()
    # Why the run does not go on, though no process works on it.
    stays: str = ""


@record
class WrittenFile:
    """What became of a piece: written, or left alone for a reason."""

    path: str
    is_written: bool
    about: str


@record
class ListedRecipe:
    """One recipe as the list shows it; `error` says why it cannot be used."""

    id: str
    path: str
    origin: str
    dialect: str | None
    name: str
    title: str
    description: str
    error: str
    inputs: tuple[str, ...] = ()
