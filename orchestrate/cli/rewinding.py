"""What `rewind` does, apart from its options: these load no compiler."""

from __future__ import annotations

from orchestrate.app.files.rewind import RewindResult
from orchestrate.app.files.rewind import rewind as go_back
from orchestrate.app.reading.open_run import find_stored
from orchestrate.cli.reporting import CommandLine
from orchestrate.cli.terminal import agrees as says_yes
from orchestrate.cli.terminal import has_terminal
from orchestrate.errors import UsageError
from orchestrate.plan.visible import visible
from orchestrate.show.output import answer, answer_json, note
from orchestrate.show.rewind_text import rewind_text
from orchestrate.view.display_options import DisplayOptions
from orchestrate.view.place import Place


def rewind_run(
    run: str, step: str | None, place: Place, *, yes: bool, force: bool, as_json: bool
) -> int:
    """Show what would happen, ask, and do it; without a step, take the last rewind back."""
    _, found, workspace = find_stored(run, place)
    reporter = CommandLine(DisplayOptions(place=place, as_json=as_json))

    def agrees(rewound: RewindResult) -> bool:
        if not as_json:
            note(rewind_text(rewound.to_json(), is_undo=rewound.aim.is_undo))
        if yes:
            return True
        if as_json or not has_terminal():
            raise UsageError("nothing was changed", "without a terminal, agree with --yes")
        return says_yes("Go back? [y/N] ")

    rewound = go_back(found, workspace, reporter, step, force=force, agrees=agrees)
    if as_json:
        answer_json({"run_id": found.id, **rewound.to_json()})
    elif rewound.is_done:
        on = visible(place.command("resume", found.id))
        back = visible(place.command("rewind", found.id, "--undo"))
        answer(f"run {found.id} stands {visible(rewound.aim.words)}\n")
        note(f"  to go on: {on}\n")
        if step is not None:
            note(f"  to undo this: {back}\n")
    else:
        note("nothing was changed\n")
    return 0
