"""A request to stop, or a limit, that comes when the program has ended and is not collected yet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# A process of its own: it ends all that it finds below itself.
WATCHES = """
import os, sys, time
from pathlib import Path
from orchestrate.execute.keeper import tree
from orchestrate.execute.keeper.facts import Packer, Request
from orchestrate.execute.keeper.watch import Watch
from orchestrate.execute.keeper.watch_loop import WatchHost

folder, late = Path(sys.argv[1]), sys.argv[2]
tree.become_subreaper()
host = WatchHost(str(folder), "0" * 32)
request = Request(
    attempt="a", argv=("/bin/sh", "-c", "read go <pipe; echo done"), env={}, cwd=folder,
    guarded=True, stdout_path=folder / "out", stderr_path=folder / "err",
)
os.mkfifo(folder / "pipe")
go = os.open(folder / "pipe", os.O_RDWR)
watch = Watch(host, "a", Packer().pack(request))
watch.start()
time.sleep(0.003)
watch.look_at_clock()  # from now on it is not a quick one
os.write(go, b"\\n")
os.waitid(os.P_PID, watch.pid, os.WEXITED | os.WNOWAIT)
if late == "stop":
    watch.stop("interrupted", 1.0)
else:
    watch._deadline = 0.0
watch.look_at_clock()
while watch.record is None:
    for fd, _ in host.poll.poll():
        if fd in watch.fds:
            watch.hear(fd)
print(watch.record.decode())
"""


@pytest.mark.parametrize("late", ["stop", "limit"])
def test_what_has_ended_by_itself_was_not_stopped(tmp_path: Path, late: str) -> None:
    """Else a finished program counts as stopped, and a resume starts it again."""
    command = [sys.executable, "-c", WATCHES, str(tmp_path), late]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    record = json.loads(told.stdout)
    assert record["code"] == 0
    assert not [name for name in ("signal", "stopped", "timed_out") if record.get(name)]
    assert (tmp_path / "out").read_text() == "done\n"
