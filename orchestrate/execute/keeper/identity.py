"""Who a run is: the token that marks its processes, bound to the place where its folder lies.

`RUN/identity.json` has the token and the place, the device and the inode of the run's folder. It
lies beside the keeper's folder, so that a keeper whose folder was deleted under it is found, with
all that it runs. A copy of the run lies at another place and takes a token of its own: it cannot
tell the original's processes from a stranger's. A folder that was moved keeps its inode.

Nothing of an earlier boot is alive, so each boot draws a new token: a snapshot of a disk has the
inodes of the original, and devices have other numbers after a boot, so that the two cannot be told
apart; but they never share a token.

A token begins with a digest of the run's id and place: so processes are known for the run's also
when both records of the token, `identity.json` and the keeper's journal, were deleted.

    ORCHESTRATE_KEEPER=TOKEN            the keeper, its guardian and its wardens
    ORCHESTRATE_ATTEMPT=TOKEN:ATTEMPT   a program of the run
    ORCHESTRATE_WITHIN=MARK MARK …      both, if the run was started by a program of another run
"""

from __future__ import annotations

import os

from orchestrate.execute.flat_json import json_of
from orchestrate.execute.keeper.journal import identity_in, read_identity
from orchestrate.execute.keeper.protocol import FOLDER, JOURNAL, KEEPER_MARKER, MARKER, WITHIN
from orchestrate.execute.place import is_same_boot, is_same_place, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

IDENTITY = "identity.json"
_TOKEN_LENGTH = 32
_PLACE_LENGTH = 16


def has_identity(run_dir: str) -> bool:
    """Had the run a keeper, whatever became of its folder?"""
    return os.path.lexists(os.path.join(run_dir, IDENTITY))


def known_token(run_dir: str) -> str:
    """The token of the run at this place; '' if it has none in this boot yet, or is a copy."""
    here = place_of(run_dir)
    token, place = _recorded(run_dir)
    was_recorded = is_token(token)
    if was_recorded and _holds(place, here):
        return token
    # A keeper may have been killed after it wrote the journal, and before it wrote the other.
    try:
        token, place = read_identity(os.path.join(run_dir, FOLDER, JOURNAL))
    except OSError:
        return ""
    if was_recorded and not place:
        return ""
    return token if is_token(token) and _holds(place, here) else ""


def _holds(place: str, here: str) -> bool:
    return is_same_place(place, here) and is_same_boot(place, here)


def _recorded(run_dir: str) -> tuple[str, str]:
    try:
        with open(os.path.join(run_dir, IDENTITY), "rb") as file:
            return identity_in(file.read())
    except OSError:
        return "", ""


def is_token(text: str) -> bool:
    return len(text) == _TOKEN_LENGTH and not text.strip("0123456789abcdef")


def new_token(run_dir: str) -> str:
    """A token for the run that lies here, in this boot."""
    return place_mark(run_dir) + os.urandom((_TOKEN_LENGTH - _PLACE_LENGTH) // 2).hex()


def place_mark(run_dir: str) -> str:
    """How every token of the run that lies here begins; an inode alone may get another owner."""
    try:
        # Without what `hashlib` loads: the engine asks, too, whenever it starts a keeper.
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256

    run_id = os.path.basename(os.path.realpath(run_dir))
    digest: str = sha256(os.fsencode(f"{run_id}:{place_of(run_dir)}")).hexdigest()
    return digest[:_PLACE_LENGTH]


def keep_identity(run_dir: str, token: str) -> None:
    """Write it down where it is not lost with the keeper's folder; to be called under the lock.

    It need not survive a power cut: no program does. But it must not survive one that takes the
    journal: so it is written after the first claim is durable, and before the program starts.
    """
    content = json_of({"token": token, "place": place_of(run_dir)}) + b"\n"
    path = os.path.join(run_dir, IDENTITY)
    try:
        with open(path, "rb") as file:
            if file.read() == content:
                return
    except OSError:
        pass
    spare = f"{path}.new"
    fd = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)
    os.replace(spare, path)


def keeper_environment(run_dir: str, ours: Mapping[str, str]) -> dict[str, str]:
    """The marks of a keeper that is about to be started, and nothing else of our environment."""
    token = known_token(run_dir) or new_token(run_dir)
    environment = {KEEPER_MARKER: token}
    marks = [*ours.get(WITHIN, "").split(" "), ours.get(MARKER, "")]
    within = [mark for mark in marks if _is_mark(mark) and not mark.startswith(token)]
    if within:
        environment[WITHIN] = " ".join(dict.fromkeys(within))
    return environment


def _is_mark(text: str) -> bool:
    token, colon, attempt = text.partition(":")
    return bool(colon and attempt) and is_token(token)
