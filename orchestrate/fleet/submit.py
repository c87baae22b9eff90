"""Submits a run: the workspace becomes a commit, a machine gets it, and the run begins there."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orchestrate.app.given.settings import RunSettings
from orchestrate.app.starting.prepare import Prepared
from orchestrate.checkpoints.model import CheckpointError
from orchestrate.checkpoints.program import Git, deadline_in, own_git, quoted, split
from orchestrate.checkpoints.users import GITLINK, Repository, copy_with_time, find_repository
from orchestrate.digest import digest_of
from orchestrate.errors import ConfigError, OrchestrateError, UsageError
from orchestrate.fleet import ssh
from orchestrate.fleet.host import PROTOCOL
from orchestrate.fleet.hosts import hosts_to_send
from orchestrate.fleet.seat import COMMITTER, Seat, work_ref
from orchestrate.fleet.settings import Pool
from orchestrate.fleet.stub import Stub
from orchestrate.fleet.transport import PATIENCE_S, push, require_git
from orchestrate.plan.nodes import Call, Each, Program, all_nodes
from orchestrate.plan.visible import visible
from orchestrate.record import record
from orchestrate.show.output import note
from orchestrate.state.runs import make_run_id

_ANSWER_S = 30.0
_START_S = 900.0
# What is about the submission; files are named by paths that mean the same there.
_OURS = ("detach", "live", "fleet", "yes")
_PATHS = ("inputs_file", "context_file", "script")
# Nothing but the copy of the index is written, and no warning is an error.
_AS_IT_IS = ("-c", "core.splitIndex=false", "-c", "core.safecrlf=false")

Consent = Callable[[list[str]], bool]


@record
class Snapshot:
    """The files of a repository as a commit in a store of our own, ready to be pushed."""

    store: Path
    commit: str
    is_sha256: bool
    untracked: tuple[str, ...]
    # Submodules, and other repositories inside.
    staying: tuple[str, ...]


def submit(
    pool: Pool,
    pools: Mapping[str, Pool],
    prepared: Prepared,
    recipe: tuple[str, str | None],
    may_take: Consent,
) -> Stub:
    """Start a run on a machine of a pool; where it is. The recipe is a file and its text.

    `may_take` is asked about the untracked files that would travel, too.
    """
    refuse_spread(prepared.program, pools, is_server=False)
    file, text = recipe
    program = require_git()
    workspace = prepared.workspace.root
    repository = repository_of(program, workspace)
    flags = flags_to_send(prepared.settings, workspace)
    file = named_there(file, workspace)
    with tempfile.TemporaryDirectory(prefix="orchestrate-") as folder:
        snapshot = take_snapshot(Path(folder), program, repository)
        require_consent(snapshot, pool.name, may_take)
        tell_staying(snapshot)
        host, answer = _choose(pool, mirror_name(repository), snapshot)
        run = make_run_id(time.time(), os.urandom)
        mirror = os.path.basename(answer["mirror"]).removesuffix(".git")
        inside = path_inside(repository, workspace)
        seat = Seat(run, answer["root"], mirror, inside, pool.publish, machine=host)
        _push(program, snapshot, repository, host, seat)
    order = {
        "protocol": PROTOCOL, "seat": seat.to_json(), "file": file, "text": text,
        "flags": flags, "prepare": list(pool.prepare), "slots": pool.slots,
        "items": hosts_to_send(host, pools, is_sha256=snapshot.is_sha256),
    }  # fmt: skip
    ssh.ask(host, ("seat", "begin"), order, _START_S)
    return Stub(seat, host, pool.name, file)


def refuse_spread(program: Program, pools: Mapping[str, Pool], *, is_server: bool) -> None:
    """Refuse items that would not go anywhere: they are carried as their run is."""
    for node in all_nodes(program):
        pool = node.op.spread if isinstance(node.op, Call | Each) else ""
        is_over_ssh = pool in pools and bool(pools[pool].hosts)
        if not pool or is_over_ssh != is_server:
            continue
        step, named = visible(node.name), visible(pool)
        if is_server:
            raise UsageError(
                f"step '{step}' is spread over {named}, whose machines `ssh` leads to",
                "the items of a run on a server go to pools that workers serve",
            )
        known = ", ".join(name for name, one in pools.items() if one.hosts)
        raise UsageError(
            f"step '{step}' is spread over {named}, which needs a server: it is no `ssh:` pool",
            f"`ssh:` pools: {known}",
        )


def repository_of(program: str, workspace: Path) -> Repository:
    """The user's repository, whose files travel."""
    repository = find_repository(program, workspace, os.environ)
    if repository is None:
        raise UsageError(
            f"{workspace} is in no git repository", "a run elsewhere gets its files by git"
        )
    return repository


def path_inside(repository: Repository, workspace: Path) -> str:
    """Where the workspace is in its repository; '' at the top."""
    inside = os.path.relpath(workspace, repository.top)
    return "" if inside == "." else inside


def require_consent(snapshot: Snapshot, pool: str, may_take: Consent) -> None:
    """Ask about the untracked files that would travel, too."""
    if snapshot.untracked and not may_take(list(snapshot.untracked)):
        raise UsageError(
            f"{len(snapshot.untracked)} untracked files would be sent to {pool}",
            "`--yes` agrees; .gitignore keeps files here",
        )


