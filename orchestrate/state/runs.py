"""The run directories of a workspace: made, found by id, prefix or `latest`, listed and cleaned.

    .orchestrate/runs/            or what --state-dir names
      latest -> 20250115T143022Z-a3f8c2
      20250115T143022Z-a3f8c2/    0700; files in it are 0600
        state.json  events.jsonl  run.lock  logs/  artifacts/

A run appears with one rename, complete and locked, and disappears with one.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from orchestrate.diagnostics import closest
from orchestrate.errors import (
    NoSuchRunError,
    OrchestrateError,
    RunElsewhereError,
    StateError,
    UsageError,
    explain,
)
from orchestrate.record import field, mutable_record, record
from orchestrate.regex import regex
from orchestrate.state.ballots import remove_drafts
from orchestrate.state.delete import DEAD, bury, delete_tree
from orchestrate.state.durable import (
    make_link_durably,
    make_private_folder,
    remove_leftovers,
    sync_folder,
    write_visibly,
)
from orchestrate.state.locks import (
    Lock,
    LockHeldError,
    hide_from_git,
    holding_folder,
    is_held,
    lock_run,
)

RunId = str
# What users call the newest run; also a link among the runs.
LATEST = "latest"
# In the folder of a run that is on another machine: where it is.
ELSEWHERE = "fleet.json"
# Of a run that was brought here: what it has published is still there.
FETCHED = "fetched.json"

_RUN_ID = regex(r"\A[0-9]{8}T[0-9]{6}Z-[a-z0-9]{6}\Z")
# How much of an id is the moment at which the run was started.
_MOMENT = len("20250115T143022Z")
_LIKE_RUN_ID = regex(r"\A[0-9]{8}T")
_RUN_PREFIX = regex(r"\A[0-9TZa-z-]{1,23}\Z")
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_SHOWN = 5
# A slip is looked for among so many of the newest runs.
_COMPARED = 1000
# A folder of ours that is not a run yet; one that is none any more is `DEAD`.
_BORN = ".new-"
# Where the keeper of a run has its files and locks; `process` is not for this package to import.
_KEEPER = "keeper"
# Where the answers of agents are recorded.
_TURNS = "turns"
_BALLOTS = "ballots"


@record
class Runs:
    """The folder that holds the runs of a workspace."""

    folder: Path


@record
class Run:
    """One run's directory; `root` is an absolute path."""

    id: RunId
    root: Path

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def events(self) -> Path:
        return self.root / "events.jsonl"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def lock_file(self) -> Path:
        return self.root / "run.lock"


@mutable_record
class Cleaning:
    """What `clean` did: runs removed, runs in use, and runs that resisted, with the reason."""

    removed: list[RunId] = field(default_factory=list)
    in_use: list[RunId] = field(default_factory=list)
    failed: list[tuple[RunId, str]] = field(default_factory=list)


def open_runs(workspace: Path, state_dir: str | None = None) -> Runs:
    """The runs of a workspace, or those in `--state-dir` (relative to the workspace)."""
    return Runs(Path(os.path.abspath(workspace / (state_dir or ".orchestrate/runs"))))


def make_run_id(now: float, draw: Callable[[int], bytes]) -> RunId:
    """An id from the wall clock and some random bytes."""
    number = int.from_bytes(draw(8), "big")
    letters = []
    for _ in range(6):
        number, index = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[index])
    return id_beginning(now) + "-" + "".join(letters)


def id_beginning(at: float) -> str:
    """What the ids of runs begin with that were started in this second; they sort by time."""
    # The clock of a file's author may stand anywhere, but years have four digits here.
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(min(max(at, 0.0), 253_402_300_799.0)))


def second_of(run_id: RunId) -> str:
    """All that an id tells of when its run was started; `list_runs` tells those of one second."""
    return run_id[:_MOMENT]


def is_run_id(text: str) -> bool:
    return bool(_RUN_ID.match(text))


