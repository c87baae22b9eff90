"""Brings here what a run elsewhere has published: a branch, and the run's folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from orchestrate.checkpoints.program import find_git, own_git
from orchestrate.errors import ConfigError, OrchestrateError, StateError
from orchestrate.fleet import ssh
from orchestrate.fleet.host import PROTOCOL
from orchestrate.fleet.keys import fleet_keys
from orchestrate.fleet.sealed import open_files
from orchestrate.fleet.seat import state_ref, work_ref
from orchestrate.fleet.stub import Stub, retire_stub
from orchestrate.plan.visible import visible
from orchestrate.record import record
from orchestrate.state.runs import Run
from orchestrate.view.run_summary import FINAL, summary_of

_PATIENCE_S = 900.0
_ANSWER_S = 60.0


@record
class Fetched:
    """What came: the branch, the commit that it leads to, and whether the run is here for good."""

    branch: str
    commit: str
    status: str
    is_ours: bool


def fetch(run: Run, stub: Stub, workspace: Path) -> Fetched:
    """The branch `orchestrate/RUN`, and the files of the run beside its stub.

    Neither work tree, index nor HEAD is touched. A run that has ended is a run of this workspace
    from then on; one that goes on stays on its machine.
    """
    program = find_git(os.environ)
    if program is None:
        raise ConfigError("git is not installed", "it carries runs between machines")
    order = {"protocol": PROTOCOL, "seat": stub.seat.to_json()}
    if not stub.is_on_server:
        ssh.ask(stub.host, ("seat", "publish"), order, _PATIENCE_S)
    branch = f"orchestrate/{run.id}"
    address = stub.seat.remote or ssh.git_address(stub.host, str(stub.seat.repository))
    _git(
        program, workspace, "fetch", "-q", "--no-tags", "--no-write-fetch-head",
        "--no-auto-maintenance", address, f"+{work_ref(run.id)}:refs/heads/{branch}",
    )  # fmt: skip
    commit = _git(program, workspace, "rev-parse", f"refs/heads/{branch}").strip()
    with tempfile.TemporaryDirectory(prefix="orchestrate-") as folder:
        store, files = Path(folder) / "store.git", Path(folder) / "files"
        files.mkdir()
        _git(program, Path(folder), "init", "-q", "--bare", str(store))
        _git(
            program,
            store,
            "fetch",
            "-q",
            "--no-tags",
            address,
            f"{state_ref(run.id)}:refs/heads/state",
        )
        git = own_git(program, store, files)
        git.output("read-tree", "refs/heads/state")
        git.output("checkout-index", "-a", "-f", "-q")
        open_files(files, fleet_keys(), is_ours_alone=stub.is_on_server)
        _take_over(files, run.root)
    status = summary_of(run).status  # of a run that has ended; else it is the stub's
    # One that failed may go on in its seat.
    is_ours = status in FINAL
    if is_ours:
        retire_stub(run.root, has_published=stub.is_on_server)
    if is_ours and not stub.is_on_server:
        # All that it made is here: its seat there is of no more use.
        with suppress(OrchestrateError):
            ssh.ask(stub.host, ("seat", "remove"), order, _ANSWER_S)
    return Fetched(branch, commit, summary_of(run).shown_status, is_ours)


def _take_over(files: Path, root: Path) -> None:
    """Lay the published files beside the stub, private as all files of a run are."""
    for folder, _, names in os.walk(files):
        inside = os.path.relpath(folder, files)
        target = root if inside == "." else root / inside
        target.mkdir(mode=0o700, exist_ok=True)
        for name in names:
            shutil.copyfile(os.path.join(folder, name), target / name)
            os.chmod(target / name, 0o600)
    for name in ("logs", "artifacts"):
        (root / name).mkdir(mode=0o700, exist_ok=True)


def _git(program: str, folder: Path, *words: str) -> str:
    """Git with the user's own settings: it may need their keys and addresses."""
    variables = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            (program, *words), cwd=folder, env=variables, capture_output=True,
            timeout=_PATIENCE_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise StateError(f"git {words[0]} did not finish in time") from None
    if done.returncode != 0:
        told = visible(done.stderr.decode("utf-8", "replace").strip())
        raise StateError(f"git {words[0]} failed", told)
    return done.stdout.decode("utf-8", "replace")