def flags_to_send(settings: RunSettings, workspace: Path) -> dict[str, Any]:
    """The flags that were given and mean something there."""
    sent: dict[str, Any] = {}
    for row in settings.given():
        value = getattr(settings, row.name)
        if row.name in _OURS:
            continue
        if row.name in _PATHS:
            value = named_there(str(value), workspace)
        sent[row.name] = list(value) if isinstance(value, tuple) else value
    return sent


def named_there(path: str, workspace: Path) -> str:
    """A file of the workspace by its path from there; anything else is an id of the catalogue."""
    full = os.path.abspath(path)
    if not os.path.exists(full):
        return path
    if not Path(full).is_relative_to(workspace):
        raise UsageError(
            f"{visible(path)} is not in the workspace {workspace}",
            "a run elsewhere has only the files of the workspace",
        )
    return os.path.relpath(full, workspace)


def take_snapshot(folder: Path, program: str, repository: Repository) -> Snapshot:
    """HEAD and what is not committed nor ignored, as a commit that follows HEAD.

    The user's own git adds the files, with a copy of their index, so that filters (LFS), line ends
    and submodules are in that commit as in one that they make, and unchanged files cost a look.
    """
    until = deadline_in(PATIENCE_S)
    store, index = folder / "store", folder / "index"
    format_ = "sha256" if repository.is_sha256 else "sha1"
    own = own_git(program, folder)
    own.output("init", "-q", "--bare", f"--object-format={format_}", str(store))
    if repository.index.exists():
        copy_with_time(repository.index, index)
    adds = repository.reader.with_variables(
        GIT_INDEX_FILE=str(index), GIT_OBJECT_DIRECTORY=str(store / "objects"),
        GIT_ALTERNATE_OBJECT_DIRECTORIES=quoted(str(repository.objects)),
    )  # fmt: skip
    found = adds.output("ls-files", "-o", "-z", "--exclude-standard", until=until)
    others = [os.fsdecode(one) for one in split(found)]
    nested = [one for one in others if one.endswith("/")]
    left = [f":(top,exclude,literal){one.rstrip('/')}" for one in nested]
    try:
        adds.output(*_AS_IT_IS, "add", "-A", "--", ":(top)", *left, until=until)
        tree = adds.output(*_AS_IT_IS, "write-tree", until=until).decode().strip()
    except CheckpointError as error:
        raise ConfigError(
            f"the files of {repository.top} cannot be sent: {error.message}",
            "git can add neither what cannot be read nor what a filter refuses",
        ) from None
    listed = split(adds.output("ls-files", "-s", "-z", until=until))
    links = [os.fsdecode(one.partition(b"\t")[2]) for one in listed if one[:6] == GITLINK]
    commit = _commit(own_git(program, store), repository, tree)
    return Snapshot(
        store, commit, repository.is_sha256,
        untracked=tuple(one for one in others if not one.endswith("/")),
        staying=(*links, *(one.rstrip("/") for one in nested)),
    )  # fmt: skip


def _commit(git: Git, repository: Repository, tree: str) -> str:
    head = repository.head
    git = git.with_variables(
        **COMMITTER, GIT_ALTERNATE_OBJECT_DIRECTORIES=quoted(str(repository.objects))
    )
    if head and git.output("rev-parse", f"{head}^{{tree}}").decode().strip() == tree:
        return head
    parents = ("-p", head) if head else ()
    message = "orchestrate: submitted with changes that were not committed"
    return git.output("commit-tree", tree, *parents, "-m", message).decode().strip()


def tell_staying(snapshot: Snapshot) -> None:
    """Name the repositories inside, whose files do not travel."""
    if snapshot.staying:
        names = ", ".join(map(visible, snapshot.staying))
        note(
            f"the files of {names} are not sent: each is a repository of its own\n"
            "  hint: `prepare: [git, submodule, update, --init]` of the pool fetches submodules\n"
        )


def mirror_name(repository: Repository) -> str:
    """One mirror for each repository: by its remote, else by where it is."""
    url = repository.reader.output("config", "--get", "remote.origin.url", ok=1).decode().strip()
    where = url or str(repository.top)
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in os.path.basename(where)[:40])
    return f"{name or 'repository'}-{digest_of(where.encode())[-12:]}"


def _choose(pool: Pool, mirror: str, snapshot: Snapshot) -> tuple[str, Mapping[str, Any]]:
    """The machine with most free slots; what does not answer is named."""
    wanted = {
        "protocol": PROTOCOL, "root": pool.root, "slots": pool.slots, "mirror": mirror,
        "sha256": snapshot.is_sha256,
    }  # fmt: skip
    best: tuple[str, Mapping[str, Any]] | None = None
    troubles: list[str] = []
    for host in pool.hosts:
        try:
            found = ssh.ask(host, ("seat", "offer"), wanted, _ANSWER_S)
        except OrchestrateError as error:
            troubles.append(error.message)
            continue
        if not found["free"]:
            troubles.append(f"{host} has no free slot of {pool.slots}")
        elif best is None or found["free"] > best[1]["free"]:
            best = host, found
    if best is None:
        raise ConfigError(
            f"no machine of the pool '{pool.name}' can take a run", "\n".join(troubles)
        )
    return best


def _push(program: str, snapshot: Snapshot, repository: Repository, host: str, seat: Seat) -> None:
    """From our own store, so that nothing in the user's repository changes."""
    address = ssh.git_address(host, str(seat.repository))
    refs = {work_ref(seat.run): ("", snapshot.commit)}
    try:
        push(program, snapshot.store, address, refs, objects=repository.objects)
    except CheckpointError as error:
        raise CheckpointError(f"the files could not be pushed to {host}", error.hint) from None
