"""What is skipped of a long journal counts all the same."""

from __future__ import annotations

from orchestrate.serve.records import records_after
from orchestrate.serve.telling import ClientMessages
from orchestrate.state.alike import Alike
from orchestrate.state.recorded import read_events
from orchestrate.testing import Project
from orchestrate.view.event_records import EventRecords, skimmed
from tests.serve.test_histories import only_run

ITEMS = 260
LONG = f"""
version: "1.4"
name: long
steps:
  - name: First
    command: ["true"]
  - name: Loop
    for_each:
      items: {list(range(ITEMS))}
      steps:
        - name: One
          command: ["true"]
  - name: Last
    command: ["true"]
"""


def test_records_after_a_number_are_those_of_the_whole(project: Project) -> None:
    project.write("long.yaml", LONG)
    project.run("run", "long.yaml").assert_success()
    run = only_run(project)
    assert any(isinstance(event, Alike) for _, event in skimmed(run))

    records = EventRecords(run)
    whole = [records.record(one.seq, one.event) for one in read_events(run.events)]
    assert whole[-1]["stepCount"] > ITEMS
    # Behind the items that were skipped, among them, and before all of them.
    for after in (len(whole) - 3, len(whole) - 100, 300, 3, 0):
        assert list(records_after(run, after)) == whole[after:]

    told, caught_up = ClientMessages(run), ClientMessages(run)
    for one in read_events(run.events):
        told.tell(one.seq, one.event)
    caught_up.catch_up()
    assert caught_up.heard == len(whole)
    assert caught_up.is_over
    assert caught_up.started() == told.started()
