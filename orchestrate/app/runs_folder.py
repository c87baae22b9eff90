"""Where the runs of a workspace are, for commands that name a run or list them."""

from __future__ import annotations

from orchestrate.app.config import load_config, runs_folder
from orchestrate.app.config_lenient import config_for_looking
from orchestrate.app.definition import workspace_of
from orchestrate.state.runs import Runs
from orchestrate.view.place import Place


def runs_of(place: Place, *, is_looking: bool = False) -> Runs:
    """The folder of the runs: where the user said, or the configuration, or the workspace's.

    For commands that only look, the rest of the configuration may be wrong.
    """
    workspace = workspace_of(place.working_dir)
    given = place.state_dir
    config = config_for_looking(workspace, given) if is_looking else load_config(workspace)
    return runs_folder(workspace, config, given)