def create_run(
    runs: Runs,
    command: Sequence[str],
    contents: Callable[[RunId], Mapping[str, bytes]],
    now: Callable[[], float] = time.time,
    draw: Callable[[int], bytes] = os.urandom,
    *,
    is_latest: bool = True,
    wanted_id: RunId = "",
    furnish: Callable[[Path], None] = lambda _: None,
) -> tuple[Run, Lock]:
    """A new run, locked by us from its first moment, and made `latest` unless it is a chat's turn.

    `contents` gives the first files by name (`state.json` at least), so that a reader who finds the
    run, or follows `latest`, finds them too; `furnish` may bring more into the folder.
    """
    try:
        runs.folder.parent.mkdir(parents=True, exist_ok=True)
        runs.folder.mkdir(mode=0o700, exist_ok=True)
        hide_from_git(runs.folder)
    except OSError as error:
        raise explain("make", runs.folder, error) from error
    for _ in range(1 if wanted_id else 100):
        run_id = wanted_id or make_run_id(now(), draw)
        born = Run(run_id, runs.folder / (_BORN + run_id))
        run = Run(run_id, runs.folder / run_id)
        try:
            os.mkdir(born.root, 0o700)
        except FileExistsError:
            continue
        except OSError as error:
            raise explain("make", born.root, error) from error
        lock = _furnish(runs, born, command, contents(run_id), furnish)
        if not _give_birth(born, run):
            lock.release()
            delete_tree(runs.folder, born.root.name)
            continue
        if is_latest:
            point_latest(runs, run_id)
        return run, lock
    raise StateError(f"cannot find a free run id in {runs.folder}", "try again in a second")


def claim_run(run: Run, command: Sequence[str]) -> Lock:
    """Lock a run in order to go on with it, and remove what a killed owner left half-written.

    Folders that a person has deleted, for room on the disk say, are made anew.
    """
    lock = lock_run(run.lock_file, run.id, command)
    try:
        make_private_folder(run.logs)
        make_private_folder(run.artifacts)
        remove_leftovers(run.root)
        if (run.root / _TURNS).is_dir():
            remove_leftovers(run.root / _TURNS)
        if (run.root / _BALLOTS).is_dir():
            # Few runs have gates, and all of them would wait for this import.
            remove_drafts(run.root)
    except BaseException:
        lock.release()
        raise
    return lock


def point_latest(runs: Runs, run_id: RunId) -> None:
    """Let `latest` lead to a run; the link is relative, so that a workspace can be moved."""
    make_link_durably(runs.folder / "latest", run_id)


def list_runs(runs: Runs) -> tuple[Run, ...]:
    """All runs, newest first."""
    try:
        with os.scandir(runs.folder) as entries:
            ids = [e.name for e in entries if is_run_id(e.name) and e.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise explain("read", runs.folder, error) from error
    ids.sort(reverse=True)
    # An id knows seconds; runs of the same one are told apart by their files.
    moments = [second_of(run_id) for run_id in ids]
    twins = {one for one, next_ in pairwise(moments) if one == next_}
    if twins:
        ids.sort(
            key=lambda run_id: (
                second_of(run_id), _made_at(runs, run_id) if second_of(run_id) in twins else 0
            ),
            reverse=True,
        )  # fmt: skip
    return tuple([Run(run_id, runs.folder / run_id) for run_id in ids])


def _made_at(runs: Runs, run_id: RunId) -> int:
    try:
        return os.stat(f"{runs.folder}/{run_id}/definition.json").st_mtime_ns
    except OSError:
        return 0


def may_name_run(runs: Runs, text: str) -> bool:
    """Is a text meant for a run: one that there is, or that looks like the id of one?"""
    if text == LATEST or _LIKE_RUN_ID.match(text):
        return True
    return bool(_RUN_PREFIX.match(text) and _beginning_with(list_runs(runs), text))


def _beginning_with(known: Sequence[Run], text: str) -> list[Run]:
    return [run for run in known if run.id.startswith(text)]


def find_run(runs: Runs, text: str) -> Run:
    """The run that the user means: an id, a unique prefix of one, or `latest`."""
    run = find_listed(runs, text)
    if os.path.lexists(run.root / ELSEWHERE):
        raise RunElsewhereError(run.id, run.root)
    return run


def find_listed(runs: Runs, text: str) -> Run:
    """The same, also of a run that only stands for one on another machine."""
    if text == LATEST:
        return _find_latest(runs)
    known = list_runs(runs)
    found = _beginning_with(known, text) if _RUN_PREFIX.match(text) else []
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"'{text}' could be any of {len(found)} runs", _name_some(found))
    near = closest(text, [run.id for run in known[:_COMPARED]])
    also = f" (did you mean '{near}'?)" if near else ""
    message = f"there is no run '{text}' in {runs.folder}{also}"
    raise NoSuchRunError(text, runs.folder, message, _name_some(known))


