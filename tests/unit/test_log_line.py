"""Lines of a run's log as people read them."""

from __future__ import annotations

import pytest

from orchestrate.show.log_line import shown_line
from orchestrate.state.times import local_time

STAMP = "2026-11-19T21:45:27.304Z"
KNOWN = "sessionId=14c5 recipeId='build it' step=one stepCount=1 visitCount=1"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            f"[step:started] one (visit 1/3) {KNOWN} outcome=- model=haiku responseLength=-",
            "[step:started] one (visit 1/3) model=haiku",
        ),
        (f"[step:outcome] passed {KNOWN} outcome=passed error=-", "[step:outcome] passed step=one"),
        (
            f"[step:failed] {KNOWN} error='a step=- b' costUsd=0.1",
            "[step:failed] step=one error='a step=- b' costUsd=0.1",
        ),
        (f"[session:seen] {KNOWN} error=-", "[session:seen] sessionId=14c5 step=one"),
        # What a workflow logs is as its fields are.
        ("step-finished Count status=- step=Count", "step-finished Count status=- step=Count"),
    ],
)
def test_a_line_says_what_is_known_and_no_more(line: str, shown: str) -> None:
    assert shown_line(f"{STAMP} INFO  {line}\n") == f"{local_time(STAMP)} INFO  {shown}\n"


def test_what_is_no_line_of_ours_stays_as_it_is() -> None:
    assert shown_line("half a line\n") == "half a line\n"
