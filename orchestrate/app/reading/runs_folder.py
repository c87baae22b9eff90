"""Where the runs of a workspace are, for commands that name a run or list them."""

from __future__ import annotations

from orchestrate.app.config.lenient import Tell, config_told
from orchestrate.app.config.load import runs_folder
from orchestrate.app.workspaces import workspace_of
from orchestrate.state.runs import Runs
from orchestrate.view.place import Place


def runs_of(place: Place, *, tell_fault: Tell | None = None) -> Runs:
    """The folder of the runs: where the user said, or the configuration, or the workspace's.

    For commands that only look, the rest of the configuration may be wrong:
    `tell_fault` hears of it.
    """
    workspace = workspace_of(place.working_dir)
    given = place.state_dir
    config = config_told(workspace, given, tell_fault)
    return runs_folder(workspace, config, given)