def clean_runs(
    runs: Runs,
    before: float,
    is_used: Callable[[Run], bool] = lambda _: False,
) -> Cleaning:
    """Remove the runs in which nothing has happened since `before`.

    A run stays while its lock or its keeper's is held, or while `is_used` says so.
    """
    done = Cleaning()
    if not runs.folder.is_dir():
        return done
    with holding_folder(runs.folder, f"cleaning {runs.folder}"):
        for run in reversed(list_runs(runs)):
            try:
                if last_change(run) >= before:
                    continue
                if is_used(run) or not _remove_run(runs, run):
                    done.in_use.append(run.id)
                else:
                    done.removed.append(run.id)
            except (OSError, OrchestrateError) as error:
                done.failed.append((run.id, str(error)))
        _finish_removals(runs, before, done)
        if done.removed:
            _repair_latest(runs)
    return done


def _furnish(
    runs: Runs,
    run: Run,
    command: Sequence[str],
    contents: Mapping[str, bytes],
    furnish: Callable[[Path], None],
) -> Lock:
    lock = None
    try:
        os.mkdir(run.logs, 0o700)
        os.mkdir(run.artifacts, 0o700)
        lock = lock_run(run.lock_file, run.id, command)
        for name, content in contents.items():
            write_visibly(run.root / name, content)
        furnish(run.root)
        # Once for all of them: no other process knows the folder yet.
        sync_folder(run.root)
    except BaseException as error:
        if lock is not None:
            lock.release()
        with suppress(OSError):
            delete_tree(runs.folder, run.root.name)
        if isinstance(error, OSError):
            raise explain("make", run.root, error) from error
        raise
    return lock


def _give_birth(born: Run, run: Run) -> bool:
    """False if there is such a run already; it is not replaced, because it is not empty."""
    try:
        os.rename(born.root, run.root)
    except OSError as error:
        if os.path.lexists(run.root):
            return False
        raise explain("make", run.root, error) from error
    sync_folder(run.root.parent)
    return True


def _find_latest(runs: Runs) -> Run:
    try:
        target = os.readlink(runs.folder / "latest")
    except OSError:
        target = ""
    known = list_runs(runs)
    for run in known:
        if run.id == target:
            return run
    if not known:
        raise UsageError(
            f"there are no runs in {runs.folder}", "start one with: orchestrate run FILE"
        )
    return known[0]


def _name_some(candidates: Sequence[Run]) -> str:
    if not candidates:
        return "there are no runs yet"
    names = ", ".join([run.id for run in candidates[:_SHOWN]])
    more = len(candidates) - _SHOWN
    return f"runs: {names}" + (f" and {more} more" if more > 0 else "")


def last_change(run: Run) -> float:
    """When anything was last recorded."""
    times = []
    for path in (run.root, run.state, run.events):
        try:
            times.append(os.lstat(path).st_mtime)
        except FileNotFoundError:
            continue
    return max(times, default=float("inf"))


def _is_kept(run: Run) -> bool:
    """Does a keeper live? It outlives the orchestrator that started it, with a lock of its own."""
    for folder in (run.root, run.root / _KEEPER):
        try:
            if not stat.S_ISDIR(os.lstat(folder).st_mode):
                continue
        except FileNotFoundError:
            continue
        with os.scandir(folder) as entries:
            names = [e.name for e in entries if e.is_file(follow_symlinks=False)]
        locks = [folder / name for name in names if name.endswith(".lock")]
        if any(is_held(path) for path in locks if path != run.lock_file):
            return True
    return False


def _remove_run(runs: Runs, run: Run) -> bool:
    """False if the run is in use."""
    try:
        lock = lock_run(run.lock_file, run.id, ("orchestrate", "clean"))
    except LockHeldError:
        return False
    with lock:
        if _is_kept(run):
            return False
        bury(runs.folder, run.id)
    return True


def discard_run(runs: Runs, run: Run) -> None:
    """Remove a run in which nothing has begun: it was refused, and `latest` is not it."""
    bury(runs.folder, run.id)
    _repair_latest(runs)


def _finish_removals(runs: Runs, before: float, done: Cleaning) -> None:
    """Delete what an interrupted `clean` or a killed start left behind."""
    with os.scandir(runs.folder) as entries:
        names = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
    for name in names:
        is_dead = name.startswith(DEAD)
        run = Run(name.removeprefix(DEAD if is_dead else _BORN), runs.folder / name)
        if run.id == name or not is_run_id(run.id):
            continue
        try:
            if is_dead or (last_change(run) < before and not is_held(run.lock_file)):
                delete_tree(runs.folder, name)
        except (OSError, OrchestrateError) as error:
            done.failed.append((run.id, str(error)))


def _repair_latest(runs: Runs) -> None:
    known = list_runs(runs)
    link = runs.folder / "latest"
    if os.path.exists(link) or not os.path.islink(link):
        return
    if known:
        point_latest(runs, known[0].id)
    else:
        os.unlink(link)
